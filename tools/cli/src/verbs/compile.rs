//! `compile`.

use crate::args::{Machine, Preparation};
use crate::console::Console;
use crate::input;
use crate::output::{self, is_stdout, two_on_stdout};
use clap::Args;
use quincunx::assemble::find_kind;
use quincunx::compile::{
    Compilation, Job, clock_warnings, compile, explain, summary, timings, to_folder,
};
use quincunx::diag::{Diagnostic, Sources};
use quincunx::report::Report;
use quincunx::target::{File, Log, Verb};
use quincunx::{Calibration, Executable, Outcome, Setup, find_target};
use quincunx::{inspect, ranges};
use std::path::{Path, PathBuf};

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
    #[arg(short, long, value_name = "TARGET")]
    target: String,
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
    /// Also print the seconds of every pass
    #[arg(long)]
    timings: bool,
}

impl Compile {
    pub(crate) fn run(self, console: &Console) -> Outcome<u8> {
        let target = find_target(&self.target)?;
        self.places()?;
        let calibration = input::calibration(&self.preparation)?;
        let model = input::model(&input::open(&self.model)?, &self.preparation, &calibration)?;
        input::note_data_beside(&self.preparation, &model)?;
        let setup = input::setup(target, &self.machine, &model)?;
        let emits = self.emits(&setup)?;
        let on_stdout = emits.iter().any(|(_, path)| is_stdout(path));
        if on_stdout && (self.timings || !console.tables.is_empty()) {
            return Err(two_on_stdout().into());
        }
        let job = Job {
            strict: self.strict,
            fold_batch_norm: !self.preparation.no_fold_batch_norm,
            calibration: Calibration {
                file: calibration.as_ref(),
                made_up: self.preparation.made_up(),
                report: true,
                ..Calibration::default()
            },
            dump_after: self.dump_after.clone(),
            ..Job::new(&model, &setup)
        };
        let compilation = compile(&job)?;
        let log = &compilation.log;
        log.passes.iter().for_each(|(name, text)| console.detail(&format!("{name}: {text}")));
        console.diagnostics(&log.diagnostics, &Sources::new());
        self.dump(log)?;
        if !on_stdout {
            let heading = setup.heading("Compiled model", &model.file_name());
            console.report(&self.report(&compilation, &setup, console)?.headed(heading), None)?;
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

    fn report(
        &self,
        compilation: &Compilation,
        setup: &Setup<'_>,
        console: &Console,
    ) -> Outcome<Report> {
        let mut report = Report::from(explain(&compilation.plan));
        if self.preparation.calibrate.is_some() && !compilation.ranges.is_empty() {
            report = report.table(ranges::table(&compilation.ranges));
        }
        if self.timings {
            report = report.table(timings(&compilation.log));
        }
        let Ok(executable) = &compilation.result else { return Ok(report) };
        let report = report.table(summary(&compilation.plan, executable, setup));
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
