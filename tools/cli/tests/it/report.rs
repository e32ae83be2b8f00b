//! Pages of reports: what is on them, what they refuse, and what happens when one clicks.

use crate::support::{digits, file, quincunx};
use quincunx::graph::{Graph, Op, Unary};
use quincunx::import::{ExportOptions, write_onnx};
use quincunx::tensor::{DType, Tensor};
use quincunx_testkit::python;
use std::path::Path;
use std::process::Command;

/// The page that a report of these arguments gives.
fn page(place: &Path, name: &str, arguments: &[&str]) -> (String, String) {
    let path = place.join(name).to_str().unwrap().to_owned();
    let run = quincunx(&[&["report", "-o", &path, "--quiet"], arguments].concat());
    assert_eq!((run.code, run.stdout.len()), (0, 0), "{arguments:?}: {}", run.stderr);
    (std::fs::read_to_string(&path).unwrap(), path)
}

/// Nothing on a page is fetched, and every picture in it is a picture.
fn stands_alone(page: &str) {
    let own = page.replace("http://www.w3.org/2000/svg", "");
    for word in ["http:", "https:", "url(", "@import", "<link", "<iframe", "fetch("] {
        assert!(!own.contains(word), "{word}");
    }
    let sources = own.split(" src=\"").skip(1);
    assert!(sources.clone().all(|rest| rest.starts_with("data:image/png;base64,")));
    assert!(own.split(" href=\"").skip(1).all(|rest| rest.starts_with('#')));
    // Two scripts of the page, one of timelines, and their data.
    let data = page.matches("<script type=\"application/json\">").count();
    assert_eq!(page.matches("<script").count(), data + 3);
    assert_eq!(page.matches("</script>").count(), data + 3);
}

#[test]
fn a_model_becomes_a_page_that_needs_nothing_else() {
    let place = tempfile::tempdir().unwrap();
    let (model, test) = (digits("digits.onnx"), digits("test.npz"));
    let with = |name: &str, threads: &str| {
        let arguments = ["-d", &test, "--images", "4", "--image", "0,3", "-j", threads, &model];
        page(place.path(), name, &arguments)
    };
    let (one, path) = with("one.html", "1");
    let (two, _) = with("two.html", "2");
    assert!(one == two, "a page depends on the number of threads");
    stands_alone(&one);
    assert!(one.len() < 2 << 20, "{} bytes", one.len());
    for machine in ["dais d1", "scamp scamp5", "dpas ", "tcu pynqz1", "npu gemini"] {
        assert!(one.contains(&format!("<h3>{machine}")), "{machine}");
    }
    for part in [
        "id=\"summary\"",
        "id=\"errors\"",
        "class=\"network\"",
        "<div class=\"timeline\">",
        "the most that the machine can do",
        "class=\"histogram\"",
        "data-image=\"1\"",
        "prefers-color-scheme: dark",
        "@media print",
    ] {
        assert!(one.contains(part), "{part}");
    }
    for fact in ["on the host, in", "signal to noise [dB]", "in steps of"] {
        assert!(one.contains(fact), "{fact}");
    }
    in_a_browser(&path);
}

/// Clicks through a page in a browser, if there is one.
fn in_a_browser(page: &str) {
    let found = Command::new("chromium").arg("--version").output().is_ok();
    let required = std::env::var("QUINCUNX_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
    assert!(found || !required, "chromium is missing");
    let Some(python) = python("json").filter(|_| found) else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/browser/report.py");
    let run = Command::new(python).arg(&script).arg(page).output().unwrap();
    let [out, problems] = [&run.stdout, &run.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(run.status.success(), "{out}{problems}");
}

/// A small network with these names.
fn network(place: &Path, name: impl Fn(&str) -> String) -> String {
    let mut graph = Graph::new(name("net"));
    let x = graph.add_input(&name("x"), DType::F32, &[1, 16], &[]).unwrap();
    let weights: Vec<f32> = (0..256).map(|n| (n % 7) as f32 / 8.0 - 0.375).collect();
    let w = graph.add_constant(&name("w"), Tensor::from_vec(&[16, 16], weights).unwrap()).unwrap();
    let y = graph.add_node(&name("m"), Op::MatMul, &[Some(x), Some(w)], &name("y")).unwrap();
    let z = graph.add_node(&name("r"), Op::Unary(Unary::Relu), &[Some(y)], &name("z")).unwrap();
    graph.add_output(z);
    let bytes = write_onnx(&graph, &ExportOptions::default()).unwrap();
    file(place, "net.onnx", &bytes)
}

#[test]
fn hostile_names_stay_text() {
    let place = tempfile::tempdir().unwrap();
    let model =
        network(place.path(), |what| format!("</script><img src=x onerror=alert(1)>'\"&{what}"));
    let arguments = ["-d", "random:1", "--calibrate", "random:2", "-t", "dais,tcu,npu", &model];
    let (text, _) = page(place.path(), "page.html", &arguments);
    stands_alone(&text);
    assert!(text.contains("onerror") && !text.contains("<img src=x"), "names are shown as text");
    let images = text.matches("<img ").count();
    assert_eq!(text.matches("<img width=").count(), images);
    // A data set for other inputs: the names of both are told.
    let run = quincunx(&["report", &model, "-d", &digits("test.npz"), "-o", "-"]);
    assert!(run.code == 3 && run.stderr.contains("image"), "{}", run.stderr);
}

#[test]
fn programs_of_one_network_are_shown_together_and_others_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let model = digits("digits.onnx");
    let compile = |model: &str, target: &str, out: &str| {
        let run = quincunx(&["compile", model, "-t", target, "-o", &path(out), "--quiet"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        path(out)
    };
    let (tcu, npu) = (compile(&model, "tcu", "t"), compile(&model, "npu", "n"));
    let test = digits("test.npz");
    let (bare, _) = page(place.path(), "bare.html", &[&tcu, &npu]);
    stands_alone(&bare);
    assert!(bare.contains("<h3>tcu pynqz1") && bare.contains("<h3>npu gemini"));
    assert!(!bare.contains("id=\"maps\"") && !bare.contains("id=\"errors\""));
    let data = ["-d", &test, "--images", "2"];
    let (with_data, _) = page(place.path(), "data.html", &[&data[..], &[&tcu, &npu]].concat());
    assert!(with_data.contains("id=\"maps\"") && !with_data.contains("<figcaption>model as given"));
    let more = ["--model", &model, &tcu, &npu];
    let (with_model, _) = page(place.path(), "model.html", &[&data[..], &more].concat());
    assert!(
        with_model.contains("<figcaption>model as given") && with_model.contains(">exact</th>")
    );
    // Nothing is drawn of what does not belong together.
    let other = compile(&network(place.path(), str::to_owned), "tcu", "o");
    let page = path("none.html");
    let refused = |arguments: &[&str], code: &str, words: &[&str]| {
        let run = quincunx(&[&["report", "-o", &page], arguments].concat());
        assert_eq!((run.code, run.stdout.len()), (2, 0), "{arguments:?}: {}", run.stderr);
        assert!(run.stderr.contains(code), "{arguments:?}: {}", run.stderr);
        words.iter().for_each(|word| assert!(run.stderr.contains(word), "{}", run.stderr));
        assert!(!Path::new(&page).exists());
    };
    refused(&[&tcu, &other], "Q0660", &["t reads image [1, 1, 8, 8]", "o reads x [1, 16]"]);
    refused(&[&tcu, &model], "Q0719", &["one model"]);
    refused(&[&model], "Q0719", &["--data"]);
    refused(&[&model, "-d", &test, "--images", "2", "--image", "2"], "Q0719", &["has 2"]);
    refused(&[&tcu, "--image", "1"], "Q0708", &["--image"]);
    refused(&[&tcu, "-t", "tcu"], "Q0708", &["--target"]);
    refused(&[&tcu, "--calibrate", "zeros"], "Q0708", &["--calibrate"]);
    refused(&[&model, "-d", &test, "--model", &model], "Q0708", &["--model"]);
    refused(&[&tcu, "--format", "json"], "Q0708", &["--format"]);
}

/// A folder of reports of Vivado and Quartus, and a program of which they may be.
#[test]
fn reports_of_tools_are_one_table() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let reports = root.join("tests/reports").to_str().unwrap().to_owned();
    let program = root.join("tests/golden/dais/traced/tiny_mlp_4b_pipeline_lc2.json");
    let program = program.to_str().unwrap();
    let rows = |arguments: &[&str]| -> Vec<serde_json::Value> {
        let run = quincunx(&[&["report", "--format", "json", "--quiet"], arguments].concat());
        assert_eq!(run.code, 0, "{arguments:?}: {}", run.stderr);
        let found: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
        found["rows"].as_array().unwrap().clone()
    };
    let found = rows(&[&reports, program]);
    let names: Vec<&str> = found.iter().map(|row| row["report"].as_str().unwrap()).collect();
    let files = ["timing_summary.rpt", "tiny.fit.summary", "tiny.sta.rpt", "utilization.rpt"];
    assert_eq!(names[..4], files);
    assert_eq!((&found[0]["wns"], &found[0]["fmax"]), (&3.0.into(), &500.0.into()));
    assert_eq!((&found[1]["ALM"], &found[3]["LUT"]), (&214.0.into(), &391.0.into()));
    assert_eq!(found[2]["fmax"], 412.54);
    // Our own line: more than nothing, and the latency that only we know.
    assert!(found[4]["LUT"].as_f64().unwrap() > 100.0 && found[4]["wns"].is_null());
    assert!(found[4]["latency"].as_u64().unwrap() > 1 && found[0]["latency"].is_null());
    // Reports may lie deeper, and a program beside them.
    let place = tempfile::tempdir().unwrap();
    let deep = place.path().join("net_vivado");
    std::fs::create_dir(&deep).unwrap();
    std::fs::copy(root.join("tests/reports/utilization.rpt"), deep.join("utilization.rpt"))
        .unwrap();
    let folder = place.path().to_str().unwrap();
    assert_eq!(rows(&[folder]).len(), 1);
    std::fs::copy(program, place.path().join("net.json")).unwrap();
    assert_eq!(rows(&[folder]).len(), 2);
    // What is no report, what has no effect, and a page without a file.
    let bad = file(place.path(), "x.sta.rpt", b"nothing");
    let run = quincunx(&["report", folder]);
    assert_eq!(run.code, 3, "{}", run.stderr);
    assert!(run.stderr.contains("Q0664") && run.stderr.contains("x.sta.rpt"), "{}", run.stderr);
    std::fs::remove_file(bad).unwrap();
    let run = quincunx(&["report", folder, "--data", "zeros"]);
    assert!(run.code == 2 && run.stderr.contains("Q0708"), "{}", run.stderr);
    let run = quincunx(&["report", &digits("digits.onnx"), "--data", "zeros"]);
    assert!(run.code == 2 && run.stderr.contains("Q0719"), "{}", run.stderr);
}
