//! Where the elements of a result come from, for operators that only move, select and repeat them.
//!
//! Executors, constant folding and the compilers of all targets share this geometry; what the
//! elements are is theirs.

#![deny(clippy::wildcard_enum_match_arm)]

use crate::{Graph, Node, Op, Pad, PadMode, Resize, SliceRange};
use quincunx_diag::{Diagnostic, Result};
use quincunx_tensor::{Shape, element_count};

/// Where one element of a result comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Source {
    /// An element of an operand.
    Operand {
        /// Which operand.
        operand: u32,
        /// Row-major position in it.
        element: u32,
    },
    /// A number that is an attribute of the operator.
    Value(f64),
}

impl Graph {
    /// The source of every element of a node's result, row-major; `None` when the node computes
    /// new numbers, when it selects by numbers that are not constant, or when a tensor has more
    /// than 2^32 elements.
    pub fn movement(&self, node: &Node) -> Option<Vec<Source>> {
        if !node.op.only_moves() {
            return None;
        }
        let shapes: Vec<&[usize]> = node.operands().map(|id| &self[id].shape[..]).collect();
        let mut indices = None;
        if let Op::Gather { .. } = node.op {
            let constant = self[node.input(1)?].constant.as_ref()?;
            indices = Some(constant.tensor.to_i64().filter(|_| constant.quantiser.is_none())?);
        }
        sources(&node.op, &shapes, indices.as_deref(), &self[node.output].shape).ok()
    }
}

/// The sources of an operator for which [`Op::only_moves`] holds. `indices` are those of a `Gather`.
///
/// # Errors
/// `Q0314` for an index that is out of range, a bug for other operators and shapes too large.
pub(crate) fn sources(
    op: &Op,
    shapes: &[&[usize]],
    indices: Option<&[i64]>,
    out: &[usize],
) -> Result<Vec<Source>> {
    let small = |shape: &&[usize]| element_count(shape).is_some_and(|n| u32::try_from(n).is_ok());
    let x = *shapes.first().ok_or_else(|| Diagnostic::bug("a moved tensor is absent"))?;
    if !shapes.iter().chain([&out]).all(small) {
        return Err(Diagnostic::unsupported("Q0312", "the tensor has more than 2^32 elements"));
    }
    // Other axes of an empty result may be long.
    if element_count(out) == Some(0) {
        return Ok(Vec::new());
    }
    let mut fill = 0.0;
    let maps = match op {
        Op::Identity | Op::Flatten { .. } | Op::Reshape { .. } => {
            let count = element_count(out).unwrap_or(0);
            return Ok((0..count).map(|element| from(0, element)).collect());
        }
        Op::Concat { axis } => return Ok(concat(*axis, shapes)),
        Op::Transpose { order } => return Ok(transpose(order, x)),
        Op::Slice { ranges } => slice(ranges, x),
        Op::Pad(pad) => {
            if let PadMode::Constant(value) = pad.mode {
                fill = value;
            }
            pad_maps(pad, x, out)
        }
        Op::Gather { axis } => gather(*axis, x, indices.unwrap_or(&[]))?,
        Op::Expand { .. } => {
            let stretched = |(&from, &to): (&usize, &usize)| {
                (0..to).map(|i| Some(if from == 1 { 0 } else { i })).collect()
            };
            let x = padded_shape(x, out.len());
            return Ok(select(&x.iter().zip(out).map(stretched).collect::<Vec<_>>(), &x, 0.0));
        }
        Op::Tile { .. } => {
            let repeated =
                |(&from, &to): (&usize, &usize)| (0..to).map(|i| Some(i % from)).collect();
            x.iter().zip(out).map(repeated).collect()
        }
        Op::Resize(resize) => {
            fill = resize.extrapolation().into();
            nearest(resize, x, out)
        }
        Op::Conv(_)
        | Op::ConvTranspose(_)
        | Op::Gemm(_)
        | Op::MatMul
        | Op::Recurrent(_)
        | Op::Pool(_)
        | Op::GlobalAveragePool
        | Op::GlobalMaxPool
        | Op::Lrn(_)
        | Op::BatchNorm(_)
        | Op::LayerNorm(_)
        | Op::InstanceNorm(_)
        | Op::Softmax(_)
        | Op::Unary(_)
        | Op::Binary(_)
        | Op::Activation(_)
        | Op::PRelu
        | Op::Where
        | Op::Compare(_)
        | Op::Logic(_)
        | Op::Reduce(_)
        | Op::ArgExtreme(_)
        | Op::Cast { .. }
        | Op::CastUnbounded { .. }
        | Op::Quantise(_)
        | Op::ToCodes(_)
        | Op::FromCodes(_) => {
            return Err(Diagnostic::bug(format!("{} does not move elements", op.name())));
        }
    };
    Ok(select(&maps, x, fill))
}

/// For every position along an axis of the result the position along that axis of the operand;
/// `None` for what lies outside.
type AxisMap = Vec<Option<usize>>;

/// All combinations of positions along the axes of one operand.
fn select(maps: &[AxisMap], x: &[usize], fill: f64) -> Vec<Source> {
    let mut offsets = vec![Some(0)];
    for (map, &extent) in maps.iter().zip(x) {
        let step = |offset: &Option<usize>| {
            let offset = *offset;
            map.iter().map(move |position| Some(offset? * extent + (*position)?))
        };
        offsets = offsets.iter().flat_map(step).collect();
    }
    offsets.into_iter().map(|offset| offset.map_or(Source::Value(fill), |o| from(0, o))).collect()
}

/// An element; tensors have at most 2^32 of them here, operators fewer operands.
fn from(operand: usize, element: usize) -> Source {
    Source::Operand { operand: operand as u32, element: element as u32 }
}

fn concat(axis: usize, shapes: &[&[usize]]) -> Vec<Source> {
    let outer: usize = shapes[0][..axis].iter().product();
    let mut result = Vec::new();
    for block in 0..outer {
        for (operand, shape) in shapes.iter().enumerate() {
            let length: usize = shape[axis..].iter().product();
            result.extend((block * length..(block + 1) * length).map(|e| from(operand, e)));
        }
    }
    result
}

fn transpose(order: &[usize], x: &[usize]) -> Vec<Source> {
    let mut strides = Shape::from_elem(1, x.len());
    for axis in (1..x.len()).rev() {
        strides[axis - 1] = strides[axis] * x[axis];
    }
    let mut offsets = vec![0];
    for &axis in order {
        let step = |offset: &usize| {
            let (offset, stride) = (*offset, strides[axis]);
            (0..x[axis]).map(move |i| offset + i * stride)
        };
        offsets = offsets.iter().flat_map(step).collect();
    }
    offsets.into_iter().map(|offset| from(0, offset)).collect()
}

fn slice(ranges: &[SliceRange], x: &[usize]) -> Vec<AxisMap> {
    let mut maps: Vec<AxisMap> = x.iter().map(|&extent| (0..extent).map(Some).collect()).collect();
    for range in ranges {
        let (start, count) = range.resolve(x[range.axis]);
        let stride = usize::try_from(range.step.unsigned_abs()).unwrap_or(usize::MAX);
        let at = |i: usize| if range.step > 0 { start + i * stride } else { start - i * stride };
        maps[range.axis] = (0..count).map(|i| Some(at(i))).collect();
    }
    maps
}

fn pad_maps(pad: &Pad, x: &[usize], out: &[usize]) -> Vec<AxisMap> {
    let axis_map = |axis: usize| {
        let extent = i64::try_from(x[axis]).unwrap_or(i64::MAX);
        let (before, _) = pad.pads[axis];
        let position = |i: usize| pad_position(pad.mode, (i as i64).saturating_sub(before), extent);
        (0..out[axis]).map(position).collect()
    };
    (0..x.len()).map(axis_map).collect()
}

/// The element of an axis of `extent` that stands at `position`, which may lie outside.
fn pad_position(mode: PadMode, position: i64, extent: i64) -> Option<usize> {
    let inside = match mode {
        PadMode::Constant(_) => Some(position).filter(|p| (0..extent).contains(p)),
        _ if extent == 0 => None,
        PadMode::Edge => Some(position.clamp(0, extent - 1)),
        PadMode::Wrap => Some(position.rem_euclid(extent)),
        PadMode::Reflect => {
            // There and back again, without the two ends doubled.
            let period = (2 * (extent - 1)).max(1);
            let phase = position.rem_euclid(period);
            Some(phase.min(period - phase).min(extent - 1))
        }
    };
    inside.and_then(|position| usize::try_from(position).ok())
}

fn gather(axis: usize, x: &[usize], indices: &[i64]) -> Result<Vec<AxisMap>> {
    let extent = i64::try_from(x[axis]).unwrap_or(i64::MAX);
    let position = |&index: &i64| {
        let position = if index < 0 { index.saturating_add(extent) } else { index };
        usize::try_from(position).ok().filter(|_| position < extent).map(Some).ok_or_else(|| {
            Diagnostic::invalid(
                "Q0314",
                format!("index {index} is outside of axis {axis} with extent {extent}"),
            )
        })
    };
    let mut maps: Vec<AxisMap> = x.iter().map(|&extent| (0..extent).map(Some).collect()).collect();
    maps[axis] = indices.iter().map(position).collect::<Result<_>>()?;
    Ok(maps)
}

fn nearest(resize: &Resize, x: &[usize], out: &[usize]) -> Vec<AxisMap> {
    let mut maps: Vec<AxisMap> = x.iter().map(|&extent| (0..extent).map(Some).collect()).collect();
    for (index, &axis) in resize.axes.iter().enumerate() {
        let taps = resize.taps(index, x[axis], out[axis]);
        maps[axis] = taps.iter().map(|taps| taps.first().map(|tap| tap.0)).collect();
    }
    maps
}

/// A shape with extents of 1 added in front.
pub(crate) fn padded_shape(shape: &[usize], rank: usize) -> Shape {
    let mut padded = Shape::from_elem(1, rank.saturating_sub(shape.len()));
    padded.extend_from_slice(shape);
    padded
}
