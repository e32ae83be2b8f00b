//! How a number format is stored and computed with here.

use super::lanes;
use super::narrow::{self, Packed};
use super::products::Products;
use crate::arch::DataType;
use crate::simulate::{self, Arithmetic, Float, Flow};

/// A number format. Results come exact or with one rounding and are brought into range in a second
/// step, so that a vector is looked through for saturation at once.
pub(super) trait Format: Copy + Send + Sync + 'static {
    /// A scalar in memory.
    type Cell: Copy + Default + Into<i32> + Send + Sync;
    /// A result before it is brought into range.
    type Exact: Copy;
    /// How numbers compare.
    type Order: Arithmetic;

    fn cell(scalar: i32) -> Self::Cell;
    /// A scalar, which is in range.
    fn exact(scalar: i32) -> Self::Exact;
    fn sum(a: i32, b: i32) -> Self::Exact;
    fn difference(a: i32, b: i32) -> Self::Exact;
    /// The number 1.
    fn one(self) -> i32;
    fn magnitude(self, a: i32) -> i32;
    fn product(self, a: i32, b: i32) -> Self::Exact;
    /// `x * y + z`, as the array computes it.
    fn product_sum(self, x: i32, y: i32, z: i32) -> Self::Exact;
    fn is_over(self, value: Self::Exact) -> bool;
    fn is_under(self, value: Self::Exact) -> bool;
    fn into_range(self, value: Self::Exact) -> i32;

    /// `sums = sums + values`, `K` lanes at a time; `K` divides their number.
    #[inline(always)]
    fn add_to<const K: usize>(
        self,
        sums: &mut [Self::Cell],
        values: &[Self::Cell],
        flow: &mut Flow,
    ) {
        lanes::add::<Self, K>(self, sums, values, flow);
    }

    /// Takes new weights: the bias, then a row for every lane; `K` divides the lanes.
    #[inline(always)]
    fn pack<const K: usize>(self, _packed: &mut Packed, _weights: &[Self::Cell]) {}

    /// Bias plus the weights times vectors; `K` divides the lanes.
    #[inline(always)]
    fn products<const K: usize>(self, work: &mut Products<'_, Self>) {
        one_by_one::<Self, K>(self, work.lanes, work.x, work.weights, work.y, work.flow);
    }
}

/// Fixed point, with results of type `E`. Width and binary point are known at run time only: shifts
/// by them are as fast, and the simulator is compiled once for all formats with cells of one size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fixed<E> {
    /// Bits below the binary point.
    pub(super) point: u32,
    /// The ends of the range.
    pub(super) low: E,
    pub(super) high: E,
}

/// At most 16 bits.
pub(super) type Narrow = Fixed<i32>;

/// At most 32 bits.
pub(super) type Wide = Fixed<i64>;

impl<E: From<i32>> Fixed<E> {
    /// A fixed-point format.
    ///
    /// # Panics
    /// For floats.
    pub(super) fn new(data_type: DataType) -> Fixed<E> {
        let point = data_type.binary_point().expect("a fixed-point format");
        Fixed { point, low: (-data_type.max() - 1).into(), high: data_type.max().into() }
    }
}

macro_rules! fixed {
    ($cell:ty, $exact:ty, $shift:expr, {$($rest:tt)*}) => {
        impl Format for Fixed<$exact> {
            type Cell = $cell;
            type Exact = $exact;
            // All formats compare integers.
            type Order = simulate::Fixed<32, 16>;

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
            fn one(self) -> i32 {
                1 << self.point
            }

            #[inline(always)]
            fn magnitude(self, a: i32) -> i32 {
                if a as $exact == self.low { a } else { a.abs() }
            }

            #[inline(always)]
            fn product(self, a: i32, b: i32) -> $exact {
                self.product_sum(a, b, 0)
            }

            #[inline(always)]
            fn product_sum(self, x: i32, y: i32, z: i32) -> $exact {
                let point = self.point;
                let exact = x as $exact * y as $exact + ((z as $exact) << point);
                $shift(exact + ((1 << (point - 1)) - 1) + (exact >> point & 1), point)
            }

            #[inline(always)]
            fn is_over(self, value: $exact) -> bool {
                value > self.high
            }

            #[inline(always)]
            fn is_under(self, value: $exact) -> bool {
                value < self.low
            }

            #[inline(always)]
            fn into_range(self, value: $exact) -> i32 {
                // Not `clamp`, which looks whether the ends are in order and may panic.
                value.min(self.high).max(self.low) as i32
            }

            $($rest)*
        }
    };
}

fixed!(i16, i32, std::ops::Shr::shr, {
    #[inline(always)]
    fn add_to<const K: usize>(self, sums: &mut [i16], values: &[i16], flow: &mut Flow) {
        // Few lanes are only made into vectors when they become wider first.
        match K {
            ..32 => lanes::add::<Self, K>(self, sums, values, flow),
            _ => narrow::add_to::<K>(self, sums, values, flow),
        }
    }

    #[inline(always)]
    fn pack<const K: usize>(self, packed: &mut Packed, weights: &[i16]) {
        packed.pack::<K>(self, weights);
    }

    #[inline(always)]
    fn products<const K: usize>(self, work: &mut Products<'_, Self>) {
        narrow::products::<K>(self, work);
    }
});
fixed!(i32, i64, shift_right, {});

/// `value >> point`. AVX2 has no such shift for 64 bits, but one without sign.
#[inline(always)]
fn shift_right(value: i64, point: u32) -> i64 {
    const OFFSET: u64 = 1 << 63;
    ((value.cast_unsigned() ^ OFFSET) >> point).wrapping_sub(OFFSET >> point).cast_signed()
}

impl Format for Float {
    type Cell = i32;
    type Exact = i32;
    type Order = Float;

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
    fn one(self) -> i32 {
        Float::ONE
    }

    #[inline(always)]
    fn magnitude(self, a: i32) -> i32 {
        <Float as Arithmetic>::magnitude(a)
    }

    #[inline(always)]
    fn product(self, a: i32, b: i32) -> i32 {
        Float::multiply(a, b, &mut Flow::default())
    }

    #[inline(always)]
    fn product_sum(self, x: i32, y: i32, z: i32) -> i32 {
        Self::sum(self.product(x, y), z)
    }

    #[inline(always)]
    fn is_over(self, _value: i32) -> bool {
        false
    }

    #[inline(always)]
    fn is_under(self, _value: i32) -> bool {
        false
    }

    #[inline(always)]
    fn into_range(self, value: i32) -> i32 {
        value
    }
}

/// Vector by vector, as the executor does it: the bias, which comes first in `weights`, plus the
/// rows behind it times `x`; `K` divides the lanes.
#[inline(always)]
pub(super) fn one_by_one<F: Format, const K: usize>(
    format: F,
    count: usize,
    x: &[F::Cell],
    weights: &[F::Cell],
    y: &mut [F::Cell],
    flow: &mut Flow,
) {
    let (bias, weights) = weights.split_at(count);
    for (x, y) in x.chunks_exact(count).zip(y.chunks_exact_mut(count)) {
        y.copy_from_slice(bias);
        for (&x, row) in x.iter().zip(weights.chunks_exact(count)) {
            let x = x.into();
            if x == 0 && F::Order::SKIPS_ZERO {
                continue;
            }
            let fused = |sum, weight| format.product_sum(x, weight, sum);
            for (row, y) in row.chunks_exact(K).zip(y.chunks_exact_mut(K)) {
                y.copy_from_slice(&lanes::combine::<F, K>(format, y, row, flow, fused));
            }
        }
    }
}
