//! The backend tests of the `onnx` package: what we import computes what the standard says.
//!
//! Every case is run. A case that is refused must have a line in `backend_skips.txt`; a case whose
//! numbers are wrong must have a line with its exact name. A line that excuses nothing fails the
//! test, so the list only shrinks.

use quincunx_diag::{Class, Diagnostic};
use quincunx_graph::Graph;
use quincunx_graph::execute::{Keep, Session, Settings, float};
use quincunx_import::{Options, read_onnx};
use quincunx_tensor::{DType, Narrow, Tensor, Tensors, npy};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Cases that pass today; only ever raised.
const FLOOR: usize = 1283;

/// Cases converted to older opsets that pass today; only ever raised.
const OLDER_FLOOR: usize = 386;

/// Relative and absolute tolerance of float results, as in the package's own runner.
const TOLERANCE: (f64, f64) = (1e-3, 1e-5);

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

/// What computes the outputs of a graph.
#[derive(Clone, Copy, Debug)]
enum Executor {
    /// The definition, which is slow.
    Float,
    /// Prepared execution.
    Session,
}

impl Executor {
    fn outputs(self, graph: &Graph, inputs: &Tensors) -> Result<Tensors, Diagnostic> {
        match self {
            Executor::Float => float(graph, inputs, Keep::Outputs),
            Executor::Session => Session::new(graph, Settings::default())?.run(inputs),
        }
    }
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

/// Compares what an executor makes of the graph with what the case expects.
fn run(case: &Path, executors: &[Executor]) -> Result<(), Failure> {
    let model = case.join("model.onnx");
    let graph = read_onnx(fs::read(&model).unwrap().into(), &Options::beside(&model))?;
    let problems = graph.verify();
    if !problems.is_empty() {
        return Err(Failure::Wrong(format!("the graph is invalid: {problems:?}")));
    }
    let types = fs::read_to_string(case.join("types.txt")).unwrap_or_default();
    let mut sets = 0;
    while case.join(format!("in_{sets}.npz")).exists() {
        let inputs = inputs(&graph, read_tensors(&case.join(format!("in_{sets}.npz"))))?;
        let expected = read_tensors(&case.join(format!("out_{sets}.npz")));
        for executor in executors {
            let found = executor.outputs(&graph, &inputs)?;
            for (name, expected) in &expected {
                let wrong = |what| Failure::Wrong(format!("{executor:?}: {what}"));
                let found =
                    found.get(name).ok_or_else(|| wrong(format!("output \"{name}\" is absent")))?;
                let found = widened(name, found, &types).map_err(wrong)?;
                compare(name, &found, expected).map_err(wrong)?;
            }
        }
        sets += 1;
    }
    if sets == 0 {
        return Err(Failure::Refused("its data is of types without a file form here".to_owned()));
    }
    Ok(())
}

/// Inputs of types that numpy lacks are stored in wider ones.
fn inputs(graph: &Graph, stored: Tensors) -> Result<Tensors, Diagnostic> {
    let convert = |(name, tensor): (String, Tensor)| {
        let wanted = graph.value_named(&name).map(|id| graph[id].dtype);
        let tensor = match wanted {
            Some(DType::Narrow(narrow)) if tensor.dtype() == narrow.wide() => {
                tensor.narrow(narrow, narrow.overflow())?
            }
            _ => tensor,
        };
        Ok((name, tensor))
    };
    stored.into_iter().map(convert).collect()
}

/// An output whose type numpy lacks, in the type it is stored as; `types` has what it must be.
fn widened(name: &str, found: &Tensor, types: &str) -> Result<Tensor, String> {
    let Some(expected) = types.lines().find_map(|line| line.strip_prefix(&format!("{name} ")))
    else {
        return Ok(found.clone());
    };
    let names = [
        ("bfloat16", Narrow::Bf16),
        ("float8_e4m3fn", Narrow::E4M3),
        ("float8_e4m3fnuz", Narrow::E4M3Fnuz),
        ("float8_e5m2", Narrow::E5M2),
        ("float8_e5m2fnuz", Narrow::E5M2Fnuz),
        ("float8_e8m0fnu", Narrow::E8M0),
        ("float4_e2m1fn", Narrow::E2M1),
        ("int4", Narrow::I4),
        ("uint4", Narrow::U4),
        ("int2", Narrow::I2),
        ("uint2", Narrow::U2),
    ];
    let wanted = names.iter().find(|(name, _)| *name == expected).map(|row| row.1);
    if wanted.map(DType::Narrow) != Some(found.dtype()) {
        return Err(format!("output \"{name}\" is {}, expected {expected}", found.dtype()));
    }
    Ok(found.widen())
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
    reason: String,
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
                Skip { pattern: pattern.to_owned(), reason: reason.to_owned(), excused: 0 }
            }
            _ => panic!("the line {line:?} has no reason"),
        })
        .collect()
}

/// What became of the cases of a command of `backend.py`.
struct Outcome {
    passed: usize,
    failed: Vec<String>,
}

/// The counts and what was skipped why. Written past the harness, which keeps what passing tests
/// print.
fn report(command: &str, outcome: &Outcome, skipped: usize, skips: &[Skip]) {
    let Outcome { passed, failed } = outcome;
    let mut text =
        format!("{command}: {passed} passed, {} failed, {skipped} skipped\n", failed.len());
    for Skip { pattern, reason, excused } in skips.iter().filter(|skip| skip.excused > 0) {
        text += &format!("{command}: skipped {excused} of \"{pattern}\": {reason}\n");
    }
    std::io::stderr().write_all(text.as_bytes()).unwrap();
}

/// Runs the cases. `base` gives the name that the skip list has for a case.
fn run_cases(command: &str, skips: &mut [Skip], base: impl Fn(&str) -> &str) -> Option<Outcome> {
    let python = quincunx_testkit::python("onnx")?;
    let folder = tempfile::tempdir().unwrap();
    let (mut passed, mut skipped, mut failed) = (0, 0, Vec::new());
    for case in cases(&python, command, folder.path()) {
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        let facts = fs::read_to_string(case.join("facts.txt")).unwrap();
        let facts: Vec<String> = facts.lines().map(str::to_owned).collect();
        let Err(failure) = run(&case, &[Executor::Float, Executor::Session]) else {
            passed += 1;
            continue;
        };
        let mut excused = false;
        for skip in skips.iter_mut().filter(|skip| skip.covers(base(&name), &facts, &failure)) {
            skip.excused += 1;
            excused = true;
        }
        match failure {
            _ if excused => skipped += 1,
            Failure::Refused(why) => failed.push(format!("{name}: refused: {why}")),
            Failure::Wrong(why) => failed.push(format!("{name}: {why}")),
        }
    }
    let outcome = Outcome { passed, failed };
    report(command, &outcome, skipped, skips);
    Some(outcome)
}

#[test]
fn node_cases() {
    let mut skips = skips();
    let Some(Outcome { passed, mut failed }) = run_cases("cases", &mut skips, |name| name) else {
        return;
    };
    for skip in skips.iter().filter(|skip| skip.excused == 0) {
        failed.push(format!("backend_skips.txt: \"{}\" excuses no case; remove it", skip.pattern));
    }
    assert!(failed.is_empty(), "{} problems:\n{}", failed.len(), failed.join("\n"));
    assert!(passed >= FLOOR, "{passed} cases passed, expected at least {FLOOR}");
}

/// The same cases in the forms of older opsets. They are excused as the original is.
#[test]
fn node_cases_of_older_opsets() {
    let base = |name: &str| name.rsplit_once("_opset").map_or("", |(base, _)| base).len();
    let Some(outcome) = run_cases("versions", &mut skips(), |name| &name[..base(name)]) else {
        return;
    };
    let Outcome { passed, failed } = outcome;
    assert!(failed.is_empty(), "{} problems:\n{}", failed.len(), failed.join("\n"));
    assert!(passed >= OLDER_FLOOR, "{passed} cases passed, expected at least {OLDER_FLOOR}");
}

/// Networks of the `onnx` package with weights of one number each. They have one data set each.
#[test]
fn light_models() {
    let Some(python) = quincunx_testkit::python("onnx") else { return };
    let folder = tempfile::tempdir().unwrap();
    let cases = cases(&python, "light", folder.path());
    assert!(cases.len() >= 9, "{cases:?}");
    let (next, threads) =
        (AtomicUsize::new(0), thread::available_parallelism().map_or(1, usize::from));
    let work = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(Failure::Refused(why) | Failure::Wrong(why)) =
                run(case, &[Executor::Session])
            {
                panic!("{}: {why}", case.display());
            }
        }
    };
    // The scope panics when one of its threads has.
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
}
