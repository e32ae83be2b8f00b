//! What the compiler chose where the machine leaves a choice (`docs/tcu.md`, numbers of a network).

use super::{misfit, never_claimed};
use crate::arch::DataType;
use quincunx_diag::Result;
use quincunx_graph::{Graph, Op};
use quincunx_target::Numerics;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;

/// Whose numbers the program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Rounding {
    /// Those of upstream's compiler.
    Compat,
    /// Those that cost least.
    Free,
}

/// The numerics of a program.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Choices {
    /// Format of every scalar.
    pub(super) data_type: DataType,
    /// Scalars of a vector.
    pub(super) lanes: usize,
    rounding: Rounding,
    #[serde(default)]
    nodes: BTreeMap<String, Choice>,
}

/// Choices for one product; what is absent is as upstream's compiler does it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Choice {
    /// Taps in the order in which they are summed.
    taps: Option<Vec<usize>>,
    /// Blocks of input channels that are summed for all taps before the next ones come.
    chunk: Option<usize>,
    /// The tap and the block whose product starts with the bias.
    bias: Option<(usize, usize)>,
    /// First channel and channels of every block.
    planes: Option<Vec<(usize, usize)>>,
    /// Positions of the tensor that the operand of a matrix product flattens: row `k` of the matrix
    /// belongs to tap `k % positions` and channel `k / positions`.
    pub(super) positions: Option<usize>,
    /// The batch normalisation that is part of the weights.
    pub(super) batch_norm: Option<String>,
    /// Factor of weights and bias.
    pub(super) scale: Option<f64>,
}

/// The product of an input vector with a block of weights.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// The tap.
    pub(super) tap: usize,
    /// Input channels of the block.
    pub(super) channels: Range<usize>,
    /// The product starts with the bias.
    pub(super) has_bias: bool,
}

impl Choices {
    /// Reads numerics and checks that they are about this graph.
    ///
    /// # Errors
    /// `Q3104` for anything else.
    pub(super) fn read(numerics: &Numerics, graph: &Graph) -> Result<Choices> {
        let choices: Choices = Deserialize::deserialize(&numerics.0).map_err(|error| {
            misfit(format!("they do not have the form of a program's: {error}"))
        })?;
        if !(2..=256).contains(&choices.lanes) {
            return Err(misfit(format!("{} lanes, expected 2 to 256", choices.lanes)));
        }
        for (name, choice) in &choices.nodes {
            let op = graph.node_named(name).map(|id| &graph[id].op);
            match op {
                Some(Op::Conv(_)) if choice.positions.is_some() => {
                    return Err(misfit(format!("{name:?} is no matrix product with positions")));
                }
                Some(Op::Conv(_) | Op::Gemm(_) | Op::MatMul) => {}
                _ => return Err(misfit(format!("{name:?} is no product of the graph"))),
            }
            let changes = choice.planes.is_some() || choice.batch_norm.is_some();
            if choices.is_compat() && (changes || choice.scale.is_some()) {
                let what = "weights and blocks are changed although rounding is \"compat\"";
                return Err(misfit(format!("{name:?}: {what}")));
            }
        }
        Ok(choices)
    }

    /// Whatever may be chosen is as in upstream's compiler.
    pub(super) fn is_compat(&self) -> bool {
        self.rounding == Rounding::Compat
    }

    /// Choices for a node.
    pub(super) fn of(&self, node: &str) -> Option<&Choice> {
        self.nodes.get(node)
    }

    /// The products that a node sums, in order.
    ///
    /// # Errors
    /// `Q3104` for an order that does not take every tap and channel once.
    pub(super) fn steps(
        &self,
        node: &str,
        taps: usize,
        channels: usize,
        has_bias: bool,
    ) -> Result<Vec<Step>> {
        let wrong = |what: &str| misfit(format!("{node:?}: {what}"));
        let default = Choice::default();
        let choice = self.of(node).unwrap_or(&default);
        let blocks = self.blocks(choice, channels).ok_or_else(|| {
            wrong("planes are not ranges of up to `lanes` channels that follow each other")
        })?;
        if blocks.is_empty() || taps == 0 {
            return Err(never_claimed("a product without input"));
        }
        let order = choice.taps.clone().unwrap_or_else(|| (0..taps).collect());
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..taps) {
            return Err(wrong(&format!("taps are not each of 0 to {} once", taps - 1)));
        }
        let bias = match (choice.bias, has_bias) {
            (Some((tap, block)), true) if tap < taps && block < blocks.len() => Some((tap, block)),
            (Some(_), true) => {
                return Err(wrong("the bias is at a tap or block that is not there"));
            }
            (Some(_), false) => return Err(wrong("there is no bias")),
            (None, true) => Some((0, blocks.len() - 1)),
            (None, false) => None,
        };
        let chunk = choice.chunk.unwrap_or(blocks.len());
        if chunk == 0 {
            return Err(wrong("a chunk has no blocks"));
        }
        let numbered: Vec<(usize, Range<usize>)> = blocks.into_iter().enumerate().collect();
        let mut steps = Vec::new();
        for chunk in numbered.chunks(chunk) {
            for &tap in &order {
                steps.extend(chunk.iter().map(|(block, channels)| Step {
                    tap,
                    channels: channels.clone(),
                    has_bias: bias == Some((tap, *block)),
                }));
            }
        }
        Ok(steps)
    }

    /// Channels of every block; `None` for planes that do not hold every channel once.
    fn blocks(&self, choice: &Choice, channels: usize) -> Option<Vec<Range<usize>>> {
        let Some(planes) = &choice.planes else {
            let starts = (0..channels).step_by(self.lanes);
            return Some(starts.map(|at| at..channels.min(at + self.lanes)).collect());
        };
        let mut next = 0;
        let mut blocks = Vec::new();
        for &(first, count) in planes {
            if first != next || !(1..=self.lanes).contains(&count) {
                return None;
            }
            next += count;
            blocks.push(first..next);
        }
        (next == channels).then_some(blocks)
    }
}
