//! `run`.

use crate::args::{Data, Machine, Preparation};
use crate::console::Console;
use crate::input;
use crate::verbs::compile::{is_stdout, two_on_stdout};
use clap::Args;
use quincunx::compile::{Job, compile};
use quincunx::diag::{Diagnostic, Sources};
use quincunx::report::Report;
use quincunx::tensor::{Tensors, npy};
use quincunx::{
    Calibration, Dataset, Executable, FileKind, InputFile, Model, Outcome, detect, find_target,
    open_folder, open_native, run, targets,
};
use std::path::{Path, PathBuf};

/// Run a program folder, native files or a model on inputs
///
/// Prints the outputs of every image. A model is compiled in memory for --target. Native files
/// alone have raw ports: their inputs are named as `quincunx inspect` shows them.
#[derive(Args)]
pub(crate) struct Run {
    /// Program folder, native files of one program, or ONNX model
    #[arg(required = true)]
    program: Vec<PathBuf>,
    #[command(flatten)]
    data: Data,
    /// The target; needed for a model [default: the one that recognises the files]
    #[arg(short, long, value_name = "TARGET")]
    target: Option<String>,
    #[command(flatten)]
    machine: Machine,
    /// Read programs that break minor rules, with warnings
    #[arg(long)]
    lenient: bool,
    /// Fail when the machine does not take a node of the model
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    preparation: Preparation,
    /// Write the outputs of all images to this .npz (or, for one output, .npy) file instead of
    /// printing a table; - is .npz on stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Also write every value of the machine that can be observed to this .npz file
    #[arg(long, value_name = "FILE")]
    layers: Option<PathBuf>,
}

impl Run {
    pub(crate) fn run(self, console: &Console) -> Outcome<u8> {
        if [&self.output, &self.layers].iter().all(|path| path.as_deref().is_some_and(is_stdout)) {
            return Err(two_on_stdout().into());
        }
        let data_file = input::data_file(&self.data)?;
        let executable = self.executable(data_file.as_ref(), console)?;
        let data: Dataset =
            input::dataset(&self.data, data_file.as_ref(), &executable.inputs, console)?;
        let traces = run::run(
            &executable,
            &data,
            self.layers.is_some(),
            console.threads,
            console.progress(),
        )?;
        if let Some(path) = &self.layers {
            write_arrays(path, &run::layers(&traces)?, console)?;
        }
        match &self.output {
            Some(path) => write_arrays(path, &run::outputs(&traces)?, console)?,
            None => console.report(&Report::from(run::table(&traces)), None)?,
        }
        Ok(0)
    }

    fn executable(&self, data: Option<&InputFile>, console: &Console) -> Outcome<Executable> {
        if let [folder] = &self.program[..]
            && folder.is_dir()
        {
            let mut options = self.machine.set.clone();
            options.extend(self.lenient.then(input::lenient_option));
            let opened = open_folder(folder, targets(), &options)?;
            console.diagnostics(&opened.warnings, &opened.sources);
            return Ok(opened.executable);
        }
        let files = self.program.iter().map(|path| input::open(path));
        let files = files.collect::<Result<Vec<InputFile>, _>>()?;
        let target = self.target.as_deref().map(find_target).transpose()?;
        let target = match (target, detect(&files[0], targets())) {
            (Some(target), FileKind::Model) => {
                return self.compiled(&files[0], target, data, console);
            }
            (None, FileKind::Model) => {
                return Err(Diagnostic::usage("Q0705", "a model needs --target").into());
            }
            (Some(target), _) | (None, FileKind::Program(target)) => target,
            (None, _) => quincunx::recognise(&natives(&files), targets())?,
        };
        let setup = input::setup(target, &self.machine, self.lenient)?;
        let opened = open_native(&natives(&files), setup, None)?;
        console.diagnostics(&opened.warnings, &opened.sources);
        Ok(opened.executable)
    }

    fn compiled(
        &self,
        file: &InputFile,
        target: &dyn quincunx::target::Target,
        data: Option<&InputFile>,
        console: &Console,
    ) -> Outcome<Executable> {
        let setup = input::setup(target, &self.machine, self.lenient)?;
        let model = Model::read(file)?;
        let calibration = input::calibration(&self.preparation)?;
        let compilation = compile(&Job {
            strict: self.strict,
            fold_batch_norm: !self.preparation.no_fold_batch_norm,
            calibration: Calibration { file: calibration.as_ref(), evaluated: data },
            ..Job::new(&model, &setup)
        })?;
        console.diagnostics(&compilation.log.diagnostics, &Sources::new());
        compilation.result
    }
}

fn natives(files: &[InputFile]) -> Vec<quincunx::target::File> {
    files.iter().map(InputFile::to_file).collect()
}

/// Writes arrays as `.npz`, or the only one as `.npy` when the name says so.
fn write_arrays(path: &Path, arrays: &Tensors, console: &Console) -> Outcome<()> {
    if path == Path::new("-") {
        return console.write(None, &npy::write_npz(arrays)?);
    }
    Ok(npy::write_file(path, arrays)?)
}
