//! Sums of products from blocks of matrices: a message loads A of a run of positions, another one B of
//! all column blocks, and what is stored ends where a run does.

use super::end::{End, Places, Sums, convert, finish, larger, pack};
use super::narrow::Packing;
use super::product::STEP;
use super::zeros::{Alone, Zeros};
use super::{Kernel, Map, Offset, Order, Tile, Written, is_pool, lowest};
use crate::arch::Platform;

/// Bytes of a register where blocks exist.
const GRF: usize = 64;
/// Lanes there.
const LANES: usize = GRF / 4;
/// Bytes of a step of a block of columns of B.
pub(in super::super) const ONES_BYTES: usize = STEP * LANES;
/// Dwords of a run in the constants: its first byte in the operands, then in the result; the last one
/// is its rows but one.
pub(in super::super) const RUN: usize = 4;

/// Dwords of the only run of a tile of products of two values: the same, of two operands; then bytes
/// before the channels of A, elements (across, dwords) before those of B, bytes before those of C.
pub(in super::super) const JOINED_RUN: usize = 8;

/// Where B comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Source {
    /// The constants, packed.
    Constants,
    /// The second operand, whose rows are those of B; bytes of an element.
    Rows(usize),
    /// The second operand, whose rows are B's columns.
    Across,
}

/// A product as a kernel sees it.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Shape {
    pub(in super::super) tile: Tile,
    /// Rows of a run: 8, 16 or 32, and no more than the tile has.
    pub(in super::super) run: usize,
    /// Steps of a turn of the innermost loop: 1 or 2.
    pub(in super::super) depth: usize,
    pub(in super::super) map: Map,
    /// Loops over rows and columns of the window: how often, and bytes of A from one to the next.
    pub(in super::super) window: [(usize, usize); 2],
    /// Steps of 32 bytes at a position of the window; a multiple of `depth`.
    pub(in super::super) steps: usize,
    /// Bytes of A from one group along y, and z, to the next.
    pub(in super::super) spread: [usize; 2],
    /// Groups along y.
    pub(in super::super) blocks: usize,
    /// Types of the sums, of B and of A.
    pub(in super::super) types: [&'static str; 3],
    /// How B lies in the constants.
    pub(in super::super) packing: Packing,
    pub(in super::super) b: Source,
    /// Zeros of operands of which B is one. The constants of weights are ones then: of every step as
    /// many rows of B as there are.
    pub(in super::super) zeros: Zeros,
    /// Of products at these places the largest leave: how many rows and columns, and bytes of A from one
    /// to the next.
    pub(in super::super) pool: [(usize, usize); 2],
    pub(in super::super) end: End,
    /// Rows of which sums are converted together.
    pub(in super::super) batch: usize,
}

/// A matrix in memory: bytes of a row, rows, bytes from one row to the next.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Matrix {
    pub(in super::super) width: usize,
    pub(in super::super) rows: usize,
    pub(in super::super) pitch: usize,
}

impl Matrix {
    /// Its payload without what threads put into it, for blocks beside each other, of so many rows
    /// and elements a row.
    pub(super) fn payload(self, blocks: usize, rows: usize, width: usize) -> [u32; 16] {
        let mut payload = [0; 16];
        payload[2] = self.width as u32 - 1;
        payload[3] = self.rows as u32 - 1;
        payload[4] = self.pitch as u32 - 1;
        payload[7] = ((blocks - 1) << 16 | (rows - 1) << 8 | (width - 1)) as u32;
        payload
    }
}

impl Shape {
    /// The payloads of A, of B and of the result.
    pub(in super::super) fn payloads(&self, [a, b, c]: [Matrix; 3]) -> Vec<u32> {
        let b = match self.b {
            Source::Constants => b.payload(1, self.packing.loaded() * self.tile.columns, GRF / 4),
            Source::Rows(size) => b.payload(self.beside(), STEP / size, LANES),
            Source::Across => b.payload(1, LANES, STEP / 4),
        };
        let payloads = [
            a.payload(self.depth, self.run, STEP),
            b,
            c.payload(1, 8, self.stored() * GRF / 4 * self.end.size()),
            [0; 16],
        ];
        payloads.concat()
    }

    /// True if there are as many registers as its kernel needs.
    pub(in super::super) fn fits(&self, platform: Platform, grfs: u32) -> bool {
        let mut kernel = Kernel::new(platform, grfs);
        Registers::take(&mut kernel, self);
        kernel.taken() <= grfs
    }

    /// The argument that is the address of the constants, behind operands and result.
    fn constants(&self) -> usize {
        self.end.operands() + usize::from(self.b != Source::Constants) + 1
    }

    /// Column blocks of B that a message loads.
    fn beside(&self) -> usize {
        match self.b {
            Source::Constants => self.tile.columns,
            // A row of blocks beside each other has at most 64 bytes.
            Source::Rows(size) => self.tile.columns.min(GRF / LANES / size),
            Source::Across => 1,
        }
    }

    /// Dwords of the runs of a thread in the constants.
    fn run_dwords(&self) -> usize {
        match self.b {
            Source::Constants => RUN * self.runs(),
            Source::Rows(_) | Source::Across => JOINED_RUN,
        }
    }

    /// Where sums are converted.
    fn places(&self, r: &Registers) -> Places {
        let temporaries = r.operands + 3 * self.tile.columns;
        Places {
            factors: r.operands,
            temporaries: [temporaries, temporaries + self.batch],
            batch: self.batch,
            packed: temporaries + 2 * self.batch,
            columns: self.stored(),
        }
    }

    fn runs(&self) -> usize {
        8 * self.tile.rows / self.run
    }

    /// Column blocks that leave together: a row of them is at most a register.
    fn stored(&self) -> usize {
        self.tile.columns.min(4 / self.end.size())
    }

    /// Registers of a step of A, and of B.
    fn step(&self) -> [usize; 2] {
        [4 * self.tile.rows, self.packing.registers() * self.tile.columns]
    }

    /// Registers in which sums are converted: factors, temporary ones, packed rows.
    fn converted(&self) -> usize {
        let groups = self.tile.columns / self.stored();
        match self.end.stays() {
            true => 0,
            false => 3 * self.tile.columns + 2 * self.batch + groups * 8 * self.tile.rows,
        }
    }
}

/// Dwords of loops over what is pooled: bytes of A, then counters.
const POOL: usize = 7;

/// Registers of a kernel.
struct Registers {
    sums: usize,
    /// The largest of them so far, if the largest leave.
    best: usize,
    /// A, run by run and step by step; then B, step by step. Sums are converted there.
    operands: usize,
    /// Dwords 0 to 3: bytes before the runs of this thread in the constants, its block of columns
    /// over all groups, its bytes among the constants of columns, others; then counters of loops.
    s: usize,
    /// The payloads of A for every run.
    a: Vec<usize>,
    /// The payloads of B for column blocks that are loaded at once.
    b: Vec<usize>,
    /// The payload of the result, and the runs.
    c: usize,
    runs: usize,
    pointer: usize,
    /// Where blocks are converted, and behind that where they are loaded.
    waiting: usize,
    /// Sums of operands alone, and the address of ones.
    alone: Alone,
    ones: usize,
}

impl Registers {
    fn take(k: &mut Kernel, shape: &Shape) -> Registers {
        let [a, b] = shape.step();
        let all = 8 * shape.tile.rows * shape.tile.columns;
        let sums = k.take(all);
        let best = k.take(if is_pool(shape.pool) { all } else { 0 });
        let operands = k.take((shape.depth * (a + b)).max(shape.converted()));
        let [payloads, s, pointer] = [4, 1, 1].map(|count| k.take(count));
        let alone = Alone::take(k, shape.zeros, (shape.tile, shape.depth));
        let waiting = k.take(shape.packing.waiting(shape.depth * shape.tile.columns));
        let ones = k.take(usize::from(alone.has_rows()));
        let mut all = |first: usize, count: usize| {
            let others = k.take(count - 1);
            [first].into_iter().chain(others..others + count - 1).collect()
        };
        Registers {
            sums,
            best,
            operands,
            s,
            a: all(payloads, shape.runs()),
            b: all(payloads + 1, shape.tile.columns / shape.beside()),
            c: payloads + 2,
            runs: payloads + 3,
            pointer,
            waiting,
            alone,
            ones,
        }
    }

    fn b_operand(&self, shape: &Shape, step: usize) -> usize {
        let [a, b] = shape.step();
        self.operands + shape.depth * a + step * b
    }
}

/// The kernel of a product that fits the registers. Its arguments are the addresses of A, of what is
/// added, of the result and of the constants.
pub(in super::super) fn blocks(shape: &Shape, platform: Platform, grfs: u32) -> Written {
    let mut kernel = Kernel::new(platform, grfs);
    let k = &mut kernel;
    let r = Registers::take(k, shape);
    let (s, payloads) = (r.s, r.a[0]);
    let bytes = 4 * shape.run_dwords();
    k.line(format_args!("mul (1|M0) r{s}.0<1>:d r0.1<0;1,0>:d {bytes}:d"));
    k.line(format_args!("mul (1|M0) r{s}.1<1>:d r0.7<0;1,0>:d {}:d", shape.blocks));
    k.line(format_args!("add (1|M0) r{s}.1<1>:d r{s}.1<0;1,0>:d r0.6<0;1,0>:d"));
    k.line(format_args!("mul (1|M0) r{s}.2<1>:d r{s}.1<0;1,0>:d {}:d", shape.tile.columns * GRF));
    constants(k, shape, &r, (shape.map.payloads, None), (payloads, 4 * GRF));
    constants(k, shape, &r, (shape.map.rows_in[0], Some(0)), (r.runs, bytes));
    let own = Sums { first: r.sums, stride: 8 * shape.tile.rows, tile: shape.tile };
    let places = shape.places(&r);
    let product = |k: &mut Kernel| {
        matrices(k, shape, &r);
        begin(k, shape, &r);
        turns(k, shape, &r, 0);
        factors(k, shape, &r);
    };
    if !is_pool(shape.pool) {
        product(k);
        if shape.end.adds() {
            blocks_of(k, shape, &r, (own, places), 1);
        }
        r.alone.finish(k, own);
        convert(k, shape.end, own, places);
        blocks_of(k, shape, &r, (own, places), shape.constants() - 1);
        return kernel.finish();
    }
    let best = Sums { first: r.best, ..own };
    k.line(format_args!("mov (1|M0) r{s}.{POOL}<1>:d 0:d"));
    lowest(k, (r.best, best.rows() * shape.tile.columns));
    let [(rows, down), (columns, right)] = shape.pool;
    k.repeat(rows, (s, POOL + 1), &mut |k: &mut Kernel| {
        k.repeat(columns, (s, POOL + 2), &mut |k: &mut Kernel| {
            product(k);
            finish(k, shape.end, own, places);
            larger(k, own, best);
            k.line(format_args!("add (1|M0) r{s}.{POOL}<1>:d r{s}.{POOL}<0;1,0>:d {right}:d"));
        });
        let moved = down as i64 - (columns * right) as i64;
        k.line(format_args!("add (1|M0) r{s}.{POOL}<1>:d r{s}.{POOL}<0;1,0>:d {moved}:d"));
    });
    pack(k, shape.end, best, places);
    blocks_of(k, shape, &r, (best, places), shape.constants() - 1);
    kernel.finish()
}

/// Loads bytes of the constants, from a place on, and a scalar behind it.
fn constants(
    k: &mut Kernel,
    shape: &Shape,
    r: &Registers,
    (place, scalar): (usize, Option<usize>),
    (to, bytes): (usize, usize),
) {
    let (p, argument) = (r.pointer, shape.constants());
    k.line(format_args!("add (1|M0) r{p}.0<1>:q r1.{argument}<0;1,0>:q {place}:d"));
    if let Some(at) = scalar {
        k.advance(p, 1, Offset::Scalar { register: r.s, at });
    }
    k.load_block(to, bytes, p);
}

/// Puts into the payloads of A and B where the matrices are.
fn matrices(k: &mut Kernel, shape: &Shape, r: &Registers) {
    let (s, first) = (r.s, r.a[0]);
    if is_pool(shape.pool) {
        for payload in r.a.iter().chain(&r.b) {
            k.line(format_args!("mov (2|M0) r{payload}.5<1>:ud 0:ud"));
        }
    }
    for (from, spread) in [(6, shape.spread[0]), (7, shape.spread[1])] {
        if spread > 0 {
            k.line(format_args!("mul (1|M0) r{s}.3<1>:d r0.{from}<0;1,0>:d {spread}:d"));
            k.line(format_args!("add (1|M0) r{first}.5<1>:d r{first}.5<0;1,0>:d r{s}.3<0;1,0>:d"));
        }
    }
    for &payload in &r.a[1..] {
        k.line(format_args!("mov (16|M0) r{payload}.0<1>:ud r{first}.0<1;1,0>:ud"));
    }
    for (run, &payload) in r.a.iter().enumerate() {
        place(k, r, payload, (0, run));
        if is_pool(shape.pool) {
            k.advance(payload, 1, Offset::Scalar { register: s, at: POOL });
        }
    }
    if shape.b != Source::Constants {
        return second_operand(k, shape, r);
    }
    let steps: usize =
        shape.window.iter().map(|&(count, _)| count).product::<usize>() * shape.steps;
    let (b, rows) = (r.b[0], steps * shape.tile.columns * shape.packing.loaded());
    let (weights, argument) = (shape.map.weights, shape.constants());
    k.line(format_args!("add (1|M0) r{b}.0<1>:q r1.{argument}<0;1,0>:q {weights}:d"));
    k.line(format_args!("mul (1|M0) r{b}.6<1>:d r{s}.1<0;1,0>:d {rows}:d"));
}

/// Puts into the payloads of A and B where the matrices of products of two values are.
fn second_operand(k: &mut Kernel, shape: &Shape, r: &Registers) {
    let (s, a, b, runs) = (r.s, r.a[0], r.b[0], r.runs);
    k.line(format_args!("mov (1|M0) r{a}.5<1>:d r{runs}.4<0;1,0>:d"));
    k.line(format_args!("add (1|M0) r{b}.0<1>:q r1.1<0;1,0>:q r{runs}.1<0;1,0>:ud"));
    let tile = shape.tile.columns * LANES;
    k.line(format_args!("mul (1|M0) r{s}.3<1>:d r{s}.1<0;1,0>:d {tile}:d"));
    match shape.b {
        Source::Across => {
            k.line(format_args!("mov (1|M0) r{b}.5<1>:d r{runs}.5<0;1,0>:d"));
            k.line(format_args!("mov (1|M0) r{b}.6<1>:d r{s}.3<0;1,0>:d"));
        }
        Source::Rows(_) | Source::Constants => {
            k.line(format_args!("add (1|M0) r{b}.5<1>:d r{runs}.5<0;1,0>:d r{s}.3<0;1,0>:d"));
        }
    }
    if r.alone.has_rows() {
        let (argument, place) = (shape.constants(), shape.map.weights);
        let ones = r.ones;
        k.line(format_args!("add (1|M0) r{ones}.0<1>:q r1.{argument}<0;1,0>:q {place}:d"));
    }
    r.alone.begin(k);
    let axis = if shape.b == Source::Across { 6 } else { 5 };
    for (at, &payload) in r.b.iter().enumerate().skip(1) {
        let columns = at * shape.beside() * LANES;
        k.line(format_args!("mov (16|M0) r{payload}.0<1>:ud r{b}.0<1;1,0>:ud"));
        k.line(format_args!("add (1|M0) r{payload}.{axis}<1>:d r{b}.{axis}<0;1,0>:d {columns}:d"));
    }
}

/// Puts the place of a run in an argument into a payload; and its rows.
fn place(k: &mut Kernel, r: &Registers, payload: usize, (argument, run): (usize, usize)) {
    let (runs, first) = (r.runs, RUN * run);
    let (start, rows) = (first + argument, first + RUN - 1);
    k.line(format_args!(
        "add (1|M0) r{payload}.0<1>:q r1.{argument}<0;1,0>:q r{runs}.{start}<0;1,0>:ud"
    ));
    k.line(format_args!("mov (1|M0) r{payload}.3<1>:ud r{runs}.{rows}<0;1,0>:ud"));
}

/// Sums begin with the addends of their columns.
fn begin(k: &mut Kernel, shape: &Shape, r: &Registers) {
    let Tile { rows, columns } = shape.tile;
    let addends = r.b_operand(shape, 0);
    constants(k, shape, r, (shape.map.addends, Some(2)), (addends, columns * GRF));
    for (column, row) in (0..columns).flat_map(|column| (0..8 * rows).map(move |row| (column, row)))
    {
        let (to, from) = (r.sums + column * 8 * rows + row, addends + column);
        k.line(format_args!("mov (16|M0) r{to}.0<1>:d r{from}.0<1;1,0>:d"));
    }
}

/// The loops over the window, from one of them inwards, and over steps.
fn turns(k: &mut Kernel, shape: &Shape, r: &Registers, level: usize) {
    let counter = (r.s, 4 + level);
    let Some(&(count, stride)) = shape.window.get(level) else {
        k.repeat(shape.steps / shape.depth, counter, &mut |k: &mut Kernel| turn(k, shape, r));
        if shape.window.iter().any(|&(count, _)| count > 1) {
            let back = -((shape.steps * STEP) as i64);
            for payload in &r.a {
                k.line(format_args!("add (1|M0) r{payload}.5<1>:d r{payload}.5<0;1,0>:d {back}:d"));
            }
        }
        return;
    };
    k.repeat(count, counter, &mut |k: &mut Kernel| {
        turns(k, shape, r, level + 1);
        let moved = shape.window.get(level + 1).map_or(0, |&(count, stride)| match count {
            1 => 0,
            _ => (count * stride) as i64,
        });
        for &payload in r.a.iter().filter(|_| count > 1) {
            k.advance(payload, 1, Offset::Bytes(stride as i64 - moved));
        }
    });
}

/// Loads A and B of some steps and multiplies them.
fn turn(k: &mut Kernel, shape: &Shape, r: &Registers) {
    let Tile { rows, columns } = shape.tile;
    let run_registers = shape.run * STEP / GRF;
    for (run, payload) in r.a.iter().enumerate() {
        let count = run_registers * shape.depth;
        let to = r.operands + run * count;
        k.load_matrix((to, count), *payload, (1, Order::Rows));
    }
    let registers = shape.packing.loaded() * shape.beside();
    // What a message loads, and how far a payload moves along x or y from one step to the next.
    let (kind, axis, moved) = match shape.b {
        Source::Constants => ((4, Order::Rows), 6, registers),
        Source::Rows(4) => ((4, Order::Rows), 6, STEP / 4),
        Source::Rows(size) => ((size, Order::Vnni), 6, STEP / size),
        Source::Across => ((4, Order::Transposed), 5, STEP / 4),
    };
    for step in 0..shape.depth {
        for (at, b) in r.b.iter().enumerate() {
            let to = match shape.packing {
                Packing::Direct(_) => r.b_operand(shape, step) + at * registers,
                Packing::Narrow(..) => r.waiting + shape.packing.free() + step * registers,
            };
            k.load_matrix((to, registers), *b, kind);
            k.line(format_args!("add (1|M0) r{b}.{axis}<1>:d r{b}.{axis}<0;1,0>:d {moved}:w"));
        }
    }
    for step in (0..shape.depth).filter(|_| r.alone.has_rows()) {
        k.load_block(r.alone.block + LANES / 2 * step, ONES_BYTES, r.ones);
        k.advance(r.ones, 1, Offset::Bytes(ONES_BYTES as i64));
    }
    for payload in &r.a {
        let bytes = shape.depth * STEP;
        k.line(format_args!("add (1|M0) r{payload}.5<1>:d r{payload}.5<0;1,0>:d {bytes}:w"));
    }
    let [sum, weights, kind] = shape.types;
    for (step, column) in (0..shape.depth).flat_map(|step| (0..columns).map(move |c| (step, c))) {
        let from =
            r.waiting + shape.packing.free() + (step * columns + column) * shape.packing.loaded();
        let to = r.b_operand(shape, step) + shape.packing.registers() * column;
        shape.packing.unpack(k, (from, to), r.waiting);
    }
    for step in 0..shape.depth {
        let a_of = |row: usize| {
            let (run, within) = (8 * row / shape.run, 8 * row % shape.run);
            r.operands + (run * shape.depth + step) * run_registers + within * STEP / GRF
        };
        let b_of = |column: usize| r.b_operand(shape, step) + shape.packing.registers() * column;
        for row in 0..rows {
            r.alone.add_rows(k, (row, a_of(row)), step, kind);
        }
        for column in 0..columns {
            r.alone.add_columns(k, (column, b_of(column)), weights);
        }
        for (column, row) in (0..columns).flat_map(|column| (0..rows).map(move |row| (column, row)))
        {
            let (d, a, b) = (r.sums + 8 * (column * rows + row), a_of(row), b_of(column));
            k.line(format_args!(
                "dpas.8x8 (16|M0) r{d}:{sum} r{d}:{sum} r{b}:{weights} r{a}.0:{kind}"
            ));
        }
    }
}

/// Loads the factors of the columns, and finds where those are in rows of the result.
fn factors(k: &mut Kernel, shape: &Shape, r: &Registers) {
    let Tile { columns, .. } = shape.tile;
    for (at, place) in shape.map.factors.into_iter().enumerate() {
        if shape.end.factors()[at] {
            let to = r.operands + at * columns;
            constants(k, shape, r, (place, Some(2)), (to, columns * GRF));
        }
    }
    let (s, bytes) = (r.s, GRF / 4 * shape.end.size());
    k.line(format_args!("mul (1|M0) r{s}.3<1>:d r{s}.1<0;1,0>:d {}:d", columns * bytes));
    if shape.b != Source::Constants {
        let runs = r.runs;
        k.line(format_args!("add (1|M0) r{s}.3<1>:d r{s}.3<0;1,0>:d r{runs}.6<0;1,0>:d"));
    }
}

/// Loads packed rows of what is added, argument 1, or stores those of the result, the last one.
fn blocks_of(
    k: &mut Kernel,
    shape: &Shape,
    r: &Registers,
    (sums, places): (Sums, Places),
    argument: usize,
) {
    let (c, s, columns, together) = (r.c, r.s, shape.tile.columns, shape.stored());
    let width = together * GRF / 4 * shape.end.size();
    let is_result = argument + 1 == shape.constants();
    for run in 0..shape.runs() {
        place(k, r, c, (argument, run));
        for block in 0..shape.run / 8 {
            let row = run * shape.run + 8 * block;
            if shape.run > 8 || shape.end.adds() {
                k.line(format_args!("mov (1|M0) r{c}.6<1>:d {}:d", 8 * block));
            }
            for group in 0..columns / together {
                let from = match shape.end.stays() {
                    true => sums.at(group, row),
                    false => {
                        let packed = sums.packed(width, k.platform);
                        places.packed + group * packed + row * width / GRF
                    }
                };
                k.line(format_args!("add (1|M0) r{c}.5<1>:d r{s}.3<0;1,0>:d {}:w", group * width));
                let count = (8 * width).div_ceil(GRF);
                match is_result {
                    true => k.store_matrix((from, count), c),
                    false => k.load_matrix((from, count), c, (1, Order::Rows)),
                }
            }
        }
    }
}
