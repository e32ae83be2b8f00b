//! `asm`.

use crate::args::Reading;
use crate::console::Console;
use crate::input;
use crate::verbs::compile::{expect_emits, kind_and_path, write_files};
use clap::Args;
use quincunx::assemble::convert;
use quincunx::diag::Diagnostic;
use quincunx::target::File;
use quincunx::{Outcome, sources_of};
use std::path::{Path, PathBuf};

/// Turn assembly text into native files
#[derive(Args)]
pub(crate) struct Asm {
    /// Assembly text, or native files of one program
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    conversion: Conversion,
    /// Kind of native file (see `quincunx targets NAME`), and where it goes if not to --output; may
    /// be repeated [default: the target's first]
    #[arg(long, value_name = "KIND[=PATH]")]
    emit: Vec<String>,
    /// Write the file here; a folder when there are several files [default: stdout]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
}

/// What `asm` and `disasm` share.
#[derive(Args)]
pub(crate) struct Conversion {
    #[command(flatten)]
    reading: Reading,
}

impl Asm {
    pub(crate) fn run(self, console: &Console) -> Outcome<u8> {
        let emits = self.emits()?;
        expect_emits(&emits)?;
        let files = input::natives(&self.files, self.conversion.reading())?;
        let stem = self.files.first().map(|path| stem(path)).unwrap_or_default();
        let kinds: Vec<_> = emits.iter().map(|(kind, _)| *kind).collect();
        let converted = self.conversion.convert(&files, &kinds, &stem, true, console)?;
        for (files, (_, path)) in converted.iter().zip(emits) {
            write_files(files, path, console)?;
        }
        Ok(0)
    }

    /// Kinds and where they go.
    fn emits(&self) -> Outcome<Vec<(Option<&str>, &Path)>> {
        let output = self.output.as_deref();
        let place = output.unwrap_or(Path::new("-"));
        if self.emit.is_empty() {
            return Ok(vec![(None, place)]);
        }
        if output.is_some() && self.emit.iter().all(|text| text.contains('=')) {
            let message = "--output has no effect, every --emit has a path of its own";
            return Err(Diagnostic::usage("Q0708", message).help("leave it out").into());
        }
        let emits = self.emit.iter().map(|text| kind_and_path(text, place));
        Ok(emits.map(|(kind, path)| (Some(kind), path)).collect())
    }
}

impl Conversion {
    pub(crate) fn reading(&self) -> &Reading {
        &self.reading
    }

    /// Reads the files and writes them as each of `kinds`; warnings are printed. With `legal` the
    /// program must break no rule.
    pub(crate) fn convert(
        &self,
        files: &[File],
        kinds: &[Option<&str>],
        stem: &str,
        legal: bool,
        console: &Console,
    ) -> Outcome<Vec<Vec<File>>> {
        let setup = self.reading.setup(self.reading.target(files)?)?;
        let converted = convert(files, &setup, kinds, stem, legal)?;
        console.diagnostics(&converted.warnings, &sources_of(files));
        Ok(converted.files)
    }
}

/// File name without folder and ending.
pub(crate) fn stem(path: &Path) -> String {
    match path.file_stem() {
        Some(stem) if path != Path::new("-") => stem.to_string_lossy().into_owned(),
        _ => "program".to_owned(),
    }
}
