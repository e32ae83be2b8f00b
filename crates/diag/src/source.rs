//! Source texts and spans.

use std::sync::OnceLock;

/// Index of a source text in [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u32);

impl SourceId {
    /// The file at a position among those that are read together.
    pub fn of(index: usize) -> SourceId {
        SourceId(u32::try_from(index).expect("files that are in memory have a number"))
    }
}

/// A byte range of one source text. `start <= end <= text length`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// The text.
    pub source: SourceId,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

/// One source text with its name.
#[derive(Clone, Debug)]
pub struct Source {
    /// File name as the user gave it, or `<stdin>`.
    pub name: String,
    /// The text.
    pub text: String,
    /// Where lines start, once somebody asked: a list of problems has many places.
    lines: OnceLock<Vec<u32>>,
}

impl Source {
    /// A text under a name.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Source { name: name.into(), text: text.into(), lines: OnceLock::new() }
    }

    /// Line and column (both from 1, column in characters) of a byte offset; offsets past the end
    /// give the end.
    pub fn line_column(&self, offset: u32) -> (usize, usize) {
        let mut end = (offset as usize).min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let starts = self.lines.get_or_init(|| {
            let breaks = self.text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
            let after = breaks.filter_map(|(at, _)| u32::try_from(at + 1).ok());
            std::iter::once(0).chain(after).collect()
        });
        let line = starts.partition_point(|start| *start as usize <= end);
        let column = self.text[starts[line - 1] as usize..end].chars().count() + 1;
        (line, column)
    }
}

/// All source texts of one run.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    list: Vec<Source>,
}

impl Sources {
    /// No texts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a text and returns its id.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> SourceId {
        let id = SourceId::of(self.list.len());
        self.list.push(Source::new(name, text));
        id
    }

    /// The character at a byte of a file, when it was added as text under this name.
    pub(crate) fn character(&self, name: &str, offset: u64) -> Option<Span> {
        let index = self.list.iter().position(|source| source.name == name)?;
        let text = &self.list[index].text;
        if text.is_empty() || !looks_like_text(text) {
            return None;
        }
        let start = usize::try_from(offset).map_or(text.len(), |at| text.floor_char_boundary(at));
        let length = text[start..].chars().next().filter(|c| *c != '\n').map_or(0, char::len_utf8);
        let small = |at: usize| u32::try_from(at).ok();
        let source = SourceId(small(index)?);
        Some(Span { source, start: small(start)?, end: small(start + length)? })
    }

    /// The text with this id, if it was added here.
    pub fn get(&self, id: SourceId) -> Option<&Source> {
        self.list.get(id.0 as usize)
    }
}

/// Machine code can be valid UTF-8; nobody reads lines of it.
fn looks_like_text(text: &str) -> bool {
    let start = &text[..text.floor_char_boundary(4096)];
    !start.chars().any(|c| c.is_control() && !c.is_whitespace())
}
