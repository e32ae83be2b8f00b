//! Single sums of constant multiples: canonical signed digits and balanced adder trees.

use super::builder::Builder;
use super::wire::Wire;
use crate::isa::Inst;
use crate::program::{InputIndex, Slot};
use quincunx_diag::Result;
use quincunx_num::{Dyadic, Int, Interval};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// The sum of constant multiples.
///
/// Weights of one slot are added up first; each remaining multiple is built from the canonical
/// signed digits of its weight; the multiples are added earliest first.
pub(super) fn sum(builder: &mut Builder<'_>, terms: &[(Wire, Dyadic)]) -> Result<Wire> {
    let mut constant = Dyadic::ZERO;
    let mut weights: BTreeMap<Slot, Dyadic> = BTreeMap::new();
    for (wire, weight) in terms {
        match wire {
            Wire::Constant(value) => constant = constant.add(&value.mul(weight)),
            &Wire::Slot { slot, shift, negate } => {
                let sign = Int::from(if negate { -1 } else { 1 });
                let weight = weight.mul(&Dyadic::new(sign, shift));
                let total = weights.entry(slot).or_insert(Dyadic::ZERO);
                *total = total.add(&weight);
            }
        }
    }
    weights.retain(|_, weight| !weight.is_zero());
    if builder.measuring && weights.len() > 1 {
        return measured(builder, &weights, &constant);
    }
    let mut multiples = Vec::with_capacity(weights.len());
    for (slot, weight) in weights {
        multiples.push(multiple(builder, slot, &weight)?);
    }
    let total = add_all(builder, multiples)?;
    builder.add(&total, &Wire::Constant(constant))
}

/// The range of a sum, without the sum.
fn measured(
    builder: &mut Builder<'_>,
    weights: &BTreeMap<Slot, Dyadic>,
    constant: &Dyadic,
) -> Result<Wire> {
    let mut range = Interval::zero();
    for (&slot, weight) in weights {
        range = range.plus(&builder.interval(slot).times(&Interval::point(weight)));
    }
    let source = InputIndex(0);
    let total = builder.wire(Inst::Input { source }, range, 0, false)?;
    builder.add(&total, &Wire::Constant(constant.clone()))
}

/// `weight * wire`.
pub(super) fn multiple_of(builder: &mut Builder<'_>, wire: &Wire, weight: &Dyadic) -> Result<Wire> {
    match wire {
        Wire::Constant(value) => Ok(Wire::Constant(value.mul(weight))),
        _ if weight.is_zero() => Ok(Wire::zero()),
        &Wire::Slot { slot, shift, negate } => {
            let sign = Int::from(if negate { -1 } else { 1 });
            multiple(builder, slot, &weight.mul(&Dyadic::new(sign, shift)))
        }
    }
}

/// Adds wires pairwise, those that are ready first before others.
fn add_all(builder: &mut Builder<'_>, wires: Vec<Wire>) -> Result<Wire> {
    // Latencies are small whole numbers of adder levels; the order of arrival breaks ties.
    let key = |builder: &Builder<'_>, wire: &Wire| builder.latency(wire).round() as u64;
    let mut pool = wires;
    let mut queue: BinaryHeap<Reverse<(u64, usize)>> =
        pool.iter().enumerate().map(|(i, wire)| Reverse((key(builder, wire), i))).collect();
    while let Some(Reverse((_, first))) = queue.pop() {
        let Some(Reverse((_, second))) = queue.pop() else {
            return Ok(pool[first].clone());
        };
        let total = builder.add(&pool[first].clone(), &pool[second].clone())?;
        queue.push(Reverse((key(builder, &total), pool.len())));
        pool.push(total);
    }
    Ok(Wire::zero())
}

/// `weight * slot`. Every partial multiple is exact, so its range is that of the slot times its
/// own weight.
fn multiple(builder: &mut Builder<'_>, slot: Slot, weight: &Dyadic) -> Result<Wire> {
    let negate = weight.mantissa() < &Int::ZERO;
    let odd = if negate { -weight.mantissa().clone() } else { weight.mantissa().clone() };
    let wire = match &signed_digits(&odd)[..] {
        [] => Wire::zero(),
        [_] => Wire::Slot { slot, shift: 0, negate: false },
        digits => {
            // Halving the list of digits keeps the tree balanced.
            let (low, high) = digits.split_at(digits.len() / 2);
            let low = multiple(builder, slot, &value_of(low))?;
            let high = multiple(builder, slot, &value_of(high))?;
            let range = builder.interval(slot).times(&Interval::point(&Dyadic::new(odd, 0)));
            builder.add_within(&low, &high, range)?
        }
    };
    let wire = wire.shifted(weight.exponent());
    Ok(if negate { wire.negated() } else { wire })
}

/// The canonical signed-digit form: `(position, negative)` of every non-zero digit, lowest first.
/// No two neighbours are non-zero, which makes the number of digits minimal.
pub(super) fn signed_digits(value: &Int) -> Vec<(i32, bool)> {
    let mut digits = Vec::new();
    let mut rest = value.clone();
    let mut position = 0;
    while rest != Int::ZERO {
        let zeros = rest.trailing_zeros().expect("the rest is not zero");
        rest >>= zeros;
        position += i32::try_from(zeros).expect("a number in memory has fewer bits");
        // The digit is +1 or -1, whichever leaves a multiple of four.
        let low_bits = &rest & Int::from(3);
        let negative = low_bits == Int::from(3);
        digits.push((position, negative));
        rest -= Int::from(if negative { -1 } else { 1 });
    }
    digits
}

fn value_of(digits: &[(i32, bool)]) -> Dyadic {
    digits.iter().fold(Dyadic::ZERO, |total, &(position, negative)| {
        total.add(&Dyadic::new(Int::from(if negative { -1 } else { 1 }), position))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every 12-bit number: the digits add up, no two are neighbours, and none can be saved.
    #[test]
    fn digits_are_canonical() {
        let mut fewest = vec![usize::MAX; 1 << 13];
        for value in 1..(1_i64 << 12) {
            let digits = signed_digits(&Int::from(value));
            assert_eq!(value_of(&digits), Dyadic::new(Int::from(value), 0));
            assert!(digits.windows(2).all(|pair| pair[1].0 - pair[0].0 >= 2), "{value}");
            fewest[value as usize] = digits.len();
        }
        // Brute force: sums of at most three signed powers of two need no more digits.
        let powers: Vec<i64> = (0..13).flat_map(|s| [1 << s, -(1 << s)]).collect();
        for a in &powers {
            for b in &powers {
                for c in &powers {
                    for (count, sum) in [(1, *a), (2, a + b), (3, a + b + c)] {
                        if (1..1 << 12).contains(&sum) {
                            assert!(fewest[sum as usize] <= count, "{sum}");
                        }
                    }
                }
            }
        }
    }
}
