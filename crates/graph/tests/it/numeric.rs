//! Operators that compute, compare, select and reduce numbers, against results computed by hand.

use quincunx_graph::execute::{Keep, exact, float};
use quincunx_graph::{
    Activation, ArgExtreme, Binary, Compare, Graph, InstanceNorm, LayerNorm, Logic, Lrn, Op,
    Reduce, ReduceKind, Softmax, Unary,
};
use quincunx_tensor::{DType, Element, Tensor, Tensors};

/// What the exact executor should say.
#[derive(Clone, Copy, PartialEq)]
enum Exactly {
    /// The same numbers.
    Same,
    /// There is no exact result.
    Refused,
}
use Exactly::{Refused, Same};

fn tensor<T: Element>(shape: &[usize], values: &[T]) -> Tensor {
    Tensor::from_vec(shape, values.to_vec()).unwrap()
}

fn vector<T: Element>(values: &[T]) -> Tensor {
    tensor(&[values.len()], values)
}

fn truth(shape: &[usize], values: &[u8]) -> Tensor {
    Tensor::new(DType::Bool, shape, values.to_vec().into()).unwrap()
}

fn single(op: Op, inputs: &[Tensor]) -> (Graph, Tensors) {
    let mut graph = Graph::new("single");
    let mut tensors = Tensors::new();
    let mut operands = Vec::new();
    for (index, tensor) in inputs.iter().enumerate() {
        let name = format!("x{index}");
        operands.push(Some(graph.add_input(&name, tensor.dtype(), tensor.shape(), &[]).unwrap()));
        tensors.insert(name, tensor.clone());
    }
    let y = graph.add_node("node", op, &operands, "y").unwrap();
    graph.add_output(y);
    assert!(graph.verify().is_empty());
    (graph, tensors)
}

fn compute(op: &Op, inputs: &[Tensor]) -> Tensor {
    let (graph, tensors) = single(op.clone(), inputs);
    float(&graph, &tensors, Keep::Outputs).unwrap().remove("y").unwrap()
}

/// Type, shape and every number must be those of `expected`.
fn check(op: Op, inputs: &[Tensor], expected: &Tensor, exactly: Exactly) {
    let found = compute(&op, inputs);
    assert_eq!((found.dtype(), found.shape()), (expected.dtype(), expected.shape()), "{op:?}");
    assert_eq!(found.to_f64(), expected.to_f64(), "{op:?}");
    let (graph, tensors) = single(op.clone(), inputs);
    match exact(&graph, &tensors, Keep::Outputs) {
        Ok(results) => {
            assert!(exactly == Same, "{op:?} has an exact result");
            assert_eq!(results["y"].to_f64(), expected.to_f64(), "{op:?} exactly");
        }
        Err(problem) => {
            assert!(exactly == Refused, "{op:?}: {problem}");
            assert_eq!(problem.code(), "Q0311");
            assert!(problem.message().contains(op.name()), "{problem}");
        }
    }
}

/// Float results within 1e-6 (relative above 1); there is no exact result.
fn check_near(op: Op, inputs: &[Tensor], expected: &[f64]) {
    let found = compute(&op, inputs).to_f64();
    assert_eq!(found.len(), expected.len(), "{op:?}");
    for (found, expected) in found.iter().zip(expected) {
        let tolerance = 1e-6 * expected.abs().max(1.0);
        assert!((found - expected).abs() <= tolerance, "{op:?}: {found}, expected {expected}");
    }
    let (graph, tensors) = single(op.clone(), inputs);
    let problem = exact(&graph, &tensors, Keep::Outputs).unwrap_err();
    assert_eq!(problem.code(), "Q0311");
    assert!(problem.message().contains(op.name()), "{problem}");
}

/// The message of the refusal.
fn refused(op: Op, inputs: &[(DType, &[usize])]) -> String {
    let mut graph = Graph::new("refused");
    let operands: Vec<_> = inputs
        .iter()
        .enumerate()
        .map(|(i, (dtype, shape))| {
            Some(graph.add_input(&format!("x{i}"), *dtype, shape, &[]).unwrap())
        })
        .collect();
    let problem = graph.add_node("node", op, &operands, "y").unwrap_err();
    assert_eq!(problem.code(), "Q0306");
    problem.message().to_owned()
}

#[test]
fn unary_operators_with_exact_results() {
    let x = vector(&[-2.5_f32, -1.5, -0.5, 0.0, 0.5, 1.25, 2.5]);
    let unary = |op, expected: &[f32]| {
        check(Op::Unary(op), std::slice::from_ref(&x), &vector(expected), Same);
    };
    unary(Unary::Floor, &[-3.0, -2.0, -1.0, 0.0, 0.0, 1.0, 2.0]);
    unary(Unary::Ceil, &[-2.0, -1.0, 0.0, 0.0, 1.0, 2.0, 3.0]);
    unary(Unary::Round, &[-2.0, -2.0, 0.0, 0.0, 0.0, 1.0, 2.0]);
    unary(Unary::Sign, &[-1.0, -1.0, -1.0, 0.0, 1.0, 1.0, 1.0]);
    check(
        Op::Unary(Unary::Reciprocal),
        &[vector(&[-2.0_f32, 0.5, 4.0])],
        &vector(&[-0.5_f32, 2.0, 0.25]),
        Same,
    );
    check(Op::Unary(Unary::Not), &[truth(&[3], &[0, 1, 0])], &truth(&[3], &[1, 0, 1]), Same);
    // Nearest f32 of x * clamp(x / 6 + 1/2): exact where the factor is 0 or 1.
    let ends = vector(&[-4.0_f32, -3.5, 0.0, 3.5, 8.0]);
    check(Op::Unary(Unary::HardSwish), &[ends], &vector(&[0.0_f32, 0.0, 0.0, 3.5, 8.0]), Same);
    let inside = compute(&Op::Unary(Unary::HardSwish), &[vector(&[1.5_f32])]).to_f64()[0];
    assert!((inside - 1.125).abs() < 1e-6);
}

#[test]
fn unary_operators_without_exact_results() {
    let x = vector(&[-1.0_f32, 0.0, 0.5, 2.0]);
    let near = |op, expected: &[f64]| check_near(Op::Unary(op), std::slice::from_ref(&x), expected);
    near(Unary::Exp, &[0.36787944, 1.0, 1.64872127, 7.3890561]);
    near(Unary::Erf, &[-0.84270079, 0.0, 0.52049988, 0.99532227]);
    near(Unary::Sigmoid, &[0.26894142, 0.5, 0.62245933, 0.88079708]);
    near(Unary::Tanh, &[-0.76159416, 0.0, 0.46211716, 0.96402758]);
    near(Unary::Softplus, &[0.31326169, std::f64::consts::LN_2, 0.97407698, 2.12692801]);
    near(Unary::Gelu, &[-0.15865525, 0.0, 0.34573123, 1.95449974]);
    near(Unary::GeluTanh, &[-0.15880801, 0.0, 0.34571401, 1.95459769]);
    let positive = [vector(&[0.25_f32, 1.0, 2.0])];
    check_near(Op::Unary(Unary::Sqrt), &positive, &[0.5, 1.0, std::f64::consts::SQRT_2]);
    check_near(Op::Unary(Unary::Log), &positive, &[-1.38629436, 0.0, std::f64::consts::LN_2]);
}

#[test]
fn activations() {
    let x = vector(&[-2.0_f32, -0.5, 0.0, 3.0]);
    let one = |activation, expected: &[f32]| {
        let op = Op::Activation(activation);
        check(op, std::slice::from_ref(&x), &vector(expected), Same);
    };
    one(Activation::LeakyRelu { alpha: 0.25 }, &[-0.5, -0.125, 0.0, 3.0]);
    one(Activation::LeakyRelu { alpha: -1.0 }, &[2.0, 0.5, 0.0, 3.0]);
    one(Activation::HardSigmoid { alpha: 0.25, beta: 0.5 }, &[0.0, 0.375, 0.5, 1.0]);
    one(Activation::Clip { min: Some(-1.0), max: Some(2.0) }, &[-1.0, -0.5, 0.0, 2.0]);
    one(Activation::Clip { min: Some(0.0), max: None }, &[0.0, 0.0, 0.0, 3.0]);
    one(Activation::Clip { min: None, max: Some(0.0) }, &[-2.0, -0.5, 0.0, 0.0]);
    one(Activation::Clip { min: Some(f32::NEG_INFINITY), max: None }, &[-2.0, -0.5, 0.0, 3.0]);
    // The upper limit wins.
    one(Activation::Clip { min: Some(2.0), max: Some(1.0) }, &[1.0; 4]);
    let near = |activation, expected: &[f64]| {
        check_near(Op::Activation(activation), std::slice::from_ref(&x), expected);
    };
    near(Activation::Elu { alpha: 0.5 }, &[-0.43233236, -0.19673467, 0.0, 3.0]);
    near(Activation::Selu { alpha: 1.5, gamma: 2.0 }, &[-2.59399415, -1.18040802, 0.0, 6.0]);
    check(
        Op::PRelu,
        &[tensor(&[1, 2, 2], &[-1.0_f32, 1.0, -4.0, -8.0]), tensor(&[2, 1], &[0.5_f32, 0.25])],
        &tensor(&[1, 2, 2], &[-0.5_f32, 1.0, -1.0, -2.0]),
        Same,
    );
    assert!(
        compute(
            &Op::Activation(Activation::Clip { min: Some(0.0), max: None }),
            &[vector(&[f32::NAN])]
        )
        .to_f64()[0]
            .is_nan()
    );
}

#[test]
fn powers() {
    let pow = || Op::Binary(Binary::Pow);
    let half = vector(&[0.5_f32, -1.5, 4.0]);
    let square = tensor(&[], &[2.0_f32]);
    check(pow(), &[half.clone(), square], &vector(&[0.25_f32, 2.25, 16.0]), Same);
    check(pow(), &[half.clone(), tensor(&[], &[3_i64])], &vector(&[0.125_f32, -3.375, 64.0]), Same);
    check(pow(), &[half, tensor(&[], &[0_i32])], &vector(&[1.0_f32; 3]), Same);
    let root = [vector(&[4.0_f32, 2.0]), vector(&[0.5_f32, -1.0])];
    check(pow(), &root, &vector(&[2.0_f32, 0.5]), Refused);
    // Integers wrap.
    check(pow(), &[vector(&[3_i32, -7]), vector(&[2_i32])], &vector(&[9_i32, 49]), Same);
    check(pow(), &[vector(&[3_u8]), vector(&[6_i64])], &vector(&[217_u8]), Same);
}

#[test]
fn integers_wrap_and_truncate() {
    let a = vector(&[100_i8, -128, -7, 7]);
    let b = vector(&[100_i8, -1, 2, -2]);
    let both = |op, expected: &[i8]| {
        check(Op::Binary(op), &[a.clone(), b.clone()], &vector(expected), Same);
    };
    both(Binary::Add, &[-56, 127, -5, 5]);
    both(Binary::Sub, &[0, -127, -9, 9]);
    both(Binary::Mul, &[16, -128, -14, -14]);
    both(Binary::Div, &[1, -128, -3, -3]);
    both(Binary::Max, &[100, -1, 2, 7]);
    both(Binary::Min, &[100, -128, -7, -2]);
    let unary = |op, expected: &[i8]| {
        check(Op::Unary(op), std::slice::from_ref(&a), &vector(expected), Same)
    };
    unary(Unary::Neg, &[-100, -128, 7, -7]);
    unary(Unary::Abs, &[100, -128, 7, 7]);
    unary(Unary::Sign, &[1, -1, -1, 1]);
    unary(Unary::Relu, &[100, 0, 0, 7]);
    check(
        Op::Binary(Binary::Sub),
        &[vector(&[1_u16]), vector(&[2_u16])],
        &vector(&[65535_u16]),
        Same,
    );
    let large = [vector(&[i64::MAX]), vector(&[1_i64])];
    assert_eq!(compute(&Op::Binary(Binary::Add), &large).to_i64().unwrap(), [i64::MIN]);
    let double = [vector(&[0.1_f64]), vector(&[0.2_f64])];
    assert_eq!(compute(&Op::Binary(Binary::Add), &double).to_f64(), [0.1 + 0.2]);
}

#[test]
fn integers_are_not_divided_by_zero() {
    let (graph, tensors) = single(Op::Binary(Binary::Div), &[vector(&[1_i32]), vector(&[0_i32])]);
    assert_eq!(float(&graph, &tensors, Keep::Outputs).unwrap_err().code(), "Q0311");
    assert_eq!(exact(&graph, &tensors, Keep::Outputs).unwrap_err().code(), "Q0311");
}

#[test]
fn comparisons_and_logic() {
    let a = tensor(&[2, 2], &[1.0_f32, 2.0, -1.0, 0.25]);
    let b = vector(&[1.0_f32, 0.25]);
    let compare = |op, expected: &[u8]| {
        check(Op::Compare(op), &[a.clone(), b.clone()], &truth(&[2, 2], expected), Same);
    };
    compare(Compare::Equal, &[1, 0, 0, 1]);
    compare(Compare::Less, &[0, 0, 1, 0]);
    compare(Compare::LessOrEqual, &[1, 0, 1, 1]);
    compare(Compare::Greater, &[0, 1, 0, 0]);
    compare(Compare::GreaterOrEqual, &[1, 1, 0, 1]);
    let (p, q) = (truth(&[4], &[0, 0, 1, 1]), truth(&[4], &[0, 1, 0, 1]));
    let logic = |op, expected: &[u8]| {
        check(Op::Logic(op), &[p.clone(), q.clone()], &truth(&[4], expected), Same);
    };
    logic(Logic::And, &[0, 0, 0, 1]);
    logic(Logic::Or, &[0, 1, 1, 1]);
    logic(Logic::Xor, &[0, 1, 1, 0]);
    check(Op::Compare(Compare::Equal), &[p.clone(), q.clone()], &truth(&[4], &[1, 0, 0, 1]), Same);
    let nan = [vector(&[f32::NAN]), vector(&[f32::NAN])];
    assert_eq!(compute(&Op::Compare(Compare::Equal), &nan).to_f64(), [0.0]);
    let longs = [vector(&[i64::MAX]), vector(&[i64::MAX - 1])];
    check(Op::Compare(Compare::Greater), &longs, &truth(&[1], &[1]), Same);
}

#[test]
fn selection() {
    let condition = truth(&[2, 1], &[1, 0]);
    check(
        Op::Where,
        &[condition.clone(), vector(&[1.0_f32, 2.0, 3.0]), tensor(&[], &[0.1_f32])],
        &tensor(&[2, 3], &[1.0_f32, 2.0, 3.0, 0.1, 0.1, 0.1]),
        Same,
    );
    check(
        Op::Where,
        &[condition, truth(&[1], &[1]), truth(&[1], &[0])],
        &truth(&[2, 1], &[1, 0]),
        Same,
    );
}

fn reduce(kind: ReduceKind, axes: &[usize], keep_dims: bool) -> Op {
    Op::Reduce(Reduce { kind, axes: axes.to_vec(), keep_dims })
}

#[test]
fn reductions_of_floats() {
    let x = tensor(&[2, 2, 2], &[1.0_f32, -2.0, 3.0, 4.0, 0.5, 6.0, -7.0, 8.0]);
    let case = |kind, axes: &[usize], keep, shape: &[usize], expected: &[f32]| {
        let op = reduce(kind, axes, keep);
        check(op, std::slice::from_ref(&x), &tensor(shape, expected), Same);
    };
    case(ReduceKind::Sum, &[1], false, &[2, 2], &[4.0, 2.0, -6.5, 14.0]);
    case(ReduceKind::Sum, &[0, 2], true, &[1, 2, 1], &[5.5, 8.0]);
    case(ReduceKind::Mean, &[2, 0], false, &[2], &[1.375, 2.0]);
    case(ReduceKind::Max, &[0, 1, 2], false, &[], &[8.0]);
    case(ReduceKind::Min, &[0], true, &[1, 2, 2], &[0.5, -2.0, -7.0, 4.0]);
    case(ReduceKind::Prod, &[1, 2], false, &[2], &[-24.0, -168.0]);
    case(ReduceKind::L1, &[2], false, &[2, 2], &[3.0, 7.0, 6.5, 15.0]);
    case(ReduceKind::SumSquare, &[1, 2], false, &[2], &[30.0, 149.25]);
    case(
        ReduceKind::SumSquare,
        &[],
        true,
        &[2, 2, 2],
        &[1.0, 4.0, 9.0, 16.0, 0.25, 36.0, 49.0, 64.0],
    );
    check(
        Op::GlobalMaxPool,
        std::slice::from_ref(&x),
        &tensor(&[2, 2, 1], &[1.0_f32, 4.0, 6.0, 8.0]),
        Same,
    );
    check_near(
        reduce(ReduceKind::L2, &[1, 2], false),
        std::slice::from_ref(&x),
        &[5.47722558, 12.21679172],
    );
    check_near(
        reduce(ReduceKind::LogSum, &[1], false),
        &[tensor(&[1, 2], &[1.0_f32, 3.0])],
        &[1.38629436],
    );
    let large = tensor(&[1, 2], &[1000.0_f32, 1000.0]);
    check_near(reduce(ReduceKind::LogSumExp, &[1], true), &[large], &[1000.69314718]);
}

#[test]
fn reductions_of_integers() {
    let x = tensor(&[2, 2], &[100_i8, 100, -3, -4]);
    let case = |kind, expected: &[i8]| {
        check(reduce(kind, &[1], false), std::slice::from_ref(&x), &vector(expected), Same);
    };
    case(ReduceKind::Sum, &[-56, -7]);
    case(ReduceKind::Mean, &[100, -3]);
    case(ReduceKind::Max, &[100, -3]);
    case(ReduceKind::Min, &[100, -4]);
    case(ReduceKind::Prod, &[16, 12]);
    case(ReduceKind::L1, &[-56, 7]);
    case(ReduceKind::SumSquare, &[32, 25]);
}

#[test]
fn reductions_of_nothing() {
    let x = tensor::<f32>(&[2, 0], &[]);
    let case = |kind, expected: f32, exactly| {
        let op = reduce(kind, &[1], false);
        check(op, std::slice::from_ref(&x), &vector(&[expected; 2]), exactly);
    };
    case(ReduceKind::Sum, 0.0, Same);
    case(ReduceKind::Prod, 1.0, Same);
    case(ReduceKind::Max, f32::NEG_INFINITY, Refused);
    case(ReduceKind::Min, f32::INFINITY, Refused);
    let sum = compute(&reduce(ReduceKind::Sum, &[1], false), &[x]).to_f64();
    assert!(sum.iter().all(|v| v.is_sign_positive()));
    let bytes = tensor::<u8>(&[1, 0], &[]);
    assert_eq!(compute(&reduce(ReduceKind::Max, &[1], false), &[bytes]).to_f64(), [0.0]);
    assert!(
        refused(reduce(ReduceKind::Mean, &[1], false), &[(DType::F32, &[2, 0])])
            .contains("mean of no elements")
    );
}

#[test]
fn positions_of_extremes() {
    let x = tensor(&[2, 3], &[3.0_f32, 1.0, 3.0, -1.0, -1.0, 0.5]);
    let arg = |largest, axis, keep_dims, last| {
        Op::ArgExtreme(ArgExtreme { largest, axis, keep_dims, last })
    };
    let case = |op, expected: &Tensor| check(op, std::slice::from_ref(&x), expected, Same);
    case(arg(true, 1, false, false), &vector(&[0_i64, 2]));
    case(arg(true, 1, true, true), &tensor(&[2, 1], &[2_i64, 2]));
    case(arg(false, 1, false, false), &vector(&[1_i64, 0]));
    case(arg(false, 1, false, true), &vector(&[1_i64, 1]));
    case(arg(true, 0, false, false), &vector(&[0_i64, 0, 0]));
    check(arg(true, 0, false, false), &[vector(&[1_u8, 9, 4])], &tensor(&[], &[1_i64]), Same);
}

#[test]
fn softmax_along_any_axis() {
    let x = tensor(&[2, 2], &[0.0_f32, 1000.0, 0.0, 1000.0 + 1.0]);
    let softmax = |axis, log| Op::Softmax(Softmax { axis, log });
    check_near(softmax(1, false), std::slice::from_ref(&x), &[0.0, 1.0, 0.0, 1.0]);
    check_near(softmax(0, false), std::slice::from_ref(&x), &[0.5, 0.26894142, 0.5, 0.73105858]);
    check_near(
        softmax(0, true),
        &[x],
        &[-std::f64::consts::LN_2, -1.31326169, -std::f64::consts::LN_2, -0.31326169],
    );
    let middle = tensor(&[1, 2, 2], &[0.0_f32, 5.0, 0.0, 5.0]);
    check_near(softmax(1, false), &[middle], &[0.5; 4]);
}

#[test]
fn normalisations() {
    let x = tensor(&[1, 2, 2], &[1.0_f32, 3.0, 10.0, 30.0]);
    let layer = |axis| Op::LayerNorm(LayerNorm { axis, epsilon: 0.0 });
    let scale = vector(&[1.0_f32, 2.0]);
    check_near(layer(2), &[x.clone(), scale.clone()], &[-1.0, 2.0, -1.0, 2.0]);
    let bias = vector(&[0.5_f32, -0.5]);
    check_near(layer(2), &[x.clone(), scale, bias.clone()], &[-0.5, 1.5, -0.5, 1.5]);
    let instance = Op::InstanceNorm(InstanceNorm { epsilon: 3.0 });
    let small = tensor(&[1, 2, 2], &[1.0_f32, 3.0, 0.0, 0.0]);
    check_near(instance, &[small, vector(&[4.0_f32, 1.0]), bias], &[-1.5, 2.5, -0.5, -0.5]);
    let lrn = |size, beta| Op::Lrn(Lrn { size, alpha: 3.0, beta, bias: 1.0 });
    let channels = tensor(&[1, 3, 1], &[1.0_f32, 2.0, 3.0]);
    check_near(lrn(3, 1.0), std::slice::from_ref(&channels), &[1.0 / 6.0, 2.0 / 15.0, 3.0 / 14.0]);
    // An even size reaches further to the later channels.
    check_near(lrn(2, 1.0), &[channels], &[1.0 / 8.5, 2.0 / 20.5, 3.0 / 14.5]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let f32_2 = (DType::F32, &[2][..]);
    let i32_2 = (DType::I32, &[2][..]);
    let bool_2 = (DType::Bool, &[2][..]);
    let cases = [
        (Op::Unary(Unary::Exp), vec![i32_2], "expected a float"),
        (Op::Unary(Unary::Neg), vec![bool_2], "expected numbers"),
        (Op::Unary(Unary::Not), vec![f32_2], "expected bool"),
        (Op::Binary(Binary::Add), vec![bool_2, bool_2], "expected numbers"),
        (Op::Binary(Binary::Add), vec![f32_2, i32_2], "expected f32"),
        (Op::Binary(Binary::Add), vec![f32_2, (DType::F32, &[3])], "do not broadcast"),
        (Op::Compare(Compare::Less), vec![bool_2, bool_2], "expected numbers"),
        (Op::Logic(Logic::And), vec![i32_2, i32_2], "expected bool"),
        (Op::Where, vec![f32_2, f32_2, f32_2], "expected bool"),
        (Op::Where, vec![bool_2, f32_2, i32_2], "operand 2 is i32"),
        (Op::PRelu, vec![f32_2, (DType::F32, &[2, 2])], "does not broadcast"),
        (reduce(ReduceKind::Sum, &[1], true), vec![f32_2], "axis 1 is beyond"),
        (reduce(ReduceKind::Sum, &[0, 0], true), vec![f32_2], "twice"),
        (Op::Softmax(Softmax { axis: 1, log: true }), vec![f32_2], "axis 1 is beyond"),
        (Op::Lrn(Lrn { size: 0, alpha: 1.0, beta: 1.0, bias: 1.0 }), vec![f32_2], "size is 0"),
        (Op::GlobalMaxPool, vec![f32_2], "spatial axes"),
        (
            Op::InstanceNorm(InstanceNorm { epsilon: 0.0 }),
            vec![(DType::F32, &[1, 2, 3]), f32_2, (DType::F32, &[3])],
            "operand 2 has shape [3]",
        ),
        (
            Op::LayerNorm(LayerNorm { axis: 0, epsilon: 0.0 }),
            vec![f32_2, (DType::F32, &[3])],
            "operand 1",
        ),
        (
            Op::ArgExtreme(ArgExtreme { largest: true, axis: 0, keep_dims: true, last: false }),
            vec![(DType::F32, &[0])],
            "no element",
        ),
    ];
    for (op, inputs, word) in cases {
        let message = refused(op.clone(), &inputs);
        assert!(message.contains(word), "{op:?}: {message}");
    }
}

#[test]
fn the_dump_shows_attributes() {
    let mut graph = Graph::new("attributes");
    let x = graph.add_input("x", DType::F32, &[1, 2, 3], &[]).unwrap();
    let mut value = x;
    let ops = [
        Op::Activation(Activation::LeakyRelu { alpha: 0.5 }),
        Op::Activation(Activation::Selu { alpha: 1.5, gamma: 2.0 }),
        Op::Activation(Activation::HardSigmoid { alpha: 0.25, beta: 0.5 }),
        Op::Activation(Activation::Clip { min: None, max: Some(6.0) }),
        Op::Unary(Unary::GeluTanh),
        Op::Lrn(Lrn { size: 3, alpha: 1.0, beta: 0.75, bias: 2.0 }),
        Op::Softmax(Softmax { axis: 1, log: true }),
        reduce(ReduceKind::Mean, &[1], true),
        Op::ArgExtreme(ArgExtreme { largest: false, axis: 2, keep_dims: false, last: true }),
    ];
    for (index, op) in ops.into_iter().enumerate() {
        value =
            graph.add_node(&format!("n{index}"), op, &[Some(value)], &format!("v{index}")).unwrap();
    }
    expect_test::expect![[r#"
        graph "attributes"
          input  x: f32[1, 2, 3]
          v0: f32[1, 2, 3] = LeakyRelu(x) {alpha 0.5}  # n0
          v1: f32[1, 2, 3] = Selu(v0) {alpha 1.5 gamma 2}  # n1
          v2: f32[1, 2, 3] = HardSigmoid(v1) {alpha 0.25 beta 0.5}  # n2
          v3: f32[1, 2, 3] = Clip(v2) {min none max 6}  # n3
          v4: f32[1, 2, 3] = Gelu(v3) {tanh}  # n4
          v5: f32[1, 2, 3] = LRN(v4) {size 3 alpha 1 beta 0.75 bias 2}  # n5
          v6: f32[1, 2, 3] = LogSoftmax(v5) {axis 1}  # n6
          v7: f32[1, 1, 3] = ReduceMean(v6) {axes [1] keep}  # n7
          v8: i64[1, 1] = ArgMin(v7) {axis 2 last}  # n8
    "#]]
    .assert_eq(&graph.to_string());
}
