//! What arguments name: files, machines, data.

use crate::args::{Data, Machine, Preparation, Reading, without_conflict};
use crate::console::Console;
use crate::options::refuse_others;
use crate::output;
use quincunx::diag::{Diagnostic, Result, Sources};
use quincunx::import::{Options as ReadOptions, external_files};
use quincunx::target::folder::Folder;
use quincunx::target::{ArchSource, File, Target};
use quincunx::{
    Dataset, Failure, InputFile, InputSpec, Model, Opened, Outcome, Setup, find_target, natives_in,
    open_folder, open_native, recognise, targets, with_companions,
};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

thread_local! {
    /// stdin can be read once.
    static STDIN_READ: Cell<bool> = const { Cell::new(false) };
}

/// Reads a file, or stdin for `-`.
pub(crate) fn open(path: &Path) -> Result<InputFile> {
    if !output::is_stdout(path) {
        return noted(InputFile::open(path)?);
    }
    if STDIN_READ.replace(true) {
        return Err(Diagnostic::usage("Q0702", "stdin is given for two files"));
    }
    InputFile::from_reader("<stdin>", std::io::stdin().lock())
}

/// A file that no result may replace.
pub(crate) fn noted(file: InputFile) -> Result<InputFile> {
    let Some(path) = &file.path else { return Ok(file) };
    output::reads([path.as_path()])?;
    let weights = external_files(&file.bytes, &ReadOptions::beside(path));
    output::reads(weights.iter().map(PathBuf::as_path))?;
    Ok(file)
}

/// The machine for a target that a model is compiled for.
pub(crate) fn setup<'a>(
    target: &'a dyn Target,
    machine: Option<&str>,
    options: &[(String, String)],
    model: &Model,
) -> Outcome<Setup<'a>> {
    let source = arch(target, machine)?;
    refuse_others(target, options)?;
    let setup = Setup::for_model(target, &source, model, options);
    setup.map_err(|problem| in_arch(problem, source))
}

/// The same for one target with all that is given.
pub(crate) fn setup_of<'a>(
    target: &'a dyn Target,
    machine: &Machine,
    model: &Model,
) -> Outcome<Setup<'a>> {
    setup(target, machine.arch.as_deref(), &machine.options()?, model)
}

/// Options, by name.
type Given = Vec<(String, String)>;

/// A target with the name of a machine.
pub(crate) type Named<'a> = (&'static dyn Target, Option<&'a str>);

/// `TARGET` or `TARGET@PRESET`.
pub(crate) fn named(text: &str) -> Result<Named<'_>> {
    match text.split_once('@') {
        Some((target, preset)) => Ok((find_target(target)?, Some(preset))),
        None => Ok((find_target(text)?, None)),
    }
}

/// The machines for several targets, with the options that they have; `complete` may add others.
///
/// # Errors
/// As [`setup`]; `Q0710` for `--arch` with several.
pub(crate) fn setups(
    named: Vec<Named<'_>>,
    machine: &Machine,
    complete: impl Fn(&dyn Target, Given) -> Given,
    model: &Model,
) -> Outcome<Vec<Setup<'static>>> {
    if let ([_, _, ..], Some(_)) = (&named[..], &machine.arch) {
        let problem = Diagnostic::usage("Q0710", "--arch is for one target");
        return Err(problem.help("name it with --target, or presets as TARGET@PRESET").into());
    }
    let all: Vec<&'static dyn Target> = named.iter().map(|(target, _)| *target).collect();
    let of = |(target, preset): Named<'_>| {
        let options = complete(target, options_of(target, &all, machine.options()?)?);
        setup(target, preset.or(machine.arch.as_deref()), &options, model)
    };
    named.into_iter().map(of).collect()
}

/// True when a target declares an option.
fn has_option(target: &dyn Target, name: &str) -> bool {
    target.info().options.iter().any(|option| option.name == name)
}

/// The options for one of several targets: those that it has, and of `TARGET:NAME` its own. With one
/// target these are all.
///
/// # Errors
/// `Q0601` for an unknown target, `Q0710` for the option of one that is not among them; `Q0714` for an
/// option with two values.
pub(crate) fn options_of(
    target: &dyn Target,
    all: &[&dyn Target],
    given: Vec<(String, String)>,
) -> Result<Vec<(String, String)>> {
    let same = |other: &dyn Target| other.info().name == target.info().name;
    let mut own = Vec::new();
    for (name, value) in given {
        match name.split_once(':') {
            Some((owner, name)) => {
                let owner = find_target(owner)?;
                if all.iter().all(|other| other.info().name != owner.info().name) {
                    let message = format!("{} is not among the targets", owner.info().name);
                    return Err(Diagnostic::usage("Q0710", message).help("name it with --target"));
                }
                if same(owner) {
                    own.push((name.to_owned(), value));
                }
            }
            // What nobody has is said to be unknown by the first.
            None if has_option(target, &name)
                || !all.iter().any(|other| has_option(*other, &name)) =>
            {
                own.push((name, value));
            }
            None => {}
        }
    }
    without_conflict(own.into_iter())
}

/// The machine for a target; problems of an architecture file show its lines.
fn with_options<'a>(
    target: &'a dyn Target,
    machine: &Machine,
    options: &[(String, String)],
) -> Outcome<Setup<'a>> {
    let source = arch(target, machine.arch.as_deref())?;
    refuse_others(target, options)?;
    Setup::new(target, &source, options).map_err(|problem| in_arch(problem, source))
}

/// A problem with an architecture file, with its text.
pub(crate) fn in_arch(problem: Diagnostic, source: ArchSource) -> Failure {
    let mut sources = Sources::new();
    if let ArchSource::Text { name, text } = source {
        sources.add(name, text);
    }
    Failure::from(problem).with_sources(&sources)
}

impl Reading {
    /// The target that is named.
    pub(crate) fn named(&self) -> Result<Option<&'static dyn Target>> {
        self.target.as_deref().map(find_target).transpose()
    }

    /// The target that is named, or all.
    fn targets(&self) -> Result<Vec<&'static dyn Target>> {
        Ok(self.named()?.map_or_else(|| targets().to_vec(), |target| vec![target]))
    }

    /// The machine for a target.
    pub(crate) fn setup<'a>(&self, target: &'a dyn Target) -> Outcome<Setup<'a>> {
        with_options(target, &self.machine, &self.options()?)
    }

    /// The target that is named, or the one that recognises the files.
    pub(crate) fn target(&self, files: &[File]) -> Result<&'static dyn Target> {
        self.named()?.map_or_else(|| recognise(files, targets()), Ok)
    }

    /// Opens native files.
    pub(crate) fn natives(&self, files: &[File]) -> Outcome<Opened<'static>> {
        open_native(files, self.setup(self.target(files)?)?, None)
    }

    /// Opens a program folder, which has its own machine.
    pub(crate) fn folder(&self, path: &Path) -> Outcome<Opened<'static>> {
        without_effect(self.machine.arch.iter().map(|_| "--arch"), "a program folder")?;
        output::reads(Folder::files_at(path).iter().map(PathBuf::as_path))?;
        let (named, options) = (self.named()?, self.options()?);
        let opened = open_folder(path, targets(), &options)?;
        for share in &opened.machines {
            refuse_others(share.setup.target, &options)?;
        }
        let is_for = |target: &dyn Target| {
            opened.machines.iter().any(|share| share.setup.name() == target.info().name)
        };
        match named {
            Some(target) if !is_for(target) => {
                let message = format!("the program folder is for {}", opened.machine());
                Err(Diagnostic::usage("Q0709", message).in_file(path.display().to_string()).into())
            }
            _ => Ok(opened),
        }
    }

    /// The options that are given but `--target`, by name.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        let mut given = self.machine.given();
        given.extend(self.lenient.then_some("--lenient"));
        given
    }

    /// Options of the target; `--lenient` is one that readers have.
    ///
    /// # Errors
    /// As [`Machine::options`].
    pub(crate) fn options(&self) -> Result<Vec<(String, String)>> {
        let lenient = self.lenient.then(|| ("lenient".to_owned(), "true".to_owned()));
        without_conflict(self.machine.options()?.into_iter().chain(lenient))
    }
}

/// Refuses options that would change nothing.
pub(crate) fn without_effect(
    options: impl IntoIterator<Item = &'static str>,
    on: &str,
) -> Result<()> {
    match options.into_iter().collect::<Vec<_>>()[..] {
        [] => Ok(()),
        [only] => Err(Diagnostic::usage("Q0708", format!("{only} has no effect on {on}"))),
        ref several => {
            let message = format!("{} have no effect on {on}", several.join(", "));
            Err(Diagnostic::usage("Q0708", message))
        }
    }
}

/// A preset by its name, otherwise a file; what is neither is reported as an unknown preset, or as
/// a missing file when it looks like one.
pub(crate) fn arch(target: &dyn Target, name: Option<&str>) -> Result<ArchSource> {
    let Some(name) = name else { return Ok(ArchSource::Default) };
    let is_preset = target.info().presets.iter().any(|preset| preset.name == name);
    let is_path = name == "-" || name.contains(['/', '\\', '.']) || Path::new(name).exists();
    if is_preset || !is_path {
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
    let selection = data.images.images.as_ref();
    let dataset = match file {
        Some(file) => Dataset::read(file, inputs)?,
        None => Dataset::generate(&data.data, inputs, selection.map_or(1, |s| s.0.end))
            .unwrap_or_else(|| Err(Diagnostic::bug("data is a file or made up")))?,
    };
    let dataset = match selection {
        Some(selection) => dataset.select(selection)?,
        None => dataset,
    };
    console.diagnostics(&dataset.warnings, &Sources::new());
    Ok(dataset)
}

/// The model that is compiled; extents that it leaves open are those of the first data file.
pub(crate) fn model<'a>(
    file: &InputFile,
    preparation: &Preparation,
    data: impl IntoIterator<Item = &'a InputFile>,
) -> Outcome<Model> {
    Model::read_with(file, &preparation.part.options(data)?)
}

/// The model that a program was compiled from, read as it was then unless something else is said.
pub(crate) fn model_of<'a>(
    opened: &Opened<'_>,
    path: &Path,
    preparation: &Preparation,
    data: impl IntoIterator<Item = &'a InputFile>,
) -> Outcome<Model> {
    let kept = opened.machines.first().and_then(|share| share.preparation.as_ref());
    let reading = match kept.filter(|_| preparation.part.given().is_empty()) {
        Some(kept) => kept.reading.clone(),
        None => preparation.part.options(data)?,
    };
    let model = Model::read_with(&open(path)?, &reading)?;
    note_data_beside(preparation, &model)?;
    Ok(model)
}

/// The calibration file, when one is given.
pub(crate) fn calibration(preparation: &Preparation) -> Result<Option<InputFile>> {
    let text = preparation.calibrate.as_deref();
    match text.and_then(|text| Dataset::generate(text, &[], 0)) {
        Some(made) => made.map(|_| None),
        None => text.map(|text| open(Path::new(text))).transpose(),
    }
}

/// The calibration file beside a model that is compiled may be read.
pub(crate) fn note_data_beside(preparation: &Preparation, model: &Model) -> Result<()> {
    match &preparation.calibrate {
        Some(_) => Ok(()),
        None => output::reads(model.data_beside().as_deref()),
    }
}

/// What a page says it is of: the names of the files, without their folders.
pub(crate) fn subject(paths: &[PathBuf]) -> String {
    let name = |path: &PathBuf| match path.file_name() {
        Some(name) if !output::is_stdout(path) => name.to_string_lossy().into_owned(),
        Some(_) => "<stdin>".to_owned(),
        None => path.display().to_string(),
    };
    paths.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Opens a program folder, or native files of one program.
pub(crate) fn program(paths: &[PathBuf], reading: &Reading) -> Outcome<Opened<'static>> {
    if let [folder] = paths
        && Folder::is_at(folder)
    {
        return reading.folder(folder);
    }
    reading.natives(&natives(paths, reading)?)
}

/// Reads native files, with the files that belong to them. A folder stands for the native files
/// in it.
pub(crate) fn natives(paths: &[PathBuf], reading: &Reading) -> Outcome<Vec<File>> {
    let mut files = Vec::new();
    for path in paths {
        match path.is_dir() {
            true => files.extend(natives_in(path, &reading.targets()?)?),
            false => files.push(open(path)?),
        }
    }
    each_once(&files)?;
    complete(files, reading)
}

/// Refuses a file that is given twice: its target would read it as two.
fn each_once(files: &[InputFile]) -> Result<()> {
    let mut seen = BTreeMap::new();
    for file in files {
        let place = file.path.as_ref().and_then(|path| path.canonicalize().ok());
        if let Some(first) = place.and_then(|place| seen.insert(place, &file.name)) {
            let problem = Diagnostic::usage("Q0713", "the file is given twice").in_file(&file.name);
            return Err(
                problem.help_if((*first != file.name).then(|| format!("it is also {first}")))
            );
        }
    }
    Ok(())
}

/// The files with those that belong to them.
pub(crate) fn complete(files: Vec<InputFile>, reading: &Reading) -> Outcome<Vec<File>> {
    let files = with_companions(files, &reading.targets()?)?;
    output::reads(files.iter().filter_map(|file| file.path.as_deref()))?;
    Ok(files.iter().map(InputFile::to_file).collect())
}
