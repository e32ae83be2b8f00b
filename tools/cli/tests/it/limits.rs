//! A tcu at the limits of every parameter: at them all judges agree, beyond them the parameter and
//! its limits are named.

use crate::support::{digits, file, quincunx};
use serde_json::{Value, json};

/// Parameters with their smallest and largest values, and whether the digits still run on it at
/// least in part.
const LIMITS: [(&str, u64, u64, [bool; 2]); 15] = [
    ("array_size", 2, 256, [true, true]),
    ("dram0_depth", 1, 1 << 32, [false, true]),
    ("dram1_depth", 1, 1 << 32, [true, true]),
    ("local_depth", 1, 1 << 16, [false, true]),
    ("accumulator_depth", 1, 1 << 16, [true, true]),
    ("simd_registers_depth", 0, 16, [true, true]),
    ("stride0_depth", 1, 32, [true, true]),
    ("stride1_depth", 1, 32, [true, true]),
    ("number_of_threads", 1, 2, [true, true]),
    ("thread_queue_depth", 0, 1 << 16, [true, true]),
    ("instruction_bytes", 8, 32, [true, true]),
    ("sample_block_size", 1, 1 << 20, [true, true]),
    ("lookup_tables", 1, 16, [true, true]),
    ("lookup_table_depth", 1, 8192, [true, true]),
    ("clock_mhz", 1, 100_000, [true, true]),
];

fn machine() -> Value {
    json!({
        "data_type": "FP16BP8", "array_size": 8, "dram0_depth": 1 << 20, "dram1_depth": 1 << 20,
        "local_depth": 8192, "accumulator_depth": 2048, "simd_registers_depth": 1,
        "stride0_depth": 8, "stride1_depth": 8, "number_of_threads": 1, "thread_queue_depth": 8,
    })
}

/// A machine with some parameters changed.
fn with(changes: &[(&str, Value)]) -> String {
    let mut machine = machine();
    for (name, value) in changes {
        machine[name] = value.clone();
        // Tables come with their depth.
        let other = if *name == "lookup_tables" { "lookup_table_depth" } else { "lookup_tables" };
        if name.starts_with("lookup") && machine.get(other).is_none() {
            machine[other] = 1.into();
        }
    }
    machine.to_string()
}

/// Compiles the digits, and lets every judge look at them.
fn judged(arch: &str, runs: bool) {
    let place = tempfile::tempdir().unwrap();
    let path = file(place.path(), "a.tarch", arch.as_bytes());
    let out = place.path().join("out").to_str().unwrap().to_owned();
    let (model, data) = (digits("digits.onnx"), digits("test.npz"));
    let target = ["-t", "tcu", "--arch", &path];
    let some = ["--data", &data, "--images", "0..2"];
    for (arguments, code) in [
        ([&["compare", &model][..], &target, &some].concat(), 0),
        ([&["compile", &model, "-o", &out][..], &target].concat(), 0),
        ([&["verify", &out, "--model", &model][..], &some].concat(), 0),
        ([&["run", &out][..], &some].concat(), 0),
        (vec!["time", &out], if runs { 0 } else { 4 }),
        (vec!["inspect", &out], 0),
    ] {
        let run = quincunx(&arguments);
        assert_eq!(run.code, code, "{arguments:?} on {arch}: {}", run.stderr);
    }
}

#[test]
fn at_the_limits_of_every_parameter_all_judges_agree() {
    for (name, low, high, runs) in LIMITS {
        for (value, runs) in [low, high].into_iter().zip(runs) {
            judged(&with(&[(name, value.into())]), runs);
        }
    }
}

#[test]
fn at_the_limits_of_all_parameters_all_judges_agree() {
    let smallest = LIMITS.map(|(name, low, ..)| (name, low.into()));
    judged(&with(&smallest), false);
    // Tables of this depth would be too large together.
    let largest = LIMITS.iter().filter(|limit| limit.0 != "lookup_table_depth");
    let largest: Vec<_> = largest.map(|&(name, _, high, _)| (name, high.into())).collect();
    judged(&with(&largest), true);
    for data_type in ["FP8BP4", "FP18BP10", "FP32BP16", "FLOAT32"] {
        judged(&with(&[("data_type", data_type.into())]), true);
        judged(&with(&[("data_type", data_type.into()), ("simd_registers_depth", 0.into())]), true);
    }
}

#[test]
fn beyond_its_limits_a_parameter_is_named_with_them() {
    let place = tempfile::tempdir().unwrap();
    let model = digits("digits.onnx");
    for (name, low, high, _) in LIMITS {
        let most = u64::MAX;
        for value in [json!(low as i64 - 1), json!(high + 1), json!(most), json!(-1), json!(1.5)] {
            let path = file(place.path(), "a.tarch", with(&[(name, value.clone())]).as_bytes());
            let run = quincunx(&["compile", &model, "-t", "tcu", "--arch", &path]);
            assert_eq!(run.code, 3, "{name} {value}: {}", run.stderr);
            assert!(run.stdout.is_empty());
            // An instruction has the length that its operands need.
            let expected = match name {
                "instruction_bytes" if value == 7 => {
                    "error[Q3003]: instruction_bytes is 7, expected at least 8".to_owned()
                }
                "instruction_bytes" => format!("{name} is {value}, expected 1 to {high}\n"),
                _ => format!("error[Q3002]: {name} is {value}, expected {low} to "),
            };
            assert!(run.stderr.contains(&expected), "{expected}: {}", run.stderr);
        }
    }
}
