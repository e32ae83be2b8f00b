//! Tests that compare with what Python packages compute.

use std::process::Command;

/// The Python to use, or `None` (visibly) when it lacks one of these modules, which commas
/// separate. With `QUINCUNX_REQUIRE_TOOLS=1` that is a failure.
#[expect(clippy::print_stderr, reason = "a skipped test must be seen")]
pub(crate) fn python(modules: &str) -> Option<String> {
    let python = std::env::var("QUINCUNX_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let works = Command::new(&python).args(["-c", &format!("import {modules}")]).output();
    if works.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    let required = std::env::var("QUINCUNX_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
    assert!(!required, "{python} with {modules} is required");
    eprintln!("skipped: {python} with {modules} not found");
    None
}
