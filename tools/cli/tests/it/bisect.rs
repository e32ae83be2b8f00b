//! `run --bisect`: planted bugs of both kinds on every machine.

use crate::support::{Run, digits, quincunx};
use quincunx::target::File;
use quincunx::target::folder::Folder;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const MACHINES: [&str; 5] = ["dais", "scamp", "dpas", "tcu", "npu"];

fn compiled(place: &Path, target: &str) -> PathBuf {
    let out = place.join("p");
    let mut line =
        vec!["compile", "MODEL", "-t", target, "-o", out.to_str().unwrap(), "--calibrate", "CALIB"];
    let (model, calib) = (digits("digits.onnx"), digits("calib.npz"));
    (line[1], line[7]) = (&model, &calib);
    if target == "scamp" {
        line.extend(["--effort", "fast"]);
    }
    let run = quincunx(&line);
    assert_eq!(run.code, 0, "{target}: {}", run.stderr);
    out
}

fn bisect(program: &Path, model: &str) -> Run {
    let (program, data) = (program.to_str().unwrap(), digits("test.npz"));
    let calib = digits("calib.npz");
    quincunx(&[
        "run",
        program,
        "--bisect",
        "--model",
        model,
        "-d",
        &data,
        "--images",
        "4",
        "--calibrate",
        &calib,
        "--format",
        "json",
    ])
}

fn layers(run: &Run) -> Vec<Value> {
    let report: Value = serde_json::from_slice(&run.stdout).unwrap();
    report["layers"].as_array().unwrap().clone()
}

/// The model with another weight in its first convolution.
fn other_model(place: &Path) -> String {
    let model = fs::read(digits("digits.onnx")).unwrap();
    let name = b"conv1.w";
    // The numbers of an initializer stand before or behind its name; they are the only 144 bytes in a
    // field 9 of this length.
    let raw = model.windows(3).position(|bytes| bytes == [0x4a, 0x90, 0x01]).unwrap() + 3;
    assert!(model.windows(name.len()).any(|bytes| bytes == name));
    let mut other = model;
    // The tap in the middle of the first channel.
    other[raw + 16..raw + 20].copy_from_slice(&2.0_f32.to_le_bytes());
    let path = place.join("other.onnx");
    fs::write(&path, other).unwrap();
    path.to_str().unwrap().to_owned()
}

/// What was compiled has another weight than the model: the machine does what its compiler said, and
/// the first value behind the weight leaves the model. No value behind that one is accused.
#[test]
fn a_wrong_weight_is_found_where_it_is_used() {
    for target in MACHINES {
        let place = tempfile::tempdir().unwrap();
        let program = compiled(place.path(), target);
        let sound = bisect(&program, &digits("digits.onnx"));
        assert_eq!(sound.code, 0, "{target}: {}", sound.stderr);
        assert!(layers(&sound).iter().all(|layer| layer["result"] == "explained"), "{target}");
        let found = layers(&sound).len();
        assert!(found >= if target == "scamp" { 1 } else { 5 }, "{target}: {found}");

        // Grids come from the ranges that the program keeps; the model gives the numbers.
        let run = bisect(&program, &other_model(place.path()));
        assert_eq!(run.code, 1, "{target}: {}", run.stderr);
        assert!(run.stderr.contains("Q0629"), "{target}: {}", run.stderr);
        let wrong: Vec<String> = layers(&run)
            .iter()
            .filter(|layer| layer["result"] == "leaves the model")
            .map(|layer| layer["value"].as_str().unwrap().to_owned())
            .collect();
        assert!(!wrong.is_empty() && wrong.len() <= 2, "{target}: {wrong:?}");
        let first = ["conv1_out", "relu1_out", "relu1_out_quantised", "pool1_out"];
        assert!(first.contains(&&*wrong[0]), "{target}: {wrong:?}");
    }
}

/// Damages what a machine executes, in a folder that says it is whole.
fn plant(program: &Path, target: &str) {
    let (ending, change): (&str, fn(&mut Vec<u8>)) = match target {
        "dais" => (".dasm", |text| replace(text, " = add ", " = sub ")),
        "scamp" => (".scamp", |text| replace(text, "north", "south")),
        "dpas" => (".bin", |data| {
            let middle = data.len() / 2;
            flip(&mut data[middle..middle + 64]);
        }),
        "tcu" => (".tdata", |data| flip(&mut data[32..40])),
        _ => (".dram.bin", |data| flip(&mut data[..8])),
    };
    let mut folder = Folder::read(program).unwrap();
    let mut files = folder.segments.iter_mut().flat_map(|segment| &mut segment.files);
    let file = files.find(|file| file.name.ends_with(ending)).unwrap();
    let mut bytes = file.bytes.to_vec();
    change(&mut bytes);
    *file = File::new(file.name.clone(), bytes);
    for (path, bytes) in folder.contents().unwrap() {
        fs::write(program.join(path), bytes).unwrap();
    }
}

fn replace(text: &mut Vec<u8>, from: &str, to: &str) {
    let before = String::from_utf8(std::mem::take(text)).unwrap();
    let at = before.match_indices(from).map(|(at, _)| at).nth(1).unwrap();
    *text = format!("{}{to}{}", &before[..at], &before[at + from.len()..]).into_bytes();
}

fn flip(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte ^= 0x55);
}

/// The program was damaged: the first wrong number of the first wrong layer is told with the
/// instruction that wrote it and what that one read.
#[test]
fn a_wrong_instruction_or_its_data_is_told_with_operands() {
    for target in MACHINES {
        let place = tempfile::tempdir().unwrap();
        let program = compiled(place.path(), target);
        plant(&program, target);
        let run = bisect(&program, &digits("digits.onnx"));
        assert_eq!(run.code, 1, "{target}: {}", run.stderr);
        assert!(run.stderr.contains("Q0620") && run.stderr.contains("wrote it"), "{}", run.stderr);
        let report: Value = serde_json::from_slice(&run.stdout).unwrap();
        let origin = report["origin"].as_array().unwrap();
        let rows = |what: &str| origin.iter().filter(|row| row["what"] == what).count();
        assert_eq!((rows("instruction"), rows("wrote")), (1, 1), "{target}: {origin:?}");
        assert!(rows("read") >= 1, "{target}: {origin:?}");
        let filled = |row: &Value| row["place"] != "" && row["value"] != "";
        assert!(origin.iter().all(filled), "{target}: {origin:?}");
        let differs = layers(&run).iter().filter(|layer| layer["golden"] == "differs").count();
        assert!(differs >= 1, "{target}");
    }
}

#[test]
fn what_is_missing_or_has_no_effect_is_said() {
    let (model, data) = (digits("digits.onnx"), digits("test.npz"));
    for (line, code) in [
        (vec!["run", &model, "-d", &data, "--bisect"], "Q0720"),
        (vec!["run", &model, "-d", &data, "--bisect", "-t", "tcu", "--model", &model], "Q0708"),
    ] {
        let run = quincunx(&line);
        assert_eq!(run.code, 2, "{line:?}: {}", run.stderr);
        assert!(run.stderr.contains(code), "{line:?}: {}", run.stderr);
    }
    let run = quincunx(&["run", &model, "-d", &data, "--model", &model]);
    assert_eq!(run.code, 2, "{}", run.stderr);
}
