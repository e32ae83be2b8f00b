//! Reading programs from files, whatever their form.

use crate::arch::DaisArch;
use crate::artifact::{self, Artifact, stage};
use crate::binary::{self, ReadOptions};
use crate::files::{self, packed};
use crate::isa::Dialect;
use crate::options;
use crate::program::Pipeline;
use crate::rtl;
use crate::text;
use quincunx_contract::{File, Interface, Log, Options};
use quincunx_diag::{Diagnostic, SourceId};

fn looks_like_json(text: &str) -> bool {
    text.trim_start().starts_with(['[', '{'])
}

/// True when a file looks like one of this target's files.
pub(crate) fn recognises(file: &File) -> bool {
    if files::is_compressed(&file.bytes) {
        // What is wrong with a damaged file is better said by its name than nothing.
        let is_named = file.name.to_ascii_lowercase().ends_with(".json.gz");
        return files::decompress(&file.bytes).map_or(is_named, |text| files::recognises(&text));
    }
    if packed::recognises(&file.bytes) {
        return true;
    }
    match std::str::from_utf8(&file.bytes) {
        Ok(text) if looks_like_json(text) => files::recognises(text),
        Ok(text) if text::recognises(text) => true,
        _ => binary::recognises(&file.bytes),
    }
}

/// Reads a program, and makes of it what options ask for: stages, another dialect, an output more.
pub(crate) fn read(
    files: &[File],
    interface: Option<Interface>,
    arch: &DaisArch,
    options: &Options,
    log: &mut Log,
) -> std::result::Result<Artifact, Vec<Diagnostic>> {
    let wanted = options::dialect(options, "dialect")?;
    let (mut pipeline, read, warnings) = read_files(files, wanted, options.flag("lenient"))?;
    log.diagnostics.extend(warnings);
    let mut dialect = wanted.or(read).unwrap_or(arch.dialect);
    let mut interface = interface;
    let name = |problem: Diagnostic| problem.name_file(files.first().map_or("", |f| &f.name));
    if let Some(cutoff) = options::cutoff(options) {
        let warnings = stage(&mut pipeline, &mut interface, cutoff).map_err(name)?;
        log.diagnostics.extend(warnings);
    }
    if let Some(to) = options::dialect(options, "to")? {
        (pipeline, interface) = artifact::in_dialect(pipeline, interface, to).map_err(name)?;
        dialect = to;
    }
    if options.flag("dump-buffer") {
        (pipeline, interface) = artifact::with_buffer(pipeline, interface).map_err(name)?;
    }
    let artifact = Artifact::new(pipeline, interface, dialect, arch.max_width)
        .map_err(name)?
        .with_rtl(rtl::Settings::new(options)?);
    Ok(artifact)
}

/// A program with the dialect it was found to be in, where its form tells, and warnings.
pub(crate) type ReadFile = (Pipeline, Option<Dialect>, Vec<Diagnostic>);

/// Reads JSON, assembly text or machine code, whichever the contents are. Several files are the
/// stages of a pipeline, in the order of the numbers in their names.
///
/// # Errors
/// `Q1129` for several files that are not named so; what the readers say.
fn read_files(
    files: &[File],
    dialect: Option<Dialect>,
    lenient: bool,
) -> std::result::Result<ReadFile, Vec<Diagnostic>> {
    if let [file] = files {
        return read_file(file, dialect, lenient);
    }
    let mut numbered: Vec<(usize, &File)> =
        files.iter().filter_map(|f| Some((stage_number(&f.name)?, f))).collect();
    numbered.sort_by_key(|(number, _)| *number);
    if files.is_empty() || !numbered.iter().map(|(number, _)| *number).eq(0..files.len()) {
        let message = format!("a dais program is one file, found {}", files.len());
        return Err(Diagnostic::usage("Q1129", message)
            .help("the files of a pipeline are named NAME.stage0.dais, NAME.stage1.dais, …")
            .into());
    }
    let (mut pipeline, mut found, mut warnings) = (Pipeline::default(), None, Vec::new());
    for (_, file) in numbered {
        let read = read_file(file, dialect, lenient)?;
        pipeline.stages.extend(read.0.stages);
        found = found.or(read.1);
        warnings.extend(read.2);
    }
    Ok((pipeline, found, warnings))
}

/// The number in a name such as `net.stage3.dais`.
fn stage_number(name: &str) -> Option<usize> {
    let (stem, _) = name.rsplit_once('.')?;
    let (_, stage) = stem.rsplit_once(".stage")?;
    stage.parse().ok()
}

/// Reads one file.
pub(crate) fn read_file(
    file: &File,
    dialect: Option<Dialect>,
    lenient: bool,
) -> std::result::Result<ReadFile, Vec<Diagnostic>> {
    read_contents(file, dialect, lenient)
        .map_err(|problems| problems.into_iter().map(|p| p.name_file(&file.name)).collect())
}

fn read_contents(
    file: &File,
    dialect: Option<Dialect>,
    lenient: bool,
) -> std::result::Result<ReadFile, Vec<Diagnostic>> {
    let json = |text: &str| {
        let read = files::read_json(text, lenient)?;
        // JSON of da4ml is that of all its versions.
        let dialect = Some(read.dialect).filter(|&dialect| dialect == Dialect::A4);
        Ok((read.pipeline, dialect, read.warnings))
    };
    if files::is_compressed(&file.bytes) {
        return json(&files::decompress(&file.bytes).map_err(|problem| vec![problem])?);
    }
    if packed::recognises(&file.bytes) {
        return Ok((packed::read(&file.bytes)?, None, Vec::new()));
    }
    match std::str::from_utf8(&file.bytes) {
        Ok(text) if looks_like_json(text) => json(text),
        Ok(text) if text::recognises(text) || file.extension() == "dasm" => {
            let pipeline = text::parse(text, SourceId(0))?;
            Ok((pipeline, None, Vec::new()))
        }
        _ => {
            let read = binary::read(&file.bytes, &ReadOptions { dialect, lenient })?;
            Ok((read.program.into(), Some(read.dialect), read.warnings))
        }
    }
}
