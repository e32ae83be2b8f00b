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
    /// A number people see rounded to five digits when it is long; JSON and CSV have all of it.
    Brief(f64),
    /// A share of a whole, 0 to 1; people see a percentage.
    Share(f64),
    /// A whole number.
    Integer(i64),
    /// Several entries; people see so many of them, JSON and CSV have all.
    List(Vec<Cell>, usize),
}

/// The number itself when it is short, else rounded to five digits.
fn brief(value: f64) -> String {
    let whole = value.to_string();
    match value.abs() {
        _ if whole.len() <= 8 => whole,
        0.001..1e6 => format!("{value:.4}"),
        _ => format!("{value:.4e}"),
    }
}

fn join(cells: &[Cell], show: impl Fn(&Cell) -> String) -> String {
    cells.iter().map(show).collect::<Vec<_>>().join(" ")
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
            Cell::Brief(value) => brief(*value),
            Cell::Share(share) => format!("{:.2} %", share * 100.0),
            Cell::Integer(value) => value.to_string(),
            Cell::List(cells, shown) if cells.len() > *shown => {
                join(&cells[..*shown], Cell::show) + " …"
            }
            Cell::List(cells, _) => join(cells, Cell::show),
        }
    }

    /// The number to sort by; 0 of what is not a number.
    pub(crate) fn magnitude(&self) -> f64 {
        match *self {
            Cell::Count(count) => count as f64,
            Cell::Integer(value) => value as f64,
            Cell::Real(value, _)
            | Cell::Number(value)
            | Cell::Brief(value)
            | Cell::Share(value) => value,
            Cell::Empty | Cell::Text(_) | Cell::List(..) => 0.0,
        }
    }

    /// All of a number of which people see less.
    pub(crate) fn exact(&self) -> Option<String> {
        let (number, unit) = match *self {
            Cell::Real(number, _) | Cell::Brief(number) => (number, ""),
            Cell::Share(share) => (share * 100.0, " %"),
            _ => return None,
        };
        let shown = self.show().trim_end_matches(unit).parse();
        (shown != Ok(number)).then(|| format!("{number}{unit}"))
    }

    /// What CSV holds: the text for people, but numbers in full.
    pub(crate) fn raw(&self) -> String {
        match self {
            Cell::Real(value, _)
            | Cell::Number(value)
            | Cell::Brief(value)
            | Cell::Share(value) => value.to_string(),
            Cell::List(cells, _) => join(cells, Cell::raw),
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
            Cell::Real(value, _)
            | Cell::Number(value)
            | Cell::Brief(value)
            | Cell::Share(value) => match value.is_finite() {
                true => serializer.serialize_f64(*value),
                // JSON has no infinities and no NaN.
                false => serializer.serialize_none(),
            },
            Cell::Integer(value) => serializer.serialize_i64(*value),
            Cell::List(cells, _) => serializer.collect_seq(cells),
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
