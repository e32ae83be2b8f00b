//! `targets`.

use crate::args::TextOutput;
use crate::console::Console;
use crate::input;
use crate::output;
use clap::Args;
use quincunx::{Outcome, find_target, manual};

/// List the targets, or the machines, options and files of one
#[derive(Args)]
pub(crate) struct Targets {
    /// The target
    name: Option<String>,
    /// Show the parameters of this machine: a preset or an architecture file [default: the first
    /// preset]
    #[arg(long, value_name = "PRESET|FILE", requires = "name")]
    arch: Option<String>,
    #[command(flatten)]
    output: TextOutput,
}

impl Targets {
    pub(crate) fn run(self, console: &Console) -> Outcome<u8> {
        output::expect(&self.output.output)?;
        let report = match &self.name {
            None => manual::list(quincunx::targets()),
            Some(name) => {
                let target = find_target(name)?;
                let source = input::arch(target, self.arch.as_deref())?;
                manual::describe(target, &source).map_err(|p| input::in_arch(p, source))?
            }
        };
        console.report(&report, self.output.output.as_deref())?;
        Ok(0)
    }
}
