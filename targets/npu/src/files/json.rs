//! JSON with its order, digits and layout.

use crate::isa::Number;
use quincunx_diag::{Diagnostic, Result};

/// Deepest nesting; files have less than 12 levels.
const MAX_DEPTH: usize = 64;
/// Most values of a file; the largest known one has 60,000.
const MAX_VALUES: usize = 4_000_000;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as its digits.
    Number(String),
    /// A text, as it stands between its quotes.
    Text(String),
    /// A list.
    List(Vec<Json>),
    /// Members in order.
    Object(Vec<(String, Json)>),
}

/// How a file is laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Style {
    /// As Python writes it: every element on a line of its own with so many blanks per level, or
    /// everything on one line.
    Python {
        /// Blanks per level.
        indent: Option<usize>,
        /// The file ends with a line break.
        newline: bool,
    },
    /// As JsonCpp's styled writer does: three blanks, a blank before colons, short lists on one line.
    JsonCpp,
}

impl Json {
    /// A member.
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members.iter().find(|(k, _)| k == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The elements of a list.
    pub fn list(&self) -> Option<&[Json]> {
        if let Json::List(list) = self { Some(list) } else { None }
    }

    /// The members of an object.
    pub fn members(&self) -> Option<&[(String, Json)]> {
        if let Json::Object(members) = self { Some(members) } else { None }
    }

    /// A text.
    pub fn text(&self) -> Option<&str> {
        if let Json::Text(text) = self { Some(text) } else { None }
    }

    /// A whole number.
    pub fn whole(&self) -> Option<i64> {
        if let Json::Number(digits) = self { digits.parse().ok() } else { None }
    }

    /// A number.
    pub fn real(&self) -> Option<f64> {
        if let Json::Number(digits) = self { digits.parse().ok() } else { None }
    }
}

impl From<i64> for Json {
    fn from(number: i64) -> Json {
        Json::Number(number.to_string())
    }
}

impl From<bool> for Json {
    fn from(truth: bool) -> Json {
        Json::Bool(truth)
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Json {
        let quoted = serde_json::Value::from(text).to_string();
        Json::Text(quoted[1..quoted.len().saturating_sub(1)].to_owned())
    }
}

impl From<Number> for Json {
    fn from(number: Number) -> Json {
        let mut digits = Vec::new();
        number.print(&mut digits);
        Json::Number(String::from_utf8_lossy(&digits).into_owned())
    }
}

impl FromIterator<Json> for Json {
    fn from_iter<I: IntoIterator<Item = Json>>(elements: I) -> Json {
        Json::List(elements.into_iter().collect())
    }
}

impl<'k> FromIterator<(&'k str, Json)> for Json {
    fn from_iter<I: IntoIterator<Item = (&'k str, Json)>>(members: I) -> Json {
        let member = |(key, value): (&str, Json)| (key.to_owned(), value);
        Json::Object(members.into_iter().map(member).collect())
    }
}

/// Reads JSON and its layout.
pub(super) fn parse(bytes: &[u8]) -> Result<(Json, Style)> {
    let mut parser = Parser { bytes, at: 0, values: 0 };
    parser.blanks();
    let value = parser.value(0)?;
    parser.blanks();
    if parser.at != bytes.len() {
        return Err(parser.expected("the end of the file"));
    }
    Ok((value, style_of(bytes)))
}

fn style_of(bytes: &[u8]) -> Style {
    let mut quotes = bytes.split(|&byte| byte == b'"').skip(2);
    if quotes.next().is_some_and(|behind| behind.starts_with(b" :")) {
        return Style::JsonCpp;
    }
    let newline = bytes.last() == Some(&b'\n');
    let inner = bytes.iter().skip_while(|&&byte| byte != b'\n').skip(1);
    let is_line = inner.clone().next().is_some();
    let indent = is_line.then(|| inner.take_while(|&&byte| byte == b' ').count());
    Style::Python { indent, newline }
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
    values: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.rest().first().copied()
    }

    /// Goes on behind so many bytes, at most to the end.
    fn skip(&mut self, length: usize) {
        self.at = self.at.saturating_add(length).min(self.bytes.len());
    }

    /// Takes the bytes that are such.
    fn take(&mut self, is_part: fn(u8) -> bool) -> &[u8] {
        let start = self.at;
        self.skip(self.rest().iter().take_while(|&&byte| is_part(byte)).count());
        &self.bytes[start..self.at]
    }

    fn blanks(&mut self) {
        self.take(|byte| b" \n\r\t".contains(&byte));
    }

    fn expected(&self, what: &str) -> Diagnostic {
        Diagnostic::invalid("Q4070", format!("expected {what}")).at_byte(self.at as u64)
    }

    fn eat(&mut self, text: &[u8]) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.skip(text.len());
        }
        found
    }

    /// A value that lies `depth` levels deep.
    fn value(&mut self, depth: usize) -> Result<Json> {
        self.values = self.values.saturating_add(1);
        if depth > MAX_DEPTH || self.values > MAX_VALUES {
            let message = format!("more than {MAX_DEPTH} levels or {MAX_VALUES} values");
            return Err(Diagnostic::unsupported("Q4071", message).at_byte(self.at as u64));
        }
        let inner = depth.saturating_add(1);
        match self.peek() {
            Some(b'{') => self.object(inner),
            Some(b'[') => self.array(inner),
            Some(b'"') => Ok(Json::Text(self.text()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ if self.eat(b"null") => Ok(Json::Null),
            _ if self.eat(b"true") => Ok(Json::Bool(true)),
            _ if self.eat(b"false") => Ok(Json::Bool(false)),
            _ => Err(self.expected("a value")),
        }
    }

    /// An object whose values lie `depth` levels deep.
    fn object(&mut self, depth: usize) -> Result<Json> {
        self.skip(1);
        let mut members = Vec::new();
        loop {
            self.blanks();
            if members.is_empty() && self.eat(b"}") {
                break;
            }
            if self.peek() != Some(b'"') {
                return Err(self.expected("a key"));
            }
            let key = self.text()?;
            self.blanks();
            if !self.eat(b":") {
                return Err(self.expected("`:`"));
            }
            self.blanks();
            members.push((key, self.value(depth)?));
            self.blanks();
            if self.eat(b"}") {
                break;
            }
            if !self.eat(b",") {
                return Err(self.expected("`,` or `}`"));
            }
        }
        Ok(Json::Object(members))
    }

    /// A list whose values lie `depth` levels deep.
    fn array(&mut self, depth: usize) -> Result<Json> {
        self.skip(1);
        let mut list = Vec::new();
        loop {
            self.blanks();
            if list.is_empty() && self.eat(b"]") {
                break;
            }
            list.push(self.value(depth)?);
            self.blanks();
            if self.eat(b"]") {
                break;
            }
            if !self.eat(b",") {
                return Err(self.expected("`,` or `]`"));
            }
        }
        Ok(Json::List(list))
    }

    fn text(&mut self) -> Result<String> {
        self.skip(1);
        let start = self.at;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => self.skip(2),
                Some(0..=31) | None => return Err(self.expected("the end of a text")),
                Some(_) => self.skip(1),
            }
        }
        let text = std::str::from_utf8(&self.bytes[start..self.at]);
        let text = text.map_err(|_| self.expected("UTF-8 text"))?.to_owned();
        self.skip(1);
        Ok(text)
    }

    fn number(&mut self) -> Result<Json> {
        let start = self.at;
        let digits = self.take(|byte| byte.is_ascii_digit() || b"-+.eE".contains(&byte));
        let digits = String::from_utf8_lossy(digits).into_owned();
        let finite = digits.parse::<f64>().is_ok_and(f64::is_finite);
        let odd = digits.ends_with('.') || digits.starts_with("-.");
        if !finite || odd {
            self.at = start;
            return Err(self.expected("a number"));
        }
        Ok(Json::Number(digits))
    }
}

/// The bytes of a value.
pub(super) fn write(value: &Json, style: &Style) -> Vec<u8> {
    let mut out = Vec::new();
    match style {
        Style::Python { indent, newline } => {
            python(value, *indent, 0, &mut out);
            if *newline {
                out.push(b'\n');
            }
        }
        Style::JsonCpp => {
            styled(value, 0, &mut out);
            out.push(b'\n');
        }
    }
    out
}

fn scalar(value: &Json, out: &mut Vec<u8>) {
    match value {
        Json::Null => out.extend_from_slice(b"null"),
        Json::Bool(true) => out.extend_from_slice(b"true"),
        Json::Bool(false) => out.extend_from_slice(b"false"),
        Json::Number(digits) => out.extend_from_slice(digits.as_bytes()),
        Json::Text(text) => quoted(text, out),
        Json::List(_) => out.extend_from_slice(b"[]"),
        Json::Object(_) => out.extend_from_slice(b"{}"),
    }
}

fn quoted(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

fn python(value: &Json, indent: Option<usize>, level: usize, out: &mut Vec<u8>) {
    let break_line = |level: usize, out: &mut Vec<u8>| {
        if let Some(width) = indent {
            out.push(b'\n');
            out.extend(std::iter::repeat_n(b' ', width.saturating_mul(level)));
        }
    };
    let separate = |first: bool, out: &mut Vec<u8>| match (first, indent) {
        (true, _) => {}
        (false, None) => out.extend_from_slice(b", "),
        (false, Some(_)) => out.push(b','),
    };
    let inner = level.saturating_add(1);
    match value {
        Json::List(list) if !list.is_empty() => {
            out.push(b'[');
            for (position, element) in list.iter().enumerate() {
                separate(position == 0, out);
                break_line(inner, out);
                python(element, indent, inner, out);
            }
            break_line(level, out);
            out.push(b']');
        }
        Json::Object(members) if !members.is_empty() => {
            out.push(b'{');
            for (position, (key, member)) in members.iter().enumerate() {
                separate(position == 0, out);
                break_line(inner, out);
                quoted(key, out);
                out.extend_from_slice(b": ");
                python(member, indent, inner, out);
            }
            break_line(level, out);
            out.push(b'}');
        }
        _ => scalar(value, out),
    }
}

/// The right margin of the styled writer.
const MARGIN: usize = 74;

fn styled(value: &Json, level: usize, out: &mut Vec<u8>) {
    let line = |level: usize, out: &mut Vec<u8>| {
        out.push(b'\n');
        out.extend(std::iter::repeat_n(b' ', level.saturating_mul(3)));
    };
    let inner = level.saturating_add(1);
    match value {
        Json::Object(members) if !members.is_empty() => {
            out.push(b'{');
            for (position, (key, member)) in members.iter().enumerate() {
                if position > 0 {
                    out.push(b',');
                }
                line(inner, out);
                quoted(key, out);
                out.extend_from_slice(b" : ");
                styled(member, inner, out);
            }
            line(level, out);
            out.push(b'}');
        }
        Json::List(list) if !list.is_empty() => match short(list) {
            Some(text) => out.extend_from_slice(&text),
            None => {
                out.push(b'[');
                for (position, element) in list.iter().enumerate() {
                    if position > 0 {
                        out.push(b',');
                    }
                    line(inner, out);
                    styled(element, inner, out);
                }
                line(level, out);
                out.push(b']');
            }
        },
        _ => scalar(value, out),
    }
}

/// A list on one line, if it is short and holds no filled lists or objects.
fn short(list: &[Json]) -> Option<Vec<u8>> {
    let nested = |value: &Json| match value {
        Json::List(list) => !list.is_empty(),
        Json::Object(members) => !members.is_empty(),
        _ => false,
    };
    if list.len() > MARGIN / 3 || list.iter().any(nested) {
        return None;
    }
    let mut out = b"[ ".to_vec();
    for (position, element) in list.iter().enumerate() {
        if position > 0 {
            out.extend_from_slice(b", ");
        }
        scalar(element, &mut out);
    }
    out.extend_from_slice(b" ]");
    (out.len() < MARGIN).then_some(out)
}
