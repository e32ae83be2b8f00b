//! onnxruntime agrees with the f32 executor on operators that compute, compare, select and reduce
//! numbers, and with itself on what we export.

use super::oracle::{oracle, python};
use crate::options::Options;
use crate::{ExportOptions, read_onnx, write_onnx};
use quincunx_graph::execute::{Keep, float};
use quincunx_tensor::{DType, Tensor, Tensors, npy};
use std::path::{Path, PathBuf};

const SCRIPT: &str = "oracle_numeric.py";

/// Largest difference from onnxruntime, relative above 1.
const TOLERANCE: f64 = 1e-5;

/// Fewest models the script writes.
const MODELS: usize = 290;

/// Inputs and output of a model; truth values are stored as bytes under a longer name.
fn stored(path: &Path) -> Tensors {
    let tensors = npy::read_npz(std::fs::read(path.with_extension("npz")).unwrap()).unwrap();
    let truth = |(name, tensor): (String, Tensor)| match name.strip_prefix("bool_") {
        Some(name) => {
            let truth = Tensor::new(DType::Bool, tensor.shape(), tensor.bytes().clone());
            (name.to_owned(), truth.unwrap())
        }
        None => (name, tensor),
    };
    tensors.into_iter().map(truth).collect()
}

fn assert_near(found: &Tensor, expected: &Tensor, name: &str) {
    let kinds = [found, expected].map(|tensor| (tensor.dtype(), tensor.shape().to_vec()));
    assert_eq!(kinds[0], kinds[1], "{name}");
    for (found, expected) in found.to_f64().into_iter().zip(expected.to_f64()) {
        let bound = if kinds[0].0.is_float() { TOLERANCE * expected.abs().max(1.0) } else { 0.0 };
        let equal = found == expected || (found.is_nan() && expected.is_nan());
        assert!(equal || (found - expected).abs() <= bound, "{name}: {found}, not {expected}");
    }
}

fn models(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut models: Vec<_> =
        entries.filter(|p| p.extension().is_some_and(|e| e == "onnx")).collect();
    models.sort();
    models
}

#[test]
fn every_form() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    oracle(&python, SCRIPT, "make", folder.path());
    let models = models(folder.path());
    assert!(models.len() >= MODELS, "only {} models", models.len());
    for path in models {
        let name = path.display().to_string();
        let graph = read_onnx(std::fs::read(&path).unwrap().into(), &Options::default())
            .unwrap_or_else(|problems| panic!("{name}: {problems:?}"));
        let mut tensors = stored(&path);
        let expected = tensors.remove("y").unwrap();
        let found = float(&graph, &tensors, Keep::Outputs)
            .unwrap_or_else(|problem| panic!("{name}: {problem}"));
        assert_near(&found["y"], &expected, &name);
        let file = write_onnx(&graph, &ExportOptions::default())
            .unwrap_or_else(|problem| panic!("{name}: {problem}"));
        let again = read_onnx(file.clone().into(), &Options::default()).unwrap();
        let ops = |graph: &quincunx_graph::Graph| -> Vec<_> {
            graph.nodes().map(|(_, node)| node.op.clone()).collect()
        };
        assert_eq!(ops(&graph), ops(&again), "{name}");
        std::fs::write(path.with_extension("exported.onnx"), file).unwrap();
    }
    oracle(&python, SCRIPT, "compare", folder.path());
}
