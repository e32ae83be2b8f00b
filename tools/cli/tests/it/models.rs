//! Trained networks of others on the command line: every verb that takes a model answers for them.
//!
//! `tests/models/fetch.py` fetches the networks, `tests/models/expect.py --verbs` computes with
//! onnxruntime what they give for one seeded image each. The folder is `$QUINCUNX_MODELS`, or `models`
//! in the build folder of cargo.

use crate::support::{Run, within_memory};
use quincunx::tensor::{Tensors, npy};
use quincunx_testkit::{models, python};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Largest difference to onnxruntime, over the largest magnitude of the output.
const TOLERANCE: f64 = 1e-4;

/// The most memory that a verb may take, in KiB.
const MEMORY: &str = "2097152";

/// The networks, and how each is read.
const NETWORKS: [(&str, &[&str]); 5] = [
    ("320n", &[]),
    ("model", &[]),
    ("silero_vad", SPEECH),
    ("silero_vad_16k_op15", SPEECH),
    ("silero_vad_op18_ifless", SPEECH),
];

const SPEECH: &[&str] = &["--input-value", "sr=16000"];

/// What keeps logic of whole networks small enough for a test; without, it takes half a minute.
const SMALL: &[&str] = &["--max-operations", "100000", "--effort", "fast"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a script of `tests/models` that writes into a folder.
fn script(python: &str, arguments: &[&std::ffi::OsStr]) {
    let run = Command::new(python).args(arguments).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

/// The folder of a network's case.
fn case(folder: &Path, name: &str) -> PathBuf {
    let mut cases = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let of = |case: &PathBuf| case.file_name().unwrap().to_str().unwrap()[3..] == *name;
    cases.find(of).unwrap_or_else(|| panic!("no case of {name}"))
}

fn succeeds(arguments: &[&str]) -> Run {
    let run = within_memory(MEMORY, arguments);
    assert_eq!(run.code, 0, "{arguments:?}: {}", run.stderr);
    run
}

/// Every output within the tolerance of what was expected.
fn agree(found: &str, expected: &Path) {
    let read = |path: &Path| -> Tensors { npy::read_npz(fs::read(path).unwrap()).unwrap() };
    let found = read(Path::new(found));
    for (name, expected) in read(expected) {
        assert_eq!(found[&name].shape(), expected.shape(), "{name}");
        let (found, expected) = (found[&name].to_f64(), expected.to_f64());
        let largest = expected.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
        let apart = found.iter().zip(&expected).map(|(a, b)| (a - b).abs());
        assert!(
            apart.clone().all(|d| d <= TOLERANCE * largest),
            "{name}: {:?}",
            apart.reduce(f64::max)
        );
    }
}

#[test]
fn every_verb_answers_for_networks_of_others() {
    let place = tempfile::tempdir().unwrap();
    let cases = place.path().join("cases");
    let (Some(python), Some(models)) = (python("onnxruntime"), models()) else { return };
    let expect = root().join("tests/models/expect.py");
    script(&python, &[expect.as_ref(), "--verbs".as_ref(), models.as_ref(), cases.as_ref()]);
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    for (name, reading) in NETWORKS {
        let case = case(&cases, name);
        let model = fs::read_to_string(case.join("model.txt")).unwrap();
        let data = case.join("in.npz").to_str().unwrap().to_owned();
        let verb = |verb: &[&str], more: &[&str]| {
            succeeds(&[&verb[..1], &[&model], &verb[1..], reading, more].concat())
        };
        // Without a word about shapes there is an answer too, which says what is missing.
        let brief = succeeds(&["inspect", &model, "--table", "inputs"]);
        let whole = verb(&["inspect", "--data", &data], &[]);
        assert!(!whole.stderr.contains("Q0421"), "{name}: {}", whole.stderr);
        let brief = brief.stderr;
        assert!(brief.is_empty() || brief.contains("--input-shape"), "{brief}");
        let out = path("out.npz");
        verb(&["run", "--data", &data, "--output", &out], &[]);
        agree(&out, &case.join("out.npz"));
        verb(&["quantise", "--calibrate", &data, "-o", &path("q.onnx")], &[]);
        verb(&["compare", "-t", "tcu", "--data", &data], &[]);
        for (target, more) in [("tcu", &[][..]), ("dais", SMALL)] {
            // The folder of the network before is replaced.
            verb(&["compile", "-t", target, "--calibrate", &data, "-o", &path(target)], more);
        }
    }
}

#[test]
fn every_export_of_scikit_learn_is_read() {
    let place = tempfile::tempdir().unwrap();
    let Some(python) = python("onnxruntime, skl2onnx, sklearn") else { return };
    script(&python, &[root().join("tests/models/scikit.py").as_ref(), place.path().as_ref()]);
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let data = path("data.npz");
    let mut models = 0;
    for entry in fs::read_dir(place.path()).unwrap() {
        let model = entry.unwrap().path();
        if model.extension().is_none_or(|extension| extension != "onnx") {
            continue;
        }
        let expected = model.with_extension("npz").to_str().unwrap().to_owned();
        let model = model.to_str().unwrap();
        let look = succeeds(&["inspect", model]);
        assert!(!look.stderr.contains("Q0421"), "{model}: {}", look.stderr);
        succeeds(&["run", model, "--data", &data, "--compare", &expected]);
        succeeds(&["compile", model, "-t", "tcu", "-o", &path("tcu")]);
        models += 1;
    }
    assert_eq!(models, 10);
    for model in ["mlp", "forest"] {
        let model = path(&format!("{model}.onnx"));
        succeeds(&["compile", &model, "-t", "dais", "--calibrate", &data, "-o", &path("dais")]);
    }
}
