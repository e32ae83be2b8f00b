//! `quincunx-conform <target> <dir>`: runs every golden file or folder that is present in a
//! directory. The layouts are those of `tests/golden/<target>`; other folders of the same layout
//! run as well.
//!
//! Every present file or folder prints `NAME: N passed, M failed, K skipped` and a line for each
//! case that failed; the run closes with the totals. Exit 0 when nothing failed, 1 when something
//! did, 2 for wrong usage, 3 when the directory cannot be read.

mod dais;
mod dpas;
mod folder;
mod npu;
mod report;
mod scamp;
mod tcu;

use clap::Parser;
use quincunx_diag::{Class, Diagnostic, Result, did_you_mean};
use report::{Report, Totals};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs folders of golden cases.
#[derive(Parser, Debug)]
#[command(name = "quincunx-conform", version)]
struct Arguments {
    /// The target, such as dais.
    target: String,
    /// The directory with the golden files and folders of the target.
    dir: PathBuf,
    /// Run these files (without extension) and folders only.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Where generated big models are, besides DIR/models.
    #[arg(long, value_name = "DIR")]
    models: Option<PathBuf>,
}

/// What a target is asked to run.
struct Request<'a> {
    /// The directory.
    dir: &'a std::path::Path,
    /// The names given with `--only`; empty for all.
    only: &'a [String],
    /// Where generated big models are, besides `models` in the directory.
    models: Option<&'a std::path::Path>,
}

impl Request<'_> {
    /// True if a file or folder of this name is to run.
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| wanted == name)
    }

    /// Refuses names in `--only` that the target does not know.
    fn check_names(&self, known: &[String]) -> Result<()> {
        match self.only.iter().find(|name| !known.contains(name)) {
            None => Ok(()),
            Some(name) => {
                Err(Diagnostic::usage("Q0800", format!("--only names the unknown \"{name}\""))
                    .with_note(format!("known names: {}", known.join(", ")))
                    .help_if(did_you_mean(name, known.iter().map(String::as_str))))
            }
        }
    }
}

/// Runs a target's cases; calls `emit` after each file or folder.
type Runner = fn(&Request<'_>, &mut dyn FnMut(Report)) -> Result<()>;

/// Every target with golden data that can be run.
const TARGETS: &[(&str, Runner)] = &[
    ("dais", dais::run),
    ("scamp", scamp::run),
    ("dpas", dpas::run),
    ("tcu", tcu::run),
    ("npu", npu::run),
];

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(totals) if totals == Totals::default() => {
            // A run that checked nothing must not look like one that passed.
            let _ = writeln!(io::stderr(), "no golden case was found");
            ExitCode::from(Class::Invalid.exit_code())
        }
        Ok(totals) if totals.failed == 0 => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(problem) => {
            let _ = writeln!(io::stderr(), "{problem}");
            ExitCode::from(problem.class().exit_code())
        }
    }
}

fn run(arguments: &Arguments) -> Result<Totals> {
    let names = || TARGETS.iter().map(|&(name, _)| name);
    let runner = TARGETS.iter().find(|&&(name, _)| name == arguments.target);
    let &(_, runner) = runner.ok_or_else(|| {
        let list: Vec<&str> = names().collect();
        Diagnostic::usage("Q0801", format!("unknown target \"{}\"", arguments.target))
            .with_note(format!("targets with golden data: {}", list.join(", ")))
            .help_if(did_you_mean(&arguments.target, names()))
    })?;
    if let Some(models) = &arguments.models {
        folder::check(models)?;
    }
    let request =
        Request { dir: &arguments.dir, only: &arguments.only, models: arguments.models.as_deref() };
    let mut totals = Totals::default();
    // A closed pipe ends the printing; the exit code still tells the result.
    let mut out = io::stdout().lock();
    runner(&request, &mut |report| {
        totals.add(&report.totals());
        let _ = write!(out, "{report}").and_then(|()| out.flush());
    })?;
    let _ = writeln!(out, "total: {totals}");
    Ok(totals)
}
