//! Moves of a walk: some steps of a plan go, at most one comes, and the steps that read their results
//! are made anew.
//!
//! Every reader has a set of values of which any one lets it make its result in one instruction,
//! with others that are there. A value that is in the sets of all readers can take the place of
//! all that go; if it is what one instruction makes, that is the step that comes.

use super::field::Residue;
use super::plan::{Id, Plan, Setting, Step};
use super::random::Random;
use super::reach::{NONE, Products, Reach, Sources, WANTED};
use super::rules::MAX_RESULTS;
use super::wants::Wants;
use smallvec::{SmallVec, smallvec};

/// Most readers of a move.
pub(super) const MAX_READERS: usize = 6;

/// Most values of which a step is made.
const MAX_KNOWN: usize = 9;

/// The name of the first result of the step that comes, until it is in the plan.
const NEW: Id = 1 << 15;

/// When a value that is there in the end is read last.
const KEPT: usize = usize::MAX;

/// One of so many values that are dead where a step is made may be used for it all the same.
const REVIVED: usize = 6;

/// The same for results that nobody reads.
const UNREAD: usize = 3;

/// What a move changes.
pub(super) struct Cut {
    /// Steps that go; none makes an output.
    pub(super) gone: SmallVec<[usize; 4]>,
    /// Steps that are made anew, in order, all that read what goes among them; at least one, and at
    /// most [`MAX_READERS`].
    pub(super) readers: SmallVec<[usize; MAX_READERS]>,
    /// The step before which the new one comes: not after the first reader.
    pub(super) place: usize,
    /// Most steps of the plan afterwards.
    pub(super) limit: usize,
}

/// How a step is made.
#[derive(Clone)]
struct Way {
    rule: u16,
    sources: Sources,
    /// Which results its values are.
    results: [u8; MAX_RESULTS],
}

/// A step that is made anew.
struct Reader {
    /// Values it may be made of.
    known: SmallVec<[Id; MAX_KNOWN]>,
    /// Results that are read, and their values.
    results: SmallVec<[(u8, Residue); MAX_RESULTS]>,
    /// A way that takes no new value.
    free: Option<Way>,
}

/// One of several, each with the same chance.
struct Pick<T> {
    count: usize,
    one: Option<T>,
}

impl<T> Pick<T> {
    fn none() -> Pick<T> {
        Pick { count: 0, one: None }
    }

    fn offer(&mut self, random: &mut Random, one: T) {
        self.count += 1;
        if random.below(self.count) == 0 {
            self.one = Some(one);
        }
    }
}

/// Finds moves of one plan.
pub(super) struct Exchange<'a> {
    setting: &'a Setting,
    reach: Reach,
    products: Products,
    wants: Wants,
    /// The values of which a reader may be made.
    there: Wants,
    /// Combinations of values looked at, the measure of effort.
    pub(super) work: u64,
}

impl<'a> Exchange<'a> {
    pub(super) fn new(setting: &'a Setting) -> Exchange<'a> {
        let reach = Reach::new(&setting.rules);
        let readers = if reach.has_second { MAX_READERS } else { 1 };
        let wants = Wants::new(readers * reach.most_wants(MAX_KNOWN));
        Exchange {
            setting,
            reach,
            products: Products::default(),
            wants,
            there: Wants::new(MAX_KNOWN),
            work: 0,
        }
    }

    /// The plan of which moves are asked for is another one now.
    pub(super) fn begin(&mut self, plan: &Plan) {
        self.reach.products(plan, self.setting, &mut self.products);
    }

    /// In the plan of which moves are asked for, a step has another place now.
    pub(super) fn step_moved(&mut self, inputs: usize, from: usize, to: usize) {
        self.products.move_values(inputs, from, to);
    }

    /// A plan after a move, one of several at random; `None` if there is none that fits.
    pub(super) fn attempt(&mut self, plan: &Plan, cut: &Cut, random: &mut Random) -> Option<Plan> {
        let last = self.last_reads(plan, cut);
        self.wants.clear();
        let mut readers: SmallVec<[Reader; MAX_READERS]> = SmallVec::new();
        // The readers that need a new value.
        let mut missing = 0;
        for (index, &step) in (0..).zip(&cut.readers) {
            let (reader, shared) = self.reader(plan, cut, &last, (index, step), missing, random);
            if reader.free.is_none() {
                if shared == 0 {
                    return None;
                }
                missing |= 1_u8 << index;
            }
            readers.push(reader);
        }
        let base = plan.steps.len() - cut.gone.len();
        if missing == 0 && base <= cut.limit {
            let ways: Option<Vec<Way>> = readers.iter().map(|r| r.free.clone()).collect();
            if let Some(new) = self.fitting(plan, cut, None, &ways?) {
                return Some(new);
            }
        }
        if base + 1 > cut.limit || missing == 0 && !cut.gone.is_empty() {
            return None;
        }
        let mask = if missing == 0 { (1 << readers.len()) - 1 } else { missing };
        let (step, values) = self.new_step(plan, cut, &last, mask, random)?;
        let ways: Option<Vec<Way>> =
            readers.iter().map(|reader| self.way(reader, values, random)).collect();
        self.fitting(plan, cut, Some(&step), &ways?)
    }

    /// For every value, one more than the last step that reads it when the move is made; 0 where
    /// nobody does.
    fn last_reads(&self, plan: &Plan, cut: &Cut) -> Vec<usize> {
        let mut last = vec![0; plan.inputs + plan.steps.len() * MAX_RESULTS];
        for (index, step) in plan.steps.iter().enumerate() {
            // The new step may read what those that go read.
            let index = if cut.gone.contains(&index) { cut.place } else { index };
            for &source in &step.sources {
                let last = &mut last[usize::from(source)];
                *last = (*last).max(index + 1);
            }
        }
        let fixed = (0..).zip(&self.setting.fixed).filter(|(_, fixed)| **fixed).map(|(id, _)| id);
        for id in fixed.chain(plan.outputs.iter().copied()) {
            last[usize::from(id)] = KEPT;
        }
        last
    }

    /// Values of which something can be made before a step: those that are alive, and a few others.
    fn known(
        &self,
        plan: &Plan,
        cut: &Cut,
        last: &[usize],
        before: usize,
        random: &mut Random,
    ) -> SmallVec<[Id; MAX_KNOWN]> {
        let (mut known, mut count) = (SmallVec::new(), 0);
        let mut offer = |id: Id| {
            let takes = match last[usize::from(id)] {
                0 => random.below(UNREAD) == 0,
                read if read > before => true,
                _ => random.below(REVIVED) == 0,
            };
            if !takes {
                return;
            }
            count += 1;
            if known.len() < MAX_KNOWN {
                known.push(id);
            } else if let Some(place) = known.get_mut(random.below(count)) {
                *place = id;
            }
        };
        (0..plan.inputs).for_each(|input| offer(input as Id));
        for step in (0..before).filter(|step| !cut.gone.contains(step)) {
            let results = &self.setting.rules[usize::from(plan.steps[step].rule)].results;
            let is_same = !cut.readers.contains(&step);
            // Made anew, a step keeps only the results that were read before.
            let ids = (0..results.len()).map(|result| plan.id(step, result));
            ids.filter(|id| is_same || last[usize::from(*id)] > 0).for_each(&mut offer);
        }
        known
    }

    /// Notes what a step that is made anew could do with; how many of these values the readers of a
    /// mask could do with as well.
    fn reader(
        &mut self,
        plan: &Plan,
        cut: &Cut,
        last: &[usize],
        (index, step): (u8, usize),
        mask: u8,
        random: &mut Random,
    ) -> (Reader, usize) {
        let known = self.known(plan, cut, last, step, random);
        let read = |result: usize| {
            let id = plan.id(step, result);
            let is_read = last[usize::from(id)] > 0;
            is_read.then(|| (result as u8, self.products.value(id)))
        };
        let results = (0..MAX_RESULTS).filter_map(read).collect();
        let mut reader = Reader { known, results, free: None };
        self.there.clear();
        for &id in &reader.known {
            self.there.add(self.products.value(id), 0, true);
        }
        // Only a step with two results can serve readers that want different values.
        let grow = mask == 0 || self.reach.has_second;
        let Exchange { reach, wants, there, products, .. } = self;
        let (mut is_there, mut shared) = (false, 0);
        self.work += reader.visit(reach, products, |value, _, _, _| {
            let others = wants.add(value, index, grow);
            shared += usize::from(others & mask == mask);
            is_there |= there.readers(value) > 0;
        });
        if is_there {
            reader.free = self.free_way(plan, cut, step, &reader, random);
        }
        (reader, if self.reach.has_second { usize::MAX } else { shared })
    }

    /// A way to make a step of known values only, other than the present one.
    fn free_way(
        &mut self,
        plan: &Plan,
        cut: &Cut,
        step: usize,
        reader: &Reader,
        random: &mut Random,
    ) -> Option<Way> {
        let mut pick = Pick::none();
        let old = &plan.steps[step];
        let is_kept =
            old.sources.iter().all(|&id| plan.step_of(id).is_none_or(|s| !cut.gone.contains(&s)));
        self.work += reader.visit(&self.reach, &self.products, |value, rule, sources, results| {
            for &id in &reader.known {
                if self.products.value(id) == value && !sources.contains(&id) {
                    let way = Way { rule, sources, results }.with(id);
                    let step = Step { rule: way.rule, sources: way.sources() };
                    if !is_kept || step != *old {
                        pick.offer(random, way);
                    }
                }
            }
        });
        pick.one
    }

    /// An instruction whose result all readers of a mask want.
    fn new_step(
        &mut self,
        plan: &Plan,
        cut: &Cut,
        last: &[usize],
        mask: u8,
        random: &mut Random,
    ) -> Option<(Step, [Option<Residue>; MAX_RESULTS])> {
        let known = self.known(plan, cut, last, cut.place, random);
        let mut pick = Pick::none();
        let wants = &self.wants;
        self.work += self.reach.forward(&known, &self.products, |values, rule, sources| {
            let readers = values.iter().flatten().fold(0, |mask, v| mask | wants.readers(*v));
            if readers & mask == mask {
                let sources = Way { rule, sources, results: [0; MAX_RESULTS] }.sources();
                let step = Step { rule, sources };
                if !cut.gone.iter().any(|&gone| plan.steps[gone] == step) {
                    pick.offer(random, (step, values));
                }
            }
        });
        pick.one
    }

    /// A way to make a step when there are new values.
    fn way(
        &self,
        reader: &Reader,
        values: [Option<Residue>; MAX_RESULTS],
        random: &mut Random,
    ) -> Option<Way> {
        let mut pick = Pick::none();
        reader.visit(&self.reach, &self.products, |value, rule, sources, results| {
            for (id, _) in (NEW..).zip(&values).filter(|(_, new)| **new == Some(value)) {
                pick.offer(random, Way { rule, sources, results }.with(id));
            }
        });
        let keeps = pick.one.is_none() || random.below(4) == 0;
        if keeps && reader.free.is_some() { reader.free.clone() } else { pick.one }
    }

    /// The plan after the move; `None` if it does not fit the registers, or is the same as before.
    fn fitting(&self, plan: &Plan, cut: &Cut, new: Option<&Step>, ways: &[Way]) -> Option<Plan> {
        // The place of every step afterwards; what goes has one too, which nobody asks for.
        let mut order: Vec<Option<usize>> = Vec::with_capacity(plan.steps.len() + 1);
        let (mut at, mut place) = (Vec::with_capacity(plan.steps.len()), 0);
        for step in 0..plan.steps.len() {
            if step == cut.place && new.is_some() {
                place = order.len();
                order.push(None);
            }
            at.push(order.len());
            if !cut.gone.contains(&step) {
                order.push(Some(step));
            }
        }
        let way_of = |step| cut.readers.iter().position(|reader| *reader == step).map(|i| &ways[i]);
        let renamed = |id: Id| match plan.step_of(id) {
            _ if id >= NEW => plan.id(place, usize::from(id - NEW)),
            None => id,
            Some(step) => {
                let result = (usize::from(id) - plan.inputs) % MAX_RESULTS;
                let result = way_of(step).map_or(result, |way| usize::from(way.results[result]));
                plan.id(at[step], result)
            }
        };
        let made = |step: &Option<usize>| {
            let old = step.map_or(new, |step| Some(&plan.steps[step]));
            let (rule, sources) = match step.and_then(way_of) {
                Some(way) => (way.rule, way.sources()),
                None => old.map(|old| (old.rule, old.sources.clone()))?,
            };
            Some(Step { rule, sources: sources.iter().map(|&id| renamed(id)).collect() })
        };
        let steps: Vec<Step> = order.iter().filter_map(made).collect();
        let outputs = plan.outputs.iter().map(|&id| renamed(id)).collect();
        let mut new = Plan { inputs: plan.inputs, steps, outputs };
        new.remove_dead();
        (new.steps != plan.steps && new.fits(self.setting)).then_some(new)
    }
}

impl Reader {
    /// Visits the values that it could do with, and how: rule, sources, and which results its own
    /// are. Gives the number of visits.
    #[inline(always)]
    fn visit(
        &self,
        reach: &Reach,
        products: &Products,
        mut visit: impl FnMut(Residue, u16, Sources, [u8; MAX_RESULTS]),
    ) -> u64 {
        match self.results[..] {
            [(result, target)] => {
                reach.backward(target, &self.known, products, |value, rule, made, sources| {
                    let mut results = [0; MAX_RESULTS];
                    results[usize::from(result)] = made;
                    visit(value, rule, sources, results);
                })
            }
            [(_, first), (_, second)] => {
                reach.backward_both([first, second], |value, rule, results| {
                    visit(value, rule, [WANTED, NONE, NONE], results);
                });
                1
            }
            _ => 0,
        }
    }
}

impl Way {
    /// With a value in the place of the wanted one.
    fn with(mut self, value: Id) -> Way {
        self.sources = self.sources.map(|id| if id == WANTED { value } else { id });
        self
    }

    fn sources(&self) -> SmallVec<[Id; 4]> {
        let mut sources = smallvec![];
        sources.extend(self.sources.into_iter().filter(|&id| id != NONE));
        sources
    }
}
