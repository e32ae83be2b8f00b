//! Ranges of values, proved from the inputs on: what a program declares is not relied on.

use quincunx_num::Kif;

/// All integers from `low` to `high`, which a 64-bit lane holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Range {
    pub(super) low: i64,
    pub(super) high: i64,
}

impl Range {
    /// One number.
    pub(super) fn point(value: i64) -> Range {
        Range { low: value, high: value }
    }

    /// `None` when 64 bits do not hold it.
    pub(super) fn of(low: i128, high: i128) -> Option<Range> {
        Some(Range { low: i64::try_from(low).ok()?, high: i64::try_from(high).ok()? })
    }

    /// Every value of a type.
    pub(super) fn of_type(kif: Kif) -> Option<Range> {
        let width = kif.width();
        if width > 64 {
            return None;
        }
        let count = 1_i128 << width;
        match (kif.signed, width) {
            (_, 0) => Some(Range::point(0)),
            (true, _) => Range::of(-count / 2, count / 2 - 1),
            (false, _) => Range::of(0, count - 1),
        }
    }

    /// The value, if there is only one.
    pub(super) fn single(self) -> Option<i64> {
        (self.low == self.high).then_some(self.low)
    }

    pub(super) fn holds(self, other: Range) -> bool {
        self.low <= other.low && other.high <= self.high
    }

    /// The smallest range that holds both.
    pub(super) fn union(self, other: Range) -> Range {
        Range { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    pub(super) fn plus(self, other: Range) -> Option<Range> {
        let (a, b) = (self.wide(), other.wide());
        Range::of(a.0 + b.0, a.1 + b.1)
    }

    pub(super) fn minus(self, other: Range) -> Option<Range> {
        let (a, b) = (self.wide(), other.wide());
        Range::of(a.0 - b.1, a.1 - b.0)
    }

    pub(super) fn negated(self) -> Option<Range> {
        Range::point(0).minus(self)
    }

    /// The same without what is below 0.
    pub(super) fn clipped(self) -> Range {
        Range { low: self.low.max(0), high: self.high.max(0) }
    }

    pub(super) fn times(self, other: Range) -> Option<Range> {
        let (a, b) = (self.wide(), other.wide());
        let corners = [a.0 * b.0, a.0 * b.1, a.1 * b.0, a.1 * b.1];
        let low = corners.into_iter().min()?;
        Range::of(low, corners.into_iter().max()?)
    }

    /// Shifted to the left, or to the right and rounded down.
    pub(super) fn shifted(self, by: i64) -> Option<Range> {
        let (low, high) = self.wide();
        match by {
            _ if (low, high) == (0, 0) => Some(self),
            64.. => None,
            0.. => Range::of(low << by, high << by),
            _ => {
                let by = by.unsigned_abs().min(64);
                Range::of(low >> by, high >> by)
            }
        }
    }

    /// The bits of a number that its values can have, in two's complement.
    pub(super) fn signed_bits(self) -> u32 {
        let bits = |value: i64| 65 - (if value < 0 { !value } else { value }).leading_zeros();
        bits(self.low).max(bits(self.high))
    }

    fn wide(self) -> (i128, i128) {
        (self.low.into(), self.high.into())
    }
}
