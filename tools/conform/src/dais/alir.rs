//! Programs of alkaid: `X.json`, `X.json.gz`, `X.bytecode`, `X_in.npy` and `X_out.npy`.

use super::{ABOUT, Check, Samples, check_outputs, check_text, first, rows, same_bytes, single};
use crate::folder;
use crate::report::Report;
use quincunx_dais::binary::{self, Dialect, ReadOptions, convert};
use quincunx_dais::files;
use quincunx_dais::program::Program;
use quincunx_diag::{Diagnostic, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Runs every case of the folder.
pub(super) fn run(path: &Path, report: &mut Report) -> Result<()> {
    let files = folder::list(path)?.files;
    let about = |name: &&String| ABOUT.contains(&name.as_str());
    let stem = |name: &String| {
        let stem = name.split('.').next().unwrap_or_default();
        let stem = stem.strip_suffix("_in").or_else(|| stem.strip_suffix("_out")).unwrap_or(stem);
        stem.to_owned()
    };
    for case in files.iter().filter(|name| !about(name)).map(stem).collect::<BTreeSet<_>>() {
        report.case(&case, check(path, &case, &files));
    }
    Ok(())
}

fn check(path: &Path, case: &str, files: &[String]) -> Check {
    let file = |ending: &str| -> PathBuf { path.join(format!("{case}{ending}")) };
    let there = |ending: &str| files.iter().any(|name| *name == format!("{case}{ending}"));
    let samples = Samples { inputs: rows(&file("_in.npy"))?, outputs: rows(&file("_out.npy"))? };
    if samples.inputs.len() != samples.outputs.len() || samples.inputs.is_empty() {
        return Err("inputs and outputs have different numbers of samples".to_owned());
    }
    let json = folder::read_text(&file(".json"))?;
    let program = read_json(&json)?;
    check_program("JSON", &program, &samples)?;
    check_conversions(&program, &samples)?;
    let written = files::write_alir_json(&program).map_err(reason)?;
    if read_json(&written)? != program {
        return Err("JSON written and read again differs".to_owned());
    }
    if there(".json.gz") {
        let text = files::decompress(&folder::read(&file(".json.gz"))?).map_err(reason)?;
        if read_json(&text)? != program {
            return Err("the compressed JSON holds another program".to_owned());
        }
    }
    if there(".bytecode") {
        let bytes = folder::read(&file(".bytecode"))?;
        let options = ReadOptions::default();
        let read = binary::read(&bytes, &options).map_err(|problems| first(&problems))?;
        check_program("byte code", &read.program, &samples)?;
        let again = binary::write(&read.program, Dialect::A4).map_err(reason)?;
        same_bytes("byte code written again", &again, &bytes)?;
        let from_json = binary::write(&program, Dialect::A4).map_err(reason)?;
        same_bytes("JSON written as byte code", &from_json, &bytes)?;
    }
    Ok(())
}

/// The program in the dialect of da4ml and back gives the same outputs, in every form.
fn check_conversions(program: &Program, samples: &Samples) -> Check {
    let d1 = convert(program, Dialect::D1).map_err(reason)?.program;
    check_program("in dialect d1", &d1, samples)?;
    let json = files::write_json(&d1).map_err(reason)?;
    let read = files::read_json(&json, false).map_err(|problems| first(&problems))?;
    check_program("as JSON of da4ml", &single(read.pipeline)?, samples)?;
    let back = convert(&d1, Dialect::A4).map_err(reason)?.program;
    check_program("back from dialect d1", &back, samples)
}

fn check_program(form: &str, program: &Program, samples: &Samples) -> Check {
    check_outputs(form, &program.clone().into(), samples)?;
    check_text(&program.clone().into())
}

fn read_json(text: &str) -> Check<Program> {
    let read = files::read_json(text, false).map_err(|problems| first(&problems))?;
    if read.dialect != Dialect::A4 {
        return Err("the file is not one of alkaid".to_owned());
    }
    single(read.pipeline)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn reason(problem: Diagnostic) -> String {
    problem.to_string()
}
