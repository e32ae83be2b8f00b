//! The verbs: one file each.

mod asm;
mod bench;
mod compare;
mod compile;
mod completions;
mod diff;
mod disasm;
mod explain;
mod inspect;
mod isa;
mod man;
mod quantise;
mod report;
mod run;
mod sweep;
mod targets;
mod time;
mod verify;

use crate::console::Console;
use clap::Subcommand;
use quincunx::Outcome;

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Verb {
    Compile(compile::Compile),
    Run(run::Run),
    Verify(verify::Verify),
    Time(time::Time),
    Compare(compare::Compare),
    Report(report::Report),
    Sweep(sweep::Sweep),
    Quantise(quantise::Quantise),
    Diff(diff::Diff),
    Asm(asm::Asm),
    Disasm(disasm::Disasm),
    Inspect(inspect::Inspect),
    Isa(isa::Isa),
    Targets(targets::Targets),
    Explain(explain::Explain),
    Bench(bench::Bench),
    Completions(completions::Completions),
    Man(man::Man),
}

/// Runs a verb and gives the exit code.
pub(crate) fn run(verb: Verb, console: &Console) -> Outcome<u8> {
    match verb {
        Verb::Compile(verb) => verb.run(console),
        Verb::Run(verb) => verb.run(console),
        Verb::Verify(verb) => verb.run(console),
        Verb::Time(verb) => verb.run(console),
        Verb::Compare(verb) => verb.run(console),
        Verb::Report(verb) => verb.run(console),
        Verb::Sweep(verb) => verb.run(console),
        Verb::Quantise(verb) => verb.run(console),
        Verb::Diff(verb) => verb.run(console),
        Verb::Asm(verb) => verb.run(console),
        Verb::Disasm(verb) => verb.run(console),
        Verb::Inspect(verb) => verb.run(console),
        Verb::Isa(verb) => verb.run(console),
        Verb::Targets(verb) => verb.run(console),
        Verb::Explain(verb) => verb.run(console),
        Verb::Bench(verb) => verb.run(console),
        Verb::Completions(verb) => verb.run(console),
        Verb::Man(verb) => verb.run(console),
    }
}

impl Verb {
    /// Whether its result is a report, which has a form and tables.
    pub(crate) fn reports(&self) -> bool {
        match self {
            Verb::Report(verb) => verb.is_table(),
            Verb::Asm(_) | Verb::Disasm(_) | Verb::Completions(_) | Verb::Man(_) => false,
            Verb::Compile(_)
            | Verb::Run(_)
            | Verb::Verify(_)
            | Verb::Time(_)
            | Verb::Compare(_)
            | Verb::Sweep(_)
            | Verb::Quantise(_)
            | Verb::Diff(_)
            | Verb::Inspect(_)
            | Verb::Isa(_)
            | Verb::Targets(_)
            | Verb::Explain(_)
            | Verb::Bench(_) => true,
        }
    }
}
