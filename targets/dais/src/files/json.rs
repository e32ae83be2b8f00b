//! A small pull parser for JSON, as far as the dais files need it.
//!
//! It differs from `serde_json` in what these files ask for: the tokens `Infinity`, `-Infinity`
//! and `NaN` that Python writes, integers beyond 64 bits told apart from floats, correctly rounded
//! floats, byte offsets for messages, and no document tree, so that a hostile file costs no more
//! memory than what is made of it.

use quincunx_diag::{Diagnostic, Result};

/// Values that no reader asks for may be nested this deep.
const MAX_DEPTH: u32 = 64;

/// A position in a JSON text.
pub(super) struct Json<'a> {
    text: &'a str,
    at: usize,
}

/// A number as it is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    /// Without point and exponent.
    Integer(i128),
    /// With point or exponent, or infinite, or no number.
    Float(f64),
}

impl<'a> Json<'a> {
    pub(super) fn new(text: &'a str) -> Json<'a> {
        Json { text, at: 0 }
    }

    /// Byte offset.
    pub(super) fn offset(&self) -> u64 {
        self.at as u64
    }

    fn advance(&mut self, bytes: usize) {
        self.at = self.at.saturating_add(bytes);
    }

    /// The next character that is not blank.
    pub(super) fn peek(&mut self) -> Option<u8> {
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        while self.text.as_bytes().get(self.at).is_some_and(blank) {
            self.advance(1);
        }
        self.text.as_bytes().get(self.at).copied()
    }

    /// Takes a punctuation mark if it is next.
    pub(super) fn eat(&mut self, mark: u8) -> bool {
        let found = self.peek() == Some(mark);
        self.advance(usize::from(found));
        found
    }

    /// Takes a punctuation mark.
    pub(super) fn expect(&mut self, mark: u8) -> Result<()> {
        if self.eat(mark) {
            return Ok(());
        }
        Err(self.expected(&format!("`{}`", char::from(mark))))
    }

    /// Takes `null` if it is next.
    pub(super) fn null(&mut self) -> bool {
        self.word("null")
    }

    /// Takes `[`, elements and `]`; `element` is called at the start of each.
    pub(super) fn array(&mut self, mut element: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        self.expect(b'[')?;
        if self.eat(b']') {
            return Ok(());
        }
        loop {
            element(self)?;
            if self.eat(b']') {
                return Ok(());
            }
            if !self.eat(b',') {
                return Err(self.expected("`,` or `]`"));
            }
        }
    }

    /// Takes the whole numbers of an array, each between two bounds; `of` makes a smaller type of
    /// them.
    pub(super) fn integers<T>(
        &mut self,
        low: i128,
        high: i128,
        of: impl Fn(i128) -> T,
    ) -> Result<Vec<T>> {
        let mut list = Vec::new();
        self.array(|json| {
            list.push(of(json.integer(low, high)?));
            Ok(())
        })?;
        Ok(list)
    }

    /// Takes an object; `member` is called with each key at the start of its value.
    pub(super) fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, &str) -> Result<()>,
    ) -> Result<()> {
        self.expect(b'{')?;
        if self.eat(b'}') {
            return Ok(());
        }
        loop {
            let key = self.string()?;
            self.expect(b':')?;
            member(self, &key)?;
            if self.eat(b'}') {
                return Ok(());
            }
            if !self.eat(b',') {
                return Err(self.expected("`,` or `}`"));
            }
        }
    }

    /// Takes the end of the text.
    pub(super) fn end(&mut self) -> Result<()> {
        if self.peek().is_none() { Ok(()) } else { Err(self.expected("the end of the file")) }
    }

    /// Takes a number.
    pub(super) fn number(&mut self) -> Result<Number> {
        self.peek();
        let rest = &self.text[self.at..];
        for (word, value) in
            [("Infinity", f64::INFINITY), ("-Infinity", f64::NEG_INFINITY), ("NaN", f64::NAN)]
        {
            if self.word(word) {
                return Ok(Number::Float(value));
            }
        }
        let part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let token = &rest[..rest.find(|c| !part(c)).unwrap_or(rest.len())];
        let number = parse_number(token).ok_or_else(|| self.expected("a number"))?;
        self.advance(token.len());
        Ok(number)
    }

    /// Takes a number as a float.
    pub(super) fn float(&mut self) -> Result<f64> {
        Ok(match self.number()? {
            Number::Integer(value) => value as f64,
            Number::Float(value) => value,
        })
    }

    /// Takes a whole number between two bounds, both included.
    pub(super) fn integer(&mut self, low: i128, high: i128) -> Result<i128> {
        self.peek();
        let start = self.at;
        match self.number()? {
            Number::Integer(value) if (low..=high).contains(&value) => Ok(value),
            _ => {
                self.at = start;
                Err(self.expected(&format!("a whole number in {low}..={high}")))
            }
        }
    }

    /// Takes a 32-bit number.
    pub(super) fn int32(&mut self) -> Result<i32> {
        let value = self.integer(i32::MIN.into(), i32::MAX.into())?;
        Ok(i32::try_from(value).expect("the range was checked"))
    }

    /// Takes `true`, `false` or a whole number, which is true unless it is 0.
    pub(super) fn boolean(&mut self) -> Result<bool> {
        if self.word("true") {
            return Ok(true);
        }
        if self.word("false") {
            return Ok(false);
        }
        match self.peek() {
            Some(b'0'..=b'9' | b'-') => Ok(self.int32()? != 0),
            _ => Err(self.expected("`true` or `false`")),
        }
    }

    /// Takes a string.
    pub(super) fn string(&mut self) -> Result<String> {
        if self.peek() != Some(b'"') {
            return Err(self.expected("a string"));
        }
        let bytes = &self.text.as_bytes()[self.at..];
        let mut is_escaped = false;
        let quote = bytes.iter().skip(1).position(|&byte| {
            let is_end = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            is_end
        });
        // With both quotes; where there is no second one, the text is not a string.
        let length = quote.map_or(bytes.len(), |quote| quote.saturating_add(2));
        let token = self.text[self.at..].get(..length);
        // What is within the quotes follows the rules of every JSON string.
        let value = token.and_then(|token| serde_json::from_str(token).ok());
        let value = value.ok_or_else(|| self.expected("a complete string"))?;
        self.advance(length);
        Ok(value)
    }

    /// Takes any value.
    pub(super) fn skip(&mut self) -> Result<()> {
        self.skip_nested(MAX_DEPTH)
    }

    fn skip_nested(&mut self, depth: u32) -> Result<()> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(self.expected("less nesting"));
        };
        match self.peek() {
            Some(b'[') => self.array(|json| json.skip_nested(depth)),
            Some(b'{') => self.object(|json, _| json.skip_nested(depth)),
            Some(b'"') => self.string().map(drop),
            _ if self.null() => Ok(()),
            Some(b't' | b'f') => self.boolean().map(drop),
            _ => self.number().map(drop),
        }
    }

    /// The error "expected X, found Y" at this place.
    pub(super) fn expected(&mut self, what: &str) -> Diagnostic {
        let found = match self.peek() {
            None => "the end of the file".to_owned(),
            Some(_) => {
                let rest = &self.text[self.at..];
                let mark = |c: char| c.is_whitespace() || ",:[]{}".contains(c);
                let length = rest.find(mark).unwrap_or(rest.len()).max(1);
                let token: String = rest.chars().take(length.min(30)).collect();
                format!("`{}`", token.escape_debug())
            }
        };
        Diagnostic::invalid("Q1061", format!("expected {what}, found {found}"))
            .at_byte(self.offset())
    }

    fn word(&mut self, word: &str) -> bool {
        self.peek();
        let rest = self.text[self.at..].strip_prefix(word);
        let found = rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()));
        self.advance(if found { word.len() } else { 0 });
        found
    }
}

/// A number as JSON writes it; the grammar is narrower than that of Rust.
fn parse_number(token: &str) -> Option<Number> {
    let unsigned = token.strip_prefix('-').unwrap_or(token);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let exponent_digits = exponent.map(|text| text.strip_prefix(['+', '-']).unwrap_or(text));
    let well_formed = digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent_digits.is_none_or(digits);
    if !well_formed {
        return None;
    }
    if fraction.is_none()
        && exponent.is_none()
        && let Ok(value) = token.parse()
    {
        return Some(Number::Integer(value));
    }
    token.parse().ok().map(Number::Float)
}

/// A float as Python writes it: the shortest digits that read back as the same number, an exponent
/// below 1e-4 and from 1e16 on.
pub(super) fn python_float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let magnitude = value.abs();
    if magnitude == 0.0 || (1e-4..1e16).contains(&magnitude) {
        let text = value.to_string();
        return if text.contains('.') { text } else { format!("{text}.0") };
    }
    // Among the shortest digits Python takes the nearest, ties to even.
    let shortest = format!("{value:e}");
    let digits = shortest.bytes().take_while(|&b| b != b'e').filter(u8::is_ascii_digit).count();
    let text = format!("{value:.*e}", digits.saturating_sub(1));
    let text = if text.parse() == Ok(value) { text } else { shortest };
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    match exponent.strip_prefix('-') {
        Some(exponent) => format!("{mantissa}e-{exponent:0>2}"),
        None => format!("{mantissa}e+{exponent:0>2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_the_grammar_of_json() {
        for (text, value) in [
            ("0", Number::Integer(0)),
            (" -12", Number::Integer(-12)),
            ("18446744069414584320", Number::Integer(18_446_744_069_414_584_320)),
            ("1.5", Number::Float(1.5)),
            ("-0.0", Number::Float(-0.0)),
            ("2e-3", Number::Float(0.002)),
            ("Infinity", Number::Float(f64::INFINITY)),
            ("-Infinity", Number::Float(f64::NEG_INFINITY)),
        ] {
            assert_eq!(Json::new(text).number().unwrap(), value, "{text}");
        }
        for text in
            ["", "-", "+1", "01", "1.", ".5", "1e", "0x10", "inf", "nan", "Infinityx", "--1"]
        {
            let mut json = Json::new(text);
            let whole = json.number().and_then(|_| json.end());
            assert!(whole.is_err(), "{text}");
        }
    }

    #[test]
    fn strings_may_contain_what_looks_like_numbers() {
        let mut json = Json::new(r#" {"Infinity \" ]": "NaN\u0041", "b": [1, {}]} "#);
        let mut keys = Vec::new();
        json.object(|json, key| {
            keys.push(key.to_owned());
            if key == "b" { json.skip() } else { json.string().map(|s| keys.push(s)) }
        })
        .unwrap();
        json.end().unwrap();
        assert_eq!(keys, ["Infinity \" ]", "NaNA", "b"]);
        for text in [r#"""#, r#""\"#, r#""\x""#, "\"\n\"", "\"ä", "\"\\ä\""] {
            assert!(Json::new(text).string().is_err(), "{text}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        assert!(Json::new(&"[".repeat(100_000)).skip().is_err());
        assert!(Json::new("[[[[]]]]").skip().is_ok());
    }

    #[test]
    fn floats_print_as_python_prints_them() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (-8.0, "-8.0"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.52587890625e-05, "1.52587890625e-05"),
            (2f64.powi(-25), "2.9802322387695312e-08"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (f64::INFINITY, "Infinity"),
        ] {
            assert_eq!(python_float(value), text);
        }
    }
}
