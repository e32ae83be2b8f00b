//! The golden model: layers computed by hand, and numerics that do not fit.

use crate::common::graphs::judge;
use quincunx_contract::Numerics;
use quincunx_diag::Diagnostic;
use quincunx_graph::{
    Activation, BatchNorm, Binary, Conv, ConvTranspose, Coordinates, Gemm, Graph, Interpolation,
    Op, Pad, PadMode, Pool, PoolKind, Quantiser, Reduce, ReduceKind, Resize, ResizeTarget, Unary,
    Window,
};
use quincunx_tcu::TcuArch;
use quincunx_tcu::arch::DataType;
use quincunx_tensor::{DType, Tensor, Tensors};
use serde_json::{Value, json};

/// The fused product of FP8BP4: both factors in sixteenths, ties to even, saturated.
fn fused(x: i32, w: i32, sum: i32) -> i32 {
    let exact = f64::from(x) * f64::from(w) / 16.0 + f64::from(sum);
    exact.round_ties_even().clamp(-128.0, 127.0) as i32
}

fn sat(sum: i32) -> i32 {
    sum.clamp(-128, 127)
}

/// Sixteenths that are often large enough to saturate.
fn numbers(count: usize, seed: u32) -> Vec<i32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as i32 - 128
    };
    (0..count).map(|_| next()).collect()
}

fn sixteenths(shape: &[usize], scalars: &[i32]) -> Tensor {
    Tensor::from_vec(shape, scalars.iter().map(|&s| s as f32 / 16.0).collect()).unwrap()
}

/// A graph of one node with the input `x`, constants, and the output `y`.
fn one_node(op: Op, x: &[usize], constants: &[Tensor]) -> Graph {
    let mut graph = Graph::new("one");
    let mut operands = vec![Some(graph.add_input("x", DType::F32, x, &[]).unwrap())];
    for (index, constant) in constants.iter().enumerate() {
        let name = format!("c{index}");
        operands.push(Some(graph.add_constant(&name, constant.clone()).unwrap()));
    }
    let y = graph.add_node("node", op, &operands, "y").unwrap();
    graph.add_output(y);
    graph
}

/// What FP8BP4 with 2 lanes gives for `x`, in sixteenths.
fn run(graph: &Graph, x: &Tensor, rounding: &str, nodes: Value) -> Result<Vec<i32>, Diagnostic> {
    let numerics =
        json!({ "data_type": "FP8BP4", "lanes": 2, "rounding": rounding, "nodes": nodes });
    let inputs = Tensors::from([("x".to_owned(), x.clone())]);
    let found = crate::common::golden_of(graph, &Numerics(numerics), &inputs)?;
    Ok(found["y"].to_f64().iter().map(|real| (real * 16.0) as i32).collect())
}

fn conv(kernel: &[usize], pad: usize, groups: usize) -> Op {
    let mut window = Window::new(kernel);
    window.pads.iter_mut().for_each(|pads| *pads = (pad, pad));
    Op::Conv(Conv { window, groups })
}

/// A row of 3 positions with 5 channels, kernel 2, padding 1, 2 outputs, 2 lanes: blocks 2, 2, 1.
#[test]
fn products_are_summed_in_the_order_that_the_numerics_say() {
    let (x, w, b) = (numbers(15, 1), numbers(20, 2), numbers(2, 3));
    let constants = [sixteenths(&[2, 5, 2], &w), sixteenths(&[2], &b)];
    let graph = one_node(conv(&[2], 1, 1), &[1, 5, 3], &constants);
    let input = sixteenths(&[1, 5, 3], &x);
    let by_hand = |order: &[(usize, usize)], bias: (usize, usize), planes: &[usize]| {
        let mut y = Vec::new();
        for (m, at) in (0..2).flat_map(|m| (0..4).map(move |at| (m, at))) {
            let mut sum = 0;
            for &(tap, block) in order {
                let mut part = if (tap, block) == bias { b[m] } else { 0 };
                let first: usize = planes[..block].iter().sum();
                if let Some(at) = (at + tap).checked_sub(1).filter(|&at| at < 3) {
                    for c in first..first + planes[block] {
                        part = fused(x[c * 3 + at], w[(m * 5 + c) * 2 + tap], part);
                    }
                }
                sum = sat(sum + part);
            }
            y.push(sum);
        }
        y
    };
    let by_tap = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)];
    let compat = by_hand(&by_tap, (0, 2), &[2, 2, 1]);
    assert_eq!(run(&graph, &input, "compat", json!({})).unwrap(), compat);
    let said = json!({ "node": { "taps": [0, 1], "chunk": 3, "bias": [0, 2] } });
    assert_eq!(run(&graph, &input, "compat", said).unwrap(), compat);
    let two = [(1, 0), (1, 1), (0, 0), (0, 1), (1, 2), (0, 2)];
    let said = json!({ "node": { "taps": [1, 0], "chunk": 2, "bias": [1, 0] } });
    let chunks = by_hand(&two, (1, 0), &[2, 2, 1]);
    assert_eq!(run(&graph, &input, "free", said).unwrap(), chunks);
    let said = json!({ "node": { "planes": [[0, 1], [1, 2], [3, 2]] } });
    let planes = by_hand(&by_tap, (0, 2), &[1, 2, 2]);
    assert_eq!(run(&graph, &input, "free", said).unwrap(), planes);
    assert!(compat != chunks && compat != planes && chunks != planes);
}

/// Three inputs in blocks of 2 and 1, kernel 2, stride 3, a padding of 1 and two outputs: position 1
/// is reached by the second tap of the first element, 2 by the first tap of the second one.
#[test]
fn transposed_convolutions_add_what_leads_to_a_position() {
    let (x, w, b) = (numbers(6, 13), numbers(12, 14), numbers(2, 15));
    let mut window = Window::new(&[2]);
    (window.strides[0], window.pads[0]) = (3, (1, 0));
    let conv = ConvTranspose { window, groups: 1, output_padding: [1].into_iter().collect() };
    let constants = [sixteenths(&[3, 2, 2], &w), sixteenths(&[2], &b)];
    let graph = one_node(Op::ConvTranspose(conv), &[1, 3, 2], &constants);
    let y = run(&graph, &sixteenths(&[1, 3, 2], &x), "compat", json!({})).unwrap();
    let mut expected = Vec::new();
    for (m, at) in (0..2).flat_map(|m| (0..5).map(move |at| (m, at))) {
        let read = |tap: usize| {
            [(0, 1, 0), (2, 0, 1), (3, 1, 1)]
                .iter()
                .find_map(|&(to, t, from)| (to == at && t == tap).then_some(from))
        };
        let product = |tap: usize, channels: [usize; 2], start: i32| {
            let weight = |c: usize| w[(c * 2 + m) * 2 + tap];
            let from = read(tap);
            (channels[0]..channels[1]).fold(start, |sum, c| {
                from.map_or(sum, |from| fused(x[c * 2 + from], weight(c), sum))
            })
        };
        let parts = [product(0, [0, 2], 0), product(0, [2, 3], b[m]), product(1, [0, 2], 0)];
        expected.push(parts.into_iter().chain([product(1, [2, 3], 0)]).reduce(|a, b| sat(a + b)));
    }
    assert_eq!(y, expected.into_iter().flatten().collect::<Vec<_>>());
}

#[test]
fn groups_have_their_own_channels() {
    let (x, w) = (numbers(6, 4), numbers(12, 5));
    let graph = one_node(conv(&[1], 0, 2), &[1, 6, 1], &[sixteenths(&[4, 3, 1], &w)]);
    let y = run(&graph, &sixteenths(&[1, 6, 1], &x), "compat", json!({})).unwrap();
    // Blocks of 2 lanes: channels 2 and 3 are in one, but of two groups.
    let expected = (0..4).map(|m| {
        let product = |c: usize, sum| fused(x[c], w[m * 3 + c % 3], sum);
        match m {
            0 | 1 => sat(product(1, product(0, 0)) + product(2, 0)),
            _ => sat(product(3, 0) + product(5, product(4, 0))),
        }
    });
    assert_eq!(y, expected.collect::<Vec<_>>());
}

/// A flattened tensor of 3 channels and 2 positions, whole or position by position.
#[test]
fn matrices_read_rows_or_positions() {
    let (x, w, b) = (numbers(6, 6), numbers(12, 7), numbers(1, 8));
    let gemm = Gemm { alpha: 0.5, beta: 2.0, transpose_a: false, transpose_b: true };
    let constants = [sixteenths(&[2, 6], &w), sixteenths(&[1], &b)];
    let graph = one_node(Op::Gemm(gemm), &[1, 6], &constants);
    let input = sixteenths(&[1, 6], &x);
    let half = |w: i32| (f64::from(w) / 2.0 + 0.5).floor() as i32;
    let by_hand = |blocks: &[&[usize]], bias: usize| -> Vec<i32> {
        let output = |n: usize| {
            let part = |(index, block): (usize, &&[usize])| {
                let start = if index == bias { sat(2 * b[0]) } else { 0 };
                block.iter().fold(start, |sum, &k| fused(x[k], half(w[n * 6 + k]), sum))
            };
            blocks.iter().enumerate().map(part).reduce(|sum, part| sat(sum + part)).unwrap()
        };
        (0..2).map(output).collect()
    };
    let rows = by_hand(&[&[0, 1], &[2, 3], &[4, 5]], 2);
    assert_eq!(run(&graph, &input, "compat", json!({})).unwrap(), rows);
    let said = json!({ "node": { "positions": 2, "bias": [1, 0] } });
    let positions = by_hand(&[&[0, 2], &[4], &[1, 3], &[5]], 2);
    assert_eq!(run(&graph, &input, "compat", said).unwrap(), positions);
    assert_ne!(rows, positions);
}

/// A product, its batch normalisation and a leaky ReLU.
fn normalised(w: &[f32], b: &[f32], alpha: f32) -> Graph {
    let mut graph = Graph::new("normalised");
    let x = graph.add_input("x", DType::F32, &[1, 2], &[]).unwrap();
    let mut constant = |name: &str, shape: &[usize], values: &[f32]| {
        let tensor = Tensor::from_vec(shape, values.to_vec()).unwrap();
        Some(graph.add_constant(name, tensor).unwrap())
    };
    let w = constant("w", &[2, 2], w);
    let b = constant("b", &[2], b);
    let parameters = [[1.5, 0.7], [0.3, -0.2], [0.1, 0.4], [2.0, 0.3]];
    let parameters: Vec<_> =
        ["s", "o", "m", "v"].iter().zip(&parameters).map(|(n, p)| constant(n, &[2], p)).collect();
    let gemm = Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: false };
    let product = graph.add_node("gemm", Op::Gemm(gemm), &[Some(x), w, b], "product").unwrap();
    let mut operands = vec![Some(product)];
    operands.extend(parameters);
    let norm = Op::BatchNorm(BatchNorm { epsilon: 0.001 });
    let norm = graph.add_node("norm", norm, &operands, "norm_out").unwrap();
    let leaky = Op::Activation(Activation::LeakyRelu { alpha });
    let y = graph.add_node("leaky", leaky, &[Some(norm)], "y").unwrap();
    graph.add_output(y);
    graph
}

#[test]
fn folded_products_are_no_values() {
    let (w, b, alpha) = ([0.5, -1.25, 2.0, 0.75], [0.25, -0.5], 0.1_f32);
    let graph = normalised(&w, &b, alpha);
    let inputs = Tensors::from([("x".to_owned(), sixteenths(&[1, 2], &[24, 13]))]);
    let golden = |rounding: &str, choice: Value| {
        let sums = if rounding == "free" { json!(["leaky"]) } else { json!([]) };
        let numerics = json!({ "data_type": "FP16BP8", "lanes": 2, "rounding": rounding,
            "nodes": { "gemm": choice }, "leaky_sums": sums });
        crate::common::golden_of(&graph, &Numerics(numerics), &inputs)
    };
    let names = |tensors: &Tensors| tensors.keys().cloned().collect::<Vec<_>>().join(" ");
    let plain = golden("compat", json!({})).unwrap();
    assert_eq!(names(&plain), "norm_out product x y");
    let folded = golden("free", json!({ "batch_norm": "norm" })).unwrap();
    assert_eq!(names(&folded), "norm_out x y");
    let part = golden("free", json!({ "offset": "norm" })).unwrap();
    assert_eq!(names(&part), "norm_out x y");

    let encode = |real: f64| DataType::FP16BP8.encode(real);
    let fused = |x: i32, w: i32, sum: i32| {
        let exact = f64::from(x) * f64::from(w) / 256.0 + f64::from(sum);
        exact.round_ties_even() as i32
    };
    let norm = |c: usize| {
        let [gamma, beta, mean, variance] =
            [[1.5_f32, 0.7], [0.3, -0.2], [0.1, 0.4], [2.0, 0.3]].map(|p| p[c]);
        let factor = gamma / (variance + 0.001).sqrt();
        (factor, beta - mean * factor)
    };
    let x = [24 * 16, 13 * 16];
    let product = |c: usize| {
        let (factor, offset) = norm(c);
        let weight = |k: usize| encode((w[k * 2 + c] * factor).into());
        fused(x[1], weight(1), fused(x[0], weight(0), encode((b[c] * factor + offset).into())))
    };
    let same = |tensor: &Tensor, scalars: [i32; 2]| {
        assert_eq!(tensor.to_f64(), scalars.map(|scalar| f64::from(scalar) / 256.0));
    };
    same(&folded["norm_out"], [product(0), product(1)]);
    let less = encode(alpha.into()) - 256;
    same(&folded["y"], [0, 1].map(|c| product(c) + fused(product(c).min(0), less, 0)));
    let signs: Vec<bool> = folded["y"].to_f64().iter().map(|y| *y > 0.0).collect();
    assert!(signs[0] != signs[1], "both sides of the leaky ReLU are computed");
    same(
        &part["norm_out"],
        [0, 1].map(|c| {
            let (factor, offset) = norm(c);
            let factor = encode(factor.into());
            let before = f64::from(offset) / (f64::from(factor) / 256.0);
            let weight = |k: usize| encode(w[k * 2 + c].into());
            let bias = encode(f64::from((f64::from(b[c]) + before) as f32));
            fused(fused(x[1], weight(1), fused(x[0], weight(0), bias)), factor, 0)
        }),
    );
    same(
        &plain["norm_out"],
        [0, 1].map(|c| {
            let (factor, offset) = norm(c);
            let weight = |k: usize| encode(w[k * 2 + c].into());
            let y = fused(x[1], weight(1), fused(x[0], weight(0), encode(b[c].into())));
            fused(y, encode(factor.into()), 0) + encode(offset.into())
        }),
    );
    let wrong = golden("free", json!({ "batch_norm": "norm", "offset": "norm" })).unwrap_err();
    assert!(wrong.message().contains("folds two"), "{wrong}");
}

#[test]
fn windows_and_reductions_round_once_per_step() {
    let x = numbers(12, 9);
    let input = sixteenths(&[1, 2, 2, 3], &x);
    let result = |op: Op| run(&one_node(op, &[1, 2, 2, 3], &[]), &input, "compat", json!({}));
    let plane = |c: usize| x[c * 6..][..6].to_vec();
    let share = |count: f64| (16.0 / count + 0.5).floor() as i32;
    let sum = |numbers: Vec<i32>| numbers.into_iter().reduce(|a, b| sat(a + b)).unwrap();
    let mean = |numbers: Vec<i32>, count: f64| fused(sum(numbers), share(count), 0);

    assert_eq!(result(Op::GlobalAveragePool).unwrap(), [0, 1].map(|c| mean(plane(c), 6.0)));
    let largest = [0, 1].map(|c| plane(c).into_iter().max().unwrap());
    assert_eq!(result(Op::GlobalMaxPool).unwrap(), largest);
    let reduce = |kind, axes: &[usize]| {
        result(Op::Reduce(Reduce { kind, axes: axes.to_vec(), keep_dims: false }))
    };
    let rows: Vec<Vec<i32>> = x.chunks(3).map(<[i32]>::to_vec).collect();
    let means: Vec<i32> = rows.iter().map(|row| mean(row.clone(), 3.0)).collect();
    assert_eq!(reduce(ReduceKind::Mean, &[3]).unwrap(), means);
    assert_eq!(reduce(ReduceKind::Sum, &[2, 3]).unwrap(), [0, 1].map(|c| sum(plane(c))));
    assert_eq!(reduce(ReduceKind::Max, &[2, 3]).unwrap(), largest);
    assert!(reduce(ReduceKind::Mean, &[0]).is_err() && reduce(ReduceKind::L1, &[3]).is_err());

    // Kernel 2 x 2, padding before the rows and behind the columns.
    let mut window = Window::new(&[2, 2]);
    (window.pads[0], window.pads[1]) = ((1, 0), (0, 1));
    let pool = |kind| result(Op::Pool(Pool { kind, window: window.clone(), ceil: false })).unwrap();
    let windows: Vec<Vec<i32>> = (0..12)
        .map(|at| {
            let (c, row, column) = (at / 6, at / 3 % 2, at % 3);
            let inside = |&(y, x): &(usize, usize)| y > 0 && x < 3;
            let taps = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(y, x)| (row + y, column + x));
            taps.iter().filter(|p| inside(p)).map(|&(y, x_)| x[c * 6 + (y - 1) * 3 + x_]).collect()
        })
        .collect();
    let of = |each: &dyn Fn(&Vec<i32>) -> i32| windows.iter().map(each).collect::<Vec<_>>();
    assert_eq!(pool(PoolKind::Max), of(&|w| *w.iter().max().unwrap()));
    let average = |count_include_pad| PoolKind::Average { count_include_pad };
    assert_eq!(pool(average(true)), of(&|w| mean(w.clone(), 4.0)));
    assert_eq!(pool(average(false)), of(&|w| mean(w.clone(), w.len() as f64)));
}

/// Three channels in blocks of 2; a third is 5.3 sixteenths, and 16/15 of it 17 sixteenths.
#[test]
fn channels_are_reduced_block_by_block() {
    let x = numbers(3 * 4, 12);
    let input = sixteenths(&[1, 3, 4], &x);
    let result = |kind, keep_dims| {
        let graph =
            one_node(Op::Reduce(Reduce { kind, axes: vec![1], keep_dims }), &[1, 3, 4], &[]);
        run(&graph, &input, "compat", json!({})).unwrap()
    };
    let sums = |weight: i32| -> Vec<i32> {
        let of = |at: usize| fused(x[4 + at], weight, fused(x[at], weight, 0));
        (0..4).map(|at| sat(of(at) + fused(x[8 + at], weight, 0))).collect()
    };
    for keep_dims in [true, false] {
        assert_eq!(result(ReduceKind::Sum, keep_dims), sums(16));
        let means = sums(5).into_iter().map(|sum| fused(sum, 17, 0)).collect::<Vec<_>>();
        assert_eq!(result(ReduceKind::Mean, keep_dims), means);
        let largest = (0..4).map(|at| x[at].max(x[4 + at]).max(x[8 + at]));
        assert_eq!(result(ReduceKind::Max, keep_dims), largest.collect::<Vec<_>>());
    }
}

/// Both neighbours of an only channel are that channel, which stays as it is.
#[test]
fn interpolation_leaves_channels() {
    let resize = Resize {
        axes: vec![1],
        target: ResizeTarget::Sizes(vec![1]),
        coordinates: Coordinates::TfHalfPixel,
        interpolation: Interpolation::Linear,
        exclude_outside: false,
        roi: Vec::new(),
    };
    let arch = TcuArch { data_type: DataType::FP8BP4, ..TcuArch::preset("pynqz1").unwrap() };
    for shape in [&[1, 1, 6][..], &[1, 1, 3, 2]] {
        let graph = one_node(Op::Resize(resize.clone()), shape, &[]);
        let inputs = Tensors::from([("x".to_owned(), sixteenths(shape, &numbers(6, 10)))]);
        for rounding in ["compat", "free"] {
            judge(&graph, &inputs, &arch, &[("rounding", rounding)]).unwrap();
        }
    }
}

/// In free numerics the two neighbours at an edge are one element with one weight.
#[test]
fn interpolation_without_the_peer() {
    let x = numbers(3, 10);
    let resize = |interpolation| {
        Op::Resize(Resize {
            axes: vec![2],
            target: ResizeTarget::Scales(vec![2.0]),
            coordinates: Coordinates::HalfPixel,
            interpolation,
            exclude_outside: false,
            roi: Vec::new(),
        })
    };
    let input = sixteenths(&[1, 1, 3], &x);
    let result = |op: Op, rounding: &str| {
        run(&one_node(op, &[1, 1, 3], &[]), &input, rounding, json!({})).unwrap()
    };
    let sum = |terms: &[(usize, i32)]| {
        terms.iter().map(|&(at, weight)| fused(x[at], weight, 0)).reduce(|a, b| sat(a + b)).unwrap()
    };
    let inner = [[(0, 12), (1, 4)], [(0, 4), (1, 12)], [(1, 12), (2, 4)], [(1, 4), (2, 12)]]
        .map(|t| sum(&t));
    let (first, last) = ([(0, 4), (0, 12)], [(2, 12), (2, 4)]);
    let with_ends = |ends: [i32; 2]| [&ends[..1], &inner[..], &ends[1..]].concat();
    let linear = resize(Interpolation::Linear);
    assert_eq!(result(linear.clone(), "compat"), with_ends([sum(&first), sum(&last)]));
    assert_eq!(result(linear, "free"), with_ends([x[0], x[2]]));
    // Weights -0.035, 0.262, 0.879 and -0.105; the first two are both of element 0.
    let cubic = result(resize(Interpolation::Cubic { a: -0.75 }), "compat");
    assert_eq!(cubic[2], sum(&[(0, 4), (1, 14), (2, -2)]), "{cubic:?}");
}

#[test]
fn elements_saturate_and_round() {
    let x = [-128, -127, -3, -1, 0, 1, 40, 127];
    let input = sixteenths(&[1, 2, 4], &x);
    let result = |op: Op, constants: &[Tensor]| {
        run(&one_node(op, &[1, 2, 4], constants), &input, "compat", json!({})).unwrap()
    };
    let each = |f: &dyn Fn(i32) -> i32| x.map(f);
    let five = [sixteenths(&[1], &[5])];
    for (op, expected) in [
        (Binary::Add, each(&|x| sat(x + 5))),
        (Binary::Sub, each(&|x| sat(x - 5))),
        (Binary::Mul, each(&|x| fused(x, 5, 0))),
        (Binary::Max, each(&|x| x.max(5))),
        (Binary::Min, each(&|x| x.min(5))),
    ] {
        assert_eq!(result(Op::Binary(op), &five), expected, "{op:?}");
    }
    assert_eq!(result(Op::Unary(Unary::Relu), &[]), each(&|x| x.max(0)));
    assert_eq!(result(Op::Unary(Unary::Neg), &[]), each(&|x| sat(-x)));
    assert_eq!(result(Op::Unary(Unary::Abs), &[]), each(&|x| sat(x.abs())));
    let activation = |activation| result(Op::Activation(activation), &[]);
    let leaky = activation(Activation::LeakyRelu { alpha: 0.3 });
    assert_eq!(leaky, each(&|x| x.max(fused(x, 5, 0))));
    let clip = activation(Activation::Clip { min: Some(-0.1), max: Some(100.0) });
    assert_eq!(clip, each(&|x| x.max(-2)));
    assert_eq!(activation(Activation::Clip { min: None, max: None }), x);
    let slopes = result(Op::PRelu, &[sixteenths(&[2, 1], &[4, -16])]);
    let (low, high) = x.split_at(4);
    let low = low.iter().map(|&x| x.max(fused(x, 4, 0)));
    assert_eq!(slopes, low.chain(high.iter().map(|&x| x.max(-x))).collect::<Vec<_>>());
    let row = |scalars: &[i32]| [sixteenths(&[1, scalars.len(), 1], scalars)];
    let quotients = result(Op::Binary(Binary::Div), &row(&[32, -8]));
    let (low, high) = x.split_at(4);
    let halves = low.iter().map(|&x| fused(x, 8, 0));
    assert_eq!(quotients, halves.chain(high.iter().map(|&x| fused(x, -32, 0))).collect::<Vec<_>>());
    let power = |power: i32| result(Op::Binary(Binary::Pow), &row(&[16 * power]));
    assert_eq!(power(2), each(&|x| fused(x, x, 0)));
    assert_eq!(power(3), each(&|x| fused(fused(x, x, 0), x, 0)));
    let hard = |x: i32, alpha, beta| sat(fused(x, alpha, 0) + beta).clamp(0, 16);
    let hard_sigmoid = Activation::HardSigmoid { alpha: -0.5, beta: 0.25 };
    assert_eq!(activation(hard_sigmoid), each(&|x| hard(x, -8, 4)));
    // 1/6 is 2.7 sixteenths.
    let hard_swish = result(Op::Unary(Unary::HardSwish), &[]);
    assert_eq!(hard_swish, each(&|x| fused(x, hard(x, 3, 8), 0)));
    let grid = |width, scale| Op::Quantise(Quantiser::symmetric(true, width, scale));
    assert_eq!(result(grid(8, 0.0625), &[]), x);
    let other = one_node(grid(8, 0.125), &[1, 2, 4], &[]);
    assert!(run(&other, &input, "compat", json!({})).is_err());
    let pad = Op::Pad(Pad {
        pads: [(0, 0), (0, 0), (1, 0)].into_iter().collect(),
        mode: PadMode::Constant(0.5),
    });
    assert_eq!(result(pad, &[])[..6], [8, -128, -127, -3, -1, 8]);
}

/// Inputs go to the nearest scalar, ties up; floats stay what they are and are never fused.
#[test]
fn inputs_and_floats() {
    let mut graph = Graph::new("inputs");
    let x = graph.add_input("x", DType::F64, &[5], &[]).unwrap();
    let y = graph.add_node("node", Op::Identity, &[Some(x)], "y").unwrap();
    graph.add_output(y);
    let reals = [0.5, -0.5, 0.499_999_999_999_999_94, 1e9, -1e9].map(|steps| steps / 16.0);
    let input = Tensor::from_vec(&[5], reals.to_vec()).unwrap();
    assert_eq!(run(&graph, &input, "compat", json!({})).unwrap(), [1, 0, 0, 127, -128]);
    let bad = Tensor::from_vec(&[5], vec![f64::NAN; 5]).unwrap();
    assert_eq!(run(&graph, &bad, "compat", json!({})).unwrap_err().code(), "Q3103");
    let other = Tensor::from_vec(&[1], vec![0.0]).unwrap();
    assert_eq!(run(&graph, &other, "compat", json!({})).unwrap_err().code(), "Q0507");

    let (x, w, b) = ([1.0 + f32::EPSILON, 3.0], [1.0 - f32::EPSILON, 1e-8], -1.0);
    let weights = Tensor::from_vec(&[1, 2, 1], w.to_vec()).unwrap();
    let constants = [weights, Tensor::from_vec(&[1], vec![b]).unwrap()];
    let graph = one_node(conv(&[1], 0, 1), &[1, 2, 1], &constants);
    let numerics = Numerics(json!({ "data_type": "FLOAT32", "lanes": 2, "rounding": "compat" }));
    let input = Tensor::from_vec(&[1, 2, 1], x.to_vec()).unwrap();
    let inputs = Tensors::from([("x".to_owned(), input)]);
    let found = crate::common::golden_of(&graph, &numerics, &inputs).unwrap();
    let product = x[0] * w[0];
    assert_eq!(found["y"].to_f64(), [f64::from(x[1] * w[1] + (product + b))]);
}

#[test]
fn numerics_that_do_not_fit_are_refused() {
    let weights = [sixteenths(&[2, 3, 2], &[1; 12])];
    let graph = one_node(conv(&[2], 0, 1), &[1, 3, 3], &weights);
    let input = sixteenths(&[1, 3, 3], &[16; 9]);
    for (rounding, nodes, reason) in [
        ("exact", json!({}), "compat"),
        ("free", json!({ "other": {} }), "not a product"),
        ("free", json!({ "node": { "tap": [0] } }), "unknown field"),
        ("free", json!({ "node": { "taps": [0, 0] } }), "taps"),
        ("free", json!({ "node": { "taps": [0, 1, 2] } }), "taps"),
        ("free", json!({ "node": { "chunk": 0 } }), "chunk"),
        ("free", json!({ "node": { "bias": [0, 0] } }), "no bias"),
        ("free", json!({ "node": { "planes": [[0, 2]] } }), "blocks"),
        ("free", json!({ "node": { "planes": [[0, 3]] } }), "blocks"),
        ("free", json!({ "node": { "planes": [[1, 2], [0, 1]] } }), "blocks"),
        ("free", json!({ "node": { "batch_norm": "gone" } }), "not a batch normalisation"),
        ("free", json!({ "node": { "positions": 2 } }), "positions"),
        ("compat", json!({ "node": { "offset": "gone" } }), "compat"),
        ("compat", json!({ "node": { "planes": [[0, 2], [2, 1]] } }), "compat"),
    ] {
        let problem = run(&graph, &input, rounding, nodes.clone()).unwrap_err();
        assert_eq!(problem.code(), "Q3104", "{nodes}");
        assert!(problem.to_string().contains(reason), "{nodes}: {problem}");
    }
    let lanes = Numerics(json!({ "data_type": "FP8BP4", "lanes": 1, "rounding": "free" }));
    let inputs = Tensors::from([("x".to_owned(), input)]);
    assert_eq!(crate::common::golden_of(&graph, &lanes, &inputs).unwrap_err().code(), "Q3104");
}
