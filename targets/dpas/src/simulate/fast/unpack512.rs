//! Unpacking with 512-bit vectors: what compilers do not make of the loops of [`blocks`].
//!
//! [`blocks`]: super::blocks

use super::blocks::{Block, Form, Line, Magnitudes};
use crate::precision::Precision;
use std::arch::x86_64::*;

/// Elements of a vector.
const LANES: usize = 16;

/// Unpacks a block. `None` if it is none of the usual ones; nothing is written then.
///
/// # Panics
/// When there are less lines than the block has.
pub(super) fn unpack(block: &Block, words: &[[u8; 4]], out: &mut [Line]) -> Option<Magnitudes> {
    let elements = words.len() * 32 / block.precision().bits() as usize;
    let per = match block.form() {
        Form::Bytes { .. } => 8 / block.precision().bits() as usize,
        Form::Singles | Form::Doubles => 32 / block.precision().bits() as usize,
        Form::Words | Form::Sums { .. } => return None,
    };
    let whole = (words.len() * per).is_multiple_of(LANES) || block.lanes() > 1;
    let known = match block.precision() {
        Precision::Bf | Precision::Hf | Precision::Tf32 => true,
        precision => precision.is_integer() && precision.bits() > 1,
    };
    if !whole || !known {
        return None;
    }
    assert!(out.len() * LANES >= words.len() * per, "every element has a place");
    let doubles = (block.form() == Form::Doubles).then(|| elements.div_ceil(LANES));
    if let Some(skipped) = doubles {
        assert!(out.len() >= skipped + elements.div_ceil(8), "every f64 has a place");
    }
    // SAFETY: The level of a plan says that the processor has the instructions, and there is room.
    unsafe {
        let magnitudes = match (block.form(), block.precision()) {
            (Form::Bytes { flipped }, precision) => {
                bytes(precision, flipped, (words, block.lanes()), out);
                Magnitudes::default()
            }
            (form, precision) => singles((precision, form), (words, block.lanes()), out),
        };
        if let Some(skipped) = doubles {
            widen(out, skipped, elements);
        }
        Some(magnitudes)
    }
}

/// Applies a function to vectors of pieces of dwords, `PER` of each, which lie in the lowest bits of
/// a lane each, and writes what it gives.
///
/// # Safety
/// `out` has a lane for every piece; those of a row of one lane fill vectors.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn each<const PER: usize>(
    (words, lanes): (&[[u8; 4]], usize),
    out: &mut [Line],
    mut piece: impl FnMut(__m512i) -> __m512i,
) {
    let from = words.as_ptr().cast::<u8>();
    let to = out.as_mut_ptr().cast::<i32>();
    if lanes == 1 {
        for at in 0..words.len() * PER / LANES {
            // SAFETY: `at` vectors of pieces lie before this one, and one from here on.
            unsafe {
                let from = from.add(at * 64 / PER);
                let pieces = match PER {
                    1 => _mm512_loadu_si512(from.cast()),
                    2 => _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast())),
                    _ => _mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast())),
                };
                _mm512_storeu_si512(to.add(LANES * at).cast(), piece(pieces));
            }
        }
        return;
    }
    for row in 0..words.len() / lanes {
        // SAFETY: A row has `lanes` dwords, 8 or 16, and becomes `PER` times as many. The upper
        // half of a vector of 8 is zero and is not written.
        unsafe {
            let from = from.add(4 * lanes * row);
            let dwords = match lanes {
                8 => _mm512_zextsi256_si512(_mm256_loadu_si256(from.cast())),
                _ => _mm512_loadu_si512(from.cast()),
            };
            for part in 0..PER {
                let shift = _mm_cvtsi32_si128((32 / PER * part) as i32);
                let pieces = piece(_mm512_srl_epi32(dwords, shift));
                let to = to.add((row * PER + part) * lanes);
                match lanes {
                    8 => _mm256_storeu_si256(to.cast(), _mm512_castsi512_si256(pieces)),
                    _ => _mm512_storeu_si512(to.cast(), pieces),
                }
            }
        }
    }
}

/// # Safety
/// As [`each`].
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn bytes(precision: Precision, flipped: bool, words: (&[[u8; 4]], usize), out: &mut [Line]) {
    let flip = _mm512_set1_epi32(if flipped { 0x8080_8080_u32.cast_signed() } else { 0 });
    let field = |pieces, shift: i32, mask: i32| {
        let shifted = _mm512_sll_epi32(pieces, _mm_cvtsi32_si128(shift));
        _mm512_and_si512(shifted, _mm512_set1_epi32(mask))
    };
    // A bit of every byte, as a number, becomes one that is added to give all higher ones.
    let (sign, times) = match (precision.is_signed(), precision.bits()) {
        (true, 4) => (0x0808_0808, 5),
        (true, 2) => (0x0202_0202, 7),
        _ => (0, 0),
    };
    let extend = |bytes| {
        let signs = _mm512_and_si512(bytes, _mm512_set1_epi32(sign));
        // `s * 2^n - 2 s`: from the bit above the sign to the highest one.
        let high = _mm512_sll_epi32(signs, _mm_cvtsi32_si128(times));
        let high = _mm512_sub_epi32(high, _mm512_add_epi32(signs, signs));
        _mm512_xor_si512(_mm512_or_si512(bytes, high), flip)
    };
    // SAFETY: The caller has made sure.
    unsafe {
        match precision.bits() {
            2 => each::<4>(words, out, |pieces| {
                let pairs = _mm512_or_si512(field(pieces, 0, 0x0f), field(pieces, 12, 0xf_0000));
                let all = _mm512_or_si512(field(pairs, 0, 0x3_0003), field(pairs, 6, 0x300_0300));
                extend(all)
            }),
            4 => each::<2>(words, out, |pieces| {
                let pairs = _mm512_or_si512(field(pieces, 0, 0xff), field(pieces, 8, 0xff_0000));
                let all = _mm512_or_si512(field(pairs, 0, 0xf_000f), field(pairs, 4, 0xf00_0f00));
                extend(all)
            }),
            _ => each::<1>(words, out, |bytes| _mm512_xor_si512(bytes, flip)),
        }
    }
}

/// # Safety
/// As [`each`].
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn singles(
    (precision, form): (Precision, Form),
    words: (&[[u8; 4]], usize),
    out: &mut [Line],
) -> Magnitudes {
    let half = |code| _mm512_castps_si512(_mm512_cvtph_ps(_mm512_cvtepi32_epi16(code)));
    // SAFETY: The caller has made sure.
    unsafe {
        match precision {
            Precision::Bf => {
                each::<2>(words, out, |code| _mm512_slli_epi32::<16>(code));
                magnitudes_of_bf(words.0)
            }
            // Nobody asks for their magnitudes.
            Precision::Hf if form == Form::Singles => {
                each::<2>(words, out, half);
                Magnitudes::default()
            }
            Precision::Hf => watched::<2>(words, out, half),
            _ => {
                let bits = _mm512_set1_epi32(0xffff_e000_u32.cast_signed());
                watched::<1>(words, out, |number| _mm512_and_si512(number, bits))
            }
        }
    }
}

/// As [`each`] for a function that makes f32; their magnitudes.
///
/// # Safety
/// As [`each`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn watched<const PER: usize>(
    words: (&[[u8; 4]], usize),
    out: &mut [Line],
    piece: impl Fn(__m512i) -> __m512i,
) -> Magnitudes {
    let set = |bits: u32| _mm512_set1_epi32(bits.cast_signed());
    let (mut below, mut most) = (set(u32::MAX), set(0));
    // SAFETY: The caller has made sure.
    unsafe {
        each::<PER>(words, out, |code| {
            let number = piece(code);
            let magnitude = _mm512_and_si512(number, set(0x7fff_ffff));
            most = _mm512_max_epu32(most, magnitude);
            below = _mm512_min_epu32(below, _mm512_sub_epi32(magnitude, set(1)));
            number
        });
    }
    // Lanes that do not belong to the block are zeros, which count for neither.
    let least = _mm512_reduce_min_epu32(below).saturating_add(1);
    Magnitudes { least, most: _mm512_reduce_max_epu32(most) }
}

/// The magnitudes of pairs of bf, both numbers of a pair at once.
#[target_feature(enable = "avx512f,avx512bw")]
fn magnitudes_of_bf(words: &[[u8; 4]]) -> Magnitudes {
    let set = |bits: u32| _mm512_set1_epi32(bits.cast_signed());
    let (mut below, mut most) = (set(u32::MAX), set(0));
    let from = words.as_ptr().cast::<i32>();
    for at in (0..words.len()).step_by(LANES) {
        let count = (words.len() - at).min(LANES);
        // SAFETY: The mask keeps the load to `words.len()` dwords.
        let dwords = unsafe { _mm512_maskz_loadu_epi32(u16::MAX >> (LANES - count), from.add(at)) };
        let magnitudes = _mm512_and_si512(dwords, set(0x7fff_7fff));
        most = _mm512_max_epu16(most, magnitudes);
        below = _mm512_min_epu16(below, _mm512_sub_epi16(magnitudes, set(0x1_0001)));
    }
    let halves =
        |both: __m512i| (_mm512_and_si512(both, set(0xffff)), _mm512_srli_epi32::<16>(both));
    let ((low, high), (low_most, high_most)) = (halves(below), halves(most));
    let least = _mm512_reduce_min_epu32(_mm512_min_epu32(low, high));
    let most = _mm512_reduce_max_epu32(_mm512_max_epu32(low_most, high_most));
    // No number but zero: the highest one, as for f32.
    let least = if least == 0xffff { u32::MAX } else { (least + 1) << 16 };
    Magnitudes { least, most: most << 16 }
}

/// Writes f32 as f64, behind so many lines.
///
/// # Safety
/// There are so many f32 and lines for as many f64.
#[target_feature(enable = "avx512f")]
unsafe fn widen(out: &mut [Line], skipped: usize, elements: usize) {
    let from = out.as_ptr().cast::<f32>();
    let to = out.as_mut_ptr().wrapping_add(skipped).cast::<f64>();
    for at in (0..elements).step_by(8) {
        // SAFETY: Lines hold 16 f32 or 8 f64, so that whole vectors may be read and written.
        unsafe { _mm512_storeu_pd(to.add(at), _mm512_cvtps_pd(_mm256_loadu_ps(from.add(at)))) };
    }
}
