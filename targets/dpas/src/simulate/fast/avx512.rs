//! Chains with 512-bit vectors, or with 256-bit ones where a row of D has 8 lanes.
//!
//! Sums stay in registers over all products of a chain, a vector for every row of D. A vector of B
//! meets 32 bits of every row of A in turn.

use super::blocks::{Blocks, Place};
use super::chain::{Context, Product, ROWS, stage};
use super::floats::is_exact;
use std::arch::x86_64::*;

/// The bytes from a place on.
fn bytes<'a>(place: Place, file: &'a [u8], blocks: &'a Blocks) -> &'a [u8] {
    match place {
        Place::File(at) => &file[at..],
        unpacked => blocks.elements(unpacked),
    }
}

/// The operands of a product, which are as long as `rows` of A and `lanes` of B need.
///
/// # Panics
/// When they are not.
fn operands<'a>(
    product: &Product,
    (rows, lanes, size): (usize, usize, usize),
    file: &'a [u8],
    blocks: &'a Blocks,
) -> (&'a [u8], &'a [u8]) {
    let left = bytes(product.left, file, blocks);
    let right = bytes(product.right, file, blocks);
    assert!(left.len() >= ((rows - 1) * product.left_stride + product.k) * size, "A is there");
    assert!(right.len() >= product.k * lanes * size, "B is there");
    (left, right)
}

/// Calls a function with the number of rows as a constant.
macro_rules! with_rows {
    ($rows:expr, $R:ident => $call:expr) => {
        match $rows {
            1 => {
                const $R: usize = 1;
                $call
            }
            2 => {
                const $R: usize = 2;
                $call
            }
            3 => {
                const $R: usize = 3;
                $call
            }
            4 => {
                const $R: usize = 4;
                $call
            }
            5 => {
                const $R: usize = 5;
                $call
            }
            6 => {
                const $R: usize = 6;
                $call
            }
            7 => {
                const $R: usize = 7;
                $call
            }
            _ => {
                const $R: usize = 8;
                $call
            }
        }
    };
}

/// The kernels for rows of so many lanes.
macro_rules! kernels {
    (
        $name:ident, $lanes:literal, $int:ty, $float:ty, $doc:literal,
        $zero:ident $load:ident $store:ident $set1:ident $dot:ident $add:ident $sub:ident
        $loadf:ident $storef:ident $set1f:ident $fma:ident $mul:ident $addf:ident
    ) => {
        #[doc = $doc]
        pub(super) mod $name {
            use super::*;

            const LANES: usize = $lanes;

            /// Adds products of bytes to sums, a row behind the other.
            pub(in super::super) fn dots(
                sums: &mut [i32],
                products: &[Product],
                unsigned_left: bool,
                file: &[u8],
                blocks: &Blocks,
            ) {
                let rows = sums.len() / LANES;
                with_rows!(rows, R => {
                    let sums = &mut sums.as_chunks_mut::<LANES>().0[..R];
                    // SAFETY: Plans have dot products only where the processor has them.
                    unsafe {
                        match unsigned_left {
                            true => dot_rows::<R, true>(sums, products, file, blocks),
                            false => dot_rows::<R, false>(sums, products, file, blocks),
                        }
                    }
                });
            }

            #[target_feature(enable = "avx512f,avx512vl,avx512vnni")]
            fn dot_rows<const R: usize, const UNSIGNED_LEFT: bool>(
                sums: &mut [[i32; LANES]],
                products: &[Product],
                file: &[u8],
                blocks: &Blocks,
            ) {
                let mut own = [$zero(); R];
                for (own, sums) in own.iter_mut().zip(&*sums) {
                    // SAFETY: A row is a vector.
                    *own = unsafe { $load(sums.as_ptr().cast()) };
                }
                let mut correction = $zero();
                for product in products {
                    let (left, right) = operands(product, (R, LANES, 1), file, blocks);
                    let (left, stride) = (left.as_ptr(), product.left_stride);
                    for group in 0..product.k / 4 {
                        // SAFETY: B has `k * LANES` bytes, and a group is four times `LANES`.
                        let b = unsafe { $load(right.as_ptr().add(4 * LANES * group).cast()) };
                        for (row, own) in own.iter_mut().enumerate() {
                            // SAFETY: A has `k` bytes from `row * stride` on.
                            let a = unsafe {
                                let place = left.add(row * stride + 4 * group);
                                $set1(place.cast::<i32>().read_unaligned())
                            };
                            *own = match UNSIGNED_LEFT {
                                true => $dot(*own, a, b),
                                false => $dot(*own, b, a),
                            };
                        }
                    }
                    if let Some(place) = product.sums {
                        let sums = blocks.elements::<i32>(place)[..LANES].as_ptr();
                        // SAFETY: They are a vector.
                        correction = $add(correction, unsafe { $load(sums.cast()) });
                    }
                }
                for (own, sums) in own.iter().zip(sums) {
                    // The offset of A is 128 where A is the unsigned side, else -128.
                    let sum = match UNSIGNED_LEFT {
                        true => $sub(*own, correction),
                        false => $add(*own, correction),
                    };
                    // SAFETY: A row is a vector.
                    unsafe { $store(sums.as_mut_ptr().cast(), sum) };
                }
            }

            /// Adds products of f32 to sums, a row behind the other, with fused additions, or with
            /// such as give the same as separate ones.
            pub(in super::super) fn singles(
                sums: &mut [f32],
                products: &[Product],
                fused: bool,
                context: Context<'_>,
            ) {
                let rows = sums.len() / LANES;
                with_rows!(rows, R => {
                    let sums = &mut sums.as_chunks_mut::<LANES>().0[..R];
                    // SAFETY: The level says that the processor has the instructions.
                    unsafe { single_rows::<R>(sums, products, fused, context) }
                });
            }

            #[target_feature(enable = "avx512f,avx512vl")]
            fn single_rows<const R: usize>(
                sums: &mut [[f32; LANES]],
                products: &[Product],
                fused: bool,
                context: Context<'_>,
            ) {
                let mut own = [$set1f(0.0); R];
                for (own, sums) in own.iter_mut().zip(&*sums) {
                    // SAFETY: A row is a vector.
                    *own = unsafe { $loadf(sums.as_ptr()) };
                }
                for product in products {
                    let (left, right) = operands(product, (R, LANES, 4), &[], context.blocks);
                    let (left, stride) = (left.as_ptr().cast::<f32>(), product.left_stride);
                    let right = right.as_ptr().cast::<f32>();
                    let fused = fused || is_exact(product, context);
                    for k in 0..product.k {
                        // SAFETY: B has `k * LANES` numbers.
                        let b = unsafe { $loadf(right.add(LANES * k)) };
                        for (row, own) in own.iter_mut().enumerate() {
                            // SAFETY: A has `k` numbers from `row * stride` on.
                            let a = $set1f(unsafe { left.add(row * stride + k).read() });
                            *own = match fused {
                                true => $fma(a, b, *own),
                                false => $addf(*own, $mul(a, b)),
                            };
                        }
                    }
                }
                for (own, sums) in own.iter().zip(sums) {
                    // SAFETY: A row is a vector.
                    unsafe { $storef(sums.as_mut_ptr(), *own) };
                }
            }
        }
    };
}

kernels! {
    wide, 16, __m512i, __m512, "Rows of 16 lanes.",
    _mm512_setzero_si512 _mm512_loadu_epi32 _mm512_storeu_epi32 _mm512_set1_epi32
    _mm512_dpbusd_epi32 _mm512_add_epi32 _mm512_sub_epi32
    _mm512_loadu_ps _mm512_storeu_ps _mm512_set1_ps _mm512_fmadd_ps _mm512_mul_ps _mm512_add_ps
}

kernels! {
    narrow, 8, __m256i, __m256, "Rows of 8 lanes.",
    _mm256_setzero_si256 _mm256_loadu_epi32 _mm256_storeu_epi32 _mm256_set1_epi32
    _mm256_dpbusd_epi32 _mm256_add_epi32 _mm256_sub_epi32
    _mm256_loadu_ps _mm256_storeu_ps _mm256_set1_ps _mm256_fmadd_ps _mm256_mul_ps _mm256_add_ps
}

/// Lanes of a vector of f64.
const DOUBLES: usize = 8;

/// Adds products of f64 to sums of `lanes` lanes, a row behind the other; after every stage they
/// are rounded to f32.
pub(super) fn doubles(sums: &mut [f32], lanes: usize, products: &[Product], context: Context<'_>) {
    let rows = sums.len() / lanes;
    for first in (0..lanes).step_by(DOUBLES) {
        with_rows!(rows, R => {
            assert!(sums.len() == R * lanes && R <= ROWS, "every row is there");
            // SAFETY: The level says that the processor has the instructions, and the sums are
            // long enough.
            unsafe { double_rows::<R>(sums, (lanes, first), products, context) }
        });
    }
}

/// # Safety
/// There are `R` rows of `lanes` sums, and 8 lanes from `first` on.
#[target_feature(enable = "avx512f")]
unsafe fn double_rows<const R: usize>(
    sums: &mut [f32],
    (lanes, first): (usize, usize),
    products: &[Product],
    context: Context<'_>,
) {
    let mut own = [_mm512_setzero_pd(); R];
    for (row, own) in own.iter_mut().enumerate() {
        // SAFETY: There are 8 lanes from `first` on.
        let singles = unsafe { _mm256_loadu_ps(sums.as_ptr().add(row * lanes + first)) };
        *own = _mm512_cvtps_pd(singles);
    }
    for product in products {
        let (left, right) = operands(product, (R, lanes, 8), &[], context.blocks);
        let (left, stride) = (left.as_ptr().cast::<f64>(), product.left_stride);
        let right = right.as_ptr().cast::<f64>();
        let stage = stage(product, context.rules);
        for begin in (0..product.k).step_by(stage) {
            let mut terms = [_mm512_set1_pd(-0.0); R];
            for k in begin..begin + stage {
                // SAFETY: B has `k * lanes` numbers.
                let b = unsafe { _mm512_loadu_pd(right.add(lanes * k + first)) };
                for (row, term) in terms.iter_mut().enumerate() {
                    // SAFETY: A has `k` numbers from `row * stride` on.
                    let a = _mm512_set1_pd(unsafe { left.add(row * stride + k).read() });
                    *term = _mm512_fmadd_pd(a, b, *term);
                }
            }
            for (own, term) in own.iter_mut().zip(terms) {
                *own = _mm512_cvtps_pd(_mm512_cvtpd_ps(_mm512_add_pd(*own, term)));
            }
        }
    }
    for (row, own) in own.iter().enumerate() {
        // SAFETY: There are 8 lanes from `first` on.
        unsafe {
            let place = sums.as_mut_ptr().add(row * lanes + first);
            _mm256_storeu_ps(place, _mm512_cvtpd_ps(*own));
        }
    }
}
