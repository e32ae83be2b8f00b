//! What arguments name: files, machines, data.

use crate::args::{Data, Machine, Preparation};
use crate::console::Console;
use quincunx::diag::{Diagnostic, Result, Sources};
use quincunx::target::{ArchSource, Target};
use quincunx::{Dataset, InputFile, InputSpec, Outcome, Setup};
use std::cell::Cell;
use std::path::Path;

thread_local! {
    /// stdin can be read once.
    static STDIN_READ: Cell<bool> = const { Cell::new(false) };
}

/// Reads a file, or stdin for `-`.
pub(crate) fn open(path: &Path) -> Result<InputFile> {
    if path != Path::new("-") {
        return InputFile::open(path);
    }
    if STDIN_READ.replace(true) {
        return Err(Diagnostic::usage("Q0702", "stdin is given for two files"));
    }
    InputFile::from_reader("<stdin>", std::io::stdin().lock())
}

/// The machine for a target.
pub(crate) fn setup<'a>(
    target: &'a dyn Target,
    machine: &Machine,
    lenient: bool,
) -> Result<Setup<'a>> {
    let mut options = machine.set.clone();
    if lenient {
        options.push(lenient_option());
    }
    Setup::new(target, &arch(target, machine.arch.as_deref())?, &options)
}

/// The reader's option behind `--lenient`.
pub(crate) fn lenient_option() -> (String, String) {
    ("lenient".to_owned(), "true".to_owned())
}

/// A preset by its name, otherwise a file; what is neither is reported as an unknown preset.
pub(crate) fn arch(target: &dyn Target, name: Option<&str>) -> Result<ArchSource> {
    let Some(name) = name else { return Ok(ArchSource::Default) };
    let is_preset = target.info().presets.iter().any(|preset| preset.name == name);
    if is_preset || name != "-" && !Path::new(name).exists() {
        return Ok(ArchSource::Preset(name.to_owned()));
    }
    let file = open(Path::new(name))?;
    let text = file.to_file().text()?.to_owned();
    Ok(ArchSource::Text { name: file.name, text })
}

/// The data file, when the argument names one.
pub(crate) fn data_file(data: &Data) -> Result<Option<InputFile>> {
    match Dataset::generate(&data.data, &[], 0) {
        Some(Ok(_)) => Ok(None),
        Some(Err(problem)) => Err(problem),
        None => open(Path::new(&data.data)).map(Some),
    }
}

/// The images for these inputs, from the file or made up.
pub(crate) fn dataset(
    data: &Data,
    file: Option<&InputFile>,
    inputs: &[InputSpec],
    console: &Console,
) -> Outcome<Dataset> {
    let dataset = match file {
        Some(file) => Dataset::read(file, inputs)?,
        None => Dataset::generate(&data.data, inputs, data.images.get())
            .unwrap_or_else(|| Err(Diagnostic::bug("data is a file or made up")))?,
    };
    console.diagnostics(&dataset.warnings, &Sources::new());
    Ok(dataset)
}

/// The calibration file, when one is given.
pub(crate) fn calibration(preparation: &Preparation) -> Result<Option<InputFile>> {
    preparation.calibrate.as_deref().map(open).transpose()
}
