//! Tiles with 256-bit vectors: a line is two of them, of which a narrow machine uses the first.

use super::narrow::{LINE, Line, Packed, Tile};
use std::arch::x86_64::*;

/// A line, or the half of it that is in use.
type Halves<const H: usize> = [__m256i; H];

/// The lanes of a vector.
const HALF: usize = LINE / 2;

/// Computes a tile; false when it must be computed exactly.
#[inline(always)]
pub(super) fn products(tile: &mut Tile<'_>) -> bool {
    let Packed { group, lanes, .. } = *tile.packed;
    let mut done = 0;
    while done < tile.vectors {
        let rest = tile.vectors - done;
        let (kernel, size): (unsafe fn(&mut Tile<'_>) -> bool, usize) = match group {
            1 if lanes <= HALF && rest > 2 => (broadcast::<4, 1>, 4),
            1 if lanes <= HALF => (broadcast::<1, 1>, 1),
            1 if rest > 1 => (broadcast::<2, 2>, 2),
            1 => (broadcast::<1, 2>, 1),
            _ if rest > group => (spread::<2>, 2),
            _ => (spread::<1>, 1),
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

#[inline]
#[target_feature(enable = "avx2")]
fn load(line: &[i16; LINE]) -> Halves<2> {
    let (low, high) = line.split_at(HALF);
    // SAFETY: Each half of a line is as large as a vector.
    unsafe { [_mm256_loadu_si256(low.as_ptr().cast()), _mm256_loadu_si256(high.as_ptr().cast())] }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(halves: Halves<2>) -> [i16; LINE] {
    let mut line = [0; LINE];
    let (low, high) = line.split_at_mut(HALF);
    // SAFETY: Each half of a line is as large as a vector.
    unsafe {
        _mm256_storeu_si256(low.as_mut_ptr().cast(), halves[0]);
        _mm256_storeu_si256(high.as_mut_ptr().cast(), halves[1]);
    }
    line
}

/// The greatest and the least watched sums.
#[derive(Clone, Copy)]
struct Seen {
    most: __m256i,
    least: __m256i,
}

/// Adds products to sums.
#[inline]
#[target_feature(enable = "avx2")]
fn add<const H: usize, const WATCH: bool>(
    sums: &mut Halves<H>,
    seen: &mut Seen,
    weights: Halves<H>,
    x: Halves<H>,
) {
    for ((sum, weights), x) in sums.iter_mut().zip(weights).zip(x) {
        let negative = _mm256_sub_epi16(_mm256_setzero_si256(), weights);
        let up = _mm256_mulhrs_epi16(x, weights);
        let tie = _mm256_add_epi16(up, _mm256_mulhrs_epi16(x, negative));
        let next = if WATCH {
            let next = _mm256_adds_epi16(*sum, up);
            seen.most = _mm256_max_epi16(seen.most, next);
            seen.least = _mm256_min_epi16(seen.least, next);
            next
        } else {
            _mm256_add_epi16(*sum, up)
        };
        *sum = _mm256_andnot_si256(tie, next);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn nothing_seen() -> Seen {
    Seen { most: _mm256_setzero_si256(), least: _mm256_setzero_si256() }
}

/// True when a watched sum touched an end of its range.
#[inline]
#[target_feature(enable = "avx2")]
fn touched(packed: &Packed, Seen { most, least }: Seen) -> bool {
    let (low, high) = packed.ends;
    let below_high = _mm256_cmpgt_epi16(_mm256_set1_epi16(high), most);
    let above_low = _mm256_cmpgt_epi16(least, _mm256_set1_epi16(low));
    _mm256_movemask_epi8(_mm256_and_si256(below_high, above_low)) != -1
}

/// True when a magnitude is above a limit.
#[inline]
#[target_feature(enable = "avx2")]
fn above(magnitudes: __m256i, limit: u16) -> bool {
    let excess = _mm256_subs_epu16(magnitudes, _mm256_set1_epi16(limit.cast_signed()));
    _mm256_testz_si256(excess, excess) == 0
}

/// Vectors side by side: `U` lines of them.
///
/// # Safety
/// The tile passed [`Tile::check`] and has at most `U` lines of more than one vector.
#[target_feature(enable = "avx2")]
unsafe fn spread<const U: usize>(tile: &mut Tile<'_>) -> bool {
    let packed = tile.packed;
    let mut x = [[_mm256_setzero_si256(); 2]; U];
    let mut top = _mm256_setzero_si256();
    // Vectors fill whole lines, since their lanes divide 8.
    let (lines, rest) = tile.x.as_chunks();
    for (number, x) in x.iter_mut().enumerate() {
        *x = match lines.get(number) {
            Some(line) => load(line),
            None => {
                let mut line = [0; LINE];
                line[..rest.len()].copy_from_slice(rest);
                load(&line)
            }
        };
        for &half in x.iter() {
            top = _mm256_max_epu16(top, _mm256_abs_epi16(half));
        }
    }
    if above(top, packed.wide) {
        return false;
    }
    let shift = _mm_cvtsi32_si128(packed.shift.cast_signed());
    for x in &mut x {
        *x = [_mm256_sll_epi16(x[0], shift), _mm256_sll_epi16(x[1], shift)];
    }
    match above(top, packed.safe) {
        true => spread_sums::<U, true>(tile, x),
        false => spread_sums::<U, false>(tile, x),
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn spread_sums<const U: usize, const WATCH: bool>(tile: &mut Tile<'_>, x: [Halves<2>; U]) -> bool {
    let packed = tile.packed;
    let [bias, weights @ ..] = packed.lines.as_slice() else { return false };
    let mut sums = [load(&bias.0); U];
    let mut seen = nothing_seen();
    for (weights, place) in weights.iter().zip(&packed.places) {
        let (weights, place) = (load(&weights.0), load(&place.0));
        for (sums, x) in sums.iter_mut().zip(x) {
            let x = [_mm256_shuffle_epi8(x[0], place[0]), _mm256_shuffle_epi8(x[1], place[1])];
            add::<2, WATCH>(sums, &mut seen, weights, x);
        }
    }
    if WATCH && touched(packed, seen) {
        return false;
    }
    let (lines, rest) = tile.y.as_chunks_mut();
    for (number, sums) in sums.into_iter().enumerate() {
        match lines.get_mut(number) {
            Some(line) => *line = store(sums),
            None => rest.copy_from_slice(&store(sums)[..rest.len()]),
        }
    }
    true
}

/// Vectors one by one, `U` of them, and their lanes line by line, or by `H` halves.
///
/// # Safety
/// The tile passed [`Tile::check`] and has at most `U` lines of one vector. With one half there
/// are at most as many lanes.
#[target_feature(enable = "avx2")]
unsafe fn broadcast<const U: usize, const H: usize>(tile: &mut Tile<'_>) -> bool {
    let packed = tile.packed;
    let top = tile.x.iter().map(|x| x.unsigned_abs()).fold(0, u16::max);
    if top > packed.wide {
        return false;
    }
    (0..packed.chunks).all(|chunk| match top > packed.safe {
        // SAFETY: As for this function, and the chunk is one of them.
        true => unsafe { broadcast_sums::<U, H, true>(tile, chunk) },
        // SAFETY: The same.
        false => unsafe { broadcast_sums::<U, H, false>(tile, chunk) },
    })
}

/// # Safety
/// As [`broadcast`], and `chunk` is below `chunks`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn broadcast_sums<const U: usize, const H: usize, const WATCH: bool>(
    tile: &mut Tile<'_>,
    chunk: usize,
) -> bool {
    let Packed { lanes, chunks, shift, ref lines, .. } = *tile.packed;
    let vectors = tile.vectors;
    // Vectors that are not there are copies of the last one, and are not stored.
    let x: [*const i16; U] =
        std::array::from_fn(|v| tile.x.as_ptr().wrapping_add(v.min(vectors - 1) * lanes));
    let part = |line: &Line| -> Halves<H> {
        let halves = load(&line.0);
        std::array::from_fn(|half| halves[half])
    };
    let mut sums = [part(&lines[chunk]); U];
    let mut seen = nothing_seen();
    let weights = &lines[chunks + chunk * lanes..][..lanes];
    for (lane, weights) in weights.iter().enumerate() {
        let weights = part(weights);
        for (sums, x) in sums.iter_mut().zip(x) {
            // SAFETY: A vector has as many scalars as there are lanes.
            let x = unsafe { x.add(lane).read() };
            add::<H, WATCH>(sums, &mut seen, weights, [_mm256_set1_epi16(x << shift); H]);
        }
    }
    if WATCH && touched(tile.packed, seen) {
        return false;
    }
    for (sums, vector) in sums.into_iter().zip(tile.y.chunks_exact_mut(lanes)) {
        let line = store(std::array::from_fn(|half| sums[half.min(H - 1)]));
        let places = &mut vector[chunk * LINE..];
        let width = places.len().min(LINE);
        places[..width].copy_from_slice(&line[..width]);
    }
    true
}
