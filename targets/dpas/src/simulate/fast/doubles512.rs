//! Stages of products in f64, with 512-bit vectors.

use super::avx512::{have_width, operands, width_of, with_rows};
use super::chain::{Context, Product, ROWS, stage};
use super::floats::sum_to_odd;
use std::arch::x86_64::*;

/// Lanes of a vector of f64.
const DOUBLES: usize = 8;

/// Adds products of f64 to sums of `lanes` lanes, a row behind the other; after every stage they
/// are rounded to f32. `exact` says that f64 holds all sums, that they are below 2^127, and that
/// none is -0.
pub(super) fn doubles(
    sums: &mut [f32],
    lanes: usize,
    products: &[Product],
    exact: bool,
    context: Context<'_>,
) {
    let rows = sums.len() / lanes;
    let full = rows == ROWS && have_width(products, 16);
    let stage = products.first().map_or(0, |product| stage(product, context));
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
        let stage = if STAGE == 0 { stage(product, context) } else { STAGE };
        for begin in (0..count).step_by(stage) {
            // Where nothing is rounded, the order does not matter. Else the products come first;
            // zeros that are all negative add up to a negative one.
            let mut terms = if EXACT { own } else { [_mm512_set1_pd(-0.0); R] };
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
                if EXACT {
                    *own = round_normal(term);
                    continue;
                }
                let sum = _mm512_add_pd(*own, term);
                let single = match has_middle(sum) {
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

/// The nearest numbers with 24 bits, ties to even, which is faster than a conversion to f32 and back.
/// Numbers are below 2^127, and -0 becomes +0.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn round_normal(sum: __m512d) -> __m512d {
    // With `2^e` the highest bit of a number, 1.5 * 2^(e + 29) has that of f32 as its last one, and
    // is an even multiple of it.
    let power = _mm512_and_pd(sum, _mm512_set1_pd(f64::INFINITY));
    let far = _mm512_mul_pd(power, _mm512_set1_pd(1.5 * (1 << 29) as f64));
    _mm512_sub_pd(_mm512_add_pd(sum, far), far)
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
