//! onnxruntime agrees: what we export computes what the original computes.

use super::round_trip::random_graph;
use crate::options::Options;
use crate::{ExportOptions, read_onnx, write_onnx};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use quincunx_graph::{Graph, Op, Quantiser};
use quincunx_num::{Overflow, Rounding};
use std::path::Path;
use std::process::Command;

const SCRIPT: &str = "oracle.py";

/// The Python to use, or `None` (visibly) when it lacks onnxruntime.
pub(super) fn python() -> Option<String> {
    quincunx_testkit::python("onnx, onnxruntime")
}

/// Runs a script of the folder `tests`.
pub(super) fn oracle(python: &str, script: &str, mode: &str, folder: &Path) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(script);
    let output = Command::new(python).arg(script).arg(mode).arg(folder).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}

/// Exports every model of a folder beside the original.
fn export_all(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let graph = read_onnx(std::fs::read(&path).unwrap().into(), &Options::beside(&path))
            .unwrap_or_else(|problems| panic!("{}: {problems:?}", path.display()));
        let file = write_onnx(&graph, &ExportOptions::default())
            .unwrap_or_else(|problem| panic!("{}: {problem}", path.display()));
        std::fs::write(path.with_extension("exported.onnx"), file).unwrap();
    }
}

#[test]
fn every_operator_form() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    oracle(&python, SCRIPT, "make", folder.path());
    export_all(folder.path());
    oracle(&python, SCRIPT, "compare", folder.path());
}

#[test]
fn digits_models() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let digits = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits");
    for name in ["digits.onnx", "digits_qdq.onnx"] {
        std::fs::copy(digits.join(name), folder.path().join(name)).unwrap();
    }
    export_all(folder.path());
    oracle(&python, SCRIPT, "compare", folder.path());
}

/// True when the whole graph has a form in standard ONNX, without QONNX nodes.
fn is_standard(graph: &Graph) -> bool {
    let standard = |q: &Quantiser| {
        matches!(q.width.as_uniform(), Some(8 | 16))
            && q.rounding.as_uniform() == Some(Rounding::HalfEven)
            && q.overflow.as_uniform() == Some(Overflow::Saturate)
    };
    let constants = graph.values().filter_map(|(_, v)| v.constant.as_ref()?.quantiser.as_ref());
    let nodes = graph.nodes().filter_map(|(_, node)| match &node.op {
        Op::Quantise(quantiser) => Some(quantiser),
        _ => None,
    });
    constants.chain(nodes).all(standard)
}

#[test]
fn random_graphs_run_with_the_inferred_shapes() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut runner = TestRunner::deterministic();
    let choices = proptest::collection::vec(proptest::num::u8::ANY, 20..200);
    let mut written = 0;
    while written < 150 {
        let graph = random_graph(&choices.new_tree(&mut runner).unwrap().current(), false);
        if is_standard(&graph) {
            let file = write_onnx(&graph, &ExportOptions::default()).unwrap();
            std::fs::write(folder.path().join(format!("{written}.exported.onnx")), file).unwrap();
            written += 1;
        }
    }
    oracle(&python, SCRIPT, "compare", folder.path());
}
