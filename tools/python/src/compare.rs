//! One model on several machines: tables and a page.

use crate::errors::{raised, warn};
use crate::model::{Data, Model};
use crate::program::{Calibrating, Program};
use crate::report::Report;
use crate::setup::{Wanted, quick_setup};
use crate::work::{busy, threads};
use pyo3::prelude::*;
use quincunx::compare::{Comparison, Row, compare, report as tables};
use quincunx::diag::{Diagnostic, Result, Sources};
use quincunx::page::{Machine, Subject, page};
use quincunx::report::Heading;
use quincunx::tensor::Tensors;
use quincunx::{Dataset, InputSpec, Outcome, Progress, Setup};
use std::sync::Arc;

/// What is compared, as Python code gives it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Comparing {
    machines: Vec<Wanted>,
    data: Data,
    calibrate: Option<Data>,
    fold_batch_norm: bool,
    layers: bool,
    threads: Option<usize>,
}

/// The rows, and what is done with them while everything they are from is there.
fn rows<T>(
    model: &quincunx::Model,
    how: Comparing,
    progress: &dyn Progress,
    made_of: impl FnOnce(&[Row], &[Setup<'_>], &Dataset) -> Outcome<T>,
) -> Outcome<(T, Vec<Diagnostic>)> {
    let setups = how.machines.iter().map(|wanted| quick_setup(wanted, model));
    let setups = setups.collect::<Outcome<Vec<_>>>()?;
    if setups.is_empty() {
        return Err(Diagnostic::usage("Q0811", "no machine is given").into());
    }
    let (mut data, file) = how.data.images(&InputSpec::of(&model.graph))?;
    let mut told = std::mem::take(&mut data.warnings);
    let mut calibrating = Calibrating::new(how.calibrate, model)?;
    told.append(&mut calibrating.warnings);
    let comparison = Comparison {
        model,
        data: &data,
        calibration: calibrating.given(file.as_ref()),
        fold_batch_norm: how.fold_batch_norm,
        layers: how.layers,
        threads: threads(how.threads),
    };
    let rows = compare(&comparison, &setups, progress)?;
    let made = made_of(&rows, &setups, &data)?;
    // A machine that does not take the model says so in its row.
    let problems = rows.iter().flat_map(|row| &row.problems.diagnostics);
    told.extend(problems.map(|problem| match problem.is_error() {
        true => problem.clone().as_warning(),
        false => problem.clone(),
    }));
    Ok((made, told))
}

#[pyfunction(name = "compare")]
pub(crate) fn tables_of(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    how: Comparing,
    progress: Option<Py<PyAny>>,
) -> PyResult<Report> {
    let model = Arc::clone(&model.get().0);
    let layers = how.layers;
    let (report, warnings) = busy(py, progress, |progress| {
        rows(&model, how, progress, |rows, setups, _| {
            let machines: Vec<String> = setups.iter().map(Setup::machine).collect();
            let heading = Heading::new("Comparison of machines").of(model.file_name());
            Ok(tables(rows, layers, true).headed(heading.on(machines.join(", "))))
        })
    })?;
    warn(py, &warnings, &Sources::new())?;
    Ok(Report(report))
}

/// The page of a model on machines; of images whose numbers are given.
#[pyfunction(name = "report")]
pub(crate) fn page_of(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    how: Comparing,
    images: Vec<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let model = Arc::clone(&model.get().0);
    let (text, warnings) = busy(py, progress, |progress| {
        rows(&model, how, progress, |rows, setups, data| {
            let pairs = rows.iter().zip(setups);
            let machines: Vec<_> = pairs.map(|(row, setup)| Machine::of_row(row, setup)).collect();
            let images = chosen(data, &images)?;
            let subject = Subject { name: model.file_name(), model: Some(&model.graph), images };
            page(&subject, &machines)
        })
    })?;
    warn(py, &warnings, &Sources::new())?;
    Ok(text)
}

fn chosen<'d>(data: &'d Dataset, wanted: &[usize]) -> Result<Vec<(usize, &'d Tensors)>> {
    let image = |&number: &usize| {
        let image = data.images.get(number).map(|image| (number, image));
        image.ok_or_else(|| {
            let count = data.images.len();
            let message = format!("there is no image {number}, the data has {count}");
            Diagnostic::usage("Q0812", message).help("images are counted from 0")
        })
    };
    wanted.iter().map(image).collect()
}

/// The page of programs of one network.
#[pyfunction(name = "pages")]
pub(crate) fn page_of_programs(
    py: Python<'_>,
    programs: Vec<Bound<'_, Program>>,
) -> PyResult<String> {
    if programs.is_empty() {
        let problem = Diagnostic::usage("Q0811", "no program is given");
        return Err(raised(py, &problem.into()));
    }
    let programs: Vec<Py<Program>> = programs.into_iter().map(Bound::unbind).collect();
    busy(py, None, |_| {
        let machines: Vec<Machine<'_>> = programs
            .iter()
            .map(|program| Machine::of_program(&program.get().opened, None))
            .collect();
        let name = programs.first().map_or("", |program| program.get().subject());
        page(&Subject { name: name.to_owned(), model: None, images: Vec::new() }, &machines)
    })
}
