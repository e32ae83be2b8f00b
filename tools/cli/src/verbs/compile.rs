//! `compile`.

use crate::args::{Machine, Preparation};
use crate::console::Console;
use crate::input;
use crate::output::{self, is_stdout, two_on_stdout};
use clap::Args;
use quincunx::alternatives::{self, alternatives};
use quincunx::assemble::find_kind;
use quincunx::compile::{
    Compilation, Job, clock_warnings, compile, explain, stop_after, summary, timings, to_folder,
};
use quincunx::diag::{Diagnostic, Sources};
use quincunx::report::{Heading, Report};
use quincunx::split::{self, Split};
use quincunx::target::{File, Log, Target, Verb};
use quincunx::{Calibration, Executable, Model, Outcome, Setup, find_target};
use quincunx::{inspect, ranges};
use std::path::{Path, PathBuf};

/// Title of pages.
const TITLE: &str = "Compiled model";

/// Compile a model into a program folder
///
/// Prints a row per node: who executes it, its share of the multiplications, and why the host
/// executes what the machine does not take; then a summary: size, speed at the machine's clock, and
/// what a program that is logic takes of its part. Without --output only --emit files are written.
#[derive(Args)]
pub(crate) struct Compile {
    /// Model: ONNX or a frozen TensorFlow graph
    model: PathBuf,
    /// The target
    #[arg(short, long, value_name = "TARGET", required_unless_present = "split")]
    target: Option<String>,
    /// Several machines, one after the other: NODES@TARGET or NODES@TARGET@PRESET, separated by
    /// commas. NODES is a node, a range FIRST..LAST of all nodes on the ways between two, or `rest`;
    /// several stand between commas: `conv1..pool1@scamp, rest@dais`. An option goes to every
    /// target that has it, --set TARGET:NAME=VALUE to one
    #[arg(long, value_name = "PARTS", conflicts_with_all = ["target", "arch", "emit", "dump_after", "timings", "explain"])]
    split: Option<String>,
    #[command(flatten)]
    machine: Machine,
    /// Write the program folder here, replacing an existing one
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Fail when the machine does not take a node
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    preparation: Preparation,
    /// Also write native files of this kind (see `quincunx targets NAME`): one file as PATH (- is
    /// stdout, which then has no table), several into the folder PATH; a PATH that is a folder or
    /// ends in / always names a folder, and folders that are missing are created; may be repeated
    /// [default PATH: .]
    #[arg(long, value_name = "KIND[=PATH]")]
    emit: Vec<String>,
    /// Write the text form after this pass (see --timings for names), or after all; may be repeated
    #[arg(long, value_name = "PASS|all", requires = "dump_dir")]
    dump_after: Vec<String>,
    /// Folder for --dump-after
    #[arg(long, value_name = "FOLDER", requires = "dump_after")]
    dump_dir: Option<PathBuf>,
    /// Print the text form after this pass (see --timings for names) instead of the result, and write
    /// nothing else
    #[arg(long, value_name = "PASS", conflicts_with_all = ["split", "output", "emit", "dump_after", "timings", "explain"])]
    stop_after: Option<String>,
    /// Also say which presets of the target and values of its options, each changed alone, would let
    /// the machine take a node that is left to the host
    #[arg(long)]
    explain: bool,
    /// Check the graph behind every pass, the parts it is divided into, and the programs by the rules
    /// of their machine; what breaks a rule is a bug of Quincunx
    #[arg(long)]
    verify_each: bool,
    /// Also print the seconds of every pass
    #[arg(long)]
    timings: bool,
}

impl Compile {
    pub(crate) fn run(self, console: &Console) -> Outcome<u8> {
        self.places()?;
        let calibration = input::calibration(&self.preparation)?;
        let model = input::model(&input::open(&self.model)?, &self.preparation, &calibration)?;
        input::note_data_beside(&self.preparation, &model)?;
        let calibration = Calibration {
            file: calibration.as_ref(),
            made_up: self.preparation.made_up(),
            report: true,
            ..Calibration::default()
        };
        match (&self.target, &self.split) {
            (Some(target), _) => self.one(find_target(target)?, &model, calibration, console),
            (None, Some(split)) => self.several(split, &model, calibration, console),
            (None, None) => Err(Diagnostic::bug("there is a target or a split").into()),
        }
    }

    /// One machine for all.
    fn one(
        &self,
        target: &'static dyn Target,
        model: &Model,
        calibration: Calibration<'_>,
        console: &Console,
    ) -> Outcome<u8> {
        let setup = input::setup_of(target, &self.machine, model)?;
        let emits = self.emits(&setup)?;
        let on_stdout = emits.iter().any(|(_, path)| is_stdout(path));
        if on_stdout && (self.timings || !console.tables.is_empty()) {
            return Err(two_on_stdout().into());
        }
        let job = Job {
            strict: self.strict,
            fold_batch_norm: !self.preparation.no_fold_batch_norm,
            calibration,
            dump_after: self.dump_after.clone(),
            verify_each: self.verify_each,
            ..Job::new(model, &setup)
        };
        if let Some(pass) = &self.stop_after {
            let report = Report::new().verbatim("dump", stop_after(&job, pass)?);
            console.report(&report, None)?;
            return Ok(0);
        }
        let compilation = compile(&job)?;
        let log = &compilation.log;
        log.passes.iter().for_each(|(name, text)| console.detail(&format!("{name}: {text}")));
        console.diagnostics(&log.diagnostics, &Sources::new());
        self.dump(log)?;
        if !on_stdout {
            let heading = setup.heading(TITLE, &model.file_name());
            console.report(&self.report(&job, &compilation, console)?.headed(heading), None)?;
        }
        let executable = compilation.result.as_ref().map_err(Clone::clone)?;
        console.diagnostics(&clock_warnings(executable), &Sources::new());
        if let Some(path) = &self.output {
            output::folder(path, &to_folder(&compilation, executable, &setup)?)?;
        }
        for (kind, path) in &emits {
            let stem = compilation.file_stem.clone().unwrap_or_else(|| model.stem());
            let files = emit(executable, kind, &stem, &setup, &model.file_name())?;
            write_files(&files, path, console)?;
        }
        Ok(0)
    }

    /// A machine for every part.
    fn several(
        &self,
        text: &str,
        model: &Model,
        calibration: Calibration<'_>,
        console: &Console,
    ) -> Outcome<u8> {
        let model = split::foldable(model)?;
        let wishes = split::parse(text, &model.graph)?;
        let named = wishes.iter().map(|wish| input::named(&wish.machine));
        let named = named.collect::<Result<Vec<_>, _>>()?;
        let setups = input::setups(named, &self.machine, |_, given| given, &model)?;
        let pipeline = split::compile_split(Split {
            model: &model,
            parts: setups.into_iter().zip(wishes.into_iter().map(|wish| wish.nodes)).collect(),
            strict: self.strict,
            fold_batch_norm: !self.preparation.no_fold_batch_norm,
            calibration,
            verify_each: self.verify_each,
        })?;
        let mut report = Report::from(explain(&pipeline.rows()));
        for part in &pipeline.parts {
            console.diagnostics(&part.compilation.log.diagnostics, &Sources::new());
        }
        report = report.table(split::summary(&pipeline));
        let machines: Vec<String> =
            pipeline.parts.iter().map(|part| part.setup.machine()).collect();
        let heading = Heading::new(TITLE).of(model.file_name()).on(machines.join(", "));
        console.report(&report.headed(heading), None)?;
        console.diagnostics(&clock_warnings(&pipeline.executable), &Sources::new());
        if let Some(path) = &self.output {
            output::folder(path, &pipeline.to_folder(&model)?)?;
        }
        Ok(0)
    }

    fn report(
        &self,
        job: &Job<'_>,
        compilation: &Compilation,
        console: &Console,
    ) -> Outcome<Report> {
        let rows = &compilation.plan.rows;
        let mut report = Report::from(match self.explain {
            true => alternatives::explain(rows, &alternatives(job, compilation)),
            false => explain(rows),
        });
        if self.preparation.calibrate.is_some() && !compilation.ranges.is_empty() {
            report = report.table(ranges::table(&compilation.ranges));
        }
        if self.timings {
            report = report.table(timings(&compilation.log));
        }
        let Ok(executable) = &compilation.result else { return Ok(report) };
        let report = report.table(summary(&compilation.plan, executable, job.setup));
        if console.tables.is_empty() {
            return Ok(report);
        }
        let tables = [Verb::Inspect, Verb::Table]
            .into_iter()
            .flat_map(|verb| inspect::views(executable, verb));
        Ok(tables.fold(report, Report::table))
    }

    /// Kinds and paths, checked before anything is compiled.
    fn emits(&self, setup: &Setup<'_>) -> Outcome<Vec<(&'static str, &Path)>> {
        let kind = |(kind, path)| Ok((find_kind(setup, Some(kind))?, path));
        self.kinds_and_paths().map(kind).collect()
    }

    fn kinds_and_paths(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.emit.iter().map(|text| kind_and_path(text, Path::new(".")))
    }

    /// Checks where results go, before anything is read.
    fn places(&self) -> Outcome<()> {
        if let Some(path) = &self.output {
            if is_stdout(path) {
                return Err(Diagnostic::usage("Q0706", "a program folder cannot go to stdout")
                    .help("name a folder, or write one native file with --emit KIND=-")
                    .into());
            }
            output::expect_folder(path)?;
        }
        expect_emits(&self.kinds_and_paths().collect::<Vec<_>>())?;
        Ok(self.dump_dir.as_deref().map_or(Ok(()), output::expect_below)?)
    }

    fn dump(&self, log: &Log) -> Outcome<()> {
        let Some(folder) = &self.dump_dir else { return Ok(()) };
        for (index, (name, text)) in log.dumps.iter().enumerate() {
            // Some passes are named as a file.
            let ending = if name.contains('.') { "" } else { ".txt" };
            output::file(&folder.join(format!("{index:02}-{name}{ending}")), text.as_bytes())?;
        }
        Ok(())
    }
}

/// The native files of every device segment; pictures are of `subject`.
fn emit(
    executable: &Executable,
    kind: &str,
    stem: &str,
    setup: &Setup<'_>,
    subject: &str,
) -> Outcome<Vec<File>> {
    let several = executable.programs().count() > 1;
    let mut files = Vec::new();
    for (stage, program) in executable.programs() {
        let named = |name: &str, by: &str| match several {
            true => format!("{name}{by}{}", stage.name),
            false => name.to_owned(),
        };
        let heading = setup.heading("", &named(subject, ", "));
        files.extend(program.emit_headed(kind, &named(stem, "-"), &heading)?);
    }
    Ok(files)
}

/// The two parts of `KIND=PATH`; `place` is where a kind without a path goes.
pub(crate) fn kind_and_path<'a>(text: &'a str, place: &'a Path) -> (&'a str, &'a Path) {
    text.split_once('=').map_or((text, place), |(kind, path)| (kind, Path::new(path)))
}

/// Checks where files of some kinds will go, of which one at most is stdout.
pub(crate) fn expect_emits<K>(emits: &[(K, &Path)]) -> Outcome<()> {
    if emits.iter().filter(|(_, path)| is_stdout(path)).count() > 1 {
        return Err(two_on_stdout().into());
    }
    Ok(emits.iter().try_for_each(|(_, path)| output::expect_below(path))?)
}

/// Writes one file as `path`, or any number of files into the folder `path`.
pub(crate) fn write_files(files: &[File], path: &Path, console: &Console) -> Outcome<()> {
    match files {
        [only] if !names_folder(path) => console.write(Some(path), &only.bytes),
        _ if is_stdout(path) => {
            Err(Diagnostic::usage("Q0703", format!("{} files cannot go to stdout", files.len()))
                .help("name a folder")
                .into())
        }
        _ => {
            for file in files {
                output::file(&path.join(&file.name), &file.bytes)?;
            }
            Ok(())
        }
    }
}

/// A folder that is there, or a path that ends like one.
fn names_folder(path: &Path) -> bool {
    path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/")
}
