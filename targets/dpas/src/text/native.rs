//! Native assembly text: one instruction a line, `//` comments, and `.raw` with the bytes of an
//! instruction that has no text here. Labels are read and not kept: nothing here branches.

use super::{from_hex, to_hex};
use crate::arch::Platform;
use crate::isa::operands::Options;
use crate::isa::{listing, native, native_layout};
use crate::program::{Item, Listing, Statement};
use quincunx_diag::{Diagnostic, Result, SourceId, any_error};
use quincunx_isa::{Cursor, Style, parse_lines};

/// Most bytes of one `.raw`.
pub const MAX_RAW: usize = 16;

/// A listing with the warnings of its reading.
pub type Read = (Listing, Vec<Diagnostic>);

/// Reads a listing.
///
/// # Errors
/// As [`read_with_warnings`].
pub fn read(
    text: &str,
    platform: Platform,
    source: SourceId,
) -> std::result::Result<Listing, Vec<Diagnostic>> {
    read_with_warnings(text, platform, source).map(|(listing, _)| listing)
}

/// Reads a listing; the first label has a warning.
///
/// # Errors
/// All errors of the text: those of the kit, `Q6010` to `Q6015` for what the platform has not,
/// `Q6020` for an unknown directive, `Q6021` for bad bytes, `Q6025` for a predicate.
pub fn read_with_warnings(
    text: &str,
    platform: Platform,
    source: SourceId,
) -> std::result::Result<Read, Vec<Diagnostic>> {
    let cursor = Cursor::new(text, source, Style::SLASHES);
    let mut warnings = Vec::new();
    let lines = parse_lines(cursor, |cursor| {
        let start = cursor.position();
        if !label(cursor) {
            return statement(cursor, platform).map(Some);
        }
        if warnings.is_empty() {
            let message = "labels are not kept: no instruction here branches";
            let span = cursor.span_from(start);
            warnings.push(Diagnostic::warning("Q6028", message).label(span, ""));
        }
        Ok(None)
    });
    if any_error(&lines.diagnostics) {
        return Err(lines.diagnostics);
    }
    let item = |(span, statement)| Item { statement, span: Some(span) };
    Ok((Listing { items: lines.items.into_iter().map(item).collect() }, warnings))
}

/// Reads a label such as `L0:` if there is one.
fn label(cursor: &mut Cursor<'_>) -> bool {
    let word = cursor.peek_word();
    let is_label = !word.is_empty() && cursor.rest()[word.len()..].starts_with(':');
    if is_label {
        cursor.eat(word);
        cursor.eat(":");
    }
    is_label
}

/// Reads one statement.
///
/// # Errors
/// As [`read`].
pub fn statement(cursor: &mut Cursor<'_>, platform: Platform) -> Result<Statement> {
    let start = cursor.position();
    if cursor.peek() == Some('.') {
        return directive(cursor);
    }
    let rest = cursor.rest_of_line();
    if rest.starts_with("(f") || rest.starts_with("(~f") {
        let end = rest.find(')').map_or(rest.len(), |end| end + 1);
        let message = "instructions take no predicate here";
        let problem = Diagnostic::invalid("Q6025", message);
        return Err(problem
            .label(cursor.span(start, start + end), "a predicate")
            .help("the machine drops the predicate of a systolic instruction"));
    }
    let word = rest.strip_prefix("(W)").unwrap_or(rest).trim_start();
    if word.starts_with("mov") || word.starts_with("sync") {
        let raw = listing::TABLE.parse(cursor, None)?;
        let inst = listing::Inst::from_raw(&raw).ok_or_else(no_variant)?;
        if inst.operands_of::<Options>().iter().any(|options| !options.fits(platform)) {
            let message = format!("{} has no such dependency", platform.name());
            return Err(Diagnostic::invalid("Q6013", message)
                .label(cursor.span_from(start), "")
                .help(format!("it has {} tokens", platform.tokens())));
        }
        return Ok(Statement::Listing(inst));
    }
    let layout = native_layout(platform);
    let raw = native::TABLE.parse(cursor, Some(layout))?;
    // What the platform cannot encode has a place only here.
    native::TABLE
        .encode(&raw, layout)
        .map_err(|problem| problem.label(cursor.span_from(start), ""))?;
    native::Inst::from_raw(&raw).map(Statement::Systolic).ok_or_else(no_variant)
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

/// Prints a listing, one statement a line.
pub fn print(listing: &Listing) -> String {
    let mut text = String::new();
    for item in &listing.items {
        print_statement(&item.statement, &mut text);
        text.push('\n');
    }
    text
}

/// Appends one statement.
pub fn print_statement(statement: &Statement, out: &mut String) {
    match statement {
        Statement::Systolic(inst) => native::TABLE.print_to(&inst.to_raw(), out),
        Statement::Listing(inst) => listing::TABLE.print_to(&inst.to_raw(), out),
        Statement::Raw(bytes) => {
            *out += ".raw ";
            *out += &to_hex(bytes);
        }
    }
}
