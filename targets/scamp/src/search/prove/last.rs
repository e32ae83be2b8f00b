//! The last instructions, met in the middle: what one instruction makes, and what the last one needs
//! to make the goal.

use super::super::field::Residue;
use super::deepen::{MAX_ELEMENTS, Made, Search, Way};
use smallvec::SmallVec;

/// A last instruction that lacks one value, which stands among its sources as [`WANTED`].
#[derive(Clone, Copy)]
pub(super) struct Want(Made);

/// The place of the value that is wanted.
const WANTED: u8 = u8::MAX;

impl Search<'_> {
    /// The last instruction makes all that is missing.
    pub(super) fn last(&mut self, from: usize, missing: &[Residue]) -> bool {
        self.work += (self.list.len() - from) as u64;
        for place in from..self.list.len() {
            let results = &self.list[place].results;
            let count = |list: &[Residue], value| list.iter().filter(|v| **v == value).count();
            let makes = |&value: &Residue| count(results, value) >= count(missing, value);
            if missing.iter().all(makes) && self.found(&[self.list[place].made]) {
                return true;
            }
        }
        false
    }

    /// A candidate from a place on, and the last instruction of it.
    pub(super) fn last_two(&mut self, from: usize, target: Residue) -> bool {
        self.prepare(target);
        self.work += (self.list.len() - from) as u64;
        let mut pairs: Vec<(Made, Made)> = Vec::new();
        for place in from..self.list.len() {
            let first = self.list[place].made;
            for (result, &value) in (0..).zip(&self.list[place].results) {
                for Want(last) in self.wants.find(value) {
                    pairs.push((first, self.completed(last, result)));
                }
            }
            if self.list[place].results.len() > 1 {
                self.of_several(first, target, &mut pairs);
            }
        }
        self.wants.truncate(0);
        pairs.into_iter().any(|(first, last)| self.found(&[first, last]))
    }

    /// Notes what a last instruction needs besides what is there.
    pub(super) fn prepare(&mut self, target: Residue) {
        self.wants.truncate(0);
        self.want(0, target);
    }

    /// Notes what a last instruction needs that reads an element from an index on.
    fn want(&mut self, from: usize, target: Residue) {
        let before = self.wants.len();
        let over = |id| self.forms.residue(id).times(target);
        let made = |way, sources| Want(Made { way, sources });
        if from == 0 {
            for (index, single) in (0..).zip(&self.forms.singles) {
                let want = made(Way::Single(index), [WANTED, 0, 0]);
                self.wants.push(over(single.inverse), want);
            }
            for (index, form) in (0..).zip(&self.forms.binary).filter(|(_, f)| f.takes_equals) {
                let want = made(Way::Binary(index), [WANTED, WANTED, 0]);
                self.wants.push(form.back_equals.times(target), want);
            }
        }
        for (index, form) in (0..).zip(&self.forms.binary) {
            let (first, second) = (over(form.back_first.0), over(form.back_second.0));
            for (place, element) in self.elements.iter().enumerate().skip(from) {
                let value = first.plus(element.image(form.back_first.1));
                self.wants.push(value, made(Way::Binary(index), [WANTED, place as u8, 0]));
                if !form.commutes {
                    let value = second.plus(element.image(form.back_second.1));
                    self.wants.push(value, made(Way::Binary(index), [place as u8, WANTED, 0]));
                }
            }
        }
        for (index, form) in (0..).zip(&self.forms.ternary) {
            let sum = over(form.inverse);
            for last in from..self.elements.len() {
                let rest = sum.minus(self.elements[last].turned[0]);
                for other in 0..last {
                    let value = rest.minus(self.elements[other].turned[0]);
                    let sources = [WANTED, other as u8, last as u8];
                    self.wants.push(value, made(Way::Ternary(index), sources));
                }
            }
        }
        self.work += (self.wants.len() - before) as u64;
    }

    /// The instruction with result `result` of the one before it.
    fn completed(&self, mut last: Made, result: u8) -> Made {
        for source in &mut last.sources {
            if *source == WANTED {
                *source = self.elements.len() as u8 + result;
            }
        }
        last
    }

    /// The candidate of a place and two more instructions, of which one reads it.
    pub(super) fn last_three(&mut self, place: usize, target: Residue) -> bool {
        let (old, wants) = (self.elements.len(), self.wants.len());
        let undo = self.make(place, false);
        let (masks, all) = self.unread();
        self.want(old, target);
        let mut pairs: SmallVec<[(Made, Made); 4]> = SmallVec::new();
        // What was possible without it, and what the last instruction needs beside it.
        for (value, Want(last)) in self.wants.from(wants) {
            for other in self.index.find(value).map(|other| other as usize) {
                let candidate = &self.list[other];
                let result = candidate.results.iter().position(|r| *r == value).unwrap_or(0);
                if other > place {
                    pairs.push((candidate.made, self.completed(last, result as u8)));
                }
            }
        }
        self.new_values(old, &masks, all, &mut pairs);
        let same = self.list[place].made;
        for (result, &value) in (0..).zip(&self.list[place].results) {
            for Want(last) in self.wants.find(value) {
                pairs.push((same, self.completed(last, result)));
            }
        }
        if self.forms.most_results > 1 {
            self.several_of_new(old, target, &mut pairs);
        }
        let stop = pairs.into_iter().any(|(first, last)| self.found(&[first, last]));
        self.wants.truncate(wants);
        self.undo(undo);
        stop
    }

    /// What becomes possible with the elements from an index on, where a last instruction needs it.
    fn new_values(
        &mut self,
        from: usize,
        masks: &[u32; MAX_ELEMENTS],
        unread: u32,
        pairs: &mut SmallVec<[(Made, Made); 4]>,
    ) {
        // The last instruction reads its first source and these others.
        let others = self.bounds.sources as u32 - 1;
        let least = unread.saturating_sub(others);
        let mut work = 0;
        if least <= 1 {
            for element in from..self.elements.len() {
                for (index, single) in (0..).zip(&self.forms.singles) {
                    work += 1;
                    for Want(last) in self.wants.find(self.elements[element].image(single.factor)) {
                        let way = Way::Single(index);
                        let first = Made { way, sources: [element as u8, 0, 0] };
                        pairs.push((first, self.completed(last, 0)));
                    }
                }
            }
        }
        self.sums(from, masks, least, &mut |value, way, sources| {
            work += 1;
            for Want(last) in self.wants.find(value) {
                pairs.push((Made { way, sources }, self.completed(last, 0)));
            }
            false
        });
        self.work += work;
    }

    /// A bit for the instruction of each element if nothing reads it and it makes no goal, and how
    /// many such instructions there are.
    fn unread(&self) -> ([u32; MAX_ELEMENTS], u32) {
        let mut masks = [0; MAX_ELEMENTS];
        for (mask, element) in masks.iter_mut().zip(&self.elements) {
            if let Some(step) = element.step
                && !self.steps[usize::from(step)].used
            {
                *mask = 1 << step;
            }
        }
        let all: u32 = masks.iter().fold(0, |all, mask| all | mask);
        (masks, all.count_ones())
    }

    /// Last instructions that read several results of an instruction.
    fn of_several(&self, first: Made, target: Residue, pairs: &mut Vec<(Made, Made)>) {
        let Way::Outcome(outcome) = first.way else { return };
        let source = self.elements[usize::from(first.sources[0])].turned[0];
        let results = |list: [Option<u8>; 3]| {
            list.map(|result| result.map_or(0, |result| self.elements.len() as u8 + result))
        };
        for twin in self.forms.twins.iter().filter(|twin| twin.outcome == outcome) {
            if twin.inverse.times(target) == source {
                let three = twin.results[2].is_some();
                let way = if three { Way::Ternary(twin.form) } else { Way::Binary(twin.form) };
                pairs.push((first, Made { way, sources: results(twin.results) }));
            }
        }
        for third in self.forms.thirds.iter().filter(|third| third.outcome == outcome) {
            let sum = third.factor.times(source);
            let form = &self.forms.ternary[usize::from(third.form)];
            for (other, element) in self.elements.iter().enumerate() {
                if sum.plus(element.image(form.factor)) == target {
                    let [a, b] = third.results;
                    let [a, b, _] = results([Some(a), Some(b), None]);
                    let way = Way::Ternary(third.form);
                    pairs.push((first, Made { way, sources: [other as u8, a, b] }));
                }
            }
        }
    }

    /// The same for instructions that read an element from an index on, or whose results are read
    /// together with one.
    fn several_of_new(
        &self,
        from: usize,
        target: Residue,
        pairs: &mut SmallVec<[(Made, Made); 4]>,
    ) {
        let mut found = Vec::new();
        for (index, outcome) in (0..).zip(&self.forms.outcomes) {
            if outcome.factors.len() < 2 {
                continue;
            }
            let has_thirds = self.forms.thirds.iter().any(|third| third.outcome == index);
            let first = if has_thirds { 0 } else { from };
            for element in first..self.elements.len() {
                let sources = [element as u8, 0, 0];
                self.of_several(Made { way: Way::Outcome(index), sources }, target, &mut found);
            }
        }
        pairs.extend(found);
    }

    /// All goals are made with these instructions after those that were chosen.
    fn found(&mut self, last: &[Made]) -> bool {
        let chosen = self.steps.iter().map(|step| step.made);
        let made: SmallVec<[Made; 16]> = chosen.chain(last.iter().copied()).collect();
        self.was_found = true;
        (self.offer)(&made)
    }
}
