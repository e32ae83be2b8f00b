//! Layers worked out by hand.

use super::{Net, grid};
use quincunx_graph::{
    Activation, Binary, Conv, Gemm, Op, Param, Pool, PoolKind, Quantiser, Unary, ValueId, Window,
};

/// Numbers of input `x` of shape `[1, 1, 2, 2]`, whose zero is code 131, and a padded convolution of
/// two outputs with their own grids.
fn padded() -> (Net, ValueId) {
    let mut net = Net::new();
    let x = net.coded("x", &[1, 1, 2, 2], &[0.5, 1.0, 1.5, 2.0], grid(false, 0.5, 131));
    let mut of = Quantiser::symmetric(true, 8, 1.0);
    of.scale = Param::new(&[2, 1, 1, 1], vec![0.25, 0.5]).unwrap();
    of.zero = Param::new(&[2, 1, 1, 1], vec![0, 1]).unwrap();
    let codes: Vec<i64> = (1..=9).chain((1..=9).map(|code| 1 - code)).collect();
    let weights = net.codes("w", &[2, 1, 3, 3], &codes, of);
    let bias = net.plain("b", &[2], &[1.0, 2.0]);
    let mut window = Window::new(&[3, 3]);
    window.pads.fill((1, 1));
    let y = net.layer("y", Op::Conv(Conv { window, groups: 1 }), &[x, weights, bias]);
    (net, y)
}

#[test]
fn padding_counts_as_zero() {
    // Sums 77, 67, 47, 37 of steps 1/8 and negative ones of steps 1/4.
    let expected = [10.625, 9.375, 6.875, 5.625, -17.25, -14.75, -9.75, -7.25];
    assert_eq!(padded().0.last(), expected);
}

#[test]
fn activations_come_before_the_grid() {
    let of = |op: Op, grid: Option<Quantiser>| {
        let (mut net, y) = padded();
        let z = net.tail("z", op, &[y]);
        if let Some(grid) = grid {
            net.tail("zq", Op::Quantise(grid), &[z]);
            // What is inside of a layer is no number.
            assert_eq!(net.run().unwrap().into_keys().collect::<Vec<_>>(), ["x", "xq", "zq"]);
        }
        net.last()
    };
    let clip = |min, max| Op::Activation(Activation::Clip { min, max });
    let relu = Op::Unary(Unary::Relu);
    assert_eq!(of(relu.clone(), None), [10.625, 9.375, 6.875, 5.625, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(
        of(clip(Some(-9.5), Some(6.0)), None),
        [6.0, 6.0, 6.0, 5.625, -9.5, -9.5, -9.5, -7.25]
    );
    // Steps 8.5, 7.5, 5.5 and 4.5 are ties.
    let found = of(relu, Some(grid(true, 1.25, -126)));
    assert_eq!(found, [10.0, 10.0, 7.5, 5.0, 0.0, 0.0, 0.0, 0.0]);
    // The codes end at step -2, and the limit lies at step 4.8.
    let found = of(clip(None, Some(6.0)), Some(grid(true, 1.25, -126)));
    assert_eq!(found, [6.25, 6.25, 6.25, 5.0, -2.5, -2.5, -2.5, -2.5]);
}

#[test]
fn a_bias_is_exact() {
    let mut net = Net::new();
    let x = net.coded("x", &[1, 2], &[0.5, 0.0], grid(true, 0.5, 3));
    let w = net.codes("w", &[2, 4], &[1; 8], Quantiser::symmetric(true, 2, 0.25));
    // In units of 1/8: about 2.4, then 0.5, 1.5 and -2.5.
    let b = net.plain("b", &[1, 4], &[0.3, 0.0625, 0.1875, -0.3125]);
    let y = net.layer("y", Op::MatMul, &[x, w]);
    net.tail("sum", Op::Binary(Binary::Add), &[b, y]);
    assert_eq!(net.last(), [0.125 + f64::from(0.3_f32), 0.1875, 0.3125, -0.1875]);
}

#[test]
fn a_matrix_may_lie_either_way() {
    let of = |transpose_b: bool| {
        let mut net = Net::new();
        let x = [1.0, 2.0, 3.0, 4.0, -1.0, 0.0, 0.0, 2.0];
        let x = net.coded("x", &[2, 2, 1, 2], &x, grid(true, 1.0, -28));
        let x = net.layer("flat", Op::Flatten { axis: 1 }, &[x]);
        let mut of = Quantiser::symmetric(true, 8, 1.0);
        let (shape, along, codes) = match transpose_b {
            true => ([2, 4], vec![2, 1], [1, 2, 3, 4, 0, 0, 0, -1]),
            false => ([4, 2], vec![2], [1, 0, 2, 0, 3, 0, 4, -1]),
        };
        of.scale = Param::new(&along, vec![0.5, 2.0]).unwrap();
        let weights = net.codes("w", &shape, &codes, of);
        let bias = net.plain("b", &[1], &[2.0]);
        let gemm = Gemm { alpha: 0.5, beta: 1.0, transpose_a: false, transpose_b };
        net.layer("y", Op::Gemm(gemm), &[x, weights, bias]);
        net.last()
    };
    // Sums 30 and -4, 7 and -2, times 1/4 and 1, plus 2.
    let expected = [9.5, -2.0, 3.75, 0.0];
    assert_eq!(of(true), expected);
    assert_eq!(of(false), expected);
}

#[test]
fn weights_may_be_a_vector() {
    let mut net = Net::new();
    let x = net.coded("x", &[2, 1, 2], &[1.0, 2.0, 3.0, 4.0], grid(true, 1.0, 0));
    let w = net.codes("w", &[2], &[3, -5], Quantiser::symmetric(true, 4, 2.0));
    net.layer("y", Op::MatMul, &[x, w]);
    assert_eq!(net.last(), [-14.0, -22.0]);
}

#[test]
fn sums_may_leave_32_bits() {
    let depth = 40_000;
    let mut net = Net::new();
    let x = net.coded("x", &[depth], &vec![255.0; depth], grid(false, 1.0, 0));
    let w = net.codes("w", &[depth, 1], &vec![255; depth], grid(false, 0.5, 0));
    net.layer("y", Op::MatMul, &[x, w]);
    assert_eq!(net.last(), [1_300_500_000.0]);
}

#[test]
fn numbers_enter_exactly() {
    let mut net = Net::new();
    // 0.75 is less than 7.5 times the double of 0.1, though the quotient is rounded to 7.5.
    let reals = [0.75, -0.75, 0.05, 100.0, -100.0, 1e308];
    net.coded("x", &[6], &reals, grid(true, 0.1, 28));
    let steps = [7.0, -7.0, 0.0, 99.0, -156.0, 99.0];
    assert_eq!(net.last(), steps.map(|step| step * 0.1));
}

#[test]
fn codes_are_rounded_again_exactly() {
    let mut net = Net::new();
    let steps = [3.0, 9.0, 15.0, -3.0, -15.0, 14.0];
    let x = net.coded("x", &[6], &steps.map(|step| step * 0.1), grid(true, 0.1, 0));
    // The double of 0.6 is less than 6 times that of 0.1: nothing is a tie.
    net.layer("y", Op::Quantise(grid(true, 0.6, 100)), &[x]);
    assert_eq!(net.last(), [1.0, 2.0, 3.0, -1.0, -3.0, 2.0].map(|step| step * 0.6));
    let mut net = Net::new();
    let x = net.coded("x", &[6], &steps.map(|step| step * 0.1), grid(true, 0.1, 0));
    // That of 0.2 is twice that of 0.1: 1.5, 4.5, 7.5, -1.5, -7.5.
    let y = net.layer("relu", Op::Unary(Unary::Relu), &[x]);
    net.tail("y", Op::Quantise(grid(false, 0.2, 0)), &[y]);
    assert_eq!(net.last(), [2.0, 4.0, 8.0, 0.0, 0.0, 7.0].map(|step| step * 0.2));
}

#[test]
fn two_values_are_added_in_single_precision() {
    let of = |relu: bool| {
        let mut net = Net::new();
        let a = net.coded("a", &[4], &[0.1, 0.1, -0.5, 5.0], grid(false, 0.1, 10));
        let b = net.coded("b", &[4], &[0.2, 0.3, -0.5, 9.0], grid(true, 0.1, -30));
        let mut y = net.layer("sum", Op::Binary(Binary::Add), &[a, b]);
        if relu {
            y = net.tail("relu", Op::Unary(Unary::Relu), &[y]);
        }
        net.tail("y", Op::Quantise(grid(true, 0.6, 110)), &[y]);
        net.last()
    };
    // Three times the f32 of a sixth is rounded to a half, and that to even; of fractions it would
    // be more than a half. Then 4 / 6, -10 / 6 and 140 / 6, where the codes end at 17.
    assert_eq!(of(false), [0.0, 1.0, -2.0, 17.0].map(|step| step * 0.6));
    assert_eq!(of(true), [0.0, 1.0, 0.0, 17.0].map(|step| step * 0.6));
}

#[test]
fn the_second_product_of_a_sum_is_not_rounded() {
    let mut net = Net::new();
    let a = net.coded("a", &[3], &[-5.9; 3], grid(true, 0.1, 0));
    let b = net.coded("b", &[3], &[-8.8, -1.6, 6.2], grid(true, 0.2, 0));
    let y = net.layer("sum", Op::Binary(Binary::Add), &[a, b]);
    net.tail("y", Op::Quantise(grid(true, 0.6, 0)), &[y]);
    // All near ties, computed with fractions; two products, each rounded, would give -24 first, and
    // operands in the other order -24, -12 and 1.
    assert_eq!(net.last(), [-25.0, -13.0, 0.0].map(|step| step * 0.6));
}

/// An image `[1, 1, 2, 3]` of codes whose zero is -3.
fn image() -> (Net, ValueId) {
    let mut net = Net::new();
    let reals = [-1.0, -2.0, -3.0, -4.0, -5.0, -6.5];
    let x = net.coded("x", &[1, 1, 2, 3], &reals, grid(true, 1.0, -3));
    (net, x)
}

#[test]
fn poolings_are_exact() {
    let mut window = Window::new(&[2, 2]);
    window.pads = [(1, 0), (0, 1)].into_iter().collect();
    let pool = |kind, ceil| Op::Pool(Pool { kind, window: window.clone(), ceil });
    let of = |op: Op, grid: Option<Quantiser>| {
        let (mut net, x) = image();
        let y = net.layer("y", op, &[x]);
        if let Some(grid) = grid {
            net.tail("q", Op::Quantise(grid), &[y]);
        }
        net.run().map(|_| net.last())
    };
    // -6.5 became -6; what lies outside never wins.
    let largest = [-1.0, -2.0, -3.0, -1.0, -2.0, -3.0];
    assert_eq!(of(pool(PoolKind::Max, false), None).unwrap(), largest);
    let found = of(pool(PoolKind::Max, false), Some(grid(true, 2.0, 0)));
    assert_eq!(found.unwrap(), [0.0, -2.0, -4.0, 0.0, -2.0, -4.0]);
    let average = |count_include_pad| PoolKind::Average { count_include_pad };
    let quarters = [-3.0, -5.0, -3.0, -12.0, -16.0, -9.0].map(|sum| sum / 4.0);
    assert_eq!(of(pool(average(true), false), None).unwrap(), quarters);
    assert_eq!(of(pool(average(false), false), None).unwrap_err().code(), "Q6190");
    assert_eq!(of(Op::GlobalMaxPool, None).unwrap(), [-1.0]);
    assert_eq!(of(Op::GlobalAveragePool, None).unwrap(), [-3.5]);
    // A tie of the mean.
    assert_eq!(of(Op::GlobalAveragePool, Some(grid(false, 1.0, 255))).unwrap(), [-4.0]);
}

#[test]
fn what_only_moves_keeps_its_numbers() {
    let (mut net, x) = image();
    let y = net.layer("turned", Op::Transpose { order: vec![3, 0, 2, 1] }, &[x]);
    let y = net.layer("same", Op::Identity, &[y]);
    let y = net.layer("matrix", Op::Reshape { shape: vec![2, 3] }, &[y]);
    let w = net.codes("w", &[3, 2], &[100, 1, 10, 0, 1, 0], Quantiser::symmetric(true, 8, 1.0));
    let y = net.layer("y", Op::MatMul, &[y, w]);
    // Results move as well.
    net.layer("z", Op::Transpose { order: vec![1, 0] }, &[y]);
    assert_eq!(net.last(), [-142.0, -536.0, -1.0, -5.0]);
}
