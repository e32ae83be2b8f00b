//! `inspect`.

use crate::args::{ModelPart, Reading, TextOutput};
use crate::console::Console;
use crate::input;
use clap::Args;
use quincunx::inspect::Depth;
use quincunx::target::folder::Folder;
use quincunx::{FileKind, InputFile, Outcome, Setup, detect, inspect, targets};
use std::path::PathBuf;

/// Show what is in a file: a model, data, a program folder or a program
///
/// With --target the file is a program of this target, whatever it looks like.
#[derive(Args)]
pub(crate) struct Inspect {
    /// The file or program folder
    file: PathBuf,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    part: ModelPart,
    /// Show this table alone, by its name in JSON, or `all` tables; programs have some that are
    /// shown only on request; may be repeated
    #[arg(long, value_name = "NAME")]
    table: Vec<String>,
    #[command(flatten)]
    output: TextOutput,
}

impl Inspect {
    pub(crate) fn run(self, console: &Console) -> Outcome<u8> {
        let inspection = if self.file.is_dir() {
            input::without_effect(self.part.given(), "a folder")?;
            self.folder()?
        } else {
            let file = input::open(&self.file)?;
            let setup = self.setup(&file)?;
            if setup.is_some() || !matches!(detect(&file, targets()), FileKind::Model) {
                input::without_effect(self.part.given(), "a file that is not a model")?;
            }
            inspect::file(&file, targets(), setup, &self.part.options(), self.depth())?
        };
        let inspection = inspection.select(&self.table)?;
        console.diagnostics(&inspection.warnings, &inspection.sources);
        console.report(&inspection.report, self.output.output.as_deref())?;
        Ok(0)
    }

    fn depth(&self) -> Depth {
        if self.table.is_empty() { Depth::Brief } else { Depth::All }
    }

    fn folder(&self) -> Outcome<inspect::Inspection> {
        if !Folder::is_at(&self.file) {
            let files = input::natives(std::slice::from_ref(&self.file), &self.reading)?;
            let setup = self.reading.setup(self.reading.target(&files)?)?;
            return inspect::program(&files, &setup, self.depth());
        }
        // What it says about the options is the same here.
        self.reading.folder(&self.file)?;
        inspect::folder(&self.file, targets(), &self.reading.options()?, self.depth())
    }

    /// The machine for a program; nothing else has one.
    fn setup(&self, file: &InputFile) -> Outcome<Option<Setup<'static>>> {
        let target = match (self.reading.named()?, detect(file, targets())) {
            (Some(target), _) | (None, FileKind::Program(target)) => target,
            (None, _) => {
                input::without_effect(self.reading.given(), "a file that is not a program")?;
                return Ok(None);
            }
        };
        Ok(Some(self.reading.setup(target)?))
    }
}
