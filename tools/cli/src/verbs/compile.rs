//! `compile`.

use crate::args::{Machine, Preparation};
use crate::console::Console;
use crate::input;
use clap::Args;
use quincunx::assemble::find_kind;
use quincunx::compile::{Compilation, Job, compile, explain, timings, to_folder};
use quincunx::diag::{Diagnostic, Sources};
use quincunx::inspect;
use quincunx::report::Report;
use quincunx::target::{File, Log, Verb};
use quincunx::{Calibration, Executable, Outcome, Setup, find_target, write_atomically};
use std::path::{Path, PathBuf};

/// Compile a model into a program folder
///
/// Prints a row per node: who executes it, its share of the multiplications, and why the host
/// executes what the machine does not take. Without --output only --emit files are written.
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
    /// ends in / always names a folder; may be repeated [default PATH: .]
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
    /// Also print this table about the programs, by its name in JSON; `quincunx inspect --table all`
    /// shows all tables of a program folder; may be repeated
    #[arg(long, value_name = "NAME")]
    table: Vec<String>,
}

impl Compile {
    pub(crate) fn run(self, console: &Console) -> Outcome<u8> {
        let target = find_target(&self.target)?;
        let model = input::model(&input::open(&self.model)?, &self.preparation)?;
        let setup = input::setup(target, &self.machine, &model)?;
        let emits = self.emits(&setup)?;
        if self.output.as_deref().is_some_and(is_stdout) {
            return Err(Diagnostic::usage("Q0706", "a program folder cannot go to stdout")
                .help("name a folder, or write one native file with --emit KIND=-")
                .into());
        }
        let on_stdout = emits.iter().filter(|(_, path)| is_stdout(path)).count();
        if on_stdout > 1 || (on_stdout == 1 && (self.timings || !self.table.is_empty())) {
            return Err(two_on_stdout().into());
        }
        let calibration = input::calibration(&self.preparation)?;
        let job = Job {
            strict: self.strict,
            fold_batch_norm: !self.preparation.no_fold_batch_norm,
            calibration: Calibration { file: calibration.as_ref(), evaluated: None },
            dump_after: self.dump_after.clone(),
            ..Job::new(&model, &setup)
        };
        let compilation = compile(&job)?;
        let log = &compilation.log;
        log.passes.iter().for_each(|(name, text)| console.detail(&format!("{name}: {text}")));
        console.diagnostics(&log.diagnostics, &Sources::new());
        self.dump(log)?;
        if !emits.iter().any(|(_, path)| is_stdout(path)) {
            console.report(&self.report(&compilation)?, None)?;
        }
        let executable = compilation.result.as_ref().map_err(Clone::clone)?;
        if let Some(path) = &self.output {
            to_folder(&compilation, executable, &setup)?.write(path)?;
        }
        for (kind, path) in &emits {
            let stem = compilation.file_stem.clone().unwrap_or_else(|| model.stem());
            emit(executable, kind, path, &stem, console)?;
        }
        Ok(0)
    }

    fn report(&self, compilation: &Compilation) -> Outcome<Report> {
        let mut report = Report::from(explain(&compilation.plan));
        if self.timings {
            report = report.table(timings(&compilation.log));
        }
        let Ok(executable) = &compilation.result else { return Ok(report) };
        if self.table.is_empty() {
            return Ok(report);
        }
        let tables = [Verb::Inspect, Verb::Table]
            .into_iter()
            .flat_map(|verb| inspect::views(executable, verb));
        let tables = inspect::select(tables.fold(Report::new(), Report::table), &self.table)?;
        Ok(report.and(tables))
    }

    /// Kinds and paths, checked before anything is compiled.
    fn emits(&self, setup: &Setup<'_>) -> Outcome<Vec<(&'static str, PathBuf)>> {
        let mut emits = Vec::new();
        for text in &self.emit {
            let (kind, path) = text.split_once('=').unwrap_or((text, "."));
            emits.push((find_kind(setup, Some(kind))?, PathBuf::from(path)));
        }
        Ok(emits)
    }

    fn dump(&self, log: &Log) -> Outcome<()> {
        let Some(folder) = &self.dump_dir else { return Ok(()) };
        create_folder(folder)?;
        for (index, (name, text)) in log.dumps.iter().enumerate() {
            write_atomically(&folder.join(format!("{index:02}-{name}.txt")), text.as_bytes())?;
        }
        Ok(())
    }
}

/// Writes the native files of every device segment.
fn emit(
    executable: &Executable,
    kind: &str,
    path: &Path,
    stem: &str,
    console: &Console,
) -> Outcome<()> {
    let several = executable.programs().count() > 1;
    let mut files = Vec::new();
    for (stage, program) in executable.programs() {
        let stem = if several { format!("{stem}-{}", stage.name) } else { stem.to_owned() };
        files.extend(program.emit(kind, &stem)?);
    }
    write_files(&files, path, console)
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
            create_folder(path)?;
            for file in files {
                write_atomically(&path.join(&file.name), &file.bytes)?;
            }
            Ok(())
        }
    }
}

/// A folder that is there, or a path that ends like one.
fn names_folder(path: &Path) -> bool {
    path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Two results on one stream cannot be told apart.
pub(crate) fn two_on_stdout() -> Diagnostic {
    Diagnostic::usage("Q0707", "stdout is given for two results")
        .help("name a file for one of them")
}

pub(crate) fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

pub(crate) fn create_folder(path: &Path) -> Outcome<()> {
    std::fs::create_dir_all(path).map_err(|error| {
        Diagnostic::invalid("Q0704", format!("cannot create the folder: {error}"))
            .in_file(path.display().to_string())
            .into()
    })
}
