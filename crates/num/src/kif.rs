//! Fixed-point types: sign, integer and fraction bits (KIF), and intervals.
//!
//! Facts: `da4ml-doc`, `da4ml` (`docs/bibliography.md`).

use crate::{Dyadic, Int, Overflow, bit_length, code_range, shift_floor};
use std::fmt;

/// Fixed-point type. A value is an integer `v` that stands for `v * 2^-fraction`.
///
/// `integer` and `fraction` may be negative. A width of 0 or less means the constant 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kif {
    /// Has a sign bit.
    pub signed: bool,
    /// Integer bits without the sign bit.
    pub integer: i32,
    /// Fraction bits.
    pub fraction: i32,
}

impl Kif {
    /// The type of the constant 0.
    pub const ZERO: Kif = Kif { signed: false, integer: 0, fraction: 0 };

    /// A type from its three numbers.
    pub const fn new(signed: bool, integer: i32, fraction: i32) -> Self {
        Kif { signed, integer, fraction }
    }

    /// Total bits, 0 when the numbers add up to less.
    pub fn width(self) -> u32 {
        let bits = i64::from(self.signed) + i64::from(self.integer) + i64::from(self.fraction);
        u32::try_from(bits.max(0)).unwrap_or(u32::MAX)
    }

    /// Exponent of the step, `-fraction`; at most `i32::MAX`.
    pub fn exponent(self) -> i32 {
        self.fraction.saturating_neg()
    }

    /// Lowest and highest integer value.
    pub fn range(self) -> (Int, Int) {
        code_range(self.signed, self.width(), Overflow::Wrap)
    }

    /// True when `value` needs no wrapping.
    pub fn contains(self, value: &Int) -> bool {
        let (low, high) = self.range();
        (&low..=&high).contains(&value)
    }

    /// Keeps the low bits of `value` and extends the sign (overflow mode `WRAP`).
    pub fn wrap(self, value: &Int) -> Int {
        Overflow::Wrap.apply(value, self.signed, self.width())
    }

    /// The widest interval of this type.
    pub fn interval(self) -> Interval {
        let (low, high) = self.range();
        Interval::new(low, high, self.exponent())
    }
}

impl fmt::Display for Kif {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {}, {})", u8::from(self.signed), self.integer, self.fraction)
    }
}

/// All multiples of `2^exponent` between `low * 2^exponent` and `high * 2^exponent`.
///
/// Invariant: `low <= high`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Interval {
    low: Int,
    high: Int,
    exponent: i32,
}

impl Interval {
    /// An interval in units of `2^exponent`; the bounds may come in either order.
    pub fn new(a: Int, b: Int, exponent: i32) -> Self {
        let (low, high) = if a <= b { (a, b) } else { (b, a) };
        Interval { low, high, exponent }
    }

    /// The single value 0.
    pub fn zero() -> Self {
        Interval { low: Int::ZERO, high: Int::ZERO, exponent: 0 }
    }

    /// The single value `value`.
    pub fn point(value: &Dyadic) -> Self {
        let mantissa = value.mantissa().clone();
        Interval { low: mantissa.clone(), high: mantissa, exponent: value.exponent() }
    }

    /// Lower bound in units of `2^exponent`.
    pub fn low(&self) -> &Int {
        &self.low
    }

    /// Upper bound in units of `2^exponent`.
    pub fn high(&self) -> &Int {
        &self.high
    }

    /// Exponent of the step.
    pub fn exponent(&self) -> i32 {
        self.exponent
    }

    /// Lower bound.
    pub fn min(&self) -> Dyadic {
        Dyadic::new(self.low.clone(), self.exponent)
    }

    /// Upper bound.
    pub fn max(&self) -> Dyadic {
        Dyadic::new(self.high.clone(), self.exponent)
    }

    /// True when the interval holds only the value 0.
    pub fn is_zero(&self) -> bool {
        self.low == Int::ZERO && self.high == Int::ZERO
    }

    /// The smallest type that holds every value and keeps the step.
    pub fn kif(&self) -> Kif {
        if self.is_zero() {
            return Kif::ZERO;
        }
        let below = bit_length(&(-self.low.clone() - Int::ONE));
        let above = bit_length(&self.high);
        let bits = i32::try_from(below.max(above)).unwrap_or(i32::MAX);
        Kif {
            signed: self.low < Int::ZERO,
            integer: bits.saturating_add(self.exponent),
            fraction: self.exponent.saturating_neg(),
        }
    }

    /// The same values in units of a smaller or equal step; `None` if `exponent` is larger.
    pub fn with_exponent(&self, exponent: i32) -> Option<Interval> {
        let shift = i64::from(self.exponent) - i64::from(exponent);
        (shift >= 0).then(|| Interval {
            low: shift_floor(&self.low, shift),
            high: shift_floor(&self.high, shift),
            exponent,
        })
    }

    /// Every `x * 2^shift`.
    #[must_use]
    pub fn shifted(&self, shift: i32) -> Interval {
        Interval { exponent: self.exponent.saturating_add(shift), ..self.clone() }
    }

    /// Every `-x`.
    #[must_use]
    pub fn negated(&self) -> Interval {
        Interval { low: -self.high.clone(), high: -self.low.clone(), exponent: self.exponent }
    }

    /// Every `x + y`. A zero operand does not refine the step.
    #[must_use]
    pub fn plus(&self, other: &Interval) -> Interval {
        let (a, b) = self.aligned(other);
        Interval { low: a.low + b.low, high: a.high + b.high, exponent: a.exponent }
    }

    /// Every `x - y`.
    #[must_use]
    pub fn minus(&self, other: &Interval) -> Interval {
        self.plus(&other.negated())
    }

    /// Every `x * y`.
    #[must_use]
    pub fn times(&self, other: &Interval) -> Interval {
        let products = [
            &self.low * &other.low,
            &self.low * &other.high,
            &self.high * &other.low,
            &self.high * &other.high,
        ];
        let low = products.iter().min().cloned().unwrap_or_default();
        let high = products.iter().max().cloned().unwrap_or_default();
        Interval { low, high, exponent: self.exponent.saturating_add(other.exponent) }
    }

    /// The smallest interval that holds both.
    #[must_use]
    pub fn union(&self, other: &Interval) -> Interval {
        let (a, b) = self.aligned(other);
        Interval { low: a.low.min(b.low), high: a.high.max(b.high), exponent: a.exponent }
    }

    /// True when every value of `other` is a value of `self`.
    pub fn holds(&self, other: &Interval) -> bool {
        if other.is_zero() {
            return self.low <= Int::ZERO && Int::ZERO <= self.high;
        }
        other.exponent >= self.exponent
            && other
                .with_exponent(self.exponent)
                .is_some_and(|o| self.low <= o.low && o.high <= self.high)
    }

    /// Both in the finer step of the two; the step of a zero interval does not count.
    fn aligned(&self, other: &Interval) -> (Interval, Interval) {
        let exponent = match (self.is_zero(), other.is_zero()) {
            (true, false) => other.exponent,
            (false, true) => self.exponent,
            _ => self.exponent.min(other.exponent),
        };
        let align = |interval: &Interval| {
            interval.with_exponent(exponent).unwrap_or(Interval { exponent, ..Interval::zero() })
        };
        (align(self), align(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn interval(low: i64, high: i64, exponent: i32) -> Interval {
        Interval::new(Int::from(low), Int::from(high), exponent)
    }

    #[test]
    fn minimal_types_of_examples() {
        assert_eq!(interval(-3, 3, 0).kif(), Kif::new(true, 2, 0));
        assert_eq!(interval(-4, 3, 0).kif(), Kif::new(true, 2, 0));
        assert_eq!(interval(0, 2, -3).kif(), Kif::new(false, -1, 3));
        assert_eq!(interval(0, 0, 7).kif(), Kif::ZERO);
        assert_eq!(interval(-1, 0, 0).kif(), Kif::new(true, 0, 0));
        assert_eq!(interval(-8, -5, 0).kif(), Kif::new(true, 3, 0));
    }

    #[test]
    fn zero_does_not_refine_the_step() {
        let sum = Interval::zero().plus(&interval(-2, 2, 3));
        assert_eq!(sum, interval(-2, 2, 3));
        let fine_zero = Interval::zero().shifted(-9);
        assert_eq!(interval(1, 2, 0).plus(&fine_zero), interval(1, 2, 0));
    }

    proptest! {
        /// The minimal type holds the bounds and a type one bit narrower does not.
        #[test]
        fn kif_is_minimal(a in -300_i64..300, b in -300_i64..300, exponent in -5_i32..5) {
            let range = interval(a, b, exponent);
            let kif = range.kif();
            prop_assert!(kif.interval().holds(&range));
            if !range.is_zero() {
                let narrower = Kif { integer: kif.integer - 1, ..kif };
                prop_assert!(!narrower.interval().holds(&range));
            }
        }

        /// Interval arithmetic against brute force over all pairs.
        #[test]
        fn arithmetic_is_tight(a in -6_i64..6, b in -6_i64..6, c in -6_i64..6, d in -6_i64..6, e in -2_i32..3) {
            let x = interval(a, b, 0);
            let y = interval(c, d, e);
            let values = |i: &Interval| -> Vec<Dyadic> {
                let low = i64::try_from(i.low()).unwrap();
                let high = i64::try_from(i.high()).unwrap();
                (low..=high).map(|v| Dyadic::new(Int::from(v), i.exponent())).collect()
            };
            let (xs, ys) = (values(&x), values(&y));
            let pairs = || xs.iter().flat_map(|p| ys.iter().map(move |q| (p, q)));
            let sum = x.plus(&y);
            prop_assert_eq!(Some(sum.min()), pairs().map(|(p, q)| p.add(q)).min());
            prop_assert_eq!(Some(sum.max()), pairs().map(|(p, q)| p.add(q)).max());
            let difference = x.minus(&y);
            prop_assert_eq!(Some(difference.min()), pairs().map(|(p, q)| p.add(&q.neg())).min());
            let product = x.times(&y);
            prop_assert_eq!(Some(product.min()), pairs().map(|(p, q)| p.mul(q)).min());
            prop_assert_eq!(Some(product.max()), pairs().map(|(p, q)| p.mul(q)).max());
            let union = x.union(&y);
            prop_assert!(union.holds(&x) && union.holds(&y));
        }

        #[test]
        fn wrap_keeps_what_fits(value in any::<i32>(), signed in any::<bool>(), i in -3_i32..20, f in -3_i32..20) {
            let kif = Kif::new(signed, i, f);
            let wrapped = kif.wrap(&Int::from(value));
            prop_assert!(kif.contains(&wrapped));
            if kif.contains(&Int::from(value)) {
                prop_assert_eq!(wrapped, Int::from(value));
            }
        }
    }
}
