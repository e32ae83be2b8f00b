//! What a search is told besides its task, and how kernel files say it.
//!
//! Facts: `cain` (`docs/bibliography.md`).

use super::heuristics::Heuristic;
use super::op::Ops;
use crate::files::KernelFile;
use crate::task::Task;
use quincunx_diag::{Diagnostic, Result, did_you_mean};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

/// In which order nodes are visited. A visit of a node makes one child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traversal {
    /// The child comes next, its parent last.
    Cgds,
    /// As [`Traversal::Cgds`], but the parent comes last only after so many children; at least 1.
    CgdsN(u32),
    /// The newest node first.
    Dfs,
    /// The oldest node first, until it has no more children.
    Bfs,
    /// The node that has made the fewest children first, of those the newest.
    Hos,
    /// A random node.
    Rt,
    /// The node whose next child, or who itself if it is new, costs least by the heuristic.
    BestFirst,
}

/// What is least in the best plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostFunction {
    /// The longest chain of instructions from an input to an output.
    CircuitDepth,
    /// Instructions.
    PlanLength,
    /// Two for every instruction, as Cain counts them.
    InstructionCost,
    /// Depth, then instructions.
    CircuitDepthThenLength,
    /// Instructions, then depth.
    LengthThenCircuitDepth,
}

/// Which instructions a generator proposes, of those that the task has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpSet {
    /// Cain's `all`: everything but `divq` and `abs`.
    All,
    /// Cain's `basic`, the set of AUKE: mov, movx, add, sub, neg, divq, res.
    Basic,
    /// All that the task has.
    Task,
}

/// Rows of Cain's sets.
const ALL: [&str; 16] = [
    "Mov", "Movx", "Mov2x", "Add", "Addx", "Add2x", "Add3", "Sub", "Subx", "Sub2x", "Div",
    "DivFrom", "Diva", "Res", "Res2", "Neg",
];
const BASIC: [&str; 7] = ["Mov", "Movx", "Add", "Sub", "Neg", "Divq", "Res"];

impl OpSet {
    /// The instructions of the set that a task has.
    pub(super) fn of(self, task: &Task) -> Ops {
        let mut rows = task.macros.clone();
        match self {
            OpSet::All => rows.retain(|row| ALL.contains(row)),
            OpSet::Basic => rows.retain(|row| BASIC.contains(row)),
            OpSet::Task => {}
        }
        Ops::new(&rows)
    }
}

/// How children of a node are made.
#[derive(Clone, Debug, PartialEq)]
pub enum Strategy {
    /// Every way to make a goal by one instruction, in the order of the heuristic.
    Exhaustive {
        /// The order.
        heuristic: Heuristic,
        /// The instructions.
        ops: OpSet,
    },
    /// Parts of goals that are translations of each other, larger and nearer ones first.
    AtomDistance {
        /// The instructions.
        ops: OpSet,
    },
    /// The same in the order of the heuristic.
    AtomDistanceSorted {
        /// The order.
        heuristic: Heuristic,
        /// The instructions.
        ops: OpSet,
    },
    /// One of two strategies, by the largest number of atoms of a goal.
    Threshold {
        /// Most atoms for `below`.
        threshold: u64,
        /// For larger goals.
        above: Box<Strategy>,
        /// For the others.
        below: Box<Strategy>,
    },
}

impl Strategy {
    /// Cain's recommendation: AtomDistanceSorted above a threshold, else Exhaustive.
    pub fn threshold(threshold: u64, heuristic: Heuristic, ops: OpSet) -> Strategy {
        Strategy::Threshold {
            threshold,
            above: Box::new(Strategy::AtomDistanceSorted { heuristic, ops }),
            below: Box::new(Strategy::Exhaustive { heuristic, ops }),
        }
    }

    /// The instructions of the whole strategy.
    pub(super) fn ops(&self) -> OpSet {
        match self {
            Strategy::Exhaustive { ops, .. }
            | Strategy::AtomDistance { ops }
            | Strategy::AtomDistanceSorted { ops, .. } => *ops,
            Strategy::Threshold { below, .. } => below.ops(),
        }
    }

    /// The strategy for a bag whose largest goal has so many atoms.
    pub(super) fn of(&self, atoms: i64) -> &Strategy {
        match self {
            Strategy::Threshold { threshold, above, below } => {
                (if atoms as u64 > *threshold { above } else { below }).of(atoms)
            }
            plain => plain,
        }
    }

    /// The heuristic by which whole bags are compared.
    pub(super) fn heuristic(&self) -> Heuristic {
        match self {
            Strategy::Exhaustive { heuristic, .. }
            | Strategy::AtomDistanceSorted { heuristic, .. } => *heuristic,
            Strategy::AtomDistance { .. } => Heuristic::Pattern,
            Strategy::Threshold { below, .. } => below.heuristic(),
        }
    }
}

/// Settings of a search. The fields are those of `runConfig` and `pairGen` of kernel files.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Nodes that are expanded at most; at least 1.
    pub max_nodes: u64,
    /// The order of visits.
    pub traversal: Traversal,
    /// What is minimised.
    pub cost_function: CostFunction,
    /// Longest plan that is looked for at first.
    pub initial_max_depth: u32,
    /// How much shorter than a plan the next one must be.
    pub forced_depth_reduction: u32,
    /// Largest cost that is looked for at first.
    pub initial_max_cost: u64,
    /// How much cheaper than a plan the next one must be.
    pub forced_cost_reduction: u64,
    /// Nodes with so many times the atoms of the outputs, plus those of the inputs, are left out.
    pub allowable_atoms_coefficient: f64,
    /// By how many goals an instruction can make a bag smaller.
    pub goal_reductions_per_step: u64,
    /// Goals above that.
    pub goal_reductions_tolerance: u64,
    /// How children are made.
    pub strategy: Strategy,
    /// Seed of everything random.
    pub seed: u64,
    /// How many of the first nodes the outcome has as a graph.
    pub recorded_nodes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            max_nodes: 20_000,
            traversal: Traversal::Cgds,
            cost_function: CostFunction::PlanLength,
            initial_max_depth: 200,
            forced_depth_reduction: 1,
            initial_max_cost: i32::MAX as u64,
            forced_cost_reduction: 0,
            allowable_atoms_coefficient: 2.0,
            goal_reductions_per_step: 1,
            goal_reductions_tolerance: 1,
            strategy: Strategy::threshold(10, Heuristic::Pattern, OpSet::Task),
            seed: 0,
            recorded_nodes: 0,
        }
    }
}

/// Nodes of a run that has no limit of its own, for every millisecond and worker: about what Cain
/// expands in that time.
const NODES_PER_MILLISECOND: u64 = 1;

impl Settings {
    /// The settings of a kernel file; what it leaves out is as in [`Settings::default`]. Time is
    /// never measured: `searchTime` and `workers` become a number of nodes, one for every
    /// millisecond of a worker, unless `maxNodes` gives it; without `timeOut` the search goes on
    /// until it is exhausted or its memory is full. `Random` as heuristic is ours, and so
    /// are `Paper` and `PaperAsPrinted`.
    ///
    /// # Errors
    /// `Q5052` for a field with an impossible value.
    pub fn of_file(file: &KernelFile) -> Result<Settings> {
        Settings::of_fields(&file.settings, OpSet::All)
    }

    /// The same of fields by their dotted names; strategies that name no instructions have those of
    /// `ops`.
    ///
    /// # Errors
    /// As [`Settings::of_file`].
    pub fn of_fields(fields: &BTreeMap<String, String>, ops: OpSet) -> Result<Settings> {
        Fields::new(fields).settings(ops)
    }

    /// What is odd about fields: a warning for each that is unknown or has no effect beside the
    /// others, and a note about those that are for Cain's terminal.
    pub fn odd(fields: &BTreeMap<String, String>) -> Vec<Diagnostic> {
        let asked = Fields::new(fields);
        if asked.settings(OpSet::All).is_err() {
            return Vec::new();
        }
        let known = asked.asked.into_inner();
        let is_of_terminal = |name: &&String| OF_TERMINAL.contains(&name.as_str());
        let mut odd = Vec::new();
        for name in fields.keys().filter(|name| !known.contains(*name) && !is_of_terminal(name)) {
            let names = known.iter().map(String::as_str).chain(OF_TERMINAL);
            let message = format!("the setting `{name}` of Cain's search has no effect");
            let problem = Diagnostic::warning("Q5053", message);
            odd.push(problem.help_if(did_you_mean(name, names)));
        }
        let of_terminal: Vec<&str> =
            fields.keys().filter(is_of_terminal).map(String::as_str).collect();
        if !of_terminal.is_empty() {
            let message = format!("for Cain's terminal only: {}", of_terminal.join(", "));
            odd.push(Diagnostic::note("Q5059", message));
        }
        odd
    }
}

/// Fields of `runConfig` that say what Cain shows while it searches.
const OF_TERMINAL: [&str; 3] =
    ["runConfig.liveCounter", "runConfig.livePrintPlans", "runConfig.quiet"];

/// Fields of a kernel file by dotted names.
struct Fields<'a> {
    fields: &'a BTreeMap<String, String>,
    /// Names that were looked up.
    asked: RefCell<BTreeSet<String>>,
}

impl Fields<'_> {
    fn new(fields: &BTreeMap<String, String>) -> Fields<'_> {
        Fields { fields, asked: RefCell::default() }
    }

    fn settings(&self, ops: OpSet) -> Result<Settings> {
        let fields = self;
        let default = Settings::default();
        let run = |name: &str| format!("runConfig.{name}");
        let time: u64 = fields.number(&run("searchTime"), default.max_nodes)?;
        let time = time.saturating_mul(fields.number(&run("workers"), 1)?);
        let is_timed = fields.word(&run("timeOut"), true, &[("true", true), ("false", false)])?;
        let nodes = match fields.number(&run("maxNodes"), 0)? {
            0 if is_timed => time.saturating_mul(NODES_PER_MILLISECOND),
            0 => u64::MAX,
            nodes => nodes,
        };
        Ok(Settings {
            max_nodes: nodes.max(1),
            traversal: fields.traversal()?,
            cost_function: fields.cost_function()?,
            initial_max_depth: fields.number(&run("initialMaxDepth"), default.initial_max_depth)?,
            forced_depth_reduction: fields
                .number(&run("forcedDepthReduction"), default.forced_depth_reduction)?,
            initial_max_cost: fields.number(&run("initialMaxCost"), default.initial_max_cost)?,
            forced_cost_reduction: fields
                .number(&run("forcedCostReduction"), default.forced_cost_reduction)?,
            allowable_atoms_coefficient: fields
                .real(&run("allowableAtomsCoefficient"), default.allowable_atoms_coefficient)?,
            goal_reductions_per_step: fields
                .number(&run("goalReductionsPerStep"), default.goal_reductions_per_step)?,
            goal_reductions_tolerance: fields
                .number(&run("goalReductionsTolerance"), default.goal_reductions_tolerance)?,
            strategy: fields.strategy("pairGen.strategy", (Heuristic::Pattern, ops), 0)?,
            seed: default.seed,
            recorded_nodes: default.recorded_nodes,
        })
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.asked.borrow_mut().insert(name.to_owned());
        self.fields.get(name).map(String::as_str)
    }

    fn number<T: FromStr>(&self, name: &str, default: T) -> Result<T> {
        let Some(text) = self.get(name) else { return Ok(default) };
        let wrong =
            || Diagnostic::invalid("Q5052", format!("`{name}`: {text:?} is no such number"));
        text.parse().map_err(|_| wrong().help("expected a whole number of at least 0"))
    }

    fn real(&self, name: &str, default: f64) -> Result<f64> {
        let Some(text) = self.get(name) else { return Ok(default) };
        let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
        number.ok_or_else(|| {
            let message = format!("`{name}`: {text:?} is no such number");
            Diagnostic::invalid("Q5052", message).help("expected a number of at least 0")
        })
    }

    fn word<T: Copy>(&self, name: &str, default: T, words: &[(&str, T)]) -> Result<T> {
        let Some(text) = self.get(name) else { return Ok(default) };
        let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text));
        found.map(|&(_, value)| value).ok_or_else(|| {
            let names: Vec<&str> = words.iter().map(|&(word, _)| word).collect();
            let message = format!("`{name}`: {text:?}, expected one of {}", names.join(", "));
            Diagnostic::invalid("Q5052", message).help_if(did_you_mean(text, names))
        })
    }

    fn traversal(&self) -> Result<Traversal> {
        let name = "runConfig.CGDSN";
        let children = self.number(name, 0)?;
        let words = [
            ("CGDS", Traversal::Cgds),
            ("CGDSN", Traversal::CgdsN(children)),
            ("DFS", Traversal::Dfs),
            ("BFS", Traversal::Bfs),
            ("HOS", Traversal::Hos),
            ("RT", Traversal::Rt),
            ("BestFirstSearch", Traversal::BestFirst),
        ];
        match self.word("runConfig.traversalAlgorithm", Traversal::Cgds, &words)? {
            Traversal::CgdsN(0) => {
                let message = format!("`{name}`: expected a number of children of at least 1");
                Err(Diagnostic::invalid("Q5052", message))
            }
            other => Ok(other),
        }
    }

    fn cost_function(&self) -> Result<CostFunction> {
        let words = [
            ("CircuitDepth", CostFunction::CircuitDepth),
            ("PlanLength", CostFunction::PlanLength),
            ("InstructionCost", CostFunction::InstructionCost),
            ("CircuitDepthThenLength", CostFunction::CircuitDepthThenLength),
            ("LengthThenCircuitDepth", CostFunction::LengthThenCircuitDepth),
        ];
        self.word("runConfig.costFunction", CostFunction::PlanLength, &words)
    }

    /// A strategy; nested ones take over what they do not say.
    fn strategy(
        &self,
        name: &str,
        (heuristic, ops): (Heuristic, OpSet),
        level: usize,
    ) -> Result<Strategy> {
        let sets = [("all", OpSet::All), ("basic", OpSet::Basic)];
        let ops = self.word(&format!("{name}.ops"), ops, &sets)?;
        let heuristic = self.word(&format!("{name}.heuristic"), heuristic, &Heuristic::ALL)?;
        let heuristic = self.word(&format!("{name}.heuristic.name"), heuristic, &Heuristic::ALL)?;
        let kinds = [
            ("Threshold", Strategy::threshold(0, heuristic, ops)),
            ("Exhaustive", Strategy::Exhaustive { heuristic, ops }),
            ("AtomDistance", Strategy::AtomDistance { ops }),
            ("AtomDistanceSorted", Strategy::AtomDistanceSorted { heuristic, ops }),
        ];
        let indices: Vec<(&str, usize)> =
            kinds.iter().enumerate().map(|(index, (word, _))| (*word, index)).collect();
        let kind = self.word(&format!("{name}.name"), 0, &indices)?;
        let Strategy::Threshold { mut above, mut below, .. } = kinds[kind].1.clone() else {
            return Ok(kinds[kind].1.clone());
        };
        for (part, place) in [("above", &mut above), ("below", &mut below)] {
            let nested = format!("{name}.{part}");
            if self.get(&format!("{nested}.name")).is_some() && level < MAX_NESTED {
                **place = self.strategy(&nested, (heuristic, ops), level + 1)?;
            }
        }
        let threshold = self.number(&format!("{name}.threshold"), 10)?;
        Ok(Strategy::Threshold { threshold, above, below })
    }
}

/// How deep strategies may be nested.
const MAX_NESTED: usize = 16;
