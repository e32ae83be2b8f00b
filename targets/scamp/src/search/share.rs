//! Common parts of sums: pairs of terms that occur at several places become values of their own.

use super::random::Random;
use std::cmp::Reverse;

/// Most pairs of terms that are compared.
const MAX_PAIRS: usize = 16_384;

/// A value, seen from an element at (x, y), with a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Term {
    /// The value: an input, or a pair counted from the inputs on.
    pub(super) value: usize,
    /// Offset to the east.
    pub(super) x: i32,
    /// Offset to the north.
    pub(super) y: i32,
    /// It is subtracted.
    pub(super) negative: bool,
}

/// A sum of terms of one weight.
pub(super) type Sum = Vec<Term>;

/// A value made of two: the value `first`, and a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pair {
    pub(super) first: usize,
    pub(super) second: Term,
}

impl Pair {
    /// The pair that two terms are, the smaller of which comes first.
    fn of(a: Term, b: Term) -> Pair {
        let (x, y) = (b.x.saturating_sub(a.x), b.y.saturating_sub(a.y));
        let second = Term { value: b.value, x, y, negative: a.negative != b.negative };
        Pair { first: a.value, second }
    }

    fn distance(&self) -> u32 {
        self.second.x.unsigned_abs() + self.second.y.unsigned_abs()
    }
}

/// Replaces pairs that occur more than once, the most frequent ones first, near ones before far
/// ones, until there are `limit` of them. Values from `inputs` on are the pairs.
pub(super) fn share(
    sums: &mut [Sum],
    pairs: &mut Vec<Pair>,
    inputs: usize,
    limit: usize,
    random: &mut Random,
) {
    while pairs.len() < limit
        && let Some(pair) = most_frequent(sums, random)
    {
        for sum in sums.iter_mut() {
            replace(sum, pair, inputs + pairs.len());
        }
        pairs.push(pair);
    }
}

/// A pair that occurs more often than any other, and more than once.
fn most_frequent(sums: &mut [Sum], random: &mut Random) -> Option<Pair> {
    if sums.iter().map(|sum| sum.len() * sum.len() / 2).sum::<usize>() > MAX_PAIRS {
        return None;
    }
    let mut all = Vec::new();
    for sum in sums.iter_mut() {
        sum.sort_unstable();
        for (index, &a) in sum.iter().enumerate() {
            all.extend(sum[index + 1..].iter().map(|&b| Pair::of(a, b)));
        }
    }
    all.sort_unstable();
    let mut counts: Vec<(usize, Pair)> =
        all.chunk_by(|a, b| a == b).map(|same| (same.len(), same[0])).collect();
    counts.retain(|(count, _)| *count > 1);
    counts.sort_by_key(|(count, pair)| (Reverse(*count), pair.distance()));
    // Overlapping occurrences count once, so that there are at most as many as were counted.
    let (mut most, mut list): ((usize, u32), Vec<Pair>) = ((2, 0), Vec::new());
    for (count, pair) in counts {
        if count < most.0 {
            break;
        }
        let rank = (sums.iter().map(|s| places(s, pair).len()).sum(), u32::MAX - pair.distance());
        if rank > most {
            (most, list) = (rank, Vec::new());
        }
        if rank == most {
            list.push(pair);
        }
    }
    (!list.is_empty()).then(|| list[random.below(list.len())])
}

/// Where a pair occurs in a sum, none of the terms twice.
fn places(sum: &Sum, pair: Pair) -> Vec<(usize, usize)> {
    let mut taken = vec![false; sum.len()];
    let mut list = Vec::new();
    for (i, &a) in sum.iter().enumerate() {
        let partner = (i + 1..sum.len()).find(|&j| !taken[j] && Pair::of(a, sum[j]) == pair);
        if let Some(j) = partner.filter(|_| !taken[i]) {
            (taken[i], taken[j]) = (true, true);
            list.push((i, j));
        }
    }
    list
}

fn replace(sum: &mut Sum, pair: Pair, value: usize) {
    let places = places(sum, pair);
    let new = places.iter().map(|&(i, _)| Term { value, ..sum[i] });
    let gone = |index: &usize| places.iter().any(|(i, j)| i == index || j == index);
    let kept = (0..sum.len()).filter(|index| !gone(index)).map(|index| sum[index]);
    *sum = kept.chain(new).collect();
}
