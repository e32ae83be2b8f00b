//! A few neighbouring steps of a plan, and what could stand in their place.

use super::field::Residue;
use super::plan::{Id, Last, Plan, Setting, Step};
use super::random::Random;
use super::reach::{Known, Made, Reach, Steps};
use super::rules::MAX_RESULTS;

/// The first name of values that new steps make, until these are in the plan.
const NEW: Id = 1 << 15;

/// Most ways that are kept of each part of a window.
const WAYS: usize = 64;

/// Most ways of three instructions that are looked for at once.
const LONG_WAYS: usize = 4;

/// Steps `start..end` of a plan, what is known before them, and what they must make.
pub(super) struct Window<'a> {
    plan: &'a Plan,
    setting: &'a Setting,
    start: usize,
    end: usize,
    known: Vec<Known>,
    /// Values that are read after the window.
    targets: Vec<Known>,
}

/// What is known of a way to fill the window: steps, and for each target the value that is it.
#[derive(Clone, Debug, Default)]
struct Way {
    steps: Vec<Made>,
    targets: Vec<(Id, Id)>,
}

impl<'a> Window<'a> {
    /// The window of some steps. Besides the values that are alive before it, up to `revived` that
    /// are dead by then may be used.
    pub(super) fn new(
        plan: &'a Plan,
        setting: &'a Setting,
        values: &[Residue],
        (start, end): (usize, usize),
        (revived, random): (usize, &mut Random),
    ) -> Window<'a> {
        let last = plan.last_uses(setting);
        let (mut known, mut dead, mut targets) = (Vec::new(), Vec::new(), Vec::new());
        let (before, inside) = (plan.id(start, 0), plan.id(end, 0));
        for id in 0..inside {
            let (value, last) = (values[usize::from(id)], last[usize::from(id)]);
            match last {
                Last::Unused => {}
                _ if id < before && last >= Last::Step(start) => known.push((id, value)),
                _ if id < before => dead.push((id, value)),
                _ if last >= Last::Step(end) => targets.push((id, value)),
                _ => {}
            }
        }
        // With fewer values there is less to look at.
        if random.below(4) > 0 {
            let read = |id: &Id| plan.steps[start..end].iter().any(|s| s.sources.contains(id));
            known.retain(|(id, _)| random.below(10) < if read(id) { 9 } else { 5 });
        }
        for _ in 0..revived.min(dead.len()) {
            known.push(dead.swap_remove(random.below(dead.len())));
        }
        Window { plan, setting, start, end, known, targets }
    }

    /// Plans with at most `count` steps instead of those of the window that fit the registers, in
    /// the order in which they are found, until `accept` takes one. False if it takes none.
    pub(super) fn refill(
        &self,
        count: usize,
        reach: &mut Reach,
        random: &mut Random,
        accept: &mut dyn FnMut(Plan) -> bool,
    ) -> bool {
        // A target that is known already needs no step, unless it is wanted as a copy.
        let same = |target: &Known| self.known.iter().find(|known| known.1 == target.1);
        let there = self.targets.iter().filter_map(|t| same(t).map(|known| (t.0, known.0)));
        let mut way = Way { steps: Vec::new(), targets: there.collect() };
        if !way.targets.is_empty() && self.fill(count, &mut way, reach, random, accept) {
            return true;
        }
        self.fill(count, &mut Way::default(), reach, random, accept)
    }

    /// Completes a way with at most `count` more steps.
    fn fill(
        &self,
        count: usize,
        way: &mut Way,
        reach: &mut Reach,
        random: &mut Random,
        accept: &mut dyn FnMut(Plan) -> bool,
    ) -> bool {
        let missing: Vec<Known> = self
            .targets
            .iter()
            .filter(|t| way.targets.iter().all(|(id, _)| *id != t.0))
            .copied()
            .collect();
        if missing.is_empty() {
            return self.plan_of(way).is_some_and(accept);
        }
        if missing.len() > count {
            return false;
        }
        let known = self.known_with(way);
        for &(id, value) in &missing {
            for free in 0..=(count - missing.len()).min(2) {
                for steps in ways(&known, value, free + 1, self.next(way), reach, random) {
                    let made = way.steps.len();
                    let last = steps.last().map_or(0, |step| Id::from(step.result));
                    way.targets.push((id, self.next(way) + (free * MAX_RESULTS) as Id + last));
                    way.steps.extend(steps);
                    if self.fill(count - free - 1, way, reach, random, accept) {
                        return true;
                    }
                    way.steps.truncate(made);
                    way.targets.pop();
                }
            }
        }
        false
    }

    /// The name of the first result of the next step.
    fn next(&self, way: &Way) -> Id {
        NEW + (way.steps.len() * MAX_RESULTS) as Id
    }

    /// The known values with those of the steps of a way.
    fn known_with(&self, way: &Way) -> Vec<Known> {
        let mut known = self.known.clone();
        for (index, step) in way.steps.iter().enumerate() {
            let forms = &self.setting.rules[usize::from(step.rule)].results;
            let value_of = |id: Id| known.iter().find(|k| k.0 == id).map_or(Residue::ZERO, |k| k.1);
            let sources: Vec<Residue> = step.sources.iter().map(|&id| value_of(id)).collect();
            for (result, form) in forms.iter().enumerate() {
                let terms = form.iter().zip(&sources);
                let value = terms.fold(Residue::ZERO, |sum, (f, v)| sum.plus(f.times(*v)));
                known.push((NEW + (index * MAX_RESULTS + result) as Id, value));
            }
        }
        known
    }

    /// The plan with the steps of a way instead of the window; `None` if it does not fit the
    /// registers, or is the same as before.
    fn plan_of(&self, way: &Way) -> Option<Plan> {
        let plan = self.plan;
        let (start, end) = (plan.id(self.start, 0), plan.id(self.end, 0));
        let after = plan.id(self.start + way.steps.len(), 0);
        let of_new = |id: Id| if id >= NEW { id - NEW + start } else { id };
        let renamed = |id: Id| match id {
            _ if id < start => Some(id),
            _ if id >= end => Some(id - end + after),
            _ => way.targets.iter().find(|(target, _)| *target == id).map(|(_, id)| of_new(*id)),
        };
        let mut steps = plan.steps[..self.start].to_vec();
        for made in &way.steps {
            let sources = made.sources.iter().map(|&id| of_new(id)).collect();
            steps.push(Step { rule: made.rule, sources });
        }
        for step in &plan.steps[self.end..] {
            let sources = step.sources.iter().map(|&id| renamed(id)).collect::<Option<_>>()?;
            steps.push(Step { rule: step.rule, sources });
        }
        let outputs: Vec<Id> = plan.outputs.iter().map(|&id| renamed(id)).collect::<Option<_>>()?;
        let twice = |(index, id): (usize, &Id)| outputs[..index].contains(id);
        if steps == plan.steps || outputs.iter().enumerate().any(twice) {
            return None;
        }
        let mut new = Plan { inputs: plan.inputs, steps, outputs };
        new.remove_dead();
        new.fits(self.setting).then_some(new)
    }
}

/// Ways to make a value in exactly so many steps, in random order.
fn ways(
    known: &[Known],
    value: Residue,
    steps: usize,
    next: Id,
    reach: &mut Reach,
    random: &mut Random,
) -> Vec<Steps> {
    let mut found = Vec::new();
    match steps {
        1 => reach.one(known, value, &mut found),
        2 => reach.two(known, value, next, WAYS, &mut found),
        _ => {
            let start = random.below(1 << 20);
            reach.three(known, value, next, (start, LONG_WAYS), &mut found);
        }
    }
    for index in (1..found.len()).rev() {
        found.swap(index, random.below(index + 1));
    }
    found
}
