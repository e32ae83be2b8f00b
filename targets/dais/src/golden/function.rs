//! Functions of single numbers.

use super::{Fixed, exact};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::execute::real_unary;
use quincunx_graph::{Activation, Unary};
use quincunx_num::{Dyadic, Ratio, Rounding, round_ratio};
use quincunx_tensor::DType;

/// A number in the float type.
pub(super) fn rounded(value: &Ratio, dtype: DType) -> Ratio {
    match dtype {
        DType::F64 => exact(value.to_f64().value()),
        _ => exact(f64::from(value.to_f32().value())),
    }
}

/// A function of a number of the float type, rounded to it.
pub(super) fn in_f64(x: &Ratio, dtype: DType, function: impl Fn(f64) -> f64) -> Result<Ratio> {
    let result = function(rounded(x, dtype).to_f64().value());
    let result = if dtype == DType::F64 { result } else { f64::from(result as f32) };
    let exact = Dyadic::from_f64(result).map(|value| value.to_ratio());
    exact.ok_or_else(|| Diagnostic::invalid("Q1124", format!("{result} has no fixed-point code")))
}

/// A function that is applied to every number; true if its results are rounded.
fn map(x: &Fixed, float: bool, function: impl Fn(Ratio) -> Result<Ratio>) -> Result<Fixed> {
    let numbers: Vec<Ratio> = x.numbers().map(function).collect::<Result<_>>()?;
    Ok(Fixed::of(&x.shape, &numbers, float || x.float))
}

fn line(x: &Ratio, slope: f32, offset: f32) -> Ratio {
    exact(f64::from(slope)) * x + exact(f64::from(offset))
}

pub(super) fn unary(unary: Unary, x: &Fixed, dtype: DType) -> Result<Fixed> {
    let whole = |rounding| move |v: Ratio| Ok(Ratio::from(round_ratio(&v, rounding)));
    let float = |function: fn(f64) -> f64| map(x, true, |v| in_f64(&v, dtype, function));
    match unary {
        Unary::Relu => map(x, false, |v| Ok(v.max(Ratio::ZERO))),
        Unary::Neg => map(x, false, |v| Ok(-v)),
        Unary::Abs => map(x, false, |v| Ok(if v < Ratio::ZERO { -v } else { v })),
        Unary::Not => map(x, false, |v| Ok(Ratio::ONE - v)),
        Unary::Sign => map(x, false, |v| {
            Ok(match v.cmp(&Ratio::ZERO) {
                std::cmp::Ordering::Less => -Ratio::ONE,
                std::cmp::Ordering::Equal => Ratio::ZERO,
                std::cmp::Ordering::Greater => Ratio::ONE,
            })
        }),
        Unary::Floor => map(x, false, whole(Rounding::Floor)),
        Unary::Ceil => map(x, false, whole(Rounding::Ceil)),
        Unary::Round => map(x, false, whole(Rounding::HalfEven)),
        Unary::Reciprocal if x.float => float(|v| 1.0 / v),
        Unary::Reciprocal => map(x, false, |v| match v.is_zero() {
            true => Err(Diagnostic::invalid("Q1124", "a division by zero has no fixed-point code")),
            false => Ok(Ratio::ONE / v),
        }),
        Unary::HardSwish if x.float => {
            float(|v| v * (f64::from(1.0_f32 / 6.0) * v + 0.5).clamp(0.0, 1.0))
        }
        Unary::HardSwish => {
            map(x, false, |v| Ok(line(&v, 1.0 / 6.0, 0.5).clamp(Ratio::ZERO, Ratio::ONE) * v))
        }
        Unary::Sqrt => float(f64::sqrt),
        Unary::Exp => float(f64::exp),
        Unary::Log => float(f64::ln),
        Unary::Sigmoid => float(|v| 1.0 / (1.0 + (-v).exp())),
        Unary::Tanh => float(f64::tanh),
        Unary::Softplus => float(|v| v.max(0.0) + (-v.abs()).exp().ln_1p()),
        Unary::Sin => float(f64::sin),
        Unary::Cos => float(f64::cos),
        Unary::Tan => float(f64::tan),
        Unary::Atan => float(f64::atan),
        // The error function is defined by the graph; the standard library has none.
        Unary::Erf | Unary::Gelu | Unary::GeluTanh => {
            float(real_unary(unary).ok_or_else(|| Diagnostic::bug("a function of reals"))?)
        }
    }
}

pub(super) fn activation(activation: Activation, x: &Fixed, dtype: DType) -> Result<Fixed> {
    let exponential = |v: f64, alpha: f32| f64::from(alpha) * v.exp_m1();
    match activation {
        Activation::LeakyRelu { alpha } => {
            map(x, false, |v| Ok(if v < Ratio::ZERO { line(&v, alpha, 0.0) } else { v }))
        }
        Activation::Clip { min, max } => {
            let finite = |limit: Option<f32>| limit.filter(|limit| limit.is_finite());
            let (min, max) = (finite(min).map(f64::from), finite(max).map(f64::from));
            map(x, false, |v| {
                let raised = min.map_or(v.clone(), |min| v.max(exact(min)));
                Ok(max.map_or(raised.clone(), |max| raised.min(exact(max))))
            })
        }
        Activation::HardSigmoid { alpha, beta } if x.float => map(x, true, |v| {
            let one = |v: f64| (f64::from(alpha) * v + f64::from(beta)).clamp(0.0, 1.0);
            in_f64(&v, dtype, one)
        }),
        Activation::HardSigmoid { alpha, beta } => {
            map(x, false, |v| Ok(line(&v, alpha, beta).clamp(Ratio::ZERO, Ratio::ONE)))
        }
        Activation::Elu { alpha } => {
            map(x, true, |v| in_f64(&v, dtype, |v| if v < 0.0 { exponential(v, alpha) } else { v }))
        }
        Activation::Selu { alpha, gamma } => map(x, true, |v| {
            let inner = |v: f64| if v > 0.0 { v } else { exponential(v, alpha) };
            in_f64(&v, dtype, |v| f64::from(gamma) * inner(v))
        }),
    }
}

pub(super) fn prelu(x: &Fixed, slopes: &Fixed) -> Fixed {
    let one = |(position, v): (usize, Ratio)| match v < Ratio::ZERO {
        true => v * slopes.at(&super::index_of(position, &x.shape)),
        false => v,
    };
    let numbers: Vec<Ratio> = x.numbers().enumerate().map(one).collect();
    Fixed::of(&x.shape, &numbers, x.float)
}
