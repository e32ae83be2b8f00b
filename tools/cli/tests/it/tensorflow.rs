//! Frozen TensorFlow graphs on the command line.

use crate::support::{file, quincunx, quincunx_with_input};
use std::fs;
use std::path::Path;

fn graph_def(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/import/tests/graphdef");
    folder.join(name).to_str().unwrap().to_owned()
}

#[test]
fn inspect_names_the_format_whatever_the_file_is_called() {
    let place = tempfile::tempdir().unwrap();
    let bytes = fs::read(graph_def("cnn.pb")).unwrap();
    let misnamed = file(place.path(), "cnn.onnx", &bytes);
    let unnamed = file(place.path(), "cnn", &bytes);
    for path in [graph_def("cnn.pb"), misnamed, unnamed] {
        let run = quincunx(&["inspect", &path]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(run.text().contains("TensorFlow GraphDef"), "{}", run.text());
    }
    let run = quincunx_with_input(&["inspect", "-"], &bytes);
    assert!(run.text().contains("TensorFlow GraphDef"), "{}", run.stderr);
}

#[test]
fn verbs_take_a_graph_def() {
    // Without calibration data the machine asks for it, so the network was read and prepared.
    let model = graph_def("cnn.pb");
    let run = quincunx(&["run", &model, "--target", "dais", "--data", "random:1"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains("Q0608"), "{}", run.stderr);
}

#[test]
fn a_damaged_graph_def_is_invalid_input() {
    let place = tempfile::tempdir().unwrap();
    let mut bytes = fs::read(graph_def("cnn.pb")).unwrap();
    bytes.truncate(bytes.len() / 2);
    let run = quincunx(&["inspect", &file(place.path(), "cnn.pb", &bytes)]);
    assert_eq!(run.code, 3, "{}", run.stderr);
    assert!(run.stderr.contains("not a TensorFlow GraphDef"), "{}", run.stderr);
}
