//! `compare`.

use crate::args::{Data, Machine, Preparation, TextOutput};
use crate::console::Console;
use crate::input;
use crate::output;
use clap::Args;
use quincunx::compare::{Comparison, Status, compare, exit_code, quick, report};
use quincunx::diag::Diagnostic;
use quincunx::report::Heading;
use quincunx::{Calibration, InputSpec, Model, Outcome, Setup, targets};
use std::path::PathBuf;

/// Compile a model for several targets and let three judges compare them
///
/// exact counts the images on which every observable value of the simulated machine equals
/// the golden model of its layers; agree counts the images whose class is that of the model as
/// given; accuracy is the share of images whose class is right (it needs an array `labels`);
/// MACs is the share of multiplications on the machine, time that of one image there, used the share
/// of the machine that works, limit what decides the time.
///
/// `--table all` also shows size and speed of the programs, distances between the judges
/// (max_error is the largest between the golden model and exact arithmetic, empty where that takes
/// more than 2^31 operations, or 2^24 of a model that is not on grids; max_difference is that of any output from the model as given), memories, costs in the terms of
/// each machine, and what is left to the host, with the reasons.
///
/// Compilers search with `--effort fast` unless another effort is given.
///
/// Exits with 1 when an image is not bit-exact, and with 4 when a target named by --target cannot
/// take the model.
#[derive(Args)]
pub(crate) struct Compare {
    /// Model: ONNX or a frozen TensorFlow graph
    model: PathBuf,
    #[command(flatten)]
    data: Data,
    /// Targets, separated by commas, each with a preset if not its first one: `tcu@bench8,npu`
    /// [default: all]. An option goes to every one that has it, --set TARGET:NAME=VALUE to one
    #[arg(short, long, value_name = "TARGET[@PRESET]", value_delimiter = ',')]
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
        let setups = setups(&self.target, &self.machine, &model)?;
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
        let all = !console.shows_brief();
        let report = report(&rows, self.layers, all).headed(heading.on(machines.join(", ")));
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
}

/// The machines that are named, or all, for a comparison of this model.
pub(super) fn setups(
    target: &[String],
    machine: &Machine,
    model: &Model,
) -> Outcome<Vec<Setup<'static>>> {
    let all = || targets().iter().map(|target| (*target, None));
    let named: Vec<input::Named<'_>> = match target.is_empty() {
        true => all().collect(),
        false => target.iter().map(|text| input::named(text)).collect::<Result<_, _>>()?,
    };
    input::setups(named, machine, quick, model)
}
