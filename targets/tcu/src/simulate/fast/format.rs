//! How a number format is stored and computed with here.

use super::lanes;
use super::narrow::{self, Packed};
use super::products::Products;
use crate::simulate::{Arithmetic, Fixed, Float, Flow};

/// A number format. Results come exact or with one rounding and are brought into range in a second
/// step, so that a vector is looked through for saturation at once.
pub(super) trait Format: Arithmetic + Send + Sync + 'static {
    /// A scalar in memory.
    type Cell: Copy + Default + Into<i32> + Send + Sync;
    /// A result before it is brought into range.
    type Exact: Copy;

    fn cell(scalar: i32) -> Self::Cell;
    /// A scalar, which is in range.
    fn exact(scalar: i32) -> Self::Exact;
    fn sum(a: i32, b: i32) -> Self::Exact;
    fn difference(a: i32, b: i32) -> Self::Exact;
    fn product(a: i32, b: i32) -> Self::Exact;
    fn is_over(value: Self::Exact) -> bool;
    fn is_under(value: Self::Exact) -> bool;
    fn into_range(value: Self::Exact) -> i32;

    /// `sums = sums + values`, `K` lanes at a time; `K` divides their number.
    fn add_to<const K: usize>(sums: &mut [Self::Cell], values: &[Self::Cell], flow: &mut Flow);
    /// Takes new weights: the bias, then a row for every lane; `K` divides the lanes.
    fn pack<const K: usize>(packed: &mut Packed, weights: &[Self::Cell]);
    /// Bias plus the weights times vectors.
    fn products(work: &mut Products<'_, Self>);
}

macro_rules! fixed {
    ($width:literal, $point:literal, $cell:ty, $exact:ty, $kind:ident) => {
        impl Format for Fixed<$width, $point> {
            type Cell = $cell;
            type Exact = $exact;

            #[inline(always)]
            fn cell(scalar: i32) -> $cell {
                scalar as $cell
            }

            #[inline(always)]
            fn exact(scalar: i32) -> $exact {
                scalar as $exact
            }

            #[inline(always)]
            fn sum(a: i32, b: i32) -> $exact {
                a as $exact + b as $exact
            }

            #[inline(always)]
            fn difference(a: i32, b: i32) -> $exact {
                a as $exact - b as $exact
            }

            #[inline(always)]
            fn product(a: i32, b: i32) -> $exact {
                let exact = a as $exact * b as $exact;
                (exact + ((1 << ($point - 1)) - 1) + (exact >> $point & 1)) >> $point
            }

            #[inline(always)]
            fn is_over(value: $exact) -> bool {
                value > (i32::MAX >> (32 - $width)) as $exact
            }

            #[inline(always)]
            fn is_under(value: $exact) -> bool {
                value < (i32::MIN >> (32 - $width)) as $exact
            }

            #[inline(always)]
            fn into_range(value: $exact) -> i32 {
                let (low, high) = (i32::MIN >> (32 - $width), i32::MAX >> (32 - $width));
                value.clamp(low as $exact, high as $exact) as i32
            }

            $kind! { $width, $point }
        }
    };
}

/// The rest of a format with at most 16 bits.
macro_rules! narrow {
    ($width:literal, $point:literal) => {
        #[inline(always)]
        fn add_to<const K: usize>(sums: &mut [i16], values: &[i16], flow: &mut Flow) {
            // Few lanes are only made into vectors when they become wider first.
            match K {
                ..32 => lanes::add::<Self, K>(sums, values, flow),
                _ => narrow::add_to::<$width, K>(sums, values, flow),
            }
        }

        #[inline(always)]
        fn pack<const K: usize>(packed: &mut Packed, weights: &[i16]) {
            packed.pack::<$width, $point, K>(weights);
        }

        #[inline(always)]
        fn products(work: &mut Products<'_, Self>) {
            narrow::products::<$width, $point>(work);
        }
    };
}

/// The rest of a format that is computed vector by vector.
macro_rules! wide {
    ($($_:literal),*) => {
        #[inline(always)]
        fn add_to<const K: usize>(sums: &mut [i32], values: &[i32], flow: &mut Flow) {
            lanes::add::<Self, K>(sums, values, flow);
        }

        #[inline(always)]
        fn pack<const K: usize>(_packed: &mut Packed, _weights: &[i32]) {}

        #[inline(always)]
        fn products(work: &mut Products<'_, Self>) {
            one_by_one(work);
        }
    };
}

macro_rules! formats {
    ($(($name:ident $width:literal $point:literal $kind:ident))*) => {
        $(formats! { $kind $width, $point })*
    };
    (narrow $width:literal, $point:literal) => { fixed!($width, $point, i16, i32, narrow); };
    (wide $width:literal, $point:literal) => { fixed!($width, $point, i32, i64, wide); };
}

crate::arch::fixed_formats! { [formats] }

impl Format for Float {
    type Cell = i32;
    type Exact = i32;

    #[inline(always)]
    fn cell(scalar: i32) -> i32 {
        scalar
    }

    #[inline(always)]
    fn exact(scalar: i32) -> i32 {
        scalar
    }

    #[inline(always)]
    fn sum(a: i32, b: i32) -> i32 {
        Float::add(a, b, &mut Flow::default())
    }

    #[inline(always)]
    fn difference(a: i32, b: i32) -> i32 {
        Float::subtract(a, b, &mut Flow::default())
    }

    #[inline(always)]
    fn product(a: i32, b: i32) -> i32 {
        Float::multiply(a, b, &mut Flow::default())
    }

    #[inline(always)]
    fn is_over(_value: i32) -> bool {
        false
    }

    #[inline(always)]
    fn is_under(_value: i32) -> bool {
        false
    }

    #[inline(always)]
    fn into_range(value: i32) -> i32 {
        value
    }

    wide! {}
}

/// Vector by vector, as the executor does it.
#[inline(always)]
fn one_by_one<F: Format<Cell = i32>>(work: &mut Products<'_, F>) {
    let lanes = work.lanes;
    let (bias, weights) = work.weights.split_at(lanes);
    for (x, y) in work.x.chunks_exact(lanes).zip(work.y.chunks_exact_mut(lanes)) {
        y.copy_from_slice(bias);
        for (&x, row) in x.iter().zip(weights.chunks_exact(lanes)) {
            if x != 0 || !F::SKIPS_ZERO {
                F::accumulate_product(x, row, y, work.flow);
            }
        }
    }
}
