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

/// A noise file is read, and no result replaces it; what is wrong in it shows its place.
#[test]
fn noise_files_of_runs() {
    let place = tempfile::tempdir().unwrap();
    let noise = place.path().join("noise.toml");
    let noise = noise.to_str().unwrap();
    let program = golden("sample_jss_format.txt");
    let run = |text: &str, more: &[&str]| {
        std::fs::write(noise, text).unwrap();
        let own = ["run", &program, "--data", "ones", "--size", "6x4", "--noise", noise];
        quincunx(&[&own[..], more].concat())
    };
    let ideal = run("", &[]);
    let biased = run("[bus]\nbias = 0.5\n", &[]);
    assert_eq!((ideal.code, biased.code), (0, 0), "{}", biased.stderr);
    assert_ne!(ideal.stdout, biased.stdout);
    let wrong = run("[bus]\nsigma = -0.5\n", &[]);
    assert_eq!(wrong.code, 3, "{}", wrong.stderr);
    let shown = "noise.toml:2:9";
    assert!(wrong.stderr.contains("Q5142") && wrong.stderr.contains(shown), "{}", wrong.stderr);
    let replaced = run("[bus]\nbias = 0.5\n", &["--output", noise]);
    assert_eq!(replaced.code, 2, "{}", replaced.stderr);
    assert_eq!(std::fs::read_to_string(noise).unwrap(), "[bus]\nbias = 0.5\n");
}

/// Options that would change nothing in a sweep are refused.
#[test]
fn options_of_sweeps_are_checked() {
    let model = crate::support::digits("digits.onnx");
    let data = crate::support::digits("test.npz");
    let sweep = |more: &[&str]| {
        let run = quincunx(&[&["sweep", &model, "--target", "scamp"], more].concat());
        (run.code, run.stderr)
    };
    for (options, code) in [
        (&["--vary", "noise-bus=0,1"][..], "Q0718"),
        (&["--vary", "depth=1", "--noise-bus", "1"], "Q0718"),
        (&["--vary", "depth=1", "--images", "1"], "Q0708"),
        (&["--vary", "cost-model=bus", "--data", &data], "Q0718"),
        (&["--vary", "depth=1", "--depth", "2"], "Q0714"),
        (&["--vary", "width=16", "--vary", "depth=-1"], "Q0502"),
    ] {
        let (exit, said) = sweep(options);
        assert!(exit == 2 && said.contains(code), "{options:?}: {said}");
    }
    // There is no accuracy over which it would be.
    assert_eq!(sweep(&["--vary", "depth=1", "--over", "seed=1"]).0, 2);
}

/// `--objective noise` takes the deviations of the noise file.
#[test]
fn noise_files_of_objectives() {
    let good = std::fs::read_to_string(golden("cain_inputs/gauss3.json")).unwrap();
    let place = tempfile::tempdir().unwrap();
    let noise = place.path().join("noise.toml");
    let said = |text: &str, more: &[&str]| {
        std::fs::write(&noise, text).unwrap();
        let own = ["--effort", "fast", "--pareto", "--noise", noise.to_str().unwrap()];
        compile(place.path(), &good, &[&own[..], more].concat())
    };
    let file = "[bus]\nsigma = 2\n[bus2]\nsigma = 3\n[bus3]\nsigma = 4\n";
    let given = said("", &["--sigma", "2 3 4"]);
    assert!(given.0 == 0 && given.1.contains("Q5103"), "{}", given.1);
    std::fs::remove_dir_all(place.path().join("out")).unwrap();
    assert_eq!(said(file, &[]), given);
    let (exit, text) = said("[bus]\nbias = 1\n", &[]);
    assert!(exit == 3 && text.contains("Q5055") && text.contains("--sigma"), "{text}");
}
