//! `bench`: how fast Quincunx itself is.
//!
//! A suite is data: its name, its options and a function that measures ([`Suite`]). [`suites`]
//! lists those of the crates and those of the targets, which are named `<target>:<suite>`.

mod compare;
mod graph;
mod import;
mod num;

use crate::{InputFile, Model, Outcome, targets};
use quincunx_contract::Options;
use quincunx_contract::bench::{Row, Run, Suite};
use quincunx_diag::{Diagnostic, Result, did_you_mean, first, suggestion};
use quincunx_report::{Cell, Column, Report, Table};
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// The suites of the crates.
static SUITES: &[Suite] = &[compare::SUITE, graph::SUITE, import::SUITE, num::SUITE];

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

/// Every suite with its full name.
pub fn suites() -> Vec<(String, &'static Suite)> {
    let own = SUITES.iter().map(|suite| (suite.name.to_owned(), suite));
    let of_targets = targets().iter().flat_map(|target| {
        let full = |suite: &Suite| format!("{}:{}", target.info().name, suite.name);
        target.suites().iter().map(move |suite| (full(suite), suite))
    });
    own.chain(of_targets).collect()
}

/// Runs a suite: the text `suite`, and a table with the columns `name`, `metric`, `value`, `unit`.
///
/// # Errors
/// `Q0621` for an unknown suite and `Q0622` for an option that it does not have, with suggestions;
/// `Q0502` and `Q0623` for a value that is not allowed; `Q0506` for what this processor cannot do;
/// `Q0625` for a folder of models that has none.
pub fn bench(name: &str, settings: &Settings<'_>) -> Outcome<Report> {
    let suite = find(name)?;
    for (option, _) in settings.options {
        check_option(name, suite, option)?;
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
    Ok(Report::new().text("suite", name).table(table))
}

/// The ONNX files of a folder, in the order of their names.
fn models(folder: &str) -> Result<Vec<PathBuf>> {
    if folder.is_empty() {
        return Err(Diagnostic::usage("Q0623", "option models is empty, expected a folder")
            .help("give the folder with the ONNX files, as in --models DIR"));
    }
    let unreadable = |problem: std::io::Error| {
        Diagnostic::system("Q0625", "read the folder", &problem).in_file(folder)
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

/// The model, or the first problem.
fn read(file: &InputFile) -> Result<Model> {
    Model::read(file).map_err(|failure| first(failure.diagnostics))
}

fn find(name: &str) -> Result<&'static Suite> {
    let suites = suites();
    let found = suites.iter().find(|(full, _)| full == name);
    found.map(|&(_, suite)| suite).ok_or_else(|| {
        let names = suites.iter().map(|(full, _)| full.as_str());
        Diagnostic::usage("Q0621", format!("no suite is named {name:?}"))
            .help(suggestion(name, "suites", names))
    })
}

fn check_option(name: &str, suite: &Suite, option: &str) -> Result<()> {
    let names = || suite.options.iter().map(|option| option.name);
    if names().any(|name| name == option) {
        return Ok(());
    }
    let known = || match names().collect::<Vec<_>>() {
        names if names.is_empty() => "it has no options".to_owned(),
        names => format!("its options are: {}", names.join(", ")),
    };
    let message = format!("suite {name:?} has no option {option:?}");
    Err(Diagnostic::usage("Q0622", message)
        .help(did_you_mean(option, names()).unwrap_or_else(known)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_suites_and_options_are_unique() {
        let suites = suites();
        for (index, (name, suite)) in suites.iter().enumerate() {
            assert!(suites[..index].iter().all(|(other, _)| other != name));
            for (index, option) in suite.options.iter().enumerate() {
                assert!(suite.options[..index].iter().all(|other| other.name != option.name));
            }
        }
    }
}
