//! Networks before and after.

use super::*;
use crate::TcuArch;
use crate::compile::frontend::{Choices, Freedom, network};
use crate::compile::interpret::interpret;
use crate::compile::schedule::product;
use quincunx_import::{Options, read_onnx};
use std::collections::BTreeMap;

fn graph(name: &str) -> quincunx_graph::Graph {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = folder.join("../../tests/golden/tcu/models").join(name);
    read_onnx(std::fs::read(path).unwrap().into(), &Options::default()).unwrap()
}

fn outputs(network: &Network, arch: &TcuArch) -> Vec<Vec<i32>> {
    let given = |binding: &super::super::hir::Binding| {
        let var = &network.vars[binding.var.0 as usize];
        let size = (var.positions * var.blocks) as usize * arch.lanes();
        let scalars = (0..size as i32).map(|at| at * 37 % 511 - 255).collect();
        (binding.name.clone(), scalars)
    };
    let inputs: BTreeMap<String, Vec<i32>> = network.inputs.iter().map(given).collect();
    let memory = interpret(network, arch, &inputs);
    network.outputs.iter().map(|output| memory[output.var.0 as usize].clone()).collect()
}

/// Vectors that the product of a layer multiplies, by a block of weights each.
fn products(layer: &super::super::hir::Layer, arch: &TcuArch) -> u64 {
    let taps = product(layer).map_or(&[][..], |product| &product.taps);
    let pairs = taps.iter().map(|tap| tap.pairs.len() as u64 * tap.inputs.len() as u64);
    pairs.sum::<u64>() * u64::from(layer.channels.div_ceil(arch.array_size))
}

#[test]
fn networks_without_strides_stay_as_they_are() {
    let arch = TcuArch::preset("pynqz1").unwrap();
    let mut lowered = network(&graph("t_resblock.onnx"), &arch, &Choices::default()).unwrap();
    let before = lowered.network.clone();
    shrink(&mut lowered.network);
    assert_eq!(lowered.network, before);
}

#[test]
fn rows_are_kept_where_they_are_even() {
    let marks = |text: &str| -> Vec<bool> { text.bytes().map(|b| b == b'x').collect() };
    assert_eq!(row(4, &marks("x.x.....x.x.....")), 2);
    assert_eq!(row(4, &marks("x.x.....xxx.....")), 1);
    assert_eq!(row(4, &marks("xxxxxxxx")), 4);
    assert_eq!(row(0, &marks("xx")), 1);
}

/// Behind a convolution with stride 2 and without neighbours only a quarter is needed, also of
/// the convolution before it.
#[test]
fn chains_of_layers_before_a_stride_lose_positions() {
    let arch = TcuArch::preset("pynqz1").unwrap();
    for freedom in [Freedom::Compat, Freedom::Free] {
        let graph = strided();
        let choices = Choices::of(freedom);
        let mut lowered = network(&graph, &arch, &choices).unwrap();
        let before = outputs(&lowered.network, &arch);
        let all: u64 = lowered.network.layers.iter().map(|l| products(l, &arch)).sum();
        let observed = lowered.network.observed.len();
        shrink(&mut lowered.network);
        let less: u64 = lowered.network.layers.iter().map(|l| products(l, &arch)).sum();
        assert_eq!(outputs(&lowered.network, &arch), before);
        assert!(less * 3 < all * 2, "{less} of {all}");
        assert!(lowered.network.observed.len() < observed);
        // The first layer saves a quarter for the shortcut, and all for its neighbours.
        let partly = lowered.network.layers.iter().flat_map(|layer| &layer.ops);
        let partly = partly.filter(|op| matches!(op, Op::Save { positions: Some(_), .. }));
        assert_eq!(partly.count(), 1);
    }
}

/// `y = conv3x3(x)`, `z = relu(y)`, `conv1x1/2(conv3x3(z)) + conv1x1/2(y)`.
fn strided() -> quincunx_graph::Graph {
    use quincunx_graph::{Binary, Conv, Graph, Op, Unary, ValueId, Window};
    use quincunx_tensor::{DType, Tensor};
    let mut graph = Graph::new("strided");
    let x = graph.add_input("x", DType::F32, &[1, 5, 8, 8], &[]).unwrap();
    let conv = |name: &str, graph: &mut Graph, x: ValueId, kernel: usize, stride| {
        let mut window = Window::new(&[kernel; 2]);
        window.strides = [stride; 2].into_iter().collect();
        window.pads = [(kernel / 2, kernel / 2); 2].into_iter().collect();
        let shape = [10, graph[x].shape[1], kernel, kernel];
        let size: usize = shape.iter().product();
        let reals = (0..size).map(|at| (at * 29 % 113) as f32 / 113.0 - 0.5).collect();
        let weights = Tensor::from_vec::<f32>(&shape, reals).unwrap();
        let weights = graph.add_constant(&format!("w{name}"), weights).unwrap();
        let op = Op::Conv(Conv { window, groups: 1 });
        graph.add_node(name, op, &[Some(x), Some(weights)], &format!("{name}_out")).unwrap()
    };
    let y = conv("a", &mut graph, x, 3, 1);
    let short = conv("d", &mut graph, y, 1, 2);
    let z = graph.add_node("r", Op::Unary(Unary::Relu), &[Some(y)], "z").unwrap();
    let z = conv("b", &mut graph, z, 3, 1);
    let z = conv("c", &mut graph, z, 1, 2);
    let sum = Op::Binary(Binary::Add);
    let sum = graph.add_node("s", sum, &[Some(z), Some(short)], "sum").unwrap();
    graph.add_output(sum);
    graph
}
