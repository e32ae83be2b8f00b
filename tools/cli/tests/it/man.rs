//! `man` and `bench`.

use crate::support::{names_in, quincunx};
use serde_json::Value;
use std::process::{Command, Stdio};

/// The verbs, from the help of the binary itself.
fn verbs() -> Vec<String> {
    let help = quincunx(&["--help"]).text();
    let list = help.split("Commands:\n").nth(1).unwrap();
    let lines = list.lines().take_while(|line| !line.is_empty());
    let verbs: Vec<String> =
        lines.filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect();
    assert!(verbs.len() > 10, "{verbs:?}");
    verbs.into_iter().filter(|verb| verb != "help" && !verb.starts_with('-')).collect()
}

/// The test harness shows this on a failure or with `--nocapture`.
#[allow(clippy::print_stdout, reason = "a test that skips says so")]
fn skip(why: &str) {
    println!("skipped: {why}");
}

/// Words of the page as `man` shows it.
fn shown(page: &[u8]) -> Option<String> {
    let mut child = Command::new("man")
        .args(["--warnings", "-l", "-"])
        .env("MANWIDTH", "100")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), page).unwrap();
    let output = child.wait_with_output().unwrap();
    let problems = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        skip(&format!("man cannot show pages here: {problems}"));
        return None;
    }
    assert_eq!(problems, "", "man has warnings");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn the_page_names_every_verb_exit_code_and_file() {
    let run = quincunx(&["man"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let page = run.text();
    assert!(page.contains(".TH quincunx 1") && page.contains(".SH \"EXIT STATUS\""));
    for verb in verbs() {
        assert!(page.contains(&format!("quincunx\\-{verb}(1)")), "{verb} is missing");
    }
    for words in ["a bug in Quincunx", "calib.npz", "program.json", "Possible values"] {
        assert!(page.contains(words), "{words}");
    }
    assert_eq!(page.matches(".ds Aq").count(), 2);
    match shown(&run.stdout) {
        Some(text) => assert!(text.contains("EXIT STATUS") && text.contains("70")),
        None => skip("man is not installed"),
    }
}

#[test]
fn every_verb_has_a_page_with_its_options() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("man");
    let run = quincunx(&["man", "--dir", folder.to_str().unwrap()]);
    assert_eq!((run.code, run.stdout.len()), (0, 0), "{}", run.stderr);
    let mut expected: Vec<String> = verbs().iter().map(|v| format!("quincunx-{v}.1")).collect();
    expected.push("quincunx.1".to_owned());
    expected.sort();
    assert_eq!(names_in(&folder), expected);
    for verb in verbs() {
        let page = quincunx(&["man", &verb]).stdout;
        assert_eq!(std::fs::read(folder.join(format!("quincunx-{verb}.1"))).unwrap(), page);
        shown(&page);
        let page = String::from_utf8(page).unwrap().replace("\\-", "-");
        assert!(page.contains(&format!(".TH quincunx-{verb} 1")), "{page}");
        assert!(page.contains("EXIT STATUS"));
        let help = quincunx(&[&verb, "--help"]).text();
        for word in help.split_whitespace().filter(|word| word.starts_with("--")) {
            let option = word.trim_end_matches([',', '.', ')', ':', ';']);
            // An optional value is set in another type face on the page.
            let option = option.split(['[', '=']).next().unwrap();
            assert!(page.contains(option), "{verb} {option}");
        }
    }
}

#[test]
fn unknown_pages_are_wrong_usage() {
    let run = quincunx(&["man", "compar"]);
    assert_eq!((run.code, run.stdout.len()), (2, 0));
    assert!(run.stderr.contains("did you mean \"compare\"?"));
    assert_eq!(quincunx(&["man", "run", "--dir", "x"]).code, 2);
}

#[test]
fn bench_has_its_documented_json() {
    let run = quincunx(&[
        "bench",
        "num",
        "--size",
        "8",
        "--repeat",
        "1",
        "--threads",
        "1",
        "--format",
        "json",
    ]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let result: Value = serde_json::from_slice(&run.stdout).unwrap();
    let keys: Vec<&String> = result.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["rows", "schema", "suite"]);
    assert_eq!((&result["schema"], &result["suite"]), (&1.into(), &"num".into()));
    for row in result["rows"].as_array().unwrap() {
        assert_eq!(row.as_object().unwrap().len(), 4);
        assert!(row["value"].as_f64().unwrap() > 0.0);
        for key in ["name", "metric", "unit"] {
            assert!(row[key].is_string() && row["name"] != "total");
        }
    }
    for arguments in [
        &["bench", "num", "--sise", "8"][..],
        &["bench", "num", "--size", "0"],
        &["bench", "num", "--repeat", "0"],
        &["bench", "num", "--level", "best2"],
        &["bench", "nun"],
        &["bench"],
    ] {
        assert_eq!(quincunx(arguments).code, 2, "{arguments:?}");
    }
}
