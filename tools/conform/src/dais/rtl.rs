//! The folder `rtl`: bits on the ports of generated logic, `X_in.hex` and `X_out.hex`, for programs
//! of the other folders. `manifest.json` names the program and the width of every number.

use super::{Check, read_json};
use crate::folder;
use crate::report::Report;
use quincunx_dais::files::Pipeline;
use quincunx_dais::rtl::{Design, Field, Language, Vectors, emit_with_vectors};
use quincunx_diag::Result;
use quincunx_num::Int;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Runs every case: our netlist on the vectors, and the Verilog made of it in Icarus Verilog, which
/// is a case of its own that is skipped where the simulator is missing.
pub(super) fn run(path: &Path, report: &mut Report) -> Result<()> {
    let files = folder::list(path)?.files;
    let manifest = manifest(&path.join("manifest.json"));
    let mut stems: BTreeSet<String> =
        files.iter().filter_map(|name| Some(name.strip_suffix("_in.hex")?.to_owned())).collect();
    stems.extend(files.iter().filter_map(|name| Some(name.strip_suffix("_out.hex")?.to_owned())));
    let simulator = Command::new("iverilog").arg("-V").output().is_ok();
    for stem in stems {
        let case = manifest.as_ref().map_err(String::clone).and_then(|manifest| {
            let found = manifest.iter().find(|about| about.stem() == stem);
            found.ok_or_else(|| "manifest.json does not name it".to_owned())?.load(path, &stem)
        });
        report.case(&stem, case.as_ref().map_err(String::clone).and_then(Case::evaluate));
        let simulated = format!("{stem} in Icarus Verilog");
        match case {
            Ok(case) if simulator => report.case(&simulated, case.simulate()),
            _ if simulator => report.case(&simulated, Err("it cannot be read".to_owned())),
            _ => report.skip(&simulated, "iverilog is not installed"),
        }
    }
    Ok(())
}

/// What the manifest says about a case with vectors.
struct About {
    /// Folder and name of the program.
    program: String,
    in_widths: Vec<u64>,
    out_widths: Vec<u64>,
}

/// The cases of the manifest that have vectors.
fn manifest(path: &Path) -> Check<Vec<About>> {
    let value: serde_json::Value = serde_json::from_str(&folder::read_text(path)?)
        .map_err(|error| format!("manifest.json: {error}"))?;
    let object = value.as_object().ok_or("manifest.json: expected an object")?;
    let widths = |value: &serde_json::Value| -> Option<Vec<u64>> {
        value.as_array()?.iter().map(serde_json::Value::as_u64).collect()
    };
    let about = object.iter().filter_map(|(program, about)| {
        let (in_widths, out_widths) = (widths(&about["in_widths"])?, widths(&about["out_widths"])?);
        Some(About { program: program.clone(), in_widths, out_widths })
    });
    Ok(about.collect())
}

impl About {
    fn stem(&self) -> &str {
        self.program.rsplit('/').next().unwrap_or_default()
    }

    fn load(&self, path: &Path, stem: &str) -> Check<Case> {
        // Programs lie in the folders beside this one.
        let parts = self.program.split('/');
        if parts.clone().any(|part| part.is_empty() || part.starts_with('.')) {
            return Err(format!("{:?} is not the name of a program", self.program));
        }
        let program = path.join("..").join(format!("{}.json", self.program));
        let pipeline = read_json(&folder::read_text(&program)?)?;
        let design = Design::new(&pipeline).map_err(|problem| problem.to_string())?;
        same_widths("inputs", design.inputs(), &self.in_widths)?;
        same_widths("outputs", design.outputs(), &self.out_widths)?;
        let numbers = |ending: &str| numbers(&path.join(format!("{stem}_{ending}.hex")));
        let vectors = Vectors { inputs: numbers("in")?, outputs: numbers("out")? };
        let (inputs, outputs) = (vectors.inputs.len(), vectors.outputs.len());
        if inputs != outputs || inputs == 0 {
            return Err(format!("{inputs} inputs but {outputs} outputs"));
        }
        Ok(Case { pipeline, design, vectors })
    }
}

fn same_widths(what: &str, fields: &[Field], expected: &[u64]) -> Check {
    let found: Vec<u64> = fields.iter().map(|field| field.width().into()).collect();
    match found == expected {
        true => Ok(()),
        false => Err(format!("the {what} have widths {found:?}, expected {expected:?}")),
    }
}

/// One hexadecimal number per line.
fn numbers(path: &Path) -> Check<Vec<Int>> {
    let text = folder::read_text(path)?;
    let number = |line: &str| {
        Int::from_str_radix(line.trim(), 16).map_err(|_| format!("{line:?} is not a number"))
    };
    text.lines().map(number).collect()
}

struct Case {
    pipeline: Pipeline,
    design: Design,
    vectors: Vectors,
}

impl Case {
    fn evaluate(&self) -> Check {
        let pairs = self.vectors.inputs.iter().zip(&self.vectors.outputs);
        for (sample, (input, expected)) in pairs.enumerate() {
            let found = self.design.evaluate(input);
            if found != *expected {
                let (found, expected) = (found.in_radix(16), expected.in_radix(16));
                return Err(format!("sample {sample} is {found}, expected {expected}"));
            }
        }
        Ok(())
    }

    fn simulate(&self) -> Check {
        let files =
            emit_with_vectors(&self.pipeline, Language::Verilog, 0, "case_0", &self.vectors)
                .map_err(|problem| problem.to_string())?;
        let place = tempfile::tempdir().map_err(|error| error.to_string())?;
        for file in &files {
            let path = place.path().join(&file.name);
            std::fs::write(path, &file.bytes).map_err(|error| error.to_string())?;
        }
        let run = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).current_dir(place.path()).output();
            let output = output.map_err(|error| format!("{program}: {error}"))?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.success() { Ok(text) } else { Err(format!("{program}: {errors}")) }
        };
        run("iverilog", &["-g2001", "-o", "case_0.vvp", "case_0.v", "case_0_tb.v"])?;
        let said = run("vvp", &["-n", "case_0.vvp"])?;
        let verdict = format!("PASS case_0: {} vectors", self.vectors.inputs.len());
        if said.lines().any(|line| line == verdict) { Ok(()) } else { Err(said) }
    }
}
