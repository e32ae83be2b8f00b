//! Native assembly text: one instruction a line, `//` comments, labels, and `.raw` with the bytes of
//! an instruction that has no text here. Messages to memory may be written as loads and stores.

mod labels;
mod lsc;

use super::{from_hex, to_hex};
use crate::arch::Platform;
use crate::binary::native::check;
use crate::isa::vector::message::LABEL;
use crate::isa::{native, native_layout, vector, vector_layout};
use crate::program::{Item, Listing, Statement};
use labels::Labels;
pub(super) use lsc::is_mnemonic as is_memory;
use quincunx_diag::{Diagnostic, Result, SourceId, Span, any_error};
use quincunx_isa::{Cursor, RawInst, Style, parse_lines};

/// Most bytes of one `.raw`.
pub const MAX_RAW: usize = 16;

/// Reads a listing.
///
/// # Errors
/// All errors of the text: those of the kit, `Q6010` to `Q6018`, `Q6142` for what the platform has not,
/// `Q6020` for an unknown directive, `Q6021` for bad bytes, `Q6025` for a predicate of a systolic
/// instruction, `Q6028` and `Q6029` for labels, `Q6019` for a load or store that no message is.
pub fn read(
    text: &str,
    platform: Platform,
    source: SourceId,
) -> std::result::Result<Listing, Vec<Diagnostic>> {
    let cursor = Cursor::new(text, source, Style::SLASHES);
    let mut labels = Labels::new(text, source);
    let mut lines = parse_lines(cursor, |cursor| {
        if labels.define(cursor)? {
            return Ok(None);
        }
        let raw = parsed(cursor, platform)?;
        labels.next(raw.bytes());
        Ok(Some(raw))
    });
    let mut at = 0usize;
    let finish = |(span, parsed): (Span, Parsed)| {
        let start = at;
        at = at.saturating_add(parsed.bytes());
        match parsed.finish(&labels, start, platform) {
            Ok(statement) => Some(Item { statement, span: Some(span) }),
            Err(problem) => {
                lines.diagnostics.push(match problem.labels().is_empty() {
                    true => problem.label(span, ""),
                    false => problem,
                });
                None
            }
        }
    };
    let items = lines.items.into_iter().filter_map(finish).collect();
    if any_error(&lines.diagnostics) {
        return Err(lines.diagnostics);
    }
    Ok(Listing { items })
}

/// What a line says, while labels that follow are not known.
enum Parsed {
    Statement(Statement),
    /// A jump with labels. There are few of them, so that others need not be as large.
    Jump(Box<RawInst>),
}

impl Parsed {
    fn bytes(&self) -> usize {
        match self {
            Parsed::Statement(statement) => statement.bytes(),
            Parsed::Jump(_) => 16,
        }
    }

    fn finish(self, labels: &Labels<'_>, start: usize, platform: Platform) -> Result<Statement> {
        match self {
            Parsed::Statement(statement) => Ok(statement),
            Parsed::Jump(mut raw) => {
                for value in raw.values.iter_mut().filter(|value| **value >= LABEL) {
                    *value = labels.distance(*value, start)?;
                }
                vector_statement(&raw, platform)
            }
        }
    }
}

/// Reads one statement, which cannot be a jump to a label.
///
/// # Errors
/// As [`read`].
pub fn statement(cursor: &mut Cursor<'_>, platform: Platform) -> Result<Statement> {
    match parsed(cursor, platform)? {
        Parsed::Statement(statement) => Ok(statement),
        Parsed::Jump(_) => Err(Diagnostic::invalid("Q6029", "a statement alone has no labels")),
    }
}

fn parsed(cursor: &mut Cursor<'_>, platform: Platform) -> Result<Parsed> {
    let start = cursor.position();
    if cursor.peek() == Some('.') {
        return directive(cursor).map(Parsed::Statement);
    }
    let mnemonic = mnemonic(cursor);
    if mnemonic.starts_with("dpas") || mnemonic == "bdpas" {
        return systolic(cursor, platform).map(Parsed::Statement);
    }
    if lsc::is_mnemonic(mnemonic) {
        let raw = lsc::parse(cursor)?;
        return finished(&raw, cursor, start, platform);
    }
    let mut rows = vector::TABLE.find(mnemonic).peekable();
    if rows.peek().is_none() {
        // The error names the nearest mnemonic.
        return match vector::TABLE.parse(cursor, None) {
            Ok(raw) => finished(&raw, cursor, start, platform),
            Err(problem) => Err(problem),
        };
    }
    let raw = vector::TABLE.parse_rows(rows, cursor, Some(vector_layout(platform)))?;
    finished(&raw, cursor, start, platform)
}

/// The word at the start of a statement, behind its mask and predicate; may be empty.
fn mnemonic<'a>(cursor: &Cursor<'a>) -> &'a str {
    let mut behind = cursor.clone();
    if behind.peek() == Some('(') {
        let end = cursor.rest().find([')', '\n']).unwrap_or(0);
        behind.rewind(cursor.position().saturating_add(end));
        behind.eat(")");
        while behind.peek().is_some_and(|c| c.is_whitespace() && c != '\n') {
            behind.bump();
        }
    }
    behind.peek_word()
}

fn finished(
    raw: &RawInst,
    cursor: &Cursor<'_>,
    start: usize,
    platform: Platform,
) -> Result<Parsed> {
    let is_jump = vector::Inst::FACTS.get(raw.row).is_some_and(|form| form.op.jumps());
    if is_jump && raw.values.iter().any(|&value| value >= LABEL) {
        return Ok(Parsed::Jump(Box::new(raw.clone())));
    }
    // What the platform cannot encode has a place only here.
    vector_statement(raw, platform)
        .map(Parsed::Statement)
        .map_err(|problem| problem.label(cursor.span_from(start), ""))
}

fn vector_statement(raw: &RawInst, platform: Platform) -> Result<Statement> {
    let inst = vector::Inst::from_raw(raw).ok_or_else(no_variant)?;
    let statement = Statement::Vector(inst);
    check(&statement, platform).map(|()| statement)
}

fn systolic(cursor: &mut Cursor<'_>, platform: Platform) -> Result<Statement> {
    let (start, rest) = (cursor.position(), cursor.rest_of_line());
    if rest.starts_with('(') && !rest.starts_with("(W)") {
        let end = rest.find(')').map_or(rest.len(), |end| end.saturating_add(1));
        let message = "systolic instructions take no predicate";
        let span = cursor.span(start, start.saturating_add(end));
        return Err(Diagnostic::invalid("Q6025", message)
            .label(span, "a predicate")
            .help("the machine drops the predicate of a systolic instruction"));
    }
    let raw = native::TABLE.parse(cursor, Some(native_layout(platform)))?;
    let inst = native::Inst::from_raw(&raw).ok_or_else(no_variant)?;
    let statement = Statement::Systolic(inst);
    check(&statement, platform).map_err(|problem| problem.label(cursor.span_from(start), ""))?;
    Ok(statement)
}

fn no_variant() -> Diagnostic {
    Diagnostic::bug("a row parses to no variant")
}

fn directive(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let start = cursor.position();
    if !cursor.eat_word(".raw") {
        cursor.eat(".");
        let word: String = cursor.peek_word().chars().take(40).collect();
        cursor.eat(cursor.peek_word());
        let message = format!("unknown directive `.{word}`");
        return Err(cursor.error("Q6020", message, start).help("the only directive is `.raw`"));
    }
    cursor.skip_blanks();
    let start = cursor.position();
    let digits = cursor.peek_word();
    cursor.eat(digits);
    match from_hex(digits).filter(|bytes| (1..=MAX_RAW).contains(&bytes.len())) {
        Some(bytes) => Ok(Statement::Raw(bytes)),
        None => {
            let message = format!("expected 1 to {MAX_RAW} bytes as pairs of hexadecimal digits");
            Err(cursor.error("Q6021", message, start))
        }
    }
}

/// Prints a listing, one statement a line; where it branches, with the labels of its blocks, which
/// are named after their bytes.
pub fn print(listing: &Listing) -> String {
    let blocks = labels::blocks(listing);
    // Most lines are shorter.
    let mut text = String::with_capacity(listing.items.len().saturating_mul(64));
    let starts = listing.starts();
    let mut labels = blocks.iter().peekable();
    for (item, start) in listing.items.iter().zip(&starts) {
        if labels.next_if_eq(&start).is_some() {
            text += &format!("L{start}:\n");
        }
        match &item.statement {
            Statement::Vector(inst) if inst.facts().op.jumps() => {
                labels::print_jump(inst, *start, &blocks, &mut text);
            }
            statement => print_statement(statement, &mut text),
        }
        text.push('\n');
    }
    if let Some(end) = starts.last().filter(|end| blocks.contains(end)) {
        text += &format!("L{end}:\n");
    }
    text
}

/// Appends one statement; a jump with its distance.
pub fn print_statement(statement: &Statement, out: &mut String) {
    match statement {
        Statement::Systolic(inst) => native::TABLE.print_to(&inst.to_raw(), out),
        Statement::Vector(inst) => vector::TABLE.print_to(&inst.to_raw(), out),
        Statement::Raw(bytes) => {
            *out += ".raw ";
            *out += &to_hex(bytes);
        }
    }
}
