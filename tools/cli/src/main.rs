//! The `quincunx` command line: arguments and printing only, one file per verb.
//!
//! stdout carries the result, stderr progress and diagnostics.

mod args;
mod console;
mod input;
mod options;
mod output;
mod verbs;

use clap::{CommandFactory, FromArgMatches};
use console::Console;
use quincunx::Failure;
use std::env;
use std::io::Write;
use std::panic;
use std::process::ExitCode;

/// Exit code of a bug.
const BUG: u8 = 70;

fn main() -> ExitCode {
    panic::set_hook(Box::new(|bug| {
        // A closed stderr must not be one more panic.
        let _ = writeln!(
            std::io::stderr().lock(),
            "error: this is a bug in Quincunx: {bug}\n  \
             please report it with the command and its files"
        );
    }));
    panic::catch_unwind(run).unwrap_or(BUG).into()
}

fn run() -> u8 {
    let parsed = args::Cli::command().try_get_matches().and_then(|matches| {
        options::set_verb(matches.subcommand_name().unwrap_or_default());
        args::Cli::from_arg_matches(&matches)
    });
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            // Nothing can be done when the help cannot be printed.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
    };
    let console = Console::new(&cli.global);
    let words: Vec<String> =
        env::args_os().skip(1).map(|word| word.to_string_lossy().into()).collect();
    let mut checked = options::refuse_loose_values(&args::Cli::command(), &words);
    if !cli.verb.reports() {
        let given = cli.global.given();
        checked = checked.and_then(|()| input::without_effect(given, "a verb without tables"));
    }
    output::watch_signals();
    let outcome = checked.map_err(Failure::from).and_then(|()| {
        let code = verbs::run(cli.verb, &console)?;
        output::commit()?;
        Ok(code)
    });
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            console.failure(&failure);
            failure.exit_code()
        }
    }
}
