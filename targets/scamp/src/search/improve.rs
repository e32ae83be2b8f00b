//! Shorter plans from longer ones: a random walk over plans of one length that steps down wherever
//! a window can be filled with fewer steps.

use super::Best;
use super::plan::{Plan, Setting, Step};
use super::random::Random;
use super::reach::Reach;
use super::window::Window;

/// What a step costs even if it looks at nothing.
const WORK_OF_A_STEP: u64 = 100;

/// What it costs besides for each step of the plan.
const WORK_PER_STEP: u64 = 8;

/// A walk.
pub(super) struct Walk<'a> {
    setting: &'a Setting,
    reach: Reach,
    pub(super) random: Random,
    /// Where it is: a plan that fits.
    pub(super) plan: Plan,
}

impl<'a> Walk<'a> {
    /// A walk that has no plan and no random numbers yet.
    pub(super) fn new(setting: &'a Setting) -> Walk<'a> {
        let plan = Plan { inputs: 0, steps: Vec::new(), outputs: Vec::new() };
        Walk { setting, reach: Reach::new(&setting.rules), random: Random(0), plan }
    }

    /// Combinations of values looked at so far.
    pub(super) fn work(&self) -> u64 {
        self.reach.work
    }

    /// One step of the walk: true if the plan is another one now. Plans with fewer steps than before
    /// are taken if their values have registers.
    pub(super) fn step(&mut self, best: &Best<'_>) -> bool {
        self.reach.work += WORK_OF_A_STEP + WORK_PER_STEP * self.plan.steps.len() as u64;
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
        let (mut better, mut placing, length) = (None, 0, self.plan.steps.len());
        window.refill(count, &mut self.reach, &mut self.random, &mut |plan| {
            let takes = plan.steps.len() == length || best.places(&plan, &mut placing);
            better = takes.then_some(plan);
            takes
        });
        self.reach.work += placing;
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
        let mut walk = Walk::new(&setting);
        walk.plan = plan;
        for _ in 0..200 {
            let (before, length) = (walk.work(), walk.plan.steps.len() as u64);
            walk.step(&best);
            assert!(length > 100 && walk.work() - before >= length * WORK_PER_STEP);
        }
    }
}
