//! Trained networks that people use compute what onnxruntime computes.
//!
//! `tests/models/fetch.py` fetches the networks, `tests/models/expect.py` runs them on seeded inputs. Every
//! case is read with the shapes of its inputs. The folder is `$QUINCUNX_MODELS`, or `models` in the build
//! folder of cargo.

use quincunx_graph::execute::{Keep, Session, Settings, float};
use quincunx_import::{Options, read_onnx};
use quincunx_tensor::{Tensor, Tensors, npy};
use quincunx_testkit::{models, python};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Largest difference to onnxruntime, over the largest magnitude of the output.
const TOLERANCE: f64 = 1e-4;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs onnxruntime on every case; `None` (visibly) when it or the models are not there.
fn expect(out: &Path) -> Option<()> {
    let (python, models) = (python("onnxruntime")?, models()?);
    let script = root().join("tests/models/expect.py");
    let output = Command::new(python).arg(script).arg(models).arg(out).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(())
}

fn read(path: &Path) -> Tensors {
    npy::read_npz(fs::read(path).unwrap())
        .unwrap_or_else(|problem| panic!("{}: {problem}", path.display()))
}

/// Largest difference over the largest magnitude; why there is none otherwise.
fn difference(found: &Tensor, expected: &Tensor) -> Result<f64, String> {
    if (found.dtype(), found.shape()) != (expected.dtype(), expected.shape()) {
        return Err(format!(
            "{}{:?}, expected {}{:?}",
            found.dtype(),
            found.shape(),
            expected.dtype(),
            expected.shape()
        ));
    }
    let (found, expected) = (found.to_f64(), expected.to_f64());
    if found.iter().chain(&expected).any(|v| !v.is_finite()) {
        return Err("not finite".to_owned());
    }
    let top = |values: &[f64]| values.iter().fold(0.0, |top: f64, v| top.max(v.abs()));
    let differences: Vec<f64> = found.iter().zip(&expected).map(|(a, b)| a - b).collect();
    Ok(top(&differences) / top(&expected).max(f64::MIN_POSITIVE))
}

/// The largest difference of a case, in the reference executor and in prepared execution.
fn run(case: &Path) -> Result<f64, String> {
    let model = PathBuf::from(fs::read_to_string(case.join("model.txt")).unwrap());
    let (inputs, expected) = (read(&case.join("in.npz")), read(&case.join("out.npz")));
    let shapes = inputs.iter().map(|(name, tensor)| (name.clone(), tensor.shape().to_vec()));
    let options = Options { input_shapes: shapes.collect(), ..Options::beside(&model) };
    let show =
        |problems: Vec<_>| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let graph = read_onnx(fs::read(&model).unwrap().into(), &options).map_err(show)?;
    let problems = graph.verify();
    if !problems.is_empty() {
        return Err(show(problems));
    }
    let reference = float(&graph, &inputs, Keep::Outputs);
    let prepared = Session::new(&graph, Settings::default()).and_then(|s| s.run(&inputs));
    let mut worst = 0.0_f64;
    for found in [reference, prepared] {
        let found = found.map_err(|problem| problem.to_string())?;
        for (name, expected) in &expected {
            let found = found.get(name).ok_or_else(|| format!("output \"{name}\" is absent"))?;
            let difference = difference(found, expected);
            worst = worst.max(difference.map_err(|why| format!("output \"{name}\": {why}"))?);
        }
    }
    Ok(worst)
}

#[test]
#[expect(clippy::print_stderr, reason = "the differences are the result of this test")]
fn real_models() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = expect(folder.path()) else { return };
    let mut cases: Vec<PathBuf> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    assert!(cases.len() >= 38, "{} cases", cases.len());
    let mut failed = Vec::new();
    for case in &cases {
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        let start = std::time::Instant::now();
        match run(case) {
            Ok(worst) if worst <= TOLERANCE => {
                eprintln!("{name}: {worst:.1e} in {:.1?}", start.elapsed())
            }
            Ok(worst) => failed.push(format!("{name}: difference {worst:.1e}")),
            Err(why) => failed.push(format!("{name}: {why}")),
        }
    }
    assert!(failed.is_empty(), "{} of {} cases:\n{}", failed.len(), cases.len(), failed.join("\n"));
}
