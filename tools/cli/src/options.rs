//! Options of targets and of suites: declared by the library, offered as options of the verbs.

use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use quincunx::diag::Diagnostic;
use quincunx::target::{OptionInfo, OptionKind};
use quincunx::targets;

/// An option that verbs have under the same name and hand over to the target.
const SHARED: &str = "lenient";

/// Values of an option that is on or off.
const ON_OFF: [&str; 2] = ["true", "false"];

/// Options of all targets; the library refuses those that the target does not have.
#[derive(Debug)]
pub(crate) struct TargetOptions {
    pub(crate) given: Vec<(String, String)>,
}

impl FromArgMatches for TargetOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(TargetOptions { given: given(matches, &of_targets()) })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for TargetOptions {
    fn augment_args(command: Command) -> Command {
        // The short help would be mostly these.
        let hide = |arg: Arg| arg.hide_short_help(true);
        of_targets()
            .iter()
            .fold(command, |c, option| c.arg(hide(option.arg().help_heading(option.heading()))))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// An option with everyone who declares it.
pub(crate) struct Declared {
    name: &'static str,
    uses: Vec<(String, &'static OptionInfo)>,
}

/// Options by name; several may declare one.
pub(crate) fn merge(all: impl Iterator<Item = (String, &'static OptionInfo)>) -> Vec<Declared> {
    let mut merged: Vec<Declared> = Vec::new();
    for (owner, option) in all {
        match merged.iter_mut().find(|declared| declared.name == option.name) {
            Some(declared) => declared.uses.push((owner, option)),
            None => merged.push(Declared { name: option.name, uses: vec![(owner, option)] }),
        }
    }
    merged.sort_by_key(|declared| declared.name);
    merged
}

/// Names and values that are on the command line.
pub(crate) fn given(matches: &ArgMatches, options: &[Declared]) -> Vec<(String, String)> {
    let value = |name: &str| matches.get_one::<String>(name).cloned();
    let given = options.iter().filter_map(|o| Some((o.name.to_owned(), value(o.name)?)));
    given.collect()
}

impl Declared {
    /// The argument; one that is on or off needs no value.
    pub(crate) fn arg(&self) -> Arg {
        let arg = Arg::new(self.name).long(self.name).value_name("VALUE").help(self.help());
        // Numbers below 0 are values, as in `--depth-slack -1`.
        let arg = arg.allow_negative_numbers(true);
        if self.uses.iter().all(|(_, option)| option.kind == OptionKind::Flag) {
            return arg.num_args(0..=1).require_equals(true).default_missing_value("true");
        }
        arg
    }

    /// Whose options it is among, for `--help`.
    pub(crate) fn heading(&self) -> String {
        match &self.uses[..] {
            [(owner, _)] => format!("Options of {owner}"),
            several => {
                let owners: Vec<&str> = several.iter().map(|(owner, _)| owner.as_str()).collect();
                format!("Options of {}", owners.join(", "))
            }
        }
    }

    /// What the option means to each who has it.
    fn help(&self) -> String {
        let several = self.uses.len() > 1;
        let describe = |(owner, option): &(String, &OptionInfo)| {
            let values = match option.values() {
                values if values.is_empty() => values,
                values => format!(": {values}"),
            };
            let default = match option.default {
                "" => String::new(),
                default => format!(" [default: {default}]"),
            };
            let owner = if several { format!("{owner}: ") } else { String::new() };
            format!("{owner}{}{values}{default}", option.doc)
        };
        self.uses.iter().map(describe).collect::<Vec<_>>().join("; ")
    }
}

/// Refuses `--NAME false` for an option that takes a value only after `=`: the word would be taken
/// for a file, and the option for true.
///
/// # Errors
/// `Q0715`, with the form that says what was meant.
pub(crate) fn refuse_loose_values(command: &Command, words: &[String]) -> Result<(), Diagnostic> {
    let verb = words.iter().find_map(|word| command.find_subcommand(word));
    let switches: Vec<&str> = verb
        .into_iter()
        .flat_map(Command::get_arguments)
        .filter(|arg| arg.is_require_equals_set())
        .filter_map(Arg::get_long)
        .collect();
    let options = words.iter().take_while(|word| *word != "--").zip(words.iter().skip(1));
    for (option, value) in options {
        let name = option.strip_prefix("--").unwrap_or_default();
        if switches.contains(&name) && ON_OFF.contains(&value.as_str()) {
            let message = format!("--{name} takes a value only after =, {value} would be a file");
            return Err(Diagnostic::usage("Q0715", message)
                .help(format!("write --{name}={value}, or ./{value} for the file")));
        }
    }
    Ok(())
}

fn of_targets() -> Vec<Declared> {
    merge(targets().iter().flat_map(|target| {
        let info = target.info();
        let own = info.options.iter().filter(|option| option.name != SHARED);
        own.map(|option| (info.name.to_owned(), option))
    }))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    /// An option of a target may not be named like one of a verb.
    #[test]
    fn names_of_options_are_unique() {
        crate::args::Cli::command().debug_assert();
    }
}
