//! Operators on single numbers.
//!
//! What is short and exact becomes operations at once. What is long (a factor of 24 bits) or has
//! no exact result waits as a function of one wire for the quantiser that follows.

use super::builder::Builder;
use super::exact::{activation_of, affine, extreme, leaky, product, unary_of, unquantised};
use super::expr::{Expr, Format, parameter};
use super::linear::{Term, combine};
use super::number::{Affine, Form, MAX_BITS_BELOW, Number};
use super::wire::Wire;
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Activation, Binary, Unary};
use quincunx_num::{Dyadic, Int, Ratio, bit_length};
use std::rc::Rc;

/// Longest odd part of a factor or limit that becomes operations at once.
const MAX_SHORT_BITS: u32 = 8;

/// An operator on one number.
pub(super) fn unary(
    builder: &mut Builder<'_>,
    unary: Unary,
    format: Format,
    x: &Number,
) -> Result<Number> {
    let now = match unary {
        Unary::Neg => x.affine().is_some(),
        Unary::Relu | Unary::Abs => x.is_scaled(),
        Unary::Sign => x.affine().is_some(),
        Unary::Floor | Unary::Ceil | Unary::Round | Unary::Not => x.form.is_none(),
        _ => false,
    };
    if now && x.known().is_none() {
        return match unary {
            Unary::Relu => Ok(x.with_wire(builder.relu(&x.wire)?)),
            Unary::Abs => Ok(x.with_wire(builder.abs(&x.wire)?)),
            _ => unary_of(builder, unary, x),
        };
    }
    let function = match (unary, inner(x)) {
        // The magnitude is a rectifier with slope -1.
        (Unary::Abs, x) => Expr::Leaky(Ratio::from(-1), format, x),
        (_, x) => Expr::Unary(unary, format, x),
    };
    of_wire(builder, x, function)
}

/// An operator with parameters on one number.
pub(super) fn activation(
    builder: &mut Builder<'_>,
    activation: Activation,
    format: Format,
    x: &Number,
) -> Result<Number> {
    match activation {
        Activation::LeakyRelu { alpha } => prelu(builder, &parameter(alpha), format, x),
        // On exact numbers a line within limits.
        Activation::HardSigmoid { alpha, beta } if x.affine().is_some() => {
            let line = x.rescaled(builder, &parameter(alpha), &parameter(beta))?;
            let clip = Activation::Clip { min: Some(0.0), max: Some(1.0) };
            self::activation(builder, clip, format, &line)
        }
        Activation::Clip { min, max } => {
            let limits = [min, max].into_iter().flatten().filter(|limit| limit.is_finite());
            let step = builder.range(&x.wire).exponent();
            let short = limits.map(parameter).all(|limit| is_short_near(&limit, step));
            if x.form.is_none() && short && x.known().is_none() {
                return activation_of(builder, activation, x);
            }
            of_wire(builder, x, Expr::Activation(activation, format, inner(x)))
        }
        _ => of_wire(builder, x, Expr::Activation(activation, format, inner(x))),
    }
}

/// `x` where `x >= 0`, else `slope * x`.
pub(super) fn prelu(
    builder: &mut Builder<'_>,
    slope: &Ratio,
    format: Format,
    x: &Number,
) -> Result<Number> {
    let nowhere = x.is_scaled() && builder.range(&x.wire).low() >= &Int::ZERO;
    if nowhere || slope == &Ratio::ONE {
        return Ok(x.clone());
    }
    if x.is_scaled() && slope.is_zero() {
        return unary(builder, Unary::Relu, format, x);
    }
    if x.form.is_none() && is_short(slope) && x.known().is_none() {
        return leaky(builder, x, slope);
    }
    of_wire(builder, x, Expr::Leaky(slope.clone(), format, inner(x)))
}

/// A batch normalisation: `(x - mean) * factor + bias`, in the float type.
pub(super) fn normalise(
    builder: &mut Builder<'_>,
    [mean, factor, bias]: [Ratio; 3],
    x: &Number,
) -> Result<Number> {
    let single = Format::Single;
    let constant = |value| Rc::new(Expr::Constant(value));
    let float = Rc::new(Expr::Float(single, inner(x)));
    let centred = Rc::new(Expr::Binary(Binary::Sub, single, float, constant(mean)));
    let scaled = Rc::new(Expr::Binary(Binary::Mul, single, centred, constant(factor)));
    of_wire(builder, x, Expr::Binary(Binary::Add, single, scaled, constant(bias)))
}

/// An operator on two numbers.
pub(super) fn binary(
    builder: &mut Builder<'_>,
    binary: Binary,
    format: Format,
    a: &Number,
    b: &Number,
) -> Result<Number> {
    let is_slot = |x: &Number| x.form.is_none() && matches!(x.wire, Wire::Slot { .. });
    if is_slot(a) && is_slot(b) && matches!(binary, Binary::Add | Binary::Sub) {
        let b = if binary == Binary::Sub { b.wire.negated() } else { b.wire.clone() };
        return Ok(builder.add(&a.wire, &b)?.into());
    }
    let (known_a, known_b) = (a.known(), b.known());
    let function = |number: &Number| matches!(number.form.as_deref(), Some(Form::Function(_)));
    let inexact = function(a) || function(b);
    let waits = match binary {
        Binary::Add | Binary::Sub | Binary::Mul => inexact,
        Binary::Div => inexact || known_b.is_none(),
        Binary::Max | Binary::Min => {
            let long = |limit: &Option<Ratio>, other: &Number| {
                let step = builder.range(&other.wire).exponent();
                limit.as_ref().is_some_and(|limit| match limit.is_zero() {
                    true => !other.is_scaled(),
                    false => other.form.is_some() || !is_short_near(limit, step),
                })
            };
            inexact || long(&known_a, b) || long(&known_b, a)
        }
        Binary::Pow => true,
    };
    if !waits && (known_a.is_none() || known_b.is_none()) {
        return binary_now(builder, binary, a, b);
    }
    let keeps_order = matches!(binary, Binary::Max | Binary::Min);
    let pair = match (known_a, known_b) {
        (Some(x), Some(y)) => Some((known_as(a, x), known_as(b, y), Wire::zero())),
        (Some(x), None) => Some((known_as(a, x), inner(b), b.wire.clone())),
        (None, Some(y)) => Some((inner(a), known_as(b, y), a.wire.clone())),
        (None, None) if keeps_order && a.form == b.form && a.wire != b.wire => None,
        (None, None) => same_wire(a, b),
    };
    match pair {
        Some((x, y, wire)) => {
            let function = Expr::Binary(binary, format, x, y);
            of_wire(builder, &wire.into(), function)
        }
        None if binary == Binary::Div => Err(Diagnostic::unsupported(
            "Q1204",
            "its dividend and divisor lie in different slots, and tables take one slot",
        )),
        None if binary == Binary::Pow => {
            Err(Diagnostic::unsupported("Q1204", "its exponent is not constant"))
        }
        None => binary_now(builder, binary, a, b),
    }
}

/// An operator on two numbers, as operations.
pub(super) fn binary_now(
    builder: &mut Builder<'_>,
    binary: Binary,
    a: &Number,
    b: &Number,
) -> Result<Number> {
    if matches!(binary, Binary::Max | Binary::Min) {
        return extreme(builder, a, b, binary == Binary::Max);
    }
    let (a, b) = (affine(builder, a)?, affine(builder, b)?);
    match binary {
        Binary::Add | Binary::Sub => {
            let one = Dyadic::new(Int::ONE, 0);
            let sign = if binary == Binary::Sub { one.neg() } else { one.clone() };
            let terms = [Term { number: a, weight: one }, Term { number: b, weight: sign }];
            combine(builder, &terms, &Ratio::ZERO)
        }
        Binary::Mul => product(builder, &a, &b),
        Binary::Div => match b.known() {
            Some(divisor) if !divisor.is_zero() => {
                a.rescaled(builder, &(Ratio::ONE / divisor), &Ratio::ZERO)
            }
            Some(_) => Err(Diagnostic::unsupported("Q1204", "it divides by zero")),
            None => Err(unquantised("Div")),
        },
        Binary::Max | Binary::Min | Binary::Pow => Err(unquantised(binary.name())),
    }
}

fn constant(value: Ratio) -> Rc<Expr> {
    Rc::new(Expr::Constant(value))
}

/// A known number as a function of any wire.
fn known_as(number: &Number, value: Ratio) -> Rc<Expr> {
    match number.form.as_deref() {
        Some(Form::Function(_)) => Rc::new(Expr::Float(Format::Double, constant(value))),
        _ => constant(value),
    }
}

/// A number as a function of its wire.
pub(super) fn inner(x: &Number) -> Rc<Expr> {
    let Affine { unit, offset } = match x.form.as_deref() {
        Some(Form::Function(function)) => return Rc::clone(function),
        Some(Form::Affine(affine)) => affine.clone(),
        None => Affine::ONE,
    };
    Rc::new(Expr::Line { unit, offset })
}

/// Two numbers as functions of one wire, if they are.
fn same_wire(a: &Number, b: &Number) -> Option<(Rc<Expr>, Rc<Expr>, Wire)> {
    let factor = |wire: &Wire, of: &Wire| match (wire, of) {
        (
            Wire::Slot { slot, shift, negate },
            Wire::Slot { slot: other, shift: before, negate: sign },
        ) if slot == other => {
            let power = Dyadic::new(Int::from(if negate == sign { 1 } else { -1 }), shift - before);
            Some(power.to_ratio())
        }
        _ => None,
    };
    let line = |number: &Number, factor: Ratio| match &*inner(number) {
        Expr::Line { unit, offset } => {
            Some(Rc::new(Expr::Line { unit: unit * factor, offset: offset.clone() }))
        }
        _ => (factor == Ratio::ONE).then(|| inner(number)),
    };
    let other = line(b, factor(&b.wire, &a.wire)?);
    if let Some(other) = other {
        return Some((inner(a), other, a.wire.clone()));
    }
    Some((line(a, factor(&a.wire, &b.wire)?)?, inner(b), b.wire.clone()))
}

/// A function of the wire of a number; what is known is computed.
fn of_wire(builder: &mut Builder<'_>, x: &Number, function: Expr) -> Result<Number> {
    if let Wire::Constant(value) = &x.wire {
        let value = function.at(&value.to_ratio());
        let refused = |why: String| Diagnostic::unsupported("Q1203", why);
        let value = value.map_err(refused)?;
        if value.float {
            // Operators on it round, although it is known.
            let known = Expr::Float(Format::Double, constant(value.value));
            let form = Some(builder.memory.function(known));
            return Ok(Number { wire: Wire::zero(), form });
        }
        return Ok(Number::constant(builder, &value.value));
    }
    let form = Some(builder.memory.function(function));
    Ok(Number { wire: x.wire.clone(), form })
}

/// True for a binary fraction with a short odd part.
fn is_short(value: &Ratio) -> bool {
    Dyadic::from_ratio(value).is_some_and(|value| {
        let magnitude = value.clone().max(value.neg());
        bit_length(magnitude.mantissa()) <= MAX_SHORT_BITS
    })
}

/// True for a binary fraction that does not make numbers of this step much longer.
fn is_short_near(value: &Ratio, step: i32) -> bool {
    Dyadic::from_ratio(value)
        .is_some_and(|v| v.is_zero() || v.exponent() >= step.saturating_sub(MAX_BITS_BELOW))
}
