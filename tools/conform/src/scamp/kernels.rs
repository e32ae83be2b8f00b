//! Kernel files and text formats.

use super::{Check, cases, name_of, number_of, reason};
use crate::folder;
use crate::report::Report;
use quincunx_diag::{Result, SourceId};
use quincunx_scamp::files::{KernelFile, read_kernels};
use quincunx_scamp::goal::Goal;
use quincunx_scamp::text::{Dialect, parse, print};
use serde_json::Value;
use std::path::Path;

/// Every filter: its kernel file gives the depth, the goals and the registers of the list.
pub(super) fn run(dir: &Path, value: &Value, report: &mut Report) {
    for (index, case) in cases(value, "filters").iter().enumerate() {
        let name = name_of(case, index);
        let path = dir.join("cain_inputs").join(format!("{name}.json"));
        match path.exists() {
            true => report.case(&name, check(case, &path)),
            false => report.skip(&name, format!("cain_inputs/{name}.json is missing")),
        }
    }
}

/// The goals of a filter in the list, in the order of its kernels.
pub(super) fn goals(case: &Value) -> Check<Vec<Goal>> {
    let goals = case["goals"].as_array().ok_or("no goals")?;
    goals.iter().map(|rows| rows_of(rows).map(|rows| Goal::from_rows(&rows))).collect()
}

/// A matrix of whole numbers.
pub(super) fn rows_of(value: &Value) -> Check<Vec<Vec<i64>>> {
    let rows = value.as_array().ok_or("no rows")?;
    let row = |row: &Value| {
        let row = row.as_array().ok_or("no row")?;
        row.iter().map(|n| n.as_i64().ok_or("no whole number")).collect()
    };
    rows.iter().map(row).collect::<std::result::Result<_, &str>>().map_err(str::to_owned)
}

fn read(path: &Path) -> Check<KernelFile> {
    read_kernels(&folder::read_text(path)?).map_err(reason)
}

fn check(case: &Value, path: &Path) -> Check {
    let file = read(path)?;
    let (depth, _) = file.approximation();
    let expected = number_of(case, "approx_depth")?;
    if u64::from(depth) != expected {
        return Err(format!("the depth is {depth}, expected {expected}"));
    }
    let found = file.goals(depth).map_err(reason)?.0;
    let kernels = case["kernels"].as_array().ok_or("no kernels")?;
    let names: Vec<&str> = kernels.iter().filter_map(|kernel| kernel["out"].as_str()).collect();
    if file.outputs() != names {
        return Err(format!("the outputs are {:?}, expected {names:?}", file.outputs()));
    }
    if file.inputs.first().map(String::as_str) != case["input_register"].as_str() {
        return Err(format!("the inputs are {:?}", file.inputs));
    }
    let expected = goals(case)?;
    for ((found, expected), name) in found.iter().zip(&expected).zip(names) {
        if found != expected {
            let (found, expected) = (found.compact(), expected.compact());
            return Err(format!("{name} is {found}, expected {expected}"));
        }
    }
    if found.len() == expected.len() { Ok(()) } else { Err("another number of goals".to_owned()) }
}

/// Every kernel file is read, and becomes a graph.
pub(super) fn run_inputs(dir: &Path, report: &mut Report) -> Result<()> {
    for name in folder::list(dir)?.files.iter().filter(|name| name.ends_with(".json")) {
        let check = read(&dir.join(name)).and_then(|file| {
            quincunx_scamp::files::to_graph(&file, 16, 16).map(drop).map_err(reason)
        });
        report.case(name.trim_end_matches(".json"), check);
    }
    Ok(())
}

/// A text of Cain is written as it was read, byte for byte; JSS if it does not begin a kernel.
pub(super) fn check_sample(path: &Path) -> Check {
    let text = folder::read_text(path)?;
    let program = parse(&text, SourceId(0)).map_err(super::first)?;
    let dialect = match text.contains("scamp5_kernel_begin") {
        true => Dialect::Cain,
        false => Dialect::Jss(simulator(&text).ok_or("no name of a simulator")?.to_owned()),
    };
    let printed = print(&program, &dialect).map_err(reason)?;
    match printed == text {
        true => Ok(()),
        false => Err(format!("it is written as {printed:?}")),
    }
}

/// What stands before the dot of the first instruction of a JSS text.
fn simulator(text: &str) -> Option<&str> {
    let line = text.lines().find(|line| line.ends_with("; "))?;
    Some(line.split_once('.')?.0)
}
