//! Sets of forms with few adders: all of them, in the order of their number, then some at random.

use super::forms::{Form, Set};
use super::random::Random;

/// Sets of one size that are compared.
const MOST_FOUND: u32 = 64;

/// The part of the sums that more sets of the fewest adders may take.
const MORE: u64 = 8;

/// What judging a set costs, in sums for every two nodes.
const JUDGED: u64 = 64;

/// Forms that are tried where no single one brings a target near.
const TRIED: usize = 12;

/// Forms that are given up at once, at most.
const DROPPED: usize = 3;

/// Takes complete sets. False if one is of no use.
pub(super) type Judge<'a, const N: usize> = dyn FnMut(&[Form<N>]) -> bool + 'a;

/// A search for sets that have all targets.
pub(super) struct Search<'a, const N: usize> {
    set: Set<N>,
    judge: &'a mut Judge<'a, N>,
    inputs: usize,
    /// Sets that were taken.
    found: u32,
    /// A set was not.
    refused: bool,
}

impl<'a, const N: usize> Search<'a, N> {
    pub(super) fn new(set: Set<N>, judge: &'a mut Judge<'a, N>) -> Search<'a, N> {
        let inputs = set.nodes().len();
        Search { set, judge, inputs, found: 0, refused: false }
    }

    /// Tries all sets in the order of their number of adders until one is taken, or `tries` sums
    /// are looked at. No set with fewer adders than the result has all targets, whether it would be
    /// taken or not.
    pub(super) fn exhaust(&mut self, least: usize, most: usize, tries: u64) -> usize {
        self.set.tries = tries;
        let targets = self.set.missing();
        let mut open = None;
        for adders in least.max(targets)..most {
            self.deepen(adders - targets, 0, tries / MORE);
            let is_over = self.is_settled() || self.set.tries == 0;
            if is_over || self.refused {
                open.get_or_insert(adders);
            }
            if is_over {
                break;
            }
        }
        open.unwrap_or(most.max(least))
    }

    /// Tries all sets with that many forms more than the targets, the ones before the place `from`
    /// being tried already: the order in which forms are made is of no account.
    fn deepen(&mut self, others: usize, from: usize, more: u64) {
        quincunx_stop::check();
        let mark = self.set.mark();
        self.set.make_targets();
        if self.set.missing() == 0 {
            self.offer(more);
        } else if others == 1 {
            // The last one has to bring a target near.
            let mut bridges = self.set.bridges(from);
            bridges.sort_unstable();
            bridges.dedup();
            for place in bridges {
                if let Some(form) = self.set.candidate(place).filter(|_| !self.is_done()) {
                    let mark = self.set.mark();
                    self.set.make(form);
                    self.set.make_targets();
                    if self.set.missing() == 0 {
                        self.offer(more);
                    }
                    self.set.undo(mark);
                }
            }
        } else if others > 1 {
            for place in from..self.set.near() {
                if self.is_done() {
                    break;
                }
                if let Some(form) = self.set.candidate(place) {
                    let mark = self.set.mark();
                    self.set.make(form);
                    self.deepen(others - 1, place + 1, more);
                    self.set.undo(mark);
                }
            }
        }
        self.set.undo(mark);
    }

    /// Whether a set was taken.
    pub(super) fn is_settled(&self) -> bool {
        self.found > 0
    }

    fn is_done(&self) -> bool {
        self.set.tries == 0 || self.found == MOST_FOUND
    }

    fn offer(&mut self, more: u64) {
        let count = self.set.nodes().len() as u64;
        self.set.tries = self.set.tries.saturating_sub(count * count * JUDGED);
        if (self.judge)(self.set.nodes()) {
            self.found += 1;
            self.set.tries = self.set.tries.min(more);
        } else {
            self.refused = true;
        }
    }

    /// Looks for sets with at most `most` adders at random: the form that brings most targets near comes
    /// first, and a few forms of the best set are given up again and again.
    pub(super) fn climb(&mut self, most: usize, tries: u64, random: &mut Random) {
        self.set.tries = tries;
        let start = self.set.mark();
        let mut best: Option<Vec<Form<N>>> = None;
        while self.set.tries > 0 {
            quincunx_stop::check();
            let mut kept = best.clone().unwrap_or_default();
            for _ in 0..1 + random.below(DROPPED) {
                if !kept.is_empty() {
                    kept.swap_remove(random.below(kept.len()));
                }
            }
            let most = best.as_ref().map_or(most, Vec::len);
            self.remake(kept);
            self.complete(self.inputs + most, random);
            if self.set.missing() == 0 && (self.judge)(self.set.nodes()) {
                best = Some(self.set.nodes()[self.inputs..].to_vec());
            }
            self.set.undo(start);
            // Every round counts, so that there is an end.
            self.set.tries = self.set.tries.saturating_sub(1);
        }
    }

    /// Makes what can be made of the forms.
    fn remake(&mut self, mut kept: Vec<Form<N>>) {
        loop {
            self.set.make_targets();
            kept.retain(|form| !self.set.nodes().contains(form));
            let Some(at) = kept.iter().position(|form| self.set.place(form).is_some()) else {
                return;
            };
            let form = kept.swap_remove(at);
            self.set.make(form);
        }
    }

    /// Makes forms until all targets are there, or `most` nodes.
    fn complete(&mut self, most: usize, random: &mut Random) {
        while self.set.tries > 0 {
            self.set.make_targets();
            if self.set.missing() == 0 || self.set.nodes().len() + self.set.missing() >= most {
                return;
            }
            let place = self.best_bridge(random).or_else(|| self.best_of_some(random));
            let Some(form) = place.and_then(|place| self.set.candidate(place)) else { return };
            self.set.make(form);
        }
    }

    /// The form that brings most targets near.
    fn best_bridge(&mut self, random: &mut Random) -> Option<usize> {
        let mut bridges = self.set.bridges(0);
        bridges.sort_unstable();
        let runs = bridges.chunk_by(|a, b| a == b);
        let best = runs.clone().map(<[usize]>::len).max()?;
        let least = best - usize::from(best > 1 && random.chance(60));
        let good: Vec<usize> = runs.filter(|run| run.len() >= least).map(|run| run[0]).collect();
        Some(good[random.below(good.len())])
    }

    /// Of some forms that one after which most others bring a target near.
    fn best_of_some(&mut self, random: &mut Random) -> Option<usize> {
        let mut best = None;
        for _ in 0..TRIED {
            let place = random.below(self.set.near());
            let Some(form) = self.set.candidate(place) else { continue };
            let mark = self.set.mark();
            self.set.make(form);
            let count = self.set.bridges(0).len();
            self.set.undo(mark);
            if best.is_none_or(|(most, _)| count > most) {
                best = Some((count, place));
            }
        }
        best.map(|(_, place)| place)
    }
}
