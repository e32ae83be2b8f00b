//! Kernels of cameras from the command line.

use crate::support::quincunx;

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
