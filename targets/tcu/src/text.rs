//! Assembly text, `.tasm`: a line `[index] thread instruction` for each instruction, ended by CR LF
//! as upstream writes it (`tensil` in `docs/bibliography.md`). Index and thread may be left out
//! when reading and `#` starts a comment (both ours).

use crate::arch::TcuArch;
use crate::binary::Coder;
use crate::isa::{Inst, TABLE};
use crate::program::{Program, Step};
use quincunx_diag::{Diagnostic, Result, SourceId, any_error};
use quincunx_isa::{Cursor, Style, parse_lines};
use std::fmt::Write as _;

/// Upstream's other name of NoOp, for one that waits for a thread. It is read, not written.
const WAIT: &str = "Wait";

/// True when the text is assembly of this target: its first statement, behind an index and a
/// thread, begins with one of its mnemonics.
pub fn recognises(text: &str) -> bool {
    let mut cursor = Cursor::new(text, SourceId(0), Style::HASH);
    cursor.skip_lines();
    if cursor.eat("[") && (cursor.integer().is_err() || !cursor.eat("]")) {
        return false;
    }
    cursor.skip_blanks();
    if cursor.peek().is_some_and(|digit| digit.is_ascii_digit()) && cursor.integer().is_err() {
        return false;
    }
    cursor.skip_blanks();
    let word = cursor.peek_word();
    word == "LoadWeight" || word == WAIT || TABLE.mnemonics().contains(&word)
}

/// Assembly text of a program.
pub fn print(program: &Program) -> String {
    print_with(program, &[])
}

/// Assembly text of a program, with comments before instructions, in the order of instructions.
pub fn print_with(program: &Program, comments: &[(usize, String)]) -> String {
    let mut out = String::with_capacity(program.steps.len().saturating_mul(48));
    let mut comments = comments.iter().peekable();
    for (index, step) in program.steps.iter().enumerate() {
        while let Some((_, comment)) = comments.next_if(|(at, _)| *at <= index) {
            out.push_str("# ");
            out.extend(comment.chars().map(|c| if c.is_control() { ' ' } else { c }));
            out.push_str("\r\n");
        }
        // Writing to a string cannot fail.
        let _ = write!(out, "[{index}] {} ", step.tid);
        TABLE.print_to(&step.inst.to_raw(), &mut out);
        out.push_str("\r\n");
    }
    out
}

/// One instruction in words, without index and thread.
pub fn describe(inst: &Inst) -> String {
    TABLE.print(&inst.to_raw())
}

/// Reads a program for a machine.
///
/// # Errors
/// All errors of the text: those of the kit for malformed instructions and numbers that do not fit
/// their fields, those of [`Coder::check`], `Q3023` for an index that is not the number of the
/// instruction.
pub fn parse(
    text: &str,
    source: SourceId,
    arch: &TcuArch,
) -> std::result::Result<Program, Vec<Diagnostic>> {
    let coder = Coder::new(arch).map_err(|problem| vec![problem])?;
    // Instructions with errors in them count.
    let mut indices = 0_u64..;
    let cursor = Cursor::new(text, source, Style::HASH);
    let lines = parse_lines(cursor, |cursor| {
        let index = indices.next().expect("a text has fewer than 2^64 lines");
        statement(cursor, index, &coder).map(Some)
    });
    if any_error(&lines.diagnostics) {
        return Err(lines.diagnostics);
    }
    let steps = lines.items.into_iter().map(|(_, step)| step).collect();
    Ok(Program { arch: arch.clone(), steps })
}

fn statement(cursor: &mut Cursor<'_>, index: u64, coder: &Coder) -> Result<Step> {
    let start = cursor.position();
    if cursor.eat("[") {
        let number = cursor.integer()?;
        cursor.expect("]")?;
        if number != index.into() {
            let message = format!("this is instruction {index}, not {number}");
            return Err(cursor
                .error("Q3023", message, start)
                .help("leave the indices out and they are counted"));
        }
        cursor.skip_blanks();
    }
    let place = cursor.position();
    let tid = match cursor.peek() {
        Some('0'..='9') => cursor.integer()?,
        _ => 0,
    };
    let tid = u8::try_from(tid)
        .map_err(|_| cursor.out_of_range(format!("there is no thread {tid}"), place))?;
    cursor.skip_blanks();
    let step = Step { tid, inst: instruction(cursor, coder)? };
    // The fixups of encoding know what the machine has.
    coder.encode(&step).map_err(|problem| problem.label(cursor.span_from(start), ""))?;
    Ok(step)
}

fn instruction(cursor: &mut Cursor<'_>, coder: &Coder) -> Result<Inst> {
    if cursor.eat_word(WAIT) {
        return wait(cursor);
    }
    let raw = TABLE.parse(cursor, Some(coder.layout()))?;
    Inst::from_raw(&raw)
        .ok_or_else(|| Diagnostic::bug("an operand that was read has no value of its type"))
}

/// What comes behind the word: as with NoOp, perhaps a thread.
fn wait(cursor: &mut Cursor<'_>) -> Result<Inst> {
    let mut thread = 0;
    if cursor.eat("(") {
        let place = cursor.position();
        let number = cursor.integer()?;
        thread = u8::try_from(number)
            .map_err(|_| cursor.out_of_range(format!("there is no thread {number}"), place))?;
        cursor.expect(")")?;
    }
    Ok(Inst::NoOp { thread })
}
