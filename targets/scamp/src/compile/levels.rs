//! Numbers that IN brings into the array: biases, and what sums are compared with.
//!
//! Registers hold values times `2^scale`, and IN holds whole numbers, so that such a number is rounded
//! to a multiple of `2^-scale`, halves upwards.

use super::weights::units;
use crate::options::MAX_SCALE;

/// Largest magnitude that IN is given; its negative is one as well.
pub(crate) const MAX: i8 = i8::MAX;

/// The finest scale that is chosen: with it, images of 0 to 1 fill the range of a register.
const FINEST: i32 = 7;

/// The coarsest scale.
const COARSEST: i32 = -MAX_SCALE;

/// What IN is to hold; `None` beyond its range.
pub(crate) fn level(number: f64, scale: i32) -> Option<i8> {
    let count = units(number, scale);
    (count.abs() <= f64::from(MAX)).then_some(count as i8)
}

/// True when IN can hold a number at a scale, or at any.
pub(crate) fn fits(number: f64, scale: Option<i32>) -> bool {
    level(number, scale.unwrap_or(COARSEST)).is_some()
}

/// How far IN is from a number.
pub(crate) fn error(number: f64, scale: i32) -> f64 {
    (number - units(number, scale) * 2.0_f64.powi(-scale)).abs()
}

/// The scale for some numbers: the least one that is not negative and rounds none of them, else the
/// finest that IN can hold; `None` where none is.
pub(crate) fn scale(numbers: &[f64]) -> Option<i32> {
    let fits = |scale: &i32| numbers.iter().all(|&number| level(number, *scale).is_some());
    let exact = |scale: &i32| numbers.iter().all(|&number| error(number, *scale) == 0.0);
    let plain = (0..=FINEST).find(|scale| fits(scale) && exact(scale));
    plain.or_else(|| (COARSEST..=FINEST).rev().find(fits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales() {
        assert_eq!(scale(&[]), Some(0));
        assert_eq!(scale(&[3.0, -0.5]), Some(1));
        assert_eq!(scale(&[0.1]), Some(7));
        assert_eq!(scale(&[0.1, 1.0]), Some(6));
        assert_eq!(scale(&[1000.5]), Some(-3));
        assert_eq!(scale(&[1e30]), None);
        assert_eq!(level(-0.1, 7), Some(-13));
        assert_eq!((level(127.5, 0), level(-127.5, 0)), (None, Some(-127)));
        assert!(fits(1e15, None) && !fits(1e15, Some(0)));
        assert_eq!(error(0.375, 1), 0.125);
    }
}
