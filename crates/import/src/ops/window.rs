//! Convolutions, and the windows they share with poolings.

#![deny(clippy::arithmetic_side_effects)]

use crate::attributes::malformed;
use crate::context::NodeContext;
use quincunx_diag::Result;
use quincunx_graph::{Conv, ConvTranspose, Op, Spatial, ValueId, Window};

/// Largest kernel extent, stride, dilation or padding that is accepted.
const MAX_STEP: i64 = 1 << 31;

pub(crate) fn conv(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let (x, w, b) = (node.operand(0)?, node.operand(1)?, node.optional(2)?);
    let (op, inputs) = conv_op(conv_attributes(node, x, w)?, x, w, b);
    node.emit(op, &inputs)
}

/// Attributes of a convolution of `x` with `w`.
pub(crate) fn conv_attributes(
    node: &mut NodeContext<'_, '_>,
    x: ValueId,
    w: ValueId,
) -> Result<Conv> {
    let weights = node.shape(w);
    let kernel = weights.get(2..).unwrap_or(&[]);
    let window = window(node, &node.shape(x), Some(kernel))?;
    Ok(Conv { window, groups: groups(node)? })
}

/// A convolution with its operands.
pub(crate) fn conv_op(
    conv: Conv,
    x: ValueId,
    w: ValueId,
    b: Option<ValueId>,
) -> (Op, Vec<Option<ValueId>>) {
    let mut inputs = vec![Some(x), Some(w)];
    inputs.extend(b.map(Some));
    (Op::Conv(conv), inputs)
}

fn groups(node: &mut NodeContext<'_, '_>) -> Result<usize> {
    let groups = node.attributes.int("group")?.unwrap_or(1);
    usize::try_from(groups)
        .ok()
        .filter(|&groups| groups > 0)
        .ok_or_else(|| malformed(format!("attribute \"group\" is {groups}, expected at least 1")))
}

pub(crate) fn conv_transpose(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let (x, w, b) = (node.operand(0)?, node.operand(1)?, node.optional(2)?);
    let (x_shape, w_shape) = (node.shape(x), node.shape(w));
    let rank = x_shape.len().saturating_sub(2);
    let auto = node.attributes.string("auto_pad")?.unwrap_or("NOTSET");
    let same = matches!(auto, "SAME_UPPER" | "SAME_LOWER");
    let kernel = w_shape.get(2..).unwrap_or(&[]);
    let given = steps(node, "output_shape", rank, 1)?;
    let window = if same || given.is_some() {
        // Padding follows from the extents of the result.
        unpadded_window(node, rank, kernel)?
    } else {
        window(node, &x_shape, Some(kernel))?
    };
    let padding = steps(node, "output_padding", rank, 0)?;
    let mut conv = ConvTranspose {
        window,
        groups: groups(node)?,
        output_padding: padding.unwrap_or_else(|| Spatial::from_elem(0, rank)),
    };
    let wanted = match given {
        Some(extents) => Some(extents),
        None if same => {
            let extents = x_shape[2..].iter().zip(&conv.window.strides);
            Some(extents.map(|(&extent, &stride)| extent.saturating_mul(stride)).collect())
        }
        None => None,
    };
    if let Some(wanted) = wanted {
        node.reads_extents(x, 2..x_shape.len());
        fit(&mut conv, &x_shape[2..], &wanted, auto == "SAME_UPPER")?;
    }
    let mut inputs = vec![Some(x), Some(w)];
    inputs.extend(b.map(Some));
    node.emit(Op::ConvTranspose(conv), &inputs)
}

/// A window without padding; the attribute "pads" has no effect.
fn unpadded_window(
    node: &mut NodeContext<'_, '_>,
    rank: usize,
    kernel: &[usize],
) -> Result<Window> {
    node.attributes.ignore("pads");
    let kernel = steps(node, "kernel_shape", rank, 1)?.unwrap_or_else(|| kernel.into());
    if kernel.len() != rank || rank == 0 || kernel.contains(&0) {
        return Err(malformed(format!("the kernel has {} axes, expected {rank}", kernel.len())));
    }
    let ones = || Spatial::from_elem(1, rank);
    Ok(Window {
        strides: steps(node, "strides", rank, 1)?.unwrap_or_else(ones),
        dilations: steps(node, "dilations", rank, 1)?.unwrap_or_else(ones),
        ..Window::new(&kernel)
    })
}

/// Cuts or extends the result to the wanted extents. An odd rest is cut at the beginning, or at the
/// end for `SAME_UPPER`.
fn fit(conv: &mut ConvTranspose, input: &[usize], wanted: &[usize], upper: bool) -> Result<()> {
    for axis in 0..input.len() {
        let full = conv.extent(axis, input[axis]).ok_or_else(|| {
            malformed(format!("axis {axis} of the result is empty or too large to address"))
        })?;
        let cut = full.saturating_sub(wanted[axis]);
        let (small, large) = (cut / 2, cut.div_ceil(2));
        conv.window.pads[axis] = if upper { (small, large) } else { (large, small) };
        let added = &mut conv.output_padding[axis];
        *added = added.saturating_add(wanted[axis].saturating_sub(full));
    }
    Ok(())
}

/// Reads the window attributes of a node whose first operand has shape `x`. `kernel` is what the
/// kernel extents are when the attribute is absent.
pub(crate) fn window(
    node: &mut NodeContext<'_, '_>,
    x: &[usize],
    kernel: Option<&[usize]>,
) -> Result<Window> {
    let Some(extents) = x.get(2..).filter(|extents| !extents.is_empty()) else {
        return Err(malformed(format!(
            "the operand has {} axes, expected [N, C, …] with at least one spatial axis",
            x.len()
        )));
    };
    let rank = extents.len();
    let kernel: Spatial = match (steps(node, "kernel_shape", rank, 1)?, kernel) {
        (Some(kernel), _) => kernel,
        (None, Some(kernel)) => kernel.into(),
        (None, None) => return Err(malformed("attribute \"kernel_shape\" is missing".to_owned())),
    };
    let ones = || Spatial::from_elem(1, rank);
    let mut window = Window {
        strides: steps(node, "strides", rank, 1)?.unwrap_or_else(ones),
        dilations: steps(node, "dilations", rank, 1)?.unwrap_or_else(ones),
        ..Window::new(&kernel)
    };
    if kernel.len() != rank {
        return Err(malformed(format!("the kernel has {} axes, expected {rank}", kernel.len())));
    }
    let explicit = steps(node, "pads", rank.saturating_mul(2), 0)?;
    let auto = node.attributes.string("auto_pad")?.unwrap_or("NOTSET");
    if auto != "NOTSET" && explicit.iter().flatten().any(|&pad| pad > 0) {
        return Err(malformed(format!("both \"pads\" and \"auto_pad\" {auto} are given")));
    }
    match auto {
        "NOTSET" => {
            if let Some((before, after)) = explicit.as_deref().map(|pads| pads.split_at(rank)) {
                window.pads = before.iter().copied().zip(after.iter().copied()).collect();
            }
        }
        "VALID" => {}
        "SAME_UPPER" | "SAME_LOWER" => {
            let lower = auto == "SAME_LOWER";
            window.pads =
                (0..rank).map(|axis| same_pads(&window, axis, extents[axis], lower)).collect();
        }
        other => {
            return Err(malformed(format!(
                "attribute \"auto_pad\" is \"{other}\", expected NOTSET, VALID, SAME_UPPER or \
                 SAME_LOWER"
            )));
        }
    }
    Ok(window)
}

/// Padding that gives `ceil(extent / stride)` positions; an odd rest goes to the end, or to the
/// beginning for `SAME_LOWER`.
fn same_pads(window: &Window, axis: usize, extent: usize, lower: bool) -> (usize, usize) {
    let stride = window.strides[axis];
    let span = window.span(axis).unwrap_or(usize::MAX);
    let positions = extent.div_ceil(stride);
    let needed = positions.saturating_sub(1).saturating_mul(stride).saturating_add(span);
    let total = needed.saturating_sub(extent);
    let (small, large) = (total / 2, total.div_ceil(2));
    if lower { (large, small) } else { (small, large) }
}

/// An attribute with `count` numbers of at least `least`.
fn steps(
    node: &mut NodeContext<'_, '_>,
    name: &'static str,
    count: usize,
    least: i64,
) -> Result<Option<Spatial>> {
    let Some(values) = node.attributes.ints(name)? else {
        return Ok(None);
    };
    if values.len() != count {
        return Err(malformed(format!(
            "attribute \"{name}\" has {} numbers, expected {count}",
            values.len()
        )));
    }
    if name == "pads" && values.iter().any(|&v| (-MAX_STEP..0).contains(&v)) {
        return Err(node.unsupported(format_args!("pads {values:?}: negative padding")));
    }
    let convert = |&value: &i64| match usize::try_from(value) {
        Ok(step) if (least..=MAX_STEP).contains(&value) => Ok(step),
        _ => Err(malformed(format!(
            "attribute \"{name}\" is {values:?}, expected numbers from {least} to 2^31"
        ))),
    };
    values.iter().map(convert).collect::<Result<_>>().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_padding_matches_the_standard() {
        let mut window = Window::new(&[4]);
        assert_eq!(same_pads(&window, 0, 8, false), (1, 2));
        assert_eq!(same_pads(&window, 0, 8, true), (2, 1));
        window.strides[0] = 3;
        assert_eq!(same_pads(&window, 0, 8, false), (1, 1));
        window.dilations[0] = 2;
        assert_eq!(same_pads(&window, 0, 8, false), (2, 3));
        window.kernel[0] = 1;
        assert_eq!(same_pads(&window, 0, 8, false), (0, 0));
    }
}
