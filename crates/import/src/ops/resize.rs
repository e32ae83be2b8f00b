//! `Resize` and `Upsample`.

#![deny(clippy::arithmetic_side_effects)]

use crate::attributes::malformed;
use crate::context::NodeContext;
use crate::ops::movement::numbers;
use crate::ops::shape::axes;
use crate::tensor::MAX_RANK;
use quincunx_diag::Result;
use quincunx_graph::{Coordinates, Interpolation, Nearest, Op, Resize, ResizeTarget};
use quincunx_tensor::{DType, Tensor};

/// Until opset 9 `Upsample`, in opset 10 `Resize` with two operands.
pub(crate) fn upsample(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let scales = if node.opset < 9 {
        node.attributes.floats("scales")?.map(<[f32]>::to_vec)
    } else {
        floats(node, 1, "scales")?
    };
    let scales = scales.ok_or_else(|| malformed("scales are missing".to_owned()))?;
    // These versions took the upper element where they shrank.
    let shrinks = scales.iter().any(|&scale| scale < 1.0);
    let grows = scales.iter().any(|&scale| scale > 1.0);
    let interpolation = match node.attributes.string("mode")?.unwrap_or("nearest") {
        "nearest" if shrinks && grows => {
            return Err(node.unsupported("nearest elements that both shrink and grow"));
        }
        "nearest" if shrinks => Interpolation::Nearest(Nearest::Ceil),
        "nearest" => Interpolation::Nearest(Nearest::Floor),
        "linear" | "bilinear" => Interpolation::Linear,
        other => return Err(unknown("mode", other, "nearest or linear")),
    };
    let resize = Resize {
        axes: (0..scales.len()).collect(),
        target: ResizeTarget::Scales(scales),
        coordinates: Coordinates::Asymmetric,
        interpolation,
        exclude_outside: false,
        roi: Vec::new(),
    };
    finish(node, resize)
}

pub(crate) fn resize(node: &mut NodeContext<'_, '_>) -> Result<()> {
    if node.opset < 11 {
        return upsample(node);
    }
    if node.attributes.flag("antialias", false)? {
        return Err(node.unsupported("antialias 1"));
    }
    let x = node.operand(0)?;
    let shape = node.shape(x);
    let resized = match node.attributes.ints("axes")? {
        Some(given) => axes(given, shape.len(), "axes")?,
        None => (0..shape.len()).collect(),
    };
    if node.attributes.has("keep_aspect_ratio_policy") {
        node.reads_extents(x, 0..shape.len());
    }
    let extents: Vec<usize> = resized.iter().map(|&axis| shape[axis]).collect();
    let target = resize_target(node, &extents)?;
    let coordinates = coordinates(node)?;
    let roi = match coordinates {
        Coordinates::CropAndResize { .. } => region(node, resized.len())?,
        _ => Vec::new(),
    };
    let resize = Resize {
        axes: resized,
        target,
        coordinates,
        interpolation: interpolation(node)?,
        exclude_outside: node.attributes.flag("exclude_outside", false)?,
        roi,
    };
    finish(node, resize)
}

/// Leaves out axes that stay, so that their extents may be bound again.
fn finish(node: &mut NodeContext<'_, '_>, resize: Resize) -> Result<()> {
    let x = node.operand(0)?;
    let shape = node.shape(x);
    let count = match &resize.target {
        ResizeTarget::Scales(scales) => scales.len(),
        ResizeTarget::Sizes(sizes) => sizes.len(),
    };
    if count != resize.axes.len() || resize.axes.iter().any(|&axis| axis >= shape.len()) {
        return Err(malformed(format!("{count} scales or sizes for {} axes", shape.len())));
    }
    let crops = !resize.roi.is_empty();
    let stays = |index: usize| match &resize.target {
        _ if crops => false,
        ResizeTarget::Scales(scales) => scales[index] == 1.0,
        ResizeTarget::Sizes(sizes) => sizes[index] == shape[resize.axes[index]],
    };
    let kept: Vec<usize> = (0..count).filter(|&index| !stays(index)).collect();
    let pick = |index: &usize| resize.axes[*index];
    let target = match &resize.target {
        ResizeTarget::Scales(scales) => {
            ResizeTarget::Scales(kept.iter().map(|&index| scales[index]).collect())
        }
        ResizeTarget::Sizes(sizes) => {
            ResizeTarget::Sizes(kept.iter().map(|&index| sizes[index]).collect())
        }
    };
    let axes = kept.iter().map(pick).collect();
    node.emit(Op::Resize(Resize { axes, target, ..resize.clone() }), &[Some(x)])
}

/// Scales or sizes of the axes with these extents.
fn resize_target(node: &mut NodeContext<'_, '_>, extents: &[usize]) -> Result<ResizeTarget> {
    let policy = node.attributes.string("keep_aspect_ratio_policy")?.unwrap_or("stretch");
    let scales = floats(node, 2, "scales")?.filter(|scales| !scales.is_empty());
    let sizes = numbers(node, 3, "sizes", MAX_RANK)?.filter(|sizes| !sizes.is_empty());
    let sizes = match (scales, sizes) {
        (Some(scales), None) => return Ok(ResizeTarget::Scales(scales)),
        (None, Some(sizes)) => sizes,
        _ => return Err(malformed("either scales or sizes must be given".to_owned())),
    };
    let sizes: Vec<usize> = sizes
        .iter()
        .map(|&size| usize::try_from(size))
        .collect::<std::result::Result<_, _>>()
        .map_err(|_| malformed(format!("sizes are {sizes:?}, expected numbers from 0")))?;
    if sizes.len() != extents.len() {
        return Err(malformed(format!("{} sizes for {} axes", sizes.len(), extents.len())));
    }
    let ratios = sizes.iter().zip(extents).map(|(&size, &extent)| size as f64 / extent as f64);
    let ratio = match policy {
        "stretch" => return Ok(ResizeTarget::Sizes(sizes)),
        "not_larger" => ratios.fold(f64::INFINITY, f64::min),
        "not_smaller" => ratios.fold(0.0, f64::max),
        other => {
            return Err(unknown(
                "keep_aspect_ratio_policy",
                other,
                "stretch, not_larger or not_smaller",
            ));
        }
    };
    let size = |&extent: &usize| (extent as f64 * ratio).round() as usize;
    Ok(ResizeTarget::Sizes(extents.iter().map(size).collect()))
}

fn coordinates(node: &mut NodeContext<'_, '_>) -> Result<Coordinates> {
    let extrapolation = node.attributes.float("extrapolation_value")?.unwrap_or(0.0);
    let mode = node.attributes.string("coordinate_transformation_mode")?.unwrap_or("half_pixel");
    Ok(match mode {
        "half_pixel" => Coordinates::HalfPixel,
        "half_pixel_symmetric" => Coordinates::HalfPixelSymmetric,
        "pytorch_half_pixel" => Coordinates::PytorchHalfPixel,
        "align_corners" => Coordinates::AlignCorners,
        "asymmetric" => Coordinates::Asymmetric,
        "tf_crop_and_resize" => Coordinates::CropAndResize { extrapolation },
        "tf_half_pixel_for_nn" => Coordinates::TfHalfPixel,
        other => {
            return Err(unknown(
                "coordinate_transformation_mode",
                other,
                "half_pixel, half_pixel_symmetric, pytorch_half_pixel, align_corners, asymmetric, \
                 tf_half_pixel_for_nn or tf_crop_and_resize",
            ));
        }
    })
}

fn interpolation(node: &mut NodeContext<'_, '_>) -> Result<Interpolation> {
    let a = node.attributes.float("cubic_coeff_a")?.unwrap_or(-0.75);
    let nearest = match node.attributes.string("nearest_mode")?.unwrap_or("round_prefer_floor") {
        "round_prefer_floor" => Nearest::RoundPreferFloor,
        "round_prefer_ceil" => Nearest::RoundPreferCeil,
        "floor" => Nearest::Floor,
        "ceil" => Nearest::Ceil,
        other => {
            let expected = "round_prefer_floor, round_prefer_ceil, floor or ceil";
            return Err(unknown("nearest_mode", other, expected));
        }
    };
    Ok(match node.attributes.string("mode")?.unwrap_or("nearest") {
        "nearest" => Interpolation::Nearest(nearest),
        "linear" => Interpolation::Linear,
        "cubic" => Interpolation::Cubic { a },
        other => return Err(unknown("mode", other, "nearest, linear or cubic")),
    })
}

/// Start and end along every resized axis.
fn region(node: &NodeContext<'_, '_>, axes: usize) -> Result<Vec<(f32, f32)>> {
    match floats(node, 1, "roi")? {
        Some(roi) if roi.len() == axes.saturating_mul(2) => {
            let (starts, ends) = roi.split_at(axes);
            Ok(starts.iter().copied().zip(ends.iter().copied()).collect())
        }
        _ => Err(malformed(format!("roi must be {} numbers", axes.saturating_mul(2)))),
    }
}

/// A constant operand that is a list of f32 numbers.
fn floats(node: &NodeContext<'_, '_>, index: usize, what: &str) -> Result<Option<Vec<f32>>> {
    let Some(tensor) = node.optional_parameter(index, what)? else {
        return Ok(None);
    };
    let finite = |tensor: &Tensor| tensor.to_f64().iter().all(|v| v.is_finite());
    match tensor.dtype() {
        DType::F32 | DType::F64 if tensor.len() <= 2 * MAX_RANK && finite(&tensor) => {
            Ok(Some(tensor.to_f64().into_iter().map(|v| v as f32).collect()))
        }
        other => Err(malformed(format!(
            "{what} is {other} with {} entries, expected finite floats",
            tensor.len()
        ))),
    }
}

fn unknown(attribute: &str, found: &str, expected: &str) -> quincunx_diag::Diagnostic {
    malformed(format!("attribute \"{attribute}\" is \"{found}\", expected {expected}"))
}
