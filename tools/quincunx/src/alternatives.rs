//! `compile --explain`: what would let the machine take the nodes that are left to the host.

use crate::compile::{Compilation, Job, explain_with};
use crate::model::prepare;
use crate::{Calibration, Setup};
use quincunx_contract::plan::{Division, Place, Row};
use quincunx_contract::{ArchSource, Log, OptionInfo, OptionKind, Use, compiler_of};
use quincunx_graph::passes::Ranges;
use quincunx_report::{Cell, Column, Table};
use std::collections::{BTreeMap, BTreeSet};

/// One change to a machine or its options: how it is asked for, and the machine.
struct Alternative<'a> {
    words: String,
    setup: Setup<'a>,
}

/// For every node of the host the presets of the target and the values of its options, each changed
/// alone, with which its compiler would claim the node; without those that nothing here changes. Nodes
/// that were claimed and then did not fit are among the latter.
pub fn alternatives(job: &Job<'_>, compilation: &Compilation) -> BTreeMap<String, Vec<String>> {
    let ranges = compilation.preparation.ranges();
    let Some(claimed) = on_machine(job, job.setup, ranges.as_ref()) else { return BTreeMap::new() };
    let on_host = compilation.plan.rows.iter().filter(|row| row.place == Place::Host);
    let open: BTreeSet<&str> =
        on_host.map(|row| &*row.node).filter(|node| !claimed.contains(*node)).collect();
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    if open.is_empty() {
        return found;
    }
    for Alternative { words, setup } in changes(job.setup) {
        // What cannot be combined with the other options is no alternative.
        let Some(claimed) = on_machine(job, &setup, ranges.as_ref()) else { continue };
        for node in claimed.iter().filter(|node| open.contains(node.as_str())) {
            found.entry(node.clone()).or_default().push(words.clone());
        }
    }
    found
}

/// The nodes that the compiler claims on a machine; `None` where it cannot be asked.
fn on_machine(
    job: &Job<'_>,
    setup: &Setup<'_>,
    known: Option<&Ranges>,
) -> Option<BTreeSet<String>> {
    let Setup { target, arch, options } = setup;
    let numbers = compiler_of(*target).ok()?.numbers(&**arch, options);
    // What was found once need not be looked for with every change.
    let calibration = match known {
        Some(_) => Calibration { known, ..Calibration::default() },
        None => Calibration { report: false, ..job.calibration },
    };
    let mut log = Log::default();
    let prepared = prepare(job.model, job.fold_batch_norm, &numbers, calibration, &mut log).ok()?;
    let division = Division { graph: &prepared.graph, target: *target, arch: &**arch, options };
    let rows = division.plan().ok()?.rows.into_iter();
    Some(rows.filter(|row| row.place == Place::Device).map(|row| row.node).collect())
}

/// Every preset of the target and every value of its options that are words, each alone.
fn changes<'a>(setup: &Setup<'a>) -> Vec<Alternative<'a>> {
    let info = setup.target.info();
    let presets = info.presets.iter().filter(|preset| preset.name != setup.arch.name());
    let presets = presets.filter_map(|preset| {
        let arch = setup.target.arch(&ArchSource::Preset(preset.name.to_owned())).ok()?;
        let words = format!("--arch {}", preset.name);
        Some(Alternative { words, setup: Setup { arch, options: setup.options.clone(), ..*setup } })
    });
    let source =
        || ArchSource::Text { name: setup.arch.name().to_owned(), text: setup.arch.to_file() };
    let options = info.options.iter().filter(|option| option.uses.contains(&Use::Compile));
    let values = options.flat_map(|option| {
        let other = |value: &&str| *value != setup.options.get(option.name);
        values(option).into_iter().filter(other).map(move |value| (option, value))
    });
    let values = values.filter_map(|(option, value)| {
        let given = [(option.name.to_owned(), value.to_owned())];
        let options = setup.options.with(info.options, &given).ok()?;
        let arch = setup.target.arch(&source()).ok()?;
        let words = match option.kind {
            OptionKind::Flag if value == "true" => format!("--{}", option.name),
            OptionKind::Flag => format!("--{}=false", option.name),
            _ => format!("--{} {value}", option.name),
        };
        Some(Alternative { words, setup: Setup { arch, options, ..*setup } })
    });
    presets.chain(values).collect()
}

/// The values of an option that can all be tried.
fn values(option: &OptionInfo) -> Vec<&'static str> {
    match option.kind {
        OptionKind::Flag => vec!["true", "false"],
        OptionKind::OneOf(words) => words.to_vec(),
        OptionKind::Whole(..) | OptionKind::Real(..) | OptionKind::Text | OptionKind::File => {
            Vec::new()
        }
    }
}

/// Rows of a plan with what would change them.
pub fn explain(rows: &[Row], alternatives: &BTreeMap<String, Vec<String>>) -> Table {
    let change = |row: &Row| match alternatives.get(&row.node) {
        Some(words) => Cell::from(words.join(", ")),
        None => Cell::Empty,
    };
    explain_with(rows, Some(Column::text("taken_with")), change)
}
