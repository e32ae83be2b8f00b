//! Programs of machines.

use crate::arrays::Array;
use crate::described::described;
use crate::errors::warn;
use crate::model::{Data, Model, executed, specs};
use crate::report::Report;
use crate::setup::{Options, Wanted, setup};
use crate::work::{busy, threads};
use pyo3::prelude::*;
use quincunx::compile::{Compilation, Job, clock_warnings, explain, summary, to_folder};
use quincunx::diag::{Diagnostic, Sources, suggestion};
use quincunx::report::Report as Tables;
use quincunx::run::Idle;
use quincunx::split::{self, Split};
use quincunx::target::folder::{Folder, PlanRow, plan_rows};
use quincunx::target::outputs::Outputs;
use quincunx::target::{Clipped, Engine, File};
use quincunx::time::{report as time_report, time};
use quincunx::timeline::Timeline;
use quincunx::verify::{Against, against_model, checks, refuse_illegal, verify};
use quincunx::{
    Calibration, Dataset, Executable, Failure, InputFile, Opened, Outcome, Share, natives_in,
    open_folder, open_native, recognise, targets, with_companions,
};
use std::path::PathBuf;
use std::sync::Arc;

/// A program, or a pipeline of programs and stages of the host.
#[pyclass(frozen)]
pub(crate) struct Program {
    pub(crate) opened: Opened<'static>,
    origin: Origin,
    /// What it is called on pages.
    subject: String,
    /// Loading a program takes longer than running it once.
    idle: Idle,
}

/// Where a program comes from.
enum Origin {
    /// It was compiled from a model.
    Compiled(Box<Compilation>),
    /// It is in a folder.
    Folder(Box<Folder>),
    /// It was read from native files.
    Files,
}

/// Data to calibrate with, in memory.
pub(crate) struct Calibrating {
    images: Option<Dataset>,
    file: Option<InputFile>,
    made_up: Option<String>,
    /// What there is to say about it.
    pub(crate) warnings: Vec<Diagnostic>,
}

impl Calibrating {
    /// What Python code gives.
    pub(crate) fn new(data: Option<Data>, model: &quincunx::Model) -> Outcome<Self> {
        let mut all = Calibrating { images: None, file: None, made_up: None, warnings: Vec::new() };
        match data {
            None => {}
            Some(Data::Text((text, _))) => match Dataset::generate(&text, &[], 0) {
                Some(made) => {
                    made?;
                    all.made_up = Some(text);
                }
                None => all.file = Some(InputFile::open(&PathBuf::from(text))?),
            },
            Some(arrays) => {
                let inputs = quincunx::InputSpec::of(&model.graph);
                let (mut data, _) = arrays.images(&inputs)?;
                all.warnings = std::mem::take(&mut data.warnings);
                all.images = Some(data);
            }
        }
        Ok(all)
    }

    /// For the library; `evaluated` is what the result is judged on.
    pub(crate) fn given<'c>(&'c self, evaluated: Option<&'c InputFile>) -> Calibration<'c> {
        Calibration {
            file: self.file.as_ref(),
            made_up: self.made_up.as_deref(),
            images: self.images.as_ref().map(|data| &data.images[..]),
            evaluated,
            ..Calibration::default()
        }
    }
}

/// How a model is compiled.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Compiling {
    strict: bool,
    fold_batch_norm: bool,
    verify_each: bool,
}

#[pyfunction]
pub(crate) fn compile(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    machine: Wanted,
    calibrate: Option<Data>,
    how: Compiling,
) -> PyResult<Program> {
    let model = Arc::clone(&model.get().0);
    let program = busy(py, None, |_| {
        let setup = setup(&machine, Some(&model))?;
        let mut calibrating = Calibrating::new(calibrate, &model)?;
        let mut warnings = std::mem::take(&mut calibrating.warnings);
        let mut compilation = quincunx::compile::compile(&Job {
            strict: how.strict,
            fold_batch_norm: how.fold_batch_norm,
            verify_each: how.verify_each,
            calibration: calibrating.given(None),
            ..Job::new(&model, &setup)
        })?;
        let nothing = Err(Failure::from(Vec::new()));
        let executable = std::mem::replace(&mut compilation.result, nothing)?;
        warnings.append(&mut compilation.log.diagnostics);
        warnings.extend(clock_warnings(&executable));
        let preparation = Some(compilation.preparation.clone());
        let opened = Opened {
            machines: vec![Share { setup, preparation, nodes: Vec::new() }],
            executable,
            plan: plan_rows(&compilation.plan.rows),
            warnings,
            sources: Sources::new(),
        };
        let origin = Origin::Compiled(Box::new(compilation));
        Ok(Program { opened, origin, subject: model.file_name(), idle: Idle::default() })
    })?;
    program.warned(py)
}

/// A pipeline of several machines: `conv1@scamp, rest@dais`, with options by target.
#[pyfunction(name = "split")]
pub(crate) fn pipeline(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    parts: String,
    options: Vec<(String, Options)>,
    calibrate: Option<Data>,
    how: Compiling,
) -> PyResult<Program> {
    let model = Arc::clone(&model.get().0);
    let program = busy(py, None, |_| {
        let model = split::foldable(&model)?;
        let wishes = split::parse(&parts, &model.graph)?;
        let wanted = |machine: &str| -> Wanted {
            let (target, preset) = match machine.split_once('@') {
                Some((target, preset)) => (target, Some(preset.to_owned())),
                None => (machine, None),
            };
            let own = options.iter().filter(|(name, _)| name == target);
            (target.to_owned(), preset, own.flat_map(|(_, own)| own.iter().cloned()).collect())
        };
        check_targets(&options, wishes.iter().map(|wish| wish.machine.as_str()))?;
        let machines: Vec<Wanted> = wishes.iter().map(|wish| wanted(&wish.machine)).collect();
        let setups = || machines.iter().map(|wanted| setup(wanted, Some(&model)));
        let mut calibrating = Calibrating::new(calibrate, &model)?;
        let mut warnings = std::mem::take(&mut calibrating.warnings);
        let own = setups().collect::<Outcome<Vec<_>>>()?;
        let pipeline = split::compile_split(Split {
            model: &model,
            parts: own.into_iter().zip(wishes.into_iter().map(|wish| wish.nodes)).collect(),
            strict: how.strict,
            fold_batch_norm: how.fold_batch_norm,
            calibration: calibrating.given(None),
            verify_each: how.verify_each,
        })?;
        let folder = pipeline.to_folder(&model)?;
        warnings.extend(clock_warnings(&pipeline.executable));
        let mut machines = Vec::new();
        for (part, setup) in pipeline.parts.into_iter().zip(setups()) {
            warnings.extend(part.compilation.log.diagnostics);
            let preparation = Some(part.compilation.preparation);
            machines.push(Share { setup: setup?, preparation, nodes: part.nodes });
        }
        let opened = Opened {
            machines,
            executable: pipeline.executable,
            plan: folder.plan.clone(),
            warnings,
            sources: Sources::new(),
        };
        let origin = Origin::Folder(Box::new(folder));
        Ok(Program { opened, origin, subject: model.file_name(), idle: Idle::default() })
    })?;
    program.warned(py)
}

/// Options are for targets that occur.
fn check_targets<'a>(
    options: &[(String, Options)],
    machines: impl Iterator<Item = &'a str>,
) -> Outcome<()> {
    let targets: Vec<&str> =
        machines.map(|machine| machine.split('@').next().unwrap_or(machine)).collect();
    match options.iter().find(|(name, _)| !targets.contains(&name.as_str())) {
        Some((name, _)) => {
            let problem = Diagnostic::usage("Q0811", format!("no part is for {name:?}"));
            Err(problem.help(suggestion(name, "targets of the split", targets)).into())
        }
        None => Ok(()),
    }
}

/// A program folder, or native files of one program.
#[pyfunction]
pub(crate) fn read(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    target: Option<String>,
    arch: Option<String>,
    options: Vec<(String, String)>,
) -> PyResult<Program> {
    let program = busy(py, None, move |_| {
        let names = paths.iter().map(|path| path.display().to_string());
        let subject = names.collect::<Vec<_>>().join(", ");
        if let [path] = &paths[..]
            && Folder::is_at(path)
        {
            if target.is_some() || arch.is_some() {
                let message = "a program folder has its own machine";
                return Err(Diagnostic::usage("Q0811", message).in_file(subject).into());
            }
            let opened = open_folder(path, targets(), &options)?;
            let origin = Origin::Folder(Box::new(Folder::read(path)?));
            return Ok(Program { opened, origin, subject, idle: Idle::default() });
        }
        let mut files = Vec::new();
        for path in &paths {
            match path.is_dir() {
                true => files.extend(natives_in(path, targets())?),
                false => files.push(InputFile::open(path)?),
            }
        }
        let files = with_companions(files, targets())?;
        let files: Vec<File> = files.iter().map(InputFile::to_file).collect();
        let target = match target {
            Some(name) => name,
            None => recognise(&files, targets())?.info().name.to_owned(),
        };
        native(&files, &(target, arch, options), subject)
    })?;
    program.warned(py)
}

/// Native files of one program.
pub(crate) fn native(files: &[File], machine: &Wanted, subject: String) -> Outcome<Program> {
    let opened = open_native(files, setup(machine, None)?, None)?;
    Ok(Program { opened, origin: Origin::Files, subject, idle: Idle::default() })
}

impl Program {
    fn executable(&self) -> &Executable {
        &self.opened.executable
    }

    /// Tells what compiling or reading it noticed.
    fn warned(self, py: Python<'_>) -> PyResult<Program> {
        warn(py, &self.opened.warnings, &self.opened.sources)?;
        Ok(self)
    }

    fn folder(&self) -> Outcome<Folder> {
        match &self.origin {
            Origin::Compiled(compilation) => {
                to_folder(compilation, self.executable(), &self.opened.machines[0].setup)
            }
            Origin::Folder(folder) => Ok((**folder).clone()),
            Origin::Files => Err(Diagnostic::usage(
                "Q0811",
                "a program that was read from native files has no folder",
            )
            .help("write its files with emit")
            .into()),
        }
    }

    /// What it is called on pages.
    pub(crate) fn subject(&self) -> &str {
        &self.subject
    }

    /// A failure whose spans show their texts.
    fn sourced<T>(&self, outcome: Outcome<T>) -> Outcome<T> {
        outcome.map_err(|failure| failure.with_sources(&self.opened.sources))
    }
}

#[pymethods]
impl Program {
    /// Targets and machines.
    #[getter]
    fn machines(&self) -> Vec<(String, String)> {
        let machine =
            |share: &Share<'_>| (share.setup.name().to_owned(), share.setup.arch.name().to_owned());
        self.opened.machines.iter().map(machine).collect()
    }

    #[getter]
    fn inputs(&self) -> Vec<(String, String, Vec<usize>)> {
        specs(&self.executable().inputs)
    }

    #[getter]
    fn outputs(&self) -> Vec<String> {
        self.executable().outputs.clone()
    }

    /// Node, operator, segment, place, reason and multiplications of every node.
    #[getter]
    #[expect(clippy::type_complexity, reason = "a row for Python")]
    fn plan(&self) -> Vec<(String, String, String, &'static str, Option<String>, u64)> {
        let row = |row: &PlanRow| {
            let (node, op, segment) = (row.node.clone(), row.op.clone(), row.segment.clone());
            (node, op, segment, row.place.name(), row.reason.clone(), row.macs)
        };
        self.opened.plan.iter().map(row).collect()
    }

    /// Instructions, bytes, cycles, and seconds of one inference.
    #[getter]
    fn stats(&self) -> (u64, u64, Option<u64>, Option<f64>) {
        let stats = self.executable().stats();
        (stats.instructions, stats.bytes, stats.cycles, stats.seconds())
    }

    /// Who executes what, and the summary.
    fn report(&self) -> Report {
        let report = match &self.origin {
            Origin::Compiled(compilation) => {
                let setup = &self.opened.machines[0].setup;
                Tables::from(explain(&compilation.plan.rows)).table(summary(
                    &compilation.plan,
                    self.executable(),
                    setup,
                ))
            }
            _ => described(&self.opened),
        };
        Report(report.headed(self.opened.heading("Program", &self.subject)))
    }

    fn run(
        &self,
        py: Python<'_>,
        data: Data,
        layers: bool,
        strict_overflow: bool,
        count: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Vec<(String, Array)>> {
        let engine = if strict_overflow { Engine::Checked } else { Engine::Fast };
        executed(py, self.executable(), data, (engine, layers, count), Some(&self.idle), progress)
    }

    /// Figures and tables, and the timeline of every program as a page.
    fn time(&self, py: Python<'_>) -> PyResult<(Report, Vec<(String, String)>)> {
        busy(py, None, |_| {
            let timings =
                self.sourced(refuse_illegal(&self.opened).and_then(|()| time(self.executable())))?;
            let heading = self.opened.heading("Timeline", &self.subject);
            let pages = timings.iter().map(|timing| {
                let timeline: &Timeline = &timing.timeline;
                let drawn = timeline.condensed(MOST_EVENTS);
                (timing.segment.clone(), drawn.html(&heading))
            });
            let pages = pages.collect();
            Ok((Report(time_report(&timings, None, None).headed(heading)), pages))
        })
    }

    /// Whether it is legal; with a model and data also whether it computes what the golden model does.
    /// `(ok, images, bit_exact, problems, report)`.
    fn verify(
        &self,
        py: Python<'_>,
        model: Option<&Bound<'_, Model>>,
        data: Option<Data>,
        calibrate: Option<Data>,
        count: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(bool, usize, usize, Report)> {
        let model = model.map(|model| Arc::clone(&model.get().0));
        let (result, warnings) = busy(py, progress, |progress| {
            let problems = verify(&self.opened);
            let legal = quincunx::exit_code(&problems) == 0;
            let mut warnings = Vec::new();
            let mut figures = (legal, 0, 0);
            if let (Some(model), Some(data), true) = (&model, data, legal) {
                let (mut data, file) = data.images(&self.executable().inputs)?;
                let mut calibrating = Calibrating::new(calibrate, model)?;
                warnings.append(&mut data.warnings);
                warnings.append(&mut calibrating.warnings);
                let against = Against {
                    model,
                    no_fold_batch_norm: false,
                    calibration: calibrating.given(file.as_ref()),
                };
                let found =
                    against_model(&self.opened, &against, &data, false, threads(count), progress);
                let found = self.sourced(found)?;
                figures = (found.images == found.bit_exact, found.images, found.bit_exact);
                warnings.extend(found.clipped.iter().map(Clipped::warning));
                warnings.extend(found.difference.map(Diagnostic::as_warning));
            }
            warnings.extend(problems.iter().cloned());
            let warned: Vec<Diagnostic> = warnings
                .into_iter()
                .map(|problem| if problem.is_error() { problem.as_warning() } else { problem })
                .collect();
            let report = Tables::from(checks(&self.opened, &problems));
            let report = report.headed(self.opened.heading("Verification", &self.subject));
            Ok(((figures.0, figures.1, figures.2, Report(report)), warned))
        })?;
        warn(py, &warnings, &self.opened.sources)?;
        Ok(result)
    }

    /// Writes the program folder.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        busy(py, None, |_| {
            let mut outputs = Outputs::default();
            outputs.expect_folder(&path)?;
            outputs.folder(&path, &self.folder()?)?;
            Ok(outputs.commit()?)
        })
    }

    /// Native files of a kind: names and contents.
    fn emit(&self, py: Python<'_>, kind: &str, stem: &str) -> PyResult<Vec<(String, Vec<u8>)>> {
        busy(py, None, |_| {
            let several = self.executable().programs().count() > 1;
            let mut files = Vec::new();
            for (stage, program) in self.executable().programs() {
                let setup = &self.opened.machines[stage.machine].setup;
                let kind = quincunx::assemble::find_kind(setup, Some(kind))?;
                let stem = match several {
                    true => format!("{stem}-{}", stage.name),
                    false => stem.to_owned(),
                };
                let heading = setup.heading("", &self.subject);
                let emitted = program.emit_headed(kind, &stem, &heading)?;
                files.extend(emitted.into_iter().map(|file| (file.name, file.bytes.to_vec())));
            }
            Ok(files)
        })
    }

    /// Kinds of native files, with what they are.
    #[getter]
    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        let infos = self.opened.machines.iter().map(|share| share.setup.target.info());
        infos.flat_map(|info| info.kinds.iter().map(|kind| (kind.name, kind.doc))).collect()
    }
}

/// Most events of a timeline that is drawn.
const MOST_EVENTS: usize = 100_000;
