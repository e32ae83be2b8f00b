//! Machine code: little-endian 32-bit words, and the byte code of alkaid. Facts: `da4ml`, `alkaid`
//! (`docs/bibliography.md`).
//!
//! Counts in a header are compared with the length of the file before anything is allocated, so a
//! hostile file costs no more memory than a small multiple of its own size.

mod bytecode;
mod convert;
mod sums;

pub use crate::isa::Dialect;
pub use convert::{Converted, convert};
pub(crate) use sums::Expander;

use crate::isa::{self, Inst};
use crate::program::{LookupTable, Operation, Output, Program, Slot, SlotType};
use crate::verify::{Rules, interval_problem, verify};
use quincunx_diag::{Diagnostic, Place, Problems, Result, any_error};
use quincunx_isa::Bits;
use quincunx_num::{Int, Kif, bit_length};
use std::cmp::Ordering;

/// Bytes of an operation in every dialect.
const OPERATION_BYTES: usize = 32;

/// How to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// The dialect, where it is known; guessed otherwise.
    pub dialect: Option<Dialect>,
    /// Unused fields that do not have their rest value are warnings instead of errors.
    pub lenient: bool,
}

/// A program that was read.
#[derive(Clone, Debug)]
pub struct Read {
    /// The program; [`verify`] says whether it is legal.
    pub program: Program,
    /// Its dialect.
    pub dialect: Dialect,
    /// What a lenient reading passed over.
    pub warnings: Vec<Diagnostic>,
}

/// Reads machine code.
///
/// Without a dialect in the options, D1 is tried first, then D0. A file whose length fits both is
/// taken as D1 if only that makes a legal program. Byte code of alkaid is known by its first bytes.
/// Which data word of D0 is the first is what makes a legal program, or else one with fewer findings
/// of [`verify`], or with smaller constants and shifts; `Q1059` says so where it is the high word,
/// or where nothing but these decides; the low word if they do not.
///
/// # Errors
/// `Q1051` when the length fits no dialect or not the header, `Q1052` for an unknown version,
/// `Q1053` for a count below 0, `Q1054` for a sign word that is not 0 or 1, `Q1055` for an output
/// index below -1, `Q1056` when the dialect cannot be told, `Q1005` for an instruction that the
/// dialect does not have, `Q1091` and `Q1092` for malformed operations of alkaid, and what the
/// instruction table says about malformed instructions.
pub fn read(bytes: &[u8], options: &ReadOptions) -> std::result::Result<Read, Vec<Diagnostic>> {
    let is_byte_code = options.dialect.is_none() && bytes.starts_with(bytecode::MAGIC);
    if is_byte_code || options.dialect == Some(Dialect::A4) {
        return bytecode::read(bytes, options.lenient);
    }
    let words = Words::new(bytes).map_err(|problem| vec![problem])?;
    let found = match options.dialect {
        Some(dialect) => Header::read(&words, dialect).map(|header| (header, None)),
        None => detect(&words),
    };
    let (header, order) = found.map_err(|problem| vec![problem])?;
    let mut read = read_body(&words, &header, options.lenient)?;
    read.warnings.extend(order);
    Ok(read)
}

/// True when the bytes begin as byte code of alkaid does, or have the length that their header
/// announces in any other dialect.
pub fn recognises(bytes: &[u8]) -> bool {
    if bytes.starts_with(bytecode::MAGIC) {
        return true;
    }
    let fits = |words: Words<'_>| {
        [Dialect::D1, Dialect::D0].iter().any(|&dialect| Header::read(&words, dialect).is_ok())
    };
    Words::new(bytes).is_ok_and(fits)
}

/// The words of a file.
#[derive(Clone, Copy)]
struct Words<'a>(&'a [[u8; 4]]);

impl<'a> Words<'a> {
    fn new(bytes: &'a [u8]) -> Result<Words<'a>> {
        match bytes.as_chunks() {
            (words, []) => Ok(Words(words)),
            _ => {
                let found = bytes.len();
                let message = format!("the file has {found} bytes, not a whole number of words");
                Err(Diagnostic::invalid("Q1051", message).at_byte(found as u64))
            }
        }
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, index: usize) -> Option<i32> {
        self.0.get(index).map(|word| i32::from_le_bytes(*word))
    }

    /// Takes the next `count` words, which the header has been checked to announce.
    fn take(&mut self, count: usize) -> Words<'a> {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        Words(taken)
    }

    fn iter(&self) -> impl Iterator<Item = i32> + use<'a> {
        self.0.iter().map(|word| i32::from_le_bytes(*word))
    }
}

/// The byte at which word `index` behind byte `start` begins.
fn byte_of(start: u64, index: usize) -> u64 {
    start.saturating_add((index as u64).saturating_mul(4))
}

/// What the header of a file says; all counts fit the length of the file.
#[derive(Clone)]
struct Header {
    dialect: Dialect,
    firmware_version: i32,
    /// Number of the word that follows the header.
    start: usize,
    inputs: usize,
    outputs: usize,
    operations: usize,
    table_sizes: Vec<usize>,
}

impl Header {
    fn read(words: &Words<'_>, dialect: Dialect) -> Result<Header> {
        let (dialect, start) =
            if dialect.has_version() { (version(words, dialect)?, 6) } else { (dialect, 3) };
        if words.len() < start {
            return Err(too_short(dialect, start, words.len()));
        }
        let count = |index: usize, what: &str| {
            let word = words.get(index).expect("the header is there");
            usize::try_from(word).map_err(|_| {
                Diagnostic::invalid("Q1053", format!("the number of {what} is {word}"))
                    .at_byte(byte_of(0, index))
            })
        };
        let (counts, firmware) =
            if dialect.has_version() { ([2, 3, 4], words.get(1)) } else { ([0, 1, 2], None) };
        let mut header = Header {
            dialect,
            firmware_version: firmware.unwrap_or(0),
            start,
            inputs: count(counts[0], "inputs")?,
            outputs: count(counts[1], "outputs")?,
            operations: count(counts[2], "operations")?,
            table_sizes: Vec::new(),
        };
        let mut expected = header.end_of_operations();
        if dialect.has_version() {
            let tables = count(5, "tables")?;
            expected = expected.saturating_add(tables);
            if expected <= words.len() {
                let first = header.end_of_operations();
                let sizes = (first..).take(tables).map(|index| count(index, "table entries"));
                header.table_sizes = sizes.collect::<Result<_>>()?;
                let entries = header.table_sizes.iter().fold(0, |a: usize, &b| a.saturating_add(b));
                expected = expected.saturating_add(entries);
            }
        }
        if expected == words.len() { Ok(header) } else { Err(header.wrong_length(expected, words)) }
    }

    /// Number of the word after the last operation.
    fn end_of_operations(&self) -> usize {
        let outputs = self.outputs.saturating_mul(3);
        let operations = self.operations.saturating_mul(OPERATION_BYTES / 4);
        [self.inputs, outputs, operations].into_iter().fold(self.start, usize::saturating_add)
    }

    fn wrong_length(&self, expected: usize, words: &Words<'_>) -> Diagnostic {
        let (name, found) = (self.dialect.name(), words.len());
        let message =
            format!("the header of {name} announces {expected} words, the file has {found}");
        Diagnostic::invalid("Q1051", message)
            .at_byte(byte_of(0, found))
            .with_note(format!(
                "{} inputs, {} outputs, {} operations",
                self.inputs, self.outputs, self.operations
            ))
            .help(if found < expected { "the file is truncated" } else { "bytes follow the end" })
    }
}

fn version(words: &Words<'_>, dialect: Dialect) -> Result<Dialect> {
    match words.get(0) {
        Some(0) => Ok(Dialect::D1Version0),
        Some(1) if dialect == Dialect::D1 => Ok(Dialect::D1),
        Some(other) => {
            let expected = if dialect == Dialect::D1 { "0 or 1" } else { "0" };
            let message = format!("the specification version is {other}, expected {expected}");
            Err(Diagnostic::invalid("Q1052", message).at_byte(0))
        }
        None => Err(too_short(dialect, 6, 0)),
    }
}

fn too_short(dialect: Dialect, expected: usize, found: usize) -> Diagnostic {
    let name = dialect.name();
    let message = format!("the header of {name} has {expected} words, the file has {found}");
    Diagnostic::invalid("Q1051", message).at_byte(byte_of(0, found))
}

/// Finds the dialect by the length that each header announces; with a remark on the order of data
/// words.
fn detect(words: &Words<'_>) -> Result<(Header, Option<Diagnostic>)> {
    match (Header::read(words, Dialect::D1), Header::read(words, Dialect::D0)) {
        (Ok(d1), Err(_)) => Ok((d1, None)),
        (Err(_), Ok(d0)) => Ok(word_order(words, d0)),
        (Ok(d1), Ok(d0)) if legal(words, &d1).is_some() && orders(words, &d0) == [None, None] => {
            Ok((d1, None))
        }
        (Ok(d1), Ok(_)) => {
            let names = format!("{} and {}", d1.dialect.name(), Dialect::D0.name());
            let message = format!("the length fits the headers of both {names}");
            let help = "say which with --set dialect=NAME";
            Err(Diagnostic::invalid("Q1056", message).help(help))
        }
        (Err(d1), Err(d0)) => Err(d1.with_note(format!("as d0: {}", d0.message()))),
    }
}

/// The legal program that a file is with a header.
fn legal(words: &Words<'_>, header: &Header) -> Option<Program> {
    let rules = Rules { values: false, ..Rules::default() };
    let program = read_body(words, header, true).ok()?.program;
    (!any_error(&verify(&program, &rules))).then_some(program)
}

/// The legal programs that a file of D0 is with the low and with the high data word first.
fn orders(words: &Words<'_>, d0: &Header) -> [Option<Program>; 2] {
    [Dialect::D0, Dialect::D0Doc].map(|dialect| legal(words, &Header { dialect, ..d0.clone() }))
}

/// Decides which data word comes first, by what the program means in each order.
fn word_order(words: &Words<'_>, d0: Header) -> (Header, Option<Diagnostic>) {
    let doc = Header { dialect: Dialect::D0Doc, ..d0.clone() };
    let order = |which: &str, reason: &str| {
        let message = format!("the {which} data word is taken to come first: {reason}");
        let help = "--set dialect=d0 (low word first) or d0-doc (high word first) decides";
        Some(Diagnostic::warning("Q1059", message).help(help))
    };
    let (low, high) = match orders(words, &d0) {
        [None, Some(_)] => {
            let reason = "only so the program is legal (dialect d0-doc)";
            return (doc, order("high", reason));
        }
        [Some(low), Some(high)] if low != high => (low, high),
        _ => return (d0, None),
    };
    let findings = |program| verify(program, &Rules::default()).len();
    let bits = |program: &Program| -> u64 {
        let bits = |operation: &Operation| match operation.inst {
            Inst::Mux { shift, .. } | Inst::MuxNegated { shift, .. } => i64::from(shift),
            Inst::Add { shift, .. } | Inst::Sub { shift, .. } => shift,
            Inst::AddConstant { value, .. } | Inst::Constant { value } => value,
            _ => 0,
        };
        let bits = |operation| u64::from(bit_length(&Int::from(bits(operation))));
        program.operations.iter().map(bits).sum()
    };
    let fewer = "so the program has fewer findings (dialect d0-doc)";
    let smaller = "so constants and shifts are smaller";
    match (findings(&low).cmp(&findings(&high)), bits(&low).cmp(&bits(&high))) {
        (Ordering::Less, _) | (Ordering::Equal, Ordering::Less) => (d0, None),
        (Ordering::Greater, _) => (doc, order("high", fewer)),
        (_, Ordering::Greater) => (doc, order("high", smaller)),
        (Ordering::Equal, Ordering::Equal) => {
            (d0, order("low", "nothing else decides, and tools write it first"))
        }
    }
}

fn read_body(
    words: &Words<'_>,
    header: &Header,
    lenient: bool,
) -> std::result::Result<Read, Vec<Diagnostic>> {
    let mut problems = Problems::default();
    let mut rest = *words;
    rest.take(header.start);
    let input_shifts = rest.take(header.inputs).iter().collect();
    let first_output = byte_of(byte_of(0, header.start), header.inputs);
    let outputs = read_outputs(&mut rest, header.outputs, first_output, &mut problems);
    let operations = read_operations(&mut rest, header, lenient, &mut problems);
    rest.take(header.table_sizes.len());
    let tables = header.table_sizes.iter().map(|&size| {
        let values = rest.take(size).iter().collect();
        LookupTable { values, range: None, operand_width: None, hash: None }
    });
    let tables = tables.collect();
    let warnings = problems.warnings()?;
    let program = Program {
        input_shifts,
        state: Vec::new(),
        outputs,
        operations,
        tables,
        // The binary has no room for the cost model; these are the values of a fresh da4ml trace.
        carry_size: -1,
        adder_size: 1,
        firmware_version: header.firmware_version,
    };
    Ok(Read { program, dialect: header.dialect, warnings })
}

fn read_outputs(
    words: &mut Words<'_>,
    count: usize,
    start: u64,
    problems: &mut Problems,
) -> Vec<Output> {
    let [sources, shifts, signs] = [words.take(count), words.take(count), words.take(count)];
    let columns = sources.iter().zip(shifts.iter()).zip(signs.iter());
    let mut outputs = Vec::with_capacity(count);
    for (index, ((source, shift), negate)) in columns.enumerate() {
        let source = output_source(index, source.into()).unwrap_or_else(|problem| {
            problems.push(problem.at_byte(byte_of(start, index)));
            None
        });
        outputs.push(Output { source, shift, negate: negate != 0 });
    }
    outputs
}

/// The slot of an output; -1 is not a slot.
pub(crate) fn output_source(output: usize, index: i128) -> Result<Option<Slot>> {
    if index == -1 {
        return Ok(None);
    }
    u32::try_from(index).map(|slot| Some(Slot(slot))).map_err(|_| {
        let message = format!("output {output} reads slot {index}, expected -1 or a slot");
        Diagnostic::invalid("Q1055", message)
    })
}

fn read_operations(
    words: &mut Words<'_>,
    header: &Header,
    lenient: bool,
    problems: &mut Problems,
) -> Vec<Operation> {
    let words = words.take(header.operations.saturating_mul(OPERATION_BYTES / 4));
    let mut operations = Vec::with_capacity(header.operations);
    for (index, chunk) in words.0.as_flattened().chunks_exact(OPERATION_BYTES).enumerate() {
        match read_operation(chunk, header.dialect, lenient) {
            Ok((operation, warnings)) => {
                operations.push(operation);
                problems.extend(warnings.into_iter().map(|w| w.at(Place::Instruction(index))));
            }
            Err(problem) => problems.push(problem.at(Place::Instruction(index))),
        }
    }
    operations
}

fn read_operation(
    bytes: &[u8],
    dialect: Dialect,
    lenient: bool,
) -> Result<(Operation, Vec<Diagnostic>)> {
    let mut word = Bits::from_le_bytes(bytes).expect("an operation has 32 bytes");
    if dialect == Dialect::D0Doc {
        isa::swap_data_halves(&mut word);
    }
    let kif = isa::take_type(&mut word)?;
    let (inst, warnings) = isa::decode(&word, lenient)?;
    if !dialect.has(inst) {
        return Err(not_in_dialect(inst, dialect));
    }
    let slot_type = SlotType::Kif(kif);
    Ok((Operation { inst, slot_type, latency: 0.0, cost: 0.0 }, warnings))
}

/// The error for an instruction that a dialect does not have.
pub(crate) fn not_in_dialect(inst: Inst, dialect: Dialect) -> Diagnostic {
    let (name, mnemonic) = (dialect.name(), inst.mnemonic());
    let help = match dialect {
        Dialect::A4 => "it negates operands with a separate instruction".to_owned(),
        _ => format!("the first dialect that has it is {}", inst.facts().dialect.name()),
    };
    Diagnostic::invalid("Q1005", format!("dialect {name} has no instruction `{mnemonic}`"))
        .help(help)
}

/// Writes machine code. Unused operand fields are -1, all other unused bits 0.
///
/// What the binary has no room for is left out: intervals become their minimal fixed-point types;
/// latencies, costs and the origin of tables are lost.
///
/// # Errors
/// `Q1057` when the program has more than the dialect can count or express, `Q1005` for an
/// instruction that the dialect does not have, `Q1010` to `Q1012` for a malformed interval.
pub fn write(program: &Program, dialect: Dialect) -> Result<Vec<u8>> {
    no_registers(program, "machine code")?;
    if dialect == Dialect::A4 {
        return bytecode::write(program);
    }
    let mut out = Vec::new();
    write_header(program, dialect, &mut out)?;
    program.input_shifts.iter().for_each(|&shift| push(&mut out, shift));
    for output in &program.outputs {
        let source = output.source.map_or(Ok(-1), |slot| count(slot.0 as usize, "output index"))?;
        push(&mut out, source);
    }
    program.outputs.iter().for_each(|output| push(&mut out, output.shift));
    program.outputs.iter().for_each(|output| push(&mut out, output.negate.into()));
    for (index, operation) in program.operations.iter().enumerate() {
        let word = bits_of(operation.slot_type)
            .and_then(|kif| operation_word(operation.inst, kif, dialect));
        let word = word.map_err(|problem| problem.at(Place::Instruction(index)))?;
        out.extend_from_slice(&word.to_le_bytes()[..OPERATION_BYTES]);
    }
    for table in &program.tables {
        push(&mut out, count(table.values.len(), "number of table entries")?);
    }
    for table in &program.tables {
        table.values.iter().for_each(|&value| push(&mut out, value));
    }
    Ok(out)
}

/// Error: `Q1057` for a program with registers, for which a form has no place.
pub(crate) fn no_registers(program: &Program, form: &str) -> Result<()> {
    if program.state.is_empty() {
        return Ok(());
    }
    let message = format!("{form} has no place for registers");
    Err(Diagnostic::unsupported("Q1057", message).help("write JSON of alkaid or the text form"))
}

fn write_header(program: &Program, dialect: Dialect, out: &mut Vec<u8>) -> Result<()> {
    if dialect.has_version() {
        push(out, i32::from(dialect == Dialect::D1));
        push(out, program.firmware_version);
    }
    push(out, count(program.input_shifts.len(), "number of inputs")?);
    push(out, count(program.outputs.len(), "number of outputs")?);
    push(out, count(program.operations.len(), "number of operations")?);
    if dialect.has_version() {
        push(out, count(program.tables.len(), "number of tables")?);
    } else if !program.tables.is_empty() {
        let message = format!("dialect {} has no tables", dialect.name());
        return Err(Diagnostic::unsupported("Q1057", message));
    }
    Ok(())
}

/// The sign, integer and fraction bits of a type, which a malformed interval does not have.
fn bits_of(slot_type: SlotType) -> Result<Kif> {
    match slot_type {
        SlotType::Interval { min, max, step } => {
            interval_problem(min, max, step).map_or(Ok(slot_type.kif()), Err)
        }
        SlotType::Kif(kif) => Ok(kif),
    }
}

fn operation_word(inst: Inst, kif: Kif, dialect: Dialect) -> Result<Bits> {
    if !dialect.has(inst) {
        return Err(not_in_dialect(inst, dialect));
    }
    let mut word = isa::encode(inst)?;
    isa::put_type(&mut word, kif);
    if dialect == Dialect::D0Doc {
        isa::swap_data_halves(&mut word);
    }
    Ok(word)
}

fn push(out: &mut Vec<u8>, word: i32) {
    out.extend_from_slice(&word.to_le_bytes());
}

fn count(number: usize, what: &str) -> Result<i32> {
    i32::try_from(number).map_err(|_| {
        Diagnostic::unsupported(
            "Q1057",
            format!("the {what} is {number}, words hold at most 2^31-1"),
        )
    })
}
