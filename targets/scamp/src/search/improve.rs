//! Shorter plans from longer ones: a random walk over plans that are hardly longer than the
//! shortest it has been at.

use super::Best;
use super::exchange::{Cut, Exchange, MAX_READERS};
use super::plan::{Plan, Setting};
use super::random::Random;
use smallvec::{SmallVec, smallvec};

/// What a step costs even if it looks at nothing.
const WORK_OF_A_STEP: u64 = 300;

/// What it costs besides for each step of the plan.
const WORK_PER_STEP: u64 = 8;

/// Steps by which a plan may be longer than the shortest one.
const SLACK: usize = 2;

/// Steps of a walk after which it goes back to the shortest plan, if it was at no shorter one since.
const PATIENCE: u32 = 20_000;

/// Where a walk is, and where it was best.
#[derive(Clone)]
pub(super) struct Place {
    /// A plan that fits.
    pub(super) plan: Plan,
    /// The shortest plan so far, and of these the last; it has registers.
    pub(super) shortest: Plan,
    random: Random,
    /// Steps since there was a shorter plan, or the walk went back.
    since: u32,
}

impl Place {
    /// At the beginning.
    pub(super) fn new(plan: &Plan, random: Random) -> Place {
        Place { plan: plan.clone(), shortest: plan.clone(), random, since: 0 }
    }
}

/// A walk.
pub(super) struct Walk<'a> {
    setting: &'a Setting,
    exchange: Exchange<'a>,
    at: Place,
}

impl<'a> Walk<'a> {
    /// A walk that begins at a place.
    pub(super) fn new(setting: &'a Setting, at: Place) -> Walk<'a> {
        let mut exchange = Exchange::new(setting);
        exchange.begin(&at.plan);
        Walk { setting, exchange, at }
    }

    /// Combinations of values looked at so far.
    pub(super) fn work(&self) -> u64 {
        self.exchange.work
    }

    /// Where it is.
    pub(super) fn plan(&self) -> &Plan {
        &self.at.plan
    }

    /// Goes on elsewhere, and leaves where it was.
    pub(super) fn swap(&mut self, other: &mut Place) {
        std::mem::swap(&mut self.at, other);
        self.exchange.begin(&self.at.plan);
    }

    /// Goes on from another plan.
    pub(super) fn go_to(&mut self, plan: Plan) {
        self.at.plan = plan;
        self.exchange.begin(&self.at.plan);
    }

    /// One step of the walk: true if the plan is another one now. Plans that are shorter than all
    /// before are taken if their values have registers.
    pub(super) fn step(&mut self, best: &Best<'_>) -> bool {
        self.exchange.work += WORK_OF_A_STEP + WORK_PER_STEP * self.at.plan.steps.len() as u64;
        self.at.since += 1;
        if self.at.since > PATIENCE {
            self.at.since = 0;
            self.go_to(self.at.shortest.clone());
        }
        if self.at.random.below(2) == 0 {
            self.shuffle();
        }
        let Some(cut) = self.cut() else {
            return false;
        };
        let Some(plan) = self.exchange.attempt(&self.at.plan, &cut, &mut self.at.random) else {
            return false;
        };
        let (length, shortest) = (plan.steps.len(), self.at.shortest.steps.len());
        if length < shortest {
            if !best.places(&plan, &mut self.exchange.work) {
                return false;
            }
            self.at.shortest = plan.clone();
            self.at.since = 0;
        }
        self.go_to(plan);
        true
    }

    /// What a move changes, at random.
    fn cut(&mut self) -> Option<Cut> {
        let length = self.at.plan.steps.len();
        if length == 0 {
            return None;
        }
        let count = match self.at.random.below(100) {
            0..25 => 0,
            25..65 => 1,
            65..95 => 2,
            _ => 3,
        };
        let mut gone: SmallVec<[usize; 4]> = smallvec![];
        while gone.len() < count {
            let step = match gone.is_empty() {
                true => self.at.random.below(length),
                false => {
                    let one = gone[self.at.random.below(gone.len())];
                    self.related(one)?
                }
            };
            if gone.contains(&step) || self.makes_output(step) {
                return None;
            }
            gone.push(step);
        }
        let reads_gone = |step: &usize| gone.iter().any(|&gone| self.reads(*step, gone));
        let mut readers: SmallVec<[usize; MAX_READERS]> =
            (0..length).filter(|step| !gone.contains(step) && reads_gone(step)).collect();
        let besides = match gone.is_empty() {
            true => 1 + self.at.random.below(2),
            false => usize::from(self.at.random.below(8) == 0),
        };
        for _ in 0..besides {
            let step = self.at.random.below(length);
            if !gone.contains(&step) && !readers.contains(&step) {
                readers.push(step);
            }
        }
        readers.sort_unstable();
        let first = *readers.first().filter(|_| readers.len() <= MAX_READERS)?;
        let earliest = gone.iter().copied().min().unwrap_or(first).min(first);
        let place = earliest + self.at.random.below(first - earliest + 1);
        let limit = self.at.shortest.steps.len() + SLACK;
        Some(Cut { gone, readers, place, limit })
    }

    /// A step that has to do with another one: its results are read by it, it reads its results, or
    /// both read the same or are read by the same.
    fn related(&mut self, step: usize) -> Option<usize> {
        match self.at.random.below(4) {
            0 => self.reader(step),
            1 => self.source(step),
            2 => self.source(step).and_then(|source| self.reader(source)),
            _ => self.reader(step).and_then(|reader| self.source(reader)),
        }
    }

    /// A step whose results a step reads, at random.
    fn source(&mut self, step: usize) -> Option<usize> {
        let sources = &self.at.plan.steps[step].sources;
        let count = sources.len();
        if count == 0 {
            return None;
        }
        let source = sources[self.at.random.below(count)];
        self.at.plan.step_of(source)
    }

    /// A step that reads the results of a step, at random.
    fn reader(&mut self, step: usize) -> Option<usize> {
        let length = self.at.plan.steps.len();
        let readers: SmallVec<[usize; 8]> =
            (step + 1..length).filter(|&reader| self.reads(reader, step)).collect();
        (!readers.is_empty()).then(|| readers[self.at.random.below(readers.len())])
    }

    fn reads(&self, step: usize, other: usize) -> bool {
        let plan = &self.at.plan;
        plan.steps[step].sources.iter().any(|&id| plan.step_of(id) == Some(other))
    }

    fn makes_output(&self, step: usize) -> bool {
        let plan = &self.at.plan;
        plan.outputs.iter().any(|&id| plan.step_of(id) == Some(step))
    }

    /// Moves one step to another place among those where its sources are there and its results are
    /// not read yet.
    fn shuffle(&mut self) {
        let length = self.at.plan.steps.len();
        if length < 2 {
            return;
        }
        let chosen = self.at.random.below(length);
        let earliest = (0..chosen).rev().find(|&other| self.reads(chosen, other));
        let latest = (chosen + 1..length).find(|&other| self.reads(other, chosen));
        let (low, high) = (earliest.map_or(0, |index| index + 1), latest.unwrap_or(length) - 1);
        let place = low + self.at.random.below(high - low + 1);
        let mut order: Vec<usize> = (0..length).collect();
        let step = order.remove(chosen);
        order.insert(place, step);
        let moved = self.at.plan.reordered(&order);
        if place != chosen && moved.fits(self.setting) {
            self.exchange.step_moved(moved.inputs, chosen, place);
            self.at.plan = moved;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::ScampArch;
    use crate::goal::{Bag, Goal};
    use crate::isa::Reg;
    use crate::search::{first, setting};
    use crate::task::{Task, Wanted};

    /// Steps of a walk over a long plan count for more than the combinations that they look at, so
    /// that effort bounds the time.
    #[test]
    fn effort_counts_the_length_of_plans() {
        let arch = ScampArch::preset("scamp5").unwrap();
        let a = Reg::new("A").unwrap();
        let rows: Vec<Vec<i64>> =
            (0..14).map(|y| (0..14).map(|x| x * 7 % 11 + y).collect()).collect();
        let goals = Bag(vec![Goal::from_rows(&rows)]);
        let wanted = Wanted { goals, depth: 4, inputs: vec![a], outputs: vec![a] };
        let task = Task::new(wanted, arch.analogue.clone(), &arch).unwrap();
        let setting = setting(&task, &arch, false);
        let plan = first::plans(&task, &setting, &mut Random(1)).unwrap().swap_remove(0);
        let best = Best { task: &task, setting: &setting, found: None };
        let mut walk = Walk::new(&setting, Place::new(&plan, Random(1)));
        for _ in 0..200 {
            let (before, length) = (walk.work(), walk.plan().steps.len() as u64);
            walk.step(&best);
            assert!(length > 100 && walk.work() - before >= length * WORK_PER_STEP);
        }
    }
}
