//! The line that gave an element of a layer its number.

use crate::common::networks::{Network, Size, calibrated, network};
use crate::common::{Random, arch};
use crate::compiled::{compile, several_cores};
use quincunx_contract::{Engine, File, LayerTap, Log, Origin, Program, Target};
use quincunx_graph::{Binary, Conv, Graph, Op, Unary, ValueId, Window};
use quincunx_npu::TARGET;
use quincunx_tensor::{DType, Tensors};
use quincunx_testkit::options;
use std::collections::BTreeMap;

/// A product of all channels, and what is added to it.
fn small() -> Network {
    let mut random = Random::new(7);
    let mut graph = Graph::new("net");
    let x = graph.add_input("x", DType::F32, &[1, 8, 4, 4], &[]).unwrap();
    let weights = graph.add_constant("weights", random.tensor(&[8, 8, 1, 1], 1.0)).unwrap();
    let mut node = |name: &str, op: Op, inputs: &[ValueId]| {
        let inputs: Vec<Option<ValueId>> = inputs.iter().copied().map(Some).collect();
        graph.add_node(name, op, &inputs, &format!("{name}_out")).unwrap()
    };
    let conv = Conv { window: Window::new(&[1; 2]), groups: 1 };
    let y = node("conv", Op::Conv(conv), &[x, weights]);
    let sum = node("sum", Op::Binary(Binary::Add), &[y, x]);
    let y = node("relu", Op::Unary(Unary::Relu), &[sum]);
    graph.add_output(y);
    calibrated(graph, &mut random)
}

fn number(text: &str) -> f64 {
    text.parse().unwrap_or_else(|_| panic!("{text}"))
}

fn numbers(text: &str) -> Vec<f64> {
    text.trim_matches(['[', ']']).split(", ").map(number).collect()
}

/// The real number of a code at the place of a tap.
fn decoded(tap: &LayerTap, code: f64) -> f64 {
    let words: Vec<&str> = tap.place.split(' ').collect();
    (code - number(words[2])) * number(words[1])
}

/// The code that a product or a copy gives, from its operands.
fn by_hand(origin: &Origin) -> Option<(&'static str, Vec<f64>)> {
    let held: Vec<&str> = origin.operands.iter().map(|(_, held)| held.as_str()).collect();
    let products = |x: &str, weights: &str| -> f64 {
        numbers(x).into_iter().zip(numbers(weights)).map(|(x, w)| x * w).sum()
    };
    let code = |real: f64, factor: &str, offset: &str| {
        (real * number(factor) + number(offset)).round_ties_even().clamp(-128.0, 127.0)
    };
    match held[..] {
        [from] if !from.starts_with('[') => Some(("copy", vec![number(from)])),
        [x, weights, a, b, factor, offset] if weights.starts_with('[') && !x.contains('…') => {
            let real = products(x, weights) * number(a) + number(b);
            let codes = [real, real.max(0.0)].map(|real| code(real, factor, offset));
            Some(("product", codes.to_vec()))
        }
        _ => None,
    }
}

/// Every layer, some elements; how often each kind of line was recomputed.
fn judge(network: &Network, program: &dyn Program) -> BTreeMap<&'static str, usize> {
    let inputs = &network.samples[0];
    let values = program.load(Engine::Exec).unwrap().run_traced(inputs).unwrap();
    let mut kinds = BTreeMap::new();
    for tap in &program.interface().layers {
        let reals = values[&tap.value].to_f64();
        for element in [0, reals.len() / 3, reals.len() / 2, reals.len() - 1] {
            let origin = program.origin(inputs, tap, element).unwrap();
            let origin = origin.unwrap_or_else(|| panic!("{tap:?} {element}"));
            let code = number(&origin.result.1);
            assert_eq!(decoded(tap, code), reals[element], "{tap:?} {element} {origin:?}");
            assert!(!origin.operands.is_empty(), "{origin:?}");
            if let Some((kind, codes)) = by_hand(&origin) {
                assert!(codes.contains(&code), "{codes:?} {origin:?}");
                *kinds.entry(kind).or_insert(0) += 1;
            }
        }
        assert_eq!(program.origin(inputs, tap, reals.len()).unwrap_err().code(), "Q9999");
    }
    kinds
}

#[test]
fn every_element_has_its_line() {
    let network = small();
    let program = compile(&network.graph, &arch()).unwrap().program;
    let kinds = judge(&network, &*program);
    // A kernel of one position reads where the input has the same pixel.
    let taps = &program.interface().layers;
    let conv = taps.iter().find(|tap| tap.value.starts_with("conv_out")).unwrap();
    let windows = [0, 1, 5].map(|pixel| {
        let origin = program.origin(&network.samples[0], conv, pixel).unwrap().unwrap();
        let place = origin.operands[0].0.strip_prefix("window from L2@").map(str::to_owned);
        place.unwrap().parse::<usize>().unwrap()
    });
    assert_eq!([windows[1] - windows[0], windows[2] - windows[0]], [8, 40]);
    assert!(kinds.contains_key("product"), "{kinds:?}");
    let tap = &program.interface().layers[0];
    let other = LayerTap { value: "other".to_owned(), ..tap.clone() };
    assert_eq!(program.origin(&network.samples[0], &other, 0).unwrap_err().code(), "Q9999");
    assert!(program.origin(&Tensors::new(), tap, 0).is_err());
}

#[test]
fn elements_of_random_networks_have_lines() {
    let mut judged = 0;
    for case in 0..10 {
        let network = network(&mut Random::new(case), Size::SMALL);
        for machine in [arch(), several_cores(2)] {
            if let Some(compiled) = compile(&network.graph, &machine) {
                judge(&network, &*compiled.program);
                judged += 1;
            }
        }
    }
    assert!(judged > 8, "{judged}");
}

/// A wrong factor in the last convolution: the first wrong element is written at or behind it.
#[test]
fn a_planted_fault_is_at_or_before_what_is_named() {
    let network = small();
    let inputs = &network.samples[0];
    let program = compile(&network.graph, &arch()).unwrap().program;
    let values = program.load(Engine::Exec).unwrap().run_traced(inputs).unwrap();
    let mut files = program.emit("bin", "program").unwrap();
    let text = program.emit("asm", "program").unwrap().remove(0);
    assert!(!text.bytes.is_empty());
    // The parameters lie behind the weights of a channel, in the data of the program.
    let data = files.iter_mut().find(|file| !file.name.ends_with(".qnpu")).unwrap();
    let mut bytes = data.bytes.to_vec();
    bytes.iter_mut().take(8).for_each(|byte| *byte ^= 0x55);
    *data = File::new(data.name.clone(), bytes);
    let options = options(&TARGET, &[]);
    let interface = Some(program.interface().clone());
    let faulty = TARGET.read(&files, interface, &arch(), &options, &mut Log::default()).unwrap();
    let found = faulty.load(Engine::Exec).unwrap().run_traced(inputs).unwrap();
    let wrong = faulty.interface().layers.iter().find_map(|tap| {
        let pairs = values[&tap.value].to_f64().into_iter().zip(found[&tap.value].to_f64());
        Some((tap, pairs.enumerate().find(|(_, (right, found))| right != found)?.0))
    });
    let (tap, element) = wrong.expect("the fault changes a number");
    let origin = faulty.origin(inputs, tap, element).unwrap().unwrap();
    assert_eq!(decoded(tap, number(&origin.result.1)), found[&tap.value].to_f64()[element]);
    let sound = program.origin(inputs, tap, element).unwrap().unwrap();
    // The same line of the sound program wrote another number.
    assert_eq!(sound.text, origin.text);
    assert_ne!(sound.result.1, origin.result.1);
    assert_ne!(sound.operands, origin.operands);
}
