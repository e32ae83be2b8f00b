//! `sweep`.

use crate::args::{Machine, Preparation, TextOutput};
use crate::console::Console;
use crate::input;
use crate::output::{self, is_stdout, two_on_stdout};
use clap::Args;
use quincunx::diag::Sources;
use quincunx::sweep::{self, Variation, nothing_fits, picture, report, sweep, told};
use quincunx::{Calibration, Outcome, find_target};
use std::path::PathBuf;

/// Compile one model for many machines that differ in their parameters
///
/// Prints a row for every combination of values: what it takes on that machine, or why the model
/// does not fit. pareto marks machines that nothing beats: no other one is as fast, takes as large a
/// share of the multiplications and has varied numbers as small, with one of these better. Speed is
/// time where the clock is known, otherwise cycles; that a smaller number is a cheaper machine is an
/// assumption. What is the same for all of them follows in a second table.
///
/// Exits with 4 when the model fits none of the machines.
#[derive(Args)]
pub(crate) struct Sweep {
    /// Model: ONNX or a frozen TensorFlow graph
    model: PathBuf,
    /// The target
    #[arg(short, long, value_name = "TARGET")]
    target: String,
    /// A parameter of the machine and the values it takes; in a table of the architecture file, as
    /// TABLE.NAME; may be repeated, for every combination (see `quincunx targets NAME`)
    #[arg(long, value_name = "NAME=VALUE,...", required = true)]
    vary: Vec<Variation>,
    #[command(flatten)]
    machine: Machine,
    /// A machine that does not take a node does not fit
    #[arg(long)]
    strict: bool,
    /// Draw cycles over the first varied parameter as a picture (SVG)
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    #[command(flatten)]
    preparation: Preparation,
    #[command(flatten)]
    output: TextOutput,
}

impl Sweep {
    pub(crate) fn run(self, console: &Console) -> Outcome<u8> {
        let target = find_target(&self.target)?;
        let results = [&self.picture, &self.output.output];
        let is_stream = |path: &Option<PathBuf>| path.as_deref().is_some_and(is_stdout);
        let streams = results.iter().filter(|path| is_stream(path)).count();
        if streams + usize::from(self.output.output.is_none()) > 1 {
            return Err(two_on_stdout().into());
        }
        output::expect(results.into_iter().flatten())?;
        let calibration = input::calibration(&self.preparation)?;
        let model = input::model(&input::open(&self.model)?, &self.preparation, &calibration)?;
        input::note_data_beside(&self.preparation, &model)?;
        let setup = input::setup(target, &self.machine, &model)?;
        let job = sweep::Sweep {
            model: &model,
            setup: &setup,
            vary: &self.vary,
            strict: self.strict,
            fold_batch_norm: !self.preparation.no_fold_batch_norm,
            calibration: Calibration {
                file: calibration.as_ref(),
                made_up: self.preparation.made_up(),
                ..Calibration::default()
            },
            threads: console.threads,
        };
        let rows = sweep(&job, console.progress())?;
        console.diagnostics(&told(&job, &rows), &Sources::new());
        let heading = setup.heading("Sweep", &model.file_name());
        if let Some(path) = &self.picture {
            console.write(Some(path), picture(&job, &rows, &heading).as_bytes())?;
        }
        console.report(&report(&job, &rows).headed(heading), self.output.output.as_deref())?;
        match nothing_fits(&rows) {
            None => Ok(0),
            Some(problem) => {
                let failure = problem.into();
                console.failure(&failure);
                Ok(failure.exit_code())
            }
        }
    }
}
