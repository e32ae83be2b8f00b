//! Byte code of alkaid, which it keeps in memory and hands to its interpreter.
//! Facts: `alkaid` (`docs/bibliography.md`).
//!
//! `"ALIR"`, then 32-bit words: version, numbers of inputs, outputs, operations and tables, input
//! shifts, output indices, output shifts; a byte for each output's sign; the operations, each of its
//! own length; the tables, each with its size. All little-endian. Operations are read one after the
//! other, so that counts never allocate more than the bytes that are there.

use super::{Expander, Read, bits_of, byte_of, count, not_in_dialect, output_source, push};
use crate::isa::Dialect;
use crate::isa::alir::Lists;
use crate::program::{LookupTable, Operation, Output, Program, Slot, SlotType};
use quincunx_diag::{Diagnostic, Place, Problems, Result};
use quincunx_num::Kif;

/// The first bytes.
pub(super) const MAGIC: &[u8] = b"ALIR";

/// The version that has this form.
const VERSION: u32 = 4;

/// Bytes of an operation without slots and numbers.
const OPERATION_BYTES: usize = 8;

/// Reads byte code.
pub(super) fn read(bytes: &[u8], lenient: bool) -> std::result::Result<Read, Vec<Diagnostic>> {
    let mut reader = Reader { bytes, at: 0 };
    let mut problems = Problems::default();
    match reader.program(lenient, &mut problems) {
        Ok(program) if problems.is_empty() => {
            Ok(Read { program, dialect: Dialect::A4, warnings: Vec::new() })
        }
        Ok(_) => Err(problems.finish()),
        Err(problem) => {
            problems.push(problem);
            Err(problems.finish())
        }
    }
}

/// A position in the bytes.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Numbers of things, each of which takes some bytes.
struct Counts {
    inputs: usize,
    outputs: usize,
    operations: usize,
    tables: usize,
}

impl Reader<'_> {
    fn program(&mut self, lenient: bool, problems: &mut Problems) -> Result<Program> {
        let counts = self.header()?;
        let input_shifts = self.words(counts.inputs)?;
        let mut outputs = self.outputs(counts.outputs, lenient)?;
        let mut expander = Expander::default();
        for index in 0..counts.operations {
            let lists = self.operation()?;
            if let Err(problem) = lists.and_then(|(l, kif)| expander.push(l, kif, 0.0, 0.0)) {
                problems.push(problem.at(Place::Instruction(index)));
                expander.skip();
            }
        }
        let mut tables = Vec::new();
        for _ in 0..counts.tables {
            let size = self.count("table entries", 4)?;
            let values = self.words(size)?;
            tables.push(LookupTable { values, range: None, operand_width: None, hash: None });
        }
        if self.at < self.bytes.len() {
            let rest = self.rest();
            let message = format!("{rest} bytes follow the end of the program");
            return Err(Diagnostic::invalid("Q1051", message).at_byte(self.at as u64));
        }
        for output in &mut outputs {
            output.source = output.source.map(|slot| expander.place(slot));
        }
        Ok(Program {
            input_shifts,
            state: Vec::new(),
            outputs,
            operations: expander.finish(),
            tables,
            // Byte code has no room for the cost model.
            carry_size: -1,
            adder_size: 1,
            firmware_version: 0,
        })
    }

    fn header(&mut self) -> Result<Counts> {
        if self.take(MAGIC.len())? != MAGIC {
            let message = "byte code of alkaid begins with \"ALIR\"";
            return Err(Diagnostic::invalid("Q1052", message).at_byte(0));
        }
        let version = u32::from_le_bytes(self.array()?);
        if version != VERSION {
            let message = format!("byte code of version {version}, expected {VERSION}");
            return Err(Diagnostic::unsupported("Q1052", message).at_byte(4));
        }
        Ok(Counts {
            inputs: self.count("inputs", 4)?,
            // An output has two words and a byte.
            outputs: self.count("outputs", 9)?,
            operations: self.count("operations", OPERATION_BYTES)?,
            tables: self.count("tables", 4)?,
        })
    }

    fn outputs(&mut self, count: usize, lenient: bool) -> Result<Vec<Output>> {
        let start = self.at as u64;
        let sources = self.words(count)?;
        let shifts = self.words(count)?;
        let signs = self.take(count)?;
        let mut outputs = Vec::with_capacity(count);
        for (index, ((source, shift), &sign)) in sources.iter().zip(shifts).zip(signs).enumerate() {
            let source = output_source(index, (*source).into())
                .map_err(|problem| problem.at_byte(byte_of(start, index)))?;
            if sign > 1 && !lenient {
                let message = format!("the sign of output {index} is {sign}, expected 0 or 1");
                return Err(Diagnostic::invalid("Q1054", message));
            }
            outputs.push(Output { source, shift, negate: sign != 0 });
        }
        Ok(outputs)
    }

    /// An operation. The outer error is one of the length, the inner one of the operation.
    fn operation(&mut self) -> Result<Result<(Lists, SlotType)>> {
        let [opcode, signed, integer, fraction] = self.array()?;
        let slots = usize::from(u16::from_le_bytes(self.array()?));
        let numbers = usize::from(u16::from_le_bytes(self.array()?));
        let addr = self.take(slots.saturating_mul(4))?.as_chunks().0;
        let addr = addr.iter().map(|word| Slot(u32::from_le_bytes(*word))).collect();
        let data = self.take(numbers.saturating_mul(8))?.as_chunks().0;
        let data = data.iter().map(|word| i64::from_le_bytes(*word)).collect();
        if signed > 1 {
            let message = format!("the sign byte of the type is {signed}, expected 0 or 1");
            return Ok(Err(Diagnostic::invalid("Q1054", message)));
        }
        let bits = |byte: u8| i32::from(byte.cast_signed());
        let kif = Kif::new(signed == 1, bits(integer), bits(fraction));
        let opcode = bits(opcode);
        Ok(Ok((Lists { opcode, addr, data }, SlotType::Kif(kif))))
    }

    /// A count of things that take at least `size` bytes each.
    fn count(&mut self, what: &str, size: usize) -> Result<usize> {
        let at = self.at;
        let count = u32::from_le_bytes(self.array()?) as usize;
        let room = self.rest().checked_div(size).unwrap_or(0);
        if count <= room {
            return Ok(count);
        }
        let message = format!("the number of {what} is {count}, at most {room} fit the file");
        Err(Diagnostic::invalid("Q1051", message).at_byte(at as u64))
    }

    fn words(&mut self, count: usize) -> Result<Vec<i32>> {
        let words = self.take(count.saturating_mul(4))?.as_chunks().0;
        Ok(words.iter().map(|word| i32::from_le_bytes(*word)).collect())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// Bytes that are left.
    fn rest(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    fn take(&mut self, count: usize) -> Result<&[u8]> {
        let end = self.at.checked_add(count).filter(|&end| end <= self.bytes.len());
        let Some(end) = end else {
            let rest = self.rest();
            let message = format!("the byte code ends within what takes {count} bytes");
            return Err(Diagnostic::invalid("Q1051", message)
                .at_byte(self.at as u64)
                .with_note(format!("{rest} bytes are left")));
        };
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }
}

/// Writes byte code.
pub(super) fn write(program: &Program) -> Result<Vec<u8>> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&VERSION.to_le_bytes());
    push(&mut out, count(program.input_shifts.len(), "number of inputs")?);
    push(&mut out, count(program.outputs.len(), "number of outputs")?);
    push(&mut out, count(program.operations.len(), "number of operations")?);
    push(&mut out, count(program.tables.len(), "number of tables")?);
    program.input_shifts.iter().for_each(|&shift| push(&mut out, shift));
    for output in &program.outputs {
        let source = output.source.map_or(Ok(-1), |slot| count(slot.0 as usize, "output index"))?;
        push(&mut out, source);
    }
    program.outputs.iter().for_each(|output| push(&mut out, output.shift));
    out.extend(program.outputs.iter().map(|output| u8::from(output.negate)));
    for (index, operation) in program.operations.iter().enumerate() {
        let written = write_operation(operation, &mut out);
        written.map_err(|problem| problem.at(Place::Instruction(index)))?;
    }
    for table in &program.tables {
        push(&mut out, count(table.values.len(), "number of table entries")?);
        table.values.iter().for_each(|&value| push(&mut out, value));
    }
    Ok(out)
}

fn write_operation(operation: &Operation, out: &mut Vec<u8>) -> Result<()> {
    if !Dialect::A4.has(operation.inst) {
        return Err(not_in_dialect(operation.inst, Dialect::A4));
    }
    let kif = bits_of(operation.slot_type)?;
    let lists = Lists::of(operation.inst, kif.fraction)?;
    let byte = |bits: i32| {
        i8::try_from(bits).map(i8::cast_unsigned).map_err(|_| {
            let message = format!("byte code cannot express type {kif}");
            Diagnostic::unsupported("Q1057", message).help("bits are -128..=127")
        })
    };
    out.extend([byte(lists.opcode)?, u8::from(kif.signed)]);
    out.extend([byte(kif.integer)?, byte(kif.fraction)?]);
    for length in [lists.addr.len(), lists.data.len()] {
        out.extend(u16::try_from(length).expect("an instruction has few operands").to_le_bytes());
    }
    lists.addr.iter().for_each(|slot| out.extend(slot.0.to_le_bytes()));
    lists.data.iter().for_each(|number| out.extend(number.to_le_bytes()));
    Ok(())
}
