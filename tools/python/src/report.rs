//! Tables.

use crate::errors::raised;
use pyo3::prelude::*;
use quincunx::diag::Diagnostic;
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
    fn render(&self, py: Python<'_>, format: &str) -> PyResult<String> {
        Ok(self.0.render(named(py, format)?))
    }
}

/// The format of a name.
pub(crate) fn named(py: Python<'_>, format: &str) -> PyResult<Format> {
    format.parse().map_err(|_| {
        let problem = Diagnostic::usage("Q0811", format!("no format is named {format:?}"))
            .help("formats are text, json, md, csv and html");
        raised(py, &problem.into())
    })
}
