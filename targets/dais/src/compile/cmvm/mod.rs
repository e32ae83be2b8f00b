//! Constant matrix times vector as a graph of few adders. The README of this folder explains the
//! mathematics.
//!
//! [`solve`] is the whole interface: a [`Problem`] and [`Settings`] in, a proved [`Solution`] out.

mod blocks;
mod decompose;
mod deepen;
mod digits;
mod exact;
mod forms;
mod greedy;
mod levels;
mod pairs;
mod polish;
mod prove;
mod random;
mod resub;
mod reuse;
mod search;
mod state;
mod structure;
mod system;
#[cfg(test)]
mod tests;
mod trees;
mod width;
mod wiring;

pub(super) use digits::count as count_digits;
pub(crate) use reuse::{Place, reuse};

use quincunx_contract::Options;
use quincunx_diag::{Diagnostic, Result};

/// Most bits of a weight.
const WEIGHT_BITS: u32 = 48;

/// Most bits of the sum of all |weight * input|.
const RANGE_BITS: u32 = 120;

/// Most signed digits of a network that is searched with [`Effort::Default`]: what is left of them
/// are some 130,000 adders.
const MOST_DIGITS: u64 = 1 << 18;

/// `y[j] = sum over i of x[i] * weight(i, j)`.
///
/// Problems that are equal have the same solution, so they can be the keys of a map.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Problem {
    inputs: Vec<Input>,
    columns: usize,
    /// Row-major: one row per input.
    weights: Vec<i64>,
}

/// What is known of an input, an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Input {
    /// Lowest value.
    pub(crate) low: i64,
    /// Highest value.
    pub(crate) high: i64,
    /// Adder levels after which it is there.
    pub(crate) latency: u32,
}

/// How hard to search, counted in steps and never in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effort {
    /// As [`Effort::Fast`] without what takes long for the few adders that it saves, for products of which a
    /// program has many.
    Quick,
    /// A few greedy runs and a little local search; of tiny matrices the fewest adders.
    Fast,
    /// Local search for a fraction of a millisecond per adder; of large networks as [`Effort::Fast`].
    Default,
    /// Local search for seconds.
    Max,
}

/// What is wanted first of a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Objective {
    /// Few adders, then few bits, then few levels.
    #[default]
    Adders,
    /// Few bits of adders, then few adders, then few levels.
    Bits,
    /// Few LUTs that adders take, then few adders, then few levels.
    Luts,
    /// As few levels as signed digits need, then few adders, then few bits.
    Depth,
}

/// Choices of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Settings {
    /// What is wanted first.
    pub(crate) objective: Objective,
    /// How hard to search.
    pub(crate) effort: Effort,
    /// Adder levels that the result may have above the fewest possible with signed digits; any
    /// number without.
    pub(crate) depth_slack: Option<u32>,
}

/// An adder `a ± b * 2^shift` of exact numbers. Nodes are the inputs, then the adders in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Adder {
    /// First operand, a node before this one.
    pub(crate) a: usize,
    /// Second operand, likewise.
    pub(crate) b: usize,
    /// Power of two of the second operand.
    pub(crate) shift: i32,
    /// The second operand is subtracted.
    pub(crate) subtract: bool,
    /// Every value of the sum.
    pub(crate) range: Range,
}

/// The numbers from `low` to `high` times `2^exponent`: the exact bounds of a linear form, in the
/// finer of the steps of the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// Lowest number in steps.
    pub(crate) low: i128,
    /// Highest number in steps.
    pub(crate) high: i128,
    /// Power of two of the step.
    pub(crate) exponent: i32,
}

/// `(-1 if negate) * node * 2^shift`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    /// The node.
    pub(crate) node: usize,
    /// Power of two.
    pub(crate) shift: i32,
    /// Negated.
    pub(crate) negate: bool,
}

/// An adder graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Solution {
    /// Adders, operands first.
    pub(crate) adders: Vec<Adder>,
    /// One per column; absent for a column of zeros.
    pub(crate) outputs: Vec<Option<Output>>,
    /// Longest path of adders to any output, latencies of inputs included.
    pub(crate) depth: u32,
    /// Bits of all adders in the cost model of da4ml.
    pub(crate) bits: u64,
    /// LUTs of all adders, one for every bit of a result from the lowest on that needs one.
    pub(crate) luts: u64,
    /// Proved to have the fewest adders: no graph of adders, shifts and signs, whose forms without
    /// common powers of two have factors below twice the power of two above the largest weight,
    /// has fewer; the forms are those of the matrix, or of its transpose if that has fewer inputs.
    pub(crate) optimal: bool,
}

impl Effort {
    /// What the option `effort` says.
    pub(crate) fn new(options: &Options) -> Effort {
        match options.get("effort") {
            "fast" => Effort::Fast,
            "default" => Effort::Default,
            "max" => Effort::Max,
            other => unreachable!("\"{other}\" is no declared word"),
        }
    }
}

impl Objective {
    /// What the option `objective` says.
    fn new(options: &Options) -> Objective {
        match options.get("objective") {
            "adders" => Objective::Adders,
            "bits" => Objective::Bits,
            "lut" => Objective::Luts,
            "depth" => Objective::Depth,
            other => unreachable!("\"{other}\" is no declared word"),
        }
    }

    /// More adders are taken for what is wanted first.
    fn trades_adders(self) -> bool {
        matches!(self, Objective::Bits | Objective::Luts)
    }
}

impl Settings {
    /// What the options `objective`, `effort` and `depth-slack` say.
    pub(crate) fn new(options: &Options) -> Settings {
        // -1 stands for any number.
        let depth_slack = u32::try_from(options.whole::<i32>("depth-slack")).ok();
        let (objective, effort) = (Objective::new(options), Effort::new(options));
        Settings { objective, effort, depth_slack }
    }

    /// Settings for few adders.
    pub(crate) fn of(effort: Effort, depth_slack: Option<u32>) -> Settings {
        Settings { objective: Objective::Adders, effort, depth_slack }
    }

    /// The same without a bound on levels, if there is one.
    pub(crate) fn unbounded(self) -> Option<Settings> {
        let objective = match self.objective {
            Objective::Depth => Objective::Adders,
            other => other,
        };
        self.slack().map(|_| Settings { objective, depth_slack: None, ..self })
    }

    /// What makes one of two networks of equal depth better.
    pub(crate) fn goals(&self, adders: u64, bits: f64) -> [f64; 2] {
        let adders = adders as f64;
        if self.objective.trades_adders() { [bits, adders] } else { [adders, bits] }
    }

    /// Levels that a result may have above the fewest possible; any number without.
    pub(crate) fn slack(&self) -> Option<u32> {
        match self.objective {
            Objective::Depth => Some(0),
            _ => self.depth_slack,
        }
    }

    /// The settings for a network whose weights have that many signed digits.
    pub(crate) fn for_digits(self, digits: u64) -> Settings {
        match self.effort {
            Effort::Default if digits > MOST_DIGITS => Settings { effort: Effort::Fast, ..self },
            _ => self,
        }
    }
}

impl Problem {
    /// A problem with one row of weights per input; `None` when a number is too large for it.
    ///
    /// # Panics
    /// If there are not `inputs.len() * columns` weights.
    pub(crate) fn new(inputs: Vec<Input>, columns: usize, weights: Vec<i64>) -> Option<Problem> {
        assert_eq!(weights.len(), inputs.len() * columns, "one weight per input and column");
        let small = weights.iter().all(|w| w.unsigned_abs() < 1 << WEIGHT_BITS);
        let mut largest = 1_u128;
        for (index, weight) in weights.iter().enumerate() {
            let input = &inputs[index / columns];
            let reach = input.low.unsigned_abs().max(input.high.unsigned_abs());
            let most = u128::from(weight.unsigned_abs()) * u128::from(reach);
            largest = largest.saturating_add(most);
        }
        let fits = small && largest < 1 << RANGE_BITS;
        let late = inputs.iter().any(|input| input.latency > 1 << 20);
        let many = inputs.len().max(columns) >= 1 << 20;
        (fits && !late && !many).then_some(Problem { inputs, columns, weights })
    }

    /// The inputs.
    pub(crate) fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// Number of outputs.
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// The transposed matrix, with inputs of one size.
    fn transposed(&self) -> Problem {
        let (rows, columns) = (self.inputs.len(), self.columns);
        let inputs = vec![Input { low: -128, high: 127, latency: 0 }; columns];
        let weights = (0..columns).flat_map(|j| (0..rows).map(move |i| self.weight(i, j)));
        Problem { inputs, columns: rows, weights: weights.collect() }
    }

    /// The inputs that any output reads.
    fn used_rows(&self) -> Vec<usize> {
        let used = |&row: &usize| (0..self.columns).any(|column| self.weight(row, column) != 0);
        (0..self.inputs.len()).filter(used).collect()
    }

    /// The problem of some of the inputs.
    fn with_rows(&self, rows: &[usize]) -> Problem {
        let inputs = rows.iter().map(|&row| self.inputs[row]).collect();
        let row = |&row: &usize| &self.weights[row * self.columns..][..self.columns];
        let weights = rows.iter().flat_map(row).copied().collect();
        Problem { inputs, columns: self.columns, weights }
    }

    /// The factor of an input in an output.
    pub(crate) fn weight(&self, row: usize, column: usize) -> i64 {
        self.weights[row * self.columns + column]
    }
}

/// Finds a graph with little of what is wanted first, and of equal ones with little of the rest.
/// From [`Effort::Fast`] on, more effort never gives a worse one, in this order.
///
/// # Errors
/// A bug, if the result were not the matrix: every linear form is recomputed.
pub(crate) fn solve(problem: &Problem, settings: &Settings) -> Result<Solution> {
    let limit = search::limit(problem, settings);
    let levels = limit.map(|limit| u32::from(limit) + state::base(problem.inputs()));
    let objective = settings.objective;
    let (mut best, mut least) = (None, 0);
    let efforts = match settings.effort {
        Effort::Quick => &[Effort::Quick] as &[Effort],
        Effort::Fast => &[Effort::Fast],
        Effort::Default => &[Effort::Fast, Effort::Default],
        Effort::Max => &[Effort::Fast, Effort::Default, Effort::Max],
    };
    for &effort in efforts {
        let budget = exact::Budget::new(effort);
        let exact = exact::solve(problem, levels, budget, objective);
        least = least.max(exact.least);
        best = better(objective, best, exact.solution);
        // Fewer adders there are not; perhaps fewer bits.
        let is_settled = |best: &&Solution| {
            effort > Effort::Fast && best.adders.len() <= least && !objective.trades_adders()
        };
        let settled = best.as_ref().filter(is_settled);
        let is_over = settled.is_some();
        let systems = match settled {
            Some(graph) => vec![search::polished(problem, graph, limit)],
            None => search::best_systems(problem, effort, limit, settings),
        };
        for system in systems {
            let (adders, outputs) = trees::adders(problem, &system, levels, effort);
            let found = prove::prove(problem, adders, &outputs)?;
            best = better(objective, best, Some(found));
        }
        if is_over {
            break;
        }
    }
    let mut solution = best.expect("some effort is the least");
    solution.optimal = solution.adders.len() <= least;
    match levels {
        Some(levels) if solution.depth > levels => {
            let depth = solution.depth;
            Err(Diagnostic::bug(format!(
                "an adder graph of {depth} levels, at most {levels} asked for"
            )))
        }
        _ => Ok(solution),
    }
}

/// A solution that was found for more inputs, or the result of a search with less effort.
///
/// # Errors
/// As [`solve`].
pub(crate) fn improved(
    solution: Solution,
    problem: &Problem,
    settings: &Settings,
) -> Result<Solution> {
    let effort = match settings.effort {
        Effort::Quick | Effort::Fast => return Ok(solution),
        Effort::Default => Effort::Fast,
        Effort::Max => Effort::Default,
    };
    let own = solve(problem, &Settings { effort, ..*settings })?;
    Ok(better(settings.objective, Some(solution), Some(own)).expect("there are two"))
}

/// The better of two solutions, of equal ones the first.
fn better(objective: Objective, a: Option<Solution>, b: Option<Solution>) -> Option<Solution> {
    a.into_iter().chain(b).min_by_key(|solution| solution.goals(objective))
}

impl Solution {
    /// What makes one better than another, in the order of the objective.
    fn goals(&self, objective: Objective) -> [u64; 3] {
        let (adders, depth) = (self.adders.len() as u64, u64::from(self.depth));
        match objective {
            Objective::Adders => [adders, self.bits, depth],
            Objective::Bits => [self.bits, adders, depth],
            Objective::Luts => [self.luts, adders, depth],
            Objective::Depth => [depth, adders, self.bits],
        }
    }
}

impl Input {
    fn range(&self) -> Range {
        Range { low: self.low.into(), high: self.high.into(), exponent: 0 }
    }
}
