//! The backend tests of the `onnx` package: what we import computes what the standard says.
//!
//! Every case is run. A case that is refused must have a line in `backend_skips.txt`; a case whose
//! numbers are wrong must have a line with its exact name. A line that excuses nothing fails the
//! test, so the list only shrinks.

use quincunx_diag::{Class, Diagnostic};
use quincunx_graph::execute::{Keep, float};
use quincunx_import::{Options, read_onnx};
use quincunx_tensor::{Tensor, Tensors, npy};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Cases that pass today; only ever raised.
const FLOOR: usize = 950;

/// Relative and absolute tolerance of float results, as in the package's own runner.
const TOLERANCE: (f64, f64) = (1e-3, 1e-5);

/// The Python to use, or `None` (visibly) when it lacks onnx.
#[expect(clippy::print_stderr, reason = "a skipped test must be seen")]
fn python() -> Option<String> {
    let python = std::env::var("QUINCUNX_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let works = Command::new(&python).args(["-c", "import onnx"]).output();
    if works.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    let required = std::env::var("QUINCUNX_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
    assert!(!required, "{python} with onnx is required");
    eprintln!("skipped: {python} with onnx not found");
    None
}

/// Writes the cases of a command of `backend.py` and returns their folders in order.
fn cases(python: &str, command: &str, folder: &Path) -> Vec<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/backend.py");
    let output = Command::new(python).arg(script).arg(command).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut cases: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    cases
}

/// Why a case does not pass.
enum Failure {
    /// It was refused with a diagnostic of class `Unsupported`.
    Refused(String),
    /// Anything else.
    Wrong(String),
}

impl From<Diagnostic> for Failure {
    fn from(problem: Diagnostic) -> Self {
        Failure::from(vec![problem])
    }
}

impl From<Vec<Diagnostic>> for Failure {
    fn from(problems: Vec<Diagnostic>) -> Self {
        let text = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        if problems.iter().all(|p| p.class() == Class::Unsupported) {
            Failure::Refused(text)
        } else {
            Failure::Wrong(text)
        }
    }
}

fn run(case: &Path) -> Result<(), Failure> {
    let model = case.join("model.onnx");
    let graph = read_onnx(fs::read(&model).unwrap().into(), &Options::beside(&model))?;
    let problems = graph.verify();
    if !problems.is_empty() {
        return Err(Failure::Wrong(format!("the graph is invalid: {problems:?}")));
    }
    let mut sets = 0;
    while case.join(format!("in_{sets}.npz")).exists() {
        let inputs = read_tensors(&case.join(format!("in_{sets}.npz")));
        let expected = read_tensors(&case.join(format!("out_{sets}.npz")));
        let found = float(&graph, &inputs, Keep::Outputs)?;
        for (name, expected) in &expected {
            let found = found
                .get(name)
                .ok_or_else(|| Failure::Wrong(format!("output \"{name}\" is absent")))?;
            compare(name, found, expected).map_err(Failure::Wrong)?;
        }
        sets += 1;
    }
    if sets == 0 {
        return Err(Failure::Refused("its data is of types without a file form here".to_owned()));
    }
    Ok(())
}

fn read_tensors(path: &Path) -> Tensors {
    npy::read_npz(fs::read(path).unwrap())
        .unwrap_or_else(|problem| panic!("{}: {problem}", path.display()))
}

fn compare(name: &str, found: &Tensor, expected: &Tensor) -> Result<(), String> {
    if (found.dtype(), found.shape()) != (expected.dtype(), expected.shape()) {
        return Err(format!(
            "output \"{name}\" is {}{:?}, expected {}{:?}",
            found.dtype(),
            found.shape(),
            expected.dtype(),
            expected.shape()
        ));
    }
    if !expected.dtype().is_float() {
        return if found.bytes() == expected.bytes() {
            Ok(())
        } else {
            Err(format!(
                "output \"{name}\" is {:?}, expected {:?}",
                found.to_f64(),
                expected.to_f64()
            ))
        };
    }
    let (relative, absolute) = TOLERANCE;
    let near = |a: f64, b: f64| {
        a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= absolute + relative * b.abs()
    };
    let (found, expected) = (found.to_f64(), expected.to_f64());
    match (0..found.len()).find(|&i| !near(found[i], expected[i])) {
        None => Ok(()),
        Some(i) => {
            Err(format!("output \"{name}\" element {i} is {}, expected {}", found[i], expected[i]))
        }
    }
}

/// One line of the skip list: `pattern: reason`. A pattern is the name of a case, `op NAME` for
/// cases with an operator, or `type NAME` for cases with an element type.
struct Skip {
    pattern: String,
    excused: usize,
}

impl Skip {
    fn is_exact(&self) -> bool {
        !self.pattern.contains(' ')
    }

    fn covers(&self, name: &str, facts: &[String], failure: &Failure) -> bool {
        match failure {
            _ if self.is_exact() => self.pattern == name,
            Failure::Refused(_) => facts.contains(&self.pattern),
            Failure::Wrong(_) => false,
        }
    }
}

fn skips() -> Vec<Skip> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/backend_skips.txt");
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| match line.split_once(": ") {
            Some((pattern, reason)) if !reason.trim().is_empty() => {
                Skip { pattern: pattern.to_owned(), excused: 0 }
            }
            _ => panic!("the line {line:?} has no reason"),
        })
        .collect()
}

#[test]
#[expect(clippy::print_stderr, reason = "the counts are the result of this test")]
fn node_cases() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut skips = skips();
    let (mut passed, mut skipped, mut failed) = (0, 0, Vec::new());
    for case in cases(&python, "cases", folder.path()) {
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        let facts = fs::read_to_string(case.join("facts.txt")).unwrap();
        let facts: Vec<String> = facts.lines().map(str::to_owned).collect();
        let Err(failure) = run(&case) else {
            passed += 1;
            continue;
        };
        let mut excused = false;
        for skip in skips.iter_mut().filter(|skip| skip.covers(&name, &facts, &failure)) {
            skip.excused += 1;
            excused = true;
        }
        match failure {
            _ if excused => skipped += 1,
            Failure::Refused(why) => failed.push(format!("{name}: refused: {why}")),
            Failure::Wrong(why) => failed.push(format!("{name}: {why}")),
        }
    }
    eprintln!("backend: {passed} passed, {} failed, {skipped} skipped", failed.len());
    for skip in skips.iter().filter(|skip| skip.excused == 0) {
        failed.push(format!("backend_skips.txt: \"{}\" excuses no case; remove it", skip.pattern));
    }
    assert!(failed.is_empty(), "{} problems:\n{}", failed.len(), failed.join("\n"));
    assert!(passed >= FLOOR, "{passed} cases passed, expected at least {FLOOR}");
}

/// Networks of the `onnx` package with weights of one number each. They have one data set each.
#[test]
fn light_models() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let cases = cases(&python, "light", folder.path());
    assert!(cases.len() >= 9, "{cases:?}");
    for case in cases {
        if let Err(Failure::Refused(why) | Failure::Wrong(why)) = run(&case) {
            panic!("{}: {why}", case.display());
        }
    }
}
