//! Compiled networks: the simulators give what the golden model says at every layer, that is what
//! the graph's executor says but for a code, and programs survive every form.

use crate::common::networks::{Network, Size, calibrated, distance, network, reference};
use crate::common::{Random, arch};
use quincunx_contract::{Claim, Compiled, Compiler as _, Engine, Log, Refused};
use quincunx_diag::{Diagnostic, Severity};
use quincunx_graph::passes::extract_on_grids;
use quincunx_graph::{
    Constant, Conv, ConvTranspose, Gemm, Graph, NodeId, Op, Quantiser, Unary, Window,
};
use quincunx_npu::{NpuArch, TARGET};
use quincunx_tensor::{DType, Tensor, Tensors};
use quincunx_testkit::{options, same};
use std::collections::BTreeSet;

pub(crate) fn machines() -> [NpuArch; 2] {
    [arch(), NpuArch::preset("small").unwrap()]
}

/// Several cores, which divide a batch.
pub(crate) fn several_cores(count: u32) -> NpuArch {
    NpuArch { cores_x: count, ..arch() }
}

/// The program of a graph, all of whose nodes the machine takes, after a short search; nothing where
/// a layer is too large for it.
pub(crate) fn compile(graph: &Graph, arch: &NpuArch) -> Option<Compiled> {
    compile_with(graph, arch, "fast")
}

/// The same after a search of this effort.
fn compile_with(graph: &Graph, arch: &NpuArch, effort: &str) -> Option<Compiled> {
    let options = options(&TARGET, &[("effort", effort)]);
    let claims = TARGET.claim(graph, arch, &options, &Refused::default()).unwrap();
    for ((_, node), claim) in graph.nodes().zip(claims) {
        assert_eq!(claim, Claim::Device, "{}\n{graph}", node.name);
    }
    match TARGET.compile(graph, arch, &options, &mut Log::default()) {
        Ok(compiled) => Some(compiled),
        Err(problem) => {
            let problem = problem.first();
            assert_eq!(problem.code(), "Q4092", "{}: {problem}\n{graph}", arch.name);
            None
        }
    }
}

/// Errors and warnings.
pub(crate) fn complaints(problems: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let is_one = |problem: &Diagnostic| problem.severity() != Severity::Note;
    problems.into_iter().filter(is_one).collect()
}

/// What the golden model says about every sample.
pub(crate) fn golden(network: &Network, compiled: &Compiled, arch: &NpuArch) -> Vec<Tensors> {
    let model = TARGET.prepare(&network.graph, arch, &compiled.numerics).unwrap();
    network.samples.iter().map(|sample| model.run(sample).unwrap()).collect()
}

/// The nodes of every layer of a program.
fn layers(graph: &Graph, compiled: &Compiled) -> Vec<Vec<NodeId>> {
    let layers = compiled.numerics.0["layers"].as_array().unwrap().iter();
    let node = |name: &serde_json::Value| graph.node_named(name.as_str().unwrap()).unwrap();
    layers.map(|layer| layer["nodes"].as_array().unwrap().iter().map(node).collect()).collect()
}

/// Simulators and golden model agree at every tap and output; how many values were compared.
fn judge(network: &Network, compiled: &Compiled, golden: &[Tensors], at: &str) -> usize {
    let Network { graph, samples, .. } = network;
    let problems = complaints(compiled.program.verify());
    assert!(problems.is_empty(), "{at}: {problems:?}\n{graph}");
    let mut seen = BTreeSet::new();
    for engine in [Engine::Exec, Engine::Fast] {
        let mut machine = compiled.program.load(engine).unwrap();
        for (sample, golden) in samples.iter().zip(golden) {
            let traced = machine.run_traced(sample).unwrap();
            let outputs = machine.run(sample).unwrap();
            let names: BTreeSet<&String> =
                graph.outputs().iter().map(|&id| &graph[id].name).collect();
            assert_eq!(outputs.keys().collect::<BTreeSet<_>>(), names, "{at}");
            for (name, found) in outputs.iter().chain(&traced) {
                same(found, &golden[name], &format!("{at}: {engine:?}, {name}\n{graph}"));
            }
            seen.extend(traced.into_keys());
        }
    }
    // Every layer that computes can be seen.
    for layer in layers(graph, compiled) {
        let (first, last) = (&graph[layer[0]], &graph[*layer.last().unwrap()]);
        let moves = matches!(
            first.op,
            Op::Identity | Op::Flatten { .. } | Op::Reshape { .. } | Op::Transpose { .. }
        );
        let enters = matches!(first.op, Op::Quantise(_))
            && graph.inputs().contains(&first.input(0).unwrap());
        let name = &graph[last.output].name;
        assert!(moves || enters || seen.contains(name), "{at}: {name} is not seen\n{graph}");
    }
    seen.len()
}

/// As f32, which inputs of graphs are.
fn single(tensor: &Tensor) -> Tensor {
    let reals = tensor.to_f64().into_iter().map(|real| real as f32).collect();
    Tensor::from_vec::<f32>(tensor.shape(), reals).unwrap()
}

/// The largest magnitude.
fn largest(tensor: &Tensor) -> f64 {
    tensor.to_f64().iter().fold(0.0, |most, x| most.max(x.abs()))
}

/// Every layer alone, on the operands that the golden model has: a code off the graph's executor at
/// most, or the rounding of 11 bits.
fn layers_are_near(graph: &Graph, layers: &[Vec<NodeId>], golden: &Tensors) {
    for layer in layers {
        let alone = extract_on_grids(graph, layer).unwrap();
        let operands = alone.inputs().iter().map(|&id| {
            let name = &alone[id].name;
            (name.clone(), single(&golden[name]))
        });
        let last = &graph[*layer.last().unwrap()];
        let name = &graph[last.output].name;
        let expected = &reference(&alone, &operands.collect())[name];
        let bound = match &last.op {
            Op::Quantise(quantiser) => quantiser.scale.as_uniform().unwrap() * 1.0001,
            _ => largest(expected) * 0.5_f64.powi(10) + 1e-4,
        };
        let off = distance(&golden[name], expected);
        assert!(off <= bound, "{name} is off by {off}, more than {bound}\n{graph}");
    }
}

/// Compiles a network for every machine and compares what all judges say; how many programs and
/// values that were.
pub(crate) fn judges_agree(network: &Network, effort: &str, case: u64) -> [usize; 2] {
    let (graph, mut counts) = (&network.graph, [0; 2]);
    let expected = reference(graph, &network.samples[0]);
    let several = several_cores(2 + case as u32 % 3);
    for arch in machines().into_iter().chain([several]) {
        let at = format!("case {case} on {}", arch.name);
        let Some(compiled) = compile_with(graph, &arch, effort) else { continue };
        let golden = golden(network, &compiled, &arch);
        counts[0] += 1;
        counts[1] += judge(network, &compiled, &golden, &at);
        layers_are_near(graph, &layers(graph, &compiled), &golden[0]);
        for &output in graph.outputs() {
            let name = &graph[output].name;
            let off = distance(&golden[0][name], &expected[name]);
            // Differences of a code in some layers become five codes at most; normalisations magnify
            // them.
            let magnified = network.features.contains("LayerNormalization");
            let codes = if magnified { 15.0 } else { 5.0 };
            let bound = largest(&expected[name]) * codes / 255.0 + 1e-4;
            assert!(off <= bound, "{at}: {name} is off by {off}, more than {bound}\n{graph}");
        }
    }
    counts
}

const FEATURES: &[&str] = &[
    "Add",
    "AveragePool",
    "Clip",
    "Concat",
    "Conv",
    "Erf",
    "Flatten",
    "Gelu",
    "Gemm",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "LayerNormalization",
    "LeakyRelu",
    "MatMul",
    "MaxPool",
    "Mul",
    "Neg",
    "Relu",
    "Reshape",
    "Resize",
    "Sigmoid",
    "Softmax",
    "Sub",
    "Tanh",
    "Transpose",
    "batch",
    "channels not of 8",
    "depthwise",
    "dilated",
    "gates",
    "grouped",
    "numbers of channels",
    "padded",
    "several outputs",
    "several positions of a product",
    "strided",
    "tokens",
];

#[test]
fn judges_agree_on_random_networks() {
    let mut features: BTreeSet<&str> = BTreeSet::new();
    let [mut programs, mut values] = [0; 2];
    for case in 0..50 {
        let network = network(&mut Random::new(case), Size::SMALL);
        features.extend(network.features.iter());
        let effort = if case % 10 == 0 { "default" } else { "fast" };
        let counts = judges_agree(&network, effort, case);
        programs += counts[0];
        values += counts[1];
    }
    assert_eq!(features.into_iter().collect::<Vec<_>>(), FEATURES);
    // The small machine is too small for some layers.
    assert!(programs >= 90 && values >= 500, "{programs} programs, {values} values");
}

/// Values and weights that do not lie in the small machine's buffers at once.
#[test]
fn judges_agree_on_large_networks() {
    let counts = (1000..1006).map(|case| {
        let network = network(&mut Random::new(case), Size::LARGE);
        judges_agree(&network, "fast", case)
    });
    let counts = counts.fold([0; 2], |sum, c| [sum[0] + c[0], sum[1] + c[1]]);
    assert!(counts[0] >= 9 && counts[1] >= 60, "{counts:?}");
}

/// Kernels, strides and paddings of every kind, between an input and a convolution.
#[test]
fn transposed_convolutions() {
    for case in 4000..4030 {
        let mut random = Random::new(case);
        let mut window = Window::new(&[1, 1]);
        let mut output_padding = window.strides.clone();
        for axis in 0..2 {
            window.kernel[axis] = random.range(1, 5);
            window.strides[axis] = random.range(1, 3);
            let most = window.kernel[axis] - 1;
            window.pads[axis] = (random.below(most + 1), random.below(most + 1));
            output_padding[axis] = random.below(window.strides[axis]);
        }
        let [c, k] = [random.range(1, 20), random.range(1, 20)];
        let mut graph = Graph::new("transposed");
        let shape = [random.range(1, 3), c, random.range(4, 7), random.range(4, 7)];
        let x = graph.add_input("x", DType::F32, &shape, &[]).unwrap();
        let mut constant = |graph: &mut Graph, name: &str, shape: &[usize]| {
            graph.add_constant(name, random.tensor(shape, 0.5)).unwrap()
        };
        let w = constant(&mut graph, "w", &[c, k, window.kernel[0], window.kernel[1]]);
        let b = constant(&mut graph, "b", &[k]);
        let v = constant(&mut graph, "v", &[3, k, 1, 1]);
        let op = Op::ConvTranspose(ConvTranspose { window, groups: 1, output_padding });
        let inputs = [Some(x), Some(w), Some(b)];
        let y = graph.add_node("transposed", op, &inputs[..2 + case as usize % 2], "y").unwrap();
        let y = graph.add_node("relu", Op::Unary(Unary::Relu), &[Some(y)], "r").unwrap();
        let point = Op::Conv(Conv { window: Window::new(&[1, 1]), groups: 1 });
        let z = graph.add_node("point", point, &[Some(y), Some(v)], "z").unwrap();
        graph.add_output(z);
        let network = calibrated(graph, &mut random);
        assert!(judges_agree(&network, "fast", case)[0] >= 3);
    }
}

/// Why the node of that name stays on the host.
fn reason(graph: &Graph, name: &str) -> String {
    let options = options(&TARGET, &[]);
    let claims = TARGET.claim(graph, &arch(), &options, &Refused::default()).unwrap();
    let id = graph.node_named(name).unwrap();
    match &claims[id.index()] {
        Claim::Host(reason) => reason.clone(),
        Claim::Device => panic!("{name} is taken:\n{graph}"),
    }
}

/// Forms of operators that look like others the machine has.
#[test]
fn what_has_no_form_stays_on_the_host() {
    let grid = Quantiser::symmetric(true, 8, 0.125);
    let mut graph = Graph::new("host");
    let enter = |graph: &mut Graph, name: &str, shape: &[usize]| {
        let x = graph.add_input(name, DType::F32, shape, &[]).unwrap();
        let op = Op::Quantise(grid.clone());
        graph.add_node(&format!("{name}_enter"), op, &[Some(x)], &format!("{name}_q")).unwrap()
    };
    let x = enter(&mut graph, "x", &[3, 8, 4, 4]);
    // The rows of an image cannot follow the channels of another.
    let flat = graph.add_node("flat", Op::Flatten { axis: 1 }, &[Some(x)], "flat_out").unwrap();
    let join = Op::Concat { axis: 1 };
    let joined = graph.add_node("join", join, &[Some(flat), Some(flat)], "joined").unwrap();
    // As many rows as output channels, and a number for each row.
    let codes = Tensor::from_vec(&[3, 128], vec![1_i64; 384]).unwrap();
    let weights = Constant { tensor: codes, quantiser: Some(grid.clone()) };
    let weights = graph.add_constant("w", weights).unwrap();
    let bias = Tensor::from_vec(&[3, 1], vec![1.0_f32, 2.0, 3.0]).unwrap();
    let bias = graph.add_constant("b", bias).unwrap();
    let gemm = Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: true };
    let inputs = [Some(flat), Some(weights), Some(bias)];
    let product = graph.add_node("gemm", Op::Gemm(gemm), &inputs, "product").unwrap();
    graph.add_output(joined);
    graph.add_output(product);
    assert!(reason(&graph, "join").contains("other extents"));
    assert!(reason(&graph, "gemm").contains("bias"));
}

/// An input that is an output as it is, or under another name, while its columns could become
/// channels for a convolution.
#[test]
fn inputs_can_be_outputs() {
    let mut graph = Graph::new("passed on");
    let x = graph.add_input("x", DType::F32, &[2, 1, 8, 8], &[]).unwrap();
    let grid = Quantiser::symmetric(true, 8, 0.125);
    let entered = graph.add_node("enter", Op::Quantise(grid.clone()), &[Some(x)], "xq").unwrap();
    let same = graph.add_node("same", Op::Identity, &[Some(entered)], "same_out").unwrap();
    let codes = Tensor::from_vec(&[3, 1, 3, 3], (-13..14).collect::<Vec<i64>>()).unwrap();
    let weights = Constant { tensor: codes, quantiser: Some(grid) };
    let weights = graph.add_constant("w", weights).unwrap();
    let mut window = Window::new(&[3, 3]);
    window.strides.fill(2);
    let conv = Op::Conv(Conv { window, groups: 1 });
    let y = graph.add_node("conv", conv, &[Some(entered), Some(weights)], "y").unwrap();
    for outputs in [vec![y, same], vec![entered, y], vec![same, entered, y]] {
        let mut graph = graph.clone();
        outputs.into_iter().for_each(|output| graph.add_output(output));
        let x = Random::new(7).tensor(&[2, 1, 8, 8], 10.0);
        let samples = vec![Tensors::from([("x".to_owned(), x)])];
        let network = Network { graph, samples, features: BTreeSet::new() };
        for arch in machines().into_iter().chain([several_cores(2)]) {
            let compiled = compile(&network.graph, &arch).unwrap();
            judge(&network, &compiled, &golden(&network, &compiled, &arch), &arch.name);
        }
    }
}
