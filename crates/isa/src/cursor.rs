//! A text cursor for hand-written parsers.

use crate::codec::DOES_NOT_FIT;
use quincunx_diag::{Diagnostic, Result, SourceId, Span};
use std::fmt;

/// How the text of a language looks between its words.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// What starts a comment that ends at the end of the line, such as `#` or `//`.
    pub comments: &'static [&'static str],
    /// Characters that end a statement besides the end of the line, such as `;`.
    pub separators: &'static [char],
}

impl Style {
    /// Comments start with `#`, statements end with the line.
    pub const HASH: Style = Style { comments: &["#"], separators: &[] };
    /// Comments start with `//`, statements end with the line.
    pub const SLASHES: Style = Style { comments: &["//"], separators: &[] };
}

/// A position in a source text. No method panics. Only [`Cursor::next_line`],
/// [`Cursor::skip_lines`], [`Cursor::rewind`], and taking a text that has an end of line in it go
/// past the end of a line.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    text: &'a str,
    source: SourceId,
    style: Style,
    position: usize,
    /// True while rows are tried: the errors of those that fail say nothing then, which is fast.
    pub(crate) silent: bool,
}

/// True for characters of identifiers: letters, digits and `_`.
#[inline]
pub fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of a text.
    pub fn new(text: &'a str, source: SourceId, style: Style) -> Self {
        Cursor { text, source, style, position: 0, silent: false }
    }

    /// The byte offset in the text.
    #[inline]
    pub fn position(&self) -> usize {
        self.position
    }

    /// Goes back (or on) to an offset that [`Cursor::position`] gave.
    pub fn rewind(&mut self, position: usize) {
        if self.text.is_char_boundary(position) {
            self.position = position;
        }
    }

    /// The text from here on.
    #[inline]
    pub fn rest(&self) -> &'a str {
        &self.text[self.position..]
    }

    /// The byte at so many bytes from here; 0 behind the end.
    #[inline]
    fn byte(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.position + ahead).copied().unwrap_or(0)
    }

    /// True if a text is here. Most are so short that a loop is faster than a call.
    #[inline]
    pub(crate) fn is_at(&self, text: &str) -> bool {
        let rest = &self.text.as_bytes()[self.position..];
        rest.len() >= text.len() && rest.iter().zip(text.as_bytes()).all(|(a, b)| a == b)
    }

    /// True if a text is here and is not the beginning of a longer word.
    pub(crate) fn is_at_word(&self, text: &str) -> bool {
        self.is_at(text)
            && !(text.ends_with(is_word) && self.rest()[text.len()..].starts_with(is_word))
    }

    fn is_at_comment(&self) -> bool {
        self.style.comments.iter().any(|comment| self.is_at(comment))
    }

    /// The rest of the line, without the end of the line; comments are included.
    pub fn rest_of_line(&self) -> &'a str {
        let rest = self.rest();
        let line = rest.split('\n').next().unwrap_or(rest);
        line.strip_suffix('\r').unwrap_or(line)
    }

    /// The rest of the statement, without its end and without a comment.
    pub(crate) fn rest_of_statement(&self) -> &'a str {
        let line = self.rest_of_line();
        let comments = self.style.comments.iter().filter_map(|comment| line.find(comment));
        let end = comments.chain(line.find(self.style.separators)).min();
        &line[..end.unwrap_or(line.len())]
    }

    /// The next character.
    #[inline]
    pub fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Takes the next character, if it is not the end of the line.
    pub fn bump(&mut self) -> Option<char> {
        let character = self.peek().filter(|&c| c != '\n')?;
        self.position += character.len_utf8();
        Some(character)
    }

    /// The span from an earlier offset to here.
    pub fn span_from(&self, start: usize) -> Span {
        self.span(start, self.position)
    }

    /// The span of two offsets.
    pub fn span(&self, start: usize, end: usize) -> Span {
        let clamp = |offset| u32::try_from(offset).unwrap_or(u32::MAX);
        Span { source: self.source, start: clamp(start.min(end)), end: clamp(end) }
    }

    /// Skips blanks and a comment, but not the end of the line. True if it skipped anything.
    pub fn skip_blanks(&mut self) -> bool {
        let start = self.position;
        while matches!(self.byte(0), b' ' | b'\t' | b'\r') {
            self.position += 1;
        }
        if self.is_at_comment() {
            self.position += self.rest().find('\n').unwrap_or(self.rest().len());
        }
        self.position > start
    }

    /// Skips blanks, comments and ends of lines and statements.
    pub fn skip_lines(&mut self) {
        loop {
            self.skip_blanks();
            match self.peek() {
                Some(c) if c == '\n' || self.style.separators.contains(&c) => {
                    self.position += c.len_utf8();
                }
                _ => return,
            }
        }
    }

    /// Goes to the start of the next line.
    pub fn next_line(&mut self) {
        let rest = self.rest();
        self.position += rest.find('\n').map_or(rest.len(), |end| end + 1);
    }

    /// Skips the rest of a statement that has an error in it; stops before its end.
    pub fn skip_statement(&mut self) {
        while !self.at_statement_end() {
            self.bump();
        }
    }

    /// True at the end of the text.
    pub fn at_end(&self) -> bool {
        self.position == self.text.len()
    }

    /// Skips blanks; true if the line or statement ends here.
    pub fn at_statement_end(&mut self) -> bool {
        self.skip_blanks();
        self.peek().is_none_or(|c| c == '\n' || self.style.separators.contains(&c))
    }

    /// Takes a text if it is here.
    #[inline]
    pub fn eat(&mut self, text: &str) -> bool {
        let found = self.is_at(text);
        if found {
            self.position += text.len();
        }
        found
    }

    /// Takes a text if it is here and is not the beginning of a longer word.
    #[inline]
    pub fn eat_word(&mut self, text: &str) -> bool {
        let found = self.is_at_word(text);
        if found {
            self.position += text.len();
        }
        found
    }

    /// Takes a text.
    ///
    /// # Errors
    /// `Q2101` when the text is not here.
    #[inline]
    pub fn expect(&mut self, text: &str) -> Result<()> {
        if self.eat(text) { Ok(()) } else { Err(self.expected(format_args!("`{text}`"))) }
    }

    /// Skips blanks up to the end of the statement.
    ///
    /// # Errors
    /// `Q2101` when the statement does not end here.
    pub fn expect_statement_end(&mut self) -> Result<()> {
        if self.at_statement_end() { Ok(()) } else { Err(self.expected("the end of the line")) }
    }

    /// The word (letters, digits, `_`) that starts here; may be empty.
    pub fn peek_word(&self) -> &'a str {
        let rest = self.rest();
        let end = |byte: &u8| !(byte.is_ascii_alphanumeric() || *byte == b'_');
        let end = rest.as_bytes().iter().position(end).unwrap_or(rest.len());
        match self.byte(end) {
            ..0x80 => &rest[..end],
            _ => &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())],
        }
    }

    /// Takes an identifier: a word that does not start with a digit.
    ///
    /// # Errors
    /// `Q2101` when there is none.
    pub fn identifier(&mut self) -> Result<&'a str> {
        let word = self.peek_word();
        if word.is_empty() || word.starts_with(|c: char| c.is_numeric()) {
            return Err(self.expected("a name"));
        }
        self.position += word.len();
        Ok(word)
    }

    /// Takes a number: decimal or `0x` hexadecimal, perhaps with a minus sign. After the error that
    /// the number is too big, the cursor is behind the number.
    ///
    /// # Errors
    /// `Q2101` when there is none, `Q2104` when it does not fit 128 bits.
    #[inline]
    pub fn integer(&mut self) -> Result<i128> {
        let (mut length, mut value) = (0, 0u64);
        while self.byte(length).is_ascii_digit() {
            value = value.wrapping_mul(10).wrapping_add((self.byte(length) - b'0').into());
            length += 1;
        }
        // Most numbers are like this.
        if (1..=15).contains(&length) && !matches!(self.byte(length), b'x' | b'X') {
            self.position += length;
            return Ok(value.into());
        }
        self.any_integer()
    }

    fn any_integer(&mut self) -> Result<i128> {
        let start = self.position;
        let negative = self.eat("-");
        let hexadecimal = self.byte(0) == b'0'
            && matches!(self.byte(1), b'x' | b'X')
            && self.byte(2).is_ascii_hexdigit();
        let radix = if hexadecimal { 16 } else { 10 };
        self.position += if hexadecimal { 2 } else { 0 };
        let rest = self.rest();
        let digits = &rest[..rest.find(|c: char| !c.is_digit(radix)).unwrap_or(rest.len())];
        if digits.is_empty() {
            self.position = start;
            return Err(self.expected("a number"));
        }
        self.position += digits.len();
        let magnitude = i128::from_str_radix(digits, radix).map_err(|_| {
            Diagnostic::invalid("Q2104", "the number does not fit 128 bits")
                .label(self.span_from(start), "too big")
        })?;
        Ok(if negative { -magnitude } else { magnitude })
    }

    /// The error "expected X, found Y" (`Q2101`) at this place.
    #[cold]
    pub fn expected(&self, what: impl fmt::Display) -> Diagnostic {
        if self.silent {
            return Diagnostic::invalid("Q2101", "");
        }
        let found = self.found();
        let end = self.position + self.peek_token().len();
        Diagnostic::invalid("Q2101", format!("expected {what}, found {found}"))
            .label(self.span(self.position, end), format!("expected {what}"))
    }

    /// An error about the text from an earlier offset to here.
    pub fn error(
        &self,
        code: &'static str,
        message: impl Into<String>,
        start: usize,
    ) -> Diagnostic {
        if self.silent {
            return Diagnostic::invalid(code, "");
        }
        Diagnostic::invalid(code, message).label(self.span_from(start), "")
    }

    /// The error (`Q2103`) that the value from an earlier offset to here is out of range, for custom
    /// operands.
    pub fn out_of_range(&self, message: impl Into<String>, start: usize) -> Diagnostic {
        self.error(DOES_NOT_FIT, message, start)
    }

    /// A word or one character; empty at the end of a line.
    fn peek_token(&self) -> &'a str {
        let word = self.peek_word();
        match self.peek() {
            Some(c) if word.is_empty() && c != '\n' && c != '\r' => &self.rest()[..c.len_utf8()],
            _ => word,
        }
    }

    fn found(&self) -> String {
        let token = self.peek_token();
        if token.is_empty() || self.is_at_comment() {
            return "the end of the line".to_owned();
        }
        // A word of unbounded length is no help in a message.
        let shown: String = token.chars().take(40).collect();
        let dots = if shown.len() < token.len() { "…" } else { "" };
        format!("`{}{dots}`", shown.escape_debug())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(text: &str) -> Cursor<'_> {
        Cursor::new(text, SourceId(0), Style::HASH)
    }

    #[test]
    fn reads_numbers() {
        for (text, value) in [
            ("12x", 12),
            ("-7", -7),
            ("0xfF", 255),
            ("-0x10", -16),
            ("0xg", 0),
            ("0", 0),
            ("170141183460469231731687303715884105727", i128::MAX),
        ] {
            assert_eq!(cursor(text).integer().unwrap(), value, "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_number() {
        for (text, message) in [
            ("", "expected a number, found the end of the line"),
            ("-", "expected a number, found `-`"),
            ("x", "expected a number, found `x`"),
            ("\u{7}", "expected a number, found `\\u{7}`"),
            ("# 5", "expected a number, found the end of the line"),
            ("170141183460469231731687303715884105728", "the number does not fit 128 bits"),
        ] {
            let mut cursor = cursor(text);
            assert_eq!(cursor.integer().unwrap_err().message(), message, "{text}");
        }
    }

    #[test]
    fn skips_blanks_and_comments_within_a_line() {
        let mut cursor = cursor("  a # b\r\n\n  c");
        assert!(cursor.skip_blanks());
        assert_eq!(cursor.identifier().unwrap(), "a");
        assert!(cursor.at_statement_end());
        assert_eq!(cursor.peek(), Some('\n'));
        assert_eq!(cursor.bump(), None);
        cursor.skip_lines();
        assert_eq!(cursor.rest_of_line(), "c");
        cursor.next_line();
        assert!(cursor.at_end());
    }

    #[test]
    fn words_are_not_prefixes() {
        assert!(!cursor("adder").eat_word("add"));
        assert!(cursor("add.x").eat_word("add"));
        assert!(cursor("(W)x").eat_word("(W)"));
        assert!(cursor("größe").identifier().is_ok());
        assert!(cursor("9a").identifier().is_err());
    }

    #[test]
    fn rewinding_into_a_character_does_nothing() {
        let mut cursor = cursor("ä");
        cursor.rewind(1);
        assert_eq!(cursor.position(), 0);
        cursor.rewind(99);
        assert_eq!(cursor.position(), 0);
    }
}
