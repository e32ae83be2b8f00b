//! Which accumulators the temps and constants of a layer use.

use super::demand::{inputs, output};
use crate::compile::heap::Heap;
use crate::compile::hir::{Binary, ConstId, Layer, Network, Op, Operand, Pooling, Unary};

/// Constants that the operations of a layer need in accumulators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Constants {
    /// Scalars that fill a vector.
    pub(crate) splats: Vec<i32>,
    /// Constants of one row: a vector for every block of channels.
    pub(crate) rows: Vec<ConstId>,
    /// An operation reads its second operand from accumulators that hold nothing else.
    pub(crate) scratch: bool,
}

impl Constants {
    /// The constants of a layer.
    pub(crate) fn new(layer: &Layer, network: &Network) -> Constants {
        let mut constants = Constants::default();
        for op in &layer.ops {
            constants.of(op, network);
        }
        constants
    }

    fn of(&mut self, op: &Op, network: &Network) {
        match op {
            Op::Unary { op: Unary::LeakyRelu { alpha }, .. } => self.splat(*alpha),
            Op::Unary { op: Unary::LeakySum { factor }, .. } => self.splat(*factor),
            Op::Unary { op: Unary::Clip { low, high }, .. } => {
                self.splat(*low);
                self.splat(*high);
            }
            Op::Pool { kind: Pooling::Average { multipliers }, .. } => {
                multipliers.iter().for_each(|&multiplier| self.splat(multiplier));
            }
            Op::Interpolate { weights, .. } => weights.iter().for_each(|&w| self.splat(w)),
            Op::Norm { scale, offset, .. } => {
                self.row(*scale);
                self.row(*offset);
            }
            Op::Binary { op, other, .. } => match other {
                Operand::Const(id) if network.consts[id.0 as usize].rows == 1 => self.row(*id),
                Operand::Temp(_) => {}
                Operand::Const(_) | Operand::Vars(_) => self.scratch |= *op != Binary::Add,
            },
            _ => {}
        }
    }

    /// Zero needs no constant.
    fn splat(&mut self, value: i32) {
        if value != 0 && !self.splats.contains(&value) {
            self.splats.push(value);
        }
    }

    fn row(&mut self, id: ConstId) {
        if !self.rows.contains(&id) {
            self.rows.push(id);
        }
    }
}

/// Accumulators of a layer.
#[derive(Clone, Debug)]
pub(crate) struct Accumulators {
    /// First accumulator of every temp: block `b` of a group starts `b * positions` behind it.
    pub(crate) temps: Vec<u64>,
    /// First accumulator of the scalars.
    pub(crate) splats: u64,
    /// First accumulator of the rows: row `r` of block `b` is `r * blocks + b` behind it.
    pub(crate) rows: u64,
    /// Accumulators for one block of a second operand.
    pub(crate) scratch: u64,
}

impl Accumulators {
    /// The same behind so many others.
    pub(crate) fn behind(mut self, others: u64) -> Accumulators {
        let own = [&mut self.splats, &mut self.rows, &mut self.scratch];
        self.temps.iter_mut().chain(own).for_each(|first| *first += others);
        self
    }
}

/// Vectors that a leaky ReLU computes at a time when it adds to its operands. What it adds is made of
/// what lies in as many accumulators before them.
pub(crate) const BATCH: u64 = 64;

/// True for an operation whose result may replace its operand, when both have the same positions.
fn in_place(op: &Op) -> bool {
    matches!(op, Op::Unary { .. } | Op::Norm { .. } | Op::Lookup { .. } | Op::Binary { .. })
}

/// Accumulators of a temp: those that it was given, and the first that holds data.
#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    start: u64,
    length: u64,
    base: u64,
}

/// Places `group` blocks of temps with so many positions, and rows for `row_blocks` blocks; `None`
/// when they do not fit in so many accumulators.
pub(crate) fn place(
    layer: &Layer,
    constants: &Constants,
    counts: &[u32],
    group: u32,
    row_blocks: u32,
    depth: u64,
) -> Option<Accumulators> {
    let mut heap = Heap::new(depth);
    let splats = heap.take(constants.splats.len() as u64)?;
    let rows = heap.take(constants.rows.len() as u64 * u64::from(row_blocks))?;
    let most = counts.iter().copied().max().unwrap_or(0);
    let scratch = heap.take(if constants.scratch { most.into() } else { 0 })?;
    let last_use = last_uses(layer);
    // What lies before a temp whose last reader adds to it.
    let before = |temp: usize, size: u64| match layer.ops.get(last_use[temp]) {
        Some(Op::Unary { op: Unary::LeakySum { .. }, .. }) => size.min(BATCH),
        _ => 0,
    };
    let mut extents = vec![Extent::default(); layer.temps.len()];
    let mut given = vec![false; layer.temps.len()];
    for (index, op) in layer.ops.iter().enumerate() {
        let give = |given: &mut Vec<bool>, heap: &mut Heap, extents: &[Extent]| {
            free_dead(op, index, &last_use, given, |temp| {
                heap.give(extents[temp].start, extents[temp].length);
            });
        };
        let Some(output) = output(op) else {
            give(&mut given, &mut heap, &extents);
            continue;
        };
        let output = output.0 as usize;
        let first = inputs(op).next().map(|temp| temp.0 as usize);
        let size = u64::from(counts[output]) * u64::from(group);
        let more = before(output, size);
        match first {
            Some(first)
                if in_place(op)
                    && last_use[first] == index
                    && !given[first]
                    && counts[first] == counts[output]
                    && more == 0 =>
            {
                given[first] = true;
                extents[output] = extents[first];
            }
            _ => {
                let start = heap.take(size + more)?;
                extents[output] = Extent { start, length: size + more, base: start + more };
            }
        }
        give(&mut given, &mut heap, &extents);
    }
    let temps = extents.iter().map(|extent| extent.base).collect();
    Some(Accumulators { temps, splats, rows, scratch })
}

fn free_dead(
    op: &Op,
    index: usize,
    last_use: &[usize],
    given: &mut [bool],
    mut give: impl FnMut(usize),
) {
    for temp in inputs(op).map(|temp| temp.0 as usize) {
        if last_use[temp] == index && !given[temp] {
            given[temp] = true;
            give(temp);
        }
    }
}

/// The last operation that reads each temp.
pub(crate) fn last_uses(layer: &Layer) -> Vec<usize> {
    let mut last = vec![usize::MAX; layer.temps.len()];
    for (index, op) in layer.ops.iter().enumerate() {
        for temp in inputs(op) {
            last[temp.0 as usize] = index;
        }
    }
    last
}
