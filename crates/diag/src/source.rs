//! Source texts and spans.

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
}

impl Source {
    /// Line and column (both from 1, column in characters) of a byte offset; offsets past the end
    /// give the end.
    pub fn line_column(&self, offset: u32) -> (usize, usize) {
        let mut end = (offset as usize).min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let before = &self.text[..end];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
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
        self.list.push(Source { name: name.into(), text: text.into() });
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
