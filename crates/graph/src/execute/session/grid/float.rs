//! Codes of single f32 numbers.

use super::super::data::Integer;
use super::round::{cut, whole};
use crate::quantiser::Scalar;
use quincunx_num::{Dyadic, Int, Overflow, round_ratio};

/// Quotients above this magnitude are rounded as fractions.
const MOST: f64 = (1_u64 << 24) as f64;

/// Codes of numbers on which one quantiser rounds: exactly `x / scale`. NaN counts as 0 and an
/// infinity as the end of the range on its side, as in [`float`](crate::execute::float).
pub(super) fn round<T: Integer>(values: &[f32], scalar: &Scalar, out: &mut [T]) {
    let quick = Quick::new(scalar);
    for (value, out) in values.iter().zip(out) {
        let code = quick.as_ref().and_then(|quick| quick.code(*value, scalar));
        *out = T::narrow(code.unwrap_or_else(|| exactly(*value, scalar)));
    }
}

/// What makes f64 enough.
struct Quick {
    low: i64,
    high: i64,
}

impl Quick {
    /// Only for scales that f32 has. Let a quotient below 2^24 lie near `n / 2` without being it.
    /// Both `2 x` and `n scale` are multiples of 2^-24 of the scale's power of two, hence so is
    /// their difference, which makes the quotient differ from `n / 2` by more than 2^-50 of itself:
    /// the division, which rounds by 2^-53, leaves it on its side.
    fn new(scalar: &Scalar) -> Option<Self> {
        let in_f32 = f64::from(scalar.scale as f32) == scalar.scale;
        let normal = (1e-30..1e30).contains(&scalar.scale);
        let (low, high) = scalar.range();
        let (low, high) = (i64::try_from(low).ok()?, i64::try_from(high).ok()?);
        let small = scalar.width <= 48 && scalar.zero.unsigned_abs() < 1 << 49;
        (in_f32 && normal && small).then_some(Quick { low, high })
    }

    fn code(&self, value: f32, scalar: &Scalar) -> Option<i64> {
        let mut quotient = f64::from(value) / scalar.scale;
        if scalar.overflow != Overflow::Wrap {
            // Neither near a whole number nor near a half.
            let (low, high) = (self.low - scalar.zero, self.high - scalar.zero);
            quotient = cut(quotient, low as f64 - 0.25, high as f64 + 0.25);
        }
        // Not for NaN and infinities either.
        if quotient.abs() >= MOST || quotient.is_nan() {
            return None;
        }
        let code = whole(quotient, scalar.rounding) + scalar.zero;
        Some(match scalar.overflow {
            Overflow::Wrap => (code - self.low).rem_euclid(1 << scalar.width) + self.low,
            Overflow::Saturate | Overflow::SaturateNarrow => code.clamp(self.low, self.high),
        })
    }
}

fn exactly(value: f32, scalar: &Scalar) -> i64 {
    let (low, high) = scalar.range();
    let end = |end: Int| i64::try_from(end).expect("codes beyond i64 are left to the reference");
    let Some(exact) = Dyadic::from_f64(f64::from(value)) else {
        return match value {
            v if v.is_nan() => end(Int::from(scalar.zero).clamp(low, high)),
            v if v > 0.0 => end(high),
            _ => end(low),
        };
    };
    let code = round_ratio(&(exact.to_ratio() / scalar.ratio()), scalar.rounding);
    end(scalar.overflow.apply(&(code + Int::from(scalar.zero)), scalar.signed, scalar.width))
}
