//! Exact results of operators on single elements.

use super::{ExactTensor, common_unit, divide, unsupported};
use crate::{Activation, Binary, Compare, Logic, Unary};
use quincunx_diag::Result;
use quincunx_num::{Dyadic, Int, Overflow, Ratio, Rounding, round_quotient};
use quincunx_tensor::DType;

/// Exact value of a parameter.
pub(super) fn parameter(value: f32) -> Result<Ratio> {
    Dyadic::from_f64(f64::from(value))
        .map(|d| d.to_ratio())
        .ok_or_else(|| unsupported(format!("{value} is not an exact number")))
}

/// A function of every number as a fraction.
fn map(x: &ExactTensor, function: impl Fn(&Ratio) -> Ratio) -> ExactTensor {
    from_fractions(&x.shape, x.integers.iter().map(|v| function(&fraction(v, &x.unit))).collect())
}

fn fraction(integer: &Int, unit: &Ratio) -> Ratio {
    Ratio::from(integer.clone()) * unit
}

pub(super) fn from_fractions(shape: &[usize], fractions: Vec<Ratio>) -> ExactTensor {
    let unit = |v: &Ratio| Ratio::from_parts(Int::ONE, v.denominator().clone());
    let units: Vec<Ratio> = fractions.iter().map(unit).collect();
    let integers = fractions.iter().map(|v| v.numerator().clone()).collect();
    ExactTensor::from_units(shape, integers, &units)
}

/// Integers of an integer type wrap; everything else stays.
pub(super) fn wrapped(result: ExactTensor, dtype: DType) -> ExactTensor {
    let full = 8 * u32::try_from(dtype.size()).unwrap_or(8);
    let (signed, width) = match dtype {
        DType::Bool | DType::F32 | DType::F64 => return result,
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => (true, full),
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => (false, full),
        DType::Narrow(narrow) => match narrow.signed() {
            Some(signed) => (signed, narrow.bits()),
            None => return result,
        },
    };
    let integers = result.integers.iter().map(|v| Overflow::Wrap.apply(v, signed, width)).collect();
    ExactTensor { integers, ..result }
}

pub(super) fn unary(unary: Unary, x: &ExactTensor) -> Result<ExactTensor> {
    let each = |function: fn(&Int) -> Int| {
        ExactTensor::new(&x.shape, x.integers.iter().map(function).collect(), x.unit.clone())
    };
    Ok(match unary {
        Unary::Relu => each(|v| v.max(&Int::ZERO).clone()),
        Unary::Neg => each(|v| -v),
        Unary::Abs => each(|v| if v < &Int::ZERO { -v } else { v.clone() }),
        Unary::Sign => ExactTensor { unit: Ratio::ONE, ..each(|v| v.cmp(&Int::ZERO).into_sign()) },
        Unary::Not => each(|v| if v == &Int::ZERO { Int::ONE } else { Int::ZERO }),
        Unary::Floor => rounded(x, Rounding::Floor),
        Unary::Ceil => rounded(x, Rounding::Ceil),
        Unary::Round => rounded(x, Rounding::HalfEven),
        Unary::Reciprocal => {
            let ones = vec![Int::ONE; x.integers.len()];
            divide(&ExactTensor::new(&x.shape, ones, Ratio::ONE), x)?
        }
        Unary::HardSwish => {
            let slope = parameter(Activation::HARD_SWISH_SLOPE)?;
            let half = Ratio::from_parts(Int::ONE, 2_u8.into());
            map(x, |v| v * hard_sigmoid(v, &slope, &half))
        }
        Unary::Sqrt
        | Unary::Exp
        | Unary::Log
        | Unary::Erf
        | Unary::Sigmoid
        | Unary::Tanh
        | Unary::Gelu
        | Unary::GeluTanh
        | Unary::Softplus
        | Unary::Sin
        | Unary::Cos
        | Unary::Tan
        | Unary::Atan => return Err(no_exact_result(unary.name())),
    })
}

/// The sign as a number.
trait IntoSign {
    fn into_sign(self) -> Int;
}

impl IntoSign for std::cmp::Ordering {
    fn into_sign(self) -> Int {
        Int::from(self as i8)
    }
}

/// An operator whose results are not fractions.
pub(super) fn no_exact_result(name: &str) -> quincunx_diag::Diagnostic {
    unsupported(format!("{name} has no exact result"))
        .help("the f32 executor computes it; for a bit-exact network, replace it by a quantised operator or table")
}

fn rounded(x: &ExactTensor, rounding: Rounding) -> ExactTensor {
    let (numerator, denominator) = (x.unit.numerator(), Int::from(x.unit.denominator().clone()));
    let round = |v: &Int| round_quotient(&(v * numerator), &denominator, rounding);
    ExactTensor::new(&x.shape, x.integers.iter().map(round).collect(), Ratio::ONE)
}

fn hard_sigmoid(x: &Ratio, alpha: &Ratio, beta: &Ratio) -> Ratio {
    (alpha * x + beta).clamp(Ratio::ZERO, Ratio::ONE)
}

pub(super) fn activation(activation: Activation, x: &ExactTensor) -> Result<ExactTensor> {
    Ok(match activation {
        Activation::LeakyRelu { alpha } => {
            let alpha = parameter(alpha)?;
            map(x, |v| leaky(v, &alpha))
        }
        Activation::HardSigmoid { alpha, beta } => {
            let (alpha, beta) = (parameter(alpha)?, parameter(beta)?);
            map(x, |v| hard_sigmoid(v, &alpha, &beta))
        }
        Activation::Clip { min, max } => {
            let min = limit(min, f32::NEG_INFINITY)?;
            let max = limit(max, f32::INFINITY)?;
            map(x, |v| {
                let raised = min.as_ref().map_or(v, |min| v.max(min));
                max.as_ref().map_or(raised, |max| raised.min(max)).clone()
            })
        }
        Activation::Elu { .. } | Activation::Selu { .. } => {
            return Err(no_exact_result(activation.name()));
        }
    })
}

/// A limit of a clip; the infinity on its side is none.
fn limit(limit: Option<f32>, none: f32) -> Result<Option<Ratio>> {
    limit.filter(|&limit| limit != none).map(parameter).transpose()
}

fn leaky(x: &Ratio, slope: &Ratio) -> Ratio {
    if x < &Ratio::ZERO { x * slope } else { x.clone() }
}

pub(super) fn prelu(x: &ExactTensor, slope: &ExactTensor) -> Result<ExactTensor> {
    let slope = slope.broadcast(&x.shape)?;
    let results = x.integers.iter().zip(&slope.integers);
    let results = results.map(|(v, s)| leaky(&fraction(v, &x.unit), &fraction(s, &slope.unit)));
    Ok(from_fractions(&x.shape, results.collect()))
}

/// Two operands in one unit and shape.
fn aligned(
    a: &ExactTensor,
    b: &ExactTensor,
    shape: &[usize],
) -> Result<(Vec<Int>, Vec<Int>, Ratio)> {
    let unit = common_unit(&a.unit, &b.unit);
    Ok((a.broadcast(shape)?.with_unit(&unit), b.broadcast(shape)?.with_unit(&unit), unit))
}

pub(super) fn compare(
    compare: Compare,
    a: &ExactTensor,
    b: &ExactTensor,
    shape: &[usize],
) -> Result<ExactTensor> {
    let (a, b, _) = aligned(a, b, shape)?;
    let found = a.iter().zip(&b).map(|(a, b)| Int::from(u8::from(compare.holds(a, b)))).collect();
    Ok(ExactTensor::new(shape, found, Ratio::ONE))
}

pub(super) fn logic(
    logic: Logic,
    a: &ExactTensor,
    b: &ExactTensor,
    shape: &[usize],
) -> Result<ExactTensor> {
    let (a, b, _) = aligned(a, b, shape)?;
    let holds = |a: &Int, b: &Int| logic.holds(a != &Int::ZERO, b != &Int::ZERO);
    let found = a.iter().zip(&b).map(|(a, b)| Int::from(u8::from(holds(a, b)))).collect();
    Ok(ExactTensor::new(shape, found, Ratio::ONE))
}

pub(super) fn choose(
    condition: &ExactTensor,
    yes: &ExactTensor,
    no: &ExactTensor,
    shape: &[usize],
) -> Result<ExactTensor> {
    let condition = condition.broadcast(shape)?;
    let (yes, no, unit) = aligned(yes, no, shape)?;
    let pick = |(c, (yes, no)): (&Int, (Int, Int))| if c == &Int::ZERO { no } else { yes };
    let chosen = condition.integers.iter().zip(yes.into_iter().zip(no)).map(pick).collect();
    Ok(ExactTensor::new(shape, chosen, unit))
}

/// Quotients of integers, truncated.
pub(super) fn divide_integers(
    a: &ExactTensor,
    b: &ExactTensor,
    shape: &[usize],
) -> Result<ExactTensor> {
    let (a, b, _) = aligned(a, b, shape)?;
    if b.contains(&Int::ZERO) {
        return Err(unsupported("division of integers by zero"));
    }
    let quotients = a.iter().zip(&b).map(|(a, b)| a / b).collect();
    Ok(ExactTensor::new(shape, quotients, Ratio::ONE))
}

/// The unit of products of `count` numbers.
pub(super) fn unit_power(unit: &Ratio, count: usize) -> Ratio {
    Ratio::from_parts(unit.numerator().pow(count), unit.denominator().pow(count))
}

/// Largest exponent of an exact power; results grow by as many times the width of the base.
const MAX_EXPONENT: usize = 64;

/// Powers with one whole exponent from 0 to [`MAX_EXPONENT`].
pub(super) fn power(
    base: &ExactTensor,
    exponent: &ExactTensor,
    shape: &[usize],
) -> Result<ExactTensor> {
    let whole = |v: &Int| {
        let v = fraction(v, &exponent.unit);
        let v = usize::try_from(v.numerator()).ok().filter(|_| v.is_int());
        v.filter(|&v| v <= MAX_EXPONENT)
    };
    let exponents: Option<Vec<usize>> = exponent.integers.iter().map(whole).collect();
    match exponents.as_deref() {
        Some([first, rest @ ..]) if rest.iter().all(|other| other == first) => {
            let base = base.broadcast(shape)?;
            let powers = base.integers.iter().map(|v| v.pow(*first)).collect();
            Ok(ExactTensor::new(shape, powers, unit_power(&base.unit, *first)))
        }
        _ => Err(no_exact_result(Binary::Pow.name())
            .help(format!("one whole exponent from 0 to {MAX_EXPONENT} has one"))),
    }
}
