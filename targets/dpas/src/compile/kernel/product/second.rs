//! B from a second operand, without blocks of matrices. A table in the constants says where its rows
//! begin; those that are not there are rows of zeros.

use super::{Registers, STEP, Shape};
use crate::compile::kernel::blocks::Source;
use crate::compile::kernel::{Kernel, Offset};

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
        let (lanes, columns) = (k.lanes(), shape.tile.columns);
        // Registers of offsets, of addresses, and of rows and what a row takes.
        let [offsets, addresses, rows, each] = match shape.b {
            Source::Constants => return Second::default(),
            Source::Across => [1, 2 * columns, 0, 0],
            Source::Rows(size) => {
                let vectors = STEP / size / lanes;
                [vectors, 2 * vectors, STEP / size, Second::each(k, columns, size)]
            }
        };
        Second {
            offsets: k.take(offsets),
            addresses: k.take(addresses),
            zero: k.take(2),
            rows: k.take(rows),
            loaded: k.take(rows * each),
            base: k.take(1),
            table: k.take(1),
        }
    }

    /// Registers of a row of so many blocks of columns.
    fn each(k: &Kernel, columns: usize, size: usize) -> usize {
        (columns * k.lanes() * size).div_ceil(k.platform.grf_bytes() as usize)
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
        let (unit, moved) = match shape.b {
            Source::Rows(size) => (size, self.base),
            Source::Across | Source::Constants => (4, self.table),
        };
        let bytes = columns * lanes * unit;
        k.line(format_args!("mul (1|M0) r{s}.3<1>:d r{s}.1<0;1,0>:d {bytes}:d"));
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
            Source::Rows(size) => self.load_rows(k, (shape, size), registers),
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

    /// Rows are loaded one by one; those of a dword of B are interleaved.
    fn load_rows(self, k: &mut Kernel, (shape, size): (&Shape, usize), registers: &Registers) {
        let (lanes, columns, rows) = (k.lanes(), shape.tile.columns, STEP / size);
        k.load_block(self.offsets, 4 * rows, self.table);
        k.advance(self.table, 1, Offset::Bytes(4 * rows as i64));
        for place in 0..rows / lanes {
            self.lanes(k, place, place * lanes);
        }
        let each = Second::each(k, columns, size);
        for row in 0..rows {
            let address = self.rows + row;
            // A pair of dwords for every row.
            let (from, at) = (self.addresses + 2 * row / lanes, 2 * row % lanes);
            k.line(format_args!("mov (2|M0) r{address}.0<1>:ud r{from}.{at}<1;1,0>:ud"));
            k.load_block(self.loaded + row * each, columns * lanes * size, address);
        }
        let (share, kind) = (4 / size, if size == 1 { "ub" } else { "uw" });
        let beside = k.platform.grf_bytes() as usize / lanes / size;
        for (column, row) in (0..columns).flat_map(|column| (0..rows).map(move |row| (column, row)))
        {
            let to = registers.b + 8 * column + row / share;
            let from = self.loaded + row * each + column / beside;
            let at = column % beside * lanes;
            k.line(format_args!(
                "mov ({lanes}|M0) r{to}.{}<{share}>:{kind} r{from}.{at}<1;1,0>:{kind}",
                row % share
            ));
        }
    }
}
