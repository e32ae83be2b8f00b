//! Rounding expressions to codes, exactly.
//!
//! A code is decided by on which side of a threshold the exact quotient `x / scale` lies: a half
//! between two whole numbers for rounding to nearest, a whole number for the other modes. The
//! quotient is computed in f64, and [`Bound`] says how far it may be off. Three cases:
//!
//! 1. `x` is exact and the scale a power of two: the quotient is exact.
//! 2. `x` is exact, and so coarse that a quotient which is not on a threshold is farther from it
//!    than the rounding of one division: the computed side is right. (Numbers and thresholds are
//!    multiples of one power of two; so is their distance.)
//! 3. Otherwise, quotients are products with the inverse of the scale, and those nearer to a
//!    threshold than the error bound are computed again as fractions.

use super::super::data::{Integer, Layout};
use super::super::field::Field;
use super::bounds::{Bound, STEP};
use super::program::{CHUNK, Evaluation, Numbers, Program};
use crate::Quantiser;
use quincunx_num::{Dyadic, Int, Level, Loop, Overflow, Ratio, Rounding, round_ratio};

/// Adding this number to an f64 of magnitude below 2^51 leaves the nearest whole number, ties to
/// even, in its low bits.
const MAGIC: f64 = 6_755_399_441_055_744.0;

/// Largest magnitude that is rounded through [`MAGIC`].
const MOST: f64 = (1_u64 << 50) as f64;

/// Distance by which quotients may exceed the range of codes before they are cut: neither near a
/// whole number nor near a half.
const BEYOND: f64 = 0.25;

/// Largest error bound that is worth it: must stay below [`BEYOND`].
const MAX_ERROR: f64 = 0.01;

/// How the numbers of a program become codes.
#[derive(Debug)]
pub(super) struct Rounder {
    /// What numbers are multiplied with, or divided by.
    scale: Numbers,
    divide: bool,
    exact_scale: Numbers,
    rounding: Rounding,
    overflow: Overflow,
    signed: bool,
    width: u32,
    /// Zero point, and lowest and highest code, in the range of [`MOST`].
    zero: i64,
    pub(super) low: i64,
    pub(super) high: i64,
    /// Quotients nearer than this to a threshold are computed exactly; 0 for never.
    error: f64,
}

impl Rounder {
    /// `None` when parameters other than the scale vary, or f64 cannot decide enough.
    pub(super) fn new(
        quantiser: &Quantiser,
        shape: &[usize],
        layout: Layout,
        bound: &Bound,
    ) -> Option<Self> {
        let (rounding, overflow) =
            (quantiser.rounding.as_uniform()?, quantiser.overflow.as_uniform()?);
        let (signed, width) = (quantiser.signed.as_uniform()?, quantiser.width.as_uniform()?);
        let zero = quantiser.zero.as_uniform()?;
        let (low, high) = quincunx_num::code_range(signed, width, overflow);
        let (low, high) = (i64::try_from(low).ok()?, i64::try_from(high).ok()?);
        let limit = MOST as i64;
        if [zero, low, high].iter().any(|v| !(-limit / 4..=limit / 4).contains(v)) {
            return None;
        }
        let exact_scale = Numbers::new(&Field::of_scales(&quantiser.scale)?, shape, layout)?;
        let powers = exact_scale.exact_values().iter().all(is_power_of_two);
        let most = range_of_quotients(&exact_scale, bound)?;
        let wraps = overflow == Overflow::Wrap;
        if wraps && most > MOST / 4.0 {
            return None;
        }
        let reach = (low - zero).abs().max((high - zero).abs()) as f64 + 1.0;
        let most = if wraps { most } else { most.min(reach) };
        let error = error_of_quotients(&exact_scale, powers, bound, most)?;
        if error > MAX_ERROR {
            return None;
        }
        // Where quotients near a threshold are computed again anyway, the error of an inverse is
        // part of the bound.
        let divide = !powers && error == 0.0;
        let scale = if divide {
            exact_scale.clone()
        } else {
            let inverse = Field::of_scales(&quantiser.scale.map(|scale| 1.0 / scale))?;
            Numbers::new(&inverse, shape, layout)?
        };
        Some(Rounder {
            scale,
            divide,
            exact_scale,
            rounding,
            overflow,
            signed,
            width,
            zero,
            low,
            high,
            error,
        })
    }

    /// Rounds the numbers from element `start` on; at most [`CHUNK`].
    fn round<T: Integer>(
        &self,
        level: Level,
        numbers: &mut [f64],
        start: usize,
        exact: impl Fn(usize) -> Ratio,
        out: &mut [T],
    ) {
        if self.divide {
            self.scale.zip(level, start, numbers, |v, scale| *v /= scale);
        } else {
            self.scale.zip(level, start, numbers, |v, factor| *v *= factor);
        }
        let doubtful = match (self.rounding, self.overflow) {
            (Rounding::HalfEven, Overflow::Saturate | Overflow::SaturateNarrow) => {
                self.nearest(level, numbers, out)
            }
            _ => self.any_mode(numbers, out),
        };
        if doubtful {
            self.decide(numbers, start, exact, out);
        }
    }

    /// Rounds half to even and saturates; true when some quotient is near a threshold.
    fn nearest<T: Integer>(&self, level: Level, quotients: &mut [f64], out: &mut [T]) -> bool {
        let zero = self.zero;
        let worst = level.run(Nearest { quotients, out, limits: self.limits(), zero });
        self.error > 0.0 && worst > 0.5 - self.error
    }

    /// Any rounding and overflow; true when some quotient is near a threshold.
    fn any_mode<T: Integer>(&self, quotients: &mut [f64], out: &mut [T]) -> bool {
        let (low, high) = self.limits();
        let mut doubtful = false;
        for (quotient, out) in quotients.iter_mut().zip(out) {
            let limited =
                if self.overflow == Overflow::Wrap { *quotient } else { cut(*quotient, low, high) };
            *quotient = limited;
            doubtful |= self.is_doubtful(limited);
            *out = T::narrow(self.finish(whole(limited, self.rounding)));
        }
        doubtful
    }

    /// Computes the codes of quotients near a threshold again.
    #[cold]
    fn decide<T: Integer>(
        &self,
        quotients: &[f64],
        start: usize,
        exact: impl Fn(usize) -> Ratio,
        out: &mut [T],
    ) {
        for (index, (quotient, out)) in quotients.iter().zip(out).enumerate() {
            if self.is_doubtful(*quotient) {
                let value = exact(start + index) / self.exact_scale.exact(start + index);
                let code = round_ratio(&value, self.rounding) + Int::from(self.zero);
                let code = self.overflow.apply(&code, self.signed, self.width);
                *out = T::narrow(
                    i64::try_from(code).expect("codes beyond i64 are left to the reference"),
                );
            }
        }
    }

    fn is_doubtful(&self, quotient: f64) -> bool {
        let distance = (quotient - ((quotient + MAGIC) - MAGIC)).abs();
        self.error > 0.0
            && match self.rounding {
                Rounding::HalfEven | Rounding::HalfUp | Rounding::HalfDown | Rounding::HalfCeil => {
                    distance > 0.5 - self.error
                }
                Rounding::Floor | Rounding::Ceil | Rounding::Down | Rounding::Up => {
                    distance < self.error
                }
            }
    }

    /// Lowest and highest quotient that makes a difference.
    fn limits(&self) -> (f64, f64) {
        ((self.low - self.zero) as f64 - BEYOND, (self.high - self.zero) as f64 + BEYOND)
    }

    /// Adds the zero point and brings the code into range.
    fn finish(&self, whole: i64) -> i64 {
        let code = whole + self.zero;
        match self.overflow {
            Overflow::Wrap if self.width == 0 => 0,
            // `MOST` bounds the width to less than 51 bits.
            Overflow::Wrap => (code - self.low).rem_euclid(1 << self.width) + self.low,
            Overflow::Saturate | Overflow::SaturateNarrow => code.clamp(self.low, self.high),
        }
    }

    /// Rounds a run of a program into `out`, from element `first` on.
    pub(super) fn run<T: Integer>(&self, evaluation: &Evaluation<'_>, first: usize, out: &mut [T]) {
        let mut numbers = [0.0; CHUNK];
        for (index, out) in out.chunks_mut(CHUNK).enumerate() {
            let start = first + index * CHUNK;
            let numbers = &mut numbers[..out.len()];
            evaluation.evaluate(start, numbers);
            self.round(evaluation.level, numbers, start, |e| evaluation.exact(e), out);
        }
    }

    /// The rounder of a program.
    pub(super) fn of_program(
        quantiser: &Quantiser,
        shape: &[usize],
        program: &Program,
    ) -> Option<Self> {
        Rounder::new(quantiser, shape, program.layout, &program.bound)
    }
}

/// Rounds half to even within limits; gives the largest distance from a whole number.
struct Nearest<'a, T> {
    quotients: &'a mut [f64],
    out: &'a mut [T],
    limits: (f64, f64),
    zero: i64,
}

impl<T: Integer> Loop for Nearest<'_, T> {
    type Result = f64;

    #[inline(always)]
    fn run(self) -> f64 {
        let (low, high) = self.limits;
        let one = |quotient: &mut f64, out: &mut T, worst: &mut f64| {
            let limited = cut(*quotient, low, high);
            let shifted = limited + MAGIC;
            let distance = (limited - (shifted - MAGIC)).abs();
            *worst = if distance > *worst { distance } else { *worst };
            // No quotient is farther than a quarter beyond the range, so no code is outside.
            let whole = (shifted.to_bits() as i64).wrapping_sub(MAGIC.to_bits() as i64);
            *out = T::narrow(whole + self.zero);
            *quotient = limited;
        };
        // Eight at a time: one largest distance would have to be found in order.
        let mut worst = [0.0_f64; 8];
        let (quotients, last_quotients) = self.quotients.as_chunks_mut::<8>();
        let (out, last_out) = self.out.as_chunks_mut::<8>();
        for (quotients, out) in quotients.iter_mut().zip(out) {
            for index in 0..8 {
                one(&mut quotients[index], &mut out[index], &mut worst[index]);
            }
        }
        for (quotient, out) in last_quotients.iter_mut().zip(last_out) {
            one(quotient, out, &mut worst[0]);
        }
        worst.into_iter().fold(0.0, f64::max)
    }
}

/// Keeps a number within limits; NaN stays.
#[inline(always)]
pub(super) fn cut(value: f64, low: f64, high: f64) -> f64 {
    let raised = if value < low { low } else { value };
    if raised > high { high } else { raised }
}

/// The whole number that a quotient of magnitude below [`MOST`] rounds to.
pub(super) fn whole(quotient: f64, rounding: Rounding) -> i64 {
    let nearest = (quotient + MAGIC) - MAGIC;
    let rest = quotient - nearest;
    let negative = quotient < 0.0;
    let half = rest.abs() == 0.5;
    let floor = if rest < 0.0 { nearest - 1.0 } else { nearest };
    let ceil = if rest > 0.0 { nearest + 1.0 } else { nearest };
    let rounded = match rounding {
        Rounding::Floor => floor,
        Rounding::Ceil => ceil,
        Rounding::Down => {
            if negative {
                ceil
            } else {
                floor
            }
        }
        Rounding::Up => {
            if negative {
                floor
            } else {
                ceil
            }
        }
        Rounding::HalfEven => nearest,
        Rounding::HalfUp if half => {
            if negative {
                floor
            } else {
                ceil
            }
        }
        Rounding::HalfDown if half => {
            if negative {
                ceil
            } else {
                floor
            }
        }
        Rounding::HalfCeil if half => ceil,
        Rounding::HalfUp | Rounding::HalfDown | Rounding::HalfCeil => nearest,
    };
    rounded as i64
}

pub(super) fn is_power_of_two(value: &Ratio) -> bool {
    Dyadic::from_ratio(value).is_some_and(|value| value.log2().is_some())
}

/// No quotient has a larger magnitude.
fn range_of_quotients(scale: &Numbers, bound: &Bound) -> Option<f64> {
    let least = scale.exact_values().iter().map(|s| s.to_f64().value()).reduce(f64::min)?;
    let most = bound.most / least * (1.0 + 4.0 * STEP);
    most.is_finite().then_some(most)
}

/// How far a quotient may be off, or 0 when every quotient is on the right side of thresholds if
/// it is divided. Twice what a number, the inverse of a scale and their product lose, each `STEP / 2`
/// of the quotient at most but for the error of the number.
fn error_of_quotients(scale: &Numbers, powers: bool, bound: &Bound, most: f64) -> Option<f64> {
    let scales = || scale.exact_values().iter().map(|s| s.to_f64().value());
    let (least, largest) = (scales().reduce(f64::min)?, scales().reduce(f64::max)?);
    if bound.error > 0.0 {
        return Some(2.0 * (bound.error / least + most * STEP));
    }
    if powers {
        return Some(0.0);
    }
    let exponent = scale.bound.exponent.zip(bound.exponent).map(|(s, x)| (s - 1).min(x));
    let gap = exponent.map_or(0.0, |exponent| 2.0_f64.powi(exponent) / largest);
    if most * STEP < gap / 2.0 {
        return Some(0.0);
    }
    Some(2.0 * most * STEP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_match_fractions() {
        for eighths in -40..40 {
            let ratio = Ratio::from_parts(Int::from(eighths), 8_u8.into());
            for rounding in Rounding::ALL {
                let expected = i64::try_from(round_ratio(&ratio, rounding)).unwrap();
                assert_eq!(
                    whole(f64::from(eighths) / 8.0, rounding),
                    expected,
                    "{rounding} {eighths}/8"
                );
            }
        }
    }
}
