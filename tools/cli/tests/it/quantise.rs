//! `quantise` as a user sees it.

use crate::support::{digits, file, names_in, quincunx};
use serde_json::Value;
use std::fs;

#[test]
fn a_model_is_quantised_and_runs() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("q.onnx").to_str().unwrap().to_owned();
    let run = quincunx(&["quantise", &digits("digits.onnx"), "-o", &out, "--format", "json"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let rows: Value = serde_json::from_slice(&run.stdout).unwrap();
    let row = |name: &str| {
        let rows = rows["rows"].as_array().unwrap();
        rows.iter().find(|row| row["layer"] == name).unwrap().clone()
    };
    let image = row("image");
    assert_eq!(
        (&image["codes"], &image["low"], &image["high"]),
        (&"u8".into(), &0.0.into(), &1.0.into())
    );
    let conv = row("conv3");
    assert_eq!((&conv["codes"], &conv["weights"]), (&"u8".into(), &"s8".into()));
    assert!(conv["sqnr"].as_f64().unwrap() > 30.0 && conv["weight_sqnr"].as_f64().unwrap() > 40.0);
    assert_eq!((conv["zero"].as_f64().unwrap() % 2.0, &conv["weight_scales"]), (0.0, &8.into()));
    assert_eq!(names_in(place.path()), ["q.onnx"], "no temporary file is left");
    let shown = quincunx(&["inspect", &out]);
    assert!(shown.code == 0 && shown.text().contains("quantised   yes"), "{}", shown.text());
    let again = quincunx(&[
        "quantise",
        &out,
        "--calibrate",
        &digits("calib.npz"),
        "-o",
        &format!("{out}.too"),
    ]);
    assert_eq!(again.code, 4);
    assert!(again.stderr.contains("Q0632"));
}

#[test]
fn every_option_does_something() {
    let place = tempfile::tempdir().unwrap();
    let (model, data) = (digits("digits.onnx"), digits("calib.npz"));
    let widths = file(place.path(), "w.toml", b"[[layer]]\nname = \"fc*\"\nweights = 4\n");
    let mut files = Vec::new();
    for (index, options) in [
        &[][..],
        &["--scheme", "pow2"],
        &["--scheme", "uniform:FP16BP8"],
        &["--scheme", "uniform:FP8BP4"],
        &["--method", "min-max"],
        &["--method", "percentile"],
        &["--method", "percentile", "--percentile", "95"],
        &["--activations", "s8"],
        &["--widths", &widths],
        &["--dialect", "qonnx"],
        &["--images", "3"],
        &["--no-fold-batch-norm"],
        &["--calibrate", "random:1", "--images", "2"],
    ]
    .iter()
    .enumerate()
    {
        let out = place.path().join(format!("{index}.onnx")).to_str().unwrap().to_owned();
        let mut arguments = vec!["quantise", &model, "-o", &out];
        if !options.contains(&"--calibrate") {
            arguments.extend(["--calibrate", &data]);
        }
        arguments.extend(options.iter().copied());
        let run = quincunx(&arguments);
        assert_eq!(run.code, 0, "{options:?}: {}", run.stderr);
        let bytes = fs::read(&out).unwrap();
        assert!(!files.contains(&bytes), "{options:?} changed nothing");
        files.push(bytes);
    }
    let piped = quincunx(&["quantise", &model, "-o", "-", "-q"]);
    assert_eq!(piped.stdout, files[0], "the file alone goes to stdout");
    let qdq = quincunx(&["quantise", &model, "-o", "-", "--dialect", "qdq"]);
    assert_eq!(qdq.stdout, files[0]);
}

#[test]
fn mistakes() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("q.onnx").to_str().unwrap().to_owned();
    let model = digits("digits.onnx");
    let unknown = file(place.path(), "u.toml", b"[[layer]]\nname = \"conv1x\"\nweights = 4\n");
    let key = file(place.path(), "k.toml", b"weights = 4\nbits = 4\n");
    let four = file(place.path(), "f.toml", b"weights = 4\n");
    let before = names_in(place.path());
    for (arguments, code, text) in [
        (&["--percentile", "99"][..], 2, "Q0708"),
        (&["--method", "percentile", "--percentile", "30"], 2, "Q0315"),
        (&["--widths", &unknown], 3, "u.toml:2:8"),
        (&["--widths", &unknown], 3, "conv1"),
        (&["--widths", &model], 3, "error["),
        (&["--widths", &key], 3, "k.toml:2:1"),
        (&["--widths", &four, "--dialect", "qdq"], 4, "Q0420"),
        (&["--calibrate", &model], 3, "Q0605"),
        (&["--activations", "u8", "--scheme", "pow2"], 2, "Q0315"),
        (&["--activations", "u8", "--scheme", "uniform:FP16BP8"], 2, "Q0315"),
        (&["--scheme", "uniform:FP16PB8"], 2, "uniform:FP16BP8"),
        (&["--scheme", "uniform:FLOAT32"], 2, "has no grid"),
        (&["--scheme", "pow"], 2, "pow2"),
    ] {
        let run = quincunx(&[&["quantise", &model, "-o", &out], arguments].concat());
        assert_eq!(run.code, code, "{arguments:?}: {}", run.stderr);
        assert!(
            run.stderr.contains(text) && run.stdout.is_empty(),
            "{arguments:?}: {}",
            run.stderr
        );
    }
    let alone = place.path().join("alone.onnx");
    fs::copy(&model, &alone).unwrap();
    let run = quincunx(&["quantise", alone.to_str().unwrap(), "-o", &out]);
    assert!(run.code == 2 && run.stderr.contains("Q0631"), "{}", run.stderr);
    fs::remove_file(&alone).unwrap();
    assert_eq!(names_in(place.path()), before, "nothing is left behind");
}

#[test]
fn a_part_of_the_model_and_of_the_images() {
    let place = tempfile::tempdir().unwrap();
    let (model, data) = (digits("digits.onnx"), digits("test.npz"));
    let out = place.path().join("q.onnx").to_str().unwrap().to_owned();
    let base = ["quantise", &model, "-o", &out, "--calibrate", &data];
    let run = quincunx(&[&base[..], &["--outputs", "relu1_out", "--images", "2..5"]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let run = quincunx(&["run", &out, "-d", &data, "--images", "1", "--format", "csv"]);
    assert!(run.code == 0 && run.text().contains("0,relu1_out,f32"), "{}", run.text());
    let run = quincunx(&[&base[..], &["--images", "9999"]].concat());
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains("there are 360 images"), "{}", run.stderr);
}

/// Every proposal was tried: with those of all layers no layer is below 20 dB any more.
#[test]
fn what_loses_too_much_is_named_with_the_bits_that_help() {
    let place = tempfile::tempdir().unwrap();
    let (model, data) = (digits("digits.onnx"), digits("calib.npz"));
    let out = place.path().join("q.onnx").to_str().unwrap().to_owned();
    let quantise = |widths: &str| {
        let widths = file(place.path(), "w.toml", widths.as_bytes());
        let command = ["quantise", &model, "--calibrate", &data, "-o", &out, "--widths", &widths];
        let run = quincunx(&[&command[..], &["--images", "20"]].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        run.stderr
    };
    let base = "weights = 8\nactivations = 8\n";
    assert_eq!(quantise(base), "");
    let poor = "{ name = \"fc*\", weights = 2 }, { name = \"relu3\", activations = 3 }";
    let stderr = quantise(&format!("{base}layer = [{poor}]"));
    for expected in
        ["layer \"relu3\" (Relu): result ", "layer \"fc1\" (Gemm): weights ", "output \"logits\""]
    {
        assert!(stderr.contains(expected), "{stderr}");
    }
    let help = stderr.lines().filter_map(|line| line.trim().strip_prefix("= help: {"));
    let lines = help.filter_map(|line| Some(format!("{{{}", line.split_once(" in the list")?.0)));
    let lines: Vec<String> = lines.collect();
    assert!(lines.len() >= 3, "{stderr}");
    assert_eq!(quantise(&format!("{base}layer = [{poor}, {}]", lines.join(", "))), "");
}

/// So that `verify` needs neither the data nor the options again.
#[test]
fn a_folder_keeps_how_its_model_was_quantised() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let (model, out) = (path("digits.onnx"), path("out"));
    // Without data beside it.
    fs::copy(digits("digits.onnx"), &model).unwrap();
    let calibrate = digits("calib.npz");
    let compile = ["compile", &model, "-t", "dais", "-o", &out, "--effort", "fast"];
    let run = quincunx(&[&compile[..], &["--calibrate", &calibrate, "--format", "json"]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let report: Value = serde_json::from_slice(&run.stdout).unwrap();
    let ranges = report["ranges"].as_array().unwrap();
    let input = &ranges[0];
    assert_eq!(
        (&input["value"], &input["high"], &input["clipped"]),
        (&"image".into(), &1.0.into(), &0.0.into())
    );
    assert!(ranges.iter().any(|range| range["signal_to_noise"].as_f64().unwrap_or(99.0) < 40.0));
    let data = digits("test.npz");
    let run = quincunx(&["verify", &out, "--model", &model, "-d", &data, "--images", "0..4"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let kept = fs::read_to_string(place.path().join("out/program.json")).unwrap();
    let mut kept: Value = serde_json::from_str(&kept).unwrap();
    let ranges = kept["preparation"]["calibrated"].as_object_mut().unwrap();
    assert_eq!(ranges["image"], serde_json::json!([0.0, 1.0]));
    ranges["image"] = serde_json::json!([1.0, 0.0]);
    fs::write(place.path().join("out/program.json"), kept.to_string()).unwrap();
    let run = quincunx(&["verify", &out]);
    assert!(run.code == 3 && run.stderr.contains("Q0612"), "{}", run.stderr);
}

/// The format of a machine that does not hold the network, and the one that does.
#[test]
fn a_type_is_proposed_that_holds_the_network() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out").to_str().unwrap().to_owned();
    let (model, calibrate) = (digits("digits.onnx"), digits("calib.npz"));
    let mut machine: Value = serde_json::json!({
        "data_type": "FP8BP4", "array_size": 8, "dram0_depth": 4096, "dram1_depth": 4096,
        "local_depth": 2048, "accumulator_depth": 512, "simd_registers_depth": 1,
        "stride0_depth": 8, "stride1_depth": 8, "number_of_threads": 1, "thread_queue_depth": 8,
    });
    let mut compile = |data_type: &str| {
        machine["data_type"] = data_type.into();
        let arch = file(place.path(), "m.tarch", machine.to_string().as_bytes());
        let compile = ["compile", &model, "-t", "tcu", "--arch", &arch, "-o", &out];
        let run = quincunx(&[&compile[..], &["--calibrate", &calibrate]].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        run.stderr
    };
    let stderr = compile("FP8BP4");
    assert!(stderr.contains("warning[Q0627]: FP8BP4 does not hold the value"), "{stderr}");
    assert!(stderr.contains("FP16BP8 holds all values"), "{stderr}");
    assert!(!compile("FP16BP8").contains("Q0627"));
}
