//! Exact sums with 256-bit vectors: eight columns at a time in 32 bits.

use super::format::{Narrow, one_by_one};
use super::narrow::Tile;
use crate::simulate::Flow;
use std::arch::x86_64::*;

/// Columns of a vector.
const COLUMNS: usize = 8;

/// [`one_by_one`] for a processor with AVX2.
#[cold]
pub(super) fn exact(format: Narrow, tile: &mut Tile<'_>, weights: &[i16], flow: &mut Flow) {
    let lanes = tile.packed.lanes;
    if lanes < COLUMNS {
        one_by_one::<_, 1>(format, lanes, tile.x, weights, tile.y, flow);
    } else {
        // SAFETY: Levels with kernels are only chosen when the processor has these instructions.
        unsafe { rows(format, tile, weights, flow) }
    }
}

#[target_feature(enable = "avx2")]
fn rows(format: Narrow, tile: &mut Tile<'_>, weights: &[i16], flow: &mut Flow) {
    let lanes = tile.packed.lanes;
    for (x, y) in tile.x.chunks_exact(lanes).zip(tile.y.chunks_exact_mut(lanes)) {
        for first in (0..lanes).step_by(COLUMNS) {
            // The last columns are computed with some of those before them, which then count once.
            let start = first.min(lanes - COLUMNS);
            columns(format, x, weights, start, first - start, y, flow);
        }
    }
}

/// The sums of the columns from `start` on; what saturates in the first `known` is not counted.
#[inline]
#[target_feature(enable = "avx2")]
fn columns(
    format: Narrow,
    x: &[i16],
    weights: &[i16],
    start: usize,
    known: usize,
    y: &mut [i16],
    flow: &mut Flow,
) {
    let below_half = _mm256_set1_epi32((1 << (format.point - 1)) - 1);
    let point = _mm_cvtsi32_si128(format.point.cast_signed());
    let low = _mm256_set1_epi32(format.low);
    let high = _mm256_set1_epi32(format.high);
    let one = _mm256_set1_epi32(1);
    let (bias, weights) = weights.split_at(x.len());
    let mut sums = load(bias, start);
    let (mut over, mut under) = (_mm256_setzero_si256(), _mm256_setzero_si256());
    for (&x, row) in x.iter().zip(weights.chunks_exact(x.len())) {
        let product = _mm256_mullo_epi32(load(row, start), _mm256_set1_epi32(x.into()));
        let exact = _mm256_add_epi32(product, _mm256_sll_epi32(sums, point));
        let is_odd = _mm256_and_si256(_mm256_srl_epi32(exact, point), one);
        let rounded = _mm256_add_epi32(_mm256_add_epi32(exact, below_half), is_odd);
        let value = _mm256_sra_epi32(rounded, point);
        // A comparison gives -1 where it is true.
        over = _mm256_sub_epi32(over, _mm256_cmpgt_epi32(value, high));
        under = _mm256_sub_epi32(under, _mm256_cmpgt_epi32(low, value));
        sums = _mm256_max_epi32(_mm256_min_epi32(value, high), low);
    }
    for (y, sum) in y[start..start + COLUMNS].iter_mut().zip(lanes(sums)) {
        *y = sum as i16;
    }
    let total = |counts: __m256i| lanes(counts).iter().skip(known).map(|&n| n as u64).sum::<u64>();
    flow.over += total(over);
    flow.under += total(under);
}

/// Columns of a row, widened.
#[inline]
#[target_feature(enable = "avx2")]
fn load(row: &[i16], start: usize) -> __m256i {
    let numbers = &row[start..start + COLUMNS];
    // SAFETY: The slice has as many numbers as are read.
    _mm256_cvtepi16_epi32(unsafe { _mm_loadu_si128(numbers.as_ptr().cast()) })
}

#[inline]
#[target_feature(enable = "avx2")]
fn lanes(vector: __m256i) -> [i32; COLUMNS] {
    let mut numbers = [0; COLUMNS];
    // SAFETY: The array has as many bytes as are written.
    unsafe { _mm256_storeu_si256(numbers.as_mut_ptr().cast(), vector) };
    numbers
}
