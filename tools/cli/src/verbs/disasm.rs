//! `disasm`.

use super::asm::{Conversion, stem};
use crate::console::Console;
use crate::input;
use crate::output;
use clap::Args;
use quincunx::Outcome;
use quincunx::assemble::TEXT_KIND;
use std::path::PathBuf;

/// Turn native files into assembly text
#[derive(Args)]
pub(crate) struct Disasm {
    /// Native files of one program
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    conversion: Conversion,
    /// Write the text to this file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Disasm {
    pub(crate) fn run(self, console: &Console) -> Outcome<u8> {
        output::expect(&self.output)?;
        let files = input::natives(&self.files, self.conversion.reading())?;
        let stem = self.files.first().map(|path| stem(path)).unwrap_or_default();
        let texts = self.conversion.convert(&files, &[Some(TEXT_KIND)], &stem, false, console)?;
        let text: Vec<u8> = texts.into_iter().flatten().flat_map(|file| file.bytes).collect();
        console.write(self.output.as_deref(), &text)?;
        Ok(0)
    }
}
