//! From alkaid: negations are said by the operations that read them, sums become additions.

use super::{Converter, Known, type_of};
use crate::isa::{Inst, UnaryBits};
use crate::program::{Operation, Slot, SlotType, places};
use crate::verify::ranges::Range;
use quincunx_num::{Int, Interval, Kif, shift_floor};

/// A negation of a new slot that no operation has been written for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Negation {
    /// The new slot.
    x: Slot,
    /// The old slot that holds the negation.
    own: Slot,
    /// No bit of `x` is below the step of the negation.
    keeps_bits: bool,
    /// Both have the same step.
    keeps_step: bool,
    /// Both have the same number of bits.
    keeps_width: bool,
}

impl Negation {
    /// The slot that is negated.
    pub(super) fn of(self) -> Slot {
        self.x
    }
}

impl Converter<'_> {
    /// Adds an operation in the words of da4ml.
    pub(super) fn write_da4ml(&mut self, index: usize, operation: &Operation) {
        let own = Slot::of(index);
        let inst = match operation.inst {
            Inst::Negate { x } => return self.defer(x, own),
            Inst::QuantiseShifted { x, shift } => self.quantise_shifted(x, shift, operation),
            Inst::AddScaled { x, value, scale } => self.add_scaled(x, value, scale, operation),
            Inst::Sum { .. } => self.sum(operation),
            Inst::Add { a, b, shift } => self.add(a, b, shift, false),
            Inst::Sub { a, b, shift } => self.add(a, b, shift, true),
            Inst::Relu { x } => match self.signed(x) {
                (x, true) => Inst::ReluNegated { x },
                (x, false) => Inst::Relu { x },
            },
            Inst::Quantise { x } => match self.signed(x) {
                (x, true) => Inst::QuantiseNegated { x },
                (x, false) => Inst::Quantise { x },
            },
            Inst::Mux { condition, when_set, when_clear, shift } => {
                let (condition, when_set) = (self.slot(condition), self.slot(when_set));
                match self.foldable(when_clear, |n| n.keeps_step) {
                    (when_clear, true) => {
                        Inst::MuxNegated { condition, when_set, when_clear, shift }
                    }
                    (when_clear, false) => Inst::Mux { condition, when_set, when_clear, shift },
                }
            }
            Inst::Bits { x, op } => self.bits(x, op, operation),
            Inst::Bitwise { a, b, shift, negate_a, negate_b, op } => {
                let (a, minus_a) = self.foldable(a, |n| n.keeps_step);
                let (b, minus_b) = self.foldable(b, |n| n.keeps_step);
                let (negate_a, negate_b) = (negate_a ^ minus_a, negate_b ^ minus_b);
                Inst::Bitwise { a, b, shift, negate_a, negate_b, op }
            }
            inst => inst.map_operands(|slot| self.slot(slot)),
        };
        self.replace(operation, inst);
    }

    /// Remembers a negation.
    fn defer(&mut self, x: Slot, own: Slot) {
        let (from, to) = (self.kif(x), self.kif(own));
        let x = self.slot(x);
        let from_new = self.operations[x.0 as usize].slot_type.kif();
        self.known.push(Known::Pending(Negation {
            x,
            own,
            keeps_bits: to.fraction >= from.fraction,
            keeps_step: to.fraction == from.fraction && from_new.fraction == from.fraction,
            keeps_width: to.width() == from_new.width(),
        }));
    }

    /// The new slot of an old one; a pending negation is written now.
    pub(super) fn slot(&mut self, slot: Slot) -> Slot {
        match self.known[slot.0 as usize] {
            Known::At(slot) => slot,
            Known::Pending(negation) => {
                let new = self.written(negation);
                self.known[slot.0 as usize] = Known::At(new);
                new
            }
        }
    }

    /// Writes a negation: a negated quantiser to the full type drops nothing. Where results may
    /// leave their types, it is subtracted from 0, which does not quantise either.
    fn written(&mut self, Negation { x, own, .. }: Negation) -> Slot {
        let operation = &self.program.operations[own.0 as usize];
        let inst = match self.is_sound {
            true => Inst::QuantiseNegated { x },
            false => Inst::Sub { a: self.zero(), b: x, shift: 0 },
        };
        self.push(Operation { inst, ..operation.clone() })
    }

    /// The new slot of an old one, and whether it holds the negated value.
    pub(super) fn signed(&mut self, slot: Slot) -> (Slot, bool) {
        self.foldable(slot, |negation| negation.keeps_bits)
    }

    /// As [`Self::signed`], for readers that can negate only under a condition.
    fn foldable(&mut self, slot: Slot, condition: impl Fn(Negation) -> bool) -> (Slot, bool) {
        match self.known[slot.0 as usize] {
            Known::Pending(negation) if condition(negation) => (negation.x, true),
            _ => (self.slot(slot), false),
        }
    }

    /// `±a ± b * 2^shift` in one operation: the first operand has neither sign nor shift.
    fn add(&mut self, a: Slot, b: Slot, shift: i64, minus: bool) -> Inst {
        let (b_new, b_minus) = self.signed(b);
        let minus_b = minus ^ b_minus;
        match self.known[a.0 as usize] {
            // -a + b is b - a.
            Known::Pending(n) if n.keeps_bits && shift == 0 && !minus_b => {
                Inst::Sub { a: b_new, b: n.x, shift: 0 }
            }
            _ => {
                let a = self.slot(a);
                match minus_b {
                    true => Inst::Sub { a, b: b_new, shift },
                    false => Inst::Add { a, b: b_new, shift },
                }
            }
        }
    }

    fn bits(&mut self, x: Slot, op: UnaryBits, operation: &Operation) -> Inst {
        let to = operation.slot_type.kif();
        let looks_at_type = !(op == UnaryBits::Any || op == UnaryBits::Not && to.signed);
        match self.foldable(x, |n| n.keeps_step && (n.keeps_width || !looks_at_type)) {
            (x, true) => Inst::BitsNegated { x, op },
            (x, false) => Inst::Bits { x, op },
        }
    }

    /// `x * 2^shift` exactly, then a quantiser.
    fn quantise_shifted(&mut self, x: Slot, shift: i64, operation: &Operation) -> Inst {
        let (new, minus) = self.signed(x);
        if shift == 0 {
            return if minus {
                Inst::QuantiseNegated { x: new }
            } else {
                Inst::Quantise { x: new }
            };
        }
        let kif = self.operations[new.0 as usize].slot_type.kif();
        // Legal shifts are small, and so are the numbers of bits.
        let shift_bits = i32::try_from(shift).unwrap_or(0);
        let integer = kif.integer.saturating_add(shift_bits);
        let moved = Kif { integer, fraction: kif.fraction.saturating_sub(shift_bits), ..kif };
        let slot_type = match self.operations[new.0 as usize].slot_type.interval() {
            Some(interval) if !interval.is_zero() => {
                SlotType::of_interval(&interval.shifted(shift_bits))
            }
            _ => SlotType::Kif(moved),
        };
        let inst = Inst::Add { a: self.zero(), b: new, shift };
        let x = self.insert(inst, slot_type, operation);
        if minus { Inst::QuantiseNegated { x } } else { Inst::Quantise { x } }
    }

    /// A constant in the step of the result, if that step divides it or drops only its own bits;
    /// else an addition, which drops bits of the sum.
    fn add_scaled(&mut self, x: Slot, value: i64, own: i32, operation: &Operation) -> Inst {
        let (from, to) = (self.kif(x).fraction, operation.slot_type.kif().fraction);
        let x = self.slot(x);
        let in_steps = shift_floor(&Int::from(value), (places(to) - places(own)).0);
        match i64::try_from(&in_steps) {
            Ok(value) if from <= to => Inst::AddConstant { x, value },
            _ => {
                let point = Range { low: value.into(), high: value.into() };
                let slot_type = type_of(&point, own);
                let b = self.insert(Inst::Constant { value }, slot_type, operation);
                Inst::Add { a: x, b, shift: 0 }
            }
        }
    }

    /// A sum as additions. The first operand of an addition has neither sign nor shift, so that the
    /// sum begins with such a term, or else with 0.
    fn sum(&mut self, operation: &Operation) -> Inst {
        let mut terms: Vec<(Slot, i64, bool, Slot)> = Vec::new();
        for (slot, shift, minus) in operation.inst.terms() {
            if !self.is_zero(slot) {
                let (new, negated) = self.signed(slot);
                terms.push((new, shift, minus ^ negated, slot));
            }
        }
        let plain = terms.iter().position(|&(_, shift, minus, _)| shift == 0 && !minus);
        let (mut total, mut range, mut fraction) = match plain {
            Some(index) => {
                let (new, _, _, old) = terms.remove(index);
                (new, self.interval(old), self.kif(old).fraction)
            }
            None => (self.zero(), Interval::zero(), i32::MIN),
        };
        let Some((last, others)) = terms.split_last() else {
            // One plain term, or none.
            return Inst::Add { a: total, b: self.zero(), shift: 0 };
        };
        for &(new, shift, minus, old) in others {
            let by = i32::try_from(shift).unwrap_or(0);
            let term = self.interval_of(new, old).shifted(by);
            range = if minus { range.minus(&term) } else { range.plus(&term) };
            // Terms that leave their types may have bits where the range has none.
            fraction = fraction.max(self.kif(old).fraction.saturating_sub(by));
            let slot_type = SlotType::in_steps(&range, fraction);
            total = self.insert(addition(total, new, shift, minus), slot_type, operation);
        }
        let &(new, shift, minus, _) = last;
        addition(total, new, shift, minus)
    }

    /// What an old slot holds.
    fn interval(&self, old: Slot) -> Interval {
        let Range { low, high } = self.ranges[old.0 as usize].clone();
        Interval::new(low, high, self.kif(old).exponent())
    }

    /// What a new slot holds that is an old one or its negation.
    fn interval_of(&self, new: Slot, old: Slot) -> Interval {
        let interval = self.interval(old);
        let is_negated = matches!(self.known[old.0 as usize], Known::Pending(n) if n.x == new);
        if is_negated { interval.negated() } else { interval }
    }
}

fn addition(a: Slot, b: Slot, shift: i64, minus: bool) -> Inst {
    if minus { Inst::Sub { a, b, shift } } else { Inst::Add { a, b, shift } }
}
