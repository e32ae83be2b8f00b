//! `inspect`.

use crate::args::{Machine, TextOutput};
use crate::console::Console;
use crate::input;
use clap::Args;
use quincunx::diag::Sources;
use quincunx::{Outcome, find_target, inspect, targets};
use std::path::PathBuf;

/// Show what is in a file: a model, data, a program folder or a program
#[derive(Args)]
pub(crate) struct Inspect {
    /// The file or program folder
    file: PathBuf,
    /// Take it as a program of this target instead of looking at its contents
    #[arg(short, long, value_name = "TARGET")]
    target: Option<String>,
    #[command(flatten)]
    machine: Machine,
    /// Read programs that break minor rules, with warnings
    #[arg(long)]
    lenient: bool,
    #[command(flatten)]
    output: TextOutput,
}

impl Inspect {
    pub(crate) fn run(self, console: &Console) -> Outcome<u8> {
        let inspection = if self.file.is_dir() {
            inspect::folder(&self.file, targets())?
        } else {
            let setup = match &self.target {
                None => None,
                Some(name) => Some(input::setup(find_target(name)?, &self.machine, self.lenient)?),
            };
            inspect::file(&input::open(&self.file)?, targets(), setup)?
        };
        console.diagnostics(&inspection.warnings, &Sources::new());
        console.report(&inspection.report, self.output.output.as_deref())?;
        Ok(0)
    }
}
