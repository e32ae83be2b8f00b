//! Prepared execution against the reference executors, on random graphs.

mod edges;

use quincunx_graph::execute::{ExactTensor, Keep, Session, Settings, exact, float};
use quincunx_graph::{Binary, Graph, Op, Param, Pool, PoolKind, Quantiser, ValueId};
use quincunx_num::{Level, Rounding};
use quincunx_tensor::{DType, Tensor, Tensors};
use quincunx_testkit::{Coverage, Random, Recipe, each_alone};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;

fn settings(threads: usize, level: Level) -> Settings {
    Settings { keep: Keep::All, threads: NonZeroUsize::new(threads).unwrap(), level }
}

/// Every value at every level; results of different numbers of threads have the same bits.
fn run_everywhere(graph: &Graph, inputs: &Tensors, what: &str) -> Vec<Tensors> {
    let run = |threads, level| {
        Session::new(graph, settings(threads, level)).unwrap().run(inputs).unwrap()
    };
    Level::available()
        .map(|level| {
            let alone = run(1, level);
            for threads in [2, 3] {
                assert!(run(threads, level) == alone, "{what}: {threads} threads at {level}");
            }
            alone
        })
        .collect()
}

/// Numbers are those of the exact executor, rounded to f32; where they were computed from several
/// roundings of f64, off by less than f32 shows.
fn check_exact(found: &Tensor, expected: &ExactTensor, quantised: bool, what: &str) {
    assert_eq!(found.shape(), expected.shape(), "{what}");
    let expected = expected.to_f64();
    let most = expected.iter().fold(0.0_f64, |most, v| most.max(v.abs()));
    for (index, (found, exact)) in found.to_f64().into_iter().zip(expected).enumerate() {
        let near = (found - exact).abs() <= 1e-7 * exact.abs() + 1e-13 * most;
        let equal = found == f64::from(exact as f32);
        assert!(equal || !quantised && near, "{what}[{index}]: {found:?}, expected {exact:?}");
    }
}

fn check_all_exact(graph: &Graph, inputs: &Tensors, what: &str) {
    let expected: BTreeMap<String, ExactTensor> = exact(graph, inputs, Keep::All).unwrap();
    for found in run_everywhere(graph, inputs, what) {
        assert_eq!(found.len(), expected.len(), "{what}");
        for (_, node) in graph.nodes() {
            let name = &graph[node.output].name;
            let quantised = node.op.name() == "Quantise";
            let text = || format!("{what}: {name} ({})\n{graph}", node.op.name());
            check_exact(&found[name], &expected[name], quantised, &text());
        }
    }
}

/// Operators that sessions compute exactly.
const EXACT: &str = "Conv Gemm MatMul MaxPool AveragePool GlobalAveragePool GlobalMaxPool Relu Neg Abs \
    Floor HardSwish Add Sub Mul Max Min LeakyRelu HardSigmoid Clip ReduceMean ConvTranspose Concat \
    Slice Pad Flatten Reshape Transpose Identity Quantise";

/// Graphs all of whose values lie on grids, or are made of numbers on grids exactly.
const QUANTISED: Recipe<'static> = Recipe {
    grids: Some([16, 16]),
    coded: true,
    channels: 19,
    extent: 7,
    accept: &|_, node| EXACT.split_whitespace().any(|name| name == node.op.name()),
    ..Recipe::REAL
};

#[test]
fn quantised_graphs_equal_the_exact_executor() {
    let mut coverage = Coverage::default();
    for case in 0..300 {
        let (graph, inputs) = QUANTISED.graph(&mut Random::new(case));
        check_all_exact(&graph, &inputs, &format!("case {case}"));
        coverage.mark(&graph);
    }
    assert_eq!(coverage.came(), EXACT);
    coverage.assert_modes();
}

/// Quotients on thresholds, and next to them: sums over numbers of elements that f64 cannot divide
/// by, with scales that it cannot multiply exactly, in every rounding mode.
#[test]
fn ties_are_decided_exactly() {
    let mut random = Random::new(7);
    for [height, width] in [[2, 3], [1, 5], [7, 2], [5, 4], [6, 7]] {
        let count = (height * width) as i64;
        for rounding in Rounding::ALL {
            for factor in [1.0, 0.5, 2.0, 1.0 / 3.0] {
                let scale = 0.01 + random.real().abs();
                let x_scale = Quantiser::symmetric(false, 12, scale);
                let mut y_scale = Quantiser::symmetric(true, 12, scale * factor);
                y_scale.rounding = Param::uniform(rounding);
                let (graph, inputs) = averages([height, width], x_scale, y_scale, count);
                check_all_exact(&graph, &inputs, &format!("{height}x{width} {rounding} {factor}"));
            }
        }
    }
}

/// Images whose codes add up to 0, 1, …, averaged and divided.
fn averages(
    [height, width]: [usize; 2],
    x: Quantiser,
    y: Quantiser,
    count: i64,
) -> (Graph, Tensors) {
    let (images, scale) = (3 * count as usize + 1, x.scale.as_uniform().unwrap());
    let mut values = vec![0.0; images * height * width];
    for (sum, image) in values.chunks_mut(height * width).enumerate() {
        image[0] = (sum as f64 * scale) as f32;
    }
    let shape = [1, images, height, width];
    let mut graph = Graph::new("averages");
    let input = graph.add_input("x", DType::F32, &shape, &[]).unwrap();
    let mut node = |name: &str, op: Op, inputs: &[ValueId]| {
        let inputs: Vec<_> = inputs.iter().map(|&id| Some(id)).collect();
        graph.add_node(name, op, &inputs, &format!("{name}_out")).unwrap()
    };
    let codes = node("codes", Op::Quantise(x), &[input]);
    let mean = node("mean", Op::GlobalAveragePool, &[codes]);
    let rounded = node("rounded", Op::Quantise(y.clone()), &[mean]);
    let pairs = node("sum", Op::Binary(Binary::Add), &[mean, rounded]);
    let output = node("sum_rounded", Op::Quantise(y), &[pairs]);
    graph.add_output(output);
    (graph, Tensors::from([("x".to_owned(), Tensor::from_vec(&shape, values).unwrap())]))
}

/// Numbers on and beside every threshold.
#[test]
fn f32_numbers_near_thresholds_are_rounded_exactly() {
    let mut random = Random::new(3);
    for case in 0..60 {
        let mut scale = random.real().abs() + 1e-3;
        if case % 3 > 0 {
            scale = f64::from(scale as f32);
        }
        let mut values = vec![0.0, -0.0, f32::MIN_POSITIVE, -1e-30, 1e30, -1e30];
        for half in -40..40 {
            let near = (f64::from(half) / 2.0 * scale) as f32;
            values.extend([near.next_down(), near, near.next_up()]);
        }
        for rounding in Rounding::ALL {
            let mut quantiser = Quantiser::symmetric(true, 5, scale);
            quantiser.zero = Param::uniform(3);
            quantiser.rounding = Param::uniform(rounding);
            let mut graph = Graph::new("f32");
            let x = graph.add_input("x", DType::F32, &[values.len()], &[]).unwrap();
            let y = graph.add_node("q", Op::Quantise(quantiser), &[Some(x)], "y").unwrap();
            graph.add_output(y);
            let x = Tensor::from_vec(&[values.len()], values.clone()).unwrap();
            check_all_exact(&graph, &Tensors::from([("x".to_owned(), x)]), &format!("{scale}"));
        }
    }
}

#[test]
fn float_graphs_equal_the_float_executor_but_for_rounding() {
    let mut coverage = Coverage::default();
    for case in 0..300 {
        let (graph, inputs) = Recipe::REAL.graph(&mut Random::new(case));
        for mut values in run_everywhere(&graph, &inputs, &format!("case {case}")) {
            values.extend(inputs.clone());
            for (node, worst) in each_alone(&graph, &values, [f64::MIN, f64::MAX]) {
                let found = values[&graph[node.output].name].to_f64();
                let most = found.into_iter().fold(1e-3_f64, |most, v| most.max(v.abs()));
                assert!(
                    worst <= 2e-5 * most,
                    "case {case}: {} is off by {worst}\n{graph}",
                    node.name
                );
            }
        }
        coverage.mark(&graph);
    }
    assert_eq!(coverage.never(), "");
}

/// Shapes of every rank, some of them empty.
const SHAPES: [&[usize]; 15] = [
    &[],
    &[5],
    &[0],
    &[3, 4],
    &[1, 1],
    &[0, 4],
    &[3, 0],
    &[2, 3, 5],
    &[1, 3, 0],
    &[2, 3, 5, 4],
    &[0, 3, 5, 4],
    &[2, 0, 5, 4],
    &[1, 3, 0, 4],
    &[1, 2, 1, 1],
    &[1, 2, 3, 5, 4],
];

/// The same numbers but for rounding; NaN is NaN, and infinities have their sign.
fn check_float(found: &Tensor, expected: &Tensor, what: &str) {
    assert_eq!(found.shape(), expected.shape(), "{what}");
    for (found, expected) in found.to_f64().into_iter().zip(expected.to_f64()) {
        let near = (found - expected).abs() <= 2e-6 * expected.abs().max(1.0);
        let same = found == expected || found.is_nan() && expected.is_nan();
        assert!(same || near, "{what}: {found}, expected {expected}");
    }
}

/// Runs every operator in f32 and between quantisers.
fn check_single(ops: &[(Op, Vec<Tensor>)], x: &Tensor) {
    let inputs = Tensors::from([("x".to_owned(), x.clone())]);
    for (op, constants) in ops {
        if let Some(graph) = edges::single(op.clone(), x, constants, false) {
            let expected = float(&graph, &inputs, Keep::All).unwrap();
            for found in run_everywhere(&graph, &inputs, "edge") {
                check_float(&found["y"], &expected["y"], &graph.to_string());
            }
        }
        let finite = x.to_f64().iter().all(|v| v.is_finite());
        if let Some(graph) = edges::single(op.clone(), x, constants, true).filter(|_| finite) {
            match exact(&graph, &inputs, Keep::All) {
                Ok(_) if !matches!(op, Op::MatMul | Op::Gemm(_) | Op::Conv(_)) => {
                    check_all_exact(&graph, &inputs, "edge");
                }
                // Weights that are not codes make f32 layers.
                _ => {
                    run_everywhere(&graph, &inputs, "edge");
                }
            }
        }
    }
}

#[test]
fn every_rank_and_empty_tensors() {
    let mut random = Random::new(11);
    for shape in SHAPES {
        let x = edges::tensor(shape, random.floats(shape.iter().product()));
        check_single(&edges::elementwise(shape, &mut random), &x);
        check_single(&edges::layers(shape, &mut random), &x);
    }
}

#[test]
fn windows_beyond_the_image() {
    let mut random = Random::new(12);
    let pools: Vec<_> = edges::pools().into_iter().map(|op| (op, Vec::new())).collect();
    for shape in [&[2, 3, 5][..], &[1, 3, 5, 4], &[1, 2, 3, 5, 4], &[1, 2, 1, 1], &[1, 2, 0, 3]] {
        check_single(&pools, &edges::tensor(shape, random.floats(shape.iter().product())));
    }
}

#[test]
fn numbers_that_are_not_finite_or_tiny() {
    let mut random = Random::new(13);
    for shape in [&[24][..], &[4, 6], &[1, 4, 6], &[1, 2, 3, 4]] {
        let mut values = random.floats(24);
        let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 1e-45, f32::MAX];
        special.iter().enumerate().for_each(|(index, v)| values[index * 4] = *v);
        let x = edges::tensor(shape, values);
        check_single(&edges::elementwise(shape, &mut random), &x);
        check_single(&edges::layers(shape, &mut random), &x);
    }
}

/// Weights that are not finite meet no pads.
#[test]
fn infinite_weights_do_not_meet_pads() {
    for groups in [1, 2] {
        let mut window = quincunx_graph::Window::new(&[2, 2]);
        window.pads.fill((1, 1));
        let weights = vec![f32::INFINITY; 8 * 2 / groups / groups * groups];
        let w = edges::tensor(&[weights.len() / (4 * 2 / groups), 2 / groups, 2, 2], weights);
        let op = Op::Conv(quincunx_graph::Conv { window, groups });
        check_single(&[(op, vec![w])], &edges::tensor(&[1, 2, 3, 3], vec![1.0; 18]));
    }
}

/// Largest sums on both sides of what 32 bits hold.
#[test]
fn sums_at_the_border_of_32_bits() {
    for depth in [65_793, 65_794] {
        for zero in [0, 128, 255] {
            let (graph, inputs) = edges::deep_product(depth, zero);
            check_all_exact(&graph, &inputs, &format!("{depth} {zero}"));
        }
    }
}

/// Codes that are read with channels innermost in two shapes.
#[test]
fn reshaped_codes_have_layouts_of_their_own() {
    let x = edges::tensor(&[1, 4, 2], (0..8).map(|v| v as f32).collect());
    let mut graph = Graph::new("reshaped");
    let mut value = graph.add_input("x", DType::F32, x.shape(), &[]).unwrap();
    let pool = |rank: usize| {
        let window = quincunx_graph::Window::new(&vec![1; rank]);
        Op::Pool(Pool { kind: PoolKind::Max, window, ceil: false })
    };
    let grid = Op::Quantise(Quantiser::symmetric(false, 4, 1.0));
    for (name, op) in [("codes", grid), ("four", Op::Reshape { shape: vec![1, 2, 1, 4] })] {
        value = graph.add_node(name, op, &[Some(value)], &format!("{name}_out")).unwrap();
        let pool = pool(graph[value].shape.len() - 2);
        let pooled = format!("{name}_pool");
        let pooled = graph.add_node(&pooled, pool, &[Some(value)], &format!("{pooled}_out"));
        graph.add_output(pooled.unwrap());
    }
    check_all_exact(&graph, &Tensors::from([("x".to_owned(), x)]), "reshaped");
}

/// Memory that operators write over is nobody else's: outputs in the middle of a graph, inputs and
/// constants stay what they are, in this run and the next.
#[test]
fn kept_values_are_not_written_over() {
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let recipe = if random.chance(40) { QUANTISED } else { Recipe::REAL };
        let (mut graph, inputs) = recipe.graph(&mut random);
        let all = Settings { keep: Keep::All, ..Settings::default() };
        let expected = Session::new(&graph, all).unwrap().run(&inputs).unwrap();
        let mut shown = Tensors::new();
        let session = Session::for_values(&graph, Settings::default()).unwrap();
        for value in session.values(&inputs).unwrap() {
            let (name, tensor) = value.unwrap();
            assert!(shown.insert(name.to_owned(), tensor).is_none(), "{name} comes twice");
        }
        assert!(shown == expected, "seed {seed}\n{graph}");
        let results: Vec<ValueId> = graph.nodes().map(|(_, node)| node.output).collect();
        for id in results {
            if random.chance(30) && !graph.outputs().contains(&id) {
                graph.add_output(id);
            }
        }
        let session = Session::new(&graph, Settings::default()).unwrap();
        for run in 0..2 {
            for (name, found) in session.run(&inputs).unwrap() {
                assert!(found == expected[&name], "seed {seed}, run {run}: {name}\n{graph}");
            }
        }
    }
}
