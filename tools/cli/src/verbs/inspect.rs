//! `inspect`.

use crate::args::{ModelPart, Reading, TextOutput};
use crate::console::Console;
use crate::input;
use crate::output;
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
    /// Data for the model: extents that it leaves open are those of the arrays
    #[arg(short, long, value_name = "FILE")]
    data: Option<PathBuf>,
    #[command(flatten)]
    output: TextOutput,
}

impl Inspect {
    pub(crate) fn run(self, console: &Console) -> Outcome<u8> {
        output::expect(&self.output.output)?;
        let inspection = if self.file.is_dir() {
            input::without_effect(self.about_models(), "a folder")?;
            self.folder(console)?
        } else {
            let file = input::open(&self.file)?;
            let setup = self.setup(&file)?;
            if setup.is_some() || !matches!(detect(&file, targets()), FileKind::Model) {
                input::without_effect(self.about_models(), "a file that is not a model")?;
            }
            let data = self.data.as_deref().map(input::open).transpose()?;
            inspect::file(
                &file,
                targets(),
                setup,
                &self.part.options(&data)?,
                Self::depth(console),
            )?
        };
        let inspection = inspection.select(&console.tables)?;
        console.diagnostics(&inspection.warnings, &inspection.sources);
        console.report(&inspection.report, self.output.output.as_deref())?;
        Ok(0)
    }

    /// The options that only models have that are given, by name.
    fn about_models(&self) -> Vec<&'static str> {
        let mut given = self.part.given();
        given.extend(self.data.as_ref().map(|_| "--data"));
        given
    }

    fn depth(console: &Console) -> Depth {
        if console.tables.is_empty() { Depth::Brief } else { Depth::All }
    }

    fn folder(&self, console: &Console) -> Outcome<inspect::Inspection> {
        if !Folder::is_at(&self.file) {
            let files = input::natives(std::slice::from_ref(&self.file), &self.reading)?;
            let setup = self.reading.setup(self.reading.target(&files)?)?;
            return inspect::program(&files, &setup, Self::depth(console));
        }
        // What it says about the options is the same here.
        self.reading.folder(&self.file)?;
        inspect::folder(&self.file, targets(), &self.reading.options()?, Self::depth(console))
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
