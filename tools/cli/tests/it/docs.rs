//! Every command of `docs/` and of the README is run, in order, and prints what is written there.
//!
//! A block marked `console` holds commands after `$ `, each followed by what it prints: stdout, then
//! stderr. A last line `[exit N]` is the exit code, 0 without it. A line `...` stands for any number
//! of lines, and `…` within a line for any characters. The commands run in a folder that holds the
//! files of `examples/digits` and links to the folders `examples` and `tests` of the repository; `>`
//! and `|` are not known.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

struct Example {
    line: usize,
    command: String,
    expected: Vec<String>,
    code: i32,
}

/// The pages of the book, and the README.
fn pages() -> Vec<PathBuf> {
    let book = fs::read_dir(docs()).unwrap().map(|entry| entry.unwrap().path());
    let book = book.filter(|path| path.is_file());
    book.chain([docs().join("../README.md")]).collect()
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn examples(text: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        match line {
            "```console" => inside = true,
            "```" => inside = false,
            _ if !inside => {}
            _ => match (line.strip_prefix("$ "), examples.last_mut()) {
                (Some(command), _) => examples.push(Example {
                    line: index + 1,
                    command: command.to_owned(),
                    expected: Vec::new(),
                    code: 0,
                }),
                (None, Some(example)) => match line.strip_prefix("[exit ") {
                    Some(code) => example.code = code.trim_end_matches(']').parse().unwrap(),
                    None => example.expected.push(line.to_owned()),
                },
                (None, None) => panic!("line {} belongs to no command", index + 1),
            },
        }
    }
    examples
}

/// A line against a pattern in which `…` stands for any characters.
fn matches_line(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

fn matches(patterns: &[String], lines: &[&str]) -> bool {
    match (patterns.split_first(), lines.split_first()) {
        (None, None) => true,
        (Some((first, rest)), _) if first == "..." => {
            (0..=lines.len()).any(|skipped| matches(rest, &lines[skipped..]))
        }
        (Some((first, rest)), Some((line, others))) => {
            matches_line(first, line) && matches(rest, others)
        }
        _ => false,
    }
}

fn run(example: &Example, folder: &Path) -> (String, i32) {
    let mut words = example.command.split_whitespace();
    assert_eq!(words.next(), Some("quincunx"), "line {}", example.line);
    let output = Command::new(env!("CARGO_BIN_EXE_quincunx"))
        .args(words)
        .current_dir(folder)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).unwrap(), output.status.code().unwrap())
}

#[test]
fn every_command_of_the_book_prints_what_it_says() {
    let mut count = 0;
    for path in pages() {
        let place = tempfile::tempdir().unwrap();
        for name in crate::support::names_in(Path::new(&crate::support::digits(""))) {
            if name.ends_with(".onnx") || name.ends_with(".npz") {
                fs::copy(crate::support::digits(&name), place.path().join(&name)).unwrap();
            }
        }
        // The pages about machines name files as they lie in the repository.
        for folder in ["examples", "tests"] {
            symlink(docs().join("..").join(folder), place.path().join(folder)).unwrap();
        }
        for example in examples(&fs::read_to_string(&path).unwrap()) {
            let (text, code) = run(&example, place.path());
            let at = format!("{}:{}: {}", path.display(), example.line, example.command);
            assert_eq!(code, example.code, "{at}\n{text}");
            let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
            let patterns: Vec<String> =
                example.expected.iter().map(|line| line.trim_end().to_owned()).collect();
            assert!(matches(&patterns, &lines), "{at}\n{text}");
            count += 1;
        }
    }
    assert!(count > 20, "only {count} commands");
}

#[test]
fn every_verb_is_in_the_book() {
    let text = fs::read_to_string(docs().join("cli.md")).unwrap();
    let help = crate::support::quincunx(&["--help"]).text();
    let list = help.split("Commands:\n").nth(1).unwrap();
    for line in list.lines().take_while(|line| !line.is_empty()) {
        let verb = line.split_whitespace().next().unwrap();
        assert!(verb == "help" || text.contains(&format!("$ quincunx {verb} ")), "{verb}");
    }
}

#[test]
fn the_readme_shows_every_machine() {
    let text = fs::read_to_string(docs().join("../README.md")).unwrap();
    let commands: Vec<String> = examples(&text).into_iter().map(|e| e.command).collect();
    let named = |part: String| commands.iter().any(|command| command.contains(&part));
    for machine in crate::support::names_in(&docs().join("../targets")) {
        assert!(
            named(format!(" --target {machine} ")) || named(format!("golden/{machine}/")),
            "{machine}"
        );
    }
}

#[test]
fn patterns_match_whole_lines() {
    assert!(matches_line("a…c", "abbc") && matches_line("…", "") && matches_line("a", "a"));
    assert!(
        !matches_line("a…c", "abcd") && !matches_line("a", "ab") && !matches_line("a…b…", "ac")
    );
    let patterns = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(matches(&patterns("a\n...\nd"), &["a", "b", "c", "d"]));
    assert!(!matches(&patterns("a\n..."), &["b"]));
    assert!(!matches(&patterns("a"), &["a", "b"]));
}
