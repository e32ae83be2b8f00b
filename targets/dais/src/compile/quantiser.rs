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

use super::builder::{Builder, Wire};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::Scalar;
use quincunx_num::{Dyadic, Int, Interval, Kif, Overflow, Rounding, round_shift};

/// Moves a wire onto the grid of a fixed-point quantiser.
pub(super) fn quantise(builder: &mut Builder<'_>, x: &Wire, quantiser: &Scalar) -> Result<Wire> {
    let grid =
        quantiser.interval().ok_or_else(|| Diagnostic::bug("the quantiser is fixed point"))?;
    if quantiser.width == 0 {
        return Ok(Wire::zero());
    }
    let step = grid.exponent();
    if quantiser.overflow == Overflow::Wrap {
        let rounded = round(builder, x, step, quantiser.rounding, Some(&grid))?;
        return Ok(rounded);
    }
    let rounded = round(builder, x, step, quantiser.rounding, None)?;
    clamp(builder, &rounded, &grid)
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

/// `value` where `x < 0`, else 0.
fn sign(builder: &mut Builder<'_>, x: &Wire, value: &Dyadic) -> Result<Wire> {
    let range = builder.range(x);
    if range.low() >= &Int::ZERO {
        return Ok(Wire::zero());
    }
    if range.high() < &Int::ZERO {
        return Ok(Wire::Constant(value.clone()));
    }
    // Seen as unsigned, the sign bit is the bit above the integer bits.
    let top = range.kif().integer;
    Ok(bit(builder, x, top)?.shifted(value.exponent() - top))
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
fn clamp(builder: &mut Builder<'_>, x: &Wire, grid: &Interval) -> Result<Wire> {
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
