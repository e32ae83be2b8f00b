//! Inference of operators that move elements, and of casts.

use super::{Operands, mismatch};
use crate::{Pad, PadMode, Resize, ResizeTarget, SliceRange};
use quincunx_diag::Result;
use quincunx_num::{Overflow, code_range};
use quincunx_tensor::{DType, Shape, broadcast_shapes, show_shape};

type Typed = (DType, Shape);

/// Axes are distinct and below the rank.
fn check_axes(axes: impl Iterator<Item = usize>, rank: usize) -> Result<()> {
    let mut seen = vec![false; rank];
    for axis in axes {
        match seen.get_mut(axis) {
            None => return Err(mismatch(format!("axis {axis} is beyond rank {rank}"))),
            Some(true) => return Err(mismatch(format!("axis {axis} is named twice"))),
            Some(seen) => *seen = true,
        }
    }
    Ok(())
}

pub(super) fn infer_concat(axis: usize, operands: &Operands<'_>) -> Result<Typed> {
    let dtype = operands.same_type()?;
    let mut shape: Shape = operands.get(0)?.1.into();
    check_axes([axis].into_iter(), shape.len())?;
    for index in 1..operands.inputs.len() {
        let (_, next) = operands.get(index)?;
        let fits =
            next.len() == shape.len() && (0..shape.len()).all(|a| a == axis || next[a] == shape[a]);
        if !fits {
            return Err(mismatch(format!(
                "operand {index} of shape {} cannot be joined to {} along axis {axis}",
                show_shape(next),
                show_shape(&shape)
            )));
        }
        shape[axis] = shape[axis]
            .checked_add(next[axis])
            .ok_or_else(|| mismatch("the joined extent is too large".to_owned()))?;
    }
    Ok((dtype, shape))
}

pub(super) fn infer_slice(ranges: &[SliceRange], dtype: DType, x: &[usize]) -> Result<Typed> {
    check_axes(ranges.iter().map(|range| range.axis), x.len())?;
    let mut shape = Shape::from_slice(x);
    for range in ranges {
        if range.step == 0 {
            return Err(mismatch(format!("the step along axis {} is 0", range.axis)));
        }
        (_, shape[range.axis]) = range.resolve(x[range.axis]);
    }
    Ok((dtype, shape))
}

pub(super) fn infer_pad(pad: &Pad, dtype: DType, x: &[usize]) -> Result<Typed> {
    if pad.pads.len() != x.len() {
        return Err(mismatch(format!(
            "{} pairs of pads for {} axes, expected one per axis",
            pad.pads.len(),
            x.len()
        )));
    }
    check_fill(pad.mode, dtype)?;
    let mut shape = Shape::new();
    for (axis, (&extent, &(before, after))) in x.iter().zip(&pad.pads).enumerate() {
        let padded = i64::try_from(extent)
            .ok()
            .and_then(|e| e.checked_add(before)?.checked_add(after))
            .and_then(|e| usize::try_from(e).ok())
            .ok_or_else(|| mismatch(format!("pads {before}, {after} do not fit axis {axis}")))?;
        if extent == 0 && padded > 0 && !matches!(pad.mode, PadMode::Constant(_)) {
            return Err(mismatch(format!("axis {axis} has no elements to pad with")));
        }
        shape.push(padded);
    }
    Ok((dtype, shape))
}

/// The number a tensor is padded with must be one of its type.
fn check_fill(mode: PadMode, dtype: DType) -> Result<()> {
    let PadMode::Constant(value) = mode else {
        return Ok(());
    };
    let (low, high) = match dtype {
        DType::F32 | DType::F64 => return Ok(()),
        DType::Narrow(narrow) => match narrow.signed() {
            None => return Ok(()),
            Some(signed) => {
                let (low, high) = code_range(signed, narrow.bits(), Overflow::Saturate);
                [low, high].map(|end| i128::try_from(end).expect("a few bits")).into()
            }
        },
        DType::Bool => (0, 1),
        DType::I8 => (i8::MIN.into(), i8::MAX.into()),
        DType::I16 => (i16::MIN.into(), i16::MAX.into()),
        DType::I32 => (i32::MIN.into(), i32::MAX.into()),
        DType::I64 => (i64::MIN.into(), i64::MAX.into()),
        DType::U8 => (0, u8::MAX.into()),
        DType::U16 => (0, u16::MAX.into()),
        DType::U32 => (0, u32::MAX.into()),
        DType::U64 => (0, u64::MAX.into()),
    };
    if value.fract() == 0.0 && (low..=high).contains(&(value as i128)) {
        return Ok(());
    }
    Err(mismatch(format!("{value} is not a number of type {dtype}")))
}

pub(super) fn infer_gather(axis: usize, operands: &Operands<'_>) -> Result<Typed> {
    let (dtype, x) = operands.get(0)?;
    let (index_type, indices) = operands.get(1)?;
    if !matches!(index_type, DType::I32 | DType::I64) {
        return Err(mismatch(format!("indices are {index_type}, expected i32 or i64")));
    }
    check_axes([axis].into_iter(), x.len())?;
    let mut shape = Shape::from_slice(&x[..axis]);
    shape.extend_from_slice(indices);
    shape.extend(x.iter().copied().skip(axis).skip(1));
    Ok((dtype, shape))
}

pub(super) fn infer_expand(shape: &[usize], dtype: DType, x: &[usize]) -> Result<Typed> {
    let shape = broadcast_shapes(x, shape).ok_or_else(|| {
        mismatch(format!("{} does not broadcast to {}", show_shape(x), show_shape(shape)))
    })?;
    Ok((dtype, shape))
}

pub(super) fn infer_tile(repeats: &[usize], dtype: DType, x: &[usize]) -> Result<Typed> {
    if repeats.len() != x.len() {
        return Err(mismatch(format!("{} repeats for {} axes", repeats.len(), x.len())));
    }
    let tiled = |(&extent, &count): (&usize, &usize)| extent.checked_mul(count);
    let shape = x.iter().zip(repeats).map(tiled).collect::<Option<Shape>>();
    Ok((dtype, shape.ok_or_else(|| mismatch("the repeated extent is too large".to_owned()))?))
}

pub(super) fn infer_resize(resize: &Resize, dtype: DType, x: &[usize]) -> Result<Typed> {
    check_axes(resize.axes.iter().copied(), x.len())?;
    if !resize.is_nearest() {
        super::float(dtype)?;
    }
    let count = match &resize.target {
        ResizeTarget::Scales(scales) => scales.len(),
        ResizeTarget::Sizes(sizes) => sizes.len(),
    };
    if count != resize.axes.len() {
        return Err(mismatch(format!("{count} extents for {} axes", resize.axes.len())));
    }
    let mut shape = Shape::from_slice(x);
    for (index, &axis) in resize.axes.iter().enumerate() {
        shape[axis] = match &resize.target {
            ResizeTarget::Sizes(sizes) => sizes[index],
            ResizeTarget::Scales(scales) => scaled(x[axis], scales[index])?,
        };
        if x[axis] == 0 && shape[axis] > 0 {
            return Err(mismatch(format!("axis {axis} has no elements to resize")));
        }
    }
    Ok((dtype, shape))
}

fn scaled(extent: usize, scale: f32) -> Result<usize> {
    let scaled = (extent as f64 * f64::from(scale)).floor();
    // The limit on elements is checked later; this only keeps the conversion exact.
    if scale > 0.0 && scaled <= crate::graph::MAX_ELEMENTS as f64 {
        return Ok(scaled as usize);
    }
    Err(mismatch(format!("extent {extent} cannot be scaled by {scale}")))
}
