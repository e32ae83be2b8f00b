//! Passes keep the meaning of a graph, or change it as little as they say.

use quincunx_graph::execute::{Keep, exact, float};
use quincunx_graph::passes::{Scheme, calibrate, extract, fold_constants, quantise, remove_dead};
use quincunx_graph::{
    Binary, Conv, Gemm, Graph, NodeId, Op, Pool, PoolKind, Unary, ValueId, Window,
};
use quincunx_tensor::{DType, Tensor, Tensors};

fn ramp(shape: &[usize], seed: u32, scale: f32) -> Tensor {
    let count: usize = shape.iter().product();
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((state >> 16) as f32 / 65_536.0 - 0.5) * 2.0 * scale
    };
    Tensor::from_vec(shape, (0..count).map(|_| next()).collect()).unwrap()
}

/// Convolution, ReLU, pooling, residual sum and a dense layer on a 1×2×6×6 input.
fn network() -> Graph {
    let mut g = Graph::new("net");
    let x = g.add_input("x", DType::F32, &[1, 2, 6, 6], &[]).unwrap();
    let constant = |g: &mut Graph, name: &str, shape: &[usize], seed| {
        g.add_constant(name, ramp(shape, seed, 0.5)).unwrap()
    };
    let node = |g: &mut Graph, name: &str, op: Op, inputs: &[ValueId]| {
        let inputs: Vec<_> = inputs.iter().map(|&i| Some(i)).collect();
        g.add_node(name, op, &inputs, &format!("{name}_out")).unwrap()
    };
    let (w, b) = (constant(&mut g, "w", &[4, 2, 3, 3], 1), constant(&mut g, "b", &[4], 2));
    let mut window = Window::new(&[3, 3]);
    window.pads = [(1, 1), (1, 1)].as_slice().into();
    let c = node(&mut g, "conv", Op::Conv(Conv { window, groups: 1 }), &[x, w, b]);
    let r = node(&mut g, "relu", Op::Unary(Unary::Relu), &[c]);
    let mut halves = Window::new(&[2, 2]);
    halves.strides = [2, 2].as_slice().into();
    let max = Pool { kind: PoolKind::Max, window: halves, ceil: false };
    let m = node(&mut g, "max", Op::Pool(max), &[r]);
    let w2 = constant(&mut g, "w2", &[4, 4, 1, 1], 3);
    let c2 =
        node(&mut g, "conv2", Op::Conv(Conv { window: Window::new(&[1, 1]), groups: 1 }), &[m, w2]);
    let a = node(&mut g, "add", Op::Binary(Binary::Add), &[m, c2]);
    let average = Op::GlobalAveragePool;
    let p = node(&mut g, "average", average, &[a]);
    let f = node(&mut g, "flatten", Op::Flatten { axis: 1 }, &[p]);
    let (w3, b3) = (constant(&mut g, "w3", &[3, 4], 4), constant(&mut g, "b3", &[3], 5));
    let gemm = Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: true };
    let y = node(&mut g, "dense", Op::Gemm(gemm), &[f, w3, b3]);
    g.add_output(y);
    g
}

fn samples(count: u32) -> Vec<Tensors> {
    (0..count)
        .map(|i| Tensors::from([("x".to_owned(), ramp(&[1, 2, 6, 6], 100 + i, 1.0))]))
        .collect()
}

fn quantised(scheme: &Scheme) -> (Graph, Graph) {
    let graph = network();
    let ranges = calibrate(&graph, samples(20)).unwrap();
    let quantised = quantise(&graph, &ranges, scheme).unwrap();
    assert!(quantised.verify().is_empty(), "{:?}", quantised.verify());
    (graph, quantised)
}

#[test]
fn quantising_gives_every_layer_a_grid_and_a_small_error() {
    let (graph, fixed) = quantised(&Scheme::POWER_OF_TWO_8);
    for (_, node) in fixed.nodes() {
        let layer = matches!(node.op, Op::Conv(_) | Op::Gemm(_));
        for operand in node.operands().take(if layer { 3 } else { 0 }) {
            let grid = fixed
                .grid(operand)
                .unwrap_or_else(|| panic!("{} has no grid", fixed[operand].name));
            assert!(grid.is_fixed_point());
        }
    }
    let mut worst = [0.0_f64; 2];
    let (_, coarse) = quantised(&Scheme::PowerOfTwo { weights: 4, activations: 4 });
    for sample in samples(40) {
        let expected = float(&graph, &sample, Keep::Outputs).unwrap()["dense_out"].to_f64();
        for (graph, worst) in [&fixed, &coarse].into_iter().zip(&mut worst) {
            let found = exact(graph, &sample, Keep::Outputs).unwrap()["dense_out"].to_f64();
            let error = found.iter().zip(&expected).map(|(a, b)| (a - b).abs());
            *worst = error.fold(*worst, f64::max);
        }
    }
    assert!(worst[0] < 0.05 && worst[0] < worst[1], "errors {worst:?}");
}

#[test]
fn quantising_twice_changes_nothing() {
    let (_, fixed) = quantised(&Scheme::POWER_OF_TWO_8);
    let ranges = calibrate(&fixed, samples(5)).unwrap();
    let again = quantise(&fixed, &ranges, &Scheme::POWER_OF_TWO_8).unwrap();
    assert_eq!(again.to_string(), fixed.to_string());
}

#[test]
fn calibration_needs_finite_samples() {
    let graph = network();
    assert_eq!(calibrate(&graph, []).unwrap_err().code(), "Q0313");
    let bad = ramp(&[1, 2, 6, 6], 1, f32::INFINITY);
    let sample = Tensors::from([("x".to_owned(), bad)]);
    assert_eq!(calibrate(&graph, [sample]).unwrap_err().code(), "Q0313");
    let none = Default::default();
    assert_eq!(quantise(&graph, &none, &Scheme::POWER_OF_TWO_8).unwrap_err().code(), "Q0313");
}

/// Any cut of the graph in two parts, run one after the other, gives the same outputs.
#[test]
fn extracted_parts_compose() {
    let graph = network();
    let sample = &samples(1)[0];
    let expected = float(&graph, sample, Keep::Outputs).unwrap();
    let nodes: Vec<NodeId> = graph.nodes().map(|(id, _)| id).collect();
    for cut in 0..=nodes.len() {
        let mut values = sample.clone();
        for part in [&nodes[..cut], &nodes[cut..]] {
            let part = extract(&graph, part).unwrap();
            assert!(part.verify().is_empty());
            values.extend(float(&part, &values, Keep::Outputs).unwrap());
        }
        assert_eq!(values["dense_out"], expected["dense_out"], "cut at {cut}");
    }
}

#[test]
fn dead_nodes_and_constants_go_and_inputs_stay() {
    let mut graph = network();
    let x = graph.value_named("x").unwrap();
    let c = graph.add_constant("unused", ramp(&[1], 1, 1.0)).unwrap();
    graph.add_node("dead", Op::Binary(Binary::Mul), &[Some(x), Some(c)], "dead_out").unwrap();
    graph.add_input("ignored", DType::F32, &[1], &[]).unwrap();
    let clean = remove_dead(&graph).unwrap();
    assert_eq!(clean.nodes().len(), network().nodes().len());
    assert!(clean.value_named("unused").is_none() && clean.value_named("ignored").is_some());
    assert!(clean.verify().is_empty());
    assert_eq!(fold_constants(&clean).unwrap().to_string(), clean.to_string());
}
