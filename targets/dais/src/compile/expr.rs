//! Functions of one number, and what they mean.
//!
//! Arithmetic on exact numbers is exact. A function without an exact result (exponentials, roots,
//! …) takes its operand in the float type of the network, computes in f64 and rounds once to that
//! type, as [`execute::float`](quincunx_graph::execute::float) does; from there on every further
//! operator rounds once. Its result is a binary fraction again, so every value has an exact code.

use quincunx_graph::execute::{real_activation, real_unary};
use quincunx_graph::{Activation, Binary, Unary};
use quincunx_num::{Dyadic, Int, Ratio, Rounding, round_ratio};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

/// The float type of the network's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Format {
    /// 32 bits.
    Single,
    /// 64 bits.
    Double,
}

/// A function of one number.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    /// `unit * x + offset`, exact.
    Line { unit: Ratio, offset: Ratio },
    /// A number of its own.
    Constant(Ratio),
    /// A number in the float type.
    Float(Format, Rc<Expr>),
    /// An operator on one number.
    Unary(Unary, Format, Rc<Expr>),
    /// An operator on one number with parameters.
    Activation(Activation, Format, Rc<Expr>),
    /// `x` where `x >= 0`, else a multiple of it.
    Leaky(Ratio, Format, Rc<Expr>),
    /// An operator on two numbers.
    Binary(Binary, Format, Rc<Expr>, Rc<Expr>),
}

// Parameters are compared as floats, but none is NaN.
impl Eq for Expr {}

impl Hash for Expr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Expr::Line { unit, offset } => (unit, offset).hash(state),
            Expr::Constant(value) => value.hash(state),
            Expr::Float(format, x) => (format, x).hash(state),
            Expr::Unary(unary, format, x) => (unary, format, x).hash(state),
            // Equal parameters may differ in the sign of zero.
            Expr::Activation(activation, format, x) => {
                (activation.name(), format, x).hash(state);
            }
            Expr::Leaky(slope, format, x) => (slope, format, x).hash(state),
            Expr::Binary(binary, format, a, b) => (binary, format, a, b).hash(state),
        }
    }
}

/// A value of a function.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Real {
    /// The number.
    pub(super) value: Ratio,
    /// It came from a function without an exact result: operators on it round.
    pub(super) float: bool,
}

/// Largest whole exponent of an exact power.
pub(super) const MAX_EXPONENT: u32 = 64;

impl Expr {
    /// The value at `x`.
    ///
    /// # Errors
    /// Words for what has no number: a division by zero, the logarithm of a negative number.
    pub(super) fn at(&self, x: &Ratio) -> Result<Real, String> {
        let exact = |value| Ok(Real { value, float: false });
        match self {
            Expr::Line { unit, offset } => exact(unit * x + offset),
            Expr::Constant(value) => exact(value.clone()),
            Expr::Float(format, of) => rounded(&of.at(x)?.value, *format),
            Expr::Unary(unary, format, of) => unary_at(*unary, *format, of.at(x)?),
            Expr::Activation(activation, format, of) => {
                activation_at(*activation, *format, of.at(x)?)
            }
            Expr::Leaky(slope, format, of) => {
                let of = of.at(x)?;
                match of.value < Ratio::ZERO {
                    true => settle(slope * &of.value, of.float, *format),
                    false => Ok(of),
                }
            }
            Expr::Binary(binary, format, a, b) => binary_at(*binary, *format, a.at(x)?, b.at(x)?),
        }
    }

    /// True when the function is exact everywhere.
    pub(super) fn is_exact(&self) -> bool {
        match self {
            Expr::Line { .. } | Expr::Constant(_) => true,
            Expr::Float(..) => false,
            Expr::Unary(unary, _, x) => is_exact_unary(*unary) && x.is_exact(),
            Expr::Activation(activation, _, x) => is_exact_activation(*activation) && x.is_exact(),
            Expr::Leaky(_, _, x) => x.is_exact(),
            Expr::Binary(Binary::Pow, _, a, b) => {
                matches!(&**b, Expr::Constant(power) if whole_power(power).is_some())
                    && a.is_exact()
            }
            Expr::Binary(_, _, a, b) => a.is_exact() && b.is_exact(),
        }
    }

    /// The operator that makes the function inexact, for a message.
    pub(super) fn culprit(&self) -> &'static str {
        match self {
            Expr::Line { .. } | Expr::Constant(_) => "Identity",
            Expr::Float(..) => "BatchNormalization",
            Expr::Unary(unary, _, x) if is_exact_unary(*unary) => x.culprit(),
            Expr::Unary(unary, ..) => unary.name(),
            Expr::Activation(activation, _, x) if is_exact_activation(*activation) => x.culprit(),
            Expr::Activation(activation, ..) => activation.name(),
            Expr::Leaky(_, _, x) => x.culprit(),
            Expr::Binary(binary, _, a, b) => match (a.is_exact(), b.is_exact()) {
                (false, _) => a.culprit(),
                (_, false) => b.culprit(),
                _ => binary.name(),
            },
        }
    }

    /// True when a larger operand never has a smaller value (`Some(true)`), or never a larger one
    /// (`Some(false)`). Rounding keeps the order.
    pub(super) fn order(&self) -> Option<bool> {
        let falls = |rises: Option<bool>| rises.map(|rises| !rises);
        match self {
            Expr::Line { unit, .. } => Some(unit >= &Ratio::ZERO),
            Expr::Constant(_) => Some(true),
            Expr::Float(_, x) => x.order(),
            Expr::Leaky(slope, _, x) => x.order().filter(|_| slope >= &Ratio::ZERO),
            Expr::Unary(unary, _, x) => match unary {
                Unary::Neg => falls(x.order()),
                Unary::Relu
                | Unary::Sign
                | Unary::Sqrt
                | Unary::Exp
                | Unary::Log
                | Unary::Erf
                | Unary::Floor
                | Unary::Ceil
                | Unary::Round
                | Unary::Sigmoid
                | Unary::Tanh
                | Unary::Softplus
                | Unary::Atan => x.order(),
                Unary::Abs
                | Unary::Not
                | Unary::Reciprocal
                | Unary::HardSwish
                | Unary::Gelu
                | Unary::GeluTanh
                | Unary::Sin
                | Unary::Cos
                | Unary::Tan => None,
            },
            Expr::Activation(activation, _, x) => match *activation {
                Activation::LeakyRelu { alpha } | Activation::Elu { alpha } => {
                    x.order().filter(|_| alpha >= 0.0)
                }
                Activation::Selu { alpha, gamma } => {
                    x.order().filter(|_| alpha >= 0.0 && gamma >= 0.0)
                }
                Activation::HardSigmoid { alpha, .. } => {
                    if alpha >= 0.0 {
                        x.order()
                    } else {
                        falls(x.order())
                    }
                }
                Activation::Clip { .. } => x.order(),
            },
            Expr::Binary(binary, _, a, b) => match (binary, &**a, &**b) {
                (Binary::Add | Binary::Max | Binary::Min, _, Expr::Constant(_))
                | (Binary::Sub, _, Expr::Constant(_)) => a.order(),
                (Binary::Add | Binary::Max | Binary::Min, Expr::Constant(_), _) => b.order(),
                (Binary::Sub, Expr::Constant(_), _) => falls(b.order()),
                (Binary::Mul | Binary::Div, _, Expr::Constant(c)) => {
                    if c >= &Ratio::ZERO {
                        a.order()
                    } else {
                        falls(a.order())
                    }
                }
                (Binary::Mul, Expr::Constant(c), _) => {
                    if c >= &Ratio::ZERO {
                        b.order()
                    } else {
                        falls(b.order())
                    }
                }
                _ => None,
            },
        }
    }
}

pub(super) fn is_exact_unary(unary: Unary) -> bool {
    match unary {
        Unary::Relu
        | Unary::Neg
        | Unary::Abs
        | Unary::Sign
        | Unary::Not
        | Unary::Floor
        | Unary::Ceil
        | Unary::Round
        | Unary::HardSwish
        | Unary::Reciprocal => true,
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
        | Unary::Atan => false,
    }
}

pub(super) fn is_exact_activation(activation: Activation) -> bool {
    match activation {
        Activation::LeakyRelu { .. } | Activation::HardSigmoid { .. } | Activation::Clip { .. } => {
            true
        }
        Activation::Elu { .. } | Activation::Selu { .. } => false,
    }
}

/// A parameter as an exact number.
pub(super) fn parameter(value: f32) -> Ratio {
    Dyadic::from_f64(f64::from(value)).unwrap_or(Dyadic::ZERO).to_ratio()
}

/// The exponent of an exact power.
pub(super) fn whole_power(power: &Ratio) -> Option<u32> {
    let whole = u32::try_from(power.numerator()).ok().filter(|_| power.is_int());
    whole.filter(|&power| power <= MAX_EXPONENT)
}

/// The value in the float type.
fn rounded(value: &Ratio, format: Format) -> Result<Real, String> {
    let near = match format {
        Format::Single => f64::from(value.to_f32().value()),
        Format::Double => value.to_f64().value(),
    };
    match Dyadic::from_f64(near) {
        Some(value) => Ok(Real { value: value.to_ratio(), float: true }),
        None => Err("its result is beyond all floats".to_owned()),
    }
}

/// A result that is rounded if an operand was.
fn settle(value: Ratio, float: bool, format: Format) -> Result<Real, String> {
    if float { rounded(&value, format) } else { Ok(Real { value, float }) }
}

/// A function that is computed in f64.
fn in_f64(format: Format, x: &Ratio, function: impl Fn(f64) -> f64) -> Result<Real, String> {
    let operand = rounded(x, format)?.value.to_f64().value();
    let result = function(operand);
    let result = match format {
        Format::Single => f64::from(result as f32),
        Format::Double => result,
    };
    match Dyadic::from_f64(result) {
        Some(value) => Ok(Real { value: value.to_ratio(), float: true }),
        None => Err(format!("the result for {operand} is {result}")),
    }
}

fn unary_at(unary: Unary, format: Format, x: Real) -> Result<Real, String> {
    let Real { value, float } = x;
    let round = |rounding| Ratio::from(round_ratio(&value, rounding));
    let result = match unary {
        Unary::Relu => value.max(Ratio::ZERO),
        Unary::Neg => -value,
        Unary::Abs => value.clone().max(-value),
        Unary::Sign => Ratio::from(i32::from(value > Ratio::ZERO) - i32::from(value < Ratio::ZERO)),
        Unary::Not => Ratio::ONE - value,
        Unary::Floor => round(Rounding::Floor),
        Unary::Ceil => round(Rounding::Ceil),
        Unary::Round => round(Rounding::HalfEven),
        Unary::Reciprocal if !float => return divide(&Ratio::ONE, &value, float, format),
        Unary::HardSwish if !float => {
            let half = Ratio::from_parts(Int::ONE, 2_u8.into());
            let slope = parameter(Activation::HARD_SWISH_SLOPE);
            &value * (slope * &value + half).clamp(Ratio::ZERO, Ratio::ONE)
        }
        _ => {
            let function = real_unary(unary).ok_or("it has no function of reals")?;
            return in_f64(format, &value, function);
        }
    };
    // Nothing above rounds a float further.
    Ok(Real { value: result, float })
}

fn activation_at(activation: Activation, format: Format, x: Real) -> Result<Real, String> {
    let Real { value, float } = x;
    let result = match activation {
        Activation::LeakyRelu { alpha } if !float => match value < Ratio::ZERO {
            true => parameter(alpha) * value,
            false => value,
        },
        Activation::HardSigmoid { alpha, beta } if !float => {
            (parameter(alpha) * value + parameter(beta)).clamp(Ratio::ZERO, Ratio::ONE)
        }
        Activation::Clip { min, max } => {
            let min = min.filter(|&min| min != f32::NEG_INFINITY).map(parameter);
            let max = max.filter(|&max| max != f32::INFINITY).map(parameter);
            let raised = min.map_or(value.clone(), |min| value.max(min));
            max.map_or(raised.clone(), |max| raised.min(max))
        }
        _ => return in_f64(format, &value, |x| real_activation(activation, x)),
    };
    Ok(Real { value: result, float })
}

fn divide(a: &Ratio, b: &Ratio, float: bool, format: Format) -> Result<Real, String> {
    if b.is_zero() {
        return Err("it divides by zero".to_owned());
    }
    settle(a / b, float, format)
}

fn binary_at(binary: Binary, format: Format, a: Real, b: Real) -> Result<Real, String> {
    let float = a.float || b.float;
    let (a, b) = (a.value, b.value);
    match binary {
        Binary::Add => settle(a + b, float, format),
        Binary::Sub => settle(a - b, float, format),
        Binary::Mul => settle(a * b, float, format),
        Binary::Div => divide(&a, &b, float, format),
        Binary::Max => Ok(Real { value: a.max(b), float }),
        Binary::Min => Ok(Real { value: a.min(b), float }),
        Binary::Pow => match whole_power(&b).filter(|_| !float) {
            Some(power) => {
                let power = power as usize;
                let (up, down) = (a.numerator().pow(power), a.denominator().pow(power));
                Ok(Real { value: Ratio::from_parts(up, down), float })
            }
            None => {
                let exponent = b.to_f64().value();
                in_f64(format, &a, |base| base.powf(exponent))
            }
        },
    }
}
