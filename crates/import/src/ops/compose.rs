//! Operators made of others.

use crate::attributes::malformed;
use crate::context::NodeContext;
use crate::dtype::scalar;
use crate::ops::reduce::one_axis;
use crate::ops::shape::target;
use quincunx_diag::Result;
use quincunx_graph::{Activation, ArgExtreme, Binary, Compare, Logic, Op, Unary, ValueId};
use quincunx_tensor::{DType, Tensor};

/// A constant number of a type that is computed with.
pub(super) fn number(node: &mut NodeContext<'_, '_>, dtype: DType, value: f64) -> Result<ValueId> {
    if dtype == DType::Bool || dtype.is_storage() {
        return Err(malformed(format!("expected numbers to compute with, found {dtype}")));
    }
    node.constant_before(scalar(dtype, value)?)
}

/// Adds an operator with one operand.
pub(super) fn one(node: &mut NodeContext<'_, '_>, op: Op, x: ValueId) -> Result<ValueId> {
    node.emit_before(op, &[Some(x)])
}

/// Adds an operator with two operands.
pub(super) fn two(
    node: &mut NodeContext<'_, '_>,
    op: Op,
    a: ValueId,
    b: ValueId,
) -> Result<ValueId> {
    node.emit_before(op, &[Some(a), Some(b)])
}

/// Adds a `Where`.
pub(super) fn choose(
    node: &mut NodeContext<'_, '_>,
    condition: ValueId,
    yes: ValueId,
    no: ValueId,
) -> Result<ValueId> {
    node.emit_before(Op::Where, &[Some(condition), Some(yes), Some(no)])
}

fn binary(op: Binary) -> Op {
    Op::Binary(op)
}

/// The operand, which must be of floats.
fn float_operand(node: &mut NodeContext<'_, '_>) -> Result<(ValueId, DType)> {
    let x = node.operand(0)?;
    match node.dtype(x) {
        dtype if dtype.is_float() => Ok((x, dtype)),
        other => Err(malformed(format!("expected a float tensor, found {other}"))),
    }
}

/// `x / (1 + |x|)`.
pub(crate) fn softsign(node: &mut NodeContext<'_, '_>) -> Result<()> {
    if node.opset < 6 {
        node.attributes.ignore("consumed_inputs");
    }
    let (x, dtype) = float_operand(node)?;
    let magnitude = one(node, Op::Unary(Unary::Abs), x)?;
    let first = number(node, dtype, 1.0)?;
    let divisor = two(node, binary(Binary::Add), first, magnitude)?;
    node.emit(binary(Binary::Div), &[Some(x), Some(divisor)])
}

/// `x * tanh(ln(1 + e^x))`.
pub(crate) fn mish(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let (x, _) = float_operand(node)?;
    let soft = one(node, Op::Unary(Unary::Softplus), x)?;
    let gate = one(node, Op::Unary(Unary::Tanh), soft)?;
    node.emit(binary(Binary::Mul), &[Some(x), Some(gate)])
}

/// `x * sigmoid(alpha * x)`.
pub(crate) fn swish(node: &mut NodeContext<'_, '_>) -> Result<()> {
    scaled_gate(node, 1.0)
}

/// [`swish`] with the slope that makes it like `Gelu`.
pub(crate) fn quick_gelu(node: &mut NodeContext<'_, '_>) -> Result<()> {
    scaled_gate(node, 1.702)
}

fn scaled_gate(node: &mut NodeContext<'_, '_>, default: f32) -> Result<()> {
    let (x, dtype) = float_operand(node)?;
    let alpha = node.attributes.float("alpha")?.unwrap_or(default);
    let mut slope = x;
    if alpha != 1.0 {
        let alpha = number(node, dtype, alpha.into())?;
        slope = two(node, binary(Binary::Mul), x, alpha)?;
    }
    let gate = one(node, Op::Unary(Unary::Sigmoid), slope)?;
    node.emit(binary(Binary::Mul), &[Some(x), Some(gate)])
}

/// `max(x, 0) + min(alpha * (e^(x / alpha) - 1), 0)`.
pub(crate) fn celu(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let (x, dtype) = float_operand(node)?;
    let alpha = node.attributes.float("alpha")?.unwrap_or(1.0);
    if alpha.is_nan() || alpha <= 0.0 {
        return Err(node.unsupported(format_args!("alpha {alpha}; only numbers above 0")));
    }
    if alpha == 1.0 {
        return node.emit(Op::Activation(Activation::Elu { alpha }), &[Some(x)]);
    }
    let (alpha, zero) = (number(node, dtype, alpha.into())?, number(node, dtype, 0.0)?);
    let quotient = two(node, binary(Binary::Div), x, alpha)?;
    let curve = one(node, Op::Activation(Activation::Elu { alpha: 1.0 }), quotient)?;
    let scaled = two(node, binary(Binary::Mul), curve, alpha)?;
    let low = two(node, binary(Binary::Min), scaled, zero)?;
    let high = one(node, Op::Unary(Unary::Relu), x)?;
    node.emit(binary(Binary::Add), &[Some(high), Some(low)])
}

/// `x` where `x > alpha`, else 0.
pub(crate) fn thresholded_relu(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let (x, dtype) = float_operand(node)?;
    let alpha = node.attributes.float("alpha")?.unwrap_or(1.0);
    let (alpha, zero) = (number(node, dtype, alpha.into())?, number(node, dtype, 0.0)?);
    let above = two(node, Op::Compare(Compare::Greater), x, alpha)?;
    node.emit(Op::Where, &[Some(above), Some(x), Some(zero)])
}

/// `x + bias` where `x < -lambd`, `x - bias` where `x > lambd`, else 0.
pub(crate) fn shrink(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let (x, dtype) = float_operand(node)?;
    let limit = f64::from(node.attributes.float("lambd")?.unwrap_or(0.5));
    let bias = node.attributes.float("bias")?.unwrap_or(0.0);
    let (low, high) = (number(node, dtype, -limit)?, number(node, dtype, limit)?);
    let (bias, zero) = (number(node, dtype, bias.into())?, number(node, dtype, 0.0)?);
    let below = two(node, Op::Compare(Compare::Less), x, low)?;
    let above = two(node, Op::Compare(Compare::Greater), x, high)?;
    let (up, down) =
        (two(node, binary(Binary::Add), x, bias)?, two(node, binary(Binary::Sub), x, bias)?);
    let rest = choose(node, above, down, zero)?;
    node.emit(Op::Where, &[Some(below), Some(up), Some(rest)])
}

/// 1 at the first largest element along an axis, else 0.
pub(crate) fn hardmax(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let (x, dtype) = float_operand(node)?;
    let shape = node.shape(x);
    let mut axis = one_axis(node, if node.opset < 13 { 1 } else { -1 }, shape.len())?;
    node.reads_extents(x, 0..shape.len());
    let mut rows = x;
    // Before opset 13 all axes from this one on were taken together.
    let joined = node.opset < 13 && axis + 1 != shape.len();
    if joined {
        rows = one(node, Op::Flatten { axis }, x)?;
        axis = 1;
    }
    let flat = node.shape(rows);
    let arg = ArgExtreme { largest: true, axis, keep_dims: true, last: false };
    let top = one(node, Op::ArgExtreme(arg), rows)?;
    let positions = positions(node, flat[axis], flat.len() - axis - 1)?;
    let hits = two(node, Op::Compare(Compare::Equal), top, positions)?;
    if !joined {
        return node.emit(Op::Cast { to: dtype }, &[Some(hits)]);
    }
    let hits = one(node, Op::Cast { to: dtype }, hits)?;
    let shape = target(node, &flat, shape.to_vec())?;
    node.emit(Op::Reshape { shape }, &[Some(hits)])
}

/// The numbers `0, 1, …` as i64 along an axis with so many axes behind it.
pub(super) fn positions(
    node: &mut NodeContext<'_, '_>,
    extent: usize,
    inner: usize,
) -> Result<ValueId> {
    if !node.may_store(extent) {
        return Err(node.unsupported(format_args!("an axis with extent {extent}")));
    }
    let mut shape = vec![extent];
    shape.resize(1 + inner, 1);
    node.constant_before(Tensor::from_vec(&shape, (0_i64..).take(extent).collect())?)
}

pub(crate) fn is_nan(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let (x, _) = float_operand(node)?;
    let number = two(node, Op::Compare(Compare::Equal), x, x)?;
    node.emit(Op::Unary(Unary::Not), &[Some(number)])
}

pub(crate) fn is_inf(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let (x, dtype) = float_operand(node)?;
    let positive = node.attributes.flag("detect_positive", true)?;
    let negative = node.attributes.flag("detect_negative", true)?;
    let high = number(node, dtype, f64::INFINITY)?;
    let (x, wanted) = match (positive, negative) {
        (true, true) => (one(node, Op::Unary(Unary::Abs), x)?, high),
        (true, false) => (x, high),
        (false, true) => (x, number(node, dtype, f64::NEG_INFINITY)?),
        // No number is infinite and not a number.
        (false, false) => (x, number(node, dtype, f64::NAN)?),
    };
    node.emit(Op::Compare(Compare::Equal), &[Some(x), Some(wanted)])
}

/// The rest of a division of integers: with the sign of the divisor, or with `fmod` of the
/// dividend.
pub(crate) fn modulo(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let (a, b) = (node.operand(0)?, node.operand(1)?);
    let truncated = node.attributes.flag("fmod", false)?;
    let dtype = node.dtype(a);
    if dtype.is_float() {
        return Err(node.unsupported("operands of floats"));
    }
    let quotient = two(node, binary(Binary::Div), a, b)?;
    let whole = two(node, binary(Binary::Mul), quotient, b)?;
    if truncated {
        return node.emit(binary(Binary::Sub), &[Some(a), Some(whole)]);
    }
    let rest = two(node, binary(Binary::Sub), a, whole)?;
    let zero = number(node, dtype, 0.0)?;
    let negative =
        |node: &mut NodeContext<'_, '_>, value| two(node, Op::Compare(Compare::Less), value, zero);
    let (rest_negative, divisor_negative) = (negative(node, rest)?, negative(node, b)?);
    let differ = two(node, Op::Logic(Logic::Xor), rest_negative, divisor_negative)?;
    let exact = two(node, Op::Compare(Compare::Equal), rest, zero)?;
    let inexact = one(node, Op::Unary(Unary::Not), exact)?;
    let moves = two(node, Op::Logic(Logic::And), differ, inexact)?;
    // The signs differ, so this does not overflow.
    let moved = two(node, binary(Binary::Add), rest, b)?;
    node.emit(Op::Where, &[Some(moves), Some(moved), Some(rest)])
}
