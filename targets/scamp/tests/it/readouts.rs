//! How results of networks leave the array: frames of 8 bits and of 1 bit, and events.

use crate::common::Random;
use crate::compile::{Case, Draw, Given, convolve, inputs, network, output, size};
use crate::networks::compare;
use quincunx_contract::{Engine, Grid, Log, Program, Target};
use quincunx_graph::{Compare, Graph, Op};
use quincunx_scamp::TARGET;
use quincunx_tensor::{DType, Tensors};

/// Three kernels and their 1-bit images of 6 x 7 pixels, or less with a stride.
fn thresholds(random: &mut Random, stride: usize) -> Graph {
    let mut graph = network(&[1, 1, 6, 7]);
    let draw = Draw { outputs: 3, kernel: [3, 3], stride, pad: 1, groups: 1, bias: false };
    convolve(&mut graph, random, "x", "y", &draw);
    compare(&mut graph, Compare::Greater, "y", "z", &[0.25, -0.5, 0.0]);
    let z = graph.value_named("z").unwrap();
    graph.add_node("cast", Op::Cast { to: DType::F32 }, &[Some(z)], "w").unwrap();
    output(&mut graph, "w");
    graph
}

fn given(readout: &str, more: &Given<'_>) -> Vec<(&'static str, String)> {
    let events = more.iter().map(|(_, value)| ("event-buffer", value.clone()));
    [size(12, 12), ("readout", readout.to_owned())].into_iter().chain(events).collect()
}

/// The bytes that the table of layers says, and the nanoseconds of the timeline.
fn bytes_and_time(program: &dyn Program) -> (u64, u64) {
    let stats = program.stats();
    let figure = stats.figures.iter().find(|(name, _)| *name == "bytes read out").unwrap();
    (figure.1.parse().unwrap(), program.time().unwrap().total())
}

fn warnings(program: &dyn Program, images: &Tensors) -> usize {
    let mut machine = program.load(Engine::Fast).unwrap();
    machine.run(images).unwrap();
    machine.notes().iter().filter(|note| note.code() == "Q5113").count()
}

/// Bits arrive as they are in every form, in other bytes and times; events beyond the buffer are
/// lost, in the simulators and in the golden model.
#[test]
fn one_bit_images() {
    let mut random = Random::new(61);
    let graph = thresholds(&mut random, 1);
    let images = inputs(&mut random, &graph);
    let of = |readout: &str, more: &Given<'_>| {
        let (compiled, found) = Case::new(&graph, &given(readout, more)).judged(&images);
        let lost = warnings(&*compiled.program, &images);
        (found["w"].to_f64(), bytes_and_time(&*compiled.program), lost)
    };
    let (bits, (bytes, time), _) = of("analogue", &[]);
    assert_eq!(bytes, 3 * 6);
    for (readout, expected) in [("1bit", 18), ("8bit", 126), ("events", 3 * 2 * 42)] {
        let (found, (bytes, own), lost) = of(readout, &[]);
        assert_eq!((&found, bytes, lost), (&bits, expected, 0), "{readout}");
        // A byte takes a cycle of 100 ns.
        assert_eq!(own, time + 100 * (expected - 18), "{readout}");
    }
    let (found, (bytes, _), lost) = of("events", &[("event-buffer", "4".to_owned())]);
    assert_eq!((bytes, lost), (3 * 2 * 4, 1));
    for (kept, all) in found.chunks(42).zip(bits.chunks(42)) {
        let ones = |image: &[f64]| image.iter().filter(|&&bit| bit == 1.0).count();
        assert_eq!(ones(kept), ones(all).min(4));
        // The first rows come first, in each the east end.
        let row = |row: usize| (&kept[7 * row..][..7], &all[7 * row..][..7]);
        let first = (0..6).find(|&at| ones(row(at).1) > 0);
        let Some((kept, all)) = first.map(row) else { continue };
        assert_eq!(
            kept.iter().rposition(|&bit| bit == 1.0),
            all.iter().rposition(|&bit| bit == 1.0)
        );
    }
}

/// 8-bit frames round values to codes, which the ports name, and leave what stays in the array alone.
#[test]
fn eight_bit_frames() {
    let mut random = Random::new(62);
    for (scale, bias) in [(0, false), (5, false), (2, true)] {
        let mut graph = network(&[1, 1, 6, 7]);
        let draw = |bias| Draw { outputs: 1, kernel: [3, 3], stride: 1, pad: 1, groups: 1, bias };
        convolve(&mut graph, &mut random, "x", "y", &draw(false));
        convolve(&mut graph, &mut random, "y", "z", &draw(bias));
        ["y", "z"].iter().for_each(|name| output(&mut graph, name));
        let images = inputs(&mut random, &graph);
        let with = |readout: &str| {
            let given = [given(readout, &[]), vec![("scale", format!("{scale}"))]].concat();
            Case::new(&graph, &given).judged(&images)
        };
        let ((_, plain), (compiled, found)) = (with("analogue"), with("8bit"));
        let step = 2.0_f64.powi(-scale);
        // The driver's bias is beside the steps; the one of z is -0.2.
        let offset = if bias { f64::from(-0.2_f32) } else { 0.0 };
        for name in ["y", "z"] {
            let offset = if name == "z" { offset } else { 0.0 };
            for (value, code) in plain[name].to_f64().iter().zip(found[name].to_f64()) {
                let ends = [-128.0 * step + offset, 127.0 * step + offset];
                let nearest = value.clamp(ends[0], ends[1]);
                assert!((nearest - code).abs() <= step / 2.0 + 1e-12, "{name} {value} {code}");
            }
        }
        let ports = &compiled.program.interface().outputs;
        assert!(matches!(ports[0].grid, Grid::Codes(_)));
        assert_eq!(matches!(ports[1].grid, Grid::Codes(_)), !bias);
        assert_eq!(bytes_and_time(&*compiled.program).0, 2 * 42);
    }
}

/// What cannot leave in a form is refused with a reason; so are options that contradict each other,
/// and another form than that of a program.
#[test]
fn refusals() {
    let mut random = Random::new(63);
    let mut graph = thresholds(&mut random, 2);
    let problem = Case::new(&graph, &given("events", &[])).problem();
    assert_eq!(problem.code(), "Q5112");
    assert!(problem.message().contains("between its pixels"), "{}", problem.message());
    assert!(Case::new(&graph, &given("1bit", &[])).compile(&mut Log::default()).is_ok());
    output(&mut graph, "y");
    let problem = Case::new(&graph, &given("1bit", &[])).problem();
    assert!(problem.message().contains("analogue"), "{}", problem.message());
    let buffer = [("event-buffer", "4".to_owned())];
    assert_eq!(Case::new(&graph, &given("8bit", &buffer)).problem().code(), "Q5055");
    let digital = [given("8bit", &[]), vec![("mode", "digital".to_owned())]].concat();
    assert_eq!(Case::new(&graph, &digital).problem().code(), "Q5055");
    let (case, other) =
        (Case::new(&graph, &given("8bit", &[])), Case::new(&graph, &given("analogue", &[])));
    let (compiled, _) = case.judged(&inputs(&mut random, &graph));
    let files = compiled.program.emit("asm", "program").unwrap();
    let interface = Some(compiled.program.interface().clone());
    let again =
        TARGET.read(&files, interface, &case.arch, &other.options, &mut Log::default()).err();
    assert_eq!(again.unwrap()[0].code(), "Q5055");
}
