//! Chains of products of integers and of f32 with 512-bit vectors, or with 256-bit ones where a row of
//! D has 8 lanes.
//!
//! Sums stay in registers over all products of a chain, a vector for every row of D. A vector of B
//! meets 32 bits of every row of A in turn.

use super::blocks::{Blocks, Place};
use super::chain::{Ends, NONE, Pairs, Product, ROWS, WIDTH};
use std::arch::x86_64::*;

/// The bytes from a place on.
#[inline(always)]
fn bytes<'a>(place: Place, file: &'a [u8], blocks: &'a Blocks) -> &'a [u8] {
    match place {
        Place::File(at) => &file[at as usize..],
        unpacked => blocks.elements(unpacked),
    }
}

/// The operands of a product, which are as long as `rows` of A and `lanes` of B need.
///
/// # Panics
/// When they are not.
#[inline(always)]
pub(super) fn operands<'a>(
    product: &Product,
    (rows, lanes, size): (usize, usize, usize),
    file: &'a [u8],
    blocks: &'a Blocks,
) -> (&'a [u8], &'a [u8]) {
    let left = bytes(product.left, file, blocks);
    let right = bytes(product.right, file, blocks);
    assert!(left.len() >= ((rows - 1) * product.stride() + product.columns()) * size, "A is there");
    assert!(right.len() >= product.columns() * lanes * size, "B is there");
    (left, right)
}

/// True if rows of A have so many elements, one behind the other.
pub(super) fn have_width(products: &[Product], width: usize) -> bool {
    products.iter().all(|product| (product.stride(), product.columns()) == (width, width))
}

/// The stride and the elements of rows of A; constants where `WIDTH` is not 0.
#[inline(always)]
pub(super) fn width_of<const WIDTH: usize>(product: &Product) -> (usize, usize) {
    if WIDTH == 0 { (product.stride(), product.columns()) } else { (WIDTH, WIDTH) }
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
pub(super) use with_rows;

/// The kernels for rows of so many lanes.
macro_rules! kernels {
    (
        $name:ident, $lanes:literal, $mask:ty, $int:ty, $float:ty, $doc:literal,
        $zero:ident $load:ident $store:ident $store_some:ident $set1:ident $dot:ident $add:ident
        $sub:ident
        $loadf:ident $castf:ident $casti:ident $set1f:ident $fma:ident $mul:ident $addf:ident
        $compare:ident $blend:ident
    ) => {
        #[doc = $doc]
        pub(super) mod $name {
            use super::*;

            const LANES: usize = $lanes;

            /// The sums at the beginning of a chain; zeros without src0.
            #[inline]
            #[target_feature(enable = "avx512f,avx512vl")]
            fn load<const R: usize>(file: &[u8], ends: Ends) -> [$int; R] {
                let mut sums = [$zero(); R];
                if let Some(from) = ends.from {
                    let rows = file[from..][..R * LANES * 4].as_ptr().cast::<i32>();
                    for (row, sums) in sums.iter_mut().enumerate() {
                        // SAFETY: There are `R` rows.
                        *sums = unsafe { $load(rows.add(row * LANES)) };
                    }
                }
                sums
            }

            /// Writes the lanes that are on.
            #[inline]
            #[target_feature(enable = "avx512f,avx512vl")]
            fn store<const R: usize>(file: &mut [u8], ends: Ends, sums: [$int; R]) {
                let all = u32::MAX >> (32 - LANES);
                let rows = file[ends.to..][..R * LANES * 4].as_mut_ptr().cast::<i32>();
                for (row, sums) in sums.into_iter().enumerate() {
                    // SAFETY: There are `R` rows.
                    unsafe {
                        let row = rows.add(row * LANES);
                        match ends.enabled & all == all {
                            true => $store(row, sums),
                            false => $store_some(row, (ends.enabled & all) as $mask, sums),
                        }
                    }
                }
            }

            #[inline]
            #[target_feature(enable = "avx512f,avx512vl")]
            fn load_floats<const R: usize>(file: &[u8], ends: Ends) -> [$float; R] {
                let mut sums = [$set1f(0.0); R];
                for (sums, bits) in sums.iter_mut().zip(load::<R>(file, ends)) {
                    *sums = $castf(bits);
                }
                sums
            }

            /// NaN is canonical.
            #[inline]
            #[target_feature(enable = "avx512f,avx512vl")]
            fn store_floats<const R: usize>(file: &mut [u8], ends: Ends, sums: [$float; R]) {
                let mut all = [$zero(); R];
                for (all, sums) in all.iter_mut().zip(sums) {
                    let nan = $compare::<_CMP_UNORD_Q>(sums, sums);
                    *all = $casti($blend(nan, sums, $set1f(f32::from_bits(0x7fc0_0000))));
                }
                store::<R>(file, ends, all);
            }

            /// Adds products of bytes to sums of `rows` rows.
            pub(in super::super) fn dots(
                file: &mut [u8],
                (ends, rows): (Ends, usize),
                products: &[Product],
                unsigned_left: bool,
                blocks: &Blocks,
            ) {
                let full = rows == ROWS && have_width(products, 32);
                // SAFETY: Plans have dot products only where the processor has them.
                unsafe {
                    match (full, unsigned_left) {
                        (true, true) => dot_rows::<ROWS, true, 32>(file, ends, products, blocks),
                        (true, false) => dot_rows::<ROWS, false, 32>(file, ends, products, blocks),
                        (false, true) => with_rows!(rows, R => {
                            dot_rows::<R, true, 0>(file, ends, products, blocks)
                        }),
                        (false, false) => with_rows!(rows, R => {
                            dot_rows::<R, false, 0>(file, ends, products, blocks)
                        }),
                    }
                }
            }

            #[target_feature(enable = "avx512f,avx512vl,avx512vnni")]
            fn dot_rows<const R: usize, const UNSIGNED_LEFT: bool, const WIDTH: usize>(
                file: &mut [u8],
                ends: Ends,
                products: &[Product],
                blocks: &Blocks,
            ) {
                // Before the sums are in registers: what is looked up here may be a call.
                let correction = correction(products, blocks);
                let mut own = load::<R>(file, ends);
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
                store::<R>(file, ends, corrected::<R, UNSIGNED_LEFT>(own, correction));
            }

            /// Adds products of bytes to the sums of pairs of chains.
            ///
            /// # Safety
            /// Plans have pairs only where the processor has the instructions; all places lie in the
            /// registers and in the blocks.
            pub(in super::super) unsafe fn pairs_of_dots(
                file: &mut [u8],
                pairs: &Pairs,
                blocks: &Blocks,
            ) {
                // SAFETY: As this function says.
                unsafe {
                    match pairs.unsigned_left {
                        true => two_dot_rows::<true>(file, pairs, blocks),
                        false => two_dot_rows::<false>(file, pairs, blocks),
                    }
                }
            }

            #[target_feature(enable = "avx512f,avx512vl,avx512vnni")]
            unsafe fn two_dot_rows<const UNSIGNED_LEFT: bool>(
                file: &mut [u8],
                pairs: &Pairs,
                blocks: &Blocks,
            ) {
                let file = file.as_mut_ptr();
                let none = [0_u8; 64];
                let bases = [file.cast_const(), blocks.lefts(), blocks.rights(), none.as_ptr()];
                let mut products = pairs.products.iter();
                for pair in &pairs.sums {
                    let [mut first, mut second] = pair.from.map(|from| {
                        let mut sums = [$zero(); ROWS];
                        for (row, sum) in sums.iter_mut().enumerate() {
                            if from != NONE {
                                // SAFETY: As this function says.
                                unsafe {
                                    let at = file.add(from as usize + 4 * LANES * row);
                                    *sum = $load(at.cast());
                                }
                            }
                        }
                        sums
                    });
                    let mut correction = [$zero(); 2];
                    for product in products.by_ref().take(pair.count) {
                        // SAFETY: As this function says.
                        unsafe {
                            let at = |(base, at): (u8, u32)| {
                                bases[usize::from(base & 3)].add(at as usize)
                            };
                            let left = at(product.left);
                            let rights = product.rights.map(at);
                            for (own, sums) in correction.iter_mut().zip(product.sums) {
                                *own = $add(*own, $load(at(sums).cast()));
                            }
                            for group in 0..WIDTH / 4 {
                                let [b, c] = rights.map(|right| {
                                    $load(right.add(4 * LANES * group).cast())
                                });
                                for row in 0..ROWS {
                                    let a = left.add(row * WIDTH + 4 * group);
                                    let a = $set1(a.cast::<i32>().read_unaligned());
                                    (first[row], second[row]) = match UNSIGNED_LEFT {
                                        true => ($dot(first[row], a, b), $dot(second[row], a, c)),
                                        false => ($dot(first[row], b, a), $dot(second[row], c, a)),
                                    };
                                }
                            }
                        }
                    }
                    for ((to, sums), correction) in
                        pair.to.into_iter().zip([first, second]).zip(correction)
                    {
                        let sums = corrected::<ROWS, UNSIGNED_LEFT>(sums, correction);
                        for (row, sum) in sums.into_iter().enumerate() {
                            // SAFETY: As this function says.
                            unsafe {
                                let at = file.add(to as usize + 4 * LANES * row);
                                $store(at.cast(), sum);
                            }
                        }
                    }
                }
            }

            /// What the offset of A adds to sums, or takes from them.
            #[inline]
            #[target_feature(enable = "avx512f,avx512vl")]
            fn correction(products: &[Product], blocks: &Blocks) -> $int {
                let mut correction = $zero();
                for product in products {
                    if let Some(place) = product.sums {
                        let sums = blocks.elements::<i32>(place)[..LANES].as_ptr();
                        // SAFETY: They are a vector.
                        correction = $add(correction, unsafe { $load(sums) });
                    }
                }
                correction
            }

            /// The offset of A is 128 where A is the unsigned side, else -128.
            #[inline]
            #[target_feature(enable = "avx512f,avx512vl")]
            fn corrected<const R: usize, const UNSIGNED_LEFT: bool>(
                mut sums: [$int; R],
                correction: $int,
            ) -> [$int; R] {
                for sum in &mut sums {
                    *sum = match UNSIGNED_LEFT {
                        true => $sub(*sum, correction),
                        false => $add(*sum, correction),
                    };
                }
                sums
            }

            /// For every lane 128 times the sum of the bytes of rows of B.
            pub(in super::super) fn column_sums(bytes: &[u8], signed: bool) -> [u32; 16] {
                // SAFETY: Plans have dot products only where the processor has them.
                unsafe { column_sums_of(bytes, signed) }
            }

            #[target_feature(enable = "avx512f,avx512vl,avx512vnni")]
            fn column_sums_of(bytes: &[u8], signed: bool) -> [u32; 16] {
                let (mut sums, mut all) = ($zero(), [0; 16]);
                // 128 is no signed byte, but twice 64 is.
                let (whole, half) = (0x8080_8080_u32.cast_signed(), 0x4040_4040);
                for row in bytes.as_chunks::<{ 4 * LANES }>().0 {
                    // SAFETY: A row is a vector.
                    let row = unsafe { $load(row.as_ptr().cast()) };
                    sums = match signed {
                        true => $dot(sums, $set1(whole), row),
                        false => $dot($dot(sums, row, $set1(half)), row, $set1(half)),
                    };
                }
                // SAFETY: There is room for a vector.
                unsafe { $store(all.as_mut_ptr().cast(), sums) };
                all
            }

            /// Adds products of f32 to sums of `rows` rows: with fused additions, also where they
            /// give the same as separate ones.
            pub(in super::super) fn singles(
                file: &mut [u8],
                (ends, rows): (Ends, usize),
                products: &[Product],
                fused: bool,
                blocks: &Blocks,
            ) {
                let width = [16, 8].into_iter().find(|&width| have_width(products, width));
                // SAFETY: The level says that the processor has the instructions.
                unsafe {
                    match (width, fused) {
                        (Some(16), true) if rows == ROWS => {
                            single_rows::<ROWS, 16, true>(file, ends, products, blocks);
                        }
                        (Some(8), true) if rows == ROWS => {
                            single_rows::<ROWS, 8, true>(file, ends, products, blocks);
                        }
                        (_, true) => with_rows!(rows, R => {
                            single_rows::<R, 0, true>(file, ends, products, blocks)
                        }),
                        (_, false) => with_rows!(rows, R => {
                            single_rows::<R, 0, false>(file, ends, products, blocks)
                        }),
                    }
                }
            }

            /// Adds products of f32 to the sums of two chains of eight rows that have the same B, with
            /// fused additions.
            pub(in super::super) fn twins(
                file: &mut [u8],
                ends: [Ends; 2],
                products: [&[Product]; 2],
                blocks: &Blocks,
            ) {
                // SAFETY: The level says that the processor has the instructions.
                unsafe {
                    match [16, 8].into_iter().find(|&width| have_width(products[0], width)) {
                        Some(16) => twin_rows::<16>(file, ends, products, blocks),
                        Some(8) => twin_rows::<8>(file, ends, products, blocks),
                        _ => twin_rows::<0>(file, ends, products, blocks),
                    }
                }
            }

            #[target_feature(enable = "avx512f,avx512vl")]
            fn twin_rows<const WIDTH: usize>(
                file: &mut [u8],
                ends: [Ends; 2],
                products: [&[Product]; 2],
                blocks: &Blocks,
            ) {
                let [mut first, mut second] = ends.map(|ends| load_floats::<ROWS>(file, ends));
                for (product, twin) in products[0].iter().zip(products[1]) {
                    let size = (ROWS, LANES, 4);
                    let (left, right) = operands(product, size, &[], blocks);
                    let (other, _) = operands(twin, size, &[], blocks);
                    let [left, other, right] =
                        [left, other, right].map(|bytes| bytes.as_ptr().cast::<f32>());
                    let (stride, count) = width_of::<WIDTH>(product);
                    for k in 0..count {
                        // SAFETY: B has `count * LANES` numbers, A `count` from `row * stride` on.
                        unsafe {
                            let b = $loadf(right.add(LANES * k));
                            for (row, own) in first.iter_mut().enumerate() {
                                *own = $fma($set1f(left.add(row * stride + k).read()), b, *own);
                            }
                            for (row, own) in second.iter_mut().enumerate() {
                                *own = $fma($set1f(other.add(row * stride + k).read()), b, *own);
                            }
                        }
                    }
                }
                store_floats::<ROWS>(file, ends[0], first);
                store_floats::<ROWS>(file, ends[1], second);
            }

            #[target_feature(enable = "avx512f,avx512vl")]
            fn single_rows<const R: usize, const WIDTH: usize, const FUSED: bool>(
                file: &mut [u8],
                ends: Ends,
                products: &[Product],
                blocks: &Blocks,
            ) {
                let mut own = load_floats::<R>(file, ends);
                for product in products {
                    let (left, right) = operands(product, (R, LANES, 4), &[], blocks);
                    let (left, right) = (left.as_ptr().cast::<f32>(), right.as_ptr().cast::<f32>());
                    let (stride, count) = width_of::<WIDTH>(product);
                    for k in 0..count {
                        // SAFETY: B has `count * LANES` numbers.
                        let b = unsafe { $loadf(right.add(LANES * k)) };
                        for (row, own) in own.iter_mut().enumerate() {
                            // SAFETY: A has `count` numbers from `row * stride` on.
                            let a = $set1f(unsafe { left.add(row * stride + k).read() });
                            *own = match FUSED {
                                true => $fma(a, b, *own),
                                false => $addf(*own, $mul(a, b)),
                            };
                        }
                    }
                }
                store_floats::<R>(file, ends, own);
            }
        }
    };
}

kernels! {
    wide, 16, __mmask16, __m512i, __m512, "Rows of 16 lanes.",
    _mm512_setzero_si512 _mm512_loadu_epi32 _mm512_storeu_epi32 _mm512_mask_storeu_epi32
    _mm512_set1_epi32 _mm512_dpbusd_epi32 _mm512_add_epi32
    _mm512_sub_epi32
    _mm512_loadu_ps _mm512_castsi512_ps _mm512_castps_si512 _mm512_set1_ps _mm512_fmadd_ps
    _mm512_mul_ps _mm512_add_ps
    _mm512_cmp_ps_mask _mm512_mask_blend_ps
}

kernels! {
    narrow, 8, __mmask8, __m256i, __m256, "Rows of 8 lanes.",
    _mm256_setzero_si256 _mm256_loadu_epi32 _mm256_storeu_epi32 _mm256_mask_storeu_epi32
    _mm256_set1_epi32 _mm256_dpbusd_epi32 _mm256_add_epi32
    _mm256_sub_epi32
    _mm256_loadu_ps _mm256_castsi256_ps _mm256_castps_si256 _mm256_set1_ps _mm256_fmadd_ps
    _mm256_mul_ps _mm256_add_ps
    _mm256_cmp_ps_mask _mm256_mask_blend_ps
}
