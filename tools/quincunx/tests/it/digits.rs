//! The example network against onnxruntime and against an independent executor: the files beside
//! the models hold what others computed (`examples/digits/README.md`).

use quincunx::graph::execute::{self, Keep};
use quincunx::graph::passes::fold_constants;
use quincunx::graph::{Graph, Op};
use quincunx::import::{Options, read_onnx};
use quincunx::tensor::{Tensor, Tensors, npy};
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits")
}

fn model(name: &str) -> Graph {
    let path = folder().join(name);
    let bytes = std::fs::read(&path).unwrap();
    let graph = read_onnx(bytes.into(), &Options::beside(&path)).unwrap();
    assert!(graph.verify().is_empty());
    fold_constants(&graph).unwrap()
}

fn arrays(name: &str) -> Tensors {
    npy::read_file(&folder().join(name)).unwrap()
}

/// The test images one by one.
fn images() -> Vec<Tensors> {
    let image = arrays("test.npz")["image"].clone();
    (0..image.shape()[0])
        .map(|i| Tensors::from([("image".to_owned(), image.outer_range(i..i + 1))]))
        .collect()
}

fn argmax(values: &[f64]) -> usize {
    let best = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    values.iter().position(|&v| v == best).unwrap()
}

fn accuracy(logits: &[Vec<f64>]) -> f64 {
    let labels = arrays("test.npz")["labels"].to_i64().unwrap();
    assert_eq!(labels.len(), logits.len());
    let right = logits.iter().zip(&labels).filter(|(l, label)| argmax(l) as i64 == **label).count();
    right as f64 / labels.len() as f64
}

fn rows(tensor: &Tensor) -> Vec<Vec<f64>> {
    tensor.to_f64().chunks(tensor.shape()[1]).map(<[f64]>::to_vec).collect()
}

fn float_logits(graph: &Graph) -> Vec<Vec<f64>> {
    let run = |image| execute::float(graph, image, Keep::Outputs).unwrap()["logits"].to_f64();
    images().iter().map(run).collect()
}

fn exact_logits(graph: &Graph) -> Vec<Vec<f64>> {
    let run = |image| execute::exact(graph, image, Keep::Outputs).unwrap()["logits"].to_f64();
    images().iter().map(run).collect()
}

fn largest_difference(a: &[Vec<f64>], b: &[Vec<f64>]) -> f64 {
    let pairs = a.iter().flatten().zip(b.iter().flatten());
    pairs.map(|(x, y)| (x - y).abs()).fold(0.0, f64::max)
}

#[test]
fn the_float_model_equals_onnxruntime() {
    let logits = float_logits(&model("digits.onnx"));
    let expected = rows(&arrays("expected.npz")["logits"]);
    let scale = expected.iter().flatten().fold(0.0_f64, |m, v| m.max(v.abs()));
    assert!(largest_difference(&logits, &expected) <= 1e-5 * scale);
    assert!(accuracy(&logits) >= 0.97);
}

/// Every intermediate value of the first images.
#[test]
fn every_layer_equals_onnxruntime() {
    let graph = model("digits.onnx");
    let layers = arrays("layers.npz");
    let mut compared = 0;
    for (index, image) in images().iter().take(8).enumerate() {
        let values = execute::float(&graph, image, Keep::All).unwrap();
        for (name, value) in &values {
            let Some(expected) = layers.get(name) else { continue };
            let expected = expected.outer_range(index..index + 1);
            assert_eq!(value.shape(), expected.shape(), "{name}");
            let (value, expected) = (value.to_f64(), expected.to_f64());
            let scale = expected.iter().fold(1e-3_f64, |m, v| m.max(v.abs()));
            let pairs = value.iter().zip(&expected);
            let worst = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(worst <= 1e-5 * scale, "{name} of image {index} differs by {worst}");
            compared += 1;
        }
    }
    let results = graph.nodes().filter(|(_, n)| layers.contains_key(&graph[n.output].name)).count();
    assert!(results >= 12 && compared >= 8 * results, "{results} results, {compared} compared");
}

#[test]
fn the_qonnx_model_equals_an_independent_executor_exactly() {
    let graph = model("digits_pow2.onnx");
    let expected = rows(&arrays("expected.npz")["logits_pow2"]);
    assert_eq!(exact_logits(&graph), expected);
    // f32 is exact here too: all sums are small binary fractions.
    assert_eq!(float_logits(&graph), expected);
    assert!(accuracy(&expected) >= 0.96);
}

/// onnxruntime requantises in floating point; no value of this data lies near enough to a tie for
/// that to matter, so that exact arithmetic gives the same codes.
#[test]
fn the_qdq_model_equals_onnxruntime() {
    let graph = model("digits_qdq.onnx");
    let expected = rows(&arrays("expected.npz")["logits_qdq"]);
    let logits = graph.nodes().find(|(_, n)| graph[n.output].name == "logits").unwrap().1;
    let Op::Quantise(quantiser) = &logits.op else { panic!("the logits are quantised") };
    let half_a_code = quantiser.scale.as_uniform().unwrap() / 2.0;
    assert!(largest_difference(&exact_logits(&graph), &expected) < half_a_code);
    assert!(largest_difference(&float_logits(&graph), &expected) < half_a_code);
    assert!(accuracy(&expected) >= 0.96);
}

/// The first layer holds multiples of 1/8 up to 1, exactly, in every model.
#[test]
fn first_layer_fits_every_machine() {
    for name in ["digits.onnx", "digits_qdq.onnx", "digits_pow2.onnx"] {
        let graph = model(name);
        let conv = graph.nodes().find(|(_, n)| n.name == "conv1").unwrap().1;
        let constant = graph[conv.input(1).unwrap()].constant.clone().unwrap();
        let scalars = constant.quantiser.map(|q| q.scalars(constant.tensor.shape()).unwrap());
        for (i, code) in constant.tensor.to_f64().iter().enumerate() {
            let weight = scalars.as_ref().map_or(*code, |s| code * s[i].scale);
            assert!(
                weight.abs() <= 1.0 && weight * 8.0 == (weight * 8.0).round(),
                "{name}: {weight}"
            );
        }
        assert_eq!(constant.tensor.shape(), [4, 1, 3, 3]);
    }
}
