//! `quincunx bench npu:replay --dir DIR`: assembly texts and the traces beside them.

use crate::arch::NpuArch;
use crate::isa::Queue;
use crate::program::Program;
use crate::replay::{Replay, replay};
use crate::text::{self, Schema};
use crate::time::{Model, timed};
use crate::verify::{Subject, clobbered, hazard_statistics};
use crate::work::{Resolved, resolve};
use flate2::bufread::GzDecoder;
use quincunx_contract::bench::{Row, Run};
use quincunx_diag::{Diagnostic, Result, SourceId, first};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Longest text that is decompressed; real ones have less than 10 MB.
const MAX_TEXT: u64 = 1 << 28;

/// An assembly text and its trace.
struct Pair {
    name: String,
    asm: PathBuf,
    trace: PathBuf,
}

/// Several rows per pair, which has the name of its files without what says what they are.
///
/// * `start_mismatches`: lines that start at another time than in the trace when each takes as long
///   as there.
/// * `duration_mismatches`: lines of which the `upstream` model says other cycles than the trace;
///   those of CT are random there and left out.
/// * `total_error_percent`: how far the end is from the trace's, with cycles of the model alone.
/// * `seconds`: of reading the assembly text, replaying its tokens and timing it.
/// * `hazards`: accesses to the same bytes, and neighbours among DRAM operations, that no tokens
///   order.
/// * `clobbered`: convolutions that do not find their weights.
/// * `lines`: of the program.
pub(super) fn measure(run: &Run) -> Result<Vec<Row>> {
    let arch = NpuArch::preset("gemini")?;
    let mut rows = Vec::new();
    for pair in pairs(run.options.get("dir"))? {
        rows.extend(measure_pair(run, &pair, &arch)?);
    }
    Ok(rows)
}

fn measure_pair(run: &Run, pair: &Pair, arch: &NpuArch) -> Result<Vec<Row>> {
    let text = unpacked(&pair.asm)?;
    let asm = parsed(&pair.asm, &text)?;
    let trace = parsed(&pair.trace, &unpacked(&pair.trace)?)?;
    check(pair, &asm, &trace)?;
    let seconds = run.seconds(|| {
        let read = text::read(&text, SourceId(0), Schema::standard(), false);
        read.map(|read| time(&read.program, arch).2.total())
    });
    let (work, cycles, model) = time(&asm, arch);
    let times: Vec<(u64, u64)> = trace.lines.iter().filter_map(|line| line.time).collect();
    let traced: Vec<u64> = times.iter().map(|&(start, end)| end.saturating_sub(start)).collect();
    let replayed = replay(&[&trace], &work, &|node| traced[node.line]);
    let starts = replayed.times[0].iter().zip(&times).filter(|(own, traced)| own.0 != traced.0);
    let compared = asm.instructions().zip(cycles.iter().zip(&traced));
    let durations =
        compared.filter(|(inst, (own, traced))| inst.queue() != Queue::Ct && own != traced);
    let end = times.iter().map(|&(_, end)| end).max().unwrap_or(0) as f64;
    let error = (model.total() as f64 - end).abs() / end.max(1.0) * 100.0;
    let subject = Subject { programs: &[&asm], work: &work, arch };
    let hazards = hazard_statistics(&subject);
    let hazards = hazards.unordered.saturating_add(hazards.unordered_dram);
    let row = Row::named(&pair.name);
    Ok(vec![
        row("start_mismatches", starts.count() as f64, "lines", 0),
        row("duration_mismatches", durations.count() as f64, "lines", 0),
        row("total_error_percent", error, "%", 5),
        row("seconds", seconds, "s", 6),
        row("hazards", hazards as f64, "pairs", 0),
        row("clobbered", clobbered(&subject).len() as f64, "lines", 0),
        row("lines", asm.lines.len() as f64, "lines", 0),
    ])
}

/// What a program does, its cycles and its times by the `upstream` model.
fn time(program: &Program, arch: &NpuArch) -> ([Vec<Resolved>; 1], Vec<u64>, Replay) {
    let work = [resolve(program)];
    let (mut cycles, replay) = timed(&[program], &work, arch, Model::UPSTREAM);
    (work, cycles.swap_remove(0), replay)
}

/// A trace has the lines of its assembly text, with times.
fn check(pair: &Pair, asm: &Program, trace: &Program) -> Result<()> {
    let wrong = |path: &Path, message: String| {
        Err(Diagnostic::invalid("Q4099", message).in_file(path.to_string_lossy()))
    };
    if asm.is_trace() {
        return wrong(&pair.asm, "the assembly text is a trace".to_owned());
    }
    if !trace.is_trace() {
        return wrong(&pair.trace, "the trace has no times".to_owned());
    }
    let (own, other) = (asm.lines.len(), trace.lines.len());
    if own != other {
        return wrong(&pair.trace, format!("the trace has {other} lines, the assembly text {own}"));
    }
    let equal = |index: &usize| {
        let (a, b) = (&asm.lines[*index], &trace.lines[*index]);
        a.inst == b.inst && a.map == b.map
    };
    match (0..own).find(|index| !equal(index)) {
        Some(index) => {
            let number = index.saturating_add(1);
            wrong(&pair.trace, format!("line {number} is not that of the assembly text"))
        }
        None => Ok(()),
    }
}

fn parsed(path: &Path, text: &[u8]) -> Result<Program> {
    let read = text::read(text, SourceId(0), Schema::standard(), false);
    read.map(|read| read.program)
        .map_err(|problems| first(problems).name_file(&path.to_string_lossy()))
}

/// A text, decompressed where its name ends with `.gz`.
fn unpacked(path: &Path) -> Result<Vec<u8>> {
    let bytes = super::bytes(path)?;
    if path.extension().is_none_or(|ending| ending != "gz") {
        return Ok(bytes);
    }
    let wrong =
        |message: String| Diagnostic::invalid("Q4099", message).in_file(path.to_string_lossy());
    let mut text = Vec::new();
    GzDecoder::new(&bytes[..])
        .take(MAX_TEXT.saturating_add(1))
        .read_to_end(&mut text)
        .map_err(|error| wrong(format!("the compressed file is damaged: {error}")))?;
    if text.len() as u64 > MAX_TEXT {
        return Err(wrong(format!("the file holds more than {MAX_TEXT} bytes of text")));
    }
    Ok(text)
}

/// The pairs of a folder in the order of their names; other files are left alone.
fn pairs(folder: &str) -> Result<Vec<Pair>> {
    let mut found: BTreeMap<String, [Option<PathBuf>; 2]> = BTreeMap::new();
    for path in super::files(folder)? {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let plain = name.strip_suffix(".gz").unwrap_or(name);
        let endings = [".asm.txt", ".trace.txt"];
        let side = endings.iter().position(|ending| plain.ends_with(ending));
        let Some(side) = side else { continue };
        let stem = plain.strip_suffix(endings[side]).unwrap_or(plain).to_owned();
        let place = &mut found.entry(stem).or_default()[side];
        if let Some(other) = place {
            let message = format!("{} is the same text", other.display());
            return Err(Diagnostic::invalid("Q4099", message).in_file(path.to_string_lossy()));
        }
        *place = Some(path);
    }
    if found.is_empty() {
        let message = "the folder has no pair of NAME.asm.txt and NAME.trace.txt, plain or .gz";
        return Err(Diagnostic::invalid("Q4086", message).in_file(folder));
    }
    let pair = |(name, sides): (String, [Option<PathBuf>; 2])| match sides {
        [Some(asm), Some(trace)] => Ok(Pair { name, asm, trace }),
        [asm, trace] => {
            let what = if trace.is_none() { "no trace" } else { "no assembly text" };
            let file = asm.or(trace).unwrap_or_default();
            let problem = Diagnostic::invalid("Q4099", format!("{what} of {name} lies beside it"));
            Err(problem.in_file(file.to_string_lossy()))
        }
    };
    found.into_iter().map(pair).collect()
}
