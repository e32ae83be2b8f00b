//! Values of registers as residues modulo the prime 2^61 - 1.
//!
//! A value is a polynomial: the sum of `c X^dx Y^dy Z_channel` over its kernel. It is represented by
//! what the polynomial is at one fixed point, so that a translation, a sum, and a half are single
//! multiplications and additions. Different polynomials of the degrees that programs reach agree at
//! a random point with a chance of less than 2^-50; where two did, the symbolic executor would find
//! the program wrong. In the other direction there is no chance: equal polynomials always have equal
//! residues, so that a search in residues misses no program. What proofs make of that, and what they
//! assume besides, is written in `prove`.

/// The prime 2^61 - 1.
const PRIME: u64 = (1 << 61) - 1;

/// The point: units drawn once.
const X: Residue = Residue(0x0b5a_4f1d_93c7_e26d);
const Y: Residue = Residue(0x1c86_2e90_57f4_3ab1);

/// An element of the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Residue(u64);

impl Residue {
    /// 0.
    pub(crate) const ZERO: Residue = Residue(0);
    /// 1: what the first input channel holds.
    pub(crate) const ONE: Residue = Residue(1);

    /// A whole number.
    pub(crate) fn of(number: i64) -> Residue {
        let magnitude = Residue(number.unsigned_abs() % PRIME);
        if number < 0 { magnitude.negated() } else { magnitude }
    }

    /// What the input of a channel holds.
    pub(crate) fn channel(z: usize) -> Residue {
        // Powers of a third unit.
        Residue(0x13f0_77a5_8c2b_d94e).power(z as u64)
    }

    /// The factor of a translation by (x, y).
    pub(crate) fn translation(x: i64, y: i64) -> Residue {
        X.signed_power(x).times(Y.signed_power(y))
    }

    /// The sum.
    #[inline]
    #[must_use]
    pub(crate) fn plus(self, other: Residue) -> Residue {
        let sum = self.0 + other.0;
        Residue(if sum >= PRIME { sum - PRIME } else { sum })
    }

    /// The difference.
    #[inline]
    #[must_use]
    pub(crate) fn minus(self, other: Residue) -> Residue {
        self.plus(other.negated())
    }

    /// The additive inverse.
    #[inline]
    #[must_use]
    pub(crate) fn negated(self) -> Residue {
        Residue(if self.0 == 0 { 0 } else { PRIME - self.0 })
    }

    /// The product.
    #[inline]
    #[must_use]
    pub(crate) fn times(self, other: Residue) -> Residue {
        let product = u128::from(self.0) * u128::from(other.0);
        let (low, high) = (product as u64 & PRIME, (product >> 61) as u64);
        Residue(low).plus(Residue(high))
    }

    /// The multiplicative inverse; 0 for 0.
    #[must_use]
    pub(crate) fn inverse(self) -> Residue {
        self.power(PRIME - 2)
    }

    fn power(self, mut exponent: u64) -> Residue {
        let (mut result, mut square) = (Residue::ONE, self);
        while exponent > 0 {
            if exponent & 1 == 1 {
                result = result.times(square);
            }
            square = square.times(square);
            exponent >>= 1;
        }
        result
    }

    fn signed_power(self, exponent: i64) -> Residue {
        let power = self.power(exponent.unsigned_abs());
        if exponent < 0 { power.inverse() } else { power }
    }

    /// Bits that spread evenly, for tables.
    #[inline]
    pub(crate) fn bits(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_field() {
        let half = Residue::of(2).inverse();
        assert_eq!(half.plus(half), Residue::ONE);
        assert_eq!(Residue::of(-3).plus(Residue::of(3)), Residue::ZERO);
        let (there, back) = (Residue::translation(5, -2), Residue::translation(-5, 2));
        assert_eq!(there.times(back), Residue::ONE);
        assert_eq!(Residue::translation(2, 1), X.times(X).times(Y));
        assert_ne!(Residue::channel(1), Residue::channel(2));
        assert_eq!(Residue::channel(0), Residue::ONE);
    }
}
