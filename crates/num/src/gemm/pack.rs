//! Bringing both sides of a product into the form that the kernels read.

use super::kernel::{Kernel, LANES, Lanes, Line, Rows};
use super::sealed::Operand;
use crate::matrix::Matrix;

/// The panels of a right-hand side, one after another.
pub(super) fn lines<L: Operand>(right: Matrix<'_, L::Right>, kernel: &Kernel) -> Vec<Line> {
    let width = kernel.lines * LANES;
    let numbers = kernel.lanes.numbers();
    let groups = right.rows().div_ceil(numbers);
    let mut lines = vec![Line::ZERO; right.columns().div_ceil(width) * groups * kernel.lines];
    for column in 0..right.columns() {
        let (panel, lane) = (column / width, column % width);
        for group in 0..groups {
            let line = (panel * groups + group) * kernel.lines + lane / LANES;
            let number = |index: usize| {
                let row = group * numbers + index;
                (row < right.rows()).then(|| right.get(row, column))
            };
            lines[line].0[lane % LANES] = L::lane(kernel.lanes, number);
        }
    }
    lines
}

/// The sum of each column, modulo 2^32; none for f32.
pub(super) fn column_sums<L: Operand>(right: Matrix<'_, L::Right>) -> Vec<i32> {
    let column = |column| (0..right.rows()).map(move |row| right.get(row, column));
    (0..right.columns()).filter_map(|index| L::column_sum(column(index))).collect()
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

    /// A lane of integers, in memory order.
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
