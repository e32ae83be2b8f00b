//! `sweep`: one model on many machines, which differ in parameters of their files, or with options of
//! the target that differ.
//!
//! The model is prepared once for all machines that want the same numbers, and compiled for every
//! combination of values. Images give the error of each against the model as given, and with classes
//! the accuracy. Machines that nothing beats
//! are marked: no other one has as few cycles, as large a share of the multiplications, as good an
//! accuracy and varied parameters as small, with one of these better.

mod choices;
mod machine;
mod picture;
mod report;

use crate::compare::Distance;
use crate::compile::build;
use crate::executable::top1;
use crate::model::{Prepared, prepare};
use crate::{Calibration, Dataset, Executable, Model, Outcome, Progress, Setup, parallel};
pub use choices::of_options;
use choices::{machines, word};
pub use picture::picture;
use quincunx_contract::plan::{Place, Plan};
use quincunx_contract::{Engine, Log, Numbers, Stats, compiler_of};
use quincunx_diag::{Class, Diagnostic, Result};
use quincunx_graph::execute::{self, Keep};
use quincunx_tensor::Tensors;
pub use report::report;
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::str::FromStr;

/// Most combinations of a sweep.
pub const MAX_COMBINATIONS: usize = 4096;

/// Most machines that a note names.
const MAX_NAMED: usize = 8;

/// A parameter of a machine, or an option of its target, and the values it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variation {
    /// Its name in the architecture file, in a table `table.name`; or that of the option.
    pub parameter: String,
    /// The values, as in the file but without quotes.
    pub values: Vec<String>,
}

impl FromStr for Variation {
    type Err = &'static str;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
        let values = |list: &str| list.split(',').map(str::to_owned).collect::<Vec<_>>();
        match parts.map(|(name, list)| (name.to_owned(), values(list))) {
            Some((parameter, values)) if values.iter().all(|value| !value.is_empty()) => {
                Ok(Variation { parameter, values })
            }
            _ => Err("expected NAME=VALUE,VALUE,..."),
        }
    }
}

/// What to compile, and for which machines.
pub struct Sweep<'a> {
    /// The model.
    pub model: &'a Model,
    /// The machine from which the others differ, and the options for all.
    pub setup: &'a Setup<'a>,
    /// What varies; the last one varies fastest.
    pub vary: &'a [Variation],
    /// What varies within a row, which has the mean accuracy, the least and the largest one. The other
    /// figures are those of the first values.
    pub over: &'a [Variation],
    /// Images, for the error, and with their classes for the accuracy.
    pub data: Option<&'a Dataset>,
    /// A node that a machine does not take is a misfit.
    pub strict: bool,
    /// Batch normalisations are folded into the layers before them.
    pub fold_batch_norm: bool,
    /// Data to quantise a float model with.
    pub calibration: Calibration<'a>,
    /// Threads over machines. Results do not depend on it.
    pub threads: NonZeroUsize,
}

impl Sweep<'_> {
    /// Accuracies are known.
    fn has_classes(&self) -> bool {
        self.data.is_some_and(|data| data.labels.is_some())
    }
}

/// A machine and what became of the model on it.
pub struct Row {
    /// The values of the varied parameters.
    values: Vec<Value>,
    /// What was compiled, or why nothing was.
    pub result: std::result::Result<Figures, Misfit>,
    /// Nothing beats it.
    pub pareto: bool,
    /// What the compiler warned of or noted.
    told: Vec<Diagnostic>,
}

/// Why there is no program.
pub enum Misfit {
    /// The target refuses the machine.
    Machine(Diagnostic),
    /// The model does not fit.
    Model(Diagnostic),
}

/// What was compiled.
pub struct Figures {
    /// Size and speed.
    pub stats: Stats,
    /// Share of the multiplications on the machine.
    pub share: f64,
    /// Why a layer that multiplies is on the host, if one is.
    pub left: Option<String>,
    /// Shares of images whose class is right, one for each choice of what varies within the row;
    /// empty without images that have classes.
    pub accuracies: Vec<f64>,
    /// How far the outputs are from those of the model as given; `None` without images.
    pub distance: Option<Distance>,
    /// Some of it runs on the machine.
    uses_device: bool,
    /// What the target tells of every program.
    figures: Vec<(&'static str, Vec<String>)>,
}

/// Compiles the model for every combination of values.
///
/// # Errors
/// `Q0653` for values that cannot be combined; `Q0652` for an unknown parameter; what the target says
/// about a value that it refuses in every combination; `Q0655` for what varies within a row without
/// classes; a model that cannot be prepared or, with images, executed; bugs. What does not fit is a row.
pub fn sweep(sweep: &Sweep<'_>, progress: &dyn Progress) -> Outcome<Vec<Row>> {
    let compiler = compiler_of(sweep.setup.target)?;
    if !sweep.over.is_empty() && !sweep.has_classes() {
        return Err(Diagnostic::usage("Q0655", "the data has no classes of its images")
            .help("accuracy needs an array `labels` in an .npz file")
            .into());
    }
    let machines = machines(sweep)?;
    progress.start("prepare", 0);
    let mut prepared: Vec<(Numbers, Prepared)> = Vec::new();
    for setup in machines.iter().filter_map(|(_, setup)| setup.as_ref().ok()) {
        let numbers = compiler.numbers(&*setup.arch, &setup.options);
        if prepared.iter().all(|(known, _)| *known != numbers) {
            let (fold, data) = (sweep.fold_batch_norm, sweep.calibration);
            let graph = prepare(sweep.model, fold, &numbers, data, &mut Log::default())?;
            prepared.push((numbers, graph));
        }
    }
    let expected = sweep.data.map(|data| reference(sweep, data)).transpose()?;
    progress.start("compile", machines.len());
    let results = parallel::map(
        machines.len(),
        sweep.threads,
        || Ok(()),
        |(), index| {
            let result = match &machines[index].1 {
                Ok(setup) => compiled(sweep, setup, &prepared, expected.as_deref()),
                Err(problem) => Ok((Err(Misfit::Machine(problem.clone())), Vec::new())),
            };
            progress.step();
            // Failures have several diagnostics, so they are no errors of the threads.
            Ok(result)
        },
    )?;
    let results = results.into_iter().collect::<Outcome<Vec<Compiled>>>()?;
    let within = choices::count(sweep.over).max(1);
    let mut results = results.into_iter();
    let row = |(values, _): &(Vec<Value>, _)| {
        let values = values[..sweep.vary.len()].to_vec();
        Row::joined(values, results.by_ref().take(within))
    };
    let rows = machines.iter().step_by(within).filter_map(row).collect();
    let options = of_options(sweep.setup, sweep.vary)?;
    let costs = sweep.vary.iter().map(|variation| !options.contains(&variation));
    Ok(marked(rows, &costs.collect::<Vec<_>>()))
}

/// What became of a combination of values, and what the compiler told.
type Compiled = (std::result::Result<Figures, Misfit>, Vec<Diagnostic>);

/// What became of the model on a machine, and what the compiler told.
fn compiled(
    sweep: &Sweep<'_>,
    setup: &Setup<'_>,
    prepared: &[(Numbers, Prepared)],
    expected: Option<&[Tensors]>,
) -> Outcome<Compiled> {
    let numbers = compiler_of(setup.target)?.numbers(&*setup.arch, &setup.options);
    let found = prepared.iter().find(|(known, _)| *known == numbers);
    let bug = || Diagnostic::bug("a machine wants other numbers than it did");
    let (_, prepared) = found.ok_or_else(bug)?;
    let mut log = Log::default();
    let (plan, result) = build(prepared, setup, sweep.strict, &mut log)?;
    let result = match result {
        Ok(executable) => {
            let figures = Figures::of(&plan, &executable);
            match sweep.data.zip(expected).map(|pair| judged(&executable, pair)).transpose() {
                Ok(found) => {
                    let (accuracy, distance) = found.unwrap_or_default();
                    Ok(Figures { accuracies: accuracy.into_iter().collect(), distance, ..figures })
                }
                Err(problem) if problem.class() == Class::Unsupported => {
                    Err(Misfit::Model(problem))
                }
                Err(problem) => return Err(problem.into()),
            }
        }
        Err(failure) if failure.exit_code() == Class::Unsupported.exit_code() => {
            Err(Misfit::Model(quincunx_diag::first(failure.diagnostics)))
        }
        Err(failure) => return Err(failure),
    };
    Ok((result, log.diagnostics))
}

/// Outputs of the model as given, image by image.
fn reference(sweep: &Sweep<'_>, data: &Dataset) -> Result<Vec<Tensors>> {
    let settings = execute::Settings { keep: Keep::Outputs, ..execute::Settings::default() };
    let session = execute::Session::new(&sweep.model.graph, settings)?;
    parallel::map(
        data.images.len(),
        sweep.threads,
        || Ok(()),
        |(), index| session.run(&data.images[index]).map_err(|error| data.at_image(index, error)),
    )
}

/// The share of images whose class is right on the machine, where they have classes, and how far the
/// outputs are from those of the model as given.
fn judged(
    executable: &Executable,
    (data, expected): (&Dataset, &[Tensors]),
) -> Result<(Option<f64>, Option<Distance>)> {
    let mut session = executable.load_with(Engine::Fast)?;
    let mut classes = Vec::with_capacity(data.images.len());
    let mut distance: Option<Distance> = None;
    for (index, image) in data.images.iter().enumerate() {
        let trace = session.run(image).map_err(|problem| data.at_image(index, problem))?;
        let output = executable.outputs.first();
        classes.push(output.and_then(|output| trace.outputs.get(output)).and_then(top1));
        for (name, found) in trace.outputs.iter().filter(|(_, found)| found.dtype().is_float()) {
            let own = expected[index].get(name).and_then(|known| Distance::of(found, known));
            distance = own.map(|own| distance.map_or(own, |all| all.join(own))).or(distance);
        }
    }
    Ok((data.accuracy(classes.into_iter()), distance))
}

impl Figures {
    fn of(plan: &Plan, executable: &Executable) -> Figures {
        let mut figures: Vec<(&'static str, Vec<String>)> = Vec::new();
        for (name, value) in executable.programs().flat_map(|(_, program)| program.stats().figures)
        {
            match figures.iter_mut().find(|(known, _)| *known == name) {
                Some((_, values)) => values.push(value),
                None => figures.push((name, vec![value])),
            }
        }
        let (stats, share) = (executable.stats(), plan.device_share());
        let (left, uses_device) = (left(plan), plan.uses_device());
        Figures { stats, share, left, accuracies: Vec::new(), distance: None, uses_device, figures }
    }

    /// The mean accuracy; `None` without images.
    pub fn accuracy(&self) -> Option<f64> {
        let list = &self.accuracies;
        (!list.is_empty()).then(|| list.iter().sum::<f64>() / list.len() as f64)
    }

    /// The least accuracy and the largest one; `None` without images.
    pub fn accuracy_range(&self) -> Option<(f64, f64)> {
        let list = || self.accuracies.iter().copied();
        list().reduce(f64::min).zip(list().reduce(f64::max))
    }

    /// Time where the clock is known, else cycles; infinite where nothing runs on the machine.
    fn time(&self) -> f64 {
        let cycles = self.stats.cycles.map(|cycles| cycles as f64);
        self.stats.seconds().or(cycles).unwrap_or(f64::INFINITY)
    }
}

/// The layer on the host with the most multiplications, why it is there, and how many others are.
fn left(plan: &Plan) -> Option<String> {
    let on_host = |row: &&quincunx_contract::plan::Row| row.place == Place::Host && row.macs > 0;
    let rows: Vec<_> = plan.rows.iter().filter(on_host).collect();
    let most = rows.iter().rev().max_by_key(|row| row.macs)?;
    let others = match rows.len() - 1 {
        0 => String::new(),
        1 => "; and another one".to_owned(),
        others => format!("; and {others} others"),
    };
    let reason = most.reason.as_deref().unwrap_or_default();
    Some(format!("{} is on the host: {reason}{others}", most.node))
}

/// The rows with those marked that no other one beats; `costs` says which varied values are
/// parameters of machines.
fn marked(mut rows: Vec<Row>, costs: &[bool]) -> Vec<Row> {
    let is_best = |row: &Row| {
        let is_measured = |figures: &Figures| {
            figures.stats.cycles.is_some() || figures.uses_device && figures.accuracy().is_some()
        };
        row.result.as_ref().is_ok_and(is_measured)
            && !rows.iter().any(|other| other.beats(row, costs))
    };
    let best: Vec<bool> = rows.iter().map(is_best).collect();
    rows.iter_mut().zip(best).for_each(|(row, best)| row.pareto = best);
    rows
}

impl Row {
    /// The row of what varies within it; `None` for nothing.
    fn joined(values: Vec<Value>, list: impl Iterator<Item = Compiled>) -> Option<Row> {
        let (result, told) = list.reduce(|(first, mut told), (other, own)| {
            told.extend(own.into_iter().filter(|one| !told.contains(one)).collect::<Vec<_>>());
            let result = match (first, other) {
                (Ok(mut first), Ok(other)) => {
                    first.accuracies.extend(other.accuracies);
                    let distances = [first.distance, other.distance].into_iter().flatten();
                    first.distance = distances.reduce(Distance::join);
                    Ok(first)
                }
                (Err(misfit), _) | (_, Err(misfit)) => Err(misfit),
            };
            (result, told)
        })?;
        Some(Row { values, result, pareto: false, told })
    }

    /// No worse in anything, and better in something. Machines that differ in words are not compared;
    /// options cost nothing.
    fn beats(&self, other: &Row, costs: &[bool]) -> bool {
        let (Ok(mine), Ok(theirs)) = (&self.result, &other.result) else { return false };
        let mut orders =
            vec![mine.time().partial_cmp(&theirs.time()), theirs.share.partial_cmp(&mine.share)];
        if let Some(pair) = mine.accuracy().zip(theirs.accuracy()) {
            orders.push(pair.1.partial_cmp(&pair.0));
        }
        let pairs = self.values.iter().zip(&other.values).zip(costs);
        for (pair, _) in pairs.filter(|(_, is_cost)| **is_cost) {
            orders.push(match (pair.0.as_f64(), pair.1.as_f64()) {
                (Some(mine), Some(theirs)) => mine.partial_cmp(&theirs),
                _ => (pair.0 == pair.1).then_some(Ordering::Equal),
            });
        }
        orders.iter().all(|order| order.is_some_and(Ordering::is_le))
            && orders.contains(&Some(Ordering::Less))
    }

    /// What became of the model, in a word.
    fn status(&self) -> &'static str {
        match &self.result {
            Ok(figures) if !figures.uses_device => "host",
            Ok(figures) if figures.left.is_some() => "in part",
            Ok(_) => "ok",
            Err(Misfit::Machine(_)) => "no machine",
            Err(Misfit::Model(_)) => "misfit",
        }
    }

    fn problem(&self) -> Option<String> {
        match &self.result {
            Ok(figures) => figures.left.clone(),
            Err(Misfit::Machine(problem) | Misfit::Model(problem)) => {
                let text = quincunx_diag::render::short(problem, &quincunx_diag::Sources::new());
                let help = problem.help_text().map(|help| format!("; {help}"));
                Some(text + &help.unwrap_or_default())
            }
        }
    }
}

/// A problem when there is a program for none of the machines.
pub fn nothing_fits(rows: &[Row]) -> Option<Diagnostic> {
    let message = "the model fits none of the machines";
    let problem = Diagnostic::unsupported("Q0654", message);
    let problem = problem.help("the column problem says what each of them lacks");
    rows.iter().all(|row| row.result.is_err()).then_some(problem)
}

/// What the compiler warned of or noted, each once, with the machines concerned.
pub fn told(sweep: &Sweep<'_>, rows: &[Row]) -> Vec<Diagnostic> {
    let mut found: Vec<(&Diagnostic, Vec<&Row>)> = Vec::new();
    let mut places = HashMap::new();
    for row in rows {
        for told in &row.told {
            let place = *places.entry((told.code(), told.message())).or_insert(found.len());
            match found.get_mut(place) {
                Some((_, rows)) => rows.push(row),
                None => found.push((told, vec![row])),
            }
        }
    }
    let machine = |row: &&Row| {
        let names = sweep.vary.iter().map(|variation| &variation.parameter);
        let pairs = names.zip(&row.values).map(|(name, value)| format!("{name}={}", word(value)));
        pairs.collect::<Vec<_>>().join(" ")
    };
    let with_machines = |(told, with): (&Diagnostic, Vec<&Row>)| {
        let mut list: Vec<String> = with.iter().take(MAX_NAMED).map(machine).collect();
        if with.len() > MAX_NAMED {
            list.push(format!("{} more", with.len() - MAX_NAMED));
        }
        let count = format!("on {} of {} machines", with.len(), rows.len());
        told.clone().with_note(format!("{count}: {}", list.join("; ")))
    };
    found.into_iter().map(with_machines).collect()
}
