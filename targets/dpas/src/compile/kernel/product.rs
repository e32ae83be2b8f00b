//! Sums of products: the systolic array over all taps and channels, then codes or whole sums.

mod second;

use super::blocks::Source;
use super::end::{End, Places, Sums, convert};
use super::narrow::Packing;
use super::zeros::{Alone, Zeros};
use super::{Kernel, Map, Offset, Tile, Unit, Written};
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
    pub(in super::super) end: End,
}

impl Shape {
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

/// The kernel of a product. Its arguments are the addresses of A, of what is added, of the result and
/// of the constants.
pub(in super::super) fn product(shape: &Shape, platform: Platform, grfs: u32) -> Written {
    let mut kernel = Kernel::new(platform, grfs);
    let k = &mut kernel;
    let Tile { rows, columns } = shape.tile;
    let (lanes, grf) = (k.lanes(), platform.grf_bytes() as usize);
    let a_registers = 8 * STEP / grf;
    let vectors = 8 * STEP / shape.unit.bytes() / lanes;
    let registers = Registers {
        scalars: k.take(2),
        sums: k.take(8 * rows * columns),
        a: k.take(rows * a_registers.max(8)),
        addresses: k.take(2 * rows * vectors),
        b: k.take(8 * columns),
        pointers: k.take(columns),
        temporaries: [0; 2],
        second: Second::take(k, shape),
        waiting: k.take(shape.packing.waiting(columns)),
        alone: Alone::take(k, shape.zeros, (shape.tile, 1)),
    };
    // Where the addresses are, but for the first, if there are enough.
    let temporaries = match 2 * rows * vectors {
        18.. => registers.addresses + 2,
        _ if shape.end.factors()[1] || shape.end.adds() => k.take(16),
        _ => k.take(0),
    };
    let registers = Registers { temporaries: [temporaries, temporaries + 8], ..registers };
    let [a, c, constants] = [0, shape.result(), shape.result() + 1].map(|at| k.argument(at));
    let s = registers.scalars;
    let place = |k: &mut Kernel, at: usize, offset: &[Offset]| {
        let mut offsets = vec![Offset::Bytes(at as i64)];
        offsets.extend(offset);
        k.pointer(constants, &offsets)
    };
    // The rows of this thread, and the block of columns over all groups.
    let row_bytes = 32 * rows;
    k.line(format_args!("mul (1|M0) r{s}.0<1>:d r0.1<0;1,0>:d {row_bytes}:d"));
    k.line(format_args!("mul (1|M0) r{s}.1<1>:d r0.7<0;1,0>:d {}:d", shape.blocks));
    k.line(format_args!("add (1|M0) r{s}.1<1>:d r{s}.1<0;1,0>:d r0.6<0;1,0>:d"));
    k.line(format_args!("mul (1|M0) r{s}.2<1>:d r{s}.1<0;1,0>:d {}:d", columns * grf));
    let rows_offset = Offset::Scalar { register: s, at: 0 };
    let columns_offset = Offset::Scalar { register: s, at: 2 };
    // A: its rows, for the groups along y and z.
    for (at, from, spread) in [(3, 6, shape.spread[0]), (4, 7, shape.spread[1])] {
        if spread > 0 {
            k.line(format_args!("mul (1|M0) r{s}.{at}<1>:d r0.{from}<0;1,0>:d {spread}:d"));
            k.advance(a, 1, Offset::Scalar { register: s, at });
        }
    }
    let table = registers.b;
    let pointer = place(k, shape.map.rows_in[0], &[rows_offset]);
    k.load_block(table, row_bytes, pointer);
    let lane_bytes = table + rows.max(1) * 32 / grf + 1;
    let pointer = place(k, shape.map.lanes_in, &[]);
    k.load_block(lane_bytes, grf, pointer);
    let share = STEP / shape.unit.bytes();
    for vector in 0..rows * vectors {
        let pairs = registers.addresses + 2 * vector;
        let first = vector * lanes / share;
        k.lane_addresses(pairs, a, (table, first, share.min(lanes)), lane_bytes, lane_bytes + 1);
        // A row can have more lanes than there are.
        let within = vector * lanes % share;
        k.advance(pairs, lanes, Offset::Bytes((within * shape.unit.bytes()) as i64));
    }
    // Sums begin with the addends of their columns.
    let pointer = place(k, shape.map.addends, &[columns_offset]);
    k.load_block(registers.b, columns * grf, pointer);
    for block in 0..columns {
        for row in 0..8 * rows {
            let (to, from) = (registers.sums + block * 8 * rows + row, registers.b + block);
            k.line(format_args!("mov ({lanes}|M0) r{to}.0<1>:d r{from}.0<1;1,0>:d"));
        }
    }
    match shape.b {
        Source::Constants => packed(k, shape, &registers, constants),
        Source::Rows(_) | Source::Across => registers.second.begin(k, shape, (constants, s)),
    }
    registers.alone.begin(k);
    registers.alone.ones(k);
    multiply(k, shape, &registers, &shape.loops, vectors);
    leave(k, shape, &registers, (c, constants, s));
    kernel.finish()
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
    let factors = registers.b;
    for (at, place) in shape.map.factors.into_iter().enumerate() {
        if shape.end.factors()[at] {
            let pointer = k.pointer(
                constants,
                &[Offset::Bytes(place as i64), Offset::Scalar { register: s, at: 2 }],
            );
            k.load_block(factors + at * columns, columns * grf, pointer);
        }
    }
    let places = Places {
        factors,
        temporaries: registers.temporaries,
        batch: 8,
        packed: factors + 3 * columns,
        columns,
    };
    let all = Sums { first: registers.sums, stride: 8 * rows, tile: shape.tile };
    registers.alone.finish(k, all);
    // What stays in registers of its own leaves block by block.
    let parts = if shape.end.stays() { columns } else { 1 };
    let (vectors, share) = (width / parts / lanes, width / parts / 8);
    for block in 0..rows {
        let sums = Sums {
            first: registers.sums + 8 * block,
            stride: 8 * rows,
            tile: Tile { rows: 1, columns },
        };
        if let Some((base, table)) = added {
            for vector in 0..vectors {
                let first = 8 * block + vector * lanes / share;
                k.lane_addresses(pairs, base, (table, first, share), lane_bytes, temporary);
                k.gather(places.packed + 2 * vector, Unit::Qword, pairs);
            }
        }
        convert(k, shape.end, sums, places);
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
