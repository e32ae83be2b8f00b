//! Peers' data: Cain's emulator, its programs and files, and the paper's listings.

use crate::common::{
    analogue_cases, golden, golden_text, image, is_legal, kernel_programs, parse, program, reg,
    root, scamp5,
};
use quincunx_contract::ArchSource;
use quincunx_diag::{SourceId, any_error};
use quincunx_scamp::ScampArch;
use quincunx_scamp::files::{read_kernels, to_graph};
use quincunx_scamp::program::Space;
use quincunx_scamp::simulate::{Executor, Settings};
use quincunx_scamp::text::{self, Dialect, print};
use quincunx_scamp::time::{Model, total};
use quincunx_scamp::verify::{verify, verify_kernels};
use std::fs;

#[test]
fn registers_are_those_of_the_emulator() {
    let cases = analogue_cases();
    assert_eq!(cases.len(), 2 * (94 + 24 + 2));
    for case in cases {
        assert!(is_legal(&case.program), "{}", case.name);
        let outcome = case.run_with(&mut |_, _| {}).unwrap();
        assert!(case.agrees(&outcome) && !outcome.used_fractions, "{}", case.name);
    }
}

#[test]
fn bus_steps_are_counted() {
    for file in ["emu_instructions.json", "emu_random.json", "programs.json"] {
        for case in golden(file).as_array().unwrap() {
            assert_eq!(program(&case["program"]).bus_steps(), case["bus_ops"].as_u64().unwrap());
        }
    }
}

#[test]
fn illegal_instructions_are_refused() {
    for case in golden("emu_illegal.json")["cases"].as_array().unwrap() {
        let source = case["program"].as_str().unwrap();
        let refused = match text::parse(source, SourceId(0)) {
            Ok(program) => !is_legal(&program),
            Err(problems) => any_error(&problems),
        };
        assert!(refused, "{source}");
    }
}

/// Every program computes the kernels of the file that Cain made it from.
#[test]
fn programs_compute_their_kernels() {
    let programs = kernel_programs();
    assert_eq!(programs.len(), 60);
    for (id, program) in programs {
        let file = read_kernels(&golden_text(&format!("cain_inputs/{id}.json"))).unwrap();
        assert!(is_legal(&program), "{id}");
        assert_eq!(verify_kernels(&program, &file, &scamp5()).unwrap(), [], "{id}");
    }
}

/// The simulator and the graph of the kernel file agree away from the edge.
#[test]
fn programs_filter_images_as_the_graph_does() {
    use quincunx_graph::execute::{Keep, exact};
    use quincunx_tensor::{Tensor, Tensors};
    let (height, width) = (24, 22);
    let mut random = crate::common::Random::new(5);
    let pixels = random.codes(height * width);
    for (id, program) in kernel_programs().into_iter().step_by(5) {
        let file = read_kernels(&golden_text(&format!("cain_inputs/{id}.json"))).unwrap();
        let graph = to_graph(&file, height, width).unwrap();
        let floats: Vec<f32> = pixels.iter().map(|&v| v as f32).collect();
        let input = Tensor::from_vec(&[1, 1, height, width], floats).unwrap();
        let results =
            exact(&graph, &Tensors::from([("image".to_owned(), input)]), Keep::Outputs).unwrap();
        let expected = results["filtered"].to_f64();
        let executor =
            Executor::new(&program, &scamp5(), width, height, Settings::default()).unwrap();
        let outcome = executor.run(&[((Space::Analogue, reg("A")), pixels.clone())]).unwrap();
        for (channel, name) in file.outputs().into_iter().enumerate() {
            let found = outcome.register((Space::Analogue, reg(name))).unwrap();
            for row in 9..height - 9 {
                for column in 9..width - 9 {
                    let at = row * width + column;
                    assert_eq!(found[at], expected[channel * height * width + at], "{id} {name}");
                }
            }
        }
    }
}

#[test]
fn kernel_files_give_the_goals() {
    for filter in golden("kernels.json")["filters"].as_array().unwrap() {
        let id = filter["id"].as_str().unwrap();
        let file = read_kernels(&golden_text(&format!("cain_inputs/{id}.json"))).unwrap();
        let (depth, error) = file.approximation();
        assert_eq!((u64::from(depth), error), (filter["approx_depth"].as_u64().unwrap(), 0.0));
        let goals = file.goals(depth).unwrap().0;
        for (goal, expected) in goals.iter().zip(filter["goals"].as_array().unwrap()) {
            assert_eq!(goal.total(), image(expected).iter().map(|v| v.abs() as u64).sum::<u64>());
        }
    }
}

#[test]
fn texts_are_byte_for_byte_those_of_cain() {
    let samples = [
        ("sample_default_format.txt", Dialect::Cain),
        ("sample_jss_format.txt", Dialect::Jss("s".to_owned())),
    ];
    for (name, dialect) in samples {
        let source = fs::read_to_string(root().join(name)).unwrap();
        assert_eq!(print(&parse(&source), &dialect).unwrap(), source);
    }
}

/// 48 bus steps in about 9 us, as measured on the device.
#[test]
fn device_time_of_the_paper() {
    let listing = program(&golden("paper_programs.json")["table2"]["cain"]["program"]);
    assert_eq!((listing.length(), listing.bus_steps()), (21, 48));
    assert_eq!(total(&listing, Model::Device, &scamp5()), 9120);
}

/// Programs on 1-bit registers with the names and roles that Cain gave them.
#[test]
fn digital_and_super_pixel_programs() {
    for file in ["digital_programs.json", "superpixel_programs.json"] {
        for case in golden(file)["cases"].as_array().unwrap() {
            let role = |key: &str, spare: &str| {
                let value = case["dir_regs"].get(key).or(case.get(key));
                value.and_then(|v| v.as_str()).unwrap_or(spare).to_owned()
            };
            let mut source = "name = \"x\"\nvirtual_digital = true\n[roles]\n".to_owned();
            for key in ["north", "east", "south", "west", "mask", "masked", "select"] {
                source += &format!("{key} = {:?}\n", role(key, &format!("Q_{key}")));
            }
            let arch = ArchSource::Text { name: "x".to_owned(), text: source };
            let arch = ScampArch::from_source(&arch).unwrap();
            let program = program(&case["program"]);
            assert_eq!(verify(&program, &arch), []);
            let side = |key: &str| case[key].as_u64().unwrap() as usize;
            let (width, height) = (side("width"), side("height"));
            let executor =
                Executor::new(&program, &arch, width, height, Settings::default()).unwrap();
            let images = |key: &str| {
                let object = case[key].as_object().unwrap().iter();
                let named = |name: &str| (Space::Digital, reg(name));
                object.map(|(name, rows)| (named(name), image(rows))).collect::<Vec<_>>()
            };
            let outcome = executor.run(&images("inputs")).unwrap();
            for (named, expected) in images("outputs") {
                assert_eq!(outcome.register(named), Some(expected), "{}", case["id"]);
            }
        }
    }
}
