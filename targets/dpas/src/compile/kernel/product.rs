//! Sums of products: the systolic array over all taps and channels, then codes or whole sums.

mod second;

use super::blocks::Source;
use super::end::{End, Places, Sums, convert, finish, larger, pack};
use super::narrow::Packing;
use super::zeros::{Alone, Zeros};
use super::{Kernel, Map, Offset, Tile, Unit, Written, is_pool, lowest};
use crate::arch::Platform;
use second::Second;

/// Bytes of a row of A that an instruction multiplies.
pub(in super::super) const STEP: usize = 32;

/// A product as a kernel sees it.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Shape {
    pub(in super::super) tile: Tile,
    pub(in super::super) map: Map,
    /// Loops over the bytes of A, outermost first: how often, and how far from one turn to the next.
    /// The innermost is over steps of 32 bytes.
    pub(in super::super) loops: Vec<(usize, usize)>,
    /// Bytes of A from one group along y, and z, to the next.
    pub(in super::super) spread: [usize; 2],
    /// Groups along y.
    pub(in super::super) blocks: usize,
    /// Size of what a lane loads.
    pub(in super::super) unit: Unit,
    /// Types of the sums, of B and of A.
    pub(in super::super) types: [&'static str; 3],
    /// How B lies in the constants.
    pub(in super::super) packing: Packing,
    pub(in super::super) b: Source,
    /// Zeros of operands of which B is one.
    pub(in super::super) zeros: Zeros,
    /// Of products at these places the largest leave: how many rows and columns, and bytes of A from one
    /// to the next.
    pub(in super::super) pool: [(usize, usize); 2],
    pub(in super::super) end: End,
}

impl Shape {
    /// Messages of lanes for eight rows of A.
    fn vectors(&self, lanes: usize) -> usize {
        8 * STEP / self.unit.bytes() / lanes
    }

    /// The argument that is the address of the result, behind the operands.
    fn result(&self) -> usize {
        self.end.operands() + usize::from(self.b != Source::Constants)
    }
}

/// Registers of the parts of a product.
struct Registers {
    /// Scalars.
    scalars: usize,
    /// Sums, column block by column block.
    sums: usize,
    /// The largest of them so far, if the largest leave.
    best: usize,
    /// A, block of rows by block of rows.
    a: usize,
    /// The addresses of its lanes.
    addresses: usize,
    /// B, column block by column block.
    b: usize,
    /// Their addresses.
    pointers: usize,
    /// Two blocks of eight for sums on their way.
    temporaries: [usize; 2],
    /// The second operand, if there is one.
    second: Second,
    /// Where blocks of B are converted, and behind that where they are loaded.
    waiting: usize,
    /// Sums of operands alone.
    alone: Alone,
}

/// Counters of the loops over what is pooled.
const POOL: usize = 3;

impl Registers {
    /// Takes the registers of a kernel.
    fn take(k: &mut Kernel, shape: &Shape) -> Registers {
        let Tile { rows, columns } = shape.tile;
        let (all, addresses) = (8 * rows * columns, 2 * rows * shape.vectors(k.lanes()));
        let a = (8 * STEP / k.platform.grf_bytes() as usize).max(8);
        let registers = Registers {
            scalars: k.take(2),
            sums: k.take(all),
            best: k.take(if is_pool(shape.pool) { all } else { 0 }),
            a: k.take(rows * a),
            addresses: k.take(addresses),
            b: k.take(8 * columns),
            pointers: k.take(columns),
            temporaries: [0; 2],
            second: Second::take(k, shape),
            waiting: k.take(shape.packing.waiting(columns)),
            alone: Alone::take(k, shape.zeros, (shape.tile, 1)),
        };
        // Where the addresses are, but for the first, if there are enough and they are of no more use.
        let temporaries = match addresses {
            18.. if !is_pool(shape.pool) => registers.addresses + 2,
            _ if shape.end.factors()[1] || shape.end.adds() => k.take(16),
            _ => k.take(0),
        };
        Registers { temporaries: [temporaries, temporaries + 8], ..registers }
    }

    /// The sums of a block of rows, and the largest so far.
    fn blocks(&self, Tile { rows, columns }: Tile, block: usize) -> [Sums; 2] {
        [self.sums, self.best].map(|first| Sums {
            first: first + 8 * block,
            stride: 8 * rows,
            tile: Tile { rows: 1, columns },
        })
    }

    /// Where sums are converted.
    fn places(&self, Tile { columns, .. }: Tile) -> Places {
        Places {
            factors: self.b,
            temporaries: self.temporaries,
            batch: 8,
            packed: self.b + 3 * columns,
            columns,
        }
    }
}

/// The kernel of a product. Its arguments are the addresses of A, of what is added, of the result and
/// of the constants.
pub(in super::super) fn product(shape: &Shape, platform: Platform, grfs: u32) -> Written {
    let mut kernel = Kernel::new(platform, grfs);
    let k = &mut kernel;
    let registers = Registers::take(k, shape);
    let [a, c, constants] = [0, shape.result(), shape.result() + 1].map(|at| k.argument(at));
    let (s, columns) = (registers.scalars, shape.tile.columns);
    // The rows of this thread, and the block of columns over all groups.
    let [rows, block] = [32 * shape.tile.rows, columns * platform.grf_bytes() as usize];
    k.line(format_args!("mul (1|M0) r{s}.0<1>:d r0.1<0;1,0>:d {rows}:d"));
    k.line(format_args!("mul (1|M0) r{s}.1<1>:d r0.7<0;1,0>:d {}:d", shape.blocks));
    k.line(format_args!("add (1|M0) r{s}.1<1>:d r{s}.1<0;1,0>:d r0.6<0;1,0>:d"));
    k.line(format_args!("mul (1|M0) r{s}.2<1>:d r{s}.1<0;1,0>:d {block}:d"));
    addresses(k, shape, &registers, (a, constants));
    match is_pool(shape.pool) {
        true => largest(k, shape, &registers, constants),
        false => sums(k, shape, &registers, constants),
    }
    leave(k, shape, &registers, (c, constants, s));
    kernel.finish()
}

/// The addresses of A: its rows, for the groups along y and z.
fn addresses(k: &mut Kernel, shape: &Shape, registers: &Registers, (a, constants): (usize, usize)) {
    let (lanes, grf, s) = (k.lanes(), k.platform.grf_bytes() as usize, registers.scalars);
    for (at, from, spread) in [(3, 6, shape.spread[0]), (4, 7, shape.spread[1])] {
        if spread > 0 {
            k.line(format_args!("mul (1|M0) r{s}.{at}<1>:d r0.{from}<0;1,0>:d {spread}:d"));
            k.advance(a, 1, Offset::Scalar { register: s, at });
        }
    }
    let (table, rows) = (registers.b, shape.tile.rows);
    let place = Offset::Bytes(shape.map.rows_in[0] as i64);
    let pointer = k.pointer(constants, &[place, Offset::Scalar { register: s, at: 0 }]);
    k.load_block(table, 32 * rows, pointer);
    let lane_bytes = table + rows.max(1) * 32 / grf + 1;
    let pointer = k.pointer(constants, &[Offset::Bytes(shape.map.lanes_in as i64)]);
    k.load_block(lane_bytes, grf, pointer);
    let share = STEP / shape.unit.bytes();
    for vector in 0..rows * shape.vectors(lanes) {
        let pairs = registers.addresses + 2 * vector;
        let first = vector * lanes / share;
        k.lane_addresses(pairs, a, (table, first, share.min(lanes)), lane_bytes, lane_bytes + 1);
        // A row can have more lanes than there are.
        let within = vector * lanes % share;
        k.advance(pairs, lanes, Offset::Bytes((within * shape.unit.bytes()) as i64));
    }
}

/// Computes the sums at all places of a window, and keeps the largest.
fn largest(k: &mut Kernel, shape: &Shape, registers: &Registers, constants: usize) {
    let (lanes, s, rows) = (k.lanes(), registers.scalars, shape.tile.rows);
    lowest(k, (registers.best, 8 * rows * shape.tile.columns));
    let [(pool_rows, down), (pool_columns, right)] = shape.pool;
    // The loops of a product leave the addresses behind their last turn.
    let moved = shape.loops.first().map_or(0, |&(count, stride)| count * stride) as i64;
    let advance = |k: &mut Kernel, bytes: i64| {
        for vector in 0..rows * shape.vectors(lanes) {
            k.advance(registers.addresses + 2 * vector, lanes, Offset::Bytes(bytes));
        }
    };
    k.repeat(pool_rows, (s + 1, POOL), &mut |k: &mut Kernel| {
        k.repeat(pool_columns, (s + 1, POOL + 1), &mut |k: &mut Kernel| {
            sums(k, shape, registers, constants);
            advance(k, right as i64 - moved);
            load_factors(k, shape, registers, (constants, s));
            for block in 0..rows {
                let [own, best] = registers.blocks(shape.tile, block);
                finish(k, shape.end, own, registers.places(shape.tile));
                larger(k, own, best);
            }
        });
        advance(k, down as i64 - (pool_columns * right) as i64);
    });
}

/// Computes the sums.
fn sums(k: &mut Kernel, shape: &Shape, registers: &Registers, constants: usize) {
    let Tile { rows, columns } = shape.tile;
    let (lanes, grf, s) = (k.lanes(), k.platform.grf_bytes() as usize, registers.scalars);
    // They begin with the addends of their columns.
    let columns_offset = Offset::Scalar { register: s, at: 2 };
    let pointer = k.pointer(constants, &[Offset::Bytes(shape.map.addends as i64), columns_offset]);
    k.load_block(registers.b, columns * grf, pointer);
    for block in 0..columns {
        for row in 0..8 * rows {
            let (to, from) = (registers.sums + block * 8 * rows + row, registers.b + block);
            k.line(format_args!("mov ({lanes}|M0) r{to}.0<1>:d r{from}.0<1;1,0>:d"));
        }
    }
    match shape.b {
        Source::Constants => packed(k, shape, registers, constants),
        Source::Rows(_) | Source::Across => registers.second.begin(k, shape, (constants, s)),
    }
    registers.alone.begin(k);
    registers.alone.ones(k);
    multiply(k, shape, registers, &shape.loops, shape.vectors(lanes));
}

/// The addresses of packed B: blocks of columns behind one another, each with all its steps.
fn packed(k: &mut Kernel, shape: &Shape, registers: &Registers, constants: usize) {
    let (s, columns) = (registers.scalars, shape.tile.columns);
    let grf = k.platform.grf_bytes() as usize;
    let steps: usize = shape.loops.iter().map(|&(count, _)| count).product();
    let block_bytes = steps * columns * shape.packing.loaded() * grf;
    k.line(format_args!("mul (1|M0) r{s}.5<1>:ud r{s}.1<0;1,0>:ud {block_bytes}:ud"));
    for block in 0..columns {
        let pointer = registers.pointers + block;
        let first = shape.map.weights + block * shape.packing.loaded() * grf;
        k.copy_pointer(pointer, (constants, 0));
        k.advance(pointer, 1, Offset::Bytes(first as i64));
        k.advance(pointer, 1, Offset::Scalar { register: s, at: 5 });
    }
}

/// The loops.
fn multiply(
    k: &mut Kernel,
    shape: &Shape,
    registers: &Registers,
    loops: &[(usize, usize)],
    vectors: usize,
) {
    let Some((&(count, stride), inner)) = loops.split_first() else {
        return step(k, shape, registers, vectors);
    };
    let depth = shape.loops.len() - inner.len() - 1;
    let moved = inner.first().map_or(0, |&(count, stride)| count * stride);
    k.repeat(count, (registers.scalars + 1, depth), &mut |k: &mut Kernel| {
        multiply(k, shape, registers, inner, vectors);
        let lanes = k.lanes();
        for vector in 0..shape.tile.rows * vectors {
            let pairs = registers.addresses + 2 * vector;
            k.advance(pairs, lanes, Offset::Bytes(stride as i64 - moved as i64));
        }
    });
}

/// One step: B and A are loaded and multiplied.
fn step(k: &mut Kernel, shape: &Shape, registers: &Registers, vectors: usize) {
    let Tile { rows, columns } = shape.tile;
    let (lanes, grf) = (k.lanes(), k.platform.grf_bytes() as usize);
    let unit_registers = shape.unit.bytes() / 4;
    let a_registers = vectors * unit_registers;
    let packed = if shape.b == Source::Constants { columns } else { 0 };
    for block in 0..packed {
        let bytes = shape.packing.loaded() * grf;
        let to = match shape.packing {
            Packing::Direct(_) => registers.b + 8 * block,
            Packing::Narrow(..) => {
                registers.waiting + shape.packing.free() + block * shape.packing.loaded()
            }
        };
        k.load_block(to, bytes, registers.pointers + block);
    }
    registers.second.load(k, shape, registers);
    for vector in 0..rows * vectors {
        let to = registers.a + vector * unit_registers;
        k.gather(to, shape.unit, registers.addresses + 2 * vector);
    }
    for block in 0..packed {
        let next = Offset::Bytes((columns * shape.packing.loaded() * grf) as i64);
        k.advance(registers.pointers + block, 1, next);
    }
    for block in 0..columns {
        let from = registers.waiting + shape.packing.free() + block * shape.packing.loaded();
        shape.packing.unpack(k, (from, registers.b + 8 * block), registers.waiting);
    }
    let [sum, weights, kind] = shape.types;
    for row in 0..rows {
        registers.alone.add_rows(k, (row, registers.a + row * a_registers), 0, kind);
    }
    for block in 0..columns {
        registers.alone.add_columns(k, (block, registers.b + 8 * block), weights);
    }
    for block in 0..columns {
        for row in 0..rows {
            let d = registers.sums + 8 * (block * rows + row);
            let (b, a) = (registers.b + 8 * block, registers.a + row * a_registers);
            k.line(format_args!(
                "dpas.8x8 ({lanes}|M0) r{d}:{sum} r{d}:{sum} r{b}:{weights} r{a}.0:{kind}"
            ));
        }
    }
}

/// Loads the factors of the columns.
fn load_factors(
    k: &mut Kernel,
    shape: &Shape,
    registers: &Registers,
    (constants, s): (usize, usize),
) {
    let (columns, grf) = (shape.tile.columns, k.platform.grf_bytes() as usize);
    for (at, place) in shape.map.factors.into_iter().enumerate() {
        if shape.end.factors()[at] {
            let pointer = k.pointer(
                constants,
                &[Offset::Bytes(place as i64), Offset::Scalar { register: s, at: 2 }],
            );
            k.load_block(registers.b + at * columns, columns * grf, pointer);
        }
    }
}

/// Sums become what leaves, and leave.
fn leave(
    k: &mut Kernel,
    shape: &Shape,
    registers: &Registers,
    (c, constants, s): (usize, usize, usize),
) {
    let Tile { rows, columns } = shape.tile;
    let (lanes, grf) = (k.lanes(), k.platform.grf_bytes() as usize);
    let size = shape.end.size();
    // Bytes of a row of the tile, and of the columns before it.
    let width = columns * lanes * size;
    k.line(format_args!("mul (1|M0) r{s}.3<1>:d r{s}.1<0;1,0>:d {width}:d"));
    k.advance(c, 1, Offset::Scalar { register: s, at: 3 });
    let table = registers.a;
    let pointer = k.pointer(
        constants,
        &[Offset::Bytes(shape.map.rows_out as i64), Offset::Scalar { register: s, at: 0 }],
    );
    k.load_block(table, 32 * rows, pointer);
    let lane_bytes = table + 32 * rows / grf + 1;
    let (temporary, pairs) = (lane_bytes + 1, registers.addresses);
    let added = shape.end.adds().then(|| {
        let base = k.argument(1);
        k.advance(base, 1, Offset::Scalar { register: s, at: 3 });
        let places =
            [Offset::Bytes(shape.map.rows_in[1] as i64), Offset::Scalar { register: s, at: 0 }];
        let pointer = k.pointer(constants, &places);
        k.load_block(temporary + 1, 32 * rows, pointer);
        (base, temporary + 1)
    });
    let pointer = k.pointer(constants, &[Offset::Bytes(shape.map.lanes_out as i64)]);
    k.load_block(lane_bytes, grf, pointer);
    if !is_pool(shape.pool) {
        load_factors(k, shape, registers, (constants, s));
    }
    let places = registers.places(shape.tile);
    let all = Sums { first: registers.sums, stride: 8 * rows, tile: shape.tile };
    registers.alone.finish(k, all);
    // What stays in registers of its own leaves block by block.
    let parts = if shape.end.stays() { columns } else { 1 };
    let (vectors, share) = (width / parts / lanes, width / parts / 8);
    for block in 0..rows {
        let [own, best] = registers.blocks(shape.tile, block);
        let sums = if is_pool(shape.pool) { best } else { own };
        if let Some((base, table)) = added {
            for vector in 0..vectors {
                let first = 8 * block + vector * lanes / share;
                k.lane_addresses(pairs, base, (table, first, share), lane_bytes, temporary);
                k.gather(places.packed + 2 * vector, Unit::Qword, pairs);
            }
        }
        match is_pool(shape.pool) {
            true => pack(k, shape.end, sums, places),
            false => convert(k, shape.end, sums, places),
        }
        for (part, vector) in (0..parts).flat_map(|part| (0..vectors).map(move |v| (part, v))) {
            let from = match shape.end.stays() {
                false => places.packed + 2 * vector,
                true => sums.at(part, 0) + 2 * vector,
            };
            let first = 8 * block + vector * lanes / share;
            k.lane_addresses(pairs, c, (table, first, share), lane_bytes, temporary);
            k.advance(pairs, lanes, Offset::Bytes((part * lanes * size) as i64));
            k.scatter(pairs, from);
        }
    }
}
