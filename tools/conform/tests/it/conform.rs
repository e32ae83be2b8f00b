//! The program as its callers see it: lines, totals and exit codes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/dais")
}

/// Exit code, standard output and standard error.
fn conform(arguments: &[&str], dir: &Path) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quincunx-conform"));
    let output = command.arg("dais").arg(dir).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn copy(from: &Path, to: &Path, names: &[&str]) {
    fs::create_dir_all(to).unwrap();
    for name in names {
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
}

const RELU: [&str; 5] = ["relu.json", "relu.bin", "relu.v0.bin", "relu_in.npy", "relu_out.npy"];

#[test]
fn the_golden_cases_pass() {
    let (code, out, err) = conform(&["--only", "ops,fuzz,traced,quirks,invalid"], &golden());
    let expected = "\
ops: 13 passed, 0 failed, 0 skipped
fuzz: 16 passed, 0 failed, 0 skipped
traced: 8 passed, 0 failed, 0 skipped
quirks: 4 passed, 0 failed, 0 skipped
invalid: 13 passed, 0 failed, 0 skipped
total: 54 passed, 0 failed, 0 skipped
";
    assert_eq!((code, out.as_str(), err.as_str()), (0, expected, ""));
}

/// Every port vector is a case of the netlist, and one of the simulator where it is installed.
#[test]
fn the_golden_port_vectors_pass() {
    let (code, out, err) = conform(&["--only", "rtl"], &golden());
    let simulated = "rtl: 44 passed, 0 failed, 0 skipped";
    let evaluated = "rtl: 22 passed, 0 failed, 22 skipped";
    let first = out.lines().next().unwrap();
    let required = std::env::var("QUINCUNX_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
    assert!(first == simulated || (first == evaluated && !required), "{out}");
    assert_eq!((code, err.as_str()), (0, ""));
}

/// A vector that is changed is found, by evaluation at least.
#[test]
fn a_wrong_port_vector_fails() {
    let dir = tempfile::tempdir().unwrap();
    copy(&golden().join("ops"), &dir.path().join("ops"), &RELU);
    let names = ["manifest.json", "relu_in.hex", "relu_out.hex"];
    copy(&golden().join("rtl"), &dir.path().join("rtl"), &names);
    let (code, _, _) = conform(&["--only", "rtl"], dir.path());
    assert_eq!(code, 0);
    let file = dir.path().join("rtl/relu_out.hex");
    let text = fs::read_to_string(&file).unwrap();
    let last = text.trim_end().chars().last().unwrap();
    let other = if last == '0' { "1\n" } else { "0\n" };
    fs::write(&file, format!("{}{other}", text.trim_end().strip_suffix(last).unwrap())).unwrap();
    let (code, out, _) = conform(&["--only", "rtl"], dir.path());
    assert_eq!(code, 1);
    assert!(out.contains("rtl/relu failed: sample 63 is"), "{out}");
}

#[test]
fn only_names_folders() {
    let dir = tempfile::tempdir().unwrap();
    let files = fs::read_dir(golden().join("quirks")).unwrap();
    let names: Vec<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    copy(&golden().join("quirks"), &dir.path().join("quirks"), &names);
    let (code, out, _) = conform(&["--only", "quirks,cmvm"], dir.path());
    let lines: Vec<&str> = out.lines().collect();
    // What is absent is not mentioned.
    let totals = "4 passed, 0 failed, 0 skipped";
    assert_eq!(
        (code, lines),
        (0, vec![&*format!("quirks: {totals}"), &*format!("total: {totals}")])
    );
    let (code, out, err) = conform(&["--only", "opps"], &golden());
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("did you mean \"ops\"?"), "{err}");
}

#[test]
fn other_folders_with_other_cases_run() {
    let dir = tempfile::tempdir().unwrap();
    copy(&golden().join("ops"), &dir.path().join("mine"), &RELU);
    copy(&golden(), dir.path(), &["README.md", "manifest.json"]);
    fs::create_dir(dir.path().join("models")).unwrap();
    let (code, out, _) = conform(&[], dir.path());
    let totals = "1 passed, 0 failed, 0 skipped";
    assert_eq!((code, out), (0, format!("mine: {totals}\ntotal: {totals}\n")));
}

#[test]
fn missing_and_wrong_pieces_fail() {
    for missing in RELU {
        let dir = tempfile::tempdir().unwrap();
        let ops = dir.path().join("ops");
        copy(&golden().join("ops"), &ops, &RELU);
        fs::remove_file(ops.join(missing)).unwrap();
        let (code, out, _) = conform(&[], dir.path());
        assert_eq!(code, 1, "without {missing}: {out}");
        assert!(out.contains("  ops/relu failed: "), "{out}");
        assert!(out.ends_with("total: 0 passed, 1 failed, 0 skipped\n"), "{out}");
    }
    let dir = tempfile::tempdir().unwrap();
    let ops = dir.path().join("ops");
    copy(&golden().join("ops"), &ops, &RELU);
    let mut outputs = fs::read(ops.join("relu_out.npy")).unwrap();
    let last = outputs.len() - 1;
    outputs[last] ^= 0x80;
    fs::write(ops.join("relu_out.npy"), outputs).unwrap();
    let (code, out, _) = conform(&[], dir.path());
    assert_eq!(code, 1);
    assert!(out.contains("sample 95, output 27 is"), "{out}");
}

#[test]
fn valid_files_are_not_invalid() {
    let dir = tempfile::tempdir().unwrap();
    copy(&golden().join("ops"), &dir.path().join("invalid"), &["relu.bin"]);
    fs::write(dir.path().join("invalid/expect.json"), r#"{"relu": {}, "gone": {}}"#).unwrap();
    let (code, out, _) = conform(&[], dir.path());
    assert_eq!(code, 1);
    assert!(out.contains("invalid: 0 passed, 2 failed, 0 skipped"), "{out}");
    assert!(out.contains("invalid/gone failed: the file is missing"), "{out}");
}

#[test]
fn matrices_that_are_none_fail() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("cmvm")).unwrap();
    fs::write(dir.path().join("cmvm/a.npy"), "").unwrap();
    let (code, out, _) = conform(&[], dir.path());
    assert_eq!(code, 1);
    assert!(out.contains("cmvm/a failed: a.npy: error[Q0204]"), "{out}");
}

#[test]
fn unreadable_folders_and_unknown_targets() {
    assert_eq!(conform(&[], Path::new("/nowhere")).0, 3);
    assert_eq!(conform(&["--models", "/nowhere"], &golden()).0, 3);
    assert_eq!(conform(&["--unknown"], &golden()).0, 2);
    let mut command = Command::new(env!("CARGO_BIN_EXE_quincunx-conform"));
    let output = command.args(["dias", "."]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn the_golden_cases_of_dpas_pass() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/dpas");
    let mut command = Command::new(env!("CARGO_BIN_EXE_quincunx-conform"));
    let output = command.arg("dpas").arg(dir).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("swsb_auto: 64 passed, 0 failed, 0 skipped\n  63 of 64 listings"),
        "{text}"
    );
    assert!(text.ends_with("total: 2902 passed, 0 failed, 0 skipped\n"), "{text}");
}

fn tcu_golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/tcu")
}

fn conform_tcu(dir: &Path) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quincunx-conform"));
    let output = command.arg("tcu").arg(dir).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

/// Upstream's programs, and our own of the same networks for the same machines.
#[test]
fn the_golden_cases_of_tcu_pass() {
    let (code, out) = conform_tcu(&tcu_golden());
    assert_eq!(code, 0, "{out}");
    let text = fs::read_to_string(tcu_golden().join("compiled_models.json")).unwrap();
    let cases: serde_json::Value = serde_json::from_str(&text).unwrap();
    let both = 2 * cases.as_array().unwrap().len();
    assert!(both > 80, "{both}");
    assert!(out.contains(&format!("compiled_models: {both} passed, 0 failed, 0 skipped")), "{out}");
}

/// Another output and fewer cycles than any program takes: both are noticed of our programs.
#[test]
fn wrong_numbers_and_more_cycles_of_tcu_fail() {
    let text = fs::read_to_string(tcu_golden().join("compiled_models.json")).unwrap();
    let cases: serde_json::Value = serde_json::from_str(&text).unwrap();
    let case = cases.as_array().unwrap().iter().find(|case| case["model"] == "t_relu").unwrap();
    let (mut output, mut cycles) = (case.clone(), case.clone());
    let hex = &mut output["outputs"][0]["hex"];
    let rest = hex.as_str().unwrap()[2..].to_owned();
    let first = if hex.as_str().unwrap().starts_with("00") { "01" } else { "00" };
    *hex = format!("{first}{rest}").into();
    cycles["aggregate_cycles"] = 1.into();
    for (case, reason) in [(output, "output"), (cycles, "more than upstream's 1")] {
        let dir = tempfile::tempdir().unwrap();
        copy(&tcu_golden().join("models"), &dir.path().join("models"), &["t_relu.onnx"]);
        let name = case["name"].as_str().unwrap().to_owned();
        let list = serde_json::Value::Array(vec![case]);
        fs::write(dir.path().join("compiled_models.json"), list.to_string()).unwrap();
        let (code, out) = conform_tcu(dir.path());
        assert_eq!(code, 1, "{out}");
        let line = format!("  compiled_models/{name} compiled here failed: ");
        let line = out.lines().find_map(|found| found.strip_prefix(&*line)).unwrap_or_default();
        assert!(line.contains(reason), "{out}");
    }
}
