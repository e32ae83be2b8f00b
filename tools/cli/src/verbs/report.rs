//! `report`.

use crate::args::{Data, Images, Machine, Preparation, Reading};
use crate::console::Console;
use crate::input;
use crate::output;
use crate::verbs::compare::setups;
use clap::Args;
use quincunx::compare::{Comparison, compare, exit_code};
use quincunx::diag::{Class, Diagnostic, Result, Sources};
use quincunx::page::{Machine as Shown, Subject, belong_together, page};
use quincunx::target::folder::Folder;
use quincunx::tensor::Tensors;
use quincunx::vendor::{Row, estimates, read, reports_in, table};
use quincunx::verify::{Against, Agreement, against_model, refuse_illegal};
use quincunx::{
    Calibration, Dataset, InputFile, InputSpec, Model, Opened, Outcome, natives_in, open_folder,
    targets,
};
use std::path::{Path, PathBuf};

/// Show one network on several machines as a page for a browser
///
/// Of a model: it is compiled for every target, simulated and judged as by `compare --layers`. Of
/// program folders: what is in them, side by side. The page is one file that needs nothing else: a
/// summary, the network and who computes it, layers with their costs and errors, timelines in which
/// a click tells why something starts when it does, rooflines, weights and activations against the
/// grids of the machines, and feature maps.
///
/// Of a folder with reports of Vivado (`*utilization*.rpt`, `*timing*.rpt`) or Quartus (`*.fit.rpt`,
/// `*.fit.summary`, `*.sta.rpt`): a table of what they say, beside our estimate of the program that
/// is given with the folder or lies in it.
///
/// The exit code is that of `compare` for a model, and of `verify --model` for programs.
#[derive(Args)]
pub(crate) struct Report {
    /// Model, or program folders of one network, or a folder of reports and a program
    #[arg(required = true, value_name = "MODEL|PROGRAM|REPORTS")]
    files: Vec<PathBuf>,
    /// Write the page to this file; needed for a page, tables go to stdout without it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Inputs: .npy, .npz (arrays by input name); for one input also .csv, .png or .pgm; or
    /// random:SEED, zeros, ones. Needed for a model
    #[arg(short, long, value_name = "FILE|random:SEED|zeros|ones")]
    data: Option<String>,
    #[command(flatten)]
    images: Images,
    /// Images whose feature maps are shown, by their numbers in the data, separated by commas; the
    /// first is that of the histograms [default: the first]
    #[arg(long, value_name = "N", value_delimiter = ',')]
    image: Vec<usize>,
    /// Targets, separated by commas, each with a preset if not its first one: `tcu@bench8,npu`
    /// [default: all]
    #[arg(short, long, value_name = "TARGET[@PRESET]", value_delimiter = ',')]
    target: Vec<String>,
    #[command(flatten)]
    machine: Machine,
    /// Also compare programs with the golden model of this model, the one they were compiled from,
    /// and show its values
    #[arg(long, value_name = "FILE", requires = "data")]
    model: Option<PathBuf>,
    #[command(flatten)]
    preparation: Preparation,
}

impl Report {
    pub(crate) fn run(self, console: &Console) -> Outcome<u8> {
        output::expect(&self.output)?;
        if let Some(reports) = reports_of(&self.files)? {
            return self.of_reports(&reports, console);
        }
        if self.output.is_none() {
            let problem = Diagnostic::usage("Q0719", "a page needs a file");
            return Err(problem.help("name it with --output").into());
        }
        let programs = self.files.iter().filter(|path| Folder::is_at(path)).count();
        match &self.files[..] {
            [model] if programs == 0 => self.of_model(model, console),
            all if programs == all.len() => self.of_programs(console),
            _ => Err(Diagnostic::usage("Q0719", "expected one model, or program folders")
                .help(
                    "give a model alone; programs are folders that `compile` has written; a folder \
                     of reports of Vivado or Quartus goes with at most one program",
                )
                .into()),
        }
    }

    /// True for a folder of reports, whose result is a table and no page.
    pub(crate) fn is_table(&self) -> bool {
        reports_of(&self.files).is_ok_and(|reports| reports.is_some())
    }

    /// The data with a choice of images.
    fn data(&self, text: &str) -> Data {
        Data { data: text.to_owned(), images: self.images.clone() }
    }

    fn of_model(&self, path: &Path, console: &Console) -> Outcome<u8> {
        input::without_effect(self.model.iter().map(|_| "--model"), "a report of a model")?;
        let Some(text) = &self.data else {
            let problem = Diagnostic::usage("Q0719", "a report of a model needs data");
            return Err(problem.help("give inputs with --data, such as random:1").into());
        };
        let given = self.data(text);
        let file = input::open(path)?;
        let data_file = input::data_file(&given)?;
        let calibration = input::calibration(&self.preparation)?;
        let shaping = data_file.iter().chain(&calibration);
        let model = input::model(&file, &self.preparation, shaping)?;
        input::note_data_beside(&self.preparation, &model)?;
        let setups = setups(&self.target, &self.machine, &model)?;
        let inputs = InputSpec::of(&model.graph);
        let data = input::dataset(&given, data_file.as_ref(), &inputs, console)?;
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
            layers: true,
            threads: console.threads,
        };
        let images = self.chosen(&data)?;
        let rows = compare(&comparison, &setups, console.progress())?;
        let pairs = rows.iter().zip(&setups);
        let machines: Vec<Shown<'_>> =
            pairs.map(|(row, setup)| Shown::of_row(row, setup)).collect();
        let name = model.file_name();
        let subject = Subject { name, model: Some(&model.graph), images };
        self.write(&subject, &machines, console)?;
        let named = !self.target.is_empty();
        rows.iter().filter(|row| named || row.executable().is_some()).for_each(|row| {
            console.failure(&row.problems);
        });
        Ok(exit_code(&rows, named))
    }

    fn of_programs(&self, console: &Console) -> Outcome<u8> {
        self.refuse_idle()?;
        let mut opened = Vec::new();
        for path in &self.files {
            output::reads(Folder::files_at(path).iter().map(PathBuf::as_path))?;
            let program = open_folder(path, targets(), &[])?;
            console.diagnostics(&program.warnings, &program.sources);
            refuse_illegal(&program)?;
            opened.push((input::subject(std::slice::from_ref(path)), program));
        }
        belong_together(&opened)?;
        let inputs =
            opened.first().map(|(_, first)| &first.executable.inputs[..]).unwrap_or_default();
        let given = self.data.as_deref().map(|text| self.data(text));
        let file = given.as_ref().map(input::data_file).transpose()?.flatten();
        let data = given.map(|given| input::dataset(&given, file.as_ref(), inputs, console));
        let data = data.transpose()?;
        let model = self.model.as_deref().map(|path| self.model_of(path, &opened, file.as_ref()));
        let model = model.transpose()?;
        let mut agreements = Vec::new();
        for (_, program) in opened.iter().filter(|_| model.is_some()) {
            agreements.extend(self.agreement(
                program,
                model.as_ref(),
                data.as_ref(),
                file.as_ref(),
                console,
            )?);
        }
        let programs = opened.iter().map(|(_, program)| program).enumerate();
        let machines: Vec<Shown<'_>> = programs
            .map(|(index, program)| Shown::of_program(program, agreements.get(index)))
            .collect();
        let images = data.as_ref().map(|data| self.chosen(data)).transpose()?;
        let subject = Subject {
            name: input::subject(&self.files),
            model: model.as_ref().map(|model| &model.graph),
            images: images.unwrap_or_default(),
        };
        self.write(&subject, &machines, console)?;
        let differences = agreements.iter().filter_map(|agreement| agreement.difference.clone());
        let differences: Vec<Diagnostic> = differences.collect();
        console.diagnostics(&differences, &Sources::new());
        Ok(if differences.is_empty() { 0 } else { Class::Answer.exit_code() })
    }

    /// What the tools say of a design, and our estimate.
    fn of_reports(self, reports: &[PathBuf], console: &Console) -> Outcome<u8> {
        let target = (self.target.len() > 1).then_some("several targets");
        let model = self.model.iter().map(|_| "--model");
        let data = self.data.iter().map(|_| "--data");
        let images = self.images.images.as_ref().map(|_| "--images");
        let image = (!self.image.is_empty()).then_some("--image");
        let page = model.chain(data).chain(images).chain(image).chain(target);
        let part = self.preparation.part.given();
        let given = page.chain(self.preparation.given()).chain(part);
        input::without_effect(given, "a folder of reports")?;
        output::reads(reports.iter().map(PathBuf::as_path))?;
        let folder = &self.files[0];
        let mut rows = Vec::new();
        for path in reports {
            rows.push(Row::of_report(read(path)?, folder));
        }
        let beside = match &self.files[1..] {
            [] => program_in(folder)?,
            given => given.first().cloned(),
        };
        let target = self.target.into_iter().next();
        let reading = Reading { target, machine: self.machine, lenient: false };
        match beside {
            Some(path) => {
                let paths = std::slice::from_ref(&path);
                let opened = input::program(paths, &reading)?;
                console.diagnostics(&opened.warnings, &opened.sources);
                refuse_illegal(&opened)?;
                rows.extend(estimates(&opened.executable, &input::subject(paths))?);
            }
            None => input::without_effect(reading.given(), "reports without a program")?,
        }
        console.report(&table(&rows), self.output.as_deref())?;
        Ok(0)
    }

    /// Refuses options that would change nothing in a report of programs.
    fn refuse_idle(&self) -> Result<()> {
        let target = (!self.target.is_empty()).then_some("--target");
        let always = self.machine.given().into_iter().chain(target);
        input::without_effect(always, "a report of program folders")?;
        if self.data.is_none() {
            let images = self.images.images.as_ref().map(|_| "--images");
            let image = (!self.image.is_empty()).then_some("--image");
            input::without_effect(images.into_iter().chain(image), "a report without --data")?;
        }
        if self.model.is_none() {
            let part = self.preparation.part.given();
            let given = self.preparation.given().into_iter().chain(part);
            input::without_effect(given, "a report of programs without --model")?;
        }
        Ok(())
    }

    /// The model, read as the first program says that it was.
    fn model_of(
        &self,
        path: &Path,
        opened: &[(String, Opened<'_>)],
        data: Option<&InputFile>,
    ) -> Outcome<Model> {
        let shares = opened.iter().flat_map(|(_, program)| &program.machines);
        let kept = shares.filter_map(|share| share.preparation.as_ref()).next();
        let part = &self.preparation.part;
        let reading = match kept.filter(|_| part.given().is_empty()) {
            Some(kept) => kept.reading.clone(),
            None => part.options(data)?,
        };
        let model = Model::read_with(&input::open(path)?, &reading)?;
        input::note_data_beside(&self.preparation, &model)?;
        Ok(model)
    }

    fn agreement(
        &self,
        opened: &Opened<'_>,
        model: Option<&Model>,
        data: Option<&Dataset>,
        file: Option<&InputFile>,
        console: &Console,
    ) -> Outcome<Option<Agreement>> {
        let (Some(model), Some(data)) = (model, data) else { return Ok(None) };
        let calibration = input::calibration(&self.preparation)?;
        let against = Against {
            model,
            no_fold_batch_norm: self.preparation.no_fold_batch_norm,
            calibration: Calibration {
                file: calibration.as_ref(),
                made_up: self.preparation.made_up(),
                evaluated: file,
                ..Calibration::default()
            },
        };
        let (threads, progress) = (console.threads, console.progress());
        let agreement = against_model(opened, &against, data, false, threads, progress);
        Ok(Some(agreement.map_err(|failure| failure.with_sources(&opened.sources))?))
    }

    /// The images whose values are shown, with their numbers.
    fn chosen<'d>(&self, data: &'d Dataset) -> Result<Vec<(usize, &'d Tensors)>> {
        let wanted = if self.image.is_empty() { &[0][..] } else { &self.image };
        let count = data.images.len();
        let image = |&number: &usize| {
            let image = data.images.get(number).map(|image| (number, image));
            image.ok_or_else(|| {
                let message = format!("there is no image {number}, the data has {count}");
                Diagnostic::usage("Q0719", message).help("images are counted from 0")
            })
        };
        wanted.iter().map(image).collect()
    }

    fn write(
        &self,
        subject: &Subject<'_>,
        machines: &[Shown<'_>],
        console: &Console,
    ) -> Outcome<()> {
        console.progress().start("page", 0);
        console.write(self.output.as_deref(), page(subject, machines)?.as_bytes())
    }
}

/// The reports in the first of the paths, if that is a folder of such files; a second one is a
/// program.
fn reports_of(paths: &[PathBuf]) -> Result<Option<Vec<PathBuf>>> {
    let ([folder] | [folder, _]) = paths else { return Ok(None) };
    if !folder.is_dir() || Folder::is_at(folder) {
        return Ok(None);
    }
    Ok(Some(reports_in(folder)?).filter(|reports| !reports.is_empty()))
}

/// The only native file in a folder, if there is just one.
fn program_in(folder: &Path) -> Result<Option<PathBuf>> {
    let files = match natives_in(folder, targets()) {
        Err(problem) if problem.code() == "Q0611" => return Ok(None),
        files => files?,
    };
    match &files[..] {
        [only] => Ok(only.path.clone()),
        _ => Ok(None),
    }
}
