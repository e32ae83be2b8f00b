//! Functions of `math`, as this machine defines them: the simulators execute them and the golden model
//! computes with them.
//!
//! `inv` and `sqt` are rounded correctly. The others are computed in f64 with an error below 2^-45 and
//! rounded to f32, the same on every computer; silicon's last bits are not public.

use crate::isa::vector::Function;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_PI_2, LN_2, SQRT_2};

/// The value of a function.
pub(crate) fn value(function: Function, x: f32) -> f32 {
    let wide = f64::from(x);
    match function {
        Function::Inv => 1.0 / x,
        Function::Sqt => x.sqrt(),
        Function::Rsqt => (1.0 / wide.sqrt()) as f32,
        Function::Log => logarithm(wide) as f32,
        Function::Exp => power(wide) as f32,
        Function::Sin => sine(wide, 0) as f32,
        Function::Cos => sine(wide, 1) as f32,
    }
}

/// Of base 2.
fn logarithm(x: f64) -> f64 {
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x.is_infinite() {
        return x;
    }
    // Every f32 is a normal f64: mantissa from sqrt(1/2) to sqrt(2).
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) as i64 - 1023) as f64;
    let mut mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    if mantissa > SQRT_2 {
        mantissa *= 0.5;
        exponent += 1.0;
    }
    debug_assert!(mantissa >= FRAC_1_SQRT_2);
    // ln m = 2 atanh s; s is at most 0.172.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let series = (0..14).rev().fold(0.0, |sum, k| sum * square + 1.0 / f64::from(2 * k + 1));
    exponent + 2.0 * s * series / LN_2
}

/// Of 2.
fn power(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x >= 1024.0 {
        return f64::INFINITY;
    }
    if x < -1000.0 {
        return 0.0;
    }
    let whole = x.round_ties_even();
    let y = (x - whole) * LN_2;
    // The magnitude of y is at most 0.347.
    let series = (1..18).rev().fold(1.0, |sum, k| 1.0 + sum * y / f64::from(k));
    series * f64::from_bits(((whole as i64 + 1023) as u64) << 52)
}

/// The sine of x plus so many quarters of a turn.
fn sine(x: f64, quarters: i64) -> f64 {
    if !x.is_finite() {
        return f64::NAN;
    }
    let (turns, rest) = reduced(x);
    let quarter = (turns + quarters).rem_euclid(4);
    let square = rest * rest;
    let series = |first: u32| {
        // 1 - r^2 / (f + 1) (f + 2) + ...
        (0..11).rev().fold(0.0, |sum, k| {
            let n = f64::from(first + 2 * k);
            1.0 - sum * square / ((n + 1.0) * (n + 2.0))
        })
    };
    match quarter {
        0 => rest * series(1),
        1 => series(0),
        2 => -rest * series(1),
        _ => -series(0),
    }
}

/// Pi / 2 in binary, 32 bits an element behind the first, which is its whole part.
const HALF_PI: [u32; 10] = [
    1,
    0x921f_b544,
    0x42d1_8469,
    0x898c_c517,
    0x01b8_39a2,
    0x5204_9c11,
    0x14cf_98e8,
    0x0417_7d4c,
    0x7627_3644,
    0xa294_10f3,
];

/// Quarters of a turn (modulo 4 what matters) and the rest, at most pi / 4 in magnitude. Exact
/// integers: x is a multiple of a power of 2, and so are pi / 2 to 288 bits.
fn reduced(x: f64) -> (i64, f64) {
    if x.abs() < 1e5 {
        // Two parts of pi / 2; the quarters have at most 16 bits, so that the first product is exact.
        const HIGH: f64 = 1.570_796_326_734_125_6;
        const LOW: f64 = FRAC_PI_2 - HIGH;
        const LOWEST: f64 = 6.123_233_995_736_766e-17;
        let quarters = (x / FRAC_PI_2).round_ties_even();
        let rest = (x - quarters * HIGH) - quarters * LOW - quarters * LOWEST;
        return (quarters as i64, rest);
    }
    long(x)
}

/// By exact remainders of large integers.
fn long(x: f64) -> (i64, f64) {
    // x = mantissa * 2^shift with a mantissa of 24 bits and a shift from -7 to 104.
    let bits = x.abs().to_bits();
    let exponent = (bits >> 52) as i64 - 1075;
    let mantissa = (bits & ((1 << 52) - 1) | 1 << 52) >> 29;
    let shift = exponent + 29;
    // The weight of the mantissa's last bit, as far as it is below 1, in units of 2^-32.
    let unit = 1u64 << (32 + shift.min(0));
    // remainder < 4 * pi / 2, both in units of 2^-288: double and reduce, bit by bit.
    let modulus = shifted(&HALF_PI, 2);
    let mut rest = [0u32; 10];
    for bit in (0..24).rev() {
        rest = shifted(&rest, 1);
        if mantissa >> bit & 1 == 1 {
            let sum = (u64::from(rest[0]) << 32 | u64::from(rest[1])) + unit;
            (rest[0], rest[1]) = ((sum >> 32) as u32, sum as u32);
        }
        reduce(&mut rest, &modulus);
    }
    for _ in 0..shift.max(0) {
        rest = shifted(&rest, 1);
        reduce(&mut rest, &modulus);
    }
    let mut quarters = 0;
    while !less(&rest, &HALF_PI) {
        subtract(&mut rest, &HALF_PI);
        quarters += 1;
    }
    let mut value = number(&rest);
    if value > FRAC_PI_2 / 2.0 {
        // The distance to the next quarter, exactly.
        let mut distance = HALF_PI;
        subtract(&mut distance, &rest);
        value = -number(&distance);
        quarters += 1;
    }
    if x < 0.0 { (-quarters, -value) } else { (quarters, value) }
}

type Fixed = [u32; 10];

fn number(fixed: &Fixed) -> f64 {
    fixed.iter().rev().fold(0.0, |sum, &word| sum / 4_294_967_296.0 + f64::from(word))
}

fn shifted(fixed: &Fixed, by: u32) -> Fixed {
    let mut result = *fixed;
    for at in 0..10 {
        let next = fixed.get(at + 1).map_or(0, |word| word >> (32 - by));
        result[at] = fixed[at] << by | next;
    }
    result
}

fn less(a: &Fixed, b: &Fixed) -> bool {
    a < b
}

fn subtract(a: &mut Fixed, b: &Fixed) {
    let mut borrow = 0;
    for at in (0..10).rev() {
        let difference = i64::from(a[at]) - i64::from(b[at]) - borrow;
        a[at] = difference as u32;
        borrow = i64::from(difference < 0);
    }
}

fn reduce(rest: &mut Fixed, modulus: &Fixed) {
    while !less(rest, modulus) {
        subtract(rest, modulus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Within one unit in the last place of what the standard library says in f64.
    #[test]
    fn functions_are_close_to_those_of_the_library() {
        let mut state = 7u64;
        for _ in 0..100_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let x = f32::from_bits((state >> 32) as u32);
            let wide = f64::from(x);
            let pairs = [
                (Function::Inv, 1.0 / wide),
                (Function::Log, wide.log2()),
                (Function::Exp, wide.exp2()),
                (Function::Sqt, wide.sqrt()),
                (Function::Rsqt, 1.0 / wide.sqrt()),
                (Function::Sin, wide.sin()),
                (Function::Cos, wide.cos()),
            ];
            for (function, expected) in pairs {
                let (found, expected) = (value(function, x), expected as f32);
                let same = found.to_bits().abs_diff(expected.to_bits()) <= 1;
                assert!(
                    same || (found.is_nan() && expected.is_nan()),
                    "{function:?} {x:e}: {found:e} {expected:e}"
                );
            }
        }
    }

    #[test]
    fn exact_values() {
        for (function, x, y) in [
            (Function::Exp, 3.0, 8.0),
            (Function::Exp, -149.0, f32::from_bits(1)),
            (Function::Log, 8.0, 3.0),
            (Function::Log, 1.0, 0.0),
            (Function::Cos, 0.0, 1.0),
            (Function::Sin, 0.0, 0.0),
            (Function::Inv, 0.0, f32::INFINITY),
            (Function::Log, 0.0, f32::NEG_INFINITY),
        ] {
            assert_eq!(value(function, x), y, "{function:?} {x}");
        }
    }
}
