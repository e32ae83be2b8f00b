//! Results as linear forms of slots that are no sums.
//!
//! `3x - 2x` is `x`, which intervals of the operands cannot know: they take the two terms for
//! independent. A form is found by replacing the latest slot in it by what it is the sum of, until
//! only slots remain that are no sums, or whose sums drop bits.

use super::ranges::Range;
use crate::isa::Inst;
use crate::program::{Operation, Slot};
use quincunx_num::{Dyadic, Int, Kif, shift_floor};
use std::collections::BTreeMap;

/// More terms than this are given up; forms of real programs are no longer than a matrix row.
const MAX_TERMS: usize = 4096;

/// What is known about the slots so far.
pub(super) struct Forms<'a> {
    pub(super) operations: &'a [Operation],
    pub(super) types: &'a [Kif],
    pub(super) ranges: &'a [Range],
}

/// A sum of slots with factors, and a constant.
struct Form {
    terms: BTreeMap<u32, Dyadic>,
    constant: Dyadic,
}

impl Form {
    fn add(&mut self, slot: Slot, factor: &Dyadic) {
        let sum = self.terms.remove(&slot.0).map_or_else(|| factor.clone(), |f| f.add(factor));
        if !sum.is_zero() {
            self.terms.insert(slot.0, sum);
        }
    }
}

impl Forms<'_> {
    /// The range of an operation in units of its step, from its linear form: some range within
    /// `goal`, or what the whole form gives. `None` for an operation that is no sum, or where
    /// `steps` do not suffice; they are used up.
    pub(super) fn range(
        &self,
        index: usize,
        goal: Option<&Range>,
        steps: &mut usize,
    ) -> Option<Range> {
        let mut form = Form { terms: BTreeMap::new(), constant: Dyadic::ZERO };
        self.expand(index, &power(0), &mut form)?;
        let fraction = self.types[index].fraction;
        // Slots above this one are no sums.
        let mut above = u32::MAX;
        let mut expanded = 0_usize;
        while let Some((&slot, factor)) = form.terms.range(..above).next_back() {
            // Operands that are exact already suffice for most sums; looking costs as much as going
            // on, so it is done at 0, 1, 3, 7, … replacements.
            if let Some(goal) = goal.filter(|_| (expanded + 1).is_power_of_two())
                && let Some(range) = self.bounds(&form, fraction)
                && range.is_within(goal)
            {
                return Some(range);
            }
            expanded += 1;
            *steps = steps.checked_sub(form.terms.len())?;
            let factor = factor.clone();
            above = slot;
            form.terms.remove(&slot);
            if self.expand(slot as usize, &factor, &mut form).is_none() {
                form.terms.insert(slot, factor);
            }
            if form.terms.len() > MAX_TERMS {
                return None;
            }
        }
        self.bounds(&form, fraction)
    }

    /// The range of a slot where the condition of a mux is below 0 (`set`) or not, in units of its
    /// step: `x` is below `y` where `x - y` is negative. Looks at the sums that slot and condition
    /// are themselves, which is how comparisons are written. The condition fits its type.
    pub(super) fn given(&self, slot: Slot, condition: Slot, set: bool) -> Range {
        let own = &self.ranges[slot.0 as usize];
        let fraction = self.types[slot.0 as usize].fraction;
        let found = self.views(condition).into_iter().find_map(|condition| {
            self.views(slot).into_iter().find_map(|view| {
                let mut terms = view.terms.iter();
                let (Some((&base, factor)), None) = (terms.next(), terms.next()) else {
                    return None;
                };
                let bound = self.bound(&condition, base, set)?;
                let limited = bound.applied(&self.ranges[base as usize])?;
                let unit = -self.types[base as usize].fraction;
                let end = |value: &Int| {
                    let value = Dyadic::new(value.clone(), unit).mul(factor).add(&view.constant);
                    value.in_units(-fraction)
                };
                let (a, b) = (end(&limited.low)?, end(&limited.high)?);
                Some(if a <= b { Range { low: a, high: b } } else { Range { low: b, high: a } })
            })
        });
        found.map_or_else(|| own.clone(), |range| own.clone().meet(&range))
    }

    /// A slot as itself, and as the sum that it is.
    fn views(&self, slot: Slot) -> Vec<Form> {
        let empty = || Form { terms: BTreeMap::new(), constant: Dyadic::ZERO };
        let (mut itself, mut sum) = (empty(), empty());
        itself.add(slot, &power(0));
        let is_sum = self.expand(slot.0 as usize, &power(0), &mut sum).is_some();
        if is_sum { vec![itself, sum] } else { vec![itself] }
    }

    /// What a form below 0 (`negative`) or from 0 on says about one of its slots.
    fn bound(&self, form: &Form, base: u32, negative: bool) -> Option<Bound> {
        let factor = form.terms.get(&base)?;
        // Factors other than powers of two would need a division.
        factor.log2().or_else(|| factor.neg().log2())?;
        let mut rest = Form { terms: form.terms.clone(), constant: form.constant.clone() };
        rest.terms.remove(&base);
        let (low, high) = self.ends(&rest)?;
        // factor * base < -rest or factor * base >= -rest, for some value that the rest has.
        let limit = if negative { low.neg() } else { high.neg() };
        let inverse = power(factor.log2().or_else(|| factor.neg().log2())?.checked_neg()?);
        let ascends = factor.mantissa() > &Int::ZERO;
        let limit = limit.mul(&inverse);
        let limit = if ascends { limit } else { limit.neg() };
        let unit = -self.types[base as usize].fraction;
        let steps = limit.mul(&power(unit.checked_neg()?));
        let floor = shift_floor(steps.mantissa(), steps.exponent().into());
        let is_whole = steps.in_units(0).is_some();
        let ceiling = if is_whole { floor.clone() } else { &floor + Int::ONE };
        Some(match (negative, ascends) {
            // base < limit, base > limit, base >= limit, base <= limit
            (true, true) => Bound::AtMost(ceiling - Int::ONE),
            (true, false) => Bound::AtLeast(floor + Int::ONE),
            (false, true) => Bound::AtLeast(ceiling),
            (false, false) => Bound::AtMost(floor),
        })
    }

    /// Adds `factor` times what an operation is the sum of; `None`, and no change, if it is no sum
    /// or drops bits.
    fn expand(&self, index: usize, factor: &Dyadic, form: &mut Form) -> Option<()> {
        let own = i64::from(self.types[index].fraction);
        let fraction = |slot: Slot| i64::from(self.types[slot.0 as usize].fraction);
        let inst = self.operations[index].inst;
        match inst {
            Inst::Add { .. } | Inst::Sub { .. } | Inst::Sum { .. } => {
                if inst.terms().any(|(slot, shift, _)| fraction(slot) - shift > own) {
                    return None;
                }
                for (slot, shift, minus) in inst.terms() {
                    let scaled = factor.mul(&power(i32::try_from(shift).ok()?));
                    form.add(slot, &if minus { scaled.neg() } else { scaled });
                }
            }
            Inst::Negate { x } if fraction(x) <= own => form.add(x, &factor.neg()),
            Inst::AddConstant { x, value } if fraction(x) <= own => {
                let constant = Dyadic::new(value.into(), -self.types[index].fraction);
                form.constant = form.constant.add(&factor.mul(&constant));
                form.add(x, factor);
            }
            Inst::AddScaled { x, value, scale } if fraction(x).max(scale.into()) <= own => {
                form.constant = form.constant.add(&factor.mul(&Dyadic::new(value.into(), -scale)));
                form.add(x, factor);
            }
            _ => return None,
        }
        Some(())
    }

    /// Lowest and highest value of a form in units of `2^-fraction`.
    fn bounds(&self, form: &Form, fraction: i32) -> Option<Range> {
        let (low, high) = self.ends(form)?;
        Some(Range { low: low.in_units(-fraction)?, high: high.in_units(-fraction)? })
    }

    /// Lowest and highest value of a form.
    fn ends(&self, form: &Form) -> Option<(Dyadic, Dyadic)> {
        let (mut low, mut high) = (form.constant.clone(), form.constant.clone());
        for (&slot, factor) in &form.terms {
            let range = self.ranges.get(slot as usize)?;
            let unit = -self.types[slot as usize].fraction;
            let bound = |bound: &Int| Dyadic::new(bound.clone(), unit).mul(factor);
            let (a, b) = (bound(&range.low), bound(&range.high));
            let ascending = factor.mantissa() > &Int::ZERO;
            let (least, most) = if ascending { (a, b) } else { (b, a) };
            (low, high) = (low.add(&least), high.add(&most));
        }
        Some((low, high))
    }
}

/// What is known about an integer besides its range.
enum Bound {
    AtMost(Int),
    AtLeast(Int),
}

impl Bound {
    /// The part of a range within the bound; `None` if there is none.
    fn applied(self, range: &Range) -> Option<Range> {
        let (low, high) = match self {
            Bound::AtMost(most) => (range.low.clone(), range.high.clone().min(most)),
            Bound::AtLeast(least) => (range.low.clone().max(least), range.high.clone()),
        };
        (low <= high).then_some(Range { low, high })
    }
}

fn power(exponent: i32) -> Dyadic {
    Dyadic::new(Int::ONE, exponent)
}
