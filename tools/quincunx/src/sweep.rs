//! `sweep`: one model on many machines, which differ in parameters of their files.
//!
//! The model is prepared once for all machines that want the same numbers, and compiled for every
//! combination of values. Machines that nothing beats are marked: no other one has as few cycles, as
//! large a share of the multiplications and varied numbers as small, with one of these better.

mod machine;
mod picture;

use crate::compile::build;
use crate::model::{Prepared, prepare};
use crate::{Calibration, Executable, Model, Outcome, Progress, Setup, parallel};
use machine::MachineFile;
pub use picture::picture;
use quincunx_contract::plan::{Place, Plan};
use quincunx_contract::{Log, Numbers, Stats, compiler_of};
use quincunx_diag::{Class, Diagnostic, Result};
use quincunx_report::{Cell, Column, Report, Table};
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroUsize;
use std::str::FromStr;

/// Most combinations of a sweep.
pub const MAX_COMBINATIONS: usize = 4096;

/// Most machines that a note names.
const MAX_NAMED: usize = 8;

/// What marks the machines that nothing beats, in words.
const PARETO: &str = "no other machine is as fast, takes as much of the model and has varied numbers \
                      as small, with one of these better";

/// A parameter and the values it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variation {
    /// Its name in the architecture file; in a table, `table.name`.
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
    /// A node that a machine does not take is a misfit.
    pub strict: bool,
    /// Batch normalisations are folded into the layers before them.
    pub fold_batch_norm: bool,
    /// Data to quantise a float model with.
    pub calibration: Calibration<'a>,
    /// Threads over machines. Results do not depend on it.
    pub threads: NonZeroUsize,
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
    /// What the target tells of every program.
    figures: Vec<(&'static str, Vec<String>)>,
}

/// Compiles the model for every combination of values.
///
/// # Errors
/// `Q0653` for values that cannot be combined; `Q0652` for an unknown parameter; what the target says
/// about a value that it refuses in every combination; a model that cannot be prepared; bugs. What
/// does not fit is a row.
pub fn sweep(sweep: &Sweep<'_>, progress: &dyn Progress) -> Outcome<Vec<Row>> {
    let compiler = compiler_of(sweep.setup.target)?;
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
    progress.start("compile", machines.len());
    let results = parallel::map(
        machines.len(),
        sweep.threads,
        || Ok(()),
        |(), index| {
            let result = match &machines[index].1 {
                Ok(setup) => compiled(setup, sweep.strict, &prepared),
                Err(problem) => Ok((Err(Misfit::Machine(problem.clone())), Vec::new())),
            };
            progress.step();
            // Failures have several diagnostics, so they are no errors of the threads.
            Ok(result)
        },
    )?;
    let row = |((values, _), result): ((Vec<Value>, _), Outcome<_>)| {
        let (result, told) = result?;
        Ok(Row { values, result, pareto: false, told })
    };
    let rows = machines.into_iter().zip(results).map(row).collect::<Outcome<Vec<Row>>>()?;
    Ok(marked(rows))
}

/// The machine of a combination of values, or why there is none.
type Machine<'a> = (Vec<Value>, Result<Setup<'a>>);

/// Every combination with its machine.
fn machines<'a>(sweep: &Sweep<'a>) -> Result<Vec<Machine<'a>>> {
    let (setup, vary) = (sweep.setup, sweep.vary);
    let file = MachineFile::of(&*setup.arch)?;
    let values = |v: &Variation| v.values.iter().map(|w| file.value(&v.parameter, w)).collect();
    let choices: Vec<Vec<Value>> = vary.iter().map(values).collect();
    check(vary, &choices)?;
    let machine = |values: Vec<Value>| {
        let names = vary.iter().map(|variation| &*variation.parameter);
        let changes: Vec<(&str, &Value)> = names.zip(&values).collect();
        let arch = file.with(setup.target, &changes).map_err(|problem| placed(&changes, problem));
        let (target, options) = (setup.target, &setup.options);
        (values, arch.map(|arch| Setup { target, arch, options: options.clone() }))
    };
    let machines: Vec<Machine<'_>> = combinations(&choices).into_iter().map(machine).collect();
    for (place, values) in choices.iter().enumerate() {
        for value in values {
            let mut with = machines.iter().filter(|(values, _)| values[place] == *value);
            let refused = with.clone().all(|(_, setup)| setup.is_err());
            if let Some((_, Err(problem))) = with.next().filter(|_| refused) {
                return Err(problem.clone());
            }
        }
    }
    Ok(machines)
}

/// What the target says about a machine, which lies in no file: with its values.
fn placed(changes: &[(&str, &Value)], problem: Diagnostic) -> Diagnostic {
    if problem.code() == "Q0652" || problem.class() == Class::Bug {
        return problem;
    }
    let values: Vec<String> =
        changes.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let message = format!("no machine with {}: {}", values.join(" "), problem.message());
    Diagnostic::invalid(problem.code(), message).help_if(problem.help_text().map(str::to_owned))
}

/// Refuses what gives rows twice, or too many.
fn check(vary: &[Variation], choices: &[Vec<Value>]) -> Result<()> {
    let wrong = |message: String| Err(Diagnostic::usage("Q0653", message));
    let mut names = BTreeSet::new();
    for (Variation { parameter, values }, choices) in vary.iter().zip(choices) {
        if !names.insert(parameter) {
            return wrong(format!("{parameter} is varied twice"));
        }
        let same = |a: &Value, b: &Value| {
            a == b || a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| a == b)
        };
        let is_known = |&index: &usize| choices[..index].iter().any(|x| same(x, &choices[index]));
        let twice = (0..choices.len()).find(is_known);
        if let Some(index) = twice {
            return wrong(format!("{parameter} has the value {} twice", values[index]));
        }
    }
    let count = choices.iter().fold(1, |count: usize, list| count.saturating_mul(list.len()));
    if count > MAX_COMBINATIONS {
        return wrong(format!(
            "there are {count} combinations, expected at most {MAX_COMBINATIONS}"
        ));
    }
    Ok(())
}

/// One of each list, in every way; the last list changes fastest.
fn combinations(choices: &[Vec<Value>]) -> Vec<Vec<Value>> {
    choices.iter().fold(vec![Vec::new()], |known, list| {
        let longer =
            |known: &Vec<Value>, value: &Value| [&known[..], std::slice::from_ref(value)].concat();
        known.iter().flat_map(|known| list.iter().map(|value| longer(known, value))).collect()
    })
}

/// What became of the model on a machine, and what the compiler told.
fn compiled(
    setup: &Setup<'_>,
    strict: bool,
    prepared: &[(Numbers, Prepared)],
) -> Outcome<(std::result::Result<Figures, Misfit>, Vec<Diagnostic>)> {
    let numbers = compiler_of(setup.target)?.numbers(&*setup.arch, &setup.options);
    let found = prepared.iter().find(|(known, _)| *known == numbers);
    let bug = || Diagnostic::bug("a machine wants other numbers than it did");
    let (_, Prepared { graph, .. }) = found.ok_or_else(bug)?;
    let mut log = Log::default();
    let (plan, result) = build(graph, setup, strict, &mut log)?;
    let result = match result {
        Ok(executable) => Ok(Figures::of(&plan, &executable)),
        Err(failure) if failure.exit_code() == Class::Unsupported.exit_code() => {
            Err(Misfit::Model(quincunx_diag::first(failure.diagnostics)))
        }
        Err(failure) => return Err(failure),
    };
    Ok((result, log.diagnostics))
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
        Figures { stats, share, left: left(plan), figures }
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

/// The rows with those marked that no other one beats.
fn marked(mut rows: Vec<Row>) -> Vec<Row> {
    let is_best = |row: &Row| {
        let runs = row.result.as_ref().is_ok_and(|figures| figures.stats.cycles.is_some());
        runs && !rows.iter().any(|other| other.beats(row))
    };
    let best: Vec<bool> = rows.iter().map(is_best).collect();
    rows.iter_mut().zip(best).for_each(|(row, best)| row.pareto = best);
    rows
}

impl Row {
    /// No worse in anything, and better in something. Machines that differ in words are not compared.
    fn beats(&self, other: &Row) -> bool {
        let (Ok(mine), Ok(theirs)) = (&self.result, &other.result) else { return false };
        let mut orders =
            vec![mine.time().partial_cmp(&theirs.time()), theirs.share.partial_cmp(&mine.share)];
        for pair in self.values.iter().zip(&other.values) {
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
            Ok(figures) if figures.stats.cycles.is_none() => "host",
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
        let pairs = names.zip(&row.values).map(|(name, value)| match value.as_str() {
            Some(text) => format!("{name}={text}"),
            None => format!("{name}={value}"),
        });
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

/// What is the same for all machines, and a row for each.
pub fn report(sweep: &Sweep<'_>, rows: &[Row]) -> Report {
    let figures = figures(sweep, rows);
    let mut summary = Table::properties("summary");
    summary.property("target", sweep.setup.name());
    summary.property("machine", sweep.setup.arch.name());
    summary.property("combinations", rows.len());
    summary.property("compiled", rows.iter().filter(|row| row.result.is_ok()).count());
    for figure in figures.iter().filter(|figure| !figure.differs()) {
        let known = figure.cells.iter().find(|cell| **cell != Cell::Empty);
        summary.property(figure.name, known.cloned().unwrap_or(Cell::Empty));
    }
    summary.property("pareto", PARETO);
    Report::new().table(table(sweep, rows, &figures)).table(summary)
}

/// What targets tell of programs besides their speed: a cell for every row.
struct Figure {
    name: &'static str,
    cells: Vec<Cell>,
}

impl Figure {
    fn differs(&self) -> bool {
        let mut known = self.cells.iter().filter(|cell| **cell != Cell::Empty);
        let first = known.next();
        known.any(|cell| Some(cell) != first)
    }
}

/// The figures that are no varied parameters, in the order of the target.
fn figures(sweep: &Sweep<'_>, rows: &[Row]) -> Vec<Figure> {
    let of = |row: &Row| row.result.as_ref().map_or(&[][..], |figures| &figures.figures).to_vec();
    let all: Vec<_> = rows.iter().map(of).collect();
    let mut names: Vec<&'static str> = Vec::new();
    for &(name, _) in all.iter().flatten() {
        let varied = sweep.vary.iter().any(|variation| variation.parameter == name);
        if !varied && !names.contains(&name) {
            names.push(name);
        }
    }
    let cell = |row: &Vec<(&'static str, Vec<String>)>, name| {
        let found = row.iter().find(|(known, _)| *known == name);
        found.map_or(Cell::Empty, |(_, values)| figure(values))
    };
    let cells = |name| all.iter().map(|row| cell(row, name)).collect();
    names.into_iter().map(|name| Figure { name, cells: cells(name) }).collect()
}

/// A figure of one program, or of several.
fn figure(values: &[String]) -> Cell {
    let one = |text: &String| match (text.parse(), text.parse::<f64>()) {
        (Ok(count), _) => Cell::Count(count),
        (_, Ok(number)) if number.is_finite() => Cell::Brief(number),
        _ => text.as_str().into(),
    };
    match values {
        [only] => one(only),
        _ => Cell::List(values.iter().map(one).collect(), values.len()),
    }
}

fn value(value: &Value) -> Cell {
    match (value.as_i64(), value.as_f64(), value.as_str()) {
        (Some(whole), ..) => Cell::Integer(whole),
        (_, Some(number), _) => Cell::Number(number),
        (.., Some(text)) => text.into(),
        _ => value.to_string().into(),
    }
}

fn table(sweep: &Sweep<'_>, rows: &[Row], figures: &[Figure]) -> Table {
    let parameter = |(place, variation): (usize, &Variation)| {
        let name = variation.parameter.clone();
        match rows.iter().all(|row| row.values[place].is_number()) {
            true => Column::number(name),
            false => Column::text(name),
        }
    };
    let mut columns: Vec<Column> = sweep.vary.iter().enumerate().map(parameter).collect();
    columns.extend(["status", "pareto"].map(Column::text));
    columns.extend(["cycles", "microseconds", "device_mac_share"].map(Column::number));
    columns.extend(["instructions", "bytes"].map(Column::number));
    let differing = || figures.iter().filter(|figure| figure.differs());
    columns.extend(differing().map(|figure| Column::number(figure.name.replace(' ', "_"))));
    columns.push(Column::text("problem"));
    let mut table = Table::new("rows", columns);
    for (index, row) in rows.iter().enumerate() {
        let mut cells: Vec<Cell> = row.values.iter().map(value).collect();
        cells.push(row.status().into());
        cells.push(row.pareto.then_some("yes").into());
        match &row.result {
            Ok(Figures { stats, share, .. }) => cells.extend([
                stats.cycles.into(),
                stats.seconds().map(|seconds| Cell::Brief(seconds * 1e6)).into(),
                Cell::Share(*share),
                stats.instructions.into(),
                stats.bytes.into(),
            ]),
            Err(_) => cells.extend(std::iter::repeat_n(Cell::Empty, 5)),
        }
        cells.extend(differing().map(|figure| figure.cells[index].clone()));
        cells.push(row.problem().into());
        table.push(cells);
    }
    table
}
