//! Exact numbers.
//!
//! * [`Int`] is an integer of any size, [`Ratio`] an exact fraction.
//! * [`Kif`] is a fixed-point type: sign bit, integer bits, fraction bits; [`Interval`] is the
//!   tighter form that also knows the range actually used.
//! * [`Rounding`] and [`Overflow`] say what a quantiser does with what does not fit.
//! * [`Dyadic`] is an exact binary fraction, the meeting point of floats and fixed point.
//! * [`Minifloat`] is any float format of at most 32 bits.
//!
//! Nothing here rounds unless the function's name says so.

mod conv;
mod dyadic;
mod float;
mod gemm;
mod kif;
mod level;
mod matrix;
mod minifloat;
mod rounding;

pub use conv::{ConvShape, Convolution, ImageLayout, transpose};
pub use dyadic::Dyadic;
pub use float::multiply_f32;
pub use gemm::{Left, Packed};
pub use kif::{Interval, Kif};
pub use level::{Level, Loop};
pub use matrix::Matrix;
pub use minifloat::{
    Bf16, E2M1, E2M3, E3M2, E4M3, E4M3Fnuz, E5M2, E5M2Fnuz, F16, Finite, FiniteNan, FloatOverflow,
    Fnuz, Ieee, Minifloat, Specials, Tf32, e8m0_to_f64,
};
pub use rounding::{Overflow, Rounding, code_range, round_quotient, round_ratio, round_shift};

/// Integer of any size; values up to 128 bits are stored inline.
pub type Int = dashu_int::IBig;

/// Exact fraction in lowest terms.
pub type Ratio = dashu_ratio::RBig;

/// `value * 2^shift`, rounding towards minus infinity when `shift` is negative.
pub fn shift_floor(value: &Int, shift: i64) -> Int {
    // Most numbers are short, and long ones cost far more.
    if let Ok(short) = i64::try_from(value) {
        match shift {
            0..=63 => return Int::from(i128::from(short) << shift),
            -63..0 => return Int::from(short >> -shift),
            _ => {}
        }
    }
    let bits = usize::try_from(shift.unsigned_abs()).unwrap_or(usize::MAX);
    if shift >= 0 { value << bits } else { value >> bits }
}

/// `2^exponent`.
pub fn power_of_two(exponent: u32) -> Int {
    Int::ONE << exponent as usize
}

/// Bits needed to write `value` as an unsigned number, 0 for values `<= 0`.
pub fn bit_length(value: &Int) -> u32 {
    if value <= &Int::ZERO {
        return 0;
    }
    u32::try_from(dashu_int::ops::BitTest::bit_len(value)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Short numbers and long ones.
    #[test]
    fn shifts_round_down() {
        let long = Int::from(i64::MAX) * Int::from(i64::MAX);
        let numbers = [0, 1, -1, 5, -5, i64::MAX, i64::MIN].map(Int::from);
        for number in numbers.into_iter().chain([long.clone(), -long]) {
            for shift in [0, 1, 5, 62, 63, 64, 200] {
                let power = power_of_two(shift);
                assert_eq!(shift_floor(&number, shift.into()), &number * &power);
                let floor = shift_floor(&number, -i64::from(shift));
                let rest = &number - &floor * &power;
                assert!(rest >= Int::ZERO && rest < power, "{number} >> {shift}");
            }
        }
    }
}
