//! `bench`: how fast Quincunx itself is.
//!
//! A suite is data: its name, its options and a function that measures ([`Suite`]). The suites of
//! the crates are listed in [`suites`]; a suite of a target joins them as `<target>:<suite>`.

mod graph;
mod import;
mod num;

use crate::Outcome;
use quincunx_diag::{Diagnostic, Result, did_you_mean, suggestion};
use quincunx_report::{Cell, Column, Report, Table};
use quincunx_target::{OptionInfo, Options};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long work is done over and over for one measurement.
const MEASURED: Duration = Duration::from_millis(200);

/// Every suite. Suites of targets belong at the end, under `<target>:<suite>`.
static SUITES: &[Suite] = &[graph::SUITE, import::SUITE, num::SUITE];

/// A set of measurements that are made together.
#[derive(Debug)]
pub struct Suite {
    /// Name on the command line.
    pub name: &'static str,
    /// One line.
    pub doc: &'static str,
    /// Options that only this suite has.
    pub options: &'static [OptionInfo],
    /// Measures.
    run: fn(&Run) -> Outcome<Vec<Row>>,
}

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    /// Threads that the work is divided among.
    pub threads: NonZeroUsize,
    /// Measurements, of which the median counts.
    pub repeat: NonZeroUsize,
    /// Names and values of the suite's own options.
    pub options: &'a [(String, String)],
}

/// What the function of a suite gets.
struct Run {
    threads: NonZeroUsize,
    repeat: NonZeroUsize,
    options: Options,
}

/// One result.
struct Row {
    name: String,
    metric: &'static str,
    value: f64,
    unit: &'static str,
    /// Decimals that people see.
    decimals: usize,
}

/// Every suite.
pub fn suites() -> &'static [Suite] {
    SUITES
}

/// Runs a suite: the text `suite`, and a table with the columns `name`, `metric`, `value`, `unit`.
///
/// # Errors
/// `Q0621` for an unknown suite and `Q0622` for an option that it does not have, with suggestions;
/// `Q0502` and `Q0623` for a value that is not allowed; `Q0624` for what this processor cannot do;
/// `Q0625` for a folder of models that has none.
pub fn bench(name: &str, settings: &Settings<'_>) -> Outcome<Report> {
    let suite = find(name)?;
    for (option, _) in settings.options {
        suite.check_option(option)?;
    }
    let options = Options::new(suite.options, settings.options)?;
    let run = Run { threads: settings.threads, repeat: settings.repeat, options };
    let columns = vec![
        Column::text("name"),
        Column::text("metric"),
        Column::number("value"),
        Column::text("unit"),
    ];
    let mut table = Table::new("rows", columns);
    for Row { name, metric, value, unit, decimals } in (suite.run)(&run)? {
        table.push(vec![name.into(), metric.into(), Cell::Real(value, decimals), unit.into()]);
    }
    Ok(Report::new().text("suite", suite.name).table(table))
}

/// The ONNX files of a folder, in the order of their names.
fn models(folder: &str) -> Result<Vec<PathBuf>> {
    if folder.is_empty() {
        return Err(Diagnostic::usage("Q0623", "option models is empty, expected a folder")
            .help("give the folder with the ONNX files, as in --models DIR"));
    }
    let unreadable = |problem: std::io::Error| {
        Diagnostic::invalid("Q0625", format!("the folder cannot be read: {problem}"))
            .in_file(folder)
    };
    let mut models = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|ending| ending == "onnx") {
            models.push(path);
        }
    }
    if models.is_empty() {
        return Err(Diagnostic::invalid("Q0625", "the folder has no file that ends in .onnx")
            .in_file(folder));
    }
    models.sort();
    Ok(models)
}

fn find(name: &str) -> Result<&'static Suite> {
    let names = SUITES.iter().map(|suite| suite.name);
    SUITES.iter().find(|suite| suite.name == name).ok_or_else(|| {
        Diagnostic::usage("Q0621", format!("no suite is named {name:?}"))
            .help(suggestion(name, "suites", names))
    })
}

impl Suite {
    fn check_option(&self, option: &str) -> Result<()> {
        let names = || self.options.iter().map(|option| option.name);
        if names().any(|name| name == option) {
            return Ok(());
        }
        let known = || match names().collect::<Vec<_>>() {
            names if names.is_empty() => "it has no options of its own".to_owned(),
            names => format!("its options are: {}", names.join(", ")),
        };
        let message = format!("suite {:?} has no option {option:?}", self.name);
        Err(Diagnostic::usage("Q0622", message)
            .help(did_you_mean(option, names()).unwrap_or_else(known)))
    }
}

impl Run {
    /// The median of the rates of `amount` per call of `work`, per second.
    ///
    /// A measurement repeats the work for a while and counts the fastest call: what slows the
    /// others down is the rest of the machine.
    fn rate(&self, amount: f64, mut work: impl FnMut()) -> f64 {
        median(self.fastest(&mut work).map(|seconds| amount / seconds).collect())
    }

    /// The median of the seconds of a call of `work`, measured as for [`Run::rate`]; what it
    /// returns is dropped later.
    fn seconds<T>(&self, mut work: impl FnMut() -> T) -> f64 {
        median(self.fastest(&mut work).collect())
    }

    /// The time of the fastest call, once per measurement.
    fn fastest<T>(&self, work: &mut impl FnMut() -> T) -> impl Iterator<Item = f64> {
        (0..self.repeat.get()).map(move |_| {
            let start = Instant::now();
            let mut fastest = Duration::MAX;
            while start.elapsed() < MEASURED {
                let begin = Instant::now();
                let result = work();
                fastest = fastest.min(begin.elapsed());
                drop(result);
            }
            fastest.max(Duration::from_nanos(1)).as_secs_f64()
        })
    }
}

/// The middle value; the mean of the middle two when their number is even.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) {
        f64::midpoint(values[middle - 1], values[middle])
    } else {
        values[middle]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 9.0]), 3.0);
    }

    #[test]
    fn names_of_suites_and_options_are_unique() {
        for (index, suite) in suites().iter().enumerate() {
            assert!(suites()[..index].iter().all(|other| other.name != suite.name));
            for (index, option) in suite.options.iter().enumerate() {
                assert!(suite.options[..index].iter().all(|other| other.name != option.name));
            }
        }
    }
}
