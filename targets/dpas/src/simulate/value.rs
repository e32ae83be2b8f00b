//! Numbers of vector instructions: elements to numbers and back.
//!
//! Integers are exact; floats are f64, which holds every float of at most 32 bits. A float result is
//! rounded once to the type of the execution (f32, or half where all operands are halves), to nearest,
//! ties to even, and once more where dst is narrower. NaN is canonical. Subnormal numbers are kept.

use super::decode::real;
use crate::isa::vector::{Place, Type};
use crate::precision::Precision;
use quincunx_num::{Bf16, E4M3, E5M2, F16, FloatOverflow};

/// A number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    /// An integer.
    Int(i128),
    /// A float.
    Float(f64),
}

impl Value {
    /// The number of an element.
    pub(super) fn of(ty: Type, bits: u64) -> Value {
        let unused = 64u32.saturating_sub(ty.bytes().saturating_mul(8));
        let float = |precision| Value::Float(real(precision, bits).into());
        match ty {
            Type::Ub | Type::Uw | Type::Ud | Type::Uq => Value::Int(bits.into()),
            Type::B | Type::W | Type::D | Type::Q => {
                Value::Int(((bits << unused) as i64 >> unused).into())
            }
            Type::F => {
                let value = f32::from_bits(bits as u32);
                Value::Float(if value.is_nan() { f64::NAN } else { value.into() })
            }
            Type::Df => Value::Float(f64::from_bits(bits)),
            Type::Hf => float(Precision::Hf),
            Type::Bf => float(Precision::Bf),
            Type::Bf8 => float(Precision::Bf8),
            Type::Hf8 => float(Precision::Hf8),
            Type::Tf32 => float(Precision::Tf32),
        }
    }

    /// As a float; integers are rounded to f32, or to f64 for `wide`.
    pub(super) fn float(self, wide: bool) -> f64 {
        match self {
            Value::Float(value) => value,
            Value::Int(value) if wide => value as f64,
            Value::Int(value) => f64::from(value as f32),
        }
    }

    /// As an integer: floats lose their fraction, NaN is 0, what is too large the limit of 64 bits.
    pub(super) fn integer(self) -> i128 {
        match self {
            Value::Int(value) => value,
            Value::Float(value) => value as i128,
        }
    }

    /// Absolute value, then negation.
    pub(super) fn modified(self, absolute: bool, negate: bool) -> Value {
        match self {
            Value::Int(value) => {
                let value = if absolute { value.saturating_abs() } else { value };
                Value::Int(if negate { value.saturating_neg() } else { value })
            }
            Value::Float(value) => {
                let value = if absolute { value.abs() } else { value };
                Value::Float(if negate { -value } else { value })
            }
        }
    }

    /// The bits of an element of a type. Integers wrap, or saturate; floats that become integers
    /// always saturate; a saturated float lies from 0 to 1.
    pub(super) fn bits(self, ty: Type, saturate: bool) -> u64 {
        if ty.is_float() {
            let value = self.float(ty.is_wide());
            let value = match (saturate, value.is_nan()) {
                (false, _) => value,
                (true, true) => 0.0,
                (true, false) => value.clamp(0.0, 1.0),
            };
            return float_bits(value, ty);
        }
        let width = ty.bytes().saturating_mul(8);
        let exact = self.integer();
        let (low, high) = limits(ty);
        let clamp = saturate || matches!(self, Value::Float(_));
        let value = if clamp { exact.clamp(low, high) } else { exact };
        value as u64 & u64::MAX.checked_shr(64u32.saturating_sub(width)).unwrap_or(u64::MAX)
    }

    /// What the place of a result holds afterwards.
    pub(super) fn stored(self, place: &Place) -> u64 {
        self.bits(place.ty, place.saturate)
    }
}

/// The least and the greatest integer of a type.
fn limits(ty: Type) -> (i128, i128) {
    let width = ty.bytes().saturating_mul(8);
    match ty.is_signed() {
        true => {
            let limit = 1i128 << width.saturating_sub(1);
            (limit.saturating_neg(), limit.saturating_sub(1))
        }
        false => (0, (1i128 << width).saturating_sub(1)),
    }
}

fn float_bits(value: f64, ty: Type) -> u64 {
    let infinite = FloatOverflow::Infinity;
    match ty {
        Type::Df if value.is_nan() => 0x7ff8 << 48,
        Type::Df => value.to_bits(),
        Type::Hf => F16::from_f64(value, infinite).map_or(0, |half| half.to_bits().into()),
        Type::Bf => Bf16::from_f64(value, infinite).map_or(0, |half| half.to_bits().into()),
        Type::Bf8 => E5M2::from_f64(value, infinite).map_or(0, |byte| byte.to_bits().into()),
        // No infinity: what is too large is NaN.
        Type::Hf8 => E4M3::from_f64(value, infinite).map_or(0x7f, |byte| byte.to_bits().into()),
        Type::Tf32 => {
            let bits = u64::from(single(value).to_bits());
            let half = 0xfff_u64.saturating_add(bits >> 13 & 1);
            let special = bits >> 23 & 255 == 255;
            (if special { bits } else { bits.saturating_add(half) }) & 0xffff_e000
        }
        _ => single(value).to_bits().into(),
    }
}

/// As f32, with the one NaN.
fn single(value: f64) -> f32 {
    if value.is_nan() { f32::from_bits(0x7fc0_0000) } else { value as f32 }
}

/// The type in which floats are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Execution {
    /// Halves.
    Half,
    /// f32.
    Single,
    /// f64.
    Double,
}

impl Execution {
    /// The type of an instruction with these types of operands, dst included.
    pub(super) fn of(types: impl Iterator<Item = Type> + Clone) -> Execution {
        if types.clone().any(Type::is_wide) {
            Execution::Double
        } else if types.clone().all(|ty| ty == Type::Hf) {
            Execution::Half
        } else {
            Execution::Single
        }
    }

    /// A result of f64 arithmetic, rounded.
    pub(super) fn round(self, value: f64) -> f64 {
        match self {
            Execution::Half => {
                let half = F16::from_f64(value, FloatOverflow::Infinity);
                half.map_or(f64::NAN, |half| half.to_f32().into())
            }
            Execution::Single => f64::from(value as f32),
            Execution::Double => value,
        }
    }

    /// `a + b`, rounded once.
    pub(super) fn add(self, a: f64, b: f64) -> f64 {
        match self {
            Execution::Double => a + b,
            _ => self.round(odd_sum(a, b)),
        }
    }

    /// `a * b`, rounded once: products of f32 are exact in f64.
    pub(super) fn multiply(self, a: f64, b: f64) -> f64 {
        self.round(a * b)
    }

    /// `a * b + c`, rounded once.
    pub(super) fn fused(self, a: f64, b: f64, c: f64) -> f64 {
        match self {
            Execution::Double => a.mul_add(b, c),
            _ => self.round(odd_sum(a * b, c)),
        }
    }
}

/// A sum rounded to odd, so that rounding it again to fewer bits gives what rounding the exact sum
/// gives.
fn odd_sum(a: f64, b: f64) -> f64 {
    let sum = a + b;
    if !sum.is_finite() {
        return sum;
    }
    // What the rounding lost, exactly.
    let part = sum - a;
    let lost = (a - (sum - part)) + (b - part);
    if lost == 0.0 || sum.to_bits() & 1 == 1 {
        return sum;
    }
    if lost > 0.0 { sum.next_up() } else { sum.next_down() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fused_sums_equal_those_of_f32() {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            // Exponents near each other, so that sums cancel and round.
            let bits = (state >> 32) as u32;
            f32::from_bits(bits & 0x807f_ffff | (110 + (bits >> 23 & 31)) << 23)
        };
        for _ in 0..200_000 {
            let (a, b, c) = (next(), next(), next());
            let fused = Execution::Single.fused(a.into(), b.into(), c.into());
            assert_eq!(fused as f32, a.mul_add(b, c), "{a} {b} {c}");
            assert_eq!(Execution::Single.add(a.into(), b.into()) as f32, a + b);
        }
    }

    #[test]
    fn integers_saturate_and_wrap() {
        assert_eq!(Value::Int(300).bits(Type::Ub, true), 255);
        assert_eq!(Value::Int(300).bits(Type::Ub, false), 44);
        assert_eq!(Value::Int(-1).bits(Type::B, false), 255);
        assert_eq!(Value::Int(-200).bits(Type::B, true), 0x80);
        assert_eq!(Value::Float(-1.5).bits(Type::D, false), 0xffff_ffff);
        assert_eq!(Value::Float(1e20).bits(Type::D, false), 0x7fff_ffff);
        assert_eq!(Value::Float(f64::NAN).bits(Type::F, true), 0);
    }
}
