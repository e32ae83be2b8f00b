//! Writing JSON, byte for byte as da4ml does: no blanks, floats as Python prints them.

use super::json::python_float;
use super::{Pipeline, fraction_of_step, fsm, has_unsigned_data, natural_pad};
use crate::binary::{no_registers, not_in_dialect};
use crate::isa::alir::Lists;
use crate::isa::{self, Dialect, Fields, Inst, UnaryBits};
use crate::program::{LookupTable, Operation, Program, Slot, SlotType, places};
use crate::verify::ranges::Ranges;
use crate::verify::{Rules, is_aligned, mux_shifts, verify};
use quincunx_diag::{Diagnostic, Place, Result, any_error};
use quincunx_num::{Dyadic, Int, Interval};
use sha2::{Digest, Sha256};
use std::fmt::{Display, Write as _};

/// Writes a program as da4ml's `CombLogic` does.
///
/// # Errors
/// `Q1005` for an instruction that da4ml does not have, `Q1057` for registers, `Q1065` for a type that no float interval expresses, `Q1066` for a lookup whose table does not
/// begin at the lowest value of the operand, `Q1067` for a table whose step is not known.
pub fn write_json(program: &Program) -> Result<String> {
    no_registers(program, "JSON of da4ml")?;
    let mut out = String::new();
    Writer::new(program, Dialect::D1)?.program(&mut out)?;
    Ok(out)
}

/// Writes a pipeline as da4ml's `Pipeline` does.
///
/// # Errors
/// As [`write_json`].
pub fn write_pipeline_json(pipeline: &Pipeline) -> Result<String> {
    let stages: Vec<String> = pipeline.stages.iter().map(write_json).collect::<Result<_>>()?;
    Ok(format!("[[{}]]", stages.join(",")))
}

/// Writes a program as alkaid does, in version 4 of its format.
///
/// # Errors
/// `Q1005` for an instruction that alkaid does not have; as [`write_json`] otherwise.
pub fn write_alir_json(program: &Program) -> Result<String> {
    no_registers(program, "an ALIRModel")?;
    let mut out = String::from("{\"model\":");
    Writer::new(program, Dialect::A4)?.program(&mut out)?;
    out.push_str(",\"meta\":\"ALIRModel\",\"spec_version\":4}");
    Ok(out)
}

/// Writes a pipeline as alkaid's `to_pipeline` does, in version 4 of its format, or a program with
/// registers as its `FSM` does.
///
/// # Errors
/// As [`write_alir_json`].
pub fn write_alir_pipeline_json(pipeline: &Pipeline) -> Result<String> {
    let write = |stage: &Program| {
        let mut out = String::new();
        Writer::new(stage, Dialect::A4)?.program(&mut out)?;
        Ok(out)
    };
    let stages: Vec<String> = pipeline.stages.iter().map(write).collect::<Result<_>>()?;
    let fsm = match (&pipeline.stages[..], &stages[..]) {
        ([program], [written]) if !program.state.is_empty() => fsm::write_machine(program, written),
        _ => fsm::write(pipeline, &stages),
    };
    Ok(format!("{{\"meta\":\"ALIRFSM\",\"spec_version\":4,\"fsm\":{fsm}}}"))
}

struct Writer<'a> {
    program: &'a Program,
    /// D1 or A4.
    dialect: Dialect,
    /// The types as they are written: intervals, tightened where a lookup needs it.
    types: Vec<SlotType>,
}

impl<'a> Writer<'a> {
    fn new(program: &'a Program, dialect: Dialect) -> Result<Writer<'a>> {
        let mut types = Vec::with_capacity(program.operations.len());
        for (index, operation) in program.operations.iter().enumerate() {
            let slot_type = float_interval(operation.slot_type);
            types.push(slot_type.map_err(|problem| problem.at(Place::Instruction(index)))?);
        }
        keep_steps_of_zeros(program)?;
        let mut writer = Writer { program, dialect, types };
        let lookups = program.operations.iter().enumerate().filter_map(|(index, operation)| {
            let Inst::Lookup { x, table, pad } = operation.inst else { return None };
            let length = program.tables.get(table.0 as usize).map_or(0, |t| t.values.len());
            Some((index, x, pad, length))
        });
        let at = |index| move |problem: Diagnostic| problem.at(Place::Instruction(index));
        for (index, x, pad, length) in lookups.clone() {
            writer.narrow(x, pad, length).map_err(at(index))?;
        }
        for (index, x, pad, _) in lookups {
            writer.check_pad(x, pad).map_err(at(index))?;
        }
        Ok(writer)
    }

    /// Narrows the operand of a lookup to the values that its table has, if its type is given by its
    /// bits, which it must keep: in JSON an interval says which entries are read, and entry 0 belongs
    /// to its lowest value.
    fn narrow(&mut self, x: Slot, pad: i32, length: usize) -> Result<()> {
        let index = x.0 as usize;
        let unknown = || Diagnostic::unsupported("Q1066", "the lookup has no operand");
        let operation = self.program.operations.get(index).ok_or_else(unknown)?;
        let SlotType::Kif(kif) = operation.slot_type else { return Ok(()) };
        let written = self.types[index].interval().unwrap_or_else(Interval::zero);
        let first: Int = kif.range().0 + Int::from(pad);
        let end = &first + Int::from(length);
        let (low, high) = (first.max(written.low().clone()), end.min(written.high() + Int::ONE));
        if low < high {
            let narrow =
                SlotType::of_interval(&Interval::new(low, high - Int::ONE, kif.exponent()));
            if narrow.kif() == kif {
                self.types[index] = narrow;
                return Ok(());
            }
        }
        let message =
            format!("JSON cannot express a lookup with pad {pad} in {length} entries here");
        Err(Diagnostic::unsupported("Q1066", message)
            .with_note(format!("the values that have entries do not fill type {kif}")))
    }

    /// Makes sure that a reader finds the pad of a lookup.
    fn check_pad(&self, x: Slot, pad: i32) -> Result<()> {
        if self.types.get(x.0 as usize).and_then(|t| natural_pad(*t)) == Some(pad) {
            return Ok(());
        }
        let message = format!("JSON cannot express a lookup with pad {pad} here");
        Err(Diagnostic::unsupported("Q1066", message)
            .with_note("entry 0 must belong to the lowest value of the operand"))
    }

    fn program(&self, out: &mut String) -> Result<()> {
        let program = self.program;
        let (inputs, outputs) = (program.input_shifts.len(), program.outputs.len());
        // Writing to a string cannot fail.
        let _ = write!(out, "[[{inputs},{outputs}],");
        list(out, &program.input_shifts);
        out.push(',');
        list(out, program.outputs.iter().map(|o| o.source.map_or(-1, |slot| i64::from(slot.0))));
        out.push(',');
        list(out, program.outputs.iter().map(|output| output.shift));
        out.push(',');
        list(out, program.outputs.iter().map(|output| output.negate));
        out.push_str(",[");
        for (index, operation) in program.operations.iter().enumerate() {
            out.push_str(if index == 0 { "" } else { "," });
            let written = self.operation(operation, self.types[index], out);
            written.map_err(|problem| problem.at(Place::Instruction(index)))?;
        }
        let _ = write!(out, "],{},{},", program.carry_size, program.adder_size);
        self.tables(out)?;
        out.push(']');
        Ok(())
    }

    fn operation(
        &self,
        operation: &Operation,
        slot_type: SlotType,
        out: &mut String,
    ) -> Result<()> {
        if !self.dialect.has(operation.inst) {
            return Err(not_in_dialect(operation.inst, self.dialect));
        }
        // The pad is left to the reader.
        let inst = match operation.inst {
            Inst::Lookup { x, table, .. } => Inst::Lookup { x, table, pad: 0 },
            inst => inst,
        };
        match self.dialect {
            Dialect::A4 => lists(inst, slot_type, out)?,
            _ => words(inst, out)?,
        }
        out.push_str(",[");
        if let SlotType::Interval { min, max, step } = slot_type {
            floats(out, &[min, max, step]);
        }
        out.push_str("],");
        floats(out, &[operation.latency, operation.cost]);
        out.push(']');
        Ok(())
    }

    fn tables(&self, out: &mut String) -> Result<()> {
        if self.program.tables.is_empty() {
            out.push_str("null");
            return Ok(());
        }
        out.push('[');
        for (index, table) in self.program.tables.iter().enumerate() {
            out.push_str(if index == 0 { "" } else { "," });
            self.table(index, table, out)?;
        }
        out.push(']');
        Ok(())
    }

    fn table(&self, index: usize, table: &LookupTable, out: &mut String) -> Result<()> {
        let lookup = self.first_lookup(index);
        let unknown = || {
            Diagnostic::unsupported("Q1067", format!("the step of table {index} is not known"))
                .help("JSON files declare the range of every table")
        };
        let (min, max, step) = match (table.range, lookup) {
            (Some(range), _) => range,
            (None, Some((_, result))) => observed_range(table, result).ok_or_else(unknown)?,
            (None, None) => return Err(unknown()),
        };
        let hash = match (fraction_of_step(step), &table.hash) {
            (Some(fraction), _) => hash(table, fraction),
            // A table of zeros may have any step, and then only its writer knows the hash.
            (None, Some(declared)) => declared.clone(),
            (None, None) => return Err(unknown()),
        };
        let operand = lookup.map_or(0, |(operand, _)| operand.kif().width());
        let width = table.operand_width.unwrap_or(operand);
        let hash = serde_json::Value::from(hash);
        let _ = write!(out, "{{\"spec\":{{\"hash\":{hash},\"out_qint\":{{\"min\":");
        for (value, next) in [(min, ",\"max\":"), (max, ",\"step\":"), (step, "},")] {
            out.push_str(&python_float(value));
            out.push_str(next);
        }
        let _ = write!(out, "\"inp_width\":{width}}},\"table\":");
        list(out, &table.values);
        out.push('}');
        Ok(())
    }

    /// The types of operand and result of the first lookup in a table.
    fn first_lookup(&self, wanted: usize) -> Option<(SlotType, SlotType)> {
        let lookups = self.program.operations.iter().zip(&self.types);
        lookups.into_iter().find_map(|(operation, &result)| match operation.inst {
            Inst::Lookup { x, table, .. } if table.0 as usize == wanted => {
                Some((*self.types.get(x.0 as usize)?, result))
            }
            _ => None,
        })
    }
}

/// `[id0,id1,opcode,data`.
fn words(inst: Inst, out: &mut String) -> Result<()> {
    let Fields { opcode, id0, id1, data } = Fields::of_word(&isa::encode(inst)?);
    let _ = write!(out, "[{id0},{id1},{opcode},");
    let _ = if has_unsigned_data(inst) {
        write!(out, "{}", data.cast_unsigned())
    } else {
        write!(out, "{data}")
    };
    Ok(())
}

/// `[[slots],opcode,[numbers]`.
fn lists(inst: Inst, slot_type: SlotType, out: &mut String) -> Result<()> {
    let Lists { opcode, addr, mut data } = Lists::of(inst, slot_type.kif().fraction)?;
    if matches!(inst, Inst::Lookup { .. }) {
        // The pad.
        data.pop();
    }
    out.push('[');
    list(out, addr.iter().map(|slot| slot.0));
    let _ = write!(out, ",{opcode},");
    list(out, data);
    Ok(())
}

/// A type without bits has a sign and a step that its interval `[0, 0]` does not show. They matter to
/// bit operations, whose result has the finer step, and as the result of a mux, which must not shift
/// both branches.
fn keep_steps_of_zeros(program: &Program) -> Result<()> {
    let kif = |slot: Slot| program.operations.get(slot.0 as usize).map(|o| o.slot_type.kif());
    let changes = |slot| kif(slot).is_some_and(|k| k.width() == 0 && k.fraction != 0);
    for (index, operation) in program.operations.iter().enumerate() {
        // A program has no more operations than slots have numbers.
        let own = Slot::of(index);
        let lost = match operation.inst {
            Inst::Bitwise { a, b, .. } => changes(a) || changes(b),
            Inst::Mux { when_set, when_clear, shift, .. }
            | Inst::MuxNegated { when_set, when_clear, shift, .. }
                if changes(own) =>
            {
                let branches = kif(when_set).zip(kif(when_clear));
                branches.is_some_and(|(a, b)| !is_aligned(mux_shifts(a, b, shift, places(0))))
            }
            // Without a sign an inversion is cut off.
            Inst::Bits { op: UnaryBits::Not, .. }
            | Inst::BitsNegated { op: UnaryBits::Not, .. } => {
                kif(own).is_some_and(|k| k.signed && k.width() == 0)
            }
            _ => false,
        };
        if lost {
            let message = "JSON cannot express the sign or step of a type without bits";
            return Err(lost_step(message, index));
        }
    }
    keep_steps_of_results(program)
}

fn lost_step(message: &str, index: usize) -> Diagnostic {
    let problem = Diagnostic::unsupported("Q1065", message).at(Place::Instruction(index));
    problem.help("write the binary or the text form")
}

/// What does not quantise keeps more than a type without bits holds: in steps that JSON does not
/// show. Where such a result is proved to be 0, it stays so in a coarser step, if no constant is
/// counted in it.
fn keep_steps_of_results(program: &Program) -> Result<()> {
    let fraction = |operation: &Operation| {
        let kif = operation.slot_type.kif();
        let hides = kif.width() == 0 && kif.fraction != 0 && !operation.inst.facts().quantises;
        hides.then_some(kif.fraction)
    };
    let mut hidden = program.operations.iter().enumerate().filter(|(_, o)| fraction(o).is_some());
    let Some((first, _)) = hidden.clone().next() else { return Ok(()) };
    if any_error(&verify(program, &Rules::EXECUTABLE)) {
        return Ok(());
    }
    let is_lost = |operation: &Operation| match operation.inst {
        Inst::AddConstant { value, .. } if value != 0 => true,
        _ => fraction(operation).is_some_and(|fraction| fraction < 0),
    };
    let lost = hidden.find(|(_, operation)| is_lost(operation)).map(|(index, _)| index);
    let is_sound = || Ranges::of_any_input(program).overflows.is_empty();
    match lost.or_else(|| (!is_sound()).then_some(first)) {
        Some(index) => {
            Err(lost_step("JSON cannot express the step of a result without bits", index))
        }
        None => Ok(()),
    }
}

/// The interval form of a type, which JSON files hold.
fn float_interval(slot_type: SlotType) -> Result<SlotType> {
    let SlotType::Kif(kif) = slot_type else { return Ok(slot_type) };
    let unfit = || {
        let message = format!("no interval of floats expresses type {kif}");
        Diagnostic::unsupported("Q1065", message).help("write the binary or the text form")
    };
    // Wider types are never floats, and their bounds would take much memory.
    if kif.width() > 64 {
        return Err(unfit());
    }
    // Zero has any step, and 2^-fraction may not be a float.
    if kif.width() == 0 {
        return Ok(SlotType::Interval { min: 0.0, max: 0.0, step: 1.0 });
    }
    let interval = kif.interval();
    let (min, max) = (interval.min().to_f64(), interval.max().to_f64());
    // The max of a type of more than 53 bits is rounded, as the tools do; see `SlotType::interval`.
    let written =
        SlotType::Interval { min, max, step: Dyadic::new(Int::ONE, kif.exponent()).to_f64() };
    if written.kif() == kif { Ok(written) } else { Err(unfit()) }
}

/// Lowest and highest entry in the step of the result.
fn observed_range(table: &LookupTable, result: SlotType) -> Option<(f64, f64, f64)> {
    let exponent = result.kif().exponent();
    let (low, high) = (*table.values.iter().min()?, *table.values.iter().max()?);
    match SlotType::of_interval(&Interval::new(low.into(), high.into(), exponent)) {
        SlotType::Interval { min, max, step } => Some((min, max, step)),
        SlotType::Kif(_) => None,
    }
}

/// SHA-256 over the entries as little-endian words and the number of fraction bits in decimal.
fn hash(table: &LookupTable, fraction: i32) -> String {
    let mut hasher = Sha256::new();
    for value in &table.values {
        hasher.update(value.to_le_bytes());
    }
    hasher.update(fraction.to_string());
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn list<T: Display>(out: &mut String, items: impl IntoIterator<Item = T>) {
    out.push('[');
    for (index, item) in items.into_iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(out, "{comma}{item}");
    }
    out.push(']');
}

fn floats(out: &mut String, values: &[f64]) {
    for (index, &value) in values.iter().enumerate() {
        out.push_str(if index == 0 { "" } else { "," });
        out.push_str(&python_float(value));
    }
}
