//! Making names from files harmless.

use std::borrow::Cow;
use std::fmt::Write;

/// The text with control characters, and characters that change the direction or order in which
/// text is shown, written as `\u{…}`. Names come from files, and a terminal obeys what it is sent.
pub fn visible(text: &str) -> Cow<'_, str> {
    escape(text, |_| false)
}

/// As [`visible`], but lines stay lines.
pub(crate) fn visible_lines(text: &str) -> Cow<'_, str> {
    escape(text, |c| c == '\n')
}

fn escape(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(|c| is_hidden(c) && !keep(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_hidden(c) && !keep(c) {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\u{{{:x}}}", c as u32);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{61c}' | '\u{feff}')
}

/// One cell of a Markdown table.
pub(crate) fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in visible(text).chars() {
        if matches!(c, '\\' | '|' | '`' | '*' | '<' | '>' | '[' | ']' | '&') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// One field of a CSV line (RFC 4180).
pub(crate) fn csv(text: &str) -> String {
    let text = visible(text);
    if text.contains([',', '"']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into_owned()
    }
}

/// Text of an element or attribute of HTML or SVG.
pub fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in visible_lines(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}
