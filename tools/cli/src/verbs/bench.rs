//! `bench`.

use crate::args::{TextOutput, count};
use crate::console::Console;
use crate::options::{Declaration, Declared, given, merge};
use crate::output;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};
use quincunx::Outcome;
use quincunx::bench::{Settings, bench, suites};
use quincunx::report::Heading;
use quincunx::target::bench::Suite;
use std::num::NonZeroUsize;

/// Measure how fast Quincunx itself is
///
/// A row is the median of several measurements. A measurement repeats the work for 0.2 s and takes
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
        output::expect(&self.output.output)?;
        let settings = Settings {
            threads: console.threads,
            repeat: self.repeat,
            options: &self.options.given,
        };
        let report = bench(&self.suite, &settings)?;
        let report = report.headed(Heading::new("Speed of quincunx itself").of(&*self.suite));
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
        Ok(SuiteOptions { given: given(matches, &of_suites()) })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for SuiteOptions {
    fn augment_args(command: Command) -> Command {
        of_suites()
            .iter()
            .fold(command, |c, option| c.arg(option.arg().help_heading(option.heading())))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn of_suites() -> Vec<Declared> {
    merge(suites().into_iter().flat_map(|(full, suite)| {
        let declared =
            move |option| Declaration { owner: full.clone(), option, verbs: vec!["bench"] };
        suite.options.iter().map(declared)
    }))
}

fn list() -> String {
    let suites = suites();
    let width = suites.iter().map(|(name, _)| name.len()).max().unwrap_or(0) + 2;
    let line = |(name, suite): &(String, &Suite)| format!("\n  {name:width$}{}", suite.doc);
    format!("Suites:{}", suites.iter().map(line).collect::<String>())
}
