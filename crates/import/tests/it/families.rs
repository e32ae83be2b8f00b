//! Operators with random attributes and shapes, and quantised networks, compute what onnxruntime
//! computes.
//!
//! `families.py` makes at least 20 small models per operator, `quantised.py` networks that
//! onnxruntime quantises, `spelled.py` functions in simple operators; each is imported and run here.

use quincunx_graph::Graph;
use quincunx_graph::execute::{Keep, Session, Settings, float};
use quincunx_graph::passes::{fold_constants, recognise_functions};
use quincunx_import::{Options, read_onnx};
use quincunx_tensor::{Tensor, Tensors, npy};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Writes the models of all families into a folder; `None` (visibly) without onnxruntime.
fn make(script: &str, folder: &Path) -> Option<()> {
    let python = quincunx_testkit::python("onnx, onnxruntime")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(script);
    let output = Command::new(python).arg(script).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(())
}

/// How far results may be from onnxruntime's.
enum Tolerance {
    /// Equal.
    Exact,
    /// Integers differ by 1 at most, floats by a rounding.
    Codes,
    /// Over the largest magnitude of the output.
    Relative(f64),
}

impl Tolerance {
    fn parse(text: &str) -> Tolerance {
        match text {
            "exact" => Tolerance::Exact,
            "codes" => Tolerance::Codes,
            number => Tolerance::Relative(number.parse().unwrap()),
        }
    }

    /// Largest difference allowed for outputs of this magnitude.
    fn bound(&self, is_float: bool, top: f64) -> f64 {
        match (self, is_float) {
            (Tolerance::Exact, _) | (Tolerance::Relative(_), false) => 0.0,
            (Tolerance::Codes, false) => 1.0,
            (Tolerance::Codes, true) => 1e-5 * top,
            (Tolerance::Relative(bound), true) => bound * top,
        }
    }
}

fn compare(found: &Tensor, expected: &Tensor, tolerance: &Tolerance) -> Result<(), String> {
    if (found.dtype(), found.shape()) != (expected.dtype(), expected.shape()) {
        return Err(format!(
            "{}{:?}, expected {}{:?}",
            found.dtype(),
            found.shape(),
            expected.dtype(),
            expected.shape()
        ));
    }
    let is_float = expected.dtype().is_float();
    let (found, expected) = (found.to_f64(), expected.to_f64());
    let top = expected.iter().fold(0.0, |top: f64, v| top.max(v.abs()));
    let bound = tolerance.bound(is_float, top);
    // A NaN is near nothing.
    let near = |i: usize| (found[i] - expected[i]).abs() <= bound;
    match (0..found.len()).find(|&i| !near(i)) {
        None => Ok(()),
        Some(i) => Err(format!("element {i} is {}, expected {}", found[i], expected[i])),
    }
}

fn read(path: &Path) -> Tensors {
    npy::read_npz(fs::read(path).unwrap())
        .unwrap_or_else(|problem| panic!("{}: {problem}", path.display()))
}

/// What is done with a graph of a family before it is run.
type Prepare = fn(Graph, &str) -> Result<Graph, String>;

fn run(
    folder: &Path,
    [name, family]: [&str; 2],
    tolerance: &Tolerance,
    prepare: Prepare,
) -> Result<(), String> {
    let path = |ending: &str| folder.join(format!("{name}.{ending}"));
    let file = fs::read(path("onnx")).unwrap();
    let graph = read_onnx(file.into(), &Options::default()).map_err(|problems| {
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    })?;
    let graph = prepare(graph, family)?;
    if let Some(problem) = graph.verify().first() {
        return Err(format!("the graph is invalid: {problem}"));
    }
    let (inputs, outputs) = (read(&path("in.npz")), read(&path("out.npz")));
    let reference = float(&graph, &inputs, Keep::Outputs);
    let prepared = Session::new(&graph, Settings::default()).and_then(|s| s.run(&inputs));
    for (who, found) in [("reference", reference), ("prepared", prepared)] {
        let found = found.map_err(|problem| format!("{who}: {problem}"))?;
        for (output, expected) in &outputs {
            let wrong = |why: &str| format!("{who}: output \"{output}\": {why}");
            let found = found.get(output).ok_or_else(|| wrong("is absent"))?;
            compare(found, expected, tolerance).map_err(|why| wrong(&why))?;
        }
    }
    Ok(())
}

#[expect(clippy::print_stderr, reason = "the counts are the result of this test")]
fn check(script: &str, least: usize, prepare: Prepare) {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = make(script, folder.path()) else { return };
    let lines = fs::read_to_string(folder.path().join("cases.txt")).unwrap();
    let mut failed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut passed: BTreeMap<String, usize> = BTreeMap::new();
    for line in lines.lines() {
        let [name, family, tolerance] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line:?} is not a case");
        };
        match run(folder.path(), [name, family], &Tolerance::parse(tolerance), prepare) {
            Ok(()) => *passed.entry(family.to_owned()).or_default() += 1,
            Err(why) => failed.entry(family.to_owned()).or_default().push(format!("{name}: {why}")),
        }
    }
    let total: usize = passed.values().sum();
    eprintln!("{script}: {total} cases of {} families passed", passed.len());
    for (family, cases) in &failed {
        eprintln!(
            "{family}: {} failed; {}",
            cases.len(),
            cases[..cases.len().min(3)].join("\n    ")
        );
    }
    assert!(failed.is_empty(), "families with wrong results: {:?}", failed.keys());
    assert!(total >= least, "{total} cases passed, expected at least {least}");
}

#[test]
fn operators() {
    check("families.py", 3000, |graph, _| Ok(graph));
}

#[test]
fn networks_of_onnxruntimes_quantiser() {
    check("quantised.py", 70, |graph, _| Ok(graph));
}

/// The graph with functions recognised: the nodes are those of the family, or none is a function.
fn recognised(graph: Graph, family: &str) -> Result<Graph, String> {
    let folded = fold_constants(&graph).map_err(|problem| problem.to_string())?;
    let graph = recognise_functions(&folded).map_err(|problem| problem.to_string())?;
    let names: Vec<&str> = graph.nodes().map(|(_, node)| node.op.name()).collect();
    let right = match family {
        "none" => !names.iter().any(|name| ["LayerNormalization", "Gelu"].contains(name)),
        _ => names.join("+") == family,
    };
    if right { Ok(graph) } else { Err(format!("recognised as {names:?}")) }
}

#[test]
fn functions_that_are_spelled_out() {
    check("spelled.py", 140, recognised);
}
