//! Rows of values, for kernels that compute element by element: loaded and stored lane by lane,
//! or as blocks of matrices.

use super::blocks::{Matrix, RUN};
use super::{Kernel, Map, Offset, Order, Unit};

/// Bytes of all payloads that a kernel loads.
const PAYLOADS: usize = 256;

/// How rows lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Way {
    /// By tables of rows.
    Lanes,
    /// As blocks of matrices, a run of rows for a thread; the constants begin with the payloads of the
    /// operands and the result.
    Blocks,
}

/// Rows of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Tile {
    pub(in super::super) way: Way,
    /// Blocks of eight rows; one of lanes.
    pub(in super::super) blocks: usize,
    /// Bytes of a row.
    pub(in super::super) width: usize,
    pub(in super::super) map: Map,
}

/// The payloads of matrices, the last one of the result, for blocks of so many rows, of which eight are
/// stored at once, and bytes a row. They are filled up to what kernels load.
pub(in super::super) fn payloads(matrices: &[Matrix], rows: usize, width: usize) -> Vec<u32> {
    let last = matrices.len() - 1;
    let rows = |index: usize| if index == last { 8 } else { rows };
    let all = matrices.iter().enumerate();
    let all = all.flat_map(|(index, matrix)| matrix.payload(1, rows(index), width));
    all.chain(std::iter::repeat(0)).take(PAYLOADS / 4).collect()
}

/// The operands and the result of a thread.
pub(super) struct Rows {
    tile: Tile,
    /// Registers that a thread has for every value: addresses of lanes, or a payload.
    places: Vec<usize>,
    /// Messages of lanes, of units of 64 bits, for eight rows.
    vectors: usize,
}

impl Tile {
    /// Registers of eight rows.
    pub(super) fn registers(&self, k: &Kernel) -> usize {
        (8 * self.width).div_ceil(k.platform.grf_bytes() as usize)
    }
}

impl Rows {
    /// Finds the rows of the thread. The arguments of the kernel are the addresses of so many
    /// operands, of the result and of the constants.
    pub(super) fn new(k: &mut Kernel, tile: Tile, operands: usize) -> Rows {
        match tile.way {
            Way::Lanes => Rows::lanes(k, tile, operands),
            Way::Blocks => Rows::blocks(k, tile, operands),
        }
    }

    fn lanes(k: &mut Kernel, tile: Tile, operands: usize) -> Rows {
        let (lanes, grf) = (k.lanes(), k.platform.grf_bytes() as usize);
        let vectors = tile.width / lanes;
        let [s, table, lane_bytes, t] = [1, 2, 1, 1].map(|count| k.take(count));
        let places: Vec<usize> = (0..=operands).map(|_| k.take(2 * vectors)).collect();
        let bases: Vec<usize> = (0..=operands).map(|at| k.argument(at)).collect();
        let constants = k.argument(operands + 1);
        k.line(format_args!("mul (1|M0) r{s}.0<1>:d r0.1<0;1,0>:d 32:w"));
        k.line(format_args!("mul (1|M0) r{s}.1<1>:d r0.6<0;1,0>:d {}:d", tile.width));
        let pointer = k.pointer(constants, &[Offset::Bytes(tile.map.lanes_out as i64)]);
        k.load_block(lane_bytes, grf, pointer);
        let tables = tile.map.rows_in[..operands].iter().chain([&tile.map.rows_out]);
        for ((&at, &base), &pairs) in tables.zip(&bases).zip(&places) {
            k.advance(base, 1, Offset::Scalar { register: s, at: 1 });
            let rows = Offset::Scalar { register: s, at: 0 };
            let pointer = k.pointer(constants, &[Offset::Bytes(at as i64), rows]);
            k.load_block(table, 32, pointer);
            for vector in 0..vectors {
                let first = vector * lanes * 8 / tile.width;
                let rows = (table, first, tile.width / 8);
                k.lane_addresses(pairs + 2 * vector, base, rows, lane_bytes, t);
            }
        }
        Rows { tile, places, vectors }
    }

    fn blocks(k: &mut Kernel, tile: Tile, operands: usize) -> Rows {
        let [first, s, run, pointer] = [4, 1, 1, 1].map(|count| k.take(count));
        let places: Vec<usize> = (first..=first + operands).collect();
        k.line(format_args!("mul (1|M0) r{s}.0<1>:d r0.1<0;1,0>:d {}:w", 4 * RUN));
        let constants = operands + 1;
        let load = |k: &mut Kernel, place: usize, (to, bytes): (usize, usize)| {
            k.line(format_args!("add (1|M0) r{pointer}.0<1>:q r1.{constants}<0;1,0>:q {place}:d"));
            if to == run {
                k.advance(pointer, 1, Offset::Scalar { register: s, at: 0 });
            }
            k.load_block(to, bytes, pointer);
        };
        load(k, 0, (first, PAYLOADS));
        load(k, tile.map.rows_in[0], (run, 4 * RUN));
        for (at, &payload) in places.iter().enumerate() {
            k.line(format_args!(
                "add (1|M0) r{payload}.0<1>:q r1.{at}<0;1,0>:q r{run}.{at}<0;1,0>:ud"
            ));
            k.line(format_args!("mul (1|M0) r{payload}.5<1>:d r0.6<0;1,0>:d {}:d", tile.width));
            k.line(format_args!("mov (1|M0) r{payload}.3<1>:ud r{run}.3<0;1,0>:ud"));
        }
        Rows { tile, places, vectors: 0 }
    }

    /// Loads all rows of an operand.
    pub(super) fn load(&self, k: &mut Kernel, operand: usize, to: usize) {
        let place = self.places[operand];
        match self.tile.way {
            Way::Lanes => {
                for vector in 0..self.vectors {
                    k.gather(to + 2 * vector, Unit::Qword, place + 2 * vector);
                }
            }
            Way::Blocks => {
                let registers = self.tile.blocks * self.tile.registers(k);
                k.load_matrix((to, registers), place, (1, Order::Rows));
            }
        }
    }

    /// Moves on to other rows of an operand.
    pub(super) fn advance(&self, k: &mut Kernel, operand: usize, bytes: i64) {
        let (place, lanes) = (self.places[operand], k.lanes());
        match self.tile.way {
            Way::Lanes => {
                for vector in 0..self.vectors {
                    k.advance(place + 2 * vector, lanes, Offset::Bytes(bytes));
                }
            }
            Way::Blocks => k.advance(place, 1, Offset::Bytes(bytes)),
        }
    }

    /// Stores a block of eight rows of the result.
    pub(super) fn store(&self, k: &mut Kernel, block: usize, from: usize) {
        let place = self.places[self.places.len() - 1];
        match self.tile.way {
            Way::Lanes => {
                for vector in 0..self.vectors {
                    k.scatter(place + 2 * vector, from + 2 * vector);
                }
            }
            Way::Blocks => {
                if block > 0 {
                    k.line(format_args!("mov (1|M0) r{place}.6<1>:d {}:d", 8 * block));
                }
                k.store_matrix((from, self.tile.registers(k)), place);
            }
        }
    }
}
