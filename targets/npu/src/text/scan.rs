//! Reading bytes of one line.

use crate::isa::{Number, Queue, Queues};
use quincunx_diag::{Diagnostic, Result, SourceId, Span};
use std::num::Saturating;

/// Digits of a whole number; more do not fit 64 bits with certainty.
const MAX_DIGITS: usize = 18;

/// A place in the text. After an error the place is where reading stopped.
pub(super) struct Scanner<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    pub(super) source: SourceId,
}

impl<'a> Scanner<'a> {
    pub(super) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Goes on behind so many bytes, at most to the end.
    #[inline]
    pub(super) fn skip(&mut self, length: usize) {
        self.at = self.at.saturating_add(length).min(self.bytes.len());
    }

    /// Takes fixed text.
    #[inline]
    pub(super) fn eat(&mut self, text: &[u8]) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.skip(text.len());
        }
        found
    }

    /// Takes fixed text that must be there.
    #[inline]
    pub(super) fn expect(&mut self, text: &[u8]) -> Result<()> {
        if self.eat(text) { Ok(()) } else { Err(self.mismatch(text)) }
    }

    /// The error for other text than this; it points to where they part.
    #[cold]
    fn mismatch(&mut self, text: &[u8]) -> Diagnostic {
        let common = self.rest().iter().zip(text).take_while(|(a, b)| a == b).count();
        // A message about half a key helps nobody.
        let word = |byte: u8| byte.is_ascii_alphanumeric() || b"_'".contains(&byte);
        let tail = text[..common].iter().rev().take_while(|&&byte| word(byte)).count();
        let start = common.saturating_sub(tail);
        self.skip(start);
        let missing = String::from_utf8_lossy(&text[start..]).into_owned();
        let shown = missing.trim();
        self.expected(&if shown.is_empty() { "a blank".to_owned() } else { format!("`{shown}`") })
    }

    /// The error for anything but this here.
    #[cold]
    pub(super) fn expected(&self, what: &str) -> Diagnostic {
        let end = self.rest().iter().position(|byte| b",]}\n".contains(byte));
        let length = end.unwrap_or(self.rest().len()).clamp(1, 40);
        let found = &self.rest()[..length.min(self.rest().len())];
        let shown = match found {
            [] => "the end of the text".to_owned(),
            [b'\n', ..] => "the end of the line".to_owned(),
            _ => format!("`{}`", String::from_utf8_lossy(found).escape_debug()),
        };
        let message = format!("expected {what}, found {shown}");
        Diagnostic::invalid("Q4003", message).label(self.span(length), format!("expected {what}"))
    }

    /// An error about the last bytes read.
    #[cold]
    pub(super) fn wrong(&self, code: &'static str, from: usize, message: String) -> Diagnostic {
        let position = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let span = Span { source: self.source, start: position(from), end: position(self.at) };
        Diagnostic::invalid(code, message).label(span, "")
    }

    fn span(&self, length: usize) -> Span {
        let position = |at: usize| u32::try_from(at.min(self.bytes.len())).unwrap_or(u32::MAX);
        let end = position(self.at.saturating_add(length));
        Span { source: self.source, start: position(self.at), end }
    }

    /// A whole number as Python prints it.
    #[inline]
    pub(super) fn whole(&mut self) -> Result<i64> {
        let start = self.at;
        let negative = self.eat(b"-");
        let rest = self.rest();
        let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, behind) = rest.split_at(length);
        self.skip(length.min(MAX_DIGITS));
        if length > MAX_DIGITS {
            let message = "the number has too many digits".to_owned();
            return Err(self.wrong("Q4004", start, message));
        }
        let value = digits.iter().fold(Saturating(0), |value, &digit| {
            value * Saturating(10) + Saturating(i64::from(digit & 15))
        });
        let odd = matches!(digits, [] | [b'0', _, ..])
            || (negative && value.0 == 0)
            || matches!(behind, [b'.' | b'e' | b'E', ..]);
        if odd {
            self.at = start;
            return Err(self.expected("a whole number"));
        }
        Ok(if negative { -value } else { value }.0)
    }

    /// A whole number of 32 bits.
    #[inline]
    pub(super) fn index(&mut self) -> Result<i32> {
        let start = self.at;
        let value = self.whole()?;
        i32::try_from(value)
            .map_err(|_| self.wrong("Q4004", start, format!("the number {value} is out of range")))
    }

    /// A number with or without a point.
    #[inline]
    pub(super) fn number(&mut self) -> Result<Number> {
        let is_part = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'e' | b'+');
        let rest = self.rest();
        let length = rest.iter().position(|&byte| !is_part(byte)).unwrap_or(rest.len());
        match Number::parse(&rest[..length]) {
            Some(number) => {
                self.skip(length);
                Ok(number)
            }
            None => Err(self.no_number(length)),
        }
    }

    /// The error for what begins here and is not a number, with what to write instead.
    #[cold]
    fn no_number(&self, length: usize) -> Diagnostic {
        let text = String::from_utf8_lossy(&self.rest()[..length]);
        let digits = text.strip_prefix('-').unwrap_or(&text);
        let canonical = digits.starts_with(|first: char| ('1'..='9').contains(&first));
        if canonical && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return self
                .expected("a whole number of 32 bits or a number with a decimal point")
                .help(format!("a number of this size has a point: {text}.0"));
        }
        let problem = self.expected("a finite number");
        let words = [&b"nan"[..], b"-nan", b"inf", b"-inf", b"None"];
        match words.iter().any(|word| self.rest().starts_with(word)) {
            true => problem.help("the machine has no such value; write a number such as 0 or 0.5"),
            false => problem,
        }
    }

    /// A list of queues.
    #[inline]
    pub(super) fn queues(&mut self) -> Result<Queues> {
        let mut list = Queues::NONE;
        self.expect(b"[")?;
        if self.eat(b"]") {
            return Ok(list);
        }
        loop {
            let start = self.at;
            let name = match self.rest() {
                [b'\'', a, b, b'\'', ..] => Queue::from_name(&[*a, *b]),
                _ => None,
            };
            let Some(queue) = name else {
                return Err(
                    self.expected("a queue: 'CT', 'LD', 'LW', 'PE', 'VP', 'DT', 'ST', 'SI', 'SO'")
                );
            };
            self.skip(4);
            if !list.push(queue) {
                return Err(self.wrong("Q4005", start, format!("queue {queue} is listed twice")));
            }
            if self.eat(b"]") {
                return Ok(list);
            }
            self.expect(b", ")?;
        }
    }
}
