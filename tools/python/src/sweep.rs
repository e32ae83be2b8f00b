//! Sweeps, point by point: who computes which point is decided in Python.

use crate::errors::raised;
use crate::model::{Data, Model};
use crate::program::Calibrating;
use crate::report::Report;
use crate::setup::{Wanted, setup};
use crate::work::busy;
use pyo3::prelude::*;
use quincunx::diag::{Diagnostic, Sources};
use quincunx::sweep::{self, Choice, Finding, Points, Variation, nothing_fits, told};
use quincunx::{Dataset, InputSpec, Outcome, Setup};
use self_cell::self_cell;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

/// What points are made of.
struct Owned {
    model: Arc<quincunx::Model>,
    setup: Setup<'static>,
    vary: Vec<Variation>,
    over: Vec<Variation>,
    data: Option<Dataset>,
    calibrating: Calibrating,
}

self_cell!(
    struct Kept {
        owner: Owned,
        #[not_covariant]
        dependent: Points,
    }
);

/// The points of a sweep, with what several of them need.
#[pyclass(frozen)]
pub(crate) struct Sweep(Kept);

/// Names with the values that they take.
type Varied = Vec<(String, Vec<String>)>;

/// What is swept, as Python code gives it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Sweeping {
    machine: Wanted,
    vary: Varied,
    over: Varied,
    /// Combinations, as places of values.
    places: Option<Vec<Vec<usize>>>,
    /// How many combinations are drawn, and the seed.
    random: Option<(usize, u64)>,
    data: Option<Data>,
    calibrate: Option<Data>,
    strict: bool,
    fold_batch_norm: bool,
}

fn variations(varied: Varied) -> Vec<Variation> {
    varied.into_iter().map(|(parameter, values)| Variation { parameter, values }).collect()
}

#[pyfunction(name = "sweep")]
pub(crate) fn points_of(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    how: Sweeping,
) -> PyResult<Sweep> {
    let model = Arc::clone(&model.get().0);
    busy(py, None, |_| {
        let choice = match (how.places, how.random) {
            (Some(places), _) => Choice::These(places),
            (None, Some((count, seed))) => Choice::Random { count, seed },
            (None, None) => Choice::Grid,
        };
        let inputs = InputSpec::of(&model.graph);
        let data = how.data.map(|data| data.images(&inputs)).transpose()?.map(|(data, _)| data);
        let owned = Owned {
            setup: setup(&how.machine, Some(&model))?,
            vary: variations(how.vary),
            over: variations(how.over),
            calibrating: Calibrating::new(how.calibrate, &model)?,
            data,
            model,
        };
        let settings = (how.strict, how.fold_batch_norm);
        Kept::try_new(owned, |owned| points(owned, choice, settings)).map(Sweep)
    })
}

fn points<'a>(
    owned: &'a Owned,
    choice: Choice,
    (strict, fold_batch_norm): (bool, bool),
) -> Outcome<Points<'a>> {
    Points::new(sweep::Sweep {
        model: &owned.model,
        setup: &owned.setup,
        vary: &owned.vary,
        choice,
        over: &owned.over,
        data: owned.data.as_ref(),
        strict,
        fold_batch_norm,
        calibration: owned.calibrating.given(None),
        threads: NonZeroUsize::MIN,
    })
}

/// A finding as text, and back.
fn written(finding: &Finding) -> Outcome<String> {
    Ok(serde_json::to_string(finding).map_err(|error| Diagnostic::bug(error.to_string()))?)
}

fn parsed(text: &str) -> Outcome<Finding> {
    Ok(serde_json::from_str(text).map_err(|error| Diagnostic::bug(error.to_string()))?)
}

#[pymethods]
impl Sweep {
    /// Points, with those within rows.
    fn __len__(&self) -> usize {
        self.0.with_dependent(|_, points| points.len())
    }

    /// Names and values, as JSON.
    fn point(&self, index: usize) -> String {
        self.0.with_dependent(|_, points| points.values(index).to_string())
    }

    /// The key of a point in a store.
    fn key(&self, py: Python<'_>, index: usize) -> PyResult<String> {
        self.0.with_dependent(|_, points| busy(py, None, |_| points.key(index)))
    }

    /// What becomes of a point, as JSON.
    fn finding(&self, py: Python<'_>, index: usize) -> PyResult<String> {
        self.0.with_dependent(|_, points| busy(py, None, |_| written(&points.finding(index)?)))
    }

    /// Tables, pictures by name, and what all was told, of all findings in order.
    fn finished(
        &self,
        py: Python<'_>,
        findings: Vec<String>,
    ) -> PyResult<(Report, Vec<(&'static str, String)>)> {
        let (result, warnings) = self.0.with_dependent(|_, points| {
            busy(py, None, |_| {
                let findings = findings.iter().map(|text| parsed(text));
                let rows = points.rows(findings.collect::<Outcome<Vec<_>>>()?)?;
                let job = points.sweep();
                let heading = job.setup.heading("Sweep", &job.model.file_name());
                let mut pictures = vec![
                    ("scatter", sweep::scatter(job, &rows, &heading)),
                    ("coordinates", sweep::coordinates(job, &rows, &heading)),
                ];
                if job.choice == Choice::Grid {
                    pictures.push(("picture", sweep::picture(job, &rows, &heading)));
                }
                let mut warnings = told(job, &rows);
                warnings.extend(nothing_fits(&rows).map(Diagnostic::as_warning));
                let report = sweep::report(job, &rows).headed(heading);
                Ok(((Report(report), pictures), warnings))
            })
        })?;
        crate::errors::warn(py, &warnings, &Sources::new())?;
        Ok(result)
    }
}

/// The finding of a point whose process ended, as JSON.
#[pyfunction]
pub(crate) fn lost(py: Python<'_>, text: String) -> PyResult<String> {
    let finding = Finding::failed(sweep::LOST, text);
    written(&finding).map_err(|failure| raised(py, &failure))
}

/// Findings in a file.
#[pyclass(frozen)]
pub(crate) struct Store(sweep::Store);

#[pymethods]
impl Store {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Store> {
        busy(py, None, |_| Ok(Store(sweep::Store::open(&path)?)))
    }

    /// What is known under a key, as JSON.
    fn get(&self, py: Python<'_>, key: &str) -> PyResult<Option<String>> {
        busy(py, None, |_| self.0.get(key)?.map(|finding| written(&finding)).transpose())
    }

    /// Keeps the finding of a point.
    fn put(
        &self,
        py: Python<'_>,
        key: &str,
        sweep: &Bound<'_, Sweep>,
        index: usize,
        finding: &str,
    ) -> PyResult<()> {
        let sweep = sweep.get();
        sweep.0.with_dependent(|_, points| {
            busy(py, None, |_| {
                Ok(self.0.put(key, &points.values(index), points.sweep(), &parsed(finding)?)?)
            })
        })
    }
}
