//! Programs in few bytes, for folders of large networks: a fifth of their text, and read faster.
//! Lossless, as the text is.
//!
//! A file is `7f` and `QxDais`, the version 1, then a string: the assembly text of the program
//! without its operations. For every stage follow the number of operations and the operations: the
//! row of the instruction, its operands as the table has them, the type, and latency and cost.
//! Types, and pairs of latency and cost, are numbered in the order in which they first occur, which
//! is where they are written.
//! Whole numbers have seven bits in a byte, the lowest first, all but the last with the eighth bit
//! set; those that may be negative are `2 * x`, or `-2 * x - 1` below 0. A string is its length and
//! its UTF-8; floats are the eight bytes of IEEE 754, the lowest first.

use crate::isa::{Inst, TABLE, layout};
use crate::program::{Operation, Pipeline, Program, SlotType};
use crate::text;
use quincunx_diag::{Diagnostic, Result, SourceId};
use quincunx_isa::{RawInst, Values};
use quincunx_num::Kif;
use rustc_hash::FxHashMap;
use std::hash::Hash;

/// How a file begins.
const MAGIC: &[u8] = b"\x7fQxDais";

/// The byte behind it.
const VERSION: u8 = 1;

/// True for a file of this form, of whatever version.
pub(crate) fn recognises(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// The file of a pipeline.
pub fn write(pipeline: &Pipeline) -> Vec<u8> {
    let bare = |stage: &Program| Program {
        operations: Vec::new(),
        input_shifts: stage.input_shifts.clone(),
        outputs: stage.outputs.clone(),
        tables: stage.tables.clone(),
        state: stage.state.clone(),
        ..*stage
    };
    let stages = pipeline.stages.iter().map(bare).collect();
    let rest = text::print_pipeline(&Pipeline { stages });
    let mut writer = Writer::default();
    writer.bytes.extend_from_slice(MAGIC);
    writer.bytes.push(VERSION);
    writer.unsigned(rest.len() as u128);
    writer.bytes.extend_from_slice(rest.as_bytes());
    for stage in &pipeline.stages {
        writer.unsigned(stage.operations.len() as u128);
        stage.operations.iter().for_each(|operation| writer.operation(operation));
    }
    writer.bytes
}

/// Reads a file.
///
/// # Errors
/// `Q1070` where the file ends too early or says what cannot be, and what [`text::parse`] and the
/// instruction table say of what is in it.
pub fn read(bytes: &[u8]) -> std::result::Result<Pipeline, Vec<Diagnostic>> {
    let mut reader = Reader { bytes, at: 0, types: Vec::new(), times: Vec::new() };
    let rest = reader.head()?;
    let mut pipeline = text::parse(rest, SourceId(0))?;
    pipeline.stages.iter_mut().try_for_each(|stage| reader.operations(stage))?;
    match reader.at == bytes.len() {
        true => Ok(pipeline),
        false => Err(reader.refused("the file goes on behind the last operation").into()),
    }
}

/// A type, bit for bit, so that it can be looked up.
type TypeKey = (bool, [u64; 3]);

fn key(slot_type: SlotType) -> TypeKey {
    match slot_type {
        SlotType::Interval { min, max, step } => (true, [min, max, step].map(f64::to_bits)),
        SlotType::Kif(Kif { signed, integer, fraction }) => {
            let bits = |number: i32| u64::from(number as u32);
            (false, [u64::from(signed), bits(integer), bits(fraction)])
        }
    }
}

fn of_key((is_interval, [a, b, c]): TypeKey) -> SlotType {
    match is_interval {
        true => {
            let [min, max, step] = [a, b, c].map(f64::from_bits);
            SlotType::Interval { min, max, step }
        }
        false => SlotType::Kif(Kif::new(a != 0, b as i32, c as i32)),
    }
}

#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
    types: FxHashMap<TypeKey, usize>,
    times: FxHashMap<[u64; 2], usize>,
}

impl Writer {
    fn unsigned(&mut self, mut value: u128) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn words(&mut self, words: &[u64]) {
        words.iter().for_each(|word| self.bytes.extend_from_slice(&word.to_le_bytes()));
    }

    fn operation(&mut self, operation: &Operation) {
        let raw = operation.inst.to_raw();
        self.unsigned(raw.row as u128);
        for value in raw.values {
            self.unsigned(((value << 1) ^ (value >> 127)) as u128);
        }
        let slot_type = key(operation.slot_type);
        let (number, is_new) = number_of(&mut self.types, slot_type);
        self.unsigned(number as u128);
        if is_new {
            self.bytes.push(slot_type.0.into());
            self.words(&slot_type.1);
        }
        let times = [operation.latency, operation.cost].map(f64::to_bits);
        let (number, is_new) = number_of(&mut self.times, times);
        self.unsigned(number as u128);
        if is_new {
            self.words(&times);
        }
    }
}

/// The number of an entry, and whether it is new.
fn number_of<K: Eq + Hash>(known: &mut FxHashMap<K, usize>, entry: K) -> (usize, bool) {
    let next = known.len();
    let number = *known.entry(entry).or_insert(next);
    (number, number == next)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    types: Vec<SlotType>,
    times: Vec<[f64; 2]>,
}

impl<'a> Reader<'a> {
    fn refused(&self, what: &str) -> Diagnostic {
        let message = format!("byte {} of the packed program: {what}", self.at);
        Diagnostic::invalid("Q1070", message).help("compile the model again")
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let taken = self.bytes[self.at..].get(..count);
        self.at = self.at.saturating_add(taken.map_or(0, <[u8]>::len));
        taken.ok_or_else(|| self.refused("the file ends here, expected more"))
    }

    fn unsigned(&mut self) -> Result<u128> {
        let mut value = 0;
        for shift in (0..u128::BITS).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u128::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.refused("a number of more than 128 bits"))
    }

    fn signed(&mut self) -> Result<i128> {
        let value = self.unsigned()?;
        Ok((value >> 1) as i128 ^ ((value & 1) as i128).wrapping_neg())
    }

    fn count(&mut self) -> Result<usize> {
        let value = self.unsigned()?;
        usize::try_from(value).map_err(|_| self.refused("a count of more than 64 bits"))
    }

    /// The text before the operations.
    fn head(&mut self) -> Result<&'a str> {
        if self.take(MAGIC.len())? != MAGIC || self.take(1)? != [VERSION] {
            let message = "the packed program is of another version";
            return Err(Diagnostic::unsupported("Q1070", message));
        }
        self.string()
    }

    fn string(&mut self) -> Result<&'a str> {
        let length = self.count()?;
        let bytes = self.take(length)?;
        std::str::from_utf8(bytes).map_err(|_| self.refused("expected UTF-8 before this"))
    }

    fn words<const N: usize>(&mut self) -> Result<[u64; N]> {
        let mut words = [0; N];
        for word in &mut words {
            let bytes = self.take(8)?.try_into().expect("eight bytes were taken");
            *word = u64::from_le_bytes(bytes);
        }
        Ok(words)
    }

    fn operations(&mut self, stage: &mut Program) -> Result<()> {
        if !stage.operations.is_empty() {
            return Err(self.refused("the text before has operations"));
        }
        for _ in 0..self.count()? {
            let operation = self.operation()?;
            stage.operations.push(operation);
        }
        Ok(())
    }

    fn operation(&mut self) -> Result<Operation> {
        let row = self.count()?;
        let Some(operands) = TABLE.rows.get(row).map(|row| row.operands.len()) else {
            return Err(self.refused("there is no instruction of this number"));
        };
        let values = (0..operands).map(|_| self.signed()).collect::<Result<Values>>()?;
        let raw = RawInst { row, values };
        TABLE.fits(&raw, layout())?;
        let inst = Inst::from_raw(&raw).ok_or_else(|| self.refused("a number means nothing"))?;
        let number = self.count()?;
        if number == self.types.len() {
            let is_interval = self.take(1)?[0] != 0;
            let words = self.words()?;
            self.types.push(of_key((is_interval, words)));
        }
        let slot_type = self.types.get(number).copied();
        let slot_type = slot_type.ok_or_else(|| self.refused("a type that is not there yet"))?;
        let number = self.count()?;
        if number == self.times.len() {
            let words = self.words()?;
            self.times.push(words.map(f64::from_bits));
        }
        let times = self.times.get(number).copied();
        let [latency, cost] = times.ok_or_else(|| self.refused("times that are not there yet"))?;
        Ok(Operation { inst, slot_type, latency, cost })
    }
}
