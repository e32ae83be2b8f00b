//! `compile --split`: one model on several machines.

use crate::support::{Run, digits, quincunx};
use serde_json::Value;
use std::path::Path;

fn json(run: &Run) -> Value {
    serde_json::from_slice(&run.stdout).unwrap()
}

/// Compiles digits for several machines into a folder.
fn split(place: &Path, model: &str, parts: &str) -> String {
    let out = place.join("p").to_str().unwrap().to_owned();
    let run = quincunx(&["compile", model, "--split", parts, "-o", &out, "--effort", "fast"]);
    assert_eq!(run.code, 0, "{parts}: {}", run.stderr);
    out
}

#[test]
fn pairs_of_machines_are_exact_and_say_what_the_border_costs() {
    let data = digits("test.npz");
    for (model, parts, border) in [
        ("digits.onnx", "conv1@scamp, rest@dais", "conv1_out"),
        ("digits.onnx", "conv1..pool1@scamp, rest@tcu@bench8", "pool1_out"),
        ("digits.onnx", "conv1..relu2@npu, rest@dpas", "relu2_out"),
    ] {
        let place = tempfile::tempdir().unwrap();
        let model = digits(model);
        let out = split(place.path(), &model, parts);
        let verify =
            ["verify", &out, "--model", &model, "-d", &data, "--images", "60", "--format", "json"];
        let verified = |threads| quincunx(&[&verify[..], &["-j", threads]].concat());
        let run = verified("2");
        assert_eq!(run.code, 0, "{parts}: {}", run.stderr);
        assert_eq!(run.stdout, verified("1").stdout, "{parts}");
        let found = json(&run);
        assert_eq!(
            (&found["rows"][0]["bit_exact"], &found["rows"][0]["images"]),
            (&60.into(), &60.into())
        );
        let values: Vec<&str> = found["handovers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|h| h["value"].as_str().unwrap())
            .collect();
        assert_eq!(values, [border], "{parts}");
        let noise = found["handovers"][0]["signal_to_noise"].as_f64();
        assert!(noise.is_none_or(|decibels| decibels > 20.0), "{parts}: {noise:?}");
    }
}

#[test]
fn a_pipeline_runs_is_timed_and_inspected_as_one_program() {
    let place = tempfile::tempdir().unwrap();
    let (model, data) = (digits("digits_pow2.onnx"), digits("test.npz"));
    let out = split(place.path(), &model, "rest@tcu@bench8, fc2,fc2_quant@dais");
    let run = quincunx(&["run", &out, "-d", &data, "--images", "40", "--format", "json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let pipeline = json(&run);
    let whole = quincunx(&["run", &model, "-d", &data, "--images", "40", "--format", "json"]);
    let classes = |value: &Value| -> Vec<Value> {
        value["rows"].as_array().unwrap().iter().map(|row| row["top1"].clone()).collect()
    };
    let (found, expected) = (classes(&pipeline), classes(&json(&whole)));
    let same = found.iter().zip(&expected).filter(|(a, b)| a == b).count();
    assert!(same >= 38, "{same} of {}", expected.len());

    let run = quincunx(&["time", &out, "--format", "json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let summary = json(&run)["summary"].clone();
    let names: Vec<(&str, &str)> = summary
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["segment"].as_str().unwrap(), row["name"].as_str().unwrap()))
        .collect();
    // The machines have clocks of their own, so that there are no cycles of both together.
    assert!(names.contains(&("all", "microseconds")) && !names.contains(&("all", "cycles")));
    let of_tcu =
        |(segment, name): &(&str, &str)| segment.starts_with("0-tcu-") && *name == "cycles";
    assert!(names.iter().any(of_tcu), "{names:?}");

    let text = quincunx(&["inspect", &out]).text().to_owned();
    for part in ["tcu", "bench8", "dais", "1-dais-"] {
        assert!(text.contains(part), "{text}");
    }
    let run = quincunx(&["verify", &out, "--target", "npu"]);
    assert!(run.code == 2 && run.stderr.contains("tcu bench8, dais d1"), "{}", run.stderr);
    let run = quincunx(&["verify", &out, "--set", "nothing=1"]);
    assert!(run.code == 2 && run.stderr.contains("nothing"), "{}", run.stderr);
    let other = digits("digits.onnx");
    let run = quincunx(&["verify", &out, "--model", &other, "-d", &data]);
    assert_eq!(run.code, 3, "{}", run.stderr);
    let again =
        quincunx(&["compile", &model, "--split", "rest@tcu, fc2,fc2_quant@dais", "-o", &out]);
    assert_eq!(again.code, 0, "a program folder is replaced: {}", again.stderr);
}

#[test]
fn wrong_splits_are_usage_errors_that_help() {
    let model = digits("digits.onnx");
    for (parts, options, told) in [
        ("cconv1@scamp, rest@dais", &[][..], "did you mean \"conv1\"?"),
        ("conv1@scam, rest@dais", &[], "did you mean \"scamp\"?"),
        ("conv1@scamp, rest@tcu@bench9", &[], "bench9"),
        ("conv1@scamp, conv1@dais, rest@dais", &[], "\"conv1\" is given twice"),
        ("conv2@scamp, rest@dais", &[], "\"pool1\" on dais computes later"),
        ("conv1@scamp", &[], "\"relu1\" has no machine"),
        ("conv1@npu, rest@dais", &["--arch", "gemini"], "--arch"),
        ("conv1@npu, rest@dais", &["--set", "tcu:rounding=free"], "tcu is not among the targets"),
    ] {
        let arguments = ["compile", &model, "--split", parts];
        let run = quincunx(&[&arguments[..], options].concat());
        assert_eq!((run.code, run.stdout.len()), (2, 0), "{parts}: {}", run.stderr);
        assert!(run.stderr.contains(told), "{parts}: {}", run.stderr);
    }
}
