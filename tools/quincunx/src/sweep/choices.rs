//! The combinations of a sweep: values of parameters and options, and their machines.

use super::machine::MachineFile;
use super::{Choice, MAX_COMBINATIONS, Sweep, Variation};
use crate::{InputFile, Outcome, Setup};
use quincunx_contract::{OptionInfo, OptionKind};
use quincunx_diag::{Class, Diagnostic, Result, suggestion};
use serde_json::Value;
use std::collections::BTreeSet;

/// A combination of values.
pub(super) struct Point<'a> {
    /// Those of what varies, and of what varies within rows.
    pub(super) values: Vec<Value>,
    /// How the model is quantised, by names without [`QUANTISE`]; empty for the model as given.
    pub(super) quantise: Vec<(String, String)>,
    /// The machine, or why there is none.
    pub(super) machine: Result<Setup<'a>>,
}

/// What names of quantisation begin with.
const QUANTISE: &str = "quantise.";

/// These names.
const OF_QUANTISATION: [&str; 4] = ["weights", "activations", "scheme", "method"];

/// What varies is how the model is quantised, not the machine.
pub(super) fn is_of_quantisation(variation: &Variation) -> bool {
    variation.parameter.starts_with(QUANTISE)
}

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
///
/// # Errors
/// Values that cannot be combined, and a value that is refused in every combination.
pub(super) fn points<'a>(sweep: &Sweep<'a>) -> Result<Vec<Point<'a>>> {
    let setup = sweep.setup;
    let vary: Vec<&Variation> = sweep.vary.iter().chain(sweep.over).collect();
    vary.iter().copied().filter(|v| is_of_quantisation(v)).try_for_each(check_quantisation)?;
    let file = MachineFile::of(&*setup.arch)?;
    let choices: Vec<Vec<Value>> = vary.iter().map(|v| values(&file, setup, v)).collect();
    check(&vary, &choices)?;
    let lists = places(sweep)?;
    let point = |places: Vec<usize>| {
        let values = places.iter().zip(&choices).map(|(&place, list)| list[place].clone());
        point(setup, &file, &vary, values.collect())
    };
    let points: Vec<Point<'_>> = lists.into_iter().map(point).collect::<Result<_>>()?;
    for (place, values) in choices.iter().enumerate() {
        for value in values {
            let mut with = points.iter().filter(|point| point.values[place] == *value);
            let refused = with.clone().all(|point| point.machine.is_err());
            if let Some(Point { machine: Err(problem), .. }) = with.next().filter(|_| refused) {
                return Err(problem.clone());
            }
        }
    }
    Ok(points)
}

fn point<'a>(
    setup: &'a Setup<'a>,
    file: &MachineFile,
    vary: &[&Variation],
    values: Vec<Value>,
) -> Result<Point<'a>> {
    let target = setup.target;
    let (mut quantise, mut given, mut changes) = (Vec::new(), Vec::new(), Vec::new());
    for (variation, value) in vary.iter().zip(&values) {
        let name = &*variation.parameter;
        match name.strip_prefix(QUANTISE) {
            Some(name) => quantise.push((name.to_owned(), word(value))),
            None if option(file, setup, variation).is_some() => {
                given.push((name.to_owned(), word(value)));
            }
            None => changes.push((name, value)),
        }
    }
    let options = setup.options.with(target.info().options, &given)?;
    let arch = file.with(target, &changes).map_err(|problem| placed(&changes, problem));
    let machine = arch.map(|arch| Setup { target, arch, options });
    Ok(Point { values, quantise, machine })
}

fn check_quantisation(variation: &Variation) -> Result<()> {
    let name = variation.parameter.strip_prefix(QUANTISE).unwrap_or_default();
    if OF_QUANTISATION.contains(&name) {
        return Ok(());
    }
    let message = format!("quantisation has no parameter {name:?}");
    Err(Diagnostic::usage("Q0652", message).help(suggestion(name, "parameters", OF_QUANTISATION)))
}

/// The places of the values of every combination that is chosen, with all that varies within it.
fn places(sweep: &Sweep<'_>) -> Result<Vec<Vec<usize>>> {
    let extents = |vary: &[Variation]| -> Vec<usize> {
        vary.iter().map(|variation| variation.values.len()).collect()
    };
    let (vary, within) =
        (extents(sweep.vary), combinations(&extents(sweep.over), 0..count(sweep.over)));
    let chosen = match &sweep.choice {
        Choice::Grid => {
            let all = count(sweep.vary);
            refuse_many(all)?;
            combinations(&vary, 0..all)
        }
        Choice::Random { count: wanted, seed } => {
            let all = count(sweep.vary);
            refuse_many(all.min(*wanted))?;
            combinations(&vary, drawn(all, *wanted, *seed))
        }
        Choice::These(list) => {
            let fits = |places: &&Vec<usize>| {
                places.len() == vary.len() && places.iter().zip(&vary).all(|(at, most)| at < most)
            };
            if list.iter().filter(fits).count() != list.len() {
                let message = "a combination has no value for what varies";
                return Err(Diagnostic::usage("Q0653", message));
            }
            list.clone()
        }
    };
    refuse_many(chosen.len().saturating_mul(within.len()))?;
    let joined = |places: &Vec<usize>, own: &Vec<usize>| [&places[..], own].concat();
    let all = chosen.iter().flat_map(|places| within.iter().map(move |own| joined(places, own)));
    Ok(all.collect())
}

/// So many different numbers below `all`, in order.
fn drawn(all: usize, wanted: usize, seed: u64) -> Vec<usize> {
    if wanted >= all {
        return (0..all).collect();
    }
    let mut state = seed;
    let mut next = || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let mut chosen = BTreeSet::new();
    while chosen.len() < wanted {
        chosen.insert(((u128::from(next()) * all as u128) >> 64) as usize);
    }
    chosen.into_iter().collect()
}

/// Combinations as a table of decimals and words with commas between them, whose first line has the
/// names: what varies, and the combinations.
///
/// # Errors
/// `Q0663` for a table that is malformed or too long.
pub fn listed(file: &InputFile) -> Outcome<(Vec<Variation>, Choice)> {
    let malformed = |message: String| {
        Diagnostic::invalid("Q0663", message)
            .in_file(&file.name)
            .help("the first line has names, every other one a value for each of them")
    };
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(&file.bytes[..]);
    let names = reader.headers().map_err(|error| malformed(error.to_string()))?.clone();
    let new = |name: &str| Variation { parameter: name.to_owned(), values: Vec::new() };
    let mut vary: Vec<Variation> = names.iter().map(new).collect();
    let mut list = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| malformed(error.to_string()))?;
        if list.len() == MAX_COMBINATIONS || record.iter().any(str::is_empty) {
            let many = list.len() == MAX_COMBINATIONS;
            let most = format!("it has more than {MAX_COMBINATIONS} combinations");
            let empty = "a value is empty".to_owned();
            return Err(malformed(if many { most } else { empty }).into());
        }
        let places = vary.iter_mut().zip(&record).map(|(variation, word)| {
            let values = &mut variation.values;
            values.iter().position(|value| value == word).unwrap_or_else(|| {
                values.push(word.to_owned());
                values.len() - 1
            })
        });
        list.push(places.collect());
    }
    if list.is_empty() || names.iter().any(str::is_empty) {
        return Err(malformed("it has no combinations, or a name is empty".to_owned()).into());
    }
    Ok((vary, Choice::These(list)))
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
    Ok(())
}

fn refuse_many(count: usize) -> Result<()> {
    if count > MAX_COMBINATIONS {
        let message =
            format!("there are {count} combinations, expected at most {MAX_COMBINATIONS}");
        return Err(Diagnostic::usage("Q0653", message));
    }
    Ok(())
}

/// The combinations with these numbers: the last place changes fastest.
fn combinations(extents: &[usize], numbers: impl IntoIterator<Item = usize>) -> Vec<Vec<usize>> {
    let places = |mut number: usize| {
        let mut places = vec![0; extents.len()];
        for (place, extent) in places.iter_mut().zip(extents).rev() {
            (*place, number) = (number % extent, number / extent);
        }
        places
    };
    numbers.into_iter().map(places).collect()
}
