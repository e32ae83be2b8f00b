//! `asm` and `disasm`: text to native files and back.

use crate::open::read;
use crate::{Failure, Outcome, Setup};
use quincunx_contract::{File, Log};
use quincunx_diag::{Diagnostic, suggestion};

/// Name of the kind that is assembly text, for every target.
pub const TEXT_KIND: &str = "asm";

/// Native files and the warnings of the reader.
pub struct Converted {
    /// The files of every kind, in the order in which kinds were given.
    pub files: Vec<Vec<File>>,
    /// Warnings.
    pub warnings: Vec<Diagnostic>,
}

/// Reads text or native files and writes them as other kinds of the same target. A kind that is not
/// given is the target's first. With `legal` the program must break no rule of its machine.
///
/// # Errors
/// `Q0614` for an unknown kind; what the reader, the verifier or the writer says.
pub fn convert(
    files: &[File],
    setup: &Setup<'_>,
    kinds: &[Option<&str>],
    stem: &str,
    legal: bool,
) -> Outcome<Converted> {
    let kinds = kinds.iter().map(|kind| find_kind(setup, *kind));
    let kinds = kinds.collect::<quincunx_diag::Result<Vec<_>>>()?;
    let mut log = Log::default();
    let program = read(setup, files, None, &mut log)?;
    if legal {
        let illegal = program.illegal();
        if !illegal.is_empty() {
            return Err(Failure::in_files(illegal, files));
        }
    }
    let subject = files.first().map_or(stem, File::base_name);
    let heading = setup.heading("", subject);
    let written = kinds.iter().map(|kind| program.emit_headed(kind, stem, &heading));
    let written = written.collect::<quincunx_diag::Result<_>>();
    let written = written.map_err(|p| Failure::in_files(p.into(), files))?;
    Ok(Converted { files: written, warnings: log.diagnostics })
}

/// The kind with this name, or the target's first.
///
/// # Errors
/// `Q0614`, with a suggestion.
pub fn find_kind(setup: &Setup<'_>, name: Option<&str>) -> quincunx_diag::Result<&'static str> {
    let kinds = setup.target.info().kinds;
    let found = match name {
        Some(name) => kinds.iter().find(|kind| kind.name == name),
        None => kinds.first(),
    };
    found.map(|kind| kind.name).ok_or_else(|| {
        let names = kinds.iter().map(|kind| kind.name);
        let name = name.unwrap_or_default();
        Diagnostic::usage("Q0614", format!("{} has no kind of file {name:?}", setup.name()))
            .help(suggestion(name, "kinds", names))
    })
}
