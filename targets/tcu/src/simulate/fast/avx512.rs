//! Tiles with 512-bit vectors: a line is a vector.

use super::narrow::{LINE, Packed, Tile};
use std::arch::x86_64::*;

/// Computes a tile; false when it must be computed exactly.
#[inline(always)]
pub(super) fn products(tile: &mut Tile<'_>) -> bool {
    let group = tile.packed.group;
    let mut done = 0;
    while done < tile.vectors {
        // The kernel for most vectors that wastes less than a third.
        let rest = tile.vectors - done;
        let size = match rest {
            _ if rest > 6 * group => 8,
            _ if rest > 2 * group => 4,
            _ if rest > group => 2,
            _ => 1,
        };
        let kernel: unsafe fn(&mut Tile<'_>) -> bool = match (size, group) {
            (1, 1) => broadcast::<1>,
            (2, 1) => broadcast::<2>,
            (4, 1) => broadcast::<4>,
            (_, 1) => broadcast::<8>,
            (1, _) => spread::<1>,
            (2, _) => spread::<2>,
            (4, _) => spread::<4>,
            _ => spread::<8>,
        };
        let mut part = tile.part(done, size * group);
        part.check();
        // SAFETY: This level is only chosen when the processor has the instructions, the part was
        // checked, and it has at most as many lines as the kernel.
        if !unsafe { kernel(&mut part) } {
            return false;
        }
        done += size * group;
    }
    true
}

/// The first lanes of a vector.
fn first(lanes: usize) -> __mmask32 {
    if lanes >= LINE { !0 } else { (1 << lanes) - 1 }
}

/// Adds products to sums. True when a watched sum touched an end of its range.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn add<const U: usize, const WATCH: bool>(
    sums: &mut [__m512i; U],
    most: &mut __m512i,
    least: &mut __m512i,
    weights: __m512i,
    x: [__m512i; U],
) {
    let negative = _mm512_sub_epi16(_mm512_setzero_si512(), weights);
    for (sum, x) in sums.iter_mut().zip(x) {
        let up = _mm512_mulhrs_epi16(x, weights);
        let tie = _mm512_add_epi16(up, _mm512_mulhrs_epi16(x, negative));
        let next = if WATCH {
            let next = _mm512_adds_epi16(*sum, up);
            *most = _mm512_max_epi16(*most, next);
            *least = _mm512_min_epi16(*least, next);
            next
        } else {
            _mm512_add_epi16(*sum, up)
        };
        *sum = _mm512_andnot_si512(tie, next);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn touched(packed: &Packed, most: __m512i, least: __m512i) -> bool {
    let (low, high) = packed.ends;
    let high = _mm512_cmpge_epi16_mask(most, _mm512_set1_epi16(high));
    (high | _mm512_cmple_epi16_mask(least, _mm512_set1_epi16(low))) != 0
}

/// Vectors side by side: `U` lines of them.
///
/// # Safety
/// The tile passed [`Tile::check`] and has at most `U` lines of more than one vector.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn spread<const U: usize>(tile: &mut Tile<'_>) -> bool {
    let packed = tile.packed;
    let width = packed.group * packed.lanes;
    let mut x = [_mm512_setzero_si512(); U];
    let mut top = _mm512_setzero_si512();
    for (line, x) in x.iter_mut().enumerate() {
        let rest = tile.x.len().saturating_sub(line * width).min(width);
        // SAFETY: The mask keeps the access to the `rest` scalars of this line; the address of a
        // line that is not there is computed without the promise that it is.
        *x = unsafe {
            let place = tile.x.as_ptr().wrapping_add(line * width);
            _mm512_maskz_loadu_epi16(first(rest), place)
        };
        top = _mm512_max_epu16(top, _mm512_abs_epi16(*x));
    }
    let above = |limit: u16| _mm512_cmpgt_epu16_mask(top, _mm512_set1_epi16(limit.cast_signed()));
    if above(packed.wide) != 0 {
        return false;
    }
    let shift = _mm_cvtsi32_si128(packed.shift.cast_signed());
    for x in &mut x {
        *x = _mm512_sll_epi16(*x, shift);
    }
    // SAFETY: As for this function.
    unsafe {
        match above(packed.safe) != 0 {
            true => spread_sums::<U, true>(tile, x),
            false => spread_sums::<U, false>(tile, x),
        }
    }
}

/// # Safety
/// As [`spread`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn spread_sums<const U: usize, const WATCH: bool>(
    tile: &mut Tile<'_>,
    x: [__m512i; U],
) -> bool {
    let packed = tile.packed;
    let width = packed.group * packed.lanes;
    let lines = packed.lines.as_ptr().cast::<__m512i>();
    let places = packed.places.as_ptr().cast::<__m512i>();
    // SAFETY: There is a line for the bias, and lines are as large and aligned as vectors.
    let mut sums = [unsafe { lines.read() }; U];
    let (mut most, mut least) = (_mm512_setzero_si512(), _mm512_setzero_si512());
    for lane in 0..packed.lanes {
        // SAFETY: There is a line of places for every lane, and a line of weights behind the bias.
        let (place, weights) = unsafe { (places.add(lane).read(), lines.add(1 + lane).read()) };
        let mut factors = x;
        for x in &mut factors {
            *x = _mm512_permutexvar_epi16(place, *x);
        }
        add::<U, WATCH>(&mut sums, &mut most, &mut least, weights, factors);
    }
    if WATCH && touched(packed, most, least) {
        return false;
    }
    for (line, sum) in sums.into_iter().enumerate() {
        let rest = tile.y.len().saturating_sub(line * width).min(width);
        let place = tile.y.as_mut_ptr().wrapping_add(line * width);
        // Sums are read again soon; processors are slow to read what was stored with a mask.
        // SAFETY: A whole line is there, or, as for reading, the mask keeps the access to what is.
        unsafe {
            match rest {
                LINE => _mm512_storeu_epi16(place, sum),
                _ => _mm512_mask_storeu_epi16(place, first(rest), sum),
            }
        }
    }
    true
}

/// Vectors one by one, `U` of them, and their lanes line by line.
///
/// # Safety
/// The tile passed [`Tile::check`] and has at most `U` lines of one vector.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn broadcast<const U: usize>(tile: &mut Tile<'_>) -> bool {
    let packed = tile.packed;
    let top = tile.x.iter().map(|x| x.unsigned_abs()).fold(0, u16::max);
    if top > packed.wide {
        return false;
    }
    for chunk in 0..packed.chunks {
        // SAFETY: As for this function, and the chunk is one of them.
        let is_done = unsafe {
            match top > packed.safe {
                true => broadcast_sums::<U, true>(tile, chunk),
                false => broadcast_sums::<U, false>(tile, chunk),
            }
        };
        if !is_done {
            return false;
        }
    }
    true
}

/// # Safety
/// As [`broadcast`], and `chunk` is below `chunks`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn broadcast_sums<const U: usize, const WATCH: bool>(
    tile: &mut Tile<'_>,
    chunk: usize,
) -> bool {
    let Packed { lanes, chunks, shift, ref lines, .. } = *tile.packed;
    let vectors = tile.vectors;
    let lines = lines.as_ptr().cast::<__m512i>();
    // Vectors that are not there are copies of the last one, and are not stored.
    let x: [*const i16; U] =
        std::array::from_fn(|v| tile.x.as_ptr().wrapping_add(v.min(vectors - 1) * lanes));
    // SAFETY: There is a bias line for every chunk.
    let mut sums = [unsafe { lines.add(chunk).read() }; U];
    let (mut most, mut least) = (_mm512_setzero_si512(), _mm512_setzero_si512());
    for lane in 0..lanes {
        // SAFETY: Behind the bias come as many lines as there are lanes for every chunk.
        let weights = unsafe { lines.add(chunks + chunk * lanes + lane).read() };
        let mut factors = [_mm512_setzero_si512(); U];
        for (factors, x) in factors.iter_mut().zip(x) {
            // SAFETY: A vector has as many scalars as there are lanes.
            let x = unsafe { x.add(lane).read() };
            *factors = _mm512_set1_epi16(x << shift);
        }
        add::<U, WATCH>(&mut sums, &mut most, &mut least, weights, factors);
    }
    if WATCH && touched(tile.packed, most, least) {
        return false;
    }
    let mask = first(lanes - chunk * LINE);
    for (vector, sum) in sums.into_iter().enumerate().take(vectors) {
        // SAFETY: The vector has this chunk, and the mask keeps the access to its lanes.
        unsafe {
            let place = tile.y.as_mut_ptr().add(vector * lanes + chunk * LINE);
            _mm512_mask_storeu_epi16(place, mask, sum);
        }
    }
    true
}
