//! What machines and messages are.

use crate::errors::raised;
use crate::report::{Report, named};
use pyo3::prelude::*;
use quincunx::report::Format;
use quincunx::target::ArchSource;
use quincunx::{Outcome, find_target};

fn given<T>(py: Python<'_>, outcome: Outcome<T>) -> PyResult<T> {
    outcome.map_err(|failure| raised(py, &failure))
}

/// All targets, or the machines, options and files of one.
#[pyfunction]
pub(crate) fn targets(py: Python<'_>, target: Option<&str>) -> PyResult<Report> {
    let report = match target {
        None => Ok(quincunx::manual::list(quincunx::targets())),
        Some(name) => find_target(name)
            .and_then(|target| quincunx::manual::describe(target, &ArchSource::Default)),
    };
    given(py, report.map_err(Into::into)).map(Report)
}

/// The manual of instructions of a target, or of one of them.
#[pyfunction]
pub(crate) fn isa(
    py: Python<'_>,
    target: &str,
    mnemonic: Option<&str>,
    format: &str,
) -> PyResult<String> {
    let format = named(py, format)?;
    let text = find_target(target)
        .and_then(|target| quincunx::manual::isa(target, mnemonic, format, None));
    given(py, text.map_err(Into::into))
}

/// What a code of a message means.
#[pyfunction]
pub(crate) fn explain(py: Python<'_>, codes: Vec<String>) -> PyResult<String> {
    given(py, quincunx::explain::explain(&codes, Format::Text, None).map_err(Into::into))
}

/// Names of the options of a target.
#[pyfunction]
pub(crate) fn options(py: Python<'_>, target: &str) -> PyResult<Vec<&'static str>> {
    let target = given(py, find_target(target).map_err(Into::into))?;
    Ok(target.info().options.iter().map(|option| option.name).collect())
}
