//! The instruction that gave an element of a layer its number.

use crate::common::net::Net;
use quincunx_contract::{Compiler, Engine, LayerTap, Origin, Program};
use quincunx_graph::Graph;
use quincunx_tcu::isa::{Inst, SimdOp};
use quincunx_tcu::{Artifact, TARGET, TcuArch};
use quincunx_tensor::{Tensor, Tensors};
use quincunx_testkit::options;

fn arch() -> TcuArch {
    let mut arch = TcuArch::preset("pynqz1").unwrap();
    (arch.array_size, arch.local_depth, arch.accumulator_depth) = (4, 700, 600);
    arch
}

fn graph() -> Graph {
    let (mut net, x) = Net::new(&[1, 3, 5, 5]);
    let a = net.conv("a", x, 6, 3, 1);
    let a = net.relu("relu", a);
    let b = net.conv("b", a, 6, 1, 1);
    let y = net.add("add", a, b);
    let y = net.conv("c", y, 5, 1, 1);
    let y = net.relu("last", y);
    let y = net.conv("d", y, 3, 1, 1);
    net.graph.add_output(y);
    net.graph
}

fn compiled() -> Box<dyn Program> {
    let options = options(&TARGET, &[]);
    TARGET.compile(&graph(), &arch(), &options, &mut Default::default()).unwrap().program
}

fn inputs() -> Tensors {
    let numbers = (0..75).map(|at| (at * 37 % 101) as f32 / 50.0 - 1.0).collect();
    Tensors::from([("x".to_owned(), Tensor::from_vec::<f32>(&[1, 3, 5, 5], numbers).unwrap())])
}

fn number(text: &str) -> f64 {
    text.parse().unwrap_or_else(|_| panic!("{text}"))
}

fn vector(text: &str) -> Vec<f64> {
    text.trim_matches(['[', ']']).split(", ").map(number).collect()
}

/// What the operands of a simple instruction give; products and sums as real numbers.
fn by_hand(text: &str, numbers: &[&str]) -> Option<(&'static str, f64)> {
    let word = text.split(['(', ' ']).next().unwrap();
    Some(match (word, numbers) {
        ("DataMove", [from]) => ("move", number(from)),
        ("DataMove", [from, to]) => ("sum", number(from) + number(to)),
        ("MatMul", [x, weights, bias, rest @ ..]) if x.starts_with('[') => {
            let products = vector(x).into_iter().zip(vector(weights)).map(|(x, w)| x * w);
            let before: f64 = rest.iter().map(|text| number(text)).sum();
            ("product", products.sum::<f64>() + number(bias) + before)
        }
        ("SIMD", _) if text.contains("Max(") => {
            ("max", numbers.iter().map(|text| number(text)).fold(f64::MIN, f64::max))
        }
        _ => return None,
    })
}

/// The same of an origin, and of what computed the number that it moves.
fn recomputed(origin: &Origin) -> Vec<(&'static str, f64)> {
    let mut parts: Vec<(&str, Vec<&str>)> = vec![(&origin.text, Vec::new())];
    for (place, held) in &origin.operands {
        parts.last_mut().unwrap().1.push(held);
        if let Some((_, computed)) = place.split_once(", computed by instruction ") {
            parts.push((computed.split_once(": ").unwrap().1, Vec::new()));
        }
    }
    parts.iter().filter_map(|(text, numbers)| by_hand(text, numbers)).collect()
}

#[test]
fn every_element_has_its_instruction() {
    let program = compiled();
    let values = program.load(Engine::Exec).unwrap().run_traced(&inputs()).unwrap();
    let mut kinds = std::collections::BTreeMap::new();
    assert!(program.interface().layers.len() > 1, "{:?}", program.interface().layers);
    for tap in &program.interface().layers {
        let reals = values[&tap.value].to_f64();
        for (element, &real) in reals.iter().enumerate().step_by(7) {
            let origin = program.origin(&inputs(), tap, element).unwrap().unwrap();
            assert_eq!(number(&origin.result.1), real, "{origin:?}");
            let index: usize = origin.place.split(' ').nth(1).unwrap().parse().unwrap();
            assert!(index < tap.after, "{origin:?}");
            for (kind, found) in recomputed(&origin) {
                // One step of the format, of which each product and sum loses less.
                assert!((found - real).abs() < 8.0 / 256.0, "{kind} {found} {origin:?}");
                *kinds.entry(kind).or_insert(0) += 1;
            }
        }
        assert_eq!(program.origin(&inputs(), tap, reals.len()).unwrap_err().code(), "Q9999");
    }
    assert!(
        ["max", "move", "product", "sum"].iter().all(|kind| kinds.contains_key(kind)),
        "{kinds:?}"
    );
    let tap = &program.interface().layers[0];
    let other = LayerTap { value: "other".to_owned(), ..tap.clone() };
    assert_eq!(program.origin(&inputs(), &other, 0).unwrap_err().code(), "Q9999");
    assert!(program.origin(&Tensors::new(), tap, 0).is_err());
}

/// The last instruction that writes into accumulators or memory is found however the layer is read:
/// a tap that ends right behind it.
#[test]
fn instructions_before_are_seen_through_earlier_taps() {
    let program = compiled();
    let artifact = program.as_any().downcast_ref::<Artifact>().unwrap();
    let package = artifact.package().clone();
    let mut interface = program.interface().clone();
    interface.sections.clear();
    let tap = interface.layers[0].clone();
    let origin = program.origin(&inputs(), &tap, 0).unwrap().unwrap();
    let index: usize = origin.place.split(' ').nth(1).unwrap().parse().unwrap();
    // Read before anything was written.
    interface.layers = vec![LayerTap { after: 0, ..tap }];
    let options = options(&TARGET, &[]);
    let early = Artifact::of_package(package, Some(interface), Vec::new(), &options).unwrap();
    assert_eq!(early.origin(&inputs(), &early.interface().layers[0], 0).unwrap(), None);
    assert!(index > 0);
}

/// A maximum that became a minimum: the first wrong element leads to it or to what moves its result.
#[test]
fn a_planted_fault_is_at_or_before_what_is_named() {
    let program = compiled();
    let values = program.load(Engine::Exec).unwrap().run_traced(&inputs()).unwrap();
    let artifact = program.as_any().downcast_ref::<Artifact>().unwrap();
    let mut package = artifact.package().clone();
    let steps = package.program.steps.iter_mut().enumerate();
    let planted = steps.rev().find_map(|(index, step)| match &mut step.inst {
        Inst::Simd { compute, .. } if compute.op == SimdOp::Max => {
            compute.op = SimdOp::Min;
            Some(index)
        }
        _ => None,
    });
    let planted = planted.expect("a relu is a maximum");
    let interface = Some(program.interface().clone());
    let options = options(&TARGET, &[]);
    let faulty = Artifact::of_package(package, interface, Vec::new(), &options).unwrap();
    let found = faulty.load(Engine::Exec).unwrap().run_traced(&inputs()).unwrap();
    let wrong = faulty.interface().layers.iter().find_map(|tap| {
        let pairs = values[&tap.value].to_f64().into_iter().zip(found[&tap.value].to_f64());
        Some((tap, pairs.enumerate().find(|(_, (right, found))| right != found)?.0))
    });
    let (tap, element) = wrong.expect("the fault changes a number");
    let origin = faulty.origin(&inputs(), tap, element).unwrap().unwrap();
    let index: usize = origin.place.split(' ').nth(1).unwrap().parse().unwrap();
    assert!((planted..tap.after).contains(&index), "{planted} {origin:?}");
    assert_eq!(number(&origin.result.1), found[&tap.value].to_f64()[element]);
}
