//! To alkaid: negated operands become operations.

use super::{Converter, Known, type_of};
use crate::isa::{Inst, UnaryBits};
use crate::program::{Operation, Slot, SlotType};
use crate::verify::ranges::Range;

impl Converter<'_> {
    /// Adds an operation in the words of alkaid.
    pub(super) fn write_alkaid(&mut self, operation: &Operation) {
        let inst = match operation.inst {
            Inst::ReluNegated { x } => Inst::Relu { x: self.negated(x, operation) },
            Inst::QuantiseNegated { x } => Inst::Quantise { x: self.negated(x, operation) },
            Inst::MuxNegated { condition, when_set, when_clear, shift } => {
                let when_clear = self.negated(when_clear, operation);
                let (condition, when_set) = (self.at(condition), self.at(when_set));
                Inst::Mux { condition, when_set, when_clear, shift }
            }
            // Whether any bit is set does not depend on the sign.
            Inst::BitsNegated { x, op: UnaryBits::Any } => {
                Inst::Bits { x: self.at(x), op: UnaryBits::Any }
            }
            Inst::BitsNegated { x, op } => {
                let to = operation.slot_type.kif();
                let x = match op == UnaryBits::Not && to.signed {
                    true => self.negated(x, operation),
                    false => self.negated_in_place(x, operation),
                };
                Inst::Bits { x, op }
            }
            Inst::Bitwise { a, b, shift, negate_a, negate_b, op } => {
                let a = if negate_a { self.negated(a, operation) } else { self.at(a) };
                let b = if negate_b { self.negated(b, operation) } else { self.at(b) };
                Inst::Bitwise { a, b, shift, negate_a: false, negate_b: false, op }
            }
            inst => inst.map_operands(|slot| self.at(slot)),
        };
        self.replace(operation, inst);
    }

    /// The new slot of an old one; towards alkaid nothing is pending.
    fn at(&self, slot: Slot) -> Slot {
        match self.known[slot.0 as usize] {
            Known::At(slot) => slot,
            Known::Pending(negation) => negation.of(),
        }
    }

    /// A new slot with the negated value of an old one, in its step.
    fn negated(&mut self, slot: Slot, like: &Operation) -> Slot {
        if let Some(negated) = self.negated[slot.0 as usize] {
            return negated;
        }
        let kif = self.kif(slot);
        let range = match self.is_zero(slot) && (1..64).contains(&kif.width()) {
            // JSON shows the step of a type with bits only.
            true => Range::of_kif(kif).negated(),
            false => self.ranges[slot.0 as usize].negated(),
        };
        let slot_type = type_of(&range, kif.fraction);
        let inst = Inst::Negate { x: self.at(slot) };
        let negated = self.insert(inst, slot_type, like);
        *self.negated[slot.0 as usize].insert(negated)
    }

    /// As [`Self::negated`], with no more bits than the old slot has: operations that look at all
    /// bits of a type must see as many as before.
    fn negated_in_place(&mut self, slot: Slot, like: &Operation) -> Slot {
        let kif = self.kif(slot);
        let negated = self.negated(slot, like);
        if self.operations[negated.0 as usize].slot_type.kif().width() == kif.width() {
            return negated;
        }
        self.insert(Inst::Quantise { x: negated }, SlotType::Kif(kif), like)
    }
}
