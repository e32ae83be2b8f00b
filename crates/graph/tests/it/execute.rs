//! The reference executors against results computed by hand and against each other.

use quincunx_graph::execute::{Keep, exact, float};
use quincunx_graph::{
    BatchNorm, Binary, Constant, Conv, Gemm, Graph, Op, Param, Pool, PoolKind, Quantiser, Unary,
    ValueId, Window,
};
use quincunx_num::{Overflow, Rounding};
use quincunx_tensor::{DType, Tensor, Tensors};

/// One operator on inputs named `x0`, `x1`, …; returns its result in both arithmetics.
fn run(op: Op, inputs: &[(&[usize], &[f32])]) -> (Vec<usize>, Vec<f64>, Option<Vec<f64>>) {
    let mut graph = Graph::new("single");
    let mut tensors = Tensors::new();
    let mut operands = Vec::new();
    for (index, (shape, values)) in inputs.iter().enumerate() {
        let name = format!("x{index}");
        operands.push(Some(graph.add_input(&name, DType::F32, shape, &[]).unwrap()));
        tensors.insert(name, Tensor::from_vec(shape, values.to_vec()).unwrap());
    }
    let y = graph.add_node("node", op, &operands, "y").unwrap();
    graph.add_output(y);
    assert!(graph.verify().is_empty());
    let shape = graph[y].shape.to_vec();
    let f32_result = float(&graph, &tensors, Keep::Outputs).unwrap()["y"].to_f64();
    let exact_result = exact(&graph, &tensors, Keep::Outputs).ok().map(|r| r["y"].to_f64());
    (shape, f32_result, exact_result)
}

/// Both arithmetics must give `expected`; all numbers in these tests are small binary fractions.
fn check(op: Op, inputs: &[(&[usize], &[f32])], shape: &[usize], expected: &[f64]) {
    let name = op.name();
    let (found_shape, by_float, by_exact) = run(op, inputs);
    assert_eq!(found_shape, shape, "{name}");
    assert_eq!(by_float, expected, "{name} in f32");
    assert_eq!(by_exact.unwrap(), expected, "{name} exactly");
}

fn conv(window: Window, groups: usize) -> Op {
    Op::Conv(Conv { window, groups })
}

#[test]
fn convolution_with_stride_padding_and_bias() {
    let mut window = Window::new(&[2, 2]);
    window.strides = [2, 2].as_slice().into();
    window.pads = [(1, 0), (0, 1)].as_slice().into();
    let x: Vec<f32> = (1..=9).map(|v| v as f32).collect();
    // Rows of the padded input: 0000, 1230, 4560, 7890.
    check(
        conv(window, 1),
        &[(&[1, 1, 3, 3], &x), (&[1, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0]), (&[1], &[0.5])],
        &[1, 1, 2, 2],
        &[3.0 + 8.0 + 0.5, 9.0 + 0.5, 4.0 + 10.0 + 21.0 + 32.0 + 0.5, 6.0 + 27.0 + 0.5],
    );
}

#[test]
fn convolution_with_groups_and_dilation() {
    let mut window = Window::new(&[2]);
    window.dilations = [2].as_slice().into();
    check(
        conv(window, 2),
        &[
            (&[1, 2, 4], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]),
            (&[2, 1, 2], &[1.0, 10.0, -1.0, 1.0]),
        ],
        &[1, 2, 2],
        &[31.0, 42.0, 2.0, 2.0],
    );
}

#[test]
fn pooling() {
    let x: Vec<f32> = vec![1.0, -2.0, 3.0, 4.0, -5.0, 6.0, 7.0, 8.0, -9.0];
    let mut window = Window::new(&[2, 2]);
    window.pads = [(1, 0), (1, 0)].as_slice().into();
    let pool = |kind, ceil, window: &Window| Op::Pool(Pool { kind, window: window.clone(), ceil });
    let max = [1.0, 1.0, 3.0, 4.0, 4.0, 6.0, 7.0, 8.0, 8.0];
    check(pool(PoolKind::Max, false, &window), &[(&[1, 1, 3, 3], &x)], &[1, 1, 3, 3], &max);
    let excluded = [1.0, -0.5, 0.5, 2.5, -0.5, 0.5, 5.5, 3.5, 0.0];
    let average = |count_include_pad| PoolKind::Average { count_include_pad };
    check(pool(average(false), false, &window), &[(&[1, 1, 3, 3], &x)], &[1, 1, 3, 3], &excluded);
    let included = [0.25, -0.25, 0.25, 1.25, -0.5, 0.5, 2.75, 3.5, 0.0];
    check(pool(average(true), false, &window), &[(&[1, 1, 3, 3], &x)], &[1, 1, 3, 3], &included);
    // Ceil mode: the last window starts inside and hangs over the edge.
    let mut window = Window::new(&[2]);
    window.strides = [2].as_slice().into();
    check(
        pool(average(true), true, &window),
        &[(&[1, 1, 3], &[2.0, 4.0, 8.0])],
        &[1, 1, 2],
        &[3.0, 8.0],
    );
    check(
        pool(PoolKind::Max, false, &window),
        &[(&[1, 1, 3], &[2.0, 4.0, 8.0])],
        &[1, 1, 1],
        &[4.0],
    );
    check(Op::GlobalAveragePool, &[(&[1, 2, 2], &[1.0, 2.0, -3.0, 4.0])], &[1, 2, 1], &[1.5, 0.5]);
}

#[test]
fn matrix_products() {
    let a: &[f32] = &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let gemm = |transpose_a, transpose_b, alpha, beta| {
        Op::Gemm(Gemm { alpha, beta, transpose_a, transpose_b })
    };
    check(
        gemm(false, true, 1.0, 1.0),
        &[(&[2, 3], a), (&[1, 3], &[1.0, 0.0, -1.0])],
        &[2, 1],
        &[-2.0, -2.0],
    );
    check(
        gemm(true, false, 0.5, -2.0),
        &[(&[2, 3], a), (&[2, 1], &[2.0, 4.0]), (&[1], &[0.25])],
        &[3, 1],
        &[9.0 - 0.5, 12.0 - 0.5, 15.0 - 0.5],
    );
    check(Op::MatMul, &[(&[3], &[1.0, 2.0, 3.0]), (&[3, 2], a)], &[2], &[22.0, 28.0]);
    check(Op::MatMul, &[(&[2, 3], a), (&[3], &[1.0, 1.0, -1.0])], &[2], &[0.0, 3.0]);
    check(Op::MatMul, &[(&[3], &[1.0, 1.0, 1.0]), (&[3], &[1.0, 2.0, 4.0])], &[], &[7.0]);
    check(
        Op::MatMul,
        &[(&[2, 1, 1, 3], a), (&[2, 3, 1], &[1.0, 0.0, 0.0, 0.0, 1.0, 1.0])],
        &[2, 2, 1, 1],
        &[1.0, 5.0, 4.0, 11.0],
    );
}

#[test]
fn elementwise_and_shape_operators() {
    let x: &[f32] = &[1.0, -2.0, 3.5, -4.0, 0.0, 6.0];
    check(Op::Unary(Unary::Relu), &[(&[6], x)], &[6], &[1.0, 0.0, 3.5, 0.0, 0.0, 6.0]);
    check(Op::Unary(Unary::Abs), &[(&[6], x)], &[6], &[1.0, 2.0, 3.5, 4.0, 0.0, 6.0]);
    check(Op::Unary(Unary::Neg), &[(&[2], &[1.0, -2.5])], &[2], &[-1.0, 2.5]);
    let column: &[f32] = &[2.0, -4.0];
    let binary = |op, expected: &[f64]| {
        check(Op::Binary(op), &[(&[2, 3], x), (&[2, 1], column)], &[2, 3], expected);
    };
    binary(Binary::Add, &[3.0, 0.0, 5.5, -8.0, -4.0, 2.0]);
    binary(Binary::Sub, &[-1.0, -4.0, 1.5, 0.0, 4.0, 10.0]);
    binary(Binary::Mul, &[2.0, -4.0, 7.0, 16.0, 0.0, -24.0]);
    binary(Binary::Max, &[2.0, 2.0, 3.5, -4.0, 0.0, 6.0]);
    binary(Binary::Min, &[1.0, -2.0, 2.0, -4.0, -4.0, -4.0]);
    let quotients = &[0.5, -1.0, 1.75, 1.0, 0.0, -1.5];
    check(Op::Binary(Binary::Div), &[(&[2, 3], x), (&[2, 1], column)], &[2, 3], quotients);
    check(
        Op::Transpose { order: vec![1, 0] },
        &[(&[2, 3], x)],
        &[3, 2],
        &[1.0, -4.0, -2.0, 0.0, 3.5, 6.0],
    );
    let same: Vec<f64> = x.iter().map(|&v| v.into()).collect();
    check(Op::Flatten { axis: 1 }, &[(&[1, 2, 3], x)], &[1, 6], &same);
    check(Op::Flatten { axis: 0 }, &[(&[2, 3], x)], &[1, 6], &same);
    check(Op::Reshape { shape: vec![0, -1] }, &[(&[2, 1, 3], x)], &[2, 3], &same);
    check(Op::Identity, &[(&[6], x)], &[6], &same);
}

#[test]
fn batch_normalisation_is_f32_only() {
    let parameters: [(&[usize], &[f32]); 5] =
        [(&[1, 1, 2], &[3.0, 5.0]), (&[1], &[2.0]), (&[1], &[0.5]), (&[1], &[1.0]), (&[1], &[4.0])];
    let (_, by_float, by_exact) = run(Op::BatchNorm(BatchNorm { epsilon: 0.0 }), &parameters);
    assert_eq!(by_float, [2.5, 4.5]);
    assert!(by_exact.is_none());
}

#[test]
fn quantisers_round_saturate_and_wrap() {
    let x: &[f32] = &[-9.0, -0.75, -0.25, 0.25, 0.75, 1.25, 9.0];
    let symmetric = Quantiser::symmetric(true, 3, 0.5);
    check(
        Op::Quantise(symmetric.clone()),
        &[(&[7], x)],
        &[7],
        &[-2.0, -1.0, 0.0, 0.0, 1.0, 1.0, 1.5],
    );
    let wrap = Quantiser { overflow: Param::uniform(Overflow::Wrap), ..symmetric.clone() };
    // 18 steps of 0.5 are 2 modulo 8.
    check(Op::Quantise(wrap), &[(&[7], x)], &[7], &[-1.0, -1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
    let floor = Quantiser { rounding: Param::uniform(Rounding::Floor), ..symmetric.clone() };
    check(Op::Quantise(floor), &[(&[7], x)], &[7], &[-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5]);
    let asymmetric = Quantiser {
        zero: Param::uniform(2),
        signed: Param::uniform(false),
        ..Quantiser::symmetric(false, 3, 0.5)
    };
    check(
        Op::ToCodes(asymmetric.clone()),
        &[(&[7], x)],
        &[7],
        &[0.0, 0.0, 2.0, 2.0, 4.0, 4.0, 7.0],
    );
    check(Op::Quantise(asymmetric), &[(&[7], x)], &[7], &[-1.0, -1.0, 0.0, 0.0, 1.0, 1.0, 2.5]);
    let per_channel =
        Quantiser { scale: Param::new(&[2, 1], vec![0.5, 2.0]).unwrap(), ..symmetric };
    check(
        Op::Quantise(per_channel),
        &[(&[2, 2], &[0.75, 9.0, 0.75, 5.5])],
        &[2, 2],
        &[1.0, 1.5, 0.0, 6.0],
    );
}

/// Scales that are not binary fractions of each other stay exact.
#[test]
fn exact_arithmetic_does_not_round_between_quantisers() {
    let mut graph = Graph::new("thirds");
    let x = graph.add_input("x", DType::F32, &[1, 1, 3], &[]).unwrap();
    let window = Window::new(&[3]);
    let pool = Op::Pool(Pool {
        kind: PoolKind::Average { count_include_pad: false },
        window,
        ceil: false,
    });
    let mean = graph.add_node("mean", pool, &[Some(x)], "mean").unwrap();
    let three =
        graph.add_constant("three", Tensor::from_vec(&[1], vec![3.0_f32]).unwrap()).unwrap();
    let y =
        graph.add_node("times", Op::Binary(Binary::Mul), &[Some(mean), Some(three)], "y").unwrap();
    graph.add_output(y);
    let inputs = Tensors::from([(
        "x".to_owned(),
        Tensor::from_vec(&[1, 1, 3], vec![0.1_f32, 0.2, 0.7]).unwrap(),
    )]);
    let sum = f64::from(0.1_f32) + f64::from(0.2_f32) + f64::from(0.7_f32);
    assert_eq!(exact(&graph, &inputs, Keep::Outputs).unwrap()["y"].to_f64(), [sum]);
}

#[test]
fn coded_constants_mean_their_real_numbers() {
    let mut graph = Graph::new("codes");
    let x = graph.add_input("x", DType::F32, &[2], &[]).unwrap();
    let quantiser = Quantiser { zero: Param::uniform(-1), ..Quantiser::symmetric(true, 8, 0.25) };
    let codes = Constant {
        tensor: Tensor::from_vec(&[2], vec![3_i8, -5]).unwrap(),
        quantiser: Some(quantiser),
    };
    let c = graph.add_constant("c", codes).unwrap();
    let y = graph.add_node("add", Op::Binary(Binary::Add), &[Some(x), Some(c)], "y").unwrap();
    graph.add_output(y);
    let inputs =
        Tensors::from([("x".to_owned(), Tensor::from_vec(&[2], vec![10.0_f32, 20.0]).unwrap())]);
    assert_eq!(float(&graph, &inputs, Keep::Outputs).unwrap()["y"].to_f64(), [11.0, 19.0]);
    assert_eq!(exact(&graph, &inputs, Keep::Outputs).unwrap()["y"].to_f64(), [11.0, 19.0]);
}

fn two_layers() -> (Graph, ValueId) {
    let mut graph = Graph::new("two");
    let symbols = [Some("N".to_owned()), None];
    let x = graph.add_input("x", DType::F32, &[1, 2], &symbols).unwrap();
    let r = graph.add_node("relu", Op::Unary(Unary::Relu), &[Some(x)], "r").unwrap();
    let y = graph.add_node("neg", Op::Unary(Unary::Neg), &[Some(r)], "y").unwrap();
    graph.add_output(y);
    (graph, x)
}

#[test]
fn inputs_are_checked_and_intermediates_kept_on_demand() {
    let (graph, _) = two_layers();
    let code = |inputs: &Tensors| float(&graph, inputs, Keep::Outputs).unwrap_err().code();
    assert_eq!(code(&Tensors::new()), "Q0310");
    assert_eq!(
        code(&Tensors::from([(
            "x".to_owned(),
            Tensor::from_vec(&[2, 1], vec![0.0_f32; 2]).unwrap()
        )])),
        "Q0310"
    );
    assert_eq!(
        code(&Tensors::from([(
            "x".to_owned(),
            Tensor::from_vec(&[1, 2], vec![0.0_f64; 2]).unwrap()
        )])),
        "Q0310"
    );
    let inputs =
        Tensors::from([("x".to_owned(), Tensor::from_vec(&[1, 2], vec![1.0_f32, -1.0]).unwrap())]);
    let all = float(&graph, &inputs, Keep::All).unwrap();
    assert_eq!(all.keys().collect::<Vec<_>>(), ["r", "x", "y"]);
    assert_eq!(float(&graph, &inputs, Keep::Outputs).unwrap().len(), 1);
}

#[test]
fn symbols_are_rebound() {
    let (graph, _) = two_layers();
    let bound = graph.rebind("N", 3).unwrap();
    assert!(bound.verify().is_empty());
    assert_eq!(&bound[bound.outputs()[0]].shape[..], [3, 2]);
    assert_eq!(graph.rebind("M", 3).unwrap_err().code(), "Q0307");
}

#[test]
fn mismatched_shapes_are_refused_with_the_node() {
    let (mut graph, x) = two_layers();
    let problem = graph.add_node("bad", Op::MatMul, &[Some(x), Some(x)], "z").unwrap_err();
    assert_eq!(problem.code(), "Q0306");
    assert!(
        problem.to_string().contains("node \"bad\" (MatMul, f32[1, 2], f32[1, 2])"),
        "{problem}"
    );
    let missing = graph.add_node("bad", Op::MatMul, &[Some(x)], "z").unwrap_err();
    assert_eq!(missing.code(), "Q0306");
    assert_eq!(graph.add_node("neg", Op::Identity, &[Some(x)], "z").unwrap_err().code(), "Q0303");
    assert_eq!(graph.add_input("r", DType::F32, &[], &[]).unwrap_err().code(), "Q0303");
    let huge = [1 << 40, 1 << 40];
    assert_eq!(graph.add_input("huge", DType::F32, &huge, &[]).unwrap_err().code(), "Q0304");
}

#[test]
fn too_large_graphs_are_refused_before_they_allocate() {
    let mut graph = Graph::new("large");
    let x = graph.add_input("x", DType::F32, &[1, 1], &[]).unwrap();
    let w = graph.add_input("w", DType::F32, &[1, 1 << 30], &[]).unwrap();
    let y = graph.add_node("product", Op::MatMul, &[Some(x), Some(w)], "y").unwrap();
    graph.add_output(y);
    let inputs = Tensors::new();
    assert_eq!(float(&graph, &inputs, Keep::Outputs).unwrap_err().code(), "Q0312");
}

#[test]
fn the_dump_names_everything() {
    let (mut graph, x) = two_layers();
    let q = Quantiser::symmetric(false, 4, 0.125);
    let q = graph.add_node("quantise", Op::Quantise(q), &[Some(x)], "q").unwrap();
    graph.add_output(q);
    expect_test::expect![[r#"
        graph "two"
          input  x: f32[N=1, 2]
          r: f32[1, 2] = Relu(x)  # relu
          y: f32[1, 2] = Neg(r)  # neg
          q: f32[1, 2] = Quantise(x) {u4 scale 0.125 half-even saturate}  # quantise
          output y
          output q
    "#]]
    .assert_eq(&graph.to_string());
}
