//! `verify`.

use crate::args::{Data, Images, Preparation, Reading, TextOutput};
use crate::console::Console;
use crate::input;
use crate::output;
use clap::Args;
use quincunx::diag::{Class, count_errors};
use quincunx::report::{Cell, Column, Heading, Report, Table};
use quincunx::split::handovers;
use quincunx::target::{Clipped, Departure, Document};
use quincunx::verify::{Against, Agreement, against_model, checks, verify};
use quincunx::{
    Calibration, FileKind, InputFile, Opened, Outcome, detect, exit_code, inspect, sources_of,
    targets,
};
use std::path::PathBuf;

/// Check a program against the rules of its machine, and against its model
///
/// Exits with 1 when a rule is broken or a value differs.
#[derive(Args)]
pub(crate) struct Verify {
    /// Program folder, or native files of one program
    #[arg(required = true)]
    program: Vec<PathBuf>,
    #[command(flatten)]
    reading: Reading,
    /// Also compare every observable value with the golden model of this model, the one the program
    /// folder was compiled from
    #[arg(long, value_name = "FILE", requires = "data")]
    model: Option<PathBuf>,
    /// Inputs for --model: .npy, .npz, random:SEED, zeros or ones
    #[arg(short, long, value_name = "FILE|random:SEED|zeros|ones", requires = "model")]
    data: Option<String>,
    #[command(flatten)]
    images: Images,
    /// Also list where the program's numbers depart from those of the machine's own tools, or from
    /// other ways to add floats, with the differences on the data: largest and mean of each alone,
    /// and the largest with all others
    #[arg(long, requires = "model")]
    departures: bool,
    #[command(flatten)]
    preparation: Preparation,
    #[command(flatten)]
    output: TextOutput,
}

impl Verify {
    pub(crate) fn run(self, console: &Console) -> Outcome<u8> {
        if self.model.is_none() {
            let images = self.images.images.as_ref().map(|_| "--images");
            let part = self.preparation.part.given();
            let given = self.preparation.given().into_iter().chain(part).chain(images);
            input::without_effect(given, "verify without --model")?;
        }
        output::expect(&self.output.output)?;
        let opened = match &self.program[..] {
            [path] if !path.is_dir() => {
                let file = input::open(path)?;
                if let Some(document) = self.document(&file)? {
                    return self.verdict(&file, &document, console);
                }
                self.reading.natives(&input::complete(vec![file], &self.reading)?)?
            }
            paths => input::program(paths, &self.reading)?,
        };
        console.diagnostics(&opened.warnings, &opened.sources);
        let problems = verify(&opened);
        console.diagnostics(&problems, &opened.sources);
        let legal = exit_code(&problems) == 0;
        let agreement = match (&self.model, &self.data) {
            // A program that breaks rules does not run.
            (Some(model), Some(data)) if legal => {
                Some(self.agreement(&opened, model, data, console)?)
            }
            _ => None,
        };
        let clipped = agreement.iter().flat_map(|agreement| &agreement.clipped);
        console.diagnostics(&clipped.map(Clipped::warning).collect::<Vec<_>>(), &opened.sources);
        if let Some(difference) = agreement.as_ref().and_then(|a| a.difference.as_ref()) {
            console.diagnostics(std::slice::from_ref(difference), &opened.sources);
        }
        let exact = agreement.as_ref().is_none_or(|a| a.bit_exact == a.images);
        let errors = count_errors(&problems);
        let table = table(legal && exact, errors, agreement.as_ref());
        let handovers = agreement.as_ref().and_then(|agreement| handovers(&agreement.handovers));
        let departures = agreement.and_then(|agreement| agreement.departures);
        let heading = opened.heading("Verification", &input::subject(&self.program));
        let report = Report::from(table).table(checks(&opened, &problems)).headed(heading);
        let more = handovers.into_iter().chain(departures.as_deref().map(departure_table));
        let report = more.fold(report, Report::table);
        console.report(&report, self.output.output.as_deref())?;
        Ok(if legal && exact { 0 } else { Class::Answer.exit_code() })
    }

    /// A file of the machine that is not a program.
    fn document(&self, file: &InputFile) -> Outcome<Option<Document>> {
        let target = match (self.reading.named()?, detect(file, targets())) {
            (Some(target), _) | (None, FileKind::Program(target)) => target,
            _ => return Ok(None),
        };
        inspect::document(&file.to_file(), &self.reading.setup(target)?)
    }

    fn verdict(&self, file: &InputFile, document: &Document, console: &Console) -> Outcome<u8> {
        let given = self.model.as_ref().map(|_| "--model");
        input::without_effect(given, &format!("a file that is {}", document.kind))?;
        console.diagnostics(&document.problems, &sources_of(&[file.to_file()]));
        let errors = count_errors(&document.problems);
        let heading = Heading::new("Verification").of(file.name.clone());
        let report = Report::from(table(errors == 0, errors, None)).headed(heading);
        console.report(&report, self.output.output.as_deref())?;
        Ok(if errors == 0 { 0 } else { Class::Answer.exit_code() })
    }

    fn agreement(
        &self,
        opened: &Opened<'_>,
        model: &std::path::Path,
        data: &str,
        console: &Console,
    ) -> Outcome<Agreement> {
        let images = Images { images: self.images.images.clone() };
        let data = Data { data: data.to_owned(), images };
        let file: Option<InputFile> = input::data_file(&data)?;
        let images = input::dataset(&data, file.as_ref(), &opened.executable.inputs, console)?;
        let calibration = input::calibration(&self.preparation)?;
        let known = file.iter().chain(&calibration);
        let model = input::model_of(opened, model, &self.preparation, known)?;
        let against = Against {
            model: &model,
            no_fold_batch_norm: self.preparation.no_fold_batch_norm,
            calibration: Calibration {
                file: calibration.as_ref(),
                made_up: self.preparation.made_up(),
                evaluated: file.as_ref(),
                ..Calibration::default()
            },
        };
        let (threads, progress) = (console.threads, console.progress());
        against_model(opened, &against, &images, self.departures, threads, progress)
            .map_err(|failure| failure.with_sources(&opened.sources))
    }
}

fn departure_table(departures: &[Departure]) -> Table {
    let numbers = ["alone", "mean", "together"].map(Column::number);
    let columns = ["node", "departure"].map(Column::text).into_iter().chain(numbers).collect();
    let mut table = Table::new("departures", columns);
    for Departure { node, what, alone, mean, together } in departures {
        let words = [node.as_str(), what].map(Cell::from);
        let numbers = [*alone, *mean, *together].map(Cell::Brief);
        table.push(words.into_iter().chain(numbers).collect());
    }
    table
}

fn table(passed: bool, errors: usize, agreement: Option<&Agreement>) -> Table {
    let mut table = Table::new(
        "rows",
        vec![
            Column::text("status"),
            Column::number("errors"),
            Column::number("images"),
            Column::number("bit_exact"),
        ],
    );
    table.push(vec![
        if passed { "ok" } else { "failed" }.into(),
        errors.into(),
        agreement.map_or(Cell::Empty, |a| a.images.into()),
        agreement.map_or(Cell::Empty, |a| a.bit_exact.into()),
    ]);
    table
}
