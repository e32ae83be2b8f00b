//! Shorter plans from longer ones: a random walk over plans of one length that steps down wherever
//! a window can be filled with fewer steps.

use super::plan::{Plan, Setting, Step};
use super::random::Random;
use super::reach::Reach;
use super::window::Window;

/// What a step costs even if it looks at nothing.
const WORK_OF_A_STEP: u64 = 100;

/// A walk.
pub(super) struct Walk<'a> {
    setting: &'a Setting,
    reach: Reach,
    random: Random,
    /// Where it is: a plan that fits.
    pub(super) plan: Plan,
}

impl<'a> Walk<'a> {
    /// A walk that has no plan yet.
    pub(super) fn new(setting: &'a Setting, seed: u64) -> Walk<'a> {
        let plan = Plan { inputs: 0, steps: Vec::new(), outputs: Vec::new() };
        Walk { setting, reach: Reach::new(&setting.rules), random: Random(seed), plan }
    }

    /// Combinations of values looked at so far.
    pub(super) fn work(&self) -> u64 {
        self.reach.work
    }

    /// One step of the walk: true if the plan is another one now. Plans with fewer steps than before
    /// are taken if `accepts` does.
    pub(super) fn step(&mut self, accepts: impl Fn(&Plan) -> bool) -> bool {
        self.reach.work += WORK_OF_A_STEP;
        for _ in 0..self.random.below(3) {
            self.shuffle();
        }
        // Mostly small windows, which cost little; fewer steps than before, or as many.
        let (size, count) = match self.random.below(1000) {
            0..6 => (4, 3),
            6..8 => (3, 3),
            8..308 => (3, 2),
            308..458 => (2, 1),
            458..858 => (2, 2),
            _ => (1, 1),
        };
        if size > self.plan.steps.len() {
            return false;
        }
        let start = match self.random.below(8) {
            // Steps that have nothing to do with each other, now and then.
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
        let (mut better, length) = (None, self.plan.steps.len());
        window.refill(count, &mut self.reach, &mut self.random, &mut |plan| {
            let takes = plan.steps.len() == length || accepts(&plan);
            better = takes.then_some(plan);
            takes
        });
        let changed = better.is_some();
        if let Some(plan) = better {
            self.plan = plan;
        }
        changed
    }

    /// Brings some steps that have to do with each other together; where the first of them is then.
    fn gather(&mut self, size: usize) -> Option<usize> {
        let length = self.plan.steps.len();
        let mut chosen = vec![self.random.below(length)];
        while chosen.len() < size {
            let near: Vec<usize> = (0..length)
                .filter(|step| {
                    !chosen.contains(step) && chosen.iter().any(|&c| self.related(c, *step))
                })
                .collect();
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
                if after.iter().any(|&other| self.reads(step, other)) {
                    return None;
                }
            } else if chosen.iter().chain(&after).any(|&other| self.reads(step, other)) {
                after.push(step);
            } else {
                before.push(step);
            }
        }
        let start = before.len();
        if last - first + 1 > size {
            let order: Vec<usize> =
                before.into_iter().chain(chosen).chain(after).chain(last + 1..length).collect();
            let gathered = self.plan.reordered(&order);
            if !gathered.fits(self.setting) {
                return None;
            }
            self.plan = gathered;
        }
        Some(start)
    }

    fn reads(&self, step: usize, other: usize) -> bool {
        self.plan.steps[step].sources.iter().any(|&id| self.plan.step_of(id) == Some(other))
    }

    /// One step reads the other, or both read the same.
    fn related(&self, a: usize, b: usize) -> bool {
        let (of_a, of_b) = (&self.plan.steps[a].sources, &self.plan.steps[b].sources);
        self.reads(a, b) || self.reads(b, a) || of_a.iter().any(|id| of_b.contains(id))
    }

    /// Moves one step to another place among those where its sources are there and its results are
    /// not read yet.
    fn shuffle(&mut self) {
        let plan = &self.plan;
        let length = plan.steps.len();
        if length < 2 {
            return;
        }
        let chosen = self.random.below(length);
        let reads = |step: &Step, other: usize| {
            step.sources.iter().any(|&id| plan.step_of(id) == Some(other))
        };
        let earliest = (0..chosen).rev().find(|&other| reads(&plan.steps[chosen], other));
        let latest = (chosen + 1..length).find(|&other| reads(&plan.steps[other], chosen));
        let (low, high) = (earliest.map_or(0, |index| index + 1), latest.unwrap_or(length) - 1);
        let place = low + self.random.below(high - low + 1);
        let mut order: Vec<usize> = (0..length).collect();
        let step = order.remove(chosen);
        order.insert(place, step);
        let moved = plan.reordered(&order);
        if place != chosen && moved.fits(self.setting) {
            self.plan = moved;
        }
    }
}
