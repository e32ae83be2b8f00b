//! Cheaper plans from dearer ones: a random walk over plans of one cost that steps down wherever a
//! window can be filled with fewer steps.

use super::plan::{Plan, Setting};
use super::reach::Reach;
use super::window::Window;
use crate::search::random::Random;

/// What a step of the walk costs for every eight steps of the plan, even if it looks at nothing.
const WORK_OF_A_STEP: u64 = 100;

/// Bus steps that a plan may have more than the cheapest one so far.
const SLACK: u64 = 1;

/// A walk.
pub(super) struct Walk<'a> {
    setting: &'a Setting,
    reach: Reach,
    random: Random,
    /// Where it is: a plan that fits.
    pub(super) plan: Plan,
    /// The last plan that was accepted as cheaper, or the first one.
    pub(super) placed: Plan,
    /// What that costs.
    least: u64,
}

impl<'a> Walk<'a> {
    /// A walk from a plan.
    pub(super) fn new(setting: &'a Setting, seed: u64, plan: Plan) -> Walk<'a> {
        let (reach, placed) = (Reach::new(&setting.kinds), plan.clone());
        let least = plan.bus(setting);
        Walk { setting, reach, random: Random(seed), plan, placed, least }
    }

    /// Combinations of values looked at so far.
    pub(super) fn work(&self) -> u64 {
        self.reach.work
    }

    /// One step of the walk: true if the plan is another one now. Cheaper plans than before are taken
    /// if `accepts` does.
    pub(super) fn step(&mut self, accepts: impl Fn(&Plan) -> bool) -> bool {
        self.reach.work += WORK_OF_A_STEP * (1 + self.plan.steps.len() as u64 / 8);
        for _ in 0..self.random.below(3) {
            self.shuffle();
        }
        // Mostly small windows, which cost little; fewer steps than before, or as many.
        let (size, count) = match self.random.below(1000) {
            0..10 => (4, 3),
            10..20 => (3, 3),
            20..320 => (3, 2),
            320..420 => (2, 1),
            420..800 => (2, 2),
            800..950 => (1, 1),
            // One step more, from which other ways may lead down.
            _ if self.plan.bus(self.setting) > self.least => return false,
            950..990 => (1, 2),
            _ => (2, 3),
        };
        if size > self.plan.steps.len() {
            return false;
        }
        let start = match self.random.below(3) {
            0 => self.random.below(self.plan.steps.len() - size + 1),
            _ => match self.gather(size) {
                Some(start) => start,
                None => return false,
            },
        };
        let values = self.plan.values(self.setting);
        let revived = self.random.below(3);
        let span = (start, start + size);
        let window =
            Window::new(&self.plan, self.setting, &values, span, (revived, &mut self.random));
        let (mut better, most, least) = (None, self.least + SLACK, self.least);
        window.refill(count, &mut self.reach, &mut self.random, &mut |plan| {
            let own = plan.bus(self.setting);
            let takes = (least..=most).contains(&own) || own < least && accepts(&plan);
            better = takes.then_some(plan);
            takes
        });
        let changed = better.is_some();
        if let Some(plan) = better {
            if plan.bus(self.setting) < least {
                self.least = plan.bus(self.setting);
                self.placed = plan.clone();
            }
            self.plan = plan;
        }
        changed
    }

    /// Brings some steps that have to do with each other together; where the first of them is then.
    fn gather(&mut self, size: usize) -> Option<usize> {
        let length = self.plan.steps.len();
        let mut chosen = vec![self.random.below(length)];
        while chosen.len() < size {
            let is_near = |step: &usize| {
                !chosen.contains(step) && chosen.iter().any(|&c| self.related(c, *step))
            };
            let near: Vec<usize> = (0..length).filter(is_near).collect();
            if near.is_empty() {
                return None;
            }
            chosen.push(near[self.random.below(near.len())]);
        }
        chosen.sort_unstable();
        let (first, last) = (chosen[0], chosen[size - 1]);
        let (mut before, mut after): (Vec<usize>, Vec<usize>) = ((0..first).collect(), Vec::new());
        // Of the steps between, those that read chosen ones come after, the others may come before.
        for step in first..=last {
            if chosen.contains(&step) {
                if after.iter().any(|&other| self.plan.reads(step, other)) {
                    return None;
                }
            } else if chosen.iter().chain(&after).any(|&other| self.plan.reads(step, other)) {
                after.push(step);
            } else {
                before.push(step);
            }
        }
        let start = before.len();
        if last - first + 1 > size {
            let order: Vec<usize> =
                before.into_iter().chain(chosen).chain(after).chain(last + 1..length).collect();
            self.take(&order)?;
        }
        Some(start)
    }

    /// Reorders the steps, if the plan fits then.
    fn take(&mut self, order: &[usize]) -> Option<()> {
        let plan = self.plan.reordered(order);
        plan.fits(self.setting).then(|| self.plan = plan)
    }

    /// One step reads the other, or both read the same.
    fn related(&self, a: usize, b: usize) -> bool {
        let (of_a, of_b) = (&self.plan.steps[a].sources, &self.plan.steps[b].sources);
        let shares = of_a.iter().any(|source| of_b.iter().any(|other| other.id == source.id));
        shares || self.plan.reads(a, b) || self.plan.reads(b, a)
    }

    /// Moves one step to another place among those where its sources are there and its results are
    /// not read yet.
    fn shuffle(&mut self) {
        let length = self.plan.steps.len();
        if length < 2 {
            return;
        }
        let chosen = self.random.below(length);
        let earliest = (0..chosen).rev().find(|&other| self.plan.reads(chosen, other));
        let latest = (chosen + 1..length).find(|&other| self.plan.reads(other, chosen));
        let (low, high) = (earliest.map_or(0, |index| index + 1), latest.unwrap_or(length) - 1);
        let place = low + self.random.below(high - low + 1);
        let mut order: Vec<usize> = (0..length).collect();
        let step = order.remove(chosen);
        order.insert(place, step);
        if place != chosen {
            self.take(&order);
        }
    }
}
