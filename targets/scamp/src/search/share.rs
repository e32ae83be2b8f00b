//! Common parts of sums: pairs of terms that occur at several places become values of their own.

use super::random::Random;
use std::collections::BTreeMap;

/// Most terms among which pairs are looked for.
const MAX_TERMS: usize = 512;

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
    inputs: usize,
    limit: usize,
    random: &mut Random,
) -> Vec<Pair> {
    let mut pairs = Vec::new();
    while pairs.len() < limit && sums.iter().map(Vec::len).sum::<usize>() <= MAX_TERMS {
        let mut counts: BTreeMap<Pair, usize> = BTreeMap::new();
        for sum in sums.iter_mut() {
            sum.sort_unstable();
            for (index, &a) in sum.iter().enumerate() {
                for &b in &sum[index + 1..] {
                    *counts.entry(Pair::of(a, b)).or_default() += 1;
                }
            }
        }
        // Overlapping occurrences count once.
        let often = counts.into_iter().filter(|(_, count)| *count > 1);
        let mut often: Vec<(usize, Pair)> = often
            .map(|(pair, _)| (sums.iter().map(|s| places(s, pair).len()).sum(), pair))
            .collect();
        let rank = |(count, pair): &(usize, Pair)| (*count, u32::MAX - pair.distance());
        let Some(best) = often.iter().map(rank).max().filter(|(count, _)| *count > 1) else {
            break;
        };
        often.retain(|entry| rank(entry) == best);
        let (_, pair) = often[random.below(often.len())];
        for sum in sums.iter_mut() {
            replace(sum, pair, inputs + pairs.len());
        }
        pairs.push(pair);
    }
    pairs
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
