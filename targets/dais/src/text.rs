//! Assembly text, lossless in both directions. The grammar is in the README of this folder; the
//! bodies of instructions come from the table in `isa`.
//!
//! da4ml and alkaid have no assembly syntax; this one is ours.

use crate::binary::output_source;
use crate::isa::{Inst, TABLE, layout};
use crate::program::{LookupTable, Operation, Output, Pipeline, Program, SlotType};
use quincunx_diag::{Diagnostic, Result, SourceId, any_error, did_you_mean};
use quincunx_isa::{Cursor, Style, parse_lines};
use quincunx_num::Kif;
use std::fmt::Write as _;

/// The stages of a text may announce this many inputs together without naming them; more would fill
/// the memory.
const MAX_INPUTS: i128 = 1 << 20;

/// Table entries on one line.
const VALUES_PER_LINE: usize = 16;

const DIRECTIVES: [&str; 10] = [
    ".dais",
    ".stage",
    ".inputs",
    ".input",
    ".state",
    ".carry",
    ".adder",
    ".firmware",
    ".table",
    ".values",
];

/// Cost model of a program that does not name one; the values of a fresh da4ml trace.
const CARRY_SIZE: i32 = -1;
const ADDER_SIZE: i32 = 1;

/// True when the text is assembly of this target: its first statement is `.dais`.
pub fn recognises(text: &str) -> bool {
    let mut cursor = Cursor::new(text, SourceId(0), Style::HASH);
    cursor.skip_lines();
    cursor.eat_word(".dais")
}

/// Assembly text of a program.
pub fn print(program: &Program) -> String {
    let mut out = String::from(".dais\n");
    print_program(program, &mut out);
    out
}

/// Assembly text of a pipeline: its stages one after the other.
pub fn print_pipeline(pipeline: &Pipeline) -> String {
    let mut out = String::from(".dais\n");
    for (number, stage) in pipeline.stages.iter().enumerate() {
        out.push_str(if number == 0 { "" } else { "\n.stage\n" });
        print_program(stage, &mut out);
    }
    out
}

/// Reads a program; places in diagnostics are spans of the text, which is source 0.
///
/// # Errors
/// All errors of the text, `Q1086` for a pipeline.
pub fn read(
    text: &str,
    name: &str,
) -> std::result::Result<(Program, Vec<Diagnostic>), Vec<Diagnostic>> {
    let mut stages = parse(text, SourceId(0))?.stages;
    match (stages.pop(), stages.is_empty()) {
        (Some(program), true) => Ok((program, Vec::new())),
        _ => {
            let message = "the text is a pipeline, expected one program";
            Err(vec![Diagnostic::unsupported("Q1086", message).name_file(name)])
        }
    }
}

/// Reads a program or a pipeline.
///
/// # Errors
/// All errors of the text: those of the kit for malformed statements and operands, `Q1081` for an
/// unknown directive, `Q1082` for a directive at the wrong place, `Q1083` for slots out of order,
/// `Q1084` for a malformed type, number or string.
pub fn parse(text: &str, source: SourceId) -> std::result::Result<Pipeline, Vec<Diagnostic>> {
    let mut parser = Parser { stages: Vec::new(), current: Stage::new(), inputs: 0 };
    let cursor = Cursor::new(text, source, Style::HASH);
    let lines = parse_lines(cursor, |cursor| parser.statement(cursor).map(|()| None::<()>));
    if any_error(&lines.diagnostics) {
        return Err(lines.diagnostics);
    }
    parser.stages.push(parser.current.program);
    Ok(Pipeline { stages: parser.stages })
}

fn print_program(program: &Program, out: &mut String) {
    // Writing to a string cannot fail.
    for (name, value, default) in [
        (".carry", program.carry_size, CARRY_SIZE),
        (".adder", program.adder_size, ADDER_SIZE),
        (".firmware", program.firmware_version, 0),
    ] {
        if value != default {
            let _ = writeln!(out, "{name} {value}");
        }
    }
    let _ = writeln!(out, ".inputs {}", program.input_shifts.len());
    for (index, shift) in program.input_shifts.iter().enumerate().filter(|(_, s)| **s != 0) {
        let _ = writeln!(out, ".input {index} << {shift}");
    }
    for chunk in program.state.chunks(VALUES_PER_LINE) {
        let values: Vec<String> = chunk.iter().map(|&value| shortest(value)).collect();
        let _ = writeln!(out, ".state {}", values.join(", "));
    }
    for (index, table) in program.tables.iter().enumerate() {
        print_table(index, table, out);
    }
    for (index, operation) in program.operations.iter().enumerate() {
        print_operation(index, operation, out);
        out.push('\n');
    }
    for output in &program.outputs {
        let sign = if output.negate { "-" } else { "" };
        let source = output.source.map_or("zero".to_owned(), |slot| format!("%{}", slot.0));
        let _ = write!(out, "out {sign}{source}");
        let _ = match output.shift {
            0 => writeln!(out),
            shift => writeln!(out, " << {shift}"),
        };
    }
}

/// The line of an operation.
pub(crate) fn print_operation(index: usize, operation: &Operation, out: &mut String) {
    let _ = write!(out, "%{index} = ");
    TABLE.print_to(&operation.inst.to_raw(), out);
    out.push_str(" : ");
    print_type(operation.slot_type, out);
    for (name, value) in [("latency", operation.latency), ("cost", operation.cost)] {
        if value.to_bits() != 0 {
            let _ = write!(out, " {name} {}", shortest(value));
        }
    }
}

fn print_table(index: usize, table: &LookupTable, out: &mut String) {
    let _ = write!(out, ".table {index}");
    if let Some((min, max, step)) = table.range {
        out.push_str(" : ");
        print_type(SlotType::Interval { min, max, step }, out);
    }
    if let Some(width) = table.operand_width {
        let _ = write!(out, " width {width}");
    }
    if let Some(hash) = &table.hash {
        let _ = write!(out, " hash {}", serde_json::Value::from(hash.as_str()));
    }
    out.push('\n');
    for chunk in table.values.chunks(VALUES_PER_LINE) {
        let values: Vec<String> = chunk.iter().map(i32::to_string).collect();
        let _ = writeln!(out, ".values {}", values.join(", "));
    }
}

pub(crate) fn print_type(slot_type: SlotType, out: &mut String) {
    let _ = match slot_type {
        SlotType::Kif(kif) => write!(out, "{kif}"),
        SlotType::Interval { min, max, step } => {
            write!(out, "[{}, {}, {}]", shortest(min), shortest(max), shortest(step))
        }
    };
}

/// The shortest text that reads back as the same number; whole numbers without a point.
pub(crate) fn shortest(value: f64) -> String {
    let text = format!("{value:?}");
    match text.strip_suffix(".0") {
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

/// A program that is being read.
struct Stage {
    program: Program,
    /// The slot that comes next; operations with errors in them count.
    next_slot: i128,
    has_inputs: bool,
}

impl Stage {
    fn new() -> Stage {
        let program =
            Program { carry_size: CARRY_SIZE, adder_size: ADDER_SIZE, ..Program::default() };
        Stage { program, next_slot: 0, has_inputs: false }
    }
}

struct Parser {
    stages: Vec<Program>,
    current: Stage,
    /// Inputs of all stages so far.
    inputs: i128,
}

impl Parser {
    fn statement(&mut self, cursor: &mut Cursor<'_>) -> Result<()> {
        let start = cursor.position();
        match cursor.peek() {
            Some('%') => self.operation(cursor),
            Some('.') => self.directive(cursor),
            _ if cursor.eat_word("out") => self.output(cursor),
            _ => {
                let word = cursor.peek_word();
                let hint = did_you_mean(word, ["out"]);
                cursor.rewind(start);
                Err(cursor.expected("`%0 = …`, `out …` or a directive such as `.inputs`"))
                    .map_err(|problem| problem.help_if(hint))
            }
        }
    }

    fn directive(&mut self, cursor: &mut Cursor<'_>) -> Result<()> {
        let start = cursor.position();
        cursor.eat(".");
        let word = cursor.peek_word();
        cursor.eat(word);
        cursor.skip_blanks();
        match word {
            "dais" => Ok(()),
            "stage" => {
                let finished = std::mem::replace(&mut self.current, Stage::new());
                self.stages.push(finished.program);
                Ok(())
            }
            "inputs" => self.inputs(cursor, start),
            "input" => self.input_shift(cursor),
            "carry" => set_word(&mut self.current.program.carry_size, cursor),
            "adder" => set_word(&mut self.current.program.adder_size, cursor),
            "firmware" => set_word(&mut self.current.program.firmware_version, cursor),
            "state" => each(cursor, |cursor| {
                self.current.program.state.push(float(cursor)?);
                Ok(())
            }),
            "table" => self.table(cursor),
            "values" => self.values(cursor, start),
            _ => {
                let shown: String = word.chars().take(40).collect();
                let hint = did_you_mean(&format!(".{word}"), DIRECTIVES);
                let message = format!("unknown directive `.{}`", shown.escape_debug());
                Err(cursor.error("Q1081", message, start).help_if(hint))
            }
        }
    }

    fn inputs(&mut self, cursor: &mut Cursor<'_>, start: usize) -> Result<()> {
        let count = bounded(cursor, 0, MAX_INPUTS)?;
        if std::mem::replace(&mut self.current.has_inputs, true) {
            return Err(cursor.error("Q1082", "the inputs are declared twice", start));
        }
        self.inputs = self.inputs.saturating_add(count);
        if self.inputs > MAX_INPUTS {
            let message = format!("the stages have {} inputs, at most {MAX_INPUTS}", self.inputs);
            return Err(cursor.error("Q1084", message, start));
        }
        let count = usize::try_from(count).expect("the bound was checked");
        self.current.program.input_shifts = vec![0; count];
        Ok(())
    }

    /// `.input 5 << -2`.
    fn input_shift(&mut self, cursor: &mut Cursor<'_>) -> Result<()> {
        let start = cursor.position();
        let index = cursor.integer()?;
        let shifts = &mut self.current.program.input_shifts;
        let found = usize::try_from(index).ok().and_then(|index| shifts.get_mut(index));
        let Some(place) = found else {
            let message = format!("there is no input {index} yet");
            let help = "`.inputs` announces how many there are";
            return Err(cursor.error("Q1082", message, start).help(help));
        };
        cursor.skip_blanks();
        cursor.expect("<<")?;
        cursor.skip_blanks();
        set_word(place, cursor)
    }

    /// `.table 0 : [min, max, step] width 5 hash "…"`.
    fn table(&mut self, cursor: &mut Cursor<'_>) -> Result<()> {
        let start = cursor.position();
        let number = cursor.integer()?;
        let expected = self.current.program.tables.len();
        let mut table =
            LookupTable { values: Vec::new(), range: None, operand_width: None, hash: None };
        cursor.skip_blanks();
        let rest = read_table_origin(&mut table, cursor);
        // A table with errors counts, so that the numbers of the others stay right.
        self.current.program.tables.push(table);
        if i128::try_from(expected) != Ok(number) {
            let message = format!("expected table {expected}, found table {number}");
            return Err(cursor.error("Q1083", message, start));
        }
        rest
    }

    fn values(&mut self, cursor: &mut Cursor<'_>, start: usize) -> Result<()> {
        let Some(table) = self.current.program.tables.last_mut() else {
            return Err(cursor.error("Q1082", "`.values` without a table before it", start));
        };
        each(cursor, |cursor| {
            let mut value = 0;
            set_word(&mut value, cursor)?;
            table.values.push(value);
            Ok(())
        })
    }

    /// `%5 = add %0, %1 << 2 : (1, 4, 3) latency 2 cost 5`.
    fn operation(&mut self, cursor: &mut Cursor<'_>) -> Result<()> {
        let start = cursor.position();
        cursor.expect("%")?;
        let slot = cursor.integer()?;
        let expected = std::mem::replace(&mut self.current.next_slot, slot.saturating_add(1));
        if slot != expected {
            let message = format!("expected slot %{expected}, found %{slot}");
            return Err(cursor
                .error("Q1083", message, start)
                .help("slots are numbered from %0 on"));
        }
        cursor.skip_blanks();
        cursor.expect("=")?;
        cursor.skip_blanks();
        let raw = TABLE.parse(cursor, Some(layout()))?;
        let inst =
            Inst::from_raw(&raw).ok_or_else(|| Diagnostic::bug("a row parses to no variant"))?;
        cursor.skip_blanks();
        cursor.expect(":")?;
        cursor.skip_blanks();
        let slot_type = read_type(cursor)?;
        let (latency, cost) = (attribute("latency", cursor)?, attribute("cost", cursor)?);
        let (latency, cost) = (latency.unwrap_or(0.0), cost.unwrap_or(0.0));
        self.current.program.operations.push(Operation { inst, slot_type, latency, cost });
        Ok(())
    }

    /// `out -%6 << 1` or `out zero`, after the word.
    fn output(&mut self, cursor: &mut Cursor<'_>) -> Result<()> {
        cursor.skip_blanks();
        let negate = cursor.eat("-");
        let start = cursor.position();
        let source = if cursor.eat_word("zero") {
            None
        } else if cursor.eat("%") {
            let number = bounded(cursor, 0, u32::MAX.into())?;
            let output = self.current.program.outputs.len();
            output_source(output, number).map_err(|p| p.label(cursor.span_from(start), ""))?
        } else {
            return Err(cursor.expected("a slot such as %12, or `zero`"));
        };
        cursor.skip_blanks();
        let mut shift = 0;
        if cursor.eat("<<") {
            cursor.skip_blanks();
            set_word(&mut shift, cursor)?;
        }
        self.current.program.outputs.push(Output { source, shift, negate });
        Ok(())
    }
}

fn read_table_origin(table: &mut LookupTable, cursor: &mut Cursor<'_>) -> Result<()> {
    if cursor.eat(":") {
        cursor.skip_blanks();
        table.range = Some(read_interval(cursor)?);
        cursor.skip_blanks();
    }
    if cursor.eat_word("width") {
        cursor.skip_blanks();
        table.operand_width = u32::try_from(bounded(cursor, 0, u32::MAX.into())?).ok();
        cursor.skip_blanks();
    }
    if cursor.eat_word("hash") {
        cursor.skip_blanks();
        table.hash = Some(read_string(cursor)?);
    }
    Ok(())
}

/// `(k, i, f)` or `[min, max, step]`.
fn read_type(cursor: &mut Cursor<'_>) -> Result<SlotType> {
    if cursor.peek() == Some('[') {
        let (min, max, step) = read_interval(cursor)?;
        return Ok(SlotType::Interval { min, max, step });
    }
    if !cursor.eat("(") {
        return Err(cursor.expected("a type: `(k, i, f)` or `[min, max, step]`"));
    }
    cursor.skip_blanks();
    let signed = bounded(cursor, 0, 1)? == 1;
    let (mut integer, mut fraction) = (0, 0);
    for place in [&mut integer, &mut fraction] {
        comma(cursor)?;
        set_word(place, cursor)?;
    }
    cursor.skip_blanks();
    cursor.expect(")")?;
    Ok(SlotType::Kif(Kif::new(signed, integer, fraction)))
}

fn read_interval(cursor: &mut Cursor<'_>) -> Result<(f64, f64, f64)> {
    cursor.expect("[")?;
    cursor.skip_blanks();
    let min = float(cursor)?;
    comma(cursor)?;
    let max = float(cursor)?;
    comma(cursor)?;
    let step = float(cursor)?;
    cursor.skip_blanks();
    cursor.expect("]")?;
    Ok((min, max, step))
}

/// ` latency 2`, if it is here.
fn attribute(name: &str, cursor: &mut Cursor<'_>) -> Result<Option<f64>> {
    cursor.skip_blanks();
    if !cursor.eat_word(name) {
        return Ok(None);
    }
    cursor.skip_blanks();
    float(cursor).map(Some)
}

/// A list with commas between its items.
fn each(
    cursor: &mut Cursor<'_>,
    mut item: impl FnMut(&mut Cursor<'_>) -> Result<()>,
) -> Result<()> {
    loop {
        item(cursor)?;
        cursor.skip_blanks();
        if !cursor.eat(",") {
            return Ok(());
        }
        cursor.skip_blanks();
    }
}

fn comma(cursor: &mut Cursor<'_>) -> Result<()> {
    cursor.skip_blanks();
    cursor.expect(",")?;
    cursor.skip_blanks();
    Ok(())
}

/// A number as Rust reads it, `inf` and `NaN` included.
fn float(cursor: &mut Cursor<'_>) -> Result<f64> {
    let rest = cursor.rest_of_line();
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-');
    let token = &rest[..rest.find(|c| !part(c)).unwrap_or(rest.len())];
    let value = token.parse().map_err(|_| cursor.expected("a number"))?;
    cursor.eat(token);
    Ok(value)
}

/// A string in the notation of JSON.
fn read_string(cursor: &mut Cursor<'_>) -> Result<String> {
    let rest = cursor.rest_of_line();
    let mut escaped = false;
    let end = rest.char_indices().skip(1).find(|&(_, c)| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    let token = end.map(|(at, _)| &rest[..=at]).filter(|token| token.starts_with('"'));
    let found = token.and_then(|token| Some((token, serde_json::from_str(token).ok()?)));
    let (token, value) = found.ok_or_else(|| cursor.expected("a string in double quotes"))?;
    cursor.eat(token);
    Ok(value)
}

/// A whole number between two bounds, both included.
fn bounded(cursor: &mut Cursor<'_>, low: i128, high: i128) -> Result<i128> {
    let start = cursor.position();
    let value = cursor.integer()?;
    if (low..=high).contains(&value) {
        return Ok(value);
    }
    Err(cursor.error("Q1084", format!("the number is {value}, expected {low}..={high}"), start))
}

/// Reads a 32-bit number.
fn set_word(place: &mut i32, cursor: &mut Cursor<'_>) -> Result<()> {
    let value = bounded(cursor, i32::MIN.into(), i32::MAX.into())?;
    *place = i32::try_from(value).expect("the range was checked");
    Ok(())
}
