//! `quincunx bench npu:text --dir DIR`.

use crate::text::{self, Schema};
use quincunx_contract::bench::{Row, Run};
use quincunx_diag::{Diagnostic, Result, SourceId, first};

/// Texts shorter than this are repeated, so that a measurement is not one of the clock.
const ENOUGH: usize = 1 << 20;

/// One row per folder: all of its texts one after the other.
pub(super) fn measure(run: &Run) -> Result<Vec<Row>> {
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
    let row = |metric, seconds: f64| Row::named(folder)(metric, megabytes / seconds, "MB/s", 0);
    Ok(vec![
        row("parse", reading),
        row("print", printing),
        row("parse + print", reading + printing),
    ])
}

/// The files of a folder that are texts of this machine, in the order of their names.
fn texts(folder: &str) -> Result<Vec<Vec<u8>>> {
    let mut texts = Vec::new();
    for path in super::files(folder)? {
        let bytes = super::bytes(&path)?;
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
