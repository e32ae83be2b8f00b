//! `compare`: one model on several machines, before three judges.
//!
//! 1. The simulator against the golden model of the layers: every value of the machine that can be
//!    observed, bit for bit (`bit_exact`).
//! 2. The simulator against the model as given, in prepared execution: f32, and exact on grids
//!    ([`execute::Session`](quincunx_graph::execute::Session)): the class of every image (`agree`).
//! 3. The golden model against exact arithmetic on the graph that was compiled: the largest
//!    difference of any value (`max_error`), where that is affordable.
//!
//! How far the machine is from the model as given, of whatever kind the model is, is said of its
//! outputs (`max_difference`) and, where asked for, of every value ([`Layer`]).
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | what is compared, and what comes out |
//! | `judge.rs` | the judges, image by image |
//! | `layers.rs` | every value against that of the model as given |
//! | `tables.rs` | rows as tables |

mod judge;
mod layers;
mod tables;

use crate::compile::{Compilation, Job, compile};
use crate::executable::{Executable, Stage};
use crate::{Calibration, Dataset, Failure, Model, Outcome, Progress, Setup, parallel};
use judge::{Case, Reference, judge};
pub(crate) use judge::{element_difference, first_difference};
pub use layers::{Distance, Layer};
use quincunx_contract::{Clipped, Demand, Program, Stats, Target, compiler_of};
use quincunx_diag::{Class, Diagnostic};
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::time::Instant;
pub use tables::report;

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

/// Options of compilers that search, and values for short searches.
const QUICK: &[(&str, &str)] = &[("effort", "fast")];

/// The options for a comparison: searches are short unless another effort is given, since a long one
/// tells little more about a machine.
pub fn quick(target: &dyn Target, mut given: Vec<(String, String)>) -> Vec<(String, String)> {
    for (name, value) in QUICK {
        let has = target.info().options.iter().any(|option| option.name == *name);
        if has && given.iter().all(|(other, _)| other != name) {
            given.push(((*name).to_owned(), (*value).to_owned()));
        }
    }
    given
}

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
pub struct Row {
    /// Name of the target.
    pub target: &'static str,
    /// Name of the machine.
    pub machine: String,
    /// Whether it could take the model.
    pub status: Status,
    /// Images that were run.
    pub images: usize,
    /// What was measured; `None` when unsupported.
    pub figures: Option<Figures>,
    /// The divided graph and its programs; `None` for a target without a compiler.
    pub compilation: Option<Compilation>,
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
    /// Seconds of one inference on the machine, without what the host does; `None` where the clock is
    /// not known or a program has no time.
    pub seconds: Option<f64>,
    /// What every program takes of the machine, by the name of its segment.
    pub demands: Vec<(String, Demand)>,
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

    /// The programs; `None` when it is unsupported.
    pub fn executable(&self) -> Option<&Executable> {
        self.compilation.as_ref()?.result.as_ref().ok()
    }
}

impl Figures {
    /// What the program that takes longest asks of the machine.
    pub fn demand(&self) -> Option<&Demand> {
        // Of equals the first.
        let seconds = |demand: &Demand| demand.seconds.unwrap_or(0.0);
        let demands = self.demands.iter().map(|(_, demand)| demand).rev();
        demands.max_by(|a, b| seconds(a).total_cmp(&seconds(b)))
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
    progress.start("compile", setups.len());
    let compiled = parallel::side_by_side(setups.len(), comparison.threads, |index| {
        let compiled = compiled(comparison, &setups[index]);
        progress.step();
        compiled
    });
    let compiled = compiled.into_iter().collect::<Outcome<Vec<_>>>()?;
    // Threads divide the images of a machine, or the machines where there are fewer images.
    let images = comparison.data.images.len();
    let (machines, threads) = match images < comparison.threads.get() {
        true => (comparison.threads, NonZeroUsize::MIN),
        false => (NonZeroUsize::MIN, comparison.threads),
    };
    progress.start("simulate and judge", images.saturating_mul(setups.len()));
    let slots: Vec<_> = compiled.into_iter().map(|compiled| Mutex::new(Some(compiled))).collect();
    let rows = parallel::side_by_side(setups.len(), machines, |index| {
        let taken = slots[index].lock().ok().and_then(|mut slot| slot.take());
        let compiled = taken.ok_or_else(|| Diagnostic::bug("a machine is judged twice"))?;
        row(&Comparison { threads, ..*comparison }, &setups[index], compiled, &reference, progress)
    });
    rows.into_iter().collect()
}

/// A model that was compiled, and in how many seconds; or why there is no compiler.
type Compiled = std::result::Result<(Compilation, f64), Diagnostic>;

fn compiled(comparison: &Comparison<'_>, setup: &Setup<'_>) -> Outcome<Compiled> {
    if let Err(problem) = compiler_of(setup.target) {
        return Ok(Err(problem));
    }
    let job = Job {
        fold_batch_norm: comparison.fold_batch_norm,
        calibration: comparison.calibration,
        ..Job::new(comparison.model, setup)
    };
    let started = Instant::now();
    let compilation = compile(&job).map_err(|mut failure| {
        let problems = failure.diagnostics.into_iter();
        failure.diagnostics = problems.map(|problem| named(problem, setup)).collect();
        failure
    })?;
    Ok(Ok((compilation, started.elapsed().as_secs_f64())))
}

/// A problem that more than one machine can have, with the name of this one.
fn named(problem: Diagnostic, setup: &Setup<'_>) -> Diagnostic {
    problem.with_note(format!("on {}", setup.name()))
}

fn row(
    comparison: &Comparison<'_>,
    setup: &Setup<'_>,
    compiled: Compiled,
    reference: &Reference,
    progress: &dyn Progress,
) -> Outcome<Row> {
    let row = Row {
        target: setup.name(),
        machine: setup.arch.name().to_owned(),
        status: Status::Unsupported,
        images: comparison.data.images.len(),
        figures: None,
        compilation: None,
        problems: Vec::new().into(),
    };
    let (mut compilation, seconds_compile) = match compiled {
        Ok(compiled) => compiled,
        Err(problem) => return Ok(Row { problems: problem.into(), ..row }),
    };
    let mut problems = Failure::from(std::mem::take(&mut compilation.log.diagnostics));
    let executable = match &compilation.result {
        Ok(executable) => executable,
        Err(failure) if failure.exit_code() == Class::Unsupported.exit_code() => {
            problems.diagnostics.extend(failure.diagnostics.iter().cloned());
            problems.sources = failure.sources.clone();
            return Ok(Row { compilation: Some(compilation), problems, ..row });
        }
        Err(failure) => return Err(failure.clone()),
    };
    let case = Case::new(setup, &compilation, executable, comparison.data.images.len())?;
    let mut judged = judge(comparison, &case, reference, progress)?;
    problems.diagnostics.extend(judged.difference(setup.name()));
    let far = judged.far(setup.name(), reference);
    let status = match far.is_empty() {
        _ if !compilation.plan.uses_device() => Status::Host,
        true => Status::Ok,
        false => Status::Far,
    };
    let clipped = judged.clipped();
    let on_machine = |clipped: &Clipped| named(clipped.warning(), setup);
    problems.diagnostics.extend(clipped.iter().map(on_machine).chain(far));
    let demands = demands(executable, &mut problems.diagnostics);
    let seconds = demands.iter().map(|(_, demand)| demand.seconds).sum::<Option<f64>>();
    let figures = Figures {
        bit_exact: judged.bit_exact(),
        agree: judged.agree(),
        accuracy: judged.accuracy(comparison.data),
        device_mac_share: compilation.plan.device_share(),
        stats: executable.stats(),
        seconds: seconds.filter(|_| !demands.is_empty()),
        demands,
        seconds_compile,
        images_per_second: judged.images_per_second(),
        max_error: judged.max_error(),
        max_difference: judged.max_difference(),
        clipped: executable.clipped().chain(&clipped).map(|clipped| clipped.count).sum(),
        layers: judged.layers(executable),
    };
    Ok(Row { status, figures: Some(figures), compilation: Some(compilation), problems, ..row })
}

/// What every program takes of the machine; nothing of one that has no time, which is noted.
fn demands(executable: &Executable, notes: &mut Vec<Diagnostic>) -> Vec<(String, Demand)> {
    let demand = |(stage, program): (&Stage, &dyn Program)| {
        let demand = program.demand().unwrap_or_else(|problem| {
            notes.push(problem.as_note());
            Demand::default()
        });
        (stage.name.clone(), demand)
    };
    executable.programs().map(demand).collect()
}
