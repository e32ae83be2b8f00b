//! Problems as exceptions and warnings.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use quincunx::Failure;
use quincunx::diag::{Diagnostic, Severity, Sources, render};

/// A problem in plain values: code, severity, message, place, notes, help.
type Plain = (&'static str, &'static str, String, Option<String>, Vec<String>, Option<String>);

fn plain(problem: &Diagnostic, sources: &Sources) -> Plain {
    let severity = match problem.severity() {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    let help = problem.help_text().map(str::to_owned);
    let place = render::place(problem, sources);
    (problem.code(), severity, problem.message().to_owned(), place, problem.notes().to_vec(), help)
}

/// A function or class of the package's `_errors`.
fn named<'py>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyAny>>,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let value = cell
        .get_or_try_init(py, || py.import("quincunx._errors")?.getattr(name).map(Bound::unbind))?;
    Ok(value.bind(py).clone())
}

/// A failure as `QuincunxError`.
pub(crate) fn raised(py: Python<'_>, failure: &Failure) -> PyErr {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let text: Vec<String> = failure
        .diagnostics
        .iter()
        .filter(|problem| problem.severity() != Severity::Note)
        .map(|problem| render::human(problem, &failure.sources, false))
        .collect();
    let problems: Vec<Plain> =
        failure.diagnostics.iter().map(|problem| plain(problem, &failure.sources)).collect();
    let class = match named(py, &CLASS, "QuincunxError") {
        Ok(class) => class,
        Err(error) => return error,
    };
    match class.cast_into::<PyType>() {
        Ok(class) => PyErr::from_type(class, (text.join("\n"), problems, failure.exit_code())),
        Err(error) => error.into(),
    }
}

/// Warnings and notes for who called.
pub(crate) fn warn(py: Python<'_>, problems: &[Diagnostic], sources: &Sources) -> PyResult<()> {
    static WARN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    for problem in problems.iter().filter(|problem| problem.severity() == Severity::Warning) {
        named(py, &WARN, "warn")?.call1((plain(problem, sources),))?;
    }
    Ok(())
}
