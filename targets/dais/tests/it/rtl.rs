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

/// The estimate against Yosys, where it is installed, within the error that `docs/dais.md` states.
#[test]
fn estimates_are_near_yosys() {
    let yosys = std::process::Command::new("yosys").arg("-V").output().is_ok();
    let required = std::env::var("QUINCUNX_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
    assert!(yosys || !required, "yosys is missing");
    if !yosys {
        return;
    }
    let case = cases(&["traced"]).into_iter().find(|case| case.name.ends_with("tiny_mlp_4b"));
    let (_, json) = case.unwrap().pipelines().remove(0);
    let pipeline = quincunx_dais::files::read_json(&json, false).unwrap().pipeline;
    let estimate = Estimate::of(&Design::new(&pipeline).unwrap(), 1);
    let found = synthesise(&pipeline, 1).unwrap();
    for (what, estimate, found, error) in [
        ("LUT", estimate.luts, found.luts, 0.25),
        ("CARRY4", estimate.carries, found.carries, 0.10),
        ("FF", estimate.flip_flops, found.flip_flops, 0.05),
    ] {
        let relative = (estimate as f64 - found as f64).abs() / found as f64;
        assert!(found > 100 && relative < error, "{what}: {estimate}, Yosys {found}");
    }
}
