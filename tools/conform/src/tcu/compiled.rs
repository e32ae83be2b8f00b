//! Programs of upstream's compiler: readable, written as they were, with its outputs and cycles.

use super::{Check, arch, equal, first, hex, list, number, same_bytes, text};
use crate::folder;
use crate::report::Report;
use quincunx_diag::{Diagnostic, Result, SourceId};
use quincunx_tcu::files::{Model, read_data, write_data};
use quincunx_tcu::package::Package;
use quincunx_tcu::program::Memory;
use quincunx_tcu::simulate::{Driver, Executor};
use quincunx_tcu::time::estimate;
use quincunx_tcu::verify::{Rules, verify};
use quincunx_tcu::{binary, text as assembly};
use serde_json::Value;
use std::path::Path;

/// Every description of a folder.
pub(super) fn run_folder(path: &Path, report: &mut Report) -> Result<()> {
    for name in folder::list(path)?.files {
        if let Some(stem) = name.strip_suffix(".tmodel") {
            report.case(stem, files(path, stem));
        }
    }
    Ok(())
}

/// The files of a program are read, judged legal, and written again byte for byte.
fn files(path: &Path, stem: &str) -> Check {
    let description = folder::read_text(&path.join(format!("{stem}.tmodel")))?;
    let package = read(path, stem)?;
    let printed = package.model.as_ref().map(Model::print);
    // A file may leave out what has a default; it is written all the same.
    let value = |text: &str| serde_json::from_str::<Value>(text).map_err(|e| e.to_string());
    let (found, expected) = (value(&printed.clone().unwrap_or_default())?, value(&description)?);
    for (key, value) in expected.as_object().into_iter().flatten() {
        if key != "arch" {
            equal(key, &found[key], value)?;
        }
    }
    for (key, value) in expected["arch"].as_object().into_iter().flatten() {
        equal(key, &found["arch"][key], value)?;
    }
    if found == expected {
        same_bytes(
            "the description",
            printed.unwrap_or_default().as_bytes(),
            description.as_bytes(),
        )?;
    }
    let program = &package.program;
    let bytes = binary::write(program).map_err(|problem| problem.to_string())?;
    let name = &package.model.as_ref().ok_or("no description")?.prog.file_name;
    same_bytes("the program", &bytes, &folder::read(&path.join(name))?)?;
    let text = assembly::print(program);
    let parsed = assembly::parse(&text, SourceId(0), &program.arch);
    if parsed.map_err(|problems| first(&problems))? != *program {
        return Err("the text reads back differently".to_owned());
    }
    for consts in &package.consts {
        let data = write_data(&consts.scalars, &program.arch);
        same_bytes("the constants", &data, &folder::read(&path.join(&consts.name))?)?;
    }
    let problems = verify(program, &Rules::default());
    match problems.iter().find(|problem| problem.is_error()) {
        None => Ok(()),
        Some(problem) => Err(format!("the verifier rejects it: {problem}")),
    }
}

/// A program with its description and constants.
pub(super) fn read(path: &Path, stem: &str) -> Check<Package> {
    let description = folder::read_text(&path.join(format!("{stem}.tmodel")))?;
    let model = Model::parse(&description).map_err(|problem| problem.to_string())?;
    let file = |name: &str| folder::read(&path.join(name));
    let parts = model.file_names().into_iter().map(|name| Ok((name.clone(), file(&name)?)));
    let parts: Vec<(String, Vec<u8>)> = parts.collect::<Check<_>>()?;
    Package::new(model, &parts, false).map(|(package, _)| package).map_err(|p| first(&p))
}

/// Every program of the list.
pub(super) fn run(json: &Value, folder: &Path, report: &mut Report) {
    for case in list(json) {
        let name = text(case, "name");
        if folder.join(format!("{name}.tmodel")).is_file() {
            report.case(name, check(case, folder, name));
        } else {
            report.skip(name, format!("compiled/{name}.tmodel is not there"));
        }
    }
}

fn check(case: &Value, folder: &Path, name: &str) -> Check {
    let package = read(folder, name)?;
    let program = &package.program;
    let mut expected_arch = arch(&case["arch_params"])?;
    expected_arch.name.clone_from(&program.arch.name);
    equal("the machine", &program.arch, &expected_arch)?;
    let size = package.model.as_ref().map(|model| model.prog.size);
    equal("the size", size, case["program_bytes"].as_u64())?;
    let estimate = estimate(program, false);
    for (key, found) in [
        ("aggregate_cycles", estimate.aggregate.cycles),
        ("aggregate_energy", estimate.aggregate.energy),
        ("reported_execution_cycles", estimate.reported.cycles),
        ("reported_execution_energy", estimate.reported.energy),
    ] {
        equal(key, found, number(case, key)?)?;
    }
    outputs(case, &package)
}

/// Runs the program as the host does, with and without its probe.
fn outputs(case: &Value, package: &Package) -> Check {
    let failed = |problem: Diagnostic| problem.to_string();
    let program = &package.program;
    let arch = &program.arch;
    let model = package.model.as_ref().ok_or("no description")?;
    let inputs =
        list(&case["inputs_hex"]).map(|image| read_data(&hex(image)?, arch).map_err(failed));
    let inputs: Vec<Vec<i32>> = inputs.collect::<Check<_>>()?;
    equal("the number of inputs", inputs.len(), model.inputs.len())?;
    for flush_probe in [false, true] {
        let driver = Driver { flush_probe, ..package.driver() };
        let mut executor = Executor::new(arch);
        let returned = driver.run(&mut executor, program, |state| {
            package.load(state)?;
            let pieces = model.inputs.iter().zip(&inputs);
            pieces
                .into_iter()
                .try_for_each(|(at, image)| state.write(Memory::Dram0, at.base, image))
        });
        equal("the return of the probe", returned.map_err(failed)?, true)?;
        for output in list(&case["outputs"]) {
            let expected = hex(&output["hex"])?;
            let mut found = vec![0; expected.len() / arch.data_type.bytes()];
            let base = number(output, "base")?;
            executor.state.read(Memory::Dram0, base, &mut found).map_err(failed)?;
            let what = format!("output {:?}", text(output, "name"));
            same_bytes(&what, &write_data(&found, arch), &expected)?;
        }
    }
    Ok(())
}
