//! Tiles with 512-bit vectors and dot-product instructions.
//!
//! `vpdpbusd` multiplies four unsigned with four signed bytes and adds the products, modulo 2^32.
//! For two signed sides, 128 is added to the numbers of the right-hand side when it is packed;
//! every result is then too large by 128 times the sum of its row of the left-hand side, which is
//! what it starts from. `vpdpwssd` does the same for pairs of 16-bit numbers, and a fused
//! multiplication and addition for single f32 numbers.

use super::kernel::{Kernel, LANES, Lanes, Rows, Tile, from_zero};
use super::sealed::Kind;
use crate::level::Level;
use std::arch::x86_64::*;

/// Rows of a tile: with two vectors per row, 16 of the 32 registers hold sums, which is enough
/// work to hide the latency of the dot products.
const ROWS: usize = 8;

const LINES: usize = 2;

/// Groups per turn of the loop: spreads the computation of addresses.
const UNROLL: usize = 4;

const F32_KIND: u8 = Kind::F32 as u8;

const fn kernel(
    lanes: Lanes,
    tile: fn(&mut Tile<'_>),
    starts: fn(&Rows<'_>, &mut [i32]),
) -> Kernel {
    Kernel { level: Level::Avx512, rows: ROWS, lines: LINES, lanes, tile, starts }
}

pub(super) static U8S8: Kernel = kernel(Lanes::Bytes, tile::<{ Kind::U8S8 as u8 }>, from_zero);
pub(super) static S8S8: Kernel =
    kernel(Lanes::OffsetBytes, tile::<{ Kind::S8S8 as u8 }>, less_offsets);
pub(super) static S16S16: Kernel = kernel(Lanes::Words, tile::<{ Kind::S16S16 as u8 }>, from_zero);

pub(super) static F32: Kernel = kernel(Lanes::Floats, tile::<{ Kind::F32 as u8 }>, from_zero);

fn tile<const KIND: u8>(tile: &mut Tile<'_>) {
    tile.check(LINES);
    // SAFETY: The kernel is only chosen when the processor has the instructions
    // (`Packed::for_level`), and the tile was checked.
    unsafe {
        match tile.left.count {
            0 => {}
            1 => rows::<1, KIND>(tile),
            2 => rows::<2, KIND>(tile),
            3 => rows::<3, KIND>(tile),
            4 => rows::<4, KIND>(tile),
            5 => rows::<5, KIND>(tile),
            6 => rows::<6, KIND>(tile),
            7 => rows::<7, KIND>(tile),
            ROWS => rows::<ROWS, KIND>(tile),
            more => panic!("a tile has at most {ROWS} rows, not {more}"),
        }
    }
}

/// # Safety
/// The tile has `R` rows and passed [`Tile::check`] for two lines per group.
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn rows<const R: usize, const KIND: u8>(tile: &mut Tile<'_>) {
    let right = tile.right.as_ptr().cast::<__m512i>();
    let left: [*const u8; R] =
        std::array::from_fn(|row| tile.left.bytes.as_ptr().wrapping_add(row * tile.left.stride));
    fetch_early::<R>(tile);
    let mut sums = [[_mm512_setzero_si512(); LINES]; R];
    for (sums, start) in sums.iter_mut().zip(tile.starts) {
        *sums = [_mm512_set1_epi32(*start); LINES];
    }
    let groups = tile.left.depth / 4;
    let add = |sums: &mut [[__m512i; LINES]; R], group: usize| {
        // SAFETY: `right` has two lines, a vector each, for every group.
        let lanes = unsafe { [right.add(2 * group).read(), right.add(2 * group + 1).read()] };
        for (left, sums) in left.iter().zip(sums) {
            // SAFETY: `left` has `depth` bytes, so `groups` times four, from `row * stride` on.
            let numbers = unsafe { left.add(4 * group).cast::<i32>().read_unaligned() };
            add_group::<KIND>(sums, numbers, lanes);
        }
    };
    let mut group = 0;
    while group + UNROLL <= groups {
        for step in 0..UNROLL {
            add(&mut sums, group + step);
        }
        group += UNROLL;
    }
    for group in group..groups {
        add(&mut sums, group);
    }
    if !tile.left.depth.is_multiple_of(4) {
        // SAFETY: The lines of the last, incomplete group are there too.
        let lanes = unsafe { [right.add(2 * groups).read(), right.add(2 * groups + 1).read()] };
        for (row, sums) in sums.iter_mut().enumerate() {
            add_group::<KIND>(sums, i32::from_ne_bytes(tile.left.tail(row)), lanes);
        }
    }
    let out = tile.out.as_mut_ptr();
    for (row, sums) in sums.iter().enumerate() {
        for (half, sum) in sums.iter().enumerate() {
            let mask = first_lanes(tile.columns.saturating_sub(half * LANES));
            // SAFETY: `out` has `columns` elements from `row * out_stride` on; the mask keeps the
            // access to those. The address itself may be past the end, so it is computed without
            // the promise that it is not.
            unsafe {
                let place = out.wrapping_add(row * tile.out_stride + half * LANES);
                let old = _mm512_maskz_loadu_epi32(mask, place);
                _mm512_mask_storeu_epi32(place, mask, add_sums::<KIND>(old, *sum));
            }
        }
    }
}

/// Starts to fetch what is read after the sums are done, and a part of the next panel.
fn fetch_early<const R: usize>(tile: &Tile<'_>) {
    for row in 0..R {
        for half in 0..LINES {
            let place = row * tile.out_stride + half * LANES;
            fetch::<_MM_HINT_T0, _>(tile.out.as_ptr().wrapping_add(place));
        }
    }
    for line in tile.soon {
        fetch::<_MM_HINT_T1, _>(line);
    }
}

fn fetch<const HINT: i32, T>(place: *const T) {
    // SAFETY: Every processor of the architecture has the instruction, and it may name any address.
    unsafe { _mm_prefetch::<HINT>(place.cast()) };
}

#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn add_group<const KIND: u8>(sums: &mut [__m512i; LINES], numbers: i32, lanes: [__m512i; LINES]) {
    const U8S8: u8 = Kind::U8S8 as u8;
    const S8S8: u8 = Kind::S8S8 as u8;
    let numbers = _mm512_set1_epi32(numbers);
    for (sum, lanes) in sums.iter_mut().zip(lanes) {
        *sum = match KIND {
            U8S8 => _mm512_dpbusd_epi32(*sum, numbers, lanes),
            // The unsigned operand comes first: here it is the right-hand side.
            S8S8 => _mm512_dpbusd_epi32(*sum, lanes, numbers),
            F32_KIND => _mm512_castps_si512(_mm512_fmadd_ps(
                _mm512_castsi512_ps(numbers),
                _mm512_castsi512_ps(lanes),
                _mm512_castsi512_ps(*sum),
            )),
            _ => _mm512_dpwssd_epi32(*sum, numbers, lanes),
        };
    }
}

/// Sums of two vectors of sums.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn add_sums<const KIND: u8>(a: __m512i, b: __m512i) -> __m512i {
    if KIND == F32_KIND {
        let (a, b) = (_mm512_castsi512_ps(a), _mm512_castsi512_ps(b));
        return _mm512_castps_si512(_mm512_add_ps(a, b));
    }
    _mm512_add_epi32(a, b)
}

/// The mask of so many lanes from the lowest on.
fn first_lanes(count: usize) -> __mmask16 {
    if count >= LANES { !0 } else { (1 << count) - 1 }
}

/// Every row starts from minus 128 times its sum.
fn less_offsets(rows: &Rows<'_>, starts: &mut [i32]) {
    rows.check();
    for (row, start) in starts.iter_mut().enumerate().take(rows.count) {
        let bytes = &rows.bytes[row * rows.stride..][..rows.depth];
        // SAFETY: The kernel is only chosen when the processor has the instructions.
        *start = unsafe { sum_signed(bytes) }.wrapping_mul(-128);
    }
}

/// The sum of bytes taken as signed numbers, modulo 2^32.
#[target_feature(enable = "avx512f,avx512vnni")]
fn sum_signed(bytes: &[u8]) -> i32 {
    let (vectors, rest) = bytes.as_chunks::<64>();
    let mut sum = _mm512_setzero_si512();
    for vector in vectors {
        // SAFETY: A vector is 64 bytes.
        let vector = unsafe { _mm512_loadu_si512(vector.as_ptr().cast()) };
        sum = _mm512_dpbusd_epi32(sum, _mm512_set1_epi8(1), vector);
    }
    let rest: i32 = rest.iter().map(|byte| i32::from(byte.cast_signed())).sum();
    _mm512_reduce_add_epi32(sum).wrapping_add(rest)
}
