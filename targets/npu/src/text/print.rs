//! Programs to text.

use super::map;
use super::schema::{RowText, Schema, Slot};
use crate::isa::{Enumeration, Number, Queues, TABLE};
use crate::program::{Line, Program, Spelling};
use quincunx_isa::{OperandValue as _, RawInst};

/// The text of a program.
pub fn print(program: &Program) -> Vec<u8> {
    // Lines of real files have 130 to 500 bytes.
    let mut out = Vec::with_capacity(program.lines.len().saturating_mul(300));
    let mut spellings = &program.spellings[..];
    for (index, line) in program.lines.iter().enumerate() {
        let own = spellings.iter().take_while(|spelling| spelling.line <= index).count();
        let (here, rest) = spellings.split_at(own);
        spellings = rest;
        print_line(line, index, here, &mut out);
        out.push(b'\n');
    }
    out
}

/// Appends one line without its end; `index` is its position from 0.
pub fn print_line(line: &Line, index: usize, spellings: &[Spelling], out: &mut Vec<u8>) {
    let raw = line.inst.to_raw();
    out.push(b'[');
    out.extend_from_slice(TABLE.rows[raw.row].mnemonic.as_bytes());
    out.extend_from_slice(b", ");
    map::print(line.map.as_ref(), out);
    out.extend_from_slice(b", ");
    if let Some((start, end)) = line.time {
        let mut number = itoa::Buffer::new();
        out.extend_from_slice(b"{'inst_idx': ");
        out.extend_from_slice(number.format(index.saturating_add(1)).as_bytes());
        out.extend_from_slice(b", 'time': [");
        out.extend_from_slice(number.format(start).as_bytes());
        out.extend_from_slice(b", ");
        out.extend_from_slice(number.format(end).as_bytes());
        out.extend_from_slice(b"]}, ");
    }
    if let Some(row) = Schema::standard().rows.get(raw.row) {
        fields(row, &raw, spellings, out);
    }
    out.push(b']');
}

fn fields(row: &RowText, raw: &RawInst, spellings: &[Spelling], out: &mut Vec<u8>) {
    for (operand, (step, &value)) in row.steps.iter().zip(&raw.values).enumerate() {
        out.extend_from_slice(&step.before);
        match step.slot {
            Slot::Whole { .. } => {
                out.extend_from_slice(itoa::Buffer::new().format(value as i64).as_bytes());
            }
            Slot::Number => {
                if let Some(number) = Number::from_raw(value) {
                    number.print(out);
                }
            }
            Slot::Queues => queues(Queues::from_raw(value).unwrap_or_default(), out),
            Slot::Truth => out.extend_from_slice(if value == 0 { b"False" } else { b"True" }),
            Slot::Member(enumeration) => {
                let spelling = spellings.iter().find(|spelling| spelling.operand == operand);
                member(enumeration, value as u8, spelling, out);
            }
        }
    }
    out.extend_from_slice(&row.after);
}

fn queues(list: Queues, out: &mut Vec<u8>) {
    out.push(b'[');
    for (position, queue) in list.iter().enumerate() {
        out.extend_from_slice(if position == 0 { b"'" } else { b", '" });
        out.extend_from_slice(queue.name().as_bytes());
        out.push(b'\'');
    }
    out.push(b']');
}

fn member(enumeration: &Enumeration, number: u8, spelling: Option<&Spelling>, out: &mut Vec<u8>) {
    out.push(b'<');
    out.extend_from_slice(enumeration.name.as_bytes());
    out.push(b'.');
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(number).as_bytes();
    match (spelling, enumeration.member(number)) {
        (Some(spelling), _) => out.extend_from_slice(spelling.member.as_bytes()),
        (None, Some(name)) => out.extend_from_slice(name.as_bytes()),
        (None, None) => {
            out.extend_from_slice(b"UNKNOWN_");
            out.extend_from_slice(digits);
        }
    }
    out.extend_from_slice(b": ");
    out.extend_from_slice(digits);
    out.push(b'>');
}
