//! Products of matrices with a packed right-hand side: [`Packed`].
//!
//! Sums of integers are modulo 2^32, so that the order of additions does not matter and every instruction set
//! gives the same numbers. Whoever needs saturation or wider sums checks that nothing wraps, or
//! adds in its own order.
//!
//! The right-hand side, usually weights, is packed once and used for many products. It is divided
//! into panels of 16 or 32 columns. A panel is a list of groups; a group holds, for each column, a
//! 32-bit lane with two 16-bit or four 8-bit numbers that follow one another in the column. The
//! left-hand side supplies 32 bits of a row at a time, which meet all lanes of a group in one
//! instruction.
//!
//! f32 numbers go through the same loops, one to a lane. Every element of such a product is summed
//! in blocks of [`GROUPS`] products, each from its first product on, whatever the rows beside it:
//! results depend on the level (with or without fused additions), not on how rows are divided.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod kernel;
mod pack;
#[cfg(test)]
mod tests;

use crate::level::Level;
use crate::matrix::{Matrix, span};
use kernel::{GROUPS, Kernel, LANES, Line, Rows, Tile};
use sealed::Operand;
use std::fmt;

/// Rows of the left-hand side that are worked on together: with [`GROUPS`], what stays in the
/// second-level cache.
const ROWS: usize = 256;

pub(crate) mod sealed {
    use super::kernel::Lanes;

    /// Which products a kernel computes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Kind {
        U8S8,
        S8S8,
        S16S16,
        F32,
    }

    /// What the kernels need to know about numbers of a left-hand side.
    pub trait Operand: bytemuck::Pod {
        const KIND: Kind;
        /// Numbers of the right-hand side.
        type Right: bytemuck::Pod + Send + Sync;
        /// Sums of products: 32 bits.
        type Sum: bytemuck::Pod + Default + Send + Sync;
        /// The type in which single products are computed.
        type Wide: Copy + Send + Sync + std::fmt::Debug;
        fn wide(self) -> Self::Wide;
        fn wide_right(right: Self::Right) -> Self::Wide;
        /// `sum + left * right`.
        fn add_product(sum: Self::Sum, left: Self::Wide, right: Self::Wide) -> Self::Sum;
        /// A lane of numbers that follow one another in a column; absent ones are zero.
        #[expect(private_interfaces, reason = "the trait is sealed")]
        fn lane(lanes: Lanes, number: impl Fn(usize) -> Option<Self::Right>) -> [i16; 2];
        /// The sum of a column, modulo 2^32; only of integers.
        fn column_sum(numbers: impl Iterator<Item = Self::Right>) -> Option<i32>;
        /// The number as 16 bits; only of integers.
        fn widened(self) -> i16;
    }

    macro_rules! integer {
        ($left:ty, $right:ty, $kind:expr) => {
            impl Operand for $left {
                const KIND: Kind = $kind;
                type Right = $right;
                type Sum = i32;
                type Wide = i16;

                fn wide(self) -> i16 {
                    self.into()
                }

                fn wide_right(right: $right) -> i16 {
                    right.into()
                }

                #[inline(always)]
                fn add_product(sum: i32, left: i16, right: i16) -> i32 {
                    sum.wrapping_add(i32::from(left) * i32::from(right))
                }

                #[expect(private_interfaces, reason = "the trait is sealed")]
                #[inline(always)]
                fn lane(lanes: Lanes, number: impl Fn(usize) -> Option<$right>) -> [i16; 2] {
                    lanes.lane(|index| number(index).map_or(0, Into::into))
                }

                #[inline(always)]
                fn column_sum(numbers: impl Iterator<Item = $right>) -> Option<i32> {
                    Some(numbers.fold(0, |sum: i32, n| sum.wrapping_add(i32::from(n))))
                }

                fn widened(self) -> i16 {
                    self.into()
                }
            }
        };
    }

    integer!(u8, i8, Kind::U8S8);
    integer!(i8, i8, Kind::S8S8);
    integer!(i16, i16, Kind::S16S16);

    impl Operand for f32 {
        const KIND: Kind = Kind::F32;
        type Right = f32;
        type Sum = f32;
        type Wide = f32;

        fn wide(self) -> f32 {
            self
        }

        fn wide_right(right: f32) -> f32 {
            right
        }

        #[inline(always)]
        fn add_product(sum: f32, left: f32, right: f32) -> f32 {
            sum + left * right
        }

        #[expect(private_interfaces, reason = "the trait is sealed")]
        #[inline(always)]
        fn lane(_: Lanes, number: impl Fn(usize) -> Option<f32>) -> [i16; 2] {
            bytemuck::cast(number(0).unwrap_or(0.0))
        }

        fn column_sum(_: impl Iterator<Item = f32>) -> Option<i32> {
            None
        }

        fn widened(self) -> i16 {
            unreachable!("lanes of f32 are as wide as the numbers")
        }
    }
}

/// Numbers of a left-hand side: u8 and i8 meet i8, i16 meets i16, f32 meets f32. Sums of integers
/// are i32, those of f32 f32.
pub trait Left: Operand + Send + Sync {}

impl Left for u8 {}
impl Left for i8 {}
impl Left for i16 {}
impl Left for f32 {}

/// The right-hand side of products with left-hand sides of numbers `L`.
///
/// Invariants: `lines` holds `columns.div_ceil(kernel.columns())` panels of `groups` groups;
/// columns beyond the last are never part of a result; the processor has the kernel's
/// instructions.
pub struct Packed<L> {
    kernel: &'static Kernel,
    rows: usize,
    columns: usize,
    groups: usize,
    lines: Vec<Line>,
    column_sums: Vec<i32>,
    left: std::marker::PhantomData<L>,
}

impl<L: Left> Packed<L> {
    /// Packs a right-hand side for the fastest instructions of this processor.
    pub fn new(right: Matrix<'_, L::Right>) -> Self {
        Self::for_level(right, Level::best())
    }

    /// Packs a right-hand side for certain instructions.
    ///
    /// # Panics
    /// When the processor does not have them ([`Level::is_available`]).
    pub fn for_level(right: Matrix<'_, L::Right>, level: Level) -> Self {
        assert!(level.is_available(), "this processor lacks {level}");
        let kernel = kernel::of(level, L::KIND);
        Packed {
            kernel,
            rows: right.rows(),
            columns: right.columns(),
            groups: right.rows().div_ceil(kernel.lanes.numbers()),
            lines: pack::lines::<L>(right, kernel),
            column_sums: level.run(pack::ColumnSums::<L>(right)),
            left: std::marker::PhantomData,
        }
    }

    /// Rows of the right-hand side.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns of the right-hand side.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The sum of each column, modulo 2^32: what a product changes by when every number of the
    /// left-hand side grows by 1, so zero points need no other left-hand side. Empty for f32.
    pub fn column_sums(&self) -> &[i32] {
        &self.column_sums
    }

    /// The instructions in use.
    pub fn level(&self) -> Level {
        self.kernel.level
    }

    /// `out += left * self`; of integers modulo 2^32. Row `r` of the result starts at `out[r * out_stride]`.
    ///
    /// # Panics
    /// When `left` does not have as many columns as this has rows, its columns do not follow one
    /// another (`column_stride` 1), rows of the result overlap, or `out` is too short.
    pub fn multiply_add(&self, left: Matrix<'_, L>, out: &mut [L::Sum], out_stride: usize) {
        assert_eq!(left.columns(), self.rows, "the inner sizes are equal");
        if left.rows() == 0 || left.columns() == 0 || self.columns == 0 {
            return;
        }
        assert!(left.column_stride() == 1, "rows of the left-hand side are contiguous");
        assert!(out_stride >= self.columns || left.rows() == 1, "rows of the result are disjoint");
        let needed = span(left.rows(), out_stride, self.columns);
        assert!(needed.is_some_and(|n| n <= out.len()), "the result has room");

        // Sums of f32 travel as their bits: only tiles look into them.
        let out: &mut [i32] = bytemuck::cast_slice_mut(out);
        let numbers = self.kernel.lanes.numbers();
        let mut widened = Vec::new();
        let mut starts = [0; ROWS];
        for top in (0..left.rows()).step_by(ROWS) {
            let count = ROWS.min(left.rows() - top);
            let out = &mut out[top * out_stride..];
            for group in (0..self.groups).step_by(GROUPS) {
                let first = group * numbers;
                let depth = (GROUPS * numbers).min(self.rows - first);
                let rows = pack::left_rows(
                    &left.data()[top * left.row_stride() + first..],
                    (count, depth, left.row_stride()),
                    self.kernel,
                    &mut widened,
                );
                (self.kernel.starts)(&rows, &mut starts[..count]);
                self.block(rows, group, &starts, out, out_stride);
            }
        }
    }

    /// Adds the products of some rows with the groups from `group` on to all columns.
    fn block(
        &self,
        rows: Rows<'_>,
        group: usize,
        starts: &[i32],
        out: &mut [i32],
        out_stride: usize,
    ) {
        let Kernel { lines, rows: most, tile, .. } = *self.kernel;
        let width = lines * LANES;
        let length = rows.depth.div_ceil(4) * lines;
        let tiles = rows.count.div_ceil(most);
        for (panel, first) in (0..self.columns).step_by(width).enumerate() {
            let begin = (panel * self.groups + group) * lines;
            // The same groups of the next panel, of which every tile fetches a part.
            let next = self.lines.get(begin + self.groups * lines..).unwrap_or_default();
            let next = &next[..length.min(next.len())];
            let mut parts = next.chunks(length.div_ceil(tiles));
            for top in (0..rows.count).step_by(most) {
                let count = most.min(rows.count - top);
                tile(&mut Tile {
                    left: Rows { bytes: &rows.bytes[top * rows.stride..], count, ..rows },
                    right: &self.lines[begin..begin + length],
                    soon: parts.next().unwrap_or_default(),
                    starts: &starts[top..top + count],
                    out: &mut out[top * out_stride + first..],
                    out_stride,
                    columns: width.min(self.columns - first),
                });
            }
        }
    }
}

impl<L> fmt::Debug for Packed<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Packed { kernel, rows, columns, .. } = self;
        write!(f, "Packed({rows} x {columns}, {})", kernel.level)
    }
}
