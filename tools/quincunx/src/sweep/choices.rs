//! The combinations of a sweep: values of parameters and options, and their machines.

use super::machine::MachineFile;
use super::{MAX_COMBINATIONS, Sweep, Variation};
use crate::Setup;
use quincunx_contract::{OptionInfo, OptionKind};
use quincunx_diag::{Class, Diagnostic, Result};
use serde_json::Value;
use std::collections::BTreeSet;

/// The machine of a combination of values, or why there is none.
pub(super) type Machine<'a> = (Vec<Value>, Result<Setup<'a>>);

/// The option of the target that varies; `None` for a parameter of its machines, which is meant where
/// both have the name.
fn option(
    file: &MachineFile,
    setup: &Setup<'_>,
    variation: &Variation,
) -> Option<&'static OptionInfo> {
    let mut options = setup.target.info().options.iter();
    options.find(|option| option.name == variation.parameter && !file.knows(option.name))
}

/// The variations that are of options of the target, not of parameters of its machines; a name that both
/// have is the parameter.
///
/// # Errors
/// None for a sound target.
pub fn of_options<'v>(
    setup: &Setup<'_>,
    vary: impl IntoIterator<Item = &'v Variation>,
) -> Result<Vec<&'v Variation>> {
    let file = MachineFile::of(&*setup.arch)?;
    Ok(vary.into_iter().filter(|variation| option(&file, setup, variation).is_some()).collect())
}

/// The values of a variation: numbers where these are meant.
fn values(file: &MachineFile, setup: &Setup<'_>, variation: &Variation) -> Vec<Value> {
    let kind = option(file, setup, variation).map(|option| option.kind);
    let value = |word: &String| match kind {
        None | Some(OptionKind::Whole(..) | OptionKind::Real(..)) => {
            file.value(&variation.parameter, word)
        }
        Some(_) => Value::from(word.as_str()),
    };
    variation.values.iter().map(value).collect()
}

/// How many combinations of values there are.
pub(super) fn count(vary: &[Variation]) -> usize {
    vary.iter().fold(1, |count: usize, variation| count.saturating_mul(variation.values.len()))
}

/// A value as on the command line.
pub(super) fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Every combination with its machine.
pub(super) fn machines<'a>(sweep: &Sweep<'a>) -> Result<Vec<Machine<'a>>> {
    let setup = sweep.setup;
    let vary: Vec<&Variation> = sweep.vary.iter().chain(sweep.over).collect();
    let file = MachineFile::of(&*setup.arch)?;
    let choices: Vec<Vec<Value>> = vary.iter().map(|v| values(&file, setup, v)).collect();
    check(&vary, &choices)?;
    let machine = |values: Vec<Value>| {
        let pairs = vary.iter().copied().zip(&values);
        let (of_options, of_machine): (Vec<_>, Vec<_>) =
            pairs.partition(|(variation, _)| option(&file, setup, variation).is_some());
        let given: Vec<(String, String)> =
            of_options.iter().map(|(v, value)| (v.parameter.clone(), word(value))).collect();
        let target = setup.target;
        let options = setup.options.with(target.info().options, &given)?;
        let changes: Vec<(&str, &Value)> =
            of_machine.iter().map(|(v, value)| (&*v.parameter, *value)).collect();
        let arch = file.with(target, &changes).map_err(|problem| placed(&changes, problem));
        Ok((values, arch.map(|arch| Setup { target, arch, options })))
    };
    let machines = combinations(&choices).into_iter().map(machine);
    let machines: Vec<Machine<'_>> = machines.collect::<Result<_>>()?;
    for (place, values) in choices.iter().enumerate() {
        for value in values {
            let mut with = machines.iter().filter(|(values, _)| values[place] == *value);
            let refused = with.clone().all(|(_, setup)| setup.is_err());
            if let Some((_, Err(problem))) = with.next().filter(|_| refused) {
                return Err(problem.clone());
            }
        }
    }
    Ok(machines)
}

/// What the target says about a machine, which lies in no file: with its values.
fn placed(changes: &[(&str, &Value)], problem: Diagnostic) -> Diagnostic {
    if problem.code() == "Q0652" || problem.class() == Class::Bug {
        return problem;
    }
    let values: Vec<String> =
        changes.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let message = format!("no machine with {}: {}", values.join(" "), problem.message());
    Diagnostic::invalid(problem.code(), message).help_if(problem.help_text().map(str::to_owned))
}

/// Refuses what gives rows twice, or too many.
fn check(vary: &[&Variation], choices: &[Vec<Value>]) -> Result<()> {
    let wrong = |message: String| Err(Diagnostic::usage("Q0653", message));
    let mut names = BTreeSet::new();
    for (Variation { parameter, values }, choices) in vary.iter().zip(choices) {
        if !names.insert(parameter) {
            return wrong(format!("{parameter} is varied twice"));
        }
        let same = |a: &Value, b: &Value| {
            a == b || a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| a == b)
        };
        let is_known = |&index: &usize| choices[..index].iter().any(|x| same(x, &choices[index]));
        let twice = (0..choices.len()).find(is_known);
        if let Some(index) = twice {
            return wrong(format!("{parameter} has the value {} twice", values[index]));
        }
    }
    let count = choices.iter().fold(1, |count: usize, list| count.saturating_mul(list.len()));
    if count > MAX_COMBINATIONS {
        return wrong(format!(
            "there are {count} combinations, expected at most {MAX_COMBINATIONS}"
        ));
    }
    Ok(())
}

/// One of each list, in every way; the last list changes fastest.
fn combinations(choices: &[Vec<Value>]) -> Vec<Vec<Value>> {
    choices.iter().fold(vec![Vec::new()], |known, list| {
        let longer =
            |known: &Vec<Value>, value: &Value| [&known[..], std::slice::from_ref(value)].concat();
        known.iter().flat_map(|known| list.iter().map(|value| longer(known, value))).collect()
    })
}
