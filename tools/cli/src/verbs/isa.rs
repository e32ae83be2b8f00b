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
        let text = manual::isa(target, self.mnemonic.as_deref(), console.format)?;
        console.write(self.output.output.as_deref(), text.as_bytes())?;
        Ok(0)
    }
}
