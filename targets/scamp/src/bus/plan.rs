//! A program of bus steps as values: what each step sums of which, without registers.
//!
//! NEWS is the one register that neighbours read, and there is one of it: a value that it receives
//! lies there until the next step that writes NEWS.

use crate::arch::ScampArch;
use crate::isa::Direction;
use crate::search::field::Residue;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// A value of a plan: an input, or what slot `s` of step `i` receives as `inputs + i * SLOTS + s`.
pub(super) type Id = u16;

/// Slots of a step: the first general register that receives, a second one, NEWS.
pub(super) const SLOTS: usize = 3;

/// The slot of NEWS.
pub(super) const NEWS: usize = 2;

/// Most steps of a plan.
pub(super) const MAX_STEPS: usize = 4096;

/// Most sources of a step that the search considers.
pub(super) const MAX_SOURCES: usize = 4;

/// Whose NEWS a step reads or writes: the element's own, or that of a neighbour, by the index in
/// [`Direction::ALL`] plus 1.
pub(super) type Whose = u8;

/// Number of elements whose NEWS an element reaches.
pub(super) const REACHED: usize = 5;

/// A value as a step reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Source {
    /// The value.
    pub(super) id: Id,
    /// Where it is read, for a value in NEWS; 0 for others.
    pub(super) whose: Whose,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// The index of its kind.
    pub(super) kind: u8,
    /// What it sums; none twice.
    pub(super) sources: SmallVec<[Source; MAX_SOURCES]>,
    /// The NEWS that is among the receivers.
    pub(super) news: Option<Whose>,
}

/// A kind of steps.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kind {
    /// Number of receivers.
    pub(super) receivers: usize,
    /// Most sources.
    pub(super) sources: usize,
    /// How many of the receivers hold the exact result.
    pub(super) results: usize,
    /// Bus steps that it takes.
    pub(super) bus: u64,
    /// The receivers' mismatch is cancelled, by more steps than one.
    pub(super) is_corrected: bool,
    /// What the sum is multiplied by.
    pub(super) factor: Residue,
    /// The inverse of the factor.
    pub(super) inverse: Residue,
}

/// How values are halved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Halving {
    /// One bus2, with the mismatch of its receivers.
    #[default]
    Quick,
    /// Four steps, in which the mismatch cancels to first order.
    Corrected,
}

impl Halving {
    /// Names for options.
    pub const NAMES: [&'static str; 2] = ["quick", "corrected"];

    /// The one of a name; quick for any other name.
    pub fn named(name: &str) -> Halving {
        if name == "corrected" { Halving::Corrected } else { Halving::Quick }
    }

    /// These macros with those that halve so, and without those that halve otherwise.
    #[must_use]
    pub fn macros(self, macros: &BTreeSet<&'static str>) -> BTreeSet<&'static str> {
        let of = |halving| match halving {
            Halving::Quick => &["Divq"][..],
            Halving::Corrected => &["Div", "DivFrom", "Diva"],
        };
        let others = macros.iter().filter(|name| {
            ![Halving::Quick, Halving::Corrected].iter().any(|&h| of(h).contains(name))
        });
        others.chain(of(self)).copied().collect()
    }
}

/// What plans are made for.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    /// What steps can do.
    pub(super) kinds: Vec<Kind>,
    /// Registers that values may be in, inputs outside of the pool included.
    pub(super) registers: usize,
    /// What the inputs hold.
    pub(super) inputs: Vec<Residue>,
    /// Inputs outside of the pool, which keep their registers.
    pub(super) fixed: Vec<bool>,
    /// Outputs that leave in the register in which an input comes: the output, the input.
    pub(super) homes: Vec<(usize, usize)>,
}

/// A program of bus steps as values.
///
/// Invariants: every source is an input or a slot of an earlier step that receives; there is an
/// output for every target, none of them in NEWS, and all are different values.
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

/// The factors of [`read`] and of [`written`].
static FACTORS: LazyLock<[[Residue; REACHED]; 2]> = LazyLock::new(|| {
    let factor = |sign: i64, whose: usize| {
        let (x, y) = way(whose as Whose);
        Residue::translation(sign * x, sign * y)
    };
    [1, -1].map(|sign| std::array::from_fn(|whose| factor(sign, whose)))
});

/// What an element sees that reads this NEWS, as a factor.
pub(super) fn read(whose: Whose) -> Residue {
    FACTORS[0][usize::from(whose)]
}

/// What an element gets when all write this NEWS.
pub(super) fn written(whose: Whose) -> Residue {
    FACTORS[1][usize::from(whose)]
}

/// The way to the element.
pub(super) fn way(whose: Whose) -> (i64, i64) {
    let direction = usize::from(whose).checked_sub(1).map(|index| Direction::ALL[index]);
    let (x, y) = direction.map_or((0, 0), Direction::step);
    (x.into(), y.into())
}

/// What the steps of a machine can do, with halvings of a kind. Thirds and the like are no halves,
/// and are left out.
pub(super) fn kinds(arch: &ScampArch, halving: Halving) -> Vec<Kind> {
    let powers = (1..=arch.max_receivers).filter(|receivers| receivers.is_power_of_two());
    // Its correction takes two copies as sources.
    let is_corrected = |n: usize| n == 2 && arch.most_sources(2) > 1;
    let powers = powers.filter(|&n| n == 1 || halving == Halving::Quick || is_corrected(n));
    let kind = |receivers: usize| {
        let is_corrected = receivers > 1 && halving == Halving::Corrected;
        let inverse = Residue::of(-(receivers as i64));
        Kind {
            receivers,
            sources: arch.most_sources(receivers).min(MAX_SOURCES),
            results: if is_corrected { 1 } else { receivers.min(2) },
            bus: if is_corrected { 4 } else { 1 },
            is_corrected,
            factor: inverse.inverse(),
            inverse,
        }
    };
    powers.map(kind).collect()
}

impl Source {
    /// A value in a general register.
    pub(super) fn of(id: Id) -> Source {
        Source { id, whose: 0 }
    }
}

impl Plan {
    /// The value of slot `slot` of step `step`.
    pub(super) fn id(&self, step: usize, slot: usize) -> Id {
        (self.inputs + step * SLOTS + slot) as Id
    }

    /// The step and the slot of a value; `None` for inputs.
    pub(super) fn origin(&self, id: Id) -> Option<(usize, usize)> {
        let offset = usize::from(id).checked_sub(self.inputs)?;
        Some((offset / SLOTS, offset % SLOTS))
    }

    /// It lies in NEWS.
    pub(super) fn is_news(&self, id: Id) -> bool {
        self.origin(id).is_some_and(|(_, slot)| slot == NEWS)
    }

    /// The step reads what the other one makes.
    pub(super) fn reads(&self, step: usize, other: usize) -> bool {
        let of_other = |source: &Source| self.origin(source.id).is_some_and(|o| o.0 == other);
        self.steps[step].sources.iter().any(of_other)
    }

    /// Bus steps.
    pub(super) fn bus(&self, setting: &Setting) -> u64 {
        self.steps.iter().map(|step| setting.kinds[usize::from(step.kind)].bus).sum()
    }

    /// What the values are; NEWS that does not receive holds 0.
    pub(super) fn values(&self, setting: &Setting) -> Vec<Residue> {
        let mut values = setting.inputs.clone();
        for step in &self.steps {
            let of = |source: &Source| values[usize::from(source.id)].times(read(source.whose));
            let sum = step.sources.iter().map(of).fold(Residue::ZERO, Residue::plus);
            let result = setting.kinds[usize::from(step.kind)].factor.times(sum);
            let news = step.news.map_or(Residue::ZERO, |whose| result.times(written(whose)));
            values.extend([result, result, news]);
        }
        values
    }

    /// When each value is read last.
    pub(super) fn last_uses(&self, setting: &Setting) -> Vec<Last> {
        let mut last = vec![Last::Unused; self.inputs + self.steps.len() * SLOTS];
        for (index, step) in self.steps.iter().enumerate() {
            for source in &step.sources {
                last[usize::from(source.id)] = Last::Step(index);
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

    /// Which slots of a step are read.
    pub(super) fn used(&self, index: usize, last: &[Last]) -> [bool; SLOTS] {
        std::array::from_fn(|slot| last[usize::from(self.id(index, slot))] != Last::Unused)
    }

    /// What a step needs to know of its surroundings; `news` is the value in NEWS before it.
    pub(super) fn surroundings(
        &self,
        index: usize,
        last: &[Last],
        news: Option<Id>,
    ) -> Surroundings {
        let step = &self.steps[index];
        let dies = |source: &&Source| {
            !self.is_news(source.id) && last[usize::from(source.id)] == Last::Step(index)
        };
        Surroundings {
            used: self.used(index, last),
            dying: step.sources.iter().filter(dies).count(),
            reads_news: step.sources.iter().any(|source| self.is_news(source.id)),
            keeps_news: news.is_some_and(|id| last[usize::from(id)] > Last::Step(index)),
        }
    }

    /// The registers suffice at every step, and NEWS holds what is read of it. General registers are
    /// alike, so that counting decides it exactly.
    pub(super) fn fits(&self, setting: &Setting) -> bool {
        let last = self.last_uses(setting);
        // An input that nobody reads leaves its register free.
        let mut live = (0..self.inputs).filter(|&input| last[input] != Last::Unused).count();
        let mut news = None;
        for (index, step) in self.steps.iter().enumerate() {
            let around = self.surroundings(index, &last, news);
            let kind = &setting.kinds[usize::from(step.kind)];
            let is_there = |source: &Source| !self.is_news(source.id) || Some(source.id) == news;
            let twice = |(at, source): (usize, &Source)| step.sources[..at].contains(source);
            if !step.sources.iter().all(is_there)
                || step.sources.iter().enumerate().any(twice)
                || !around.is_possible(kind, step.news)
            {
                return false;
            }
            if live + around.need(kind, step.news) > setting.registers {
                return false;
            }
            live = live + around.general() - around.dying;
            if step.news.is_some() {
                news = Some(self.id(index, NEWS));
            }
        }
        live <= setting.registers && self.leaves_homes_free(setting, &last)
    }

    /// Outputs that leave by the register of an input are made when the input is read no more.
    fn leaves_homes_free(&self, setting: &Setting, last: &[Last]) -> bool {
        setting.homes.iter().all(|&(output, input)| {
            let made = self.origin(self.outputs[output]).map(|(step, _)| Last::Step(step));
            usize::from(self.outputs[output]) == input || made > Some(last[input])
        })
    }

    /// Removes steps of which nothing is read, and NEWS as a receiver where nobody reads it.
    pub(super) fn remove_dead(&mut self) {
        let mut needed = vec![false; self.inputs + self.steps.len() * SLOTS];
        for &output in &self.outputs {
            needed[usize::from(output)] = true;
        }
        let mut order = Vec::new();
        for index in (0..self.steps.len()).rev() {
            let slots: [bool; SLOTS] =
                std::array::from_fn(|slot| needed[usize::from(self.id(index, slot))]);
            if slots.contains(&true) {
                self.steps[index].news = self.steps[index].news.filter(|_| slots[NEWS]);
                for source in &self.steps[index].sources {
                    needed[usize::from(source.id)] = true;
                }
                order.insert(0, index);
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
        let renamed = |id: Id| match self.origin(id) {
            None => id,
            Some((step, slot)) => self.id(position[step], slot),
        };
        let step = |&old: &usize| {
            let step = &self.steps[old];
            let of = |source: &Source| Source { id: renamed(source.id), ..*source };
            Step { sources: step.sources.iter().map(of).collect(), ..*step }
        };
        Plan {
            inputs: self.inputs,
            steps: order.iter().map(step).collect(),
            outputs: self.outputs.iter().map(|&id| renamed(id)).collect(),
        }
    }
}

/// What a step needs to know of its surroundings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Surroundings {
    /// Which of its slots are read.
    pub(super) used: [bool; SLOTS],
    /// Number of general sources that are not read afterwards.
    pub(super) dying: usize,
    /// It reads a NEWS.
    pub(super) reads_news: bool,
    /// What is in NEWS before it is read after it.
    pub(super) keeps_news: bool,
}

impl Surroundings {
    /// General registers that receive something that is read.
    pub(super) fn general(&self) -> usize {
        usize::from(self.used[0]) + usize::from(self.used[1])
    }

    /// The machine can do it: NEWS is not read and written at once, and the results are there.
    fn is_possible(&self, kind: &Kind, news: Option<Whose>) -> bool {
        let results = self.general() + usize::from(news.is_some());
        results <= kind.results
            && !(news.is_some() && self.reads_news)
            && !(self.used[NEWS] && news.is_none())
    }

    /// NEWS takes what nobody reads.
    pub(super) fn spills(&self, kind: &Kind, news: Option<Whose>) -> bool {
        let is_free = news.is_none() && !self.keeps_news;
        is_free
            && match kind.is_corrected {
                true => true,
                false => !self.reads_news && self.general() < kind.receivers,
            }
    }

    /// General registers that are occupied while it runs, beyond those of values that are alive
    /// before it.
    fn need(&self, kind: &Kind, news: Option<Whose>) -> usize {
        let in_news = usize::from(news.is_some()) + usize::from(self.spills(kind, news));
        match kind.is_corrected {
            false => kind.receivers - in_news,
            // Two receivers, then two copies, which may be where sources were.
            true => {
                let receivers = 2 - usize::from(news.is_some());
                receivers.max((4 - in_news).saturating_sub(self.dying))
            }
        }
    }
}
