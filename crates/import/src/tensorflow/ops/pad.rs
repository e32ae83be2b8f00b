//! Padding.

#![deny(clippy::arithmetic_side_effects)]

use crate::tensorflow::attributes::malformed;
use crate::tensorflow::context::Node;
use crate::tensorflow::reader::Stored;
use quincunx_diag::Result;
use quincunx_graph::{Op, Pad, PadMode, SliceRange, ValueId};

/// Padding is this or less.
const MAX_PAD: i64 = 1 << 40;

/// `Pad(x, paddings)` and `PadV2(x, paddings, value)`.
pub(super) fn constant(node: &mut Node<'_, '_>, value: Option<usize>) -> Result<()> {
    let number = match value {
        Some(index) => node.number(index, "the constant value")?,
        None => 0.0,
    };
    let (x, pads) = operands(node)?;
    if !node.dtype(x.id).is_float() && number.abs() > 9e15 {
        return Err(node.unsupported(format_args!("padding with {number}")));
    }
    let pad = Pad { pads: pads.into_iter().collect(), mode: PadMode::Constant(number) };
    node.emit_ordered(Op::Pad(pad), &[x.id], x.order)
}

pub(super) fn mirror(node: &mut Node<'_, '_>) -> Result<()> {
    let mode = node.attributes.text("mode", "")?;
    let (x, pads) = operands(node)?;
    match mode {
        "REFLECT" => {
            let pad = Pad { pads: pads.into_iter().collect(), mode: PadMode::Reflect };
            node.emit_ordered(Op::Pad(pad), &[x.id], x.order)
        }
        "SYMMETRIC" => symmetric(node, x, &pads),
        other => Err(malformed(format!("mode is \"{other}\", expected REFLECT or SYMMETRIC"))),
    }
}

/// Operand 0 and its padding per stored axis.
fn operands(node: &mut Node<'_, '_>) -> Result<(Stored, Vec<(i64, i64)>)> {
    let given = node.integers(1, "paddings")?;
    let x = node.stored(0)?;
    let valid = |pad: &i64| (0..=MAX_PAD).contains(pad);
    let (pairs, rest) = given.as_chunks::<2>();
    if pairs.len() != x.order.len() || !rest.is_empty() || !given.iter().all(valid) {
        return Err(malformed(format!(
            "paddings are {given:?}, expected two numbers for each of {} axes",
            x.order.len()
        )));
    }
    let pads = x.order.iter().map(|&axis| pairs[axis].into()).collect();
    Ok((x, pads))
}

/// Mirrors at the edges, so that the outermost elements appear twice: axis by axis, with the
/// mirrored ends joined to the tensor.
fn symmetric(node: &mut Node<'_, '_>, x: Stored, pads: &[(i64, i64)]) -> Result<()> {
    let padded: Vec<usize> = (0..pads.len()).filter(|&axis| pads[axis] != (0, 0)).collect();
    let Some((&last, first)) = padded.split_last() else {
        return node.emit_ordered(Op::Identity, &[x.id], x.order);
    };
    let mut id = x.id;
    for &axis in first {
        let parts = mirrored(node, id, axis, pads[axis])?;
        id = node.before(Op::Concat { axis }, &parts)?;
    }
    let parts = mirrored(node, id, last, pads[last])?;
    node.emit_ordered(Op::Concat { axis: last }, &parts, x.order)
}

fn mirrored(
    node: &mut Node<'_, '_>,
    x: ValueId,
    axis: usize,
    (before, after): (i64, i64),
) -> Result<Vec<ValueId>> {
    let extent = i64::try_from(node.stored_shape(x)[axis]).unwrap_or(i64::MAX);
    if before > extent || after > extent {
        return Err(malformed(format!("padding {before}, {after} is larger than the axis")));
    }
    let mut parts = vec![x];
    if before > 0 {
        let ranges =
            vec![SliceRange { axis, start: before.saturating_sub(1), end: i64::MIN, step: -1 }];
        parts.insert(0, node.before(Op::Slice { ranges }, &[x])?);
    }
    if after > 0 {
        let end = (-1_i64).saturating_sub(after);
        let ranges = vec![SliceRange { axis, start: -1, end, step: -1 }];
        parts.push(node.before(Op::Slice { ranges }, &[x])?);
    }
    Ok(parts)
}
