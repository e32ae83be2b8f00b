//! YAML as `.ze_info` has it: maps and lists in block style, plain and quoted scalars, flow lists of
//! scalars, literal blocks, comments. Anchors, tags and documents behind the first are not read.

use quincunx_diag::{Diagnostic, Result};
use std::collections::BTreeSet;

/// Most bytes of a text.
const MAX_TEXT: usize = 4 << 20;

/// Most levels.
const MAX_DEPTH: usize = 32;

/// A part of a text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    /// Its first byte.
    pub(super) at: usize,
    pub(super) content: Content,
}

/// What a part holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    Scalar(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// One line without its comment.
#[derive(Clone, Copy)]
struct Line<'a> {
    indent: usize,
    /// The first byte of its text.
    at: usize,
    text: &'a str,
}

struct Parser<'a> {
    text: &'a str,
    lines: Vec<Line<'a>>,
    next: usize,
}

/// Number of the line of a byte, from 1.
fn line_of(text: &str, at: usize) -> usize {
    let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
    before.iter().filter(|&&byte| byte == b'\n').count().saturating_add(1)
}

/// Reads a text; byte places are from its start.
///
/// # Errors
/// `Q6103` at the byte that is wrong.
pub(super) fn read(text: &str) -> Result<Node> {
    if text.len() > MAX_TEXT {
        let message = format!("the text has more than {MAX_TEXT} bytes");
        return Err(Diagnostic::unsupported("Q6103", message).at_byte(0));
    }
    let mut parser = Parser { text, lines: lines(text)?, next: 0 };
    let Some(first) = parser.peek() else {
        return Ok(Node { at: 0, content: Content::Map(Vec::new()) });
    };
    let node = parser.block(first.indent, 0)?;
    match parser.peek() {
        None => Ok(node),
        Some(line) => Err(parser.fail("the indentation fits no line above", line.at)),
    }
}

/// The lines of the first document that say something.
fn lines(text: &str) -> Result<Vec<Line<'_>>> {
    let (mut lines, mut at) = (Vec::new(), 0usize);
    for whole in text.split_inclusive('\n') {
        let start = at;
        at = at.saturating_add(whole.len());
        let content = without_comment(whole).trim_end();
        let own = content.trim_start_matches(' ');
        let indent = content.len().saturating_sub(own.len());
        if own.is_empty() || (indent == 0 && (own.starts_with('%') || own == "---")) {
            continue;
        }
        if indent == 0 && own == "..." {
            break;
        }
        let at = start.saturating_add(indent);
        if own.starts_with('\t') {
            let message = format!("line {} is indented by tabs", line_of(text, at));
            return Err(Diagnostic::invalid("Q6103", message).at_byte(at as u64));
        }
        lines.push(Line { indent, at, text: own });
    }
    Ok(lines)
}

/// A line up to a `#` that starts a comment: outside of quotes, first or behind a blank.
fn without_comment(line: &str) -> &str {
    let (mut quote, mut before) = (None, b' ');
    for (at, &byte) in line.as_bytes().iter().enumerate() {
        match (quote, byte) {
            (None, b'#') if before.is_ascii_whitespace() => return line.get(..at).unwrap_or(line),
            (None, b'\'' | b'"') if !before.is_ascii_alphanumeric() => quote = Some(byte),
            (Some(open), _) if byte == open && before != b'\\' => quote = None,
            _ => {}
        }
        before = byte;
    }
    line
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<Line<'a>> {
        self.lines.get(self.next).copied()
    }

    fn fail(&self, what: &str, at: usize) -> Diagnostic {
        let message = format!("line {}: {what}", line_of(self.text, at));
        Diagnostic::invalid("Q6103", message).at_byte(at as u64)
    }

    /// The lines at an indentation, with what is indented further.
    fn block(&mut self, indent: usize, depth: usize) -> Result<Node> {
        let Some(line) = self.peek() else {
            return Ok(Node { at: self.text.len(), content: Content::Scalar(String::new()) });
        };
        if depth > MAX_DEPTH {
            return Err(self.fail("too many levels", line.at));
        }
        let content = if item(line.text).is_some() {
            self.list(indent, depth)?
        } else if key(line.text).is_some() {
            self.map(indent, depth)?
        } else {
            self.next = self.next.saturating_add(1);
            return self.scalar(line.text, line.at);
        };
        Ok(Node { at: line.at, content })
    }

    fn list(&mut self, indent: usize, depth: usize) -> Result<Content> {
        let mut items = Vec::new();
        while let Some(line) = self.peek().filter(|line| line.indent == indent) {
            let Some(rest) = item(line.text) else { break };
            let shift = line.text.len().saturating_sub(rest.len());
            if rest.is_empty() {
                self.next = self.next.saturating_add(1);
                items.push(self.below(indent.saturating_add(1), line.at, depth)?);
                continue;
            }
            // What stands behind the dash is a block of its own, indented to its place.
            let inner = indent.saturating_add(shift);
            if let Some(own) = self.lines.get_mut(self.next) {
                *own = Line { indent: inner, at: line.at.saturating_add(shift), text: rest };
            }
            items.push(self.block(inner, depth.saturating_add(1))?);
        }
        self.ended(indent)?;
        Ok(Content::List(items))
    }

    fn map(&mut self, indent: usize, depth: usize) -> Result<Content> {
        let (mut entries, mut keys) = (Vec::new(), BTreeSet::new());
        while let Some(line) = self.peek().filter(|line| line.indent == indent) {
            let Some((name, rest)) = key(line.text).filter(|_| item(line.text).is_none()) else {
                return Err(self.fail("expected a key with a colon", line.at));
            };
            if !keys.insert(name.clone()) {
                return Err(self.fail(&format!("the key {name:?} is there twice"), line.at));
            }
            self.next = self.next.saturating_add(1);
            let at = line.at.saturating_add(line.text.len().saturating_sub(rest.len()));
            let value = if rest.is_empty() {
                // A list may stand as far left as its key.
                let same = self
                    .peek()
                    .is_some_and(|next| next.indent == indent && item(next.text).is_some());
                let least = if same { indent } else { indent.saturating_add(1) };
                self.below(least, at, depth)?
            } else if rest.starts_with(['|', '>']) {
                self.literal(indent, at)
            } else {
                self.scalar(rest, at)?
            };
            entries.push((name, value));
        }
        self.ended(indent)?;
        Ok(Content::Map(entries))
    }

    /// The block that is indented at least so far, or nothing.
    fn below(&mut self, least: usize, at: usize, depth: usize) -> Result<Node> {
        match self.peek().filter(|next| next.indent >= least) {
            Some(next) => self.block(next.indent, depth.saturating_add(1)),
            None => Ok(Node { at, content: Content::Scalar(String::new()) }),
        }
    }

    /// Lines of text, as they are.
    fn literal(&mut self, indent: usize, at: usize) -> Node {
        let mut text = String::new();
        while let Some(line) = self.peek().filter(|line| line.indent > indent) {
            text.push_str(line.text);
            text.push('\n');
            self.next = self.next.saturating_add(1);
        }
        Node { at, content: Content::Scalar(text) }
    }

    /// What follows a block is not indented further.
    fn ended(&self, indent: usize) -> Result<()> {
        match self.peek().filter(|line| line.indent > indent) {
            Some(line) => Err(self.fail("the indentation fits no line above", line.at)),
            None => Ok(()),
        }
    }

    fn scalar(&self, text: &str, at: usize) -> Result<Node> {
        let content = if let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'))
        {
            let parts = inner.split(',').map(str::trim).filter(|part| !part.is_empty());
            let parts = parts.map(|part| {
                let content = Content::Scalar(self.word(part, at)?);
                Ok(Node { at, content })
            });
            Content::List(parts.collect::<Result<_>>()?)
        } else if text == "{}" {
            Content::Map(Vec::new())
        } else {
            Content::Scalar(self.word(text, at)?)
        };
        Ok(Node { at, content })
    }

    fn word(&self, text: &str, at: usize) -> Result<String> {
        if !text.starts_with(['\'', '"']) {
            return Ok(text.to_owned());
        }
        match quoted(text) {
            Some((word, "")) => Ok(word),
            _ => Err(self.fail("a quoted text does not end, or has an unknown escape", at)),
        }
    }
}

/// What stands behind the dash of an item.
fn item(text: &str) -> Option<&str> {
    let rest = text.strip_prefix('-')?;
    (rest.is_empty() || rest.starts_with(' ')).then(|| rest.trim_start())
}

/// The key of a line, and what stands behind its colon.
fn key(text: &str) -> Option<(String, &str)> {
    let (name, rest) = if text.starts_with(['\'', '"']) {
        let (name, rest) = quoted(text)?;
        (name, rest.trim_start().strip_prefix(':')?)
    } else {
        let end = text.match_indices(':').map(|(at, _)| at).find(|&at| {
            let next = text.as_bytes().get(at.saturating_add(1));
            next.is_none_or(|byte| *byte == b' ')
        })?;
        (text.get(..end)?.trim_end().to_owned(), text.get(end.saturating_add(1)..)?)
    };
    (rest.is_empty() || rest.starts_with(' ')).then(|| (name, rest.trim_start()))
}

/// A quoted text and what stands behind it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next()?;
    let (mut word, mut chars) = (String::new(), text.char_indices().skip(1));
    while let Some((at, next)) = chars.next() {
        let rest = text.get(at.saturating_add(next.len_utf8())..)?;
        match next {
            '\'' if quote == '\'' && rest.starts_with('\'') => {
                chars.next();
                word.push('\'');
            }
            _ if next == quote => return Some((word, rest)),
            '\\' if quote == '"' => word.push(match chars.next()?.1 {
                'n' => '\n',
                't' => '\t',
                '0' => '\0',
                same @ ('\\' | '"' | '/' | ' ') => same,
                _ => return None,
            }),
            _ => word.push(next),
        }
    }
    None
}

/// A scalar as it must be written: quoted where it could be read as something else.
pub(super) fn written(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '$');
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    if is_word && text.chars().all(plain) && !reserved.contains(&&*text.to_ascii_lowercase()) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "''"))
}
