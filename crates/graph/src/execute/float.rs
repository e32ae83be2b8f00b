//! f32 arithmetic.
//!
//! Sums start at 0 and run in the order stated at [`convolve`] and [`multiply`]; a bias is added
//! last. Functions such as exponentials, reductions along axes and normalisations compute in f64
//! and round once; integers wrap, and their quotients are truncated. Quantisers compute
//! `round(x / scale) + zero` in f32 like ONNX's reference.

pub(in crate::execute) mod elementwise;
mod integers;
mod narrow;
mod normalise;
mod numeric;
mod recurrent;
mod reduce;

use super::movement::{cast, cast_unbounded, move_tensor};
use super::resize::interpolate;
use super::transposed::convolve_transposed;
use super::window::{Number, convolve, each_position, multiply, product_of};
use super::{Arithmetic, operand, unsupported};
use crate::quantiser::Scalar;
use crate::{
    BatchNorm, Conv, ConvTranspose, Gemm, Graph, Node, Op, Pool, PoolKind, Quantiser, Resize, Value,
};
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::{Overflow, Rounding};
use quincunx_tensor::{DType, Element, Tensor, View};
use recurrent::recurrent;

/// Largest number of elements of one result: 512 MiB of f32.
pub(super) const MAX_ELEMENTS: usize = 1 << 27;

/// Tag of the f32 executor.
pub(super) struct Float;

impl Arithmetic for Float {
    type Tensor = Tensor;
    const MAX_ELEMENTS: usize = MAX_ELEMENTS;
    const BYTES: u64 = 4;

    fn input(tensor: &Tensor) -> Result<Tensor> {
        Ok(tensor.clone())
    }

    fn constant(value: &Value) -> Result<Tensor> {
        let constant = value.constant.as_ref().ok_or_else(|| Diagnostic::bug("not a constant"))?;
        match &constant.quantiser {
            Some(quantiser) => from_codes(quantiser, &constant.tensor),
            None => Ok(constant.tensor.clone()),
        }
    }

    #[deny(clippy::wildcard_enum_match_arm)]
    fn apply(graph: &Graph, node: &Node, operands: &[Option<&Tensor>]) -> Result<Tensor> {
        if narrow::needs_widening(node, operands) {
            return narrow::apply_wide(graph, node, operands);
        }
        let shape = &graph[node.output].shape;
        let x = operand(operands, 0)?;
        match &node.op {
            Op::Identity
            | Op::Flatten { .. }
            | Op::Reshape { .. }
            | Op::Transpose { .. }
            | Op::Concat { .. }
            | Op::Slice { .. }
            | Op::Pad(_)
            | Op::Gather { .. }
            | Op::Expand { .. }
            | Op::Tile { .. } => move_tensor(node, operands, shape),
            Op::Resize(resize) if resize.is_nearest() => move_tensor(node, operands, shape),
            Op::Resize(resize) => resize_f32(resize, x, shape),
            Op::Cast { to } => cast(x, *to),
            Op::CastUnbounded { to } => cast_unbounded(x, *to),
            Op::ConvTranspose(conv) => conv_transpose(conv, operands, shape),
            Op::Recurrent(layer) => recurrent(layer, operands, shape),
            Op::Conv(conv) if x.dtype() == DType::I32 => {
                integers::convolution(conv, operands, shape)
            }
            Op::Conv(conv) => conv2(conv, operands, shape),
            Op::Gemm(gemm) => gemm_f32(gemm, operands, shape),
            Op::MatMul if x.dtype() != DType::F32 => integers::matrix_product(operands, shape),
            Op::MatMul => matmul(operands, shape),
            Op::Pool(pool) => pool_f32(pool, x, shape),
            Op::GlobalAveragePool => global_average(x, shape),
            Op::BatchNorm(norm) => batch_norm(norm, operands),
            Op::Unary(unary) => elementwise::unary(*unary, x),
            Op::Binary(binary) => elementwise::binary(*binary, operands, shape),
            Op::Activation(activation) => elementwise::activation(*activation, x),
            Op::PRelu => elementwise::prelu(x, operand(operands, 1)?),
            Op::Compare(compare) => elementwise::compare(*compare, operands, shape),
            Op::Logic(logic) => elementwise::logic(*logic, operands, shape),
            Op::Where => elementwise::choose(operands, shape),
            Op::GlobalMaxPool => reduce::global_max(x, shape),
            Op::Reduce(reduce) => reduce::reduce(reduce, x, shape),
            Op::ArgExtreme(arg) => reduce::arg_extreme(arg, x, shape),
            Op::Softmax(softmax) => reduce::softmax(softmax, x),
            Op::LayerNorm(norm) => normalise::layer_norm(norm, operands),
            Op::InstanceNorm(norm) => normalise::instance_norm(norm, operands),
            Op::Lrn(lrn) => normalise::local_response(lrn, x),
            Op::Quantise(quantiser) => from_codes(quantiser, &to_codes(quantiser, x)?),
            Op::ToCodes(quantiser) => {
                let codes = to_codes(quantiser, x)?;
                cast_codes(&codes, graph[node.output].dtype)
            }
            Op::FromCodes(quantiser) => from_codes(quantiser, x),
        }
    }
}

impl Number for f32 {
    fn zero() -> Self {
        0.0
    }

    fn multiply_add(&mut self, a: &Self, b: &Self) {
        *self += a * b;
    }
}

/// The f32 elements, or a diagnostic that names the type found.
pub(super) fn floats(tensor: &Tensor) -> Result<std::borrow::Cow<'_, [f32]>> {
    if tensor.dtype() == DType::F32 {
        return tensor.values::<f32>();
    }
    Err(unsupported(format!("computing with {} is not supported, expected f32", tensor.dtype())))
}

fn broadcast<'a>(values: &'a [f32], from: &[usize], to: &[usize]) -> Result<View<'a, f32>> {
    View::new(values, from)
        .broadcast(to)
        .ok_or_else(|| Diagnostic::bug("operands do not broadcast after inference"))
}

fn conv2(conv: &Conv, operands: &[Option<&Tensor>], shape: &[usize]) -> Result<Tensor> {
    let (x, w) = (operand(operands, 0)?, operand(operands, 1)?);
    let mut out = convolve(conv, &floats(x)?, x.shape(), &floats(w)?, w.shape(), shape);
    add_bias(&mut out, operands.get(2).copied().flatten(), shape)?;
    Tensor::from_vec(shape, out)
}

fn conv_transpose(
    conv: &ConvTranspose,
    operands: &[Option<&Tensor>],
    shape: &[usize],
) -> Result<Tensor> {
    let (x, w) = (operand(operands, 0)?, operand(operands, 1)?);
    let mut out = convolve_transposed(conv, &floats(x)?, x.shape(), &floats(w)?, w.shape(), shape);
    add_bias(&mut out, operands.get(2).copied().flatten(), shape)?;
    Tensor::from_vec(shape, out)
}

/// Adds a number to every channel.
fn add_bias(out: &mut [f32], bias: Option<&Tensor>, shape: &[usize]) -> Result<()> {
    let Some(bias) = bias else {
        return Ok(());
    };
    let bias = floats(bias)?;
    let plane: usize = shape[2..].iter().product();
    for (index, plane) in out.chunks_mut(plane.max(1)).enumerate() {
        plane.iter_mut().for_each(|v| *v += bias[index % bias.len()]);
    }
    Ok(())
}

fn resize_f32(resize: &Resize, x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    let fill = resize.extrapolation();
    let values = interpolate(resize, &floats(x)?, x.shape(), shape, |v| v as f32, &fill);
    Tensor::from_vec(shape, values)
}

fn gemm_f32(gemm: &Gemm, operands: &[Option<&Tensor>], shape: &[usize]) -> Result<Tensor> {
    let (a, b) = (operand(operands, 0)?, operand(operands, 1)?);
    let a = if gemm.transpose_a { transpose(a, &[1, 0])? } else { a.clone() };
    let b = if gemm.transpose_b { transpose(b, &[1, 0])? } else { b.clone() };
    let product = product_of(a.shape(), b.shape(), shape);
    let mut out = multiply(&product, &floats(&a)?, &floats(&b)?);
    if gemm.alpha != 1.0 {
        out.iter_mut().for_each(|v| *v *= gemm.alpha);
    }
    if let Some(c) = operands.get(2).copied().flatten() {
        let values = floats(c)?;
        for (v, c) in out.iter_mut().zip(broadcast(&values, c.shape(), shape)?.iter()) {
            *v += gemm.beta * c;
        }
    }
    Tensor::from_vec(shape, out)
}

fn matmul(operands: &[Option<&Tensor>], shape: &[usize]) -> Result<Tensor> {
    let (a, b) = (operand(operands, 0)?, operand(operands, 1)?);
    let product = product_of(a.shape(), b.shape(), shape);
    Tensor::from_vec(shape, multiply(&product, &floats(a)?, &floats(b)?))
}

fn pool_f32(pool: &Pool, x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    let values = floats(x)?;
    let planes = shape[0] * shape[1];
    let plane: usize = x.shape()[2..].iter().product();
    let positions: usize = shape[2..].iter().product();
    let mut out = vec![0.0; planes * positions];
    let padded = pool.divisors(&x.shape()[2..], &shape[2..]);
    each_position(&pool.window, &x.shape()[2..], &shape[2..], |position, taps| {
        for p in 0..planes {
            let x = &values[p * plane..][..plane];
            let elements = taps.inside.iter().map(|&(source, _)| x[source]);
            out[p * positions + position] = match pool.kind {
                PoolKind::Max => {
                    elements.fold(f32::NEG_INFINITY, |a, b| if b > a || b.is_nan() { b } else { a })
                }
                PoolKind::Average { .. } => elements.sum::<f32>() / padded[position] as f32,
            };
        }
    });
    Tensor::from_vec(shape, out)
}

fn global_average(x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    let plane: usize = x.shape()[2..].iter().product();
    let out = floats(x)?.chunks(plane).map(|p| p.iter().sum::<f32>() / plane as f32).collect();
    Tensor::from_vec(shape, out)
}

fn batch_norm(norm: &BatchNorm, operands: &[Option<&Tensor>]) -> Result<Tensor> {
    let x = operand(operands, 0)?;
    let parameters: Vec<_> =
        (1..5).map(|i| floats(operand(operands, i)?)).collect::<Result<_>>()?;
    let [scale, bias, mean, variance] = &parameters[..] else {
        return Err(Diagnostic::bug("a batch normalisation has four parameters"));
    };
    let plane: usize = x.shape()[2..].iter().product();
    let mut out = floats(x)?.into_owned();
    for (index, plane) in out.chunks_mut(plane.max(1)).enumerate() {
        let c = index % scale.len();
        let factor = scale[c] / (variance[c] + norm.epsilon).sqrt();
        plane.iter_mut().for_each(|v| *v = (*v - mean[c]) * factor + bias[c]);
    }
    Tensor::from_vec(x.shape(), out)
}

fn transpose(x: &Tensor, order: &[usize]) -> Result<Tensor> {
    fn typed<T: Element>(x: &Tensor, order: &[usize]) -> Result<Tensor> {
        let values = x.values::<T>()?;
        let view = View::new(&values, x.shape()).permute(order);
        Tensor::from_vec(view.shape(), view.to_vec())
    }
    match x.dtype() {
        DType::Bool => Err(unsupported("transposing bool is not supported")),
        DType::I8 => typed::<i8>(x, order),
        DType::I16 => typed::<i16>(x, order),
        DType::I32 => typed::<i32>(x, order),
        DType::I64 => typed::<i64>(x, order),
        DType::U8 => typed::<u8>(x, order),
        DType::U16 => typed::<u16>(x, order),
        DType::U32 => typed::<u32>(x, order),
        DType::U64 => typed::<u64>(x, order),
        DType::F32 => typed::<f32>(x, order),
        DType::F64 => typed::<f64>(x, order),
        DType::Narrow(_) => transpose(&x.widen(), order),
    }
}

/// Codes of f32 numbers, as i64.
fn to_codes(quantiser: &Quantiser, x: &Tensor) -> Result<Tensor> {
    let scalars = scalars(quantiser, x.shape())?;
    let codes = floats(x)?.iter().zip(&scalars).map(|(&x, scalar)| code_of(x, scalar)).collect();
    Tensor::from_vec::<i64>(x.shape(), codes)
}

fn code_of(x: f32, scalar: &Scalar) -> i64 {
    let steps = round(x / scalar.scale as f32, scalar.rounding);
    let (low, high) = scalar.range();
    let (low, high) =
        [low, high].map(|end| i128::try_from(end).expect("codes have at most 64 bits")).into();
    // NaN becomes 0 and infinities saturate, as in a cast.
    let code = (steps as i128).saturating_add(i128::from(scalar.zero));
    let code = match scalar.overflow {
        Overflow::Wrap => low + (code - low).rem_euclid(high - low + 1),
        Overflow::Saturate | Overflow::SaturateNarrow => code.clamp(low, high),
    };
    // Unsigned 64-bit codes keep their bits.
    code as i64
}

fn round(x: f32, rounding: Rounding) -> f32 {
    // A whole number beside an f32 is one too.
    rounding.whole(f64::from(x)) as f32
}

fn from_codes(quantiser: &Quantiser, codes: &Tensor) -> Result<Tensor> {
    let scalars = scalars(quantiser, codes.shape())?;
    let codes_i64 =
        codes.to_i64().ok_or_else(|| unsupported("codes above 2^63 are not supported in f32"))?;
    let reals = codes_i64
        .iter()
        .zip(&scalars)
        .map(|(&code, scalar)| (code.wrapping_sub(scalar.zero)) as f32 * scalar.scale as f32);
    Tensor::from_vec(codes.shape(), reals.collect::<Vec<f32>>())
}

pub(super) fn cast_codes(codes: &Tensor, dtype: DType) -> Result<Tensor> {
    let values = codes.values::<i64>()?;
    let shape = codes.shape();
    match dtype {
        DType::I8 => Tensor::from_vec(shape, values.iter().map(|&v| v as i8).collect()),
        DType::I16 => Tensor::from_vec(shape, values.iter().map(|&v| v as i16).collect()),
        DType::I32 => Tensor::from_vec(shape, values.iter().map(|&v| v as i32).collect()),
        DType::I64 => Ok(codes.clone()),
        DType::U8 => Tensor::from_vec(shape, values.iter().map(|&v| v as u8).collect()),
        DType::U16 => Tensor::from_vec(shape, values.iter().map(|&v| v as u16).collect()),
        DType::U32 => Tensor::from_vec(shape, values.iter().map(|&v| v as u32).collect()),
        DType::U64 => Tensor::from_vec(shape, values.iter().map(|&v| v as u64).collect()),
        DType::Bool | DType::F32 | DType::F64 | DType::Narrow(_) => {
            Err(Diagnostic::bug("codes are standard integers"))
        }
    }
}

fn scalars(quantiser: &Quantiser, shape: &[usize]) -> Result<Vec<Scalar>> {
    quantiser
        .scalars(shape)
        .ok_or_else(|| Diagnostic::bug("a quantiser does not broadcast after inference"))
}
