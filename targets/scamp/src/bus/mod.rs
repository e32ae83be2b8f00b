//! The bus back end: programs of bus steps instead of macros.
//!
//! A step sums up to as many values as the machine allows, several neighbours' NEWS among them,
//! negates the sum, and halves it if it has two receivers; signs are carried along. The search begins
//! with plans by structure (`first`) and a program of the default search in bus steps (`lift`). Each
//! goes a random walk (`walk`): a window of one to four steps is filled anew (`window`), with fewer
//! steps where that is possible, with as many otherwise. In residues a step is a sum, so that what two
//! steps can make is found where all sums forwards meet all sums backwards (`reach`). The better half
//! of the plans walks on with twice the effort each, until one is left; then other plans by structure
//! begin. Registers are counted on the way and given at the end (`place`).

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
use crate::search::{self, Effort, Objective, Wish};
use crate::symbolic::{Range, mismatches, peak};
use crate::task::Task;
use plan::{Plan, Setting, kinds};
use quincunx_diag::{Diagnostic, Result, first_error};
use walk::Walk;

/// What a search needs to know besides its task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// How values are halved.
    pub halving: Halving,
    /// When to stop, in combinations of values that are looked at.
    pub effort: Effort,
    /// Where the random walk begins.
    pub seed: u64,
    /// Values of inputs for which nothing may saturate.
    pub range: Option<Range>,
}

/// The part of the effort for the program of macros to begin with, and for plans by structure.
const START: u64 = 16;

/// Plans by structure that are made, at least and at most.
const FIRSTS: (u64, u64) = (12, 40);

/// Combinations of values that take as long as one of these plans, for every cell of the kernels.
const WORK_OF_A_CELL: u64 = 5_000;

/// Plans of which each round takes the better half, at most, until one is left; all rounds take the
/// same effort.
const ENTRANTS: usize = 16;

/// Effort for each of these plans; with less there are fewer of them.
const EFFORT_OF_AN_ENTRANT: u64 = 500_000;

/// Effort for one set of walks, at least; what is beyond goes to further sets with other plans.
const SET: u64 = 24_000_000;

/// The same for plans of many steps, by the square of their number.
const SET_OF_STEPS: u64 = 100_000;

/// Finds a program for a task.
///
/// # Errors
/// `Q5092` for more steps than a plan may have, `Q5100` where the outputs' names leave no plan that
/// fits, `Q5101` when steps of the machine cannot compute the kernels; else as [`search::find`].
pub fn find(task: &Task, arch: &ScampArch, settings: Settings) -> Result<Program> {
    // Here a combination takes longer than in the default search.
    let settings = Settings { effort: Effort(settings.effort.0 / 5 * 3), ..settings };
    let setting = setting(task, arch, settings.halving);
    let aim = Aim { task, arch, setting: &setting, settings };
    let mut random = Random(settings.seed);
    let of_macros = match aim.of_macros() {
        Err(problem) if aim.firsts(&mut random).is_empty() => return Err(problem),
        found => found.unwrap_or_default().filter(|plan| aim.program(plan).is_some()),
    };
    let (mut best, mut spent) = (None, 0);
    loop {
        let mut plans = aim.firsts(&mut random);
        plans.extend(of_macros.clone());
        let steps = plans.iter().map(|plan| plan.steps.len() as u64).min().unwrap_or(0);
        let size = SET.max(SET_OF_STEPS * steps * steps).min(settings.effort.0 - spent);
        let found = aim.tournament(plans, size, &mut random);
        best = best.into_iter().chain(found).min_by_key(|plan: &Plan| plan.bus(&setting));
        spent += size;
        if spent >= settings.effort.0 {
            break;
        }
    }
    let Some(program) = best.and_then(|plan| aim.program(&plan)) else {
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

/// What is searched.
struct Aim<'a> {
    task: &'a Task,
    arch: &'a ScampArch,
    setting: &'a Setting,
    settings: Settings,
}

impl Aim<'_> {
    /// The program of a plan; `None` where its values have no registers, or can saturate.
    fn program(&self, plan: &Plan) -> Option<Program> {
        let program = place::program(plan, self.setting, self.task)?;
        let holds = |range| matches!(peak(&program, range, self.arch.saturation), Ok(None));
        self.settings.range.is_none_or(holds).then_some(program)
    }

    /// The last of the cheapest plans of a walk that have a program.
    fn walked(&self, start: &Plan, effort: u64, seed: u64) -> Plan {
        let setting = self.setting;
        let mut walk = Walk::new(setting, seed, start.clone());
        let has_program = |plan: &Plan| self.program(plan).is_some();
        // Nothing is cheaper than one step, but none where none is needed.
        while walk.work() < effort && walk.plan.bus(setting) > 1 {
            quincunx_stop::check();
            walk.step(has_program);
        }
        let is_best = walk.plan.bus(setting) <= walk.placed.bus(setting);
        if is_best && has_program(&walk.plan) { walk.plan } else { walk.placed }
    }

    /// The cheapest of some plans by structure.
    fn firsts(&self, random: &mut Random) -> Vec<Plan> {
        let mut order: Vec<usize> = (0..self.task.wanted.goals.0.len()).collect();
        let mut plans = Vec::new();
        let cells = self.task.wanted.goals.0.iter().map(|goal| goal.cells().count() as u64);
        let work = WORK_OF_A_CELL * cells.sum::<u64>().max(1);
        for _ in 0..(self.settings.effort.0 / START / work).clamp(FIRSTS.0, FIRSTS.1) {
            let plan = first::first(self.task, self.setting, &order, random);
            plans.extend(plan.filter(|plan| self.program(plan).is_some()));
            for index in (1..order.len()).rev() {
                order.swap(index, random.below(index + 1));
            }
        }
        plans.sort_by_key(|plan| plan.bus(self.setting));
        plans.truncate(ENTRANTS - 1);
        plans
    }

    /// The plan that is left when all walk some way and the better half goes on, until one is left.
    fn tournament(&self, mut plans: Vec<Plan>, effort: u64, random: &mut Random) -> Option<Plan> {
        let entrants = (effort / EFFORT_OF_AN_ENTRANT).clamp(1, ENTRANTS as u64);
        let rounds = u64::from(entrants.ilog2()) + 1;
        let mut left = entrants as usize;
        while left > 0 {
            plans.sort_by_key(|plan| plan.bus(self.setting));
            plans.dedup();
            plans.truncate(left);
            let share = effort / rounds / plans.len().max(1) as u64;
            for plan in &mut plans {
                *plan = self.walked(plan, share, random.next());
            }
            left /= 2;
        }
        plans.into_iter().min_by_key(|plan| plan.bus(self.setting))
    }

    /// A program of the default search in bus steps.
    fn of_macros(&self) -> Result<Option<Plan>> {
        let mut arch = self.arch.clone();
        arch.macros = self.settings.halving.macros(&ScampArch::macro_set("all")?);
        let task = Task { macros: arch.macros.clone(), ..self.task.clone() };
        let effort = Effort(self.settings.effort.0 / START);
        let settings = search::Settings { leftovers: false, effort, seed: self.settings.seed };
        let program = match self.settings.range {
            None => search::attempt(&task, &arch, settings),
            Some(_) => {
                let (objective, range) = (Objective::Bus, self.settings.range);
                let wish = Wish { objective, sigma: [1.0; 3], range };
                search::find_best(&task, &arch, settings, &wish).map(|found| found.program)
            }
        };
        let program = program.map_err(|problem| match problem.code() {
            "Q5090" => impossible(self.setting),
            _ => problem,
        })?;
        if program.bus_steps() > plan::MAX_STEPS as u64 {
            let message = format!("the kernels take more than {} bus steps", plan::MAX_STEPS);
            return Err(Diagnostic::unsupported("Q5092", message)
                .help("weights with fewer bits take fewer: --depth, --error"));
        }
        Ok(lift::lift(&program, self.setting, &task))
    }
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
