//! `isa`.

use crate::args::TextOutput;
use crate::console::Console;
use clap::Args;
use quincunx::{Outcome, find_target, manual};

/// Print the manual of a target's instructions
#[derive(Args)]
pub(crate) struct Isa {
    /// The target
    target: String,
    /// Only this instruction
    mnemonic: Option<String>,
    #[command(flatten)]
    output: TextOutput,
}

impl Isa {
    pub(crate) fn run(self, console: &Console) -> Outcome<u8> {
        let target = find_target(&self.target)?;
        let output = self.output.output.as_deref();
        let mnemonic = self.mnemonic.as_deref();
        let text = manual::isa(target, mnemonic, console.format, console.columns(output))?;
        console.write(output, text.as_bytes())?;
        Ok(0)
    }
}
