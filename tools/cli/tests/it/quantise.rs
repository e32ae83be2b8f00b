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
    let again = quincunx(&["quantise", &out, "--calibrate", &digits("calib.npz"), "-o", &out]);
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
