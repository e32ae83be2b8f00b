//! What is refused and why, and that claims are what can be lowered.

use super::{both_values, network_of};
use crate::TcuArch;
use crate::compile::claim::claim;
use crate::compile::frontend::{Choices, Freedom, network};
use crate::compile::hir::Op as Hir;
use quincunx_contract::Claim;
use quincunx_graph::{
    Activation, BatchNorm, Binary, Conv, Gemm, Graph, Op, Pad, PadMode, Pool, PoolKind, Quantiser,
    Reduce, ReduceKind, Softmax, Unary, ValueId, Window,
};
use quincunx_tensor::{DType, Tensor};
use quincunx_testkit::Random;

fn arch() -> TcuArch {
    TcuArch::preset("pynqz1").unwrap()
}

struct Case {
    graph: Graph,
    count: usize,
}

impl Case {
    fn new() -> Case {
        Case { graph: Graph::new("case"), count: 0 }
    }

    fn name(&mut self) -> String {
        self.count += 1;
        format!("v{}", self.count)
    }

    fn input(&mut self, shape: &[usize]) -> ValueId {
        let name = self.name();
        self.graph.add_input(&name, DType::F32, shape, &[]).unwrap()
    }

    fn constant(&mut self, shape: &[usize], real: f32) -> ValueId {
        let name = self.name();
        let count = shape.iter().product();
        let ramp = (0..count).map(|i: usize| real + (i % 7) as f32 / 16.0).collect();
        self.graph.add_constant(&name, Tensor::from_vec::<f32>(shape, ramp).unwrap()).unwrap()
    }

    fn node(&mut self, op: Op, inputs: &[ValueId]) -> ValueId {
        let name = self.name();
        let inputs: Vec<_> = inputs.iter().copied().map(Some).collect();
        self.graph.add_node(&name, op, &inputs, &format!("{name}_out")).unwrap()
    }

    /// Why the last node is refused.
    fn reason(self, output: ValueId) -> String {
        let mut graph = self.graph;
        graph.add_output(output);
        let arch = arch();
        let Some(Claim::Host(reason)) = claim(&graph, &arch, None).pop() else {
            panic!("it is claimed: {graph}");
        };
        let problem = network(&graph, &arch, &Choices::default()).unwrap_err();
        assert_eq!(problem.code(), "Q3095");
        assert!(problem.message().contains(&reason), "{problem}");
        reason
    }
}

fn refused(build: impl FnOnce(&mut Case) -> ValueId) -> String {
    let mut case = Case::new();
    let output = build(&mut case);
    case.reason(output)
}

fn conv(kernel: &[usize]) -> Op {
    Op::Conv(Conv { window: Window::new(kernel), groups: 1 })
}

#[test]
fn products_need_constant_weights_and_two_axes() {
    let reason = refused(|case| {
        let (x, w) = (case.input(&[1, 2, 4, 4]), case.input(&[3, 2, 1, 1]));
        case.node(conv(&[1, 1]), &[x, w])
    });
    assert_eq!(reason, "its weights are not constant");
    let reason = refused(|case| {
        let (x, w) = (case.input(&[1, 2, 4, 4, 4]), case.constant(&[3, 2, 1, 1, 1], 0.0));
        case.node(conv(&[1, 1, 1]), &[x, w])
    });
    assert!(reason.contains("more than two spatial axes"));
    let reason = refused(|case| {
        let (x, w) = (case.input(&[1, 2, 4, 4]), case.constant(&[3, 2, 1, 1], f32::INFINITY));
        case.node(conv(&[1, 1]), &[x, w])
    });
    assert!(reason.contains("not finite"));
    let gemm =
        |transpose_a| Op::Gemm(Gemm { alpha: 1.0, beta: 1.0, transpose_a, transpose_b: false });
    let reason = refused(|case| {
        let (a, b) = (case.input(&[4, 2]), case.constant(&[4, 3], 0.0));
        case.node(gemm(true), &[a, b])
    });
    assert!(reason.contains("transposed"));
    let reason = refused(|case| {
        let inputs =
            [case.input(&[2, 4]), case.constant(&[4, 3], 0.0), case.constant(&[2, 1], 0.0)];
        case.node(gemm(false), &inputs)
    });
    assert!(reason.contains("not one row"));
    let reason = refused(|case| {
        let (a, b) = (case.input(&[2, 3, 4]), case.constant(&[2, 4, 3], 0.0));
        case.node(Op::MatMul, &[a, b])
    });
    assert!(reason.contains("not one matrix"));
}

#[test]
fn operators_without_instructions_are_refused() {
    let unary = |op: Op| {
        refused(|case| {
            let x = case.input(&[1, 4, 2, 2]);
            case.node(op, &[x])
        })
    };
    assert!(unary(Op::Unary(Unary::Sigmoid)).contains("needs lookup tables"));
    assert!(unary(Op::Softmax(Softmax { axis: 1, log: false })).contains("needs lookup tables"));
    assert!(unary(Op::Unary(Unary::Floor)).contains("no instructions"));
    assert!(unary(Op::Activation(Activation::LeakyRelu { alpha: 1.5 })).contains("above 1"));
    let nan = Activation::Clip { min: Some(f32::NAN), max: None };
    assert!(unary(Op::Activation(nan)).contains("not a number"));
    let mean = |axes| Op::Reduce(Reduce { kind: ReduceKind::Mean, axes, keep_dims: true });
    assert!(unary(mean(vec![1, 2])).contains("over channels or positions"));
    let reason = refused(|case| {
        let x = case.input(&[1, 1024, 2]);
        case.node(mean(vec![1]), &[x])
    });
    assert!(reason.contains("reciprocal of 1024 channels"), "{reason}");
    let reason = refused(|case| {
        let x = case.input(&[1, 2, 5000, 2]);
        let sum = Reduce { kind: ReduceKind::Sum, axes: vec![1], keep_dims: false };
        case.node(Op::Reduce(sum), &[x])
    });
    assert!(reason.contains("matrices that are too large"), "{reason}");
    assert!(unary(Op::Quantise(Quantiser::symmetric(true, 8, 0.5))).contains("another grid"));
    let mut window = Window::new(&[2, 2]);
    // At -1 and 2 of two rows.
    (window.pads[0], window.dilations[0]) = ((1, 1), 3);
    let pool = Pool { kind: PoolKind::Max, window, ceil: false };
    assert!(unary(Op::Pool(pool)).contains("wholly in the padding"));
    let pads = [(0, 0), (0, 0), (1, 1), (1, 1)].into();
    let pad = Pad { pads, mode: PadMode::Constant(1.0) };
    assert!(unary(Op::Pad(pad)).contains("not zero"));
    assert!(unary(Op::Cast { to: DType::I32 }).contains("not a real number"));
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    // The constants begin with the number and rise by 1/16.
    for (op, number, what) in [
        (Binary::Div, 0.0, "reciprocal of 0"),
        (Binary::Div, -0.0625, "reciprocal of 0"),
        (Binary::Div, 1000.0, "reciprocal of 1000"),
        (Binary::Pow, 2.0, "constant 2 or 3"),
    ] {
        let reason = refused(|case| {
            let (x, c) = (case.input(&[1, 4, 2, 2]), case.constant(&[1, 4, 1, 1], number));
            case.node(Op::Binary(op), &[x, c])
        });
        assert!(reason.contains(what), "{reason}");
    }
    let reason = refused(|case| {
        let (x, y) = (case.input(&[1, 4, 2, 2]), case.input(&[1, 4, 2, 2]));
        case.node(Op::Binary(Binary::Div), &[x, y])
    });
    assert!(reason.contains("divisor is not constant"));
    let reason = refused(|case| {
        let (x, y) = (case.input(&[1, 4, 2, 2]), case.input(&[4, 2, 2]));
        case.node(Op::Binary(Binary::Add), &[x, y])
    });
    assert!(reason.contains("new axes"));
    let reason = refused(|case| {
        let (x, y) = (case.input(&[1, 4, 2, 2]), case.constant(&[1, 4, 2, 2], 0.5));
        case.node(Op::Concat { axis: 2 }, &[x, y])
    });
    assert!(reason.contains("one of its operands is constant"));
    let reason = refused(|case| {
        let mut inputs = vec![case.input(&[1, 4, 2, 2])];
        inputs.extend([0.5, 0.5, 0.5, -9.0].map(|real| case.constant(&[4], real)));
        case.node(Op::BatchNorm(BatchNorm { epsilon: 0.0 }), &inputs)
    });
    assert!(reason.contains("not finite"));
    let reason = refused(|case| {
        let x = case.input(&[1, 8, 1 << 10, (1 << 10) + 1]);
        case.node(Op::Unary(Unary::Relu), &[x])
    });
    assert!(reason.contains("DRAM0 has 1048576"), "{reason}");
    let reason = refused(|case| {
        let x = case.input(&[1, 512, 49, 49]);
        case.node(Op::Flatten { axis: 1 }, &[x])
    });
    assert!(reason.contains("matrices that are too large"), "{reason}");
}

/// What cannot be moved is read unflattened by products: one layer with a tap for every position.
#[test]
fn products_read_flattened_tensors() {
    let mut case = Case::new();
    let x = case.input(&[2, 12, 7, 7]);
    let relu = case.node(Op::Unary(Unary::Relu), &[x]);
    let flat = case.node(Op::Flatten { axis: 1 }, &[relu]);
    let w = case.constant(&[12 * 49, 5], -0.2);
    let bias = case.constant(&[5], 0.25);
    let gemm = Gemm { alpha: 0.0625, beta: 2.0, transpose_a: false, transpose_b: false };
    let y = case.node(Op::Gemm(gemm), &[flat, w, bias]);
    let mut graph = case.graph;
    graph.add_output(y);
    let mut arch = arch();
    arch.data_type = crate::arch::DataType::FP32BP16;
    assert!(claim(&graph, &arch, None).iter().all(|claim| *claim == Claim::Device));
    let lowered = network_of(&graph, &arch, &Choices::of(Freedom::Compat));
    assert_eq!(lowered.network.layers.len(), 2);
    let Hir::MatMul(product) = &lowered.network.layers[1].ops[0] else {
        panic!("a product begins the layer");
    };
    assert_eq!(product.taps.len(), 49);
    let numbers = &lowered.numbers[&product.node];
    assert_eq!((numbers.positions, numbers.chunk, numbers.bias), (Some(49), Some(2), Some([0, 1])));
    for (name, got, expected) in both_values(&graph, &arch, &lowered.network, &mut Random::new(3)) {
        let far = got.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(far < 0.01, "{name}: {far}");
    }
}

/// Joined channels that begin with vectors are saved in place, paddings are read through pairs, and
/// operations that follow each other share a layer.
#[test]
fn layers_are_as_few_as_can_be() {
    let mut case = Case::new();
    let x = case.input(&[1, 8, 4, 4]);
    let (a, b) = (case.constant(&[8, 8, 1, 1], -0.1), case.constant(&[5, 8, 3, 3], -0.2));
    let pads = [(0, 0), (0, 0), (1, 1), (1, 1)].into();
    let padded = case.node(Op::Pad(Pad { pads, mode: PadMode::Constant(0.0) }), &[x]);
    let left = case.node(conv(&[1, 1]), &[x, a]);
    let left = case.node(Op::Unary(Unary::Relu), &[left]);
    let right = case.node(conv(&[3, 3]), &[padded, b]);
    let joined = case.node(Op::Concat { axis: 1 }, &[left, right]);
    let mut window = Window::new(&[2, 2]);
    window.strides = [2, 2].into_iter().collect();
    let w = case.constant(&[13, 13, 1, 1], -0.1);
    let last = case.node(conv(&[1, 1]), &[joined, w]);
    let added = case.node(Op::Binary(Binary::Add), &[joined, last]);
    let y = case.node(Op::Pool(Pool { kind: PoolKind::Max, window, ceil: false }), &[added]);
    let mut graph = case.graph;
    graph.add_output(y);
    let arch = arch();
    let network = network_of(&graph, &arch, &Choices::default()).network;
    assert_eq!(network.layers.len(), 3);
    assert_eq!(network.layers[2].nodes.len(), 3);
    // Input, joined tensor, output.
    assert_eq!(network.vars.len(), 3);
    let names: Vec<&str> = network.observed.iter().map(|value| value.name.as_str()).collect();
    let expected = [left, right, joined, y].map(|value| graph[value].name.as_str());
    assert_eq!(names, expected);
}
