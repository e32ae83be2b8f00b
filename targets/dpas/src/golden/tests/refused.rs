//! Numerics that do not fit their graph, and inputs without codes.

use super::{Net, grid};
use quincunx_graph::{Activation, Binary, Gemm, Op, Param, Quantiser, Unary, ValueId};
use quincunx_num::Overflow;
use quincunx_tensor::Tensor;

/// The numerics of a network do not fit, for a reason with these words.
pub(super) fn refused(net: &Net, what: &str) {
    let problem = net.run().unwrap_err();
    assert_eq!(problem.code(), "Q6190", "{problem}");
    assert!(problem.message().contains(what), "{}", problem.message());
}

/// A value of shape `[1, 2]`.
fn coded() -> (Net, ValueId) {
    let mut net = Net::new();
    let x = net.coded("x", &[1, 2], &[1.0, 2.0], grid(true, 1.0, 0));
    (net, x)
}

#[test]
fn layers_hold_every_node_once() {
    let layers = |layers: &[&[&str]], what: &str| {
        let (mut net, x) = coded();
        let y = net.layer("y", Op::Unary(Unary::Relu), &[x]);
        net.layer("z", Op::Quantise(grid(true, 2.0, 0)), &[y]);
        let nodes = |layer: &&[&str]| layer.iter().map(|name| format!("{name}_node")).collect();
        net.layers = layers.iter().map(nodes).collect();
        match what {
            "" => assert_eq!(net.last(), [0.0, 2.0]),
            what => refused(&net, what),
        }
    };
    layers(&[&["xq"], &["y", "z"]], "");
    layers(&[&["y", "z"], &["xq"]], "");
    layers(&[&["xq"], &["y"], &["z"]], "");
    layers(&[&["xq"], &["y"]], "\"z_node\" is in no layer");
    layers(&[&["xq"], &["y", "z"], &["z"]], "\"z_node\" is in two layers");
    layers(&[&["xq"], &["y", "z"], &[]], "has no nodes");
    layers(&[&["xq"], &["y", "z"], &["a"]], "there is no node \"a_node\"");
    layers(&[&["xq"], &["z", "y"]], "\"y_node\" does not follow \"z_node\"");
    layers(&[&["xq", "y"], &["z"]], "several nodes");
}

#[test]
fn layers_end_as_the_machine_can() {
    let (mut net, x) = coded();
    let y = net.layer("y", Op::Unary(Unary::Relu), &[x]);
    let z = net.tail("z", Op::Quantise(grid(true, 2.0, 0)), &[y]);
    let mut read = net.clone();
    read.graph.add_output(y);
    refused(&read, "not only \"z_node\" reads \"y_node\"");
    let mut sum = net.clone();
    sum.tail("twice", Op::Binary(Binary::Add), &[z, z]);
    refused(&sum, "does not follow");
    net.tail("more", Op::Unary(Unary::Relu), &[z]);
    refused(&net, "\"z_node\" is followed by too much");

    let (mut net, x) = coded();
    let y = net.layer("y", Op::Unary(Unary::Relu), &[x]);
    net.tail("z", Op::Unary(Unary::Relu), &[y]);
    refused(&net, "Relu ends no layer");
    let (mut net, x) = coded();
    net.layer("y", Op::Unary(Unary::Sqrt), &[x]);
    refused(&net, "Sqrt ends no layer");
    let (mut net, x) = coded();
    let clip = Activation::Clip { min: Some(f32::NAN), max: None };
    net.layer("y", Op::Activation(clip), &[x]);
    refused(&net, "not a number");
}

#[test]
fn numerics_have_a_form() {
    let (net, _) = coded();
    let graph = net.complete();
    for text in [
        "null",
        "{}",
        r#"{"layers": [{"nodes": ["xq_node"]}]}"#,
        r#"{"layers": [{"nodes": ["xq_node"]}], "precision": "bf16"}"#,
        r#"{"layers": [{"nodes": ["xq_node"]}], "precision": "int8", "more": 1}"#,
        r#"{"layers": [{"nodes": ["xq_node"], "more": 1}], "precision": "int8"}"#,
    ] {
        let numerics = quincunx_contract::Numerics(serde_json::from_str(text).unwrap());
        let problem = super::prepare(&graph, &numerics).err().unwrap();
        assert_eq!(problem.code(), "Q6190", "{text}");
    }
}

#[test]
fn grids_are_of_8_bits() {
    let entering = |of: Quantiser| {
        let mut net = Net::new();
        net.coded("x", &[1, 2], &[1.0, 2.0], of);
        refused(&net, "one grid of 8 bits");
    };
    entering(Quantiser::symmetric(true, 7, 1.0));
    entering(grid(true, 1e39, 0));
    entering(Quantiser { overflow: Param::uniform(Overflow::Wrap), ..grid(true, 1.0, 0) });
    let scales = Param::new(&[2], vec![1.0, 2.0]).unwrap();
    entering(Quantiser { scale: scales, ..grid(true, 1.0, 0) });
    let mut net = Net::new();
    let x = net.input("x", &[1, 2], &[1.0, 2.0]);
    net.layer("y", Op::Unary(Unary::Relu), &[x]);
    refused(&net, "Relu reads what is no code");
}

#[test]
fn products_have_constant_weights_and_bias() {
    let product = |of: Quantiser, codes: [i64; 2], gemm: Gemm, bias: &[f64], what: &str| {
        let (mut net, x) = coded();
        let w = net.codes("w", &[2, 1], &codes, of);
        let b = net.plain("b", &[bias.len()], bias);
        net.layer("y", Op::Gemm(gemm), &[x, w, b]);
        refused(&net, what);
    };
    let gemm = Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: false };
    let usual = || Quantiser::symmetric(true, 8, 1.0);
    let mut of = usual();
    of.scale = Param::new(&[2, 1], vec![1.0, 2.0]).unwrap();
    product(of, [1, 2], gemm.clone(), &[0.0], "several grids for an output");
    let wide = Quantiser::symmetric(true, 16, 1.0);
    product(wide, [1, 2], gemm.clone(), &[0.0], "more than 8 bits");
    product(grid(true, 1e-50, 0), [1, 2], gemm.clone(), &[0.0], "no f32 number");
    product(usual(), [1, 2], gemm.clone(), &[f64::NAN], "is not finite");
    product(usual(), [1, 2], gemm.clone(), &[1e30], "too large");
    product(usual(), [1, 2], Gemm { beta: 2.0, ..gemm.clone() }, &[0.0], "a bias has a factor");
    product(usual(), [1, 2], Gemm { alpha: 0.0, ..gemm.clone() }, &[0.0], "the factor 0");

    let (mut net, x) = coded();
    let w = net.plain("w", &[2, 1], &[1.0, 2.0]);
    net.layer("y", Op::MatMul, &[x, w]);
    refused(&net, "the weights \"w\" are no codes");
    let (mut net, x) = coded();
    let turned = net.layer("turned", Op::Transpose { order: vec![1, 0] }, &[x]);
    net.layer("y", Op::Gemm(gemm.clone()), &[x, turned]);
    refused(&net, "the weights \"turned\" are computed");
    let (mut net, x) = coded();
    let w = net.codes("w", &[2, 2, 1], &[1; 4], usual());
    net.layer("y", Op::MatMul, &[x, w]);
    refused(&net, "are not one matrix");
    let (mut net, x) = coded();
    let w = net.codes("w", &[1, 1], &[1], usual());
    net.layer("y", Op::MatMul, &[w, x]);
    refused(&net, "operand 0, \"w\", is no value of the machine");
    // A bias of every row.
    let mut net = Net::new();
    let x = net.coded("x", &[2, 1], &[1.0, 2.0], grid(true, 1.0, 0));
    let w = net.codes("w", &[1, 1], &[1], usual());
    let b = net.plain("b", &[2, 1], &[1.0, 2.0]);
    let y = net.layer("y", Op::MatMul, &[x, w]);
    net.tail("sum", Op::Binary(Binary::Add), &[y, b]);
    refused(&net, "not one number for every output");
    // Results are no codes any more.
    let (mut net, x) = coded();
    let w = net.codes("w", &[2, 1], &[1; 2], usual());
    let y = net.layer("y", Op::MatMul, &[x, w]);
    net.layer("z", Op::Quantise(grid(true, 1.0, 0)), &[y]);
    refused(&net, "Quantise reads what is no code");
}

#[test]
fn sums_have_two_values_and_a_grid() {
    let add = Op::Binary(Binary::Add);
    let (mut net, x) = coded();
    let y = net.layer("y", add.clone(), &[x, x]);
    refused(&net, "a grid");
    let mut clipped = net.clone();
    let clip = Activation::Clip { min: Some(0.0), max: Some(1.0) };
    let z = clipped.tail("z", Op::Activation(clip), &[y]);
    clipped.tail("q", Op::Quantise(grid(true, 1.0, 0)), &[z]);
    refused(&clipped, "a sum does not end with");
    net.tail("q", Op::Quantise(grid(true, 1e-44, 0)), &[y]);
    refused(&net, "too far from each other");
    let (mut net, x) = coded();
    let row = net.coded("r", &[2], &[1.0, 2.0], grid(true, 1.0, 0));
    let y = net.layer("y", add.clone(), &[x, row]);
    net.tail("q", Op::Quantise(grid(true, 1.0, 0)), &[y]);
    refused(&net, "repeats an operand");
    let (mut net, x) = coded();
    let c = net.codes("c", &[1, 2], &[1; 2], grid(true, 1.0, 0));
    let y = net.layer("y", add, &[x, c]);
    net.tail("q", Op::Quantise(grid(true, 1.0, 0)), &[y]);
    refused(&net, "operand 1, \"c\", is no value");
}

#[test]
fn inputs_are_finite() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let (mut net, _) = coded();
        net.inputs.insert("x".to_owned(), Tensor::from_vec(&[1, 2], vec![0.0, bad]).unwrap());
        assert_eq!(net.run().unwrap_err().code(), "Q6191");
    }
}
