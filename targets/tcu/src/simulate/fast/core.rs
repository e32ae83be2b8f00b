//! The machine's cells, and the loop over a prepared program.

use super::format::Format;
use super::narrow::Packed;
use super::op::{Layout, Op, Placed, Run, Write};
use super::products::Products;
use crate::simulate::Flow;
use quincunx_num::{Level, Loop};

/// Lanes that are added at once where many vectors follow one another.
const WIDE: usize = 32;

/// Vectors that are multiplied together when they do not lie side by side: whole tiles.
const BLOCK: usize = 256;

/// A machine of any format.
pub(super) trait Machine: Send {
    /// Zeros in the cells before `end`, and no saturation.
    fn reset(&mut self, end: usize);
    fn read(&self, at: usize, out: &mut [i32]);
    fn write(&mut self, at: usize, scalars: &[i32]);
    fn run(&mut self, program: &[Placed]);
    /// Instructions whose results saturated, in order, and how often.
    fn flows(&self) -> &[(usize, Flow)];
}

/// A machine of a format.
pub(super) struct Core<F: Format> {
    pub(super) format: F,
    pub(super) cells: Vec<F::Cell>,
    pub(super) layout: Layout,
    packed: Packed,
    level: Level,
    /// Vectors that do not lie side by side, and sums on their way to accumulators.
    x: Vec<F::Cell>,
    y: Vec<F::Cell>,
    flows: Vec<(usize, Flow)>,
}

impl<F: Format> Core<F> {
    pub(super) fn new(format: F, layout: Layout, level: Level) -> Core<F> {
        let lanes = layout.lanes;
        Core {
            format,
            cells: vec![F::Cell::default(); layout.end],
            packed: Packed::new(lanes, level),
            level,
            x: vec![F::Cell::default(); BLOCK * lanes],
            y: vec![F::Cell::default(); BLOCK * lanes],
            flows: Vec::new(),
            layout,
        }
    }

    /// The loop with chunks that divide the vectors.
    #[inline(always)]
    fn execute(&mut self, program: &[Placed]) {
        match self.layout.lanes {
            lanes if lanes.is_multiple_of(8) => self.execute_by::<8>(program),
            lanes if lanes.is_multiple_of(4) => self.execute_by::<4>(program),
            _ => self.execute_by::<1>(program),
        }
    }

    #[inline(always)]
    fn execute_by<const K: usize>(&mut self, mut program: &[Placed]) {
        while !program.is_empty() {
            let (batch, rest) = program.split_at(batch(program, self.layout.lanes));
            program = rest;
            let placed = batch[batch.len() - 1];
            let mut flow = Flow::default();
            match placed.op {
                Op::Products { .. } => self.products::<K>(batch),
                Op::Move { from, to, count, add: false } => self.copy::<K>(from, to, count),
                Op::Move { from, to, count, add: true } => {
                    for i in 0..count as usize {
                        let [from, to] = [from, to].map(|run| run.at(i) as u32);
                        self.write_acc::<K>(from, to, Write::Add, &mut flow);
                    }
                }
                Op::Shift { rows } => self.shift(rows as usize),
                Op::Zero { to, count } => {
                    let size = count as usize * self.layout.lanes;
                    self.cells[to as usize..][..size].fill(F::Cell::default());
                }
                Op::Simd { op, result, write, mode, .. } => {
                    self.simd::<K>(op, batch);
                    self.write_acc::<K>(result, write, mode, &mut flow);
                }
                Op::Lookup { source, result, registers, write, mode } => {
                    self.lookup(source, result, registers, &mut flow);
                    self.write_acc::<K>(result, write, mode, &mut flow);
                }
            }
            self.note(placed, flow);
        }
    }

    /// Notes what saturated in an instruction, or a part of one.
    #[inline(always)]
    pub(super) fn note(&mut self, placed: Placed, flow: Flow) {
        if flow.is_zero() {
            return;
        }
        let instruction = placed.instruction as usize;
        match self.flows.last_mut() {
            Some((last, known)) if *last == instruction => {
                known.over += flow.over;
                known.under += flow.under;
            }
            _ => self.flows.push((instruction, flow)),
        }
    }

    #[inline(always)]
    fn copy<const K: usize>(&mut self, from: Run, to: Run, count: u32) {
        let lanes = self.layout.lanes;
        if from.step as usize == lanes && to.step as usize == lanes {
            let first = from.base as usize;
            self.cells.copy_within(first..first + count as usize * lanes, to.base as usize);
            return;
        }
        for i in 0..count as usize {
            let (from, to) = (from.at(i), to.at(i));
            for lane in (0..lanes).step_by(K) {
                let mut part = [F::Cell::default(); K];
                part.copy_from_slice(&self.cells[from + lane..][..K]);
                self.cells[to + lane..][..K].copy_from_slice(&part);
            }
        }
    }

    #[inline(always)]
    fn shift(&mut self, rows: usize) {
        let Layout { lanes, weights, .. } = self.layout;
        let kept = (lanes + 1 - rows) * lanes;
        self.cells.copy_within(weights..weights + kept, weights + rows * lanes);
    }

    /// MatMuls with the same weights.
    #[inline(always)]
    fn products<const K: usize>(&mut self, batch: &[Placed]) {
        let Layout { lanes, weights, .. } = self.layout;
        if let Op::Products { fresh: true, .. } = batch[0].op {
            let weights = &self.cells[weights..][..lanes * (lanes + 1)];
            self.format.pack::<K>(&mut self.packed, weights);
        }
        if batch.len() > 1 && self.together::<K>(batch) {
            return;
        }
        for placed in batch {
            let Op::Products { from, to, count, add, .. } = placed.op else {
                unreachable!("a batch is of one kind")
            };
            let mut flow = Flow::default();
            self.product::<K>(from, to, count as usize, add, &mut flow);
            self.note(*placed, flow);
        }
    }

    /// MatMuls whose vectors are multiplied together. False when a product saturates, of which it
    /// is not known in which one; then nothing has changed.
    #[inline(always)]
    fn together<const K: usize>(&mut self, batch: &[Placed]) -> bool {
        let format = self.format;
        let Layout { lanes, weights, array, .. } = self.layout;
        let mut size = 0;
        for placed in batch {
            let Op::Products { from, count, .. } = placed.op else {
                unreachable!("a batch is of one kind")
            };
            let part = count as usize * lanes;
            self.x[size..][..part].copy_from_slice(&self.cells[from.base as usize..][..part]);
            size += part;
        }
        let mut flow = Flow::default();
        format.products::<K>(&mut Products {
            lanes,
            vectors: size / lanes,
            x: &self.x[..size],
            weights: &self.cells[weights..][..lanes * (lanes + 1)],
            packed: &self.packed,
            y: &mut self.y[..size],
            flow: &mut flow,
        });
        if !flow.is_zero() {
            return false;
        }
        self.cells[array..][..lanes].copy_from_slice(&self.y[size - lanes..size]);
        let mut first = 0;
        for placed in batch {
            let Op::Products { to, count, add, .. } = placed.op else {
                unreachable!("a batch is of one kind")
            };
            let part = count as usize * lanes;
            let (sums, values) = (to.base as usize, &self.y[first..][..part]);
            put::<F, K>(format, &mut self.cells[sums..][..part], values, add, &mut flow);
            self.note(*placed, std::mem::take(&mut flow));
            first += part;
        }
        true
    }

    #[inline(always)]
    fn product<const K: usize>(
        &mut self,
        from: Run,
        to: Run,
        count: usize,
        accumulate: bool,
        flow: &mut Flow,
    ) {
        let format = self.format;
        let Layout { lanes, local, weights, array, .. } = self.layout;
        let size = lanes * (lanes + 1);
        let is_direct = !accumulate && to.step as usize == lanes;
        for first in (0..count).step_by(BLOCK) {
            let vectors = BLOCK.min(count - first);
            let (acc, rest) = self.cells.split_at_mut(local);
            let x = match from.step as usize == lanes {
                true => &rest[from.at(first) - local..][..vectors * lanes],
                false => {
                    for (i, x) in self.x.chunks_exact_mut(lanes).take(vectors).enumerate() {
                        x.copy_from_slice(&rest[from.at(first + i) - local..][..lanes]);
                    }
                    &self.x[..vectors * lanes]
                }
            };
            let y = match is_direct {
                true => &mut acc[to.at(first)..][..vectors * lanes],
                false => &mut self.y[..vectors * lanes],
            };
            let weights = &rest[weights - local..][..size];
            format.products::<K>(&mut Products {
                lanes,
                vectors,
                x,
                weights,
                packed: &self.packed,
                y,
                flow,
            });
            let last = (vectors - 1) * lanes;
            if accumulate && to.step as usize == lanes {
                let sums = &mut acc[to.at(first)..][..vectors * lanes];
                put::<F, K>(format, sums, &self.y[..vectors * lanes], true, flow);
            } else if !is_direct {
                for (i, y) in self.y.chunks_exact(lanes).take(vectors).enumerate() {
                    let sums = &mut acc[to.at(first + i)..][..lanes];
                    put::<F, K>(format, sums, y, accumulate, flow);
                }
            }
            let y = match is_direct {
                true => &acc[to.at(first) + last..][..lanes],
                false => &self.y[last..][..lanes],
            };
            rest[array - local..][..lanes].copy_from_slice(y);
        }
    }
}

/// How many operations at the start of a program are done at once: those of SIMD that compute the
/// same, and MatMuls with the same weights.
fn batch(program: &[Placed], lanes: usize) -> usize {
    let is_dense = |run: Run| run.step as usize == lanes;
    let first = program[0].op;
    let mut vectors = 0;
    let mut is_like_first = |index: usize, op: Op| match (first, op) {
        (
            Op::Simd { op: a, mode: Write::Nothing, .. },
            Op::Simd { op, mode: Write::Nothing, .. },
        ) => a == op,
        (Op::Products { .. }, Op::Products { from, to, count, fresh, .. }) => {
            vectors += count as usize;
            is_dense(from) && is_dense(to) && vectors <= BLOCK && !(fresh && index > 0)
        }
        _ => false,
    };
    let alike =
        program.iter().enumerate().take_while(|(index, placed)| is_like_first(*index, placed.op));
    alike.count().max(1)
}

/// Writes sums to accumulators that follow one another, or adds them to what is there.
#[inline(always)]
fn put<F: Format, const K: usize>(
    format: F,
    to: &mut [F::Cell],
    sums: &[F::Cell],
    add: bool,
    flow: &mut Flow,
) {
    if !add {
        to.copy_from_slice(sums);
        return;
    }
    let (whole, rest) = to.split_at_mut(to.len() / WIDE * WIDE);
    let (values, last) = sums.split_at(whole.len());
    format.add_to::<WIDE>(whole, values, flow);
    format.add_to::<K>(rest, last, flow);
}

impl Run {
    fn at(self, index: usize) -> usize {
        self.base as usize + index * self.step as usize
    }
}

impl<F: Format> Machine for Core<F> {
    fn reset(&mut self, end: usize) {
        self.cells[..end].fill(F::Cell::default());
        self.flows.clear();
    }

    fn read(&self, at: usize, out: &mut [i32]) {
        for (scalar, &cell) in out.iter_mut().zip(&self.cells[at..]) {
            *scalar = cell.into();
        }
    }

    fn write(&mut self, at: usize, scalars: &[i32]) {
        for (cell, &scalar) in self.cells[at..].iter_mut().zip(scalars) {
            *cell = F::cell(scalar);
        }
    }

    fn run(&mut self, program: &[Placed]) {
        // The packed products have their own forms for longer vectors.
        self.level.min(Level::Avx2).run(Execute(self, program));
    }

    fn flows(&self) -> &[(usize, Flow)] {
        &self.flows
    }
}

/// The loop over a program, compiled for vector instructions.
struct Execute<'a, F: Format>(&'a mut Core<F>, &'a [Placed]);

impl<F: Format> Loop for Execute<'_, F> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        self.0.execute(self.1);
    }
}
