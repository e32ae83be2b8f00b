//! The digits network as da4ml and alkaid compute it, from the JSON that we write: what the
//! example's reference computed, which no part of Quincunx did.

use crate::support::{digits, quincunx};
use quincunx_testkit::python;
use std::fs;
use std::path::Path;
use std::process::Command;

/// One array of a file as rows.
fn copy(from: &str, name: &str, columns: usize, to: &Path) {
    use quincunx::tensor::{Tensor, npy};
    let numbers = npy::read_npz(fs::read(digits(from)).unwrap()).unwrap()[name].to_f64();
    let rows = Tensor::from_vec(&[numbers.len() / columns, columns], numbers).unwrap();
    fs::write(to, npy::write_npy(&rows)).unwrap();
}

#[test]
fn digits_in_da4ml_and_alkaid() {
    let Some(python) = python("da4ml.types, alkaid.types, numpy") else { return };
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let model = digits("digits_pow2.onnx");
    for (dialect, kind, file) in [
        ("d1", "json", "digits.da4ml.json"),
        ("a4", "json", "digits.alkaid.json"),
        ("a4", "gz", "digits.alkaid.json.gz"),
    ] {
        let emit = format!("{kind}={}", path(file).display());
        let to = format!("to={dialect}");
        let run = quincunx(&["compile", &model, "-t", "dais", "--set", &to, "--emit", &emit]);
        assert_eq!(run.code, 0, "{}", run.stderr);
    }
    copy("test.npz", "image", 64, &path("digits_in.npy"));
    copy("expected.npz", "logits_pow2", 10, &path("digits_out.npy"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers/predict.py");
    let output = Command::new(python).arg(script).arg(place.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert_eq!(text.trim_end(), ".da4ml.json=1 .alkaid.json=1 .alkaid.json.gz=1 .pipeline.json=0");
}
