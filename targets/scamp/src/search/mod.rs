//! The default search: a first plan by rule, then shorter ones by a random walk.

mod field;
mod first;
mod improve;
mod place;
mod plan;
mod random;
mod reach;
mod rules;
mod share;
mod window;

use crate::arch::ScampArch;
use crate::program::Program;
use crate::task::Task;
use field::Residue;
use improve::Walk;
use plan::{Plan, Setting};
use quincunx_diag::{Diagnostic, Result, first_error};
use random::Random;

/// How hard to search, in combinations of values that are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort(pub u64);

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

/// Finds a program for a task.
///
/// # Errors
/// `Q5090` when the macros cannot compute the kernels, `Q5091` when there are too few registers, with
/// a number that suffices where one is known, `Q5092` for more instructions than a plan may have.
pub fn find(task: &Task, arch: &ScampArch, settings: Settings) -> Result<Program> {
    let setting = setting(task, arch, settings.leftovers);
    let mut random = Random(settings.seed);
    let mut first = || first::first(task, &setting, &mut random);
    let plan = first()?;
    let place = |plan: &Plan| place::program(plan, &setting, task);
    let cost = |plan: &Plan| (plan.steps.len(), plan.bus(&setting));
    let mut best = place(&plan).map(|program| (cost(&plan), program));
    let mut walk = Walk::new(&setting, plan, settings.seed);
    let patience = settings.effort.0 / PATIENCE;
    let (mut shortest, mut since) = (cost(&walk.plan), 0);
    while walk.work() < settings.effort.0 {
        if walk.work() > since + patience {
            // It goes round in circles: begin again.
            walk.plan = first()?;
            (shortest, since) = (cost(&walk.plan), walk.work());
        }
        if !walk.step(|plan| place(plan).is_some()) {
            continue;
        }
        let cost = cost(&walk.plan);
        if cost < shortest {
            (shortest, since) = (cost, walk.work());
        }
        if best.as_ref().is_none_or(|(old, _)| cost < *old)
            && let Some(program) = place(&walk.plan)
        {
            best = Some((cost, program));
        }
    }
    let Some((_, program)) = best else {
        return Err(Diagnostic::unsupported(
            "Q5091",
            "the registers are too few for these kernels",
        ));
    };
    first_error(task.wanted.check(&program)?)?;
    Ok(program)
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
