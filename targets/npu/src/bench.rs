//! How fast the readers and writers are: `quincunx bench npu:text --dir DIR`.

use crate::text::{self, Schema};
use quincunx_contract::OptionInfo;
use quincunx_contract::bench::{Row, Run, Suite};
use quincunx_diag::{Diagnostic, Result, SourceId, first};

/// The suites of this target.
pub(crate) static SUITES: &[Suite] = &[Suite {
    name: "text",
    doc: "reading and printing of assembly text and traces",
    options: &[OptionInfo::text("dir", "folder with the texts", "")],
    run: measure,
}];

/// Texts shorter than this are repeated, so that a measurement is not one of the clock.
const ENOUGH: usize = 1 << 20;

/// One row per folder: all of its texts one after the other.
fn measure(run: &Run) -> Result<Vec<Row>> {
    let folder = run.options.get("dir");
    let texts = texts(folder)?;
    let bytes: usize = texts.iter().map(Vec::len).sum();
    let repeats = ENOUGH.div_ceil(bytes.max(1));
    let megabytes = (bytes * repeats) as f64 / 1e6;
    let schema = Schema::standard();
    let parse = || -> Result<Vec<_>> {
        let read = |text: &Vec<u8>| text::read(text, SourceId(0), schema, false).map_err(first);
        texts.iter().map(read).collect()
    };
    let programs = parse()?;
    let reading = run.seconds(|| {
        for _ in 0..repeats {
            std::hint::black_box(parse().is_ok());
        }
    });
    let printing = run.seconds(|| {
        for _ in 0..repeats {
            for read in &programs {
                std::hint::black_box(text::print(&read.program));
            }
        }
    });
    let row = |metric, seconds: f64| Row {
        name: folder.to_owned(),
        metric,
        value: megabytes / seconds,
        unit: "MB/s",
        decimals: 0,
    };
    Ok(vec![
        row("parse", reading),
        row("print", printing),
        row("parse + print", reading + printing),
    ])
}

/// The files of a folder that are texts of this machine, in the order of their names.
fn texts(folder: &str) -> Result<Vec<Vec<u8>>> {
    if folder.is_empty() {
        return Err(Diagnostic::usage("Q4085", "option dir is empty, expected a folder")
            .help("give the folder with the texts, as in --dir DIR"));
    }
    let unreadable =
        |error: std::io::Error| Diagnostic::system("Q4086", "read it", &error).in_file(folder);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    let mut texts = Vec::new();
    for path in paths {
        let bytes = std::fs::read(path).map_err(unreadable)?;
        let readable = text::recognises(&bytes)
            && text::read(&bytes, SourceId(0), Schema::standard(), false).is_ok();
        if readable {
            texts.push(bytes);
        }
    }
    if texts.is_empty() {
        let message = "the folder has no assembly text or trace";
        return Err(Diagnostic::invalid("Q4086", message).in_file(folder));
    }
    Ok(texts)
}
