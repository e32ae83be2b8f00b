//! Machines that differ from one in parameters of its architecture file, whatever the target.

use quincunx_contract::{Arch, ArchSource, Target};
use quincunx_diag::{Diagnostic, Result, suggestion};
use serde_json::Value;
use std::collections::BTreeMap;

/// An architecture file as values.
pub(super) struct MachineFile {
    /// Name of the machine.
    name: String,
    values: Value,
    /// Parameters that the file does not give and could.
    absent: Vec<&'static str>,
    /// Its form: JSON, otherwise TOML.
    is_json: bool,
}

impl MachineFile {
    /// The file of a machine.
    ///
    /// # Errors
    /// A bug of the target when its file is neither TOML nor JSON.
    pub(super) fn of(arch: &dyn Arch) -> Result<MachineFile> {
        let text = arch.to_file();
        let is_json = text.trim_start().starts_with('{');
        let values = match is_json {
            true => serde_json::from_str(&text).ok(),
            false => toml::from_str(&text).ok(),
        };
        let values = values.filter(Value::is_object);
        let bug = || Diagnostic::bug("the file of a machine is neither TOML nor JSON");
        let (name, absent) = (arch.name().to_owned(), arch.absent());
        Ok(MachineFile { name, values: values.ok_or_else(bug)?, absent, is_json })
    }

    /// Every parameter with its value; those in tables as `table.name`.
    fn parameters(&self) -> BTreeMap<String, &Value> {
        let mut found = BTreeMap::new();
        leaves(&self.values, "", &mut found);
        found
    }

    /// Files of machines have this parameter, or could.
    pub(super) fn knows(&self, parameter: &str) -> bool {
        self.parameters().contains_key(parameter) || self.absent.contains(&parameter)
    }

    /// What a word on the command line means as the value of a parameter: text where the parameter
    /// is text, otherwise a number or a switch if it is one.
    pub(super) fn value(&self, parameter: &str, word: &str) -> Value {
        let is_text = self.parameters().get(parameter).is_some_and(|value| value.is_string());
        let number = word.parse::<i64>().map(Value::from).or_else(|_| word.parse().map(real));
        match (word, number) {
            _ if is_text => Value::from(word),
            ("true" | "false", _) => Value::from(word == "true"),
            (_, Ok(number)) if !number.is_null() => number,
            _ => Value::from(word),
        }
    }

    /// The machine with these values.
    ///
    /// # Errors
    /// What the target says about them; `Q0652` for a parameter that its files do not have.
    pub(super) fn with(
        &self,
        target: &dyn Target,
        changes: &[(&str, &Value)],
    ) -> Result<Box<dyn Arch>> {
        let mut values = self.values.clone();
        for &(parameter, value) in changes {
            if !set(&mut values, parameter, value) {
                return Err(self.unknown(parameter));
            }
        }
        let text = match self.is_json {
            true => Ok(values.to_string()),
            false => toml::to_string(&values).map_err(|error| Diagnostic::bug(error.to_string())),
        };
        let made = target.arch(&ArchSource::Text { name: self.name.clone(), text: text? });
        // Only readers know optional parameters. What they pass over is none of theirs.
        let known = self.parameters();
        let added: Vec<&str> = changes
            .iter()
            .map(|change| change.0)
            .filter(|name| !known.contains_key(*name))
            .collect();
        match made {
            Ok(arch) => {
                let file = MachineFile::of(&*arch)?;
                let has = file.parameters();
                match added.into_iter().find(|parameter| !has.contains_key(*parameter)) {
                    Some(parameter) => Err(self.unknown(parameter)),
                    None => Ok(arch),
                }
            }
            Err(problem) if problem.message().starts_with("unknown field `") => {
                Err(added.first().map_or(problem, |parameter| self.unknown(parameter)))
            }
            Err(problem) => Err(problem),
        }
    }

    fn unknown(&self, parameter: &str) -> Diagnostic {
        let known = self.parameters();
        let message = format!("machine {} has no parameter {parameter:?}", self.name);
        let names = known.keys().map(String::as_str).chain(self.absent.iter().copied());
        Diagnostic::usage("Q0652", message).help(suggestion(parameter, "parameters", names))
    }
}

/// A finite number; nothing for any other.
fn real(number: f64) -> Value {
    serde_json::Number::from_f64(number).map_or(Value::Null, Value::Number)
}

fn leaves<'v>(value: &'v Value, path: &str, found: &mut BTreeMap<String, &'v Value>) {
    let Value::Object(entries) = value else {
        found.insert(path.to_owned(), value);
        return;
    };
    for (name, value) in entries {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        leaves(value, &path, found);
    }
}

/// Sets a parameter; false where a table on the way to it is missing, or it is a table.
fn set(values: &mut Value, parameter: &str, value: &Value) -> bool {
    let (mut table, mut name) = (values, parameter);
    while let Some((first, rest)) = name.split_once('.') {
        let Some(inner) = table.get_mut(first) else { return false };
        (table, name) = (inner, rest);
    }
    let Value::Object(entries) = table else { return false };
    if entries.get(name).is_some_and(Value::is_object) {
        return false;
    }
    entries.insert(name.to_owned(), value.clone());
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{find_target, targets};

    fn machine(target: &str) -> (&'static dyn Target, MachineFile) {
        let target = find_target(target).unwrap();
        (target, MachineFile::of(&*target.arch(&ArchSource::Default).unwrap()).unwrap())
    }

    /// The value of a parameter in the file of the machine that has it set.
    fn changed(target: &str, parameter: &str, word: &str) -> Result<Value> {
        let (target, file) = machine(target);
        let value = file.value(parameter, word);
        let arch = file.with(target, &[(parameter, &value)])?;
        let file = MachineFile::of(&*arch).unwrap();
        Ok(file.parameters()[parameter].clone())
    }

    /// Every machine is what its file says, in both forms of files.
    #[test]
    fn files_without_changes_are_the_same_machine() {
        for target in targets() {
            for preset in target.info().presets {
                let arch = target.arch(&ArchSource::Preset(preset.name.to_owned())).unwrap();
                let again = MachineFile::of(&*arch).unwrap().with(*target, &[]).unwrap();
                assert_eq!(again.to_file(), arch.to_file(), "{}", preset.name);
            }
        }
    }

    #[test]
    fn parameters_of_every_form_are_set() {
        for (target, parameter, word, value) in [
            ("npu", "rows", "4", Value::from(4)),
            ("npu", "hertz", "2e9", Value::from(2e9)),
            ("npu", "hertz", "2000000000", Value::from(2e9)),
            // Not in the files of the presets.
            ("npu", "mac_pj", "0.5", Value::from(0.5)),
            ("tcu", "array_size", "16", Value::from(16)),
            ("tcu", "clock_mhz", "80", Value::from(80)),
            ("dais", "dialect", "a4", Value::from("a4")),
            // In a table of the file.
            ("scamp", "cost.clock_mhz", "5", Value::from(5.0)),
        ] {
            assert_eq!(changed(target, parameter, word).unwrap(), value, "{target} {parameter}");
        }
    }

    #[test]
    fn what_machines_do_not_have_or_refuse_is_told() {
        for (target, parameter, word, code, help) in [
            ("npu", "row", "4", "Q0652", Some("did you mean \"rows\"?")),
            ("tcu", "array_sise", "4", "Q0652", Some("did you mean \"array_size\"?")),
            ("scamp", "cost.clock_mz", "4", "Q0652", Some("did you mean \"cost.clock_mhz\"?")),
            ("npu", "mac_pi", "4", "Q0652", Some("did you mean \"mac_pj\"?")),
            ("npu", "banana", "4", "Q0652", None),
            ("npu", "rows.of", "4", "Q0652", None),
            ("scamp", "cost", "4", "Q0652", None),
            ("npu", "rows", "0", "Q4002", None),
            ("npu", "rows", "many", "Q4002", None),
            ("npu", "rows", "inf", "Q4002", None),
            ("npu", "mac_pj", "-1", "Q4002", None),
        ] {
            let problem = changed(target, parameter, word).unwrap_err();
            assert_eq!(problem.code(), code, "{target} {parameter}");
            if help.is_some() {
                assert_eq!(problem.help_text(), help, "{target} {parameter}");
            }
        }
    }
}
