//! Networks of tokens: products of two values.

use crate::common::networks::{Network, calibrated, distance};
use crate::common::{Random, arch};
use crate::compiled::{compile, judges_agree};
use quincunx_contract::{Compiled, Engine};
use quincunx_graph::passes::recognise_functions;
use quincunx_graph::{Binary, Graph, LayerNorm, Op, Reduce, ReduceKind, Softmax, Unary, ValueId};
use quincunx_import::{ExportOptions, write_onnx};
use quincunx_tensor::{DType, Tensor, Tensors, npy};
use quincunx_testkit::python;
use std::process::Command;

/// A graph that is being built.
struct Net<'r> {
    random: &'r mut Random,
    graph: Graph,
    count: usize,
    /// Functions are written in simple operators.
    spelled: bool,
}

impl Net<'_> {
    fn node(&mut self, op: Op, inputs: &[ValueId]) -> ValueId {
        self.count += 1;
        let inputs: Vec<Option<ValueId>> = inputs.iter().copied().map(Some).collect();
        let name = format!("n{}", self.count);
        self.graph.add_node(&name, op, &inputs, &format!("{name}_out")).unwrap()
    }

    fn constant(&mut self, shape: &[usize], magnitude: f64) -> ValueId {
        self.count += 1;
        let tensor = self.random.tensor(shape, magnitude);
        self.graph.add_constant(&format!("c{}", self.count), tensor).unwrap()
    }

    fn dense(&mut self, x: ValueId, outputs: usize) -> ValueId {
        let depth = *self.graph[x].shape.last().unwrap();
        let weights = self.constant(&[depth, outputs], 2.0 / (depth as f64).sqrt());
        self.node(Op::MatMul, &[x, weights])
    }

    fn linear(&mut self, x: ValueId, outputs: usize) -> ValueId {
        let x = self.dense(x, outputs);
        let bias = self.constant(&[outputs], 0.5);
        self.node(Op::Binary(Binary::Add), &[bias, x])
    }

    fn number(&mut self, number: f32) -> ValueId {
        self.count += 1;
        let tensor = Tensor::from_vec(&[], vec![number]).unwrap();
        self.graph.add_constant(&format!("c{}", self.count), tensor).unwrap()
    }

    fn binary(&mut self, op: Binary, x: ValueId, y: ValueId) -> ValueId {
        self.node(Op::Binary(op), &[x, y])
    }

    fn mean(&mut self, x: ValueId) -> ValueId {
        let reduce = Reduce { kind: ReduceKind::Mean, axes: vec![2], keep_dims: true };
        self.node(Op::Reduce(reduce), &[x])
    }

    /// As PyTorch exports it for opsets below 17.
    fn standardised(&mut self, x: ValueId) -> ValueId {
        let mean = self.mean(x);
        let centred = self.binary(Binary::Sub, x, mean);
        let two = self.number(2.0);
        let squares = self.binary(Binary::Pow, centred, two);
        let variance = self.mean(squares);
        let epsilon = self.number(1e-5);
        let sum = self.binary(Binary::Add, variance, epsilon);
        let deviation = self.node(Op::Unary(Unary::Sqrt), &[sum]);
        self.binary(Binary::Div, centred, deviation)
    }

    /// As PyTorch exports it for opsets below 20.
    fn gelu(&mut self, x: ValueId) -> ValueId {
        if !self.spelled {
            return self.node(Op::Unary(Unary::Gelu), &[x]);
        }
        let [root, one, half] =
            [std::f32::consts::SQRT_2, 1.0, 0.5].map(|number| self.number(number));
        let y = self.binary(Binary::Div, x, root);
        let y = self.node(Op::Unary(Unary::Erf), &[y]);
        let y = self.binary(Binary::Add, y, one);
        let y = self.binary(Binary::Mul, x, y);
        self.binary(Binary::Mul, y, half)
    }

    fn normalised(&mut self, x: ValueId) -> ValueId {
        let channels = *self.graph[x].shape.last().unwrap();
        let [factor, addend] = [1.5, 0.5].map(|magnitude| self.constant(&[channels], magnitude));
        if self.spelled {
            let x = self.standardised(x);
            let x = self.binary(Binary::Mul, x, factor);
            return self.binary(Binary::Add, x, addend);
        }
        self.node(Op::LayerNorm(LayerNorm { axis: 2, epsilon: 1e-5 }), &[x, factor, addend])
    }

    fn sum(&mut self, x: ValueId, y: ValueId) -> ValueId {
        self.node(Op::Binary(Binary::Add), &[x, y])
    }

    fn attention(&mut self, x: ValueId, heads: usize) -> ValueId {
        let [n, t, c] = self.graph[x].shape[..] else { panic!("tokens") };
        let [q, k, v] = [0; 3].map(|_| self.linear(x, c));
        let q = self.heads(q, heads);
        let k = self.node(
            Op::Reshape { shape: [n, t, heads, c / heads].map(|extent| extent as i64).to_vec() },
            &[k],
        );
        let k = self.node(Op::Transpose { order: vec![0, 2, 3, 1] }, &[k]);
        let v = self.heads(v, heads);
        let factor = Tensor::from_vec(&[], vec![((c / heads) as f32).sqrt().recip()]).unwrap();
        let factor = self.graph.add_constant("scale", factor).unwrap();
        let q = self.node(Op::Binary(Binary::Mul), &[q, factor]);
        let scores = self.node(Op::MatMul, &[q, k]);
        let shares = self.node(Op::Softmax(Softmax { axis: 3, log: false }), &[scores]);
        let z = self.node(Op::MatMul, &[shares, v]);
        let z = self.node(Op::Transpose { order: vec![0, 2, 1, 3] }, &[z]);
        let shape = [n, t, c].map(|extent| extent as i64).to_vec();
        let z = self.node(Op::Reshape { shape }, &[z]);
        self.linear(z, c)
    }

    /// `[N, T, h * d]` as `[N, h, T, d]`.
    fn heads(&mut self, x: ValueId, heads: usize) -> ValueId {
        let [n, t, c] = self.graph[x].shape[..] else { panic!("tokens") };
        let shape = [n, t, heads, c / heads].map(|extent| extent as i64).to_vec();
        let x = self.node(Op::Reshape { shape }, &[x]);
        self.node(Op::Transpose { order: vec![0, 2, 1, 3] }, &[x])
    }
}

/// `Q K^T V` for some heads, without what attention puts between.
pub(crate) fn products(random: &mut Random) -> Network {
    let heads = random.range(1, 3);
    let [n, t, s] = [random.range(1, 3), random.range(1, 40), random.range(1, 40)];
    let (d, e) = (8 * random.range(1, 4), random.pick(&[8, 16, 24]));
    let mut net = Net { random, graph: Graph::new("products"), count: 0, spelled: false };
    let c = net.random.range(1, 30);
    let x = net.graph.add_input("x", DType::F32, &[n, t, c], &[]).unwrap();
    let y = net.graph.add_input("y", DType::F32, &[n, s, c], &[]).unwrap();
    let q = net.dense(x, heads * d);
    let q = match net.random.coin() {
        true => net.node(Op::Unary(Unary::Relu), &[q]),
        false => q,
    };
    let [k, v] = [heads * d, heads * e].map(|outputs| net.dense(y, outputs));
    let [q, k, v] = [q, k, v].map(|x| net.heads(x, heads));
    let k = net.node(Op::Transpose { order: vec![0, 1, 3, 2] }, &[k]);
    let p = net.node(Op::MatMul, &[q, k]);
    let z = net.node(Op::MatMul, &[p, v]);
    let z = net.node(Op::Transpose { order: vec![0, 2, 1, 3] }, &[z]);
    let shape = [n, t, heads * e].map(|extent| extent as i64).to_vec();
    let z = net.node(Op::Reshape { shape }, &[z]);
    let z = net.dense(z, c);
    net.graph.add_output(z);
    if net.random.coin() {
        net.graph.add_output(p);
    }
    calibrated(net.graph, random)
}

#[test]
fn products_of_two_values() {
    let mut counts = [0; 2];
    for case in 0..24 {
        let network = products(&mut Random::new(4000 + case));
        let found = judges_agree(&network, "fast", case);
        counts = [counts[0] + found[0], counts[1] + found[1]];
    }
    assert!(counts[0] >= 60, "{counts:?}");
}

/// Products along every axis of images, in any order of the axes, and rows mixed as channels are.
pub(crate) fn mixed(random: &mut Random) -> Network {
    let mut net = Net { random, graph: Graph::new("mixed"), count: 0, spelled: false };
    let [n, c, h, w] = [2, 40, 6, 6].map(|most| net.random.range(1, most));
    let x = net.graph.add_input("x", DType::F32, &[n, c, h, w], &[]).unwrap();
    let order = net.random.pick(&[
        [0, 1, 2, 3],
        [0, 1, 3, 2],
        [0, 2, 1, 3],
        [0, 2, 3, 1],
        [0, 3, 1, 2],
        [0, 3, 2, 1],
    ]);
    let y = net.node(Op::Transpose { order: order.to_vec() }, &[x]);
    let y = net.dense(y, 12);
    net.graph.add_output(y);
    let shape = [n, c, h * w].map(|extent| extent as i64).to_vec();
    let x = net.node(Op::Reshape { shape }, &[x]);
    let x = net.node(Op::Transpose { order: vec![0, 2, 1] }, &[x]);
    let x = net.dense(x, 16);
    let y = net.node(Op::Transpose { order: vec![0, 2, 1] }, &[x]);
    let y = net.dense(y, h * w);
    let y = net.node(Op::Transpose { order: vec![0, 2, 1] }, &[y]);
    let x = net.sum(x, y);
    net.graph.add_output(x);
    calibrated(net.graph, random)
}

#[test]
fn transpositions_that_move_numbers() {
    let mut counts = [0; 2];
    for case in 0..24 {
        let network = mixed(&mut Random::new(6000 + case));
        let found = judges_agree(&network, "fast", case);
        counts = [counts[0] + found[0], counts[1] + found[1]];
    }
    assert!(counts[0] >= 60 && counts[1] >= 400, "{counts:?}");
}

/// An encoder block as PyTorch exports one that normalises first.
pub(crate) fn encoder(
    random: &mut Random,
    [n, t, c]: [usize; 3],
    heads: usize,
    spelled: bool,
) -> Graph {
    let mut net = Net { random, graph: Graph::new("encoder"), count: 0, spelled };
    let x = net.graph.add_input("x", DType::F32, &[n, t, c], &[]).unwrap();
    let y = net.normalised(x);
    let y = net.attention(y, heads);
    let x = net.sum(x, y);
    let y = net.normalised(x);
    let y = net.linear(y, 4 * c);
    let y = net.gelu(y);
    let y = net.linear(y, c);
    let x = net.sum(x, y);
    net.graph.add_output(x);
    recognise_functions(&net.graph).unwrap()
}

/// Quantisers are left as they are: joined with products they become such of bytes, whose sums of two
/// saturate at 16 bits on x86 without VNNI.
const ONNXRUNTIME: &str = "
import sys, numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=['CPUExecutionProvider'])
found = session.run(None, {'x': numpy.load(sys.argv[2])})[0]
numpy.save(sys.argv[3], found.astype(numpy.float64))
";

/// What onnxruntime gives for a sample.
fn by_onnxruntime(python: &str, graph: &Graph, sample: &Tensors) -> Tensor {
    let place = tempfile::tempdir().unwrap();
    let [model, input, output] =
        ["model.onnx", "input.npy", "output.npy"].map(|name| place.path().join(name));
    std::fs::write(&model, write_onnx(graph, &ExportOptions::default()).unwrap()).unwrap();
    let x = &sample["x"];
    let reals = x.to_f64().into_iter().map(|real| real as f32).collect();
    let x = Tensor::from_vec::<f32>(x.shape(), reals).unwrap();
    std::fs::write(&input, npy::write_npy(&x)).unwrap();
    let mut command = Command::new(python);
    let run = command.args(["-c", ONNXRUNTIME]).args([&model, &input, &output]).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    npy::read_npy(std::fs::read(&output).unwrap()).unwrap()
}

/// Layers that are a product and the sum with its bias.
fn biased(graph: &Graph, compiled: &Compiled) -> usize {
    let layers = compiled.numerics.0["layers"].as_array().unwrap().iter();
    let op =
        |name: &serde_json::Value| &graph[graph.node_named(name.as_str().unwrap()).unwrap()].op;
    layers
        .filter(|layer| {
            let nodes = layer["nodes"].as_array().unwrap();
            let ops: Vec<&Op> = nodes.iter().take(2).map(op).collect();
            ops == [&Op::MatMul, &Op::Binary(Binary::Add)]
        })
        .count()
}

/// All of a block is on the machine, whose simulators and golden model agree at every layer; its
/// results are near those of onnxruntime, on the same grids and without grids.
#[test]
fn encoder_blocks() {
    let cases = [([1, 19, 48], 3, false), ([2, 8, 32], 2, false), ([1, 12, 32], 4, true)];
    for (case, (shape, heads, spelled)) in cases.into_iter().enumerate() {
        let random = &mut Random::new(5000 + case as u64);
        let float = encoder(random, shape, heads, spelled);
        let network = calibrated(float.clone(), random);
        let [programs, values] = judges_agree(&network, "fast", case as u64);
        assert!(programs == 3 && values > 40, "{programs} programs, {values} values");
        let compiled = compile(&network.graph, &arch()).unwrap();
        assert_eq!(biased(&network.graph, &compiled), 6);
        let Some(python) = python("onnxruntime") else { continue };
        for sample in &network.samples {
            let outputs = compiled.program.load(Engine::Fast).unwrap().run(sample).unwrap();
            let found = outputs.values().next().unwrap();
            let largest = found.to_f64().iter().fold(0.0_f64, |most, x| most.max(x.abs()));
            for (graph, most) in [(&network.graph, 0.03), (&float, 0.1)] {
                let off = distance(found, &by_onnxruntime(&python, graph, sample)) / largest;
                assert!(off <= most, "case {case}: off by {off}");
            }
        }
    }
}
