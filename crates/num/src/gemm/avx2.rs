//! Tiles with 256-bit vectors.
//!
//! 8-bit numbers are widened to 16 bits when the sides are packed, so there is one kernel for all
//! integers, and one for f32.
//! `vpmaddwd` multiplies pairs and adds the two products; the only sum that does not fit, that of
//! (-32768)^2 twice, comes out modulo 2^32 as it should. (`vpmaddubsw` saturates, and is not used.)

use super::kernel::{Kernel, Lanes, Tile, from_zero};
use crate::level::Level;
use std::arch::x86_64::*;

/// Rows of a tile: with two vectors per row, two of the right-hand side and one of the left, what
/// 16 registers hold.
const ROWS: usize = 6;

/// Lanes of a vector.
const VECTOR: usize = 8;

pub(super) static KERNEL: Kernel = Kernel {
    level: Level::Avx2,
    rows: ROWS,
    lines: 1,
    lanes: Lanes::Words,
    tile: tile::<false>,
    starts: from_zero,
};

pub(super) static F32: Kernel = Kernel { lanes: Lanes::Floats, tile: tile::<true>, ..KERNEL };

fn tile<const FLOAT: bool>(tile: &mut Tile<'_>) {
    tile.check(1);
    // SAFETY: The kernel is only chosen when the processor has AVX2 and FMA (`Packed::for_level`), and
    // the tile was checked.
    unsafe {
        match tile.left.count {
            0 => {}
            1 => rows::<1, FLOAT>(tile),
            2 => rows::<2, FLOAT>(tile),
            3 => rows::<3, FLOAT>(tile),
            4 => rows::<4, FLOAT>(tile),
            5 => rows::<5, FLOAT>(tile),
            ROWS => rows::<ROWS, FLOAT>(tile),
            more => panic!("a tile has at most {ROWS} rows, not {more}"),
        }
    }
}

/// # Safety
/// The tile has `R` rows and passed [`Tile::check`] for one line per group.
#[target_feature(enable = "avx2,fma")]
unsafe fn rows<const R: usize, const FLOAT: bool>(tile: &mut Tile<'_>) {
    let right = tile.right.as_ptr().cast::<__m256i>();
    let left = tile.left.bytes.as_ptr();
    let mut sums = [[_mm256_setzero_si256(); 2]; R];
    for (sums, start) in sums.iter_mut().zip(tile.starts) {
        *sums = [_mm256_set1_epi32(*start); 2];
    }
    let groups = tile.left.depth / 4;
    for group in 0..groups {
        // SAFETY: `right` has a line, which is two vectors, for every group.
        let lanes = unsafe { [right.add(2 * group).read(), right.add(2 * group + 1).read()] };
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: `left` has `depth` bytes, so `groups` times four, from `row * stride` on.
            let numbers = unsafe {
                left.add(row * tile.left.stride + 4 * group).cast::<i32>().read_unaligned()
            };
            add_group::<FLOAT>(sums, numbers, lanes);
        }
    }
    if !tile.left.depth.is_multiple_of(4) {
        // SAFETY: The line of the last, incomplete group is there too.
        let lanes = unsafe { [right.add(2 * groups).read(), right.add(2 * groups + 1).read()] };
        for (row, sums) in sums.iter_mut().enumerate() {
            add_group::<FLOAT>(sums, i32::from_ne_bytes(tile.left.tail(row)), lanes);
        }
    }
    let out = tile.out.as_mut_ptr();
    for (row, sums) in sums.iter().enumerate() {
        for (half, sum) in sums.iter().enumerate() {
            let mask = first_lanes(tile.columns.saturating_sub(half * VECTOR));
            // SAFETY: `out` has `columns` elements from `row * out_stride` on; the mask keeps the
            // access to those. The address itself may be past the end, so it is computed without
            // the promise that it is not.
            unsafe {
                let place = out.wrapping_add(row * tile.out_stride + half * VECTOR);
                let old = _mm256_maskload_epi32(place, mask);
                _mm256_maskstore_epi32(place, mask, add_sums::<FLOAT>(old, *sum));
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn add_group<const FLOAT: bool>(sums: &mut [__m256i; 2], numbers: i32, lanes: [__m256i; 2]) {
    let numbers = _mm256_set1_epi32(numbers);
    for (sum, lanes) in sums.iter_mut().zip(lanes) {
        *sum = if FLOAT {
            let [numbers, lanes, sum] = [numbers, lanes, *sum].map(|v| _mm256_castsi256_ps(v));
            _mm256_castps_si256(_mm256_fmadd_ps(numbers, lanes, sum))
        } else {
            _mm256_add_epi32(*sum, _mm256_madd_epi16(numbers, lanes))
        };
    }
}

/// Sums of two vectors of sums.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn add_sums<const FLOAT: bool>(a: __m256i, b: __m256i) -> __m256i {
    if FLOAT {
        let (a, b) = (_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
        return _mm256_castps_si256(_mm256_add_ps(a, b));
    }
    _mm256_add_epi32(a, b)
}

/// The mask of so many lanes from the lowest on.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn first_lanes(count: usize) -> __m256i {
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
}
