//! The library for Python.
//!
//! This module, `quincunx._core`, is what the package's own Python code is built on, and nothing else:
//! it takes and gives plain values, and checks no types that Python code has checked before. What users
//! see, with its documentation, is in `python/quincunx`.

mod arrays;
mod compare;
mod dais;
mod described;
mod errors;
mod files;
mod manual;
mod model;
mod program;
mod report;
mod setup;
mod sweep;
mod work;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    use super::*;

    #[pymodule_export]
    use arrays::Array;
    #[pymodule_export]
    use compare::{page_of, page_of_programs, tables_of};
    #[pymodule_export]
    use dais::{Graph, read as read_graph, solve};
    #[pymodule_export]
    use files::write;
    #[pymodule_export]
    use manual::{explain, isa, options, targets};
    #[pymodule_export]
    use model::{Model, load, quantise};
    #[pymodule_export]
    use program::{Program, compile, pipeline, read};
    #[pymodule_export]
    use report::Report;
    #[pymodule_export]
    use sweep::{Store, Sweep, lost, points_of};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", quincunx::VERSION)
    }
}
