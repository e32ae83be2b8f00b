//! `sweep`.

use crate::args::{Data, Images, Machine, Preparation, TextOutput};
use crate::console::Console;
use crate::input;
use crate::options::refuse_others;
use crate::output::{self, is_stdout, two_on_stdout};
use clap::Args;
use quincunx::diag::{Diagnostic, Sources};
use quincunx::report::Heading;
use quincunx::sweep::{
    self, Choice, Row, Store, Variation, coordinates, listed, nothing_fits, of_options, picture,
    report, scatter, sweep, told,
};
use quincunx::target::Use;
use quincunx::{Calibration, InputSpec, Outcome, Setup, find_target};
use std::path::PathBuf;

/// Compile one model for many machines, or with options that differ
///
/// Prints a row for every combination of values: what it takes on that machine, or why the model
/// does not fit. pareto marks machines that nothing beats: no other one is as fast, takes as large a
/// share of the multiplications and has varied numbers as small, with one of these better. Speed is
/// time where the clock is known, otherwise cycles; that a smaller number is a cheaper machine is an
/// assumption. What is the same for all of them follows in a second table.
///
/// With --data the machines are simulated: max_difference and rms_difference say how far outputs are from those of
/// the model as given. With an array `labels`, accuracy is the share of images whose class is right.
/// --over then gives what varies within a row: the row has the mean, the least and the largest accuracy.
///
/// Exits with 4 when the model fits none of the machines.
#[derive(Args)]
pub(crate) struct Sweep {
    /// Model: ONNX or a frozen TensorFlow graph
    model: PathBuf,
    /// The target
    #[arg(short, long, value_name = "TARGET")]
    target: String,
    /// A parameter of the machine, in a table of the architecture file as TABLE.NAME, or an option of
    /// the target, and the values it takes; may be repeated, for every combination (see `quincunx
    /// targets NAME`). Or how the model is quantised: quantise.weights and quantise.activations (bits),
    /// quantise.scheme, quantise.method
    #[arg(long, value_name = "NAME=VALUE,...", required_unless_present = "points")]
    vary: Vec<Variation>,
    /// Only so many of the combinations, drawn at random; with the same SEED the same ones [default
    /// SEED: 0]
    #[arg(long, value_name = "COUNT[:SEED]", value_parser = random)]
    random: Option<Choice>,
    /// The combinations as a table, in place of --vary: .csv with the names in the first line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["vary", "random", "picture"])]
    points: Option<PathBuf>,
    /// Keep what was found in this file (SQLite), and compute nothing again that it holds: a sweep that
    /// was stopped goes on where it was
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
    /// The same for what varies within a row, as seed=0,1,2: the accuracy is that of all of them
    #[arg(long, value_name = "NAME=VALUE,...", requires = "data")]
    over: Vec<Variation>,
    /// Inputs to simulate the machines with, perhaps with an array `labels`: .npz (arrays by input name)
    #[arg(short, long, value_name = "FILE")]
    data: Option<String>,
    #[command(flatten)]
    images: Images,
    #[command(flatten)]
    machine: Machine,
    /// A machine that does not take a node does not fit
    #[arg(long)]
    strict: bool,
    /// Draw cycles, with --data the accuracy, over what varies first as a picture (SVG)
    #[arg(long, value_name = "FILE", conflicts_with = "random")]
    picture: Option<PathBuf>,
    /// Draw time against accuracy (without classes, against error or size), with the front of what
    /// nothing beats in both (SVG)
    #[arg(long, value_name = "FILE")]
    scatter: Option<PathBuf>,
    /// Draw an axis for everything that varies and every figure, and a line for every machine (SVG)
    #[arg(long, value_name = "FILE")]
    coordinates: Option<PathBuf>,
    #[command(flatten)]
    preparation: Preparation,
    #[command(flatten)]
    output: TextOutput,
}

/// `COUNT` or `COUNT:SEED`.
fn random(text: &str) -> Result<Choice, String> {
    let (count, seed) = text.split_once(':').unwrap_or((text, "0"));
    match (count.parse(), seed.parse()) {
        (Ok(count), Ok(seed)) if count > 0 => Ok(Choice::Random { count, seed }),
        _ => Err("expected COUNT or COUNT:SEED, as in 100:7".to_owned()),
    }
}

impl Sweep {
    pub(crate) fn run(mut self, console: &Console) -> Outcome<u8> {
        let target = find_target(&self.target)?;
        let results = [&self.picture, &self.scatter, &self.coordinates, &self.output.output];
        let is_stream = |path: &Option<PathBuf>| path.as_deref().is_some_and(is_stdout);
        let streams = results.iter().filter(|path| is_stream(path)).count();
        if streams + usize::from(self.output.output.is_none()) > 1 {
            return Err(two_on_stdout().into());
        }
        output::expect(results.into_iter().flatten())?;
        let mut choice = self.random.clone().unwrap_or_default();
        if let Some(path) = &self.points {
            (self.vary, choice) = listed(&input::open(path)?)?;
        }
        let store = self.store.as_deref().map(Store::open).transpose()?;
        let file = input::open(&self.model)?;
        let data = self.data.clone().map(|data| Data { data, images: self.images.clone() });
        let data_file = data.as_ref().map(input::data_file).transpose()?.flatten();
        let calibration = input::calibration(&self.preparation)?;
        let shaping = data_file.iter().chain(&calibration);
        let model = input::model(&file, &self.preparation, shaping)?;
        input::note_data_beside(&self.preparation, &model)?;
        let setup = input::setup_of(target, &self.machine, &model)?;
        self.check_options(&setup)?;
        let inputs = InputSpec::of(&model.graph);
        let data = data.map(|data| input::dataset(&data, data_file.as_ref(), &inputs, console));
        let data = data.transpose()?;
        let job = sweep::Sweep {
            model: &model,
            setup: &setup,
            vary: &self.vary,
            choice,
            over: &self.over,
            data: data.as_ref(),
            strict: self.strict,
            fold_batch_norm: !self.preparation.no_fold_batch_norm,
            calibration: Calibration {
                file: calibration.as_ref(),
                made_up: self.preparation.made_up(),
                evaluated: data_file.as_ref(),
                ..Calibration::default()
            },
            threads: console.threads,
        };
        let rows = sweep(&job, store.as_ref(), console.progress())?;
        console.diagnostics(&told(&job, &rows), &Sources::new());
        let heading = setup.heading("Sweep", &model.file_name());
        self.draw(&job, &rows, &heading, console)?;
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

    /// Refuses options that change nothing: those that other verbs have, and without images those that
    /// change runs alone.
    /// Writes the pictures that are asked for.
    fn draw(
        &self,
        job: &sweep::Sweep<'_>,
        rows: &[Row],
        heading: &Heading,
        console: &Console,
    ) -> Outcome<()> {
        type Draw = fn(&sweep::Sweep<'_>, &[Row], &Heading) -> String;
        let pictures: [(&Option<PathBuf>, Draw); 3] =
            [(&self.picture, picture), (&self.scatter, scatter), (&self.coordinates, coordinates)];
        for (path, draw) in pictures {
            if let Some(path) = path {
                console.write(Some(path), draw(job, rows, heading).as_bytes())?;
            }
        }
        Ok(())
    }

    fn check_options(&self, setup: &Setup<'_>) -> Outcome<()> {
        let target = setup.target;
        let varied = of_options(setup, self.vary.iter().chain(&self.over))?.into_iter();
        let pairs =
            varied.flat_map(|v| v.values.iter().map(|word| (v.parameter.clone(), word.clone())));
        let varied: Vec<(String, String)> = pairs.collect();
        refuse_others(target, &varied)?;
        if self.data.is_none() {
            let images = self.images.images.iter().map(|_| "--images");
            input::without_effect(images, "a sweep without --data")?;
        }
        let given = self.machine.options()?;
        if let Some((name, _)) = varied.iter().find(|(name, _)| given.iter().any(|g| g.0 == *name))
        {
            let message = format!("option {name} is given and varied");
            return Err(Diagnostic::usage("Q0714", message).help("leave one of them out").into());
        }
        let of_runs = |name: &str| {
            let option = target.info().options.iter().find(|option| option.name == name);
            option.is_some_and(|option| option.uses == [Use::Run])
        };
        match given.iter().chain(&varied).find(|(name, _)| of_runs(name)) {
            Some((name, _)) if self.data.is_none() => {
                let message = format!("option {name} has no effect on a sweep without --data");
                Err(Diagnostic::usage("Q0718", message).help("give images").into())
            }
            _ => Ok(()),
        }
    }
}
