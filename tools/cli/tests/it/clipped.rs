//! Numbers that the type of a machine does not hold.

use crate::support::{file, quincunx};
use quincunx::graph::{Binary, Graph, Op, Unary};
use quincunx::import::{ExportOptions, write_onnx};
use quincunx::tensor::{DType, Tensor, Tensors, npy};
use serde_json::Value;
use std::path::Path;

/// `y = relu(x * factor)`, perhaps `y = relu(log(x) * factor)`, as a file.
fn model(folder: &Path, factor: f32, log: bool) -> String {
    let mut graph = Graph::new("clipped");
    let mut x = graph.add_input("x", DType::F32, &[1, 4], &[]).unwrap();
    if log {
        x = graph.add_node("log", Op::Unary(Unary::Log), &[Some(x)], "l").unwrap();
    }
    let factors = Tensor::from_vec(&[1, 4], vec![1.0, 0.5, 2.0, factor]).unwrap();
    let factor = graph.add_constant("factors", factors).unwrap();
    let times = Op::Binary(Binary::Mul);
    let product = graph.add_node("scale", times, &[Some(x), Some(factor)], "p").unwrap();
    let relu = graph.add_node("relu", Op::Unary(Unary::Relu), &[Some(product)], "y").unwrap();
    graph.add_output(relu);
    file(folder, "model.onnx", &write_onnx(&graph, &ExportOptions::default()).unwrap())
}

fn data(folder: &Path, reals: [f32; 4]) -> String {
    let x = Tensor::from_vec(&[1, 4], reals.to_vec()).unwrap();
    let bytes = npy::write_npz(&Tensors::from([("x".to_owned(), x)])).unwrap();
    file(folder, "data.npz", &bytes)
}

/// The row of `compare` for tcu, and its warnings.
fn compared(model: &str, data: &str) -> (Value, String) {
    let run = quincunx(&["compare", model, "-t", "tcu", "-d", data, "--format", "json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let report: Value = serde_json::from_str(&run.text()).unwrap();
    let row = report.pointer("/rows/0").or_else(|| report.get(0)).unwrap().clone();
    (row, run.stderr)
}

#[test]
fn constants_that_do_not_fit_are_warned_of_by_every_verb() {
    let place = tempfile::tempdir().unwrap();
    let (model, data) = (model(place.path(), 200.0, false), data(place.path(), [0.5; 4]));
    let out = place.path().join("out").to_str().unwrap().to_owned();
    let warning = "warning[Q0521]: factors of scale: 1 of 4 numbers lie beyond -128 to 127.99609375, as far as 200";
    for command in [
        &["compile", &model, "-t", "tcu", "-o", &out][..],
        &["run", &model, "-t", "tcu", "-d", &data],
        &["run", &out, "-d", &data],
        &["verify", &out],
        &["verify", &out, "--model", &model, "-d", &data],
        &["compare", &model, "-t", "tcu", "-d", &data],
    ] {
        let run = quincunx(command);
        assert_eq!(run.code, 0, "{command:?}: {}", run.stderr);
        assert_eq!(run.stderr.matches(warning).count(), 1, "{command:?}: {}", run.stderr);
    }
    let (row, stderr) = compared(&model, &data);
    assert_eq!((&row["status"], &row["clipped"]), (&"far".into(), &1.into()));
    assert!(stderr.contains("warning[Q0624]: tcu: output \"y\" is far from the model"), "{stderr}");
}

#[test]
fn inputs_and_results_that_do_not_fit_are_counted() {
    let place = tempfile::tempdir().unwrap();
    let scale = model(place.path(), 100.0, false);
    let (row, stderr) = compared(&scale, &data(place.path(), [0.5; 4]));
    assert_eq!((&row["status"], &row["clipped"]), (&"ok".into(), &0.into()), "{stderr}");
    let beyond = data(place.path(), [0.5, 300.0, 0.5, 2.0]);
    let (row, stderr) = compared(&scale, &beyond);
    assert_eq!((&row["status"], &row["clipped"]), (&"far".into(), &2.into()));
    for warning in [
        "input x: 1 of 4 numbers lie beyond -128 to 127.99609375, as far as 300",
        "results of scale: 1 numbers lie beyond -128 to 127.99609375",
    ] {
        assert!(stderr.contains(warning), "{stderr}");
    }
    let run = quincunx(&["run", &scale, "-t", "tcu", "-d", &beyond]);
    assert!(run.code == 0 && run.stderr.contains("results of scale: 1"), "{}", run.stderr);
}

/// A logarithm of 0 on the host is the lowest number on the machine; that of a negative number is
/// an error at the node, not of the data.
#[test]
fn infinities_of_the_host_become_ends() {
    let place = tempfile::tempdir().unwrap();
    let log = model(place.path(), 1.0, true);
    let run =
        quincunx(&["run", &log, "-t", "tcu", "-d", &data(place.path(), [1.0, 0.0, 1.0, 8.0])]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let clipped = "input l: 1 of 4 numbers lie beyond -128 to 127.99609375";
    assert!(run.stderr.contains(clipped), "{}", run.stderr);
    let bad = data(place.path(), [1.0, -1.0, 1.0, 8.0]);
    let run = quincunx(&["run", &log, "-t", "tcu", "-d", &bad]);
    assert_eq!(run.code, 3, "{}", run.stderr);
    assert!(run.stderr.contains("node \"log\""), "{}", run.stderr);
    assert!(!run.stderr.contains("data.npz"), "{}", run.stderr);
}

#[test]
fn scales_keep_numbers_within_the_range() {
    let place = tempfile::tempdir().unwrap();
    let model = model(place.path(), 100.0, false);
    let free = ["-t", "tcu", "--rounding", "free", "--rescale", "auto"];
    let refused = |arguments: &[&str], code: &str| {
        let run = quincunx(&[&["compile", &model][..], arguments].concat());
        assert!(run.code == 2 && run.stderr.contains(code), "{arguments:?}: {}", run.stderr);
    };
    refused(&["-t", "tcu", "--rescale", "auto"], "Q3116");
    refused(&free, "Q0608");
    let data = data(place.path(), [0.5, 300.0, 0.5, 2.0]);
    let like_it = Tensor::from_vec(&[1, 4], vec![0.25_f32, 310.0, 1.0, 2.5]).unwrap();
    let bytes = npy::write_npz(&Tensors::from([("x".to_owned(), like_it)])).unwrap();
    let calibration = file(place.path(), "like_it.npz", &bytes);
    let free = [&free[..], &["--calibrate", &calibration]].concat();
    let compare = ["compare", &model, "-d", &data, "--layers", "--format", "json"];
    let run = quincunx(&[&compare[..], &free].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let report: Value = serde_json::from_str(&run.text()).unwrap();
    let row = &report["rows"][0];
    assert_eq!((&row["status"], &row["clipped"]), (&"ok".into(), &0.into()), "{}", run.stderr);
    assert_eq!((&row["bit_exact"], &row["device_mac_share"]), (&1.into(), &0.25.into()));
    // The operand comes at an eighth, and 100 becomes 50 so that it is within half of the range.
    let layers = report["layers"].as_array().unwrap();
    let product = layers.iter().find(|layer| layer["value"] == "p * 2^-4").unwrap();
    assert_eq!((&product["place"], &product["op"]), (&"device".into(), &"Mul".into()));
    assert!(product["max_difference"].as_f64().unwrap() < 0.1, "{product}");
    let out = place.path().join("out").to_str().unwrap().to_owned();
    let run = quincunx(&[&["compile", &model, "-o", &out][..], &free].concat());
    let reason = "numbers of \"x\" reach 310, beyond those of FP16BP8";
    assert!(run.code == 0 && run.text().contains(reason), "{}{}", run.text(), run.stderr);
    // The folder knows the ranges.
    let run = quincunx(&["verify", &out, "--model", &model, "-d", &data]);
    assert!(run.code == 0 && !run.stderr.contains("warning"), "{}", run.stderr);
}
