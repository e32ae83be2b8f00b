//! Compiled attention: products of two values and softmax, in all orders of axes in which networks
//! have them.

use crate::common::networks::{Net, grid};
use crate::compiled::machines;
use crate::compiled_floats::{is_near, sample};
use quincunx_contract::{Claim, Options, Refused, compiler_of};
use quincunx_diag::Severity;
use quincunx_dpas::arch::Platform;
use quincunx_dpas::{DpasArch, TARGET};
use quincunx_graph::{
    Activation, Binary, Graph, Op, Quantiser, SliceRange, Softmax, Unary, ValueId,
};
use quincunx_tensor::{DType, Tensor};
use quincunx_testkit::{agree, options};

/// Why the machine does not take nodes, with their names.
fn refusals(graph: &Graph, arch: &DpasArch, options: &Options) -> Vec<String> {
    let compiler = compiler_of(&TARGET).unwrap();
    let claims = compiler.claim(graph, arch, options, &Refused::default()).unwrap();
    let reasons =
        claims.into_iter().zip(graph.nodes()).filter_map(|(claim, (_, node))| match claim {
            Claim::Host(reason) => Some(format!("{}: {reason}", node.op.name())),
            Claim::Device => None,
        });
    reasons.collect()
}

/// A network on a machine: all of it, exact, near the executor of floats.
fn judged(net: &mut Net, arch: &DpasArch, (precision, bits): (&str, u32)) {
    let options = options(&TARGET, &[("precision", precision)]);
    let refused = refusals(&net.graph, arch, &options);
    assert!(refused.is_empty(), "{refused:?}\n{}", net.graph);
    let inputs = vec![sample(net, bits)];
    let agreed = agree(&TARGET, arch, &options, &net.graph, inputs);
    let agreed = agreed.unwrap_or_else(|found| panic!("{found:?}\n{}", net.graph));
    let found = agreed.compiled.program.verify();
    let found: Vec<_> = found.iter().filter(|one| one.severity() != Severity::Note).collect();
    assert!(found.is_empty(), "{found:?}\n{}", net.graph);
    for (inputs, golden) in &agreed.samples {
        is_near(&net.graph, inputs, golden, bits);
    }
}

fn scalar(net: &mut Net, number: f32) -> ValueId {
    let name = format!("scalar{}", net.graph.values().len());
    net.graph.add_constant(&name, Tensor::from_vec(&[], vec![number]).unwrap()).unwrap()
}

fn transposed(net: &mut Net, x: ValueId, order: &[usize]) -> ValueId {
    net.node(Op::Transpose { order: order.to_vec() }, &[x]).unwrap()
}

fn reshaped(net: &mut Net, x: ValueId, shape: &[usize]) -> ValueId {
    net.node(Op::Reshape { shape: shape.iter().map(|&extent| extent as i64).collect() }, &[x])
        .unwrap()
}

/// Rows `[n, l, h, d]` that a product makes of rows of `[n, l, ...]`.
fn heads(net: &mut Net, x: ValueId, [h, d]: [usize; 2]) -> ValueId {
    let [n, l, depth] = net.shape(x)[..] else { panic!("rows of images") };
    let weights = net.reals(&[depth, h * d], 0.3);
    let y = net.node(Op::MatMul, &[x, weights]).unwrap();
    let bias = net.reals(&[h * d], 0.5);
    let y =
        if net.random.coin() { net.node(Op::Binary(Binary::Add), &[y, bias]).unwrap() } else { y };
    reshaped(net, y, &[n, l, h, d])
}

/// Attention of rows to others: heads of so many channels.
fn attention(net: &mut Net, [x, y]: [ValueId; 2], [h, d]: [usize; 2]) -> ValueId {
    let [q, k, v] = [x, y, y].map(|rows| heads(net, rows, [h, d]));
    let q = transposed(net, q, &[0, 2, 1, 3]);
    let k = match net.random.coin() {
        true => transposed(net, k, &[0, 2, 3, 1]),
        false => {
            let k = transposed(net, k, &[0, 2, 1, 3]);
            transposed(net, k, &[0, 1, 3, 2])
        }
    };
    let v = transposed(net, v, &[0, 2, 1, 3]);
    let scale = (d as f32).sqrt();
    let way = net.random.below(4);
    let by = scalar(net, if way == 0 { scale } else { 1.0 / scale });
    // Of the rows or of the sums.
    let q = if way == 2 { net.node(Op::Binary(Binary::Mul), &[q, by]).unwrap() } else { q };
    let sums = net.node(Op::MatMul, &[q, k]).unwrap();
    let sums = match way {
        0 => net.node(Op::Binary(Binary::Div), &[sums, by]).unwrap(),
        1 => net.node(Op::Binary(Binary::Mul), &[by, sums]).unwrap(),
        _ => sums,
    };
    let shares = net.node(Op::Softmax(Softmax { axis: 3, log: false }), &[sums]).unwrap();
    let sums = net.node(Op::MatMul, &[shares, v]).unwrap();
    let [n, _, l, _] = net.shape(sums)[..] else { panic!("no heads") };
    let sums = transposed(net, sums, &[0, 2, 1, 3]);
    reshaped(net, sums, &[n, l, h * d])
}

/// A machine that has a precision.
fn machine(case: usize, precision: &str) -> DpasArch {
    let platforms = [Platform::Xe2, Platform::XeHpg, Platform::XeHpc];
    let platform = platforms[case / 3 % 3];
    let has_it = (precision, platform) != ("tf32", Platform::XeHpg);
    crate::common::arch(if has_it { platform } else { Platform::Xe3 })
}

/// Attention of random extents, with heads that are multiples of the columns of an instruction.
#[test]
fn heads_of_every_extent() {
    let precisions = [("bf16", 8), ("fp16", 11), ("tf32", 11)];
    for case in 0..36 {
        let (precision, bits) = precisions[case % 3];
        let arch = machine(case, precision);
        let mut net = Net::new(case as u64);
        let d = net.random.pick(&[16, 32, 48, 64]);
        let (n, h) = (net.random.range(1, 2), net.random.pick(&[1, 2, 3, 4]));
        let rows: [usize; 2] = [0, 0].map(|_| net.random.pick(&[1, 7, 16, 33, 50, 70]));
        let depth = net.random.pick(&[20, 64]);
        let mut input = |name: &str, rows: usize| {
            net.graph.add_input(name, DType::F32, &[n, rows, depth], &[]).unwrap()
        };
        let x = input("x", rows[0]);
        let y = if case % 4 == 0 { x } else { input("y", rows[1]) };
        let sums = attention(&mut net, [x, y], [h, d]);
        let weights = net.reals(&[h * d, 40], 0.3);
        let out = net.node(Op::MatMul, &[sums, weights]).unwrap();
        let out = net.node(Op::Unary(Unary::Relu), &[out]).unwrap();
        net.graph.add_output(out);
        if net.random.coin() {
            net.graph.add_output(sums);
        }
        judged(&mut net, &arch, (precision, bits));
    }
}

/// Batches of products, of operands as they enter: rows of either, repeated or not.
#[test]
fn batches_of_products() {
    let precisions = [("bf16", 8), ("fp16", 11), ("tf32", 11)];
    for case in 0..45 {
        let (precision, bits) = precisions[case % 3];
        let arch = machine(case, precision);
        let mut net = Net::new(case as u64);
        let batches: [[&[usize]; 2]; 6] = [
            [&[], &[]],
            [&[3], &[3]],
            [&[2, 3], &[2, 3]],
            [&[3], &[]],
            [&[2, 1], &[3]],
            [&[1, 2, 2], &[2, 1, 2]],
        ];
        let [first, second] = net.random.pick(&batches);
        let is_across = net.random.coin();
        let depth =
            net.random.pick(if is_across { &[16, 32, 80][..] } else { &[1, 5, 20, 33, 70] });
        let [rows, columns] = [0, 0].map(|_| net.random.pick(&[1, 3, 17, 40, 66]));
        let right = if is_across { [columns, depth] } else { [depth, columns] };
        let a = [first, &[rows, depth]].concat();
        let b = [second, &right].concat();
        let a = net.graph.add_input("a", DType::F32, &a, &[]).unwrap();
        let b = net.graph.add_input("b", DType::F32, &b, &[]).unwrap();
        // What lies behind the channels then is not 0.
        let clip = Op::Activation(Activation::Clip { min: Some(0.5), max: None });
        let a = if net.random.coin() { net.node(clip, &[a]).unwrap() } else { a };
        let right = match is_across {
            true => swapped(&mut net, b),
            false => b,
        };
        let mut y = net.node(Op::MatMul, &[a, right]).unwrap();
        if net.random.coin() {
            y = net.node(Op::Unary(Unary::Relu), &[y]).unwrap();
        }
        if net.random.coin() {
            let axis = net.shape(y).len() - 1;
            y = net.node(Op::Softmax(Softmax { axis, log: false }), &[y]).unwrap();
        }
        net.graph.add_output(y);
        judged(&mut net, &arch, (precision, bits));
    }
}

/// Batches of products of codes are exact, whatever the zeros of their grids.
#[test]
fn batches_of_products_of_codes() {
    for case in 0..40 {
        let mut net = Net::new(case);
        let batches: [[&[usize]; 2]; 4] =
            [[&[], &[]], [&[3], &[3]], [&[2, 3], &[2, 3]], [&[2, 1], &[3]]];
        let [first, second] = net.random.pick(&batches);
        let is_across = net.random.coin();
        let depth =
            net.random.pick(if is_across { &[32, 64, 160][..] } else { &[1, 5, 32, 33, 70] });
        let [rows, columns] = [0, 0].map(|_| net.random.pick(&[1, 3, 17, 40, 66]));
        let right = if is_across { [columns, depth] } else { [depth, columns] };
        let grids = [0, 0].map(|_| {
            let (signed, zero) =
                net.random.pick(&[(true, 0), (true, -128), (false, 0), (false, 121), (true, 5)]);
            grid(signed, net.random.pick(&[0.25, 0.0171, 0.1]), zero)
        });
        let a = net.input(&[first, &[rows, depth]].concat(), grids[0].clone());
        let b = net.input(&[second, &right].concat(), grids[1].clone());
        let b = if is_across { swapped(&mut net, b) } else { b };
        let y = net.node(Op::MatMul, &[a, b]).unwrap();
        let y = if net.random.coin() { net.node(Op::Unary(Unary::Relu), &[y]).unwrap() } else { y };
        let y = net.node(Op::Quantise(grid(case % 2 == 0, 0.35, 7)), &[y]).unwrap();
        net.graph.add_output(y);
        for arch in machines() {
            let samples = vec![net.sample()];
            if let Err(found) = crate::compiled::judged(&net.graph, &arch, samples) {
                panic!("case {case} on {}: {found:?}\n{}", arch.platform.name(), net.graph);
            }
        }
    }
}

/// The last two axes change places.
fn swapped(net: &mut Net, x: ValueId) -> ValueId {
    let rank = net.shape(x).len();
    let mut order: Vec<usize> = (0..rank).collect();
    order.swap(rank - 2, rank - 1);
    transposed(net, x, &order)
}

/// What has no kernel has a reason.
#[test]
fn other_products_are_the_hosts() {
    let arch = crate::common::arch(Platform::Xe2);
    let options = options(&TARGET, &[("precision", "bf16")]);
    let input = |net: &mut Net, name: &str, shape: &[usize]| {
        net.graph.add_input(name, DType::F32, shape, &[]).unwrap()
    };
    let expect = |net: Net, reason: &str| {
        let found = refusals(&net.graph, &arch, &options);
        assert_eq!(found[0], reason, "{}", net.graph);
    };
    let mut net = Net::new(0);
    let [a, b] = [input(&mut net, "a", &[4, 20]), input(&mut net, "b", &[5, 20])];
    let b = swapped(&mut net, b);
    net.node(Op::MatMul, &[a, b]).unwrap();
    expect(net, "MatMul: its sums are no multiple of 32 bytes of an operand long");
    let mut net = Net::new(0);
    let [a, b] = [input(&mut net, "a", &[4, 20]), input(&mut net, "b", &[20])];
    net.node(Op::MatMul, &[a, b]).unwrap();
    expect(net, "MatMul: one of its operands is a vector");
    let mut net = Net::new(0);
    let [a, b] = [input(&mut net, "a", &[4, 32]), input(&mut net, "b", &[4, 5])];
    let a = swapped(&mut net, a);
    net.node(Op::MatMul, &[a, b]).unwrap();
    expect(net, "MatMul: its rows or columns are not next to each other in memory");
    let mut net = Net::new(0);
    let [a, b] = [input(&mut net, "a", &[2, 4, 32]), input(&mut net, "b", &[2, 5, 12])];
    let b = reshaped(&mut net, b, &[2, 5, 3, 4]);
    let b = transposed(&mut net, b, &[0, 2, 1, 3]);
    let a = reshaped(&mut net, a, &[2, 1, 4, 32]);
    let b = swapped(&mut net, b);
    let weights = net.reals(&[32, 4], 0.3);
    let a = net.node(Op::MatMul, &[a, weights]).unwrap();
    net.node(Op::MatMul, &[a, b]).unwrap();
    expect(net, "MatMul: its sums are no multiple of 32 bytes of an operand long");
    let mut net = Net::new(0);
    let [a, b] = [input(&mut net, "a", &[4, 40]), input(&mut net, "b", &[5, 32])];
    let range = SliceRange { axis: 1, start: 3, end: 35, step: 1 };
    let a = net.node(Op::Slice { ranges: vec![range] }, &[a]).unwrap();
    let b = swapped(&mut net, b);
    net.node(Op::MatMul, &[a, b]).unwrap();
    expect(net, "MatMul: a part of its operands begins between multiples of 8 bytes");
    let mut net = Net::new(0);
    let a = input(&mut net, "a", &[3, 4, 32]);
    let a = swapped(&mut net, a);
    let index = Tensor::from_vec(&[], vec![3_i64]).unwrap();
    let index = net.graph.add_constant("index", index).unwrap();
    net.node(Op::Gather { axis: 0 }, &[a, index]).unwrap();
    expect(net, "Gather: its axes have no steps of their own in memory");
    let mut net = Net::new(0);
    let a = input(&mut net, "a", &[2, 4, 5, 6]);
    let pool = net.node(Op::GlobalAveragePool, &[a]).unwrap();
    transposed(&mut net, pool, &[0, 2, 3, 1]);
    expect(net, "Transpose: it changes the order of elements in memory");
    let mut net = Net::new(0);
    let a = input(&mut net, "a", &[2, 4, 5]);
    let weights = net.reals(&[5, 8], 0.3);
    let a = net.node(Op::MatMul, &[a, weights]).unwrap();
    net.node(Op::Softmax(Softmax { axis: 1, log: false }), &[a]).unwrap();
    expect(net, "Softmax: its axis is not innermost in memory");
    let mut net = Net::new(0);
    let a = input(&mut net, "a", &[2, 4]);
    net.node(Op::Softmax(Softmax { axis: 1, log: true }), &[a]).unwrap();
    expect(net, "LogSoftmax: LogSoftmax has no kernel");
}

/// An input, on a grid where the machine computes with codes.
pub(crate) fn input(net: &mut Net, precision: &str, shape: &[usize]) -> ValueId {
    match precision {
        "int8" => net.input(shape, grid(true, 0.02, 3)),
        _ => net.graph.add_input("x", DType::F32, shape, &[]).unwrap(),
    }
}

/// Rows by themselves, both ways, softmax, and a product with weights that few bits hold.
pub(crate) fn products(net: &mut Net, precision: &str, x: ValueId) -> ValueId {
    let held = |net: &mut Net, y: ValueId, scale: f64, zero: i64| match precision {
        "int8" => net.node(Op::Quantise(grid(true, scale, zero)), &[y]).unwrap(),
        _ => y,
    };
    let columns = swapped(net, x);
    let sums = net.node(Op::MatMul, &[x, columns]).unwrap();
    let sums = held(net, sums, 0.1, 5);
    let axis = net.shape(sums).len() - 1;
    let shares = net.node(Op::Softmax(Softmax { axis, log: false }), &[sums]).unwrap();
    let shares = held(net, shares, 1.0 / 256.0, -128);
    let y = net.node(Op::MatMul, &[shares, x]).unwrap();
    let y = held(net, y, 0.02, -3);
    let depth = *net.shape(y).last().unwrap();
    // Of floats as codes, or as those of 8 bits.
    let weights = match precision {
        "bf16" => {
            let number = |at: usize| ((at % 15) as f32 - 7.0) * 2.0_f32.powi(at as i32 % 5 - 4);
            let numbers: Vec<f32> = (0..depth * 40).map(number).collect();
            let weights = Tensor::from_vec(&[depth, 40], numbers).unwrap();
            net.graph.add_constant("weights", weights).unwrap()
        }
        _ => net.weights(&[depth, 40], Quantiser::symmetric(true, 4, 0.1)),
    };
    let y = net.node(Op::MatMul, &[y, weights]).unwrap();
    held(net, y, 0.1, 0)
}

/// Queries, keys and values that one product makes, cut apart behind it: along the channels, or along an
/// axis of three.
#[test]
fn packed_heads_are_cut_in_place() {
    let precisions = [("bf16", 8), ("fp16", 11), ("tf32", 11)];
    for case in 0..24 {
        let (precision, bits) = precisions[case % 3];
        let arch = machine(case, precision);
        let mut net = Net::new(case as u64);
        let (n, h, d) =
            (net.random.range(1, 2), net.random.range(1, 3), net.random.pick(&[16, 32]));
        let l = net.random.pick(&[5, 16, 33]);
        let x = net.graph.add_input("x", DType::F32, &[n, l, 24], &[]).unwrap();
        let weights = net.reals(&[24, 3 * h * d], 0.3);
        let all = net.node(Op::MatMul, &[x, weights]).unwrap();
        let parts = match net.random.coin() {
            true => [0, 1, 2].map(|part| {
                let (axis, width) = (2, (h * d) as i64);
                let range =
                    SliceRange { axis, start: part * width, end: (part + 1) * width, step: 1 };
                let part = net.node(Op::Slice { ranges: vec![range] }, &[all]).unwrap();
                let part = reshaped(&mut net, part, &[n, l, h, d]);
                transposed(&mut net, part, &[0, 2, 1, 3])
            }),
            false => {
                let all = reshaped(&mut net, all, &[n, l, 3, h, d]);
                let all = transposed(&mut net, all, &[2, 0, 3, 1, 4]);
                [0, 1, -1].map(|part| {
                    let name = format!("index{}", net.graph.values().len());
                    let index = Tensor::from_vec(&[], vec![part as i64]).unwrap();
                    let index = net.graph.add_constant(&name, index).unwrap();
                    net.node(Op::Gather { axis: 0 }, &[all, index]).unwrap()
                })
            }
        };
        let [q, k, v] = parts;
        let k = swapped(&mut net, k);
        let sums = net.node(Op::MatMul, &[q, k]).unwrap();
        let shares = net.node(Op::Softmax(Softmax { axis: 3, log: false }), &[sums]).unwrap();
        let sums = net.node(Op::MatMul, &[shares, v]).unwrap();
        // A class token, as it were.
        let range = SliceRange { axis: 2, start: 0, end: 1, step: 1 };
        let first = net.node(Op::Slice { ranges: vec![range] }, &[sums]).unwrap();
        net.graph.add_output(first);
        if net.random.coin() {
            net.graph.add_output(q);
        }
        judged(&mut net, &arch, (precision, bits));
    }
}
