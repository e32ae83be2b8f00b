//! What the compiler chose where the machine leaves a choice (`docs/machines/tcu.md`, numbers of a network).

use super::{misfit, never_claimed};
use crate::arch::DataType;
use quincunx_contract::Numerics;
use quincunx_diag::Result;
use quincunx_graph::{Activation, Graph, Op};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

const BLOCKS: &str = "blocks are not ranges of up to `lanes` channels that follow each other";

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
    /// Lookup tables by name.
    #[serde(default)]
    pub(super) tables: BTreeMap<String, Table>,
    /// What is computed with tables, by name of the node.
    #[serde(default)]
    pub(super) lookups: BTreeMap<String, Lookup>,
    /// What is computed as polynomials, by name of the node.
    #[serde(default)]
    pub(super) curves: BTreeMap<String, Curve>,
    /// Means that are computed in steps, by name of the node.
    #[serde(default)]
    pub(super) means: BTreeMap<String, Vec<MeanStep>>,
    /// Leaky ReLUs that are `x + min(x, 0) * (alpha - 1)`, by name of the node.
    #[serde(default)]
    pub(super) leaky_sums: BTreeSet<String>,
}

/// A step of a mean: `sums` sums, each of every `sums`-th number, and each multiplied.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MeanStep {
    /// Sums, at least 1; one in the last step.
    pub(super) sums: usize,
    /// Factor, a scalar.
    pub(super) factor: i32,
}

/// An odd polynomial in scalars of the machine.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Curve {
    /// Largest magnitude of the operand.
    pub(super) reach: i32,
    /// Factor of the operand.
    pub(super) scale: i32,
    /// Coefficients of the first power, the third and so on.
    pub(super) coefficients: Vec<i32>,
    /// What is added.
    pub(super) middle: i32,
    /// Least and largest result.
    pub(super) limits: [i32; 2],
    /// The result is multiplied by the operand.
    pub(super) times: bool,
    /// How far the result may be from the function: for people and tests.
    #[serde(rename = "max_error")]
    _max_error: f64,
}

impl Curve {
    fn is_sound(&self, data_type: DataType) -> bool {
        let range = -i64::from(data_type.max()) - 1..=data_type.max().into();
        let others = [self.reach, self.scale, self.middle, self.limits[0], self.limits[1]];
        let mut scalars = self.coefficients.iter().chain(&others);
        self.reach >= 0 && scalars.all(|&scalar| range.contains(&scalar.into()))
    }
}

/// A lookup table in scalars of the machine.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    /// Keys.
    pub(super) keys: Vec<i32>,
    /// A value for every key.
    pub(super) values: Vec<i32>,
    /// A slope for every key.
    pub(super) slopes: Option<Vec<i32>>,
}

impl Table {
    fn is_sound(&self, data_type: DataType) -> bool {
        let count = self.keys.len();
        let columns = [Some(&self.keys), Some(&self.values), self.slopes.as_ref()];
        let range = -i64::from(data_type.max()) - 1..=data_type.max().into();
        let fits = |column: &&Vec<i32>| {
            column.len() == count && column.iter().all(|&scalar| range.contains(&scalar.into()))
        };
        count > 0 && columns.iter().flatten().all(fits)
    }
}

/// The tables of a node.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lookup {
    /// Their names in the order of use.
    pub(super) tables: Vec<String>,
    /// How far the result may be from the function: for people and tests.
    #[serde(rename = "max_error")]
    _max_error: f64,
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
    /// The batch normalisation whose offset, divided by its scale, is part of the bias.
    pub(super) offset: Option<String>,
    /// The input is packed: element `channel * taps + tap` of a position, in blocks.
    #[serde(default)]
    packed: bool,
    /// The batch normalisation before the ReLU that it reads, whose scale and offset are part of
    /// the weights and the bias.
    pub(super) before: Option<String>,
    /// Inputs of a row of the kernel that are a block: elements `column * channels + channel`.
    row: Option<usize>,
    /// Another product that is summed along, and added to this one by the only reader of both.
    pub(super) with: Option<String>,
}

/// The product of an input vector with a block of weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Whose inputs: 0 is the product itself, 1 the one that is summed along.
    pub(super) source: usize,
    /// Taps and the input channels that are multiplied, in order.
    pub(super) parts: Vec<(usize, Range<usize>)>,
    /// The product starts with the bias.
    pub(super) has_bias: bool,
}

/// What a product sums over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extents {
    /// Positions of the kernel.
    pub(super) taps: usize,
    /// Positions of a row of the kernel.
    pub(super) columns: usize,
    /// Input channels.
    pub(super) channels: usize,
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
        let sound = |table: &Table| table.is_sound(choices.data_type);
        if let Some((name, _)) = choices.tables.iter().find(|(_, table)| !sound(table)) {
            return Err(misfit(format!("the table {name:?} does not hold scalars")));
        }
        let sound = |curve: &Curve| curve.is_sound(choices.data_type);
        if let Some((name, _)) = choices.curves.iter().find(|(_, curve)| !sound(curve)) {
            return Err(misfit(format!("the polynomial of {name:?} does not hold scalars")));
        }
        choices.check_single(graph)?;
        for (name, choice) in &choices.nodes {
            let op = graph.node_named(name).map(|id| &graph[id].op);
            match op {
                Some(Op::ConvTranspose(_) | Op::Gemm(_) | Op::MatMul)
                    if choice.row.is_some() || choice.with.is_some() =>
                {
                    return Err(misfit(format!(
                        "{name:?} is not a convolution, but has rows or another product"
                    )));
                }
                Some(Op::Conv(_) | Op::ConvTranspose(_)) if choice.positions.is_some() => {
                    return Err(misfit(format!(
                        "{name:?} is not a matrix product, but has positions"
                    )));
                }
                Some(Op::Conv(conv)) if choice.packed && conv.groups > 1 => {
                    return Err(misfit(format!("{name:?} has groups and a packed input")));
                }
                Some(Op::ConvTranspose(_) | Op::Gemm(_) | Op::MatMul) if choice.packed => {
                    return Err(misfit(format!(
                        "{name:?} is not a convolution with a packed input"
                    )));
                }
                Some(Op::Conv(_) | Op::ConvTranspose(_) | Op::Gemm(_) | Op::MatMul) => {}
                _ => return Err(misfit(format!("{name:?} is not a product of the graph"))),
            }
            let changes = choice.planes.is_some() || choice.batch_norm.is_some();
            if choice.batch_norm.is_some() && choice.offset.is_some() {
                return Err(misfit(format!("{name:?} folds two batch normalisations")));
            }
            let moves = choice.before.is_some()
                || choice.offset.is_some()
                || choice.with.is_some()
                || choice.row.is_some()
                || choice.packed;
            if choices.is_compat() && (changes || moves) {
                let what = "weights and blocks are changed although rounding is \"compat\"";
                return Err(misfit(format!("{name:?}: {what}")));
            }
        }
        Ok(choices)
    }

    /// Checks the choices for nodes that are no products.
    fn check_single(&self, graph: &Graph) -> Result<()> {
        for (name, steps) in &self.means {
            let operand = graph.node_named(name).and_then(|id| graph[id].input(0));
            let known = operand.is_some();
            // No more sums than there are numbers.
            let most = operand.map_or(0, |id| graph[id].shape.iter().product::<usize>());
            let range = -i64::from(self.data_type.max()) - 1..=self.data_type.max().into();
            let sound = |step: &MeanStep| {
                (1..=most).contains(&step.sums) && range.contains(&step.factor.into())
            };
            let sums = steps.iter().all(sound) && steps.last().is_some_and(|step| step.sums == 1);
            if self.is_compat() || !known || !sums {
                return Err(misfit(format!("{name:?} is not a mean in steps")));
            }
        }
        for name in &self.leaky_sums {
            let op = graph.node_named(name).map(|id| &graph[id].op);
            let leaky = matches!(op, Some(Op::Activation(Activation::LeakyRelu { .. })));
            if self.is_compat() || self.data_type.binary_point().is_none() || !leaky {
                return Err(misfit(format!("{name:?} is not a leaky ReLU that is a sum")));
            }
        }
        Ok(())
    }

    /// Whatever may be chosen is as in upstream's compiler.
    pub(super) fn is_compat(&self) -> bool {
        self.rounding == Rounding::Compat
    }

    /// Choices for a node.
    pub(super) fn of(&self, node: &str) -> Option<&Choice> {
        self.nodes.get(node)
    }

    /// The nodes whose numbers are changed for another one: those that are summed along with it,
    /// and the batch normalisations that are moved behind a ReLU.
    pub(super) fn given_up(&self, of: impl Fn(&Choice) -> Option<&String>, name: &str) -> bool {
        self.nodes.values().any(|choice| of(choice).is_some_and(|given_up| given_up == name))
    }

    /// The products that a node sums, in order; `other` is the product that is summed along.
    ///
    /// # Errors
    /// `Q3104` for an order that does not take every tap and channel once.
    pub(super) fn steps(
        &self,
        node: &str,
        own: Extents,
        other: Option<(&str, Extents)>,
        has_bias: bool,
    ) -> Result<Vec<Step>> {
        let wrong = |what: &str| misfit(format!("{node:?}: {what}"));
        let default = Choice::default();
        let choice = self.of(node).unwrap_or(&default);
        let mut taps = self.taps(0, choice, own).ok_or_else(|| wrong(BLOCKS))?;
        if let Some((name, extents)) = other {
            let choice = self.of(name).unwrap_or(&default);
            taps.extend(self.taps(1, choice, extents).ok_or_else(|| wrong(BLOCKS))?);
        }
        let most = taps.iter().map(Vec::len).max().unwrap_or(0);
        if most == 0 {
            return Err(never_claimed("a product without input"));
        }
        let order = choice.taps.clone().unwrap_or_else(|| (0..taps.len()).collect());
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..taps.len()) {
            return Err(wrong(&format!("taps are not each of 0 to {} once", taps.len() - 1)));
        }
        let there = |tap: usize, block: usize| taps.get(tap).is_some_and(|t| block < t.len());
        let bias = match (choice.bias, has_bias) {
            (Some((tap, block)), true) if there(tap, block) => Some((tap, block)),
            (Some(_), true) => {
                return Err(wrong("the bias is at a tap or block that is not there"));
            }
            (Some(_), false) => return Err(wrong("there is no bias")),
            (None, true) => Some((0, taps[0].len() - 1)),
            (None, false) => None,
        };
        if let Some((tap, block)) = bias {
            taps[tap][block].has_bias = true;
        }
        let chunk = choice.chunk.unwrap_or(most);
        if chunk == 0 {
            return Err(wrong("a chunk has no blocks"));
        }
        let mut steps = Vec::new();
        for first in (0..most).step_by(chunk) {
            for &tap in &order {
                let blocks = taps[tap].iter().skip(first).take(chunk);
                steps.extend(blocks.cloned());
            }
        }
        Ok(steps)
    }

    /// The blocks of every tap; `None` when they do not hold every channel once.
    fn taps(&self, source: usize, choice: &Choice, extents: Extents) -> Option<Vec<Vec<Step>>> {
        let Extents { taps, columns, channels } = extents;
        let step = |parts| Step { source, parts, has_bias: false };
        if choice.packed {
            if choice.planes.is_some() || choice.row.is_some() {
                return None;
            }
            let elements: Vec<_> = (0..taps * channels)
                .map(|element| (element % taps, element / taps..element / taps + 1))
                .collect();
            let blocks = elements.chunks(self.lanes).map(|parts| step(parts.to_vec()));
            return Some(vec![blocks.collect()]);
        }
        let Some(width) = choice.row else {
            let blocks = self.blocks(choice, channels)?;
            let of_tap =
                |tap| blocks.iter().map(|block| step(vec![(tap, block.clone())])).collect();
            return Some((0..taps).map(of_tap).collect());
        };
        if choice.planes.is_some() || !(1..=self.lanes).contains(&width) || channels == 0 {
            return None;
        }
        let mut all = Vec::new();
        for row in (0..taps).step_by(columns.max(1)) {
            for first in (0..columns * channels).step_by(width) {
                let inputs = first..(first + width).min(columns * channels);
                let part = |at: usize| {
                    let channel = at % channels;
                    (row + at / channels, channel..channel + 1)
                };
                all.push(vec![step(inputs.map(part).collect())]);
            }
        }
        Some(all)
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
