//! Generated Verilog and VHDL in the simulators that people use.

mod common;

use common::random::{Random, program};
use common::simulators::{Bench, ghdl, icarus, present, verilator, wrapper};
use common::{FOLDERS, cases, root};
use quincunx_dais::files::Pipeline;
use quincunx_dais::rtl::{Design, Field, Language, Settings, Vectors, emit, emit_with_vectors};
use quincunx_dais::simulate::Executor;
use quincunx_num::{Dyadic, Int, Kif};
use quincunx_target::{Interface, Port};
use std::fs;

/// A design of which the vectors are known.
struct Known {
    name: String,
    pipeline: Pipeline,
    registers: u32,
    vectors: Vectors,
}

impl Known {
    fn bench(&self, language: Language) -> Bench {
        let Known { name, pipeline, registers, vectors } = self;
        let files = emit_with_vectors(pipeline, language, *registers, name, vectors).unwrap();
        Bench { name: name.clone(), files }
    }
}

/// The golden inputs and outputs of every golden program, of its pipelines, and with registers; the
/// golden port vectors where there are any.
fn golden() -> Vec<Known> {
    let mut list = Vec::new();
    for (number, case) in cases(&FOLDERS).into_iter().enumerate() {
        let mut forms = vec![(Pipeline::from(case.program()), number as u32 % 3)];
        for (_, json) in case.pipelines() {
            let read = quincunx_dais::files::read_json(&json, false).unwrap();
            // Without registers Icarus takes minutes for buses of a thousand bits.
            let first = u32::from(read.pipeline.stages.len() > 2);
            forms.extend((first..3).map(|registers| (read.pipeline.clone(), registers)));
        }
        for (form, (pipeline, registers)) in forms.into_iter().enumerate() {
            let design = Design::new(&pipeline).unwrap();
            let samples = case.inputs.iter().zip(&case.outputs).take(64);
            let vectors = samples.map(|(inputs, golden)| {
                let results = results(&pipeline, design.outputs(), inputs, golden);
                (design.pack(inputs).unwrap(), results)
            });
            let (inputs, outputs) = vectors.unzip();
            let stem = case.name.split('/').next_back().unwrap();
            let vectors = port_vectors(stem).unwrap_or(Vectors { inputs, outputs });
            assert!(!vectors.outputs.is_empty(), "{stem}");
            let name = format!("{stem}_{form}");
            list.push(Known { name, pipeline, registers, vectors });
        }
    }
    list
}

/// What the executor says, which must be the golden numbers where f64 holds them; in a port.
fn results(pipeline: &Pipeline, fields: &[Field], inputs: &[f64], golden: &[f64]) -> Int {
    let exact = |number: &f64| Dyadic::from_f64(*number).unwrap();
    let mut values: Vec<Dyadic> = inputs.iter().map(exact).collect();
    for stage in &pipeline.stages {
        values = Executor::new(stage).unwrap().run_exact(values, &mut |_, _, _| {}).unwrap();
    }
    let rounded: Vec<f64> = values.iter().map(Dyadic::to_f64).collect();
    assert!(common::same(&rounded, golden));
    fields.iter().zip(&values).map(|(field, value)| field.put(value)).sum()
}

fn port_vectors(stem: &str) -> Option<Vectors> {
    let read = |ending: &str| {
        let text = fs::read_to_string(root().join(format!("rtl/{stem}_{ending}.hex"))).ok()?;
        Some(text.lines().map(|line| Int::from_str_radix(line, 16).unwrap()).collect())
    };
    Some(Vectors { inputs: read("in")?, outputs: read("out")? })
}

/// Random programs with the vectors that `emit` makes, as users get them.
fn random(language: Language) -> Vec<Bench> {
    let mut random = Random(5);
    let mut list = Vec::new();
    while list.len() < 24 {
        let program = program(&mut random, 40);
        let inputs = program.input_shifts.len();
        let port = |name: &str, shape| Port { name: name.to_owned(), shape, quantiser: None };
        let interface = Interface {
            inputs: vec![port("in", vec![inputs])],
            outputs: vec![port("out", vec![program.outputs.len()])],
            ..Interface::default()
        };
        let pipeline = Pipeline::from(program);
        let name = format!("random{}", list.len());
        let registers = Some(list.len() as u32 % 2);
        let settings = Settings { registers, vectors: 32, ..Settings::default() };
        let files = match emit(&pipeline, &interface, language, &settings, &name) {
            Ok(files) => files,
            // No bit leaves it, or no input keeps every value in its type.
            Err(problem) => {
                assert!(["Q1180", "Q1184"].contains(&problem.code()), "{problem}");
                continue;
            }
        };
        assert!(Executor::new(&pipeline.stages[0]).is_ok());
        list.push(Bench { name, files });
    }
    list
}

fn all(language: Language) -> Vec<Bench> {
    let golden = golden();
    assert_eq!(golden.len(), 43);
    golden.iter().map(|known| known.bench(language)).chain(random(language)).collect()
}

#[test]
fn icarus_agrees() {
    if present("iverilog") {
        icarus(&all(Language::Verilog));
    }
}

#[test]
fn verilator_agrees() {
    if present("verilator") {
        let mut benches = all(Language::Verilog);
        // The compiler takes long for large designs; one of them is enough.
        benches.retain(|bench| !bench.name.starts_with("jet_mlp") || bench.name == "jet_mlp_6b_2");
        verilator(&benches);
    }
}

#[test]
fn ghdl_agrees() {
    if present("ghdl") {
        ghdl(&all(Language::Vhdl));
    }
}

/// The type that holds all numbers of a port.
fn uniform(fields: &[Field]) -> Kif {
    let kifs = || fields.iter().filter(|field| field.width() > 0).map(|field| field.kif);
    let signed = kifs().any(|kif| kif.signed);
    let integer = kifs().map(|kif| kif.integer).max().unwrap();
    Kif { signed, integer, fraction: kifs().map(|kif| kif.fraction).max().unwrap() }
}

/// Numbers side by side, all in the same type.
fn pack_uniform(kif: Kif, numbers: &[Dyadic]) -> Int {
    let put = |(index, number): (usize, &Dyadic)| {
        Field { low: index as u32 * kif.width(), kif }.put(number)
    };
    numbers.iter().enumerate().map(put).sum()
}

/// The wrapper takes and gives numbers that are all equally wide.
#[test]
fn wrappers_agree() {
    if !present("iverilog") {
        return;
    }
    for case in cases(&["ops", "traced"]) {
        let known = ["outputs", "input_quant", "mul", "misc_ops", "tiny_mlp_4b"];
        let stem = case.name.split('/').next_back().unwrap();
        if !known.contains(&stem) {
            continue;
        }
        let pipeline = Pipeline::from(case.program());
        let design = Design::new(&pipeline).unwrap();
        let (input, output) = (uniform(design.inputs()), uniform(design.outputs()));
        let exact = |numbers: &Vec<f64>| -> Vec<Dyadic> {
            numbers.iter().map(|number| Dyadic::from_f64(*number).unwrap()).collect()
        };
        // The wrapper's vectors under the names that a testbench of the design reads.
        let vectors = Vectors {
            inputs: case.inputs.iter().map(|row| pack_uniform(input, &exact(row))).collect(),
            outputs: case.outputs.iter().map(|row| pack_uniform(output, &exact(row))).collect(),
        };
        let name = format!("w_{stem}");
        let files = emit_with_vectors(&pipeline, Language::Verilog, 0, &name, &vectors).unwrap();
        let widths = [
            design.inputs().len() as u32 * input.width(),
            design.outputs().len() as u32 * output.width(),
        ];
        let narrow = [design.input_width(), design.output_width()];
        wrapper(&name, files, narrow, widths);
    }
}
