//! Texts of programs: Cain's default and JSS formats, a C++ header, the bus listing and AUKE's CSIM,
//! all read by one reader.
//!
//! Facts: `cain`, `scamp5d`, `auke` (`docs/bibliography.md`). A statement is `name(operand, …)` and
//! ends with `;` or with its line.

mod clean;
mod csim;
mod frame;
mod print;

pub use csim::CSIM;
pub use print::{Dialect, print};

use crate::isa::{Class, Inst, Reg, TABLE};
use crate::program::{MAX_INSTRUCTIONS, Program, access};
use clean::Clean;
use csim::Csim;
use frame::framed;
use quincunx_diag::{Diagnostic, SourceId, Span, any_error};
use quincunx_isa::{Cursor, Style, parse_lines};
use std::collections::BTreeSet;

const STYLE: Style = Style { comments: &[], separators: &[';'] };

/// True when a text looks like a program: its first statement begins with a known instruction.
pub fn recognises(text: &str) -> bool {
    let Ok(clean) = Clean::new(text, SourceId(0)) else { return false };
    let mut cursor = Cursor::new(&clean.text, SourceId(0), STYLE);
    cursor.skip_lines();
    let word = cursor.peek_word();
    let known = |table: &quincunx_isa::Table| table.rows.iter().any(|row| row.mnemonic == word);
    let is_call = cursor.rest()[word.len()..].starts_with('(');
    is_call && (known(&TABLE) || known(&CSIM))
}

/// A program and where its instructions stand in the text.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The program.
    pub program: Program,
    /// The place of every instruction.
    pub spans: Vec<Span>,
}

/// Reads a program in any of the dialects; places in diagnostics are spans of the text, which is
/// `source`.
///
/// # Errors
/// All errors of the text: those of the kit for malformed statements, `Q5001` for names that are too
/// long, `Q5002` for a comment that does not end, `Q5003` for too many instructions.
pub fn parse(text: &str, source: SourceId) -> Result<Program, Vec<Diagnostic>> {
    read(text, source).map(|listing| listing.program)
}

/// As [`parse`], with the places of the instructions.
///
/// # Errors
/// As [`parse`].
pub fn read(text: &str, source: SourceId) -> Result<Listing, Vec<Diagnostic>> {
    let clean = Clean::new(text, source).map_err(|problem| vec![problem])?;
    let cursor = Cursor::new(&clean.text, source, STYLE);
    let mut count = 0;
    let lines = parse_lines(cursor, |cursor| {
        count += 1;
        if count > MAX_INSTRUCTIONS {
            if count > MAX_INSTRUCTIONS + 1 {
                cursor.skip_statement();
                return Ok(None);
            }
            let message = format!("the program has more than {MAX_INSTRUCTIONS} instructions");
            return Err(Diagnostic::unsupported("Q5003", message));
        }
        if csim::is_csim(cursor.rest()) {
            let raw = CSIM.parse(cursor, None)?;
            return Ok(Csim::from_raw(&raw).map(Inst::from));
        }
        let raw = TABLE.parse(cursor, None)?;
        Inst::from_raw(&raw).map(Some).ok_or_else(|| Diagnostic::bug("a row without its variant"))
    });
    if any_error(&lines.diagnostics) {
        return Err(lines.diagnostics);
    }
    let (spans, instructions) = without_frame(lines.items).into_iter().unzip();
    let mut program = Program::new(instructions);
    (program.inputs, program.outputs) = declared(&clean.comments, &program);
    Ok(Listing { program, spans })
}

/// Drops kernel begins and ends that stand where printing puts them.
fn without_frame(instructions: Vec<(Span, Inst)>) -> Vec<(Span, Inst)> {
    let is_frame = |inst: &Inst| inst.class() == Class::Frame;
    let all: Vec<Inst> = instructions.iter().map(|(_, inst)| *inst).collect();
    let inner: Vec<Inst> = all.iter().copied().filter(|inst| !is_frame(inst)).collect();
    match framed(&inner) == all {
        true => instructions.into_iter().filter(|(_, inst)| !is_frame(inst)).collect(),
        false => instructions,
    }
}

type Declared = (Option<Vec<Reg>>, Option<Vec<Reg>>);

/// Inputs and outputs that Cain's comments name. Those of digital programs are virtual registers
/// that no instruction uses; such lists are dropped.
fn declared(comments: &[&str], program: &Program) -> Declared {
    let list = |text: &str| {
        let names = text.trim().strip_prefix('[')?.strip_suffix(']')?;
        let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
        names.map(Reg::new).collect::<Option<Vec<_>>>()
    };
    let after = |prefix: &str| {
        comments.iter().find_map(|comment| comment.trim().strip_prefix(prefix)).and_then(list)
    };
    let inputs = after("Inputs in:");
    let outputs = comments.iter().find_map(|comment| {
        let rest = comment.trim().strip_prefix("Null Instruction:")?;
        list(rest.split_once("<-")?.1)
    });
    if !program.instructions.iter().any(|inst| inst.logic().is_some()) {
        return (inputs, outputs);
    }
    let mut used = BTreeSet::new();
    for access in program.instructions.iter().map(access) {
        used.extend(access.reads.into_iter().chain(access.writes).map(|(_, register)| register));
    }
    let real = |list: &Vec<Reg>| list.iter().all(|register| used.contains(register));
    (inputs.filter(real), outputs.filter(real))
}
