//! `time`, native files in folders, options of targets and data that is not a `.npz`.

use crate::support::{compiled, file, quincunx};
use serde_json::Value;

#[test]
fn time_prints_lanes_and_writes_timelines() {
    let place = tempfile::tempdir().unwrap();
    let out = compiled(place.path());
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let (trace, page) = (path("trace.json"), path("page.html"));
    let arguments = ["time", &out, "--format", "json", "--perfetto", &trace, "--page", &page];
    let run = quincunx(&[&arguments[..], &["--events", "1"]].concat());
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let result: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(result["summary"][0]["name"], "cycles");
    assert_eq!(result["lanes"][0]["lane"], "stage 0");
    assert!(result["events"].as_str().unwrap().contains("logic"));
    let trace: Value = serde_json::from_str(&std::fs::read_to_string(trace).unwrap()).unwrap();
    assert!(trace["traceEvents"].as_array().unwrap().iter().any(|event| event["ph"] == "X"));
    assert!(std::fs::read_to_string(page).unwrap().starts_with("<!DOCTYPE html>"));
}

#[test]
fn time_has_every_format_and_one_result_on_stdout() {
    let place = tempfile::tempdir().unwrap();
    let out = compiled(place.path());
    for (format, part) in
        [("json", "\"lanes\""), ("csv", "stage 0"), ("md", "| stage 0"), ("html", "<table")]
    {
        let run = quincunx(&["time", &out, "--format", format, "--table", "lanes"]);
        assert_eq!(run.code, 0, "{format}: {}", run.stderr);
        assert!(run.text().contains(part), "{format}: {}", run.text());
    }
    for arguments in [&["--perfetto", "-"][..], &["--page", "-"], &["--page", "-", "-o", "-"]] {
        let run = quincunx(&[&["time", &out][..], arguments].concat());
        assert_eq!((run.code, run.stdout.len()), (2, 0), "{arguments:?}");
    }
    let table = place.path().join("table");
    let run = quincunx(&["time", &out, "--perfetto", "-", "-o", table.to_str().unwrap()]);
    assert!(serde_json::from_slice::<Value>(&run.stdout).is_ok());
}

#[test]
fn a_folder_of_native_files_is_a_program() {
    let place = tempfile::tempdir().unwrap();
    let out = compiled(place.path());
    let folder = place.path().join("natives");
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(format!("{out}/device0/program.dasm"), folder.join("p.dasm")).unwrap();
    std::fs::write(folder.join("notes.txt"), "about it").unwrap();
    let folder = folder.to_str().unwrap();
    for verb in ["verify", "disasm", "inspect", "time"] {
        let run = quincunx(&[verb, folder]);
        assert_eq!(run.code, 0, "{verb}: {}", run.stderr);
    }
    let empty = tempfile::tempdir().unwrap();
    let run = quincunx(&["verify", empty.path().to_str().unwrap()]);
    assert_eq!(run.code, 3, "{}", run.stderr);
}

#[test]
fn options_of_targets_are_options_of_verbs() {
    let place = tempfile::tempdir().unwrap();
    let out = compiled(place.path());
    let native = format!("{out}/device0/program.dasm");
    let with = |options: &[&str]| quincunx(&[&["asm", &native][..], options].concat());
    let set = with(&["--set", "dialect=d1-v0"]);
    assert_eq!(set.code, with(&["--dialect", "d1-v0"]).code);
    assert_eq!(set.stdout, with(&["--dialect", "d1-v0"]).stdout);
    let wrong = with(&["--dialect", "d9"]);
    assert_eq!(wrong.code, 2, "{}", wrong.stderr);
    assert!(wrong.stderr.contains("Q0502"), "{}", wrong.stderr);
    for option in ["--retiming", "--retiming=false", "--retiming=true"] {
        assert_eq!(with(&[option]).code, 0, "{option}");
    }
    assert_eq!(with(&["--retiming=maybe"]).code, 2);
    let model = quincunx(&["inspect", &crate::support::digits("digits.onnx"), "--dialect", "d0"]);
    assert!(model.stderr.contains("an option of the target has no effect"), "{}", model.stderr);
    assert!(quincunx(&["asm", "--help"]).text().contains("--dialect"));
}

#[test]
fn rows_of_decimals_are_data() {
    let place = tempfile::tempdir().unwrap();
    let out = compiled(place.path());
    let native = format!("{out}/device0/program.dasm");
    let row = vec!["0"; 64].join(",") + "\n";
    let data = file(place.path(), "in.csv", row.repeat(2).as_bytes());
    let result = place.path().join("out.csv");
    let run = quincunx(&["run", &native, "--data", &data, "-o", result.to_str().unwrap()]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(std::fs::read_to_string(result).unwrap().lines().count(), 2);
    let ragged = file(place.path(), "bad.csv", b"1,2\n3\n");
    let run = quincunx(&["run", &native, "--data", &ragged]);
    assert_eq!(run.code, 3, "{}", run.stderr);
    assert!(run.stderr.contains("line 2"), "{}", run.stderr);
}

/// Whoever follows the advice about the clock is not warned again.
#[test]
fn a_clock_that_is_too_fast_is_said_with_what_helps() {
    let model = crate::support::digits("digits.onnx");
    let compile = |options: &[&str]| {
        let run = quincunx(
            &[&["compile", &model, "--target", "dais", "--format", "json"][..], options].concat(),
        );
        assert_eq!(run.code, 0, "{}", run.stderr);
        let result: Value = serde_json::from_slice(&run.stdout).unwrap();
        let rows = result["summary"].as_array().unwrap().clone();
        let value =
            move |name: &str| rows.iter().find(|row| row["name"] == name).unwrap()["value"].clone();
        (run.stderr, value)
    };
    let words = |text: &str, option: &str| {
        let mut words = text.split([' ', '\n']).skip_while(|word| *word != option);
        words.nth(1).unwrap().to_owned()
    };
    let (stderr, value) = compile(&[]);
    assert_eq!(value("meets the clock"), "no");
    assert!(stderr.contains("Q1190"), "{stderr}");
    for option in ["--latency-cutoff", "--clock"] {
        let (after, value) = compile(&[option, &words(&stderr, option)]);
        assert_eq!((after.as_str(), value("meets the clock")), ("", "yes".into()), "{option}");
    }
    // A level of 6 ns fits no period of 5 ns.
    let (stderr, _) = compile(&["--level-delay", "6"]);
    assert!(!stderr.contains("--latency-cutoff") && stderr.contains("--clock"), "{stderr}");
    let (stderr, value) = compile(&["--level-delay", "0.01"]);
    assert_eq!((stderr.as_str(), value("machine")), ("", "d1".into()));
    let rate = value("images per second").as_f64().unwrap();
    assert!((rate * value("clock period in ns").as_f64().unwrap() * 1e-9 - 1.0).abs() < 1e-12);
}
