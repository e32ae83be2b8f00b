//! A few neighbouring steps of a plan, and what could stand in their place.

use super::plan::{Id, Last, NEWS, Plan, SLOTS, Setting, Source, Step};
use super::reach::{Made, Place, Reach, State, Steps};
use crate::search::field::Residue;
use crate::search::random::Random;

/// The first name of values that new steps make, until these are in the plan.
const NEW: Id = 1 << 15;

/// Most ways that are kept of each part of a window.
const WAYS: usize = 64;

/// How many first steps are tried where a value is to be made in three.
const TRIES: usize = 8;

/// Steps `start..end` of a plan, what is there before them, and what they must make.
pub(super) struct Window<'a> {
    plan: &'a Plan,
    setting: &'a Setting,
    start: usize,
    end: usize,
    before: State,
    /// Values in general registers that are read after the window.
    targets: Vec<(Id, Residue)>,
    /// What is in NEWS and read after the window.
    news: Option<(Id, Residue)>,
}

/// A value that is still to be made.
type Missing = (Id, Residue, Place);

/// What is known of a way to fill the window: steps, what is there after them, and for each target
/// the value that is it.
#[derive(Clone, Debug, Default)]
struct Way {
    steps: Vec<Made>,
    state: State,
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
        let (mut before, mut dead, mut targets) = (State::default(), Vec::new(), Vec::new());
        let (first, after) = (plan.id(start, 0), plan.id(end, 0));
        for id in (0..after).filter(|&id| !plan.is_news(id)) {
            let (value, last) = (values[usize::from(id)], last[usize::from(id)]);
            match last {
                Last::Unused => {}
                _ if id < first && last >= Last::Step(start) => before.general.push((id, value)),
                _ if id < first => dead.push((id, value)),
                _ if last >= Last::Step(end) => targets.push((id, value)),
                _ => {}
            }
        }
        for _ in 0..revived.min(dead.len()) {
            before.general.push(dead.swap_remove(random.below(dead.len())));
        }
        let in_news = |end: usize| {
            let step = plan.steps[..end].iter().rposition(|step| step.news.is_some())?;
            let id = plan.id(step, NEWS);
            Some((id, values[usize::from(id)]))
        };
        before.news = in_news(start);
        let news = in_news(end).filter(|(id, _)| last[usize::from(*id)] >= Last::Step(end));
        Window { plan, setting, start, end, before, targets, news }
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
        // A target that is there already needs no step, unless it is wanted as a copy.
        let state = self.before.clone();
        let same = |t: &(Id, Residue)| state.general.iter().find(|known| known.1 == t.1);
        let there = self.targets.iter().filter_map(|t| same(t).map(|known| (t.0, known.0)));
        let mut way = Way { steps: Vec::new(), targets: there.collect(), state };
        if !way.targets.is_empty() && self.fill(count, &mut way, reach, random, accept) {
            return true;
        }
        way.targets.clear();
        self.fill(count, &mut way, reach, random, accept)
    }

    /// The values that a way does not make yet.
    fn missing(&self, way: &Way) -> Vec<Missing> {
        let is_missing = |t: &&(Id, Residue)| way.targets.iter().all(|(id, _)| *id != t.0);
        let general = self.targets.iter().filter(is_missing).map(|t| (t.0, t.1, Place::General));
        let now = way.state.news.map(|(_, value)| value);
        let news = self.news.filter(|(_, value)| now != Some(*value));
        general.chain(news.map(|(id, value)| (id, value, Place::News))).collect()
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
        let missing = self.missing(way);
        if missing.is_empty() {
            return self.plan_of(way).is_some_and(accept);
        }
        // A step makes two of them at most, and one value.
        let needed = distinct(&missing).max(missing.len().div_ceil(2));
        if needed > count {
            return false;
        }
        for target in &missing {
            for free in 0..(count + 1 - needed).min(3) {
                for steps in self.ways(&way.state, target, free + 1, self.next(way), reach, random)
                {
                    let mut next = way.clone();
                    for step in steps {
                        next.state = reach.after(&next.state, &step, self.next(&next));
                        next.steps.push(step);
                    }
                    self.settle(&mut next, &missing, target);
                    if self.fill(count - free - 1, &mut next, reach, random, accept) {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Notes what the last step of a way has made: the target, and others that are the same or lie in
    /// its further receiver.
    fn settle(&self, way: &mut Way, missing: &[Missing], target: &Missing) {
        let first = NEW + ((way.steps.len() - 1) * SLOTS) as Id;
        let kind = way.steps.last().map_or(0, |made| made.kind);
        let mut results = self.setting.kinds[usize::from(kind)].results;
        results -= usize::from(way.steps.last().is_some_and(|made| made.news.is_some()));
        let value = way.state.general.iter().find(|known| known.0 == first).map(|known| known.1);
        let others = missing.iter().filter(|other| other.0 != target.0);
        let wanted = [target].into_iter().chain(others).filter(|m| m.2 == Place::General);
        let made = wanted.filter(|m| Some(m.1) == value).take(results);
        let made: Vec<(Id, Id)> = (0..).zip(made).map(|(slot, m)| (m.0, first + slot)).collect();
        way.targets.extend(made);
    }

    /// Ways to make a value in exactly so many steps, in random order.
    fn ways(
        &self,
        state: &State,
        &(_, value, place): &Missing,
        steps: usize,
        next: Id,
        reach: &mut Reach,
        random: &mut Random,
    ) -> Vec<Steps> {
        let mut found = Vec::new();
        match steps {
            1 => {
                reach.one(state, value, place, &mut found);
                self.with_second_receivers(state, reach, place, &mut found);
            }
            2 => reach.two(state, (value, place), next, WAYS, &mut found),
            _ => {
                for _ in 0..TRIES {
                    let first = reach.any(state, &mut |n| random.below(n));
                    let after = reach.after(state, &first, next);
                    let mut rest = Vec::new();
                    reach.two(&after, (value, place), next + SLOTS as Id, WAYS, &mut rest);
                    let whole = |rest: Steps| [first.clone()].into_iter().chain(rest).collect();
                    found.extend(rest.into_iter().map(whole));
                }
            }
        }
        for index in (1..found.len()).rev() {
            found.swap(index, random.below(index + 1));
        }
        found
    }

    /// Adds the ways in which NEWS receives what it is to hold after the window, beside a general
    /// register.
    fn with_second_receivers(
        &self,
        state: &State,
        reach: &Reach,
        place: Place,
        found: &mut Vec<Steps>,
    ) {
        let Some((_, wanted)) = self.news.filter(|_| place == Place::General) else { return };
        let mut more = Vec::new();
        for made in found.iter().map(|steps| &steps[0]) {
            let is_news = |source: &Source| state.news.is_some_and(|(id, _)| id == source.id);
            let has_two = self.setting.kinds[usize::from(made.kind)].results > 1;
            if !has_two || made.sources.iter().any(is_news) {
                continue;
            }
            for whose in 0..super::plan::REACHED as u8 {
                let made = Made { news: Some(whose), ..made.clone() };
                let after = reach.after(state, &made, NEW);
                if after.news.is_some_and(|(_, value)| value == wanted) {
                    more.push([made].into_iter().collect());
                }
            }
        }
        found.extend(more);
    }

    /// The name of the first value of the next step.
    fn next(&self, way: &Way) -> Id {
        NEW + (way.steps.len() * SLOTS) as Id
    }

    /// The plan with the steps of a way instead of the window; `None` if it does not fit the
    /// registers, or is the same as before.
    fn plan_of(&self, way: &Way) -> Option<Plan> {
        let plan = self.plan;
        let (start, end) = (plan.id(self.start, 0), plan.id(self.end, 0));
        let after = plan.id(self.start + way.steps.len(), 0);
        let of_new = |id: Id| if id >= NEW { id - NEW + start } else { id };
        let renamed = |id: Id| match id {
            _ if self.news.is_some_and(|(news, _)| news == id) => {
                way.state.news.map(|(id, _)| of_new(id))
            }
            _ if id < start => Some(id),
            _ if id >= end => Some(id - end + after),
            _ => way.targets.iter().find(|(target, _)| *target == id).map(|(_, id)| of_new(*id)),
        };
        let mut steps = plan.steps[..self.start].to_vec();
        for made in &way.steps {
            let of = |source: &Source| Source { id: of_new(source.id), ..*source };
            let sources = made.sources.iter().map(of).collect();
            steps.push(Step { kind: made.kind, sources, news: made.news });
        }
        for step in &plan.steps[self.end..] {
            let of = |source: &Source| Some(Source { id: renamed(source.id)?, ..*source });
            let sources = step.sources.iter().map(of).collect::<Option<_>>()?;
            steps.push(Step { sources, ..*step });
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

/// How many different values are wanted in general registers.
fn distinct(missing: &[Missing]) -> usize {
    let is_new = |(at, one): &(usize, &Missing)| {
        one.2 == Place::General && missing[..*at].iter().all(|other| other.1 != one.1)
    };
    missing.iter().enumerate().filter(is_new).count()
}
