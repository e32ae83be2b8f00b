//! Operators on single elements, for every element type.

#![deny(clippy::wildcard_enum_match_arm)]

use super::numeric::{Numeric, map_real, real_tensor, truth_as_numbers, truth_tensor, with_number};
use super::{operand, unsupported};
use crate::execute::special;
use crate::execute::special::{gelu, gelu_tanh, sigmoid, softplus};
use crate::{Activation, Binary, Compare, Logic, Unary};
use quincunx_diag::{Diagnostic, Result};
use quincunx_tensor::{DType, Element, Tensor, View};

#[expect(clippy::wildcard_enum_match_arm, reason = "`real_unary` knows every other one")]
pub(super) fn unary(unary: Unary, x: &Tensor) -> Result<Tensor> {
    match unary {
        Unary::Relu => {
            with_number!(x.dtype(), T => map::<T>(x, |v| if v < T::ZERO { T::ZERO } else { v }))
        }
        Unary::Neg => with_number!(x.dtype(), T => map::<T>(x, Numeric::neg)),
        Unary::Abs => with_number!(x.dtype(), T => map::<T>(x, Numeric::abs)),
        Unary::Sign => with_number!(x.dtype(), T => map::<T>(x, Numeric::sign)),
        Unary::Not => truth_tensor(x.shape(), x.bytes().iter().map(|&v| v == 0)),
        _ => match real_unary(unary) {
            Some(function) => map_real(x, function),
            None => Err(Diagnostic::bug("a function of elements is known")),
        },
    }
}

/// The function of an operator that is computed in f64 and rounded once; `None` for the others.
pub fn real_unary(unary: Unary) -> Option<fn(f64) -> f64> {
    Some(match unary {
        Unary::Relu | Unary::Neg | Unary::Abs | Unary::Sign | Unary::Not => return None,
        Unary::Sqrt => f64::sqrt,
        Unary::Reciprocal => f64::recip,
        Unary::Exp => f64::exp,
        Unary::Log => f64::ln,
        Unary::Erf => special::erf,
        Unary::Floor => f64::floor,
        Unary::Ceil => f64::ceil,
        Unary::Round => f64::round_ties_even,
        Unary::Sigmoid => sigmoid,
        Unary::HardSwish => hard_swish,
        Unary::Tanh => f64::tanh,
        Unary::Gelu => gelu,
        Unary::GeluTanh => gelu_tanh,
        Unary::Softplus => softplus,
        Unary::Sin => f64::sin,
        Unary::Cos => f64::cos,
        Unary::Tan => f64::tan,
        Unary::Atan => f64::atan,
    })
}

fn map<T: Numeric>(x: &Tensor, function: impl Fn(T) -> T) -> Result<Tensor> {
    Tensor::from_vec(x.shape(), x.values::<T>()?.iter().map(|&v| function(v)).collect())
}

fn hard_sigmoid(x: f64, alpha: f32, beta: f32) -> f64 {
    (f64::from(alpha) * x + f64::from(beta)).clamp(0.0, 1.0)
}

fn hard_swish(x: f64) -> f64 {
    x * hard_sigmoid(x, Activation::HARD_SWISH_SLOPE, 0.5)
}

pub(super) fn activation(activation: Activation, x: &Tensor) -> Result<Tensor> {
    map_real(x, |v| real_activation(activation, v))
}

/// The activation of one number, in f64.
pub fn real_activation(activation: Activation, v: f64) -> f64 {
    match activation {
        Activation::LeakyRelu { alpha } => {
            if v < 0.0 {
                f64::from(alpha) * v
            } else {
                v
            }
        }
        Activation::Elu { alpha } => {
            if v < 0.0 {
                f64::from(alpha) * v.exp_m1()
            } else {
                v
            }
        }
        Activation::Selu { alpha, gamma } => {
            f64::from(gamma) * if v > 0.0 { v } else { f64::from(alpha) * v.exp_m1() }
        }
        Activation::HardSigmoid { alpha, beta } => hard_sigmoid(v, alpha, beta),
        Activation::Clip { min, max } => {
            let min = min.map_or(f64::NEG_INFINITY, f64::from);
            let max = max.map_or(f64::INFINITY, f64::from);
            // NaN stays NaN.
            if v.is_nan() { v } else { v.max(min).min(max) }
        }
    }
}

pub(super) fn prelu(x: &Tensor, slope: &Tensor) -> Result<Tensor> {
    let slopes = slope.to_f64();
    let slopes = broadcast(&slopes, slope.shape(), x.shape())?;
    let result = x
        .to_f64()
        .iter()
        .zip(slopes.iter())
        .map(|(&x, s)| if x < 0.0 { s * x } else { x })
        .collect();
    real_tensor(x.dtype(), x.shape(), result)
}

pub(super) fn binary(
    binary: Binary,
    operands: &[Option<&Tensor>],
    shape: &[usize],
) -> Result<Tensor> {
    let (a, b) = (operand(operands, 0)?, operand(operands, 1)?);
    if binary == Binary::Pow {
        return with_number!(a.dtype(), T => power::<T>(a, b, shape));
    }
    if binary == Binary::Div && b.to_i64().is_some_and(|divisors| divisors.contains(&0)) {
        return Err(unsupported("division of integers by zero"));
    }
    with_number!(a.dtype(), T => {
        let function = binary_function::<T>(binary)?;
        Tensor::from_vec(shape, zip::<T, T>(a, b, shape, function)?)
    })
}

fn binary_function<T: Numeric>(binary: Binary) -> Result<fn(T, T) -> T> {
    Ok(match binary {
        Binary::Add => T::add,
        Binary::Sub => T::sub,
        Binary::Mul => T::mul,
        Binary::Div => T::div,
        Binary::Max => T::larger,
        Binary::Min => T::smaller,
        Binary::Pow => return Err(Diagnostic::bug("powers have a function of their own")),
    })
}

/// A function of every pair of elements.
fn zip<T: Element, R>(
    a: &Tensor,
    b: &Tensor,
    shape: &[usize],
    function: impl Fn(T, T) -> R,
) -> Result<Vec<R>> {
    let (x, y) = (a.values::<T>()?, b.values::<T>()?);
    if a.shape() == b.shape() {
        return Ok(x.iter().zip(&*y).map(|(&x, &y)| function(x, y)).collect());
    }
    let x = broadcast(&x, a.shape(), shape)?;
    let y = broadcast(&y, b.shape(), shape)?;
    Ok(x.iter().zip(y.iter()).map(|(x, y)| function(x, y)).collect())
}

/// The exponent is converted to f64, whatever its type.
fn power<T: Numeric>(a: &Tensor, b: &Tensor, shape: &[usize]) -> Result<Tensor> {
    let (bases, exponents) = (a.values::<T>()?, b.to_f64());
    let bases = broadcast(&bases, a.shape(), shape)?;
    let exponents = broadcast(&exponents, b.shape(), shape)?;
    Tensor::from_vec(shape, bases.iter().zip(exponents.iter()).map(|(a, b)| a.power(b)).collect())
}

fn broadcast<'a, T: Clone>(values: &'a [T], from: &[usize], to: &[usize]) -> Result<View<'a, T>> {
    View::new(values, from)
        .broadcast(to)
        .ok_or_else(|| Diagnostic::bug("operands do not broadcast after inference"))
}

pub(super) fn compare(
    compare: Compare,
    operands: &[Option<&Tensor>],
    shape: &[usize],
) -> Result<Tensor> {
    let (a, b) = (operand(operands, 0)?, operand(operands, 1)?);
    if a.dtype() == DType::Bool {
        let (a, b) = (truth_as_numbers(a)?, truth_as_numbers(b)?);
        let found = zip::<u8, bool>(&a, &b, shape, |a, b| compare.holds(&a, &b))?;
        return truth_tensor(shape, found.into_iter());
    }
    with_number!(a.dtype(), T => {
        let found = zip::<T, bool>(a, b, shape, |a, b| compare.holds(&a, &b))?;
        truth_tensor(shape, found.into_iter())
    })
}

pub(super) fn logic(logic: Logic, operands: &[Option<&Tensor>], shape: &[usize]) -> Result<Tensor> {
    let a = truth_as_numbers(operand(operands, 0)?)?;
    let b = truth_as_numbers(operand(operands, 1)?)?;
    let found = zip::<u8, bool>(&a, &b, shape, |a, b| logic.holds(a != 0, b != 0))?;
    truth_tensor(shape, found.into_iter())
}

/// Chooses elements by their bytes, so that every type is the same.
pub(super) fn choose(operands: &[Option<&Tensor>], shape: &[usize]) -> Result<Tensor> {
    let condition = operand(operands, 0)?;
    let (yes, no) = (operand(operands, 1)?, operand(operands, 2)?);
    let positions = |tensor: &Tensor| (0..tensor.len()).collect::<Vec<usize>>();
    let (yes_positions, no_positions) = (positions(yes), positions(no));
    let conditions = broadcast(condition.bytes(), condition.shape(), shape)?;
    let from_yes = broadcast(&yes_positions, yes.shape(), shape)?;
    let from_no = broadcast(&no_positions, no.shape(), shape)?;
    let size = yes.dtype().size();
    let mut bytes = Vec::with_capacity(conditions.shape().iter().product::<usize>() * size);
    for ((condition, yes_at), no_at) in conditions.iter().zip(from_yes.iter()).zip(from_no.iter()) {
        let (source, at) = if condition != 0 { (yes, yes_at) } else { (no, no_at) };
        bytes.extend_from_slice(&source.bytes()[at * size..][..size]);
    }
    Tensor::new(yes.dtype(), shape, bytes.into())
}
