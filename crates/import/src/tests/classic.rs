//! Operators of ONNX-ML and of QONNX with the channels last.

use super::build::{Model, floats, int, ints, text, texts};
use quincunx_diag::Diagnostic;
use quincunx_graph::execute::{Keep, float};
use quincunx_tensor::{Tensor, Tensors};

fn run(model: &Model, shape: &[usize], x: &[f32]) -> Tensors {
    let graph = model.read().unwrap();
    let x = Tensor::from_vec(shape, x.to_vec()).unwrap();
    float(&graph, &Tensors::from([("x".to_owned(), x)]), Keep::Outputs).unwrap()
}

/// Two features: `x0 <= 1` leads to a leaf, else `x1 > 2` decides between two.
fn stump(falses: &[i64]) -> Model {
    let modes = ["BRANCH_LEQ", "LEAF", "BRANCH_GT", "LEAF", "LEAF"];
    let attributes = vec![
        ints("nodes_treeids", &[0; 5]),
        ints("nodes_nodeids", &[0, 1, 2, 3, 4]),
        ints("nodes_featureids", &[0, 0, 1, 0, 0]),
        floats("nodes_values", &[1.0, 0.0, 2.0, 0.0, 0.0]),
        texts("nodes_modes", &modes),
        ints("nodes_truenodeids", &[1, 0, 3, 0, 0]),
        ints("nodes_falsenodeids", falses),
        ints("nodes_missing_value_tracks_true", &[1, 0, 0, 0, 0]),
        ints("target_treeids", &[0; 3]),
        ints("target_nodeids", &[1, 3, 4]),
        ints("target_ids", &[0; 3]),
        floats("target_weights", &[10.0, 20.0, 30.0]),
        int("n_targets", 1),
    ];
    Model::new(13, &[5, 2]).domain_node(
        "ai.onnx.ml",
        "TreeEnsembleRegressor",
        &["x"],
        &["y"],
        attributes,
    )
}

#[test]
fn trees_meet_thresholds_and_missing_numbers() {
    let x = [1.0, 9.0, 1.5, 2.0, 1.5, 2.5, f32::NAN, 9.0, 2.0, f32::NAN];
    let y = run(&stump(&[2, 0, 4, 0, 0]), &[5, 2], &x);
    assert_eq!(y["y"].to_f64(), [10.0, 30.0, 20.0, 10.0, 30.0]);
}

#[test]
fn trees_that_are_none_are_refused() {
    let problem = |model: Model| -> Diagnostic { model.read().unwrap_err().remove(0) };
    for (falses, expected) in [
        ([2, 0, 9, 0, 0], "tree 0 has no node 9"),
        ([2, 0, 1, 0, 0], "node 1 of tree 0 has two parents"),
        ([0, 0, 4, 0, 0], "a cycle"),
        ([1, 0, 4, 0, 0], "node 1 of tree 0 has two parents"),
    ] {
        let problem = problem(stump(&falses));
        assert_eq!(
            (problem.code(), problem.message().contains(expected)),
            ("Q0407", true),
            "{problem}"
        );
    }
}

#[test]
fn labels_that_are_texts_are_positions() {
    let attributes = vec![
        floats("coefficients", &[1.0, 0.0, 0.0, 1.0]),
        floats("intercepts", &[0.0, 0.0]),
        texts("classlabels_strings", &["cat", "dog"]),
        text("post_transform", "SOFTMAX"),
    ];
    let model = Model::new(13, &[2, 2]).output("z").domain_node(
        "ai.onnx.ml",
        "LinearClassifier",
        &["x"],
        &["y", "scores"],
        attributes,
    );
    let model = model.domain_node("ai.onnx.ml", "ZipMap", &["scores"], &["z"], vec![]);
    let found = run(&model, &[2, 2], &[3.0, 1.0, 0.0, 4.0]);
    assert_eq!(found["y"].to_f64(), [0.0, 1.0]);
    assert!((found["z"].to_f64()[0] - 1.0 / (1.0 + f64::exp(-2.0))).abs() < 1e-6);
}

#[test]
fn channels_last_is_the_standard_between_transposes() {
    let attributes = || vec![ints("kernel_shape", &[2, 2]), ints("strides", &[2, 1])];
    let weights: Vec<f32> = (0..24).map(|i| (i % 7) as f32 - 3.0).collect();
    let x: Vec<f32> = (0..60).map(|i| (i % 11) as f32).collect();
    let model = || Model::new(13, &[1, 4, 5, 3]).floats("w", &[2, 3, 2, 2], &weights);
    let domain = "qonnx.custom_op.channels_last";
    let last = model().domain_node(domain, "Conv", &["x", "w"], &["y"], attributes());
    let plain = model()
        .node("Transpose", &["x"], "a", vec![ints("perm", &[0, 3, 1, 2])])
        .node("Conv", &["a", "w"], "b", attributes())
        .node("Transpose", &["b"], "y", vec![ints("perm", &[0, 2, 3, 1])]);
    let (last, plain) = (run(&last, &[1, 4, 5, 3], &x), run(&plain, &[1, 4, 5, 3], &x));
    assert_eq!(last["y"].shape(), [1, 2, 4, 2]);
    assert_eq!(last, plain);
    let pool = Model::new(13, &[1, 4, 5, 3]);
    let pool = pool.domain_node(domain, "MaxPool", &["x"], &["y"], attributes());
    assert_eq!(run(&pool, &[1, 4, 5, 3], &x)["y"].shape(), [1, 2, 4, 3]);
}
