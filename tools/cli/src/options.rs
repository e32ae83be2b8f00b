//! Options of targets and of suites: declared by the library, offered as options of the verbs.

use crate::output;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use quincunx::diag::Diagnostic;
use quincunx::target::{OptionInfo, OptionKind, Target, Use};
use quincunx::targets;
use std::cell::RefCell;
use std::path::Path;

thread_local! {
    /// The verb of the command.
    static VERB: RefCell<String> = const { RefCell::new(String::new()) };
}

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
        let verb = command.get_name().to_owned();
        of_targets().into_iter().fold(command, |command, option| {
            let of_verb = option.of(&verb);
            let shown = of_verb.as_ref().unwrap_or(&option);
            // The short help would be mostly these. What the verb does not take is refused when it
            // is known whose option it is.
            let arg = shown.arg().help_heading(shown.heading()).hide_short_help(true);
            command.arg(arg.hide(of_verb.is_none()))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// An option with everyone who declares it.
pub(crate) struct Declared {
    name: &'static str,
    uses: Vec<Declaration>,
}

/// Who declares an option, and the verbs that take it there.
#[derive(Clone)]
pub(crate) struct Declaration {
    pub(crate) owner: String,
    pub(crate) option: &'static OptionInfo,
    pub(crate) verbs: Vec<&'static str>,
}

/// Options by name; several may declare one.
pub(crate) fn merge(all: impl Iterator<Item = Declaration>) -> Vec<Declared> {
    let mut merged: Vec<Declared> = Vec::new();
    for declaration in all {
        let name = declaration.option.name;
        match merged.iter_mut().find(|declared| declared.name == name) {
            Some(declared) => declared.uses.push(declaration),
            None => merged.push(Declared { name, uses: vec![declaration] }),
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

/// Notes the verb of the command, which decides what [`refuse_others`] lets pass.
pub(crate) fn set_verb(name: &str) {
    VERB.set(name.to_owned());
}

/// Refuses options of a target that change nothing in what the verb of the command does. No result
/// may replace a file that an option names.
///
/// # Errors
/// `Q0718`, with the verbs that take the option; a result that would replace a file.
pub(crate) fn refuse_others(
    target: &dyn Target,
    given: &[(String, String)],
) -> Result<(), Diagnostic> {
    let verb = VERB.with_borrow(String::clone);
    let info = target.info();
    for option in info.options.iter().filter(|o| given.iter().any(|(name, _)| name == o.name)) {
        let verbs = target.verbs_of(option);
        if !verbs.contains(&verb.as_str()) {
            let message =
                format!("option {} of {} has no effect on {verb}", option.name, info.name);
            return Err(Diagnostic::usage("Q0718", message)
                .help(format!("it is an option of {}", verbs.join(", "))));
        }
        if option.kind == OptionKind::File {
            let named = given.iter().filter(|(name, path)| name == option.name && !path.is_empty());
            output::reads(named.map(|(_, path)| Path::new(path)))?;
        }
    }
    Ok(())
}

/// The options that change nothing where no model is compiled, by name.
pub(crate) fn of_models(target: &dyn Target, given: &[(String, String)]) -> Vec<&'static str> {
    let is_given = |option: &&OptionInfo| given.iter().any(|(name, _)| name == option.name);
    let of_models = |option: &&OptionInfo| option.uses == [Use::Compile];
    let options = target.info().options.iter().filter(is_given).filter(of_models);
    options.map(|option| option.name).collect()
}

impl Declared {
    /// The option as a verb takes it; `None` when it does not.
    fn of(&self, verb: &str) -> Option<Declared> {
        let takes = |declaration: &&Declaration| declaration.verbs.contains(&verb);
        let uses: Vec<Declaration> = self.uses.iter().filter(takes).cloned().collect();
        (!uses.is_empty()).then_some(Declared { name: self.name, uses })
    }

    /// The argument; one that is on or off needs no value.
    pub(crate) fn arg(&self) -> Arg {
        let is_file = self.uses.iter().all(|declared| declared.option.kind == OptionKind::File);
        let value = if is_file { "FILE" } else { "VALUE" };
        let arg = Arg::new(self.name).long(self.name).value_name(value).help(self.help());
        // Numbers below 0 are values, as in `--depth-slack -1`.
        let arg = arg.allow_negative_numbers(true);
        if self.uses.iter().all(|declared| declared.option.kind == OptionKind::Flag) {
            return arg.num_args(0..=1).require_equals(true).default_missing_value("true");
        }
        arg
    }

    /// Whose options it is among, for `--help`.
    pub(crate) fn heading(&self) -> String {
        let owners: Vec<&str> = self.uses.iter().map(|declared| declared.owner.as_str()).collect();
        format!("Options of {}", owners.join(", "))
    }

    /// What the option means to each who has it.
    fn help(&self) -> String {
        let several = self.uses.len() > 1;
        let describe = |Declaration { owner, option, .. }: &Declaration| {
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
        own.map(|option| Declaration {
            owner: info.name.to_owned(),
            option,
            verbs: target.verbs_of(option),
        })
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
