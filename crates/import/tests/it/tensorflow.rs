//! Frozen TensorFlow graphs compute what TensorFlow computed.
//!
//! `make_graphdefs.py` made the files in `graphdef`; nothing here needs TensorFlow.

use quincunx_graph::execute::{Keep, float};
use quincunx_graph::{Graph, Op};
use quincunx_import::{
    Format, Options, format_of, read_graph_def, read_model, supported_tensorflow_operators,
};
use quincunx_tensor::{Tensor, Tensors, npy};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Relative and absolute tolerance of float results.
const TOLERANCE: (f64, f64) = (1e-5, 1e-6);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/graphdef")
}

fn names() -> Vec<String> {
    let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let models = files.filter(|path| path.extension().is_some_and(|e| e == "pb"));
    let mut names: Vec<String> =
        models.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

fn bytes(name: &str) -> Vec<u8> {
    fs::read(folder().join(format!("{name}.pb"))).unwrap()
}

/// Inputs and outputs of a case.
fn data(name: &str) -> (Tensors, Tensors) {
    let arrays = npy::read_npz(fs::read(folder().join(format!("{name}.npz"))).unwrap()).unwrap();
    let part = |prefix: &str| -> Tensors {
        let named = arrays.iter();
        named
            .filter_map(|(name, tensor)| {
                Some((name.strip_prefix(prefix)?.to_owned(), tensor.clone()))
            })
            .collect()
    };
    (part("in_"), part("out_"))
}

/// Options that bind the inputs to the shapes of the data.
fn shaped(inputs: &Tensors) -> Options {
    let shapes = inputs.iter().map(|(name, tensor)| (name.clone(), tensor.shape().to_vec()));
    Options { input_shapes: shapes.collect(), ..Options::default() }
}

fn compare(what: &str, found: &Tensor, expected: &Tensor) {
    assert_eq!(found.dtype(), expected.dtype(), "{what}");
    assert_eq!(found.shape(), expected.shape(), "{what}");
    for (index, (f, e)) in found.to_f64().into_iter().zip(expected.to_f64()).enumerate() {
        let close = (f - e).abs() <= TOLERANCE.0 * e.abs() + TOLERANCE.1 || f == e;
        assert!(close || (f.is_nan() && e.is_nan()), "{what}[{index}]: {f}, expected {e}");
    }
}

fn check(name: &str, graph: &Graph, inputs: &Tensors, outputs: &Tensors) {
    assert_eq!(graph.verify(), [], "{name}");
    let found = float(graph, inputs, Keep::Outputs).unwrap_or_else(|p| panic!("{name}: {p}"));
    assert_eq!(found.keys().collect::<Vec<_>>(), outputs.keys().collect::<Vec<_>>(), "{name}");
    for (output, expected) in outputs {
        compare(&format!("{name}/{output}"), &found[output], expected);
    }
}

#[test]
fn every_case_computes_what_tensorflow_does() {
    let names = names();
    assert!(names.len() >= 26, "{names:?}");
    for name in names {
        let (inputs, outputs) = data(&name);
        let graph = read_graph_def(bytes(&name).into(), &shaped(&inputs))
            .unwrap_or_else(|problems| panic!("{name}: {problems:#?}"));
        check(&name, &graph, &inputs, &outputs);
    }
}

/// Operators of the table that no case has, with the reason.
const WITHOUT_CASE: &[(&str, &str)] = &[
    ("Concat", "old form of ConcatV2"),
    ("EnsureShape", "identity"),
    ("Snapshot", "identity"),
    ("PreventGradient", "identity"),
    ("CheckNumerics", "identity"),
];

#[test]
fn every_operator_has_a_case() {
    let mut seen = BTreeSet::new();
    for name in names() {
        let file = bytes(&name);
        for operator in supported_tensorflow_operators() {
            // A node's operator is field 2: tag, length, text, and another field after it.
            let mut field = vec![0x12, operator.len() as u8];
            field.extend(operator.as_bytes());
            if file.windows(field.len()).any(|window| window == field) {
                seen.insert(operator);
            }
        }
    }
    let missing: Vec<&str> = supported_tensorflow_operators()
        .into_iter()
        .filter(|op| !seen.contains(op) && !WITHOUT_CASE.iter().any(|(name, _)| name == op))
        .collect();
    assert_eq!(missing, [""; 0]);
}

/// Number of nodes of each operator.
fn counts(graph: &Graph) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    graph.nodes().for_each(|(_, node)| *counts.entry(node.op.name()).or_default() += 1);
    counts
}

#[test]
fn networks_are_transposed_only_at_their_ends() {
    for (name, transposes) in [("cnn", 1), ("mobilenet", 1), ("resnet", 1)] {
        let graph = read_graph_def(bytes(name).into(), &Options::default()).unwrap();
        let found = counts(&graph).get("Transpose").copied().unwrap_or(0);
        assert_eq!(found, transposes, "{name}:\n{graph}");
    }
}

#[test]
fn layers_are_joined() {
    let graph = read_graph_def(bytes("mobilenet").into(), &Options::default()).unwrap();
    let counts = counts(&graph);
    assert_eq!((counts.get("Pad"), counts["Conv"], counts["Gemm"]), (None, 5, 1), "{graph}");
    let graph = read_graph_def(bytes("resnet").into(), &Options::default()).unwrap();
    assert!(!graph.nodes().any(|(_, node)| matches!(node.op, Op::Pad(_))), "{graph}");
    let graph = read_graph_def(bytes("dilated").into(), &Options::default()).unwrap();
    let dilations = graph.nodes().filter_map(|(_, node)| match &node.op {
        Op::Conv(conv) => Some(conv.window.dilations.to_vec()),
        _ => None,
    });
    assert_eq!(dilations.collect::<Vec<_>>(), [vec![2, 3], vec![2, 2]]);
}

#[test]
fn the_batch_may_be_bound_later() {
    for name in ["cnn", "mobilenet", "resnet", "conv", "pool", "dilated", "blocks", "conv_nchw"] {
        let (inputs, outputs) = data(name);
        let graph = read_graph_def(bytes(name).into(), &Options::default()).unwrap();
        assert_eq!(graph[graph.inputs()[0]].shape[0], 1, "{name}");
        let bound = graph.rebind("x:0", inputs["x"].shape()[0]).unwrap();
        check(name, &bound, &inputs, &outputs);
    }
}

#[test]
fn shapes_that_were_read_cannot_be_bound_again() {
    // SAME padding with strides depends on height and width.
    let graph = read_graph_def(bytes("mobilenet").into(), &Options::default()).unwrap();
    assert_eq!(graph[graph.inputs()[0]].symbols[0].as_deref(), Some("x:0"));
    let graph = read_graph_def(bytes("shapes").into(), &Options::default()).unwrap();
    assert!(graph[graph.inputs()[0]].symbols.iter().all(Option::is_none));
}

#[test]
fn outputs_may_be_chosen() {
    let options = |names: &[&str]| Options {
        outputs: names.iter().map(|&name| name.to_owned()).collect(),
        ..Options::default()
    };
    let read = |names: &[&str]| read_graph_def(bytes("ports").into(), &options(names));
    let graph = read(&["parts:2", "product:0"]).unwrap();
    let names: Vec<&str> = graph.outputs().iter().map(|&id| graph[id].name.as_str()).collect();
    assert_eq!(names, ["parts:2", "product"]);
    let problems = read(&["prodact"]).unwrap_err();
    assert_eq!(problems[0].code(), "Q0415");
    assert!(problems[0].help_text().unwrap().contains("product"), "{problems:?}");
    assert!(read(&["nothing"]).is_err());
    assert!(read(&["parts:3"]).is_err());
}

#[test]
fn formats_are_told_apart_by_content() {
    for name in names() {
        assert_eq!(format_of(&bytes(&name)), Format::GraphDef, "{name}");
    }
    let digits = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits/digits.onnx");
    let digits = fs::read(digits).unwrap();
    assert_eq!(format_of(&digits), Format::Onnx);
    assert!(read_model(digits.clone().into(), &Options::default()).is_ok());
    assert!(read_graph_def(digits.into(), &Options::default()).is_err());
    assert!(read_model(bytes("cnn").into(), &Options::default()).is_ok());
}
