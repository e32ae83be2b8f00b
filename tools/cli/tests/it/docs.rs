//! Every command of `docs/` and of the README is run, in order, and prints what is written there.
//!
//! A block marked `console` holds commands after `$ `, each followed by what it prints: stdout, then
//! stderr. A last line `[exit N]` is the exit code, 0 without it. A line `...` stands for any number
//! of lines, and `…` within a line for any characters. The commands of a page run in a folder of its
//! own that holds the files of `examples/digits` and links to the folders `examples` and `tests` of
//! the repository; `>` and `|` are not known.

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
    let mut pages = vec![docs().join("../README.md").canonicalize().unwrap()];
    let mut folders = vec![docs()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").canonicalize().unwrap()
}

/// The lines of a page outside of blocks of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    text.lines().filter(move |line| {
        let fence = line.starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// What links and pictures of a page name.
fn links(text: &str) -> Vec<&str> {
    let ends = prose(text).flat_map(|line| line.split("](").skip(1));
    ends.filter_map(|end| Some(end.split_once(')')?.0)).collect()
}

/// The name by which a link finds a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().to_lowercase();
    kept.chars()
        .filter(|c| c.is_alphanumeric() || "-_ ".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// The file that a link of a page names, if it is there.
fn target(page: &Path, file: &str) -> Option<PathBuf> {
    if file.is_empty() {
        return Some(page.to_owned());
    }
    page.with_file_name(file).canonicalize().ok()
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

/// The book is also read apart from the repository, so its pages link to nothing outside it.
#[test]
fn every_link_leads_to_a_heading_of_the_book() {
    for path in pages() {
        for link in links(&fs::read_to_string(&path).unwrap()) {
            if link.starts_with("https://") {
                continue;
            }
            let at = format!("{}: {link}", path.display());
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = target(&path, file).unwrap_or_else(|| panic!("{at}: there is no file"));
            assert!(!path.starts_with(docs()) || target.starts_with(docs()), "{at}: not the book");
            if !heading.is_empty() {
                let text = fs::read_to_string(target).unwrap();
                let mut headings = prose(&text).filter(|line| line.starts_with('#'));
                assert!(headings.any(|line| anchor(line) == heading), "{at}: there is no heading");
            }
        }
    }
}

#[test]
fn the_summary_lists_every_page() {
    let summary = docs().join("SUMMARY.md");
    let text = fs::read_to_string(&summary).unwrap();
    let listed: Vec<_> = links(&text).into_iter().map(|link| target(&summary, link)).collect();
    for path in pages().into_iter().filter(|path| path.starts_with(docs()) && *path != summary) {
        assert!(listed.contains(&Some(path.clone())), "{}", path.display());
    }
}

#[test]
fn every_verb_has_a_page() {
    let help = crate::support::quincunx(&["--help"]).text();
    let list = help.split("Commands:\n").nth(1).unwrap();
    for line in list.lines().take_while(|line| !line.is_empty()) {
        let verb = line.split_whitespace().next().unwrap();
        if verb != "help" {
            let text = fs::read_to_string(docs().join(format!("verbs/{verb}.md"))).expect(verb);
            assert!(text.contains(&format!("$ quincunx {verb} ")), "{verb}");
        }
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
