//! The compiled form of a row's syntax, and reading and printing one instruction with it.

use crate::codec::DOES_NOT_FIT;
use crate::cursor::{Cursor, is_word};
use crate::layout::Layout;
use crate::table::{Kind, Operand, Row, Values};
use quincunx_diag::{Diagnostic, Result, Span, did_you_mean};
use std::fmt::Write as _;

/// What stands for the mnemonic in a syntax, behind its brace.
const MNEMONIC: &str = "mnemonic}";

/// A compiled syntax.
#[derive(Debug)]
pub(crate) struct Template {
    elements: Vec<Element>,
    /// The values of the operands that are not in a text.
    defaults: Values,
    /// Elements at the start that read the same in the row above.
    shared: usize,
}

/// Why a text is not what a syntax says: a literal that is not here, for which no message is made
/// unless somebody reads it, or the error of an operand.
pub(crate) enum Failure<'t> {
    Literal(&'t str),
    Operand(Diagnostic),
}

impl Failure<'_> {
    /// The error; the cursor is where it arose.
    pub(crate) fn diagnostic(self, cursor: &Cursor<'_>) -> Diagnostic {
        match self {
            Failure::Literal(text) => cursor.expected(format_args!("`{text}`")),
            Failure::Operand(error) => error,
        }
    }
}

/// Why an optional group is not there although the text may begin like it, and where they part. This
/// is the best error if the statement goes on after the instruction, but not up to there.
pub(crate) type Missed<'t> = Option<(usize, Failure<'t>)>;

/// `whole` is true where a word must end: "add" followed by a blank does not match "adder", but
/// the "r" of "r12" needs no end of a word after it.
#[derive(Debug, PartialEq)]
enum Element {
    Blank,
    Literal { text: String, whole: bool },
    Operand { index: usize, whole: bool },
    Flag { index: usize, body: Body },
    Group(Body),
}

/// Elements that may be missing.
#[derive(Debug, PartialEq)]
struct Body {
    elements: Vec<Element>,
    /// How many of them it is recognised by: the text before its first operand, or that operand if
    /// there is no text before it.
    lead: usize,
}

impl Template {
    /// Compiles the syntax of a row.
    pub(crate) fn compile(row: &Row) -> std::result::Result<Template, String> {
        let mut compiler = Compiler { row, rest: row.syntax };
        let mut elements = compiler.sequence(None)?;
        mark_whole(&mut elements, false);
        let defaults = row.operands.iter().map(|operand| operand.default.unwrap_or(0)).collect();
        Ok(Template { elements, defaults, shared: 0 })
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

    /// Notes how far the row reads the same as the one above it.
    pub(crate) fn share(&mut self, spec: &Row, above: &Template, row_above: &Row) {
        let operands = spec.operands.iter().zip(row_above.operands);
        let alike: Vec<bool> = operands.map(|(own, other)| own.reads_as(other)).collect();
        let is_shared = |own: &Element, other: &Element| {
            let differs = |index| mentions(std::slice::from_ref(own), index) > 0 && !alike[index];
            own == other && !(0..alike.len()).any(differs)
        };
        let pairs = self.elements.iter().zip(&above.elements);
        if self.defaults == above.defaults {
            self.shared = pairs.take_while(|(own, other)| is_shared(own, other)).count();
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
        Element::Group(body) => mentions(&body.elements, wanted),
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
                        elements.push(Element::Group(Body::new(self.sequence(Some(']'))?)))
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
            let body = Body::new(self.sequence(Some('}'))?);
            if !body.is_plain() {
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
                mark_whole(&mut body.elements, glued);
                glued |= match body.elements.first() {
                    Some(Element::Literal { text, .. }) => text.starts_with(is_word),
                    Some(Element::Operand { .. }) => true,
                    _ => false,
                };
            }
        }
    }
}

impl Element {
    fn is_text(&self) -> bool {
        matches!(self, Element::Literal { .. })
    }

    fn is_plain(&self) -> bool {
        self.is_text() || matches!(self, Element::Blank)
    }
}

impl Body {
    fn new(elements: Vec<Element>) -> Body {
        let plain = elements.iter().take_while(|element| element.is_plain()).count();
        let has_text = elements[..plain].iter().any(Element::is_text);
        let lead = if has_text { plain } else { elements.len().min(plain + 1) };
        Body { elements, lead }
    }

    fn is_plain(&self) -> bool {
        self.elements.iter().all(Element::is_plain)
    }
}

/// Reads instructions, row after row. A row begins where the row above it failed, as far as the two
/// read the same.
pub(crate) struct Parser<'t> {
    layout: Option<&'t Layout>,
    row: usize,
    spec: &'t Row,
    /// Limits of the operands, if there is a layout.
    ranges: &'t [(i128, i128)],
    pub(crate) values: Values,
    pub(crate) failure: Option<Failure<'t>>,
    pub(crate) missed: Missed<'t>,
    /// The element in which the row failed, and where that begins.
    failed: Option<(usize, usize)>,
}

impl<'t> Parser<'t> {
    pub(crate) fn new(row: &'t Row, layout: Option<&'t Layout>) -> Parser<'t> {
        let values = Values::new();
        let (spec, ranges) = (row, &[][..]);
        Parser { layout, row: 0, spec, ranges, values, failure: None, missed: None, failed: None }
    }

    /// Reads an instruction of a row. The cursor is where it ends or where the error is. Where it
    /// gives false, as the functions that it calls, there is a `failure`.
    pub(crate) fn read(
        &mut self,
        row: usize,
        spec: &'t Row,
        template: &'t Template,
        cursor: &mut Cursor<'_>,
    ) -> bool {
        let above = self.failed.take().filter(|_| row == self.row + 1);
        let first = match above.filter(|(element, _)| (1..=template.shared).contains(element)) {
            Some((element, at)) => {
                cursor.rewind(at);
                element
            }
            None => {
                self.values.clear();
                self.values.extend_from_slice(&template.defaults);
                self.missed = None;
                0
            }
        };
        (self.row, self.spec, self.failure) = (row, spec, None);
        self.ranges = self.layout.map_or(&[], |layout| &layout.rows[row].ranges);
        for (index, element) in template.elements.iter().enumerate().skip(first) {
            let start = cursor.position();
            if matches!(element, Element::Blank) {
                // Half of the elements: too many for a call.
                cursor.skip_blanks();
            } else if !self.element(element, cursor) {
                // Of a group a part may have been read.
                let is_clean = element.is_plain() || matches!(element, Element::Operand { .. });
                self.failed = is_clean.then_some((index, start));
                return false;
            }
        }
        true
    }

    fn element(&mut self, element: &'t Element, cursor: &mut Cursor<'_>) -> bool {
        match element {
            Element::Blank => {
                cursor.skip_blanks();
                true
            }
            Element::Literal { text, whole } => {
                literal(text, *whole, cursor) || self.fail(Failure::Literal(text))
            }
            Element::Operand { index, whole } => match self.operand(*index, *whole, cursor) {
                Ok(()) => true,
                Err(error) => self.fail(Failure::Operand(error)),
            },
            Element::Flag { index, body } => {
                let is_there = self.lead(body, cursor);
                self.values[*index] = i128::from(is_there);
                !is_there || self.rest(body, cursor)
            }
            Element::Group(body) => !self.lead(body, cursor) || self.rest(body, cursor),
        }
    }

    fn fail(&mut self, failure: Failure<'t>) -> bool {
        self.failure = Some(failure);
        false
    }

    /// Takes the lead of a body, unless it is not here; then this takes nothing and notes why.
    fn lead(&mut self, body: &'t Body, cursor: &mut Cursor<'_>) -> bool {
        let start = cursor.position();
        let is_there = body.elements[..body.lead].iter().all(|lead| self.element(lead, cursor));
        if !is_there {
            let reached = cursor.position();
            let failure = self.failure.take();
            if self.missed.as_ref().is_none_or(|&(furthest, _)| reached > furthest) {
                self.missed = failure.map(|failure| (reached, failure));
            }
            cursor.rewind(start);
        }
        is_there
    }

    /// Takes what is behind the lead of a body.
    fn rest(&mut self, body: &'t Body, cursor: &mut Cursor<'_>) -> bool {
        body.elements[body.lead..].iter().all(|element| self.element(element, cursor))
    }

    fn operand(&mut self, index: usize, whole: bool, cursor: &mut Cursor<'_>) -> Result<()> {
        let operand = &self.spec.operands[index];
        let start = cursor.position();
        let value = match operand.kind {
            Kind::Names(names) => name(names, whole, cursor)?,
            Kind::Custom(custom) => (custom.parse)(cursor)?,
            _ => number(operand, cursor)?,
        };
        let range = self.ranges.get(index).copied();
        let range = range.unwrap_or_else(|| range_of(operand, None));
        if let Some(fault) = fault(self.spec, operand, value, range) {
            return Err(fault.at(cursor.span_from(start)));
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
    #[cold]
    fn at(&self, span: Span) -> Diagnostic {
        self.diagnostic().label(span, format!("expected {}", self.expected))
    }

    pub(crate) fn diagnostic(&self) -> Diagnostic {
        let message = format!("{}, expected {}", self.message, self.expected);
        Diagnostic::invalid(DOES_NOT_FIT, message)
    }
}

/// What is wrong with the value of an operand, if anything.
#[inline]
pub(crate) fn fault(
    row: &Row,
    operand: &Operand,
    value: i128,
    range: (i128, i128),
) -> Option<Fault> {
    let is_legal = (range.0..=range.1).contains(&value) && operand.kind.has(value);
    (!is_legal).then(|| fault_of(row, operand, value, range))
}

#[cold]
fn fault_of(row: &Row, operand: &Operand, value: i128, (low, high): (i128, i128)) -> Fault {
    let in_range = (low..=high).contains(&value);
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
    Fault { message, expected }
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

fn literal(text: &str, whole: bool, cursor: &mut Cursor<'_>) -> bool {
    if text.starts_with([',', ')']) {
        cursor.skip_blanks();
    }
    let found = if whole { cursor.eat_word(text) } else { cursor.eat(text) };
    if found && text.ends_with([',', '(']) {
        cursor.skip_blanks();
    }
    found
}

fn number(operand: &Operand, cursor: &mut Cursor<'_>) -> Result<i128> {
    let start = cursor.position();
    cursor.integer().map_err(|error| {
        if cursor.position() > start {
            return error;
        }
        cursor.expected(format_args!("{} (a number)", operand.name))
    })
}

/// The longest name that is here.
fn name(names: &[(&str, i128)], whole: bool, cursor: &mut Cursor<'_>) -> Result<i128> {
    let is_here = |&&(name, _): &&(&str, _)| match whole {
        true => cursor.is_at_word(name),
        false => cursor.is_at(name),
    };
    match names.iter().filter(is_here).max_by_key(|(name, _)| name.len()) {
        Some(&(name, number)) => {
            cursor.eat(name);
            Ok(number)
        }
        None if cursor.silent => Err(cursor.expected("")),
        None => Err(no_name(names, cursor)),
    }
}

#[cold]
fn no_name(names: &[(&str, i128)], cursor: &Cursor<'_>) -> Diagnostic {
    let hint = did_you_mean(cursor.peek_word(), names.iter().map(|&(name, _)| name));
    cursor.expected(Kind::describe_names(names)).help_if(hint)
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
                print_sequence(&body.elements, spec, values, out);
            }
            Element::Group(body) if !is_default(body, spec, values) => {
                print_sequence(&body.elements, spec, values, out);
            }
            Element::Flag { .. } | Element::Group(_) => {}
        }
    }
}

/// True if all operands of a group have their default; never for a group of plain text.
fn is_default(body: &Body, spec: &Row, values: &[i128]) -> bool {
    !body.is_plain()
        && body.elements.iter().all(|element| match element {
            Element::Operand { index, .. } | Element::Flag { index, .. } => {
                values[*index] == spec.operands[*index].default.unwrap_or(0)
            }
            _ => true,
        })
}

/// Appends a number in decimal digits: most without the detour over formatting.
pub fn print_number(value: i128, out: &mut String) {
    let Ok(mut rest) = u64::try_from(value.unsigned_abs()) else {
        // Writing to a string cannot fail.
        let _ = write!(out, "{value}");
        return;
    };
    *out += if value < 0 { "-" } else { "" };
    if rest < 10 {
        return out.push(char::from(b'0' + rest as u8));
    }
    let (mut digits, mut first) = ([0; 20], 20);
    while rest > 0 {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    *out += str::from_utf8(&digits[first..]).unwrap_or_default();
}

/// Appends a number in at least so many upper hexadecimal digits, behind `0x`.
pub fn print_hex(value: u64, digits: u32, out: &mut String) {
    *out += "0x";
    let needed = (64 - value.leading_zeros()).div_ceil(4).max(digits).max(1);
    for at in (0..needed.min(16)).rev() {
        let digit = char::from_digit((value >> (4 * at) & 15) as u32, 16).unwrap_or('0');
        out.push(digit.to_ascii_uppercase());
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
