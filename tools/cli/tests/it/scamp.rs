//! Kernels of cameras from the command line.

use crate::support::quincunx;
use std::path::Path;

/// A file of the golden data.
fn golden(name: &str) -> String {
    format!("{}/../../tests/golden/scamp/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A part can be named of files that have parts; of any other the name is that of a file.
#[test]
fn parts_of_files_without_parts_are_refused() {
    let digits = crate::support::digits("digits.onnx");
    for file in [digits, golden("cain_inputs/gauss3.json"), golden("sample_default_format.txt")] {
        let part = format!("{file}#typo");
        for verb in ["inspect", "run"] {
            let data: &[&str] = if verb == "run" { &["--data", "zeros"] } else { &[] };
            let run = quincunx(&[&[verb, &part], data].concat());
            assert_eq!(run.code, 74, "{part}: {}", run.stderr);
            assert!(run.stderr.contains("Q0602") && run.stderr.contains(&part), "{}", run.stderr);
        }
    }
    let list = golden("kernels.json");
    assert_eq!(quincunx(&["inspect", &format!("{list}#gauss3")]).code, 0);
    let run = quincunx(&["inspect", &format!("{list}#gauss")]);
    assert!(run.code == 3 && run.stderr.contains("Q5069"), "{}", run.stderr);
}

/// Compiles a text as a kernel file: the exit code and what was said.
fn compile(folder: &Path, text: &str, options: &[&str]) -> (i32, String) {
    let file = folder.join("k.json");
    std::fs::write(&file, text).unwrap();
    let out = folder.join("out");
    let (file, out) = (file.to_str().unwrap(), out.to_str().unwrap());
    let run = quincunx(&[&["compile", file, "-t", "scamp", "-o", out], options].concat());
    (run.code, run.stderr)
}

/// What is wrong in a kernel file is shown where it stands.
#[test]
fn problems_of_kernel_files_show_their_place() {
    let good = std::fs::read_to_string(golden("cain_inputs/gauss3.json")).unwrap();
    let place = tempfile::tempdir().unwrap();
    let filter: serde_json::Value = serde_json::from_str(&good).unwrap();
    let with = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut file = filter.clone();
        change(&mut file);
        serde_json::to_string_pretty(&file).unwrap()
    };
    let line_of = |text: &str, part: &str| {
        1 + text.lines().position(|line| line.contains(part)).unwrap_or_else(|| panic!("{text}"))
    };
    let cases: [(&str, String, &str, &str); 6] = [
        ("no kernel", with(&|f| f["filter"] = serde_json::json!({})), "Q5052", "\"filter\""),
        ("no entry", with(&|f| f["filter"]["A"] = serde_json::json!([[]])), "Q5052", "\"A\": ["),
        (
            "no number",
            with(&|f| f["filter"]["A"] = serde_json::json!([["x"]])),
            "Q5051",
            "\"A\": [",
        ),
        (
            "no register",
            with(&|f| f["registerAllocator"]["availableRegisters"][1] = "b!".into()),
            "Q5052",
            "\"availableRegisters\"",
        ),
        (
            "no number of nodes",
            with(&|f| f["maxApproximationDepth"] = "many".into()),
            "Q5051",
            "\"maxApproximationDepth\"",
        ),
        (
            "NaN",
            with(&|f| f["maxApproximationError"] = 0.125.into()).replace("0.125", "NaN"),
            "Q5050",
            "NaN",
        ),
    ];
    for (what, text, code, part) in cases {
        let (exit, said) = compile(place.path(), &text, &[]);
        let at = format!("k.json:{}:", line_of(&text, part));
        assert_eq!(exit, 3, "{what}: {said}");
        assert!(said.contains(code) && said.contains(&at) && said.contains('^'), "{at} {said}");
    }
    // Rows of different lengths are read as Cain reads them.
    let ragged = with(&|f| f["filter"]["A"] = serde_json::json!([[1], [1, 2, 1], [2, 2]]));
    let (exit, said) = compile(place.path(), &ragged, &["--effort", "fast"]);
    assert_eq!(exit, 0, "{said}");
    let run = quincunx(&["inspect", place.path().join("k.json").to_str().unwrap(), "-t", "scamp"]);
    assert!(run.code == 0 && run.stderr.contains("Q5053"), "{}", run.stderr);
    assert!(
        run.stderr.contains(&format!("k.json:{}:", line_of(&ragged, "\"A\": ["))),
        "{}",
        run.stderr
    );
}

/// Options that contradict the file, the machine or each other.
#[test]
fn options_of_kernels_are_checked() {
    let good = std::fs::read_to_string(golden("cain_inputs/gauss3.json")).unwrap();
    let place = tempfile::tempdir().unwrap();
    let said = |options: &[&str]| compile(place.path(), &good, options);
    for options in [
        &["--registers", "A B", "--output-registers", "C"][..],
        &["--registers", "A G"],
        &["--input-registers", "A B"],
        &["--output-registers", "A B"],
        &["--search", "cain", "--leftovers"],
    ] {
        let (exit, text) = said(options);
        assert!(exit == 3 && text.contains("Q5055"), "{options:?}: {text}");
    }
    let (exit, text) = said(&["--error", "0", "--depth", "1"]);
    assert!(exit == 4 && text.contains("Q5057") && text.contains("depth 4 is needed"), "{text}");
    let (exit, text) = said(&["--registers", "A B"]);
    assert!(exit == 4 && text.contains("Q5091") && text.contains("registers suffice"), "{text}");
}
