//! Kernels as sums: which numbers are added, moved and negated, for machines whose shifts are cheap.
//!
//! Every weight is written in signed binary digits, no two neighbours of which are both set, so that
//! a kernel is a sum of shifted inputs. A pair of summands that occurs most often becomes a number of
//! its own, until no sum is left; ties are drawn. Then every number gets the place in the array from
//! which its readers are near.

use super::moves::{Frames, Sum};
use crate::goal::{Cell, Goal};
use crate::isa::Direction;
use crate::search::Random;
use std::collections::BTreeMap;

/// A shifted number as an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Which number.
    pub(crate) value: usize,
    /// How many bits it is shifted up.
    pub(crate) shift: u32,
}

/// How a number is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The input of a channel.
    Input(usize),
    /// Another number of the neighbour in a direction.
    Move(usize, Direction),
    /// A sum, or a difference.
    Sum {
        /// First operand.
        a: Part,
        /// Second operand.
        b: Part,
        /// It is subtracted.
        minus: bool,
    },
    /// Another number with the other sign.
    Negate(usize),
}

impl Step {
    /// The numbers that it reads.
    pub(crate) fn operands(&self) -> impl Iterator<Item = usize> {
        let [first, second] = match *self {
            Step::Input(_) => [None, None],
            Step::Move(value, _) | Step::Negate(value) => [Some(value), None],
            Step::Sum { a, b, .. } => [Some(a.value), Some(b.value)],
        };
        first.into_iter().chain(second)
    }
}

/// Steps in an order in which they can be done, and where the results are; `None` is 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    pub(crate) outputs: Vec<Option<Part>>,
}

/// A summand of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Term {
    node: usize,
    x: i32,
    y: i32,
    shift: u32,
    negative: bool,
}

/// Two summands, whatever their common place, shift and sign: the second lies at (x, y) as seen from
/// the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    nodes: [usize; 2],
    x: i32,
    y: i32,
    shifts: [u32; 2],
    minus: bool,
}

impl Pair {
    /// The pair of two summands, and which of them is its first.
    fn of(s: &Term, t: &Term) -> (Pair, bool) {
        let key = |t: &Term| (t.node, t.shift, t.x, t.y);
        let first = key(s) <= key(t);
        let (a, b) = if first { (s, t) } else { (t, s) };
        let low = a.shift.min(b.shift);
        let pair = Pair {
            nodes: [a.node, b.node],
            x: b.x - a.x,
            y: b.y - a.y,
            shifts: [a.shift - low, b.shift - low],
            minus: a.negative != b.negative,
        };
        (pair, first)
    }
}

/// The digits of a weight modulo `2^bits`: shifts, and whether they are negative.
pub(crate) fn digits(weight: i64, bits: u32) -> Vec<(u32, bool)> {
    let mut rest = i128::from(weight).rem_euclid(1 << bits);
    if rest > 1 << (bits - 1) {
        rest -= 1 << bits;
    }
    let mut list = Vec::new();
    for shift in 0..bits {
        if rest & 1 != 0 {
            // The digit after which the next one is 0.
            let negative = rest & 3 == 3 && shift + 1 < bits;
            rest += if negative { 1 } else { -1 };
            list.push((shift, negative));
        }
        rest >>= 1;
    }
    list
}

/// How many summands kernels have.
pub(crate) fn summands(goals: &[Goal], bits: u32) -> usize {
    goals.iter().flat_map(Goal::cells).map(|(_, weight)| digits(weight, bits).len()).sum()
}

fn terms(goal: &Goal, bits: u32) -> Vec<Term> {
    let of_cell = |(Cell { x, y, z }, weight): (Cell, i64)| {
        let term = move |(shift, negative)| Term { node: z as usize, x, y, shift, negative };
        digits(weight, bits).into_iter().map(term)
    };
    goal.cells().flat_map(of_cell).collect()
}

/// A plan for kernels of so many channels, modulo `2^bits`; random numbers decide between pairs that
/// occur equally often.
pub(crate) fn draw(goals: &[Goal], channels: usize, bits: u32, random: &mut Random) -> Plan {
    let mut lists: Vec<Vec<Term>> = goals.iter().map(|goal| terms(goal, bits)).collect();
    let mut sums = Vec::new();
    while let Some(pair) = most_frequent(&lists, random) {
        let node = channels + sums.len();
        sums.push(Sum {
            nodes: pair.nodes,
            at: (pair.x, pair.y),
            shifts: pair.shifts,
            minus: pair.minus,
        });
        lists.iter_mut().for_each(|list| replace(list, pair, node));
    }
    swap_differences(&mut lists, &mut sums, channels);
    let ends = lists.iter().map(|list| list.first().map(|t| (t.node, (t.x, t.y)))).collect();
    let frames = Frames::new(channels, sums, ends);
    let (mut steps, ends) = frames.steps();
    let output = |(list, end): (&Vec<Term>, Option<usize>)| {
        let (term, mut value) = (list.first()?, end?);
        if term.negative {
            steps.push(Step::Negate(value));
            value = steps.len() - 1;
        }
        Some(Part { value, shift: term.shift })
    };
    let outputs = lists.iter().zip(ends).map(output).collect();
    Plan { steps, outputs }
}

/// The pair that occurs most often, and of these the nearest; `None` when there is no sum left.
fn most_frequent(lists: &[Vec<Term>], random: &mut Random) -> Option<Pair> {
    let mut counts: BTreeMap<Pair, usize> = BTreeMap::new();
    for list in lists {
        // A summand counts once for each pair.
        let mut used: BTreeMap<Pair, Vec<usize>> = BTreeMap::new();
        for (i, s) in list.iter().enumerate() {
            for (j, t) in list.iter().enumerate().skip(i + 1) {
                let pair = Pair::of(s, t).0;
                let taken = used.entry(pair).or_default();
                if !taken.contains(&i) && !taken.contains(&j) {
                    taken.extend([i, j]);
                    *counts.entry(pair).or_default() += 1;
                }
            }
        }
    }
    let distance = |pair: &Pair| pair.x.unsigned_abs() + pair.y.unsigned_abs();
    let score = |(pair, count): (&Pair, &usize)| (*count, u32::MAX - distance(pair));
    let best = counts.iter().map(score).max()?;
    // Sometimes a pair that is farther away, or rarer, leads to a shorter program.
    let is_loose = random.below(4) == 0;
    let fits = |entry: &(&Pair, &usize)| match is_loose {
        true => *entry.1 + 1 >= best.0 && (best.0 > 2 || *entry.1 == best.0),
        false => score((entry.0, entry.1)) == best,
    };
    let candidates: Vec<Pair> = counts.iter().filter(fits).map(|(pair, _)| *pair).collect();
    candidates.get(random.below(candidates.len().max(1))).copied()
}

/// Puts the number `node` wherever a pair occurs.
fn replace(list: &mut Vec<Term>, pair: Pair, node: usize) {
    let mut at = 0;
    while at < list.len() {
        let partner = (at + 1..list.len()).find(|&j| Pair::of(&list[at], &list[j]).0 == pair);
        let Some(j) = partner else {
            at += 1;
            continue;
        };
        let (s, t) = (list[at], list.remove(j));
        let first = if Pair::of(&s, &t).1 { s } else { t };
        let shift = s.shift.min(t.shift);
        list[at] = Term { node, shift, ..first };
        at += 1;
    }
}

/// A result that is minus a difference, which nobody else reads, is the difference the other way
/// round.
fn swap_differences(lists: &mut [Vec<Term>], sums: &mut [Sum], channels: usize) {
    for index in 0..lists.len() {
        let Some(&Term { node, negative: true, .. }) = lists[index].first() else { continue };
        let Some(own) = node.checked_sub(channels) else { continue };
        let readers = sums.iter().flat_map(|sum| sum.nodes).filter(|&read| read == node).count();
        let results = lists.iter().flatten().filter(|term| term.node == node).count();
        if !sums[own].minus || readers > 0 || results > 1 {
            continue;
        }
        let (x, y) = sums[own].at;
        sums[own].nodes.reverse();
        sums[own].shifts.reverse();
        sums[own].at = (-x, -y);
        let term = &mut lists[index][0];
        (term.x, term.y, term.negative) = (term.x + x, term.y + y, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_the_weight() {
        for bits in 1..=8 {
            for weight in -300..300_i64 {
                let list = digits(weight, bits);
                let value = |&(shift, negative): &(u32, bool)| {
                    if negative { -(1_i64 << shift) } else { 1 << shift }
                };
                let sum: i64 = list.iter().map(value).sum();
                assert_eq!((sum - weight).rem_euclid(1 << bits), 0, "{weight} {bits}");
                assert!(list.windows(2).all(|pair| pair[0].0 + 1 < pair[1].0), "{weight} {bits}");
            }
        }
    }

    /// What a plan computes, as kernels.
    fn kernels(plan: &Plan) -> Vec<Goal> {
        let times = |goal: &Goal, factor: i64| {
            let mut scaled = Goal::default();
            goal.cells().for_each(|(cell, count)| scaled.set(cell, count * factor));
            scaled
        };
        let mut values: Vec<Goal> = Vec::new();
        for step in &plan.steps {
            let part = |part: &Part| times(&values[part.value], 1 << part.shift);
            values.push(match step {
                Step::Input(channel) => Goal::identity(*channel as u32, 0),
                Step::Move(value, direction) => {
                    let (x, y) = direction.step();
                    values[*value].translated(x, y)
                }
                Step::Sum { a, b, minus } => {
                    part(a).plus(&times(&part(b), if *minus { -1 } else { 1 }))
                }
                Step::Negate(value) => times(&values[*value], -1),
            });
        }
        let output = |part: &Option<Part>| {
            part.map_or_else(Goal::default, |p| times(&values[p.value], 1 << p.shift))
        };
        plan.outputs.iter().map(output).collect()
    }

    /// Every plan computes its kernels.
    #[test]
    fn plans_are_their_kernels() {
        let mut random = Random(5);
        for _ in 0..200 {
            let (outputs, channels) = (1 + random.below(3), 1 + random.below(2));
            let mut goals = vec![Goal::default(); outputs];
            for goal in &mut goals {
                for _ in 0..random.below(10) {
                    let place = |random: &mut Random| random.below(5) as i32 - 2;
                    let (x, y) = (place(&mut random), place(&mut random));
                    let z = random.below(channels) as u32;
                    goal.set(Cell { x, y, z }, random.below(15) as i64 - 7);
                }
            }
            let plan = draw(&goals, channels, 16, &mut random);
            assert_eq!(kernels(&plan), goals);
            for (index, step) in plan.steps.iter().enumerate() {
                assert!(step.operands().all(|operand| operand < index));
            }
        }
    }

    /// Sums of rows and columns are shared: a box of nine takes four sums.
    #[test]
    fn boxes_are_separated() {
        let goal = Goal::from_rows(&[vec![1, 1, 1], vec![1, 1, 1], vec![1, 1, 1]]);
        let mut random = Random(1);
        let fewest = |wanted: fn(&Step) -> bool, random: &mut Random| {
            let plans = (0..32).map(|_| draw(std::slice::from_ref(&goal), 1, 4, random));
            plans.map(|plan| plan.steps.iter().filter(|s| wanted(s)).count()).min()
        };
        assert_eq!(fewest(|step| matches!(step, Step::Sum { .. }), &mut random), Some(4));
        assert_eq!(fewest(|step| matches!(step, Step::Move(..)), &mut random), Some(4));
    }
}
