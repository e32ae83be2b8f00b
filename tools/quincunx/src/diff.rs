//! `diff`: what differs between two files or program folders of one kind.
//!
//! | both are | what is compared |
//! |---|---|
//! | program folders | the descriptions, then the programs of segments that differ |
//! | programs of one target | the assembly text |
//! | models | the text forms of the graphs, then the constants |
//! | `.npy`, `.npz`, `.csv` or pictures | every array, number by number |
//! | JSON | every value, by its path |
//! | text | lines |
//! | anything else | bytes |

mod arrays;
mod json;
mod program;
mod text;

use crate::detect::{FileKind, detect};
use crate::foreign::refuse_folder;
use crate::numbers::Tolerance;
use crate::{InputFile, Model, Outcome, Setup, data, inspect};
use quincunx_contract::Target;
use quincunx_diag::{Class, Diagnostic};
use quincunx_report::{Format, Report, Table};
use std::path::PathBuf;

/// Larger JSON is compared as text: in memory it takes up to sixteen times as much.
const MAX_JSON: usize = 8 << 20;

/// One of the two that are compared.
pub enum Side {
    /// A program folder.
    Folder(PathBuf),
    /// A file.
    File(InputFile),
}

impl Side {
    fn name(&self) -> String {
        match self {
            Side::Folder(path) => path.display().to_string(),
            Side::File(file) => file.name.clone(),
        }
    }
}

/// How to compare.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How far numbers of arrays and JSON may be apart.
    pub tolerance: Tolerance,
    /// Equal lines shown around lines that differ.
    pub context: usize,
    /// Names of arrays in the order in which they are reported; others follow by name.
    pub order: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { tolerance: Tolerance::EXACT, context: 3, order: Vec::new() }
    }
}

/// What differs.
#[derive(Clone, Debug, Default)]
pub struct Difference {
    /// What both are.
    kind: &'static str,
    names: [String; 2],
    same: bool,
    /// Rows about arrays, JSON values or bytes.
    tables: Vec<Part>,
    /// Unified difference of lines; empty when there is none.
    unified: String,
}

/// Rows whose long texts are cut for people only.
#[derive(Clone, Debug)]
enum Part {
    Table(Table),
    Paths(json::Changes),
}

impl Difference {
    /// True when nothing differs.
    pub fn is_same(&self) -> bool {
        self.same
    }

    /// The exit code: 1 when something differs.
    pub fn exit_code(&self) -> u8 {
        if self.same { 0 } else { Class::Answer.exit_code() }
    }

    /// The result. As text it is only what differs, so that a difference of lines is a patch.
    pub fn report(&self, format: Format) -> Report {
        let people = matches!(format, Format::Text | Format::Markdown);
        let mut report = Report::new();
        if format != Format::Text {
            let mut summary = Table::properties("summary");
            summary.property("kind", self.kind);
            summary.property("a", self.names[0].as_str());
            summary.property("b", self.names[1].as_str());
            summary.property("same", if self.same { "yes" } else { "no" });
            report = report.table(summary);
        }
        for part in &self.tables {
            report = match part {
                Part::Table(table) => report.table(table.clone()),
                Part::Paths(changes) if people && changes.count == 0 => report,
                Part::Paths(changes) => {
                    let rest = changes.count - changes.shown.len();
                    let report = report.table(json::table(&changes.shown, people));
                    match rest {
                        0 => report,
                        _ => report.text("more", format!("{rest} more values differ")),
                    }
                }
            };
        }
        if self.unified.is_empty() {
            report
        } else {
            report.verbatim("diff", self.unified.as_str())
        }
    }

    fn add_text(&mut self, unified: Option<String>) {
        if let Some(unified) = unified {
            self.same = false;
            self.unified += &unified;
        }
    }

    fn add_paths(&mut self, changes: json::Changes) {
        self.same &= changes.count == 0;
        self.tables.push(Part::Paths(changes));
    }

    fn add_arrays(&mut self, (same, table): (bool, Table)) {
        self.same &= same;
        self.tables.push(Part::Table(table));
    }
}

/// Compares two files, or two program folders.
///
/// # Errors
/// `Q0630` when they are not of one kind; what the readers of their format say.
pub fn diff(
    a: &Side,
    b: &Side,
    targets: &[&dyn Target],
    settings: &Settings,
) -> Outcome<Difference> {
    let mut found = Difference { names: [a.name(), b.name()], same: true, ..Difference::default() };
    match (a, b) {
        (Side::Folder(a), Side::Folder(b)) => {
            refuse_folder(a)?;
            refuse_folder(b)?;
            program::folders([a, b], targets, settings, &mut found)?;
        }
        (Side::File(a), Side::File(b)) => files([a, b], targets, settings, &mut found)?,
        (Side::Folder(_), Side::File(_)) => return Err(unlike(&found, ["a folder", "a file"])),
        (Side::File(_), Side::Folder(_)) => return Err(unlike(&found, ["a file", "a folder"])),
    }
    Ok(found)
}

/// The order in which a model or program folder computes its values, for [`Settings::order`].
///
/// # Errors
/// As reading it.
pub fn value_order(of: &Side, targets: &[&dyn Target]) -> Outcome<Vec<String>> {
    match of {
        Side::Folder(path) => Ok(crate::open_folder(path, targets, &[])?.executable.value_order()),
        Side::File(file) => {
            let graph = Model::read(file)?.graph;
            Ok(graph.values().map(|(_, value)| value.name.clone()).collect())
        }
    }
}

fn unlike(found: &Difference, kinds: [&str; 2]) -> crate::Failure {
    let [a, b] = &found.names;
    let message = format!("{a} is {}, {b} is {}", kinds[0], kinds[1]);
    Diagnostic::usage("Q0630", message).help("give two of one kind").into()
}

/// What a file is to `diff`.
enum Kind<'a> {
    Arrays,
    Model,
    Program(&'a dyn Target),
    Json(Box<serde_json::Value>),
    Text,
    Bytes,
}

impl Kind<'_> {
    fn name(&self) -> &'static str {
        match self {
            Kind::Arrays => "arrays",
            Kind::Model => "a model",
            Kind::Program(_) => "a program",
            Kind::Json(_) => "JSON",
            Kind::Text => "text",
            Kind::Bytes => "of no known format",
        }
    }
}

fn kind<'a>(file: &InputFile, targets: &[&'a dyn Target]) -> Kind<'a> {
    match detect(file, targets) {
        FileKind::Npy | FileKind::Npz | FileKind::Array(_) => Kind::Arrays,
        FileKind::Model => Kind::Model,
        FileKind::Program(target) if !is_document(file, target) => Kind::Program(target),
        FileKind::Program(_) | FileKind::Unknown => match json(file) {
            Some(value) => Kind::Json(Box::new(value)),
            None if is_text(file) => Kind::Text,
            None => Kind::Bytes,
        },
    }
}

/// A file of the machine that is not a program is compared as what it is besides.
fn is_document(file: &InputFile, target: &dyn Target) -> bool {
    let setup = Setup::default_for(target);
    setup.is_ok_and(|setup| !matches!(inspect::document(&file.to_file(), &setup), Ok(None)))
}

fn json(file: &InputFile) -> Option<serde_json::Value> {
    let small = file.bytes.len() <= MAX_JSON;
    small.then(|| serde_json::from_slice(&file.bytes).ok()).flatten()
}

fn is_text(file: &InputFile) -> bool {
    !file.bytes.contains(&0) && std::str::from_utf8(&file.bytes).is_ok()
}

fn files(
    [a, b]: [&InputFile; 2],
    targets: &[&dyn Target],
    settings: &Settings,
    found: &mut Difference,
) -> Outcome<()> {
    match (kind(a, targets), kind(b, targets)) {
        (Kind::Arrays, Kind::Arrays) => {
            found.kind = "arrays";
            let read = |file| data::read_arrays(file).map_err(|p| p.name_file(&file.name));
            let (a, b) = (read(a)?, read(b)?);
            found.add_arrays(arrays::table(&a, &b, settings)?);
        }
        (Kind::Model, Kind::Model) => {
            found.kind = "models";
            let (a, b) = (Model::read(a)?, Model::read(b)?);
            program::graphs([&a.graph, &b.graph], settings, found)?;
        }
        (Kind::Program(target), Kind::Program(other))
            if target.info().name == other.info().name =>
        {
            found.kind = "programs";
            program::natives([a, b], target, targets, settings, found)?;
        }
        (Kind::Json(a), Kind::Json(b)) => {
            found.kind = "JSON";
            found.add_paths(json::changes(&a, &b, settings.tolerance));
        }
        // A number or a word alone is JSON too.
        (Kind::Text | Kind::Json(_), Kind::Text | Kind::Json(_)) => lines([a, b], settings, found),
        (Kind::Bytes | Kind::Text, Kind::Bytes | Kind::Text) => bytes([a, b], found),
        (a, b) => return Err(unlike(found, [a.name(), b.name()])),
    }
    Ok(())
}

fn lines([a, b]: [&InputFile; 2], settings: &Settings, found: &mut Difference) {
    found.kind = "text";
    let (left, right) = (String::from_utf8_lossy(&a.bytes), String::from_utf8_lossy(&b.bytes));
    found.add_text(text::unified((&a.name, &left), (&b.name, &right), settings.context));
}

/// Where files of no known format part.
fn bytes([a, b]: [&InputFile; 2], found: &mut Difference) {
    found.kind = "bytes";
    found.same = a.bytes == b.bytes;
    if found.same {
        return;
    }
    let pairs = a.bytes.iter().zip(b.bytes.iter());
    let first = pairs.clone().position(|(a, b)| a != b);
    let hexadecimal = |byte: Option<&u8>| match byte {
        Some(byte) => format!("{byte:#04x}"),
        None => "end".to_owned(),
    };
    let at = first.unwrap_or(a.bytes.len().min(b.bytes.len()));
    let mut table = Table::properties("rows");
    table.property("bytes in a", a.bytes.len());
    table.property("bytes in b", b.bytes.len());
    table.property("first difference at byte", at);
    table.property("byte in a", hexadecimal(a.bytes.get(at)));
    table.property("byte in b", hexadecimal(b.bytes.get(at)));
    found.tables.push(Part::Table(table));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(name: &str, bytes: &[u8]) -> Side {
        Side::File(InputFile { name: name.into(), path: None, bytes: bytes.to_vec().into() })
    }

    fn compare(a: &[u8], b: &[u8]) -> Difference {
        diff(&side("a", a), &side("b", b), &[], &Settings::default()).unwrap()
    }

    #[test]
    fn lines_give_a_patch() {
        let found = compare(b"one\ntwo\nthree\n", b"one\n2\nthree\n");
        assert_eq!((found.is_same(), found.exit_code()), (false, 1));
        let expected = "--- a\n+++ b\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n";
        assert_eq!(found.report(Format::Text).render(Format::Text), expected);
        let same = compare(b"one\n", b"one\n");
        assert_eq!(
            (same.exit_code(), same.report(Format::Text).render(Format::Text)),
            (0, String::new())
        );
    }

    #[test]
    fn unknown_bytes_part_somewhere() {
        let found = compare(b"\x00\x01\x02", b"\x00\x01");
        let text = found.report(Format::Text).render(Format::Text);
        assert!(text.contains("0x02") && text.contains("end"), "{text}");
        assert!(compare(b"\x00\xff", b"\x00\xff").is_same());
    }

    #[test]
    fn unlike_kinds_are_wrong_usage() {
        let failure = diff(&side("a", b"{}"), &side("b", b"\x93NUMPY"), &[], &Settings::default());
        assert_eq!(failure.err().unwrap().exit_code(), 2);
        let failure = diff(&side("a", b"{}"), &Side::Folder("/".into()), &[], &Settings::default());
        assert_eq!(failure.err().unwrap().exit_code(), 2);
    }

    #[test]
    fn json_differs_by_path() {
        let found = compare(br#"{"rows":[{"x":1,"y":2}]}"#, br#"{"rows":[{"x":1,"y":3},4]}"#);
        let text = found.report(Format::Csv).render(Format::Csv);
        assert!(text.ends_with("path,a,b\n/rows/0/y,2,3\n/rows/1,,4\n"), "{text}");
    }
}
