//! Which instructions hold the numbers of a layer.

use super::super::value::GridValue;

/// Sums beyond this magnitude are left to the exact executor.
pub(super) const MOST: i128 = 1 << 62;

/// Which instructions hold operands and sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    U8,
    I8,
    I16,
    I64,
}

/// Integers from `low` to `high`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) low: i128,
    pub(super) high: i128,
}

impl Range {
    fn of(values: impl Iterator<Item = i64>) -> Self {
        let (low, high) = values.fold((0, 0), |(a, b): (i64, i64), v| (a.min(v), b.max(v)));
        Range { low: low.into(), high: high.into() }
    }

    fn fits<T: Into<i128>>(self, low: T, high: T) -> bool {
        self.low >= low.into() && self.high <= high.into()
    }

    fn fits_i32(self) -> bool {
        self.fits(i32::MIN, i32::MAX)
    }

    /// The sums of numbers of this range times each list of weights. 0 is one of the numbers,
    /// since pads are.
    fn sums<'a>(self, lists: impl Iterator<Item = &'a [i64]>) -> Self {
        let (low, high) = (self.low.min(0), self.high.max(0));
        let mut all = Range { low: 0, high: 0 };
        for weights in lists {
            let (positive, negative) = halves(weights);
            all.low = all
                .low
                .min(positive.saturating_mul(low).saturating_add(negative.saturating_mul(high)));
            all.high = all
                .high
                .max(positive.saturating_mul(high).saturating_add(negative.saturating_mul(low)));
        }
        all
    }
}

/// The sum of what is positive and of what is negative.
fn halves(weights: &[i64]) -> (i128, i128) {
    let sums = weights.iter().try_fold((0_i64, 0_i64), |(positive, negative), &w| {
        Some((positive.checked_add(w.max(0))?, negative.checked_add(w.min(0))?))
    });
    if let Some((positive, negative)) = sums {
        return (positive.into(), negative.into());
    }
    let sum = |part: fn(i64) -> i64| weights.iter().map(|&w| i128::from(part(w))).sum();
    (sum(|w| w.max(0)), sum(|w| w.min(0)))
}

/// The narrowest instructions for numbers of `x` (as stored), weights and sums; `None` when sums
/// could leave 64 bits. Sums of narrow numbers are computed modulo 2^32, zero points included, so
/// only the final sums need to fit.
fn width(x: Range, centred: Range, weights: Range, sums: Range) -> Option<Width> {
    if sums.fits_i32() {
        if weights.fits(i8::MIN, i8::MAX) && x.fits(0_u8, u8::MAX) {
            return Some(Width::U8);
        }
        if weights.fits(i8::MIN, i8::MAX) && x.fits(i8::MIN, i8::MAX) {
            return Some(Width::I8);
        }
        if weights.fits(i16::MIN, i16::MAX) && x.fits(i16::MIN, i16::MAX) {
            return Some(Width::I16);
        }
    }
    let wide = sums.low > -MOST && sums.high < MOST && centred.low > -MOST && centred.high < MOST;
    wide.then_some(Width::I64)
}

/// What is known about the numbers of a layer.
pub(super) struct Ranges {
    pub(super) zero: i64,
    stored: Range,
    centred: Range,
    weights: Range,
    pub(super) sums: Range,
}

impl Ranges {
    /// `depth` weights belong to one channel of the result.
    pub(super) fn new(x: &GridValue, weights: &[i64], depth: usize) -> Self {
        let zero = x.uniform_zero().unwrap_or(0);
        let stored = Range { low: x.low.into(), high: x.high.into() };
        let shift = i128::from(zero);
        let centred = Range { low: stored.low - shift, high: stored.high - shift };
        let sums = centred.sums(weights.chunks(depth));
        // Pads are stored as the zero point.
        let stored = Range { low: stored.low.min(shift), high: stored.high.max(shift) };
        Ranges { zero, stored, centred, weights: Range::of(weights.iter().copied()), sums }
    }

    pub(super) fn width(&self) -> Option<Width> {
        width(self.stored, self.centred, self.weights, self.sums)
    }
}
