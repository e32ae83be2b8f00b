//! Generated logic: the netlist against golden port vectors and against the executor.

use crate::common::random::{program, wide_program};
use crate::common::{FOLDERS, cases, root, same};
use quincunx_dais::files::Pipeline;
use quincunx_dais::program::Program;
use quincunx_dais::rtl::{Design, Estimate, synthesise};
use quincunx_dais::simulate::Executor;
use quincunx_dais::{Cutoff, to_pipeline};
use quincunx_num::Int;
use quincunx_testkit::Random;
use std::fs;

fn design(program: &Program) -> Design {
    Design::new(&Pipeline::from(program.clone())).unwrap()
}

/// Port vectors of a golden file, one hexadecimal number per line.
fn vectors(name: &str) -> Vec<Int> {
    let text = fs::read_to_string(root().join("rtl").join(name)).unwrap();
    text.lines().map(|line| Int::from_str_radix(line, 16).unwrap()).collect()
}

#[test]
fn golden_ports_and_vectors() {
    let manifest = fs::read_to_string(root().join("rtl/manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let mut count = 0;
    for case in cases(&FOLDERS) {
        let about = &manifest[&case.name];
        if about.get("in_bits").is_none() {
            continue;
        }
        let stem = case.name.split('/').next_back().unwrap();
        let design = design(&case.program());
        let widths = |fields: &[quincunx_dais::rtl::Field]| -> Vec<u64> {
            fields.iter().map(|field| field.width().into()).collect()
        };
        let golden = |key: &str| -> Vec<u64> {
            about[key].as_array().unwrap().iter().map(|w| w.as_u64().unwrap()).collect()
        };
        assert_eq!(widths(design.inputs()), golden("in_widths"), "{}", case.name);
        assert_eq!(widths(design.outputs()), golden("out_widths"), "{}", case.name);
        let (inputs, outputs) =
            (vectors(&format!("{stem}_in.hex")), vectors(&format!("{stem}_out.hex")));
        assert_eq!(inputs.len() as u64, about["samples"].as_u64().unwrap());
        for (sample, (input, output)) in inputs.iter().zip(&outputs).enumerate() {
            assert_eq!(&design.pack(&case.inputs[sample]).unwrap(), input, "{}", case.name);
            assert_eq!(&design.evaluate(input), output, "{} sample {sample}", case.name);
        }
        count += 1;
    }
    assert_eq!(count, 22);
}

/// Golden programs of all folders, pipelines included: numbers in, numbers out.
#[test]
fn golden_programs() {
    for case in cases(&FOLDERS) {
        let mut forms = vec![(case.name.clone(), Pipeline::from(case.program()))];
        for (name, json) in case.pipelines() {
            let read = quincunx_dais::files::read_json(&json, false).unwrap();
            forms.push((name, read.pipeline));
        }
        for (name, pipeline) in forms {
            let design = Design::new(&pipeline).unwrap();
            for (inputs, expected) in case.inputs.iter().zip(&case.outputs) {
                let outputs = design.unpack(&design.evaluate(&design.pack(inputs).unwrap()));
                assert!(same(&outputs, expected), "{name}: {outputs:?}, {expected:?}");
            }
        }
    }
}

/// Random programs: the executor is the judge wherever every value fits its type.
#[test]
fn random_programs() {
    let mut random = Random::new(71);
    let (mut compared, mut wide) = (0, 0);
    for round in 0..600 {
        let program = match round % 3 {
            0 => wide_program(&mut random, 60, 300),
            _ => program(&mut random, 40),
        };
        let widths = program.operations.iter().map(|o| o.slot_type.kif().width());
        wide += usize::from(widths.max() > Some(64));
        let Ok(design) = Design::new(&program.clone().into()) else {
            // No bit leaves it.
            assert!(program.outputs.iter().all(|output| output.source.is_none_or(|slot| {
                program.operations[slot.0 as usize].slot_type.kif().width() == 0
            })));
            continue;
        };
        assert_eq!(Estimate::of(&design, 0).flip_flops, 0);
        let mut executor = Executor::new(&program).unwrap();
        for _ in 0..12 {
            let inputs: Vec<f64> = program.input_shifts.iter().map(|_| random.float()).collect();
            let Ok(expected) = executor.run_strict(&inputs) else { continue };
            let found = design.unpack(&design.evaluate(&design.pack(&inputs).unwrap()));
            assert!(same(&found, &expected), "{}", quincunx_dais::text::print(&program));
            compared += 1;
        }
    }
    assert!(compared > 3000 && wide > 50, "{compared} {wide}");
}

/// Stages of random programs: links between ports of other types, what only passes, constants that are
/// made again.
#[test]
fn random_programs_in_stages() {
    let (mut compared, mut longest) = (0, 0);
    for seed in 0..300 {
        let mut random = Random::new(seed + 2000);
        let program = program(&mut random, 40);
        let latency = f64::from(random.range(5, 9)) / 4.0;
        let cutoff = Cutoff { latency, retiming: random.below(2) == 1 };
        let Ok(staged) = to_pipeline(&program, cutoff, &[]) else { continue };
        let Ok(design) = Design::new(&staged.pipeline) else { continue };
        longest = longest.max(design.stages().len());
        let mut executor = Executor::new(&program).unwrap();
        for _ in 0..8 {
            let inputs: Vec<f64> = program.input_shifts.iter().map(|_| random.float()).collect();
            let Ok(expected) = executor.run_strict(&inputs) else { continue };
            let found = design.unpack(&design.evaluate(&design.pack(&inputs).unwrap()));
            assert!(same(&found, &expected), "seed {seed}");
            compared += 1;
        }
    }
    assert!(compared > 500 && longest > 3, "{compared} {longest}");
}

/// What `docs/machines/dais.md` compares: adders, choices and single bits, products, tables, networks.
const DESIGNS: [&str; 20] = [
    "cmvm/dct8_12b.default.pipeline",
    "cmvm/rand_4x4_8b.default.pipeline",
    "cmvm/rand_8x8_8b.default.pipeline",
    "cmvm/wide_6x6_14b.default.pipeline",
    "ops/addsub",
    "ops/bitops",
    "ops/msb_mux",
    "ops/quantize",
    "ops/relu",
    "traced/bit_ops",
    "ops/mul",
    "ops/wide",
    "traced/misc_ops",
    "ops/lookup",
    "table of 8 bits",
    "table of 7 bits",
    "traced/lut_max_einsum",
    "traced/tiny_mlp_4b_pipeline_lc2",
    "alir4/misc",
    "alir4/mlp_ternary",
];

/// Two numbers of so many bits, the hyperbolic tangents of both in 8 bits, and their sum.
fn tangents(bits: i32) -> Pipeline {
    let half = 1 << (bits - 1);
    let value = |x: i32| (127.0 * (f64::from(x) * 5.0 / f64::from(half)).tanh()).round() as i32;
    let values: Vec<String> = (-half..half).map(|x| value(x).to_string()).collect();
    let range = format!("[-{half}, {}, 1]", half - 1);
    let text = format!(
        ".dais\n.inputs 2\n.table 0\n.values {}\n%0 = input 0 : {range}\n%1 = input 1 : {range}\n\
         %2 = lookup %0, table 0 : [-127, 127, 1]\n%3 = lookup %1, table 0 : [-127, 127, 1]\n\
         %4 = add %2, %3 : [-254, 254, 1]\nout %4\nout %2\n",
        values.join(", ")
    );
    quincunx_dais::text::parse(&text, quincunx_diag::SourceId(0)).unwrap()
}

/// The estimate against Yosys, where it is installed, within the error that `docs/machines/dais.md` states.
#[test]
fn estimates_are_near_yosys() {
    let yosys = std::process::Command::new("yosys").arg("-V").output().is_ok();
    let required = std::env::var("QUINCUNX_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
    assert!(yosys || !required, "yosys is missing");
    if !yosys {
        return;
    }
    // Yosys takes two seconds to start.
    let (first, second) = DESIGNS.split_at(DESIGNS.len() / 2);
    std::thread::scope(|scope| {
        scope.spawn(|| first.iter().for_each(|name| estimate_is_near(name)));
        second.iter().for_each(|name| estimate_is_near(name));
    });
}

fn estimate_is_near(name: &str) {
    let pipeline = match name {
        "table of 8 bits" => tangents(8),
        "table of 7 bits" => tangents(7),
        _ => {
            let text = fs::read_to_string(root().join(format!("{name}.json"))).unwrap();
            quincunx_dais::files::read_json(&text, false).unwrap().pipeline
        }
    };
    let registers = u32::from(pipeline.stages.len() > 1);
    let estimate = Estimate::of(&Design::new(&pipeline).unwrap(), registers);
    let found = synthesise(&pipeline, registers).unwrap();
    assert!(found.luts > 0, "{name}");
    for (what, estimate, found, error, some) in [
        ("LUT", estimate.luts, found.luts, 0.10, 0.0),
        ("CARRY4", estimate.carries, found.carries, 0.15, 2.0),
        ("FF", estimate.flip_flops, found.flip_flops, 0.01, 0.0),
        ("DSP", estimate.multipliers, found.multipliers, 0.0, 0.0),
    ] {
        let apart = (estimate as f64 - found as f64).abs();
        let near = apart <= error * found as f64 + some;
        assert!(near, "{name}, {what}: {estimate}, Yosys {found}");
    }
}
