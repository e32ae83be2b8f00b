//! Rounding and overflow modes of quantisers.

use crate::{Int, Ratio, power_of_two, shift_floor};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a real number becomes an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rounding {
    /// Towards minus infinity; truncation of two's complement (`TRN`).
    Floor,
    /// Towards plus infinity.
    Ceil,
    /// Towards zero.
    Down,
    /// Away from zero.
    Up,
    /// To nearest, ties to even (ONNX `QuantizeLinear`, QONNX `ROUND`).
    HalfEven,
    /// To nearest, ties away from zero (QONNX `HALF_UP`).
    HalfUp,
    /// To nearest, ties towards zero (QONNX `HALF_DOWN`).
    HalfDown,
    /// To nearest, ties towards plus infinity: `floor(x + 1/2)` (`RND`).
    HalfCeil,
}

impl Rounding {
    /// Every mode, in declaration order.
    pub const ALL: [Rounding; 8] = [
        Rounding::Floor,
        Rounding::Ceil,
        Rounding::Down,
        Rounding::Up,
        Rounding::HalfEven,
        Rounding::HalfUp,
        Rounding::HalfDown,
        Rounding::HalfCeil,
    ];

    /// Name used in text dumps and options.
    pub fn name(self) -> &'static str {
        match self {
            Rounding::Floor => "floor",
            Rounding::Ceil => "ceil",
            Rounding::Down => "down",
            Rounding::Up => "up",
            Rounding::HalfEven => "half-even",
            Rounding::HalfUp => "half-up",
            Rounding::HalfDown => "half-down",
            Rounding::HalfCeil => "half-ceil",
        }
    }
}

impl Rounding {
    /// A whole number from a number that is not beyond 2^51.
    pub fn whole(self, x: f64) -> f64 {
        match self {
            Rounding::Floor => x.floor(),
            Rounding::Ceil => x.ceil(),
            Rounding::Down => x.trunc(),
            Rounding::Up => x.abs().ceil().copysign(x),
            Rounding::HalfEven => x.round_ties_even(),
            Rounding::HalfUp => x.round(),
            Rounding::HalfDown if (x - x.trunc()).abs() == 0.5 => x.trunc(),
            Rounding::HalfDown => x.round(),
            // Unlike `x + 0.5` the difference is exact.
            Rounding::HalfCeil => x.floor() + f64::from(u8::from(x - x.floor() >= 0.5)),
        }
    }
}

impl fmt::Display for Rounding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What happens to an integer outside the range of its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overflow {
    /// Keep the low bits (two's complement).
    Wrap,
    /// Clamp to the full range.
    Saturate,
    /// Clamp to the narrow range: the lowest signed code and the highest unsigned code are not
    /// used (QONNX `narrow`).
    SaturateNarrow,
}

impl Overflow {
    /// Every mode, in declaration order.
    pub const ALL: [Overflow; 3] = [Overflow::Wrap, Overflow::Saturate, Overflow::SaturateNarrow];

    /// Name used in text dumps and options.
    pub fn name(self) -> &'static str {
        match self {
            Overflow::Wrap => "wrap",
            Overflow::Saturate => "saturate",
            Overflow::SaturateNarrow => "saturate-narrow",
        }
    }

    /// Brings `code` into the range of a code of `width` bits.
    pub fn apply(self, code: &Int, signed: bool, width: u32) -> Int {
        let (low, high) = code_range(signed, width, self);
        match self {
            Overflow::Wrap => {
                let modulus = power_of_two(width);
                let offset = (code - &low) % &modulus;
                let offset = if offset < Int::ZERO { offset + modulus } else { offset };
                offset + low
            }
            Overflow::Saturate | Overflow::SaturateNarrow => code.clone().clamp(low, high),
        }
    }
}

impl fmt::Display for Overflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Lowest and highest code of a quantiser. Width 0 has the single code 0.
pub fn code_range(signed: bool, width: u32, overflow: Overflow) -> (Int, Int) {
    if width == 0 {
        return (Int::ZERO, Int::ZERO);
    }
    let narrow = overflow == Overflow::SaturateNarrow;
    if signed {
        let half = power_of_two(width - 1);
        let low = if narrow { Int::ONE - &half } else { -half.clone() };
        (low, half - Int::ONE)
    } else {
        let top = power_of_two(width) - Int::from(1 + i32::from(narrow));
        (Int::ZERO, top)
    }
}

/// `value / 2^drop` rounded to an integer; a negative `drop` multiplies exactly.
pub fn round_shift(value: &Int, drop: i64, rounding: Rounding) -> Int {
    if drop <= 0 {
        return shift_floor(value, -drop);
    }
    let floor = shift_floor(value, -drop);
    let rest = value - shift_floor(&floor, drop);
    let half = power_of_two(u32::try_from(drop - 1).unwrap_or(u32::MAX));
    step_up(floor, &rest, &half, value < &Int::ZERO, rounding)
}

/// A fraction rounded to an integer.
pub fn round_ratio(value: &Ratio, rounding: Rounding) -> Int {
    let denominator: Int = value.denominator().clone().into();
    round_quotient(value.numerator(), &denominator, rounding)
}

/// `numerator / denominator` rounded to an integer.
///
/// # Panics
/// When `denominator` is not positive.
pub fn round_quotient(numerator: &Int, denominator: &Int, rounding: Rounding) -> Int {
    assert!(denominator > &Int::ZERO, "the denominator is positive");
    let floor = div_floor(numerator, denominator);
    // Compare twice the rest with the denominator, so that no half is needed.
    let rest = (numerator - &floor * denominator) * Int::from(2);
    step_up(floor, &rest, denominator, numerator < &Int::ZERO, rounding)
}

/// Decides between `floor` and `floor + 1`, given the dropped part `rest >= 0` and what one half
/// is in the same unit.
fn step_up(floor: Int, rest: &Int, half: &Int, negative: bool, rounding: Rounding) -> Int {
    if rest == &Int::ZERO {
        return floor;
    }
    let up = match rounding {
        Rounding::Floor => false,
        Rounding::Ceil => true,
        Rounding::Down => negative,
        Rounding::Up => !negative,
        Rounding::HalfEven => rest > half || (rest == half && !is_even(&floor)),
        Rounding::HalfUp => rest > half || (rest == half && !negative),
        Rounding::HalfDown => rest > half || (rest == half && negative),
        Rounding::HalfCeil => rest >= half,
    };
    if up { floor + Int::ONE } else { floor }
}

fn is_even(value: &Int) -> bool {
    value % Int::from(2) == Int::ZERO
}

fn div_floor(numerator: &Int, denominator: &Int) -> Int {
    let quotient = numerator / denominator;
    if &quotient * denominator > *numerator { quotient - Int::ONE } else { quotient }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The table of `java.math.RoundingMode`, plus `HalfCeil`.
    #[test]
    fn modes_match_the_textbook_table() {
        let halves = [11, 5, 3, 2, -2, -3, -5, -11]; // 5.5 2.5 1.5 1 -1 -1.5 -2.5 -5.5
        let expect = [
            (Rounding::Floor, [5, 2, 1, 1, -1, -2, -3, -6]),
            (Rounding::Ceil, [6, 3, 2, 1, -1, -1, -2, -5]),
            (Rounding::Down, [5, 2, 1, 1, -1, -1, -2, -5]),
            (Rounding::Up, [6, 3, 2, 1, -1, -2, -3, -6]),
            (Rounding::HalfEven, [6, 2, 2, 1, -1, -2, -2, -6]),
            (Rounding::HalfUp, [6, 3, 2, 1, -1, -2, -3, -6]),
            (Rounding::HalfDown, [5, 2, 1, 1, -1, -1, -2, -5]),
            (Rounding::HalfCeil, [6, 3, 2, 1, -1, -1, -2, -5]),
        ];
        for (mode, results) in expect {
            for (half, result) in halves.iter().zip(results) {
                assert_eq!(
                    round_shift(&Int::from(*half), 1, mode),
                    Int::from(result),
                    "{mode} {half}"
                );
                let ratio = Ratio::from_parts(Int::from(*half), 2u8.into());
                assert_eq!(round_ratio(&ratio, mode), Int::from(result), "{mode} {half}");
            }
        }
    }

    #[test]
    fn narrow_ranges_drop_one_code() {
        let range = |signed, overflow| {
            let (low, high) = code_range(signed, 3, overflow);
            (i64::try_from(low).unwrap(), i64::try_from(high).unwrap())
        };
        assert_eq!(range(true, Overflow::Saturate), (-4, 3));
        assert_eq!(range(true, Overflow::SaturateNarrow), (-3, 3));
        assert_eq!(range(false, Overflow::Saturate), (0, 7));
        assert_eq!(range(false, Overflow::SaturateNarrow), (0, 6));
    }

    proptest! {
        /// `round_shift` against `round_ratio` and against f64 arithmetic.
        #[test]
        fn shift_and_ratio_agree(value in -100_000_i64..100_000, drop in 0_u32..12) {
            for mode in Rounding::ALL {
                let by_shift = round_shift(&Int::from(value), i64::from(drop), mode);
                let ratio = Ratio::from_parts(Int::from(value), (1u64 << drop).into());
                prop_assert_eq!(&by_shift, &round_ratio(&ratio, mode));
                let x = value as f64 / f64::from(1 << drop);
                let by_float = mode.whole(x);
                prop_assert_eq!(by_shift, Int::from(by_float as i64), "{} {}", mode, x);
            }
        }

        /// Wrapping agrees with the casts of the language.
        #[test]
        fn wrap_is_a_cast(value in any::<i64>()) {
            let wrap = |signed, width| Overflow::Wrap.apply(&Int::from(value), signed, width);
            prop_assert_eq!(wrap(true, 8), Int::from(value as i8));
            prop_assert_eq!(wrap(false, 8), Int::from(value as u8));
            prop_assert_eq!(wrap(true, 32), Int::from(value as i32));
            prop_assert_eq!(wrap(false, 64), Int::from(value as u64));
            prop_assert_eq!(wrap(true, 0), Int::ZERO);
        }
    }
}
