//! Golden cases of scamp; the layout is described in `tests/golden/scamp/README.md`.

mod emulator;
mod kernels;
mod programs;

use crate::report::Report;
use crate::{Request, folder};
use quincunx_diag::{Diagnostic, Result, SourceId};
use quincunx_scamp::ScampArch;
use quincunx_scamp::program::Program;
use quincunx_scamp::text;
use serde_json::Value;
use std::path::Path;

/// The reason why a case failed.
type Check<T = ()> = std::result::Result<T, String>;

/// Runs one file.
type Runner = fn(&Path, &Value, &mut Report);

/// Files of the layout, in the order in which they run.
const FILES: &[(&str, Runner)] = &[
    ("emu_instructions", emulator::run),
    ("emu_random", emulator::run),
    ("emu_abs_reference_only", emulator::run),
    ("emu_illegal", emulator::run_illegal),
    ("digital_programs", emulator::run_digital),
    ("superpixel_programs", emulator::run_digital),
    ("kernels", kernels::run),
    ("programs", programs::run),
    ("best_known", programs::run_best),
    ("optimal", programs::run_optimal),
    ("paper_programs", programs::run_paper),
    ("multichannel", programs::run_multichannel),
    ("search_trace_gauss3", programs::run_trace),
];

/// Texts and folders of the layout.
const OTHERS: [&str; 3] = ["sample_default_format", "sample_jss_format", "cain_inputs"];

/// Runs every file of the layout that is present.
pub(crate) fn run(request: &Request<'_>, emit: &mut dyn FnMut(Report)) -> Result<()> {
    let present = folder::list(request.dir)?;
    let known = FILES.iter().map(|&(name, _)| name).chain(OTHERS);
    request.check_names(&known.map(str::to_owned).collect::<Vec<_>>())?;
    for &(name, runner) in FILES {
        let file = format!("{name}.json");
        if !(present.files.contains(&file) && request.wants(name)) {
            continue;
        }
        let mut report = Report::new(name);
        match read_json(&request.dir.join(&file)) {
            Ok(value) => runner(request.dir, &value, &mut report),
            Err(reason) => report.case("file", Err(reason)),
        }
        emit(report);
    }
    for name in &OTHERS[..2] {
        let file = format!("{name}.txt");
        if present.files.contains(&file) && request.wants(name) {
            let mut report = Report::new(name);
            report.case("bytes", kernels::check_sample(&request.dir.join(&file)));
            emit(report);
        }
    }
    let folder = OTHERS[2];
    if present.folders.iter().any(|name| name == folder) && request.wants(folder) {
        let mut report = Report::new(folder);
        kernels::run_inputs(&request.dir.join(folder), &mut report)?;
        emit(report);
    }
    Ok(())
}

fn read_json(path: &Path) -> Check<Value> {
    let text = folder::read_text(path)?;
    serde_json::from_str(&text).map_err(|error| format!("not JSON: {error}"))
}

/// A problem as a reason.
fn reason(problem: Diagnostic) -> String {
    problem.to_string()
}

fn first(problems: Vec<Diagnostic>) -> String {
    problems.into_iter().next().map_or_else(|| "no reason".to_owned(), reason)
}

/// The default machine, with room for a program's registers.
fn machine() -> Check<ScampArch> {
    ScampArch::preset("scamp5").map_err(reason)
}

/// A program from its statements.
fn program(lines: &Value) -> Check<Program> {
    let lines = lines.as_array().ok_or("no list of instructions")?;
    let lines = lines.iter().map(|line| line.as_str().ok_or("an instruction is not text"));
    let text = lines.collect::<std::result::Result<Vec<_>, _>>()?.join(";\n");
    text::parse(&text, SourceId(0)).map_err(first)
}

fn text_of<'a>(value: &'a Value, key: &str) -> Check<&'a str> {
    value[key].as_str().ok_or_else(|| format!("no {key}"))
}

fn number_of(value: &Value, key: &str) -> Check<u64> {
    value[key].as_u64().ok_or_else(|| format!("no {key}"))
}

/// The list under a key, or the value itself if it is a list.
fn cases<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.as_array().or(value[key].as_array()).map_or(&[], Vec::as_slice)
}

/// The name of a case.
fn name_of(value: &Value, index: usize) -> String {
    value["id"].as_str().map_or_else(|| index.to_string(), str::to_owned)
}
