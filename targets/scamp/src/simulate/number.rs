//! The numbers of a plane: floats that know when they are exact, and fractions.

use quincunx_num::{Dyadic, Int, Ratio, bit_length};

/// A number on the analogue bus.
pub trait Number: Clone {
    /// Zero.
    fn zero() -> Self;
    /// The value of a float that is finite.
    fn of(value: f64) -> Self;
    /// The nearest float.
    fn float(&self) -> f64;
    /// Adds a number; clears `exact` if the result is rounded.
    fn add(&mut self, other: &Self, exact: &mut bool);
    /// Minus the number, divided; clears `exact` if the result is rounded.
    fn shared(&self, receivers: u8, exact: &mut bool) -> Self;
    /// Whether it is above 0.
    fn is_positive(&self) -> bool;
}

impl Number for f64 {
    fn zero() -> Self {
        0.0
    }

    fn of(value: f64) -> Self {
        value
    }

    fn float(&self) -> f64 {
        *self
    }

    fn add(&mut self, other: &Self, exact: &mut bool) {
        // The rounding error of a sum is a float itself (Knuth); it is 0 for exact sums, and no
        // number when the sum overflows.
        let sum = *self + *other;
        let back = sum - *self;
        let error = (*self - (sum - back)) + (*other - back);
        *exact &= error == 0.0;
        *self = sum;
    }

    fn shared(&self, receivers: u8, exact: &mut bool) -> Self {
        let divisor = f64::from(receivers);
        let quotient = (0.0 - *self) / divisor;
        *exact &= match receivers {
            1 => quotient.is_finite(),
            // Exact unless it falls below the smallest float.
            2 | 4 => quotient * divisor == 0.0 - *self,
            _ => quotient.mul_add(divisor, *self) == 0.0,
        };
        quotient
    }

    fn is_positive(&self) -> bool {
        *self > 0.0
    }
}

impl Number for Ratio {
    fn zero() -> Self {
        Ratio::ZERO
    }

    fn of(value: f64) -> Self {
        Dyadic::from_f64(value).map_or(Ratio::ZERO, |exact| exact.to_ratio())
    }

    fn float(&self) -> f64 {
        match Dyadic::from_ratio(self) {
            Some(exact) => exact.to_f64(),
            None => self.to_f64().value(),
        }
    }

    fn add(&mut self, other: &Self, _: &mut bool) {
        *self += other;
    }

    fn shared(&self, receivers: u8, _: &mut bool) -> Self {
        -self / Ratio::from(receivers)
    }

    fn is_positive(&self) -> bool {
        *self > Ratio::ZERO
    }
}

/// Bits of numerator and denominator.
pub(crate) fn length(value: &Ratio) -> u64 {
    let numerator = value.numerator();
    let magnitude = if *numerator < Int::ZERO { -numerator.clone() } else { numerator.clone() };
    u64::from(bit_length(&magnitude)) + u64::from(bit_length(&value.denominator().clone().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_notice_what_they_lose() {
        for (a, b, is_exact) in
            [(1.0, 2.0, true), (1.0, 1e-17, false), (0.1, 0.2, false), (1e308, 1e308, false)]
        {
            let (mut sum, mut exact): (f64, bool) = (a, true);
            sum.add(&b, &mut exact);
            assert_eq!(exact, is_exact, "{a} + {b}");
        }
        let shared = |value: f64, receivers| {
            let mut exact = true;
            let _ = value.shared(receivers, &mut exact);
            exact
        };
        assert!(shared(3.0, 3) && shared(-0.75, 3) && shared(1.0, 2) && shared(0.0, 5));
        assert!(!shared(1.0, 3) && !shared(f64::from_bits(1), 2) && !shared(1.0, 5));
    }

    #[test]
    fn fractions_come_back_as_the_nearest_float() {
        let third = Ratio::of(1.0).shared(3, &mut true);
        assert_eq!(third.float(), -1.0 / 3.0);
        assert_eq!(Ratio::of(0.1).float(), 0.1);
    }
}
