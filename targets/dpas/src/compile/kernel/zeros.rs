//! Zeros of the codes of products of two values: sums of either operand alone, by products with ones.

use super::end::Sums;
use super::{Kernel, Tile};

/// Four codes of 1.
pub(in super::super) const ONES: u32 = 0x0101_0101;

/// Registers of an operand with eight columns of the systolic array, and of a row.
const BLOCK: usize = 8;

/// The zeros of the operands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Zeros(pub(in super::super) [i32; 2]);

/// Registers of the sums of operands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alone {
    zeros: Zeros,
    tile: Tile,
    /// Sums of rows of A, in all columns; sums of columns of B.
    rows: usize,
    columns: usize,
    /// Ones in the place of A; in the place of B, for every step of a turn.
    row: usize,
    pub(super) block: usize,
}

impl Alone {
    /// Takes the registers that zeros need, for turns of so many steps.
    pub(super) fn take(k: &mut Kernel, zeros: Zeros, (tile, depth): (Tile, usize)) -> Alone {
        let Zeros([a, b]) = zeros;
        let mut if_any = |zero: i32, count: usize| k.take(if zero == 0 { 0 } else { count });
        Alone {
            zeros,
            tile,
            rows: if_any(b, 8 * tile.rows),
            columns: if_any(a, tile.columns),
            row: if_any(a, 1),
            block: if_any(b, BLOCK * depth),
        }
    }

    /// Sums of A are needed.
    pub(super) fn has_rows(&self) -> bool {
        self.zeros.0[1] != 0
    }

    /// Sums of B are needed.
    fn has_columns(&self) -> bool {
        self.zeros.0[0] != 0
    }

    /// Sums begin with 0; what stands for A is ones.
    pub(super) fn begin(&self, k: &mut Kernel) {
        if self.has_rows() {
            fill(k, (self.rows, 8 * self.tile.rows), 0);
        }
        if self.has_columns() {
            fill(k, (self.columns, self.tile.columns), 0);
            fill(k, (self.row, 1), ONES);
        }
    }

    /// Ones in the place of B, for one step.
    pub(super) fn ones(&self, k: &mut Kernel) {
        if self.has_rows() {
            fill(k, (self.block, BLOCK), ONES);
        }
    }

    /// Adds a step of A in eight rows.
    pub(super) fn add_rows(
        &self,
        k: &mut Kernel,
        (row, a): (usize, usize),
        step: usize,
        kind: &str,
    ) {
        if self.has_rows() {
            let (n, d, ones) = (k.lanes(), self.rows + 8 * row, self.block + BLOCK * step);
            k.line(format_args!("dpas.8x8 ({n}|M0) r{d}:d r{d}:d r{ones}:ub r{a}.0:{kind}"));
        }
    }

    /// Adds a step of B in a block of columns.
    pub(super) fn add_columns(&self, k: &mut Kernel, (column, b): (usize, usize), kind: &str) {
        if self.has_columns() {
            let (n, d, ones) = (k.lanes(), self.columns + column, self.row);
            k.line(format_args!("dpas.8x1 ({n}|M0) r{d}:d r{d}:d r{b}:{kind} r{ones}.0:ub"));
        }
    }

    /// Takes off the sums of products what zeros have added.
    pub(super) fn finish(&self, k: &mut Kernel, sums: Sums) {
        let n = k.lanes();
        let Zeros([a, b]) = self.zeros;
        let parts = [(self.rows, 8 * self.tile.rows, b), (self.columns, self.tile.columns, a)];
        for (first, count, zero) in parts.into_iter().filter(|(.., zero)| *zero != 0) {
            for x in first..first + count {
                k.line(format_args!("mul ({n}|M0) r{x}.0<1>:d r{x}.0<1;1,0>:d {}:w", -zero));
            }
        }
        for column in 0..self.tile.columns {
            for row in 0..sums.rows() {
                let x = sums.at(column, row);
                let terms = [(self.rows + row, b), (self.columns + column, a)];
                for (term, _) in terms.into_iter().filter(|(_, zero)| *zero != 0) {
                    k.line(format_args!(
                        "add ({n}|M0) r{x}.0<1>:d r{x}.0<1;1,0>:d r{term}.0<1;1,0>:d"
                    ));
                }
            }
        }
    }
}

/// Fills registers with a dword.
fn fill(k: &mut Kernel, (first, count): (usize, usize), dword: u32) {
    let n = k.lanes();
    for x in first..first + count {
        k.line(format_args!("mov ({n}|M0) r{x}.0<1>:ud {dword:#010x}:ud"));
    }
}
