//! `compare`: one model on several machines, before three judges.
//!
//! 1. The simulator against the golden model of the layers: every value of the machine that can be
//!    observed, bit for bit (`bit_exact`).
//! 2. The simulator against the model as given, in prepared execution: f32, and exact on grids
//!    ([`execute::Session`]): the class of every image (`agree`).
//! 3. The golden model against exact arithmetic on the graph that was compiled: the largest
//!    difference of any value (`max_error`).

use crate::compile::{Compilation, Job, compile, missing_compiler};
use crate::executable::{Executable, Trace, top1};
use crate::parallel;
use crate::{Calibration, Dataset, Failure, Model, Outcome, Progress, Setup};
use quincunx_diag::{Class, Diagnostic, Result};
use quincunx_graph::execute::{self, Keep};
use quincunx_report::{Cell, Column, Table};
use quincunx_target::Stats;
use quincunx_tensor::{Tensor, Tensors};
use std::num::NonZeroUsize;
use std::time::Instant;

/// What to compare.
pub struct Comparison<'a> {
    /// The model.
    pub model: &'a Model,
    /// Images and, if known, their classes.
    pub data: &'a Dataset,
    /// Data to quantise a float model with.
    pub calibration: Calibration<'a>,
    /// Batch normalisations are folded into the layers before them.
    pub fold_batch_norm: bool,
    /// Threads over images. Results do not depend on it.
    pub threads: NonZeroUsize,
}

/// Whether a machine could take the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// At least a part of the model ran on the machine.
    Ok,
    /// Everything ran on the host.
    Host,
    /// It could not be compiled.
    Unsupported,
}

impl Status {
    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Host => "host",
            Status::Unsupported => "unsupported",
        }
    }
}

/// One machine's result.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name of the target.
    pub target: &'static str,
    /// Whether it could take the model.
    pub status: Status,
    /// Images that were run.
    pub images: usize,
    /// What was measured; `None` when unsupported.
    pub figures: Option<Figures>,
    /// Warnings, the first difference between judges, or why it is unsupported.
    pub problems: Failure,
}

/// What was measured on one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Images on which every observable value of the machine equals the golden model.
    pub bit_exact: usize,
    /// Images whose class is that of the model as given.
    pub agree: usize,
    /// Share of images whose class is right; `None` without labels.
    pub accuracy: Option<f64>,
    /// Share of multiplications on the machine.
    pub device_mac_share: f64,
    /// Size of the programs.
    pub stats: Stats,
    /// Seconds to prepare and compile.
    pub seconds_compile: f64,
    /// Images simulated per second.
    pub images_per_second: f64,
    /// Largest difference between the golden model and exact arithmetic; `None` when exact
    /// arithmetic does not cover the graph.
    pub max_error: Option<f64>,
}

impl Row {
    /// True when the judges agree bit for bit, which is also true when nothing ran on the machine.
    pub fn is_exact(&self) -> bool {
        self.figures.as_ref().is_some_and(|figures| figures.bit_exact == self.images)
    }
}

/// The exit code for a comparison: 1 when an image is not bit-exact, else 4 when a machine that was
/// asked for by name cannot take the model, else 0.
pub fn exit_code(rows: &[Row], named: bool) -> u8 {
    let (unsupported, compared): (Vec<&Row>, Vec<&Row>) =
        rows.iter().partition(|row| row.status == Status::Unsupported);
    if compared.iter().any(|row| !row.is_exact()) {
        Class::Answer.exit_code()
    } else if named && !unsupported.is_empty() {
        Class::Unsupported.exit_code()
    } else {
        0
    }
}

/// Runs the model on every machine.
///
/// # Errors
/// Data that does not fit the model, a model that cannot be prepared, and bugs. A machine that
/// cannot take the model is a row.
pub fn compare(
    comparison: &Comparison<'_>,
    setups: &[Setup<'_>],
    progress: &dyn Progress,
) -> Outcome<Vec<Row>> {
    let reference = reference_classes(comparison, progress)?;
    setups.iter().map(|setup| row(comparison, setup, &reference, progress)).collect()
}

/// The class of every image by the model as given.
fn reference_classes(
    comparison: &Comparison<'_>,
    progress: &dyn Progress,
) -> Result<Vec<Option<usize>>> {
    let graph = &comparison.model.graph;
    let images = &comparison.data.images;
    let output = graph.outputs().first().map(|&id| graph[id].name.clone()).unwrap_or_default();
    progress.start("reference", images.len());
    // Threads that no image keeps busy divide the work of one image.
    let threads = NonZeroUsize::new(comparison.threads.get() / images.len().max(1));
    let settings = execute::Settings {
        threads: threads.unwrap_or(NonZeroUsize::MIN),
        ..execute::Settings::default()
    };
    let session = execute::Session::new(graph, settings)?;
    parallel::map(
        images.len(),
        comparison.threads,
        || Ok(()),
        |(), index| {
            let outputs = session
                .run(&images[index])
                .map_err(|problem| comparison.data.at_image(index, problem))?;
            progress.step();
            Ok(outputs.get(&output).and_then(top1))
        },
    )
}

fn row(
    comparison: &Comparison<'_>,
    setup: &Setup<'_>,
    reference: &[Option<usize>],
    progress: &dyn Progress,
) -> Outcome<Row> {
    let images = comparison.data.images.len();
    if let Some(problem) = missing_compiler(setup) {
        let (target, status) = (setup.name(), Status::Unsupported);
        return Ok(Row { target, status, images, figures: None, problems: problem.into() });
    }
    let job = Job {
        fold_batch_norm: comparison.fold_batch_norm,
        calibration: comparison.calibration,
        ..Job::new(comparison.model, setup)
    };
    progress.start(&format!("{}: compile", setup.name()), 0);
    let started = Instant::now();
    let mut compilation = compile(&job)?;
    let seconds_compile = started.elapsed().as_secs_f64();
    let result = std::mem::replace(&mut compilation.result, Err(Vec::new().into()));
    let mut problems = Failure::from(std::mem::take(&mut compilation.log.diagnostics));
    let (status, figures) = match result {
        Ok(executable) => {
            let judged = judge(comparison, setup, &compilation, &executable, progress)?;
            problems.diagnostics.extend(judged.difference(setup.name()));
            let status = if compilation.plan.uses_device() { Status::Ok } else { Status::Host };
            let figures = Figures {
                seconds_compile,
                device_mac_share: compilation.plan.device_share(),
                stats: executable.stats(),
                ..judged.figures(comparison.data, reference)
            };
            (status, Some(figures))
        }
        Err(failure) if failure.exit_code() == Class::Unsupported.exit_code() => {
            problems.diagnostics.extend(failure.diagnostics);
            problems.sources = failure.sources;
            (Status::Unsupported, None)
        }
        Err(failure) => return Err(failure),
    };
    Ok(Row { target: setup.name(), status, images, figures, problems })
}

/// What one image says.
struct Verdict {
    class: Option<usize>,
    difference: Option<String>,
    error: Option<f64>,
    /// Seconds in the simulator.
    seconds: f64,
}

/// What all images say.
struct Judged {
    verdicts: Vec<Verdict>,
    threads: usize,
}

impl Judged {
    /// The threads simulate side by side, each as fast as it measured.
    fn images_per_second(&self) -> f64 {
        let seconds: f64 = self.verdicts.iter().map(|verdict| verdict.seconds).sum();
        (self.verdicts.len() * self.threads) as f64 / seconds.max(1e-9)
    }

    /// The first image on which simulator and golden model differ.
    fn difference(&self, target: &str) -> Option<Diagnostic> {
        self.verdicts.iter().enumerate().find_map(|(image, verdict)| {
            let text = verdict.difference.as_ref()?;
            Some(Diagnostic::answer("Q0620", format!("{target}: image {image}: {text}")))
        })
    }

    fn figures(&self, data: &Dataset, reference: &[Option<usize>]) -> Figures {
        let classes = || self.verdicts.iter().map(|verdict| verdict.class);
        let right = |labels: &Vec<i64>| {
            let hits = classes().zip(labels).filter(|(class, label)| {
                class.is_some_and(|class| i64::try_from(class) == Ok(**label))
            });
            hits.count() as f64 / labels.len() as f64
        };
        let worst = self.verdicts.iter().map(|verdict| verdict.error);
        Figures {
            bit_exact: self.verdicts.iter().filter(|v| v.difference.is_none()).count(),
            agree: classes().zip(reference).filter(|(class, wanted)| class == *wanted).count(),
            accuracy: data.labels.as_ref().map(right),
            device_mac_share: 0.0,
            stats: Stats::default(),
            seconds_compile: 0.0,
            images_per_second: self.images_per_second(),
            max_error: worst.reduce(|a, b| Some(larger(a?, b?))).flatten(),
        }
    }
}

fn judge(
    comparison: &Comparison<'_>,
    setup: &Setup<'_>,
    compilation: &Compilation,
    executable: &Executable,
    progress: &dyn Progress,
) -> Result<Judged> {
    let images = &comparison.data.images;
    progress.start(&format!("{}: simulate and judge", setup.name()), images.len());
    let verdicts = parallel::map(
        images.len(),
        comparison.threads,
        || executable.load(),
        |session, index| {
            let image = &images[index];
            let started = Instant::now();
            let trace = session
                .run_traced(image)
                .map_err(|problem| comparison.data.at_image(index, problem))?;
            let seconds = started.elapsed().as_secs_f64();
            let golden = golden(setup, compilation, executable, image)?;
            progress.step();
            Ok(Verdict {
                class: executable.outputs.first().and_then(|o| trace.outputs.get(o)).and_then(top1),
                difference: first_difference(&trace.device, &golden.device),
                error: error(compilation, image, &golden)?,
                seconds,
            })
        },
    )?;
    Ok(Judged { verdicts, threads: comparison.threads.get().min(images.len()) })
}

fn golden(
    setup: &Setup<'_>,
    compilation: &Compilation,
    executable: &Executable,
    image: &Tensors,
) -> Result<Trace> {
    executable.golden(setup.target, |stage| compilation.segment(&stage.name), image)
}

/// The first observed value that the golden model does not have bit for bit, in words.
pub(crate) fn first_difference(observed: &Tensors, golden: &Tensors) -> Option<String> {
    observed.iter().find_map(|(name, tensor)| {
        let Some(expected) = golden.get(name) else {
            return Some(format!("the golden model does not know the value {name:?}"));
        };
        difference(tensor, expected).map(|text| format!("value {name:?} {text}"))
    })
}

fn difference(found: &Tensor, expected: &Tensor) -> Option<String> {
    if found.shape() != expected.shape() {
        return Some(format!(
            "has shape {:?} in the simulator, {:?} in the golden model",
            found.shape(),
            expected.shape()
        ));
    }
    let pairs = found.to_f64().into_iter().zip(expected.to_f64());
    pairs.enumerate().find(|(_, (a, b))| a.to_bits() != b.to_bits()).map(|(index, (a, b))| {
        format!("differs at element {index}: simulator {a:?}, golden model {b:?}")
    })
}

/// Largest difference between the golden model and exact arithmetic on any value of the machine;
/// `None` when exact arithmetic does not cover the graph.
fn error(compilation: &Compilation, image: &Tensors, golden: &Trace) -> Result<Option<f64>> {
    let exact = match execute::exact(&compilation.graph, image, Keep::All) {
        Ok(exact) => exact,
        Err(problem) if problem.class() == Class::Unsupported => return Ok(None),
        Err(problem) => return Err(problem),
    };
    let mut worst = 0.0;
    for (name, tensor) in &golden.device {
        if let Some(exact) = exact.get(name) {
            let pairs = tensor.to_f64().into_iter().zip(exact.to_f64());
            worst = pairs.map(|(a, b)| (a - b).abs()).fold(worst, larger);
        }
    }
    Ok(Some(worst))
}

/// The larger number; a NaN is larger than all, so that it cannot hide.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

/// The rows as a table.
pub fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "rows",
        vec![
            Column::text("target"),
            Column::text("status"),
            Column::number("images"),
            Column::number("bit_exact"),
            Column::number("agree"),
            Column::number("accuracy"),
            Column::number("device_mac_share"),
            Column::number("instructions"),
            Column::number("bytes"),
            Column::number("cycles"),
            Column::number("seconds_compile").unit("s"),
            Column::number("images_per_second").unit("1/s"),
            Column::number("max_error"),
        ],
    );
    for row in rows {
        let mut cells: Vec<Cell> =
            vec![row.target.into(), row.status.name().into(), row.images.into()];
        match &row.figures {
            Some(figures) => cells.extend(figure_cells(figures)),
            None => cells.resize(13, Cell::Empty),
        }
        table.push(cells);
    }
    table
}

fn figure_cells(figures: &Figures) -> [Cell; 10] {
    [
        figures.bit_exact.into(),
        figures.agree.into(),
        figures.accuracy.map_or(Cell::Empty, Cell::Share),
        Cell::Share(figures.device_mac_share),
        figures.stats.instructions.into(),
        figures.stats.bytes.into(),
        figures.stats.cycles.into(),
        Cell::Real(figures.seconds_compile, 3),
        Cell::Real(figures.images_per_second, 1),
        figures.max_error.map_or(Cell::Empty, Cell::Number),
    ]
}
