//! Tables.

use crate::Cell;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use std::borrow::Cow;

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub(crate) key: Cow<'static, str>,
    pub(crate) unit: Option<&'static str>,
    pub(crate) title: Option<&'static str>,
    pub(crate) right: bool,
    /// People see it.
    pub(crate) shown: bool,
}

impl Column {
    /// A column of words, aligned left. The key is the heading and the name in JSON.
    pub fn text(key: impl Into<Cow<'static, str>>) -> Self {
        Column { key: key.into(), unit: None, title: None, right: false, shown: true }
    }

    /// A column of numbers, aligned right.
    pub fn number(key: impl Into<Cow<'static, str>>) -> Self {
        Column { key: key.into(), unit: None, title: None, right: true, shown: true }
    }

    /// Names the unit; people see it in the heading.
    #[must_use]
    pub fn unit(mut self, unit: &'static str) -> Self {
        self.unit = Some(unit);
        self
    }

    /// Another heading for people than the key.
    #[must_use]
    pub fn titled(mut self, title: &'static str) -> Self {
        self.title = Some(title);
        self
    }

    /// Leaves it to JSON and CSV, where a table for people would become too wide.
    #[must_use]
    pub fn for_programs(mut self) -> Self {
        self.shown = false;
        self
    }

    /// The heading for people.
    pub(crate) fn heading(&self) -> String {
        if let Some(title) = self.title {
            return title.to_owned();
        }
        let name = self.key.replace('_', " ");
        match self.unit {
            Some(unit) => format!("{name} [{unit}]"),
            None => name,
        }
    }
}

/// Rows under columns.
///
/// Invariant: every row has one cell per column.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    key: &'static str,
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table. The key names its rows in JSON.
    pub fn new(key: &'static str, columns: Vec<Column>) -> Self {
        Table { key, columns, rows: Vec::new() }
    }

    /// A table with the columns `name` and `value`.
    pub fn properties(key: &'static str) -> Self {
        Table::new(key, vec![Column::text("name"), Column::text("value")])
    }

    /// Adds a row.
    ///
    /// # Panics
    /// When there is not one cell per column, which is a bug of the caller.
    pub fn push(&mut self, row: Vec<Cell>) {
        assert_eq!(row.len(), self.columns.len(), "a row has one cell per column");
        self.rows.push(row);
    }

    /// Adds a row to a table of properties.
    pub fn property(&mut self, name: &str, value: impl Into<Cell>) {
        self.push(vec![name.into(), value.into()]);
    }

    /// Adds the rows of another table of properties, with this in front of their names.
    pub fn append_properties(&mut self, prefix: &str, other: Table) {
        for (name, value) in other.as_properties() {
            self.property(&format!("{prefix}{name}"), value.clone());
        }
    }

    /// Names and values of a table of properties.
    pub fn as_properties(&self) -> impl Iterator<Item = (String, &Cell)> {
        self.rows.iter().filter_map(|row| match &row[..] {
            [name, value] => Some((name.show(), value)),
            _ => None,
        })
    }

    /// The same with a column of words in front that is equal in all rows.
    #[must_use]
    pub fn with_first(mut self, key: &'static str, word: &str) -> Self {
        self.columns.insert(0, Column::text(key));
        self.rows.iter_mut().for_each(|row| row.insert(0, word.into()));
        self
    }

    /// True when both have one key and the same columns.
    pub fn has_form_of(&self, other: &Table) -> bool {
        self.key == other.key && self.columns == other.columns
    }

    /// Adds the rows of another table.
    ///
    /// # Panics
    /// When it has other columns, which is a bug of the caller.
    pub fn append(&mut self, other: Table) {
        assert!(self.has_form_of(&other), "joined tables have the same columns");
        self.rows.extend(other.rows);
    }

    /// The rows with the largest numbers of a column first; without that column as they were.
    #[must_use]
    pub fn largest_first(mut self, key: &str) -> Self {
        if let Some(at) = self.columns.iter().position(|column| column.key == key) {
            self.rows.sort_by(|a, b| b[at].magnitude().total_cmp(&a[at].magnitude()));
        }
        self
    }

    /// Name of the rows in JSON.
    pub fn key(&self) -> &'static str {
        self.key
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The columns that people see, with their places in the rows.
    pub(crate) fn shown(&self) -> Vec<(usize, &Column)> {
        self.columns.iter().enumerate().filter(|(_, column)| column.shown).collect()
    }

    pub(crate) fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }
}

/// A list of objects whose names are the keys of the columns, in their order.
impl Serialize for Table {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.rows.len()))?;
        for row in &self.rows {
            list.serialize_element(&Object { columns: &self.columns, row })?;
        }
        list.end()
    }
}

struct Object<'a> {
    columns: &'a [Column],
    row: &'a [Cell],
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.row.len()))?;
        for (column, cell) in self.columns.iter().zip(self.row) {
            map.serialize_entry(&column.key, cell)?;
        }
        map.end()
    }
}
