//! `completions`.

use crate::args::Cli;
use crate::console::Console;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use quincunx::Outcome;

/// Print the completion script of a shell
#[derive(Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, console: &Console) -> Outcome<u8> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "quincunx", &mut script);
        console.write(None, &script)?;
        Ok(0)
    }
}
