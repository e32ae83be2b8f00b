//! One arithmetic for every element type: integers wrap, floats round.

use super::unsupported;
use quincunx_diag::Result;
use quincunx_tensor::{DType, Element, Tensor};

/// Numbers of one element type.
pub(super) trait Numeric: Element + PartialOrd {
    const ZERO: Self;
    const ONE: Self;
    /// No number of the type is lower.
    const LOWEST: Self;
    /// No number of the type is higher.
    const HIGHEST: Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    /// Integers truncate; the divisor of integers is not 0.
    fn div(self, other: Self) -> Self;
    fn neg(self) -> Self;
    fn abs(self) -> Self;
    /// -1, 0 or 1.
    fn sign(self) -> Self;
    /// `self ^ exponent`; integers wrap where the exponent is a whole number from 0 on.
    fn power(self, exponent: f64) -> Self;
    /// The larger; NaN if one is.
    fn larger(self, other: Self) -> Self;
    /// The smaller; NaN if one is.
    fn smaller(self, other: Self) -> Self;
    fn to_f64(self) -> f64;
    /// The nearest number; integers truncate and saturate.
    fn from_f64(value: f64) -> Self;
}

macro_rules! integers {
    ($($t:ident: $neg:expr, $abs:expr, $sign:expr;)*) => {
        $(impl Numeric for $t {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const LOWEST: Self = $t::MIN;
            const HIGHEST: Self = $t::MAX;
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn div(self, other: Self) -> Self {
                self.wrapping_div(other)
            }
            fn neg(self) -> Self {
                $neg(self)
            }
            fn abs(self) -> Self {
                $abs(self)
            }
            fn sign(self) -> Self {
                $sign(self)
            }
            fn power(self, exponent: f64) -> Self {
                if exponent.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&exponent) {
                    return self.wrapping_pow(exponent as u32);
                }
                (self as f64).powf(exponent) as $t
            }
            fn larger(self, other: Self) -> Self {
                self.max(other)
            }
            fn smaller(self, other: Self) -> Self {
                self.min(other)
            }
            fn to_f64(self) -> f64 {
                self as f64
            }
            fn from_f64(value: f64) -> Self {
                value as $t
            }
        })*
    };
}

integers! {
    i8: i8::wrapping_neg, i8::wrapping_abs, i8::signum;
    i16: i16::wrapping_neg, i16::wrapping_abs, i16::signum;
    i32: i32::wrapping_neg, i32::wrapping_abs, i32::signum;
    i64: i64::wrapping_neg, i64::wrapping_abs, i64::signum;
    u8: u8::wrapping_neg, |v| v, |v: u8| v.min(1);
    u16: u16::wrapping_neg, |v| v, |v: u16| v.min(1);
    u32: u32::wrapping_neg, |v| v, |v: u32| v.min(1);
    u64: u64::wrapping_neg, |v| v, |v: u64| v.min(1);
}

macro_rules! floats {
    ($($t:ident)*) => {
        $(impl Numeric for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const LOWEST: Self = $t::NEG_INFINITY;
            const HIGHEST: Self = $t::INFINITY;
            fn add(self, other: Self) -> Self {
                self + other
            }
            fn sub(self, other: Self) -> Self {
                self - other
            }
            fn mul(self, other: Self) -> Self {
                self * other
            }
            fn div(self, other: Self) -> Self {
                self / other
            }
            fn neg(self) -> Self {
                -self
            }
            fn abs(self) -> Self {
                self.abs()
            }
            fn sign(self) -> Self {
                // The standard library gives zeros the sign of their bit.
                if self == 0.0 { 0.0 } else { self.signum() }
            }
            fn power(self, exponent: f64) -> Self {
                f64::from(self).powf(exponent) as $t
            }
            fn larger(self, other: Self) -> Self {
                if self > other || self.is_nan() { self } else { other }
            }
            fn smaller(self, other: Self) -> Self {
                if self < other || self.is_nan() { self } else { other }
            }
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            fn from_f64(value: f64) -> Self {
                value as $t
            }
        })*
    };
}

floats! { f32 f64 }

/// Evaluates an expression of type `Result` with `$t` bound to the element type of a dtype.
macro_rules! with_number {
    ($dtype:expr, $t:ident => $body:expr) => {{
        use quincunx_tensor::DType;
        macro_rules! typed {
            ($rust:ident) => {{
                type $t = $rust;
                $body
            }};
        }
        match $dtype {
            DType::Bool => Err(super::unsupported("truth values are not numbers")),
            DType::I8 => typed!(i8),
            DType::I16 => typed!(i16),
            DType::I32 => typed!(i32),
            DType::I64 => typed!(i64),
            DType::U8 => typed!(u8),
            DType::U16 => typed!(u16),
            DType::U32 => typed!(u32),
            DType::U64 => typed!(u64),
            DType::F32 => typed!(f32),
            DType::F64 => typed!(f64),
            DType::Narrow(_) => Err(quincunx_diag::Diagnostic::bug("operands are widened first")),
        }
    }};
}
pub(super) use with_number;

/// The result of a function on each number. It is computed in f64 and rounded once.
pub(super) fn map_real(x: &Tensor, function: impl Fn(f64) -> f64) -> Result<Tensor> {
    match x.dtype() {
        DType::F32 => {
            let values = x.values::<f32>()?;
            Tensor::from_vec(x.shape(), values.iter().map(|&v| function(v.into()) as f32).collect())
        }
        DType::F64 => {
            Tensor::from_vec(x.shape(), x.values::<f64>()?.iter().map(|&v| function(v)).collect())
        }
        other => Err(unsupported(format!("expected a float tensor, found {other}"))),
    }
}

/// A float tensor of numbers computed in f64.
pub(super) fn real_tensor(dtype: DType, shape: &[usize], values: Vec<f64>) -> Result<Tensor> {
    match dtype {
        DType::F32 => Tensor::from_vec(shape, values.iter().map(|&v| v as f32).collect()),
        DType::F64 => Tensor::from_vec(shape, values),
        other => Err(unsupported(format!("expected a float tensor, found {other}"))),
    }
}

/// Truth values as a tensor.
pub(super) fn truth_tensor(shape: &[usize], values: impl Iterator<Item = bool>) -> Result<Tensor> {
    Tensor::new(DType::Bool, shape, values.map(u8::from).collect::<Vec<u8>>().into())
}

/// The bytes of a tensor of truth values, as numbers 0 and 1.
pub(super) fn truth_as_numbers(x: &Tensor) -> Result<Tensor> {
    Tensor::new(DType::U8, x.shape(), x.bytes().clone())
}
