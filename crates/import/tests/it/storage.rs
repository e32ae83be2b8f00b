//! Every storage form of every element type holds what the `onnx` package reads from it.

use quincunx_graph::execute::{Keep, float};
use quincunx_import::{ExportOptions, Options, read_onnx, write_onnx};
use quincunx_tensor::{Tensors, npy};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The output of a model without inputs.
fn output(file: Vec<u8>, options: &Options) -> Vec<f64> {
    let graph = read_onnx(file.into(), options).unwrap();
    let outputs = float(&graph, &Tensors::new(), Keep::Outputs).unwrap();
    outputs["y"].to_f64()
}

#[test]
fn every_form_of_every_type() {
    let Some(python) = quincunx_testkit::python("onnx") else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/storage.py");
    let made = Command::new(python).arg(script).arg(folder.path()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut count = 0;
    for entry in fs::read_dir(folder.path()).unwrap() {
        let case = entry.unwrap().path();
        let expected = npy::read_npz(fs::read(case.join("out.npz")).unwrap()).unwrap();
        let expected = format!("{:?}", expected["y"].to_f64());
        let model = case.join("model.onnx");
        let (file, options) = (fs::read(&model).unwrap(), Options::beside(&model));
        let name = case.display();
        assert_eq!(format!("{:?}", output(file.clone(), &options)), expected, "{name}");
        // What is written again holds the same.
        let graph = read_onnx(file.into(), &options).unwrap();
        let again = write_onnx(&graph, &ExportOptions::default()).unwrap();
        assert_eq!(format!("{:?}", output(again, &Options::default())), expected, "{name} again");
        count += 1;
    }
    assert_eq!(count, 3 * 23);
}
