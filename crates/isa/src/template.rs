//! The compiled form of a row's syntax, and reading and printing one instruction with it.

use crate::codec::DOES_NOT_FIT;
use crate::cursor::{Cursor, is_word};
use crate::layout::Layout;
use crate::table::{Kind, Operand, Row, Values};
use quincunx_diag::{Diagnostic, Result, did_you_mean};
use smallvec::smallvec;
use std::fmt::Write as _;

/// What stands for the mnemonic in a syntax, behind its brace.
const MNEMONIC: &str = "mnemonic}";

/// A compiled syntax.
#[derive(Debug)]
pub(crate) struct Template {
    elements: Vec<Element>,
}

/// Why an optional group is not there although the text begins like it, and where they part. This
/// is the best error if the statement does not end after the instruction.
pub(crate) type Missed = Option<(usize, Diagnostic)>;

/// `whole` is true where a word must end: "add" followed by a blank does not match "adder", but
/// the "r" of "r12" needs no end of a word after it.
#[derive(Debug)]
enum Element {
    Blank,
    Literal { text: String, whole: bool },
    Operand { index: usize, whole: bool },
    Flag { index: usize, body: Vec<Element> },
    Group(Vec<Element>),
}

impl Template {
    /// Compiles the syntax of a row.
    pub(crate) fn compile(row: &Row) -> std::result::Result<Template, String> {
        let mut compiler = Compiler { row, rest: row.syntax };
        let mut elements = compiler.sequence(None)?;
        mark_whole(&mut elements, false);
        Ok(Template { elements })
    }

    /// How often the operand with this index is written.
    pub(crate) fn mentions(&self, index: usize) -> usize {
        mentions(&self.elements, index)
    }

    /// True if the operand with this index can be absent.
    pub(crate) fn is_optional(&self, index: usize) -> bool {
        let required = |element: &Element| match element {
            Element::Operand { index: i, .. } | Element::Flag { index: i, .. } => *i == index,
            _ => false,
        };
        !self.elements.iter().any(required)
    }

    /// Reads one instruction. On an error the cursor is where the error is.
    pub(crate) fn parse(
        &self,
        row: usize,
        spec: &Row,
        cursor: &mut Cursor<'_>,
        layout: Option<&Layout>,
    ) -> Result<(Values, Missed)> {
        let mut values: Values = smallvec![0; spec.operands.len()];
        for (value, operand) in values.iter_mut().zip(spec.operands) {
            *value = operand.default.unwrap_or(0);
        }
        let mut parser = Parser { row, spec, layout, values, missed: None };
        let result = parser.sequence(&self.elements, cursor);
        let mut next = cursor.clone();
        next.skip_blanks();
        let missed = parser.missed.filter(|&(reached, _)| reached > next.position());
        match (result, missed) {
            (Ok(()), missed) => Ok((parser.values, missed)),
            (Err(_), Some((reached, error))) => {
                cursor.rewind(reached);
                Err(error)
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Prints one instruction.
    pub(crate) fn print(&self, spec: &Row, values: &[i128], out: &mut String) {
        print_sequence(&self.elements, spec, values, out);
    }
}

fn mentions(elements: &[Element], wanted: usize) -> usize {
    let count = |element: &Element| match element {
        Element::Operand { index, .. } | Element::Flag { index, .. } => {
            usize::from(*index == wanted)
        }
        Element::Group(body) => mentions(body, wanted),
        _ => 0,
    };
    elements.iter().map(count).sum()
}

struct Compiler<'a> {
    row: &'a Row,
    rest: &'a str,
}

impl Compiler<'_> {
    /// Elements up to `end`, which is taken, or to the end of the text.
    fn sequence(&mut self, end: Option<char>) -> std::result::Result<Vec<Element>, String> {
        let mut elements = Vec::new();
        loop {
            let Some(next) = self.rest.chars().next() else {
                return match end {
                    None => Ok(elements),
                    Some(end) => Err(format!("the syntax lacks a `{end}`")),
                };
            };
            self.rest = &self.rest[next.len_utf8()..];
            let doubled = "{}[]".contains(next) && self.rest.starts_with(next);
            if doubled {
                self.rest = &self.rest[1..];
                push_literal(&mut elements, next);
            } else if Some(next) == end {
                return Ok(elements);
            } else {
                match next {
                    ' ' => elements.push(Element::Blank),
                    '{' if self.rest.starts_with(MNEMONIC) => {
                        self.rest = &self.rest[MNEMONIC.len()..];
                        self.row.mnemonic.chars().for_each(|c| push_literal(&mut elements, c));
                    }
                    '{' => elements.push(self.operand()?),
                    '[' if end.is_none() => {
                        elements.push(Element::Group(self.sequence(Some(']'))?))
                    }
                    '[' | ']' | '}' => return Err(format!("the syntax has a stray `{next}`")),
                    _ => push_literal(&mut elements, next),
                }
            }
        }
    }

    /// `name}` or `name?text}`.
    fn operand(&mut self) -> std::result::Result<Element, String> {
        let length = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(length);
        let (index, operand) = self
            .row
            .operand(name)
            .ok_or_else(|| format!("the syntax names no operand `{name}`"))?;
        let is_flag = matches!(operand.kind, Kind::Flag);
        if let Some(rest) = rest.strip_prefix('?') {
            if !is_flag {
                return Err(format!("operand {name} is not a flag"));
            }
            self.rest = rest;
            let body = self.sequence(Some('}'))?;
            if body.iter().any(|e| !matches!(e, Element::Blank | Element::Literal { .. })) {
                return Err(format!("the text of flag {name} is not plain"));
            }
            return Ok(Element::Flag { index, body });
        }
        self.rest = rest.strip_prefix('}').ok_or_else(|| format!("no `}}` after `{name}`"))?;
        Ok(Element::Operand { index, whole: true })
    }
}

fn push_literal(elements: &mut Vec<Element>, character: char) {
    if let Some(Element::Literal { text, .. }) = elements.last_mut() {
        text.push(character);
    } else {
        elements.push(Element::Literal { text: character.to_string(), whole: true });
    }
}

/// Decides where words end; `glued` says whether a word goes on after the sequence.
fn mark_whole(elements: &mut [Element], mut glued: bool) {
    for element in elements.iter_mut().rev() {
        match element {
            Element::Blank => glued = false,
            Element::Literal { text, whole } => {
                *whole = !glued;
                glued = text.starts_with(is_word);
            }
            Element::Operand { whole, .. } => {
                *whole = !glued;
                glued = true;
            }
            Element::Flag { body, .. } | Element::Group(body) => {
                mark_whole(body, glued);
                glued |= match body.first() {
                    Some(Element::Literal { text, .. }) => text.starts_with(is_word),
                    Some(Element::Operand { .. }) => true,
                    _ => false,
                };
            }
        }
    }
}

/// Length of the part of an optional body by which it is recognised: the text before its first
/// operand, or that operand if there is no text before it.
fn lead(body: &[Element]) -> usize {
    let is_text = |element: &Element| matches!(element, Element::Literal { .. });
    let plain = |element: &&Element| is_text(element) || matches!(element, Element::Blank);
    let length = body.iter().take_while(plain).count();
    if body[..length].iter().any(is_text) { length } else { body.len().min(length + 1) }
}

struct Parser<'a> {
    row: usize,
    spec: &'a Row,
    layout: Option<&'a Layout>,
    values: Values,
    missed: Missed,
}

impl Parser<'_> {
    fn sequence(&mut self, elements: &[Element], cursor: &mut Cursor<'_>) -> Result<()> {
        elements.iter().try_for_each(|element| self.element(element, cursor))
    }

    fn element(&mut self, element: &Element, cursor: &mut Cursor<'_>) -> Result<()> {
        match element {
            Element::Blank => {
                cursor.skip_blanks();
                Ok(())
            }
            Element::Literal { text, whole } => literal(text, *whole, cursor),
            Element::Operand { index, whole } => self.operand(*index, *whole, cursor),
            Element::Flag { index, body } => {
                let present = self.optional(body, cursor)?;
                self.values[*index] = i128::from(present);
                Ok(())
            }
            Element::Group(body) => self.optional(body, cursor).map(|_| ()),
        }
    }

    /// Takes a body, unless its lead is not here; then it takes nothing and notes why.
    fn optional(&mut self, body: &[Element], cursor: &mut Cursor<'_>) -> Result<bool> {
        let start = cursor.position();
        let (lead, rest) = body.split_at(lead(body));
        if let Err(error) = self.sequence(lead, cursor) {
            let reached = cursor.position();
            if self.missed.as_ref().is_none_or(|&(furthest, _)| reached > furthest) {
                self.missed = Some((reached, error));
            }
            cursor.rewind(start);
            return Ok(false);
        }
        self.sequence(rest, cursor)?;
        Ok(true)
    }

    fn operand(&mut self, index: usize, whole: bool, cursor: &mut Cursor<'_>) -> Result<()> {
        let operand = &self.spec.operands[index];
        let start = cursor.position();
        let value = match operand.kind {
            Kind::Names(names) => name(names, whole, cursor)?,
            Kind::Custom(custom) => (custom.parse)(cursor)?,
            _ => number(operand, cursor)?,
        };
        let fault = match self.layout {
            Some(layout) => layout.fault(self.row, index, value),
            None => fault(self.spec, operand, value, range_of(operand, None)),
        };
        if let Some(fault) = fault {
            let span = cursor.span_from(start);
            return Err(fault.diagnostic().label(span, format!("expected {}", fault.expected)));
        }
        self.values[index] = value;
        Ok(())
    }
}

/// A value that an operand cannot have.
pub(crate) struct Fault {
    message: String,
    expected: String,
}

impl Fault {
    pub(crate) fn diagnostic(&self) -> Diagnostic {
        let message = format!("{}, expected {}", self.message, self.expected);
        Diagnostic::invalid(DOES_NOT_FIT, message)
    }
}

/// What is wrong with the value of an operand, if anything.
pub(crate) fn fault(
    row: &Row,
    operand: &Operand,
    value: i128,
    (low, high): (i128, i128),
) -> Option<Fault> {
    let in_range = (low..=high).contains(&value);
    if in_range && operand.kind.has(value) {
        return None;
    }
    let range = match (low, high) {
        (_, i128::MAX) => format!("at least {low}"),
        (i128::MIN, _) => format!("at most {high}"),
        _ => format!("{low}..={high}"),
    };
    let expected = match operand.kind {
        Kind::Names(_) | Kind::Custom(_) if in_range => operand.kind.describe(),
        Kind::Flag => "0 or 1".to_owned(),
        Kind::Scaled(scale) => format!("a multiple of {scale}, {range}"),
        _ => range,
    };
    let message = format!("operand {} of {} is {value}", operand.name, row.mnemonic);
    Some(Fault { message, expected })
}

/// The range of an operand whose field holds `stored`, the limits of the stored number.
pub(crate) fn range_of(operand: &Operand, stored: Option<(i128, i128)>) -> (i128, i128) {
    let (mut low, mut high) = operand.range.unwrap_or((i128::MIN, i128::MAX));
    if matches!(operand.kind, Kind::Unsigned | Kind::Hex) {
        low = low.max(0);
    }
    if let Some((first, last)) = stored.filter(|_| !operand.converted) {
        let value = |stored: i128| match operand.kind {
            Kind::Biased(bias) => stored.saturating_add(bias),
            Kind::Scaled(scale) => stored.saturating_mul(scale),
            _ => stored,
        };
        low = low.max(value(first));
        high = high.min(value(last));
    }
    (low, high)
}

fn literal(text: &str, whole: bool, cursor: &mut Cursor<'_>) -> Result<()> {
    if text.starts_with([',', ')']) {
        cursor.skip_blanks();
    }
    let found = if whole { cursor.eat_word(text) } else { cursor.eat(text) };
    if !found {
        return Err(cursor.expected_of(|| format!("`{text}`")));
    }
    if text.ends_with([',', '(']) {
        cursor.skip_blanks();
    }
    Ok(())
}

fn number(operand: &Operand, cursor: &mut Cursor<'_>) -> Result<i128> {
    let start = cursor.position();
    cursor.integer().map_err(|error| {
        if cursor.position() > start {
            return error;
        }
        cursor.expected_of(|| format!("{} (a number)", operand.name))
    })
}

/// The longest name that is here.
fn name(names: &[(&str, i128)], whole: bool, cursor: &mut Cursor<'_>) -> Result<i128> {
    let start = cursor.position();
    let mut best: Option<(usize, i128)> = None;
    for &(name, number) in names {
        cursor.rewind(start);
        let found = if whole { cursor.eat_word(name) } else { cursor.eat(name) };
        if found && best.is_none_or(|(length, _)| name.len() > length) {
            best = Some((name.len(), number));
        }
    }
    cursor.rewind(start);
    match best {
        Some((length, number)) => {
            cursor.rewind(start + length);
            Ok(number)
        }
        None => {
            let hint = || did_you_mean(cursor.peek_word(), names.iter().map(|&(name, _)| name));
            let error = cursor.expected_of(|| Kind::describe_names(names));
            Err(if cursor.is_quiet() { error } else { error.help_if(hint()) })
        }
    }
}

fn print_sequence(elements: &[Element], spec: &Row, values: &[i128], out: &mut String) {
    for element in elements {
        match element {
            Element::Blank => out.push(' '),
            Element::Literal { text, .. } => out.push_str(text),
            Element::Operand { index, .. } => {
                print_operand(&spec.operands[*index], values[*index], out)
            }
            Element::Flag { index, body } if values[*index] != 0 => {
                print_sequence(body, spec, values, out);
            }
            Element::Group(body) if !is_default(body, spec, values) => {
                print_sequence(body, spec, values, out);
            }
            Element::Flag { .. } | Element::Group(_) => {}
        }
    }
}

/// True if all operands of a group have their default; never for a group of plain text.
fn is_default(body: &[Element], spec: &Row, values: &[i128]) -> bool {
    let plain = |element: &Element| matches!(element, Element::Blank | Element::Literal { .. });
    !body.iter().all(plain)
        && body.iter().all(|element| match element {
            Element::Operand { index, .. } | Element::Flag { index, .. } => {
                values[*index] == spec.operands[*index].default.unwrap_or(0)
            }
            _ => true,
        })
}

/// Appends a number in decimal digits: small ones without the detour over formatting.
pub fn print_number(value: i128, out: &mut String) {
    match u32::try_from(value) {
        Ok(small) if small < 1000 => {
            for (unit, least) in [(100, 100), (10, 10), (1, 0)] {
                if small >= least {
                    out.push(char::from(b'0' + (small / unit % 10) as u8));
                }
            }
        }
        // Writing to a string cannot fail.
        _ => drop(write!(out, "{value}")),
    }
}

fn print_operand(operand: &Operand, value: i128, out: &mut String) {
    // Writing to a string cannot fail.
    let _ = match operand.kind {
        Kind::Names(names) => match names.iter().find(|&&(_, number)| number == value) {
            Some((name, _)) => {
                out.push_str(name);
                Ok(())
            }
            None => write!(out, "{value}"),
        },
        Kind::Custom(custom) => {
            (custom.print)(value, out);
            Ok(())
        }
        Kind::Hex if value < 0 => write!(out, "-{:#x}", value.unsigned_abs()),
        Kind::Hex => write!(out, "{value:#x}"),
        _ => {
            print_number(value, out);
            Ok(())
        }
    };
}
