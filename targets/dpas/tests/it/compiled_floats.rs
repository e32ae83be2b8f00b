//! Compiled networks of floats: simulators and golden model say the same, bit for bit, and the graph's
//! executor the same within the precision of the type.

use crate::common::networks::{Net, grid};
use quincunx_contract::{Claim, Options, Refused, compiler_of};
use quincunx_diag::Severity;
use quincunx_dpas::arch::Platform;
use quincunx_dpas::{DpasArch, TARGET};
use quincunx_graph::execute::{Keep, exact, float};
use quincunx_graph::{
    Activation, Binary, Conv, Gemm, Graph, Op, Pool, PoolKind, Quantiser, Unary, ValueId, Window,
};
use quincunx_tensor::{DType, Tensor, Tensors};
use quincunx_testkit::{Coverage, Random, agree, options};

/// What the machine does not take of a graph.
fn is_refused(graph: &Graph, arch: &DpasArch, options: &Options) -> bool {
    let compiler = compiler_of(&TARGET).unwrap();
    let claims = compiler.claim(graph, arch, options, &Refused::default()).unwrap();
    claims.iter().any(|claim| matches!(claim, Claim::Host(_)))
}

/// Weights whose outputs are on an axis: floats, or codes with a scale for every output or for all.
fn weights(net: &mut Net, shape: &[usize], axis: usize) -> ValueId {
    if net.random.chance(60) {
        return net.reals(shape, 0.5);
    }
    let of = net.weight_grid(shape, axis);
    net.weights(shape, of)
}

/// A product with constant weights.
fn product(net: &mut Net, x: ValueId) -> Option<ValueId> {
    let shape = net.shape(x);
    let outputs: usize = net.random.pick(&[1, 5, 12, 40, 70]);
    match shape[..] {
        [_, channels, ref extents @ ..] if !extents.is_empty() && net.random.chance(85) => {
            let window = net.window(extents);
            let groups = net.random.pick(&[1, 1, 2]);
            if !channels.is_multiple_of(groups) || !outputs.is_multiple_of(groups) {
                return None;
            }
            let w = [&[outputs, channels / groups], &window.kernel[..]].concat();
            let mut inputs = vec![x, weights(net, &w, 0)];
            if net.random.coin() {
                inputs.push(net.reals(&[outputs], 1.0));
            }
            net.node(Op::Conv(Conv { window, groups }), &inputs)
        }
        [_, depth] if net.random.coin() => {
            let gemm =
                Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: net.random.coin() };
            let w = if gemm.transpose_b { [outputs, depth] } else { [depth, outputs] };
            let axis = usize::from(!gemm.transpose_b);
            let inputs = [x, weights(net, &w, axis), net.reals(&[outputs], 1.0)];
            net.node(Op::Gemm(gemm), &inputs)
        }
        [.., depth] => {
            let w = weights(net, &[depth, outputs], 1);
            net.node(Op::MatMul, &[x, w])
        }
        [] => None,
    }
}

/// A layer on one of the values, now and then with an activation behind it.
fn layer(net: &mut Net, values: &[ValueId]) -> Option<ValueId> {
    let x = net.random.pick(values);
    let shape = net.shape(x);
    let y = match net.random.below(11) {
        0..5 => product(net, x)?,
        5 | 6 => {
            let window = net.window(shape.get(2..).filter(|extents| !extents.is_empty())?);
            let average = PoolKind::Average { count_include_pad: true };
            let kind = net.random.pick(&[PoolKind::Max, average]);
            let pools = [
                Op::GlobalMaxPool,
                Op::GlobalAveragePool,
                Op::Pool(Pool { kind, window, ceil: false }),
            ];
            let pool = net.random.pick(&pools);
            net.node(pool, &[x])?
        }
        7 => {
            let alike = values.iter().filter(|&&y| net.shape(y) == shape);
            let alike: Vec<ValueId> = alike.copied().collect();
            let other = net.random.pick(&alike);
            net.node(Op::Binary(Binary::Add), &[x, other])?
        }
        8 => {
            let flat = net.node(Op::Flatten { axis: 1 }, &[x])?;
            product(net, flat)?
        }
        9 => net.softmax(x)?,
        _ => x,
    };
    let clip = Op::Activation(Activation::Clip { min: Some(-0.5), max: Some(1.5) });
    let y = if net.random.chance(20) {
        let name = format!("factor{}", net.graph.values().len());
        let number = net.random.pick(&[0.3_f32, -2.0, 3.0]);
        let number = Tensor::from_vec(&[], vec![number]).unwrap();
        let number = net.graph.add_constant(&name, number).unwrap();
        let op = net.random.pick(&[Binary::Mul, Binary::Div]);
        net.node(Op::Binary(op), &[y, number])?
    } else {
        y
    };
    match net.random.below(4) {
        0 => net.node(Op::Unary(Unary::Relu), &[y]),
        1 => net.node(clip, &[y]),
        _ => (y != x).then_some(y),
    }
}

/// A network all of whose nodes the machine takes; values that nobody reads leave.
fn grown(case: u64, arch: &DpasArch, options: &Options) -> Net {
    let mut net = Net::new(case);
    let channels = net.random.pick(&[1, 3, 8, 17, 33, 64]);
    let mut shape = vec![net.random.range(1, 3), channels];
    let axes = net.random.pick(&[0, 1, 2, 2, 2]);
    shape.extend((0..axes).map(|_| net.random.range(1, 9)));
    let mut values: Vec<ValueId> = (0..2)
        .map(|at| net.graph.add_input(&format!("x{at}"), DType::F32, &shape, &[]).unwrap())
        .collect();
    for _ in 0..30 {
        if values.len() == 7 {
            break;
        }
        let before = net.clone();
        match layer(&mut net, &values) {
            Some(value) if !is_refused(&net.graph, arch, options) => values.push(value),
            _ => {
                let random = net.random;
                net = before;
                net.random = random;
            }
        }
    }
    let readers = net.graph.consumers();
    for &value in values.iter().filter(|value| readers[value.index()].is_empty()) {
        if net.graph[value].producer.is_some() {
            net.graph.add_output(value);
        }
    }
    net
}

/// Numbers of a type for the inputs, so that entering does not round them.
pub(crate) fn sample(net: &mut Net, bits: u32) -> Tensors {
    let mut sample = Tensors::new();
    for &id in net.graph.inputs() {
        let value = &net.graph[id];
        let steps = f64::from(1_u32 << (bits - 1));
        let number = |_| ((net.random.real() * steps).round() / steps * 2.0) as f32;
        let numbers: Vec<f32> = (0..value.shape.iter().product()).map(number).collect();
        sample.insert(value.name.clone(), Tensor::from_vec(&value.shape, numbers).unwrap());
    }
    sample
}

/// The executor's numbers are as near as so many roundings to so many bits let them be.
pub(crate) fn is_near(graph: &Graph, inputs: &Tensors, golden: &Tensors, bits: u32) {
    let expected = float(graph, inputs, Keep::All).unwrap();
    // What large numbers leave when they cancel is as wrong as they are.
    let all = expected.values().flat_map(Tensor::to_f64);
    let largest = all.fold(1.0_f64, |largest, x| largest.max(x.abs()));
    for &output in graph.outputs() {
        let name = &graph[output].name;
        let (found, expected) = (golden[name].to_f64(), expected[name].to_f64());
        let allowed = largest * 2.0_f64.powi(-(bits as i32)) * 32.0;
        for (a, b) in found.iter().zip(&expected) {
            assert!((a - b).abs() <= allowed, "{name}: {a} {b}, {allowed} allowed\n{graph}");
        }
    }
}

/// Fifty networks of a precision, on a machine each.
fn judge(precision: &str, platforms: &[Platform], bits: u32) {
    let options = options(&TARGET, &[("precision", precision)]);
    let (mut coverage, mut programs) = (Coverage::default(), 0);
    for case in 0..50 {
        let arch = crate::common::arch(platforms[case % platforms.len()]);
        let mut net = grown(case as u64, &arch, &options);
        if net.graph.outputs().is_empty() {
            continue;
        }
        let inputs = vec![sample(&mut net, bits)];
        let agreed = agree(&TARGET, &arch, &options, &net.graph, inputs);
        let agreed = agreed.unwrap_or_else(|found| panic!("case {case}: {found:?}\n{}", net.graph));
        let found = agreed.compiled.program.verify();
        let found: Vec<_> = found.iter().filter(|one| one.severity() != Severity::Note).collect();
        assert!(found.is_empty(), "case {case}: {found:?}\n{}", net.graph);
        for (inputs, golden) in &agreed.samples {
            is_near(&net.graph, inputs, golden, bits);
        }
        coverage.mark(&net.graph);
        programs += 1;
    }
    assert!(programs >= 45, "{programs} programs");
    let came = "Conv Gemm MatMul MaxPool AveragePool GlobalAveragePool GlobalMaxPool Relu Add Mul Div Clip Softmax Flatten";
    assert_eq!(coverage.came(), came);
}

#[test]
fn networks_of_bf16() {
    judge("bf16", &[Platform::Xe2, Platform::XeHpg], 8);
}

#[test]
fn networks_of_fp16() {
    judge("fp16", &[Platform::XeHpg, Platform::Xe2], 11);
}

#[test]
fn networks_of_tf32() {
    judge("tf32", &[Platform::Xe2], 11);
}

/// A convolution with as many outputs as inputs.
fn conv(net: &mut Net, x: ValueId, extent: usize) -> ValueId {
    let channels = net.shape(x)[1];
    let weights = net.reals(&[channels, channels, extent, extent], 0.1);
    let conv = Conv { window: Window::new(&[extent, extent]), groups: 1 };
    net.node(Op::Conv(conv), &[x, weights]).unwrap()
}

/// A value that another kernel has computed is added by the kernel of a product, as either operand;
/// sums of 32 bits are added by a kernel of their own.
#[test]
fn sums_are_computed_with_products() {
    let clip = Op::Activation(Activation::Clip { min: Some(-0.5), max: Some(1.5) });
    for (case, (precision, bits)) in [("bf16", 8), ("fp16", 11), ("tf32", 11)].iter().enumerate() {
        for (at, shape) in [[1, 64, 4, 5], [2, 7, 5, 6]].iter().enumerate() {
            for order in [0, 1] {
                let mut net = Net::new((4 * case + 2 * at + order) as u64);
                let x = net.graph.add_input("x", DType::F32, shape, &[]).unwrap();
                let r = conv(&mut net, x, 1);
                let [s, y] = [conv(&mut net, r, 2), conv(&mut net, r, 2)];
                let y = if order == 1 { net.node(clip.clone(), &[y]).unwrap() } else { y };
                let operands = if order == 0 { [y, s] } else { [s, y] };
                let sum = net.node(Op::Binary(Binary::Add), &operands).unwrap();
                let sum = net.node(Op::Unary(Unary::Relu), &[sum]).unwrap();
                net.graph.add_output(sum);
                let options = options(&TARGET, &[("precision", precision)]);
                for platform in [Platform::XeHpg, Platform::XeHpc, Platform::Xe2] {
                    if (*precision, platform) == ("tf32", Platform::XeHpg) {
                        continue;
                    }
                    let arch = crate::common::arch(platform);
                    let inputs = vec![sample(&mut net, *bits)];
                    let agreed = agree(&TARGET, &arch, &options, &net.graph, inputs);
                    let agreed = agreed.unwrap_or_else(|found| panic!("{found:?}\n{}", net.graph));
                    let files = agreed.compiled.program.emit("launch", "k").unwrap();
                    let has_sum = files[0].text().unwrap().contains("kernel = \"add");
                    assert_eq!(has_sum, *precision == "tf32", "{precision}");
                    for (inputs, golden) in &agreed.samples {
                        is_near(&net.graph, inputs, golden, *bits);
                    }
                }
            }
        }
    }
}

type Draw<'a> = &'a dyn Fn(&mut Random) -> f64;

/// Weights that fewer bits hold exactly lie in memory that way where memory is slow: codes of 4 and 8
/// bits, floats of 8 bits.
#[test]
fn weights_in_fewer_bits() {
    // Every number of a type, down to those without the leading bit.
    let small = |steps: i64, exponents: (i32, i32)| {
        move |random: &mut Random| {
            let (sign, low) = (if random.coin() { -1.0 } else { 1.0 }, exponents.0);
            let exponent = random.range(i64::from(low), exponents.1.into()) as i32;
            let least = if exponent == low { 0 } else { steps };
            let mantissa = random.range(least, 2 * steps - 1) as f64;
            sign * mantissa / steps as f64 * 2.0_f64.powi(exponent)
        }
    };
    let codes = |most: i64| move |random: &mut Random| random.range(-most, most - 1) as f64;
    let (e5m2, e4m3) = (small(4, (-14, 4)), small(8, (-6, 4)));
    let kinds: [(&str, Draw<'_>); 4] =
        [("s4", &codes(8)), ("s8", &codes(128)), ("e5m2", &e5m2), ("e4m3", &e4m3)];
    for (kind, number) in kinds {
        for (precision, bits) in [("bf16", 8), ("fp16", 11), ("tf32", 11)] {
            for platform in [Platform::XeHpg, Platform::Xe2] {
                if (precision, platform) == ("tf32", Platform::XeHpg) {
                    continue;
                }
                let arch = DpasArch { memory_gbs: 0.5, ..crate::common::arch(platform) };
                let mut net = Net::new(3);
                let x = net.graph.add_input("x", DType::F32, &[9, 100], &[]).unwrap();
                let weights = (0..100 * 70).map(|_| number(&mut net.random) as f32);
                let weights = Tensor::from_vec(&[100, 70], weights.collect()).unwrap();
                let weights = net.graph.add_constant("w", weights).unwrap();
                let y = net.node(Op::MatMul, &[x, weights]).unwrap();
                let scale = Tensor::from_vec(&[], vec![0.001_f32]).unwrap();
                let scale = net.graph.add_constant("scale", scale).unwrap();
                let y = net.node(Op::Binary(Binary::Mul), &[y, scale]).unwrap();
                net.graph.add_output(y);
                let options = options(&TARGET, &[("precision", precision)]);
                let inputs = vec![sample(&mut net, bits)];
                let agreed = agree(&TARGET, &arch, &options, &net.graph, inputs);
                let agreed = agreed.unwrap_or_else(|found| panic!("{found:?}\n{}", net.graph));
                let verified = agreed.compiled.program.verify();
                let is_fine = verified.iter().all(|one| one.severity() == Severity::Note);
                assert!(is_fine, "{kind} {precision}: {verified:?}");
                let files = agreed.compiled.program.emit("launch", "k").unwrap();
                let text = files[0].text().unwrap();
                let tiles = text.split("[[layer.tiles]]");
                let taken: Vec<&str> = tiles.filter(|tile| tile.contains("\"taken\"")).collect();
                let expected = format!("weights = \"{kind}\"");
                assert!(taken[0].contains(&expected), "{kind} {precision}: {}", taken[0]);
                for (inputs, golden) in &agreed.samples {
                    is_near(&net.graph, inputs, golden, bits);
                }
            }
        }
    }
}

/// The largest results of windows that do not overlap leave the kernel of a product, where that takes
/// fewer cycles; others are found by a kernel of their own.
#[test]
fn maxima_are_found_with_products() {
    let mut together = 0;
    for (case, (precision, bits)) in [("int8", 8), ("bf16", 8), ("fp16", 11)].iter().enumerate() {
        for (at, (kernel, stride)) in
            [([2, 2], [2, 2]), ([3, 2], [3, 2]), ([1, 2], [1, 2]), ([3, 3], [2, 2])]
                .iter()
                .enumerate()
        {
            for channels in [3, 20, 64] {
                let mut net = Net::new((4 * case + at) as u64);
                let shape = [2, channels, 9, 11];
                let x = match *precision {
                    "int8" => net.input(&shape, grid(true, 0.02, 3)),
                    _ => net.graph.add_input("x", DType::F32, &shape, &[]).unwrap(),
                };
                let window = net.window(&shape[2..]);
                let outputs = net.random.pick(&[5, 33]);
                let w = [outputs, channels, window.kernel[0], window.kernel[1]];
                let weights = match *precision {
                    "int8" => net.weights(&w, Quantiser::symmetric(true, 8, 0.01)),
                    _ => net.reals(&w, 0.2),
                };
                let bias = net.reals(&[outputs], 1.0);
                let conv = Conv { window, groups: 1 };
                let y = net.node(Op::Conv(conv), &[x, weights, bias]).unwrap();
                let y = match net.random.coin() {
                    true => net.node(Op::Unary(Unary::Relu), &[y]).unwrap(),
                    false => y,
                };
                let y = match *precision {
                    "int8" => net.node(Op::Quantise(grid(true, 0.11, -7)), &[y]).unwrap(),
                    _ => y,
                };
                let mut window = Window::new(kernel);
                window.strides = (*stride).into();
                let pool = Pool { kind: PoolKind::Max, window, ceil: false };
                let Some(y) = net.node(Op::Pool(pool), &[y]) else { continue };
                net.graph.add_output(y);
                let options = options(&TARGET, &[("precision", precision)]);
                for platform in [Platform::XeHpg, Platform::Xe2] {
                    // Slow memory: what does not leave does not cost.
                    let arch = DpasArch { memory_gbs: 0.5, ..crate::common::arch(platform) };
                    let inputs = match *precision {
                        "int8" => vec![net.sample()],
                        _ => vec![sample(&mut net, *bits)],
                    };
                    let agreed = agree(&TARGET, &arch, &options, &net.graph, inputs);
                    let agreed = agreed.unwrap_or_else(|found| panic!("{found:?}\n{}", net.graph));
                    let verified = agreed.compiled.program.verify();
                    assert!(verified.iter().all(|one| one.severity() == Severity::Note));
                    let files = agreed.compiled.program.emit("launch", "k").unwrap();
                    let has_own = files[0].text().unwrap().contains("kernel = \"largest");
                    assert!(has_own || kernel == stride, "{precision} {kernel:?}\n{}", net.graph);
                    together += usize::from(!has_own);
                    for (inputs, golden) in &agreed.samples {
                        match *precision {
                            "int8" => {
                                let expected = exact(&net.graph, inputs, Keep::All).unwrap();
                                let name = &net.graph[y].name;
                                assert_eq!(golden[name].to_f64(), expected[name].to_f64());
                            }
                            _ => is_near(&net.graph, inputs, golden, *bits),
                        }
                    }
                }
            }
        }
    }
    assert!(together >= 30, "{together}");
}
