//! Every way to make values with a given number of instructions.
//!
//! What matters of a program is the multiset of the values that it makes. Each of these is visited
//! once: the values that one instruction can make of those that are there form a list, in the order in
//! which they became possible; after one of them was tried, the others are tried without it. A copy
//! of a value that was made becomes possible with the value.

use super::super::field::Residue;
use super::bounds::Bounds;
use super::factor::TURNS;
use super::forms::{Forms, Id};
use super::index::Index;
use super::last::Want;
use smallvec::{SmallVec, smallvec};

/// Most values of a program.
pub(super) const MAX_ELEMENTS: usize = 96;

/// Which form makes values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// All results of an instruction with one source.
    Outcome(u16),
    /// One of its results.
    Single(u16),
    Binary(u16),
    Ternary(u16),
}

/// An instruction: its form and sources, as indices of the values that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Made {
    pub(super) way: Way,
    pub(super) sources: [u8; 3],
}

impl Made {
    pub(super) fn sources(&self) -> &[u8] {
        let count = match self.way {
            Way::Outcome(_) | Way::Single(_) => 1,
            Way::Binary(_) => 2,
            Way::Ternary(_) => 3,
        };
        &self.sources[..count]
    }
}

/// Values that one instruction can make.
#[derive(Clone)]
pub(super) struct Candidate {
    pub(super) made: Made,
    pub(super) results: SmallVec<[Residue; 3]>,
    /// Most cells of the kernel of a result.
    pub(super) cells: u32,
    /// Most halvings in a result.
    pub(super) halves: i32,
    /// It was tried in a turned array.
    closed: bool,
}

/// A value that is there.
pub(super) struct Element {
    /// What it is in the turned arrays; only the first is right where nothing is turned.
    pub(super) turned: [Residue; TURNS],
    /// Its products with all factors.
    pub(super) images: Vec<Residue>,
    /// The instruction that made it; none for inputs.
    pub(super) step: Option<u8>,
    pub(super) cells: u32,
    pub(super) halves: i32,
}

/// An instruction that was chosen.
#[derive(Clone, Copy)]
pub(super) struct Chosen {
    pub(super) made: Made,
    /// A later one reads it, or it makes a goal.
    pub(super) used: bool,
}

/// A value that is wanted.
pub(super) struct Target {
    pub(super) value: Residue,
    /// In so many registers.
    pub(super) count: usize,
}

/// What is done with instructions that make all goals: true ends the search.
pub(super) type Offer<'a> = dyn FnMut(&[Made]) -> bool + 'a;

/// A search.
pub(super) struct Search<'a> {
    pub(super) forms: &'a Forms,
    pub(super) targets: Vec<Target>,
    pub(super) bounds: Bounds,
    /// Turns that change neither the goals nor the forms.
    turns: Vec<usize>,
    pub(super) elements: Vec<Element>,
    pub(super) steps: Vec<Chosen>,
    pub(super) list: Vec<Candidate>,
    /// The results of the list, with their places there.
    pub(super) index: Index<u32>,
    pub(super) wants: Index<Want>,
    /// Combinations looked at.
    pub(super) work: u64,
    pub(super) limit: u64,
    /// Instructions that make all goals were found.
    pub(super) was_found: bool,
    pub(super) offer: &'a mut Offer<'a>,
}

impl<'a> Search<'a> {
    /// A search from inputs, each as it is in the turned arrays.
    pub(super) fn new(
        forms: &'a Forms,
        inputs: &[[Residue; TURNS]],
        targets: Vec<Target>,
        bounds: Bounds,
        turns: Vec<usize>,
        offer: &'a mut Offer<'a>,
    ) -> Self {
        let mut search = Search {
            forms,
            targets,
            bounds,
            turns,
            elements: Vec::new(),
            steps: Vec::new(),
            list: Vec::new(),
            index: Index::new(),
            wants: Index::new(),
            work: 0,
            limit: u64::MAX,
            was_found: false,
            offer,
        };
        for &turned in inputs {
            search.push_element(turned, None, 1, 0);
        }
        search.extend(0);
        search
    }

    /// Tries all programs of so many instructions, at least one, if none with fewer makes the goals.
    /// True if one was taken or the limit was reached.
    pub(super) fn run(&mut self, length: usize) -> bool {
        let turns = self.turns.clone();
        self.explore(length, 0, &turns)
    }

    pub(super) fn is_over(&self) -> bool {
        self.work > self.limit
    }

    pub(super) fn push_element(
        &mut self,
        turned: [Residue; TURNS],
        step: Option<u8>,
        cells: u32,
        halves: i32,
    ) {
        let products = self.forms.residues.iter().map(|factor| factor[0].times(turned[0]));
        let images = products.collect();
        self.elements.push(Element { turned, images, step, cells, halves });
    }

    /// The goals that are not there.
    pub(super) fn missing(&self) -> SmallVec<[Residue; 4]> {
        let there = |value| self.elements.iter().filter(|e| e.turned[0] == value).count();
        let absent =
            |target: &Target| vec![target.value; target.count.saturating_sub(there(target.value))];
        self.targets.iter().flat_map(absent).collect()
    }

    pub(super) fn is_target(&self, value: Residue) -> bool {
        self.targets.iter().any(|target| target.value == value)
    }

    /// Completes what was chosen with so many further instructions, all from place `from` of the list
    /// on.
    fn explore(&mut self, remaining: usize, from: usize, turns: &[usize]) -> bool {
        let missing = self.missing();
        if missing.is_empty() || missing.len() > remaining * self.forms.most_results {
            return false;
        }
        match (remaining, &missing[..]) {
            (1, _) => return self.last(from, &missing),
            (2, &[target]) => return self.last_two(from, target),
            (3, &[target]) => self.prepare(target),
            _ => {}
        }
        let mut closed: SmallVec<[usize; 16]> = SmallVec::new();
        let mut stop = false;
        for place in from..self.list.len() {
            quincunx_stop::check();
            if self.list[place].closed || !self.admits(place, remaining, &missing) {
                continue;
            }
            stop = match (remaining, &missing[..]) {
                (3, &[target]) => self.last_three(place, target),
                _ => {
                    let kept = self.fixing(place, turns);
                    let undo = self.choose(place);
                    let stop = self.explore(remaining - 1, place + 1, &kept);
                    self.undo(undo);
                    stop
                }
            };
            if stop || self.is_over() {
                stop = true;
                break;
            }
            self.close(place, turns, &mut closed);
        }
        closed.iter().for_each(|&place| self.list[place].closed = false);
        if let (3, [_]) = (remaining, &missing[..]) {
            self.wants.truncate(0);
        }
        stop
    }

    /// A candidate can be part of what is missing.
    fn admits(&self, place: usize, remaining: usize, missing: &[Residue]) -> bool {
        let candidate = &self.list[place];
        let goals = candidate.results.iter().filter(|value| missing.contains(value)).count();
        let (missing, remaining) = (missing.len().saturating_sub(goals), remaining - 1);
        missing <= remaining * self.forms.most_results
            && self.bounds.admit(self, candidate, remaining, missing)
    }

    /// What a candidate is in a turned array.
    fn turned(&self, made: Made, turn: usize) -> SmallVec<[Residue; 3]> {
        let source = |index: usize| self.elements[usize::from(made.sources[index])].turned[turn];
        let factor = |id: Id| self.forms.residues[usize::from(id)][turn];
        match made.way {
            Way::Outcome(index) => {
                let factors = &self.forms.outcomes[usize::from(index)].factors;
                factors.iter().map(|&id| factor(id).times(source(0))).collect()
            }
            Way::Single(index) => {
                smallvec![factor(self.forms.singles[usize::from(index)].factor).times(source(0))]
            }
            Way::Binary(index) => {
                let form = &self.forms.binary[usize::from(index)];
                let first = factor(form.first).times(source(0));
                smallvec![first.plus(factor(form.second).times(source(1)))]
            }
            Way::Ternary(index) => {
                let sum = source(0).plus(source(1)).plus(source(2));
                smallvec![factor(self.forms.ternary[usize::from(index)].factor).times(sum)]
            }
        }
    }

    /// The turns that leave a candidate as it is.
    fn fixing(&self, place: usize, turns: &[usize]) -> Vec<usize> {
        let candidate = &self.list[place];
        let fixes = |turn: &usize| is_same(&self.turned(candidate.made, *turn), &candidate.results);
        turns.iter().copied().filter(fixes).collect()
    }

    /// Closes the candidates that are a candidate turned.
    fn close(&mut self, place: usize, turns: &[usize], closed: &mut SmallVec<[usize; 16]>) {
        for &turn in turns {
            let image = self.turned(self.list[place].made, turn);
            if let Some(other) = self.place_of(&image)
                && other > place
                && !self.list[other].closed
            {
                self.list[other].closed = true;
                closed.push(other);
            }
        }
    }

    /// The newest candidate with these results.
    fn place_of(&self, results: &[Residue]) -> Option<usize> {
        let places = self.index.find(results[0]).map(|place| place as usize);
        places.into_iter().find(|&place| is_same(results, &self.list[place].results))
    }

    /// Makes the values of a candidate; what is needed to take that back.
    fn choose(&mut self, place: usize) -> Undo {
        let undo = self.make(place, true);
        // The same again, in other registers.
        let again = Candidate { closed: false, ..self.list[place].clone() };
        self.add(again);
        self.extend(undo.elements);
        undo
    }

    /// Makes the values of a candidate, in the turned arrays as well if that is asked for, without
    /// looking at what becomes possible.
    pub(super) fn make(&mut self, place: usize, all_turns: bool) -> Undo {
        let undo = Undo { elements: self.elements.len(), list: self.list.len(), used: 0 };
        let Candidate { made, ref results, cells, halves, .. } = self.list[place];
        let results = results.clone();
        let step = self.steps.len() as u8;
        let mut used = 0;
        for &source in made.sources() {
            if let Some(step) = self.elements[usize::from(source)].step
                && !self.steps[usize::from(step)].used
            {
                self.steps[usize::from(step)].used = true;
                used |= 1_u64 << step;
            }
        }
        let is_goal = results.iter().any(|value| self.is_target(*value));
        self.steps.push(Chosen { made, used: is_goal });
        let as_is = |&result: &Residue| [result; TURNS];
        let mut turned: SmallVec<[_; 3]> = results.iter().map(as_is).collect();
        for &turn in self.turns.iter().filter(|_| all_turns) {
            for (all, value) in turned.iter_mut().zip(self.turned(made, turn)) {
                all[turn] = value;
            }
        }
        for all in turned {
            self.push_element(all, Some(step), cells, halves);
        }
        Undo { used, ..undo }
    }

    pub(super) fn undo(&mut self, undo: Undo) {
        self.elements.truncate(undo.elements);
        self.steps.pop();
        for step in 0..self.steps.len() {
            if undo.used >> step & 1 == 1 {
                self.steps[step].used = false;
            }
        }
        let results: usize = self.list[undo.list..].iter().map(|c| c.results.len()).sum();
        self.list.truncate(undo.list);
        self.index.truncate(self.index.len() - results);
    }

    fn add(&mut self, candidate: Candidate) {
        let place = self.list.len() as u32;
        candidate.results.iter().for_each(|&result| self.index.push(result, place));
        self.list.push(candidate);
    }

    /// Adds what becomes possible with the elements from an index on.
    fn extend(&mut self, from: usize) {
        let mut new = Vec::new();
        for element in from..self.elements.len() {
            for (index, outcome) in (0..).zip(&self.forms.outcomes) {
                let image = |&id: &Id| self.elements[element].images[usize::from(id)];
                let results = outcome.factors.iter().map(image).collect();
                let made = Made { way: Way::Outcome(index), sources: [element as u8, 0, 0] };
                new.push((made, results));
            }
        }
        self.sums(from, &[0; MAX_ELEMENTS], 0, &mut |value, way, sources| {
            new.push((Made { way, sources }, smallvec![value]));
            false
        });
        self.work += new.len() as u64;
        for (made, results) in new {
            self.add_new(made, results);
        }
    }

    /// Adds a candidate that is not in the list. A value of 0 is of no use.
    fn add_new(&mut self, made: Made, results: SmallVec<[Residue; 3]>) {
        if results.contains(&Residue::ZERO) || self.place_of(&results).is_some() {
            return;
        }
        let sources = || made.sources().iter().map(|&s| &self.elements[usize::from(s)]);
        let cells = sources().fold(0_u32, |sum, source| sum.saturating_add(source.cells));
        let halves = sources().map(|source| source.halves).max().unwrap_or(0);
        let halves = halves + self.bounds.halves_of(self.forms, made.way);
        self.add(Candidate { made, results, cells, halves, closed: false });
    }

    /// The sums of two and three elements of which the last is from an index on, if they read at least
    /// `least` of the instructions of the masks, until `visit` says that it is enough.
    pub(super) fn sums(
        &self,
        from: usize,
        masks: &[u32; MAX_ELEMENTS],
        least: u32,
        visit: &mut impl FnMut(Residue, Way, [u8; 3]) -> bool,
    ) -> bool {
        for last in from..self.elements.len() {
            let b = &self.elements[last];
            for (index, form) in (0..).zip(&self.forms.binary).filter(|(_, f)| f.takes_equals) {
                let sum = b.image(form.first).plus(b.image(form.second));
                if visit(sum, Way::Binary(index), [last as u8, last as u8, 0]) {
                    return true;
                }
            }
            for other in 0..last {
                let (a, both) = (&self.elements[other], masks[last] | masks[other]);
                let pair = if both.count_ones() >= least { &self.forms.binary[..] } else { &[] };
                for (index, form) in (0..).zip(pair) {
                    let sum = a.image(form.first).plus(b.image(form.second));
                    if visit(sum, Way::Binary(index), [other as u8, last as u8, 0]) {
                        return true;
                    }
                    if !form.commutes {
                        let sum = b.image(form.first).plus(a.image(form.second));
                        if visit(sum, Way::Binary(index), [last as u8, other as u8, 0]) {
                            return true;
                        }
                    }
                }
                for (index, form) in (0..).zip(&self.forms.ternary) {
                    let sum = a.image(form.factor).plus(b.image(form.factor));
                    for third in (0..other).filter(|t| (both | masks[*t]).count_ones() >= least) {
                        let sum = sum.plus(self.elements[third].image(form.factor));
                        let sources = [third as u8, other as u8, last as u8];
                        if visit(sum, Way::Ternary(index), sources) {
                            return true;
                        }
                    }
                }
            }
        }
        false
    }
}

impl Element {
    #[inline]
    pub(super) fn image(&self, id: Id) -> Residue {
        self.images[usize::from(id)]
    }
}

/// What was before a choice.
#[derive(Clone, Copy)]
pub(super) struct Undo {
    elements: usize,
    list: usize,
    used: u64,
}

/// The same values, in any order.
fn is_same(a: &[Residue], b: &[Residue]) -> bool {
    let mut a: SmallVec<[Residue; 3]> = SmallVec::from_slice(a);
    let mut b: SmallVec<[Residue; 3]> = SmallVec::from_slice(b);
    a.sort_unstable();
    b.sort_unstable();
    a == b
}
