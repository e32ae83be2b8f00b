//! Registers for the values of a plan, and its instructions.

use super::plan::{Id, Kind, Last, NEWS, Plan, Setting, Source, Step, Surroundings, Whose};
use crate::isa::{Bus, Direction, Inst, Reg};
use crate::program::Program;
use crate::task::Task;

/// Choices that are tried before a plan is given up.
const MAX_CHOICES: usize = 20_000;

/// Where something is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spot {
    /// A general register, as an index of names.
    Register(usize),
    /// NEWS of an element.
    News(Whose),
}

/// The registers of a step: those that receive, those that drive, and those for the copies by which
/// mismatch is cancelled.
#[derive(Clone, Debug)]
struct Place {
    receivers: Vec<Spot>,
    sources: Vec<Spot>,
    copies: Vec<Spot>,
}

struct Placer<'a> {
    plan: &'a Plan,
    setting: &'a Setting,
    task: &'a Task,
    last: Vec<Last>,
    /// The inputs, then the others; until the end the others are alike.
    names: Vec<Reg>,
    writable: Vec<bool>,
}

/// What general registers and NEWS hold.
#[derive(Clone, Debug)]
struct Holds {
    general: Vec<Option<Id>>,
    news: Option<Id>,
}

/// A step that is placed, and which registers are still to be tried for its values.
struct Frame {
    holds: Holds,
    choices: Vec<Vec<usize>>,
}

/// The program of a plan that fits. `None` where the names of inputs and outputs leave no way to give
/// every value a register.
pub(super) fn program(plan: &Plan, setting: &Setting, task: &Task) -> Option<Program> {
    let inputs = &task.wanted.inputs;
    let mut names = inputs.clone();
    names.extend(task.pool.iter().filter(|name| !inputs.contains(name)));
    let writable = names.iter().map(|name| task.pool.contains(name)).collect();
    let last = plan.last_uses(setting);
    Placer { plan, setting, task, last, names, writable }.run()
}

impl Placer<'_> {
    /// Tries registers for the values of one step after the other, and others where that fails.
    fn run(&self) -> Option<Program> {
        let held = |register: usize| {
            let is_input = register < self.plan.inputs && self.last[register] != Last::Unused;
            is_input.then_some(register as Id)
        };
        let general = (0..self.names.len()).map(held).collect();
        let mut holds = Holds { general, news: None };
        let mut frames: Vec<Frame> = Vec::new();
        for _ in 0..MAX_CHOICES + self.plan.steps.len() {
            if frames.len() == self.plan.steps.len() && self.names_fit(&holds.general) {
                return Some(self.emit(&frames, &holds));
            }
            if frames.len() < self.plan.steps.len() {
                let mut choices = self.choices(frames.len(), &holds);
                choices.reverse();
                frames.push(Frame { holds, choices });
            } else {
                frames.last_mut()?.choices.pop();
            }
            while frames.last()?.choices.is_empty() {
                frames.pop();
                frames.last_mut()?.choices.pop();
            }
            let frame = frames.last()?;
            holds = self.after(frames.len() - 1, &frame.holds, frame.choices.last()?);
        }
        None
    }

    fn kind(&self, step: &Step) -> &Kind {
        &self.setting.kinds[usize::from(step.kind)]
    }

    fn around(&self, index: usize, holds: &Holds) -> Surroundings {
        self.plan.surroundings(index, &self.last, holds.news)
    }

    /// The ways to choose registers for the values that a step puts into general registers.
    fn choices(&self, index: usize, holds: &Holds) -> Vec<Vec<usize>> {
        let used = self.around(index, holds).used;
        let mut list = vec![Vec::new()];
        for slot in (0..NEWS).filter(|&slot| used[slot]) {
            let id = self.plan.id(index, slot);
            let with = |taken: &Vec<usize>| {
                let free = self.candidates(id, &holds.general, taken).into_iter();
                free.map(|register| [&taken[..], &[register]].concat()).collect::<Vec<_>>()
            };
            list = list.iter().flat_map(with).collect();
        }
        list
    }

    /// Free registers for a value, the likeliest first: those of inputs differ by their names, of the
    /// others one stands for all.
    fn candidates(&self, id: Id, holds: &[Option<Id>], taken: &[usize]) -> Vec<usize> {
        let is_free = |&register: &usize| {
            holds[register].is_none() && self.writable[register] && !taken.contains(&register)
        };
        let inputs = self.plan.inputs;
        let home = self.home(id);
        let others = (inputs..holds.len()).filter(is_free).take(1);
        let mut list: Vec<usize> = others.chain((0..inputs).filter(is_free)).collect();
        list.sort_by_key(|&register| home != Some(register));
        list
    }

    /// The register of an input by whose name a value leaves.
    fn home(&self, id: Id) -> Option<usize> {
        let output = self.plan.outputs.iter().position(|&output| output == id)?;
        let name = self.task.wanted.outputs[output];
        self.names[..self.plan.inputs].iter().position(|&input| input == name)
    }

    /// What registers hold after a step whose values go to these registers.
    fn after(&self, index: usize, holds: &Holds, chosen: &[usize]) -> Holds {
        let mut after = holds.clone();
        for held in &mut after.general {
            *held = held.filter(|&id| self.last[usize::from(id)] > Last::Step(index));
        }
        for (slot, register) in self.used_slots(index, holds).zip(chosen) {
            after.general[*register] = Some(self.plan.id(index, slot));
        }
        if self.plan.steps[index].news.is_some() {
            after.news = Some(self.plan.id(index, NEWS));
        }
        after
    }

    fn used_slots(&self, index: usize, holds: &Holds) -> impl Iterator<Item = usize> {
        let used = self.around(index, holds).used;
        (0..NEWS).filter(move |&slot| used[slot])
    }

    /// Outputs are in registers whose names can be theirs.
    fn names_fit(&self, holds: &[Option<Id>]) -> bool {
        let inputs = &self.names[..self.plan.inputs];
        let fits = |(output, name): (&Id, &Reg)| {
            let place = holds.iter().position(|held| held == &Some(*output));
            let home = inputs.iter().position(|input| input == name);
            place.is_some() && (place == home || home.is_none() && place >= Some(inputs.len()))
        };
        self.plan.outputs.iter().zip(&self.task.wanted.outputs).all(fits)
    }

    /// Where a step finds and leaves everything, what nobody reads included.
    fn place(&self, index: usize, frame: &Frame) -> Place {
        let (step, holds) = (&self.plan.steps[index], &frame.holds);
        let (kind, around) = (self.kind(step), self.around(index, holds));
        let chosen = frame.choices.last().map_or(&[][..], |chosen| chosen);
        let after = self.after(index, holds, chosen).general;
        let spill = around.spills(kind, step.news).then_some(Spot::News(0));
        let news = step.news.map(Spot::News);
        let results = chosen.iter().copied().map(Spot::Register).chain(news);
        let free = |held: &[Option<Id>]| {
            let is_free =
                |r: &usize| held[*r].is_none() && self.writable[*r] && !chosen.contains(r);
            (0..held.len()).filter(is_free).map(Spot::Register).collect::<Vec<_>>()
        };
        let sources = step.sources.iter().map(|source| self.spot(source, holds)).collect();
        let (mut receivers, mut copies): (Vec<Spot>, Vec<Spot>) = (results.collect(), Vec::new());
        let spare = free(&holds.general);
        if kind.is_corrected {
            receivers.insert(0, spare[0]);
            let later = free(&after).into_iter().filter(|spot| *spot != spare[0]);
            copies.extend(spill.into_iter().chain(later).take(2));
        } else {
            receivers.extend(spill);
            let more = kind.receivers.saturating_sub(receivers.len());
            receivers.extend(spare.into_iter().take(more));
        }
        Place { receivers, sources, copies }
    }

    fn spot(&self, source: &Source, holds: &Holds) -> Spot {
        match holds.general.iter().position(|held| *held == Some(source.id)) {
            Some(register) => Spot::Register(register),
            None => Spot::News(source.whose),
        }
    }

    /// The instructions, with the names of the outputs where these are in the end.
    fn emit(&self, frames: &[Frame], holds: &Holds) -> Program {
        let names = self.final_names(holds);
        let name = |spot: &Spot| match *spot {
            Spot::Register(register) => names[register],
            Spot::News(0) => Reg::NEWS,
            Spot::News(whose) => Reg::toward(Direction::ALL[usize::from(whose) - 1]),
        };
        let inst = |receivers: &[Spot], sources: &[Spot]| {
            let receivers = receivers.iter().map(name).collect();
            Inst::of_bus(&Bus { receivers, sources: sources.iter().map(name).collect() })
        };
        let insts = |(index, frame): (usize, &Frame)| {
            let Place { receivers, sources, copies } = self.place(index, frame);
            let mut list = vec![inst(&receivers, &sources)];
            // The first receiver has half of the sum and a mismatch. Twice that, halved once more,
            // is the half with the mismatch of the second receiver taken away again.
            list.extend(copies.iter().map(|&copy| inst(&[copy], &receivers[..1])));
            list.extend((!copies.is_empty()).then(|| inst(&receivers, &copies)));
            list
        };
        Program {
            instructions: frames.iter().enumerate().flat_map(insts).collect(),
            inputs: Some(self.task.wanted.inputs.clone()),
            outputs: Some(self.task.wanted.outputs.clone()),
        }
    }

    fn final_names(&self, holds: &Holds) -> Vec<Reg> {
        let inputs = self.plan.inputs;
        let mut names: Vec<Option<Reg>> = self.names[..inputs].iter().copied().map(Some).collect();
        names.resize(self.names.len(), None);
        for (output, &name) in self.plan.outputs.iter().zip(&self.task.wanted.outputs) {
            if let Some(register) = holds.general.iter().position(|held| *held == Some(*output)) {
                names[register] = Some(name);
            }
        }
        let used: Vec<Reg> = names.iter().flatten().copied().collect();
        let mut rest = self.task.pool.iter().filter(|name| !used.contains(name));
        let name = |name: &Option<Reg>| name.or_else(|| rest.next().copied()).unwrap_or(Reg::NONE);
        names.iter().map(name).collect()
    }
}
