//! Operators on integer codes.
//!
//! The `QLinear` operators become operators on the real numbers of the codes, between the
//! quantisers of their operands and result. The integer operators take codes as plain i32 numbers.

use crate::attributes::malformed;
use crate::context::NodeContext;
use crate::ops::granularity::per_axis;
use crate::ops::linear::{check, code_format};
use crate::ops::window::{conv_attributes, conv_op};
use quincunx_diag::Result;
use quincunx_graph::{
    Activation, Binary, Compare, Constant, Op, Param, Quantiser, Reduce, ReduceKind, Unary, ValueId,
};
use quincunx_num::{Overflow, Rounding};
use quincunx_tensor::{DType, Tensor, show_shape};

pub(crate) fn qlinear_conv(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let x_quantiser = tensor_quantiser(node, 1)?;
    let w_shape = operand_shape(node, 3)?;
    let w_quantiser = quantiser(node, 4, &w_shape, 0)?;
    let result = tensor_quantiser(node, 6)?;
    let x = reals(node, 0, x_quantiser.clone())?;
    let w = reals(node, 3, w_quantiser.clone())?;
    let b = match node.constant(8) {
        None if !node.has_operand(8) => None,
        Some(Constant { tensor, quantiser: None }) if tensor.dtype() == DType::I32 => {
            let quantiser = Some(bias_quantiser(&x_quantiser, &w_quantiser, &tensor)?);
            Some(node.constant_before(Constant { tensor, quantiser })?)
        }
        _ => return Err(node.unsupported("a bias that is not a constant of i32 codes")),
    };
    let attributes = conv_attributes(node, x, w)?;
    let (op, inputs) = conv_op(attributes, x, w, b);
    let sums = node.emit_before(op, &inputs)?;
    node.define_codes(sums, result);
    Ok(())
}

/// Biases lie on the grid of the sums: the product of the scales of `x` and `w`.
fn bias_quantiser(x: &Quantiser, w: &Quantiser, bias: &Tensor) -> Result<Quantiser> {
    let x_scale = x.scale.as_uniform().unwrap_or(1.0);
    let scales: Vec<f64> = w.scale.values().iter().map(|scale| scale * x_scale).collect();
    let scale = match scales.as_slice() {
        [scale] => Param::uniform(*scale),
        _ => Param::new(&[scales.len()], scales)?,
    };
    let quantiser = Quantiser { scale, ..Quantiser::symmetric(true, 32, 1.0) };
    check(&quantiser, bias.shape())?;
    Ok(quantiser)
}

pub(crate) fn qlinear_matmul(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let (a_shape, b_shape) = (operand_shape(node, 0)?, operand_shape(node, 3)?);
    // Rows of a, columns of b.
    let a_quantiser = quantiser(node, 1, &a_shape, -2)?;
    let b_quantiser = quantiser(node, 4, &b_shape, -1)?;
    let result = tensor_quantiser(node, 6)?;
    let a = reals(node, 0, a_quantiser)?;
    let b = reals(node, 3, b_quantiser)?;
    let product = node.emit_before(Op::MatMul, &[Some(a), Some(b)])?;
    node.define_codes(product, result);
    Ok(())
}

pub(crate) fn qlinear_add(node: &mut NodeContext<'_, '_>) -> Result<()> {
    qlinear_binary(node, Binary::Add)
}

pub(crate) fn qlinear_mul(node: &mut NodeContext<'_, '_>) -> Result<()> {
    qlinear_binary(node, Binary::Mul)
}

fn qlinear_binary(node: &mut NodeContext<'_, '_>, binary: Binary) -> Result<()> {
    let (a_quantiser, b_quantiser) = (tensor_quantiser(node, 1)?, tensor_quantiser(node, 4)?);
    let result = tensor_quantiser(node, 6)?;
    let (a, b) = (reals(node, 0, a_quantiser)?, reals(node, 3, b_quantiser)?);
    let sum = node.emit_before(Op::Binary(binary), &[Some(a), Some(b)])?;
    node.define_codes(sum, result);
    Ok(())
}

pub(crate) fn qlinear_concat(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let result = tensor_quantiser(node, 0)?;
    let mut parts = Vec::new();
    for first in (2..node.operand_count()).step_by(3) {
        let quantiser = tensor_quantiser(node, first + 1)?;
        parts.push(Some(reals(node, first, quantiser)?));
    }
    let rank = parts.first().copied().flatten().map_or(0, |part| node.shape(part).len());
    let axis = node.attributes.int("axis")?;
    let axis = axis.ok_or_else(|| malformed("attribute \"axis\" is missing".to_owned()))?;
    let axis = crate::ops::movement::one_axis(axis, rank)?;
    let joined = node.emit_before(Op::Concat { axis }, &parts)?;
    node.define_codes(joined, result);
    Ok(())
}

pub(crate) fn qlinear_global_average_pool(node: &mut NodeContext<'_, '_>) -> Result<()> {
    if node.attributes.flag("channels_last", false)? {
        return Err(node.unsupported("channels_last 1"));
    }
    let quantiser = tensor_quantiser(node, 1)?;
    let result = tensor_quantiser(node, 3)?;
    let x = reals(node, 0, quantiser)?;
    let mean = node.emit_before(Op::GlobalAveragePool, &[Some(x)])?;
    node.define_codes(mean, result);
    Ok(())
}

/// The quantiser of operands `index` (scale) and `index + 1` (zero point, which gives the type).
/// Lists have one entry per index of `axis`, which counts from the end when negative.
pub(super) fn quantiser(
    node: &NodeContext<'_, '_>,
    index: usize,
    shape: &[usize],
    axis: i64,
) -> Result<Quantiser> {
    let scale = node.parameter(index, "a scale")?;
    let zero = node.parameter(index + 1, "a zero point")?;
    if scale.dtype().wide() != DType::F32 {
        return Err(malformed(format!("a scale is {}, expected f32", scale.dtype())));
    }
    let (signed, width) = code_format(zero.dtype())
        .ok_or_else(|| node.unsupported(format_args!("codes of type {}", zero.dtype())))?;
    let zeros =
        zero.to_i64().ok_or_else(|| malformed(format!("a zero point is {}", zero.dtype())))?;
    let quantiser = Quantiser {
        signed: Param::uniform(signed),
        width: Param::uniform(width),
        scale: per_axis(&scale, scale.to_f64(), shape, axis, "scale")?,
        zero: per_axis(&zero, zeros, shape, axis, "zero point")?,
        rounding: Param::uniform(Rounding::HalfEven),
        overflow: Param::uniform(Overflow::Saturate),
    };
    quantiser.check()?;
    Ok(quantiser)
}

/// As [`quantiser`], with one scale and one zero point.
pub(super) fn tensor_quantiser(node: &NodeContext<'_, '_>, index: usize) -> Result<Quantiser> {
    quantiser(node, index, &[], 0)
}

/// Shape of an operand that may be codes not yet in the graph.
pub(super) fn operand_shape(node: &mut NodeContext<'_, '_>, index: usize) -> Result<Vec<usize>> {
    if let Some((source, ..)) = node.codes(index) {
        return Ok(node.shape(source).to_vec());
    }
    if let Some(constant) = node.constant(index) {
        return Ok(constant.tensor.shape().to_vec());
    }
    let value = node.operand(index)?;
    Ok(node.shape(value).to_vec())
}

/// The real numbers that the codes of an operand stand for.
pub(super) fn reals(
    node: &mut NodeContext<'_, '_>,
    index: usize,
    quantiser: Quantiser,
) -> Result<ValueId> {
    if let Some((source, written, on_grid)) = node.codes(index)
        && written == quantiser
    {
        if on_grid {
            return Ok(source);
        }
        check(&quantiser, &node.shape(source))?;
        return node.emit_before(Op::Quantise(quantiser), &[Some(source)]);
    }
    let expected = quantiser.clone();
    if let Some(Constant { tensor, quantiser: None }) = node.constant(index) {
        check_type(tensor.dtype(), &expected)?;
        check(&quantiser, tensor.shape())?;
        return node.constant_before(Constant { tensor, quantiser: Some(quantiser) });
    }
    let codes = node.operand(index)?;
    check_type(node.dtype(codes), &expected)?;
    node.emit_before(Op::FromCodes(quantiser), &[Some(codes)])
}

fn check_type(found: DType, quantiser: &Quantiser) -> Result<()> {
    let expected = quantiser.signed.as_uniform().zip(quantiser.width.as_uniform());
    if code_format(found) == expected {
        return Ok(());
    }
    Err(malformed(format!("codes are {found}, but their zero point is of another type")))
}

pub(crate) fn conv_integer(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let x = centred(node, 0, 2, None)?;
    let rank = node.shape(x).len();
    // One zero point per filter.
    let w = centred(node, 1, 3, Some(rank.saturating_sub(1)))?;
    let attributes = conv_attributes(node, x, w)?;
    let (op, inputs) = conv_op(attributes, x, w, None);
    node.emit(op, &inputs)
}

pub(crate) fn matmul_integer(node: &mut NodeContext<'_, '_>) -> Result<()> {
    // One zero point per row of a, per column of b.
    let a = centred(node, 0, 2, Some(1))?;
    let b = centred(node, 1, 3, Some(0))?;
    node.emit(Op::MatMul, &[Some(a), Some(b)])
}

/// Operand `index` as i32 numbers without its zero point, operand `zero`. A list of zero points
/// gets `inner` axes of extent 1; without `inner` there is one.
fn centred(
    node: &mut NodeContext<'_, '_>,
    index: usize,
    zero: usize,
    inner: Option<usize>,
) -> Result<ValueId> {
    let cast = Op::Cast { to: DType::I32 };
    let codes = node.operand(index)?;
    if !matches!(node.dtype(codes), DType::I8 | DType::U8) {
        return Err(malformed(format!(
            "operand {index} is {}, expected codes of 8 bits",
            node.dtype(codes)
        )));
    }
    let codes = node.emit_before(cast.clone(), &[Some(codes)])?;
    let Some(zero) = node.optional(zero)? else {
        return Ok(codes);
    };
    let shape = node.shape(zero);
    let mut zero = node.emit_before(cast, &[Some(zero)])?;
    if let ([extent], Some(inner)) = (&shape[..], inner)
        && *extent != 1
        && inner > 0
    {
        let mut target = vec![-1];
        target.resize(1 + inner, 1);
        zero = node.emit_before(Op::Reshape { shape: target }, &[Some(zero)])?;
    } else if shape.len() == 1 && shape[0] == 1 {
        zero = node.emit_before(Op::Reshape { shape: vec![] }, &[Some(zero)])?;
    } else if !shape.is_empty() && inner.is_none() {
        return Err(malformed(format!("the zero point has shape {}", show_shape(&shape))));
    }
    node.emit_before(Op::Binary(Binary::Sub), &[Some(codes), Some(zero)])
}

/// Scale and zero point come from the data, so the result is made of plain operators.
pub(crate) fn dynamic_quantise(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let x = node.operand(0)?;
    let axes: Vec<usize> = (0..node.shape(x).len()).collect();
    let number = |node: &mut NodeContext<'_, '_>, value: f32| {
        node.constant_before(Tensor::scalar(value)).map(Some)
    };
    let (zero, steps) = (number(node, 0.0)?, number(node, 255.0)?);
    let bound = |node: &mut NodeContext<'_, '_>, kind, binary| {
        let reduce = Op::Reduce(Reduce { kind, axes: axes.clone(), keep_dims: false });
        let bound = node.emit_before(reduce, &[Some(x)])?;
        // The range must hold 0.
        node.emit_before(Op::Binary(binary), &[Some(bound), zero]).map(Some)
    };
    let high = bound(node, ReduceKind::Max, Binary::Max)?;
    let low = bound(node, ReduceKind::Min, Binary::Min)?;
    let span = node.emit_before(Op::Binary(Binary::Sub), &[high, low])?;
    let step = node.emit_before(Op::Binary(Binary::Div), &[Some(span), steps])?;
    // Without a range every scale will do; onnxruntime takes 1.
    let is_flat = node.emit_before(Op::Compare(Compare::Equal), &[Some(span), zero])?;
    let inputs = [Some(is_flat), number(node, 1.0)?, Some(step)];
    let scale = if node.wants(1) {
        node.emit_output(1, Op::Where, &inputs)?
    } else {
        node.emit_before(Op::Where, &inputs)?
    };
    let below = node.emit_before(Op::Binary(Binary::Div), &[low, Some(scale)])?;
    let below = node.emit_before(Op::Unary(Unary::Neg), &[Some(below)])?;
    let codes = |node: &mut NodeContext<'_, '_>, value: ValueId| {
        let clip = Activation::Clip { min: Some(0.0), max: Some(255.0) };
        node.emit_before(Op::Activation(clip), &[Some(value)])
    };
    let to_bytes = Op::Cast { to: DType::U8 };
    let below = codes(node, below)?;
    let point = node.emit_before(Op::Unary(Unary::Round), &[Some(below)])?;
    if node.wants(2) {
        node.emit_output(2, to_bytes.clone(), &[Some(point)])?;
    }
    let quotient = node.emit_before(Op::Binary(Binary::Div), &[Some(x), Some(scale)])?;
    let rounded = node.emit_before(Op::Unary(Unary::Round), &[Some(quotient)])?;
    let shifted = node.emit_before(Op::Binary(Binary::Add), &[Some(rounded), Some(point)])?;
    let kept = codes(node, shifted)?;
    if node.wants(0) {
        node.emit_output(0, to_bytes, &[Some(kept)])?;
    }
    Ok(())
}
