//! Layers of floats worked out by hand, and what is refused.

use super::refused::refused;
use super::{Net, grid};
use quincunx_graph::{
    Activation, Binary, Conv, Gemm, Op, Param, Pool, PoolKind, Quantiser, Softmax, Unary, ValueId,
    Window,
};

/// 2 to a power.
fn power(exponent: i32) -> f64 {
    2.0_f64.powi(exponent)
}

/// The distance of two f32 numbers here is 2, so that 1 is lost.
const LARGE: f64 = 16_777_216.0;

/// A row times a column, with a bias.
fn row(precision: &'static str, last: &'static str, x: &[f64], w: &[f64], bias: f64) -> f64 {
    let mut net = Net::floats(precision, last);
    let x = net.input("x", &[1, x.len()], x);
    let w = net.plain("w", &[w.len(), 1], w);
    let b = net.plain("b", &[1], &[bias]);
    let y = net.layer("y", Op::MatMul, &[x, w]);
    net.tail("z", Op::Binary(Binary::Add), &[y, b]);
    net.last()[0]
}

#[test]
fn sums_are_rounded_step_by_step() {
    for precision in ["bf16", "tf32"] {
        let of = |x: &[f64], bias| row(precision, "f32", x, &vec![1.0; x.len()], bias);
        assert_eq!(of(&[LARGE, 1.0, 1.0], 0.0), LARGE);
        assert_eq!(of(&[1.0, 1.0, LARGE], 0.0), LARGE + 2.0);
        // 3 is a tie, whose even neighbour is 4.
        assert_eq!(of(&[LARGE, 3.0], 0.0), LARGE + 4.0);
        // The bias comes first.
        assert_eq!(of(&[LARGE, -LARGE], 1.0), 0.0);
        assert_eq!(of(&[1.0, -LARGE], LARGE), 0.0);
    }
}

/// Weights that are codes are whole numbers; the scale is a factor of their sum, the bias is added with
/// the same rounding, and a number behind multiplies both.
#[test]
fn scales_of_weights_are_factors() {
    let of = |bits: u32, bias: Option<f64>, behind: Option<f64>| {
        let mut net = Net::floats("bf16", "f32");
        let x = net.input("x", &[1, 2], &[1.0, 2.0]);
        let grid = Quantiser { zero: Param::uniform(1), ..Quantiser::symmetric(true, bits, 0.1) };
        let w = net.codes("w", &[2, 1], &[101, -27], grid);
        let mut y = net.layer("y", Op::MatMul, &[x, w]);
        if let Some(bias) = bias {
            let bias = net.plain("b", &[1], &[bias]);
            y = net.tail("z", Op::Binary(Binary::Add), &[y, bias]);
        }
        if let Some(behind) = behind {
            let behind = net.plain("f", &[], &[behind]);
            net.tail("m", Op::Binary(Binary::Div), &[y, behind]);
        }
        net.last()[0]
    };
    let tenth = 0.1_f32;
    assert_eq!(of(8, None, None), f64::from(44.0 * tenth));
    assert_eq!(of(8, Some(0.3), None), f64::from(44.0_f32.mul_add(tenth, 0.3)));
    let third = 1.0 / 3.0_f32;
    let both = 44.0_f32.mul_add(tenth * third, 0.3 * third);
    assert_eq!(of(8, Some(0.3), Some(3.0)), f64::from(both));
    // Codes of more bits are no whole numbers of the type: 10.0 and -2.8 are rounded.
    assert_eq!(of(16, None, None), 10.0 - 2.0 * 2.796_875);
}

#[test]
fn softmax_is_computed_in_single_precision() {
    let mut net = Net::floats("bf16", "f32");
    let x = net.input("x", &[1, 3], &[1.0, 3.0, 1.0]);
    net.layer("y", Op::Softmax(Softmax { axis: 1, log: false }), &[x]);
    let low = f64::from(-2.0 * std::f32::consts::LOG2_E).exp2() as f32;
    // Of two lanes the first one has two numbers.
    let share = 1.0 / ((low + low) + 1.0_f32);
    assert_eq!(net.last(), [low * share, share, low * share].map(f64::from));
}

/// A batch of one is repeated; rows of the first operand and columns of the second one.
#[test]
fn batches_of_matrices_are_repeated() {
    let mut net = Net::floats("bf16", "f32");
    let x = net.input("x", &[2, 1, 2], &[1.0, 2.0, 3.0, 4.0]);
    let y = net.input("w", &[2, 2], &[1.0, 10.0, 100.0, 1000.0]);
    net.layer("y", Op::MatMul, &[x, y]);
    assert_eq!(net.last(), [201.0, 2010.0, 403.0, 4030.0]);
}

#[test]
fn products_are_rounded_before_they_are_added() {
    // 1.5 steps of subnormal numbers are 2; 1 + 1.5 steps rounded once were 2 as well.
    let found = row("bf16", "f32", &[1.5 * power(-100)], &[power(-49)], power(-149));
    assert_eq!(found, 3.0 * power(-149));
    // The products of fp16 are exact: 2047 * 2047 times 2^-48.
    let x = 2047.0 * power(-24);
    assert_eq!(row("fp16", "f32", &[x], &[x], 0.0), 4_190_209.0 * power(-48));
}

#[test]
fn weights_are_rounded() {
    let of = |precision, w: f64| row(precision, "f32", &[1.0], &[w], 0.0);
    for (precision, bits) in [("bf16", 7), ("fp16", 10)] {
        let half = power(-1 - bits);
        for (w, expected) in [(1.0, 0.0), (3.0, 4.0), (3.5, 4.0), (2.0, 2.0), (2.5, 2.0)] {
            assert_eq!(of(precision, 1.0 + w * half), 1.0 + expected * half, "{precision} {w}");
            assert_eq!(of(precision, -1.0 - w * half), -1.0 - expected * half, "{precision} {w}");
        }
    }
    assert_eq!(of("fp16", 65_519.0), 65_504.0);
    assert_eq!(of("fp16", 65_520.0), f64::INFINITY);
    assert_eq!(of("fp16", 2.5 * power(-24)), 2.0 * power(-24));
    assert_eq!(of("bf16", f32::MAX.into()), f64::INFINITY);
    // Low bits are dropped here, and only 10 of the mantissa's are left.
    for (w, expected) in [(2.0, 2.0), (3.9, 3.0), (-0.5, -2.0)] {
        let end = power(-11);
        let w = if w < 0.0 { -1.0 - 3.9 * end } else { 1.0 + w * end };
        let expected = if expected < 0.0 { -1.0 - 2.0 * end } else { 1.0 + 2.0 * end };
        assert_eq!(of("tf32", w), expected);
    }
    let ones = row("tf32", "f32", &[1.0 + 3.0 * power(-11)], &[1.0], 0.0);
    assert_eq!(ones, 1.0 + power(-10));
}

#[test]
fn inputs_and_results_are_rounded() {
    let values = |precision, last, x: f64| {
        let mut net = Net::floats(precision, last);
        let x = net.input("x", &[1, 1], &[x]);
        net.layer("y", Op::Binary(Binary::Add), &[x, x]);
        let found = net.run().unwrap();
        ["x", "y"].map(|name| found[name].to_f64()[0])
    };
    let tie = power(-8);
    assert_eq!(values("bf16", "f32", 1.0 + tie), [1.0, 2.0]);
    assert_eq!(values("bf16", "f32", 1.0 + 3.0 * tie), [1.0 + 4.0 * tie, 2.0 + 8.0 * tie]);
    // Rounded once: to f32 first it were a tie.
    assert_eq!(values("bf16", "f32", 1.0 + tie + power(-40)), [1.0 + 2.0 * tie, 2.0 + 4.0 * tie]);
    assert_eq!(values("fp16", "f32", 65_504.0), [65_504.0, 131_008.0]);
    assert_eq!(values("fp16", "fp16", 65_504.0), [65_504.0, f64::INFINITY]);
    // Sums of two values see all bits, in every precision.
    let long = 1.0 + power(-23);
    assert_eq!(values("tf32", "f32", long), [long, 2.0 * long]);
    // 1 + 2^-7, and 2^-8 more, is a tie.
    let sum = |last| row("bf16", last, &[1.0 + power(-7), power(-8)], &[1.0, 1.0], 0.0);
    assert_eq!([sum("f32"), sum("bf16")], [1.0 + 3.0 * tie, 1.0 + 4.0 * tie]);
    let nan = values("bf16", "bf16", f64::NAN);
    assert!(nan.iter().all(|number| number.is_nan()));
}

#[test]
fn channels_are_innermost_and_rows_outermost() {
    let of = |shape: [usize; 4], kernel: [usize; 2], x: &[f64]| {
        let mut net = Net::floats("bf16", "f32");
        let x = net.input("x", &shape, x);
        let w = net.plain("w", &shape, &[1.0; 4]);
        net.layer("y", Op::Conv(Conv { window: Window::new(&kernel), groups: 1 }), &[x, w]);
        net.last()
    };
    // Two channels of two columns: a column's channels cancel out before 1 and 1 come.
    assert_eq!(of([1, 2, 1, 2], [1, 2], &[LARGE, 1.0, -LARGE, 1.0]), [2.0]);
    assert_eq!(of([1, 2, 1, 2], [1, 2], &[LARGE, -LARGE, 1.0, 1.0]), [1.0]);
    // Two rows of two columns.
    assert_eq!(of([1, 1, 2, 2], [2, 2], &[LARGE, -LARGE, 1.0, 1.0]), [2.0]);
    assert_eq!(of([1, 1, 2, 2], [2, 2], &[LARGE, 1.0, -LARGE, 1.0]), [1.0]);
}

#[test]
fn padding_is_multiplied() {
    let mut net = Net::floats("fp16", "f32");
    let x = net.input("x", &[1, 1, 3], &[1.0, 2.0, 3.0]);
    let w = net.plain("w", &[1, 1, 3], &[1e9, 1.0, 10.0]);
    let mut window = Window::new(&[3]);
    window.pads[0] = (1, 1);
    net.layer("y", Op::Conv(Conv { window, groups: 1 }), &[x, w]);
    // The first weight is infinite.
    let found = net.last();
    assert!(found[0].is_nan());
    assert_eq!(found[1..], [f64::INFINITY; 2]);
}

#[test]
fn averages_are_sums_times_a_share() {
    let of = |precision, op: Op, x: [f64; 3]| {
        let mut net = Net::floats(precision, "f32");
        let x = net.input("x", &[1, 1, 3], &x);
        net.layer("y", op, &[x]);
        net.last()
    };
    // The share is more than 1/3, and 5 shares are not the f32 number nearest to 5/3.
    let share = 11_184_811.0 * power(-25);
    let expected = 13_981_014.0 * power(-23);
    assert!((5.0 * share - expected).abs() < power(-24) && expected > 5.0 / 3.0 + power(-24));
    assert_eq!(of("bf16", Op::GlobalAveragePool, [1.0, 2.0, 2.0]), [expected]);
    assert_eq!(of("bf16", Op::GlobalAveragePool, [LARGE, 1.0, -LARGE]), [0.0]);
    // Products see 3, whose share is rounded to 1.
    assert_eq!(of("tf32", Op::GlobalAveragePool, [3.0 + power(-20), 0.0, 0.0]), [1.0]);
    assert_eq!(of("bf16", Op::GlobalMaxPool, [-3.0, -1.5, -2.0]), [-1.5]);
    let mut window = Window::new(&[2]);
    window.pads[0] = (1, 1);
    let pool = |kind| Op::Pool(Pool { kind, window: window.clone(), ceil: false });
    let average = pool(PoolKind::Average { count_include_pad: true });
    assert_eq!(of("bf16", average, [1.0, 2.0, -4.0]), [0.5, 1.5, -1.0, -2.0]);
    assert_eq!(of("bf16", pool(PoolKind::Max), [1.0, -2.0, -4.0]), [1.0, 1.0, -2.0, -4.0]);
}

#[test]
fn limits_come_before_the_rounding() {
    let of = |precision, last, op: Op, x: f64| {
        let mut net = Net::floats(precision, last);
        let x = net.input("x", &[1, 1], &[x]);
        let y = net.layer("y", Op::Binary(Binary::Add), &[x, x]);
        net.tail("z", op, &[y]);
        net.last()[0]
    };
    let clip = |min, max| Op::Activation(Activation::Clip { min, max });
    let limit = 1.0 + power(-8);
    assert_eq!(of("bf16", "f32", clip(None, Some(limit as f32)), 5.0), limit);
    assert_eq!(of("bf16", "bf16", clip(None, Some(limit as f32)), 5.0), 1.0);
    assert_eq!(of("bf16", "bf16", clip(Some(-0.5), Some(2.0)), -5.0), -0.5);
    assert_eq!(of("bf16", "bf16", Op::Unary(Unary::Relu), -5.0), 0.0);
    // Alone it is a sum of one product.
    let mut net = Net::floats("tf32", "f32");
    let x = net.input("x", &[1, 2], &[1.0 + power(-11), -1.0]);
    net.layer("y", Op::Unary(Unary::Relu), &[x]);
    assert_eq!(net.last(), [1.0, 0.0]);
}

#[test]
fn results_are_stored_as_layers_read_them() {
    let of = |precision, last| {
        let mut net = Net::floats(precision, last);
        let x = net.input("x", &[1, 2], &[1.0, 2.0]);
        net.layer("y", Op::Identity, &[x]);
        net
    };
    assert_eq!(of("bf16", "bf16").last(), [1.0, 2.0]);
    refused(&of("bf16", "f32"), "a layer that computes nothing is stored in another type");
    refused(&of("bf16", "fp16"), "in a type of another precision");
    refused(&of("tf32", "bf16"), "in a type of another precision");
    refused(&of("int8", "f32"), "in a type of another precision");
    refused(&of("bf16", "int8"), "do not have the form");
    refused(&of("fp8", "f32"), "do not have the form");

    let mut net = of("fp16", "f32");
    net.layer("z", Op::Unary(Unary::Relu), &[net.graph.inputs()[0]]);
    net.layers.remove(0);
    refused(&net, "\"y_node\" is in no layer");
    // What is stored as f32 is no operand.
    let mut numerics = of("fp16", "fp16");
    let y = numerics.graph.node_named("y_node").map(|node| numerics.graph[node].output).unwrap();
    numerics.layer("z", Op::Unary(Unary::Relu), &[y]);
    let problem = |stored: [Option<&str>; 2]| {
        let layers =
            ["y_node", "z_node"].into_iter().zip(stored).map(|(node, stored)| match stored {
                Some(stored) => serde_json::json!({ "nodes": [node], "stored": stored }),
                None => serde_json::json!({ "nodes": [node] }),
            });
        let layers: Vec<_> = layers.collect();
        let json = serde_json::json!({ "layers": layers, "precision": "fp16" });
        super::prepare(&numerics.complete(), &quincunx_contract::Numerics(json)).err()
    };
    assert!(problem([Some("fp16"), Some("f32")]).is_none());
    let message = |stored| problem(stored).unwrap().message().to_owned();
    assert!(message([Some("fp16"), None]).contains("does not say how its result is stored"));
    assert!(message([Some("f32"), Some("f32")]).contains("stored in another type"));
}

#[test]
fn operands_are_no_last_results() {
    let mut net = Net::floats("bf16", "bf16");
    let x = net.input("x", &[1, 2], &[1.0, 2.0]);
    let y = net.layer("y", Op::Unary(Unary::Relu), &[x]);
    net.layer("z", Op::Binary(Binary::Add), &[x, y]);
    let json = serde_json::json!({ "precision": "bf16", "layers": [
        { "nodes": ["y_node"], "stored": "f32" }, { "nodes": ["z_node"], "stored": "f32" },
    ]});
    let problem =
        super::prepare(&net.complete(), &quincunx_contract::Numerics(json)).err().unwrap();
    assert!(problem.message().contains("Add reads what the machine does not compute with"));
    assert_eq!(net.last(), [2.0, 4.0]);
}

#[test]
fn layers_of_floats_are_the_machines() {
    let of = |build: &dyn Fn(&mut Net, ValueId), what: &str| {
        let mut net = Net::floats("bf16", "f32");
        let x = net.input("x", &[1, 2], &[1.0, 2.0]);
        build(&mut net, x);
        refused(&net, what);
    };
    let gemm = |alpha, beta| Op::Gemm(Gemm { alpha, beta, transpose_a: false, transpose_b: false });
    let product = |op: Op, with_sum: bool, what: &str| {
        of(
            &|net, x| {
                let w = net.plain("w", &[2, 1], &[1.0, 2.0]);
                let b = net.plain("b", &[1], &[1.0]);
                let y = net.layer("y", op.clone(), &[x, w, b]);
                if with_sum {
                    net.tail("z", Op::Binary(Binary::Add), &[y, b]);
                }
            },
            what,
        );
    };
    product(gemm(0.5, 1.0), false, "a product of floats has the factor 0.5");
    product(gemm(1.0, 0.5), false, "a bias has a factor");
    product(gemm(1.0, 1.0), true, "a product has two biases");
    let vector = |net: &mut Net, x: ValueId| {
        let y = net.input("v", &[2], &[1.0, 2.0]);
        net.layer("y", Op::MatMul, &[x, y]);
    };
    of(&vector, "is one of vectors");
    let bias = |net: &mut Net, x: ValueId| {
        let w = net.plain("w", &[2, 3], &[1.0; 6]);
        let b = net.plain("b", &[2], &[1.0; 2]);
        let y = net.layer("y", Op::Reshape { shape: vec![2, 1] }, &[x]);
        let y = net.layer("flat", Op::Reshape { shape: vec![1, 2] }, &[y]);
        let y = net.layer("product", Op::MatMul, &[y, w]);
        let y = net.layer("row", Op::Reshape { shape: vec![3, 1] }, &[y]);
        net.layer("sum", Op::Binary(Binary::Add), &[y, b]);
    };
    of(&bias, "a sum has a constant operand");
    let alone = |op: Op, what: &str| of(&|net, x| _ = net.layer("y", op.clone(), &[x]), what);
    alone(Op::Unary(Unary::Sqrt), "Sqrt ends no layer");
    alone(Op::Quantise(grid(true, 1.0, 0)), "a quantiser");
    of(
        &|net, x| {
            let column = net.input("column", &[2, 1], &[1.0, 2.0]);
            net.layer("y", Op::Binary(Binary::Add), &[x, column]);
        },
        "a sum repeats an operand",
    );
}

/// Ways to add that give other sums of 2^24, 1, 1, whose neighbours are 2 apart, and of subnormal
/// numbers.
#[test]
fn departures_are_those_of_one_layer_and_of_all() {
    let mut net = Net::floats("bf16", "f32");
    let x = net.input("x", &[1, 3], &[LARGE, 1.0, 1.0]);
    let w = net.plain("w", &[3, 1], &[1.0; 3]);
    net.layer("y", Op::MatMul, &[x, w]);
    let golden = super::prepare(&net.complete(), &net.numerics()).unwrap();
    let found = golden.departures(&net.inputs).unwrap();
    let of = |what: &str| {
        let of = found.iter().find(|departure| departure.what.contains(what)).unwrap();
        (of.alone, of.mean, of.together)
    };
    assert_eq!(of("(exact)"), (2.0, 2.0, 2.0));
    // 2^24 + 1 is a tie, whose even neighbour is 2^24; so is the next sum.
    assert_eq!(of("(stage)"), (0.0, 0.0, 0.0));
    assert_eq!(of("(fma)"), (0.0, 0.0, 0.0));
    // Beyond the range of fp16.
    assert_eq!(of("fp16 in place").0, f64::INFINITY);
    assert_eq!(found.len(), 7);

    let mut net = Net::floats("tf32", "f32");
    let x = net.input("x", &[1, 1], &[power(-100)]);
    let w = net.plain("w", &[1, 1], &[power(-40)]);
    net.layer("y", Op::MatMul, &[x, w]);
    let golden = super::prepare(&net.complete(), &net.numerics()).unwrap();
    let found = golden.departures(&net.inputs).unwrap();
    let ftz = found.iter().find(|departure| departure.what.contains("(ftz)")).unwrap();
    assert_eq!(ftz.alone, power(-140));

    // Infinity in both is no departure, NaN in one of them is.
    let mut net = Net::floats("bf16", "f32");
    let x = net.input("x", &[2, 2], &[LARGE, -LARGE, power(127), power(127)]);
    let w = net.plain("w", &[2, 1], &[1.0; 2]);
    net.layer("y", Op::MatMul, &[x, w]);
    let golden = super::prepare(&net.complete(), &net.numerics()).unwrap();
    let found = golden.departures(&net.inputs).unwrap();
    let of = |what: &str| found.iter().find(|one| one.what.contains(what)).unwrap().alone;
    assert_eq!([of("(fma)"), of("(exact)"), of("fp16 in place")], [0.0, 0.0, f64::INFINITY]);
}
