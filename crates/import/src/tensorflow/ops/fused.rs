//! Layers that TensorFlow's optimiser has fused.

use super::dense::matmul_operands;
use super::window::{Parts, conv_parts};
use crate::tensorflow::attributes::malformed;
use crate::tensorflow::context::Node;
use crate::tensorflow::layout::{Order, plain};
use quincunx_diag::Result;
use quincunx_graph::{Activation, BatchNorm, Gemm, Op, Unary, ValueId};

/// `_FusedConv2D(x, kernel, arguments …)`.
pub(super) fn conv(node: &mut Node<'_, '_>) -> Result<()> {
    let steps = node.attributes.texts("fused_ops")?;
    let filter_format = node.attributes.text("filter_format", "HWIO")?;
    if filter_format != "HWIO" || node.attributes.int("num_host_args", 0)? != 0 {
        return Err(node.unsupported("kernels in other orders and arguments of the host"));
    }
    let Parts { op, x, w, order } = conv_parts(node)?;
    match steps.split_first() {
        Some((&"BiasAdd", rest)) => {
            let bias = node.plain(2)?;
            finish(node, op, &[x, w, bias], order, rest)
        }
        Some((&"FusedBatchNorm", rest)) => {
            let mut operands = vec![node.before(op, &[x, w])?];
            for index in 2..6 {
                operands.push(node.plain(index)?);
            }
            let epsilon = node.attributes.float("epsilon", 1e-4)?;
            finish(node, Op::BatchNorm(BatchNorm { epsilon }), &operands, order, rest)
        }
        _ => Err(node.unsupported(format_args!("fused_ops {steps:?}"))),
    }
}

/// `_FusedMatMul(a, b, bias)`.
pub(super) fn matmul(node: &mut Node<'_, '_>) -> Result<()> {
    let steps = node.attributes.texts("fused_ops")?;
    let Some((&"BiasAdd", rest)) = steps.split_first() else {
        return Err(node.unsupported(format_args!("fused_ops {steps:?}")));
    };
    let (a, b) = matmul_operands(node)?;
    let bias = node.plain(2)?;
    let gemm = Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: false };
    finish(node, Op::Gemm(gemm), &[a, b, bias], plain(2), rest)
}

/// The layer, and the activation that may follow.
fn finish(
    node: &mut Node<'_, '_>,
    op: Op,
    operands: &[ValueId],
    order: Order,
    rest: &[&str],
) -> Result<()> {
    let activation = match rest {
        [] => return node.emit_ordered(op, operands, order),
        ["Relu"] => Op::Unary(Unary::Relu),
        ["Sigmoid"] => Op::Unary(Unary::Sigmoid),
        ["Tanh"] => Op::Unary(Unary::Tanh),
        ["GeluExact"] => Op::Unary(Unary::Gelu),
        ["GeluApproximate"] => Op::Unary(Unary::GeluTanh),
        ["Relu6"] => Op::Activation(Activation::Clip { min: Some(0.0), max: Some(6.0) }),
        ["Elu"] => Op::Activation(Activation::Elu { alpha: 1.0 }),
        ["LeakyRelu"] => {
            let alpha = node.attributes.float("leakyrelu_alpha", 0.2)?;
            Op::Activation(Activation::LeakyRelu { alpha })
        }
        [other, ..] => return Err(malformed(format!("fused_ops has {other:?} after the layer"))),
    };
    let layer = node.before(op, operands)?;
    node.emit_ordered(activation, &[layer], order)
}
