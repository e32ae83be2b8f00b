//! A program as values: what each step computes of which, without registers.

use super::field::Residue;
use super::rules::{IMPOSSIBLE, MAX_RESULTS, Rule};
use smallvec::SmallVec;

/// A value of a plan: an input, or result `r` of step `i` as `inputs + i * MAX_RESULTS + r`.
pub(super) type Id = u16;

/// Most steps of a plan.
pub(super) const MAX_STEPS: usize = 4096;

/// One instruction of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// The index of its rule.
    pub(super) rule: u16,
    /// Its sources, as many as the rule has.
    pub(super) sources: SmallVec<[Id; 4]>,
}

/// What plans are made for.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    /// What instructions can do.
    pub(super) rules: Vec<Rule>,
    /// Registers that values may be in, inputs outside of the pool included.
    pub(super) registers: usize,
    /// What the inputs hold.
    pub(super) inputs: Vec<Residue>,
    /// Inputs outside of the pool, which keep their registers.
    pub(super) fixed: Vec<bool>,
    /// Outputs that leave in the register in which an input comes: the output, the input.
    pub(super) homes: Vec<(usize, usize)>,
}

/// A program as values.
///
/// Invariants: every source is an input or a result of an earlier step that the rule has; there is
/// an output for every target, and all outputs are different values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Number of inputs.
    pub(super) inputs: usize,
    /// The steps in order.
    pub(super) steps: Vec<Step>,
    /// The values that the outputs hold in the end.
    pub(super) outputs: Vec<Id>,
}

/// When a value is read last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Last {
    /// Never.
    Unused,
    /// By the step of this index.
    Step(usize),
    /// It is there in the end.
    Kept,
}

impl Plan {
    /// The value that is result `r` of step `i`.
    pub(super) fn id(&self, step: usize, result: usize) -> Id {
        (self.inputs + step * MAX_RESULTS + result) as Id
    }

    /// The step of a value; `None` for inputs.
    pub(super) fn step_of(&self, id: Id) -> Option<usize> {
        (id as usize).checked_sub(self.inputs).map(|offset| offset / MAX_RESULTS)
    }

    /// What the values are; results that a rule lacks are 0.
    pub(super) fn values(&self, setting: &Setting) -> Vec<Residue> {
        let mut values = setting.inputs.clone();
        for step in &self.steps {
            let rule = &setting.rules[usize::from(step.rule)];
            for result in 0..MAX_RESULTS {
                let form = rule.results.get(result).map_or(&[][..], |form| form);
                let terms = form.iter().zip(&step.sources);
                let sum = terms.fold(Residue::ZERO, |sum, (factor, &id)| {
                    sum.plus(factor.times(values[usize::from(id)]))
                });
                values.push(sum);
            }
        }
        values
    }

    /// When each value is read last.
    pub(super) fn last_uses(&self, setting: &Setting) -> Vec<Last> {
        let mut last = vec![Last::Unused; self.inputs + self.steps.len() * MAX_RESULTS];
        for (index, step) in self.steps.iter().enumerate() {
            for &source in &step.sources {
                last[usize::from(source)] = Last::Step(index);
            }
        }
        for &output in &self.outputs {
            last[usize::from(output)] = Last::Kept;
        }
        for (input, _) in setting.fixed.iter().enumerate().filter(|(_, fixed)| **fixed) {
            last[input] = Last::Kept;
        }
        last
    }

    /// What a step needs to know of its surroundings: whether its first two sources are one value,
    /// which of its sources die, and which of its results are read.
    pub(super) fn surroundings(&self, index: usize, last: &[Last]) -> Surroundings {
        let sources = &self.steps[index].sources;
        let mut dying = 0;
        for (position, &source) in sources.iter().enumerate() {
            dying |= usize::from(last[usize::from(source)] == Last::Step(index)) << position;
        }
        let mut used = 0;
        for result in 0..MAX_RESULTS {
            let id = usize::from(self.id(index, result));
            used |= usize::from(last[id] != Last::Unused) << result;
        }
        Surroundings { equal: sources.len() > 1 && sources[0] == sources[1], dying, used }
    }

    /// The registers suffice at every step, and every step is possible. Registers are alike, so that
    /// counting decides it exactly.
    pub(super) fn fits(&self, setting: &Setting) -> bool {
        let last = self.last_uses(setting);
        let is_live = |id: usize| last[id] != Last::Unused;
        // An input that nobody reads leaves its register free.
        let mut live = (0..self.inputs).filter(|&input| is_live(input)).count();
        for (index, step) in self.steps.iter().enumerate() {
            let around = self.surroundings(index, &last);
            let rule = &setting.rules[usize::from(step.rule)];
            let need = rule.need(around.equal, around.dying, around.used);
            // Rules with three sources take none of them twice.
            if matches!(step.sources[..], [a, b, c] if a == c || b == c) {
                return false;
            }
            let dying = around.dying.count_ones() as usize - usize::from(around.both_die());
            live -= dying;
            if need == IMPOSSIBLE || live + usize::from(need) > setting.registers {
                return false;
            }
            live += around.used.count_ones() as usize;
        }
        live <= setting.registers && self.leaves_homes_free(setting, &last)
    }

    /// Outputs that leave by the register of an input are made when the input is read no more.
    fn leaves_homes_free(&self, setting: &Setting, last: &[Last]) -> bool {
        setting.homes.iter().all(|&(output, input)| {
            let made = self.step_of(self.outputs[output]).map(Last::Step);
            usize::from(self.outputs[output]) == input || made >= Some(last[input])
        })
    }

    /// Removes steps of which nothing is read.
    pub(super) fn remove_dead(&mut self) {
        let mut needed = vec![false; self.inputs + self.steps.len() * MAX_RESULTS];
        for &output in &self.outputs {
            needed[usize::from(output)] = true;
        }
        for index in (0..self.steps.len()).rev() {
            let results = (0..MAX_RESULTS).map(|result| usize::from(self.id(index, result)));
            if results.into_iter().any(|id| needed[id]) {
                for &source in &self.steps[index].sources {
                    needed[usize::from(source)] = true;
                }
            }
        }
        let mut order = Vec::new();
        for index in 0..self.steps.len() {
            if (0..MAX_RESULTS).any(|result| needed[usize::from(self.id(index, result))]) {
                order.push(index);
            }
        }
        if order.len() < self.steps.len() {
            *self = self.reordered(&order);
        }
    }

    /// The plan with these of its steps in this order, in which all they read comes before them.
    #[must_use]
    pub(super) fn reordered(&self, order: &[usize]) -> Plan {
        let mut position = vec![usize::MAX; self.steps.len()];
        for (new, &old) in order.iter().enumerate() {
            position[old] = new;
        }
        let renamed = |id: Id| match self.step_of(id) {
            None => id,
            Some(step) => {
                let result = (usize::from(id) - self.inputs) % MAX_RESULTS;
                self.id(position[step], result)
            }
        };
        let step = |&old: &usize| {
            let Step { rule, sources } = &self.steps[old];
            Step { rule: *rule, sources: sources.iter().map(|&id| renamed(id)).collect() }
        };
        Plan {
            inputs: self.inputs,
            steps: order.iter().map(step).collect(),
            outputs: self.outputs.iter().map(|&id| renamed(id)).collect(),
        }
    }

    /// Bus steps, each step done in the cheapest way.
    pub(super) fn bus(&self, setting: &Setting) -> u64 {
        let of = |step: &Step| setting.rules[usize::from(step.rule)].variants[0].bus;
        self.steps.iter().map(of).sum()
    }
}

/// What a step needs to know of its surroundings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Surroundings {
    /// The first two sources are one value.
    pub(super) equal: bool,
    /// Mask of the sources that are not read afterwards.
    pub(super) dying: usize,
    /// Mask of the results that are read.
    pub(super) used: usize,
}

impl Surroundings {
    /// One value that is two of the sources dies.
    fn both_die(self) -> bool {
        self.equal && self.dying & 3 == 3
    }
}
