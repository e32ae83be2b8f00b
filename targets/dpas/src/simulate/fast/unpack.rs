//! Unpacking with loops that the compiler turns into vectors.

use super::blocks::{Block, Form, Line, Magnitudes};
use crate::precision::Precision;
use crate::simulate::decode::{integer, real};
use quincunx_num::Loop;

/// Unpacks the dwords of a block.
pub(super) struct Unpack<'a> {
    pub(super) block: &'a Block,
    pub(super) words: &'a [[u8; 4]],
    pub(super) out: &'a mut [Line],
}

impl Loop for Unpack<'_> {
    type Result = Magnitudes;

    #[inline(always)]
    fn run(self) -> Magnitudes {
        match self.block.form() {
            Form::Bytes { flipped } => {
                self.bytes(if flipped { 0x8080_8080 } else { 0 });
                Magnitudes::default()
            }
            Form::Words => {
                self.words();
                Magnitudes::default()
            }
            Form::Singles => self.singles(),
            Form::Doubles => {
                let (count, skipped) = (self.block.elements(), self.block.single_lines());
                let (singles, doubles) = self.out.split_at_mut(skipped);
                let magnitudes =
                    Unpack { block: self.block, words: self.words, out: &mut *singles }.singles();
                let singles: &[f32] = bytemuck::cast_slice(singles);
                let doubles: &mut [f64] = bytemuck::cast_slice_mut(doubles);
                for (double, &single) in doubles.iter_mut().zip(&singles[..count]) {
                    *double = single.into();
                }
                magnitudes
            }
            // Made from bytes.
            Form::Sums { .. } => Magnitudes::default(),
        }
    }
}

impl Unpack<'_> {
    #[inline(always)]
    fn bytes(self, flip: u32) {
        let (words, lanes) = (self.words, self.block.lanes());
        let out: &mut [[u8; 4]] = bytemuck::cast_slice_mut(self.out);
        // The sign bit of an element is copied into all higher ones of its byte: bit `b`, times
        // `2^(8 - b) - 2`.
        let signed = self.block.precision().is_signed();
        match self.block.precision().bits() {
            1 => expand::<8, _>(words, lanes, out, |four| {
                let bytes = spread::<1>(four);
                ((if signed { bytes * 0xff } else { bytes }) ^ flip).to_le_bytes()
            }),
            2 => expand::<4, _>(words, lanes, out, |four| {
                let bytes = spread::<2>(four);
                let sign = if signed { (bytes & 0x0202_0202) * 0x7e } else { 0 };
                ((bytes | sign) ^ flip).to_le_bytes()
            }),
            4 => expand::<2, _>(words, lanes, out, |four| {
                let bytes = spread::<4>(four);
                let sign = if signed { (bytes & 0x0808_0808) * 0x1e } else { 0 };
                ((bytes | sign) ^ flip).to_le_bytes()
            }),
            _ => expand::<1, _>(words, lanes, out, |four| (four ^ flip).to_le_bytes()),
        }
    }

    #[inline(always)]
    fn words(self) {
        let (words, lanes, precision) = (self.words, self.block.lanes(), self.block.precision());
        let out: &mut [i32] = bytemuck::cast_slice_mut(self.out);
        let element = |code: u32| integer(precision, code.into());
        match precision.bits() {
            1 => expand::<32, _>(words, lanes, out, element),
            2 => expand::<16, _>(words, lanes, out, element),
            4 => expand::<8, _>(words, lanes, out, element),
            _ => expand::<4, _>(words, lanes, out, element),
        }
    }

    #[inline(always)]
    fn singles(self) -> Magnitudes {
        let (words, lanes) = (self.words, self.block.lanes());
        let count = words.len() * 32 / self.block.precision().bits() as usize;
        let out: &mut [f32] = &mut bytemuck::cast_slice_mut(self.out)[..count];
        let precision = self.block.precision();
        match precision {
            Precision::Bf => expand::<2, _>(words, lanes, out, |code| f32::from_bits(code << 16)),
            Precision::Hf => expand::<2, _>(words, lanes, out, half),
            Precision::Tf32 => {
                expand::<1, _>(words, lanes, out, |code| f32::from_bits(code & 0xffff_e000));
            }
            Precision::E2m1 => {
                expand::<8, _>(words, lanes, out, |code| real(precision, (code & 15).into()));
            }
            _ => expand::<4, _>(words, lanes, out, |code| real(precision, (code & 255).into())),
        }
        magnitudes(out.iter().map(|number| number.to_bits()))
    }
}

/// The lowest and the highest magnitude. NaN counts as its bits, above infinity.
#[inline(always)]
fn magnitudes(numbers: impl Iterator<Item = u32>) -> Magnitudes {
    let (mut below, mut most) = (u32::MAX, 0);
    for bits in numbers {
        let bits = bits & 0x7fff_ffff;
        most = most.max(bits);
        // Zero becomes the highest number.
        below = below.min(bits.wrapping_sub(1));
    }
    Magnitudes { least: below.saturating_add(1), most }
}

/// The magnitudes of f32 in registers, as a loop.
pub(super) struct MagnitudesOf<'a>(pub(super) &'a [u8]);

impl Loop for MagnitudesOf<'_> {
    type Result = Magnitudes;

    #[inline(always)]
    fn run(self) -> Magnitudes {
        magnitudes(self.0.as_chunks().0.iter().map(|&bytes| u32::from_le_bytes(bytes)))
    }
}

/// IEEE binary16 in the low half of a dword, as f32; a NaN stays one.
#[inline(always)]
fn half(code: u32) -> f32 {
    // The fields lie in the right places; the exponent lacks the difference of the biases. Products
    // with powers of two are exact, from subnormal numbers too.
    let scaled = f32::from_bits((code & 0x7fff) << 13) * f32::from_bits((112 + 127) << 23);
    let special = if code & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
    f32::from_bits(scaled.to_bits() | special | (code & 0x8000) << 16)
}

/// The four lowest elements of `BITS` bits, each in a byte.
#[inline(always)]
fn spread<const BITS: u32>(word: u32) -> u32 {
    let element = |index: u32| (word >> (BITS * index) & ((1 << BITS) - 1)) << (8 * index);
    element(0) | element(1) | element(2) | element(3)
}

/// Makes `PER` elements of every dword. Each gets its part of the dword in the lowest bits; what the
/// others hold is not said.
#[inline(always)]
fn expand<const PER: usize, T>(
    words: &[[u8; 4]],
    lanes: usize,
    out: &mut [T],
    element: impl Fn(u32) -> T,
) {
    match (lanes, PER) {
        // Widths that vector instructions extend.
        (1, 2) => {
            let halves = words.as_flattened().as_chunks::<2>().0;
            for (out, &half) in out.iter_mut().zip(halves) {
                *out = element(u16::from_le_bytes(half).into());
            }
        }
        (1, 4) => {
            for (out, &byte) in out.iter_mut().zip(words.as_flattened()) {
                *out = element(byte.into());
            }
        }
        (1, _) => {
            for (out, &word) in out.as_chunks_mut::<PER>().0.iter_mut().zip(words) {
                let word = u32::from_le_bytes(word);
                for (part, out) in out.iter_mut().enumerate() {
                    *out = element(word >> (32 / PER * part));
                }
            }
        }
        (8, _) => expand_rows::<PER, 8, T>(words, out, element),
        _ => expand_rows::<PER, 16, T>(words, out, element),
    }
}

#[inline(always)]
fn expand_rows<const PER: usize, const LANES: usize, T>(
    words: &[[u8; 4]],
    out: &mut [T],
    element: impl Fn(u32) -> T,
) {
    let rows = out.as_chunks_mut::<LANES>().0.as_chunks_mut::<PER>().0;
    for (rows, words) in rows.iter_mut().zip(words.as_chunks::<LANES>().0) {
        for (part, row) in rows.iter_mut().enumerate() {
            for (out, &word) in row.iter_mut().zip(words) {
                *out = element(u32::from_le_bytes(word) >> (32 / PER * part));
            }
        }
    }
}
