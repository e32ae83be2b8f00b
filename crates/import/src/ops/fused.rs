//! Operators of onnxruntime that join two others.

use super::compose::number;
use super::window::{conv_attributes, conv_op};
use crate::attributes::malformed;
use crate::context::NodeContext;
use quincunx_diag::Result;
use quincunx_graph::{Activation, Binary, Op, Unary, ValueId};

/// A convolution, an optional sum with another tensor, and an activation.
pub(crate) fn fused_conv(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let (x, w, b, z) = (node.operand(0)?, node.operand(1)?, node.optional(2)?, node.optional(3)?);
    let function = activation(node)?;
    let (op, inputs) = conv_op(conv_attributes(node, x, w)?, x, w, b);
    let mut sums = node.emit_before(op, &inputs)?;
    if let Some(z) = z {
        sums = node.emit_before(Op::Binary(Binary::Add), &[Some(sums), Some(z)])?;
    }
    node.emit(function, &[Some(sums)])
}

fn activation(node: &mut NodeContext<'_, '_>) -> Result<Op> {
    let name = node.attributes.string("activation")?.unwrap_or("");
    let given = node.attributes.floats("activation_params")?.unwrap_or(&[]);
    Ok(match (name, given) {
        ("", []) => Op::Identity,
        ("Relu", []) => Op::Unary(Unary::Relu),
        ("Tanh", []) => Op::Unary(Unary::Tanh),
        ("Sigmoid", []) => Op::Unary(Unary::Sigmoid),
        ("LeakyRelu", &[alpha]) => Op::Activation(Activation::LeakyRelu { alpha }),
        ("Clip", &[min, max]) => {
            Op::Activation(Activation::Clip { min: Some(min), max: Some(max) })
        }
        ("HardSigmoid", &[alpha, beta]) => Op::Activation(Activation::HardSigmoid { alpha, beta }),
        _ => {
            return Err(node.unsupported(format_args!("activation \"{name}\" with {given:?}")));
        }
    })
}

/// `alpha * A' * B'`, where the last two axes may be swapped.
pub(crate) fn fused_matmul(node: &mut NodeContext<'_, '_>) -> Result<()> {
    for name in ["transBatchA", "transBatchB"] {
        if node.attributes.flag(name, false)? {
            return Err(node.unsupported(format_args!("{name} 1")));
        }
    }
    let alpha = node.attributes.float("alpha")?.unwrap_or(1.0);
    let (a, b) = (factor(node, 0, "transA")?, factor(node, 1, "transB")?);
    if alpha == 1.0 {
        return node.emit(Op::MatMul, &[Some(a), Some(b)]);
    }
    let product = node.emit_before(Op::MatMul, &[Some(a), Some(b)])?;
    let alpha = number(node, node.dtype(product), alpha.into())?;
    node.emit(Op::Binary(Binary::Mul), &[Some(product), Some(alpha)])
}

fn factor(node: &mut NodeContext<'_, '_>, index: usize, flag: &'static str) -> Result<ValueId> {
    let x = node.operand(index)?;
    let rank = node.shape(x).len();
    if !node.attributes.flag(flag, false)? {
        return Ok(x);
    }
    if rank < 2 {
        return Err(malformed(format!("{flag} 1 for an operand with {rank} axes")));
    }
    let mut order: Vec<usize> = (0..rank).collect();
    order.swap(rank - 2, rank - 1);
    node.emit_before(Op::Transpose { order }, &[Some(x)])
}

pub(crate) fn gelu(node: &mut NodeContext<'_, '_>) -> Result<()> {
    biased_gelu(node, Unary::Gelu)
}

pub(crate) fn fast_gelu(node: &mut NodeContext<'_, '_>) -> Result<()> {
    biased_gelu(node, Unary::GeluTanh)
}

/// An optional bias is added before.
fn biased_gelu(node: &mut NodeContext<'_, '_>, function: Unary) -> Result<()> {
    let mut x = node.operand(0)?;
    if let Some(bias) = node.optional(1)? {
        x = node.emit_before(Op::Binary(Binary::Add), &[Some(x), Some(bias)])?;
    }
    node.emit(Op::Unary(function), &[Some(x)])
}
