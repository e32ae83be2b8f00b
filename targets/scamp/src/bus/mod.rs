//! The bus back end: programs of bus steps instead of macros.
//!
//! A step sums up to as many values as the machine allows, several neighbours' NEWS among them,
//! negates the sum, and halves it if it has two receivers. The search begins with the programs of the
//! default search in bus steps, and makes them cheaper by a random walk; signs are carried along.

mod first;
mod lift;
mod place;
mod plan;
mod reach;
mod table;
mod walk;
mod window;

pub use plan::Halving;

use crate::arch::ScampArch;
use crate::program::Program;
use crate::search::field::Residue;
use crate::search::random::Random;
use crate::search::{self, Effort};
use crate::symbolic::mismatches;
use crate::task::Task;
use plan::{Plan, Setting, kinds};
use quincunx_diag::{Diagnostic, Result, first_error};
use walk::Walk;

/// What a search needs to know besides its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How values are halved.
    pub halving: Halving,
    /// When to stop, in combinations of values that are looked at.
    pub effort: Effort,
    /// Where the random walk begins.
    pub seed: u64,
}

/// The part of the effort for each of the programs of macros to begin with.
const START: u64 = 12;

/// Programs of macros to begin with.
const STARTS: u64 = 2;

/// Plans by structure to begin with.
const FIRSTS: usize = 12;

/// Plans of which each round takes the better half.
const ENTRANTS: usize = 8;

/// Rounds that take the same effort: with 8, 4, 2 plans and the best one.
const ROUNDS: u64 = 4;

/// Finds a program for a task.
///
/// # Errors
/// `Q5092` for more steps than a plan may have, `Q5100` where the outputs' names leave no plan that
/// fits, `Q5101` when steps of the machine cannot compute the kernels; else as [`search::find`].
pub fn find(task: &Task, arch: &ScampArch, settings: Settings) -> Result<Program> {
    let setting = setting(task, arch, settings.halving);
    let mut plans = starts(task, &setting, arch, settings)?;
    plans.retain(|plan| place::program(plan, &setting, task).is_some());
    let cost = |plan: &Plan| plan.bus(&setting);
    let (mut seed, mut plans_left) = (settings.seed, ENTRANTS);
    while plans_left > 0 {
        plans.sort_by_key(cost);
        plans.dedup();
        plans.truncate(plans_left);
        let share = settings.effort.0 / ROUNDS / plans.len().max(1) as u64;
        for plan in &mut plans {
            *plan = walked(plan, (&setting, task), share, seed);
            seed = seed.wrapping_add(1);
        }
        plans_left /= 2;
    }
    let program = plans.iter().min_by_key(|plan| cost(plan));
    let Some(program) = program.and_then(|plan| place::program(plan, &setting, task)) else {
        return Err(impossible(&setting));
    };
    check(task, settings.halving, &program)?;
    Ok(program)
}

/// Why there is no plan.
fn impossible(setting: &Setting) -> Diagnostic {
    let can_halve = setting.kinds.iter().any(|kind| kind.receivers > 1);
    match can_halve && setting.kinds.iter().any(|kind| kind.sources > 1) {
        true => {
            let message = "the registers are too few for these kernels and places of the outputs";
            Diagnostic::unsupported("Q5100", message)
                .help("more registers, or other names of the outputs")
        }
        false => {
            let message = "the machine's bus steps cannot compute these kernels";
            Diagnostic::unsupported("Q5101", message)
                .help("halves take two receivers, sums two sources: max_receivers, max_sources")
        }
    }
}

/// What a program computes, and with corrected halving that no mismatch is left.
fn check(task: &Task, halving: Halving, program: &Program) -> Result<()> {
    first_error(task.wanted.check(program)?)?;
    let left = mismatches(program);
    match task.wanted.outputs.iter().find(|output| left.contains_key(output)) {
        Some(output) if halving == Halving::Corrected => {
            Err(Diagnostic::bug(format!("a mismatch of receivers is left in {output}")))
        }
        _ => Ok(()),
    }
}

/// The last of the cheapest plans of a walk whose values have registers.
fn walked(start: &Plan, (setting, task): (&Setting, &Task), effort: u64, seed: u64) -> Plan {
    let mut walk = Walk::new(setting, seed, start.clone());
    let fits = |plan: &Plan| place::program(plan, setting, task).is_some();
    // Nothing is cheaper than one step, but none where none is needed.
    while walk.work() < effort && walk.plan.bus(setting) > 1 {
        walk.step(fits);
    }
    let is_best = walk.plan.bus(setting) <= walk.placed.bus(setting);
    if is_best && fits(&walk.plan) { walk.plan } else { walk.placed }
}

/// Plans to begin with: the programs of the default search, and plans by structure.
fn starts(
    task: &Task,
    setting: &Setting,
    arch: &ScampArch,
    settings: Settings,
) -> Result<Vec<Plan>> {
    let mut random = Random(settings.seed);
    let mut order: Vec<usize> = (0..task.wanted.goals.0.len()).collect();
    let mut plans = Vec::new();
    for _ in 0..FIRSTS {
        plans.extend(first::first(task, setting, &order, &mut random));
        for index in (1..order.len()).rev() {
            order.swap(index, random.below(index + 1));
        }
    }
    plans.sort_by_key(|plan| plan.bus(setting));
    plans.truncate(ENTRANTS - STARTS as usize);
    let mut arch = arch.clone();
    arch.macros = settings.halving.macros(&ScampArch::macro_set("all")?);
    let task = Task { macros: arch.macros.clone(), ..task.clone() };
    let effort = Effort(settings.effort.0 / START);
    for seed in 0..STARTS {
        let seed = settings.seed.wrapping_add(seed);
        match search::attempt(&task, &arch, search::Settings { leftovers: false, effort, seed }) {
            Ok(program) if program.bus_steps() > plan::MAX_STEPS as u64 && plans.is_empty() => {
                let message = format!("the kernels take more than {} bus steps", plan::MAX_STEPS);
                return Err(Diagnostic::unsupported("Q5092", message)
                    .help("weights with fewer bits take fewer: --depth, --error"));
            }
            Ok(program) => plans.extend(lift::lift(&program, setting, &task)),
            Err(problem) if plans.is_empty() && problem.code() == "Q5090" => {
                return Err(impossible(setting));
            }
            Err(problem) if plans.is_empty() => return Err(problem),
            Err(_) => {}
        }
    }
    Ok(plans)
}

fn setting(task: &Task, arch: &ScampArch, halving: Halving) -> Setting {
    let wanted = &task.wanted;
    let fixed: Vec<bool> = wanted.inputs.iter().map(|input| !task.pool.contains(input)).collect();
    let homes = wanted.outputs.iter().enumerate().filter_map(|(output, name)| {
        Some((output, wanted.inputs.iter().position(|input| input == name)?))
    });
    Setting {
        kinds: kinds(arch, halving),
        registers: task.pool.len() + fixed.iter().filter(|fixed| **fixed).count(),
        inputs: (0..wanted.inputs.len()).map(Residue::channel).collect(),
        fixed,
        homes: homes.collect(),
    }
}
