//! `--outputs`, `--inputs` and `--input-shape` of every verb that reads a model.

use crate::support::{compiled, digits, quincunx};

/// Runs a verb on the digits with options for reading the model.
fn on_digits(verb: &[&str], options: &[&str]) -> crate::support::Run {
    let model = digits("digits_pow2.onnx");
    quincunx(&[&verb[..1], &[&model], &verb[1..], options].concat())
}

#[test]
fn models_are_cut_at_outputs_and_inputs() {
    let whole = on_digits(&["inspect"], &[]).text();
    assert!(whole.contains("Conv") && whole.contains("output logits"), "{whole}");
    let front = on_digits(&["inspect"], &["--outputs", "relu1_out,pool1_out"]).text();
    assert!(front.contains("output relu1_out") && front.contains("output pool1_out"), "{front}");
    assert!(!front.contains("Gemm"), "{front}");
    let back =
        on_digits(&["inspect"], &["--inputs", "pool2_out", "--input-shape", "pool2_out=1x8x2x2"]);
    let back = back.text();
    assert!(back.contains("input  pool2_out: f32[1, 8, 2, 2]"), "{back}");
    assert!(!back.contains("Conv") && back.contains("output logits"), "{back}");
}

#[test]
fn every_verb_takes_the_same_part() {
    let part = ["--outputs", "relu1_out"];
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("part").to_str().unwrap().to_owned();
    let run = on_digits(&["compile", "--target", "dais", "-o", &out], &part);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let model = digits("digits_pow2.onnx");
    let against = ["verify", &out, "--model", &model, "--data", "random:3"];
    let run = quincunx(&[&against[..], &part].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let run = on_digits(&["compare", "--target", "dais", "--data", "random:3"], &part);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let run = on_digits(&["run", "--target", "dais", "--data", "zeros"], &part);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.text().contains("relu1_out"), "{}", run.text());
}

#[test]
fn shapes_bind_symbols() {
    for shape in ["image=4x1x8x8", "image=[4, 1, 8, 8]"] {
        let text = on_digits(&["inspect"], &["--input-shape", shape]).text();
        assert!(text.contains("N=4") && text.contains("logits: f32[4, 10]"), "{text}");
    }
}

#[test]
fn names_that_do_not_exist_are_refused() {
    for (options, word) in [
        (["--outputs", "logit"], "did you mean \"logits\"?"),
        (["--inputs", "relu9_out"], "no value \"relu9_out\""),
        (["--inputs", "fc1.w"], "is a constant"),
        (["--input-shape", "img=1x1x8x8"], "no input \"img\""),
        (["--input-shape", "image=1xx8"], "expected NAME=1x3x224x224"),
    ] {
        let run = on_digits(&["inspect"], &options);
        assert_eq!((run.code, run.stdout.len()), (2, 0), "{options:?}: {}", run.stderr);
        assert!(run.stderr.contains(word), "{options:?}: {}", run.stderr);
    }
}

#[test]
fn options_that_would_do_nothing_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let out = compiled(place.path());
    let data = digits("test.npz");
    for arguments in [
        &["run", &out, "--data", "zeros", "--outputs", "logits"][..],
        &["verify", &out, "--outputs", "logits"],
        &["inspect", &out, "--inputs", "image"],
        &["inspect", &data, "--input-shape", "image=1"],
    ] {
        let run = quincunx(arguments);
        assert_eq!((run.code, run.stdout.len()), (2, 0), "{arguments:?}: {}", run.stderr);
        assert!(run.stderr.contains("no effect"), "{arguments:?}: {}", run.stderr);
    }
}

#[test]
fn bench_import_lists_every_model_of_a_folder() {
    let place = tempfile::tempdir().unwrap();
    let model = std::fs::read(digits("digits.onnx")).unwrap();
    crate::support::file(place.path(), "b.onnx", &model);
    crate::support::file(place.path(), "a.onnx", &model);
    let folder = place.path().to_str().unwrap();
    let bench = |more: &[&str]| quincunx(&[&["bench", "import", "--repeat", "1"], more].concat());
    let run = bench(&["--models", folder, "--format", "csv"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let text = run.text();
    let names: Vec<Vec<&str>> =
        text.lines().filter(|l| l.contains(".onnx")).map(|l| l.split(',').collect()).collect();
    let metrics = ["read_seconds", "import_seconds", "bytes"];
    assert_eq!(names.len(), 6, "{text}");
    for (index, row) in names.iter().enumerate() {
        assert_eq!(row[0], if index < 3 { "a.onnx" } else { "b.onnx" });
        assert_eq!(row[1], metrics[index % 3]);
        assert!(row[2].parse::<f64>().unwrap() > 0.0, "{text}");
    }
    assert_eq!(names[2][2].parse::<usize>().unwrap(), model.len());
    crate::support::file(place.path(), "c.onnx", b"damaged");
    assert_eq!(bench(&["--models", folder]).code, 3);
    assert_eq!(bench(&[]).code, 2);
    assert_eq!(bench(&["--models", "no/such/folder"]).code, 74);
}
