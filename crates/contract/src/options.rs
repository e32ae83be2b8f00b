//! Options of a target's compiler and readers: `--set name=value`.

use quincunx_diag::{Diagnostic, Result, suggestion};
use std::collections::BTreeMap;

/// A declared option.
#[derive(Clone, Copy, Debug)]
pub struct OptionInfo {
    /// Name.
    pub name: &'static str,
    /// One line.
    pub doc: &'static str,
    /// Value when not given.
    pub default: &'static str,
    /// Allowed values; empty when any text is checked by the target itself.
    pub values: &'static [&'static str],
}

/// Values of a target's options; every name and value was checked against its declaration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    values: BTreeMap<&'static str, String>,
}

impl Options {
    /// The defaults with some values replaced.
    ///
    /// # Errors
    /// `Q0501` for an unknown name, `Q0502` for a value that is not allowed.
    pub fn new(declared: &'static [OptionInfo], given: &[(String, String)]) -> Result<Self> {
        let mut values: BTreeMap<_, _> =
            declared.iter().map(|o| (o.name, o.default.to_owned())).collect();
        for (name, value) in given {
            let Some(option) = declared.iter().find(|o| o.name == name) else {
                let names = declared.iter().map(|o| o.name);
                return Err(Diagnostic::usage("Q0501", format!("unknown option \"{name}\""))
                    .help(suggestion(name, "options", names)));
            };
            if !option.values.is_empty() && !option.values.contains(&value.as_str()) {
                return Err(Diagnostic::usage(
                    "Q0502",
                    format!(
                        "option {name} is \"{value}\", expected one of {}",
                        option.values.join(", ")
                    ),
                ));
            }
            values.insert(option.name, value.clone());
        }
        Ok(Options { values })
    }

    /// The value of a declared option.
    ///
    /// # Panics
    /// When the option was not declared, which is a bug of the target.
    pub fn get(&self, name: &str) -> &str {
        match self.values.get(name) {
            Some(value) => value,
            None => panic!("option {name} is read but not declared"),
        }
    }

    /// True when a declared option is `true`.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name) == "true"
    }

    /// All names and values, in name order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.values.iter().map(|(&name, value)| (name, value.as_str()))
    }
}
