//! Files that Python code has the contents of.

use crate::work::busy;
use pyo3::prelude::*;
use quincunx::target::outputs::Outputs;
use std::path::PathBuf;

/// Writes a file; what is there is replaced once all of it is written.
#[pyfunction]
pub(crate) fn write(py: Python<'_>, path: PathBuf, contents: Vec<u8>) -> PyResult<()> {
    busy(py, None, |_| {
        let mut outputs = Outputs::default();
        outputs.file(&path, contents)?;
        Ok(outputs.commit()?)
    })
}
