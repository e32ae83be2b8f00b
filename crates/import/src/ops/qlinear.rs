//! Operators of onnxruntime on integer codes: the operator on the real numbers of the codes, then
//! the quantiser of the result.

use super::integer::{quantiser, reals, tensor_quantiser};
use super::linear::check;
use super::pool::pool_op;
use super::reduce::one_axis;
use crate::context::NodeContext;
use quincunx_diag::Result;
use quincunx_graph::{
    Activation, Constant, Gemm, Op, Param, PoolKind, Quantiser, Softmax, Unary, ValueId,
};
use quincunx_tensor::DType;

/// Operands: codes, scale, zero point, then scale and zero point of the result.
fn map(
    node: &mut NodeContext<'_, '_>,
    op: impl FnOnce(&mut NodeContext<'_, '_>, ValueId) -> Result<Op>,
) -> Result<()> {
    let (given, result) = (tensor_quantiser(node, 1)?, tensor_quantiser(node, 3)?);
    let x = reals(node, 0, given)?;
    let op = op(node, x)?;
    let y = node.emit_before(op, &[Some(x)])?;
    node.define_codes(y, result);
    Ok(())
}

pub(crate) fn sigmoid(node: &mut NodeContext<'_, '_>) -> Result<()> {
    map(node, |_, _| Ok(Op::Unary(Unary::Sigmoid)))
}

pub(crate) fn leaky_relu(node: &mut NodeContext<'_, '_>) -> Result<()> {
    map(node, |node, _| {
        let alpha = node.attributes.float("alpha")?.unwrap_or(0.01);
        Ok(Op::Activation(Activation::LeakyRelu { alpha }))
    })
}

pub(crate) fn softmax(node: &mut NodeContext<'_, '_>) -> Result<()> {
    map(node, |node, x| {
        let rank = node.shape(x).len();
        let axis = one_axis(node, -1, rank)?;
        let opset = node.attributes.int("opset")?.unwrap_or(13);
        if opset < 13 && axis + 1 != rank {
            return Err(node.unsupported(format_args!("axis {axis} of opset {opset}")));
        }
        Ok(Op::Softmax(Softmax { axis, log: false }))
    })
}

pub(crate) fn average_pool(node: &mut NodeContext<'_, '_>) -> Result<()> {
    if node.attributes.flag("channels_last", false)? {
        return Err(node.unsupported("channels_last 1"));
    }
    map(node, |node, x| {
        let count_include_pad = node.attributes.flag("count_include_pad", false)?;
        pool_op(node, x, PoolKind::Average { count_include_pad })
    })
}

/// `alpha * A * B' + C`; without a scale of the result, that is of floats.
pub(crate) fn gemm(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let gemm = Gemm {
        alpha: node.attributes.float("alpha")?.unwrap_or(1.0),
        beta: 1.0,
        transpose_a: node.attributes.flag("transA", false)?,
        transpose_b: node.attributes.flag("transB", false)?,
    };
    let a_quantiser = tensor_quantiser(node, 1)?;
    let b_shape = super::integer::operand_shape(node, 3)?;
    let b_quantiser = quantiser(node, 4, &b_shape, if gemm.transpose_b { 0 } else { 1 })?;
    let result = if node.has_operand(7) { Some(tensor_quantiser(node, 7)?) } else { None };
    let factor = f64::from(gemm.alpha) * a_quantiser.scale.as_uniform().unwrap_or(1.0);
    let scales: Vec<f64> = b_quantiser.scale.values().iter().map(|s| s * factor).collect();
    let (a, b) = (reals(node, 0, a_quantiser)?, reals(node, 3, b_quantiser)?);
    let mut inputs = vec![Some(a), Some(b)];
    inputs.extend(bias(node, scales)?.map(Some));
    let Some(result) = result else {
        return node.emit(Op::Gemm(gemm), &inputs);
    };
    let sums = node.emit_before(Op::Gemm(gemm), &inputs)?;
    node.define_codes(sums, result);
    Ok(())
}

/// The bias, whose codes lie on the grid of the sums.
fn bias(node: &mut NodeContext<'_, '_>, scales: Vec<f64>) -> Result<Option<ValueId>> {
    let (tensor, is_bias) = match node.constant(6) {
        None if !node.has_operand(6) => return Ok(None),
        Some(Constant { tensor, quantiser: None }) => {
            let is_bias = tensor.dtype() == DType::I32;
            (tensor, is_bias)
        }
        _ => return Err(node.unsupported("a bias that is not a constant")),
    };
    if !is_bias {
        return Err(node.unsupported(format_args!("a bias of type {}", tensor.dtype())));
    }
    let scale = match scales.as_slice() {
        [scale] => Param::uniform(*scale),
        _ => Param::new(&[scales.len()], scales)?,
    };
    let quantiser = Quantiser { scale, ..Quantiser::symmetric(true, 32, 1.0) };
    quantiser.check()?;
    check(&quantiser, tensor.shape())?;
    node.constant_before(Constant { tensor, quantiser: Some(quantiser) }).map(Some)
}
