//! Sums that are there already, found by what they are and not by how they are written.
//!
//! A linear form is known by its hash, the same combination of random numbers modulo `2^61 - 1`;
//! shifting a form rotates the 61 bits, so that sums of shifted nodes are looked up in a few
//! instructions. A false match would be a fault that the proof notices; one in `2^61` happens to be.

use super::random::Random;
use super::state::State;
use super::system::Term;
use rustc_hash::FxHashMap;

const PRIME: u64 = (1 << 61) - 1;

/// Shifts of nodes that are looked up.
const SHIFTS: i16 = 12;

/// The hash of a linear form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Hash(u64);

impl Hash {
    fn plus(self, other: Hash) -> Hash {
        let sum = self.0 + other.0;
        Hash(if sum >= PRIME { sum - PRIME } else { sum })
    }

    fn times(self, shift: i16, negate: bool) -> Hash {
        let shift = i32::from(shift).rem_euclid(61) as u32;
        let rotated = (self.0 << shift & PRIME) | self.0 >> (61 - shift);
        Hash(if negate && rotated != 0 { PRIME - rotated } else { rotated })
    }
}

/// The nodes so far, by their forms.
struct Forms {
    hashes: Vec<Hash>,
    known: FxHashMap<Hash, Term>,
    nodes: Vec<u32>,
}

impl Forms {
    fn new(state: &State) -> Forms {
        let mut random = Random::new(61);
        let nodes = state.node_of(state.len()) as usize;
        let inputs = state.node_of(0);
        let mut forms = Forms {
            hashes: vec![Hash(0); nodes],
            known: FxHashMap::default(),
            nodes: Vec::with_capacity(nodes),
        };
        for input in 0..inputs {
            forms.enter(input, Hash((random.next() >> 4) % PRIME));
        }
        forms
    }

    fn enter(&mut self, node: u32, hash: Hash) {
        self.hashes[node as usize] = hash;
        self.nodes.push(node);
        for shift in 0..SHIFTS {
            for negate in [false, true] {
                let term = Term { node, shift, negate };
                self.known.entry(hash.times(shift, negate)).or_insert(term);
            }
        }
    }

    fn of(&self, term: Term) -> Hash {
        self.hashes[term.node as usize].times(term.shift, term.negate)
    }

    fn sum(&self, terms: &[Term]) -> Hash {
        terms.iter().fold(Hash(0), |all, term| all.plus(self.of(*term)))
    }

    /// Two nodes that add up to a form, other than those of the terms; the search begins anywhere.
    fn pair(&self, hash: Hash, terms: &[Term], random: &mut Random) -> Option<[Term; 2]> {
        let start = random.below(self.nodes.len());
        let fresh = |node: u32| terms.iter().all(|term| term.node != node);
        for &node in self.nodes[start..].iter().chain(&self.nodes[..start]) {
            for shift in 0..SHIFTS {
                for negate in [false, true] {
                    let first = Term { node, shift, negate };
                    let rest = hash.plus(self.of(first.scaled(0, true)));
                    if let Some(&second) = self.known.get(&rest)
                        && (fresh(node) || fresh(second.node))
                    {
                        return Some([first, second]);
                    }
                }
            }
        }
        None
    }
}

/// Makes sums of equal forms one, and writes some sums as two other nodes where that is no loss:
/// no gain either, most often, but nodes lose readers by it, and the search goes on elsewhere.
///
/// `work` is what it may cost in changes of counts.
pub(super) fn resubstitute(state: &mut State, work: u64, random: &mut Random) {
    let order = state.order();
    let mut forms = Forms::new(state);
    let mut changed = Vec::new();
    let lookups = (order.len() * SHIFTS as usize) as u64;
    let tried = (work / lookups.max(1)).min(order.len() as u64) as usize;
    for row in order.iter().copied() {
        let terms = state.terms(row).to_vec();
        let hash = forms.sum(&terms);
        // Nodes that come earlier do not read this one.
        let better = match forms.known.get(&hash) {
            Some(&equal) => Some(vec![equal]),
            None if terms.len() >= 2 && random.below(order.len()) < tried => {
                state.pairs.work += lookups / 2;
                forms.pair(hash, &terms, random).map(Vec::from)
            }
            None => None,
        };
        if let Some(better) = better {
            let mark = state.mark();
            rewrite(state, row, &better);
            match state.is_late() {
                true => state.undo(mark),
                false => changed.extend(terms.iter().filter_map(|term| state.row_of(term.node))),
            }
            changed.push(row);
        }
        forms.enter(state.node_of(row), hash);
    }
    state.tidy(changed);
    state.commit();
}

fn rewrite(state: &mut State, row: usize, terms: &[Term]) {
    while !state.terms(row).is_empty() {
        state.remove(row, 0);
    }
    for &term in terms {
        state.add(row, term);
    }
}
