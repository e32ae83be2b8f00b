//! On which grid the numbers of a value lie.

#![deny(clippy::wildcard_enum_match_arm)]

use crate::{
    Graph, Node, Op, Pad, PadMode, Pool, PoolKind, Quantiser, Reduce, ReduceKind, ValueId,
};

/// What an operator does to the grid of its first operand.
enum Step<'a> {
    /// Its results lie on this grid.
    Grid(&'a Quantiser),
    /// Every element stays where it is.
    Same,
    /// Elements move or are selected; parameters per channel or element would have to move along.
    Moved,
    /// As [`Step::Moved`], with zeros between.
    MovedWithZeros,
    /// Elements of all operands.
    Joined,
    /// New numbers.
    Computed,
}

impl Graph {
    /// The quantiser whose grid a value lies on: that of the constant or the [`Op::Quantise`]
    /// node it comes from, looking through operators that only move or select elements. `None`
    /// when the value is not quantised, or when a parameter that varies per channel or element
    /// would have to be moved along.
    pub fn grid(&self, value: ValueId) -> Option<&Quantiser> {
        // Every path to an origin is shorter; joins of joins could be walked without end.
        let mut steps = self.values().len();
        self.grid_within(value, &mut steps)
    }

    fn grid_within(&self, mut value: ValueId, steps: &mut usize) -> Option<&Quantiser> {
        let (mut moved, mut zeros) = (false, false);
        let quantiser = loop {
            *steps = steps.checked_sub(1)?;
            if let Some(constant) = &self[value].constant {
                break constant.quantiser.as_ref()?;
            }
            let node = &self[self[value].producer?];
            match step(&node.op) {
                Step::Grid(quantiser) => break quantiser,
                Step::Joined => {
                    moved = true;
                    break self.joined_grid(node, steps)?;
                }
                Step::Same => {}
                Step::Moved => moved = true,
                Step::MovedWithZeros => (moved, zeros) = (true, true),
                Step::Computed => return None,
            }
            value = node.input(0)?;
        };
        let fits = (!moved || quantiser.is_uniform()) && (!zeros || has_zero(quantiser));
        fits.then_some(quantiser)
    }

    /// The grid of joined tensors: that of all of them.
    fn joined_grid(&self, node: &Node, steps: &mut usize) -> Option<&Quantiser> {
        let mut operands = node.operands();
        let first = self.grid_within(operands.next()?, steps)?;
        operands.all(|operand| self.grid_within(operand, steps) == Some(first)).then_some(first)
    }
}

/// True when the result of an operator lies on the grid of its first operand, if that has a zero
/// and does not vary.
pub(crate) fn moves(op: &Op) -> bool {
    matches!(step(op), Step::Same | Step::Moved | Step::MovedWithZeros)
}

fn step(op: &Op) -> Step<'_> {
    match op {
        Op::Quantise(quantiser) | Op::FromCodes(quantiser) => Step::Grid(quantiser),
        Op::Identity => Step::Same,
        Op::Concat { .. } => Step::Joined,
        Op::Flatten { .. }
        | Op::Reshape { .. }
        | Op::Transpose { .. }
        | Op::Slice { .. }
        | Op::Gather { .. }
        | Op::Expand { .. }
        | Op::Tile { .. }
        | Op::GlobalMaxPool
        | Op::Reduce(Reduce { kind: ReduceKind::Max | ReduceKind::Min, .. })
        | Op::Pool(Pool { kind: PoolKind::Max, .. })
        | Op::Pad(Pad { mode: PadMode::Edge | PadMode::Reflect | PadMode::Wrap, .. }) => {
            Step::Moved
        }
        Op::Pad(Pad { mode: PadMode::Constant(0.0), .. }) => Step::MovedWithZeros,
        Op::Resize(resize) if resize.keeps_grid() => Step::Moved,
        Op::Pad(Pad { mode: PadMode::Constant(_), .. }) | Op::Resize(_) => Step::Computed,
        Op::Conv(_) | Op::ConvTranspose(_) | Op::Gemm(_) | Op::MatMul | Op::Recurrent(_) => {
            Step::Computed
        }
        Op::Pool(_) | Op::GlobalAveragePool | Op::Lrn(_) => Step::Computed,
        Op::BatchNorm(_) | Op::LayerNorm(_) | Op::InstanceNorm(_) | Op::Softmax(_) => {
            Step::Computed
        }
        Op::Unary(_) | Op::Binary(_) | Op::Activation(_) | Op::PRelu | Op::Where => Step::Computed,
        Op::Compare(_) | Op::Logic(_) | Op::Reduce(_) | Op::ArgExtreme(_) => Step::Computed,
        Op::Cast { .. } | Op::CastUnbounded { .. } => Step::Computed,
        Op::ToCodes(_) => Step::Computed,
    }
}

/// True when the real number 0 has a code.
fn has_zero(quantiser: &Quantiser) -> bool {
    quantiser.scalars(&[]).is_some_and(|scalars| {
        scalars.iter().all(|scalar| {
            let (low, high) = scalar.range();
            (low..=high).contains(&scalar.zero.into())
        })
    })
}
