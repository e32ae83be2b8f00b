//! `compare`.

use crate::args::{Data, Machine, Preparation, TextOutput};
use crate::console::Console;
use crate::input;
use crate::output;
use clap::Args;
use quincunx::compare::{Comparison, Status, compare, exit_code, report};
use quincunx::diag::Diagnostic;
use quincunx::report::Heading;
use quincunx::target::{ArchSource, Target};
use quincunx::{Calibration, InputSpec, Model, Outcome, Setup, find_target, targets};
use std::path::PathBuf;

/// Compile a model for several targets and let three judges compare them
///
/// bit_exact counts the images on which every observable value of the simulated machine equals
/// the golden model of its layers; agree counts the images whose class is that of the model as
/// given; accuracy is the share of images whose class is right (it needs an array `labels`);
/// max_error is the largest difference between the golden model and exact arithmetic, for models
/// on grids; max_difference is that of any output from the model as given.
///
/// Exits with 1 when an image is not bit-exact, and with 4 when a target named by --target cannot
/// take the model.
#[derive(Args)]
pub(crate) struct Compare {
    /// Model: ONNX or a frozen TensorFlow graph
    model: PathBuf,
    #[command(flatten)]
    data: Data,
    /// Targets, separated by commas [default: all]
    #[arg(short, long, value_name = "TARGET", value_delimiter = ',')]
    target: Vec<String>,
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    preparation: Preparation,
    /// Also compare every value that the compiled model shares with the model as given:
    /// largest and mean difference, and the ratio of signal to noise
    #[arg(long)]
    layers: bool,
    #[command(flatten)]
    output: TextOutput,
}

impl Compare {
    pub(crate) fn run(self, console: &Console) -> Outcome<u8> {
        output::expect(&self.output.output)?;
        let file = input::open(&self.model)?;
        let data_file = input::data_file(&self.data)?;
        let calibration = input::calibration(&self.preparation)?;
        let shaping = data_file.iter().chain(&calibration);
        let model = input::model(&file, &self.preparation, shaping)?;
        input::note_data_beside(&self.preparation, &model)?;
        let setups = self.setups(&model)?;
        let inputs = InputSpec::of(&model.graph);
        let data = input::dataset(&self.data, data_file.as_ref(), &inputs, console)?;
        let comparison = Comparison {
            model: &model,
            data: &data,
            calibration: Calibration {
                file: calibration.as_ref(),
                made_up: self.preparation.made_up(),
                evaluated: data_file.as_ref(),
                ..Calibration::default()
            },
            fold_batch_norm: !self.preparation.no_fold_batch_norm,
            layers: self.layers,
            threads: console.threads,
        };
        let rows = compare(&comparison, &setups, console.progress())?;
        let machines: Vec<String> = setups.iter().map(Setup::machine).collect();
        let heading = Heading::new("Comparison of machines").of(model.file_name());
        let report = report(&rows, self.layers).headed(heading.on(machines.join(", ")));
        console.report(&report, self.output.output.as_deref())?;
        let named = !self.target.is_empty();
        for row in rows.iter().filter(|row| named || row.status != Status::Unsupported) {
            console.failure(&row.problems);
        }
        // A machine that was not asked for by name need not take the model.
        for row in rows.iter().filter(|row| !named && row.status == Status::Unsupported) {
            let notes = row.problems.diagnostics.iter().cloned().map(Diagnostic::as_note);
            console.diagnostics(&notes.collect::<Vec<_>>(), &row.problems.sources);
        }
        Ok(exit_code(&rows, named))
    }

    fn setups(&self, model: &Model) -> Outcome<Vec<Setup<'static>>> {
        if let (Some(option), false) = (self.machine.given().first(), self.target.len() == 1) {
            let message = format!("{option} is for one target");
            return Err(Diagnostic::usage("Q0710", message).help("name it with --target").into());
        }
        if self.target.is_empty() {
            let setup = |target: &&'static dyn Target| {
                Setup::for_model(*target, &ArchSource::Default, model, &[])
            };
            return Ok(targets().iter().map(setup).collect::<Result<_, _>>()?);
        }
        let setup = |name: &String| input::setup(find_target(name)?, &self.machine, model);
        self.target.iter().map(setup).collect()
    }
}
