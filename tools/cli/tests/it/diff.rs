//! `diff` on everything it knows.

use crate::support::{Run, compiled, digits, file, quincunx};
use quincunx::tensor::{Tensor, Tensors, npy};
use serde_json::Value;
use std::path::Path;

fn json(run: &Run) -> Value {
    serde_json::from_slice(&run.stdout).unwrap()
}

/// The value of a row of the summary.
fn summary(run: &Run, name: &str) -> Value {
    let result = json(run);
    let rows = result["summary"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap()["value"].clone()
}

fn compile(place: &Path, model: &str, name: &str, more: &[&str]) -> String {
    let out = place.join(name).to_str().unwrap().to_owned();
    let model = digits(model);
    let run = quincunx(&[&["compile", &model, "-t", "dais", "-o", &out], more].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    out
}

#[test]
fn equal_things_of_every_kind_are_the_same() {
    let place = tempfile::tempdir().unwrap();
    let out = compiled(place.path());
    let description = format!("{out}/program.json");
    let native = format!("{out}/program.dais");
    let asm = quincunx(&["asm", &format!("{out}/device0/program.dasm"), "--output", &native]);
    assert_eq!(asm.code, 0, "{}", asm.stderr);
    for (path, kind) in [
        (&out, "program folders"),
        (&native, "programs"),
        (&description, "JSON"),
        (&digits("digits.onnx"), "models"),
        (&digits("test.npz"), "arrays"),
        (&digits("README.md"), "text"),
    ] {
        let run = quincunx(&["diff", path, path, "--format", "json"]);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{path}");
        assert_eq!((summary(&run, "kind"), summary(&run, "same")), (kind.into(), "yes".into()));
        assert!(json(&run).get("diff").is_none());
    }
    assert_eq!(quincunx(&["diff", &native, &native]).text(), "");
}

#[test]
fn program_folders_differ_in_description_and_instructions() {
    let place = tempfile::tempdir().unwrap();
    let a = compile(place.path(), "digits.onnx", "a", &[]);
    let b = compile(place.path(), "digits_pow2.onnx", "b", &[]);
    let run = quincunx(&["diff", &a, &b]);
    assert_eq!((run.code, run.stderr.as_str()), (1, ""));
    let text = run.text();
    assert!(text.contains("/segments/0/files/0/sha256"), "the files are named");
    assert!(text.contains(&format!("--- {a}/device0\n+++ {b}/device0\n@@ ")));
    // Only the machine differs: no instruction does.
    let c = compile(place.path(), "digits.onnx", "c", &["--arch", "wide"]);
    let run = quincunx(&["diff", &a, &c, "--format", "json"]);
    assert_eq!(run.code, 1);
    let rows = json(&run)["rows"].as_array().unwrap().clone();
    let paths: Vec<&Value> = rows.iter().map(|row| &row["path"]).collect();
    assert_eq!(paths, ["/arch/file", "/arch/name"]);
    assert!(json(&run).get("diff").is_none());
}

#[test]
fn programs_are_compared_by_their_instructions_whatever_their_form() {
    let place = tempfile::tempdir().unwrap();
    let model = digits("digits_pow2.onnx");
    let native = |kind: &str| {
        let path = place.path().join(kind).to_str().unwrap().to_owned();
        let emit = format!("{kind}={path}");
        assert_eq!(quincunx(&["compile", &model, "-t", "dais", "--emit", &emit]).code, 0);
        path
    };
    let (binary, text) = (native("bin"), native("asm"));
    let changed = std::fs::read_to_string(&text).unwrap().replacen("add", "sub", 1);
    let changed = file(place.path(), "changed.dasm", changed.as_bytes());
    let assembled = place.path().join("changed.bin").to_str().unwrap().to_owned();
    assert_eq!(quincunx(&["asm", &changed, "-o", &assembled]).code, 0);
    for [a, b] in [[&text, &changed], [&binary, &assembled], [&binary, &changed]] {
        let run = quincunx(&["diff", a, b, "-U", "0"]);
        assert_eq!(run.code, 1, "{}", run.stderr);
        let lines = run.text().lines().map(|line| line[..1].to_owned()).collect::<String>();
        assert!(lines.ends_with("@-+"), "{}", run.text());
        assert!(run.text().contains(" = sub "));
    }
    // Text also says cost and latency, which machine code has not.
    assert_eq!(quincunx(&["diff", &binary, &text]).text(), "");
}

#[test]
fn models_differ_in_graph_and_constants() {
    let (a, b) = (digits("digits.onnx"), digits("digits_qdq.onnx"));
    let run = quincunx(&["diff", &a, &b, "--format", "json"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert_eq!(summary(&run, "kind"), "models");
    assert!(json(&run)["diff"].as_str().unwrap().contains("@@"));
    assert!(!json(&run)["rows"].as_array().unwrap().is_empty());
}

#[test]
fn arrays_differ_in_numbers_within_a_tolerance() {
    let place = tempfile::tempdir().unwrap();
    let write = |name: &str, values: &[f32]| {
        let array = Tensor::from_vec(&[2, 2], values.to_vec()).unwrap();
        let arrays = Tensors::from([("x".to_owned(), array.clone()), ("y".to_owned(), array)]);
        file(place.path(), name, &npy::write_npz(&arrays).unwrap())
    };
    let (a, b) = (write("a.npz", &[1.0, 2.0, 3.0, 4.0]), write("b.npz", &[1.0, 2.0, 3.5, 4.25]));
    let run = quincunx(&["diff", &a, &b, "--format", "json"]);
    assert_eq!(run.code, 1);
    let row = &json(&run)["rows"][1];
    assert_eq!((&row["array"], &row["mismatches"]), (&"y".into(), &2.into()));
    assert_eq!((&row["first"], &row["value_a"]), (&"[1, 0]".into(), &"3".into()));
    assert_eq!((&row["max_abs"], &row["value_b"]), (&0.5.into(), &"3.5".into()));
    let code = |tolerance| quincunx(&["diff", &a, &b, "--tolerance", tolerance]).code;
    assert_eq!((code("0.5"), code("0,0.15"), code("0.25")), (0, 0, 1));
    assert_eq!((code("-1"), code("x"), code("")), (2, 2, 2));
}

#[test]
fn reports_differ_by_path() {
    let place = tempfile::tempdir().unwrap();
    let (model, data) = (digits("digits_pow2.onnx"), digits("test.npz"));
    let report = |images: &str| {
        let run = quincunx(&["run", &model, "-d", &data, "--images", images, "--format", "json"]);
        file(place.path(), &format!("{images}.json"), &run.stdout)
    };
    let run = quincunx(&["diff", &report("2"), &report("3"), "--format", "csv"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    let text = run.text();
    let rows: Vec<&str> = text.split("path,a,b\n").nth(1).unwrap().lines().collect();
    assert!(rows.len() == 1 && rows[0].starts_with("/rows/2,,"), "{text}");
}

#[test]
fn unlike_kinds_and_missing_files_have_their_exit_codes() {
    let place = tempfile::tempdir().unwrap();
    let out = compiled(place.path());
    let (model, data) = (digits("digits.onnx"), digits("test.npz"));
    assert_eq!(quincunx(&["diff", &out, &model]).code, 2);
    let run = quincunx(&["diff", &model, &data]);
    assert_eq!((run.code, run.stdout.len()), (2, 0));
    assert!(run.stderr.contains("is a model"), "{}", run.stderr);
    assert_eq!(quincunx(&["diff", &model, "/nowhere"]).code, 74);
    assert_eq!(quincunx(&["diff", "-", "-"]).code, 2);
    let empty = place.path().to_str().unwrap();
    assert_eq!(quincunx(&["diff", empty, &out]).code, 3);
}
