//! Registers for the values of a plan, and its instructions.

use super::plan::{Id, Last, Plan, Setting, Surroundings};
use super::rules::{Content, Layout, Variant};
use crate::isa::{Inst, Reg};
use crate::program::Program;
use crate::task::Task;

/// Choices that are tried before a plan is given up.
const MAX_CHOICES: usize = 20_000;

/// Combinations of values that take as long as a choice.
const WORK_OF_A_CHOICE: u64 = 100;

/// Steps of a plan that are placed on the stack of the caller, each inside the one before.
const SHALLOW: usize = 256;

/// Stack for the longest plans, in bytes; a step takes some 4 KiB at most.
const STACK: usize = 64 << 20;

/// The program of a plan that fits. `None` where the names of inputs and outputs leave no way to
/// give every value a register. Adds what that took to the work.
pub(super) fn program(
    plan: &Plan,
    setting: &Setting,
    task: &Task,
    work: &mut u64,
) -> Option<Program> {
    let mut placed = || {
        let (choices, program) = placed(plan, setting, task);
        *work += choices * WORK_OF_A_CHOICE;
        program
    };
    if plan.steps.len() <= SHALLOW {
        return placed();
    }
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(STACK);
        builder.spawn_scoped(scope, placed).ok()?.join().ok()?
    })
}

/// The number of choices tried, and the program.
fn placed(plan: &Plan, setting: &Setting, task: &Task) -> (u64, Option<Program>) {
    let inputs = &task.wanted.inputs;
    let mut names = inputs.clone();
    names.extend(task.pool.iter().filter(|name| !inputs.contains(name)));
    let last = plan.last_uses(setting);
    let mut holds: Vec<Option<Id>> = vec![None; names.len()];
    for input in 0..plan.inputs {
        holds[input] = (last[input] != Last::Unused).then_some(input as Id);
    }
    let is_writable = |name: &Reg| task.pool.contains(name);
    let writable = names.iter().map(is_writable).collect();
    let mut placer =
        Placer { plan, setting, task, last, names, writable, places: Vec::new(), choices: 0 };
    let program = placer.step(0, holds).then(|| placer.emit());
    (placer.choices as u64, program)
}

/// Where the operands of a step are.
struct Place<'a> {
    variant: &'a Variant,
    layout: &'a Layout,
    /// The register of each register of the layout, as an index of names.
    registers: Vec<usize>,
}

struct Placer<'a> {
    plan: &'a Plan,
    setting: &'a Setting,
    task: &'a Task,
    last: Vec<Last>,
    /// The inputs, then the others; until the end the others are alike.
    names: Vec<Reg>,
    writable: Vec<bool>,
    places: Vec<Place<'a>>,
    choices: usize,
}

impl<'a> Placer<'a> {
    /// Places the steps from number `index` on; `holds` are the values that are alive, by register.
    fn step(&mut self, index: usize, holds: Vec<Option<Id>>) -> bool {
        let plan = self.plan;
        if index == plan.steps.len() {
            return self.names_fit(&holds);
        }
        let around = plan.surroundings(index, &self.last);
        let setting = self.setting;
        let rule = &setting.rules[usize::from(plan.steps[index].rule)];
        for variant in &rule.variants {
            for layout in &variant.layouts {
                if layout.suits(around.equal, around.dying, around.used)
                    && self.with_layout(index, around, variant, layout, &holds)
                {
                    return true;
                }
            }
        }
        false
    }

    /// Every choice of registers for a layout.
    fn with_layout(
        &mut self,
        index: usize,
        around: Surroundings,
        variant: &'a Variant,
        layout: &'a Layout,
        holds: &[Option<Id>],
    ) -> bool {
        let sources = &self.plan.steps[index].sources;
        let mut registers: Vec<Option<usize>> = vec![None; layout.after.len()];
        for (source, &register) in sources.iter().zip(&layout.sources) {
            registers[register] = holds.iter().position(|held| *held == Some(*source));
        }
        let allowed = |(register, place): (usize, &Option<usize>)| {
            place.is_none_or(|place| !layout.written[register] || self.writable[place])
        };
        registers.iter().enumerate().all(allowed)
            && self.choose(
                index,
                around,
                Place { variant, layout, registers: Vec::new() },
                &registers,
                holds,
            )
    }

    /// Chooses the registers of a layout that hold no source, one after the other.
    fn choose(
        &mut self,
        index: usize,
        around: Surroundings,
        place: Place<'a>,
        fixed: &[Option<usize>],
        holds: &[Option<Id>],
    ) -> bool {
        let at = place.registers.len();
        if at == fixed.len() {
            self.choices += 1;
            let after = self.after(index, around, &place, holds);
            self.places.push(place);
            if self.choices < MAX_CHOICES && self.step(index + 1, after) {
                return true;
            }
            self.places.pop();
            return false;
        }
        let candidates = match fixed[at] {
            Some(register) => vec![register],
            None => self.candidates(index, place.layout.after[at], fixed, &place.registers, holds),
        };
        candidates.into_iter().any(|register| {
            let registers = place.registers.iter().copied().chain([register]).collect();
            let next = Place { variant: place.variant, layout: place.layout, registers };
            self.choices < MAX_CHOICES && self.choose(index, around, next, fixed, holds)
        })
    }

    /// Free registers for something new, the likeliest first: those of inputs differ by their names,
    /// of the others one stands for all.
    fn candidates(
        &self,
        index: usize,
        content: Content,
        fixed: &[Option<usize>],
        taken: &[usize],
        holds: &[Option<Id>],
    ) -> Vec<usize> {
        let is_free = |&register: &usize| {
            holds[register].is_none()
                && self.writable[register]
                && !taken.contains(&register)
                && !fixed.contains(&Some(register))
        };
        let inputs = self.plan.inputs;
        let mut list: Vec<usize> = (inputs..holds.len()).filter(is_free).take(1).collect();
        let home = self.home(index, content);
        let of_inputs = (0..inputs).filter(is_free);
        for register in of_inputs {
            match home == Some(register) {
                true => list.insert(0, register),
                false => list.push(register),
            }
        }
        list
    }

    /// The register of an input by whose name the result of a step leaves.
    fn home(&self, index: usize, content: Content) -> Option<usize> {
        let Content::Result(result) = content else { return None };
        let id = self.plan.id(index, result);
        let output = self.plan.outputs.iter().position(|&output| output == id)?;
        let name = self.task.wanted.outputs[output];
        self.names[..self.plan.inputs].iter().position(|&input| input == name)
    }

    /// What registers hold after a step.
    fn after(
        &self,
        index: usize,
        around: Surroundings,
        place: &Place<'_>,
        holds: &[Option<Id>],
    ) -> Vec<Option<Id>> {
        let sources = &self.plan.steps[index].sources;
        let mut after = holds.to_vec();
        for (&register, &content) in place.registers.iter().zip(&place.layout.after) {
            after[register] = match content {
                Content::Source(source) if around.dying >> source & 1 == 0 => Some(sources[source]),
                Content::Result(result) if around.used >> result & 1 == 1 => {
                    Some(self.plan.id(index, result))
                }
                _ => None,
            };
        }
        // A source that is kept twice is kept once.
        for register in 0..after.len() {
            if after[register].is_some() && after[..register].contains(&after[register]) {
                after[register] = None;
            }
        }
        after
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

    /// The instructions, with the names of the outputs where these are in the end.
    fn emit(&self) -> Program {
        let names = self.final_names();
        let inst = |place: &Place<'_>| -> Inst {
            let mut operand = place.layout.register.iter();
            place.variant.inst.map_registers(|own| match operand.next() {
                Some(&register) => names[place.registers[register]],
                None => own,
            })
        };
        Program {
            instructions: self.places.iter().map(inst).collect(),
            inputs: Some(self.task.wanted.inputs.clone()),
            outputs: Some(self.task.wanted.outputs.clone()),
        }
    }

    fn final_names(&self) -> Vec<Reg> {
        let inputs = self.plan.inputs;
        let mut names: Vec<Option<Reg>> = self.names[..inputs].iter().copied().map(Some).collect();
        names.resize(self.names.len(), None);
        let mut holds: Vec<Option<Id>> =
            (0..self.names.len()).map(|r| (r < inputs).then_some(r as Id)).collect();
        for (index, place) in self.places.iter().enumerate() {
            let around = self.plan.surroundings(index, &self.last);
            holds = self.after(index, around, place, &holds);
        }
        for (output, &name) in self.plan.outputs.iter().zip(&self.task.wanted.outputs) {
            if let Some(register) = holds.iter().position(|held| *held == Some(*output)) {
                names[register] = Some(name);
            }
        }
        let used: Vec<Reg> = names.iter().flatten().copied().collect();
        let mut rest = self.task.pool.iter().filter(|name| !used.contains(name));
        let name = |name: &Option<Reg>| name.or_else(|| rest.next().copied()).unwrap_or(Reg::NONE);
        names.iter().map(name).collect()
    }
}
