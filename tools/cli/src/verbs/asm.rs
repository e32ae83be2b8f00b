//! `asm`.

use crate::args::Reading;
use crate::console::Console;
use crate::input;
use crate::output;
use crate::verbs::compile::write_files;
use clap::Args;
use quincunx::assemble::convert;
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
    /// Kind of native file (see `quincunx targets NAME`) [default: the target's first]
    #[arg(long, value_name = "KIND")]
    emit: Option<String>,
    /// Write the file here; a folder when there are several files [default: stdout]
    #[arg(short, long, value_name = "PATH", default_value = "-", hide_default_value = true)]
    output: PathBuf,
}

/// What `asm` and `disasm` share.
#[derive(Args)]
pub(crate) struct Conversion {
    #[command(flatten)]
    reading: Reading,
}

impl Asm {
    pub(crate) fn run(self, console: &Console) -> Outcome<u8> {
        output::expect_below(&self.output)?;
        let files = input::natives(&self.files, self.conversion.reading())?;
        let stem = self.files.first().map(|path| stem(path)).unwrap_or_default();
        let converted =
            self.conversion.convert(&files, self.emit.as_deref(), &stem, true, console)?;
        write_files(&converted, &self.output, console)?;
        Ok(0)
    }
}

impl Conversion {
    pub(crate) fn reading(&self) -> &Reading {
        &self.reading
    }

    /// Reads the files and writes them as `kind`; warnings are printed. With `legal` the program
    /// must break no rule.
    pub(crate) fn convert(
        &self,
        files: &[File],
        kind: Option<&str>,
        stem: &str,
        legal: bool,
        console: &Console,
    ) -> Outcome<Vec<File>> {
        let setup = self.reading.setup(self.reading.target(files)?)?;
        let converted = convert(files, &setup, kind, stem, legal)?;
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
