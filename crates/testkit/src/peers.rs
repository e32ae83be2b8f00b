//! Tools and models of others that tests compare with. Where they are missing a test is skipped,
//! visibly; `QUINCUNX_REQUIRE_TOOLS=1` makes that a failure.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The Python of `$QUINCUNX_PYTHON`, or else `python3`, if it has these modules, which commas
/// separate.
///
/// # Panics
/// If it is required and lacks one.
pub fn python(modules: &str) -> Option<String> {
    let python = std::env::var("QUINCUNX_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let works = Command::new(&python).args(["-c", &format!("import {modules}")]).output();
    let works = works.is_ok_and(|output| output.status.success());
    there(works.then_some(python), &format!("Python with {modules}"))
}

/// The folder that `tests/models/fetch.py` fills: `$QUINCUNX_MODELS`, or `models` in the build folder
/// of cargo.
///
/// # Panics
/// If it is required and missing.
pub fn models() -> Option<PathBuf> {
    let build = || match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
    };
    let models = std::env::var_os("QUINCUNX_MODELS");
    let models = models.map_or_else(|| build().join("models"), PathBuf::from);
    there(models.is_dir().then_some(models), "the folder that tests/models/fetch.py fills")
}

#[expect(clippy::print_stderr, reason = "a skipped test must be seen")]
fn there<T>(found: Option<T>, what: &str) -> Option<T> {
    if found.is_none() {
        let required = std::env::var("QUINCUNX_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
        assert!(!required, "{what} is required");
        eprintln!("skipped: {what} is missing");
    }
    found
}
