//! How good and how fast this target is: `quincunx bench dais:cmvm` and others.

mod cmvm;
mod compile;
mod networks;
mod run;

use quincunx_contract::OptionInfo;
use quincunx_contract::bench::{Run, Suite};
use quincunx_diag::{Diagnostic, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The suites of this target.
pub(crate) static SUITES: &[Suite] =
    &[cmvm::KERNELS, cmvm::RANDOM, compile::SUITE, networks::SUITE, run::SUITE];

const EFFORT: OptionInfo = OptionInfo::one_of(
    "effort",
    "How hard to search for few adders",
    "default",
    &["fast", "default", "max"],
);

const OBJECTIVE: OptionInfo = OptionInfo::one_of(
    "objective",
    "What products have little of first",
    "adders",
    &["adders", "bits", "lut", "depth"],
);

const DEPTH_SLACK: OptionInfo = OptionInfo::whole(
    "depth-slack",
    "Adder levels of a product above the fewest possible; -1 for any number",
    "-1",
    -1..=1000,
);

/// The folder that an option names.
///
/// # Errors
/// `Q1150` if it names none.
fn folder<'a>(run: &'a Run, option: &str) -> Result<&'a Path> {
    let folder = run.options.get(option);
    if folder.is_empty() {
        let message = format!("option {option} is empty, expected a folder");
        return Err(Diagnostic::usage("Q1150", message)
            .help(format!("name the folder, as in --{option} DIR")));
    }
    Ok(Path::new(folder))
}

/// The files of such an extension in the folder that an option names, in the order of their names.
///
/// # Errors
/// As [`folder`]; the code if the folder cannot be read or has no such file.
fn files(run: &Run, option: &str, extension: &str, code: &'static str) -> Result<Vec<PathBuf>> {
    let folder = folder(run, option)?;
    let name = folder.to_string_lossy();
    let failed = |problem: std::io::Error| {
        Diagnostic::system(code, "read the folder", &problem).in_file(&*name)
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|found| found == extension) {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        let problem = Diagnostic::invalid(code, format!("the folder has no .{extension} files"));
        return Err(problem.in_file(&*name).help(format!("name another folder with --{option}")));
    }
    paths.sort();
    Ok(paths)
}
