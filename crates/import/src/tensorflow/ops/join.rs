//! Operators that join tensors.

use super::one_axis;
use crate::tensorflow::context::Node;
use crate::tensorflow::layout::{Order, inverse, is_plain, plain, reshape_target, shape_of, with};
use quincunx_diag::Result;
use quincunx_graph::{Op, ValueId};
use std::ops::Range;

/// `ConcatV2(parts …, axis)`.
pub(super) fn concat_v2(node: &mut Node<'_, '_>) -> Result<()> {
    let last = node.operand_count() - 1;
    join(node, 0..last, last)
}

/// `Concat(axis, parts …)`.
pub(super) fn concat(node: &mut Node<'_, '_>) -> Result<()> {
    join(node, 1..node.operand_count(), 0)
}

fn join(node: &mut Node<'_, '_>, parts: Range<usize>, axis: usize) -> Result<()> {
    let axis = node.integer(axis, "the axis")?;
    let (operands, order) = same_order(node, parts)?;
    let axis = inverse(&order)[one_axis(axis, order.len(), "the axis")?];
    node.emit_ordered(Op::Concat { axis }, &operands, order)
}

/// Joins along a new axis.
pub(super) fn pack(node: &mut Node<'_, '_>) -> Result<()> {
    let axis = node.attributes.int("axis", 0)?;
    let (operands, order) = same_order(node, 0..node.operand_count())?;
    let axis = one_axis(axis, order.len() + 1, "the axis")?;
    let result = with(&order, &[axis]);
    let mut parts = Vec::with_capacity(operands.len());
    for id in operands {
        let from = node.stored_shape(id);
        let mut extents = shape_of(&from, &order);
        extents.insert(axis, 1);
        let to: Vec<usize> = result.iter().map(|&axis| extents[axis]).collect();
        let shape = reshape_target(&from, &to)?;
        parts.push(node.before(Op::Reshape { shape }, &[id])?);
    }
    let axis = inverse(&result)[axis];
    node.emit_ordered(Op::Concat { axis }, &parts, result)
}

/// Operands in one order: that of the first one that is not in the order of the file.
fn same_order(node: &mut Node<'_, '_>, parts: Range<usize>) -> Result<(Vec<ValueId>, Order)> {
    let mut order = plain(node.shape(parts.start)?.len());
    for index in parts.clone().filter(|&index| node.constant(index).is_none()).collect::<Vec<_>>() {
        let stored = node.stored(index)?;
        if !is_plain(&stored.order) && stored.order.len() == order.len() {
            order = stored.order;
            break;
        }
    }
    let operands = parts.map(|index| node.ordered(index, &order)).collect::<Result<_>>()?;
    Ok((operands, order))
}
