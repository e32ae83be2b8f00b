//! Ranges of values and the bits of adders.

use super::Range;

impl Range {
    /// The range times a power of two and perhaps -1.
    pub(super) fn scaled(self, shift: i32, negate: bool) -> Range {
        let (low, high) = if negate { (-self.high, -self.low) } else { (self.low, self.high) };
        Range { low, high, exponent: self.exponent + shift }
    }

    /// The same numbers in finer steps; `None` when they are too large.
    pub(super) fn in_steps_of(self, exponent: i32) -> Option<Range> {
        let by = self.exponent - exponent;
        Some(Range { low: shifted(self.low, by)?, high: shifted(self.high, by)?, exponent })
    }

    /// Sums of a number of each range, as far as they can be expressed.
    pub(super) fn plus(&self, other: &Range) -> Range {
        let exponent = self.exponent.min(other.exponent);
        match (self.in_steps_of(exponent), other.in_steps_of(exponent)) {
            (Some(a), Some(b)) => Range {
                low: a.low.saturating_add(b.low),
                high: a.high.saturating_add(b.high),
                exponent,
            },
            _ => Range { low: i128::MIN / 4, high: i128::MAX / 4, exponent },
        }
    }

    /// The power of two that bounds every value, one step added to the highest.
    pub(super) fn reach(&self) -> i32 {
        let largest = self.low.unsigned_abs().max(self.high.saturating_add(1).unsigned_abs());
        (128 - largest.saturating_sub(1).leading_zeros()) as i32 + self.exponent
    }

    /// LUTs of an adder or subtractor of two ranges with this result: they begin at the lowest bit
    /// that both operands have, or at the lowest of the second one if that is negated. Operands side
    /// by side are wires.
    pub(super) fn adder_luts(&self, [a, b]: [&Range; 2], subtract: bool) -> u32 {
        let (low, high) = if a.exponent < b.exponent { (a, b) } else { (b, a) };
        match subtract {
            false if low.low >= 0 && low.bits_from(high.exponent) == 0 => 0,
            false => self.bits_from(high.exponent),
            true => self.bits_from(b.exponent),
        }
    }

    /// Bits of every value from the power of two `exponent` on, the sign among them.
    pub(super) fn bits_from(&self, exponent: i32) -> u32 {
        let sign = i32::from(self.low < 0);
        let largest = self.high.max(-(self.low + 1)).max(0).unsigned_abs();
        let top = (128 - largest.leading_zeros()) as i32 + self.exponent;
        (sign + top - exponent).max(0) as u32
    }

    /// Bits of an adder of two ranges as da4ml 0.6 counts them: a sign bit, the integer bits of
    /// the larger operand with its step added, and the fraction bits down to the coarser step.
    pub(super) fn adder_bits(&self, other: &Range) -> u32 {
        let sign = i32::from(self.low < 0 || other.low < 0);
        let integer = self.reach().max(other.reach());
        (sign + integer - self.exponent.max(other.exponent)).max(0) as u32
    }

    /// How late two ranges are added up with others: bits of the adder, and of the sum, since wide
    /// sums make later adders wide.
    pub(super) fn order(&self, other: &Range) -> u32 {
        let sum = self.plus(other);
        self.adder_bits(other) + (sum.reach() - sum.exponent) as u32
    }
}

/// `value * 2^by`, if it is an integer that fits.
pub(super) fn shifted(value: i128, by: i32) -> Option<i128> {
    if value == 0 {
        return Some(0);
    }
    let factor = 1_i128.checked_shl(u32::try_from(by).ok()?).filter(|factor| *factor > 0)?;
    value.checked_mul(factor)
}
