//! Results as linear forms of slots that are not sums.
//!
//! `3x - 2x` is `x`, which intervals of the operands cannot know: they take the two terms for
//! independent. A form is found by replacing the latest slot in it by what it is the sum of, until
//! only slots remain that are not sums, or whose sums drop bits.

use super::ranges::Range;
use crate::isa::Inst;
use crate::program::{Operation, Slot, places};
use quincunx_num::{Dyadic, Int, Kif, bit_length, shift_floor};
use std::collections::BTreeMap;

/// More terms than this are given up; forms of real programs are no longer than a matrix row.
const MAX_TERMS: usize = 4096;

/// Longer factors are given up: chains of shifted sums in a hostile program make them as long as the
/// program.
const MAX_FACTOR_BITS: u32 = 1 << 12;

/// Sums that are looked through for a comparison.
const MAX_VIEWS: usize = 4;

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
    /// Lowest and highest value, the terms being independent.
    low: Dyadic,
    high: Dyadic,
}

impl Form {
    fn zero() -> Form {
        let [constant, low, high] = [Dyadic::ZERO, Dyadic::ZERO, Dyadic::ZERO];
        Form { terms: BTreeMap::new(), constant, low, high }
    }

    fn add(&mut self, forms: &Forms<'_>, slot: Slot, factor: &Dyadic) {
        let sum = match self.remove(forms, slot.0) {
            Some(before) => before.add(factor),
            None => factor.clone(),
        };
        if !sum.is_zero() {
            let (low, high) = forms.reach(slot.0, &sum);
            (self.low, self.high) = (self.low.add(&low), self.high.add(&high));
            self.terms.insert(slot.0, sum);
        }
    }

    fn remove(&mut self, forms: &Forms<'_>, slot: u32) -> Option<Dyadic> {
        let factor = self.terms.remove(&slot)?;
        let (low, high) = forms.reach(slot, &factor);
        (self.low, self.high) = (self.low.add(&low.neg()), self.high.add(&high.neg()));
        Some(factor)
    }

    fn add_constant(&mut self, value: &Dyadic) {
        self.constant = self.constant.add(value);
        (self.low, self.high) = (self.low.add(value), self.high.add(value));
    }
}

impl Forms<'_> {
    /// The range of an operation in units of its step, from its linear form: what all forms on the
    /// way say together, until that is within `goal`, the form too long, or `steps`, which are used
    /// up, are none. `None` for an operation that is not a sum.
    pub(super) fn range(
        &self,
        index: usize,
        goal: Option<&Range>,
        steps: &mut usize,
    ) -> Option<Range> {
        let mut form = Form::zero();
        self.expand(index, &power(0), &mut form)?;
        let unit = self.types[index].exponent();
        let bound = |bound: &Int| Dyadic::new(bound.clone(), unit);
        let goal = goal.map(|goal| (bound(&goal.low), bound(&goal.high)));
        let (mut low, mut high) = (form.low.clone(), form.high.clone());
        // Slots above this one are not sums.
        let mut above = u32::MAX;
        while let Some((&slot, factor)) = form.terms.range(..above).next_back() {
            let is_enough = goal.as_ref().is_some_and(|goal| low >= goal.0 && high <= goal.1);
            let is_long = form.terms.len() > MAX_TERMS || length(factor) > MAX_FACTOR_BITS;
            if is_enough || is_long || *steps == 0 {
                break;
            }
            *steps = steps.saturating_sub(1);
            let factor = factor.clone();
            above = slot;
            form.remove(self, slot);
            if self.expand(slot as usize, &factor, &mut form).is_none() {
                form.add(self, Slot(slot), &factor);
            }
            if form.low > low {
                low = form.low.clone();
            }
            if form.high < high {
                high = form.high.clone();
            }
        }
        Some(Range { low: low.in_units(unit)?, high: high.in_units(unit)? })
    }

    /// The range of a slot where the condition of a mux is below 0 (`set`) or not, in units of its
    /// step: `x` is below `y` where `x - y` is negative. Looks at the sums that slot and condition
    /// are themselves, which is how comparisons are written. The condition fits its type.
    pub(super) fn given(&self, slot: Slot, condition: Slot, set: bool) -> Range {
        let own = &self.ranges[slot.0 as usize];
        let own_unit = self.types[slot.0 as usize].exponent();
        let found = self.views(condition).into_iter().find_map(|condition| {
            self.views(slot).into_iter().find_map(|view| {
                let mut terms = view.terms.iter();
                let (Some((&base, factor)), None) = (terms.next(), terms.next()) else {
                    return None;
                };
                let bound = self.bound(&condition, base, set)?;
                let limited = bound.applied(&self.ranges[base as usize])?;
                let unit = self.types[base as usize].exponent();
                let end = |value: &Int| {
                    let value = Dyadic::new(value.clone(), unit).mul(factor).add(&view.constant);
                    value.in_units(own_unit)
                };
                let (a, b) = (end(&limited.low)?, end(&limited.high)?);
                Some(if a <= b { Range { low: a, high: b } } else { Range { low: b, high: a } })
            })
        });
        found.map_or_else(|| own.clone(), |range| own.clone().meet(&range))
    }

    /// A slot as itself, as the sum that it is, and on while that is a sum of one slot.
    fn views(&self, slot: Slot) -> Vec<Form> {
        let mut views = Vec::new();
        let mut form = Form::zero();
        form.add(self, slot, &power(0));
        while views.len() < MAX_VIEWS
            && let Some((&slot, factor)) =
                form.terms.iter().next().filter(|_| form.terms.len() == 1)
        {
            let factor = factor.clone();
            let mut next = Form::zero();
            next.add_constant(&form.constant);
            let is_sum = self.expand(slot as usize, &factor, &mut next).is_some();
            views.push(form);
            if !is_sum {
                return views;
            }
            form = next;
        }
        views.push(form);
        views
    }

    /// What a form below 0 (`negative`) or from 0 on says about one of its slots.
    fn bound(&self, form: &Form, base: u32, negative: bool) -> Option<Bound> {
        let factor = form.terms.get(&base)?;
        // Factors other than powers of two would need a division.
        factor.log2().or_else(|| factor.neg().log2())?;
        let (low, high) = self.reach(base, factor);
        // factor * base < -rest or factor * base >= -rest, for some value that the rest has.
        let limit = match negative {
            true => low.add(&form.low.neg()),
            false => high.add(&form.high.neg()),
        };
        let inverse = power(factor.log2().or_else(|| factor.neg().log2())?.checked_neg()?);
        let ascends = factor.mantissa() > &Int::ZERO;
        let limit = limit.mul(&inverse);
        let limit = if ascends { limit } else { limit.neg() };
        let unit = self.types[base as usize].exponent();
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

    /// Adds `factor` times what an operation is the sum of; `None`, and no change, if it is not a
    /// sum or drops bits.
    fn expand(&self, index: usize, factor: &Dyadic, form: &mut Form) -> Option<()> {
        let own = places(self.types[index].fraction);
        let fraction = |slot: Slot| places(self.types[slot.0 as usize].fraction);
        let inst = self.operations[index].inst;
        match inst {
            Inst::Add { .. } | Inst::Sub { .. } | Inst::Sum { .. } => {
                let is_zero = |slot: Slot| {
                    let range = &self.ranges[slot.0 as usize];
                    range.low == Int::ZERO && range.high == Int::ZERO
                };
                let mut terms = inst.terms();
                if terms
                    .any(|(slot, shift, _)| fraction(slot) - places(shift) > own && !is_zero(slot))
                {
                    return None;
                }
                for (slot, shift, minus) in inst.terms() {
                    let scaled = factor.mul(&power(i32::try_from(shift).ok()?));
                    form.add(self, slot, &if minus { scaled.neg() } else { scaled });
                }
            }
            Inst::Negate { x } if fraction(x) <= own => form.add(self, x, &factor.neg()),
            Inst::AddConstant { x, value } if fraction(x) <= own => {
                let constant = Dyadic::new(value.into(), self.types[index].exponent());
                form.add_constant(&factor.mul(&constant));
                form.add(self, x, factor);
            }
            Inst::AddScaled { x, value, scale: bits } if fraction(x).max(places(bits)) <= own => {
                let constant = Dyadic::new(value.into(), bits.saturating_neg());
                form.add_constant(&factor.mul(&constant));
                form.add(self, x, factor);
            }
            Inst::Quantise { x } if self.keeps_all(index, x, false) => form.add(self, x, factor),
            Inst::QuantiseNegated { x } if self.keeps_all(index, x, true) => {
                form.add(self, x, &factor.neg());
            }
            _ => return None,
        }
        Some(())
    }

    /// True when a quantiser drops no bits of what its operand, or that negated, can be.
    fn keeps_all(&self, index: usize, x: Slot, negate: bool) -> bool {
        let (from, to) = (self.types[x.0 as usize], self.types[index]);
        let range = &self.ranges[x.0 as usize];
        let range = if negate { range.negated() } else { range.clone() };
        let finer = places(to.fraction) - places(from.fraction);
        finer >= places(0) && range.shifted(finer).fits(to)
    }

    /// Lowest and highest value of a slot times a factor.
    fn reach(&self, slot: u32, factor: &Dyadic) -> (Dyadic, Dyadic) {
        let range = &self.ranges[slot as usize];
        let unit = self.types[slot as usize].exponent();
        let bound = |bound: &Int| Dyadic::new(bound.clone(), unit).mul(factor);
        let (a, b) = (bound(&range.low), bound(&range.high));
        if factor.mantissa() > &Int::ZERO { (a, b) } else { (b, a) }
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

/// Bits of the mantissa.
fn length(number: &Dyadic) -> u32 {
    let mantissa = number.mantissa();
    if mantissa < &Int::ZERO { bit_length(&-mantissa) } else { bit_length(mantissa) }
}

fn power(exponent: i32) -> Dyadic {
    Dyadic::new(Int::ONE, exponent)
}
