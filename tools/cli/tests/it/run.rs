//! `run`: models without a machine, several inputs, selections, traces and references.

use crate::support::{Run, compiled, digits, file, quincunx};
use quincunx::graph::{Binary, Graph, Op, Unary};
use quincunx::import::{ExportOptions, write_onnx};
use quincunx::tensor::{DType, Tensor, Tensors, npy};
use serde_json::Value;
use std::path::Path;

fn json(run: &Run) -> Value {
    serde_json::from_slice(&run.stdout).unwrap()
}

fn arrays(path: &str) -> Tensors {
    npy::read_file(Path::new(path)).unwrap()
}

fn npz(place: &Path, name: &str, arrays: &[(&str, Tensor)]) -> String {
    let arrays = arrays.iter().map(|(name, array)| ((*name).to_owned(), array.clone())).collect();
    file(place, name, &npy::write_npz(&arrays).unwrap())
}

fn f32s(shape: &[usize], values: &[f32]) -> Tensor {
    Tensor::from_vec(shape, values.to_vec()).unwrap()
}

/// `sum = a + b`, `y = relu(sum)`, `c = -a`; with two inputs and two outputs.
fn two_inputs(place: &Path) -> String {
    let mut graph = Graph::new("two");
    let a = graph.add_input("a", DType::F32, &[1, 3], &[]).unwrap();
    let b = graph.add_input("b", DType::F32, &[1, 3], &[]).unwrap();
    let add = Op::Binary(Binary::Add);
    let sum = graph.add_node("add", add, &[Some(a), Some(b)], "sum").unwrap();
    let y = graph.add_node("relu", Op::Unary(Unary::Relu), &[Some(sum)], "y").unwrap();
    let c = graph.add_node("neg", Op::Unary(Unary::Neg), &[Some(a)], "c").unwrap();
    graph.add_output(y);
    graph.add_output(c);
    let bytes = write_onnx(&graph, &ExportOptions::default()).unwrap();
    file(place, "two.onnx", &bytes)
}

fn two_inputs_data(place: &Path) -> String {
    let a = f32s(&[2, 3], &[1.0, -2.0, 3.0, 0.5, 0.0, -1.0]);
    let b = f32s(&[2, 3], &[1.0, 1.0, -4.0, 0.25, 0.0, 3.0]);
    npz(place, "two.npz", &[("a", a), ("b", b)])
}

#[test]
fn a_model_without_a_target_runs_on_the_reference_executor() {
    let place = tempfile::tempdir().unwrap();
    let (model, data) = (two_inputs(place.path()), two_inputs_data(place.path()));
    let run = quincunx(&["run", &model, "--data", &data, "--format", "json"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let rows = json(&run)["rows"].as_array().unwrap().clone();
    let values: Vec<&Value> = rows.iter().map(|row| &row["values"]).collect();
    let expected = serde_json::json!([
        [-1.0, 2.0, -3.0],
        [2.0, 0.0, 0.0],
        [-0.5, -0.0, 1.0],
        [0.75, 0.0, 2.0]
    ]);
    assert_eq!(serde_json::json!(values), expected);
    assert_eq!((&rows[0]["output"], &rows[3]["image"]), (&"c".into(), &1.into()));
    // The trace has every value of the graph, also its inputs.
    let trace = place.path().join("trace.npz").to_str().unwrap().to_owned();
    let run = quincunx(&["run", &model, "--data", &data, "--trace-layers", &trace]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    // Members stand in the order of computation; the names are not compressed.
    let bytes = std::fs::read(&trace).unwrap();
    let place_of = |name: &str| bytes.windows(name.len()).position(|part| part == name.as_bytes());
    let places =
        ["a.npy", "b.npy", "sum.npy", "y.npy", "c.npy"].map(|name| place_of(name).unwrap());
    assert!(places.is_sorted(), "{places:?}");
    let trace = arrays(&trace);
    assert_eq!(trace.keys().collect::<Vec<_>>(), ["a", "b", "c", "sum", "y"]);
    assert_eq!(trace["sum"].to_f64(), [2.0, -1.0, -1.0, 0.75, 0.0, 2.0]);
}

/// A kernel of the scamp ecosystem is a network.
#[test]
fn models_of_the_ecosystems_run_too() {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/scamp/cain_inputs");
    let kernel = format!("{golden}/gauss3.json");
    for target in [&[][..], &["--target", "tcu"]] {
        let arguments = [&["run", &kernel, "-d", "ones", "--format", "json"], target].concat();
        let run = quincunx(&arguments);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let row = &json(&run)["rows"][0];
        // The weights add up to 1, and a corner sees 9 of their 16 parts.
        assert_eq!(
            (&row["output"], &row["shape"]),
            (&"filtered".into(), &"[1, 1, 256, 256]".into())
        );
        assert_eq!((&row["values"][0], &row["values"][257]), (&0.5625.into(), &1.0.into()));
    }
}

#[test]
fn a_machine_takes_several_inputs_too() {
    let place = tempfile::tempdir().unwrap();
    let (model, data) = (two_inputs(place.path()), two_inputs_data(place.path()));
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let (out, expected, calib) = (path("out"), path("expected.npz"), path("c.npz"));
    let ends = || f32s(&[2, 3], &[-4.0, -4.0, -4.0, 4.0, 4.0, 4.0]);
    npz(place.path(), "c.npz", &[("a", ends()), ("b", ends())]);
    let run = quincunx(&["compile", &model, "-t", "dais", "--calibrate", &calib, "-o", &out]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(quincunx(&["run", &model, "--data", &data, "-o", &expected]).code, 0);
    let more = ["--compare", &expected, "--tolerance", "0.05", "--format", "json"];
    let run = quincunx(&[&["run", &out, "--data", &data][..], &more].concat());
    assert_eq!(run.code, 0, "{}{}", run.text(), run.stderr);
    assert_eq!(json(&run)["rows"].as_array().unwrap().len(), 2);
    let run =
        quincunx(&["verify", &out, "--model", &model, "--calibrate", &calib, "--data", &data]);
    assert_eq!(run.code, 0, "{}", run.stderr);
}

#[test]
fn inputs_are_keys_of_the_data_and_each_must_be_there() {
    let place = tempfile::tempdir().unwrap();
    let model = two_inputs(place.path());
    let data = npz(place.path(), "d.npz", &[("a", f32s(&[1, 3], &[0.0; 3]))]);
    let run = quincunx(&["run", &model, "--data", &data]);
    assert_eq!(run.code, 3);
    assert!(run.stderr.contains("there is no array \"b\""), "{}", run.stderr);
    let uneven = [("a", f32s(&[1, 3], &[0.0; 3])), ("b", f32s(&[2, 3], &[0.0; 6]))];
    let run = quincunx(&["run", &model, "--data", &npz(place.path(), "d.npz", &uneven)]);
    assert!(run.code == 3 && run.stderr.contains("images"), "{}", run.stderr);
}

#[test]
fn json_and_csv_have_all_values_and_text_the_first_ten() {
    let place = tempfile::tempdir().unwrap();
    let mut graph = Graph::new("wide");
    let x = graph.add_input("x", DType::F32, &[1, 25], &[]).unwrap();
    let y = graph.add_node("relu", Op::Unary(Unary::Relu), &[Some(x)], "y").unwrap();
    graph.add_output(y);
    let bytes = write_onnx(&graph, &ExportOptions::default()).unwrap();
    let model = file(place.path(), "wide.onnx", &bytes);
    let run = |format| quincunx(&["run", &model, "--data", "ones", "--format", format]);
    assert_eq!(json(&run("json"))["rows"][0]["values"].as_array().unwrap().len(), 25);
    assert_eq!(run("csv").text().matches(" 1").count(), 24);
    assert!(run("text").text().ends_with("1 1 1 1 1 1 1 1 1 1 …\n"));
}

#[test]
fn images_are_selected_from_files_and_made_up() {
    let (model, data) = (digits("digits.onnx"), digits("test.npz"));
    let rows = |data: &str, images: &str| {
        let run = quincunx(&["run", &model, "-d", data, "--images", images, "--format", "json"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let rows = json(&run)["rows"].as_array().unwrap().clone();
        rows.into_iter().map(|row| row["values"].clone()).collect::<Vec<_>>()
    };
    let first = rows(&data, "5");
    assert_eq!(first.len(), 5);
    assert_eq!(rows(&data, "2..4"), first[2..4]);
    let run = quincunx(&["run", &model, "-d", &data, "--images", "2..4", "--format", "csv"]);
    assert!(run.text().lines().nth(1).unwrap().starts_with("2,logits"), "{}", run.text());
    assert_eq!(rows("random:3", "1..3"), rows("random:3", "3")[1..]);
    for (images, code) in [("361", 2), ("0", 2), ("4..2", 2), ("x", 2)] {
        let run = quincunx(&["run", &model, "--data", &data, "--images", images]);
        assert_eq!((run.code, run.stdout.len()), (code, 0), "{images}: {}", run.stderr);
    }
    let run = quincunx(&["compare", &model, "-d", &data, "--images", "7..9", "--format", "json"]);
    assert_eq!(json(&run)["rows"][0]["images"], 2, "{}", run.stderr);
}

#[test]
fn the_reference_executor_agrees_with_onnxruntime_on_every_layer() {
    let (model, data) = (digits("digits.onnx"), digits("test.npz"));
    let layers = digits("layers.npz");
    let run = quincunx(&[
        "run",
        &model,
        "--data",
        &data,
        "--images",
        "8",
        "--compare",
        &layers,
        "--format",
        "json",
    ]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let rows = json(&run)["rows"].as_array().unwrap().clone();
    assert_eq!(rows.len(), arrays(&layers).len());
    assert!(rows.iter().all(|row| row["status"] == "same" && row["mismatches"] == 0));
    // In the order of computation, not of names.
    assert_eq!((&rows[0]["value"], &rows[13]["value"]), (&"conv1_out".into(), &"logits".into()));
    assert_eq!((&rows[13]["top1"], &rows[0]["top1"]), (&1.0.into(), &Value::Null));
}

#[test]
fn the_first_layer_that_differs_is_named_in_the_order_of_computation() {
    let place = tempfile::tempdir().unwrap();
    let out = compiled(place.path());
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let (trace, outputs, data) = (path("trace.npz"), path("o.npz"), digits("test.npz"));
    let selected = ["--data", &data, "--images", "3"];
    let files = ["--trace-layers", &trace, "-o", &outputs];
    let run = quincunx(&[&["run", &out][..], &selected, &files].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let compare = |reference: &str, more: &[&str]| {
        quincunx(&[&["run", &out][..], &selected, &["--compare", reference], more].concat())
    };
    let run = compare(&trace, &[]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.text());
    assert!(run.text().contains("exact"));
    // Outputs of the machine too are compared exactly, where no layer is.
    let mut changed = arrays(&outputs);
    let mut logits = changed["logits"].to_f64();
    logits[0] += 1e-6;
    let shape = changed["logits"].shape().to_vec();
    changed.insert("logits".to_owned(), Tensor::from_vec(&shape, logits).unwrap());
    let near = file(place.path(), "near.npz", &npy::write_npz(&changed).unwrap());
    assert_eq!((compare(&outputs, &[]).code, compare(&near, &[]).code), (0, 1));
    // `add3_out` comes before `relu1_out` by name only.
    let mut changed = arrays(&trace);
    for name in ["relu1_out", "add3_out"] {
        let mut values = changed[name].to_f64();
        values[5] += 0.125;
        let shape = changed[name].shape().to_vec();
        changed.insert(name.to_owned(), Tensor::from_vec(&shape, values).unwrap());
    }
    let changed = file(place.path(), "c.npz", &npy::write_npz(&changed).unwrap());
    let run = compare(&changed, &[]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("2 of "), "{}", run.stderr);
    assert!(run.stderr.contains("first \"relu1_out\": element [0, 0, 0, 5] is"), "{}", run.stderr);
    assert_eq!(compare(&changed, &["--tolerance", "0.125"]).code, 0);
    assert_eq!(compare(&changed, &["--tolerance", "0.1"]).code, 1);
    // `diff` finds the same place when it knows the order.
    let model = digits("digits.onnx");
    let run = quincunx(&["diff", &trace, &changed, "--order", &out, "--format", "json"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    let rows = json(&run)["rows"].as_array().unwrap().clone();
    let first = rows.iter().find(|row| row["status"] == "differs").unwrap();
    assert_eq!((&first["array"], &first["first"]), (&"relu1_out".into(), &"[0, 0, 0, 5]".into()));
    assert_eq!(quincunx(&["diff", &trace, &trace, "--order", &model]).code, 0);
}

#[test]
fn names_and_shapes_of_a_reference_are_checked() {
    let place = tempfile::tempdir().unwrap();
    let (model, data) = (two_inputs(place.path()), two_inputs_data(place.path()));
    let compare = |arrays: &[(&str, Tensor)]| {
        let reference = npz(place.path(), "r.npz", arrays);
        quincunx(&["run", &model, "--data", &data, "--compare", &reference])
    };
    let y = f32s(&[2, 3], &[2.0, 0.0, 0.0, 0.75, 0.0, 2.0]);
    let run = compare(&[("y", y.clone()), ("summ", y.clone())]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("did you mean \"sum\"?"), "{}", run.stderr);
    assert!(run.stderr.contains("no array for the output \"c\""), "{}", run.stderr);
    assert!(run.text().contains("100.00 %"));
    let run = compare(&[("y", f32s(&[1, 3], &[0.0; 3]))]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("it is f32[2, 3], expected f32[1, 3]"), "{}", run.stderr);
    let run = compare(&[("yy", y.clone())]);
    assert_eq!((run.code, run.stdout.len()), (3, 0));
    assert!(run.stderr.contains("Q0634"), "{}", run.stderr);
    let mut wrong = y.to_f64();
    wrong[2] = 5.0;
    let run = compare(&[("y", Tensor::from_vec(&[2, 3], wrong).unwrap())]);
    assert!(run.code == 1 && run.text().contains("50.00 %"), "{}", run.text());
    let usage = quincunx(&["run", &model, "--data", &data, "--tolerance", "1"]);
    assert_eq!(usage.code, 2);
}

#[test]
fn options_without_effect_are_wrong_usage() {
    let place = tempfile::tempdir().unwrap();
    let out = compiled(place.path());
    let native = format!("{out}/device0/program.dasm");
    let (model, data) = (digits("digits.onnx"), digits("test.npz"));
    for (arguments, option) in [
        (&["verify", &out, "--arch", "seed"][..], "--arch"),
        (&["verify", &out, "--images", "2"], "--images"),
        (&["verify", &out, "--no-fold-batch-norm"], "--no-fold-batch-norm"),
        (&["run", &out, "-d", "zeros", "--arch", "seed"], "--arch"),
        (&["run", &out, "-d", "zeros", "--strict"], "--strict"),
        (&["run", &out, "-d", "zeros", "--calibrate", &data], "--calibrate"),
        (&["run", &out, "-d", "zeros", "--no-fold-batch-norm"], "--no-fold-batch-norm"),
        (&["run", &native, "-d", "zeros", "--strict"], "--strict"),
        (&["run", &model, "-d", "zeros", "--strict"], "--strict"),
        (&["run", &model, "-d", "zeros", "--set", "dialect=d1"], "--set"),
        (&["run", &model, "-d", "zeros", "--strict-overflow"], "--strict-overflow"),
        (&["run", &model, "-t", "dais", "-d", "zeros", "--lenient"], "--lenient"),
        (&["inspect", &model, "--set", "dialect=d1"], "--set"),
        (&["inspect", &model, "--arch", "seed"], "--arch"),
        (&["inspect", &out, "--arch", "seed"], "--arch"),
        (&["compare", &model, "-d", &data, "--arch", "seed"], "--arch"),
        (&["compare", &model, "-d", &data, "-t", "tcu", "--set", "dais:dialect=d1"], "dais"),
        (&["compare", &model, "-d", &data, "-t", "dais,tcu", "--set", "nothing=1"], "nothing"),
    ] {
        let run = quincunx(arguments);
        assert_eq!((run.code, run.stdout.len()), (2, 0), "{arguments:?}: {}", run.stderr);
        assert!(run.stderr.contains(option), "{arguments:?}: {}", run.stderr);
    }
    // Where they have one, they work.
    for arguments in [
        &["inspect", &native, "--set", "dialect=d1"][..],
        &["verify", &out, "--target", "dais"],
        &["run", &model, "-t", "dais", "-d", "zeros", "--strict", "--arch", "wide"],
        &["compare", &model, "-d", "zeros", "-t", "dais", "--arch", "wide", "--set", "dialect=d1"],
        &["compare", &model, "-d", "zeros", "-t", "dais,tcu", "--set", "dialect=d1"],
        &["compare", &model, "-d", "zeros", "-t", "tcu,npu", "--set", "tcu:rounding=free"],
    ] {
        let run = quincunx(arguments);
        assert_eq!(run.code, 0, "{arguments:?}: {}", run.stderr);
    }
}

#[test]
fn overflow_is_kept_or_a_fault() {
    let place = tempfile::tempdir().unwrap();
    let text = ".dais\n.inputs 1\n%0 = input 0 : (1, 3, 0)\n%1 = add %0, %0 : (1, 3, 0)\nout %1\n";
    let program = file(place.path(), "o.dasm", text.as_bytes());
    let data = npz(place.path(), "d.npz", &[("in", f32s(&[2, 1], &[3.0, 7.0]))]);
    let run = quincunx(&["run", &program, "--data", &data, "--format", "csv"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.text().ends_with(",14\n"), "{}", run.text());
    let run = quincunx(&["run", &program, "--data", &data, "--strict-overflow"]);
    assert_eq!((run.code, run.stdout.len()), (1, 0));
    assert!(run.stderr.contains("Q1105") && run.stderr.contains("image 1"), "{}", run.stderr);
    let run = quincunx(&["run", &program, "-d", &data, "--images", "1", "--strict-overflow"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
}

#[test]
fn numbers_a_machine_refuses_are_found_in_their_file() {
    let place = tempfile::tempdir().unwrap();
    let out = compiled(place.path());
    let mut values = vec![0.5_f32; 3 * 64];
    values[64] = f32::NAN;
    let data = npz(place.path(), "bad.npz", &[("image", f32s(&[3, 1, 8, 8], &values))]);
    let model = digits("digits.onnx");
    for arguments in [
        &["run", &out, "--data", &data][..],
        &["compare", &model, "--data", &data],
        &["verify", &out, "--model", &model, "--data", &data],
    ] {
        let run = quincunx(arguments);
        assert_eq!(run.code, 3, "{arguments:?}");
        for part in ["bad.npz", "\"image\"", "NaN", "image 1"] {
            assert!(run.stderr.contains(part), "{arguments:?}: {}", run.stderr);
        }
    }
}

#[test]
fn what_cannot_be_written_is_named_with_exit_74() {
    let place = tempfile::tempdir().unwrap();
    let out = compiled(place.path());
    let model = digits("digits.onnx");
    for arguments in [
        &["run", &out, "-d", "zeros", "-o", "/nowhere/x.npz"][..],
        &["run", &out, "-d", "zeros", "-o", "/nowhere/x.npy"],
        &["run", &out, "-d", "zeros", "-o", "-", "--trace-layers", "/nowhere/x.npz"],
        &["compile", &model, "-t", "dais", "--emit", "bin=/dev/null/x"],
        &["compile", &model, "-t", "dais", "-o", "/nowhere/x"],
        &["targets", "-o", "/nowhere/x"],
        &["diff", &out, &out, "-o", "/nowhere/x"],
        &["man", "--dir", "/dev/null/x"],
    ] {
        let run = quincunx(arguments);
        assert_eq!(run.code, 74, "{arguments:?}: {}", run.stderr);
        assert!(run.stderr.contains("/nowhere") || run.stderr.contains("/dev/null"));
        assert!(!run.stderr.contains(".quincunx-"), "{}", run.stderr);
    }
}

#[test]
fn a_missing_architecture_file_is_named() {
    for arguments in [
        &["targets", "dais", "--arch", "/nowhere/m.toml"][..],
        &["compile", &digits("digits.onnx"), "-t", "dais", "--arch", "/nowhere/m.toml"],
    ] {
        let run = quincunx(arguments);
        assert_eq!((run.code, run.stdout.len()), (74, 0));
        assert!(run.stderr.contains("/nowhere/m.toml"), "{}", run.stderr);
    }
}

#[test]
fn files_of_another_kind_are_named() {
    let (model, data) = (digits("digits.onnx"), digits("test.npz"));
    for (arguments, message) in [
        (vec!["run", &data, "-d", &data], "expected a program, found arrays"),
        (vec!["asm", &model], "expected a program, found a model"),
        (vec!["verify", &model], "expected a program, found a model"),
        (vec!["compile", &data, "-t", "dais"], "expected a model, found arrays"),
        (vec!["run", &digits(""), "-d", &data], "a program folder holds program.json"),
    ] {
        let run = quincunx(&arguments);
        assert_eq!((run.code, run.stdout.len()), (3, 0), "{}", run.stderr);
        assert!(run.stderr.contains(message), "{}", run.stderr);
    }
    let run = quincunx(&["run", &model, "-d", &data, "-o", "/no/such/folder/o.npz"]);
    assert_eq!((run.code, run.stdout.len()), (74, 0), "{}", run.stderr);
    assert!(run.stderr.contains("create the folder"), "{}", run.stderr);
}

#[test]
fn unknown_names_come_with_those_that_are_known() {
    let (model, data) = (digits("digits_pow2.onnx"), digits("test.npz"));
    for (given, help) in [
        (["--target", "nothing"], "targets are: dais"),
        (["--arch", "nothing"], "presets are: d1, a4, seed, wide"),
        (["--set", "nothing=1"], "options are: "),
    ] {
        let mut arguments = vec!["run", &model, "-d", &data];
        if given[0] != "--target" {
            arguments.extend(["--target", "dais"]);
        }
        arguments.extend(given);
        let run = quincunx(&arguments);
        assert_eq!(run.code, 2, "{}", run.stderr);
        assert!(run.stderr.contains(help), "{}", run.stderr);
    }
    let run = quincunx(&["run", &model, "-d", &data, "--threads", "0"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains("expected a whole number of at least 1"), "{}", run.stderr);
}

/// Images that go through the simulator together have the outputs that da4ml gave, and the one that
/// cannot be run is named.
#[test]
fn many_images_are_each_as_alone() {
    use quincunx::tensor::{Tensor, npy};
    let golden = |name: &str| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/dais/traced");
        format!("{folder}/{name}")
    };
    let read = |path: &str| npy::read_npy(std::fs::read(path).unwrap()).unwrap();
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out.npz").to_str().unwrap().to_owned();
    let (program, inputs) = (golden("tiny_mlp_4b.json"), golden("tiny_mlp_4b_in.npy"));
    let expected = read(&golden("tiny_mlp_4b_out.npy")).to_f64();
    for threads in ["1", "2", "7"] {
        let run = quincunx(&["run", &program, "--data", &inputs, "-o", &out, "--threads", threads]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let found = npy::read_npz(std::fs::read(&out).unwrap()).unwrap();
        assert_eq!(found["out"].to_f64(), expected, "{threads} threads");
    }
    let images = read(&inputs);
    let mut numbers = images.to_f64();
    let columns = images.shape()[1];
    numbers[70 * columns + 1] = f64::NAN;
    numbers[90 * columns] = f64::NAN;
    let damaged = Tensor::from_vec(images.shape(), numbers).unwrap();
    let data = place.path().join("nan.npy").to_str().unwrap().to_owned();
    std::fs::write(&data, npy::write_npy(&damaged)).unwrap();
    let alone = quincunx(&["run", &program, "--data", &data, "--threads", "128"]);
    assert!(alone.code != 0 && alone.stderr.contains("image 70"), "{}", alone.stderr);
    let together = quincunx(&["run", &program, "--data", &data, "--threads", "1"]);
    assert_eq!((together.code, together.stderr), (alone.code, alone.stderr));
}
