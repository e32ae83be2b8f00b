//! The layout of the workspace: imports run downward only, between crates and between the rooms of a
//! target; targets do not know each other; every diagnostic code has one home.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// What each crate of the ground floor may use (`ARCHITECTURE.md`).
const GROUND_FLOOR: &[(&str, &[&str])] = &[
    ("diag", &[]),
    ("num", &[]),
    ("tensor", &["diag", "num"]),
    ("stop", &[]),
    ("graph", &["diag", "num", "tensor", "stop"]),
    ("import", &["diag", "num", "tensor", "graph"]),
    ("isa", &["diag"]),
    ("report", &[]),
    ("timeline", &["report"]),
    ("contract", &["diag", "num", "tensor", "graph", "isa", "report", "timeline"]),
    ("testkit", &["diag", "num", "tensor", "graph", "isa", "contract"]),
];

/// What only tests may use.
const FOR_TESTS: &str = "quincunx-testkit";

struct Package {
    name: String,
    floor: String,
    folder: String,
    uses: BTreeSet<String>,
}

fn packages() -> Vec<Package> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    packages
        .iter()
        .map(|package| {
            let manifest = Path::new(package["manifest_path"].as_str().unwrap());
            let mut folders = manifest.parent().unwrap().components().rev();
            let mut next = || folders.next().unwrap().as_os_str().to_string_lossy().into_owned();
            let (folder, floor) = (next(), next());
            let uses = package["dependencies"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|d| d["kind"].is_null() && !d["path"].is_null())
                .map(|d| d["name"].as_str().unwrap().to_owned())
                .collect();
            Package { name: package["name"].as_str().unwrap().to_owned(), floor, folder, uses }
        })
        .collect()
}

#[test]
fn imports_run_downward_only() {
    let packages = packages();
    let floor_of: BTreeMap<&str, &str> =
        packages.iter().map(|p| (p.name.as_str(), p.floor.as_str())).collect();
    for package in &packages {
        let allowed = |used: &str| match package.floor.as_str() {
            "crates" => {
                let own = GROUND_FLOOR.iter().find(|(folder, _)| *folder == package.folder);
                let (_, below) =
                    own.unwrap_or_else(|| panic!("{} is not in the table", package.name));
                used.strip_prefix("quincunx-").is_some_and(|folder| below.contains(&folder))
            }
            "targets" => floor_of[used] == "crates",
            "tools" => true,
            floor => panic!("{} lies on an unknown floor {floor}", package.name),
        };
        for used in &package.uses {
            assert!(used != FOR_TESTS, "{} must use {used} in tests only", package.name);
            assert!(allowed(used), "{} must not use {used}", package.name);
        }
    }
}

#[test]
fn packages_are_named_after_their_folders() {
    for package in packages() {
        let expected = match (package.floor.as_str(), package.folder.as_str()) {
            ("tools", "quincunx") => "quincunx".to_owned(),
            (_, folder) => format!("quincunx-{folder}"),
        };
        assert_eq!(package.name, expected);
    }
}

/// Rooms that a target may have under `src/`, each a file, a folder or both.
const FLOOR_PLAN: &[&str] = &[
    "lib", "options", "arch", "isa", "program", "text", "binary", "files", "verify", "compile",
    "golden", "simulate", "ports", "read", "document", "artifact", "time", "views", "bench",
];

/// Rooms that every target has.
const NEEDED: &[&str] = &[
    "lib", "options", "arch", "isa", "program", "text", "files", "verify", "simulate", "ports",
    "read", "artifact", "time",
];

/// Rooms that only one target has.
const OWN_ROOMS: &[(&str, &[&str])] = &[
    ("dais", &["hls", "rtl", "tap", "words"]),
    ("dpas", &["latency", "layout", "precision", "shape", "swsb"]),
    ("npu", &["compare", "derive", "regions", "replay", "work", "writer"]),
    (
        "scamp",
        &[
            "auke",
            "bus",
            "cain",
            "digital",
            "expand",
            "fix",
            "goal",
            "meaning",
            "precision",
            "readout",
            "search",
            "symbolic",
            "task",
        ],
    ),
    ("tcu", &["bound", "package"]),
];

/// The folders of the targets with their names.
fn targets() -> Vec<(String, PathBuf)> {
    let folders = std::fs::read_dir(root().join("targets")).unwrap();
    let paths = folders.map(|folder| folder.unwrap().path());
    paths.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), path)).collect()
}

/// The room that a path under `src/` belongs to.
fn room_of(path: &Path, src: &Path) -> String {
    let first = path.strip_prefix(src).unwrap().components().next().unwrap();
    Path::new(&first).file_stem().unwrap().to_str().unwrap().to_owned()
}

/// Every target has the rooms of the floor plan, and no room that is not declared here and in
/// `ARCHITECTURE.md`.
#[test]
fn targets_follow_the_floor_plan() {
    let architecture = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for (name, target) in targets() {
        assert!(target.join("README.md").exists(), "{name} has no README.md");
        let own = OWN_ROOMS.iter().find(|(owner, _)| *owner == name).map_or(&[][..], |own| own.1);
        let src = target.join("src");
        let rooms: BTreeSet<String> =
            std::fs::read_dir(&src).unwrap().map(|e| room_of(&e.unwrap().path(), &src)).collect();
        for room in &rooms {
            let is_known = [FLOOR_PLAN, own].iter().any(|list| list.contains(&room.as_str()));
            assert!(is_known, "{name} has a room `{room}` that is not declared");
        }
        let head = format!("| `{name}` |");
        let row = architecture.lines().find(|line| line.starts_with(&head)).unwrap_or("");
        for room in own {
            assert!(row.contains(&format!("`{room}`")), "ARCHITECTURE.md: {name} lacks `{room}`");
        }
        for room in own.iter().chain(NEEDED) {
            assert!(rooms.contains(*room), "{name} lacks the room `{room}`");
        }
    }
    for room in FLOOR_PLAN {
        assert!(architecture.contains(&format!("`src/{room}")), "ARCHITECTURE.md lacks `{room}`");
    }
}

/// The rooms of a target import each other downward only: there is an order in which each uses
/// only those before it, and none uses `lib.rs` or benches.
#[test]
fn rooms_import_downward_only() {
    for (name, target) in targets() {
        let src = target.join("src");
        let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        sources(&src, &mut |path, text| {
            let room = room_of(path, &src);
            let used = imported(text).into_iter().filter(|used| *used != room);
            uses.entry(room.clone()).or_default().extend(used);
        });
        // Benches measure the target as a whole; `lib.rs` only lists them.
        uses.retain(|room, _| !["lib", "bench"].contains(&room.as_str()));
        assert!(uses.len() >= NEEDED.len() - 1, "{name}: the search found only {}", uses.len());
        for (room, used) in &uses {
            let above = used.iter().find(|used| !uses.contains_key(*used));
            assert_eq!(above, None, "{name}: `{room}` imports what lies above it");
        }
        loop {
            let (below, rest): (BTreeMap<_, _>, BTreeMap<_, _>) =
                uses.clone().into_iter().partition(|(_, used)| used.is_empty());
            if below.is_empty() {
                break;
            }
            uses = rest;
            uses.values_mut().for_each(|used| used.retain(|used| !below.contains_key(used)));
        }
        assert_eq!(uses, BTreeMap::new(), "{name}: these rooms import each other in a circle");
    }
}

/// The first names behind `crate::` in a source text, those of a group one by one.
fn imported(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: String = lines.flat_map(|line| [line, "\n"]).collect();
    let mut names = BTreeSet::new();
    for (at, word) in code.match_indices("crate::") {
        let mut depth = 0;
        let mut start = true;
        for part in code[at + word.len()..].split_inclusive(|c: char| !is_word(c)) {
            let end = part.chars().last().unwrap();
            let name = part.trim_end_matches(|c| !is_word(c));
            if start && !name.is_empty() {
                names.insert(name.to_owned());
                start = false;
            }
            match end {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => start = true,
                _ => {}
            }
            if depth == 0 && (end == '}' || !start) {
                break;
            }
        }
    }
    names
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// A diagnostic code belongs to one crate, and `docs/errors.md` explains it there, once.
#[test]
fn diagnostic_codes_have_one_home_and_are_explained() {
    let mut found = BTreeSet::new();
    for floor in ["crates", "targets", "tools"] {
        for package in std::fs::read_dir(root().join(floor)).unwrap() {
            let package = package.unwrap();
            if package.file_name() == "testkit" {
                // It compares with codes of other crates, as tests do.
                continue;
            }
            let home = format!("{floor}/{}", package.file_name().display());
            sources(&package.path().join("src"), &mut |_, text| {
                found.extend(constructed_codes(text).map(|code| (code, home.clone())));
            });
        }
    }
    let codes: BTreeSet<&str> = found.iter().map(|(code, _)| code.as_str()).collect();
    assert!(codes.len() > 400, "the search found only {} codes", codes.len());
    let entries: Vec<_> = quincunx::explain::entries().collect();
    let explained: BTreeSet<(String, String)> =
        entries.iter().map(|entry| (entry.code.to_owned(), entry.home.to_owned())).collect();
    let missing: Vec<_> = found.difference(&explained).collect();
    let stale: Vec<_> = explained.difference(&found).collect();
    assert!(missing.is_empty(), "docs/errors.md does not explain {missing:?}");
    assert!(stale.is_empty(), "docs/errors.md explains what no source constructs: {stale:?}");
    assert_eq!(entries.len(), codes.len(), "a code has two homes or two entries");
    for entry in entries {
        let cells = [entry.meaning, entry.cause, entry.remedy];
        assert!(cells.iter().all(|cell| !cell.is_empty()), "{entry:?}");
    }
}

/// Hands over every source file under a folder, without unit tests.
fn sources(folder: &Path, take: &mut dyn FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.file_stem().is_some_and(|name| name == "tests") {
            continue;
        }
        if path.is_dir() {
            sources(&path, take);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            take(&path, text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default());
        }
    }
}

/// Codes that are arguments of a call or results of a branch; comparisons with a code of another
/// crate do not count.
fn constructed_codes(text: &str) -> impl Iterator<Item = String> {
    let words: Vec<&str> = text.split('"').collect();
    let is_given = |before: &str| {
        let before = before.trim_end();
        before.ends_with(['(', ',', '{', '>']) || before.ends_with(" =")
    };
    let codes = words.windows(2).filter(|pair| is_given(pair[0]) && is_code(pair[1]));
    codes.map(|pair| pair[1].to_owned()).collect::<Vec<_>>().into_iter()
}

fn is_code(word: &str) -> bool {
    word.strip_prefix('Q').is_some_and(|n| n.len() == 4 && n.bytes().all(|b| b.is_ascii_digit()))
}
