//! One entry of a table.

use serde::ser::{Serialize, Serializer};

/// One entry of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Nothing: blank for people, `null` in JSON.
    Empty,
    /// Words.
    Text(String),
    /// A count.
    Count(u64),
    /// A number; people see it with so many decimals, JSON has all of it.
    Real(f64, usize),
    /// A number people see all of.
    Number(f64),
    /// A share of a whole, 0 to 1; people see a percentage.
    Share(f64),
}

impl Cell {
    /// What people read.
    pub(crate) fn show(&self) -> String {
        match self {
            Cell::Empty => String::new(),
            Cell::Text(text) => text.clone(),
            Cell::Count(count) => count.to_string(),
            Cell::Real(value, decimals) => format!("{value:.decimals$}"),
            Cell::Number(value) => value.to_string(),
            Cell::Share(share) => format!("{:.2} %", share * 100.0),
        }
    }

    /// What CSV holds: the text for people, but numbers in full.
    pub(crate) fn raw(&self) -> String {
        match self {
            Cell::Real(value, _) | Cell::Number(value) | Cell::Share(value) => value.to_string(),
            _ => self.show(),
        }
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Cell::Empty => serializer.serialize_none(),
            Cell::Text(text) => serializer.serialize_str(text),
            Cell::Count(count) => serializer.serialize_u64(*count),
            // JSON has no infinities and no NaN.
            Cell::Real(value, _) | Cell::Number(value) | Cell::Share(value)
                if !value.is_finite() =>
            {
                serializer.serialize_none()
            }
            Cell::Real(value, _) | Cell::Number(value) | Cell::Share(value) => {
                serializer.serialize_f64(*value)
            }
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Cell::Count(count)
    }
}

impl From<usize> for Cell {
    fn from(count: usize) -> Self {
        Cell::Count(count as u64)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Cell::Empty, Into::into)
    }
}
