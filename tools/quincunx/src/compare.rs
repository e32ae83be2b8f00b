//! `compare`: one model on several machines, before three judges.
//!
//! 1. The simulator against the golden model of the layers: every value of the machine that can be
//!    observed, bit for bit (`bit_exact`).
//! 2. The simulator against the model as given, in prepared execution: f32, and exact on grids
//!    ([`execute::Session`]): the class of every image (`agree`).
//! 3. The golden model against exact arithmetic on the graph that was compiled: the largest
//!    difference of any value (`max_error`).
//!
//! How far the machine is from the model as given, of whatever kind the model is, is said of its
//! outputs (`max_difference`) and, where asked for, of every value ([`Layer`]).

mod layers;

use crate::compile::{Compilation, Job, compile, goldens};
use crate::executable::{Executable, Goldens, Session, Trace, top1};
use crate::parallel;
use crate::{Calibration, Dataset, Failure, Model, Outcome, Progress, Setup};
pub use layers::{Distance, Layer};
use layers::{Given, Layers};
use quincunx_contract::{Clipped, Engine, Stats, compiler_of};
use quincunx_diag::{Class, Diagnostic, Result};
use quincunx_graph::execute::{self, Keep};
use quincunx_report::{Cell, Column, Report, Table};
use quincunx_tensor::{Tensor, Tensors};
use std::collections::{BTreeMap, BTreeSet};
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
    /// Every value is compared with that of the model as given.
    pub layers: bool,
    /// Threads over images. Results do not depend on it.
    pub threads: NonZeroUsize,
}

/// Signal over noise, in decibels, below which an output is no longer that of the model: an error of
/// a tenth.
pub const NEAR: f64 = 20.0;

/// Whether a machine could take the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// At least a part of the model ran on the machine.
    Ok,
    /// So it did, and an output is less than [`NEAR`] from that of the model as given.
    Far,
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
            Status::Far => "far",
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
    /// Largest difference of an output of the machine from that of the model as given.
    pub max_difference: f64,
    /// Numbers that the machine's type did not hold: of constants, of what entered, and results.
    pub clipped: u64,
    /// Every value, in the order of computation; empty unless asked for.
    pub layers: Vec<Layer>,
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
    let reference = Reference::new(comparison, progress)?;
    setups.iter().map(|setup| row(comparison, setup, &reference, progress)).collect()
}

/// The model as given.
struct Reference {
    session: execute::Session,
    /// Outputs of every image.
    outputs: Vec<Tensors>,
}

impl Reference {
    fn new(comparison: &Comparison<'_>, progress: &dyn Progress) -> Result<Reference> {
        let graph = &comparison.model.graph;
        let images = &comparison.data.images;
        progress.start("reference", images.len());
        // Threads that no image keeps busy divide the work of one image.
        let threads = NonZeroUsize::new(comparison.threads.get() / images.len().max(1));
        let settings = execute::Settings {
            threads: threads.unwrap_or(NonZeroUsize::MIN),
            keep: if comparison.layers { Keep::All } else { Keep::Outputs },
            ..execute::Settings::default()
        };
        let session = execute::Session::new(graph, settings)?;
        let names: BTreeSet<&str> = graph.outputs().iter().map(|&id| &*graph[id].name).collect();
        let outputs = parallel::map(
            images.len(),
            comparison.threads,
            || Ok(()),
            |(), index| {
                let mut outputs = session
                    .run(&images[index])
                    .map_err(|problem| comparison.data.at_image(index, problem))?;
                outputs.retain(|name, _| names.contains(&**name));
                progress.step();
                Ok(outputs)
            },
        )?;
        Ok(Reference { session, outputs })
    }

    /// An output is of real numbers, whose distance says how good they are; classes are right or
    /// wrong.
    fn is_real(&self, name: &str) -> bool {
        let output = self.outputs.first().and_then(|outputs| outputs.get(name));
        output.is_some_and(|output| output.dtype().is_float())
    }
}

/// How far the outputs of an image are from those of the model, by name.
fn distances(outputs: &Tensors, expected: &Tensors) -> BTreeMap<String, Distance> {
    let distance = |(name, found): (&String, &Tensor)| {
        Some((name.clone(), Distance::of(found, expected.get(name)?)?))
    };
    outputs.iter().filter_map(distance).collect()
}

fn row(
    comparison: &Comparison<'_>,
    setup: &Setup<'_>,
    reference: &Reference,
    progress: &dyn Progress,
) -> Outcome<Row> {
    let images = comparison.data.images.len();
    if let Err(problem) = compiler_of(setup.target) {
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
            let goldens = goldens(&compilation.plan, &executable, setup)?;
            let case = Case { setup, compilation: &compilation, executable: &executable, goldens };
            let mut judged = judge(comparison, &case, reference, progress)?;
            problems.diagnostics.extend(judged.difference(setup.name()));
            let far = judged.far(setup.name(), reference);
            let status = match far.is_empty() {
                _ if !compilation.plan.uses_device() => Status::Host,
                true => Status::Ok,
                false => Status::Far,
            };
            let (clipped, constants) = (judged.clipped(), executable.clipped());
            problems.diagnostics.extend(clipped.iter().map(Clipped::warning).chain(far));
            let figures = Figures {
                seconds_compile,
                device_mac_share: compilation.plan.device_share(),
                stats: executable.stats(),
                clipped: constants.chain(&clipped).map(|clipped| clipped.count).sum(),
                layers: judged.layers(&executable),
                ..judged.figures(comparison.data)
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
    /// The class is that of the model as given.
    agrees: bool,
    difference: Option<String>,
    error: Option<f64>,
    /// Of the outputs from those of the model as given, by name.
    distances: BTreeMap<String, Distance>,
    clipped: Vec<Clipped>,
    layers: Layers,
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

    fn distances(&self) -> impl Iterator<Item = &Distance> {
        self.verdicts.iter().flat_map(|verdict| verdict.distances.values())
    }

    /// What the machine's type did not hold, of all images.
    fn clipped(&self) -> Vec<Clipped> {
        let mut all = Vec::new();
        self.verdicts.iter().for_each(|verdict| Clipped::gather(&mut all, &verdict.clipped));
        all
    }

    /// The outputs that are less than [`NEAR`] from those of the model.
    fn far(&self, target: &str, reference: &Reference) -> Vec<Diagnostic> {
        let mut all: BTreeMap<&str, Distance> = BTreeMap::new();
        for (name, &distance) in self.verdicts.iter().flat_map(|verdict| &verdict.distances) {
            let sum = all.entry(name).or_default();
            *sum = sum.join(distance);
        }
        let far = |(name, distance): (&str, Distance)| {
            let is_far = distance.is_below(NEAR) && reference.is_real(name);
            let noise = match distance.decibels() {
                Some(decibels) => format!("signal to noise is {decibels:.1} dB"),
                None => "numbers are infinite or missing".to_owned(),
            };
            let message = format!("{target}: output \"{name}\" is far from the model: {noise}");
            is_far.then(|| {
                Diagnostic::warning("Q0624", message)
                    .help("`compare --layers` shows where the machine parts from the model")
            })
        };
        all.into_iter().filter_map(far).collect()
    }

    fn layers(&mut self, executable: &Executable) -> Vec<Layer> {
        let images = self.verdicts.iter_mut().map(|verdict| std::mem::take(&mut verdict.layers));
        layers::total(images, executable)
    }

    fn figures(&self, data: &Dataset) -> Figures {
        let worst = self.verdicts.iter().map(|verdict| verdict.error);
        Figures {
            bit_exact: self.verdicts.iter().filter(|v| v.difference.is_none()).count(),
            agree: self.verdicts.iter().filter(|verdict| verdict.agrees).count(),
            accuracy: data.accuracy(self.verdicts.iter().map(|verdict| verdict.class)),
            device_mac_share: 0.0,
            stats: Stats::default(),
            seconds_compile: 0.0,
            images_per_second: self.images_per_second(),
            max_error: worst.reduce(|a, b| Some(larger(a?, b?))).flatten(),
            max_difference: self.distances().map(|distance| distance.max).fold(0.0, f64::max),
            clipped: 0,
            layers: Vec::new(),
        }
    }
}

/// A model compiled for a machine.
struct Case<'a> {
    setup: &'a Setup<'a>,
    compilation: &'a Compilation,
    executable: &'a Executable,
    goldens: Goldens,
}

fn judge(
    comparison: &Comparison<'_>,
    case: &Case<'_>,
    reference: &Reference,
    progress: &dyn Progress,
) -> Result<Judged> {
    let images = &comparison.data.images;
    progress.start(&format!("{}: simulate and judge", case.setup.name()), images.len());
    let verdicts = parallel::map(
        images.len(),
        comparison.threads,
        || case.executable.load_with(Engine::Fast),
        |session, index| {
            let verdict = verdict(comparison, case, reference, session, index)
                .map_err(|problem| comparison.data.at_image(index, problem))?;
            progress.step();
            Ok(verdict)
        },
    )?;
    Ok(Judged { verdicts, threads: comparison.threads.get().min(images.len()) })
}

fn verdict(
    comparison: &Comparison<'_>,
    case: &Case<'_>,
    reference: &Reference,
    session: &mut Session<'_>,
    index: usize,
) -> Result<Verdict> {
    let image = &comparison.data.images[index];
    let started = Instant::now();
    let mut trace =
        if comparison.layers { session.run_layers(image)? } else { session.run_traced(image)? };
    let seconds = started.elapsed().as_secs_f64();
    let mut golden = case.executable.golden(&case.goldens, image)?;
    let mut expected = reference.outputs[index].clone();
    for values in [&mut trace.device, &mut trace.outputs, &mut golden.device, &mut expected] {
        case.executable.blank(values)?;
    }
    let layers = match comparison.layers {
        true => {
            let mut given = reference.session.run(image)?;
            case.executable.blank(&mut given)?;
            let given = Given { model: &comparison.model.graph, values: &given };
            layers::layers(given, &case.compilation.scaled, &trace, &golden)
        }
        false => Layers::new(),
    };
    let output = case.executable.outputs.first();
    let class = output.and_then(|output| trace.outputs.get(output)).and_then(top1);
    Ok(Verdict {
        class,
        agrees: class == output.and_then(|output| expected.get(output)).and_then(top1),
        difference: first_difference(&trace.device, &golden.device),
        error: error(case, image, &golden)?,
        distances: distances(&trace.outputs, &expected),
        clipped: trace.clipped,
        layers,
        seconds,
    })
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
fn error(case: &Case<'_>, image: &Tensors, golden: &Trace) -> Result<Option<f64>> {
    let exact = match execute::exact(&case.compilation.graph, image, Keep::All) {
        Ok(exact) => exact,
        Err(problem) if problem.class() == Class::Unsupported => return Ok(None),
        Err(problem) => return Err(problem),
    };
    let mut known = Tensors::new();
    for (name, tensor) in &golden.device {
        if let Some(exact) = exact.get(name) {
            known.insert(name.clone(), Tensor::from_vec(tensor.shape(), exact.to_f64())?);
        }
    }
    case.executable.blank(&mut known)?;
    let mut worst = 0.0;
    for (name, exact) in &known {
        let pairs = golden.device[name].to_f64().into_iter().zip(exact.to_f64());
        worst = pairs.map(|(a, b)| (a - b).abs()).fold(worst, larger);
    }
    Ok(Some(worst))
}

/// The larger number; a NaN is larger than all, so that it cannot hide.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

/// The rows, and their layers where these were asked for.
pub fn report(rows: &[Row], layers: bool) -> Report {
    let report = Report::from(table(rows));
    if !layers {
        return report;
    }
    let mut all = layers::table();
    for row in rows {
        if let Some(figures) = &row.figures {
            layers::push(&mut all, row.target, &figures.layers);
        }
    }
    report.table(all)
}

/// The rows as a table.
fn table(rows: &[Row]) -> Table {
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
            Column::number("images_per_second").titled("simulation [images/s]"),
            Column::number("max_error"),
            Column::number("max_difference"),
            Column::number("clipped"),
        ],
    );
    for row in rows {
        let mut cells: Vec<Cell> =
            vec![row.target.into(), row.status.name().into(), row.images.into()];
        match &row.figures {
            Some(figures) => cells.extend(figure_cells(figures)),
            None => cells.resize(15, Cell::Empty),
        }
        table.push(cells);
    }
    table
}

fn figure_cells(figures: &Figures) -> [Cell; 12] {
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
        Cell::Brief(figures.max_difference),
        figures.clipped.into(),
    ]
}
