//! Operators that change only the shape or the order of axes.

#![deny(clippy::arithmetic_side_effects)]

use crate::attributes::malformed;
use crate::context::NodeContext;
use crate::tensor::MAX_RANK;
use quincunx_diag::Result;
use quincunx_graph::Op;
use quincunx_tensor::{DType, show_shape};
use std::borrow::Cow;

pub(crate) fn flatten(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let x = node.operand(0)?;
    let rank = node.shape(x).len();
    let given = node.attributes.int("axis")?.unwrap_or(1);
    // Counts from the end when negative; the rank itself is allowed.
    let axis = if given < 0 { given.saturating_add(signed(rank)) } else { given };
    let axis = usize::try_from(axis)
        .ok()
        .filter(|&axis| axis <= rank)
        .ok_or_else(|| malformed(format!("axis {given} is outside of {rank} axes")))?;
    node.emit(Op::Flatten { axis }, &[Some(x)])
}

pub(crate) fn transpose(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let x = node.operand(0)?;
    let rank = node.shape(x).len();
    let order = match node.attributes.ints("perm")? {
        None => (0..rank).rev().collect(),
        Some(perm) => axes(perm, rank, "perm")?,
    };
    if order.len() != rank {
        return Err(malformed(format!("perm has {} axes, the operand {rank}", order.len())));
    }
    node.emit(Op::Transpose { order }, &[Some(x)])
}

pub(crate) fn reshape(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let x = node.operand(0)?;
    let shape: Vec<i64> = if node.opset < 5 {
        node.attributes.ignore("consumed_inputs");
        match node.attributes.ints("shape")? {
            Some(shape) => shape.to_vec(),
            None => return Err(malformed("attribute \"shape\" is missing".to_owned())),
        }
    } else {
        integers(node, 1, "shape")?
            .ok_or_else(|| malformed("operand 1 (shape) is missing".to_owned()))?
            .into_owned()
    };
    let literal_zero = node.attributes.flag("allowzero", false)? && shape.contains(&0);
    let shape = if literal_zero {
        let extents = shape.iter().map(|&extent| usize::try_from(extent).ok()).collect();
        let Some(extents) = extents else {
            return Err(malformed(format!("shape {shape:?} has a negative extent beside 0")));
        };
        target(node, &node.shape(x), extents)?
    } else {
        shape
    };
    node.emit(Op::Reshape { shape }, &[Some(x)])
}

pub(crate) fn squeeze(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let x = node.operand(0)?;
    let shape = node.shape(x);
    let removed = match axes_of(node)? {
        Some(given) => axes(&given, shape.len(), "axes")?,
        None => (0..shape.len()).filter(|&axis| shape[axis] == 1).collect(),
    };
    if let Some(&axis) = removed.iter().find(|&&axis| shape[axis] != 1) {
        return Err(malformed(format!("axis {axis} has extent {}, expected 1", shape[axis])));
    }
    let kept = (0..shape.len()).filter(|axis| !removed.contains(axis));
    let extents = kept.map(|axis| shape[axis]).collect();
    let shape = target(node, &shape, extents)?;
    node.emit(Op::Reshape { shape }, &[Some(x)])
}

pub(crate) fn unsqueeze(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let x = node.operand(0)?;
    let shape = node.shape(x);
    let Some(given) = axes_of(node)? else {
        return Err(malformed("axes are missing".to_owned()));
    };
    let rank = shape.len().saturating_add(given.len());
    if rank > MAX_RANK {
        return Err(malformed(format!(
            "{} new axes; at most {MAX_RANK} axes are accepted",
            given.len()
        )));
    }
    let added = axes(&given, rank, "axes")?;
    let mut old = shape.iter().copied();
    let extents = (0..rank)
        .map(|axis| if added.contains(&axis) { 1 } else { old.next().unwrap_or(1) })
        .collect();
    let shape = target(node, &shape, extents)?;
    node.emit(Op::Reshape { shape }, &[Some(x)])
}

/// The target of a [`Op::Reshape`] that gives these extents. Leading extents that do not change
/// are copied, so that the batch may be rebound later.
pub(super) fn target(
    node: &NodeContext<'_, '_>,
    from: &[usize],
    extents: Vec<usize>,
) -> Result<Vec<i64>> {
    let same = from.iter().zip(&extents).take_while(|(a, b)| a == b).count();
    let mut open = false;
    let extent = |(axis, &extent): (usize, &usize)| match extent {
        _ if axis < same => Ok(0),
        0 if from.get(axis) == Some(&0) => Ok(0),
        // 0 cannot be written, but all elements of an empty tensor can be left over.
        0 if !std::mem::replace(&mut open, true) => Ok(-1),
        0 => {
            Err(node.unsupported(format_args!("shape {} with several zeros", show_shape(&extents))))
        }
        extent => {
            i64::try_from(extent).map_err(|_| malformed(format!("extent {extent} is too large")))
        }
    };
    extents.iter().enumerate().map(extent).collect()
}

/// The axes of `Squeeze` and `Unsqueeze`: an attribute, since opset 13 an operand.
fn axes_of<'m>(node: &mut NodeContext<'_, 'm>) -> Result<Option<Cow<'m, [i64]>>> {
    if node.opset >= 13 {
        return integers(node, 1, "axes");
    }
    Ok(node.attributes.ints("axes")?.map(Cow::Borrowed))
}

/// A constant operand that is a list of integers.
pub(super) fn integers<'m>(
    node: &NodeContext<'_, 'm>,
    index: usize,
    what: &str,
) -> Result<Option<Cow<'m, [i64]>>> {
    let Some(tensor) = node.optional_parameter(index, what)? else {
        return Ok(None);
    };
    if tensor.shape().len() > 1 || !matches!(tensor.dtype(), DType::I64 | DType::I32) {
        return Err(malformed(format!(
            "{what} is {}{}, expected a list of i64",
            tensor.dtype(),
            show_shape(tensor.shape())
        )));
    }
    if tensor.len() > MAX_RANK {
        return Err(malformed(format!(
            "{what} has {} entries; at most {MAX_RANK} are accepted",
            tensor.len()
        )));
    }
    Ok(tensor.to_i64().map(Cow::Owned))
}

/// Axes that count from the end when negative, each at most once.
pub(crate) fn axes(given: &[i64], rank: usize, what: &str) -> Result<Vec<usize>> {
    let mut axes = Vec::with_capacity(given.len().min(rank));
    for &axis in given {
        let position = if axis < 0 { axis.saturating_add(signed(rank)) } else { axis };
        match usize::try_from(position) {
            Ok(position) if position < rank && !axes.contains(&position) => axes.push(position),
            Ok(position) if position < rank => {
                return Err(malformed(format!("{what} names axis {axis} twice")));
            }
            _ => {
                return Err(malformed(format!("{what} names axis {axis} of {rank} axes")));
            }
        }
    }
    Ok(axes)
}

fn signed(rank: usize) -> i64 {
    i64::try_from(rank).unwrap_or(i64::MAX)
}
