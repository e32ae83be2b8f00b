//! The operation that gave an element of a layer its number.

use crate::common;
use quincunx_contract::{
    ArchSource, Compiler, Engine, File, LayerTap, Log, Options, Program, Target,
};
use quincunx_dais::TARGET;
use quincunx_graph::{Binary, Graph, Op, Quantiser, Unary};
use quincunx_tensor::{DType, Tensor, Tensors};

const NUMBERS: [f64; 4] = [-1.5, 0.75, 2.0, -0.125];

/// `relu(q + [0.5, …] * q)` and, as a constant, what its first column always is.
fn graph() -> Graph {
    let mut graph = Graph::new("network");
    let x = graph.add_input("x", DType::F32, &[1, 4], &[]).unwrap();
    let mut node = |name: &str, op: Op, inputs: &[_]| {
        let inputs: Vec<_> = inputs.iter().map(|&input| Some(input)).collect();
        graph.add_node(name, op, &inputs, &format!("{name}_out")).unwrap()
    };
    let q = node("q", Op::Quantise(Quantiser::symmetric(true, 6, 0.125)), &[x]);
    let r = node("r", Op::Quantise(Quantiser::symmetric(true, 5, 0.25)), &[x]);
    let sum = node("sum", Op::Binary(Binary::Add), &[q, r]);
    let product = node("product", Op::Binary(Binary::Mul), &[sum, q]);
    let y = node("relu", Op::Unary(Unary::Relu), &[product]);
    graph.add_output(y);
    graph
}

fn compiled(given: &[(&str, &str)]) -> Box<dyn Program> {
    let arch = TARGET.arch(&ArchSource::Default).unwrap();
    let all = [&[("keep-layers", "true")], given].concat();
    let given: Vec<_> = all.iter().map(|&(n, v)| (n.to_owned(), v.to_owned())).collect();
    let options = Options::new(TARGET.info().options, &given).unwrap();
    TARGET.compile(&graph(), &*arch, &options, &mut Log::default()).unwrap().program
}

fn inputs() -> Tensors {
    Tensors::from([("x".to_owned(), Tensor::from_vec(&[1, 4], NUMBERS.to_vec()).unwrap())])
}

fn place(tap: &LayerTap, element: usize) -> &str {
    tap.place.split(", ").nth(element).unwrap()
}

/// The number of a place such as `-%3@1 << 2` from that of its slot.
fn scaled(place: &str, slot: f64) -> f64 {
    let (sign, rest) = place.strip_prefix('-').map_or((1.0, place), |rest| (-1.0, rest));
    let shift = rest.split_once(" << ").map_or(0, |(_, shift)| shift.parse().unwrap());
    sign * slot * 2_f64.powi(shift)
}

fn slot(place: &str) -> &str {
    place.trim_start_matches('-').split(' ').next().unwrap()
}

#[test]
fn every_element_has_its_operation() {
    for options in [&[][..], &[("latency-cutoff", "2")]] {
        let program = compiled(options);
        let values = program.load(Engine::Exec).unwrap().run_traced(&inputs()).unwrap();
        let (mut sums, mut entries) = (0, 0);
        for tap in &program.interface().layers {
            for (element, &value) in values[&tap.value].to_f64().iter().enumerate() {
                let origin = program.origin(&inputs(), tap, element).unwrap().unwrap();
                let place = place(tap, element);
                let held: f64 = origin.result.1.parse().unwrap();
                assert_eq!(scaled(place, held), value, "{origin:?}");
                let behind = origin.result.0.strip_suffix("@0").unwrap_or(&origin.result.0);
                assert_eq!(behind, slot(place), "{origin:?}");
                let number = |index: usize| origin.operands[index].1.parse::<f64>().unwrap();
                let words: Vec<&str> = origin.text.split(' ').collect();
                match words[2] {
                    "add" => {
                        let shift = words.iter().position(|&word| word == "<<");
                        let shift: i32 = shift.map_or(0, |at| words[at + 1].parse().unwrap());
                        assert_eq!(number(0) + number(1) * 2_f64.powi(shift), held, "{origin:?}");
                        sums += 1;
                    }
                    "input" if options.is_empty() => {
                        assert_eq!(origin.operands[0].0, format!("input {element}"));
                        assert_eq!(number(0), NUMBERS[element]);
                        entries += 1;
                    }
                    _ => {}
                }
            }
        }
        assert!(sums > 3 && (entries > 0 || !options.is_empty()), "{sums} {entries}");
        let tap = &program.interface().layers[0];
        assert_eq!(program.origin(&inputs(), tap, 4).unwrap_err().code(), "Q9999");
        let other = LayerTap { value: "other".to_owned(), ..tap.clone() };
        assert_eq!(program.origin(&inputs(), &other, 0).unwrap_err().code(), "Q9999");
        assert_eq!(program.origin(&Tensors::new(), tap, 0).unwrap_err().code(), {
            program.load(Engine::Exec).unwrap().run(&Tensors::new()).unwrap_err().code()
        });
    }
}

/// An addition that became a subtraction is named for the first element that is wrong.
#[test]
fn a_planted_fault_is_named() {
    let program = compiled(&[]);
    let values = program.load(Engine::Exec).unwrap().run_traced(&inputs()).unwrap();
    let text = program.emit("asm", "program").unwrap()[0].text().unwrap().to_owned();
    let line = text.lines().find(|line| line.contains(" = add %")).unwrap();
    let planted = line.replacen(" = add ", " = sub ", 1);
    let file = File::new("program.dasm", text.replacen(line, &planted, 1).into_bytes());
    let arch = TARGET.arch(&ArchSource::Default).unwrap();
    let interface = Some(program.interface().clone());
    let options = Options::new(TARGET.info().options, &[]).unwrap();
    let faulty = TARGET.read(&[file], interface, &*arch, &options, &mut Log::default()).unwrap();
    let found = faulty.load(Engine::Exec).unwrap().run_traced(&inputs()).unwrap();
    let wrong = |tap: &LayerTap| {
        let (right, found) = (values[&tap.value].to_f64(), found[&tap.value].to_f64());
        (0..right.len())
            .find(|&element| !common::same(&right[element..=element], &found[element..=element]))
    };
    let first = faulty.interface().layers.iter().find_map(|tap| Some((tap, wrong(tap)?)));
    let (tap, element) = first.unwrap();
    let origin = faulty.origin(&inputs(), tap, element).unwrap().unwrap();
    assert_eq!(origin.text, planted);
    let number = |text: &str| text.parse::<f64>().unwrap();
    let [(_, a), (_, b)] = &origin.operands[..] else { panic!("{origin:?}") };
    assert_ne!(number(a) + number(b), number(&origin.result.1));
}
