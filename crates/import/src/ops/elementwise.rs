//! Operators on single elements.

use crate::context::NodeContext;
use quincunx_diag::Result;
use quincunx_graph::{Binary, Op, Unary};

pub(crate) fn relu(node: &mut NodeContext<'_, '_>) -> Result<()> {
    unary(node, Op::Unary(Unary::Relu))
}

pub(crate) fn neg(node: &mut NodeContext<'_, '_>) -> Result<()> {
    unary(node, Op::Unary(Unary::Neg))
}

pub(crate) fn abs(node: &mut NodeContext<'_, '_>) -> Result<()> {
    unary(node, Op::Unary(Unary::Abs))
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
    let a = node.operand(0)?;
    if !node.dtype(a).is_float() {
        // Integer division truncates, which is no operator of the graph.
        return Err(node.unsupported(format_args!("division of {} numbers", node.dtype(a))));
    }
    binary(node, Binary::Div)
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
    if node.opset < 7 && node.attributes.flag("broadcast", false)? {
        // Before opset 7 broadcasting could align at any axis.
        return Err(node.unsupported("broadcast 1 of opsets before 7"));
    }
    let (a, b) = (node.operand(0)?, node.operand(1)?);
    node.emit(Op::Binary(op), &[Some(a), Some(b)])
}

/// Operators with any number of operands become a chain.
fn chain(node: &mut NodeContext<'_, '_>, op: Binary) -> Result<()> {
    if node.opset < 6 {
        node.attributes.ignore("consumed_inputs");
    }
    let mut result = node.operand(0)?;
    let count = node.operand_count();
    if count == 1 {
        return node.emit(Op::Identity, &[Some(result)]);
    }
    for index in 1..count - 1 {
        let operand = node.operand(index)?;
        result = node.emit_before(Op::Binary(op), &[Some(result), Some(operand)])?;
    }
    let last = node.operand(count - 1)?;
    node.emit(Op::Binary(op), &[Some(result), Some(last)])
}
