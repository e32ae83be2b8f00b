//! Two arrays, number by number.

use quincunx_diag::Result;
use quincunx_report::{Cell, Column};
use quincunx_tensor::Tensor;
use std::fmt;
use std::str::FromStr;

/// Elements that are compared at a time, which bounds the memory for them.
const PART: usize = 1 << 16;

/// How far a number may be from the expected one: `absolute + relative * |expected|`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tolerance {
    /// Absolute part.
    pub absolute: f64,
    /// Relative part.
    pub relative: f64,
}

impl Tolerance {
    /// Numbers must be equal; NaN equals NaN, and -0 equals 0.
    pub const EXACT: Tolerance = Tolerance { absolute: 0.0, relative: 0.0 };

    /// True when the number is near enough to the expected one.
    pub(crate) fn near(self, found: f64, expected: f64) -> bool {
        let (found, expected) = (Number::Real(found), Number::Real(expected));
        found.equals(expected) || self.allows(found.distance(expected), expected.to_f64())
    }

    fn allows(self, error: f64, expected: f64) -> bool {
        expected.is_finite() && error <= self.absolute + self.relative * expected.abs()
    }
}

/// `ABS` or `ABS,REL`, both finite and not negative.
impl FromStr for Tolerance {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let part = |text: &str| {
            let number = text.trim().parse().ok();
            number
                .filter(|number: &f64| number.is_finite() && *number >= 0.0)
                .ok_or_else(|| "expected ABS or ABS,REL, as in 1e-6 or 0,1e-3".to_owned())
        };
        let (absolute, relative) = text.split_once(',').unwrap_or((text, "0"));
        Ok(Tolerance { absolute: part(absolute)?, relative: part(relative)? })
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Tolerance::EXACT => f.write_str("exact"),
            Tolerance { absolute, relative: 0.0 } => write!(f, "{absolute:.2e}"),
            Tolerance { absolute, relative } => write!(f, "{absolute:.2e},{relative:.2e}"),
        }
    }
}

/// An element that differs by more than the tolerance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Index along every axis.
    pub index: Vec<usize>,
    /// The number found.
    pub found: String,
    /// The number expected.
    pub expected: String,
}

/// How two arrays of equal shapes differ.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contrast {
    /// Elements that were compared.
    pub elements: usize,
    /// Elements that differ by more than the tolerance.
    pub mismatches: usize,
    /// The first of them in row-major order.
    pub first: Option<Mismatch>,
    /// Largest absolute difference; infinite where only one number is finite.
    pub max_absolute: f64,
    /// Largest difference relative to the expected number, where that is not 0.
    pub max_relative: f64,
}

impl Contrast {
    /// Compares arrays of equal shapes and any element types. 64-bit integers are compared as
    /// integers.
    ///
    /// # Errors
    /// Shapes of unequal numbers of elements, which is a bug of the caller.
    pub fn of(found: &Tensor, expected: &Tensor, tolerance: Tolerance) -> Result<Self> {
        let count = found.len();
        let (flat_found, flat_expected) = (found.reshape(&[count])?, expected.reshape(&[count])?);
        let mut contrast = Contrast { elements: count, ..Contrast::default() };
        for start in (0..count).step_by(PART) {
            let range = start..(start + PART).min(count);
            let found_part = numbers(&flat_found.outer_range(range.clone()));
            let expected_part = numbers(&flat_expected.outer_range(range));
            for (offset, (f, e)) in found_part.iter().zip(&expected_part).enumerate() {
                contrast.add(*f, *e, tolerance, || unravel(start + offset, found.shape()));
            }
        }
        Ok(contrast)
    }

    fn add(
        &mut self,
        found: Number,
        expected: Number,
        tolerance: Tolerance,
        index: impl Fn() -> Vec<usize>,
    ) {
        if found.equals(expected) {
            return;
        }
        let error = found.distance(expected);
        let size = expected.to_f64().abs();
        self.max_absolute = self.max_absolute.max(error);
        if size > 0.0 {
            let relative = if size.is_finite() { error / size } else { f64::INFINITY };
            self.max_relative = self.max_relative.max(relative);
        }
        if tolerance.allows(error, expected.to_f64()) {
            return;
        }
        self.mismatches += 1;
        if self.first.is_none() {
            let (found, expected) = (found.to_string(), expected.to_string());
            self.first = Some(Mismatch { index: index(), found, expected });
        }
    }

    /// Columns of [`Contrast::cells`]; `names` are those of the two numbers.
    pub(crate) fn columns(names: [&'static str; 2]) -> Vec<Column> {
        vec![
            Column::number("elements"),
            Column::number("mismatches"),
            Column::text("first"),
            Column::number(names[0]),
            Column::number(names[1]),
            Column::number("max_abs"),
            Column::number("max_rel"),
        ]
    }

    pub(crate) fn cells(&self) -> Vec<Cell> {
        let first = self.first.as_ref();
        vec![
            self.elements.into(),
            self.mismatches.into(),
            first.map(|first| format!("{:?}", first.index)).into(),
            first.map(|first| first.found.clone()).into(),
            first.map(|first| first.expected.clone()).into(),
            Cell::Brief(self.max_absolute),
            Cell::Brief(self.max_relative),
        ]
    }
}

/// An element: whole numbers keep all their digits.
#[derive(Clone, Copy)]
enum Number {
    Whole(i128),
    Real(f64),
}

impl Number {
    fn equals(self, other: Number) -> bool {
        match (self, other) {
            (Number::Whole(a), Number::Whole(b)) => a == b,
            (Number::Real(a), Number::Real(b)) => a == b || a.is_nan() && b.is_nan(),
            (Number::Whole(whole), Number::Real(real))
            | (Number::Real(real), Number::Whole(whole)) => {
                real.fract() == 0.0 && real as i128 == whole
            }
        }
    }

    /// Never NaN: a number that is not there is infinitely far away.
    fn distance(self, other: Number) -> f64 {
        let distance = match (self, other) {
            (Number::Whole(a), Number::Whole(b)) => a.abs_diff(b) as f64,
            // Rounding the whole number first could lose the difference.
            (Number::Whole(whole), Number::Real(real))
            | (Number::Real(real), Number::Whole(whole))
                if real.fract() == 0.0 && real.abs() < 1e30 =>
            {
                whole.abs_diff(real as i128) as f64
            }
            _ => (self.to_f64() - other.to_f64()).abs(),
        };
        if distance.is_nan() { f64::INFINITY } else { distance }
    }

    fn to_f64(self) -> f64 {
        match self {
            Number::Whole(value) => value as f64,
            Number::Real(value) => value,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Whole(value) => value.fmt(f),
            Number::Real(value) => value.fmt(f),
        }
    }
}

fn numbers(tensor: &Tensor) -> Vec<Number> {
    if let Ok(values) = tensor.values::<u64>() {
        return values.iter().map(|&value| Number::Whole(value.into())).collect();
    }
    match tensor.to_i64() {
        Some(values) => values.into_iter().map(|value| Number::Whole(value.into())).collect(),
        None => tensor.to_f64().into_iter().map(Number::Real).collect(),
    }
}

/// Index along every axis of the element at a row-major position.
fn unravel(mut position: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (axis, &extent) in shape.iter().enumerate().rev() {
        index[axis] = position % extent;
        position /= extent;
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_tensor::Element;

    fn tensor<T: Element>(shape: &[usize], values: &[T]) -> Tensor {
        Tensor::from_vec(shape, values.to_vec()).unwrap()
    }

    fn contrast(found: &Tensor, expected: &Tensor, tolerance: &str) -> Contrast {
        Contrast::of(found, expected, tolerance.parse().unwrap()).unwrap()
    }

    #[test]
    fn the_first_mismatch_has_its_index_and_both_numbers() {
        let a = tensor(&[2, 3], &[1.0_f32, 2.0, 3.0, 4.0, 5.5, 7.0]);
        let b = tensor(&[2, 3], &[1.0_f64, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let result = contrast(&a, &b, "0");
        let first = result.first.unwrap();
        assert_eq!((first.index, &*first.found, &*first.expected), (vec![1, 1], "5.5", "5"));
        assert_eq!((result.elements, result.mismatches, result.max_absolute), (6, 2, 1.0));
        assert_eq!(result.max_relative, 1.0 / 6.0);
        assert_eq!(contrast(&a, &b, "0.5").mismatches, 1);
        assert_eq!(contrast(&a, &b, "0.5,0.1").mismatches, 0);
        assert_eq!(contrast(&a, &b, "0,0.1").mismatches, 1);
    }

    #[test]
    fn wide_integers_are_compared_as_integers() {
        let a = tensor(&[1], &[(1_i64 << 53) + 1]);
        assert_eq!(contrast(&a, &tensor(&[1], &[1_i64 << 53]), "0").mismatches, 1);
        assert_eq!(contrast(&a, &tensor(&[1], &[(1_u64 << 53) + 1]), "0").mismatches, 0);
        assert_eq!(contrast(&a, &tensor(&[1], &[(1_u64 << 53) as f64]), "0").mismatches, 1);
        assert_eq!(
            contrast(&tensor(&[1], &[u64::MAX]), &tensor(&[1], &[-1_i64]), "0").mismatches,
            1
        );
    }

    #[test]
    fn what_is_not_finite_equals_itself_only() {
        let (nan, infinite) = (f64::NAN, f64::INFINITY);
        let a = tensor(&[5], &[nan, infinite, nan, 1.0, -0.0]);
        let b = tensor(&[5], &[nan, infinite, 0.0, infinite, 0.0]);
        let result = contrast(&a, &b, "1e300,1e300");
        assert_eq!((result.mismatches, result.max_absolute), (2, infinite));
        assert_eq!(contrast(&b, &a, "1e300,1e300").mismatches, 2);
    }

    #[test]
    fn large_arrays_are_compared_in_parts() {
        let mut values = vec![0_u8; PART * 2 + 5];
        let a = tensor(&[values.len()], &values);
        values[PART + 3] = 9;
        let result = contrast(&tensor(&[values.len()], &values), &a, "0");
        assert_eq!(result.first.unwrap().index, [PART + 3]);
        assert_eq!((result.mismatches, result.max_relative), (1, 0.0));
        assert_eq!(contrast(&tensor::<f32>(&[0], &[]), &tensor::<f32>(&[0], &[]), "0").elements, 0);
    }

    #[test]
    fn tolerances_are_finite_and_not_negative() {
        let parse = |text: &str| text.parse::<Tolerance>();
        assert_eq!(parse("0"), Ok(Tolerance::EXACT));
        assert_eq!(parse("1e-3, 2"), Ok(Tolerance { absolute: 1e-3, relative: 2.0 }));
        for text in ["", "x", "-1", "nan", "inf", "1,2,3", "1,"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
