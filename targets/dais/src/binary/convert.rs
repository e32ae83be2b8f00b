//! From one dialect to another: what a dialect cannot say in one instruction becomes several, what
//! it cannot say at all is an error. Facts: `da4ml`, `alkaid` (`docs/bibliography.md`).
//!
//! Every output of the result is the output of the program, bit for bit, on every input; results
//! that leave their types are no exception, since they stay as they are in all dialects.

mod from_alir;
mod to_alir;

use super::{Dialect, not_in_dialect};
use crate::isa::Inst;
use crate::program::{Operation, Program, Slot, SlotType};
use crate::verify::ranges::{Range, Ranges};
use crate::verify::{Rules, verify};
use from_alir::Negation;
use quincunx_diag::{Place, Result, first_error};
use quincunx_num::{Int, Interval, Kif};

/// A program in another dialect.
#[derive(Clone, Debug)]
pub struct Converted {
    /// The program, with instructions of the dialect only.
    pub program: Program,
    /// Where the value of each old slot is: a new slot, and whether that holds the negated value.
    pub moved: Vec<(Slot, bool)>,
}

/// The program with instructions of `dialect` only. One that has no others stays as it is.
///
/// alkaid negates operands by an instruction of its own: it is inserted, and folded back into the
/// instructions that read it or written as a negated quantiser. Sums of three become additions,
/// constants and quantisers with a scale of their own become steps that da4ml has.
///
/// # Errors
/// `Q1005` for an instruction that the dialect has no form of (tables in `d0`, bit operations before
/// `d1`), and the first error of [`verify`].
pub fn convert(program: &Program, dialect: Dialect) -> Result<Converted> {
    let foreign = |operation: &Operation| !dialect.has(operation.inst);
    if !program.operations.iter().any(foreign) {
        let slots = (0..program.operations.len()).map(Slot::of);
        let moved = slots.map(|slot| (slot, false)).collect();
        return Ok(Converted { program: program.clone(), moved });
    }
    first_error(verify(program, &Rules::EXECUTABLE))?;
    let mut converter = Converter::new(program);
    for (index, operation) in program.operations.iter().enumerate() {
        let place = |problem: quincunx_diag::Diagnostic| problem.at(Place::Instruction(index));
        if needs_newer(operation.inst, dialect) {
            return Err(place(not_in_dialect(operation.inst, dialect)));
        }
        match dialect {
            Dialect::A4 => converter.write_alkaid(operation),
            _ => converter.write_da4ml(index, operation),
        }
    }
    Ok(converter.finish())
}

/// True for instructions that an older dialect of da4ml has no form of.
fn needs_newer(inst: Inst, dialect: Dialect) -> bool {
    let minimum = inst.facts().dialect;
    minimum != Dialect::A4 && minimum > dialect
}

/// A program that is being written.
struct Converter<'a> {
    program: &'a Program,
    operations: Vec<Operation>,
    /// What is known of each old slot.
    known: Vec<Known>,
    /// Ranges of the old slots.
    ranges: Vec<Range>,
    /// No result leaves its type, so that values lie in the ranges.
    is_sound: bool,
    /// A new slot that holds 0.
    zero: Option<Slot>,
    /// New slots that hold the negated value of old ones.
    negated: Vec<Option<Slot>>,
}

/// Where the value of an old slot is.
#[derive(Clone, Copy)]
enum Known {
    At(Slot),
    /// Nowhere yet: it is the negation of a new slot, which readers may be able to say themselves.
    Pending(Negation),
}

impl<'a> Converter<'a> {
    fn new(program: &'a Program) -> Converter<'a> {
        let Ranges { slots: ranges, overflows } = Ranges::of_any_input(program);
        Converter {
            program,
            operations: Vec::with_capacity(program.operations.len()),
            known: Vec::with_capacity(program.operations.len()),
            ranges,
            is_sound: overflows.is_empty(),
            zero: None,
            negated: vec![None; program.operations.len()],
        }
    }

    fn finish(mut self) -> Converted {
        let outputs = self.program.outputs.clone();
        let outputs = outputs.into_iter().map(|mut output| {
            if let Some(source) = output.source {
                let (slot, negate) = self.signed(source);
                output.source = Some(slot);
                output.negate ^= negate;
            }
            output
        });
        let outputs = outputs.collect();
        let slots = (0..self.known.len()).map(Slot::of);
        let moved = slots.map(|slot| self.signed(slot)).collect();
        let operations = self.operations;
        Converted { program: Program { operations, outputs, ..self.program.clone() }, moved }
    }

    /// Adds an operation that has the place of an old one.
    fn replace(&mut self, operation: &Operation, inst: Inst) {
        let slot = self.push(Operation { inst, ..operation.clone() });
        self.known.push(Known::At(slot));
    }

    /// Adds an operation that no old one is.
    fn insert(&mut self, inst: Inst, slot_type: SlotType, like: &Operation) -> Slot {
        self.push(Operation { inst, slot_type, latency: like.latency, cost: 0.0 })
    }

    fn push(&mut self, operation: Operation) -> Slot {
        let slot = Slot::of(self.operations.len());
        self.operations.push(operation);
        slot
    }

    /// True when an old slot holds only 0.
    fn is_zero(&self, slot: Slot) -> bool {
        let Range { low, high } = &self.ranges[slot.0 as usize];
        self.is_sound && low == &Int::ZERO && high == &Int::ZERO
    }

    /// The type of an old slot.
    fn kif(&self, slot: Slot) -> Kif {
        self.program.operations[slot.0 as usize].slot_type.kif()
    }

    /// A new slot that holds 0.
    fn zero(&mut self) -> Slot {
        if let Some(slot) = self.zero {
            return slot;
        }
        let slot_type = SlotType::Interval { min: 0.0, max: 0.0, step: 1.0 };
        let inst = Inst::Constant { value: 0 };
        let zero = self.push(Operation { inst, slot_type, latency: 0.0, cost: 0.0 });
        *self.zero.insert(zero)
    }
}

/// The type of a range in units of `2^-fraction`, which keeps that step.
fn type_of(range: &Range, fraction: i32) -> SlotType {
    let interval = Interval::new(range.low.clone(), range.high.clone(), fraction.saturating_neg());
    SlotType::in_steps(&interval, fraction)
}
