//! Operators on single elements.

use crate::context::NodeContext;
use crate::tensor::real_tensor;
use quincunx_diag::Result;
use quincunx_graph::{Binary, Compare, Logic, Op, Unary, ValueId};
use quincunx_tensor::{DType, Tensor};

pub(crate) fn relu(node: &mut NodeContext<'_, '_>) -> Result<()> {
    unary(node, Op::Unary(Unary::Relu))
}

pub(crate) fn neg(node: &mut NodeContext<'_, '_>) -> Result<()> {
    unary(node, Op::Unary(Unary::Neg))
}

pub(crate) fn abs(node: &mut NodeContext<'_, '_>) -> Result<()> {
    unary(node, Op::Unary(Unary::Abs))
}

pub(crate) fn sign(node: &mut NodeContext<'_, '_>) -> Result<()> {
    unary(node, Op::Unary(Unary::Sign))
}

pub(crate) fn not(node: &mut NodeContext<'_, '_>) -> Result<()> {
    unary(node, Op::Unary(Unary::Not))
}

pub(crate) fn sqrt(node: &mut NodeContext<'_, '_>) -> Result<()> {
    unary(node, Op::Unary(Unary::Sqrt))
}

pub(crate) fn reciprocal(node: &mut NodeContext<'_, '_>) -> Result<()> {
    unary(node, Op::Unary(Unary::Reciprocal))
}

pub(crate) fn exp(node: &mut NodeContext<'_, '_>) -> Result<()> {
    unary(node, Op::Unary(Unary::Exp))
}

pub(crate) fn log(node: &mut NodeContext<'_, '_>) -> Result<()> {
    unary(node, Op::Unary(Unary::Log))
}

pub(crate) fn erf(node: &mut NodeContext<'_, '_>) -> Result<()> {
    unary(node, Op::Unary(Unary::Erf))
}

pub(crate) fn floor(node: &mut NodeContext<'_, '_>) -> Result<()> {
    unary(node, Op::Unary(Unary::Floor))
}

pub(crate) fn ceil(node: &mut NodeContext<'_, '_>) -> Result<()> {
    unary(node, Op::Unary(Unary::Ceil))
}

pub(crate) fn round(node: &mut NodeContext<'_, '_>) -> Result<()> {
    unary(node, Op::Unary(Unary::Round))
}

pub(crate) fn sigmoid(node: &mut NodeContext<'_, '_>) -> Result<()> {
    unary(node, Op::Unary(Unary::Sigmoid))
}

pub(crate) fn hard_swish(node: &mut NodeContext<'_, '_>) -> Result<()> {
    unary(node, Op::Unary(Unary::HardSwish))
}

pub(crate) fn tanh(node: &mut NodeContext<'_, '_>) -> Result<()> {
    unary(node, Op::Unary(Unary::Tanh))
}

pub(crate) fn softplus(node: &mut NodeContext<'_, '_>) -> Result<()> {
    unary(node, Op::Unary(Unary::Softplus))
}

pub(crate) fn sin(node: &mut NodeContext<'_, '_>) -> Result<()> {
    unary(node, Op::Unary(Unary::Sin))
}

pub(crate) fn cos(node: &mut NodeContext<'_, '_>) -> Result<()> {
    unary(node, Op::Unary(Unary::Cos))
}

pub(crate) fn tan(node: &mut NodeContext<'_, '_>) -> Result<()> {
    unary(node, Op::Unary(Unary::Tan))
}

pub(crate) fn atan(node: &mut NodeContext<'_, '_>) -> Result<()> {
    unary(node, Op::Unary(Unary::Atan))
}

pub(crate) fn identity(node: &mut NodeContext<'_, '_>) -> Result<()> {
    unary(node, Op::Identity)
}

pub(crate) fn add(node: &mut NodeContext<'_, '_>) -> Result<()> {
    binary(node, Binary::Add)
}

pub(crate) fn sub(node: &mut NodeContext<'_, '_>) -> Result<()> {
    binary(node, Binary::Sub)
}

pub(crate) fn mul(node: &mut NodeContext<'_, '_>) -> Result<()> {
    binary(node, Binary::Mul)
}

pub(crate) fn div(node: &mut NodeContext<'_, '_>) -> Result<()> {
    binary(node, Binary::Div)
}

pub(crate) fn pow(node: &mut NodeContext<'_, '_>) -> Result<()> {
    binary(node, Binary::Pow)
}

pub(crate) fn equal(node: &mut NodeContext<'_, '_>) -> Result<()> {
    two(node, Op::Compare(Compare::Equal))
}

pub(crate) fn less(node: &mut NodeContext<'_, '_>) -> Result<()> {
    two(node, Op::Compare(Compare::Less))
}

pub(crate) fn less_or_equal(node: &mut NodeContext<'_, '_>) -> Result<()> {
    two(node, Op::Compare(Compare::LessOrEqual))
}

pub(crate) fn greater(node: &mut NodeContext<'_, '_>) -> Result<()> {
    two(node, Op::Compare(Compare::Greater))
}

pub(crate) fn greater_or_equal(node: &mut NodeContext<'_, '_>) -> Result<()> {
    two(node, Op::Compare(Compare::GreaterOrEqual))
}

pub(crate) fn and(node: &mut NodeContext<'_, '_>) -> Result<()> {
    two(node, Op::Logic(Logic::And))
}

pub(crate) fn or(node: &mut NodeContext<'_, '_>) -> Result<()> {
    two(node, Op::Logic(Logic::Or))
}

pub(crate) fn xor(node: &mut NodeContext<'_, '_>) -> Result<()> {
    two(node, Op::Logic(Logic::Xor))
}

/// `Where(condition, yes, no)`.
pub(crate) fn choose(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let operands = [Some(node.operand(0)?), Some(node.operand(1)?), Some(node.operand(2)?)];
    node.emit(Op::Where, &operands)
}

pub(crate) fn max(node: &mut NodeContext<'_, '_>) -> Result<()> {
    chain(node, Binary::Max)
}

pub(crate) fn min(node: &mut NodeContext<'_, '_>) -> Result<()> {
    chain(node, Binary::Min)
}

/// `Dropout` does nothing in inference.
pub(crate) fn dropout(node: &mut NodeContext<'_, '_>) -> Result<()> {
    node.attributes.ignore("ratio");
    node.attributes.ignore("seed");
    if node.opset < 7 {
        node.attributes.ignore("consumed_inputs");
        if !node.attributes.flag("is_test", false)? {
            return Err(node.unsupported("is_test 0 (training); only inference is supported"));
        }
    }
    if let Some(training) = node.optional_parameter(2, "training_mode")?
        && training.to_f64().iter().any(|&v| v != 0.0)
    {
        return Err(node.unsupported("training_mode is on; only inference is supported"));
    }
    if node.wants(1) {
        // Nothing is dropped. Until opset 9 the mask had the type of the data.
        let x = node.operand(0)?;
        let shape = node.shape(x).to_vec();
        node.reads_extents(x, 0..shape.len());
        let keeps = node.constant_before(Tensor::new(DType::Bool, &[], vec![1].into())?)?;
        let to = if node.opset < 10 { node.dtype(x) } else { DType::Bool };
        let keeps = node.emit_before(Op::Cast { to }, &[Some(keeps)])?;
        node.emit_output(1, Op::Expand { shape }, &[Some(keeps)])?;
    }
    unary(node, Op::Identity)
}

fn unary(node: &mut NodeContext<'_, '_>, op: Op) -> Result<()> {
    if node.opset < 6 {
        node.attributes.ignore("consumed_inputs");
    }
    let x = node.operand(0)?;
    node.emit(op, &[Some(x)])
}

fn binary(node: &mut NodeContext<'_, '_>, op: Binary) -> Result<()> {
    if node.opset < 6 {
        node.attributes.ignore("consumed_inputs");
    }
    two(node, Op::Binary(op))
}

/// An operator on two operands that broadcast.
fn two(node: &mut NodeContext<'_, '_>, op: Op) -> Result<()> {
    if node.opset < 7 && node.attributes.flag("broadcast", false)? {
        // Before opset 7 broadcasting could align at any axis.
        return Err(node.unsupported("broadcast 1 of opsets before 7"));
    }
    let (a, b) = (node.operand(0)?, node.operand(1)?);
    node.emit(op, &[Some(a), Some(b)])
}

/// The sum of any number of operands is a chain.
pub(crate) fn sum(node: &mut NodeContext<'_, '_>) -> Result<()> {
    chain(node, Binary::Add)
}

/// The sum over the number of operands.
pub(crate) fn mean(node: &mut NodeContext<'_, '_>) -> Result<()> {
    if node.operand_count() == 1 {
        return chain(node, Binary::Add);
    }
    if node.opset < 6 {
        node.attributes.ignore("consumed_inputs");
    }
    let (before_last, last) = chain_start(node, Binary::Add)?;
    let sum = node.emit_before(Op::Binary(Binary::Add), &[Some(before_last), Some(last)])?;
    let count = node.operand_count() as f64;
    let count = real_tensor(node.dtype(sum), &[], &[count])?;
    let count = node.constant_before(count)?;
    node.emit(Op::Binary(Binary::Div), &[Some(sum), Some(count)])
}

/// Operators with any number of operands become a chain.
fn chain(node: &mut NodeContext<'_, '_>, op: Binary) -> Result<()> {
    if node.opset < 6 {
        node.attributes.ignore("consumed_inputs");
    }
    if node.operand_count() == 1 {
        let x = node.operand(0)?;
        return node.emit(Op::Identity, &[Some(x)]);
    }
    let (before_last, last) = chain_start(node, op)?;
    node.emit(Op::Binary(op), &[Some(before_last), Some(last)])
}

/// A chain over all operands but the last, and the last; there are two at least.
fn chain_start(node: &mut NodeContext<'_, '_>, op: Binary) -> Result<(ValueId, ValueId)> {
    let count = node.operand_count();
    let mut result = node.operand(0)?;
    for index in 1..count - 1 {
        let operand = node.operand(index)?;
        result = node.emit_before(Op::Binary(op), &[Some(result), Some(operand)])?;
    }
    Ok((result, node.operand(count - 1)?))
}
