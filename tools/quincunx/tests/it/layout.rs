//! The layout of the workspace: imports run downward only, targets do not know each other, and
//! every diagnostic code has one home.

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
    ("graph", &["diag", "num", "tensor"]),
    ("import", &["diag", "num", "tensor", "graph"]),
    ("isa", &["diag"]),
    ("report", &["diag"]),
    ("timeline", &[]),
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

/// Every target has the rooms of the floor plan.
#[test]
fn targets_follow_the_floor_plan() {
    for target in std::fs::read_dir(root().join("targets")).unwrap() {
        let target = target.unwrap().path();
        for room in [
            "README.md",
            "src/lib.rs",
            "src/arch.rs",
            "src/isa.rs",
            "src/program.rs",
            "src/verify.rs",
        ] {
            assert!(target.join(room).exists(), "{} lacks {room}", target.display());
        }
    }
}

/// A diagnostic code belongs to one crate, so that it can be looked up.
#[test]
fn diagnostic_codes_have_one_home() {
    let mut homes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for floor in ["crates", "targets", "tools"] {
        for package in std::fs::read_dir(root().join(floor)).unwrap() {
            let package = package.unwrap().path();
            for code in codes_under(&package.join("src")) {
                homes.entry(code).or_default().insert(package.display().to_string());
            }
        }
    }
    assert!(homes.len() > 20, "the search found only {} codes", homes.len());
    for (code, packages) in homes {
        assert!(packages.len() == 1, "{code} is used by {packages:?}");
    }
}

/// Codes that a crate constructs: string literals such as `"Q0101"`.
fn codes_under(folder: &Path) -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    let Ok(entries) = std::fs::read_dir(folder) else {
        return codes;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.file_stem().is_some_and(|name| name == "tests") {
            // Tests compare with codes of other crates.
            continue;
        }
        if path.is_dir() {
            codes.extend(codes_under(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            // Unit tests at the end of a file may make up codes.
            let text = text.split("#[cfg(test)]").next().unwrap_or_default();
            codes.extend(constructed_codes(text));
        }
    }
    codes
}

/// Codes that are arguments of a call; comparisons with a code of another crate do not count.
fn constructed_codes(text: &str) -> impl Iterator<Item = String> {
    let words: Vec<&str> = text.split('"').collect();
    let is_argument = |before: &str| before.trim_end().ends_with(['(', ',']);
    let codes = words.windows(2).filter(|pair| is_argument(pair[0]) && is_code(pair[1]));
    codes.map(|pair| pair[1].to_owned()).collect::<Vec<_>>().into_iter()
}

fn is_code(word: &str) -> bool {
    word.strip_prefix('Q').is_some_and(|n| n.len() == 4 && n.bytes().all(|b| b.is_ascii_digit()))
}
