//! What the verbs show of a compiled network on tcu: names of files, tables, pictures, raw ports.

use crate::support::{names_in, quincunx};
use serde_json::Value;
use std::path::Path;

fn golden(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/tcu");
    folder.join(name).to_str().unwrap().to_owned()
}

fn json(arguments: &[&str]) -> Value {
    let run = quincunx(&[arguments, &["--format", "json"]].concat());
    assert_eq!(run.code, 0, "{arguments:?}: {}", run.stderr);
    serde_json::from_slice(&run.stdout).unwrap()
}

/// Compiles a network into a folder and returns its path.
fn compiled(place: &Path, model: &str, rounding: &str) -> String {
    let out = place.join(format!("{model}-{rounding}")).to_str().unwrap().to_owned();
    let model = golden(&format!("models/{model}.onnx"));
    let machine = ["--target", "tcu", "--arch", "artya7100t", "--rounding", rounding];
    let run = quincunx(&[&["compile", &model, "-o", &out][..], &machine].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    out
}

#[test]
fn files_have_the_names_that_upstream_gives_them() {
    let place = tempfile::tempdir().unwrap();
    let out = compiled(place.path(), "t_gemm", "compat");
    let stem = "t_gemm_onnx_artya7100t";
    let wanted = ["tdata", "tmodel", "tprog"].map(|ending| format!("{stem}.{ending}"));
    assert_eq!(names_in(&Path::new(&out).join("device0")), wanted);
    // A folder is read whatever its files are called, and its description alone as well.
    for program in [out.clone(), format!("{out}/device0"), format!("{out}/device0/{stem}.tmodel")] {
        assert_eq!(quincunx(&["verify", &program]).code, 0, "{program}");
    }
    let more = place.path().join("more");
    let model = golden("models/t_gemm.onnx");
    let folder = format!("{}/", more.to_str().unwrap());
    let emits = ["asm", "dot", "tmodel"].map(|kind| format!("--emit={kind}={folder}"));
    let arguments = ["compile", &model, "--target", "tcu", "--arch", "artya7100t"];
    let emits: Vec<&str> = emits.iter().map(String::as_str).collect();
    assert_eq!(quincunx(&[&arguments[..], &emits].concat()).code, 0);
    let wanted = ["dot", "tasm", "tdata", "tmodel", "tprog"].map(|e| format!("{stem}.{e}"));
    assert_eq!(names_in(&more), wanted);
}

/// The peer's inputs as its CSV give its outputs, lane by lane, from a folder compiled here.
#[test]
fn raw_ports_take_and_give_the_emulators_csv() {
    let place = tempfile::tempdir().unwrap();
    let cases = std::fs::read_to_string(golden("compiled_models.json")).unwrap();
    let cases: Value = serde_json::from_str(&cases).unwrap();
    let rows = |hex: &str| -> Vec<String> {
        let bytes: Vec<u8> = (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect();
        let scalar = |two: &[u8]| f64::from(i16::from_le_bytes([two[0], two[1]])) / 256.0;
        let scalars: Vec<f64> = bytes.chunks(2).map(scalar).collect();
        let row = |row: &[f64]| row.iter().map(f64::to_string).collect::<Vec<_>>().join(",");
        scalars.chunks(8).map(row).collect()
    };
    for model in ["t_resblock", "t_gemm", "t_conv3_s2"] {
        let case = cases.as_array().unwrap().iter().find(|case| {
            (&case["model"], &case["arch"], &case["strategy"])
                == (&model.into(), &"artya7100t".into(), &"iso".into())
        });
        let case = case.unwrap();
        let out = compiled(place.path(), model, "compat");
        let inputs: Vec<&str> =
            case["inputs_hex"].as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect();
        let text: String = rows(&inputs.concat()).iter().map(|row| format!("{row}\r\n")).collect();
        let [data, result] =
            ["in.csv", "out.csv"].map(|n| place.path().join(n).to_str().unwrap().to_owned());
        std::fs::write(&data, text).unwrap();
        let run = quincunx(&["run", &out, "--raw-ports", "--data", &data, "-o", &result]);
        assert_eq!(run.code, 0, "{model}: {}", run.stderr);
        let found = std::fs::read_to_string(&result).unwrap();
        let expected = rows(case["outputs"][0]["hex"].as_str().unwrap());
        assert_eq!(found.lines().collect::<Vec<_>>(), expected, "{model}");
    }
    let model = golden("models/t_gemm.onnx");
    let run = quincunx(&["run", &model, "--raw-ports", "--data", "zeros"]);
    assert_eq!(run.code, 2, "a model has no raw ports");
}

#[test]
fn raw_ports_are_those_of_one_program() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("parts").to_str().unwrap().to_owned();
    let model = crate::support::digits("digits_qdq.onnx");
    let run = quincunx(&["compile", &model, "--target", "tcu", "-o", &out]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let run = quincunx(&["run", &out, "--raw-ports", "--data", "zeros"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("Q0618"), "{}", run.stderr);
    // Tables of several programs say whose they are.
    let shown = json(&["inspect", &out, "--table", "layers"]);
    let segments: Vec<&Value> =
        shown["layers"].as_array().unwrap().iter().map(|row| &row["segment"]).collect();
    assert!(segments.len() > 1 && segments.iter().all(|segment| segment.is_string()));
    let timed = json(&["time", &out]);
    assert!(timed["layers"][0]["segment"].is_string() && timed["models"][0]["cycles"].is_u64());
}

#[test]
fn tables_are_chosen_by_name() {
    let place = tempfile::tempdir().unwrap();
    let out = compiled(place.path(), "t_resblock", "free");
    let shown = json(&["inspect", &out, "--table", "strides", "--table", "partitions"]);
    let keys: Vec<&String> = shown.as_object().unwrap().keys().collect();
    assert!(keys.len() == 3 && shown["strides"][0]["count"].is_u64(), "{keys:?}");
    let all = json(&["inspect", &out, "--table", "all"]);
    for key in ["summary", "plan", "instructions", "compilation", "scheduler", "constants"] {
        assert!(all[key].as_array().is_some_and(|rows| !rows.is_empty()), "{key}");
    }
    let brief = json(&["inspect", &out]);
    assert!(brief["compilation"].is_null() && brief["instructions"].is_array());
    let run = quincunx(&["inspect", &out, "--table", "layer"]);
    assert!(run.code == 2 && run.stderr.contains("layers"), "{}", run.stderr);
    let model = golden("models/t_resblock.onnx");
    let run = json(&["compile", &model, "--target", "tcu", "--table", "layers"]);
    assert!(run["rows"].is_null() && run["layers"].as_array().unwrap().len() == 3);
}

#[test]
fn departures_are_listed_on_data() {
    let place = tempfile::tempdir().unwrap();
    let model = golden("models/t_resblock.onnx");
    for (rounding, some) in [("compat", false), ("free", true)] {
        let out = compiled(place.path(), "t_resblock", rounding);
        let arguments = ["verify", &out, "--model", &model, "--data", "random:3", "--departures"];
        let shown = json(&[&arguments[..], &["--images", "3"]].concat());
        assert_eq!(shown["rows"][0]["bit_exact"], 3);
        let departures = shown["departures"].as_array().unwrap();
        assert_eq!(!departures.is_empty(), some);
        for departure in departures {
            let alone = departure["alone"].as_f64().unwrap();
            assert!((0.0..1.0).contains(&alone) && departure["departure"].is_string());
        }
    }
    let out = compiled(place.path(), "t_gemm", "free");
    assert_eq!(quincunx(&["verify", &out, "--departures"]).code, 2);
}

#[test]
fn pictures_of_a_program_are_bounded() {
    let place = tempfile::tempdir().unwrap();
    let out = compiled(place.path(), "t_resblock", "compat");
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let [trace, page, roofline] = [path("t.json"), path("t.html"), path("t.svg")];
    let pictures = ["--perfetto", &trace, "--page", &page, "--roofline", &roofline];
    let arguments = ["time", &out, "--timing", "two-engine", "--max-events", "40"];
    assert_eq!(quincunx(&[&arguments[..], &pictures].concat()).code, 0);
    let trace: Value = serde_json::from_str(&std::fs::read_to_string(trace).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let count = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    // Forty events, and the layers.
    assert!(count("X") > 10 && count("X") <= 40 + 9, "{}", count("X"));
    assert!(count("s") > 0 && count("C") > 0 && count("C") <= 2 * 40);
    let names = events.iter().filter(|event| event["name"] == "thread_name");
    let names: Vec<&str> = names.map(|event| event["args"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["decoder", "compute", "DRAM", "parts"]);
    let svg = std::fs::read_to_string(roofline).unwrap();
    assert!(svg.starts_with("<svg") && svg.matches("<circle").count() == 4);
    assert!(std::fs::read_to_string(page).unwrap().contains("<svg"));
    // A machine without a roofline says so.
    let other = crate::support::compiled(place.path());
    let run = quincunx(&["time", &other, "--roofline", &path("none.svg")]);
    assert!(run.code == 4 && run.stderr.contains("Q0716"), "{}", run.stderr);
    assert_eq!(quincunx(&["time", &out, "--max-events", "0"]).code, 2);
}
