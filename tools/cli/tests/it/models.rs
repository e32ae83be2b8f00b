//! Trained networks of others on the command line: every verb that takes a model answers for them.
//!
//! `tests/models/fetch.py` fetches the networks, `tests/models/expect.py --verbs` computes with
//! onnxruntime what they give for one seeded image each. The folder is `$QUINCUNX_MODELS`, or `models`
//! in the build folder of cargo.

use crate::support::{Run, quincunx};
use quincunx::tensor::{Tensors, npy};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Largest difference to onnxruntime, over the largest magnitude of the output.
const TOLERANCE: f64 = 1e-4;

/// A network, how it is read, and which part of it verbs take whose answer for all of it takes long or
/// is no (with the reason).
struct Network {
    name: &'static str,
    options: &'static [&'static str],
    /// Of the numbers behind it quantisation cannot hold the infinity that nothing reaches.
    quantised: &'static [&'static str],
    /// Behind it squares leave the type of tcu.
    compared: &'static [&'static str],
    /// What is small enough to become logic in seconds.
    logic: &'static [&'static str],
}

const SPEECH: &[&str] = &["--input-value", "sr=16000"];

const NETWORKS: [Network; 5] = [
    Network {
        name: "320n",
        options: &[],
        quantised: &[],
        compared: &[],
        logic: &["--outputs", "/model.0/conv/Conv_output_0"],
    },
    Network {
        name: "model",
        options: &[],
        quantised: &["--outputs", "jax2tf_get_logits_/pjit_get_logits_/MagikaV2/Dense_1/AddV2:0"],
        compared: &["--outputs", "jax2tf_get_logits_/pjit_get_logits_/MagikaV2/Reshape:0"],
        logic: &[],
    },
    Network { name: "silero_vad", options: SPEECH, quantised: &[], compared: &[], logic: &[] },
    Network {
        name: "silero_vad_16k_op15",
        options: SPEECH,
        quantised: &[],
        compared: &[],
        logic: &[],
    },
    Network {
        name: "silero_vad_op18_ifless",
        options: SPEECH,
        quantised: &[],
        compared: &[],
        logic: &[],
    },
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The Python with these modules; `None` (visibly) when it is not there.
#[expect(clippy::print_stderr, reason = "a skipped test must be seen")]
fn python(modules: &str) -> Option<String> {
    let python = std::env::var("QUINCUNX_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let works = Command::new(&python).args(["-c", &format!("import {modules}")]).output();
    if works.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    let required = std::env::var("QUINCUNX_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
    assert!(!required, "{python} with {modules} is required");
    eprintln!("skipped: {python} with {modules} not found");
    None
}

/// The folder with the models; `None` (visibly) when it is not there.
#[expect(clippy::print_stderr, reason = "a skipped test must be seen")]
fn models() -> Option<PathBuf> {
    let build = std::env::var_os("CARGO_TARGET_DIR");
    let build = build.map_or_else(|| root().join("target"), PathBuf::from);
    let models = std::env::var_os("QUINCUNX_MODELS");
    let models = models.map_or_else(|| build.join("models"), PathBuf::from);
    if models.is_dir() {
        return Some(models);
    }
    let required = std::env::var("QUINCUNX_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
    assert!(!required, "the models that tests/models/fetch.py fetches are required");
    eprintln!("skipped: the models that tests/models/fetch.py fetches are not there");
    None
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
    let run = quincunx(arguments);
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
    for network in &NETWORKS {
        let case = case(&cases, network.name);
        let model = fs::read_to_string(case.join("model.txt")).unwrap();
        let data = case.join("in.npz").to_str().unwrap().to_owned();
        let verb = |verb: &[&str], more: &[&str]| {
            succeeds(&[&verb[..1], &[&model], &verb[1..], network.options, more].concat())
        };
        // Without a word about shapes there is an answer too, which says what is missing.
        let brief = succeeds(&["inspect", &model, "--table", "inputs"]);
        let whole = verb(&["inspect", "--data", &data], &[]);
        assert!(!whole.stderr.contains("Q0421"), "{}: {}", network.name, whole.stderr);
        assert!(
            brief.stderr.is_empty() || brief.stderr.contains("--input-shape"),
            "{}",
            brief.stderr
        );
        let out = path("out.npz");
        verb(&["run", "--data", &data, "--output", &out], &[]);
        agree(&out, &case.join("out.npz"));
        verb(&["quantise", "--calibrate", &data, "-o", &path("q.onnx")], network.quantised);
        verb(&["compile", "-t", "tcu", "--calibrate", &data, "-o", &path("tcu")], &[]);
        verb(&["compare", "-t", "tcu", "--data", &data], network.compared);
        if !network.logic.is_empty() {
            verb(
                &["compile", "-t", "dais", "--calibrate", &data, "-o", &path("dais")],
                network.logic,
            );
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
