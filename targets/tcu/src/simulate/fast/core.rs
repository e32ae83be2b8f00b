//! The machine's cells, and the loop over a prepared program.

use super::format::Format;
use super::narrow::Packed;
use super::op::{Layout, Op, Placed, Run};
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
    fn execute_by<const K: usize>(&mut self, program: &[Placed]) {
        for placed in program {
            let mut flow = Flow::default();
            match placed.op {
                Op::Products { from, to, count, add, fresh } => {
                    if fresh {
                        let rows = self.layout.lanes * (self.layout.lanes + 1);
                        let weights = &self.cells[self.layout.weights..][..rows];
                        self.format.pack::<K>(&mut self.packed, weights);
                    }
                    self.products::<K>(from, to, count, add, &mut flow);
                }
                Op::Move { from, to, count, add: false } => self.copy::<K>(from, to, count),
                Op::Move { from, to, count, add: true } => {
                    for i in 0..count as usize {
                        let [from, to] = [from, to].map(|run| run.at(i) as u32);
                        self.write_acc::<K>(from, to, super::op::Write::Add, &mut flow);
                    }
                }
                Op::Shift { rows } => self.shift(rows as usize),
                Op::Zero { to, count } => {
                    let size = count as usize * self.layout.lanes;
                    self.cells[to as usize..][..size].fill(F::Cell::default());
                }
                Op::Simd { op, left, right, result, write, mode } => {
                    self.simd::<K>(op, [left, right, result], &mut flow);
                    self.write_acc::<K>(result, write, mode, &mut flow);
                }
                Op::Lookup { source, result, registers, write, mode } => {
                    self.lookup(source, result, registers, &mut flow);
                    self.write_acc::<K>(result, write, mode, &mut flow);
                }
            }
            if !flow.is_zero() {
                self.flows.push((placed.instruction as usize, flow));
            }
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

    #[inline(always)]
    fn products<const K: usize>(
        &mut self,
        from: Run,
        to: Run,
        count: u32,
        accumulate: bool,
        flow: &mut Flow,
    ) {
        let format = self.format;
        let Layout { lanes, local, weights, array, .. } = self.layout;
        let size = lanes * (lanes + 1);
        let is_direct = !accumulate && to.step as usize == lanes;
        for first in (0..count as usize).step_by(BLOCK) {
            let vectors = BLOCK.min(count as usize - first);
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
            format.products(&mut Products {
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
                let (whole, rest) = sums.split_at_mut(sums.len() / WIDE * WIDE);
                let (values, last) = self.y[..vectors * lanes].split_at(whole.len());
                format.add_to::<WIDE>(whole, values, flow);
                format.add_to::<K>(rest, last, flow);
            } else if !is_direct {
                for (i, y) in self.y.chunks_exact(lanes).take(vectors).enumerate() {
                    let sums = &mut acc[to.at(first + i)..][..lanes];
                    match accumulate {
                        true => format.add_to::<K>(sums, y, flow),
                        false => sums.copy_from_slice(y),
                    }
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
