//! Compiled networks: simulators, golden model and the graph's exact executor say the same, on every
//! machine; what the machine does not take has a reason.

use crate::common::networks::{Net, compiled, grid, refusals};
use quincunx_contract::plan::{Division, Place};
use quincunx_contract::{Log, Options, Program, compiler_of};
use quincunx_diag::{Diagnostic, Severity};
use quincunx_dpas::arch::Platform;
use quincunx_dpas::{DpasArch, TARGET};
use quincunx_graph::execute::{Keep, exact, float};
use quincunx_graph::{
    Activation, Binary, Conv, Gemm, Graph, Op, Pool, PoolKind, Quantiser, Softmax, Unary, ValueId,
    Window,
};
use quincunx_tensor::{Tensor, Tensors};
use quincunx_testkit::{Agreed, Coverage, Random, Recipe, agree, options};
use std::collections::{BTreeMap, BTreeSet};

/// Machines with the lanes and the messages of either kind.
pub(crate) fn machines() -> [DpasArch; 2] {
    [Platform::XeHpg, Platform::Xe2].map(crate::common::arch)
}

fn given() -> Options {
    options(&TARGET, &[])
}

/// Files of a program.
fn bytes(program: &dyn Program) -> Vec<(String, Vec<u8>)> {
    let files = program.emit("launch", "program").unwrap();
    files.into_iter().map(|file| (file.name, file.bytes.to_vec())).collect()
}

/// All judges on a graph that the machine takes as a whole.
pub(crate) fn judged(
    graph: &Graph,
    arch: &DpasArch,
    samples: Vec<Tensors>,
) -> Result<Agreed, Vec<Diagnostic>> {
    let agreed = agree(&TARGET, arch, &given(), graph, samples)?;
    let found = agreed.compiled.program.verify();
    let found: Vec<_> = found.iter().filter(|one| one.severity() != Severity::Note).collect();
    assert!(found.is_empty(), "{found:?}\n{graph}");
    is_exact(graph, &agreed);
    let compiler = compiler_of(&TARGET).unwrap();
    let again = compiler.compile(graph, arch, &given(), &mut Log::default()).unwrap();
    assert_eq!(bytes(&*agreed.compiled.program), bytes(&*again.program), "{graph}");
    Ok(agreed)
}

/// All values are those of the exact executor, but for what sums of two values on grids decide.
fn is_exact(graph: &Graph, agreed: &Agreed) {
    let mut is_sum = vec![false; graph.values().len()];
    for (_, node) in graph.nodes() {
        let below = node.operands().any(|operand| is_sum[operand.index()]);
        is_sum[node.output.index()] = below || node.op == Op::Binary(Binary::Add);
    }
    for (inputs, golden) in &agreed.samples {
        let expected = exact(graph, inputs, Keep::All).unwrap();
        for (id, value) in graph.values() {
            if let (false, Some(found)) = (is_sum[id.index()], golden.get(&value.name)) {
                let expected = expected[&value.name].to_f64();
                assert_eq!(found.to_f64(), expected, "{}\n{graph}", value.name);
            }
        }
    }
}

/// Reasons without their numbers.
fn kind(reason: &str) -> String {
    reason.chars().filter(|c| !c.is_ascii_digit()).collect()
}

#[test]
fn judges_agree_on_random_networks() {
    let (mut coverage, mut reasons) = (Coverage::default(), BTreeMap::<String, usize>::new());
    let [mut programs, mut values] = [0; 2];
    for case in 0..50 {
        for arch in machines() {
            let (mut net, refused) = Net::grown(case, &arch, 6);
            refused.iter().for_each(|reason| *reasons.entry(kind(reason)).or_default() += 1);
            let samples = vec![net.sample()];
            match judged(&net.graph, &arch, samples) {
                Ok(agreed) => {
                    coverage.mark(&net.graph);
                    programs += 1;
                    values += agreed.seen.len();
                }
                Err(problems) => {
                    for problem in problems {
                        let is_reason = ["Q6180", "Q6181", "Q6182"].contains(&problem.code());
                        assert!(is_reason, "case {case}: {problem}\n{}", net.graph);
                        *reasons.entry(kind(problem.message())).or_default() += 1;
                    }
                }
            }
        }
    }
    assert!(programs >= 85 && values >= 500, "{programs} programs, {values} values, {reasons:#?}");
    let came = "Conv Gemm MatMul MaxPool AveragePool GlobalAveragePool GlobalMaxPool Relu Add Mul Div Clip \
        Flatten Identity Quantise";
    assert_eq!(coverage.came(), came);
}

/// Judges on a network, on every machine, that has to be taken.
fn taken(mut net: Net, at: &str) {
    for arch in machines() {
        let refused = refusals(&net.graph, &arch);
        assert!(refused.is_empty(), "{at}: {refused:?}\n{}", net.graph);
        let samples = vec![net.sample(), net.sample()];
        if let Err(problems) = judged(&net.graph, &arch, samples) {
            panic!("{at} on {}: {problems:?}\n{}", arch.platform.name(), net.graph);
        }
    }
}

fn relu() -> Op {
    Op::Unary(Unary::Relu)
}

/// What follows a node, and leaves: its sums, codes, codes behind a ReLU or between ends.
fn ended(net: &mut Net, y: ValueId, end: usize) {
    let of = [grid(true, 0.25, 3), grid(false, 0.11_f32.into(), 128), grid(true, 0.1, -128)];
    let clip = Op::Activation(Activation::Clip { min: Some(-1.0), max: Some(6.0) });
    let y = match end {
        2 => net.node(relu(), &[y]).unwrap(),
        3 => net.node(clip, &[y]).unwrap(),
        _ => y,
    };
    let y = if end > 0 { net.node(Op::Quantise(of[end - 1].clone()), &[y]).unwrap() } else { y };
    net.graph.add_output(y);
}

/// Shape, kernel, strides, padding before and behind, dilations, groups, output channels.
type Case = (&'static [usize], &'static [usize], usize, (usize, usize), usize, usize, usize);

const CONVS: &[Case] = &[
    (&[1, 1, 7, 5], &[3, 3], 1, (1, 1), 1, 1, 8),
    (&[1, 3, 13, 11], &[7, 7], 2, (3, 3), 1, 1, 24),
    (&[2, 3, 8, 8], &[2, 3], 3, (0, 1), 1, 1, 1),
    (&[1, 5, 6, 7], &[1, 1], 1, (0, 0), 1, 1, 40),
    (&[1, 32, 5, 5], &[3, 3], 1, (1, 1), 1, 1, 33),
    (&[1, 9, 7, 7], &[3, 3], 1, (2, 2), 2, 1, 16),
    (&[3, 64, 2, 2], &[2, 2], 1, (0, 0), 1, 1, 130),
    (&[1, 4, 9, 4], &[3, 2], 2, (2, 0), 3, 1, 7),
    (&[1, 16, 6, 6], &[3, 3], 1, (1, 1), 1, 16, 16),
    (&[1, 40, 7, 5], &[5, 5], 2, (2, 2), 1, 40, 40),
    (&[2, 1, 5, 5], &[3, 3], 1, (1, 1), 1, 1, 1),
    (&[1, 8, 6, 6], &[3, 3], 1, (1, 1), 1, 2, 16),
    (&[1, 64, 4, 4], &[3, 3], 2, (0, 1), 1, 2, 64),
    (&[1, 32, 4, 4], &[1, 1], 1, (0, 0), 1, 8, 32),
    (&[1, 16, 5, 5], &[3, 3], 1, (2, 2), 2, 16, 32),
    (&[1, 6, 5, 5], &[3, 3], 1, (1, 1), 1, 3, 9),
    (&[2, 5, 11], &[3], 2, (1, 1), 1, 1, 12),
    (&[1, 8, 16], &[4], 1, (0, 3), 2, 8, 8),
    // Where blocks of matrices hold runs of positions.
    (&[1, 64, 7, 9], &[3, 3], 1, (1, 1), 1, 1, 64),
    (&[1, 128, 6, 14], &[1, 1], 2, (0, 0), 1, 1, 70),
    (&[1, 96, 6, 6], &[3, 3], 1, (1, 1), 2, 1, 96),
    (&[2, 64, 11, 3], &[1, 1], 1, (0, 0), 1, 1, 128),
    (&[1, 128, 5, 5], &[3, 3], 1, (1, 1), 1, 2, 128),
    (&[1, 64, 3, 40], &[1, 2], 1, (0, 1), 1, 1, 48),
    (&[1, 64, 37], &[3], 2, (1, 1), 1, 1, 64),
    // Groups of which a tile has more columns than there are.
    (&[3, 128, 8], &[4], 2, (2, 1), 1, 2, 2),
    (&[1, 96, 3, 3], &[1, 1], 1, (0, 0), 1, 24, 24),
    (&[1, 72, 3, 2], &[3, 3], 1, (1, 1), 1, 72, 72),
];

#[test]
fn convolutions_of_every_kind() {
    for (at, &(shape, kernel, stride, pads, dilation, groups, outputs)) in CONVS.iter().enumerate()
    {
        let mut window = Window::new(kernel);
        window.strides.fill(stride);
        window.pads.fill(pads);
        window.dilations.fill(dilation);
        for end in [at % 4, (at + 2) % 4] {
            let mut net = Net::new((4 * at + end) as u64);
            let of = [grid(true, 0.05, 0), grid(false, 0.5, 128), grid(true, 0.03, -7)];
            let x = net.input(shape, of[(at + end) % 3].clone());
            let y = net.conv(x, window.clone(), groups, outputs).unwrap();
            ended(&mut net, y, end);
            taken(net, &format!("{:?} {end}", CONVS[at]));
        }
    }
}

/// Sums that lie on the tie of two codes, half to even, in every place of the codes' range.
#[test]
fn ties_go_to_even_codes() {
    for (signed, zero) in [(true, 0), (true, -3), (false, 128), (false, 1)] {
        for scale in [0.5, 0.0625] {
            let mut net = Net::new(1);
            let x = net.input(&[1, 4, 8, 8], grid(true, 0.25, 0));
            let w = net.weights(&[24, 4, 3, 3], Quantiser::symmetric(true, 8, 0.03125));
            let window = Window::new(&[3, 3]);
            let conv = Conv { window, groups: 1 };
            let y = net.node(Op::Conv(conv), &[x, w]).unwrap();
            let y = net.node(Op::Quantise(grid(signed, scale, zero)), &[y]).unwrap();
            net.graph.add_output(y);
            taken(net, &format!("{signed} {zero} {scale}"));
        }
    }
}

#[test]
fn products_of_matrices() {
    for (at, shape) in [&[1, 64][..], &[5, 10], &[3, 7, 33], &[2, 2, 3, 16]].into_iter().enumerate()
    {
        for end in 0..4 {
            let mut net = Net::new((50 + 4 * at + end) as u64);
            let x = net.input(shape, grid(end % 2 == 0, 0.05, 2));
            let depth = shape[shape.len() - 1];
            let y = match (shape.len(), end % 2) {
                (2, 0) => {
                    let w = net.weights(&[20, depth], Quantiser::symmetric(true, 8, 0.01));
                    let b = net.reals(&[20], 3.0);
                    let gemm =
                        Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: true };
                    net.node(Op::Gemm(gemm), &[x, w, b]).unwrap()
                }
                _ => {
                    let w = net.weights(&[depth, 20], Quantiser::symmetric(true, 4, 0.01));
                    net.node(Op::MatMul, &[x, w]).unwrap()
                }
            };
            ended(&mut net, y, end);
            taken(net, &format!("{shape:?} {end}"));
        }
    }
}

/// Weights of 4 and 2 bits lie in memory and registers as such.
#[test]
fn small_weights_are_packed() {
    for (bits, name) in [(4, "s4"), (2, "s2"), (8, "b")] {
        for (at, shape) in [&[1, 64, 7, 9][..], &[2, 5, 6, 6], &[1, 128, 5, 5]].iter().enumerate() {
            let mut net = Net::new((7 * at + bits) as u64);
            let x = net.input(shape, grid(at == 1, 0.05, 3));
            let weights = Quantiser::symmetric(true, bits as u32, 0.02);
            let w = net.weights(&[40, shape[1], 3, 3], weights);
            let mut window = Window::new(&[3, 3]);
            window.pads.fill((1, 1));
            let y = net.node(Op::Conv(Conv { window, groups: 1 }), &[x, w]).unwrap();
            ended(&mut net, y, at);
            for arch in machines() {
                let compiled = compiled(&net.graph, &arch);
                let files = compiled.program.emit("asm", "k").unwrap();
                let dpas = format!(":{name} r");
                let text = files[0].text().unwrap().to_owned();
                let products = text.lines().filter(|line| line.contains("dpas."));
                assert!(products.clone().count() > 0);
                assert!(products.into_iter().all(|line| line.contains(&dpas)), "{text}");
            }
            taken(net, &format!("{bits} {shape:?}"));
        }
    }
}

#[test]
fn pools_of_every_kind() {
    let window = |kernel: usize, stride: usize, pads: (usize, usize)| {
        let mut window = Window::new(&[kernel, kernel]);
        window.strides.fill(stride);
        window.pads.fill(pads);
        window
    };
    let average = PoolKind::Average { count_include_pad: true };
    let pool = |kind, window, ceil| Op::Pool(Pool { kind, window, ceil });
    let pools = [
        pool(PoolKind::Max, window(2, 2, (0, 0)), false),
        pool(PoolKind::Max, window(3, 2, (1, 1)), false),
        pool(PoolKind::Max, window(3, 2, (0, 0)), true),
        pool(average, window(3, 1, (1, 1)), false),
        pool(average, window(2, 2, (0, 0)), false),
        Op::GlobalAveragePool,
        Op::GlobalMaxPool,
    ];
    for (at, op) in pools.into_iter().enumerate() {
        for (channels, signed) in [(3, false), (20, true), (64, false)] {
            let mut net = Net::new(at as u64);
            // The lowest code is 0, as behind a ReLU: padding cannot win.
            let x =
                net.input(&[2, channels, 7, 9], grid(signed, 0.1, if signed { -128 } else { 0 }));
            let is_max = op.name().ends_with("MaxPool");
            let y = net.node(op.clone(), &[x]).unwrap();
            ended(&mut net, y, if is_max { 0 } else { 2 });
            taken(net, &format!("{op:?} {channels}"));
        }
    }
}

#[test]
fn sums_requantising_and_activations_alone() {
    for end in 1..4 {
        for (shape, scale) in [(&[2, 9, 5, 5][..], 0.05), (&[3, 40], 0.25), (&[1, 6, 13], 0.031)] {
            let mut net = Net::new(end as u64);
            let x = net.input(shape, grid(true, scale, 4));
            let y = net.input(shape, grid(false, 0.07, 100));
            let sum = net.node(Op::Binary(Binary::Add), &[x, y]).unwrap();
            ended(&mut net, sum, end.min(2));
            let alone = net.node(relu(), &[x]).unwrap();
            ended(&mut net, alone, 1);
            let twice = net.node(Op::Binary(Binary::Add), &[y, y]).unwrap();
            ended(&mut net, twice, 1);
            ended(&mut net, y, end);
            taken(net, &format!("{shape:?} {end}"));
        }
    }
}

/// A value that another kernel has computed is added by the kernel of a product, as either operand.
#[test]
fn sums_are_computed_with_products() {
    let shapes: [&[usize]; 3] = [&[1, 64, 4, 5], &[2, 70, 3, 3], &[2, 7, 5, 6]];
    for (at, shape) in shapes.into_iter().enumerate() {
        for case in 0..6 {
            let (order, end) = (case % 2, 1 + case % 3);
            let mut net = Net::new((6 * at + case) as u64);
            let x = net.input(shape, grid(true, 0.05, -2));
            let mut window = Window::new(&[3, 3]);
            window.pads.fill((1, 1));
            let r = net.conv(x, window, 1, shape[1]).unwrap();
            let r = net.node(Op::Quantise(grid(case < 3, 0.11, 17)), &[r]).unwrap();
            let y = net.conv(r, Window::new(&[1, 1]), 1, shape[1]).unwrap();
            let y = if case == 4 { net.node(relu(), &[y]).unwrap() } else { y };
            let own = grid(case < 4, [0.1, 0.0123][case % 2], 9);
            let y = net.node(Op::Quantise(own), &[y]).unwrap();
            let operands = if order == 0 { [y, r] } else { [r, y] };
            let sum = net.node(Op::Binary(Binary::Add), &operands).unwrap();
            ended(&mut net, sum, if end == 3 { 2 } else { end });
            for arch in machines() {
                let files = compiled(&net.graph, &arch).program.emit("launch", "k").unwrap();
                let text = files[0].text().unwrap();
                assert!(text.contains("kernel = \"product"), "{text}");
                assert!(!text.contains("kernel = \"add"), "{text}");
            }
            taken(net, &format!("{shape:?} {case}"));
        }
    }
}

/// A residual block with two outputs, one of which is read further.
#[test]
fn values_that_leave_are_read_further() {
    let mut net = Net::new(9);
    let x = net.input(&[2, 8, 6, 6], grid(true, 0.05, 0));
    let mut window = Window::new(&[3, 3]);
    window.pads.fill((1, 1));
    let y = net.conv(x, window, 1, 8).unwrap();
    let y = net.node(Op::Quantise(grid(true, 0.1, 1)), &[y]).unwrap();
    let sum = net.node(Op::Binary(Binary::Add), &[y, x]).unwrap();
    let sum = net.node(relu(), &[sum]).unwrap();
    let sum = net.node(Op::Quantise(grid(false, 0.125, 0)), &[sum]).unwrap();
    let pooled = net.node(Op::GlobalAveragePool, &[sum]).unwrap();
    let pooled = net.node(Op::Quantise(grid(false, 0.125, 0)), &[pooled]).unwrap();
    let flat = net.node(Op::Flatten { axis: 1 }, &[pooled]).unwrap();
    let y2 = net.product(flat).unwrap();
    [y, sum, y2].into_iter().for_each(|value| net.graph.add_output(value));
    taken(net, "block");
}

/// Networks of every operator with grids of 8 bits: the parts that the machine takes are judged, all
/// others have a reason.
#[test]
fn parts_of_networks_of_every_operator() {
    let recipe = |case: u64| Recipe {
        grids: Some([8, 8]),
        grid: Some([grid(true, 0.05, 3), grid(false, 0.125, 128)][case as usize % 2].clone()),
        coded: true,
        channels: 9,
        spread: 4.0,
        layers: [6, 12],
        ..Recipe::REAL
    };
    let (mut reasons, mut parts) = (BTreeSet::new(), 0);
    for case in 0..80 {
        let mut random = Random::new(case);
        let recipe = recipe(case);
        let (graph, _) = recipe.graph(&mut random);
        for arch in machines() {
            let options = given();
            let division =
                Division { graph: &graph, target: &TARGET, arch: &arch, options: &options };
            let plan = division.plan().unwrap();
            reasons.extend(plan.rows.iter().filter_map(|row| row.reason.as_deref().map(kind)));
            for segment in plan.segments.iter() {
                if segment.place == Place::Device {
                    let sample = recipe.sample(&segment.graph, &mut random);
                    match judged(&segment.graph, &arch, vec![sample]) {
                        Ok(_) => parts += 1,
                        Err(problems) => reasons.extend(problems.iter().map(|p| kind(p.message()))),
                    }
                }
            }
        }
    }
    assert!(parts >= 25 && reasons.len() > 60, "{parts} parts, {reasons:#?}");
}

/// Behind a node of the host the machine goes on where numbers are on a grid again, for nodes that
/// multiply; others tell which value is missing.
#[test]
fn values_of_the_host_enter_again() {
    let mut net = Net::new(3);
    let x = net.input(&[1, 3, 6, 6], grid(true, 0.05, 0));
    let mut window = Window::new(&[3, 3]);
    window.pads.fill((1, 1));
    let y = net.conv(x, window.clone(), 1, 8).unwrap();
    let y = net.node(Op::Quantise(grid(true, 0.1, 1)), &[y]).unwrap();
    let host = net.node(Op::Unary(Unary::Sigmoid), &[y]).unwrap();
    let y = net.node(Op::Quantise(grid(false, 1.0 / 256.0, 0)), &[host]).unwrap();
    let y = net.conv(y, window, 1, 4).unwrap();
    let y = net.node(Op::Quantise(grid(true, 0.1, 0)), &[y]).unwrap();
    let rest = net.node(relu(), &[host]).unwrap();
    [y, rest].into_iter().for_each(|value| net.graph.add_output(value));
    for arch in machines() {
        let options = given();
        let division =
            Division { graph: &net.graph, target: &TARGET, arch: &arch, options: &options };
        let plan = division.plan().unwrap();
        let device: Vec<&str> =
            plan.rows.iter().filter(|row| row.place == Place::Device).map(|row| row.op).collect();
        assert_eq!(device, ["Quantise", "Conv", "Quantise", "Conv", "Quantise"]);
        let missing = format!("its input \"{}\" is on the host", net.graph[host].name);
        let reasons: Vec<&str> = plan.rows.iter().filter_map(|row| row.reason.as_deref()).collect();
        assert_eq!(reasons, ["Sigmoid has no kernel", &missing, &missing]);
        for part in plan.segments.iter().filter(|part| part.place == Place::Device) {
            let mut net = net.clone();
            net.graph = part.graph.clone();
            let sample = net.sample();
            judged(&part.graph, &arch, vec![sample]).unwrap();
        }
    }
}

/// Windows that lie in the padding as a whole have no number on the machine.
#[test]
fn pools_without_elements_are_the_hosts() {
    let mut net = Net::new(0);
    let x = net.input(&[1, 3, 1, 5], grid(true, 0.05, 0));
    let mut window = Window::new(&[2, 1]);
    (window.pads[0], window.dilations[0]) = ((1, 1), 2);
    let kind = PoolKind::Average { count_include_pad: true };
    let y = net.node(Op::Pool(Pool { kind, window, ceil: false }), &[x]).unwrap();
    ended(&mut net, y, 1);
    for arch in machines() {
        let refused = refusals(&net.graph, &arch);
        assert!(refused.iter().any(|why| why.contains("no elements")), "{refused:?}");
    }
}

/// Softmax of codes, along every axis that is innermost in memory: judges agree, and codes are next to
/// those of the executor of floats, at most.
#[test]
fn softmax_of_codes() {
    let shapes: [(&[usize], usize); 6] = [
        (&[3, 1], 1),
        (&[2, 10], 1),
        (&[2, 5, 3], 1),
        (&[2, 17, 3, 2], 1),
        (&[1, 9, 64], 2),
        (&[4, 300], 1),
    ];
    let ends = [grid(false, 1.0 / 256.0, 0), grid(true, 0.004, -128), grid(false, 0.01, 7)];
    for (case, (shape, axis)) in shapes.into_iter().enumerate() {
        for (scale, end) in [0.02, 0.4, 6.0].into_iter().zip(&ends) {
            let mut net = Net::new(case as u64);
            let x = net.input(shape, grid(case % 2 == 0, scale, 3));
            let x = if axis == 2 { dense(&mut net, x) } else { x };
            let y = net.node(Op::Softmax(Softmax { axis, log: false }), &[x]).unwrap();
            let y = net.node(Op::Quantise(end.clone()), &[y]).unwrap();
            net.graph.add_output(y);
            let step = end.scale.as_uniform().unwrap();
            for arch in machines() {
                let samples = vec![net.sample(), net.sample()];
                let agreed = agree(&TARGET, &arch, &given(), &net.graph, samples);
                let agreed = agreed.unwrap_or_else(|found| panic!("{found:?}\n{}", net.graph));
                let found = agreed.compiled.program.verify();
                assert!(found.iter().all(|one| one.severity() == Severity::Note), "{found:?}");
                for (_, golden) in &agreed.samples {
                    let codes = &golden[&net.graph[x].name];
                    let expected = softmax(codes, axis);
                    let found = golden[&net.graph[y].name].to_f64();
                    for (found, expected) in found.into_iter().zip(expected) {
                        assert!(
                            (found - expected).abs() < 1.5 * step,
                            "{found}, expected {expected}"
                        );
                    }
                }
            }
        }
    }
}

/// Softmax by the executor of floats.
fn softmax(x: &Tensor, axis: usize) -> Vec<f64> {
    let mut net = Net::new(0);
    let input = net.graph.add_input("x", x.dtype(), x.shape(), &[]).unwrap();
    let y = net.node(Op::Softmax(Softmax { axis, log: false }), &[input]).unwrap();
    net.graph.add_output(y);
    let inputs = Tensors::from_iter([("x".to_owned(), x.clone())]);
    float(&net.graph, &inputs, Keep::All).unwrap()[&net.graph[y].name].to_f64()
}

/// A product of rows on a grid, which keeps the last axis innermost.
fn dense(net: &mut Net, x: ValueId) -> ValueId {
    let depth = *net.shape(x).last().unwrap();
    let w = net.weights(&[depth, depth], Quantiser::symmetric(true, 8, 0.01));
    let y = net.node(Op::MatMul, &[x, w]).unwrap();
    net.node(Op::Quantise(grid(true, 0.1, 0)), &[y]).unwrap()
}
