//! Bringing both sides of a product into the form that the kernels read.

use super::kernel::{Kernel, LANES, Lanes, Line, Rows};
use super::sealed::Operand;
use crate::level::Loop;
use crate::matrix::Matrix;
use std::ops::Range;

/// The panels of a right-hand side, one after another.
pub(super) fn lines<L: Operand>(right: Matrix<'_, L::Right>, kernel: &Kernel) -> Vec<Line> {
    let width = kernel.lines * LANES;
    let numbers = kernel.lanes.numbers();
    let groups = right.rows().div_ceil(numbers);
    let mut lines = vec![Line::ZERO; right.columns().div_ceil(width) * groups * kernel.lines];
    if groups == 0 {
        return lines;
    }
    for first in (0..right.columns()).step_by(LANES) {
        let place = first / width * groups * kernel.lines + first % width / LANES;
        let columns = first..right.columns().min(first + LANES);
        let out = lines[place..].iter_mut().step_by(kernel.lines).take(groups);
        if right.row_stride() == 1 {
            match kernel.lanes {
                Lanes::Floats => whole_lanes(right, columns, out, |numbers: [_; 1]| {
                    L::lane(Lanes::Floats, |index| numbers.get(index).copied())
                }),
                Lanes::Words => whole_lanes(right, columns, out, |numbers: [_; 2]| {
                    L::lane(Lanes::Words, |index| numbers.get(index).copied())
                }),
                // Four bytes at once.
                Lanes::Bytes | Lanes::OffsetBytes => {
                    let flip = kernel.lanes.flip();
                    whole_lanes(right, columns, out, |numbers: [L::Right; 4]| {
                        let bytes: [u8; 4] = numbers.map(|number| bytemuck::bytes_of(&number)[0]);
                        bytemuck::cast(u32::from_ne_bytes(bytes) ^ flip)
                    });
                }
            }
            continue;
        }
        for (group, line) in out.enumerate() {
            for (lane, column) in line.0.iter_mut().zip(columns.clone()) {
                let number = |index: usize| {
                    let row = group * numbers + index;
                    (row < right.rows()).then(|| right.get(row, column))
                };
                *lane = L::lane(kernel.lanes, number);
            }
        }
    }
    lines
}

/// The lanes of up to 16 columns whose numbers follow one another, `N` to a lane.
#[inline(always)]
fn whole_lanes<'a, T: bytemuck::Pod, const N: usize>(
    right: Matrix<'_, T>,
    columns: Range<usize>,
    mut lines: impl Iterator<Item = &'a mut Line>,
    lane: impl Fn([T; N]) -> [i16; 2],
) {
    let column = |lane: usize| -> &[T] {
        // Lanes beyond the last column repeat it, which no result shows.
        let column = columns.end.min(columns.start + lane + 1) - 1;
        &right.data()[column * right.column_stride()..][..right.rows()]
    };
    let columns: [&[T]; LANES] = std::array::from_fn(column);
    let count = right.rows() / N;
    let groups = columns.map(|column| &column.as_chunks::<N>().0[..count]);
    for (group, line) in (0..count).zip(&mut lines) {
        for (out, groups) in line.0.iter_mut().zip(&groups) {
            *out = lane(groups[group]);
        }
    }
    // The last group may be incomplete.
    if let Some(line) = lines.next() {
        for (out, column) in line.0.iter_mut().zip(&columns) {
            let rest = column.as_chunks::<N>().1;
            let mut last = [T::zeroed(); N];
            last[..rest.len()].copy_from_slice(rest);
            *out = lane(last);
        }
    }
}

/// The sum of each column, modulo 2^32; none for f32.
pub(super) struct ColumnSums<'a, L: Operand>(pub(super) Matrix<'a, L::Right>);

impl<L: Operand> Loop for ColumnSums<'_, L> {
    type Result = Vec<i32>;

    #[inline(always)]
    fn run(self) -> Vec<i32> {
        let right = self.0;
        let mut sums = Vec::with_capacity(right.columns());
        for column in 0..right.columns() {
            // Nothing of a matrix without rows is in its slice.
            sums.extend(if right.row_stride() == 1 && right.rows() > 0 {
                let first = column * right.column_stride();
                L::column_sum(right.data()[first..][..right.rows()].iter().copied())
            } else {
                L::column_sum((0..right.rows()).map(|row| right.get(row, column)))
            });
        }
        sums
    }
}

/// Some rows of a left-hand side as the kernel reads them: in place, or widened to 16 bits in
/// `widened`. `shape` is the number of rows, of columns, and the distance between rows.
pub(super) fn left_rows<'a, L: Operand>(
    left: &'a [L],
    shape: (usize, usize, usize),
    kernel: &Kernel,
    widened: &'a mut Vec<i16>,
) -> Rows<'a> {
    let (count, depth, stride) = shape;
    let size = size_of::<L>();
    if kernel.lanes.number_size() == size {
        let bytes = bytemuck::cast_slice(left);
        return Rows { bytes, count, stride: stride * size, depth: depth * size };
    }
    widened.resize(count * depth, 0);
    for (row, out) in widened.chunks_exact_mut(depth).enumerate() {
        for (out, number) in out.iter_mut().zip(&left[row * stride..][..depth]) {
            *out = number.widened();
        }
    }
    Rows { bytes: bytemuck::cast_slice(widened), count, stride: depth * 2, depth: depth * 2 }
}

impl Lanes {
    /// Numbers in a lane.
    pub(super) fn numbers(self) -> usize {
        4 / self.number_size()
    }

    /// Bytes of a number.
    pub(super) fn number_size(self) -> usize {
        match self {
            Lanes::Floats => 4,
            Lanes::Words => 2,
            Lanes::Bytes | Lanes::OffsetBytes => 1,
        }
    }

    /// The bits of a lane that differ from those of its numbers.
    fn flip(self) -> u32 {
        if self == Lanes::OffsetBytes { 0x8080_8080 } else { 0 }
    }

    /// A lane of integers, in memory order.
    #[inline(always)]
    pub(super) fn lane(self, number: impl Fn(usize) -> i16) -> [i16; 2] {
        // Bytes are the low halves of the numbers.
        let byte = |index| number(index).to_le_bytes()[0];
        let pair = |first, flip| i16::from_ne_bytes([byte(first) ^ flip, byte(first + 1) ^ flip]);
        match self {
            Lanes::Words | Lanes::Floats => [number(0), number(1)],
            Lanes::Bytes => [pair(0, 0), pair(2, 0)],
            // Flipping the sign bit adds 128.
            Lanes::OffsetBytes => [pair(0, 0x80), pair(2, 0x80)],
        }
    }
}
