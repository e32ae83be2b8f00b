//! Text to programs.

use super::map;
use super::scan::Scanner;
use super::schema::{RowText, Schema, Slot, row_of};
use crate::isa::{Enumeration, Inst, TABLE};
use crate::program::{Line, Program, Spelling};
use quincunx_diag::{Diagnostic, Problems, Result, SourceId, did_you_mean};
use quincunx_isa::{OperandValue as _, RawInst, Values};

/// A program that was read, and warnings.
#[derive(Debug)]
pub struct Read {
    /// The program.
    pub program: Program,
    /// What lenient reading let pass.
    pub warnings: Vec<Diagnostic>,
}

/// Reads assembly text or a trace. With `lenient`, members that the table does not know, maps and
/// fields left out (`{...}`, which stand for zeros) and lines of dots are warnings.
///
/// # Errors
/// `Q4003` for text that is not a line of a program, `Q4004` for values out of range, `Q4005` for a
/// queue listed twice, `Q4007` for unknown instructions, `Q4008` for members that are not the
/// table's, `Q4009` for a line without times among lines with times and for lines out of order.
pub fn read(
    bytes: &[u8],
    source: SourceId,
    schema: &Schema,
    lenient: bool,
) -> std::result::Result<Read, Vec<Diagnostic>> {
    if u32::try_from(bytes.len()).is_err() {
        let message = "the text has more than 4 GiB";
        return Err(vec![Diagnostic::unsupported("Q4010", message)]);
    }
    let mut reader = Reader {
        scanner: Scanner { bytes, at: 0, source },
        schema,
        lenient,
        raw: RawInst { row: 0, values: Values::new() },
        program: Program::default(),
        problems: Problems::default(),
    };
    // A first guess that is right for real files and never more than the text itself.
    reader.program.lines.reserve(bytes.len() / 400);
    reader.lines();
    let warnings = reader.problems.warnings()?;
    Ok(Read { program: reader.program, warnings })
}

struct Reader<'a> {
    scanner: Scanner<'a>,
    schema: &'a Schema,
    lenient: bool,
    /// Values of the line being read; one buffer for all lines.
    raw: RawInst,
    program: Program,
    problems: Problems,
}

impl Reader<'_> {
    fn lines(&mut self) {
        while self.scanner.at < self.scanner.bytes.len() {
            let start = self.scanner.at;
            if self.lenient && self.skip_dots() {
                continue;
            }
            match self.line().and_then(|line| self.line_end().map(|()| line)) {
                Ok(line) => self.program.lines.push(line),
                Err(problem) => {
                    self.problems.push(problem);
                    let line = self.program.lines.len();
                    self.program.spellings.retain(|spelling| spelling.line < line);
                    self.scanner.at = start;
                    let rest = self.scanner.rest();
                    let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
                    self.scanner.skip(length);
                    self.scanner.eat(b"\n");
                }
            }
        }
    }

    /// A line of dots, which documents put for lines left out.
    fn skip_dots(&mut self) -> bool {
        let start = self.scanner.at;
        if !(self.scanner.eat(b"...\n") || self.scanner.rest() == b"...") {
            return false;
        }
        if self.scanner.at == start {
            self.scanner.skip(3);
        }
        let warning = self.scanner.wrong("Q4012", start, "lines are left out here".to_owned());
        self.problems.push(warning.as_warning());
        true
    }

    /// The end of a line.
    fn line_end(&mut self) -> Result<()> {
        self.scanner.expect(b"]")?;
        if self.scanner.eat(b"\n") {
            return Ok(());
        }
        let at_end = self.scanner.at == self.scanner.bytes.len();
        match (at_end, self.lenient) {
            (true, true) => Ok(()),
            (true, false) => Err(self.scanner.expected("a line break at the end of the last line")),
            _ => {
                let problem = self.scanner.expected("the end of the line");
                Err(match self.scanner.rest().starts_with(b"\r") {
                    true => problem.help("lines end with a line feed alone: remove the `\\r`"),
                    false => problem,
                })
            }
        }
    }

    fn line(&mut self) -> Result<Line> {
        self.scanner.expect(b"[")?;
        let start = self.scanner.at;
        let rest = self.scanner.rest();
        let length = rest.iter().position(|&byte| !is_word(byte)).unwrap_or(rest.len());
        let name = &rest[..length];
        let Some(row) = row_of(name) else { return Err(self.unknown(name)) };
        self.scanner.skip(length);
        self.scanner.expect(b", ")?;
        let from = self.scanner.at;
        let map = if self.scanner.eat(map::ELIDED) {
            self.tolerate("Q4012", from, || "the map is left out".to_owned())?;
            None
        } else {
            Some(map::read(&mut self.scanner)?)
        };
        self.scanner.expect(b", ")?;
        let time = self.time(start)?;
        let Some(text) = self.schema.rows.get(row) else {
            return Err(Diagnostic::bug("the schema lacks a row"));
        };
        self.raw.row = row;
        self.fields(text)?;
        let inst = Inst::from_raw(&self.raw).ok_or_else(|| {
            // The schema's ranges are those of the operand types.
            Diagnostic::bug(format!("values of {} do not fit", TABLE.rows[row].mnemonic))
        })?;
        Ok(Line { inst, map, time })
    }

    #[cold]
    fn unknown(&self, name: &[u8]) -> Diagnostic {
        if name.is_empty() {
            return self.scanner.expected("the name of an instruction");
        }
        let name: String = String::from_utf8_lossy(name).chars().take(40).collect();
        let mut end = Scanner { ..self.scanner };
        end.skip(name.len());
        end.wrong("Q4007", self.scanner.at, format!("unknown instruction `{name}`"))
            .help_if(did_you_mean(&name, TABLE.mnemonics()))
    }

    /// The times of a trace; in one file either all lines have them or none.
    fn time(&mut self, start: usize) -> Result<Option<(u64, u64)>> {
        let is_first = self.program.lines.is_empty();
        let number = self.program.lines.len().saturating_add(1);
        let has_time = self.scanner.rest().starts_with(b"{'inst_idx'");
        if !is_first && has_time != self.program.is_trace() {
            let text = "either every line has times or none has".to_owned();
            return Err(self.scanner.wrong("Q4009", start, text));
        }
        if !has_time {
            return Ok(None);
        }
        self.scanner.expect(b"{'inst_idx': ")?;
        let from = self.scanner.at;
        let index = self.scanner.whole()?;
        // After an error the count says nothing.
        if !self.problems.any_error() && usize::try_from(index) != Ok(number) {
            let text = format!("inst_idx is {index}, expected {number}");
            return Err(self.scanner.wrong("Q4009", from, text));
        }
        self.scanner.expect(b", 'time': [")?;
        let begin = self.scanner.whole()?;
        self.scanner.expect(b", ")?;
        let end = self.scanner.whole()?;
        let (Ok(begin), Ok(finish)) = (u64::try_from(begin), u64::try_from(end)) else {
            return Err(self.scanner.wrong("Q4004", from, "a time is negative".to_owned()));
        };
        if begin > finish {
            let text = format!("the line ends at {finish}, before it starts at {begin}");
            return Err(self.scanner.wrong("Q4009", from, text));
        }
        self.scanner.expect(b"]}, ")?;
        Ok(Some((begin, finish)))
    }

    fn fields(&mut self, text: &RowText) -> Result<()> {
        self.raw.values.clear();
        if self.scanner.rest().starts_with(b"{...") {
            return self.elided(text);
        }
        for (operand, step) in text.steps.iter().enumerate() {
            self.scanner.expect(&step.before)?;
            let value = self.value(step.slot, operand)?;
            self.raw.values.push(value);
        }
        self.scanner.expect(&text.after)
    }

    /// Fields left out: `{...}` or `{..., 'Prev_Insts': [], 'Next_Insts': []}`; they are zeros.
    #[cold]
    fn elided(&mut self, text: &RowText) -> Result<()> {
        let start = self.scanner.at;
        self.scanner.expect(b"{...")?;
        self.tolerate("Q4012", start, || "fields are left out; they are read as 0".to_owned())?;
        for (operand, step) in text.steps.iter().enumerate() {
            let listed = matches!(step.slot, Slot::Queues) && self.scanner.eat(&step.before);
            let value = match step.slot {
                slot if listed => self.value(slot, operand)?,
                Slot::Number => crate::isa::Number::whole(0).to_raw(),
                _ => 0,
            };
            self.raw.values.push(value);
        }
        self.scanner.expect(&text.after)
    }

    #[inline]
    fn value(&mut self, slot: Slot, operand: usize) -> Result<i128> {
        let start = self.scanner.at;
        match slot {
            Slot::Whole { low, high, scale } => {
                let value = self.scanner.whole()?;
                if value < low || value > high || (scale > 1 && value.checked_rem(scale) != Some(0))
                {
                    return Err(self.out_of_range(start, value, low, high, scale, operand));
                }
                Ok(i128::from(value))
            }
            Slot::Number => Ok(self.scanner.number()?.to_raw()),
            Slot::Queues => Ok(self.scanner.queues()?.to_raw()),
            Slot::Truth if self.scanner.eat(b"False") => Ok(0),
            Slot::Truth if self.scanner.eat(b"True") => Ok(1),
            Slot::Truth => Err(self.scanner.expected("`False` or `True`")),
            Slot::Member(enumeration) => self.member(enumeration, operand),
        }
    }

    #[cold]
    fn out_of_range(
        &self,
        start: usize,
        value: i64,
        low: i64,
        high: i64,
        scale: i64,
        operand: usize,
    ) -> Diagnostic {
        let row = &TABLE.rows[self.raw.row];
        let name = row.operands.get(operand).map_or("", |operand| operand.name);
        let multiple = if scale > 1 { format!("a multiple of {scale}, ") } else { String::new() };
        let message = format!(
            "operand {name} of {} is {value}, expected {multiple}{low} to {high}",
            row.mnemonic
        );
        self.scanner.wrong("Q4004", start, message)
    }

    /// `<Name.MEMBER: number>`.
    fn member(&mut self, enumeration: &'static Enumeration, operand: usize) -> Result<i128> {
        let start = self.scanner.at;
        self.scanner.expect(b"<")?;
        if !(self.scanner.eat(enumeration.name.as_bytes()) && self.scanner.eat(b".")) {
            return Err(self.scanner.expected(&format!("a member of {}", enumeration.name)));
        }
        let rest = self.scanner.rest();
        let length = rest.iter().position(|&byte| !is_word(byte)).unwrap_or(rest.len());
        let member = &rest[..length];
        self.scanner.skip(length);
        self.scanner.expect(b": ")?;
        let number = self.scanner.whole()?;
        self.scanner.expect(b">")?;
        let known = u8::try_from(number).ok().and_then(|number| enumeration.member(number));
        if known.is_some_and(|name| name.as_bytes() == member) {
            return Ok(i128::from(number));
        }
        self.foreign_member(enumeration, operand, start, member, number)
    }

    /// A member that is not the table's.
    #[cold]
    fn foreign_member(
        &mut self,
        enumeration: &'static Enumeration,
        operand: usize,
        start: usize,
        member: &[u8],
        number: i64,
    ) -> Result<i128> {
        let member = String::from_utf8_lossy(member).into_owned();
        let name = enumeration.name;
        let known = enumeration.members.iter().find(|(known, _)| *known == member);
        let message = match known {
            Some((_, right)) => format!("{name}.{member} is {right}, not {number}"),
            None => format!("{name}.{member} is unknown"),
        };
        if member.is_empty() || !(0..=255).contains(&number) {
            return Err(self.scanner.wrong("Q4008", start, message));
        }
        self.tolerate("Q4008", start, || message)?;
        self.program.spellings.push(Spelling { line: self.program.lines.len(), operand, member });
        Ok(i128::from(number))
    }

    /// A warning if reading is lenient, else an error.
    fn tolerate(
        &mut self,
        code: &'static str,
        start: usize,
        message: impl FnOnce() -> String,
    ) -> Result<()> {
        let problem = self.scanner.wrong(code, start, message());
        if !self.lenient {
            return Err(problem.help("--lenient reads it"));
        }
        self.problems.push(problem.as_warning());
        Ok(())
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
