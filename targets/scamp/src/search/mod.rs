//! The default search: a first plan by rule, then shorter ones by a random walk.

mod enough;
mod exchange;
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
mod rounds;
mod rules;
mod share;
mod starts;
mod wants;

use crate::arch::ScampArch;
use crate::isa::Reg;
use crate::program::Program;
use crate::task::Task;
use field::Residue;
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

    /// The effort of a name: some hundredths of a second, a second or two, half a minute; the middle
    /// one for any other name.
    pub fn named(name: &str) -> Effort {
        Effort(match name {
            "fast" => 2_000_000,
            "max" => 3_000_000_000,
            _ => 250_000_000,
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
    let starts = starts::starts(task, &setting, arch, settings)?;
    let mut best = Best { task, setting: &setting, found: None };
    starts.iter().for_each(|plan| best.offer(plan));
    rounds::walk(&starts, settings, &mut best);
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
    /// Nothing is shorter than one instruction, but none where none is needed.
    fn is_done(&self) -> bool {
        self.found.as_ref().is_some_and(|((steps, _), _)| *steps < 2)
    }

    fn cost(&self, plan: &Plan) -> Cost {
        (plan.steps.len(), plan.bus(self.setting))
    }

    /// Whether the values of a plan have registers; adds what it takes to find out to the work.
    fn places(&self, plan: &Plan, work: &mut u64) -> bool {
        place::program(plan, self.setting, self.task, work).is_some()
    }

    /// Takes a plan that is cheaper, if its values have registers.
    fn offer(&mut self, plan: &Plan) {
        let cost = self.cost(plan);
        if self.found.as_ref().is_none_or(|(old, _)| cost < *old)
            && let Some(program) = place::program(plan, self.setting, self.task, &mut 0)
        {
            self.found = Some((cost, program));
        }
    }
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
