//! Operators on single elements.

use crate::tensorflow::attributes::malformed;
use crate::tensorflow::context::Node;
use crate::tensorflow::dtype::from_tensorflow;
use crate::tensorflow::layout::{Order, is_plain, plain};
use crate::tensorflow::reader::Stored;
use crate::tensorflow::tensor::permuted;
use quincunx_diag::Result;
use quincunx_graph::{Activation, Binary, Compare, Constant, Logic, Op, Unary, ValueId};
use quincunx_tensor::{DType, Tensor};

/// Slopes that keep mean and variance of a self-normalising network.
pub(super) const SELU: Activation = Activation::Selu { alpha: 1.673_263_2, gamma: 1.050_701 };

pub(super) fn unary(node: &mut Node<'_, '_>, op: Unary) -> Result<()> {
    one(node, Op::Unary(op))
}

pub(super) fn activation(node: &mut Node<'_, '_>, op: Activation) -> Result<()> {
    one(node, Op::Activation(op))
}

pub(super) fn binary(node: &mut Node<'_, '_>, op: Binary) -> Result<()> {
    two(node, Op::Binary(op))
}

pub(super) fn compare(node: &mut Node<'_, '_>, op: Compare) -> Result<()> {
    two(node, Op::Compare(op))
}

pub(super) fn logic(node: &mut Node<'_, '_>, op: Logic) -> Result<()> {
    two(node, Op::Logic(op))
}

pub(super) fn leaky_relu(node: &mut Node<'_, '_>) -> Result<()> {
    let alpha = node.attributes.float("alpha", 0.2)?;
    activation(node, Activation::LeakyRelu { alpha })
}

pub(super) fn cast(node: &mut Node<'_, '_>) -> Result<()> {
    let code = node.attributes.dtype("DstT")?.unwrap_or(0);
    match from_tensorflow(code) {
        Ok(to) => one(node, Op::Cast { to }),
        Err(name) => Err(node.unsupported(format_args!("conversion to {name}"))),
    }
}

pub(super) fn rsqrt(node: &mut Node<'_, '_>) -> Result<()> {
    let Stored { id, order } = node.stored(0)?;
    let root = node.before(Op::Unary(Unary::Sqrt), &[id])?;
    node.emit_ordered(Op::Unary(Unary::Reciprocal), &[root], order)
}

pub(super) fn square(node: &mut Node<'_, '_>) -> Result<()> {
    let Stored { id, order } = node.stored(0)?;
    node.emit_ordered(Op::Binary(Binary::Mul), &[id, id], order)
}

/// `x / (1 + |x|)`.
pub(super) fn softsign(node: &mut Node<'_, '_>) -> Result<()> {
    let Stored { id, order } = node.stored(0)?;
    let magnitude = node.before(Op::Unary(Unary::Abs), &[id])?;
    let one = scalar(node, id, 1)?;
    let divisor = node.before(Op::Binary(Binary::Add), &[magnitude, one])?;
    node.emit_ordered(Op::Binary(Binary::Div), &[id, divisor], order)
}

pub(super) fn squared_difference(node: &mut Node<'_, '_>) -> Result<()> {
    let (operands, order) = aligned(node, &[0, 1])?;
    let difference = node.before(Op::Binary(Binary::Sub), &operands)?;
    node.emit_ordered(Op::Binary(Binary::Mul), &[difference, difference], order)
}

pub(super) fn not_equal(node: &mut Node<'_, '_>) -> Result<()> {
    let (operands, order) = aligned(node, &[0, 1])?;
    let equal = node.before(Op::Compare(Compare::Equal), &operands)?;
    node.emit_ordered(Op::Unary(Unary::Not), &[equal], order)
}

/// `ClipByValue(x, min, max)`.
pub(super) fn clip_by_value(node: &mut Node<'_, '_>) -> Result<()> {
    let (operands, order) = aligned(node, &[0, 1, 2])?;
    let high = node.before(Op::Binary(Binary::Min), &[operands[0], operands[2]])?;
    node.emit_ordered(Op::Binary(Binary::Max), &[high, operands[1]], order)
}

pub(super) fn add_n(node: &mut Node<'_, '_>) -> Result<()> {
    let indices: Vec<usize> = (0..node.operand_count()).collect();
    let (operands, order) = aligned(node, &indices)?;
    let [first, middle @ .., last] = &operands[..] else {
        return node.alias(0, 0);
    };
    let add = Op::Binary(Binary::Add);
    let mut sum = *first;
    for operand in middle {
        sum = node.before(add.clone(), &[sum, *operand])?;
    }
    node.emit_ordered(add, &[sum, *last], order)
}

/// The quotient rounded down; [`Binary::Div`] of integers rounds to 0.
pub(super) fn floor_div(node: &mut Node<'_, '_>) -> Result<()> {
    let (operands, order) = aligned(node, &[0, 1])?;
    let (a, b) = (operands[0], operands[1]);
    let quotient = node.before(Op::Binary(Binary::Div), &[a, b])?;
    let dtype = node.dtype(quotient);
    if dtype.is_float() {
        return node.emit_ordered(Op::Unary(Unary::Floor), &[quotient], order);
    }
    let product = node.before(Op::Binary(Binary::Mul), &[quotient, b])?;
    let rest = node.before(Op::Binary(Binary::Sub), &[a, product])?;
    let zero = scalar(node, a, 0)?;
    let exact = node.before(Op::Compare(Compare::Equal), &[rest, zero])?;
    let inexact = node.before(Op::Unary(Unary::Not), &[exact])?;
    let signs = [rest, b].map(|v| node.before(Op::Compare(Compare::Less), &[v, zero]));
    let [rest_sign, b_sign] = signs;
    let differ = node.before(Op::Logic(Logic::Xor), &[rest_sign?, b_sign?])?;
    let lower = node.before(Op::Logic(Logic::And), &[inexact, differ])?;
    let one = node.before(Op::Cast { to: dtype }, &[lower])?;
    node.emit_ordered(Op::Binary(Binary::Sub), &[quotient, one], order)
}

pub(super) fn select_v2(node: &mut Node<'_, '_>) -> Result<()> {
    let (operands, order) = aligned(node, &[0, 1, 2])?;
    node.emit_ordered(Op::Where, &operands, order)
}

/// Without broadcasting, except that a list of conditions chooses along the first axis.
pub(super) fn select(node: &mut Node<'_, '_>) -> Result<()> {
    let (condition, x) = (node.shape(0)?, node.shape(1)?);
    if condition.len() != 1 || x.len() <= 1 {
        return select_v2(node);
    }
    let flags = node.plain(0)?;
    let mut shape = vec![0];
    shape.resize(x.len(), 1);
    let flags = node.before(Op::Reshape { shape }, &[flags])?;
    let stored = node.stored(1)?;
    let flags = node.view(&Stored { id: flags, order: plain(x.len()) }, &stored.order)?;
    let no = node.ordered(2, &stored.order)?;
    node.emit_ordered(Op::Where, &[flags, stored.id, no], stored.order)
}

/// A number of the type of a value.
pub(super) fn scalar(node: &mut Node<'_, '_>, like: ValueId, number: i8) -> Result<ValueId> {
    node.add_constant(number_of(node.dtype(like), number)?)
}

/// A small number of a type.
pub(super) fn number_of(dtype: DType, number: i8) -> Result<Tensor> {
    Ok(match dtype {
        DType::F32 => Tensor::scalar(f32::from(number)),
        DType::F64 => Tensor::scalar(f64::from(number)),
        integer => {
            // The low bytes of a number in two's complement.
            let bytes = i64::from(number).to_le_bytes()[..integer.size()].to_vec();
            Tensor::new(integer, &[], bytes.into())?
        }
    })
}

fn one(node: &mut Node<'_, '_>, op: Op) -> Result<()> {
    let Stored { id, order } = node.stored(0)?;
    node.emit_ordered(op, &[id], order)
}

fn two(node: &mut Node<'_, '_>, op: Op) -> Result<()> {
    let (operands, order) = aligned(node, &[0, 1])?;
    node.emit_ordered(op, &operands, order)
}

/// Operands that broadcast, all stored so that they do, and the order of the result: that of the
/// first operand of full rank that is not in the order of the file, else the order of the file.
pub(super) fn aligned(node: &mut Node<'_, '_>, indices: &[usize]) -> Result<(Vec<ValueId>, Order)> {
    let mut rank = 0;
    for &index in indices {
        rank = rank.max(node.shape(index)?.len());
    }
    let mut order = plain(rank);
    for &index in indices {
        if node.constant(index).is_none() {
            let stored = node.stored(index)?;
            if stored.order.len() == rank && !is_plain(&stored.order) {
                order = stored.order;
                break;
            }
        }
    }
    let operands = indices.iter().map(|&index| one_aligned(node, index, &order));
    Ok((operands.collect::<Result<_>>()?, order))
}

fn one_aligned(node: &mut Node<'_, '_>, index: usize, order: &[usize]) -> Result<ValueId> {
    let shape = node.shape(index)?;
    if shape.len() == order.len() {
        return node.ordered(index, order);
    }
    if is_plain(order) || shape.is_empty() {
        return node.plain(index);
    }
    // A broadcast aligns the innermost axes of the file, which are stored elsewhere.
    let mut padded = vec![1; order.len() - shape.len()];
    padded.extend(&shape);
    if let Some(Constant { tensor, quantiser: None }) = node.constant(index) {
        node.store(tensor.len())?;
        let tensor = permuted(&tensor.reshape(&padded)?, order)?;
        let outer = tensor.shape().iter().take_while(|&&extent| extent == 1).count();
        let inner = tensor.shape()[outer..].to_vec();
        return node.add_constant(tensor.reshape(&inner)?);
    }
    let id = node.plain(index)?;
    let extents = padded.iter().map(|&extent| i64::try_from(extent).ok()).collect();
    let Some(shape) = extents else {
        return Err(malformed("an extent is too large".to_owned()));
    };
    let id = node.before(Op::Reshape { shape }, &[id])?;
    node.view(&Stored { id, order: plain(order.len()) }, order)
}
