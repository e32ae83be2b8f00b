//! The instruction that gave an element of a value its number.

use crate::common::Random;
use crate::compile::{Case, Draw, convolve, inputs, network, output, size};
use crate::digital::{file, job};
use crate::networks::node;
use quincunx_contract::{Engine, File, LayerTap, Log, Origin, Program, Target};
use quincunx_graph::{Graph, Op, Unary};
use quincunx_scamp::TARGET;
use quincunx_tensor::Tensors;
use std::collections::BTreeMap;

/// Two convolutions with a ReLU between them.
fn graph(random: &mut Random) -> Graph {
    let draw = |outputs, bias| Draw { outputs, kernel: [3, 3], stride: 1, pad: 0, groups: 1, bias };
    let mut graph = network(&[1, 1, 8, 8]);
    convolve(&mut graph, random, "x", "y", &draw(2, true));
    node(&mut graph, Op::Unary(Unary::Relu), "y", "z");
    output(&mut graph, "z");
    graph
}

fn number(text: &str) -> f64 {
    text.parse().unwrap_or_else(|_| panic!("{text}"))
}

fn index(origin: &Origin) -> usize {
    origin.place.strip_prefix("instruction ").unwrap().parse().unwrap()
}

/// What an element is whose register holds a number: scaled back, with the bias of its channel.
fn decoded(tap: &LayerTap, element: usize, held: f64) -> f64 {
    let words: Vec<&str> = tap.place.split(' ').collect();
    let times = words.iter().position(|&word| word == "times");
    let times = times.map_or(1.0, |at| number(words[at + 1]));
    let planes: Vec<&str> = words.into_iter().filter(|word| word.contains('@')).collect();
    let plane = planes[element / (tap.shape[2] * tap.shape[3])];
    let after = plane.split_once('@').unwrap().1;
    held / times + after.find(['+', '-']).map_or(0.0, |at| number(&after[at..]))
}

/// What a simple macro makes of its operands.
fn by_hand(origin: &Origin) -> Option<(String, f64)> {
    let numbers: Vec<f64> = origin.operands.iter().map(|(_, held)| number(held)).collect();
    let name = origin.text.split('(').next().unwrap().to_owned();
    let found = match (name.as_str(), &numbers[..]) {
        ("mov" | "movx" | "mov2x", [x]) => *x,
        ("neg", [x]) => -x,
        ("add", [a, b]) => a + b,
        ("sub", [a, b]) => a - b,
        _ => return None,
    };
    Some((name, found))
}

/// Every value, every third element; how often each macro was recomputed.
fn judge(program: &dyn Program, images: &Tensors) -> BTreeMap<String, usize> {
    let values = program.load(Engine::Exec).unwrap().run_traced(images).unwrap();
    let mut kinds = BTreeMap::new();
    for tap in &program.interface().layers {
        let Some(value) = values.get(&tap.value) else {
            // Only inputs are not traced, and no instruction writes them.
            assert!(program.interface().inputs.iter().any(|port| port.name == tap.value));
            assert_eq!(program.origin(images, tap, 0).unwrap(), None);
            continue;
        };
        let reals = value.to_f64();
        for element in (0..reals.len()).step_by(3) {
            let origin = program.origin(images, tap, element).unwrap().unwrap();
            let held = number(&origin.result.1);
            assert_eq!(decoded(tap, element, held), reals[element], "{tap:?} {origin:?}");
            assert!(index(&origin) <= tap.after, "{tap:?} {origin:?}");
            if let Some((name, found)) = by_hand(&origin) {
                assert_eq!(found, held, "{origin:?}");
                *kinds.entry(name).or_insert(0) += 1;
            }
        }
        assert_eq!(program.origin(images, tap, reals.len()).unwrap_err().code(), "Q9999");
    }
    kinds
}

#[test]
fn every_pixel_has_its_instruction() {
    let mut kinds = BTreeMap::new();
    for seed in 0..4 {
        let mut random = Random::new(seed);
        let graph = graph(&mut random);
        let images = inputs(&mut random, &graph);
        for bus in ["false", "true"] {
            let given = [size(12, 12), ("bus", bus.to_owned())];
            let compiled = Case::new(&graph, &given).compile(&mut Log::default());
            let program = compiled.unwrap_or_else(|p| panic!("{}", p.first())).program;
            kinds.extend(judge(&*program, &images));
            let tap = &program.interface().layers[0];
            let other = LayerTap { value: "other".to_owned(), ..tap.clone() };
            assert_eq!(program.origin(&images, &other, 0).unwrap_err().code(), "Q9999");
        }
    }
    assert!(!kinds.is_empty());
    assert!(kinds.contains_key("add") || kinds.contains_key("sub"), "{kinds:?}");
}

/// A sum that became a difference is the first wrong instruction, or before it.
#[test]
fn a_planted_fault_is_at_or_before_what_is_named() {
    let mut random = Random::new(5);
    let graph = graph(&mut random);
    let images = inputs(&mut random, &graph);
    let case = Case::new(&graph, &[size(12, 12)]);
    let compiled = case.compile(&mut Log::default());
    let program = compiled.unwrap_or_else(|p| panic!("{}", p.first())).program;
    let values = program.load(Engine::Exec).unwrap().run_traced(&images).unwrap();
    let text = program.emit("asm", "program").unwrap()[0].text().unwrap().to_owned();
    let read = |text: &str| {
        let files = [File::new("program.scamp", text.to_owned().into_bytes())];
        let interface = Some(program.interface().clone());
        let read = TARGET.read(&files, interface, &case.arch, &case.options, &mut Log::default());
        read.unwrap_or_else(|problems| panic!("{problems:?}"))
    };
    // Not every such difference is a legal one.
    let faulty = text.match_indices("add(").find_map(|(at, _)| {
        let faulty = read(&format!("{}sub({}", &text[..at], &text[at + 4..]));
        faulty.load(Engine::Exec).is_ok().then_some(faulty)
    });
    let faulty = faulty.expect("a sum has other operands than its result");
    let instructions = |program: &dyn Program| {
        let artifact: &quincunx_scamp::Artifact = program.as_any().downcast_ref().unwrap();
        artifact.program().instructions.clone()
    };
    let pairs = instructions(&*read(&text)).into_iter().zip(instructions(&*faulty));
    let planted = pairs.enumerate().find(|(_, (right, wrong))| right != wrong).unwrap().0;
    let found = faulty.load(Engine::Exec).unwrap().run_traced(&images).unwrap();
    let wrong = faulty.interface().layers.iter().find_map(|tap| {
        let pairs = values.get(&tap.value)?.to_f64().into_iter().zip(found[&tap.value].to_f64());
        Some((tap, pairs.enumerate().find(|(_, (right, found))| right != found)?.0))
    });
    let (tap, element) = wrong.expect("the fault changes a number");
    let origin = faulty.origin(&images, tap, element).unwrap().unwrap();
    assert!((planted..=tap.after).contains(&index(&origin)), "{planted} {origin:?}");
    let held = number(&origin.result.1);
    assert_eq!(decoded(tap, element, held), found[&tap.value].to_f64()[element]);
}

/// Numbers in 1-bit registers: the last instruction that wrote any of their bits.
#[test]
fn numbers_of_bits_have_instructions() {
    let filter = "\"DA\": [[1, 1, 1], [1, -2, 1], [0, 1, 1]], \"DB\": [[0, 3]]";
    let job = job(file(filter, "\"DA\"", 4, 4, 16), (8, 8), (6, 6));
    let done = job.compile().unwrap_or_else(|problem| panic!("{}", problem.first()));
    let images = job.images(&done.kernels, 3);
    let values = done.artifact.load(Engine::Exec).unwrap().run_traced(&images).unwrap();
    let instructions = &done.program().instructions;
    let mut copies = 0;
    for tap in &done.artifact.interface().layers {
        let Some(value) = values.get(&tap.value) else { continue };
        for (element, &real) in value.to_f64().iter().enumerate() {
            let origin = done.artifact.origin(&images, tap, element).unwrap().unwrap();
            assert_eq!(number(&origin.result.1), real, "{origin:?}");
            assert_eq!(instructions[index(&origin)].text(), origin.text);
            assert_eq!(origin.result.0.split('+').count(), 4, "{origin:?}");
            let bits = origin.operands.iter().all(|(_, held)| held == "0" || held == "1");
            assert!(bits, "{origin:?}");
            copies += usize::from(!origin.operands.is_empty());
        }
    }
    assert!(copies > 0);
}
