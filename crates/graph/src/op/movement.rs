//! Attributes of operators that move, select and repeat elements.

#![deny(clippy::arithmetic_side_effects)]

use smallvec::SmallVec;

/// The elements `start, start + step, …` before `end` along one axis.
///
/// As in ONNX, `start` and `end` count from the end when negative and are kept within the axis, so
/// the same range fits every extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceRange {
    /// The axis.
    pub axis: usize,
    /// First element.
    pub start: i64,
    /// Element that is no longer taken.
    pub end: i64,
    /// Distance between two elements; not 0. Negative steps go backwards.
    pub step: i64,
}

impl SliceRange {
    /// Position of the first element and number of elements along an axis of this extent.
    pub fn resolve(&self, extent: usize) -> (usize, usize) {
        let extent = i64::try_from(extent).unwrap_or(i64::MAX);
        let from_start = |bound: i64| if bound < 0 { bound.saturating_add(extent) } else { bound };
        // Going backwards, the position before the first element is a valid end.
        let (low, high) = if self.step > 0 { (0, extent) } else { (-1, extent.saturating_sub(1)) };
        let start = from_start(self.start).clamp(low.max(0), high.max(0));
        let end = from_start(self.end).clamp(low, high);
        let (first, last) = if self.step > 0 { (start, end) } else { (end, start) };
        let span = last.saturating_sub(first);
        let step = self.step.unsigned_abs().max(1);
        let count = u64::try_from(span).unwrap_or(0).div_ceil(step);
        let count = if extent == 0 { 0 } else { count };
        (usize::try_from(start).unwrap_or(0), usize::try_from(count).unwrap_or(0))
    }
}

/// What lies outside of a padded tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PadMode {
    /// This number, which must be one of the tensor's type.
    Constant(f64),
    /// The nearest element of the tensor.
    Edge,
    /// The tensor mirrored at its first and last element, which are not repeated.
    Reflect,
    /// The tensor repeated.
    Wrap,
}

/// Attributes of a padding. Input: `x`.
#[derive(Clone, Debug, PartialEq)]
pub struct Pad {
    /// Elements added before and after every axis; negative numbers remove elements.
    pub pads: SmallVec<[(i64, i64); 4]>,
    /// What is added.
    pub mode: PadMode,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_kept_within_the_axis() {
        let resolve =
            |start, end, step, extent| SliceRange { axis: 0, start, end, step }.resolve(extent);
        assert_eq!(resolve(1, 4, 1, 10), (1, 3));
        assert_eq!(resolve(-3, i64::MAX, 1, 10), (7, 3));
        assert_eq!(resolve(0, 10, 3, 10), (0, 4));
        assert_eq!(resolve(5, 2, 1, 10), (5, 0));
        assert_eq!(resolve(20, 30, 1, 10), (10, 0));
        assert_eq!(resolve(-1, i64::MIN, -1, 4), (3, 4));
        assert_eq!(resolve(20, 0, -4, 10), (9, 3));
        assert_eq!(resolve(i64::MIN, i64::MAX, 1, 3), (0, 3));
        assert_eq!(resolve(i64::MIN, i64::MIN, -1, 3), (0, 1));
        assert_eq!(resolve(0, 5, 1, 0), (0, 0));
        assert_eq!(resolve(0, i64::MIN, -1, 0), (0, 0));
    }
}
