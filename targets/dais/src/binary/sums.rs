//! Operations of alkaid's files on their way into a program.
//!
//! A sum in a file has any number of terms, an instruction has three, as adders have. Longer sums
//! become several operations and shorter ones get terms of 0, so that slots move.

use crate::isa::Inst;
use crate::isa::alir::{Lists, SUM, Term};
use crate::program::{Operation, Slot, SlotType};
use crate::verify::MAX_SCALE;
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::{Interval, Kif};

/// Collects the operations of one program.
#[derive(Default)]
pub(crate) struct Expander {
    operations: Vec<Operation>,
    /// Where the slots of the file are in the program.
    moved: Vec<Slot>,
    zero: Option<Slot>,
}

impl Expander {
    /// Operations of the file so far.
    pub(crate) fn len(&self) -> usize {
        self.moved.len()
    }

    /// Adds the next operation of the file.
    ///
    /// # Errors
    /// `Q1001` for a slot that comes later; as [`Lists::to_inst`].
    pub(crate) fn push(
        &mut self,
        mut lists: Lists,
        slot_type: SlotType,
        latency: f64,
        cost: f64,
    ) -> Result<()> {
        for slot in &mut lists.addr {
            *slot = self.earlier(*slot)?;
        }
        let inst = if lists.opcode == SUM && lists.addr.len() != 3 {
            self.sum(lists.terms()?, latency)?
        } else {
            lists.to_inst(slot_type.kif().fraction)?
        };
        let slot = self.append(Operation { inst, slot_type, latency, cost });
        self.moved.push(slot);
        Ok(())
    }

    /// Adds the next operation of the file, one that is not a list.
    pub(crate) fn push_inst(&mut self, inst: Inst, slot_type: SlotType, latency: f64, cost: f64) {
        let inst = inst.map_operands(|slot| self.place(slot));
        let slot = self.append(Operation { inst, slot_type, latency, cost });
        self.moved.push(slot);
    }

    /// Counts an operation with errors, so that places stay right.
    pub(crate) fn skip(&mut self) {
        let slot = Slot::of(self.operations.len());
        self.moved.push(slot);
    }

    /// Where a slot of the file is; one that does not exist yet stays one that does not.
    pub(crate) fn place(&self, slot: Slot) -> Slot {
        let inserted = self.operations.len().saturating_sub(self.moved.len());
        let inserted = Slot::of(inserted).0;
        let later = || Slot(slot.0.saturating_add(inserted));
        self.moved.get(slot.0 as usize).copied().unwrap_or_else(later)
    }

    fn earlier(&self, slot: Slot) -> Result<Slot> {
        self.moved.get(slot.0 as usize).copied().ok_or_else(|| {
            let message = format!("operation {} reads slot {}", self.moved.len(), slot.0);
            Diagnostic::invalid("Q1001", message)
                .help("operations read slots below their own index only")
        })
    }

    /// The operations.
    pub(crate) fn finish(self) -> Vec<Operation> {
        self.operations
    }

    fn append(&mut self, operation: Operation) -> Slot {
        let slot = Slot::of(self.operations.len());
        self.operations.push(operation);
        slot
    }

    /// The last instruction of a sum, after those that add up all but three terms.
    fn sum(&mut self, terms: Vec<Term>, latency: f64) -> Result<Inst> {
        let mut terms = terms.into_iter().peekable();
        let Some(first) = terms.next() else { return Ok(Inst::Constant { value: 0 }) };
        let (mut total, mut range) = (first, self.range(first)?);
        let mut fraction = self.fraction(first);
        loop {
            let mut next = || terms.next().unwrap_or_else(|| (self.zero(), 0, false));
            let (second, third) = (next(), next());
            let inst = sum_of(total, second, third);
            if terms.peek().is_none() {
                return Ok(inst);
            }
            range = range.plus(&self.range(second)?).plus(&self.range(third)?);
            fraction = fraction.max(self.fraction(second)).max(self.fraction(third));
            let slot_type = SlotType::in_steps(&range, fraction);
            total = (self.append(Operation { inst, slot_type, latency, cost: 0.0 }), 0, false);
        }
    }

    /// A slot that holds 0.
    fn zero(&mut self) -> Slot {
        self.zero.unwrap_or_else(|| {
            let slot_type = SlotType::Interval { min: 0.0, max: 0.0, step: 1.0 };
            let inst = Inst::Constant { value: 0 };
            let slot = self.append(Operation { inst, slot_type, latency: 0.0, cost: 0.0 });
            *self.zero.insert(slot)
        })
    }

    fn kif(&self, slot: Slot) -> Kif {
        self.operations.get(slot.0 as usize).map_or(Kif::ZERO, |o| o.slot_type.kif())
    }

    /// Fraction bits of a term, whose range was found.
    fn fraction(&self, (slot, shift, _): Term) -> i32 {
        self.kif(slot).fraction.saturating_sub(shift)
    }

    /// Everything that a term can be by the type of its operand.
    fn range(&self, (slot, shift, negate): Term) -> Result<Interval> {
        let kif = self.kif(slot);
        // A hostile type must not make numbers of any size.
        let scales = -MAX_SCALE..=MAX_SCALE;
        if [shift, kif.integer, kif.fraction].iter().all(|bits| scales.contains(bits)) {
            let term = kif.interval().shifted(shift);
            return Ok(if negate { term.negated() } else { term });
        }
        let message = format!("a term of type {kif} is shifted by {shift}");
        Err(Diagnostic::invalid("Q1014", message))
    }
}

fn sum_of(
    (a, shift_a, negate_a): Term,
    (b, shift_b, negate_b): Term,
    (c, shift_c, negate_c): Term,
) -> Inst {
    Inst::Sum { a, b, c, shift_a, shift_b, shift_c, negate_a, negate_b, negate_c }
}
