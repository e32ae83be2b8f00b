//! Common pairs of terms, made nodes one after the other.

use super::pairs::{self, Key};
use super::random::Random;
use super::state::State;
use super::system::Term;
use std::collections::BinaryHeap;

/// What makes one pair better than another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taste {
    /// Of how many pairs of the highest count the one with the largest adder is taken.
    pub(super) sample: usize,
    /// How often, of 256 times, a pair of a lower count is taken.
    pub(super) noise: u32,
}

/// Extracts pairs until none occurs twice.
pub(super) fn extract_all(state: &mut State, taste: Taste, random: &mut Random) {
    loop {
        let mut count = state.pairs.highest();
        while count > 2 && taste.noise > 0 && random.chance(taste.noise) {
            count -= 1;
        }
        if state.pairs.of_count(count).is_empty() {
            count = state.pairs.highest();
        }
        if count < 2 || state.pairs.of_count(count).is_empty() {
            return;
        }
        let key = choose(state, count, taste.sample, random);
        if !extract(state, key) {
            state.pairs.set_aside(key);
        }
    }
}

/// Extracts the pair whose count times the bits of its adder is largest, of equal ones the one of
/// the latest nodes, until none occurs twice.
///
/// Nothing here is random, so that a matrix with a pattern, like that of a butterfly, gets a graph
/// with that pattern.
pub(super) fn extract_in_order(state: &mut State) {
    state.pairs.risen = Some(state.pairs.all().collect());
    let mut best: BinaryHeap<Candidate> = BinaryHeap::new();
    loop {
        let risen = state.pairs.risen.as_mut().map(std::mem::take).unwrap_or_default();
        best.extend(risen.into_iter().map(|key| Candidate::new(state, key)));
        let Some(first) = best.pop() else { break };
        let key = first.key;
        // Counts that have fallen since are found out here.
        let count = state.pairs.count(key);
        let now = Candidate::new(state, key);
        if now < first {
            if count >= 2 {
                best.push(now);
            }
            continue;
        }
        // Where levels bind, or occurrences overlap, a pair may be of no use; that trying it takes
        // counts down and up again makes none of them rise.
        if !extract(state, key)
            && let Some(risen) = &mut state.pairs.risen
        {
            risen.clear();
        }
    }
    state.pairs.risen = None;
}

/// A pair, ordered by what it is worth.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    worth: i64,
    nodes: [u32; 2],
    differ: bool,
    shift: i32,
    key: Key,
}

impl Candidate {
    fn new(state: &State, key: Key) -> Candidate {
        let [a, b] = pairs::terms(key);
        let worth = state.pairs.count(key) as i64 * i64::from(state.overlap(key).max(1));
        let shift = i32::from(b.shift) - i32::from(a.shift);
        Candidate { worth, nodes: [b.node, a.node], differ: b.negate, shift, key }
    }
}

fn choose(state: &State, count: usize, sample: usize, random: &mut Random) -> Key {
    let bucket = state.pairs.of_count(count);
    let mut best = bucket[random.below(bucket.len())];
    for _ in 1..sample {
        let other = bucket[random.below(bucket.len())];
        if state.overlap(other) > state.overlap(best) {
            best = other;
        }
    }
    best
}

/// Makes a pair a node and uses it wherever the pair occurs; false, and nothing happened, if that
/// is not twice.
fn extract(state: &mut State, key: Key) -> bool {
    let pair = pairs::terms(key);
    let places = places(state, pair);
    if places.len() < 2 {
        return false;
    }
    let mark = state.mark();
    let Some(row) = state.new_row(pair) else {
        return false;
    };
    let node = state.node_of(row);
    let mut touched = vec![row];
    let mut used = 0;
    for (row, place) in places {
        let before = state.mark();
        if replace(state, row, pair, place, node) {
            if state.is_late() {
                state.undo(before);
            } else {
                used += 1;
            }
            touched.push(row);
        }
    }
    if used < 2 {
        state.undo(mark);
        return false;
    }
    touched.extend(pair.iter().filter_map(|term| state.row_of(term.node)));
    state.tidy(touched);
    true
}

/// Occurrences of a pair that do not overlap: the sum and its term in the place of the first.
fn places(state: &State, pair: [Term; 2]) -> Vec<(usize, Term)> {
    let [a, b] = pair;
    let (few, many) = (state.readers(a.node), state.readers(b.node));
    let mut rows = if few.len() <= many.len() { few } else { many }.to_vec();
    rows.sort_unstable();
    rows.dedup();
    let mut places: Vec<(usize, Term)> = Vec::new();
    for row in rows {
        let row = row as usize;
        let terms = state.terms(row);
        let start = places.len();
        for &first in terms.iter().filter(|t| t.node == a.node && t.shift >= a.shift) {
            let second = partner(pair, first);
            // Only a pair of one node can overlap itself.
            let taken = a.node == b.node
                && places[start..]
                    .iter()
                    .any(|&(_, other)| other == second || partner(pair, other) == first);
            if !taken && terms.contains(&second) {
                places.push((row, first));
            }
        }
        if places.len() > start && !state.fits(row, pair) {
            places.truncate(start);
        }
    }
    places
}

/// The second term of a pair whose first one is given.
fn partner([a, b]: [Term; 2], first: Term) -> Term {
    Term { node: b.node, shift: first.shift - a.shift + b.shift, negate: first.negate != b.negate }
}

fn replace(state: &mut State, row: usize, pair: [Term; 2], first: Term, node: u32) -> bool {
    let find = |state: &State, term: Term| state.terms(row).iter().position(|t| *t == term);
    let second = partner(pair, first);
    let (Some(x), Some(_)) = (find(state, first), find(state, second)) else {
        return false;
    };
    state.remove(row, x);
    if let Some(y) = find(state, second) {
        state.remove(row, y);
    }
    let shift = first.shift - pair[0].shift;
    state.add(row, Term { node, shift, negate: first.negate });
    true
}
