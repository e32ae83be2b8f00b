//! Chains with 512-bit vectors, or with 256-bit ones where a row of D has 8 lanes.
//!
//! Sums stay in registers over all products of a chain, a vector for every row of D. A vector of B
//! meets 32 bits of every row of A in turn.

use super::blocks::{Blocks, Place};
use super::chain::{Context, Product, ROWS, stage};
use super::floats::{are_exact, sum_to_odd};
use std::arch::x86_64::*;

/// The bytes from a place on.
#[inline(always)]
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
#[inline(always)]
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

/// True if rows of A have so many elements, one behind the other.
fn have_width(products: &[Product], width: usize) -> bool {
    products.iter().all(|product| (product.left_stride, product.k) == (width, width))
}

/// The stride and the elements of rows of A; constants where `WIDTH` is not 0.
fn width_of<const WIDTH: usize>(product: &Product) -> (usize, usize) {
    if WIDTH == 0 { (product.left_stride, product.k) } else { (WIDTH, WIDTH) }
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
        $bf:ty, $dotbf:ident $and:ident $shift:ident $castf:ident
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
                let full = rows == ROWS && have_width(products, 32);
                let sums = sums.as_chunks_mut::<LANES>().0;
                // SAFETY: Plans have dot products only where the processor has them.
                unsafe {
                    match (full, unsigned_left) {
                        (true, true) => dot_rows::<ROWS, true, 32>(sums, products, file, blocks),
                        (true, false) => dot_rows::<ROWS, false, 32>(sums, products, file, blocks),
                        (false, true) => with_rows!(rows, R => {
                            dot_rows::<R, true, 0>(sums, products, file, blocks)
                        }),
                        (false, false) => with_rows!(rows, R => {
                            dot_rows::<R, false, 0>(sums, products, file, blocks)
                        }),
                    }
                }
            }

            #[target_feature(enable = "avx512f,avx512vl,avx512vnni")]
            fn dot_rows<const R: usize, const UNSIGNED_LEFT: bool, const WIDTH: usize>(
                sums: &mut [[i32; LANES]],
                products: &[Product],
                file: &[u8],
                blocks: &Blocks,
            ) {
                // Before the sums are in registers: what is looked up here may be a call.
                let mut correction = $zero();
                for product in products {
                    if let Some(place) = product.sums {
                        let sums = blocks.elements::<i32>(place)[..LANES].as_ptr();
                        // SAFETY: They are a vector.
                        correction = $add(correction, unsafe { $load(sums.cast()) });
                    }
                }
                let mut own = [$zero(); R];
                for (own, sums) in own.iter_mut().zip(&*sums) {
                    // SAFETY: A row is a vector.
                    *own = unsafe { $load(sums.as_ptr().cast()) };
                }
                for product in products {
                    let (left, right) = operands(product, (R, LANES, 1), file, blocks);
                    let left = left.as_ptr();
                    let (stride, k) = width_of::<WIDTH>(product);
                    for group in 0..k / 4 {
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

            /// Adds products of pairs of bf, the first one of a pair in the upper half of a dword.
            /// `whole` says that the processor's own instruction, which adds the upper products
            /// first, each with one rounding, never meets subnormal numbers, which it takes for
            /// zeros; `fused`, that fused additions give the right sums.
            pub(in super::super) fn pairs(
                sums: &mut [f32],
                products: &[Product],
                (whole, fused): (bool, bool),
                blocks: &Blocks,
            ) {
                let rows = sums.len() / LANES;
                let full = rows == ROWS && have_width(products, 16);
                let sums = sums.as_chunks_mut::<LANES>().0;
                // SAFETY: Plans have pairs only where the processor has the instructions.
                unsafe {
                    match (whole, fused) {
                        (true, _) if full => {
                            pair_rows::<ROWS, 16, true, true>(sums, products, blocks);
                        }
                        (true, _) => with_rows!(rows, R => {
                            pair_rows::<R, 0, true, true>(sums, products, blocks)
                        }),
                        (false, true) => with_rows!(rows, R => {
                            pair_rows::<R, 0, false, true>(sums, products, blocks)
                        }),
                        (false, false) => with_rows!(rows, R => {
                            pair_rows::<R, 0, false, false>(sums, products, blocks)
                        }),
                    }
                }
            }

            #[target_feature(enable = "avx512f,avx512vl,avx512bf16")]
            fn pair_rows<const R: usize, const WIDTH: usize, const WHOLE: bool, const FUSED: bool>(
                sums: &mut [[f32; LANES]],
                products: &[Product],
                blocks: &Blocks,
            ) {
                let mut own = [$set1f(0.0); R];
                for (own, sums) in own.iter_mut().zip(&*sums) {
                    // SAFETY: A row is a vector.
                    *own = unsafe { $loadf(sums.as_ptr()) };
                }
                let upper = $set1(0xffff_0000_u32.cast_signed());
                let halves = |pairs: $int| {
                    ($castf($and(pairs, upper)), $castf($shift::<16>(pairs)))
                };
                let add = |sum: $float, a: $float, b: $float| match FUSED {
                    true => $fma(a, b, sum),
                    false => $addf(sum, $mul(a, b)),
                };
                for product in products {
                    let (left, right) = operands(product, (R, LANES, 2), &[], blocks);
                    let (left, right) = (left.as_ptr().cast::<i32>(), right.as_ptr().cast::<i32>());
                    let (stride, count) = width_of::<WIDTH>(product);
                    for pair in 0..count / 2 {
                        // SAFETY: B has `count / 2 * LANES` pairs.
                        let b = unsafe { $load(right.add(LANES * pair)) };
                        for (row, own) in own.iter_mut().enumerate() {
                            // SAFETY: A has `count / 2` pairs from half of `row * stride` on.
                            let a = $set1(unsafe { left.add(row * stride / 2 + pair).read() });
                            if WHOLE {
                                // SAFETY: Both are vectors of 16-bit numbers.
                                let (a, b) = unsafe {
                                    (std::mem::transmute::<$int, $bf>(a), std::mem::transmute::<$int, $bf>(b))
                                };
                                *own = $dotbf(*own, a, b);
                            } else {
                                let ((first_a, second_a), (first_b, second_b)) = (halves(a), halves(b));
                                *own = add(add(*own, first_a, first_b), second_a, second_b);
                            }
                        }
                    }
                }
                for (own, sums) in own.iter().zip(sums) {
                    // SAFETY: A row is a vector.
                    unsafe { $storef(sums.as_mut_ptr(), *own) };
                }
            }

            /// For every lane 128 times the sum of the bytes of rows of B.
            pub(in super::super) fn column_sums(bytes: &[u8], signed: bool) -> [u32; 16] {
                // SAFETY: Plans have dot products only where the processor has them.
                unsafe { column_sums_of(bytes, signed) }
            }

            #[target_feature(enable = "avx512f,avx512vl,avx512vnni")]
            fn column_sums_of(bytes: &[u8], signed: bool) -> [u32; 16] {
                let (mut sums, mut all) = ($zero(), [0; 16]);
                for row in bytes.as_chunks::<{ 4 * LANES }>().0 {
                    // SAFETY: A row is a vector.
                    let row = unsafe { $load(row.as_ptr().cast()) };
                    sums = match signed {
                        true => $dot(sums, $set1(0x8080_8080_u32.cast_signed()), row),
                        // 128 is no signed byte, but twice 64 is.
                        false => $dot($dot(sums, row, $set1(0x4040_4040)), row, $set1(0x4040_4040)),
                    };
                }
                // SAFETY: There is room for a vector.
                unsafe { $store(all.as_mut_ptr().cast(), sums) };
                all
            }

            /// Adds products of f32 to sums, a row behind the other: with fused additions, also
            /// where they give the same as separate ones.
            pub(in super::super) fn singles(
                sums: &mut [f32],
                products: &[Product],
                fused: bool,
                context: Context<'_>,
            ) {
                let rows = sums.len() / LANES;
                let sums = sums.as_chunks_mut::<LANES>().0;
                let fused = fused || are_exact(products, context);
                let width = [16, 8].into_iter().find(|&width| have_width(products, width));
                // SAFETY: The level says that the processor has the instructions.
                unsafe {
                    match (width, fused) {
                        (Some(16), true) if rows == ROWS => {
                            single_rows::<ROWS, 16, true>(sums, products, context);
                        }
                        (Some(8), true) if rows == ROWS => {
                            single_rows::<ROWS, 8, true>(sums, products, context);
                        }
                        (_, true) => with_rows!(rows, R => {
                            single_rows::<R, 0, true>(sums, products, context)
                        }),
                        (_, false) => with_rows!(rows, R => {
                            single_rows::<R, 0, false>(sums, products, context)
                        }),
                    }
                }
            }

            #[target_feature(enable = "avx512f,avx512vl")]
            fn single_rows<const R: usize, const WIDTH: usize, const FUSED: bool>(
                sums: &mut [[f32; LANES]],
                products: &[Product],
                context: Context<'_>,
            ) {
                let mut own = [$set1f(0.0); R];
                for (own, sums) in own.iter_mut().zip(&*sums) {
                    // SAFETY: A row is a vector.
                    *own = unsafe { $loadf(sums.as_ptr()) };
                }
                for product in products {
                    let (left, right) = operands(product, (R, LANES, 4), &[], context.blocks);
                    let (left, right) = (left.as_ptr().cast::<f32>(), right.as_ptr().cast::<f32>());
                    let (stride, count) = width_of::<WIDTH>(product);
                    // SAFETY: A has `count` numbers from `row * stride` on, and B `count * LANES`.
                    let a = |row: usize, k: usize| unsafe {
                        $set1f(left.add(row * stride + k).read())
                    };
                    let b = |k: usize| unsafe { $loadf(right.add(LANES * k)) };
                    for k in 0..count {
                        let b = b(k);
                        for (row, own) in own.iter_mut().enumerate() {
                            *own = match FUSED {
                                true => $fma(a(row, k), b, *own),
                                false => $addf(*own, $mul(a(row, k), b)),
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
    __m512bh, _mm512_dpbf16_ps _mm512_and_si512 _mm512_slli_epi32 _mm512_castsi512_ps
}

kernels! {
    narrow, 8, __m256i, __m256, "Rows of 8 lanes.",
    _mm256_setzero_si256 _mm256_loadu_epi32 _mm256_storeu_epi32 _mm256_set1_epi32
    _mm256_dpbusd_epi32 _mm256_add_epi32 _mm256_sub_epi32
    _mm256_loadu_ps _mm256_storeu_ps _mm256_set1_ps _mm256_fmadd_ps _mm256_mul_ps _mm256_add_ps
    __m256bh, _mm256_dpbf16_ps _mm256_and_si256 _mm256_slli_epi32 _mm256_castsi256_ps
}

/// Lanes of a vector of f64.
const DOUBLES: usize = 8;

/// Adds products of f64 to sums of `lanes` lanes, a row behind the other; after every stage they
/// are rounded to f32. `exact` says that f64 holds all sums.
pub(super) fn doubles(
    sums: &mut [f32],
    lanes: usize,
    products: &[Product],
    exact: bool,
    context: Context<'_>,
) {
    let rows = sums.len() / lanes;
    let full = rows == ROWS && have_width(products, 16);
    let stage = products.first().map_or(0, |product| stage(product, context.rules));
    for first in (0..lanes).step_by(DOUBLES) {
        let place = (lanes, first);
        assert!(rows <= ROWS && sums.len() == rows * lanes, "every row is there");
        // SAFETY: The level says that the processor has the instructions, and the sums are long
        // enough.
        unsafe {
            match (stage, exact) {
                (2, true) if full => {
                    double_rows::<ROWS, 16, 2, true>(sums, place, products, context)
                }
                (2, false) if full => {
                    double_rows::<ROWS, 16, 2, false>(sums, place, products, context);
                }
                (16, true) if full => {
                    double_rows::<ROWS, 16, 16, true>(sums, place, products, context);
                }
                (16, false) if full => {
                    double_rows::<ROWS, 16, 16, false>(sums, place, products, context);
                }
                _ => with_rows!(rows, R => {
                    double_rows::<R, 0, 0, false>(sums, place, products, context)
                }),
            }
        }
    }
}

/// # Safety
/// There are `R` rows of `lanes` sums, and 8 lanes from `first` on.
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn double_rows<const R: usize, const WIDTH: usize, const STAGE: usize, const EXACT: bool>(
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
        let (left, right) = (left.as_ptr().cast::<f64>(), right.as_ptr().cast::<f64>());
        let (stride, count) = width_of::<WIDTH>(product);
        let stage = if STAGE == 0 { stage(product, context.rules) } else { STAGE };
        for begin in (0..count).step_by(stage) {
            // Zeros that are all negative add up to a negative one.
            let mut terms = [_mm512_set1_pd(-0.0); R];
            for k in begin..begin + stage {
                // SAFETY: B has `count * lanes` numbers.
                let b = unsafe { _mm512_loadu_pd(right.add(lanes * k + first)) };
                for (row, term) in terms.iter_mut().enumerate() {
                    // SAFETY: A has `count` numbers from `row * stride` on.
                    let a = _mm512_set1_pd(unsafe { left.add(row * stride + k).read() });
                    *term = _mm512_fmadd_pd(a, b, *term);
                }
            }
            for (own, term) in own.iter_mut().zip(terms) {
                let sum = _mm512_add_pd(*own, term);
                let single = match !EXACT && has_middle(sum) {
                    true => round_carefully(*own, term),
                    false => _mm512_cvtpd_ps(sum),
                };
                *own = _mm512_cvtps_pd(single);
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

/// True if a number may lie in the middle between two normal numbers of f32.
#[inline]
#[target_feature(enable = "avx512f")]
fn has_middle(sum: __m512d) -> bool {
    let bits = _mm512_xor_si512(_mm512_castpd_si512(sum), _mm512_set1_epi64(1 << 28));
    _mm512_testn_epi64_mask(bits, _mm512_set1_epi64((1 << 29) - 1)) != 0
}

/// Sums that are rounded to f32 once.
#[cold]
#[target_feature(enable = "avx512f")]
fn round_carefully(own: __m512d, term: __m512d) -> __m256 {
    // What the addition has left out: mostly nothing, and then the middle is where the sum is.
    let sum = _mm512_add_pd(own, term);
    let part = _mm512_sub_pd(sum, own);
    let rest =
        _mm512_add_pd(_mm512_sub_pd(own, _mm512_sub_pd(sum, part)), _mm512_sub_pd(term, part));
    if _mm512_cmp_pd_mask::<_CMP_NEQ_OQ>(rest, _mm512_setzero_pd()) == 0 {
        return _mm512_cvtpd_ps(sum);
    }
    let (mut old, mut new) = ([0.0; DOUBLES], [0.0; DOUBLES]);
    let mut singles = [0.0f32; DOUBLES];
    // SAFETY: Every array is a vector.
    unsafe {
        _mm512_storeu_pd(old.as_mut_ptr(), own);
        _mm512_storeu_pd(new.as_mut_ptr(), term);
    }
    for (single, (old, new)) in singles.iter_mut().zip(old.into_iter().zip(new)) {
        *single = sum_to_odd(old, new) as f32;
    }
    // SAFETY: The array is a vector.
    unsafe { _mm256_loadu_ps(singles.as_ptr()) }
}
