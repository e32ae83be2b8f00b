//! Others compute from the quantised models we write what exact arithmetic says.

use super::oracle::{oracle, python};
use super::round_trip::{canonical, digits};
use crate::options::Options;
use crate::{Dialect, ExportOptions, read_onnx, write_onnx};
use quincunx_graph::execute::{Keep, exact};
use quincunx_graph::passes::{
    Calibrator, Grid, Method, Overrides, Recipe, Scheme, fold_batch_norm, quantise_by,
};
use quincunx_graph::{
    Activation, Binary, Conv, ConvTranspose, Coordinates, Gemm, Graph, Interpolation, Nearest, Op,
    Pad, PadMode, Pool, PoolKind, Resize, ResizeTarget, Unary, ValueId, Window,
};
use quincunx_tensor::{DType, Tensor, Tensors, npy};
use std::path::Path;

const SCRIPT: &str = "oracle_outputs.py";

/// Numbers between -1 and 1.
fn numbers(shape: &[usize], seed: u64) -> Tensor {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    let count = shape.iter().product();
    Tensor::from_vec(shape, (0..count).map(|_| next()).collect()).unwrap()
}

/// A graph under construction, with random parameters.
struct Net {
    graph: Graph,
    count: u64,
}

impl Net {
    fn new(name: &str) -> Self {
        Net { graph: Graph::new(name), count: 0 }
    }

    fn input(&mut self, shape: &[usize]) -> ValueId {
        self.graph.add_input("x", DType::F32, shape, &[]).unwrap()
    }

    fn parameter(&mut self, shape: &[usize]) -> ValueId {
        self.count += 1;
        let name = format!("p{}", self.count);
        self.graph.add_constant(&name, numbers(shape, self.count)).unwrap()
    }

    fn node(&mut self, op: Op, inputs: &[ValueId]) -> ValueId {
        self.count += 1;
        let inputs: Vec<_> = inputs.iter().copied().map(Some).collect();
        let (name, output) = (format!("n{}", self.count), format!("v{}", self.count));
        self.graph.add_node(&name, op, &inputs, &output).unwrap()
    }

    fn conv(&mut self, x: ValueId, channels: usize, kernel: usize, groups: usize) -> ValueId {
        let inner = self.graph[x].shape[1] / groups;
        let w = self.parameter(&[channels, inner, kernel, kernel]);
        let b = self.parameter(&[channels]);
        let mut window = Window::new(&[kernel, kernel]);
        window.pads = [(kernel / 2, kernel / 2); 2].as_slice().into();
        self.node(Op::Conv(Conv { window, groups }), &[x, w, b])
    }

    fn pool(&mut self, x: ValueId, kind: PoolKind) -> ValueId {
        let mut window = Window::new(&[2, 2]);
        window.strides = [2, 2].as_slice().into();
        self.node(Op::Pool(Pool { kind, window, ceil: false }), &[x])
    }

    fn finish(mut self, output: ValueId) -> Graph {
        self.graph.add_output(output);
        self.graph
    }
}

/// Convolutions, one of them depthwise, with ReLU, Clip, poolings and a dense layer.
fn mobile() -> Graph {
    let mut net = Net::new("mobile");
    let x = net.input(&[1, 3, 8, 8]);
    let y = net.conv(x, 8, 3, 1);
    let y = net.node(Op::Unary(Unary::Relu), &[y]);
    let y = net.conv(y, 8, 3, 8);
    let clip = Activation::Clip { min: Some(0.0), max: Some(2.0) };
    let y = net.node(Op::Activation(clip), &[y]);
    let y = net.pool(y, PoolKind::Max);
    let y = net.conv(y, 6, 1, 1);
    let y = net.pool(y, PoolKind::Average { count_include_pad: false });
    let y = net.node(Op::Flatten { axis: 1 }, &[y]);
    let (w, b) = (net.parameter(&[24, 5]), net.parameter(&[1, 5]));
    let gemm = Gemm { alpha: 0.5, beta: 2.0, transpose_a: false, transpose_b: false };
    let y = net.node(Op::Gemm(gemm), &[y, w, b]);
    net.finish(y)
}

/// Branches that are joined and added, and resizings.
fn branches() -> Graph {
    let mut net = Net::new("branches");
    let x = net.input(&[1, 4, 6, 6]);
    let a = net.conv(x, 4, 1, 1);
    let a = net.node(Op::Unary(Unary::Relu), &[a]);
    let b = net.conv(x, 4, 3, 1);
    let joined = net.node(Op::Concat { axis: 1 }, &[a, x, b]);
    let c = net.conv(joined, 4, 1, 1);
    let sum = net.node(Op::Binary(Binary::Add), &[c, a]);
    let sum = net.node(Op::Unary(Unary::Relu), &[sum]);
    let resize = |interpolation, coordinates| {
        Op::Resize(Resize {
            axes: vec![2, 3],
            target: ResizeTarget::Scales(vec![2.0, 2.0]),
            coordinates,
            interpolation,
            exclude_outside: false,
            roi: vec![],
        })
    };
    let nearest = Interpolation::Nearest(Nearest::Floor);
    let up = net.node(resize(nearest, Coordinates::Asymmetric), &[sum]);
    let y = net.conv(up, 2, 3, 1);
    let smooth = net.node(resize(Interpolation::Linear, Coordinates::HalfPixel), &[y]);
    let last = net.conv(smooth, 2, 1, 1);
    net.finish(last)
}

/// A transposed convolution, a product with constants, padding and a matrix product.
fn upward(groups: usize) -> Graph {
    let mut net = Net::new("upward");
    let x = net.input(&[1, 4, 3, 3]);
    let (w, b) = (net.parameter(&[4, 6 / groups, 2, 2]), net.parameter(&[6]));
    let mut window = Window::new(&[2, 2]);
    window.strides = [2, 2].as_slice().into();
    let conv = ConvTranspose { window, groups, output_padding: [0, 0].as_slice().into() };
    let y = net.node(Op::ConvTranspose(conv), &[x, w, b]);
    let y = net.node(Op::Unary(Unary::Relu), &[y]);
    let factor = net.parameter(&[6, 1, 1]);
    let y = net.node(Op::Binary(Binary::Mul), &[y, factor]);
    let pads = vec![(0, 0), (0, 0), (1, 1), (1, 1)].into();
    let y = net.node(Op::Pad(Pad { pads, mode: PadMode::Constant(0.0) }), &[y]);
    let y = net.node(Op::Transpose { order: vec![0, 2, 3, 1] }, &[y]);
    let w = net.parameter(&[6, 4]);
    let y = net.node(Op::MatMul, &[y, w]);
    let c = net.parameter(&[4]);
    let y = net.node(Op::Binary(Binary::Add), &[y, c]);
    let y = net.node(Op::GlobalAveragePool, &[y]);
    net.finish(y)
}

/// One layer.
fn wide_net() -> Graph {
    let mut net = Net::new("wide");
    let x = net.input(&[1, 3, 8, 8]);
    let y = net.conv(x, 8, 3, 1);
    let y = net.node(Op::Unary(Unary::Relu), &[y]);
    let y = net.node(Op::Flatten { axis: 1 }, &[y]);
    net.finish(y)
}

fn samples(graph: &Graph, count: u64, seed: u64) -> Vec<Tensors> {
    let value = &graph[graph.inputs()[0]];
    if value.name == "image" {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits/test.npz");
        let images = npy::read_file(&path).unwrap()["image"].clone();
        return (0..count as usize)
            .map(|i| Tensors::from([("image".to_owned(), images.outer_range(i..i + 1))]))
            .collect();
    }
    let sample = |i| Tensors::from([(value.name.clone(), numbers(&value.shape, seed + i))]);
    (0..count).map(sample).collect()
}

/// The quantised graph, with the result of every quantiser as an output.
fn quantised(graph: &Graph, recipe: &Recipe) -> Graph {
    let mut calibrator = Calibrator::new(graph, recipe.method).unwrap();
    for (index, sample) in samples(graph, 30, 1000).iter().enumerate() {
        calibrator.add(sample, index + 1).unwrap();
    }
    let mut result = quantise_by(graph, &calibrator.finish().unwrap(), recipe).unwrap().graph;
    assert_eq!(result.verify(), []);
    let quantisers = result.nodes().filter(|(_, node)| matches!(node.op, Op::Quantise(_)));
    let values: Vec<ValueId> = quantisers.map(|(_, node)| node.output).collect();
    values.into_iter().for_each(|value| result.add_output(value));
    result
}

/// The reference operators of the package onnx have no transposed convolution in groups.
fn networks(groups: usize) -> Vec<Graph> {
    let digits = fold_batch_norm(&digits("digits.onnx").unwrap()).unwrap();
    vec![digits, mobile(), branches(), upward(groups)]
}

/// Writes a model and, for each sample, what exact arithmetic makes of it read again.
fn store(folder: &Path, name: &str, graph: &Graph, dialect: Dialect, seed: u64) {
    let file = write_onnx(graph, &ExportOptions { dialect }).unwrap();
    std::fs::write(folder.join(format!("{name}.onnx")), &file).unwrap();
    let again = read_onnx(file.into(), &Options::default()).unwrap();
    assert_eq!(canonical(&again), canonical(graph), "{name} changed its meaning");
    for (index, sample) in samples(graph, 5, seed).into_iter().enumerate() {
        let results = exact(&again, &sample, Keep::Outputs).unwrap();
        let mut stored = Tensors::new();
        for (input, tensor) in sample.into_values().enumerate() {
            stored.insert(format!("in{input}"), tensor);
        }
        for (output, &id) in again.outputs().iter().enumerate() {
            let result = &results[&again[id].name];
            let numbers = Tensor::from_vec(result.shape(), result.to_f64()).unwrap();
            stored.insert(format!("out{output}"), numbers);
            if let Some(grid) = again.grid(id) {
                let step = Tensor::scalar(grid.scale.as_uniform().unwrap());
                stored.insert(format!("step{output}"), step);
            }
        }
        let bytes = npy::write_npz(&stored).unwrap();
        std::fs::write(folder.join(format!("{name}.{index}.npz")), bytes).unwrap();
    }
}

fn recipe(scheme: Scheme, method: Method, signed: Option<bool>) -> Recipe {
    let mut recipe = Recipe { method, ..Recipe::from(&scheme) };
    recipe.default.signed = signed;
    recipe
}

/// At every quantiser onnxruntime is at most one code from exact arithmetic. They differ where a
/// sum lies near the middle between two codes: onnxruntime adds up in f32, and divides by the
/// scale in f32.
#[test]
fn quantised_networks_run_in_onnxruntime() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let int16 = Scheme::Affine { weights: 8, activations: 16 };
    let recipes = [
        ("u8", recipe(Scheme::AFFINE_INT8, Method::Mse, None)),
        ("s8", recipe(Scheme::AFFINE_INT8, Method::MinMax, Some(true))),
        ("percentile", recipe(Scheme::AFFINE_INT8, Method::Percentile(99.9), None)),
        ("pow2", recipe(Scheme::POWER_OF_TWO_8, Method::Mse, None)),
    ];
    for graph in networks(2) {
        for (name, recipe) in &recipes {
            let name = format!("{}_{name}", graph.name);
            store(folder.path(), &name, &quantised(&graph, recipe), Dialect::Qdq, 1);
        }
    }
    // One layer of 16 bits: with several, one code more or less becomes several codes behind it.
    let wide = recipe(int16, Method::MinMax, None);
    store(folder.path(), "wide_u16", &quantised(&wide_net(), &wide), Dialect::Qdq, 1);
    oracle(&python, SCRIPT, "onnxruntime", folder.path());
}

/// Odd widths, layers with widths of their own and skipped layers, written as QONNX: an evaluation
/// in numpy gives what exact arithmetic gives, in every bit.
#[test]
fn qonnx_models_are_evaluated_exactly_by_numpy() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let narrow = Scheme::Affine { weights: 4, activations: 5 };
    for graph in networks(1) {
        let mut mixed = recipe(Scheme::AFFINE_INT8, Method::MinMax, None);
        for (index, (_, node)) in graph.nodes().enumerate() {
            let overrides = match index % 4 {
                0 => Overrides { weights: Some(3), activations: Some(6), ..Overrides::default() },
                1 => Overrides { skip: Some(true), ..Overrides::default() },
                2 => Overrides { grid: Some(Grid::PowerOfTwo), ..Overrides::default() },
                _ => continue,
            };
            mixed.layers.insert(node.name.clone(), overrides);
        }
        for (name, recipe, dialect) in [
            ("narrow", recipe(narrow.clone(), Method::Mse, None), Dialect::Qonnx),
            ("signed", recipe(narrow.clone(), Method::MinMax, Some(true)), Dialect::Auto),
            ("u8", recipe(Scheme::AFFINE_INT8, Method::Mse, None), Dialect::Qonnx),
            ("pow2", recipe(Scheme::POWER_OF_TWO_8, Method::MinMax, None), Dialect::Qonnx),
            ("mixed", mixed, Dialect::Qonnx),
        ] {
            let name = format!("{}_{name}", graph.name);
            store(folder.path(), &name, &quantised(&graph, &recipe), dialect, 1);
        }
    }
    oracle(&python, SCRIPT, "numpy", folder.path());
}
