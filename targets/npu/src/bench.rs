//! How fast the readers, the writers, the timing, the compiler and the simulator are, how well cycles
//! agree with traces, and how good schedules are.

mod cores;
mod models;
mod replay;
mod run;
mod schedule;
mod text;

use quincunx_contract::OptionInfo;
use quincunx_contract::bench::Suite;
use quincunx_diag::{Diagnostic, Result};
use std::path::{Path, PathBuf};

/// The suites of this target.
pub(crate) static SUITES: &[Suite] = &[TEXT, REPLAY, SCHEDULE, CORES, RUN];

const DIR: OptionInfo = OptionInfo::text("dir", "folder with the texts", "");

const TEXT: Suite = Suite {
    name: "text",
    doc: "reading and printing of assembly text and traces",
    options: &[DIR],
    run: text::measure,
};

const REPLAY: Suite = Suite {
    name: "replay",
    doc: "cycles of assembly texts compared with the traces beside them",
    options: &[DIR],
    run: replay::measure,
};

const MODELS: OptionInfo =
    OptionInfo::text("models", "folder with resnet34.onnx and resnet50.onnx", "");

const SCHEDULE: Suite = Suite {
    name: "schedule",
    doc: "cycles of compiled networks, and how long compiling takes",
    options: &[
        MODELS,
        OptionInfo::text(
            "rows",
            "networks and images of a batch, separated by commas, such as resnet50/b4; ResNets of 1 to 64 \
             images without",
            "",
        ),
        OptionInfo::one_of(
            "effort",
            "How much is searched",
            "default",
            &["fast", "default", "max"],
        ),
    ],
    run: schedule::measure,
};

const CORES: Suite = Suite {
    name: "cores",
    doc: "ResNet-50 on 16 images divided among 2 and 4 cores",
    options: &[MODELS],
    run: cores::measure,
};

const RUN: Suite = Suite {
    name: "run",
    doc: "a compiled ResNet-50 in the fast simulator, on one thread",
    options: &[MODELS],
    run: run::measure,
};

/// The files of a folder in the order of their names.
///
/// # Errors
/// `Q4085` without a folder, `Q4086` for one that cannot be read.
fn files(folder: &str) -> Result<Vec<PathBuf>> {
    if folder.is_empty() {
        return Err(Diagnostic::usage("Q4085", "option dir is empty, expected a folder")
            .help("give the folder with the texts, as in --dir DIR"));
    }
    let unreadable =
        |error: std::io::Error| Diagnostic::system("Q4086", "read it", &error).in_file(folder);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// The bytes of a file.
///
/// # Errors
/// `Q4086` when it cannot be read.
fn bytes(path: &Path) -> Result<Vec<u8>> {
    let unreadable = |error: std::io::Error| {
        Diagnostic::system("Q4086", "read it", &error).in_file(path.to_string_lossy())
    };
    std::fs::read(path).map_err(unreadable)
}
