//! Exact binary fractions.

use crate::{Int, Ratio, Rounding, bit_length, power_of_two, round_shift};
use std::cmp::Ordering;

/// `mantissa * 2^exponent`.
///
/// Invariant: the mantissa is odd, or zero with exponent 0, so equal numbers are equal values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dyadic {
    mantissa: Int,
    exponent: i32,
}

impl Dyadic {
    /// Zero.
    pub const ZERO: Dyadic = Dyadic { mantissa: Int::ZERO, exponent: 0 };

    /// `mantissa * 2^exponent`, brought to the canonical form.
    pub fn new(mantissa: Int, exponent: i32) -> Self {
        let Some(zeros) = mantissa.trailing_zeros() else {
            return Self::ZERO;
        };
        let zeros = i32::try_from(zeros).unwrap_or(i32::MAX);
        Dyadic { mantissa: mantissa >> zeros as usize, exponent: exponent.saturating_add(zeros) }
    }

    /// The exact value of a float; `None` for infinities and NaN.
    pub fn from_f64(value: f64) -> Option<Self> {
        if !value.is_finite() {
            return None;
        }
        let bits = value.to_bits();
        let biased = i32::try_from((bits >> 52) & 0x7ff).unwrap_or(0);
        let fraction = bits & ((1 << 52) - 1);
        let (magnitude, exponent) =
            if biased == 0 { (fraction, -1074) } else { (fraction | 1 << 52, biased - 1075) };
        let mantissa = Int::from(magnitude);
        Some(Self::new(if value < 0.0 { -mantissa } else { mantissa }, exponent))
    }

    /// The nearest float, ties to even; overflows to infinity. Zero is `+0`.
    pub fn to_f64(&self) -> f64 {
        let negative = self.mantissa < Int::ZERO;
        let magnitude = if negative { -self.mantissa.clone() } else { self.mantissa.clone() };
        let bits = i64::from(bit_length(&magnitude));
        if bits == 0 {
            return 0.0;
        }
        // Keep 53 bits, fewer where the result is subnormal.
        let lowest = (i64::from(self.exponent) + bits - 53).max(-1074);
        let drop = lowest - i64::from(self.exponent);
        let kept = if drop > bits + 1 {
            Int::ZERO
        } else {
            round_shift(&magnitude, drop, Rounding::HalfEven)
        };
        let kept = u64::try_from(&kept).unwrap_or(u64::MAX);
        let value = scale_f64(kept, lowest);
        if negative { -value } else { value }
    }

    /// True when [`Dyadic::to_f64`] loses nothing.
    pub fn is_f64(&self) -> bool {
        Self::from_f64(self.to_f64()).as_ref() == Some(self)
    }

    /// Odd mantissa, or zero.
    pub fn mantissa(&self) -> &Int {
        &self.mantissa
    }

    /// Exponent of two that goes with [`Dyadic::mantissa`].
    pub fn exponent(&self) -> i32 {
        self.exponent
    }

    /// True for zero.
    pub fn is_zero(&self) -> bool {
        self.mantissa == Int::ZERO
    }

    /// `Some(e)` when the value is exactly `2^e`.
    pub fn log2(&self) -> Option<i32> {
        (self.mantissa == Int::ONE).then_some(self.exponent)
    }

    /// The value in units of `2^unit`, if it is a whole number of them.
    pub fn in_units(&self, unit: i32) -> Option<Int> {
        if self.is_zero() {
            return Some(Int::ZERO);
        }
        let shift = i64::from(self.exponent) - i64::from(unit);
        // Beyond any width used here; refusing keeps memory bounded on hostile exponents.
        (0..=1 << 16)
            .contains(&shift)
            .then(|| &self.mantissa << usize::try_from(shift).unwrap_or(0))
    }

    /// The value as a fraction.
    pub fn to_ratio(&self) -> Ratio {
        let power = power_of_two(self.exponent.unsigned_abs());
        if self.exponent >= 0 {
            Ratio::from(&self.mantissa * power)
        } else {
            Ratio::from_parts(self.mantissa.clone(), power.try_into().unwrap_or_default())
        }
    }

    /// The exact value of a fraction whose denominator is a power of two.
    pub fn from_ratio(value: &Ratio) -> Option<Self> {
        let denominator: Int = value.denominator().clone().into();
        let log2 = bit_length(&denominator) - 1;
        (denominator == power_of_two(log2))
            .then(|| Self::new(value.numerator().clone(), -i32::try_from(log2).unwrap_or(i32::MAX)))
    }

    /// Sum.
    pub fn add(&self, other: &Dyadic) -> Dyadic {
        let unit = self.exponent.min(other.exponent);
        let wide = |d: &Dyadic| &d.mantissa << usize::try_from(d.exponent - unit).unwrap_or(0);
        Dyadic::new(wide(self) + wide(other), unit)
    }

    /// Product.
    pub fn mul(&self, other: &Dyadic) -> Dyadic {
        Dyadic::new(&self.mantissa * &other.mantissa, self.exponent.saturating_add(other.exponent))
    }

    /// `-self`.
    #[must_use]
    pub fn neg(&self) -> Dyadic {
        Dyadic { mantissa: -self.mantissa.clone(), exponent: self.exponent }
    }
}

impl PartialOrd for Dyadic {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Dyadic {
    fn cmp(&self, other: &Self) -> Ordering {
        self.add(&other.neg()).mantissa.cmp(&Int::ZERO)
    }
}

/// `mantissa * 2^exponent` for a mantissa of at most 53 bits and a result that needs no rounding.
fn scale_f64(mantissa: u64, exponent: i64) -> f64 {
    let bits = i64::from(64 - mantissa.leading_zeros());
    if exponent + bits > 1024 {
        return f64::INFINITY;
    }
    // Two exact multiplications by powers of two, so that neither factor leaves the normal range.
    let half = exponent / 2;
    let power = |e: i64| f64::from_bits(u64::try_from(e + 1023).unwrap_or(0) << 52);
    mantissa as f64 * power(half) * power(exponent - half)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rounds_to_nearest_even_once() {
        let above_53_bits = Dyadic::new(Int::from((1_i64 << 53) + 1), 0);
        assert_eq!(above_53_bits.to_f64(), (1_i64 << 53) as f64);
        assert!(!above_53_bits.is_f64());
        assert_eq!(Dyadic::new(Int::from(3), -1076).to_f64(), f64::from_bits(1));
        assert_eq!(Dyadic::new(Int::ONE, -1075).to_f64(), 0.0);
        assert_eq!(Dyadic::new(Int::ONE, 1024).to_f64(), f64::INFINITY);
        assert_eq!(Dyadic::new(Int::from(-1), 1023).to_f64(), -(2.0_f64.powi(1023)));
    }

    proptest! {
        #[test]
        fn every_float_survives(bits in any::<u64>()) {
            let value = f64::from_bits(bits);
            match Dyadic::from_f64(value) {
                Some(exact) => prop_assert_eq!(exact.to_f64(), value),
                None => prop_assert!(!value.is_finite()),
            }
        }

        #[test]
        fn conversion_matches_the_cast(value in any::<i64>()) {
            prop_assert_eq!(Dyadic::new(Int::from(value), 0).to_f64(), value as f64);
        }

        #[test]
        fn ratio_round_trips(value in any::<i64>(), exponent in -40_i32..40) {
            let exact = Dyadic::new(Int::from(value), exponent);
            prop_assert_eq!(Dyadic::from_ratio(&exact.to_ratio()), Some(exact));
        }

        #[test]
        fn orders_like_floats(a in any::<i32>(), b in any::<i32>(), e in -9_i32..9) {
            let x = Dyadic::new(Int::from(a), e);
            let y = Dyadic::new(Int::from(b), -e);
            prop_assert_eq!(x.partial_cmp(&y), x.to_f64().partial_cmp(&y.to_f64()));
        }
    }
}
