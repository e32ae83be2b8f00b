//! Generated Verilog and VHDL in the simulators that people use.

use crate::common::random::{program, wide_program};
use crate::common::simulators::{Bench, ghdl, icarus, passes, present, verilator, wrapper};
use crate::common::{FOLDERS, cases, root};
use quincunx_contract::{File, Grid, Interface, Port};
use quincunx_dais::files::Pipeline;
use quincunx_dais::rtl::{
    Design, Field, Language, Settings, Vectors, emit, emit_with_vectors, module_name,
};
use quincunx_dais::simulate::Executor;
use quincunx_diag::SourceId;
use quincunx_num::{Dyadic, Int, Kif};
use quincunx_testkit::Random;
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
    assert!(crate::common::same(&rounded, golden));
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
    let mut random = Random::new(5);
    let mut list = Vec::new();
    while list.len() < 24 {
        let program = match list.len() % 4 {
            0 => wide_program(&mut random, 60, 300),
            _ => program(&mut random, 40),
        };
        let inputs = program.input_shifts.len();
        let port = |name: &str, shape| Port { name: name.to_owned(), shape, grid: Grid::Real };
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

/// Stages of which no bit leaves, with a link that is scaled and one that is cut; widths of 0, 1 and
/// more than 64 bits; a table.
const ODD: [&str; 3] = [
    ".dais\n.inputs 2
%0 = input 0 : (1, 3, 0)\n%1 = const 0 : (0, 0, 0)\n%2 = input 1 : (1, 3, 0)
%3 = add %0, %2 : (1, 4, 0)\nout %1\nout -%3 << 3\nout %3
.stage\n.inputs 3
%0 = input 0 : (1, 3, 0)\n%1 = input 1 : (1, 9, -3)\n%2 = input 2 : (1, 4, 1)
%3 = add %0, %1 : (1, 10, 0)\n%4 = add %3, %2 : (1, 11, 1)\nout %4\n",
    ".dais\n.inputs 1\n%0 = input 0 : (1, 3, 0)\n%1 = const 0 : (0, 0, 0)\nout %1
.stage\n.inputs 1
%0 = input 0 : (1, 3, 0)\n%1 = const 3 : (0, 2, 0)\n%2 = add %0, %1 : (1, 5, 0)\nout %2\n",
    ".dais\n.inputs 4\n.input 1 << 3\n.table 0\n.values 7, -1, 0, 5
%0 = input 0 : (1, 0, 0)\n%1 = input 1 : (1, 90, 10)\n%2 = input 2 : (0, -2, 5)
%3 = const 0 : (0, 0, 0)\n%4 = mul %1, %1 : (1, 181, 20)\n%5 = mux %0, %1, %2 : (1, 90, 10)
%6 = relu -%0 : (0, 1, 0)\n%7 = quantise %1 : (1, 90, -80)\n%8 = mul %3, %1 : (0, 0, 0)
%9 = bits.all %0 : (0, 1, 0)\n%10 = mux %3, %0, %2 : (1, 0, 5)\n%11 = quantise %2 : (0, -2, 4)
%12 = lookup %11, table 0 : (1, 3, 0)
out -%4 << -30\nout zero\nout -%3\nout %5\nout -%6\nout %7\nout %8\nout %9\nout %10\nout -%0
out %12\n",
];

/// Names that mean something in one of the languages, or that the modules use inside.
const NAMES: [&str; 16] = [
    "endfunction",
    "always_ff",
    "uwire",
    "vunit",
    "positive",
    "boolean",
    "std_logic",
    "unsigned",
    "Std_Logic_Vector",
    "rising_edge",
    "to_integer",
    "sel",
    "rep",
    "inp",
    "v12",
    "rom0",
];

/// Odd programs with and without registers, and one with a table and registers by many names.
fn odd(language: Language) -> Vec<Bench> {
    let bench = |name: &str, text: &str, registers: u32| {
        let pipeline = quincunx_dais::text::parse(text, SourceId(0)).unwrap();
        let count = |stage: Option<&quincunx_dais::program::Program>, inputs: bool| {
            stage.map_or(0, |s| if inputs { s.input_shifts.len() } else { s.outputs.len() })
        };
        let port = |name: &str, count| Port {
            name: name.to_owned(),
            shape: vec![count],
            grid: Grid::Real,
        };
        let interface = Interface {
            inputs: vec![port("in", count(pipeline.stages.first(), true))],
            outputs: vec![port("out", count(pipeline.stages.last(), false))],
            ..Interface::default()
        };
        let settings = Settings { registers: Some(registers), ..Settings::default() };
        let files = emit(&pipeline, &interface, language, &settings, name).unwrap();
        Bench { name: module_name(name), files }
    };
    let odd = ODD.iter().enumerate().flat_map(|(number, text)| {
        (0..3).map(move |registers| bench(&format!("odd{number}_{registers}"), text, registers))
    });
    odd.chain(NAMES.iter().map(|name| bench(name, ODD[2], 1))).collect()
}

fn all(language: Language) -> Vec<Bench> {
    let golden = golden();
    assert_eq!(golden.len(), 43);
    let golden = golden.iter().map(|known| known.bench(language));
    golden.chain(random(language)).chain(odd(language)).collect()
}

/// Faults in the design, and files of vectors that are not there, make a testbench fail.
#[test]
fn testbenches_can_fail() {
    let mut faults = 0;
    for language in [Language::Verilog, Language::Vhdl] {
        let tool = if language == Language::Verilog { "iverilog" } else { "ghdl" };
        if !present(tool) {
            continue;
        }
        for bench in odd(language).into_iter().filter(|bench| bench.name.starts_with("odd0")) {
            let design = format!("{}.{}", bench.name, language.extension());
            let says = |change: &dyn Fn(&str, String) -> Option<String>| {
                let change = |file: &File| {
                    let text = change(&file.name, file.text().unwrap().to_owned())?;
                    Some(File::new(file.name.clone(), text))
                };
                let files = bench.files.iter().filter_map(change).collect();
                passes(&Bench { name: bench.name.clone(), files }, language)
            };
            assert!(says(&|_, text| Some(text)), "{}", bench.name);
            let is_design = |name: &str| name == design;
            let edit = |from: &'static str, to: &'static str| {
                move |name: &str, text: String| {
                    if !is_design(name) {
                        return Some(text);
                    }
                    assert!(text.contains(from), "{from} in {text}");
                    Some(text.replacen(from, to, 1))
                }
            };
            assert!(!says(&edit(" + ", " - ")), "{}", bench.name);
            for ending in ["_in.hex", "_out.hex"] {
                let missing = |name: &str, text: String| (!name.ends_with(ending)).then_some(text);
                assert!(!says(&missing), "{} without {ending}", bench.name);
                // The last vector only.
                let last = |name: &str, mut text: String| {
                    if name.ends_with(ending) {
                        let digit = text.len() - 2;
                        let other = if &text[digit..=digit] == "0" { "1" } else { "0" };
                        text.replace_range(digit..=digit, other);
                    }
                    Some(text)
                };
                assert!(!says(&last), "{} with another last line in {ending}", bench.name);
            }
            faults += 5;
        }
    }
    assert!(faults == 0 || faults % 15 == 0);
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
