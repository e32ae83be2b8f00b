//! B from a second operand, without blocks of matrices. A table in the constants says where its rows
//! begin; those that are not there are rows of zeros.

use super::{Registers, STEP, Shape};
use crate::compile::kernel::blocks::Source;
use crate::compile::kernel::{Kernel, Offset};

/// Rows of the second operand that a step multiplies, where they are those of B: halves of dwords.
const ROWS: usize = STEP / 2;
/// Elements of a lane that a message loads.
const VECTOR: usize = 4;

/// Registers of the second operand.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Second {
    /// Offsets of rows, then their addresses, a pair for every lane.
    offsets: usize,
    addresses: usize,
    /// What is added to the address of every lane.
    zero: usize,
    /// Addresses of single rows, and the rows.
    rows: usize,
    loaded: usize,
    /// The addresses of the operand and of the table.
    base: usize,
    table: usize,
}

impl Second {
    /// Takes the registers that a kernel needs.
    pub(super) fn take(k: &mut Kernel, shape: &Shape) -> Second {
        let (columns, across) = (shape.tile.columns, shape.b == Source::Across);
        if shape.b == Source::Constants {
            return Second::default();
        }
        Second {
            offsets: k.take(2),
            addresses: k.take(if across { 2 * columns } else { 4 }),
            zero: k.take(2),
            rows: k.take(if across { 0 } else { ROWS }),
            loaded: k.take(if across { 0 } else { ROWS * columns.div_ceil(2) }),
            base: k.take(1),
            table: k.take(1),
        }
    }

    /// Finds the rows of the thread; the table is that of its run.
    pub(super) fn begin(self, k: &mut Kernel, shape: &Shape, (constants, s): (usize, usize)) {
        let (lanes, columns) = (k.lanes(), shape.tile.columns);
        // Eight bytes of every run say where its table is.
        k.line(format_args!("mul (1|M0) r{s}.3<1>:d r0.1<0;1,0>:d 8:w"));
        let runs = Offset::Bytes(shape.map.rows_in[1] as i64);
        let pointer = k.pointer(constants, &[runs, Offset::Scalar { register: s, at: 3 }]);
        k.load_block(self.offsets, 8, pointer);
        k.copy_pointer(self.table, (constants, 0));
        k.advance(self.table, 1, Offset::Scalar { register: self.offsets, at: 0 });
        k.copy_pointer(self.base, (1, 2));
        k.line(format_args!("mov ({lanes}|M0) r{}.0<1>:ud 0:ud", self.zero));
        // Columns before those of the thread are rows of the table, or elements of rows.
        let unit = if shape.b == Source::Across { 4 } else { 2 };
        let bytes = columns * lanes * unit;
        k.line(format_args!("mul (1|M0) r{s}.3<1>:d r{s}.1<0;1,0>:d {bytes}:d"));
        let moved = if shape.b == Source::Across { self.table } else { self.base };
        k.advance(moved, 1, Offset::Scalar { register: s, at: 3 });
        if shape.b != Source::Across {
            return;
        }
        for column in 0..columns {
            k.load_block(self.offsets, lanes * 4, self.table);
            k.advance(self.table, 1, Offset::Bytes((lanes * 4) as i64));
            self.lanes(k, column, 0);
        }
    }

    /// The addresses of as many rows as there are lanes.
    fn lanes(self, k: &mut Kernel, place: usize, first: usize) {
        let pairs = self.addresses + 2 * place;
        k.lane_addresses(pairs, self.base, (self.offsets, first, 1), self.zero, self.zero + 1);
    }

    /// Loads a step of B.
    pub(super) fn load(self, k: &mut Kernel, shape: &Shape, registers: &Registers) {
        match shape.b {
            Source::Constants => {}
            Source::Across => self.load_across(k, shape, registers),
            Source::Rows(_) => self.load_rows(k, shape, registers),
        }
    }

    /// Every lane loads the dwords of its column.
    fn load_across(self, k: &mut Kernel, shape: &Shape, registers: &Registers) {
        let lanes = k.lanes();
        for part in (0..STEP / 4).step_by(VECTOR) {
            for column in 0..shape.tile.columns {
                let pairs = self.addresses + 2 * column;
                k.gather_vectors(registers.b + 8 * column + part, VECTOR, pairs);
                k.advance(pairs, lanes, Offset::Bytes(4 * VECTOR as i64));
            }
        }
    }

    /// Rows are loaded one by one; two of them are the halves of dwords.
    fn load_rows(self, k: &mut Kernel, shape: &Shape, registers: &Registers) {
        let (lanes, columns) = (k.lanes(), shape.tile.columns);
        k.load_block(self.offsets, 4 * ROWS, self.table);
        k.advance(self.table, 1, Offset::Bytes(4 * ROWS as i64));
        for place in 0..ROWS / lanes {
            self.lanes(k, place, place * lanes);
        }
        let each = columns.div_ceil(2);
        for row in 0..ROWS {
            let address = self.rows + row;
            // A pair of dwords for every row.
            let (from, at) = (self.addresses + 2 * row / lanes, 2 * row % lanes);
            k.line(format_args!("mov (2|M0) r{address}.0<1>:ud r{from}.{at}<1;1,0>:ud"));
            k.load_block(self.loaded + row * each, columns * lanes * 2, address);
        }
        for (column, row) in (0..columns).flat_map(|column| (0..ROWS).map(move |row| (column, row)))
        {
            let to = registers.b + 8 * column + row / 2;
            let from = self.loaded + row * each + column / 2;
            let at = column % 2 * lanes;
            k.line(format_args!("mov ({lanes}|M0) r{to}.{}<2>:uw r{from}.{at}<1;1,0>:uw", row % 2));
        }
    }
}
