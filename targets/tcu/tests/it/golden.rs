//! The peer's data: layouts, encodings, arithmetic, programs with their results and cycles.

use crate::common::{arch, emulator_program, golden, hex, root};
use quincunx_diag::{SourceId, any_error};
use quincunx_isa::{Bits, Coverage};
use quincunx_tcu::arch::DataType;
use quincunx_tcu::binary::{self, Coder};
use quincunx_tcu::files::{Model, read_data, write_data};
use quincunx_tcu::isa::TABLE;
use quincunx_tcu::package::Package;
use quincunx_tcu::program::{Memory, Program};
use quincunx_tcu::simulate::{Arithmetic, Driver, Executor, Flow, fused, with_arithmetic};
use quincunx_tcu::text;
use quincunx_tcu::time::estimate;
use quincunx_tcu::verify::{Rules, verify};
use serde_json::Value;

#[test]
fn layouts_and_encodings() {
    let mut coverage = Coverage::new(&TABLE);
    for case in golden("encodings.json").as_array().unwrap() {
        let arch = arch(&case["arch"]);
        let coder = Coder::new(&arch).unwrap();
        for (key, value) in case["layout"].as_object().unwrap() {
            assert_eq!(coder.layout().param(key).map(u64::from), value.as_u64(), "{key}");
        }
        let pairs = ["instructions", "config_driver_only"].map(|key| case[key].as_array().unwrap());
        for pair in pairs.into_iter().flatten() {
            let bytes = hex(&pair[1]);
            let word = Bits::from_le_bytes(&bytes).unwrap();
            let (step, _) = coder.decode(&word, false).unwrap();
            assert_eq!(u64::from(step.tid), pair[0]["tid"].as_u64().unwrap_or(0));
            let mut again = Vec::new();
            coder.write(&step, &mut again).unwrap();
            assert_eq!(again, bytes);
            let program = Program { arch: arch.clone(), steps: vec![step] };
            let printed = text::print(&program);
            assert_eq!(text::parse(&printed, SourceId(0), &arch).unwrap(), program, "{printed}");
            coverage.mark(step.inst.row());
        }
    }
    assert_eq!(coverage.missing(), ["LoadLut"]);
}

#[test]
fn arithmetic() {
    for (name, cases) in golden("arith.json").as_object().unwrap() {
        let data_type = DataType::from_name(name).unwrap();
        let rows: Vec<[i32; 8]> = serde_json::from_value(cases["mac"].clone()).unwrap();
        for [x, y, z, expected @ ..] in rows {
            let flow = &mut Flow::default();
            let mac = fused(data_type, x, y, z, flow);
            let [sum, difference, product, negated] = with_arithmetic!(data_type, A => [
                A::add(x, y, flow), A::subtract(x, y, flow), A::multiply(x, y, flow),
                A::subtract(0, x, flow),
            ]);
            assert_eq!([mac, sum, difference, product, negated], expected, "{name} {x} {y} {z}");
        }
        for row in cases["from_float"].as_array().unwrap() {
            let bits = |value: &Value| u32::from_str_radix(value.as_str().unwrap(), 16).unwrap();
            let scalar = data_type.encode(f32::from_bits(bits(&row[0])).into());
            assert_eq!(Some(i64::from(scalar)), row[1].as_i64(), "{name} {row}");
            let mut bytes = Vec::new();
            data_type.write(scalar, &mut bytes);
            assert_eq!(bytes, hex(&row[2]));
            assert_eq!(data_type.read(&bytes), scalar);
            assert_eq!((data_type.decode(scalar) as f32).to_bits(), bits(&row[3]));
        }
    }
}

/// What the arithmetic file does not cover: floats, and stored forms with bits above the width.
#[test]
fn floats_and_stray_bits() {
    let float = DataType::Float32;
    let one = float.encode(1.0);
    let mut bytes = Vec::new();
    float.write(one, &mut bytes);
    assert_eq!(bytes, [0x3f, 0x80, 0, 0]);
    assert_eq!(float.decode(float.read(&bytes)), 1.0);
    assert_eq!(DataType::FP18BP10.read(&[0, 0, 2, 0xff]), -(1 << 17));
    assert_eq!(DataType::FP18BP10.read(&[0xff, 0xff, 0xfd, 0xff]), (1 << 17) - 1);
    let mut low = Vec::new();
    DataType::FP18BP10.write(-1, &mut low);
    assert_eq!(low, [0xff, 0xff, 3, 0]);
    assert_eq!(DataType::FP32BP16.encode_exact(-1e9), i32::MIN);
    assert_eq!(DataType::FP16BP8.encode(f64::NAN), 0);
    let below_half = 0.499_999_999_999_999_94_f64;
    assert_eq!(DataType::FP16BP8.encode_exact(below_half / 256.0), 0);
    assert_eq!(DataType::FP16BP8.encode_exact(f64::NEG_INFINITY), -(1 << 15));
}

#[test]
fn programs_of_the_emulator() {
    for case in golden("emulator_programs.json").as_array().unwrap() {
        let program = emulator_program(case);
        assert!(!any_error(&verify(&program, &Rules::default())), "{}", case["name"]);
        let mut executor = Executor::new(&program.arch);
        for (key, memory) in
            [("dram0", Memory::Dram0), ("dram1", Memory::Dram1), ("local", Memory::Local)]
        {
            let image = read_data(&hex(&case[key]), &program.arch).unwrap();
            executor.state.write(memory, 0, &image).unwrap();
        }
        executor.run(&program.steps).unwrap();
        let expected = hex(&case["dram0_after"]);
        let mut found = vec![0; expected.len() / program.arch.data_type.bytes()];
        executor.state.read(Memory::Dram0, 0, &mut found).unwrap();
        assert!(write_data(&found, &program.arch) == expected, "{}", case["name"]);
        let sum = estimate(&program, false).aggregate;
        let figures = &case["estimate_aggregate_cycles_energy"];
        assert_eq!(
            [sum.cycles, sum.energy].map(Value::from),
            [figures[0].clone(), figures[1].clone()]
        );
    }
}

fn package(name: &str) -> Package {
    let folder = root().join("compiled");
    let text = std::fs::read_to_string(folder.join(format!("{name}.tmodel"))).unwrap();
    let model = Model::parse(&text).unwrap();
    assert_eq!(model.print(), text);
    let read = |name: String| (name.clone(), std::fs::read(folder.join(name)).unwrap());
    let files: Vec<(String, Vec<u8>)> = model.file_names().into_iter().map(read).collect();
    let (package, warnings) = Package::new(model, &files, false).unwrap();
    assert_eq!(warnings, []);
    assert_eq!(binary::write(&package.program).unwrap(), files[0].1);
    for (consts, (_, bytes)) in package.consts.iter().zip(&files[1..]) {
        assert_eq!(write_data(&consts.scalars, package.arch()), *bytes);
    }
    package
}

#[test]
fn compiled_programs_give_the_outputs_and_cycles_of_the_peer() {
    let (mut threads, mut local) = ([0; 3], 0);
    for case in golden("compiled_models.json").as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let package = package(name);
        let (program, model) = (&package.program, package.model.as_ref().unwrap());
        assert!(!any_error(&verify(program, &Rules::default())), "{name}");
        threads[program.arch.number_of_threads as usize] += 1;
        local += usize::from(model.load_consts_to_local);
        let figures = estimate(program, false);
        let figures = [figures.aggregate, figures.reported].map(|cost| [cost.cycles, cost.energy]);
        let keys = [
            "aggregate_cycles",
            "aggregate_energy",
            "reported_execution_cycles",
            "reported_execution_energy",
        ];
        assert_eq!(figures.concat(), keys.map(|key| case[key].as_u64().unwrap()), "{name}");
        for flush_probe in [false, true] {
            let driver = Driver { flush_probe, ..package.driver() };
            let mut executor = Executor::new(&program.arch);
            let returned = driver.run(&mut executor, program, |state| {
                package.load(state)?;
                for (piece, image) in
                    model.inputs.iter().zip(case["inputs_hex"].as_array().unwrap())
                {
                    let image = read_data(&hex(image), state.arch())?;
                    state.write(Memory::Dram0, piece.base, &image)?;
                }
                Ok(())
            });
            assert!(returned.unwrap(), "{name}");
            for output in case["outputs"].as_array().unwrap() {
                let expected = hex(&output["hex"]);
                let mut found = vec![0; expected.len() / program.arch.data_type.bytes()];
                let base = output["base"].as_u64().unwrap();
                executor.state.read(Memory::Dram0, base, &mut found).unwrap();
                assert!(write_data(&found, &program.arch) == expected, "{name}");
            }
        }
    }
    assert_eq!((threads[1] > 8, threads[2], local > 1), (true, 3, true));
}
