//! `sweep`: one model on many machines, which differ in parameters of their files, or with options of
//! the target that differ.
//!
//! The model is prepared once for all machines that want the same numbers, and compiled for every
//! combination of values. How it is quantised can vary as well. Images give the error of each against
//! the model as given, and with classes the accuracy. Machines that nothing beats are marked: no other
//! one has as few cycles, as large a share of the multiplications, as good an accuracy and varied
//! parameters as small, with one of these better.
//!
//! What became of a combination is a [`Finding`], which a [`Store`] keeps under a key of everything that
//! it depends on: what was found once is not computed again.

mod choices;
mod finding;
mod machine;
mod picture;
mod plots;
mod points;
mod report;
mod store;

use crate::{Calibration, Dataset, Model, Outcome, Progress, Setup, parallel};
use choices::word;
pub use choices::{listed, of_options};
pub use finding::{Figures, Finding, LOST, Misfit};
pub use picture::picture;
pub use plots::{coordinates, scatter};
pub use points::Points;
use quincunx_diag::Diagnostic;
pub use report::report;
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::str::FromStr;
pub use store::Store;

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

/// Which combinations of values are compiled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// All of them.
    #[default]
    Grid,
    /// So many different ones, drawn at random.
    Random {
        /// How many; all where there are no more.
        count: usize,
        /// Where the draw begins.
        seed: u64,
    },
    /// Those with values at these places, one for each variation.
    These(Vec<Vec<usize>>),
}

/// What to compile, and for which machines.
#[derive(Clone)]
pub struct Sweep<'a> {
    /// The model.
    pub model: &'a Model,
    /// The machine from which the others differ, and the options for all.
    pub setup: &'a Setup<'a>,
    /// What varies; the last one varies fastest. Besides parameters and options, with which weights and
    /// results are quantised: `quantise.weights` and `quantise.activations` (bits), `quantise.scheme`,
    /// `quantise.method`.
    pub vary: &'a [Variation],
    /// Which combinations of it.
    pub choice: Choice,
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

/// Compiles the model for every combination of values; what the store knows is taken from it, and what is
/// found is put there at once.
///
/// # Errors
/// As [`Points::new`] and [`Points::finding`], and those of the store. What does not fit is a row.
pub fn sweep(
    sweep: &Sweep<'_>,
    store: Option<&Store>,
    progress: &dyn Progress,
) -> Outcome<Vec<Row>> {
    let points = Points::new(sweep.clone())?;
    progress.start("compile", points.len());
    let found = parallel::map(
        points.len(),
        sweep.threads,
        || Ok(()),
        |(), index| {
            let finding = points.finding_or_stored(index, store);
            progress.step();
            // Failures have several diagnostics, so they are no errors of the threads.
            Ok(finding)
        },
    )?;
    points.rows(found.into_iter().collect::<Outcome<Vec<_>>>()?)
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
    fn joined(values: Vec<Value>, list: impl Iterator<Item = Finding>) -> Option<Row> {
        let Finding { result, told } = list.reduce(Finding::joined)?;
        let told = told.iter().map(finding::Told::diagnostic).collect();
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
        finding::status(&self.result)
    }

    fn problem(&self) -> Option<String> {
        finding::problem(&self.result)
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
