//! The default search: a first plan by rule, then shorter ones by a random walk.

mod enough;
pub(crate) mod field;
mod first;
mod improve;
mod lift;
mod objective;
mod place;
mod plan;
mod prove;
pub(crate) mod random;
mod reach;
mod rules;
mod share;
mod window;

use crate::arch::ScampArch;
use crate::cain;
use crate::isa::Reg;
use crate::program::Program;
use crate::task::Task;
use field::Residue;
use improve::Walk;
pub use objective::{Found, Measures, Objective, Wish, find_best};
use plan::{Plan, Setting};
pub use prove::{Proof, prove, proved};
use quincunx_diag::{Diagnostic, Result, first_error};
pub(crate) use random::Random;

/// How hard to search, in combinations of values that are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort(pub u64);

impl Effort {
    /// Names for options.
    pub const NAMES: [&str; 3] = ["fast", "default", "max"];

    /// The effort of a name: some hundredths of a second, a second or so, half a minute; the middle
    /// one for any other name.
    pub fn named(name: &str) -> Effort {
        Effort(match name {
            "fast" => 2_000_000,
            "max" => 3_000_000_000,
            _ => 100_000_000,
        })
    }
}

/// Where random walks begin, unless another number is given.
pub const SEED: u64 = 1;

/// What a search needs to know besides its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What macros leave in further registers may be used.
    pub leftovers: bool,
    /// When to stop.
    pub effort: Effort,
    /// Where the random walk begins.
    pub seed: u64,
}

/// A walk that has found nothing better for this part of the effort begins again.
const PATIENCE: u64 = 2;

/// Combinations of values that take as long as a node of Cain's search.
const WORK_OF_A_NODE: u64 = 60_000;

/// Finds a program for a task.
///
/// # Errors
/// `Q5090` when the macros cannot compute the kernels, `Q5091` when there are too few registers, with
/// a number that suffices where one was found, `Q5092` for more instructions than a plan may have.
pub fn find(task: &Task, arch: &ScampArch, settings: Settings) -> Result<Program> {
    attempt(task, arch, settings).map_err(|problem| match problem.code() {
        "Q5091" => {
            let enough = enough::enough(task, arch, settings.leftovers);
            let besides = match task.wanted.inputs.iter().all(|input| task.pool.contains(input)) {
                true => "",
                false => ", inputs that are not written aside",
            };
            problem.help_if(enough.map(|enough| format!("{enough} registers suffice{besides}")))
        }
        _ => problem,
    })
}

/// As [`find`]; without the number of registers that suffices, which takes a while to find.
pub(crate) fn attempt(task: &Task, arch: &ScampArch, settings: Settings) -> Result<Program> {
    let setting = setting(task, arch, settings.leftovers);
    let starts = starts(task, &setting, arch, settings)?;
    let mut best = Best { task, setting: &setting, found: None };
    starts.iter().for_each(|plan| best.offer(plan));
    walk(&starts, settings, &mut best);
    let Some((_, program)) = best.found else {
        return Err(too_few(task));
    };
    first_error(task.wanted.check(&program)?)?;
    Ok(program)
}

/// The problem of a task whose registers do not suffice.
fn too_few(task: &Task) -> Diagnostic {
    let names = |list: &[Reg]| list.iter().map(Reg::to_string).collect::<Vec<_>>().join(" ");
    let message = format!("the registers {} are too few for these kernels", names(&task.pool));
    let (inputs, outputs) = (names(&task.wanted.inputs), names(&task.wanted.outputs));
    Diagnostic::unsupported("Q5091", message)
        .with_note(format!("inputs are in {inputs}, outputs in {outputs}"))
}

/// Instructions, then bus steps.
type Cost = (usize, u64);

/// The cheapest program so far.
struct Best<'a> {
    task: &'a Task,
    setting: &'a Setting,
    found: Option<(Cost, Program)>,
}

impl Best<'_> {
    fn cost(&self, plan: &Plan) -> Cost {
        (plan.steps.len(), plan.bus(self.setting))
    }

    fn place(&self, plan: &Plan) -> Option<Program> {
        place::program(plan, self.setting, self.task)
    }

    /// Takes a plan that is cheaper, if its values have registers.
    fn offer(&mut self, plan: &Plan) {
        let cost = self.cost(plan);
        if self.found.as_ref().is_none_or(|(old, _)| cost < *old)
            && let Some(program) = self.place(plan)
        {
            self.found = Some((cost, program));
        }
    }
}

/// Walks from one plan after the other until the effort is spent.
fn walk(starts: &[Plan], settings: Settings, best: &mut Best<'_>) {
    let (effort, mut starts) = (settings.effort.0, starts.iter().cycle());
    let mut walk = Walk::new(best.setting, settings.seed);
    let (mut shortest, mut since) = ((usize::MAX, 0), 0);
    // Nothing is shorter than one instruction, but none where none is needed.
    let is_done = |best: &Best<'_>| best.found.as_ref().is_some_and(|((steps, _), _)| *steps < 2);
    while walk.work() < effort && !is_done(best) {
        if shortest.0 == usize::MAX || walk.work() > since + effort / PATIENCE {
            // It goes round in circles: begin elsewhere.
            walk.plan = starts.next().expect("there is a plan").clone();
            (shortest, since) = (best.cost(&walk.plan), walk.work());
        }
        if walk.step(|plan| best.place(plan).is_some()) {
            let cost = best.cost(&walk.plan);
            if cost < shortest {
                (shortest, since) = (cost, walk.work());
            }
            best.offer(&walk.plan);
        }
    }
}

/// Plans to begin with, the shortest first: those of Cain's search, and some by rule.
fn starts(
    task: &Task,
    setting: &Setting,
    arch: &ScampArch,
    settings: Settings,
) -> Result<Vec<Plan>> {
    let mut random = Random(settings.seed);
    let mut plans = vec![first::first(task, setting, &mut random)];
    let max_nodes = settings.effort.0 / WORK_OF_A_NODE;
    if max_nodes > 0 {
        let cain = cain::Settings { max_nodes, seed: settings.seed, ..cain::Settings::default() };
        // What it does not find is no loss: there are plans by rule.
        let found = cain::search(task, &cain, arch).map_or(Vec::new(), |outcome| outcome.plans);
        let found = found.iter().filter_map(|plan| lift::lift(&plan.program, setting, task));
        plans.extend(found.map(Ok));
    }
    let mut starts: Vec<Plan> = plans.iter().flatten().cloned().collect();
    if starts.is_empty() {
        return Err(plans.swap_remove(0).expect_err("no plan is there"));
    }
    starts.sort_by_key(|plan| plan.steps.len());
    Ok(starts)
}

fn setting(task: &Task, arch: &ScampArch, leftovers: bool) -> Setting {
    let wanted = &task.wanted;
    let fixed: Vec<bool> = wanted.inputs.iter().map(|input| !task.pool.contains(input)).collect();
    let homes = wanted.outputs.iter().enumerate().filter_map(|(output, name)| {
        Some((output, wanted.inputs.iter().position(|input| input == name)?))
    });
    Setting {
        rules: rules::rules(&task.macros, arch, leftovers),
        registers: task.pool.len() + fixed.iter().filter(|fixed| **fixed).count(),
        inputs: (0..wanted.inputs.len()).map(Residue::channel).collect(),
        fixed,
        homes: homes.collect(),
    }
}
