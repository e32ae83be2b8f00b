//! Where the fields of a JSON text stand.

use quincunx_diag::{Diagnostic, SourceId, Span};

/// The problem with its place in the text: that of the field which its message names first, in
/// backticks and by dotted names, or of the innermost object on the way to it.
pub(super) fn located(problem: Diagnostic, text: &str, source: SourceId) -> Diagnostic {
    let named = problem.message().split('`').nth(1);
    match named.filter(|_| problem.message().starts_with('`') && problem.labels().is_empty()) {
        Some(name) => {
            let (start, end) = place(text.as_bytes(), name);
            problem.label(span(start, end, source), "")
        }
        None => problem,
    }
}

/// The place of a line and a column, both counted from 1, as parsers give them.
pub(super) fn at(text: &str, line: usize, column: usize, source: SourceId) -> Span {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let start = before.saturating_add(column.saturating_sub(1)).min(text.len());
    let start = (0..=start).rfind(|&at| text.is_char_boundary(at)).unwrap_or(0);
    let end = text[start..].chars().next().map_or(start, |c| start.saturating_add(c.len_utf8()));
    span(start, end, source)
}

/// Offsets beyond 4 GiB, which no text that is read has, become the largest ones.
fn span(start: usize, end: usize, source: SourceId) -> Span {
    let [start, end] = [start, end].map(|offset| u32::try_from(offset).unwrap_or(u32::MAX));
    Span { source, start, end }
}

/// First byte of a value and the one behind the last; of lists and objects the first one only.
fn place(text: &[u8], name: &str) -> (usize, usize) {
    let mut scanner = Scanner { text, at: 0 };
    scanner.blank();
    for key in name.split('.') {
        let outer = scanner.at;
        if !scanner.enter(key) {
            scanner.at = outer;
            break;
        }
    }
    let start = scanner.at;
    match scanner.peek() {
        Some(b'{' | b'[') | None => {
            (start.min(text.len()), start.saturating_add(1).min(text.len()))
        }
        Some(_) => {
            scanner.value();
            (start, scanner.at)
        }
    }
}

/// A walk over text that is known to be JSON.
struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at = self.at.saturating_add(1);
        Some(byte)
    }

    fn blank(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.next();
        }
    }

    /// Goes to the value of a key of the object that begins here; false where there is none.
    fn enter(&mut self, key: &str) -> bool {
        if self.next() != Some(b'{') {
            return false;
        }
        loop {
            self.blank();
            if self.peek() != Some(b'"') {
                return false;
            }
            let start = self.at;
            self.value();
            let name = serde_json::from_slice::<String>(&self.text[start..self.at]);
            self.blank();
            self.next();
            self.blank();
            if name.is_ok_and(|name| name == key) {
                return true;
            }
            self.value();
            self.blank();
            if self.next() != Some(b',') {
                return false;
            }
        }
    }

    /// Goes behind a value.
    fn value(&mut self) {
        let mut depth = 0_usize;
        loop {
            match self.peek() {
                Some(b'"') => self.string(),
                Some(b'{' | b'[') => {
                    depth = depth.saturating_add(1);
                    self.next();
                    continue;
                }
                Some(b'}' | b']') => {
                    depth = depth.saturating_sub(1);
                    self.next();
                }
                Some(b',' | b':') if depth > 0 => {
                    self.next();
                    continue;
                }
                Some(byte) if byte.is_ascii_whitespace() => {
                    self.next();
                    continue;
                }
                Some(_) => self.word(),
                None => return,
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.next();
        while let Some(byte) = self.next() {
            match byte {
                b'\\' => drop(self.next()),
                b'"' => return,
                _ => {}
            }
        }
    }

    /// A number or a word; at least a byte.
    fn word(&mut self) {
        self.next();
        while self.peek().is_some_and(|byte| !b",:{}[]\" \t\r\n".contains(&byte)) {
            self.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_places() {
        let text = r#"{"a": [1, {"b": 2}], "b\u0062": {"c": "x}\"", "d" : -3 }, "e": {}}"#;
        let found = |name: &str| {
            let (start, end) = place(text.as_bytes(), name);
            &text[start..end]
        };
        assert_eq!(found("a"), "[");
        assert_eq!(found("bb.c"), r#""x}\"""#);
        assert_eq!(found("bb.d"), "-3");
        // What is not there is looked for in what is.
        assert_eq!(place(text.as_bytes(), "bb.z"), place(text.as_bytes(), "bb"));
        assert_eq!(place(text.as_bytes(), "z.y"), (0, 1));
        assert_eq!(found("e.q"), "{");
        for end in 0..text.len() {
            let _ = place(&text.as_bytes()[..end], "bb.d");
        }
        let span = at("ab\ncä", 2, 2, SourceId(0));
        assert_eq!((span.start, span.end), (4, 6));
    }
}
