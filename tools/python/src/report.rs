//! Tables.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use quincunx::report::{Format, Report as Tables};

/// What a verb tells.
#[pyclass(frozen)]
pub(crate) struct Report(pub(crate) Tables);

#[pymethods]
impl Report {
    /// For a terminal of so many columns, if there is a limit.
    fn text(&self, columns: Option<usize>) -> String {
        self.0.render_within(Format::Text, columns)
    }

    /// For programs.
    fn json(&self) -> String {
        self.0.render(Format::Json)
    }

    /// In a format of the command line.
    fn render(&self, format: &str) -> PyResult<String> {
        Ok(self.0.render(named(format)?))
    }
}

/// The format of a name.
pub(crate) fn named(format: &str) -> PyResult<Format> {
    format.parse().map_err(|_| {
        PyValueError::new_err(format!("no format is named {format:?}: text, json, md, csv or html"))
    })
}
