//! Sums of products with one rounding: a fixed-point number that is wide enough for every product
//! of two floats.

/// An exact sum. `LIMBS` words of 64 bits in two's complement; bit 0 is worth `2^lowest`.
#[derive(Clone, Debug)]
pub struct Sum<const LIMBS: usize> {
    limbs: [u64; LIMBS],
    lowest: i32,
}

/// For products of two f32 and terms of f32.
pub type Sum32 = Sum<10>;
/// For products of two f64 and terms of f64.
pub type Sum64 = Sum<68>;

impl Sum32 {
    /// Zero.
    pub fn single() -> Sum32 {
        // The smallest product is 2^-149 squared.
        Sum { limbs: [0; 10], lowest: -298 }
    }
}

impl Sum64 {
    /// Zero.
    pub fn double() -> Sum64 {
        Sum { limbs: [0; 68], lowest: -2148 }
    }
}

impl<const LIMBS: usize> Sum<LIMBS> {
    /// Adds `±mantissa * 2^exponent`; the exponent is not below that of bit 0.
    fn add(&mut self, negative: bool, mantissa: u128, exponent: i32) {
        let at = (exponent - self.lowest).max(0) as usize;
        let (word, shift) = (at / 64, at % 64);
        let low = mantissa << shift;
        let high = if shift == 0 { 0 } else { mantissa >> (128 - shift) };
        let parts = [low as u64, (low >> 64) as u64, high as u64];
        let mut carry = false;
        for index in word..LIMBS {
            let part = parts.get(index - word).copied().unwrap_or(0);
            let (sum, over) = match negative {
                false => self.limbs[index].carrying_add_(part, carry),
                true => self.limbs[index].borrowing_sub_(part, carry),
            };
            self.limbs[index] = sum;
            carry = over;
            if index >= word + 2 && !carry {
                break;
            }
        }
    }

    /// Adds a finite number.
    pub fn add_value(&mut self, value: f64) {
        let (negative, mantissa, exponent) = parts(value);
        if mantissa != 0 {
            self.add(negative, u128::from(mantissa), exponent);
        }
    }

    /// Adds the product of two finite numbers.
    pub fn add_product(&mut self, a: f64, b: f64) {
        let ((sign_a, a, exponent_a), (sign_b, b, exponent_b)) = (parts(a), parts(b));
        let product = u128::from(a) * u128::from(b);
        if product != 0 {
            // Trailing zeros keep the exponent of products of f32 above that of bit 0.
            let zeros = product.trailing_zeros();
            let exponent = exponent_a + exponent_b + zeros as i32;
            self.add(sign_a != sign_b, product >> zeros, exponent);
        }
    }

    /// The nearest number with `precision` significant bits whose last place is not below
    /// `2^lowest`, ties to even; the caller narrows it. Overflow of f64 gives infinity.
    fn round(&self, precision: i32, lowest: i32) -> f64 {
        let mut limbs = self.limbs;
        let negative = limbs[LIMBS - 1] >> 63 == 1;
        if negative {
            let mut carry = true;
            for limb in &mut limbs {
                let (sum, over) = (!*limb).carrying_add_(0, carry);
                *limb = sum;
                carry = over;
            }
        }
        let Some(top) = limbs.iter().rposition(|&limb| limb != 0) else {
            return 0.0;
        };
        let top = 64 * top as i32 + 63 - limbs[top].leading_zeros() as i32;
        let last = (top - (precision - 1)).max(lowest - self.lowest).max(0);
        let bit = |at: i32| at >= 0 && limbs[at as usize / 64] >> (at % 64) & 1 == 1;
        let mut mantissa = (last..=top).rev().fold(0u64, |m, at| m << 1 | u64::from(bit(at)));
        let below = last - 1;
        let sticky = || {
            let (word, rest) = (below.max(0) as usize / 64, below.max(0) % 64);
            limbs[..word].iter().any(|&limb| limb != 0) || limbs[word] & ((1 << rest) - 1) != 0
        };
        if bit(below) && (mantissa & 1 == 1 || sticky()) {
            mantissa += 1;
        }
        let value = scale(mantissa as f64, last + self.lowest);
        if negative { -value } else { value }
    }

    /// The nearest f32, ties to even.
    pub fn to_f32(&self) -> f32 {
        // The value fits, or rounds to infinity.
        self.round(24, -149) as f32
    }

    /// The nearest f64, ties to even.
    pub fn to_f64(&self) -> f64 {
        self.round(53, -1074)
    }
}

/// Sign, mantissa and exponent of a finite number.
fn parts(value: f64) -> (bool, u64, i32) {
    let bits = value.to_bits();
    let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
    let (mantissa, exponent) = match exponent {
        0 => (fraction, -1074),
        _ => (fraction | 1 << 52, exponent - 1075),
    };
    let zeros = if mantissa == 0 { 0 } else { mantissa.trailing_zeros() };
    (value.is_sign_negative(), mantissa >> zeros, exponent + zeros as i32)
}

/// `value * 2^exponent`, exact where the result is a number of f64.
fn scale(value: f64, exponent: i32) -> f64 {
    let power = |exponent: i32| f64::from_bits(((exponent + 1023) as u64) << 52);
    // In steps that are normal; each is exact, since the mantissa keeps its bits until the last.
    let mut value = value;
    let mut exponent = exponent;
    while exponent < -1000 {
        // Only the last step may meet subnormal numbers, whose places the rounding has respected.
        let step = (exponent + 1000).max(-900);
        value *= power(step);
        exponent -= step;
    }
    while exponent > 1000 {
        value *= power(900);
        exponent -= 900;
    }
    value * power(exponent)
}

/// Addition with carry and subtraction with borrow.
trait Carry: Sized {
    fn carrying_add_(self, other: Self, carry: bool) -> (Self, bool);
    fn borrowing_sub_(self, other: Self, borrow: bool) -> (Self, bool);
}

impl Carry for u64 {
    fn carrying_add_(self, other: u64, carry: bool) -> (u64, bool) {
        let (sum, first) = self.overflowing_add(other);
        let (sum, second) = sum.overflowing_add(u64::from(carry));
        (sum, first | second)
    }

    fn borrowing_sub_(self, other: u64, borrow: bool) -> (u64, bool) {
        let (difference, first) = self.overflowing_sub(other);
        let (difference, second) = difference.overflowing_sub(u64::from(borrow));
        (difference, first | second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quincunx_num::Dyadic;

    #[test]
    fn small_sums_are_what_they_are() {
        let mut sum = Sum32::single();
        assert_eq!(sum.to_f32().to_bits(), 0);
        sum.add_value(1.0);
        sum.add_product(f64::from(f32::MIN_POSITIVE), f64::from(f32::MIN_POSITIVE));
        assert_eq!(sum.to_f32(), 1.0);
        sum.add_value(-1.0);
        assert_eq!(sum.to_f32(), 0.0);
        sum.add_value(f64::from(f32::MAX));
        sum.add_value(f64::from(f32::MAX));
        assert_eq!(sum.to_f32(), f32::INFINITY);
        let mut sum = Sum64::double();
        sum.add_product(f64::MAX, f64::MAX);
        assert_eq!(sum.to_f64(), f64::INFINITY);
        let mut sum = Sum64::double();
        sum.add_value(f64::from_bits(1));
        sum.add_value(f64::from_bits(2));
        assert_eq!(sum.to_f64().to_bits(), 3);
    }

    proptest! {
        /// Against exact fractions, which round to f64.
        #[test]
        fn sums_are_exact(terms in prop::collection::vec((any::<f32>(), any::<f32>()), 0..20)) {
            let mut sum = Sum64::double();
            let mut single = Sum32::single();
            let mut exact = Dyadic::ZERO;
            for (a, b) in terms {
                let (a, b) = (f64::from(a), f64::from(b));
                if a.is_finite() && b.is_finite() {
                    sum.add_product(a, b);
                    sum.add_value(a);
                    single.add_product(a, b);
                    single.add_value(a);
                    let of = |x: f64| Dyadic::from_f64(x).unwrap();
                    exact = exact.add(&of(a).mul(&of(b))).add(&of(a));
                }
            }
            prop_assert_eq!(sum.to_f64(), exact.to_f64());
            // Rounding twice differs from rounding once only at ties of the first rounding.
            let twice = exact.to_f64() as f32;
            let once = single.to_f32();
            prop_assert!(once == twice || (f64::from(once) - exact.to_f64()).abs()
                <= (f64::from(twice) - exact.to_f64()).abs());
        }
    }
}
