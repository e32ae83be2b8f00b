//! Instructions to text and back, and the loop over the lines of a program.

use crate::cursor::Cursor;
use crate::layout::Layout;
use crate::table::{RawInst, Row, Table, Values};
use crate::template::Parser;
use quincunx_diag::{Diagnostic, Problems, Result, Span, did_you_mean};

impl Table {
    /// Reads one instruction. With a layout, operands are also checked against its field widths.
    ///
    /// Rows that could start here are tried in order. The first that reaches the end of the
    /// statement wins; else the one that got furthest decides, be it an instruction with more text
    /// behind it or an error. After an error the cursor is where it was, but for blanks.
    ///
    /// # Errors
    /// `Q2102` for an unknown instruction, `Q2103` for a value out of range, `Q2101` and `Q2104` for
    /// other text that is not an instruction; whatever custom operands say.
    ///
    /// # Panics
    /// When the syntax of a row is malformed, which [`Table::check`] reports.
    pub fn parse(&self, cursor: &mut Cursor<'_>, layout: Option<&Layout>) -> Result<RawInst> {
        let rows = self.rows.iter().enumerate();
        let rest = {
            cursor.skip_blanks();
            cursor.rest()
        };
        self.parse_rows(rows.filter(|(_, row)| could_start(row, rest)), cursor, layout)
    }

    /// As [`Table::parse`], with some rows only, such as [`Table::find`] gives.
    ///
    /// # Errors
    /// As [`Table::parse`].
    ///
    /// # Panics
    /// As [`Table::parse`].
    pub fn parse_rows(
        &self,
        rows: impl Iterator<Item = (usize, &'static Row)>,
        cursor: &mut Cursor<'_>,
        layout: Option<&Layout>,
    ) -> Result<RawInst> {
        cursor.skip_blanks();
        let start = cursor.position();
        let mut inst = RawInst { row: 0, values: Values::new() };
        let outer = std::mem::replace(&mut cursor.silent, true);
        let found = self.furthest(cursor, layout, rows, &mut inst);
        cursor.silent = outer;
        match found {
            Some(Reached { end, is_inst: true }) => {
                cursor.rewind(end);
                Ok(inst)
            }
            Some(Reached { end, .. }) if end > start => Err(self.error(inst.row, cursor, layout)),
            _ => Err(self.unknown_mnemonic(cursor)),
        }
    }

    /// Finds the row that decides, with its values if the text is an instruction.
    fn furthest(
        &self,
        cursor: &mut Cursor<'_>,
        layout: Option<&Layout>,
        rows: impl Iterator<Item = (usize, &'static Row)>,
        inst: &mut RawInst,
    ) -> Option<Reached> {
        let start = cursor.position();
        let mut best: Option<Reached> = None;
        let mut parser = Parser::new(self.rows.first()?, layout);
        for (row, spec) in rows {
            let is_read = parser.read(row, spec, &self.templates()[row], cursor);
            let mut reached = Reached { end: cursor.position(), is_inst: is_read };
            let is_whole = cursor.at_statement_end() && is_read;
            match parser.missed {
                Some((end, _)) if !is_whole && end > cursor.position() => {
                    reached = Reached { end, is_inst: false };
                }
                _ => {}
            }
            cursor.rewind(start);
            if is_whole || best.as_ref().is_none_or(|best| reached > *best) {
                inst.row = row;
                inst.values.clear();
                inst.values.extend_from_slice(&parser.values);
                best = Some(reached);
            }
            if is_whole {
                break;
            }
        }
        best
    }

    /// Why a text is not an instruction of a row.
    fn error(&self, row: usize, cursor: &mut Cursor<'_>, layout: Option<&Layout>) -> Diagnostic {
        let (start, spec) = (cursor.position(), &self.rows[row]);
        let mut parser = Parser::new(spec, layout);
        parser.read(row, spec, &self.templates()[row], cursor);
        let end = cursor.position();
        cursor.skip_blanks();
        let (reached, failure) = match parser.missed {
            Some((reached, failure)) if reached > cursor.position() => (reached, Some(failure)),
            _ => (end, parser.failure),
        };
        cursor.rewind(reached);
        let error = failure.map(|failure| failure.diagnostic(cursor));
        cursor.rewind(start);
        error.unwrap_or_else(|| Diagnostic::bug("a row was read that could not be read before"))
    }

    /// Prints an instruction as [`Table::parse`] reads it.
    ///
    /// # Panics
    /// When the syntax of a row is malformed, which [`Table::check`] reports.
    pub fn print(&self, inst: &RawInst) -> String {
        let mut text = String::new();
        self.print_to(inst, &mut text);
        text
    }

    /// Appends an instruction to a text. An instruction of another table prints as a remark.
    ///
    /// # Panics
    /// When the syntax of a row is malformed, which [`Table::check`] reports.
    pub fn print_to(&self, inst: &RawInst, out: &mut String) {
        match self.rows.get(inst.row) {
            Some(row) if row.operands.len() == inst.values.len() => {
                self.templates()[inst.row].print(row, &inst.values, out);
            }
            _ => out.push_str("<not an instruction of this machine>"),
        }
    }

    fn unknown_mnemonic(&self, cursor: &Cursor<'_>) -> Diagnostic {
        let start = cursor.position();
        let word = cursor.rest_of_statement();
        let length = word.find(|c: char| c.is_whitespace() || c == ',').unwrap_or(word.len());
        let word = &word[..length];
        if !word.starts_with(crate::cursor::is_word) {
            return cursor.expected("an instruction");
        }
        let shown: String = word.chars().take(40).collect();
        Diagnostic::invalid("Q2102", format!("unknown instruction `{}`", shown.escape_debug()))
            .label(cursor.span(start, start + length), "not an instruction")
            .help_if(did_you_mean(word, self.mnemonics()).or_else(|| {
                // The mnemonic may end at a dot: `ad.x` for `add.x`.
                let (stem, _) = word.split_once('.')?;
                did_you_mean(stem, self.mnemonics())
            }))
    }
}

/// Cheap test that saves trying every row on every line.
fn could_start(row: &Row, text: &str) -> bool {
    let literal = row.syntax.starts_with(row.mnemonic);
    !literal || text.starts_with(row.mnemonic)
}

/// How far a text is an instruction of a row; of two, the larger one decides.
#[derive(PartialEq, PartialOrd)]
struct Reached {
    end: usize,
    /// False for an error.
    is_inst: bool,
}

/// What [`parse_lines`] found.
#[derive(Debug)]
pub struct Lines<T> {
    /// The statements that could be read, with their places.
    pub items: Vec<(Span, T)>,
    /// Everything wrong with the others.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads a line-oriented program: calls `statement` at the start of every statement that is not
/// empty, and goes on with the next statement after an error. `statement` gives `None` for
/// statements that are not items, such as directives.
pub fn parse_lines<T>(
    mut cursor: Cursor<'_>,
    mut statement: impl FnMut(&mut Cursor<'_>) -> Result<Option<T>>,
) -> Lines<T> {
    let (mut items, mut problems) = (Vec::new(), Problems::default());
    loop {
        cursor.skip_lines();
        if cursor.at_end() {
            break;
        }
        let start = cursor.position();
        let result = statement(&mut cursor);
        let span = cursor.span_from(start);
        match result.and_then(|item| cursor.expect_statement_end().map(|()| item)) {
            Ok(Some(item)) => items.push((span, item)),
            Ok(None) => {}
            Err(error) => {
                problems.push(error);
                cursor.skip_statement();
            }
        }
    }
    Lines { items, diagnostics: problems.finish() }
}
