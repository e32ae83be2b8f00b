//! Golden cases of tcu; the layout is described in `tests/golden/tcu/README.md`.

mod arith;
mod compiled;
mod emulator;
mod encodings;
mod fields;
mod network;
mod ours;
mod random;

use crate::report::Report;
use crate::{Request, folder};
use quincunx_diag::{Diagnostic, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The reason why a case failed.
type Check<T = ()> = std::result::Result<T, String>;

/// Files and folders of the layout, in the order in which they run.
const NAMES: [&str; 8] = [
    "arith",
    "encodings",
    "emulator_programs",
    "models",
    "compiled",
    "compiled_models",
    "bench_cells",
    "resnet20_end2end",
];

/// Runs every file and folder of the layout that is present.
pub(crate) fn run(request: &Request<'_>, emit: &mut dyn FnMut(Report)) -> Result<()> {
    request.check_names(&NAMES.map(str::to_owned))?;
    let entries = folder::list(request.dir)?;
    for name in NAMES.into_iter().filter(|name| request.wants(name)) {
        let file = format!("{name}.json");
        let is_folder = entries.folders.iter().any(|folder| folder == name);
        if !is_folder && !entries.files.contains(&file) {
            continue;
        }
        let mut report = Report::new(name);
        match name {
            "models" => models(&request.dir.join(name), &mut report)?,
            "compiled" => compiled::run_folder(&request.dir.join(name), &mut report)?,
            _ => match read_json(&request.dir.join(&file)) {
                Ok(json) => run_file(name, &json, request, &mut report),
                Err(reason) => report.case("file", Err(reason)),
            },
        }
        emit(report);
    }
    Ok(())
}

fn run_file(name: &str, json: &Value, request: &Request<'_>, report: &mut Report) {
    match name {
        "arith" => arith::run(json, report),
        "encodings" => encodings::run(json, report),
        "emulator_programs" => emulator::run(json, report),
        "compiled_models" => {
            compiled::run(json, &request.dir.join("compiled"), report);
            ours::run(json, request, report);
        }
        "bench_cells" => {
            for (index, cell) in list(json).enumerate() {
                let model = cell["model"].as_str().unwrap_or_default();
                let lanes = &cell["arch"]["array_size"];
                let name = format!("{index}_{model}_{lanes}");
                match find_model(model, request) {
                    Some(path) => report.case(&name, ours::cell(cell, &path)),
                    None => report.skip(&name, format!("models/{model}.onnx is not there")),
                }
            }
        }
        // The model's name is the first word of its description.
        _ => {
            let model = json["model"].as_str().unwrap_or_default();
            let model = model.split(' ').next().unwrap_or_default();
            match find_model(model, request) {
                Some(path) => report.case(model, network::check(json, &path)),
                None => report.skip(model, format!("models/{model}.onnx is not there")),
            }
        }
    }
}

/// A network in the folder or among the generated ones.
fn find_model(model: &str, request: &Request<'_>) -> Option<PathBuf> {
    let places = [Some(request.dir.join("models")), request.models.map(Path::to_path_buf)];
    let paths = places.into_iter().flatten().map(|place| place.join(format!("{model}.onnx")));
    paths.into_iter().find(|path| path.is_file())
}

/// Every model must be readable.
fn models(path: &Path, report: &mut Report) -> Result<()> {
    for name in folder::list(path)?.files.iter().filter(|name| name.ends_with(".onnx")) {
        let read = folder::read(&path.join(name)).and_then(|bytes| {
            let graph = quincunx_import::read_onnx(bytes.into(), &Default::default());
            graph.map(drop).map_err(|problems| first(&problems))
        });
        report.case(name.trim_end_matches(".onnx"), read);
    }
    Ok(())
}

fn read_json(path: &Path) -> Check<Value> {
    serde_json::from_str(&folder::read_text(path)?).map_err(|error| error.to_string())
}

/// The members of a list; none for anything else.
fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A name in a case.
fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// A number of a case.
fn number(value: &Value, key: &str) -> Check<u64> {
    value[key].as_u64().ok_or_else(|| format!("the case has no number {key:?}"))
}

fn hex(value: &Value) -> Check<Vec<u8>> {
    let text = value.as_str().ok_or("expected hexadecimal digits")?;
    let digit = |at: usize| text.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
    (0..text.len()).step_by(2).map(|at| digit(at).ok_or("not hexadecimal".to_owned())).collect()
}

fn arch(value: &Value) -> Check<quincunx_tcu::TcuArch> {
    quincunx_tcu::TcuArch::parse(&value.to_string()).map_err(|problem| problem.to_string())
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Check {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what} is {found:?}, expected {expected:?}"))
}

fn same_bytes(what: &str, found: &[u8], expected: &[u8]) -> Check {
    match found.iter().zip(expected).position(|(a, b)| a != b) {
        Some(byte) => Err(format!("{what} differs from byte {byte} on")),
        None => equal(&format!("the length of {what}"), found.len(), expected.len()),
    }
}

fn first(problems: &[Diagnostic]) -> String {
    let error = problems.iter().find(|problem| problem.is_error());
    error.map_or("rejected without an error".to_owned(), Diagnostic::to_string)
}
