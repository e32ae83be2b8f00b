//! Commands that could be understood in two ways, and where problems of texts are shown.

use crate::support::{compiled, file, quincunx};
use serde_json::Value;

/// A text of each target whose last line is wrong, and the place of the problem.
const BROKEN: [(&str, &str, &str); 5] = [
    ("dais", ".dais\nfrobnicate\n", "2:1"),
    ("dpas", ".version 3.8\n.kernel \"k\"\ndpas.8x9 (8)\n", "3:6"),
    ("npu", "[ct_st\n", "1:"),
    ("scamp", "mov(A,B)\nfrobnicate(A)\n", "2:1"),
    ("tcu", "NoOp\nMatMul foo\n", "2:8"),
];

#[test]
fn problems_of_texts_show_their_line() {
    let place = tempfile::tempdir().unwrap();
    for (target, text, at) in BROKEN {
        let path = file(place.path(), &format!("{target}.txt"), text.as_bytes());
        let line = text.lines().last().unwrap();
        for verb in ["asm", "disasm", "verify", "time", "inspect", "run"] {
            let data: &[&str] = if verb == "run" { &["--data", "zeros"] } else { &[] };
            let command = [&[verb, &path, "--target", target], data].concat();
            let run = quincunx(&command);
            assert_eq!(run.code, 3, "{command:?}: {}", run.stderr);
            for part in [&format!("{path}:{at}"), &format!("| {line}"), "^"] {
                assert!(run.stderr.contains(part), "{command:?}: {}", run.stderr);
            }
            let run = quincunx(&[&command[..], &["--message-format", "json"]].concat());
            let problem: Value = serde_json::from_str(run.stderr.lines().next().unwrap()).unwrap();
            assert_eq!(problem["file"], *path, "{command:?}");
            assert!(at.starts_with(&format!("{}:", problem["line"])), "{command:?}: {problem}");
        }
    }
}

/// Programs that are read, and refused when they are checked or loaded.
#[test]
fn problems_of_programs_show_their_line() {
    let place = tempfile::tempdir().unwrap();
    let path = file(place.path(), "p.txt", b"mov(A,B)\nmov(A,Q)\n");
    for command in [&["verify", &path][..], &["run", &path, "--data", "zeros"]] {
        let run = quincunx(&[command, &["--target", "scamp"]].concat());
        assert_ne!(run.code, 0, "{command:?}");
        for part in [&format!("{path}:2:1"), "| mov(A,Q)", "^"] {
            assert!(run.stderr.contains(part), "{command:?}: {}", run.stderr);
        }
    }
}

#[test]
fn problems_of_machine_descriptions_show_their_line() {
    let place = tempfile::tempdir().unwrap();
    let program = file(place.path(), "p.txt", b"mov(A,B)\n");
    let arch = file(place.path(), "m.toml", b"name = \"m\"\nwidth = x\n");
    for command in [
        &["verify", &program, "--target", "scamp"][..],
        &["targets", "npu"],
        &["compile", &crate::support::digits("digits.onnx"), "--target", "dais", "-o", "x"],
    ] {
        let run = quincunx(&[command, &["--arch", &arch]].concat());
        assert_eq!(run.code, 3, "{command:?}: {}", run.stderr);
        for part in [&format!("{arch}:2:9"), "| width = x", "^"] {
            assert!(run.stderr.contains(part), "{command:?}: {}", run.stderr);
        }
    }
}

#[test]
fn values_of_switches_follow_an_equals_sign() {
    let place = tempfile::tempdir().unwrap();
    let program = file(place.path(), "p.txt", b"mov(A,B)\n");
    for value in ["true", "false"] {
        let run = quincunx(&["verify", &program, "--fix", value]);
        assert_eq!(run.code, 2, "{}", run.stderr);
        assert!(run.stderr.contains(&format!("write --fix={value}")), "{}", run.stderr);
    }
    for switch in ["--fix", "--fix=false"] {
        assert_eq!(quincunx(&["verify", switch, &program]).code, 0, "{switch}");
    }
    // Behind -- every word is a file.
    let run = quincunx(&["verify", &program, "--fix", "--", "false"]);
    assert!(run.stderr.contains("Q0602"), "{}", run.stderr);
}

#[test]
fn an_option_has_one_value() {
    let place = tempfile::tempdir().unwrap();
    let program = file(place.path(), "p.txt", b"mov(A,B)\n");
    let verify = |options: &[&str]| quincunx(&[&["verify", &program][..], options].concat());
    for options in [
        &["--set", "fix=false", "--fix"][..],
        &["--set", "edge=zero", "--edge", "stale"],
        &["--set", "edge=zero", "--set", "edge=stale"],
    ] {
        let run = verify(options);
        assert_eq!(run.code, 2, "{options:?}: {}", run.stderr);
        assert!(run.stderr.contains("Q0714"), "{options:?}: {}", run.stderr);
    }
    assert_eq!(verify(&["--set", "fix=true", "--fix"]).code, 0);
}

#[test]
fn a_file_is_given_once() {
    let place = tempfile::tempdir().unwrap();
    let program = file(place.path(), "p.txt", b"mov(A,B)\n");
    let again = format!("{}/./p.txt", place.path().display());
    let folder = place.path().to_str().unwrap();
    for second in [&program, &again, folder] {
        for verb in ["verify", "disasm", "time"] {
            let run = quincunx(&[verb, &program, second]);
            assert_eq!(run.code, 2, "{verb} {second}: {}", run.stderr);
            assert!(run.stderr.contains("Q0713"), "{verb} {second}: {}", run.stderr);
        }
    }
}

/// Numbers below 0 are values of options, not options.
#[test]
fn options_take_negative_numbers() {
    let run = quincunx(&["bench", "dais:cmvm", "--dir", "/nowhere", "--depth-slack", "-1"]);
    assert!(run.stderr.contains("Q1141"), "{}", run.stderr);
    let run = quincunx(&["bench", "dais:cmvm", "--dir", "/nowhere", "--depth-slack", "-2"]);
    assert!(run.stderr.contains("Q0502"), "{}", run.stderr);
}

/// A program has a buffer to be shown, a network has not.
#[test]
fn buffers_are_those_of_programs() {
    let place = tempfile::tempdir().unwrap();
    let out = compiled(place.path());
    let run = quincunx(&["run", &out, "--data", "zeros", "--dump-buffer"]);
    assert_eq!(run.code, 4, "{}", run.stderr);
    assert!(run.stderr.contains("Q1130"), "{}", run.stderr);
    let program = format!("{out}/device0/program.dasm");
    let run = quincunx(&["run", &program, "--data", "zeros", "--dump-buffer"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(String::from_utf8_lossy(&run.stdout).contains("buffer"));
}

#[test]
fn models_of_other_tools_are_answered_by_every_verb() {
    let place = tempfile::tempdir().unwrap();
    let lite = crate::support::file(place.path(), "m.tflite", b"\x1c\0\0\0TFL3\x14\0");
    let h5 = crate::support::file(place.path(), "m.onnx", b"\x89HDF\r\n\x1a\n rest");
    std::fs::create_dir(place.path().join("saved")).unwrap();
    crate::support::file(&place.path().join("saved"), "saved_model.pb", b"\x08\x01");
    let saved = place.path().join("saved").to_str().unwrap().to_owned();
    let out = place.path().join("out").to_str().unwrap().to_owned();
    for (model, help) in [(lite, "--tflite"), (h5, "format=\"onnx\""), (saved, "--saved-model")] {
        for verb in [
            &["inspect", &model][..],
            &["run", &model, "--data", "zeros"],
            &["run", &model, "--target", "tcu", "--data", "zeros"],
            &["compile", &model, "--target", "dais", "-o", &out],
            &["compare", &model, "--data", "zeros"],
            &["quantise", &model, "--calibrate", "zeros", "-o", &out],
            &["verify", &model],
            &["time", &model],
            &["disasm", &model],
            &["diff", &model, &model],
        ] {
            let run = crate::support::quincunx(verb);
            assert_eq!((run.code, run.stdout.len()), (4, 0), "{verb:?}: {}", run.stderr);
            assert!(run.stderr.contains("Q0651") && run.stderr.contains(help), "{}", run.stderr);
        }
    }
}
