//! `bench`.

use crate::args::{TextOutput, count};
use crate::console::Console;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use quincunx::Outcome;
use quincunx::bench::{Settings, bench, suites};
use quincunx::target::OptionInfo;
use std::num::NonZeroUsize;

/// Measure how fast Quincunx itself is
///
/// A row is the median of several measurements. A measurement repeats the work for 0.2 s and counts
/// the fastest time. Import and preparation of the suite graph are measured once.
#[derive(Args)]
#[command(after_help = list())]
pub(crate) struct Bench {
    /// What to measure
    suite: String,
    /// Measurements per row
    #[arg(long, value_name = "N", default_value = "3", value_parser = count)]
    repeat: NonZeroUsize,
    #[command(flatten)]
    options: SuiteOptions,
    #[command(flatten)]
    output: TextOutput,
}

impl Bench {
    pub(crate) fn run(self, console: &Console) -> Outcome<u8> {
        let settings = Settings {
            threads: console.threads,
            repeat: self.repeat,
            options: &self.options.given,
        };
        let report = bench(&self.suite, &settings)?;
        console.report(&report, self.output.output.as_deref())?;
        Ok(0)
    }
}

/// Options of all suites; the library refuses those that the suite does not have.
struct SuiteOptions {
    given: Vec<(String, String)>,
}

impl FromArgMatches for SuiteOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let value = |name: &str| matches.get_one::<String>(name).cloned();
        let given =
            option_names().into_iter().filter_map(|name| Some((name.to_owned(), value(name)?)));
        Ok(SuiteOptions { given: given.collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for SuiteOptions {
    fn augment_args(command: Command) -> Command {
        option_names().into_iter().fold(command, |command, name| {
            command.arg(
                Arg::new(name)
                    .long(name)
                    .value_name("VALUE")
                    .help(help(name))
                    .help_heading("Options of suites"),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Every name once: suites may share one.
fn option_names() -> Vec<&'static str> {
    let mut names: Vec<_> = suites().iter().flat_map(|s| s.options).map(|o| o.name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// What the option means in each suite that has it.
fn help(name: &str) -> String {
    let describe = |suite: &str, option: &OptionInfo| {
        let values = match option.values {
            [] => String::new(),
            values => format!(": {}", values.join(", ")),
        };
        let default = match option.default {
            "" => "[required]".to_owned(),
            default => format!("[default: {default}]"),
        };
        format!("{suite}: {}{values} {default}", option.doc)
    };
    let uses = suites().iter().flat_map(|suite| {
        let options = suite.options.iter().filter(|option| option.name == name);
        options.map(move |option| describe(suite.name, option))
    });
    uses.collect::<Vec<_>>().join("; ")
}

fn list() -> String {
    let line = |suite: &quincunx::bench::Suite| format!("\n  {:8}{}", suite.name, suite.doc);
    format!("Suites:{}", suites().iter().map(line).collect::<String>())
}
