//! How fast programs run: `quincunx bench dais:run`.

use super::folder;
use crate::program::Pipeline;
use crate::read::read_file;
use crate::simulate::Fast;
use quincunx_contract::bench::{LEVEL, Row, Run, Suite};
use quincunx_contract::{File, OptionInfo};
use quincunx_diag::{Diagnostic, Result, first};
use quincunx_num::Level;
use quincunx_tensor::npy;
use std::fs;
use std::path::{Path, PathBuf};

/// Samples of a measurement; those of a file are repeated.
const SAMPLES: usize = 1 << 16;

/// How the samples of a program are named after it.
const INPUTS: &str = "_in.npy";

/// Endings of programs, of which the first that is there counts.
const PROGRAMS: [&str; 6] = [".json", ".json.gz", ".bin", ".v0.bin", ".dais", ".dasm"];

pub(super) const SUITE: Suite = Suite {
    name: "run",
    doc: "programs with samples beside them, in the prepared simulator",
    options: &[
        OptionInfo::text(
            "dir",
            "The folder of programs X.json or X.bin with their samples X_in.npy",
            "",
        ),
        LEVEL,
    ],
    run: measure,
};

fn measure(run: &Run) -> Result<Vec<Row>> {
    let level = run.level()?;
    let mut rows = Vec::new();
    for (name, program) in programs(folder(run, "dir")?)? {
        let inputs = samples(&program.with_file_name(format!("{name}{INPUTS}")))?;
        let file = program.display().to_string();
        let named = |problem: Diagnostic| problem.name_file(&file);
        let pipeline = read(&program)?;
        rows.extend(measure_one(run, name, &pipeline, inputs, level).map_err(named)?);
    }
    Ok(rows)
}

/// Floats of all samples go in and floats come out; conversion both ways is in the time, and so
/// are the starts of threads. The program was prepared before.
fn measure_one(
    run: &Run,
    name: String,
    pipeline: &Pipeline,
    inputs: Vec<f64>,
    level: Level,
) -> Result<Vec<Row>> {
    let Some(fast) = Fast::with(pipeline, &[], level)? else {
        let message = "the program needs integers of more than 64 bits and cannot be prepared";
        return Err(Diagnostic::unsupported("Q1153", message));
    };
    if !inputs.len().is_multiple_of(fast.inputs()) {
        let (found, count) = (inputs.len(), fast.inputs());
        let message =
            format!("{found} numbers are not a whole number of samples of {count} inputs");
        return Err(Diagnostic::invalid("Q1152", message));
    }
    let inputs: Vec<f64> = inputs.iter().copied().cycle().take(SAMPLES * fast.inputs()).collect();
    fast.run(SAMPLES, &inputs, run.threads)?;
    let seconds =
        run.seconds(|| fast.run(SAMPLES, &inputs, run.threads).is_ok_and(|out| !out.is_empty()));
    let operations: usize = pipeline.stages.iter().map(|stage| stage.operations.len()).sum();
    let rate = SAMPLES as f64 / seconds;
    let row = Row::named(&name);
    Ok(vec![
        row("ops_per_second", operations as f64 * rate, "op/s", 0),
        row("samples_per_second", rate, "sample/s", 0),
    ])
}

/// Names and files of the programs of a folder that have samples, in the order of their names.
fn programs(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let unreadable = |problem: std::io::Error| {
        Diagnostic::system("Q1151", "read the folder", &problem).in_file(folder.to_string_lossy())
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        let Some(stem) = name.to_str().and_then(|name| name.strip_suffix(INPUTS)) else { continue };
        let file = |ending: &&str| folder.join(format!("{stem}{ending}"));
        if let Some(path) = PROGRAMS.iter().map(file).find(|path| path.is_file()) {
            found.push((stem.to_owned(), path));
        }
    }
    if found.is_empty() {
        let message = format!("the folder has no program X.json or X.bin with samples X{INPUTS}");
        return Err(Diagnostic::invalid("Q1151", message).in_file(folder.to_string_lossy()));
    }
    found.sort();
    Ok(found)
}

fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|problem| {
        Diagnostic::system("Q1152", "read the file", &problem).in_file(path.display().to_string())
    })
}

fn read(path: &Path) -> Result<Pipeline> {
    let file = File::new(path.display().to_string(), read_bytes(path)?);
    let read = read_file(&file, None, false);
    read.map(|(pipeline, ..)| pipeline).map_err(first)
}

fn samples(path: &Path) -> Result<Vec<f64>> {
    let file = path.display().to_string();
    let tensor = npy::read_npy(read_bytes(path)?).map_err(|problem| problem.name_file(&file))?;
    if tensor.is_empty() && tensor.shape().first() == Some(&0) {
        return Err(Diagnostic::invalid("Q1152", "it holds no samples").in_file(file));
    }
    Ok(tensor.to_f64())
}
