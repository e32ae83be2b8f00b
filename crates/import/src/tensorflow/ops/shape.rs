//! Operators on shapes and the order of axes, and tensors that shapes make.

use super::elementwise::number_of;
use super::{axes, one_axis};
use crate::tensor::MAX_RANK;
use crate::tensorflow::attributes::malformed;
use crate::tensorflow::context::Node;
use crate::tensorflow::layout::{inverse, is_plain, plain, reshape_target, with, without};
use crate::tensorflow::reader::Stored;
use quincunx_diag::Result;
use quincunx_graph::{Constant, Op, ValueId};
use quincunx_tensor::{DType, Tensor, element_count, show_shape};

/// Constants of one repeated number are stored up to this many elements; larger ones become an
/// `Expand`.
const MAX_STORED: usize = 1 << 16;

/// Longest result of `Range`.
const MAX_RANGE: f64 = (1 << 20) as f64;

pub(super) fn reshape(node: &mut Node<'_, '_>) -> Result<()> {
    let given = node.integers(1, "the shape")?;
    let from = node.shape(0)?;
    let id = flat_order(node)?;
    if given.len() > MAX_RANK || given.iter().any(|&extent| extent < -1) {
        return Err(malformed(format!("the shape is {given:?}")));
    }
    let shape = if given.contains(&0) {
        let extents: Option<Vec<usize>> = given.iter().map(|&e| usize::try_from(e).ok()).collect();
        let Some(extents) = extents else {
            return Err(node.unsupported(format_args!("shape {given:?}")));
        };
        reshape_target(&from, &extents)?
    } else {
        given
    };
    node.emit(Op::Reshape { shape }, &[id])
}

/// Operand 0 with its elements in the order of the file. Where only axes of extent 1 are stored
/// elsewhere, nothing has to move.
fn flat_order(node: &mut Node<'_, '_>) -> Result<ValueId> {
    let stored = node.stored(0)?;
    let extents = node.extents(&stored);
    let moving = stored.order.iter().filter(|&&axis| axis == 0 || extents[axis] != 1);
    if is_plain(&stored.order) || !moving.is_sorted() {
        return node.view(&stored, &plain(stored.order.len()));
    }
    for axis in (1..extents.len()).filter(|&axis| extents[axis] == 1) {
        node.reads_extent(&stored, axis);
    }
    Ok(stored.id)
}

pub(super) fn squeeze(node: &mut Node<'_, '_>) -> Result<()> {
    let given = node.attributes.ints("squeeze_dims")?;
    let x = node.stored(0)?;
    let extents = node.extents(&x);
    let removed = if given.is_empty() {
        (0..extents.len()).for_each(|axis| node.reads_extent(&x, axis));
        (0..extents.len()).filter(|&axis| extents[axis] == 1).collect()
    } else {
        axes(given, extents.len(), "squeeze_dims")?
    };
    let (shape, order) = regrouped(node, &x, &removed, &[])?;
    node.emit_ordered(Op::Reshape { shape }, &[x.id], order)
}

pub(super) fn expand_dims(node: &mut Node<'_, '_>) -> Result<()> {
    let axis = node.integer(1, "the axis")?;
    let x = node.stored(0)?;
    let axis = one_axis(axis, x.order.len() + 1, "the axis")?;
    let (shape, order) = regrouped(node, &x, &[], &[axis])?;
    node.emit_ordered(Op::Reshape { shape }, &[x.id], order)
}

/// The reshape of a stored value that removes axes of the file, then adds axes of extent 1, and
/// the order of its result. `added` are sorted positions of the result.
pub(super) fn regrouped(
    node: &Node<'_, '_>,
    x: &Stored,
    removed: &[usize],
    added: &[usize],
) -> Result<(Vec<i64>, Vec<usize>)> {
    let extents = node.extents(x);
    if let Some(axis) = removed.iter().find(|&&axis| extents[axis] != 1) {
        return Err(malformed(format!(
            "axis {axis} of {} is removed; its extent is not 1",
            show_shape(&extents)
        )));
    }
    if extents.len() + added.len() > MAX_RANK {
        return Err(malformed(format!("more than {MAX_RANK} axes")));
    }
    let order = with(&without(&x.order, removed), added);
    let mut kept = (0..extents.len()).filter(|axis| !removed.contains(axis));
    let file: Vec<usize> = (0..order.len())
        .map(|axis| match added.contains(&axis) {
            true => 1,
            false => kept.next().map_or(1, |axis| extents[axis]),
        })
        .collect();
    let to: Vec<usize> = order.iter().map(|&axis| file[axis]).collect();
    Ok((reshape_target(&node.stored_shape(x.id), &to)?, order))
}

/// A value in another shape; constants are reshaped at once.
pub(super) fn reshaped(node: &mut Node<'_, '_>, id: ValueId, extents: &[usize]) -> Result<ValueId> {
    if let Some(Constant { tensor, quantiser }) = node.graph_constant(id)
        && quantiser.as_ref().is_none_or(|q| q.is_uniform())
    {
        return node.add_constant(Constant { tensor: tensor.reshape(extents)?, quantiser });
    }
    let shape = reshape_target(&node.stored_shape(id), extents)?;
    node.before(Op::Reshape { shape }, &[id])
}

/// Only the order in which the axes are kept changes.
pub(super) fn transpose(node: &mut Node<'_, '_>) -> Result<()> {
    let given = node.integers(1, "the permutation")?;
    let Stored { id, order } = node.stored(0)?;
    let permutation = axes(&given, order.len(), "the permutation")?;
    if permutation.len() != order.len() {
        return Err(malformed(format!("{given:?} is not a permutation of {} axes", order.len())));
    }
    let axes = inverse(&permutation);
    let order = order.iter().map(|&axis| axes[axis]).collect();
    node.result(0, Stored { id, order });
    Ok(())
}

pub(super) fn shape_of(node: &mut Node<'_, '_>) -> Result<()> {
    let x = node.stored(0)?;
    let extents = node.extents(&x);
    (0..extents.len()).for_each(|axis| node.reads_extent(&x, axis));
    let extents: Vec<i64> = extents.iter().map(|&e| i64::try_from(e).unwrap_or(i64::MAX)).collect();
    let count = extents.len();
    define_integers(node, &[count], extents)
}

pub(super) fn size_of(node: &mut Node<'_, '_>) -> Result<()> {
    let x = node.stored(0)?;
    let extents = node.extents(&x);
    (0..extents.len()).for_each(|axis| node.reads_extent(&x, axis));
    let count = element_count(&extents).unwrap_or(usize::MAX);
    define_integers(node, &[], vec![i64::try_from(count).unwrap_or(i64::MAX)])
}

pub(super) fn rank_of(node: &mut Node<'_, '_>) -> Result<()> {
    let rank = node.shape(0)?.len();
    node.define(Tensor::scalar(i32::try_from(rank).unwrap_or(i32::MAX)));
    Ok(())
}

/// Integers of the type `out_type`, which is i32 unless given.
fn define_integers(node: &mut Node<'_, '_>, shape: &[usize], numbers: Vec<i64>) -> Result<()> {
    let tensor = match node.attributes.dtype("out_type")?.unwrap_or(3) {
        9 => Tensor::from_vec(shape, numbers)?,
        3 => {
            let small = numbers.into_iter().map(|v| i32::try_from(v).ok());
            let small: Option<Vec<i32>> = small.collect();
            let small = small.ok_or_else(|| malformed("an extent is not an i32".to_owned()))?;
            Tensor::from_vec(shape, small)?
        }
        _ => return Err(malformed("out_type is neither i32 nor i64".to_owned())),
    };
    node.define(tensor);
    Ok(())
}

/// `Fill(shape, number)`.
pub(super) fn fill(node: &mut Node<'_, '_>) -> Result<()> {
    let shape = node.target_shape(0, "the shape")?;
    if let Some(Constant { tensor, quantiser: None }) = node.constant(1)
        && tensor.len() == 1
    {
        return filled(node, &tensor, shape);
    }
    let number = node.plain(1)?;
    node.emit(Op::Expand { shape }, &[number])
}

/// A tensor of the shape and type of operand 0.
pub(super) fn fill_like(node: &mut Node<'_, '_>, number: i8) -> Result<()> {
    let x = node.stored(0)?;
    let extents = node.extents(&x);
    (0..extents.len()).for_each(|axis| node.reads_extent(&x, axis));
    let number = number_of(node.dtype(x.id), number)?;
    filled(node, &number, extents.to_vec())
}

fn filled(node: &mut Node<'_, '_>, number: &Tensor, shape: Vec<usize>) -> Result<()> {
    let count = element_count(&shape).unwrap_or(usize::MAX);
    if count <= MAX_STORED {
        node.store(count)?;
        node.define(Tensor::new(number.dtype(), &shape, number.bytes().repeat(count).into())?);
        return Ok(());
    }
    let number = node.add_constant(number.reshape(&[])?)?;
    node.emit(Op::Expand { shape }, &[number])
}

/// `BroadcastTo(x, shape)`.
pub(super) fn broadcast_to(node: &mut Node<'_, '_>) -> Result<()> {
    let shape = node.target_shape(1, "the shape")?;
    let x = node.plain(0)?;
    if node.stored_shape(x).len() > shape.len() {
        return Err(malformed(format!("{} axes do not fit {shape:?}", node.stored_shape(x).len())));
    }
    node.emit(Op::Expand { shape }, &[x])
}

/// `Tile(x, multiples)`.
pub(super) fn tile(node: &mut Node<'_, '_>) -> Result<()> {
    let multiples = node.target_shape(1, "multiples")?;
    let Stored { id, order } = node.stored(0)?;
    if multiples.len() != order.len() {
        return Err(malformed(format!("multiples {multiples:?} for {} axes", order.len())));
    }
    let repeats = order.iter().map(|&axis| multiples[axis]).collect();
    node.emit_ordered(Op::Tile { repeats }, &[id], order)
}

/// `Range(start, limit, delta)`.
pub(super) fn range(node: &mut Node<'_, '_>) -> Result<()> {
    let start = node.number(0, "the start")?;
    let limit = node.number(1, "the limit")?;
    let delta = node.number(2, "the delta")?;
    let count = ((limit - start) / delta).ceil().max(0.0);
    if delta == 0.0 || !count.is_finite() {
        return Err(malformed(format!("a range from {start} to {limit} by {delta} has no end")));
    }
    if count > MAX_RANGE {
        return Err(node.unsupported(format_args!("a range of {count} numbers")));
    }
    let count = count as usize;
    node.store(count)?;
    let numbers = (0..count).map(|i| start + i as f64 * delta);
    let dtype = node.parameter(0, "the start")?.dtype();
    let tensor = match dtype {
        // Each number is the one before and the step, rounded.
        DType::F32 => {
            let step = |last: &f32| Some(last + delta as f32);
            let numbers = std::iter::successors(Some(start as f32), step);
            Tensor::from_vec(&[count], numbers.take(count).collect())?
        }
        DType::F64 => Tensor::from_vec(&[count], numbers.collect())?,
        DType::I32 => Tensor::from_vec(&[count], numbers.map(|v| v as i32).collect())?,
        DType::I64 => Tensor::from_vec(&[count], numbers.map(|v| v as i64).collect())?,
        other => return Err(node.unsupported(format_args!("a range of {other}"))),
    };
    node.define(tensor);
    Ok(())
}
