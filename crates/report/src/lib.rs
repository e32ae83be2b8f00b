//! Results for people and programs.
//!
//! A [`Report`] is a list of [`Table`]s and texts; [`Report::render`] writes it as plain text,
//! JSON, Markdown, CSV or HTML. A [`Heading`] says the same things on every page and picture. Names
//! in a report may come from hostile files: control characters never reach a terminal or a page
//! ([`visible`]).

mod cell;
mod escape;
mod fit;
mod page;
mod render;
mod table;
#[cfg(test)]
mod tests;

pub use cell::Cell;
pub use escape::{html, visible};
pub use fit::distinct;
pub use page::{Heading, VERSION, shortened};
pub use render::{Format, MAIN};
pub use table::{Column, Table};

use serde::ser::{Serialize, SerializeMap, Serializer};

/// Version of the JSON form; it only grows.
pub const SCHEMA: u32 = 1;

/// One part of a report.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    Table(Table),
    Text {
        key: String,
        text: String,
        /// Its lines may be broken where they are too long.
        folds: bool,
    },
}

impl Part {
    fn key(&self) -> &str {
        match self {
            Part::Table(table) => table.key(),
            Part::Text { key, .. } => key,
        }
    }
}

/// A result: tables and texts in order, each with a key that is unique in the report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    heading: Heading,
    parts: Vec<Part>,
}

impl Report {
    /// An empty report.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a table.
    #[must_use]
    pub fn table(mut self, table: Table) -> Self {
        self.parts.push(Part::Table(table));
        self
    }

    /// Says what it is about, for HTML.
    #[must_use]
    pub fn headed(self, heading: Heading) -> Self {
        Report { heading, ..self }
    }

    /// Adds a text that keeps its lines, but those that are longer than a terminal is wide. CSV
    /// leaves it out.
    #[must_use]
    pub fn text(self, key: impl Into<String>, text: impl Into<String>) -> Self {
        self.lines(key.into(), text.into(), true)
    }

    /// The same for a text that other programs read, whose lines stay whole.
    #[must_use]
    pub fn verbatim(self, key: impl Into<String>, text: impl Into<String>) -> Self {
        self.lines(key.into(), text.into(), false)
    }

    fn lines(mut self, key: String, text: String, folds: bool) -> Self {
        self.parts.push(Part::Text { key, text, folds });
        self
    }

    /// Adds the parts of another report.
    #[must_use]
    pub fn and(mut self, other: Report) -> Self {
        self.parts.extend(other.parts);
        self
    }

    /// Names of its parts, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().map(Part::key)
    }

    /// The parts whose names are wanted.
    #[must_use]
    pub fn only(mut self, wanted: impl Fn(&str) -> bool) -> Self {
        self.parts.retain(|part| wanted(part.key()));
        self
    }

    /// Names of its tables, in order.
    pub fn tables(&self) -> Vec<&str> {
        let table = |part: &'_ Part| matches!(part, Part::Table(_));
        self.parts.iter().filter(|part| table(part)).map(Part::key).collect()
    }

    /// The report in a format; every format ends with a line break.
    pub fn render(&self, format: Format) -> String {
        self.render_within(format, None)
    }

    /// The same with text in so many columns: names are shortened in their middles, texts folded,
    /// and columns of tables that still do not fit stand below.
    pub fn render_within(&self, format: Format, columns: Option<usize>) -> String {
        match format {
            Format::Text => render::text(&self.parts, columns),
            Format::Json => render::json(self),
            Format::Markdown => render::markdown(&self.parts),
            Format::Csv => render::csv(&self.parts),
            Format::Html => render::html(&self.heading, &self.parts),
        }
    }
}

impl From<Table> for Report {
    fn from(table: Table) -> Self {
        Report::new().table(table)
    }
}

/// `{"schema": 1, "<key>": …}`: a table is a list of objects, a text a string.
impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.parts.len() + 1))?;
        map.serialize_entry("schema", &SCHEMA)?;
        for part in &self.parts {
            match part {
                Part::Table(table) => map.serialize_entry(table.key(), table)?,
                Part::Text { key, text, .. } => map.serialize_entry(key, text)?,
            }
        }
        map.end()
    }
}
