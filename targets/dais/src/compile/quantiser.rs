//! Quantisers as operations: every rounding and overflow mode, exactly.
//!
//! A quantiser with step `2^e` drops the bits of `x` below `2^e`. The machine can only truncate
//! (round to minus infinity), so every other mode adds a correction first, of which the part below
//! is called `ulp`, the step of `x`:
//!
//! | mode | added to `x` before truncation |
//! |---|---|
//! | ceil | `2^e - ulp` |
//! | half-ceil | `2^(e-1)` |
//! | half-even | `2^(e-1) - ulp`, and `ulp` more where the bit of weight `2^e` is set |
//! | half-up | `2^(e-1)`, less `ulp` where `x < 0` |
//! | half-down | `2^(e-1) - ulp`, and `ulp` more where `x < 0` |
//! | down | `2^e - ulp` where `x < 0` |
//! | up | `2^e - ulp` where `x >= 0` |
//!
//! Saturation is two selections on the sign of a difference; wrapping is the machine's own.

use super::builder::Builder;
use super::expr::Expr;
use super::number::Number;
use super::plan::{Plan, Question};
use super::scalar::inner;
use super::steps::Limits;
use super::sums::multiple_of;
use super::wire::Wire;
use crate::program::InputIndex;
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::Scalar;
use quincunx_num::{
    Dyadic, Int, Interval, Kif, Overflow, Ratio, Rounding, round_ratio, round_shift,
};
use std::rc::Rc;

/// Moves a number onto the grid of a quantiser: a whole number of its steps, times its scale.
pub(super) fn quantise(
    builder: &mut Builder<'_>,
    x: &Number,
    quantiser: &Scalar,
) -> Result<Number> {
    let scale = quantiser.ratio();
    let steps = steps(builder, x, quantiser)?;
    Number::scaled(builder, &steps, &scale, &Ratio::ZERO)
}

/// The code of a number less the zero point.
pub(super) fn steps(builder: &mut Builder<'_>, x: &Number, quantiser: &Scalar) -> Result<Wire> {
    if quantiser.width == 0 {
        return Ok(Wire::whole(quantiser.zero).negated());
    }
    let grid = step_range(quantiser);
    let scale = quantiser.ratio();
    if let Some(affine) = x.affine() {
        let in_steps =
            Number::scaled(builder, &x.wire, &(&affine.unit / &scale), &(&affine.offset / &scale))?;
        if in_steps.form.is_none() {
            return fraction(builder, &in_steps.wire, quantiser, &grid);
        }
    }
    let rounded = match planned(builder, x, &scale, quantiser) {
        Ok(rounded) => rounded,
        // A product that is exact may be wide, but needs no plan.
        Err(problem) => {
            if let Some(wire) = exact_steps(builder, x, &scale)? {
                return fraction(builder, &wire, quantiser, &grid);
            }
            // Neither does a function of which the operations are exact.
            return match super::exact::affine(builder, x) {
                Ok(number) if number.affine() != x.affine() => steps(builder, &number, quantiser),
                _ => Err(problem),
            };
        }
    };
    match quantiser.overflow {
        Overflow::Wrap => wrap(builder, &rounded, quantiser, &grid),
        // The plan keeps the limits.
        Overflow::Saturate | Overflow::SaturateNarrow => Ok(rounded),
    }
}

/// A number in units of the scale as a binary fraction, if it is one.
fn exact_steps(builder: &mut Builder<'_>, x: &Number, scale: &Ratio) -> Result<Option<Wire>> {
    let Some(affine) = x.affine() else { return Ok(None) };
    let parts =
        (Dyadic::from_ratio(&(affine.unit / scale)), Dyadic::from_ratio(&(affine.offset / scale)));
    let (Some(factor), Some(offset)) = parts else { return Ok(None) };
    let product = multiple_of(builder, &x.wire, &factor)?;
    builder.add(&product, &Wire::Constant(offset)).map(Some)
}

/// Every code less the zero point.
fn step_range(quantiser: &Scalar) -> Interval {
    let (low, high) = quantiser.range();
    let zero = Int::from(quantiser.zero);
    Interval::new(low - &zero, high - zero, 0)
}

/// A binary fraction in units of the step.
fn fraction(
    builder: &mut Builder<'_>,
    x: &Wire,
    quantiser: &Scalar,
    grid: &Interval,
) -> Result<Wire> {
    if quantiser.overflow == Overflow::Wrap {
        if quantiser.zero == 0 {
            return round(builder, x, 0, quantiser.rounding, Some(grid));
        }
        let rounded = round(builder, x, 0, quantiser.rounding, None)?;
        return wrap(builder, &rounded, quantiser, grid);
    }
    let rounded = round(builder, x, 0, quantiser.rounding, None)?;
    clamp(builder, &rounded, grid)
}

/// Wraps a whole number of steps: the code does, with the zero point.
fn wrap(builder: &mut Builder<'_>, x: &Wire, quantiser: &Scalar, grid: &Interval) -> Result<Wire> {
    if grid.holds(&builder.range(x)) {
        return Ok(x.clone());
    }
    let zero = Wire::whole(quantiser.zero);
    let code = builder.add(x, &zero)?;
    let (low, high) = quantiser.range();
    let known = builder.range(&code).exponent();
    let kept = builder.cut(&code, wrapped_range(&Interval::new(low, high, 0), known))?;
    builder.subtract(&kept, &zero)
}

/// The largest whole multiple of `2^step` that is not above a binary fraction.
pub(super) fn floor(builder: &mut Builder<'_>, x: &Wire, step: i32) -> Result<Wire> {
    round(builder, x, step, Rounding::Floor, None)
}

/// A binary fraction rounded to a whole number.
pub(super) fn whole(builder: &mut Builder<'_>, x: &Wire, rounding: Rounding) -> Result<Wire> {
    round(builder, x, 0, rounding, None)
}

/// Steps of a number that is not a binary fraction of them.
fn planned(
    builder: &mut Builder<'_>,
    x: &Number,
    scale: &Ratio,
    quantiser: &Scalar,
) -> Result<Wire> {
    let function = inner(x);
    if let Wire::Constant(value) = &x.wire {
        return constant(&function, value, scale, quantiser);
    }
    let limits =
        Limits::of(quantiser).ok_or_else(|| refused("its codes are wider than 64 bits"))?;
    let operand = builder.range(&x.wire);
    let exponent = operand.exponent();
    let (scale, rounding) = (scale.clone(), quantiser.rounding);
    let question = Question { function, scale, rounding, limits, operand };
    let plan = plan(builder, question)?;
    plan.build(builder, &x.wire.shifted(-exponent))
}

fn plan(builder: &mut Builder<'_>, question: Question) -> Result<Rc<Plan>> {
    if let Some(plan) = builder.memory.plans.get(&question) {
        return plan.clone();
    }
    let plan = question.plan(builder.arch).map_err(|why| refused(&why));
    // Whether it fits is found out once, without building anything.
    let fits = |plan: Plan| {
        let mut scratch = Builder::measuring(builder.arch);
        let operand = question.operand.shifted(-question.operand.exponent());
        let x = scratch.input(InputIndex(0), operand)?;
        plan.construct(&mut scratch, &x).map(|_| Rc::new(plan))
    };
    let plan = plan.and_then(fits);
    builder.memory.plans.insert(question, plan.clone());
    plan
}

fn constant(function: &Expr, x: &Dyadic, scale: &Ratio, quantiser: &Scalar) -> Result<Wire> {
    let value = function.at(&x.to_ratio()).map_err(|why| refused(&why))?.value;
    let code = round_ratio(&(value / scale), quantiser.rounding) + Int::from(quantiser.zero);
    let code = quantiser.overflow.apply(&code, quantiser.signed, quantiser.width);
    Ok(Wire::Constant(Dyadic::new(code - Int::from(quantiser.zero), 0)))
}

/// A quantiser that cannot be built.
fn refused(why: &str) -> Diagnostic {
    Diagnostic::unsupported("Q1203", why)
}

/// Rounds to a multiple of `2^step`. With `wrap`, the result is also wrapped into that type.
fn round(
    builder: &mut Builder<'_>,
    x: &Wire,
    step: i32,
    rounding: Rounding,
    wrap: Option<&Interval>,
) -> Result<Wire> {
    let range = builder.range(x);
    let rounded_range = rounded_range(&range, step, rounding);
    let fits = wrap.is_none_or(|grid| grid.holds(&rounded_range));
    let exact = range.is_zero() || range.exponent() >= step;
    if exact && fits {
        return Ok(x.clone());
    }
    if let Wire::Constant(value) = x {
        let code =
            round_shift(value.mantissa(), i64::from(step) - i64::from(value.exponent()), rounding);
        let value = Wire::Constant(Dyadic::new(code, step));
        return match wrap {
            Some(grid) => builder.cut(&value, grid.clone()),
            None => Ok(value),
        };
    }
    let corrected = if exact { x.clone() } else { correct(builder, x, step, rounding)? };
    match wrap {
        Some(grid) if !fits => {
            let known = builder.range(&corrected).exponent();
            builder.cut(&corrected, wrapped_range(grid, known))
        }
        _ => builder.cut(&corrected, rounded_range),
    }
}

/// What wrapping into the type of a grid can give for multiples of `2^known`: the type without the
/// fraction bits that are always 0.
fn wrapped_range(grid: &Interval, known: i32) -> Interval {
    let kif = grid.kif();
    Kif { fraction: kif.fraction.min(-known), ..kif }.interval()
}

/// Adds what makes truncation round in the given mode.
fn correct(builder: &mut Builder<'_>, x: &Wire, step: i32, rounding: Rounding) -> Result<Wire> {
    let range = builder.range(x);
    let ulp = Dyadic::new(Int::ONE, range.exponent());
    let half = Dyadic::new(Int::ONE, step - 1);
    let below_step = Dyadic::new(Int::ONE, step).add(&ulp.neg());
    let plus = |builder: &mut Builder<'_>, x: &Wire, c: &Dyadic| {
        builder.add(x, &Wire::Constant(c.clone()))
    };
    match rounding {
        Rounding::Floor => Ok(x.clone()),
        Rounding::Ceil => plus(builder, x, &below_step),
        Rounding::HalfCeil => plus(builder, x, &half),
        Rounding::HalfEven => {
            let odd = bit(builder, x, step)?.shifted(range.exponent() - step);
            let biased = plus(builder, x, &half.add(&ulp.neg()))?;
            builder.add(&biased, &odd)
        }
        Rounding::HalfUp | Rounding::HalfDown => {
            let negative = sign(builder, x, &ulp)?;
            let biased = match rounding {
                Rounding::HalfUp => plus(builder, x, &half)?,
                _ => plus(builder, x, &half.add(&ulp.neg()))?,
            };
            match rounding {
                Rounding::HalfUp => builder.subtract(&biased, &negative),
                _ => builder.add(&biased, &negative),
            }
        }
        Rounding::Down | Rounding::Up => {
            let raised = plus(builder, x, &below_step)?;
            let (negative, positive) =
                if rounding == Rounding::Down { (&raised, x) } else { (x, &raised) };
            let (negative, positive) = (negative.clone(), positive.clone());
            let all = builder.range(x).union(&builder.range(&raised));
            builder.select(x, &negative, &positive, all)
        }
    }
}

/// The bit of weight `2^position`: 0 or `2^position`.
fn bit(builder: &mut Builder<'_>, x: &Wire, position: i32) -> Result<Wire> {
    builder.cut(x, Interval::new(Int::ZERO, Int::ONE, position))
}

/// `value` where `x < 0`, else 0; `value` is a power of two.
fn sign(builder: &mut Builder<'_>, x: &Wire, value: &Dyadic) -> Result<Wire> {
    Ok(builder.is_negative(x)?.shifted(value.exponent()))
}

/// The range of rounded values; every mode is monotone.
fn rounded_range(range: &Interval, step: i32, rounding: Rounding) -> Interval {
    let drop = i64::from(step) - i64::from(range.exponent());
    if range.is_zero() || drop <= 0 {
        return range.clone();
    }
    Interval::new(
        round_shift(range.low(), drop, rounding),
        round_shift(range.high(), drop, rounding),
        step,
    )
}

/// Saturates to a grid whose step the wire already has.
pub(super) fn clamp(builder: &mut Builder<'_>, x: &Wire, grid: &Interval) -> Result<Wire> {
    let (low, high) = (grid.min(), grid.max());
    if let Wire::Constant(value) = x {
        return Ok(Wire::Constant(value.clone().clamp(low, high)));
    }
    let mut wire = builder.min(x, &Wire::Constant(high))?;
    if builder.range(&wire).min() < low {
        wire = builder.max(&wire, &Wire::Constant(low))?;
    }
    Ok(wire)
}
