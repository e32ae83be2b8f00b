//! The suite `replay`: what it finds in pairs of texts, and what it says about odd ones.

use crate::common::{arch, fragment, parse};
use flate2::Compression;
use flate2::write::GzEncoder;
use quincunx_contract::bench::{Row, Run};
use quincunx_contract::{Options, Target as _};
use quincunx_diag::{Diagnostic, Result};
use quincunx_npu::program::Program;
use quincunx_npu::time::{Model, timed};
use quincunx_npu::work::resolve;
use quincunx_npu::{TARGET, text};
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

const STEM: &str = "f05_streamed_weights_4_tiles";

/// A folder of its own, removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("quincunx-npu-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.0.join(name), bytes).unwrap();
    }

    fn bench(&self) -> Result<Vec<Row>> {
        bench(&self.0)
    }

    fn refused(&self) -> Diagnostic {
        self.bench().unwrap_err()
    }
}

fn bench(folder: &Path) -> Result<Vec<Row>> {
    let suite = TARGET.suites().iter().find(|suite| suite.name == "replay").unwrap();
    let dir = ("dir".to_owned(), folder.to_str().unwrap().to_owned());
    let options = Options::new(suite.options, &[dir]).unwrap();
    let one = NonZeroUsize::MIN;
    (suite.run)(&Run { threads: one, repeat: one, options })
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The program as a trace of the model.
fn traced() -> Program {
    let mut program = parse(&fragment(STEM));
    let work = [resolve(&program)];
    let (_, replay) = timed(&[&program], &work, &arch(), Model::UPSTREAM);
    for (line, &time) in program.lines.iter_mut().zip(&replay.times[0]) {
        line.time = Some(time);
    }
    program
}

fn value(rows: &[Row], name: &str, metric: &str) -> f64 {
    let row = rows.iter().find(|row| row.name == name && row.metric == metric);
    row.unwrap_or_else(|| panic!("{name} {metric}: {rows:?}")).value
}

#[test]
fn pairs_are_compared() {
    let folder = Folder::new("pairs");
    let (asm, trace) = (fragment(STEM), traced());
    folder.write("good.asm.txt", &asm);
    folder.write("good.trace.txt", &text::print(&trace));
    // The last convolution ends later; the store and the end behind it do not start later, though.
    let mut late = trace.clone();
    let conv = late.lines.iter().rposition(|line| line.inst.mnemonic() == "pe_conv").unwrap();
    late.lines[conv].time.as_mut().unwrap().1 += 5;
    folder.write("late.asm.txt.gz", &gzip(&asm));
    folder.write("late.trace.txt.gz", &gzip(&text::print(&late)));
    // The end of the task takes 1 % of all longer: a control line.
    let mut long = trace;
    let end = long.lines.last_mut().unwrap().time.as_mut().unwrap();
    end.1 = end.1 * 100 / 99;
    folder.write("long.asm.txt.gz", &gzip(&asm));
    folder.write("long.trace.txt", &text::print(&long));
    folder.write("other.json", b"{}");

    let rows = folder.bench().unwrap();
    assert_eq!(rows.len(), 3 * 7);
    for (name, starts, durations, error) in
        [("good", 0, 0, 0.0), ("late", 2, 1, 0.0), ("long", 0, 0, 1.0)]
    {
        assert_eq!(value(&rows, name, "start_mismatches"), f64::from(starts), "{name}");
        assert_eq!(value(&rows, name, "duration_mismatches"), f64::from(durations), "{name}");
        assert!((value(&rows, name, "total_error_percent") - error).abs() < 0.01, "{name}");
        assert!(value(&rows, name, "seconds") > 0.0);
        assert_eq!(value(&rows, name, "hazards"), 0.0);
        assert_eq!(value(&rows, name, "clobbered"), 0.0);
        assert_eq!(value(&rows, name, "lines"), 24.0);
    }
}

/// Hazards and weights that were overwritten are counted.
#[test]
fn wrong_programs_are_counted() {
    let folder = Folder::new("wrong");
    let mut program = traced();
    // Without tokens nothing is ordered, and the second block of weights lies on the first.
    for line in &mut program.lines {
        let none = quincunx_npu::isa::Queues::NONE;
        line.inst = line.inst.with_tokens(none, none);
    }
    folder.write("a.trace.txt", &text::print(&program));
    program.lines.iter_mut().for_each(|line| line.time = None);
    folder.write("a.asm.txt", &text::print(&program));
    let rows = folder.bench().unwrap();
    assert!(value(&rows, "a", "hazards") > 4.0, "{rows:?}");
    assert!(value(&rows, "a", "start_mismatches") > 4.0, "{rows:?}");
}

#[test]
fn odd_folders_are_refused() {
    let (asm, trace) = (fragment(STEM), text::print(&traced()));
    let expect = |name: &str, files: &[(&str, &[u8])], code: &str, words: &str| {
        let folder = Folder::new(name);
        for (name, bytes) in files {
            folder.write(name, bytes);
        }
        let problem = folder.refused();
        assert_eq!(problem.code(), code, "{problem}");
        assert!(problem.to_string().contains(words), "{problem}");
    };
    expect("empty", &[], "Q4086", "no pair");
    expect("alone", &[("a.asm.txt", &asm)], "Q4099", "no trace of a");
    expect("alone2", &[("a.trace.txt", &trace)], "Q4099", "no assembly text of a");
    let zipped = gzip(&asm);
    let twice = [("a.asm.txt", &asm[..]), ("a.asm.txt.gz", &zipped[..])];
    expect("twice", &twice, "Q4099", "is the same text");
    let cut = [("a.asm.txt.gz", &zipped[..zipped.len() / 2]), ("a.trace.txt", &trace[..])];
    expect("cut", &cut, "Q4099", "damaged");
    let swapped = [("a.asm.txt", &trace[..]), ("a.trace.txt", &trace[..])];
    expect("swapped", &swapped, "Q4099", "is a trace");
    let bare = [("a.asm.txt", &asm[..]), ("a.trace.txt", &asm[..])];
    expect("bare", &bare, "Q4099", "has no times");
    let first = asm.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    let shorter = [("a.asm.txt", &asm[..asm.len() - (asm.len() - first)]), ("a.trace.txt", &trace)];
    expect("shorter", &shorter, "Q4099", "24 lines, the assembly text 1");
    let text = String::from_utf8(asm.clone()).unwrap();
    let changed = text.replacen("'wkl': 1", "'wkl': 2", 1);
    let other = [("a.asm.txt", changed.as_bytes()), ("a.trace.txt", &trace[..])];
    expect("other", &other, "Q4099", "is not that of the assembly text");
    let broken = [("a.asm.txt", &b"[pe_conv, {"[..]), ("a.trace.txt", &trace[..])];
    expect("broken", &broken, "Q4003", "a.asm.txt");
    let suite = TARGET.suites().iter().find(|suite| suite.name == "replay").unwrap();
    let options = Options::new(suite.options, &[]).unwrap();
    let run = Run { threads: NonZeroUsize::MIN, repeat: NonZeroUsize::MIN, options };
    assert_eq!((suite.run)(&run).unwrap_err().code(), "Q4085");
}

/// What the model gets wrong in files of the original tool, where they are present.
#[test]
fn published_traces_agree_with_the_model() {
    let Some(folder) = crate::upstream::folder() else { return };
    let rows = bench(&folder).unwrap();
    for (name, durations, clobbered) in
        [("resnet34_b4", 0.0, 0.0), ("resnet50_b1", 2.0, 0.0), ("resnet50_b4", 0.0, 1.0)]
    {
        assert_eq!(value(&rows, name, "start_mismatches"), 0.0, "{name}");
        assert_eq!(value(&rows, name, "duration_mismatches"), durations, "{name}");
        assert!(value(&rows, name, "total_error_percent") <= 0.001, "{name}");
        assert_eq!(value(&rows, name, "hazards"), 0.0, "{name}");
        assert_eq!(value(&rows, name, "clobbered"), clobbered, "{name}");
    }
}
