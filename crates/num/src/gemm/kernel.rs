//! What a kernel is, the table of kernels, and the one for every processor.

use super::sealed::Kind;
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};
use crate::level::Level;
use crate::matrix::span;

/// Lanes of a line.
pub(super) const LANES: usize = 16;

/// Groups that a tile goes through before the next tile's turn. A panel of 32 columns and 8 rows
/// then take 40 KiB, which the first-level cache of processors with 512-bit vectors holds.
pub(super) const GROUPS: usize = 256;

/// 16 lanes of 32 bits, one per column; aligned, so that a load never touches two cache lines.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [[i16; 2]; LANES]);

impl Line {
    pub(super) const ZERO: Line = Line([[0; 2]; LANES]);
}

/// What a lane of the right-hand side holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lanes {
    /// Two numbers of 16 bits. Both sides are widened to that.
    Words,
    /// Four signed numbers of 8 bits.
    Bytes,
    /// Four signed numbers of 8 bits, 128 added to each.
    OffsetBytes,
    /// One f32 number.
    Floats,
}

/// Rows of a left-hand side, as bytes.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    /// From the first byte of the first row on.
    pub(super) bytes: &'a [u8],
    /// Rows.
    pub(super) count: usize,
    /// Bytes from one row to the next.
    pub(super) stride: usize,
    /// Bytes of a row.
    pub(super) depth: usize,
}

impl Rows<'_> {
    /// Panics unless every byte of every row is there.
    pub(super) fn check(&self) {
        let needed = span(self.count, self.stride, self.depth);
        assert!(needed.is_some_and(|n| n <= self.bytes.len()), "rows lie inside their slice");
    }

    /// The bytes of the last group of a row, which may be less than four; zero beyond the row.
    pub(super) fn tail(&self, row: usize) -> [u8; 4] {
        let end = row * self.stride + self.depth;
        let rest = &self.bytes[end - self.depth % 4..end];
        let mut tail = [0; 4];
        tail[..rest.len()].copy_from_slice(rest);
        tail
    }
}

/// One call of a kernel: some rows times a part of one panel, added to a corner of the result.
pub(super) struct Tile<'a> {
    /// 1 to [`Kernel::rows`] rows.
    pub(super) left: Rows<'a>,
    /// [`Kernel::lines`] lines for every group of `left`.
    pub(super) right: &'a [Line],
    /// Lines that will be needed soon: fetching them early is all that may be done with them.
    pub(super) soon: &'a [Line],
    /// What is also added to every column, by row.
    pub(super) starts: &'a [i32],
    /// The result, from the tile's first element on; the bits of f32 sums for [`Lanes::Floats`].
    pub(super) out: &'a mut [i32],
    /// Distance between rows of the result.
    pub(super) out_stride: usize,
    /// Columns of the result that exist, at most 16 per line.
    pub(super) columns: usize,
}

impl Tile<'_> {
    /// Panics unless everything that a kernel of so many lines per group reads and writes is
    /// there. Kernels rely on this and on nothing else.
    pub(super) fn check(&self, lines: usize) {
        self.left.check();
        assert!(self.right.len() >= self.left.depth.div_ceil(4) * lines, "groups are there");
        assert!(self.starts.len() >= self.left.count, "every row has a start");
        assert!(self.columns <= lines * LANES, "columns lie inside the panel");
        let needed = span(self.left.count, self.out_stride, self.columns);
        assert!(needed.is_some_and(|n| n <= self.out.len()), "the result has room");
    }
}

/// A way to compute tiles.
pub(super) struct Kernel {
    /// The instructions it uses.
    pub(super) level: Level,
    /// Most rows of a tile.
    pub(super) rows: usize,
    /// Lines per group.
    pub(super) lines: usize,
    /// Form of the right-hand side.
    pub(super) lanes: Lanes,
    /// Computes a tile.
    pub(super) tile: fn(&mut Tile<'_>),
    /// What every row's results start from, to make up for the form of the right-hand side.
    pub(super) starts: fn(&Rows<'_>, &mut [i32]),
}

/// The kernel of a level for a kind of product. The processor must have the level's instructions.
pub(super) fn of(level: Level, kind: Kind) -> &'static Kernel {
    match (level, kind) {
        (Level::Scalar, Kind::F32) => &SCALAR_F32,
        (Level::Scalar, _) => &SCALAR,
        #[cfg(target_arch = "x86_64")]
        (Level::Avx2, Kind::F32) => &avx2::F32,
        #[cfg(target_arch = "x86_64")]
        (Level::Avx2, _) => &avx2::KERNEL,
        #[cfg(target_arch = "x86_64")]
        (Level::Avx512, Kind::U8S8) => &avx512::U8S8,
        #[cfg(target_arch = "x86_64")]
        (Level::Avx512, Kind::S8S8) => &avx512::S8S8,
        #[cfg(target_arch = "x86_64")]
        (Level::Avx512, Kind::S16S16) => &avx512::S16S16,
        #[cfg(target_arch = "x86_64")]
        (Level::Avx512, Kind::F32) => &avx512::F32,
        #[cfg(not(target_arch = "x86_64"))]
        (Level::Avx2 | Level::Avx512, _) => unreachable!("is never available here"),
    }
}

static SCALAR: Kernel = Kernel {
    level: Level::Scalar,
    rows: 8,
    lines: 1,
    lanes: Lanes::Words,
    tile: scalar,
    starts: from_zero,
};

static SCALAR_F32: Kernel = Kernel { lanes: Lanes::Floats, tile: scalar_f32, ..SCALAR };

/// Nothing to make up for.
pub(super) fn from_zero(_: &Rows<'_>, starts: &mut [i32]) {
    starts.fill(0);
}

fn scalar(tile: &mut Tile<'_>) {
    tile.check(1);
    for row in 0..tile.left.count {
        let mut sums = [tile.starts[row]; LANES];
        let left = &tile.left.bytes[row * tile.left.stride..][..tile.left.depth];
        let (groups, tail) = left.as_chunks::<4>();
        for (group, line) in groups.iter().zip(tile.right) {
            add_group(&mut sums, *group, line);
        }
        if !tail.is_empty() {
            add_group(&mut sums, tile.left.tail(row), &tile.right[groups.len()]);
        }
        let out = &mut tile.out[row * tile.out_stride..][..tile.columns];
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = out.wrapping_add(sum);
        }
    }
}

fn scalar_f32(tile: &mut Tile<'_>) {
    tile.check(1);
    for row in 0..tile.left.count {
        let mut sums = [0.0; LANES];
        let left = &tile.left.bytes[row * tile.left.stride..][..tile.left.depth];
        for (number, line) in left.as_chunks::<4>().0.iter().zip(tile.right) {
            let number = f32::from_ne_bytes(*number);
            let lanes: [f32; LANES] = bytemuck::cast(line.0);
            for (sum, lane) in sums.iter_mut().zip(lanes) {
                *sum += number * lane;
            }
        }
        let out = &mut tile.out[row * tile.out_stride..][..tile.columns];
        for (out, sum) in bytemuck::cast_slice_mut::<i32, f32>(out).iter_mut().zip(sums) {
            *out += sum;
        }
    }
}

/// Adds the products of two numbers with those of every lane.
fn add_group(sums: &mut [i32; LANES], group: [u8; 4], line: &Line) {
    let [a, b, c, d] = group;
    let (first, second) = (i16::from_ne_bytes([a, b]).into(), i16::from_ne_bytes([c, d]).into());
    for (sum, lane) in sums.iter_mut().zip(line.0) {
        let product = |number: i32, factor: i16| number * i32::from(factor);
        *sum = sum.wrapping_add(product(first, lane[0])).wrapping_add(product(second, lane[1]));
    }
}
