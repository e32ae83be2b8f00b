//! Programs that are best by other measures than their number of instructions, and programs in which
//! nothing saturates: a walk that goes on from the default search, and measures programs.

use super::improve::{Place, Walk};
use super::place;
use super::plan::{Plan, Setting, Step};
use super::random::Random;
use super::{Best, Effort, Settings, attempt, lift, setting, starts, too_few};
use crate::arch::ScampArch;
use crate::program::Program;
use crate::search::field::Residue;
use crate::symbolic::{Peak, Range, peak, variances};
use crate::task::{Task, Wanted};
use quincunx_diag::{Diagnostic, Result, first_error};
use smallvec::smallvec;

/// What a search makes least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// Instructions, then bus steps.
    #[default]
    Macros,
    /// Bus steps, then instructions.
    Bus,
    /// Noise of the outputs, then bus steps.
    Noise,
}

impl Objective {
    /// Names for options.
    pub const NAMES: [&'static str; 3] = ["macros", "bus", "noise"];

    /// The one of a name; instructions for any other name.
    pub fn named(name: &str) -> Objective {
        match name {
            "bus" => Objective::Bus,
            "noise" => Objective::Noise,
            _ => Objective::Macros,
        }
    }
}

/// What is asked of a program besides that it is right.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wish {
    /// What is made least.
    pub objective: Objective,
    /// Standard deviations of the noise of writes with one receiver, two, three and more.
    pub sigma: [f64; 3],
    /// Values of inputs for which nothing may saturate.
    pub range: Option<Range>,
}

/// How good a program is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measures {
    /// Instructions.
    pub macros: u64,
    /// Bus steps.
    pub bus: u64,
    /// Standard deviation of the noise of an output, the root mean square over all.
    pub noise: f64,
}

impl Measures {
    /// Those of a program for a task.
    ///
    /// # Errors
    /// As [`variances`].
    pub fn of(program: &Program, task: &Task, sigma: [f64; 3]) -> Result<Measures> {
        let list = variances(program, &task.wanted.outputs, sigma)?;
        let noise = (list.iter().sum::<f64>() / list.len().max(1) as f64).sqrt();
        Ok(Measures { macros: program.length(), bus: program.bus_steps(), noise })
    }

    /// The measures by which programs are compared one after the other.
    fn cost(&self, objective: Objective) -> [f64; 3] {
        let Measures { macros, bus, noise } = *self;
        match objective {
            Objective::Macros => [macros as f64, bus as f64, noise],
            Objective::Bus => [bus as f64, macros as f64, noise],
            Objective::Noise => [noise, bus as f64, macros as f64],
        }
    }

    /// In nothing worse.
    fn covers(&self, other: &Measures) -> bool {
        self.macros <= other.macros && self.bus <= other.bus && self.noise <= other.noise
    }
}

/// What a search found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The best program by the objective.
    pub program: Program,
    /// Programs of which none is worse than another one in everything, the shortest first.
    pub front: Vec<(Measures, Program)>,
}

/// A walk goes on from a plan whose first measure is at most so much more than the least.
const SLACK: f64 = 1.02;

/// Combinations of values that take as long as measuring an instruction.
const WORK_OF_A_MEASURE: u64 = 400;

/// Plans from which walks begin.
const STARTS: usize = 4;

/// Finds a program that is best by an objective.
///
/// # Errors
/// As [`super::find`]; `Q5102` when every program that was found saturates.
pub fn find_best(task: &Task, arch: &ScampArch, settings: Settings, wish: &Wish) -> Result<Found> {
    let half = Settings { effort: Effort(settings.effort.0 / 2), ..settings };
    let setting = setting(task, arch, settings.leftovers);
    let mut judge =
        Judge { task, arch, setting: &setting, wish, front: Vec::new(), worse: None, work: 0 };
    let mut plans = Vec::new();
    // Inputs that are halved first take registers and instructions, which may be too many.
    plans.extend(units(task, &setting, arch, half).unwrap_or_default());
    plans.sort_by_key(|plan| plan.steps.len());
    plans.truncate(STARTS / 2);
    plans.extend(starts::starts(task, &setting, arch, Settings { effort: Effort(0), ..half })?);
    let shortest = attempt(task, arch, half)?;
    judge.measure(&shortest)?;
    plans.extend(lift::lift(&shortest, &setting, task));
    let mut costs = Vec::new();
    for plan in plans {
        costs.push((judge.offer(&plan)?, plan));
    }
    costs.sort_by(|a, b| a.0.total_cmp(&b.0));
    costs.truncate(STARTS);
    for (round, (cost, plan)) in (1..).zip(&costs) {
        let mut walk = Walk::new(&setting, Place::new(plan, Random(settings.seed + round)));
        let share = half.effort.0 / costs.len() as u64;
        judge.refine(&mut walk, *cost, share * round)?;
    }
    judge.found()
}

/// Plans that halve the inputs to units first, so that no sum is larger than it need be.
fn units(
    task: &Task,
    setting: &Setting,
    arch: &ScampArch,
    settings: Settings,
) -> Result<Vec<Plan>> {
    let wanted = Wanted { depth: 0, ..task.wanted.clone() };
    let whole = Task { wanted, ..task.clone() };
    let half = [Residue::of(2).inverse()];
    let Some(rule) = setting.rules.iter().position(|rule| rule.results[0] == half) else {
        return Ok(Vec::new());
    };
    let halved = |plan: &Plan| {
        let mut new = Plan { inputs: plan.inputs, steps: Vec::new(), outputs: Vec::new() };
        let mut inputs = Vec::new();
        for input in 0..plan.inputs {
            let mut id = input as u16;
            for _ in 0..task.wanted.depth {
                new.steps.push(Step { rule: rule as u16, sources: smallvec![id] });
                id = new.id(new.steps.len() - 1, 0);
            }
            inputs.push(id);
        }
        let offset = new.id(new.steps.len(), 0) - plan.id(0, 0);
        let renamed = |&id: &u16| inputs.get(usize::from(id)).copied().unwrap_or(id + offset);
        new.steps.extend(plan.steps.iter().map(|step| Step {
            rule: step.rule,
            sources: step.sources.iter().map(renamed).collect(),
        }));
        new.outputs = plan.outputs.iter().map(renamed).collect();
        new
    };
    let halvings = task.wanted.depth as usize * task.wanted.inputs.len();
    let most = super::plan::MAX_STEPS.saturating_sub(halvings);
    let plans = starts::starts(&whole, setting, arch, Settings { effort: Effort(0), ..settings })?;
    let short = plans.iter().filter(|plan| plan.steps.len() <= most);
    Ok(short.map(halved).filter(|plan| plan.fits(setting)).collect())
}

/// Measures programs, and keeps the best.
struct Judge<'a> {
    task: &'a Task,
    arch: &'a ScampArch,
    setting: &'a Setting,
    wish: &'a Wish,
    front: Vec<(Measures, Program)>,
    /// The shortest program that saturates, and where.
    worse: Option<(Program, Peak)>,
    work: u64,
}

impl Judge<'_> {
    /// The first measure of a program; infinite if it saturates.
    fn measure(&mut self, program: &Program) -> Result<f64> {
        self.work += WORK_OF_A_MEASURE * (1 + program.length());
        if let Some(range) = self.wish.range
            && let Some(peak) = peak(program, range, self.arch.saturation)?
        {
            if self.worse.as_ref().is_none_or(|(old, _)| program.length() < old.length()) {
                self.worse = Some((program.clone(), peak));
            }
            return Ok(f64::INFINITY);
        }
        let own = Measures::of(program, self.task, self.wish.sigma)?;
        if !self.front.iter().any(|(old, _)| old.covers(&own)) {
            self.front.retain(|(old, _)| !own.covers(old));
            self.front.push((own, program.clone()));
        }
        Ok(own.cost(self.wish.objective)[0])
    }

    /// The first measure of a plan; infinite if it has no registers or saturates.
    fn offer(&mut self, plan: &Plan) -> Result<f64> {
        match place::program(plan, self.setting, self.task, &mut self.work) {
            Some(program) => self.measure(&program),
            None => Ok(f64::INFINITY),
        }
    }

    /// Walks from a plan until the work is done, never far above the least cost.
    fn refine(&mut self, walk: &mut Walk<'_>, cost: f64, work: u64) -> Result<()> {
        let (mut least, mut now) = (cost, cost);
        let best = Best { task: self.task, setting: self.setting, found: None };
        while walk.work() + self.work < work {
            quincunx_stop::check();
            let before = walk.plan().clone();
            if !walk.step(&best) {
                continue;
            }
            let next = self.offer(walk.plan())?;
            if next > least * SLACK && next > now {
                walk.go_to(before);
            } else {
                (least, now) = (least.min(next), next);
            }
        }
        self.work += walk.work();
        Ok(())
    }

    /// The best program.
    fn found(mut self) -> Result<Found> {
        let cost = |entry: &(Measures, Program)| entry.0.cost(self.wish.objective);
        self.front.sort_by(|a, b| {
            let by = |m: &Measures| m.cost(Objective::Macros);
            by(&a.0).partial_cmp(&by(&b.0)).unwrap_or(std::cmp::Ordering::Equal)
        });
        let better = |a: &&(Measures, Program), b: &&(Measures, Program)| {
            cost(a).partial_cmp(&cost(b)).unwrap_or(std::cmp::Ordering::Equal)
        };
        let best = self.front.iter().min_by(better).map(|(_, program)| program.clone());
        let Some(program) = best else {
            return Err(match &self.worse {
                Some((program, peak)) => peak.problem(program, self.arch.saturation),
                None => too_few(self.task),
            });
        };
        for (_, program) in &self.front {
            first_error(self.task.wanted.check(program)?)?;
        }
        Ok(Found { program, front: self.front })
    }
}

impl Found {
    /// The front as a note about something.
    pub(crate) fn note(&self, what: &str) -> Diagnostic {
        let message = format!("{what}: programs of which none is worse than another in everything");
        self.front.iter().fold(Diagnostic::note("Q5103", message), |note, (measures, _)| {
            let Measures { macros, bus, noise } = measures;
            note.with_note(format!("{macros} instructions, {bus} bus steps, noise {noise:.4}"))
        })
    }
}
