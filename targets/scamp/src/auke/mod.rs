//! AUKE's way to a program, one kernel after the other: the kernel is split in reverse until only
//! inputs are left, the graph of its sums is relaxed, and its values get registers by colouring.
//!
//! Programs have the macros of Cain's set `basic`, and are legal: what is negated or halved goes to
//! another register. The search is counted in nodes, never in seconds, so that it gives the same on
//! any machine. At most 2^20 goals are remembered.
//!
//! Ours: what may be split off besides what `split` says; the order of splits; a walk over the cells
//! of the kernel as a first plan, which takes the fewest registers; twice a value is the value minus its
//! negation, for which CSIM has words.
//!
//! Facts: `cain-paper` section 5, `auke` (`docs/bibliography.md`).

mod colour;
mod graph;
mod relax;
mod reverse;
mod split;
mod steps;
mod transform;
mod turns;
mod walk;

pub use reverse::Counts;

use crate::arch::ScampArch;
use crate::cain::goals::{ATOMS, REACH, Shape};
use crate::isa::{Inst, Reg};
use crate::program::Program;
use crate::task::Task;
use crate::verify::verify;
use colour::{Room, instructions};
use graph::Graph;
use quincunx_diag::{Diagnostic, Result};
use relax::relaxed;
use reverse::{Made, Reverse};
use std::fmt::Write as _;
use steps::{Steps, ordered};
use turns::{Turn, Turns, turns};
use walk::walk;

/// Most cells of a kernel.
const MAX_CELLS: usize = 128;

/// Largest exponent of the unit.
const MAX_DEPTH: u32 = 24;

/// Most inputs.
const MAX_INPUTS: usize = 32;

/// Most steps of a kernel.
const MAX_STEPS: usize = 1024;

/// Nodes that tell how long kernels are about.
const MEASURE: u64 = 50;

/// Registers above those there are that are tried, so that an error names a number that suffices.
const MORE: usize = 8;

/// What a search is told besides its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Nodes for each kernel.
    pub max_nodes: u64,
}

/// How a kernel was made.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Where the result of its program is.
    pub output: Reg,
    /// What the search did.
    pub counts: Counts,
    /// Number of instructions.
    pub length: usize,
    /// The splits of the program, one a line; without any the program is a walk.
    pub splits: String,
    /// The graph of the splits and its number of instructions, in the DOT language.
    pub graph: Option<(String, u32)>,
    /// The same after relaxation.
    pub relaxed: Option<(String, u32)>,
}

/// What a search found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The program.
    pub program: Program,
    /// The kernels in the order of their turns.
    pub kernels: Vec<Kernel>,
}

/// Searches for a program. The same task and settings give the same outcome.
///
/// # Errors
/// `Q5130` for too few registers, `Q5131` where the machine lacks a macro, `Q5132` for kernels beyond
/// the limits of the search.
pub fn search(task: &Task, settings: Settings, arch: &ScampArch) -> Result<Outcome> {
    check_macros(arch)?;
    let (goals, inputs) = shapes(task)?;
    let depth = task.wanted.depth;
    let lengths: Vec<usize> = goals.iter().map(|goal| about(goal, &inputs, depth)).collect();
    let Turns { list: turns, copies } = turns(task, &goals, &lengths)
        .ok_or_else(|| too_few(task, "a result has no place", None))?;
    let (mut list, mut kernels) = (Vec::new(), Vec::new());
    for Turn { kernel, room } in turns {
        let goal = &goals[kernel];
        let best = of_kernel(goal, &inputs, depth, &room, settings.max_nodes);
        let (found, counts) = best.map_err(|()| {
            let what = format!("{} are left for the kernel of {}", room.registers(), room.output);
            too_few(task, &what, enough(goal, &inputs, depth, &room))
        })?;
        kernels.push(found.told(room.output, counts, &room.inputs));
        list.extend(found.instructions);
    }
    list.extend(copies.into_iter().map(|(y, x)| Inst::Mov { y, x }));
    let program = Program {
        instructions: list,
        inputs: Some(task.wanted.inputs.clone()),
        outputs: Some(task.wanted.outputs.clone()),
    };
    Ok(Outcome { program: confirmed(program, task, arch)?, kernels })
}

/// A program for a kernel.
struct Found {
    instructions: Vec<Inst>,
    /// Its plan with the graphs before and after relaxation; none for a walk.
    plan: Option<(String, Graph, Graph)>,
}

impl Found {
    fn told(&self, output: Reg, counts: Counts, inputs: &[Reg]) -> Kernel {
        let dot = |name: &str, graph: &Graph| (graph.dot(name, inputs), graph.length());
        let plan = self.plan.as_ref();
        Kernel {
            output,
            counts,
            length: self.instructions.len(),
            splits: plan.map_or_else(String::new, |(splits, _, _)| splits.clone()),
            graph: plan.map(|(_, graph, _)| dot("splits", graph)),
            relaxed: plan.map(|(_, _, relaxed)| dot("relaxed", relaxed)),
        }
    }
}

/// The shortest program for a kernel; an error where registers do not suffice.
fn of_kernel(
    goal: &Shape,
    inputs: &[Shape],
    depth: u32,
    room: &Room,
    max_nodes: u64,
) -> std::result::Result<(Found, Counts), ()> {
    let registers = room.registers();
    let program = |steps: &Steps| {
        let steps = (steps.list.len() <= MAX_STEPS).then_some(steps)?;
        instructions(&ordered(steps, &room.kept, registers)?, room)
    };
    let walk = program(&walk(goal, inputs.len(), depth));
    let mut best = walk.map(|instructions| Found { instructions, plan: None });
    let mut search = Reverse::new(goal, inputs, room.kept.clone(), registers, depth);
    search.plans(max_nodes, &mut |search, made| {
        let graph = Graph::of(made, search);
        let relaxed = relaxed(&graph);
        let way = |(graph, is_shared): (&Graph, bool)| {
            let own = program(&Steps::of(graph, is_shared));
            own.or_else(|| program(&Steps::of(&graph.flat(), is_shared)))
        };
        let shared = relaxed.iter().map(|graph| (graph, true));
        let mut ways = shared.chain(relaxed.iter().map(|graph| (graph, false)));
        let (instructions, used) = ways.find_map(|tried| Some((way(tried)?, tried.0.clone())))?;
        let length = instructions.len();
        if best.as_ref().is_none_or(|best| length < best.instructions.len()) {
            let plan = Some((splits(made, search), graph, used));
            best = Some(Found { instructions, plan });
        }
        Some(length as u32)
    });
    let counts = search.counts;
    best.map(|best| (best, counts)).ok_or(())
}

/// The splits of a plan, the kernel first.
fn splits(plan: &[Made], search: &Reverse<'_>) -> String {
    let mut out = String::new();
    for Made { goal, operands } in plan {
        let part = |&(id, by): &(u32, transform::Transform)| {
            let transform::Transform { x, y, halvings, negated } = by;
            let text = search.goal(id).to_goal().compact();
            match by == transform::Transform::NONE {
                true => text,
                false => format!("{text}({x}, {y}, {halvings}, {})", u8::from(negated)),
            }
        };
        let parts: Vec<String> = operands.iter().map(part).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{} = {}", search.goal(*goal).to_goal().compact(), parts.join(" + "));
    }
    out
}

/// About how many instructions a kernel takes, where registers are no matter.
fn about(goal: &Shape, inputs: &[Shape], depth: u32) -> usize {
    let room = Room {
        inputs: (0..inputs.len()).map(spare).collect(),
        kept: vec![true; inputs.len()],
        output: spare(inputs.len()),
        free: (inputs.len()..2 * MAX_INPUTS).map(spare).collect(),
    };
    of_kernel(goal, inputs, depth, &room, MEASURE)
        .map_or(usize::MAX, |best| best.0.instructions.len())
}

/// A register that no machine has.
fn spare(index: usize) -> Reg {
    Reg::new(&format!("SPARE{index}")).unwrap_or(Reg::NONE)
}

/// The least number of further registers that suffices for a kernel.
fn enough(goal: &Shape, inputs: &[Shape], depth: u32, room: &Room) -> Option<usize> {
    (1..=MORE).find(|&more| {
        let mut room = room.clone();
        room.free.extend((0..more).map(spare));
        of_kernel(goal, inputs, depth, &room, MEASURE).is_ok()
    })
}

fn too_few(task: &Task, what: &str, more: Option<usize>) -> Diagnostic {
    let has = task.pool.len();
    let message = format!("{has} registers are too few for AUKE's kernels in turn: {what}");
    let help = match more {
        Some(more) => format!("{} suffice for this kernel", has + more),
        None => "allow more registers".to_owned(),
    };
    Diagnostic::unsupported("Q5130", message).help(help)
}

fn check_macros(arch: &ScampArch) -> Result<()> {
    let needed = ScampArch::macro_set("basic")?;
    match needed.difference(&arch.macros).next() {
        None => Ok(()),
        Some(lacking) => {
            let message =
                format!("AUKE's programs need the macro {lacking}, which {} lacks", arch.name);
            Err(Diagnostic::unsupported("Q5131", message)
                .help("they have mov, movx, add, sub, neg, divq and res"))
        }
    }
}

/// The kernels and the inputs of a task.
fn shapes(task: &Task) -> Result<(Vec<Shape>, Vec<Shape>)> {
    let wanted = &task.wanted;
    let refused = |what: String| {
        let limits = format!(
            "AUKE's search takes kernels of {MAX_CELLS} cells within {REACH} of the centre, units of \
             2^-{MAX_DEPTH}, {ATOMS} units and {MAX_INPUTS} channels"
        );
        Err(Diagnostic::unsupported("Q5132", what).help(limits))
    };
    if wanted.depth > MAX_DEPTH || wanted.inputs.len() > MAX_INPUTS {
        let channels = wanted.inputs.len();
        return refused(format!("units of 2^-{} and {channels} channels", wanted.depth));
    }
    let mut goals = Vec::new();
    for (goal, output) in wanted.goals.0.iter().zip(&wanted.outputs) {
        match Shape::of_goal(goal) {
            Some(shape) if shape.cells.len() <= MAX_CELLS => goals.push(shape),
            _ => return refused(format!("the kernel of {output} is too large to search for")),
        }
    }
    let inputs =
        (0..wanted.inputs.len() as u32).map(|z| Shape::identity(z, wanted.depth)).collect();
    Ok((goals, inputs))
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

impl Outcome {
    /// The splits, and the graphs before and after relaxation, in the DOT language.
    pub fn texts(&self) -> Vec<(&'static str, String)> {
        let (mut splits, mut graph, mut relaxed) = (String::new(), String::new(), String::new());
        for kernel in &self.kernels {
            splits += &format!("{}:\n{}", kernel.output, kernel.splits);
            for (text, drawn) in [(&mut graph, &kernel.graph), (&mut relaxed, &kernel.relaxed)] {
                text.extend(drawn.iter().map(|(dot, _)| dot.as_str()));
            }
        }
        vec![("splits", splits), ("graph", graph), ("relaxed", relaxed)]
    }

    /// What the search did, one line a kernel.
    pub fn lines(&self) -> Vec<String> {
        let line = |kernel: &Kernel| {
            let Counts { nodes, bound, repeated, registers, plans, unallocated } = kernel.counts;
            let how = match (&kernel.graph, &kernel.relaxed) {
                (Some((_, split)), Some((_, relaxed))) => format!("{split}, relaxed {relaxed}"),
                _ => "a walk".to_owned(),
            };
            format!(
                "{}: {} instructions ({how}); {nodes} nodes, {plans} plans, {unallocated} of them without \
                 registers; culled: {bound} by bound, {registers} by registers, {repeated} as repeated",
                kernel.output, kernel.length
            )
        };
        self.kernels.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goal::Goal;

    /// Every split of a plan is equation 16: the goal is the sum of transformed goals, L, U and R, and
    /// all of them but inputs are parts of the kernel. What the output holds does not change when the
    /// graph is relaxed or made flat.
    #[test]
    fn plans_and_graphs_are_of_the_kernel() {
        let rows = [[0, 1, 2, 1], [1, -4, 6, 3], [2, 6, 10, -5]].map(|row| row.to_vec());
        let goal = Shape::of_goal(&Goal::from_rows(&rows)).unwrap();
        let inputs = [Shape::identity(0, 4)];
        let mut search = Reverse::new(&goal, &inputs, vec![true], 8, 4);
        let mut plans = 0;
        let input = [Reg::new("A").unwrap()];
        search.plans(300, &mut |search, made| {
            plans += 1;
            for Made { goal: whole, operands } in made {
                let mut rest = search.goal(*whole).clone();
                for &(part, by) in operands {
                    let part = search.goal(part);
                    assert!(part.is_within(&goal) || part.cells == inputs[0].cells);
                    rest = rest.minus(&by.of(part).unwrap().cells);
                }
                assert!(rest.cells.is_empty());
            }
            let graph = Graph::of(made, search);
            let output = |graph: &Graph| {
                let dot = graph.dot("g", &input);
                let name = format!("n{} [", graph.output());
                dot.lines().find(|line| line.contains(&name)).unwrap().to_owned()
            };
            let mut length = u32::MAX;
            for relaxed in relaxed(&graph).iter().rev() {
                assert!(relaxed.length() < length);
                length = relaxed.length();
                assert_eq!(output(relaxed), output(&graph));
                assert_eq!(output(&relaxed.flat()), output(&graph));
                assert!(relaxed.flat().length() <= length);
            }
            Some(length)
        });
        assert!(plans > 2, "{plans}");
    }
}
