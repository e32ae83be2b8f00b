//! The binary as a user sees it: exit codes, streams, files.

use crate::support::{Run, compiled, digits, names_in, quincunx, quincunx_with_input};
use serde_json::Value;
use std::fs;

fn json(run: &Run) -> Value {
    serde_json::from_slice(&run.stdout).unwrap()
}

#[test]
fn compare_is_green_on_the_digits() {
    let run = quincunx(&[
        "compare",
        &digits("digits.onnx"),
        "--data",
        &digits("test.npz"),
        "--format",
        "json",
    ]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let result = json(&run);
    assert_eq!(result["schema"], 1);
    // Targets without a compiler are rows as well, and a note each.
    let unsupported = |row: &&Value| row["status"] == "unsupported";
    let unsupported = result["rows"].as_array().unwrap().iter().filter(unsupported).count();
    let notes = run.stderr.lines().filter(|line| line.contains("[Q")).count();
    assert_eq!(notes, run.stderr.matches("has no compiler yet").count(), "{}", run.stderr);
    assert_eq!((notes, run.stderr.contains("error")), (unsupported, false), "{}", run.stderr);
    let row = &result["rows"][0];
    assert_eq!((&row["target"], &row["status"]), (&"dais".into(), &"ok".into()));
    assert_eq!((&row["images"], &row["bit_exact"]), (&360.into(), &360.into()));
    assert!(row["accuracy"].as_f64().unwrap() >= 0.95);
    assert_eq!(row["device_mac_share"], 1.0);
    assert_eq!(row["max_error"], 0.0);
    assert!(row["instructions"].as_u64().unwrap() > 0 && row["bytes"].as_u64().unwrap() > 0);
}

#[test]
fn compare_without_labels_has_no_accuracy() {
    let model = digits("digits_pow2.onnx");
    let run = quincunx(&[
        "compare", &model, "--data", "random:1", "--images", "3", "--target", "dais", "--format",
        "json",
    ]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let row = &json(&run)["rows"][0];
    assert_eq!((&row["images"], &row["accuracy"]), (&3.into(), &Value::Null));
}

#[test]
fn calibration_data_is_never_the_data_that_is_evaluated() {
    let (model, data) = (digits("digits.onnx"), digits("calib.npz"));
    let run = quincunx(&["compare", &model, "--data", &data]);
    assert_eq!((run.code, run.stdout.len()), (2, 0));
    assert!(run.stderr.contains("Q0609"));
    let test = digits("test.npz");
    assert_eq!(quincunx(&["compare", &model, "--data", &test, "--calibrate", &test]).code, 2);
    // Without a folder there is nothing beside the model.
    let bytes = fs::read(&model).unwrap();
    let run = quincunx_with_input(&["compile", "-", "--target", "dais"], &bytes);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("quantise the model"), "{}", run.stderr);
}

#[test]
fn a_compiled_folder_runs_and_verifies() {
    let place = tempfile::tempdir().unwrap();
    let out = compiled(place.path());
    let (model, data) = (digits("digits.onnx"), digits("test.npz"));
    let run = quincunx(&["verify", &out, "--model", &model, "--data", &data, "--format", "json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(json(&run)["rows"][0]["bit_exact"], 360);
    let (outputs, layers) = (place.path().join("o.npz"), place.path().join("l.npz"));
    let run = quincunx(&[
        "run",
        &out,
        "--data",
        &data,
        "-o",
        outputs.to_str().unwrap(),
        "--trace-layers",
        layers.to_str().unwrap(),
    ]);
    assert_eq!((run.code, run.stdout.len()), (0, 0), "{}", run.stderr);
    let run = quincunx(&["inspect", outputs.to_str().unwrap(), "--format", "json"]);
    assert_eq!(json(&run)["rows"][0]["shape"], "[360, 10]");
    let run = quincunx(&["inspect", layers.to_str().unwrap(), "--format", "csv"]);
    assert!(String::from_utf8(run.stdout).unwrap().contains("relu1_out,f64"));
}

#[test]
fn a_folder_and_the_model_in_memory_give_the_same() {
    let place = tempfile::tempdir().unwrap();
    let out = compiled(place.path());
    let (model, data) = (digits("digits.onnx"), digits("test.npz"));
    let folder = quincunx(&["run", &out, "--data", &data, "-j", "1"]);
    let memory = quincunx(&["run", &model, "--target", "dais", "--data", &data, "-j", "2"]);
    assert_eq!((folder.code, memory.code), (0, 0), "{}", memory.stderr);
    assert!(folder.stdout == memory.stdout);
    assert_eq!(folder.text().lines().count(), 362);
}

#[test]
fn compile_prints_the_plan_before_failing() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    let run = quincunx(&[
        "compile",
        &digits("digits_qdq.onnx"),
        "--target",
        "tcu",
        "--strict",
        "-o",
        out.to_str().unwrap(),
    ]);
    assert_eq!(run.code, 4);
    assert!(run.text().contains("conv1"));
    assert!(run.stderr.contains("error[Q0504]"));
    assert!(names_in(place.path()).is_empty(), "nothing is left behind");
}

#[test]
fn layers_without_room_in_memory_are_left_to_the_host() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let (arch, out) = (path("small.tarch"), path("out"));
    // Room for the constants of the convolutions, but not of the products after them.
    let fields = [("dram0_depth", 300), ("dram1_depth", 170), ("local_depth", 2048)];
    let mut machine = serde_json::json!({
        "data_type": "FP16BP8", "array_size": 8, "accumulator_depth": 512,
        "simd_registers_depth": 1, "stride0_depth": 8, "stride1_depth": 8,
        "number_of_threads": 1, "thread_queue_depth": 8,
    });
    fields.iter().for_each(|&(name, depth)| machine[name] = depth.into());
    fs::write(&arch, machine.to_string()).unwrap();
    let model = digits("digits.onnx");
    let compile = ["compile", &model, "-t", "tcu", "--arch", &arch, "-o", &out];
    let run = quincunx(&compile);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let host = run.text().lines().filter(|line| line.contains("of DRAM1, which has 170")).count();
    assert!((1..13).contains(&host), "{}", run.text());
    let data = digits("test.npz");
    let verify = quincunx(&["verify", &out, "--model", &model, "-d", &data, "--images", "0..5"]);
    assert_eq!(verify.code, 0, "{}", verify.stderr);
    let strict = quincunx(&[&compile[..], &["--strict"]].concat());
    assert_eq!(strict.code, 4);
    assert!(strict.stderr.contains("of DRAM1, which has 170"), "{}", strict.stderr);
}

#[test]
fn compile_does_not_replace_other_folders() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("notes.txt"), "mine").unwrap();
    let out = place.path().to_str().unwrap();
    let run = quincunx(&["compile", &digits("digits.onnx"), "--target", "dais", "-o", out]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert_eq!(names_in(place.path()), ["notes.txt"]);
    // A program folder is replaced.
    let out = compiled(place.path());
    assert_eq!(compiled(place.path()), out);
}

#[test]
fn compile_writes_native_files_and_dumps() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let run = quincunx(&[
        "compile",
        &digits("digits.onnx"),
        "--target",
        "dais",
        "--emit",
        &format!("json={}", path("d.json")),
        "--emit",
        &format!("asm={}", path("folder/")),
        "--dump-after",
        "quantise",
        "--dump-dir",
        &path("dumps"),
        "--timings",
        "--format",
        "json",
    ]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(json(&run)["timings"].as_array().unwrap().len() > 5);
    assert_eq!(names_in(&place.path().join("dumps")), ["00-quantise.txt"]);
    assert!(place.path().join("d.json").is_file());
    let run = quincunx(&["compile", &digits("digits.onnx"), "--target", "dais", "--emit", "bin=-"]);
    let native = place.path().join("d.bin");
    fs::write(&native, &run.stdout).unwrap();
    assert_eq!(quincunx(&["verify", native.to_str().unwrap()]).code, 0);
    // Tables would go where the file goes.
    for table in [&["--timings"][..], &["--table", "layers"]] {
        let model = digits("digits.onnx");
        let compile = ["compile", &model, "--target", "dais", "--emit", "bin=-"];
        let run = quincunx(&[&compile[..], table].concat());
        assert_eq!((run.code, run.stdout.len()), (2, 0), "{}", run.stderr);
        assert!(run.stderr.contains("Q0707"), "{}", run.stderr);
    }
}

#[test]
fn assembly_round_trips_through_pipes() {
    let model = digits("digits.onnx");
    let asm = quincunx(&["compile", &model, "--target", "dais", "--emit", "asm=-"]);
    let binary = quincunx_with_input(&["asm", "-"], &asm.stdout);
    assert_eq!(binary.code, 0, "{}", binary.stderr);
    let text = quincunx_with_input(&["disasm", "-"], &binary.stdout);
    assert_eq!(text.code, 0, "{}", text.stderr);
    let again = quincunx_with_input(&["asm", "-", "--target", "dais", "-o", "-"], &text.stdout);
    assert!(again.stdout == binary.stdout);
    let run =
        quincunx_with_input(&["run", "-", "--data", "zeros", "--format", "json"], &binary.stdout);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(json(&run)["rows"][0]["shape"], "[10]");
}

#[test]
fn data_comes_from_stdin_too() {
    let data = fs::read(digits("test.npz")).unwrap();
    let model = digits("digits_pow2.onnx");
    let run = quincunx_with_input(&["run", &model, "--target", "dais", "--data", "-"], &data);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let run = quincunx_with_input(&["run", "-", "--target", "dais", "--data", "-"], &data);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("Q0702"));
}

#[test]
fn names_with_typing_errors_get_suggestions() {
    let suggests = |arguments: &[&str], suggestion: &str| {
        let run = quincunx(arguments);
        assert_eq!(run.code, 2, "{arguments:?}: {}", run.stderr);
        assert!(run.stdout.is_empty());
        assert!(run.stderr.contains(suggestion), "{arguments:?}: {}", run.stderr);
    };
    let model = digits("digits.onnx");
    suggests(&["targets", "das"], "dais");
    suggests(&["isa", "dais", "adt"], "add");
    suggests(&["explain", "Q0602", "Q06O1"], "Q0601");
    suggests(&["compile", &model, "--target", "daiss"], "dais");
    suggests(&["compile", &model, "--target", "dais", "--arch", "sead"], "seed");
    suggests(&["compile", &model, "--target", "dais", "--set", "dialekt=d1"], "dialect");
    suggests(&["compile", &model, "--target", "dais", "--emit", "jsn"], "json");
    suggests(
        &["compile", &model, "--target", "dais", "--dump-after", "quantize", "--dump-dir", "x"],
        "quantise",
    );
    suggests(&["compar"], "compare");
}

#[test]
fn usage_errors_exit_with_2() {
    for arguments in [
        &[][..],
        &["--nonsense"],
        &["compare"],
        &["targets", "--format", "xml"],
        &["targets", "-q", "-v"],
        &["compile", "m.onnx", "--target", "dais", "--dump-after", "all"],
        &["compile", "m.onnx", "--target", "dais", "--set", "novalue"],
        &["verify", "x", "--model", "m.onnx"],
    ] {
        assert_eq!(quincunx(arguments).code, 2, "{arguments:?}");
    }
    assert_eq!(quincunx(&["compare", &digits("digits.onnx"), "--data", "random:x"]).code, 2);
}

#[test]
fn missing_files_are_for_the_file_system_to_answer() {
    for arguments in [
        &["inspect", "/nowhere/file"][..],
        &["compile", "/nowhere/file", "--target", "dais"],
        &["run", "/nowhere/file", "--data", "zeros"],
        &["verify", "/nowhere/file"],
        &["compare", "/nowhere/file", "--data", "zeros"],
        &["asm", "/nowhere/file"],
        &["disasm", "/nowhere/file"],
        &["compare", &digits("digits.onnx"), "--data", "/nowhere/file"],
    ] {
        let run = quincunx(arguments);
        assert_eq!((run.code, run.stdout.len()), (74, 0), "{arguments:?}");
        assert!(run.stderr.contains("/nowhere/file"), "{arguments:?}");
    }
}

#[test]
fn help_documents_exit_codes_and_goes_to_stdout() {
    let run = quincunx(&["--help"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    for line in ["Exit codes:", "70  a bug in Quincunx", "compare"] {
        assert!(run.text().contains(line), "{line}");
    }
    for verb in
        ["compile", "run", "verify", "compare", "diff", "asm", "disasm", "inspect", "isa", "man"]
    {
        assert_eq!(quincunx(&[verb, "--help"]).code, 0);
    }
}

/// Parameters that the file of a machine does not give are listed too.
#[test]
fn optional_parameters_are_listed() {
    for (target, parameter) in [("npu", "mac_pj"), ("tcu", "board")] {
        let listed = quincunx(&["targets", target]);
        let text = listed.text();
        let row = text.lines().find(|line| line.starts_with(parameter)).unwrap();
        assert!(row.ends_with("not given"), "{row}");
    }
}

#[test]
fn every_format_has_every_table() {
    for format in ["text", "json", "md", "csv", "html"] {
        for arguments in [
            &["targets"][..],
            &["targets", "dais", "--arch", "wide"],
            &["isa", "dais"],
            &["isa", "dais", "add"],
            &["explain"],
            &["explain", "Q0602", "q5042"],
            &["inspect", &digits("digits.onnx")],
            &["inspect", &digits("calib.npz")],
            &["compile", &digits("digits.onnx"), "--target", "dais", "--latency-cutoff", "5"],
        ] {
            let run = quincunx(&[arguments, &["--format", format]].concat());
            let several = format == "csv" && run.code == 2;
            assert!(!several || run.stderr.contains("Q0717"), "{arguments:?} {}", run.stderr);
            if several {
                // CSV is one table, which the message names.
                let tables = run.stderr.split("--table: ").nth(1).unwrap();
                for table in tables.trim().split(", ") {
                    let one = [arguments, &["--format", format, "--table", table]].concat();
                    let run = quincunx(&one);
                    assert!(run.code == 0 && !run.text().contains("\n\n"), "{one:?}");
                }
                continue;
            }
            assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{arguments:?}");
            assert!(run.text().ends_with('\n'), "{arguments:?} {format}");
            assert!(format != "json" || json(&run)["schema"] == 1, "{arguments:?}");
        }
    }
}

#[test]
fn results_go_to_files_on_request() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("targets.csv");
    let run = quincunx(&["targets", "--format", "csv", "-o", file.to_str().unwrap()]);
    assert_eq!((run.code, run.stdout.len()), (0, 0));
    assert!(fs::read_to_string(&file).unwrap().starts_with("target,"));
    // A failure leaves what was there.
    let before = fs::read(&file).unwrap();
    let run = quincunx(&["inspect", "/nowhere", "-o", file.to_str().unwrap()]);
    assert_eq!(run.code, 74);
    assert_eq!(fs::read(&file).unwrap(), before);
    assert_eq!(names_in(place.path()), ["targets.csv"]);
}

#[test]
fn messages_have_three_forms_and_colour_on_request() {
    let fail = |more: &[&str]| quincunx(&[&["targets", "das"], more].concat()).stderr;
    assert_eq!(fail(&["--message-format", "short"]).lines().count(), 1);
    let message: Value = serde_json::from_str(&fail(&["--message-format", "json"])).unwrap();
    assert_eq!(message["code"], "Q0601");
    assert!(!fail(&[]).contains('\u{1b}'));
    assert!(fail(&["--color", "always"]).contains('\u{1b}'));
}

#[test]
fn quiet_hides_warnings_and_verbose_shows_passes() {
    let compile = |more: &[&str]| {
        let model = digits("digits.onnx");
        quincunx(&[&["compile", &model, "--target", "dais"], more].concat())
    };
    assert!(compile(&["-v"]).stderr.contains("quantise: "));
    assert_eq!(compile(&["-q"]).stderr, "");
    assert_eq!(compile(&["-v"]).stdout, compile(&["-q"]).stdout);
}

#[test]
fn completions_exist_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = quincunx(&["completions", shell]);
        assert_eq!(run.code, 0);
        assert!(run.text().contains("compare"));
    }
}

#[test]
fn a_closed_pipe_is_no_panic() {
    let run = crate::support::with_closed_stdout(&["inspect", &digits("digits.onnx")]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let run = crate::support::with_closed_stdout(&["--help"]);
    assert!(!run.stderr.contains("bug"), "{}", run.stderr);
}

#[test]
fn verify_says_no_with_exit_1() {
    let asm = quincunx(&["compile", &digits("digits.onnx"), "--target", "dais", "--emit", "asm=-"]);
    // The first operation that reads two slots reads one from the future.
    let text = asm.text();
    let line = text.lines().find(|line| line.contains("= add %")).unwrap();
    let operand = line.split_whitespace().find(|w| w.starts_with('%') && w.ends_with(',')).unwrap();
    let broken = text.replacen(line, &line.replacen(operand, "%14000,", 1), 1);
    let run = quincunx_with_input(&["verify", "-", "--target", "dais"], broken.as_bytes());
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.text().contains("failed"));
    assert!(run.stderr.contains("error["));
}

#[test]
fn tables_fit_as_many_columns_as_are_asked_for() {
    let model = digits("digits.onnx");
    for arguments in [
        &["compile", &model, "--target", "tcu"][..],
        &["run", &model, "--data", "random:1"],
        &["compare", &model, "--data", "random:1", "--target", "tcu", "--layers"],
        &["targets"],
    ] {
        let width = |text: String| text.lines().map(|line| line.chars().count()).max().unwrap();
        let narrow = quincunx(&[arguments, &["--columns", "60"]].concat());
        assert_eq!(narrow.code, 0, "{}", narrow.stderr);
        assert!(width(narrow.text()) <= 60, "{}", narrow.text());
        assert!(width(quincunx(arguments).text()) > 60, "{arguments:?}");
    }
    assert_eq!(quincunx(&["targets", "--columns", "39"]).code, 2);
}

#[test]
fn verbs_without_tables_refuse_their_options() {
    for options in [&["--format", "csv"][..], &["--table", "rows"], &["--columns", "80"]] {
        for verb in [&["completions", "bash"][..], &["man"], &["asm", "-"]] {
            let run = quincunx(&[verb, options].concat());
            assert_eq!((run.code, run.stdout.len()), (2, 0), "{verb:?} {options:?}");
            assert!(run.stderr.contains("Q0708"), "{}", run.stderr);
        }
    }
}

#[test]
fn help_groups_the_options_of_targets() {
    let help = quincunx(&["time", "--help"]).text();
    for heading in ["Options of dais:", "Options of npu:", "Options of dais, tcu:"] {
        assert_eq!(help.matches(&format!("\n{heading}\n")).count(), 1, "{heading}");
    }
}
