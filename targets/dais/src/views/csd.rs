//! What sums would cost without sharing: the digits of every constant, added one after the other.

use super::flat::Flat;
use crate::isa::Inst;
use rustc_hash::FxHashMap;
use std::collections::BinaryHeap;

/// Operations that are looked at for all sums together; of larger programs nothing is said.
const MAX_STEPS: usize = 1 << 24;

/// Adders of the sums of a group, each constant written in canonical signed digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Naive {
    /// Digits of all constants of a sum, less one, over all sums.
    pub(super) adders: u64,
    /// Levels of the deepest sum, its digits added in a balanced tree.
    pub(super) depth: u32,
}

/// `value * 2^exponent`.
#[derive(Clone, Copy, Debug)]
struct Coefficient {
    value: i128,
    exponent: i64,
}

impl Coefficient {
    fn plus(self, other: Coefficient) -> Option<Coefficient> {
        let (fine, coarse) =
            if self.exponent <= other.exponent { (self, other) } else { (other, self) };
        if coarse.value == 0 {
            return Some(fine);
        }
        let by = u32::try_from(coarse.exponent - fine.exponent).ok()?;
        // Room for the digits, which are counted with a product by 3.
        if coarse.value.unsigned_abs().checked_ilog2()? + by > 120 {
            return None;
        }
        let value = fine.value.checked_add(coarse.value << by)?;
        (value.unsigned_abs() < 1 << 122).then_some(Coefficient { value, ..fine })
    }

    /// Non-zero digits of the canonical form: where the value and three times it differ.
    fn digits(self) -> u32 {
        (self.value ^ (3 * self.value)).count_ones()
    }
}

/// By group; `None` for a program that is too large, or whose constants are.
///
/// A sum is a result of additions that something else than an exact addition of its group reads. It
/// is written in terms of operands that are not additions, or sums of other groups.
pub(super) fn naive(flat: &Flat) -> Option<Vec<Naive>> {
    let sums = Sums { flat, is_sum: sums(flat) };
    let mut found = vec![Naive::default(); flat.groups.len()];
    let mut steps = 0;
    for index in (0..flat.nodes.len()).filter(|&index| sums.is_sum[index]) {
        let digits = sums.digits(index, &mut steps)?;
        let naive = &mut found[flat.nodes[index].group];
        naive.adders += digits.saturating_sub(1);
        naive.depth = naive.depth.max(digits.max(1).next_power_of_two().ilog2());
    }
    Some(found)
}

fn sums(flat: &Flat) -> Vec<bool> {
    let mut is_sum = vec![false; flat.nodes.len()];
    for (index, node) in flat.nodes.iter().enumerate() {
        let is_linear = flat.is_linear(index);
        // Additions that drop bits are sums, of operands that are exact.
        is_sum[index] |= node.adders > 0 && !is_linear;
        for &operand in &node.operands {
            let is_inside = flat.nodes[operand].group == node.group;
            let is_part = (is_linear || node.adders > 0) && is_inside;
            is_sum[operand] |= flat.is_linear(operand) && !is_part;
        }
    }
    for source in flat.outputs.iter().filter_map(|end| end.source) {
        is_sum[source] |= flat.is_linear(source);
    }
    is_sum
}

struct Sums<'a> {
    flat: &'a Flat,
    is_sum: Vec<bool>,
}

impl Sums<'_> {
    /// True where the operands of a sum are not looked into.
    fn is_end(&self, sum: usize, index: usize) -> bool {
        let flat = self.flat;
        let is_other = flat.nodes[index].group != flat.nodes[sum].group;
        // What drops bits of a sum costs its own addition only.
        let is_known = self.is_sum[index] && (is_other || !flat.is_linear(sum));
        index != sum && (!flat.is_linear(index) || is_known)
    }

    /// Digits of all constants of a sum.
    fn digits(&self, sum: usize, steps: &mut usize) -> Option<u64> {
        let mut coefficients = FxHashMap::default();
        coefficients.insert(sum, Coefficient { value: 1, exponent: 0 });
        // Operands come before the operations that read them: what is on top is complete.
        let mut waiting = BinaryHeap::from([sum]);
        let mut total = 0;
        while let Some(index) = waiting.pop() {
            let Some(coefficient) = coefficients.remove(&index) else { continue };
            *steps += 1;
            if *steps > MAX_STEPS {
                return None;
            }
            if self.is_end(sum, index) {
                total += u64::from(coefficient.digits());
                continue;
            }
            for (operand, shift, minus) in terms(self.flat, index) {
                let value = if minus { -coefficient.value } else { coefficient.value };
                let term = Coefficient { value, exponent: coefficient.exponent + shift };
                let all = match coefficients.get(&operand) {
                    Some(&known) => term.plus(known)?,
                    None => {
                        waiting.push(operand);
                        term
                    }
                };
                coefficients.insert(operand, all);
            }
        }
        Some(total)
    }
}

/// The operands of a linear operation; constants added to it do not count.
fn terms(flat: &Flat, index: usize) -> Vec<(usize, i64, bool)> {
    let node = &flat.nodes[index];
    let is_number = |operand: usize| matches!(flat.nodes[operand].inst, Inst::Constant { .. });
    let terms: Vec<(usize, i64, bool)> = match node.inst {
        Inst::Input { .. } => {
            node.link.map(|(shift, minus)| (node.operands[0], shift, minus)).into_iter().collect()
        }
        Inst::Negate { .. } => vec![(node.operands[0], 0, true)],
        Inst::AddConstant { .. } | Inst::AddScaled { .. } => vec![(node.operands[0], 0, false)],
        inst => {
            let terms = inst.terms().zip(&node.operands);
            terms.map(|((_, shift, minus), &operand)| (operand, shift, minus)).collect()
        }
    };
    terms.into_iter().filter(|&(operand, ..)| !is_number(operand)).collect()
}
