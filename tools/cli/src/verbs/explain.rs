//! `explain`.

use crate::args::TextOutput;
use crate::console::Console;
use clap::Args;
use quincunx::{Outcome, explain};

/// Explain the codes of messages: meaning, cause and remedy
#[derive(Args)]
pub(crate) struct Explain {
    /// Codes such as Q0602 [default: a list of all]
    codes: Vec<String>,
    #[command(flatten)]
    output: TextOutput,
}

impl Explain {
    pub(crate) fn run(self, console: &Console) -> Outcome<u8> {
        let output = self.output.output.as_deref();
        let text = explain::explain(&self.codes, console.format, console.columns(output))?;
        console.write(output, text.as_bytes())?;
        Ok(0)
    }
}
