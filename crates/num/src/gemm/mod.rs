//! Exact products of integer matrices: [`Packed`].
//!
//! Sums are modulo 2^32, so that the order of additions does not matter and every instruction set
//! gives the same numbers. Whoever needs saturation or wider sums checks that nothing wraps, or
//! adds in its own order.
//!
//! The right-hand side, usually weights, is packed once and used for many products. It is divided
//! into panels of 16 or 32 columns. A panel is a list of groups; a group holds, for each column, a
//! 32-bit lane with two 16-bit or four 8-bit numbers that follow one another in the column. The
//! left-hand side supplies 32 bits of a row at a time, which meet all lanes of a group in one
//! instruction.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod kernel;
mod pack;
#[cfg(test)]
mod tests;

use crate::matrix::{Matrix, span};
use kernel::{GROUPS, Kernel, LANES, Line, Rows, Tile};
use sealed::Operand;
use std::fmt;

/// Rows of the left-hand side that are worked on together: with [`GROUPS`], what stays in the
/// second-level cache.
const ROWS: usize = 256;

/// The instructions that a product uses. Results do not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// No particular instructions.
    Scalar,
    /// 256-bit vectors; 8-bit numbers are widened to 16 bits, so that nothing saturates.
    Avx2,
    /// 512-bit vectors with dot products.
    Avx512Vnni,
}

impl Level {
    /// Every level, slowest first.
    pub const ALL: [Level; 3] = [Level::Scalar, Level::Avx2, Level::Avx512Vnni];

    /// Name used in options.
    pub fn name(self) -> &'static str {
        match self {
            Level::Scalar => "scalar",
            Level::Avx2 => "avx2",
            Level::Avx512Vnni => "avx512-vnni",
        }
    }

    /// True when this processor has the instructions.
    pub fn is_available(self) -> bool {
        match self {
            Level::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512Vnni => {
                is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni")
            }
            #[cfg(not(target_arch = "x86_64"))]
            Level::Avx2 | Level::Avx512Vnni => false,
        }
    }

    /// The fastest level of this processor.
    pub fn best() -> Self {
        Self::ALL.into_iter().rfind(|level| level.is_available()).unwrap_or(Level::Scalar)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

mod sealed {
    /// Which products a kernel computes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Kind {
        U8S8,
        S8S8,
        S16S16,
    }

    pub trait Operand: bytemuck::Pod + Into<i16> {
        const KIND: Kind;
    }

    impl Operand for u8 {
        const KIND: Kind = Kind::U8S8;
    }

    impl Operand for i8 {
        const KIND: Kind = Kind::S8S8;
    }

    impl Operand for i16 {
        const KIND: Kind = Kind::S16S16;
    }
}

/// Numbers of a left-hand side: u8 and i8 meet i8, i16 meets i16.
pub trait Left: Operand + Send + Sync {
    /// Numbers of the right-hand side.
    type Right: Copy + Into<i16> + Send + Sync;
}

impl Left for u8 {
    type Right = i8;
}

impl Left for i8 {
    type Right = i8;
}

impl Left for i16 {
    type Right = i16;
}

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
            lines: pack::lines(right, kernel),
            column_sums: pack::column_sums(right),
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
    /// left-hand side grows by 1, so zero points need no other left-hand side.
    pub fn column_sums(&self) -> &[i32] {
        &self.column_sums
    }

    /// The instructions in use.
    pub fn level(&self) -> Level {
        self.kernel.level
    }

    /// `out += left * self`, modulo 2^32. Row `r` of the result starts at `out[r * out_stride]`.
    ///
    /// # Panics
    /// When `left` does not have as many columns as this has rows, its columns do not follow one
    /// another (`column_stride` 1), rows of the result overlap, or `out` is too short.
    pub fn multiply_add(&self, left: Matrix<'_, L>, out: &mut [i32], out_stride: usize) {
        assert_eq!(left.columns(), self.rows, "the inner sizes are equal");
        if left.rows() == 0 || left.columns() == 0 || self.columns == 0 {
            return;
        }
        assert!(left.column_stride() == 1, "rows of the left-hand side are contiguous");
        assert!(out_stride >= self.columns || left.rows() == 1, "rows of the result are disjoint");
        let needed = span(left.rows(), out_stride, self.columns);
        assert!(needed.is_some_and(|n| n <= out.len()), "the result has room");

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
