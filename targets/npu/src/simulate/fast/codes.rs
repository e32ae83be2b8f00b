//! Loops between codes and numbers, for many elements at once. They are inlined into loops that are
//! compiled for each level, and must be `#[inline(always)]` for that.

use crate::isa::Float2Fixed;
use crate::simulate::conv::round;
use crate::simulate::state::Counts;

/// How an element is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    Signed,
    Unsigned,
    Half,
    Single,
}

impl Code {
    pub(super) fn new(bytes: u32, signed: bool) -> Code {
        match (bytes, signed) {
            (4, _) => Code::Single,
            (2, _) => Code::Half,
            (_, true) => Code::Signed,
            (_, false) => Code::Unsigned,
        }
    }

    #[inline(always)]
    pub(super) fn bytes(self) -> usize {
        match self {
            Code::Signed | Code::Unsigned => 1,
            Code::Half => 2,
            Code::Single => 4,
        }
    }
}

/// The numbers of codes; with an offset and a factor, number * factor + offset.
#[inline(always)]
pub(super) fn decode(codes: &[u8], code: Code, map: Option<(f32, f32)>, out: &mut [f32]) {
    match map {
        Some((offset, factor)) => decode_with(codes, code, out, |value| value * factor + offset),
        None => decode_with(codes, code, out, |value| value),
    }
}

#[inline(always)]
fn decode_with(codes: &[u8], code: Code, out: &mut [f32], map: impl Fn(f32) -> f32) {
    match code {
        Code::Signed => {
            for (out, &code) in out.iter_mut().zip(codes) {
                *out = map(f32::from(code.cast_signed()));
            }
        }
        Code::Unsigned => {
            for (out, &code) in out.iter_mut().zip(codes) {
                *out = map(f32::from(code));
            }
        }
        Code::Half => {
            for (out, code) in out.iter_mut().zip(codes.as_chunks().0) {
                *out = map(from_half(u16::from_le_bytes(*code)));
            }
        }
        Code::Single => {
            for (out, code) in out.iter_mut().zip(codes.as_chunks().0) {
                *out = map(f32::from_le_bytes(*code));
            }
        }
    }
}

/// The value of a number of 16 bits. NaN keeps its payload, which no result shows.
#[inline(always)]
fn from_half(bits: u16) -> f32 {
    const EXPONENTS: f32 = f32::from_bits((127 + 112) << 23);
    const TOP: u32 = 0x7c00 << 13;
    let bits = u32::from(bits);
    let magnitude = (bits & 0x7fff) << 13;
    // Exponents count from 15 and 127; the product is exact for subnormal numbers too.
    let finite = (f32::from_bits(magnitude) * EXPONENTS).to_bits();
    let value = if magnitude >= TOP { magnitude | 0xff << 23 } else { finite };
    f32::from_bits(value | (bits & 0x8000) << 16)
}

/// The nearest number of 16 bits, ties to even; NaN is canonical.
#[inline(always)]
fn to_half(value: f32) -> u16 {
    /// The least normal number, and one above the largest that can be rounded to a finite one.
    const NORMAL: u32 = (127 - 14) << 23;
    const LARGE: u32 = (127 + 16) << 23;
    const INFINITE: u32 = 0xff << 23;
    let bits = value.to_bits();
    let magnitude = bits & !(1 << 31);
    // Half a step of what is kept is added, a little less where the kept part is even.
    let odd = magnitude >> 13 & 1;
    let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + odd) >> 13;
    // The last place of 0.5 in 32 bits is the step of subnormal numbers in 16.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5_f32.to_bits());
    let finite = if magnitude < NORMAL { subnormal } else { normal };
    let code = if magnitude >= LARGE { 0x7c00 } else { finite } | bits >> 16 & 0x8000;
    (if magnitude > INFINITE { 0x7e00 } else { code }) as u16
}

/// The code of a whole number, or NaN, limited to a range; counts what is outside.
#[inline(always)]
pub(super) fn limited(whole: f32, [low, high]: [f32; 2], outside: &mut u32) -> u8 {
    // Whole numbers in the range are the low bits of their sum with this.
    const SHIFT: f32 = 12_582_912.0;
    *outside += u32::from(whole < low) | u32::from(whole > high);
    let value = if whole < low { low } else { whole };
    let value = if value > high { high } else { value };
    let bits = (value + SHIFT).to_bits() as u8;
    if value.is_nan() { 0 } else { bits }
}

/// The range of 8-bit codes.
#[inline(always)]
pub(super) fn range(signed: bool) -> [f32; 2] {
    if signed { [-128.0, 127.0] } else { [0.0, 255.0] }
}

/// Writes numbers as codes of one or two bytes.
#[inline(always)]
pub(super) fn encode(
    values: &[f32],
    code: Code,
    rounding: Float2Fixed,
    out: &mut [u8],
    counts: &mut Counts,
) {
    counts.results += values.len() as u64;
    if code == Code::Half {
        let mut infinite = 0_u32;
        for (value, out) in values.iter().zip(out.as_chunks_mut().0) {
            let half = to_half(*value);
            infinite += u32::from(half & 0x7fff == 0x7c00 && value.is_finite());
            *out = half.to_le_bytes();
        }
        counts.infinite += u64::from(infinite);
        return;
    }
    let range = range(code == Code::Signed);
    let mut saturated = 0_u32;
    // The usual mode without a decision for every element.
    if rounding == Float2Fixed::ROUND {
        for (value, out) in values.iter().zip(out) {
            *out = limited(value.round_ties_even(), range, &mut saturated);
        }
    } else {
        for (value, out) in values.iter().zip(out) {
            *out = limited(round(*value, rounding), range, &mut saturated);
        }
    }
    counts.saturated += u64::from(saturated);
}
