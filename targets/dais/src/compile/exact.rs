//! Carrying out what numbers make of their wires, where no quantiser follows.

use super::builder::Builder;
use super::expr::{Expr, Format, parameter, whole_power};
use super::linear::{Term, combine};
use super::number::{Affine, Form, Number, common_unit};
use super::scalar;
use super::sums::multiple_of;
use super::wire::Wire;
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Activation, Binary, Unary};
use quincunx_num::{Dyadic, Int, Interval, Ratio, Rounding};
use std::rc::Rc;

/// The same number without a function.
///
/// # Errors
/// `Q1204` for a function that has no exact result.
pub(super) fn affine(builder: &mut Builder<'_>, x: &Number) -> Result<Number> {
    match x.form.as_deref() {
        Some(Form::Function(function)) => {
            if !function.is_exact() {
                return Err(unquantised(function.culprit()));
            }
            carry_out(builder, &Rc::clone(function), &x.wire)
        }
        _ => Ok(x.clone()),
    }
}

/// The same number without a function, for an output: what is known is a number whatever it is.
///
/// # Errors
/// As [`affine`].
pub(super) fn finished(builder: &mut Builder<'_>, x: &Number) -> Result<Number> {
    match x.known() {
        Some(value) => Ok(Number::constant(builder, &value)),
        None => affine(builder, x)?.settled(builder),
    }
}

/// A finished number as the wire alone, by computing unit and offset.
///
/// # Errors
/// `Q1204` where one of them is no binary fraction.
pub(super) fn computed(builder: &mut Builder<'_>, x: &Number) -> Result<Number> {
    let binary = |value: &Ratio| {
        Dyadic::from_ratio(value).ok_or_else(|| {
            let message = format!("an output takes multiples of {value}, no binary fraction");
            Diagnostic::unsupported("Q1204", message)
        })
    };
    let Affine { unit, offset } = x.carried_out()?;
    let multiple = multiple_of(builder, &x.wire, &binary(&unit)?)?;
    Ok(builder.add(&multiple, &Wire::Constant(binary(&offset)?))?.into())
}

/// Why the machine cannot hold an output that was [`computed`].
pub(super) fn too_far() -> Diagnostic {
    let message = "an output lies too far from 1 for a shift or a constant of the machine";
    Diagnostic::unsupported("Q1204", message)
}

/// Why an inexact result cannot be used as it is.
pub(super) fn unquantised(name: &str) -> Diagnostic {
    Diagnostic::unsupported(
        "Q1204",
        format!("{name} has no exact result in fixed point; a quantiser must follow"),
    )
}

fn carry_out(builder: &mut Builder<'_>, function: &Expr, x: &Wire) -> Result<Number> {
    match function {
        Expr::Line { unit, offset } => match unit.is_zero() {
            true => Ok(Number::constant(builder, offset)),
            false => Number::scaled(builder, x, unit, offset),
        },
        Expr::Constant(value) => Ok(Number::constant(builder, value)),
        Expr::Float(..) => Err(unquantised(function.culprit())),
        Expr::Unary(unary, _, of) => {
            let of = carry_out(builder, of, x)?;
            unary_of(builder, *unary, &of)
        }
        Expr::Activation(activation, _, of) => {
            let of = carry_out(builder, of, x)?;
            activation_of(builder, *activation, &of)
        }
        Expr::Leaky(slope, _, of) => {
            let of = carry_out(builder, of, x)?;
            leaky(builder, &of, slope)
        }
        Expr::Binary(binary, _, a, b) => {
            if let (Binary::Pow, Expr::Constant(power)) = (binary, &**b) {
                let a = carry_out(builder, a, x)?;
                return power_of(builder, &a, whole_power(power).expect("an exact power"));
            }
            let (a, b) = (carry_out(builder, a, x)?, carry_out(builder, b, x)?);
            scalar::binary_now(builder, *binary, &a, &b)
        }
    }
}

/// An exact operator on one number that is not a function.
pub(super) fn unary_of(builder: &mut Builder<'_>, unary: Unary, x: &Number) -> Result<Number> {
    match unary {
        Unary::Neg => x.negated(builder),
        Unary::Relu => extreme(builder, x, &Number::zero(), true),
        Unary::Abs => {
            let (wires, unit) = aligned(builder, &[x])?;
            let magnitude = builder.abs(&wires[0])?;
            Number::scaled(builder, &magnitude, &unit, &Ratio::ZERO)
        }
        Unary::Sign => {
            let wire = sign_wire(builder, x)?;
            let negative = builder.is_negative(&wire)?;
            let positive = builder.is_negative(&wire.negated())?;
            let range = Interval::new(Int::from(-1), Int::ONE, 0);
            Ok(builder.add_within(&positive, &negative.negated(), range)?.into())
        }
        Unary::Not => Ok(builder.not(&x.wire)?.into()),
        Unary::Floor => rounded(builder, x, Rounding::Floor),
        Unary::Ceil => rounded(builder, x, Rounding::Ceil),
        Unary::Round => rounded(builder, x, Rounding::HalfEven),
        Unary::HardSwish => {
            let half = Ratio::from_parts(Int::ONE, 2_u8.into());
            let line = x.rescaled(builder, &parameter(Activation::HARD_SWISH_SLOPE), &half)?;
            let clip = Activation::Clip { min: Some(0.0), max: Some(1.0) };
            let factor = activation_of(builder, clip, &line)?;
            scalar::binary_now(builder, Binary::Mul, x, &factor)
        }
        _ => Err(unquantised(unary.name())),
    }
}

/// A wire with the sign of a number.
pub(super) fn sign_wire(builder: &mut Builder<'_>, x: &Number) -> Result<Wire> {
    let (wires, _) = aligned(builder, &[x, &Number::zero()])?;
    Ok(wires[0].clone())
}

fn rounded(builder: &mut Builder<'_>, x: &Number, rounding: Rounding) -> Result<Number> {
    if x.form.is_none() {
        return Ok(super::quantiser::whole(builder, &x.wire, rounding)?.into());
    }
    let quantiser = quincunx_graph::Scalar {
        signed: true,
        width: 64,
        scale: 1.0,
        zero: 0,
        rounding,
        overflow: quincunx_num::Overflow::Saturate,
    };
    Ok(super::quantiser::steps(builder, x, &quantiser)?.into())
}

pub(super) fn activation_of(
    builder: &mut Builder<'_>,
    activation: Activation,
    x: &Number,
) -> Result<Number> {
    match activation {
        Activation::LeakyRelu { alpha } => leaky(builder, x, &parameter(alpha)),
        Activation::HardSigmoid { alpha, beta } => {
            let line = x.rescaled(builder, &parameter(alpha), &parameter(beta))?;
            let clip = Activation::Clip { min: Some(0.0), max: Some(1.0) };
            activation_of(builder, clip, &line)
        }
        Activation::Clip { min, max } => {
            let mut result = x.clone();
            if let Some(min) = min.filter(|&min| min != f32::NEG_INFINITY) {
                let min = Number::constant(builder, &parameter(min));
                result = extreme(builder, &result, &min, true)?;
            }
            if let Some(max) = max.filter(|&max| max != f32::INFINITY) {
                let max = Number::constant(builder, &parameter(max));
                result = extreme(builder, &result, &max, false)?;
            }
            Ok(result)
        }
        Activation::Elu { .. } | Activation::Selu { .. } => Err(unquantised(activation.name())),
    }
}

/// `x` where `x >= 0`, else `slope * x`.
pub(super) fn leaky(builder: &mut Builder<'_>, x: &Number, slope: &Ratio) -> Result<Number> {
    if slope == &Ratio::ONE {
        return Ok(x.clone());
    }
    let below = x.rescaled(builder, slope, &Ratio::ZERO)?;
    let (wires, unit) = aligned(builder, &[x, &below, &Number::zero()])?;
    let range = builder.range(&wires[0]);
    let split = |low: Int, high: Int| Interval::new(low, high, range.exponent());
    let (low, high) = (range.low().clone(), range.high().clone());
    if low >= Int::ZERO {
        return Ok(x.clone());
    }
    let above = split(low.clone().max(Int::ZERO), high.clone().max(Int::ZERO));
    let negative = split(low, high.min(Int::ZERO));
    let range = match Dyadic::from_ratio(slope) {
        Some(slope) => negative.times(&Interval::point(&slope)).union(&above),
        None => builder.range(&wires[1]).union(&above),
    };
    let chosen = builder.select(&wires[0], &wires[1], &wires[0], range)?;
    Number::scaled(builder, &chosen, &unit, &Ratio::ZERO)
}

/// The larger or the smaller of two numbers.
pub(super) fn extreme(
    builder: &mut Builder<'_>,
    a: &Number,
    b: &Number,
    larger: bool,
) -> Result<Number> {
    let choose = |builder: &mut Builder<'_>, a: &Wire, b: &Wire| match larger {
        true => builder.max(a, b),
        false => builder.min(a, b),
    };
    // What keeps the order of wires can wait; what reverses it turns the question round.
    if a.form == b.form
        && let Some(rises) = scalar::inner(a).order()
    {
        let wire = match larger == rises {
            true => builder.max(&a.wire, &b.wire)?,
            false => builder.min(&a.wire, &b.wire)?,
        };
        return Ok(a.with_wire(wire));
    }
    let (wires, unit) = aligned(builder, &[a, b])?;
    let wire = choose(builder, &wires[0], &wires[1])?;
    Number::scaled(builder, &wire, &unit, &Ratio::ZERO)
}

/// Numbers as binary fractions of one unit.
pub(super) fn aligned(
    builder: &mut Builder<'_>,
    numbers: &[&Number],
) -> Result<(Vec<Wire>, Ratio)> {
    if numbers.iter().all(|number| number.form.is_none()) {
        return Ok((numbers.iter().map(|number| number.wire.clone()).collect(), Ratio::ONE));
    }
    let mut affines = Vec::with_capacity(numbers.len());
    for number in numbers {
        let number = affine(builder, number)?;
        affines.push((number.carried_out()?, number.wire));
    }
    // Powers of two do not matter to a unit, since wires are binary fractions.
    let odd = |value: &Ratio| match value.is_zero() {
        true => Ratio::ZERO,
        false => super::number::split(value).2,
    };
    let mut unit = Ratio::ZERO;
    for (affine, wire) in &affines {
        if !matches!(wire, Wire::Constant(value) if value.is_zero()) {
            unit = common_unit(&unit, &odd(&affine.unit));
        }
        unit = common_unit(&unit, &odd(&affine.offset));
    }
    let unit = if unit.is_zero() { Ratio::ONE } else { unit };
    let whole = |value: Ratio| {
        Dyadic::from_ratio(&value).ok_or_else(|| Diagnostic::bug("a unit divides evenly"))
    };
    let mut wires = Vec::with_capacity(numbers.len());
    for (affine, wire) in affines {
        let factor = whole(&affine.unit / &unit);
        let offset = whole(&affine.offset / &unit)?;
        let wire = match &wire {
            Wire::Constant(value) if value.is_zero() => Wire::zero(),
            wire => multiple_of(builder, wire, &factor?)?,
        };
        wires.push(builder.add(&wire, &Wire::Constant(offset))?);
    }
    Ok((wires, unit))
}

/// `x^power`.
fn power_of(builder: &mut Builder<'_>, x: &Number, power: u32) -> Result<Number> {
    let mut result = Number::from(Wire::one());
    for _ in 0..power {
        result = scalar::binary_now(builder, Binary::Mul, &result, x)?;
    }
    Ok(result)
}

/// `a * b` of two numbers that are not functions.
pub(super) fn product(builder: &mut Builder<'_>, a: &Number, b: &Number) -> Result<Number> {
    if let Some(value) = b.known() {
        return a.rescaled(builder, &value, &Ratio::ZERO);
    }
    if let Some(value) = a.known() {
        return b.rescaled(builder, &value, &Ratio::ZERO);
    }
    // One long factor is shorter than two more products.
    let first = a.settled(builder)?;
    let second = if a == b { first.clone() } else { b.settled(builder)? };
    let (a, b) = (first, second);
    let (p, q) = (a.carried_out()?, b.carried_out()?);
    let wire = builder.multiply(&a.wire, &b.wire)?;
    let whole = Number::scaled(builder, &wire, &(&p.unit * &q.unit), &(&p.offset * &q.offset))?;
    if p.offset.is_zero() && q.offset.is_zero() {
        return Ok(whole);
    }
    let cross = |builder: &mut Builder<'_>, wire: &Wire, factor: Ratio| match factor.is_zero() {
        true => Ok(Number::zero()),
        false => Number::scaled(builder, wire, &factor, &Ratio::ZERO),
    };
    let first = cross(builder, &a.wire, &p.unit * &q.offset)?;
    let second = cross(builder, &b.wire, &q.unit * &p.offset)?;
    let one = Dyadic::new(Int::ONE, 0);
    let terms = [whole, first, second].map(|number| Term { number, weight: one.clone() });
    combine(builder, &terms, &Ratio::ZERO)
}

/// The float type of a function's numbers.
pub(super) fn format_of(dtype: quincunx_tensor::DType) -> Format {
    match dtype {
        quincunx_tensor::DType::F64 => Format::Double,
        _ => Format::Single,
    }
}
