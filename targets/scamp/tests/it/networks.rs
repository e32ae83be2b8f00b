//! Networks of several kinds of layers before all judges: biases by IN, ReLU, pooling, comparisons.

use crate::common::Random;
use crate::compile::{Case, Draw, convolve, inputs, network, output, size};
use quincunx_contract::{Claim, Engine, Log, NotCompiled};
use quincunx_graph::execute::{Keep, exact};
use quincunx_graph::{Compare, Conv, Graph, Op, Pool, PoolKind, Unary, Window};
use quincunx_report::{Format, Report};
use quincunx_scamp::Artifact;
use quincunx_scamp::isa::{Class, Inst};
use quincunx_tensor::{DType, Tensor, Tensors};

pub(crate) fn node(graph: &mut Graph, op: Op, from: &str, to: &str) {
    let x = graph.value_named(from).unwrap();
    graph.add_node(&format!("{to}.node"), op, &[Some(x)], to).unwrap();
}

fn pool(kind: PoolKind, kernel: [usize; 2], stride: usize) -> Op {
    let mut window = Window::new(&kernel);
    window.strides.fill(stride);
    Op::Pool(Pool { kind, window, ceil: false })
}

const MEAN: PoolKind = PoolKind::Average { count_include_pad: false };

pub(crate) fn compare(graph: &mut Graph, compare: Compare, from: &str, to: &str, numbers: &[f32]) {
    let x = graph.value_named(from).unwrap();
    let shape = if numbers.len() == 1 { vec![] } else { vec![numbers.len(), 1, 1] };
    let tensor = Tensor::from_vec(&shape, numbers.to_vec()).unwrap();
    let number = graph.add_constant(&format!("{to}.c"), tensor).unwrap();
    let op = Op::Compare(compare);
    graph.add_node(&format!("{to}.node"), op, &[Some(x), Some(number)], to).unwrap();
}

fn draw(outputs: usize, bias: bool) -> Draw {
    Draw { outputs, kernel: [3, 3], stride: 1, pad: 0, groups: 1, bias }
}

fn instructions(compiled: &quincunx_contract::Compiled) -> Vec<Inst> {
    let artifact: &Artifact = compiled.program.as_any().downcast_ref().unwrap();
    artifact.program().instructions.clone()
}

/// A convolution with a bias and its ReLU: IN holds the biases at the scale that the numerics name,
/// and a note says how far they are from the graph.
#[test]
fn biases_are_added_on_the_array() {
    let mut random = Random::new(41);
    let mut graph = network(&[1, 1, 8, 8]);
    convolve(&mut graph, &mut random, "x", "y", &draw(3, true));
    node(&mut graph, Op::Unary(Unary::Relu), "y", "z");
    output(&mut graph, "z");
    let case = Case::new(&graph, &[size(14, 13)]);
    assert_eq!(case.claims(), vec![Claim::Device; 2]);
    let images = inputs(&mut random, &graph);
    let (compiled, found) = case.judged(&images);
    assert_eq!(compiled.numerics.0["scale"], 7);
    let loads: Vec<i8> = instructions(&compiled)
        .iter()
        .filter_map(|inst| if let Inst::LoadIn { v } = *inst { Some(v) } else { None })
        .collect();
    // -0.2, -0.1 and 0 in units of 2^-7; a 0 takes no instruction.
    assert_eq!(loads, [-26, -13]);
    let expected = exact(&graph, &images, Keep::All).unwrap()["z"].to_f64();
    let far =
        found["z"].to_f64().iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(far > 0.0 && far <= 0.5 / 128.0, "{far}");
    let mut log = Log::default();
    assert!(case.compile(&mut log).is_ok());
    let note = log.diagnostics.iter().find(|problem| problem.code() == "Q5111").unwrap();
    assert!(note.message().contains("multiples of 2^-7"), "{}", note.message());
    // Where nothing on the array reads the sum, the driver adds the bias exactly.
    let mut alone = network(&[1, 1, 8, 8]);
    convolve(&mut alone, &mut random, "x", "y", &draw(3, true));
    output(&mut alone, "y");
    let loads = |place: &str| {
        let case = Case::new(&alone, &[size(14, 13), ("bias", place.to_owned())]);
        let (compiled, _) = case.judged(&inputs(&mut Random::new(1), &alone));
        instructions(&compiled).iter().filter(|inst| inst.class() == Class::Load).count()
    };
    assert_eq!((loads("auto"), loads("driver"), loads("array")), (0, 0, 2));
}

/// A scale of the user's choice: values are larger in the array, and the same outside.
#[test]
fn scales() {
    let mut random = Random::new(42);
    let mut graph = network(&[1, 1, 6, 6]);
    convolve(&mut graph, &mut random, "x", "y", &draw(1, false));
    output(&mut graph, "y");
    let images = inputs(&mut random, &graph);
    let found = |scale: &str| {
        let case = Case::new(&graph, &[size(8, 8), ("scale", scale.to_owned())]);
        case.judged(&images).1["y"].to_f64()
    };
    assert_eq!(found("0"), found("5"));
    assert_eq!(found("0"), found("-3"));
}

/// Pooling: the largest and the mean of two by two, and a convolution of what is left, dilated.
#[test]
fn pooling() {
    let mut random = Random::new(43);
    for (kind, kernel, stride) in [
        (PoolKind::Max, [2, 2], 2),
        (MEAN, [2, 2], 2),
        (PoolKind::Max, [3, 2], 1),
        (MEAN, [1, 4], 2),
    ] {
        let mut graph = network(&[1, 1, 14, 13]);
        convolve(&mut graph, &mut random, "x", "a", &draw(1, true));
        node(&mut graph, Op::Unary(Unary::Relu), "a", "b");
        node(&mut graph, pool(kind, kernel, stride), "b", "c");
        convolve(&mut graph, &mut random, "c", "d", &draw(2, true));
        node(&mut graph, pool(PoolKind::Max, [2, 2], 2), "d", "e");
        output(&mut graph, "e");
        let case = Case::new(&graph, &[size(30, 28)]);
        assert_eq!(case.claims(), vec![Claim::Device; 5]);
        let (_, found) = case.judged(&inputs(&mut random, &graph));
        assert_eq!(found.len(), 5);
    }
}

/// Padding behind other layers: around an image, and between its pooled pixels, there are real zeros.
/// Between the layers a bias and comparisons stand that leave something else there.
#[test]
fn padding_behind_layers() {
    let mut random = Random::new(48);
    let padded =
        |outputs, pad| Draw { outputs, kernel: [3, 3], stride: 1, pad, groups: 1, bias: true };
    for (kind, stride, edge) in
        [(PoolKind::Max, 2, "zero"), (MEAN, 2, "zero"), (PoolKind::Max, 1, "stale")]
    {
        let mut graph = network(&[1, 1, 12, 11]);
        convolve(&mut graph, &mut random, "x", "a", &padded(1, 1));
        node(&mut graph, pool(kind, [2, 2], stride), "a", "b");
        convolve(&mut graph, &mut random, "b", "c", &padded(1, 2));
        node(&mut graph, Op::Unary(Unary::Relu), "c", "d");
        compare(&mut graph, Compare::Greater, "d", "e", &[0.5]);
        convolve(&mut graph, &mut random, "d", "f", &padded(3, 1));
        output(&mut graph, "e");
        output(&mut graph, "f");
        let case = Case::new(&graph, &[size(40, 38), ("edge", edge.to_owned())]);
        assert_eq!(case.claims(), vec![Claim::Device; 6]);
        let images = inputs(&mut random, &graph);
        let (compiled, _) = case.judged(&images);
        assert!(compiled.program.interface().rims.is_empty());
        let list = instructions(&compiled);
        let count = |is: fn(&Inst) -> bool| list.iter().filter(|inst| is(inst)).count();
        assert_eq!(count(|inst| matches!(inst, Inst::WhereBit { .. })), 2);
        assert!(count(|inst| inst.class() == Class::Pattern) > 4);
    }
}

/// The whole array has no elements around the image: its edge is what makes zeros.
#[test]
fn padding_at_the_edge() {
    let mut random = Random::new(49);
    let draw = Draw { outputs: 1, kernel: [3, 3], stride: 1, pad: 1, groups: 1, bias: true };
    let mut graph = network(&[1, 1, 16, 16]);
    convolve(&mut graph, &mut random, "x", "y", &draw);
    convolve(&mut graph, &mut random, "y", "z", &draw);
    output(&mut graph, "z");
    let case = Case::new(&graph, &[size(16, 16)]);
    assert_eq!(case.claims(), vec![Claim::Device; 2]);
    case.judged(&inputs(&mut random, &graph));
}

/// A layer whose results a later one needs all at once, for which registers do not suffice: the later
/// one is refused, so that the results can be read out one group after the other.
#[test]
fn who_needs_too_much_is_refused() {
    let mut random = Random::new(51);
    let draw =
        |outputs, pad| Draw { outputs, kernel: [3, 3], stride: 1, pad, groups: 1, bias: false };
    let mut graph = network(&[1, 1, 8, 8]);
    convolve(&mut graph, &mut random, "x", "a", &draw(9, 1));
    output(&mut graph, "a");
    assert!(Case::new(&graph, &[size(24, 24)]).compile(&mut Log::default()).is_ok());
    convolve(&mut graph, &mut random, "a", "b", &draw(2, 1));
    output(&mut graph, "b");
    let case = Case::new(&graph, &[size(24, 24)]);
    let Err(NotCompiled::Refused(list)) = case.compile(&mut Log::default()) else {
        panic!("nine channels have registers");
    };
    assert_eq!(list.iter().map(|refusal| &*refusal.node).collect::<Vec<_>>(), ["b.conv"]);
    assert!(list[0].problem.message().contains("all channels"), "{}", list[0].problem.message());
}

/// A pooled image of its own, and values that several layers read.
#[test]
fn steps_on_copies() {
    let mut random = Random::new(44);
    let mut graph = network(&[1, 1, 8, 8]);
    node(&mut graph, pool(PoolKind::Max, [2, 2], 2), "x", "a");
    node(&mut graph, Op::Unary(Unary::Relu), "x", "b");
    node(&mut graph, pool(MEAN, [2, 2], 1), "b", "c");
    ["a", "c"].iter().for_each(|name| output(&mut graph, name));
    let case = Case::new(&graph, &[size(12, 12)]);
    assert_eq!(case.claims(), vec![Claim::Device; 3]);
    let images = inputs(&mut random, &graph);
    let expected = exact(&graph, &images, Keep::All).unwrap();
    let (_, found) = case.judged(&images);
    for name in ["a", "b", "c"] {
        assert_eq!(found[name].to_f64(), expected[name].to_f64(), "{name}");
    }
}

/// All comparisons, with one number and with one for each channel, as 1-bit images.
#[test]
fn comparisons() {
    let mut random = Random::new(45);
    for kind in [Compare::Less, Compare::LessOrEqual, Compare::Greater, Compare::GreaterOrEqual] {
        for numbers in [&[0.25][..], &[0.0, -0.5, 1.0]] {
            let mut graph = network(&[1, 1, 6, 7]);
            convolve(&mut graph, &mut random, "x", "y", &draw(3, false));
            compare(&mut graph, kind, "y", "z", numbers);
            node(&mut graph, Op::Cast { to: DType::F32 }, "z", "w");
            output(&mut graph, "w");
            let case = Case::new(&graph, &[size(10, 10)]);
            assert_eq!(case.claims(), vec![Claim::Device; 3]);
            let images = inputs(&mut random, &graph);
            let (compiled, found) = case.judged(&images);
            // The constants are multiples of 1/4, and so are the sums.
            let expected = exact(&graph, &images, Keep::All).unwrap();
            assert_eq!(found["w"].to_f64(), expected["w"].to_f64());
            let place = &compiled.program.interface().layers.last().unwrap().place;
            assert!(place.contains("bit:R5@"), "{place}");
        }
    }
}

/// More channels than registers: groups of them, each read out before the next one.
#[test]
fn groups_of_channels() {
    let mut random = Random::new(46);
    let mut graph = network(&[1, 1, 8, 8]);
    convolve(&mut graph, &mut random, "x", "a", &draw(9, true));
    node(&mut graph, pool(PoolKind::Max, [2, 2], 2), "a", "b");
    compare(&mut graph, Compare::Greater, "b", "c", &[0.5]);
    output(&mut graph, "c");
    let case = Case::new(&graph, &[size(16, 16)]);
    let (compiled, _) = case.judged(&inputs(&mut random, &graph));
    assert!(compiled.program.interface().sections[0].pieces.len() > 1);
    // What leaves the array: nine 1-bit images of three by three pixels, two bytes each.
    let table = compiled.program.tables("layers").unwrap().remove(0);
    let report = Report::new().table(table).render(Format::Csv);
    let (head, row) = report.trim().split_once('\n').unwrap();
    let at = head.split(',').position(|name| name.starts_with("bytes")).unwrap();
    assert_eq!(row.split(',').nth(at), Some("18"), "{report}");
}

/// Warnings of writes that saturate, with images of some pixels.
fn saturated(case: &Case<'_>, pixel: &mut dyn FnMut(usize) -> f32) -> usize {
    let compiled = case.compile(&mut Log::default()).unwrap_or_else(|p| panic!("{}", p.first()));
    let mut machine = compiled.program.load(Engine::Exec).unwrap();
    let id = case.graph.inputs()[0];
    let shape = &case.graph[id].shape;
    let pixels = (0..shape.iter().product()).map(pixel).collect();
    let image = Tensor::from_vec::<f32>(shape, pixels).unwrap();
    machine.run(&Tensors::from([(case.graph[id].name.clone(), image)])).unwrap();
    machine.notes().iter().filter(|note| note.code() == "Q5063").count()
}

/// Ranges go through the layers: what one gives is what the next one is asked for. No image at the
/// ends of the range saturates anything, and what could is refused.
#[test]
fn ranges_go_through_layers() {
    let mut random = Random::new(50);
    let mut refused = 0;
    for number in 0..12 {
        let mut graph = network(&[1, 1, 9, 8]);
        let draw =
            |outputs| Draw { outputs, kernel: [2, 2], stride: 1, pad: 1, groups: 1, bias: true };
        convolve(&mut graph, &mut random, "x", "a", &draw(1));
        node(&mut graph, Op::Unary(Unary::Relu), "a", "b");
        let kind = if number % 2 == 0 { PoolKind::Max } else { MEAN };
        node(&mut graph, pool(kind, [2, 2], 2), "b", "c");
        convolve(&mut graph, &mut random, "c", "d", &draw(2));
        output(&mut graph, "d");
        let (low, high) = [(-6, 5), (0, 10), (3, 4), (-20, 20)][number % 4];
        let given = |more: &[(&'static str, String)]| {
            let own = [size(24, 24), ("scale", "2".to_owned()), ("saturate", "true".to_owned())];
            [&own[..], more].concat()
        };
        let case = Case::new(&graph, &given(&[("range", format!("{low}..{high}"))]));
        if case.compile(&mut Log::default()).is_err() {
            assert_eq!(case.problem().code(), "Q5102");
            refused += 1;
            continue;
        }
        for _ in 0..6 {
            let mut end = |_| if random.chance(50) { low as f32 } else { high as f32 };
            assert_eq!(saturated(&case, &mut end), 0, "{number}");
        }
        assert_eq!(
            saturated(&case, &mut |_| high as f32) + saturated(&case, &mut |_| low as f32),
            0
        );
    }
    assert!((2..9).contains(&refused), "{refused}");
    // Each layer alone could take the range, the second one does not after the first.
    let sum = |graph: &mut Graph, from: &str, to: &str| {
        let x = graph.value_named(from).unwrap();
        let w = Tensor::from_vec::<f32>(&[1, 1, 1, 4], vec![1.0; 4]).unwrap();
        let w = graph.add_constant(&format!("{to}.w"), w).unwrap();
        let op = Op::Conv(Conv { window: Window::new(&[1, 4]), groups: 1 });
        graph.add_node(&format!("{to}.node"), op, &[Some(x), Some(w)], to).unwrap();
    };
    let mut graph = network(&[1, 1, 8, 12]);
    sum(&mut graph, "x", "a");
    output(&mut graph, "a");
    let range = [size(20, 20), ("range", "0..20".to_owned())];
    assert!(Case::new(&graph, &range).compile(&mut Log::default()).is_ok());
    sum(&mut graph, "a", "b");
    output(&mut graph, "b");
    assert_eq!(Case::new(&graph, &range).problem().code(), "Q5102");
}

/// What the array cannot do, or IN cannot hold, stays on the host.
#[test]
fn reasons() {
    let reason = |graph: &Graph, scale: &str| {
        let claims = Case::new(graph, &[("scale", scale.to_owned())]).claims();
        claims.into_iter().find_map(|claim| match claim {
            Claim::Host(reason) => Some(reason),
            Claim::Device => None,
        })
    };
    let of = |op: Op| {
        let mut graph = network(&[1, 1, 8, 8]);
        node(&mut graph, op, "x", "y");
        reason(&graph, "auto").unwrap()
    };
    assert!(of(pool(MEAN, [3, 3], 1)).contains("mean of 9"));
    let mut padded = Window::new(&[2, 2]);
    padded.pads.fill((1, 1));
    let padded = Pool { kind: PoolKind::Max, window: padded, ceil: false };
    assert!(of(Op::Pool(padded)).contains("beyond the image"));
    let compared = |kind: Compare, number: f32, scale: &str| {
        let mut graph = network(&[1, 1, 8, 8]);
        compare(&mut graph, kind, "x", "y", &[number]);
        node(&mut graph, Op::Cast { to: DType::F32 }, "y", "z");
        reason(&graph, scale)
    };
    assert!(compared(Compare::Equal, 1.0, "auto").unwrap().contains("Equal"));
    assert!(compared(Compare::Less, 1e30, "auto").unwrap().contains("127 of IN"));
    assert!(compared(Compare::Less, 2.0, "7").unwrap().contains("127 of IN"));
    assert_eq!(compared(Compare::Less, 1000.0, "auto"), None);
}

/// Fifty random networks; every value of each before all judges.
#[test]
fn random_networks() {
    let mut random = Random::new(47);
    let (mut drawn, mut on_array) = ([0; 5], 0);
    for number in 0..50 {
        let side = random.range(9, 14);
        let mut graph = network(&[1, 1, side, side + random.range(0, 3)]);
        let (mut from, mut channels, mut is_bits) = ("x".to_owned(), 1, false);
        for layer in 0..random.range(1, 5) {
            let to = format!("v{layer}");
            let id = graph.value_named(&from).unwrap();
            let room = graph[id].shape[2..].iter().min().copied().unwrap();
            let which = if is_bits { 5 } else { random.range(0, 4) };
            match which {
                0 if room > 4 => {
                    // What comes next needs all channels at once.
                    channels = if channels == 1 { random.range(1, 3) } else { 1 };
                    let kernel = [random.range(1, 4), random.range(1, 4)];
                    let stride = random.range(1, 3);
                    let bias = random.chance(70);
                    let pad = random.range(0, 3);
                    let draw = Draw { outputs: channels, kernel, stride, pad, groups: 1, bias };
                    convolve(&mut graph, &mut random, &from, &to, &draw);
                }
                1 => node(&mut graph, Op::Unary(Unary::Relu), &from, &to),
                2 | 3 if room > 4 => {
                    let kind = if which == 2 { PoolKind::Max } else { MEAN };
                    let stride = random.range(1, 3);
                    node(&mut graph, pool(kind, [2, 2], stride), &from, &to);
                }
                4 => {
                    let kinds = [Compare::Less, Compare::GreaterOrEqual, Compare::Greater];
                    let number = (random.range(0, 9) as f32 - 4.0) / 3.0;
                    compare(&mut graph, kinds[random.range(0, 2)], &from, &to, &[number]);
                    is_bits = true;
                }
                5 => {
                    node(&mut graph, Op::Cast { to: DType::F32 }, &from, &to);
                    drawn[4] += 1;
                    from = to;
                    break;
                }
                _ => continue,
            }
            drawn[which.min(4)] += 1;
            from = to;
        }
        if from == "x" {
            continue;
        }
        output(&mut graph, &from);
        let case = Case::new(&graph, &[size(40, 40), ("ops", "every".to_owned())]);
        let claims = case.claims();
        assert!(claims.iter().all(|claim| *claim == Claim::Device), "{number}: {claims:?}");
        case.judged(&inputs(&mut random, &graph));
        on_array += 1;
    }
    assert!(on_array > 40 && drawn.iter().all(|&count| count > 5), "{on_array} {drawn:?}");
}
