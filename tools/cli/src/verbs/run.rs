//! `run`.

mod bisect;

use crate::args::{Data, Preparation, Reading};
use crate::console::Console;
use crate::input;
use crate::options::of_models;
use crate::output::{self, is_stdout, two_on_stdout};
use clap::Args;
use quincunx::compile::{Compilation, Job, compile};
use quincunx::diag::{Diagnostic, Sources};
use quincunx::formats::Format;
use quincunx::report::{Heading, Report};
use quincunx::run::{Layers, Options};
use quincunx::split::handovers;
use quincunx::target::{Clipped, Engine, Target};
use quincunx::tensor::{Tensors, npy};
use quincunx::verify::refuse_illegal;
use quincunx::{
    Calibration, Dataset, Executable, Failure, InputFile, Model, Opened, Outcome, Setup, Tolerance,
    Trace, is_model, open_raw, reference, run, targets,
};
use std::path::{Path, PathBuf};

/// Run a program folder, native files or a model on inputs
///
/// Prints the outputs of every image. A model is compiled in memory for --target; without --target
/// it runs as it is: in f32, and exactly where it is quantised. Native files alone have raw ports:
/// their inputs are named as `quincunx inspect` shows them.
///
/// With --compare, exits with 1 when a value differs by more than the tolerance.
///
/// With --bisect, every value of the machine that can be observed is judged, in the order of
/// computation: what the model makes of the machine's own operands may be as far from what the machine
/// has as its roundings explain; and the simulator has the bits of the golden model. The first value
/// that fails is told, and the instruction that wrote its first wrong number, with its operands. Exits
/// with 1 when there is one.
#[derive(Args)]
pub(crate) struct Run {
    /// Program folder, native files of one program, or model
    #[arg(required = true)]
    program: Vec<PathBuf>,
    #[command(flatten)]
    data: Data,
    #[command(flatten)]
    reading: Reading,
    /// Fail when the machine does not take a node of the model
    #[arg(long)]
    strict: bool,
    /// Fail when a result leaves its type where nothing quantises it
    #[arg(long)]
    strict_overflow: bool,
    /// Use the ports of a program folder's native files: vectors as they lie in the machine's
    /// memory. A .csv file of --data and --output then has one vector per line
    #[arg(long)]
    raw_ports: bool,
    #[command(flatten)]
    preparation: Preparation,
    /// Write the outputs of all images to this .npz file instead of printing a table; one output
    /// also to .npy, .csv, .png, .pgm, or .gif with one frame per image; - is .npz on stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Also write every observable value of the machine and the host to this .npz file, in the
    /// order of computation
    #[arg(long, value_name = "FILE")]
    trace_layers: Option<PathBuf>,
    /// Compare every output and layer for which this .npz file has an array, instead of printing
    /// the outputs
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// How far numbers may differ from --compare: ABS + REL * |expected| [default: 0 for the machine
    /// and for integers; for floating point on the host 1e-5 of the largest number of the array]
    #[arg(long, value_name = "ABS[,REL]", requires = "compare")]
    tolerance: Option<Tolerance>,
    /// Look for the first layer that leaves the model, and for the instruction that is wrong
    #[arg(long, conflicts_with_all = [
        "output", "trace_layers", "compare", "raw_ports", "strict_overflow"
    ])]
    bisect: bool,
    /// With --bisect: the model that the program folder was compiled from
    #[arg(long, value_name = "FILE", requires = "bisect")]
    model: Option<PathBuf>,
}

/// What runs, the texts it was read from, and on which machine.
struct Ready {
    executable: Executable,
    sources: Sources,
    machine: String,
}

/// A model that was compiled in memory.
struct Compiled<'t> {
    model: Model,
    compilation: Compilation,
    setup: Setup<'t>,
}

impl Run {
    pub(crate) fn run(self, console: &Console) -> Outcome<u8> {
        if self.bisect {
            return self.bisected(console);
        }
        let results = [&self.output, &self.trace_layers];
        let streams = results.iter().filter(|path| path.as_deref().is_some_and(is_stdout)).count();
        let table = self.compare.is_some() || self.output.is_none();
        if streams + usize::from(table) > 1 {
            return Err(two_on_stdout().into());
        }
        output::expect(results.into_iter().flatten())?;
        let data_file = input::data_file(&self.data)?;
        let reference = self.compare.as_deref().map(input::open).transpose()?;
        let Ready { executable, sources, machine } =
            self.executable(data_file.as_ref(), console)?;
        let heading = Heading::new("Run").of(input::subject(&self.program)).on(machine);
        let data: Dataset =
            input::dataset(&self.data, data_file.as_ref(), &executable.inputs, console)?;
        let layers = match (&self.trace_layers, &reference) {
            (Some(_), _) => Layers::All,
            (None, Some(file)) => Layers::Of(reference::names(file)?),
            (None, None) => Layers::None,
        };
        let options = Options {
            layers,
            engine: if self.strict_overflow { Engine::Checked } else { Engine::Fast },
            threads: console.threads,
        };
        let traces = run::run(&executable, &data, &options, console.progress())
            .map_err(|problem| Failure::from(problem).with_sources(&sources))?;
        let clipped = run::clipped(&traces);
        console.diagnostics(&clipped.iter().map(Clipped::warning).collect::<Vec<_>>(), &sources);
        let noted = |(index, trace): (usize, &Trace)| {
            let image = data.first + index;
            let notes = trace.notes.iter().map(|note| match traces.len() {
                1 => note.clone(),
                _ => note.clone().with_note(format!("with image {image}")),
            });
            notes.collect::<Vec<_>>()
        };
        let notes: Vec<Diagnostic> = traces.iter().enumerate().flat_map(noted).collect();
        console.diagnostics(&notes, &sources);
        if let Some(path) = &self.trace_layers {
            let order = executable.value_order();
            write_arrays(path, &run::layers(&traces)?, &order, console)?;
        }
        if let Some(path) = &self.output {
            write_arrays(path, &run::outputs(&traces)?, &executable.outputs, console)?;
        }
        match reference {
            Some(file) => self.judge(&file, &executable, &traces, heading, console),
            None => {
                // The same for every image.
                let asked = traces.first().map_or(Vec::new(), |trace| trace.tables.clone());
                let outputs = self.output.is_none().then(|| run::table(&traces, data.first));
                let handed = traces.iter().flat_map(|trace| &trace.handovers);
                let mut tables =
                    outputs.into_iter().chain(asked).chain(handovers(handed)).peekable();
                if tables.peek().is_some() {
                    let report = tables.fold(Report::new(), Report::table);
                    console.report(&report.headed(heading), None)?;
                }
                Ok(0)
            }
        }
    }

    fn judge(
        &self,
        file: &InputFile,
        executable: &Executable,
        traces: &[Trace],
        heading: Heading,
        console: &Console,
    ) -> Outcome<u8> {
        let judgement = reference::judge(file, executable, traces, self.tolerance)?;
        console.diagnostics(&judgement.warnings, &Sources::new());
        console.report(&judgement.report().headed(heading), None)?;
        if let Some(difference) = judgement.difference() {
            console.diagnostics(&[difference.in_file(&file.name)], &Sources::new());
        }
        Ok(judgement.exit_code())
    }

    fn calibration<'c>(
        &'c self,
        file: Option<&'c InputFile>,
        evaluated: Option<&'c InputFile>,
    ) -> Calibration<'c> {
        let made_up = self.preparation.made_up();
        Calibration { file, made_up, evaluated, ..Calibration::default() }
    }

    fn executable(&self, data: Option<&InputFile>, console: &Console) -> Outcome<Ready> {
        if let [path] = &self.program[..]
            && !path.is_dir()
        {
            let file = input::open(path)?;
            let raw = self.raw_ports.then_some("--raw-ports");
            input::without_effect(raw, "a file that is not a program folder")?;
            if is_model(&file, targets()) {
                let (executable, machine) = match self.reading.named()? {
                    Some(target) => self.compiled(&file, target, data, console)?,
                    None => (self.reference(&file, data)?, "none, as the model is".to_owned()),
                };
                return Ok(Ready { executable, sources: Sources::new(), machine });
            }
            input::without_effect(self.about_models(), "a program")?;
            let files = input::complete(vec![file], &self.reading)?;
            return self.opened(self.reading.natives(&files)?, console);
        }
        input::without_effect(self.about_models(), "a program")?;
        if let ([path], true) = (&self.program[..], self.raw_ports) {
            // What it says about the options is the same here.
            self.reading.folder(path)?;
            return self.opened(open_raw(path, targets(), &self.reading.options()?)?, console);
        }
        let raw = self.raw_ports.then_some("--raw-ports");
        input::without_effect(raw, "several files")?;
        let opened = input::program(&self.program, &self.reading)?;
        self.opened(opened, console)
    }

    fn opened(&self, opened: Opened<'_>, console: &Console) -> Outcome<Ready> {
        for share in &opened.machines {
            let compiling = of_models(share.setup.target, &self.reading.options()?);
            input::without_effect(compiling, "a program")?;
        }
        console.diagnostics(&opened.warnings, &opened.sources);
        refuse_illegal(&opened)?;
        let machine = opened.machine();
        Ok(Ready { executable: opened.executable, sources: opened.sources, machine })
    }

    /// The options for compiling a model that are given, by name.
    fn compiling(&self) -> Vec<&'static str> {
        let mut given = self.preparation.given();
        given.extend(self.strict.then_some("--strict"));
        given
    }

    /// The options that only models have that are given, by name.
    fn about_models(&self) -> Vec<&'static str> {
        let mut given = self.compiling();
        given.extend(self.preparation.part.given());
        given
    }

    /// The model as it is.
    fn reference(&self, file: &InputFile, data: Option<&InputFile>) -> Outcome<Executable> {
        let mut given = self.reading.given();
        given.extend(self.compiling());
        given.extend(self.strict_overflow.then_some("--strict-overflow"));
        input::without_effect(given, "a model without --target")?;
        Ok(Executable::reference(&input::model(file, &self.preparation, data)?.graph))
    }

    fn compiled(
        &self,
        file: &InputFile,
        target: &dyn Target,
        data: Option<&InputFile>,
        console: &Console,
    ) -> Outcome<(Executable, String)> {
        let Compiled { compilation, setup, .. } = self.compilation(file, target, data, console)?;
        Ok((compilation.result?, setup.machine()))
    }

    fn compilation<'t>(
        &self,
        file: &InputFile,
        target: &'t dyn Target,
        data: Option<&InputFile>,
        console: &Console,
    ) -> Outcome<Compiled<'t>> {
        input::without_effect(self.reading.lenient.then_some("--lenient"), "a model")?;
        let setup = self.reading.setup(target)?;
        let calibration = input::calibration(&self.preparation)?;
        let model = input::model(file, &self.preparation, data.into_iter().chain(&calibration))?;
        input::note_data_beside(&self.preparation, &model)?;
        let compilation = compile(&Job {
            strict: self.strict,
            fold_batch_norm: !self.preparation.no_fold_batch_norm,
            calibration: self.calibration(calibration.as_ref(), data),
            ..Job::new(&model, &setup)
        })?;
        console.diagnostics(&compilation.log.diagnostics, &Sources::new());
        Ok(Compiled { model, compilation, setup })
    }
}

/// Writes arrays as `.npz` in this order, or the only one in the form that the name says.
fn write_arrays(path: &Path, arrays: &Tensors, order: &[String], console: &Console) -> Outcome<()> {
    let name = path.to_string_lossy();
    let is_npy = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy"));
    if is_npy {
        return console.write(Some(path), &npy::write_as(path, arrays)?);
    }
    let bytes = match Format::named(&name) {
        Some(format) => {
            let written = format.write(arrays).map_err(|problem| problem.in_file(&*name))?;
            let note = written.note.map(|note| note.in_file(&*name));
            console.diagnostics(note.as_slice(), &Sources::new());
            written.bytes
        }
        None => npy::write_npz_in_order(arrays, order)?,
    };
    console.write(Some(path), &bytes)
}
