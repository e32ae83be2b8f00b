//! Cain's search for a program: from the outputs back to the inputs, one instruction at a time.
//!
//! A node is a bag of goals, what the registers of an element must hold at some point. A child is
//! the bag before an instruction that makes some of the goals. What an instruction can make of what
//! comes from a strategy, ordered by a heuristic; in which order nodes are visited is the traversal's
//! choice. A search is counted in nodes, never in seconds, so that it gives the same on any machine.
//!
//! Memory is bounded: 2^22 bags are remembered, 2^20 nodes wait, and 2^21 expanded nodes or different
//! goals end a search, together about 1 GiB. A node keeps a few of its children only.
//!
//! Ours: zeros are set, and copies are made, wherever AtomDistance is used; a goal of more than 65536
//! parts is split as AtomDistance does; a plan of the direct solver that finds no registers does not
//! end its branch; halvings take the form that the registers allow.
//!
//! Facts: `cain-paper`, `cain` (`docs/bibliography.md`).

mod allocate;
pub(crate) mod goals;
mod heuristics;
mod op;
mod pairs;
mod parts;
mod picture;
mod record;
mod search;
mod settings;
mod solver;

pub use heuristics::Heuristic;
pub use record::{Edge, Fate, Noted, SearchGraph};
pub use search::Counts;
pub use settings::{CostFunction, OpSet, Settings, Strategy, Traversal};

use crate::arch::ScampArch;
use crate::program::Program;
use crate::task::Task;
use crate::verify::verify;
use goals::{ATOMS, CHANNELS, REACH, Shape};
use quincunx_diag::{Diagnostic, Result};
use quincunx_report::Table;
use search::Search;

/// Most plans that an outcome lists; of further ones only the best is kept.
const MAX_PLANS: usize = 1000;

/// Largest exponent of the unit.
const MAX_DEPTH: u32 = 24;

/// Most cells of a kernel.
const MAX_CELLS: usize = 256;

/// A plan that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Nodes expanded before.
    pub nodes: u64,
    /// Number of instructions.
    pub length: u64,
    /// What it costs by the cost function of the settings.
    pub cost: u64,
    /// The program, with inputs and outputs.
    pub program: Program,
}

/// What a search found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The cheapest program, of those the shortest, of those the first.
    pub best: Program,
    /// The first thousand plans in the order of the search.
    pub plans: Vec<Plan>,
    /// What happened.
    pub counts: Counts,
    /// Counts of nodes, children, culls by cause and plans, as properties.
    pub table: Table,
    /// The first nodes, as many as the settings say.
    pub graph: SearchGraph,
}

/// Searches for a program. The same task and settings give the same outcome.
///
/// # Errors
/// `Q5085` when no program was found, `Q5086` for kernels beyond the limits of the search.
pub fn search(task: &Task, settings: &Settings, arch: &ScampArch) -> Result<Outcome> {
    let (wanted, identities) = shapes(task)?;
    let mut search = Search::new(task, settings, wanted, &identities);
    let (mut plans, mut best): (Vec<Plan>, Option<Plan>) = (Vec::new(), None);
    while let Some(found) = search.next() {
        let program = confirmed(found.program, task, arch)?;
        let (nodes, length) = (search.counts.nodes, program.length());
        let plan = Plan { nodes, length, cost: found.cost, program };
        if best.as_ref().is_none_or(|best| (plan.cost, length) < (best.cost, best.length)) {
            best = Some(plan.clone());
        }
        if plans.len() < MAX_PLANS {
            plans.push(plan);
        }
    }
    let counts = search.counts;
    let best = best.ok_or_else(|| nothing(task, settings, &counts))?.program;
    Ok(Outcome { best, plans, counts, table: table(&counts), graph: search.graph() })
}

/// Number of children that the outputs of a task have by the strategy of the settings.
///
/// # Errors
/// `Q5086` for kernels beyond the limits of the search.
pub fn children(task: &Task, settings: &Settings) -> Result<usize> {
    let (wanted, identities) = shapes(task)?;
    Ok(Search::new(task, settings, wanted, &identities).children())
}

/// The goals and the inputs of a task.
fn shapes(task: &Task) -> Result<(Vec<Shape>, Vec<Shape>)> {
    let wanted = &task.wanted;
    let refused = |what: String| {
        let limits = format!(
            "the search takes kernels of {MAX_CELLS} cells within {REACH} of the centre, units of \
             2^-{MAX_DEPTH}, {ATOMS} units and {CHANNELS} channels"
        );
        Err(Diagnostic::unsupported("Q5086", what).help(limits))
    };
    if wanted.depth > MAX_DEPTH || wanted.inputs.len() > CHANNELS as usize {
        let channels = wanted.inputs.len();
        return refused(format!("units of 2^-{} and {channels} channels", wanted.depth));
    }
    let mut shapes = Vec::new();
    for (goal, output) in wanted.goals.0.iter().zip(&wanted.outputs) {
        match Shape::of_goal(goal) {
            Some(shape) if shape.cells.len() <= MAX_CELLS => shapes.push(shape),
            _ => return refused(format!("the kernel of {output} is too large to search for")),
        }
    }
    let identities =
        (0..wanted.inputs.len() as u32).map(|z| Shape::identity(z, wanted.depth)).collect();
    Ok((shapes, identities))
}

/// A program that computes what is wanted and that the machine can execute.
fn confirmed(program: Program, task: &Task, arch: &ScampArch) -> Result<Program> {
    let wrong = task.wanted.check(&program)?;
    let illegal = verify(&program, arch).into_iter().filter(Diagnostic::is_error);
    match wrong.into_iter().chain(illegal).next() {
        Some(problem) => Err(Diagnostic::bug(format!("a plan is wrong: {}", problem.message()))),
        None => Ok(program),
    }
}

/// Why there is no program.
fn nothing(task: &Task, settings: &Settings, counts: &Counts) -> Diagnostic {
    let registers: Vec<String> = task.pool.iter().map(ToString::to_string).collect();
    let Counts { nodes, unallocated, .. } = counts;
    let message = format!(
        "no program was found with the registers {} in {nodes} of {} nodes and plans of up to {} \
         instructions; {unallocated} plans did not fit the registers",
        registers.join(" "),
        settings.max_nodes,
        settings.initial_max_depth,
    );
    let help = "allow more registers, more nodes (maxNodes), longer plans (initialMaxDepth) or more \
                instructions (ops)";
    let culled = format!(
        "culled: {} by registers, {} by depth, {} by cost, {} by goals, {} by atoms, {} as repeated",
        counts.registers, counts.depth, counts.cost, counts.goals, counts.atoms, counts.repeated
    );
    Diagnostic::unsupported("Q5085", message).with_note(culled).help(help)
}

fn table(counts: &Counts) -> Table {
    let mut table = Table::properties("search");
    for (name, count) in counts.rows() {
        table.property(name, count);
    }
    table
}

impl Counts {
    /// Nodes, children, culls by cause and plans, with their names.
    pub fn rows(&self) -> [(&'static str, u64); 15] {
        [
            ("nodes", self.nodes),
            ("visits", self.visits),
            ("children", self.children),
            ("culled: registers", self.registers),
            ("culled: depth", self.depth),
            ("culled: cost", self.cost),
            ("culled: goals", self.goals),
            ("culled: atoms", self.atoms),
            ("culled: repeated", self.repeated),
            ("exhausted", self.exhausted),
            ("parents dropped", self.dropped),
            ("bags not noted", self.unnoted),
            ("solved directly", self.solved),
            ("registers do not suffice", self.unallocated),
            ("plans", self.plans),
        ]
    }
}
