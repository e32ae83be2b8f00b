//! Proofs that no program is shorter, by trying all of them.
//!
//! A program is seen as the values that its instructions make, as residues (`field`); registers are
//! no limit, so that a bound holds for any number of them. Of the lengths from 0 on each is tried
//! completely: no program has fewer instructions than the first that is not refuted.
//!
//! What such a proof rests on:
//!
//! * Equal values have equal residues, so that the residues of a program that computes the goals are
//!   among those that are tried. Two different values with one residue count as copies of one value;
//!   the bounds and turned arrays take them for equal, and would be wrong if they met in one list of
//!   `deepen`. For a pair the chance of that is below 2^-50.
//! * The forms have all that the macros can do, see `forms`. A source that nobody has written counts
//!   as 0: what a program computes does not depend on it, so that it may be 0. Deprecated spellings
//!   are no words of programs.
//! * A value may be read by one instruction twice where the machine allows it for one register;
//!   elsewhere it takes a copy, which is an instruction.
//! * All shorter programs were refuted before. So every result is read or is a goal, whichever of
//!   the ways to make the same values is taken (`bounds`).
//! * Turning or reflecting the array changes nothing if it leaves goals and forms as they are: of
//!   several programs that are one turned, one is tried. Inputs are the same in every turned array.
//! * Goals of 0 are made by instructions of their own, which nobody else needs.
//!
//! There is no table of what was tried: every multiset of values is visited once anyway, in memory
//! that grows with the length alone.

mod bounds;
mod deepen;
mod factor;
mod forms;
mod index;
mod last;

use super::field::Residue;
use super::place;
use super::plan::{Plan, Setting, Step};
use super::{Settings, setting};
use crate::arch::ScampArch;
use crate::goal::{Cell, Goal};
use crate::isa::TABLE;
use crate::program::Program;
use crate::task::Task;
use bounds::Bounds;
use deepen::{MAX_ELEMENTS, Made, Search, Target, Way};
use factor::{TURNS, turned};
use forms::Forms;
use quincunx_diag::Result;
use smallvec::SmallVec;

/// What was proved of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Proof {
    /// No program has fewer instructions.
    pub bound: u64,
    /// A program with so many, if one was found that the registers suffice for.
    pub program: Option<Program>,
    /// Mnemonics of the macros that programs may have.
    pub macros: Vec<&'static str>,
    /// Programs may use what macros leave in further registers.
    pub leftovers: bool,
    /// Combinations of values that were looked at.
    pub work: u64,
}

impl Proof {
    /// What is proved of a program, in words.
    pub fn of(&self, program: &Program) -> String {
        let length = program.length();
        let verdict = if length == self.bound { "optimal (proved)" } else { "not proved optimal" };
        format!("{length} instructions, {verdict}: {}", self.describe())
    }

    /// What is proved, in words.
    pub fn describe(&self) -> String {
        let leftovers = if self.leftovers { "with" } else { "without" };
        format!(
            "no program of {} has fewer than {} instructions, {leftovers} what macros leave in further \
             registers",
            self.macros.join(" "),
            self.bound
        )
    }
}

/// Most solutions of one length for which registers are looked for.
const MAX_OFFERS: usize = 1000;

/// Most instructions of a program that is looked for.
const MAX_LENGTH: u64 = 24;

/// One of so many parts of the effort of a search is for the proof.
const SHARE: u64 = 10;

/// A program of a search with what is proved of its length, by a share of the effort; a shorter program
/// where there is one that the proof finds.
///
/// # Errors
/// As [`prove`].
pub fn proved(
    program: Program,
    task: &Task,
    arch: &ScampArch,
    settings: Settings,
) -> Result<(Program, Proof)> {
    let effort = settings.effort.0 / SHARE;
    let proof = prove(task, arch, settings.leftovers, effort, Some(program.length()))?;
    Ok((proof.program.clone().unwrap_or(program), proof))
}

/// Refutes one length after the other, until a program is found, `below` is reached, or so many
/// combinations of values were looked at.
///
/// # Errors
/// As [`crate::task::Wanted::check`].
pub fn prove(
    task: &Task,
    arch: &ScampArch,
    leftovers: bool,
    effort: u64,
    below: Option<u64>,
) -> Result<Proof> {
    let mut proof = Proof { bound: 0, program: None, macros: mnemonics(task), leftovers, work: 0 };
    let setting = setting(task, arch, leftovers);
    if let Some(forms) = Forms::new(&setting.rules, task.macros.contains("Abs")) {
        let prover = Prover { task, setting: &setting, forms: &forms };
        prover.run(&mut proof, effort, below.unwrap_or(MAX_LENGTH).min(MAX_LENGTH))?;
    }
    Ok(proof)
}

fn mnemonics(task: &Task) -> Vec<&'static str> {
    let rows = TABLE.rows.iter().filter(|row| task.macros.contains(row.name));
    let mut list: Vec<&'static str> = rows.map(|row| row.mnemonic).collect();
    list.dedup();
    list
}

struct Prover<'a> {
    task: &'a Task,
    setting: &'a Setting,
    forms: &'a Forms,
}

impl Prover<'_> {
    fn run(&self, proof: &mut Proof, effort: u64, below: u64) -> Result<()> {
        let goals = self.goals();
        let zeros = self.task.wanted.goals.0.iter().filter(|goal| goal.total() == 0).count();
        // Most registers that one instruction sets.
        proof.bound = zeros.div_ceil(3) as u64;
        let base = proof.bound;
        let value =
            |(goal, count): &(&Goal, usize)| Target { value: self.value(goal), count: *count };
        let inputs: Vec<[Residue; TURNS]> =
            self.setting.inputs.iter().map(|&input| [input; TURNS]).collect();
        let halves = goals.iter().map(|(goal, _)| self.halves(goal)).max().unwrap_or(0);
        let cells = goals.iter().map(|(goal, _)| goal.cells().count() as u32).max().unwrap_or(0);
        let turns = (1..TURNS).filter(|&turn| self.allows(&goals, turn)).collect();
        let (mut offers, mut found) = (0, None);
        let mut offer = |made: &[Made]| {
            offers += 1;
            found = self.plan(made).and_then(|plan| self.program(&plan));
            found.is_some() || offers >= MAX_OFFERS
        };
        let bounds = Bounds::new(self.forms, halves, cells);
        let targets = goals.iter().map(value).collect();
        let mut search = Search::new(self.forms, &inputs, targets, bounds, turns, &mut offer);
        search.limit = effort;
        let is_done = search.missing().is_empty();
        let most = (MAX_ELEMENTS - inputs.len()) / self.forms.most_results;
        for length in 1.. {
            if is_done || proof.bound >= below || length > most {
                break;
            }
            proof.bound = base + length as u64;
            if search.run(length) || search.was_found {
                break;
            }
        }
        proof.work = search.work;
        if is_done {
            offer(&[]);
        }
        match found {
            Some(program) if self.task.wanted.check(&program)?.is_empty() => {
                proof.program = Some(program);
            }
            _ => {}
        }
        Ok(())
    }

    /// The goals that are not 0, and how often the values of the program, inputs included, have to be
    /// each. An input that leaves by another register is a value that was made.
    fn goals(&self) -> Vec<(&Goal, usize)> {
        let wanted = &self.task.wanted;
        let mut list: Vec<(&Goal, usize)> = Vec::new();
        for (goal, output) in wanted.goals.0.iter().zip(&wanted.outputs) {
            let is_it = |input: &usize| *goal == Goal::identity(*input as u32, wanted.depth);
            let same: Vec<usize> = (0..wanted.inputs.len()).filter(is_it).collect();
            let stays = same.iter().any(|&input| wanted.inputs[input] == *output);
            let made = usize::from(!stays);
            match list.iter_mut().find(|(other, _)| *other == goal) {
                Some((_, count)) => *count += made,
                None if goal.total() > 0 => list.push((goal, same.len() + made)),
                None => {}
            }
        }
        list
    }

    /// What a goal is.
    fn value(&self, goal: &Goal) -> Residue {
        let unit = (0..self.task.wanted.depth)
            .fold(Residue::ONE, |unit, _| unit.times(Residue::of(2).inverse()));
        goal.cells().fold(Residue::ZERO, |sum, (Cell { x, y, z }, count)| {
            let place = Residue::translation(x.into(), y.into());
            let input = self.setting.inputs[z as usize];
            sum.plus(Residue::of(count).times(unit).times(place).times(input))
        })
    }

    /// Halvings without which a goal is not made.
    fn halves(&self, goal: &Goal) -> i32 {
        let even = goal.cells().map(|(_, count)| count.trailing_zeros()).min().unwrap_or(0);
        self.task.wanted.depth as i32 - even as i32
    }

    /// Turning the array changes neither the goals nor the forms.
    fn allows(&self, goals: &[(&Goal, usize)], turn: usize) -> bool {
        let there = |(goal, count): &(&Goal, usize)| {
            let mut other = Goal::default();
            for (Cell { x, y, z }, number) in goal.cells() {
                let (x, y) = turned((x, y), turn);
                other.set(Cell { x, y, z }, number);
            }
            goals.iter().any(|(goal, same)| **goal == other && same == count)
        };
        self.forms.allow(turn) && goals.iter().all(there)
    }

    fn program(&self, plan: &Plan) -> Option<Program> {
        plan.fits(self.setting)
            .then(|| place::program(plan, self.setting, self.task, &mut 0))
            .flatten()
    }

    /// Instructions as a plan; `None` if one is there for the sake of the proof only.
    fn plan(&self, made: &[Made]) -> Option<Plan> {
        let inputs = self.setting.inputs.len();
        let mut plan = Plan { inputs, steps: Vec::new(), outputs: Vec::new() };
        // The name of each value; of what a plan cannot read there is none.
        let mut names: Vec<Option<u16>> = (0..inputs as u16).map(Some).collect();
        for made in made {
            let sources = made.sources().iter().map(|&source| names[usize::from(source)]);
            let sources = sources.collect::<Option<SmallVec<[u16; 4]>>>()?;
            let step = plan.steps.len();
            let rule = match made.way {
                Way::Outcome(outcome) => self.forms.outcomes[usize::from(outcome)].rule?,
                Way::Single(single) => {
                    let outcome = self.forms.singles[usize::from(single)].outcome;
                    self.forms.outcomes[usize::from(outcome)].rule?
                }
                Way::Binary(form) => self.forms.binary[usize::from(form)].rule?,
                Way::Ternary(form) => self.forms.ternary[usize::from(form)].rule?,
            };
            let name = |factor: u8| {
                let factor = [self.forms.residue(factor)];
                let results = &self.setting.rules[usize::from(rule)].results;
                Some(plan.id(step, results.iter().position(|form| form[..] == factor)?))
            };
            match made.way {
                Way::Outcome(outcome) => {
                    let factors = &self.forms.outcomes[usize::from(outcome)].factors;
                    let mut new: Vec<Option<u16>> = factors.iter().map(|&f| name(f)).collect();
                    for place in 0..new.len() {
                        // A plan has no name for a second value that is the same.
                        if new[..place].contains(&new[place]) {
                            new[place] = None;
                        }
                    }
                    names.extend(new);
                }
                Way::Single(single) => {
                    names.push(name(self.forms.singles[usize::from(single)].factor));
                }
                Way::Binary(_) | Way::Ternary(_) => names.push(Some(plan.id(step, 0))),
            }
            plan.steps.push(Step { rule, sources });
        }
        self.outputs(&mut plan, &names)?;
        Some(plan)
    }

    /// The values of the goals, each once; zeros are made in the end.
    fn outputs(&self, plan: &mut Plan, names: &[Option<u16>]) -> Option<()> {
        let wanted = &self.task.wanted;
        for (goal, output) in wanted.goals.0.iter().zip(&wanted.outputs) {
            if goal.total() == 0 {
                let zero = self.setting.rules.iter().position(|rule| rule.results[0].is_empty())?;
                plan.steps.push(Step { rule: zero as u16, sources: SmallVec::new() });
                plan.outputs.push(plan.id(plan.steps.len() - 1, 0));
                continue;
            }
            let values = plan.values(self.setting);
            let is_it = |name: &u16| {
                let home = wanted.inputs.get(usize::from(*name));
                values[usize::from(*name)] == self.value(goal)
                    && !plan.outputs.contains(name)
                    && home.is_none_or(|home| home == output)
            };
            let name = names.iter().flatten().copied().find(is_it)?;
            plan.outputs.push(name);
        }
        Some(())
    }
}
