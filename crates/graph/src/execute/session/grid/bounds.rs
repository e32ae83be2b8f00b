//! How far an f64 computation of an exact number can be trusted.

use quincunx_num::{Dyadic, Ratio};

/// Largest relative error of one f64 operation, or of a conversion: twice the half unit in the
/// last place.
pub(super) const STEP: f64 = 1.0 / (1_u64 << 52) as f64;

/// Magnitudes beyond which f64 could overflow or lose bits to underflow on the way.
const LARGEST: f64 = 1e120;

/// Least power of two whose multiples are trusted to be exact: they and their quotients by scales
/// of at least 1 / [`LARGEST`] stay clear of the least f64, 2^-1074.
const FINEST: i32 = -600;

/// What is known about the numbers of an expression before it is evaluated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    /// No magnitude, exact or computed, is larger.
    pub(super) most: f64,
    /// No computed number is farther from the exact one. 0 means that all are exact.
    pub(super) error: f64,
    /// Every exact number is a multiple of two to this power, if there is one.
    pub(super) exponent: Option<i32>,
}

impl Bound {
    /// Of numbers that are computed in one operation from operands whose errors make up
    /// `error`. Exact when the operands are and the result has at most 53 bits.
    pub(super) fn computed(most: f64, error: f64, exponent: Option<i32>) -> Self {
        let fits =
            |exponent: i32| exponent >= FINEST && most <= 2.0_f64.powi(exponent.saturating_add(52));
        if error == 0.0 && exponent.is_some_and(fits) {
            return Bound { most, error, exponent };
        }
        // The computed number may be larger than the exact one by its error. What is smaller than
        // the least normal f64 is off by less than that.
        let error = error + most * STEP + f64::MIN_POSITIVE;
        Bound { most: (most + error) * (1.0 + STEP), error: error * (1.0 + STEP), exponent }
    }

    /// Of numbers that were converted to the nearest f64; `None` when they are too large or small.
    pub(super) fn of(values: &[Ratio]) -> Option<Self> {
        let mut most = 0.0_f64;
        let (mut exact, mut exponent) = (true, Some(i32::MAX));
        for value in values {
            let magnitude = value.to_f64().value().abs();
            let zero = value.is_zero();
            if !(zero || (1.0 / LARGEST..LARGEST).contains(&magnitude)) {
                return None;
            }
            most = most.max(magnitude);
            if zero {
                continue;
            }
            let dyadic = Dyadic::from_ratio(value);
            exact &= dyadic.as_ref().is_some_and(Dyadic::is_f64);
            exponent = exponent.zip(dyadic).map(|(least, value)| least.min(value.exponent()));
        }
        // No number but 0: a multiple of anything.
        let exponent = exponent.map(|exponent| if exponent == i32::MAX { 0 } else { exponent });
        let error = if exact { 0.0 } else { most * STEP };
        Some(Bound { most: most * (1.0 + STEP), error, exponent })
    }

    /// Of integers from `low` to `high`.
    pub(super) fn of_integers(low: f64, high: f64) -> Self {
        Bound::computed(low.abs().max(high.abs()), 0.0, Some(0))
    }

    pub(super) fn sum(self, other: Bound) -> Self {
        let exponent = self.exponent.zip(other.exponent).map(|(a, b)| a.min(b));
        Bound::computed(self.most + other.most, self.error + other.error, exponent)
    }

    pub(super) fn product(self, other: Bound) -> Self {
        let exponent = self.exponent.zip(other.exponent).map(|(a, b)| a.saturating_add(b));
        let error = if self.error == 0.0 && other.error == 0.0 {
            0.0
        } else {
            (self.most * other.error + other.most * self.error) * (1.0 + STEP)
                + self.error * other.error
        };
        Bound::computed(self.most * other.most, error, exponent)
    }

    /// Of numbers that are each one of the two.
    pub(super) fn either(self, other: Bound) -> Self {
        Bound {
            most: self.most.max(other.most),
            error: self.error.max(other.error),
            exponent: self.exponent.zip(other.exponent).map(|(a, b)| a.min(b)),
        }
    }

    /// Of numbers that stay or are multiplied by a factor, by their sign: near 0 the sign of a
    /// computed number may be wrong.
    pub(super) fn sloped(self, slope: Bound) -> Self {
        let product = self.product(slope);
        let error = self.error * (1.0 + slope.most);
        Bound { error: product.error.max(self.error).max(error), ..self.either(product) }
    }

    pub(super) fn is_sound(&self) -> bool {
        self.most < LARGEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2^-300 four times: f64 makes 0 of the product, which no bound may call exact.
    #[test]
    fn what_underflows_is_not_exact() {
        let tiny = Ratio::from_parts(1.into(), quincunx_num::power_of_two(300).try_into().unwrap());
        let bound = Bound::of(&[tiny]).unwrap();
        assert!(bound.error == 0.0 && bound.exponent == Some(-300));
        let square = bound.product(bound);
        assert!(square.error == 0.0 && square.exponent == Some(-600));
        let fourth = square.product(square);
        assert!(fourth.error >= f64::MIN_POSITIVE);
        assert_eq!(2.0_f64.powi(-600) * 2.0_f64.powi(-600), 0.0);
    }
}
