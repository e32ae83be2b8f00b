//! The same machine, prepared and vectorised: equal to the executor in every byte, scalar register
//! and count.
//!
//! A program is looked through once, in the order in which its lines execute: the region table is
//! known at every line, so addresses in rings become bytes of L2 where an access does not wrap, and
//! the blocks of weights that a convolution finds in the buffer are known to be those of an earlier
//! one or not. Lines without a fast form, and those that fail, are left to the executor.

mod codes;
mod conv;
mod finish;
mod moves;
mod pack;
mod place;
mod pool;
mod vector;

use super::exec::Executor;
use super::state::State;
use crate::replay::Node;
use crate::work::{WeightDest, Work};
use pack::{Block, Blocks, Pack};
use place::Axes;
use quincunx_diag::Result;
use quincunx_num::Level;

/// A line, ready to run.
enum Step {
    /// What the executor does.
    Line,
    Copy(Box<moves::Copy>),
    Weights(Box<moves::Weights>),
    Reorder(Box<moves::Reorder>),
    Conv(Box<conv::Conv>),
    Vector(Box<vector::Vector>),
}

/// Memory that lines use one after the other.
#[derive(Default)]
struct Scratch {
    /// Rows of the left-hand side of a product.
    gathered: Vec<u8>,
    /// Sums of some output positions.
    sums: Vec<i32>,
    /// Values of some output positions, of a second tensor there, and of one position.
    values: [Vec<f32>; 3],
    /// A row of DRAM.
    row: Vec<u8>,
}

/// How many lines have a fast form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Lines that move or compute.
    pub lines: usize,
    /// Of those, lines with a fast form.
    pub fast: usize,
    /// Convolutions that find weights packed.
    pub reused: usize,
}

/// Programs of all cores, prepared.
pub struct Fast {
    executor: Executor,
    /// One for each line of the executor's order.
    steps: Vec<Step>,
    packs: Vec<Option<Pack>>,
    scratch: Scratch,
    level: Level,
    coverage: Coverage,
}

impl Fast {
    /// Prepares programs for the fastest instructions of this processor.
    pub fn new(executor: Executor) -> Fast {
        Fast::for_level(executor, Level::best())
    }

    /// Prepares programs for certain instructions.
    ///
    /// # Panics
    /// When this processor does not have the instructions.
    pub fn for_level(executor: Executor, level: Level) -> Fast {
        assert!(level.is_available(), "this processor lacks {level}");
        // Only its region tables are used.
        let mut state = executor.state();
        let mut known = Known { blocks: Blocks::default(), axes: Axes::new(OFFSETS) };
        let mut coverage = Coverage::default();
        let mut steps = Vec::with_capacity(executor.order().len());
        for &node in executor.order() {
            let step = prepare(&executor, node, &mut state, &mut known);
            if let Ok(work) = &executor.work()[node.core][node.line] {
                let counts =
                    !matches!(work, Work::Begin | Work::End | Work::Configure | Work::Regions(_));
                coverage.lines += usize::from(counts);
            }
            coverage.fast += usize::from(!matches!(step, Step::Line));
            coverage.reused += usize::from(matches!(&step, Step::Conv(conv) if conv.reuses()));
            steps.push(step);
        }
        let packs = std::iter::repeat_with(|| None).take(known.blocks.slots()).collect();
        Fast { executor, steps, packs, scratch: Scratch::default(), level, coverage }
    }

    /// The executor of the same programs.
    pub fn executor(&self) -> &Executor {
        &self.executor
    }

    /// How many lines have a fast form.
    pub fn coverage(&self) -> Coverage {
        self.coverage
    }

    /// Memories for a run.
    pub fn state(&self) -> State {
        self.executor.state()
    }

    /// Runs the programs.
    ///
    /// # Errors
    /// As [`Executor::run`].
    pub fn run(&mut self, state: &mut State) -> Result<()> {
        self.run_observed(state, &mut |_, _| ())
    }

    /// Runs the programs and calls `after` behind each line.
    ///
    /// # Errors
    /// As [`Executor::run`].
    pub fn run_observed(
        &mut self,
        state: &mut State,
        after: &mut dyn FnMut(Node, &State),
    ) -> Result<()> {
        for (&node, step) in self.executor.order().iter().zip(&self.steps) {
            match step {
                Step::Line => self.executor.line(node, state)?,
                Step::Copy(copy) => copy
                    .run(state, &mut self.scratch)
                    .map_err(|problem| self.executor.located(node, problem))?,
                Step::Weights(weights) => weights.run(state),
                Step::Reorder(reorder) => reorder.run(state),
                Step::Conv(conv) => {
                    conv.run(state, &mut self.packs, &mut self.scratch, self.level);
                }
                Step::Vector(vector) => vector.run(state, &mut self.scratch, self.level),
            }
            after(node, state);
        }
        Ok(())
    }
}

/// Offsets of rows and columns that a prepared program may hold: 64 MiB, and at most twice that for
/// the pieces between them.
const OFFSETS: usize = 1 << 23;

/// What lines have in common with those before them.
struct Known {
    blocks: Blocks,
    axes: Axes,
}

/// The fast form of a line, if it has one; `state` has the region tables at that line.
fn prepare(executor: &Executor, node: Node, state: &mut State, known: &mut Known) -> Step {
    let Ok(work) = &executor.work()[node.core][node.line] else { return Step::Line };
    let (core, unit) = (node.core, executor.arch().wl0_unit);
    if let Work::Weights(weights) = work
        && let WeightDest::Wl0(at) = weights.dest
    {
        known.blocks.overwrite(core, pack::written(weights, at, unit));
    }
    if executor.check_lengths(core, work, state).is_err() {
        return Step::Line;
    }
    let step = match work {
        Work::Regions(regions) => {
            state.cores[core].regions.set(regions);
            None
        }
        Work::Copy(copy) => moves::Copy::prepare(core, copy, state).map(Step::from),
        Work::Weights(weights) => {
            moves::Weights::prepare(core, weights, unit, state).map(Step::from)
        }
        Work::Reorder(reorder) => moves::Reorder::prepare(core, reorder, state).map(Step::from),
        Work::Conv(conv) if !executor.settings().float_accumulation => {
            let block = Block::of(core, conv, unit);
            conv::Conv::prepare(core, conv, block, (&mut known.blocks, &mut known.axes), state)
                .map(Step::from)
        }
        Work::Vector(vector) => {
            vector::Vector::prepare(core, vector, &mut known.axes, state).map(Step::from)
        }
        Work::Begin | Work::End | Work::Configure | Work::Remote(_) | Work::Conv(_) => None,
    };
    step.unwrap_or(Step::Line)
}

macro_rules! steps {
    ($($variant:ident($type:ty))*) => {$(
        impl From<$type> for Step {
            fn from(step: $type) -> Step {
                Step::$variant(Box::new(step))
            }
        }
    )*};
}

steps! {
    Copy(moves::Copy)
    Weights(moves::Weights)
    Reorder(moves::Reorder)
    Conv(conv::Conv)
    Vector(vector::Vector)
}
