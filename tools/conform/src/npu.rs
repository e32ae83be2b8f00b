//! Golden cases of npu; the layout is described in `tests/golden/npu/README.md`.
//!
//! `derived` compares files of the original tool, which cannot be shipped, with figures about them;
//! networks whose files are missing are skipped.

mod build;
mod costs;
mod derive;
mod functional;

use crate::report::Report;
use crate::{Request, folder};
use flate2::read::GzDecoder;
use quincunx_diag::{Diagnostic, Result, SourceId};
use quincunx_npu::arch::NpuArch;
use quincunx_npu::binary;
use quincunx_npu::files::{self, Kind};
use quincunx_npu::isa::Queue;
use quincunx_npu::program::Program;
use quincunx_npu::replay::{Node, Replay, replay};
use quincunx_npu::text::{self, Schema};
use quincunx_npu::time::{Model, durations};
use quincunx_npu::verify::{Subject, clobbered, verify};
use quincunx_npu::work::{Resolved, resolve};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

/// The reason why a case failed.
type Check<T = ()> = std::result::Result<T, String>;

/// Folders of the layout, in the order in which they run.
const FOLDERS: [&str; 4] = ["derived", "fragments", "functional", "upstream"];

/// Largest decompressed file; real ones have less than 10 MB.
const MAX_BYTES: u64 = 1 << 28;

/// Runs every folder of the layout that is present.
pub(crate) fn run(request: &Request<'_>, emit: &mut dyn FnMut(Report)) -> Result<()> {
    let present = folder::list(request.dir)?.folders;
    request.check_names(&FOLDERS.map(str::to_owned))?;
    let arch = NpuArch::preset("gemini")?;
    for name in FOLDERS.iter().filter(|name| present.iter().any(|found| found == *name)) {
        if !request.wants(name) {
            continue;
        }
        let path = request.dir.join(name);
        let mut report = Report::new(name);
        match *name {
            "derived" => run_derived(&path, request.dir, &arch, &mut report),
            "fragments" => run_fragments(&path, &arch, &mut report)?,
            "functional" => functional::run(&path, &mut report),
            _ => run_upstream(&path, &mut report)?,
        }
        emit(report);
    }
    Ok(())
}

fn read_json(path: &Path) -> Check<Value> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    serde_json::from_str(&folder::read_text(path)?).map_err(|error| format!("{name}: {error}"))
}

fn read_gz(path: &Path) -> Check<Vec<u8>> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let bytes = folder::read(path)?;
    let mut out = Vec::new();
    let mut decoder = GzDecoder::new(&bytes[..]).take(MAX_BYTES);
    decoder.read_to_end(&mut out).map_err(|error| format!("{name}: {error}"))?;
    Ok(out)
}

fn first(problems: &[Diagnostic]) -> String {
    let error = problems.iter().find(|problem| problem.is_error());
    error.map_or("rejected without an error".to_owned(), Diagnostic::to_string)
}

fn parse(bytes: &[u8]) -> Check<Program> {
    let read = text::read(bytes, SourceId(0), Schema::standard(), false);
    read.map(|read| read.program).map_err(|problems| first(&problems))
}

/// Reads and prints; the bytes must be the same, and so must machine code with its side section.
fn round_trip(bytes: &[u8], arch: &NpuArch) -> Check<Program> {
    let program = parse(bytes)?;
    if text::print(&program) != bytes {
        return Err("printing does not give the file back".to_owned());
    }
    let code = binary::write(&program, arch, true).map_err(|problem| problem.to_string())?;
    let read = binary::read(&code, arch).map_err(|problem| problem.to_string())?;
    if text::print(&read) != bytes {
        return Err("machine code does not give the file back".to_owned());
    }
    Ok(program)
}

/// Replay of one program with given cycles.
fn replay_one(program: &Program, work: &[Resolved], cycles: &[u64]) -> Replay {
    let work = [work.to_vec()];
    replay(&[program], &work, &|node: Node| cycles[node.line])
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Check {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: {found:?}, expected {expected:?}"))
}

fn count(value: &Value, key: &str) -> Check<u64> {
    value.get(key).and_then(Value::as_u64).ok_or_else(|| format!("no number {key}"))
}

fn numbers(value: &Value, key: &str) -> Check<Vec<u64>> {
    let list = value.get(key).and_then(Value::as_array).ok_or_else(|| format!("no list {key}"))?;
    Ok(list.iter().filter_map(Value::as_u64).collect())
}

fn object(value: &Value, key: &str) -> Check<BTreeMap<String, Value>> {
    let object = value.get(key).and_then(Value::as_object);
    let object = object.ok_or_else(|| format!("no object {key}"))?;
    Ok(object.iter().map(|(key, value)| (key.clone(), value.clone())).collect())
}

// ---- fragments ----

fn run_fragments(path: &Path, arch: &NpuArch, report: &mut Report) -> Result<()> {
    for name in folder::list(path)?.files {
        if let Some(stem) = name.strip_suffix(".asm.txt") {
            report.case(stem, check_fragment(path, stem, arch));
        } else if name == "bad_lines.json" {
            match read_json(&path.join(&name)) {
                Err(reason) => report.case("bad_lines", Err(reason)),
                Ok(lines) => {
                    for (index, case) in lines.as_array().into_iter().flatten().enumerate() {
                        report.case(&format!("bad_lines/{index}"), check_bad_line(case));
                    }
                }
            }
        } else if let Some(stem) = name.strip_suffix(".expected.json")
            && !path.join(format!("{stem}.asm.txt")).exists()
        {
            report.case(stem, Err("the text is missing".to_owned()));
        }
    }
    Ok(())
}

fn check_bad_line(case: &Value) -> Check {
    let line = case.get("line").and_then(Value::as_str).ok_or("no line")?;
    match parse(format!("{line}\n").as_bytes()) {
        Err(_) => Ok(()),
        Ok(_) => Err(format!("accepted although: {}", case["reason"])),
    }
}

fn check_fragment(path: &Path, stem: &str, arch: &NpuArch) -> Check {
    let bytes = folder::read(&path.join(format!("{stem}.asm.txt")))?;
    let expected = read_json(&path.join(format!("{stem}.expected.json")))?;
    let program = round_trip(&bytes, arch)?;
    let work = resolve(&program);
    let queues: Vec<&str> = program.instructions().map(|inst| inst.queue().name()).collect();
    let wanted = expected.get("queues").and_then(Value::as_array).ok_or("no queues")?;
    let wanted: Vec<&str> = wanted.iter().filter_map(Value::as_str).collect();
    equal("queues", queues, wanted)?;
    let works = [work.clone()];
    let programs = [&program];
    let problems = verify(&Subject { programs: &programs, work: &works, arch });
    if let Some(error) = expected.get("error").and_then(Value::as_str) {
        return check_error(error, &problems);
    }
    if let Some(problem) = problems.iter().find(|problem| problem.is_error()) {
        return Err(problem.to_string());
    }
    let cycles = durations(&program, &work, arch, Model::UPSTREAM);
    equal("durations", &cycles, &numbers(&expected, "durations")?)?;
    let replay = replay_one(&program, &work, &cycles);
    let (starts, ends): (Vec<u64>, Vec<u64>) = replay.times[0].iter().copied().unzip();
    equal("start", starts, numbers(&expected, "start")?)?;
    equal("end", ends, numbers(&expected, "end")?)?;
    equal("total", replay.total(), count(&expected, "total")?)
}

/// The kind of an expected error, and the lines and queue pairs that it names, must be found.
fn check_error(expected: &str, problems: &[Diagnostic]) -> Check {
    let codes: &[&str] = match expected {
        text if text.contains("deadlock") => &["Q4021"],
        text if text.contains("unconsumed") || text.contains("leftover") => &["Q4022"],
        text if text.contains("hazard") => &["Q4031"],
        text if text.contains("DRAM") => &["Q4030"],
        text if text.contains("clobber") => &["Q4032"],
        _ => return Err(format!("an unknown kind of error: {expected}")),
    };
    let text = |problem: &Diagnostic| format!("{problem} {}", problem.notes().join(" "));
    let words: Vec<String> = expected_words(expected);
    let fits = |problem: &&Diagnostic| {
        codes.contains(&problem.code()) && words.iter().all(|word| text(problem).contains(word))
    };
    match problems.iter().find(fits) {
        Some(problem) if problem.is_error() != expected.starts_with("warning") => Ok(()),
        Some(problem) => Err(format!("wrong severity: {problem}")),
        None => Err(format!("not found: {expected}; found {problems:?}")),
    }
}

/// `instruction index 7` and `(index 7)` as `7`, queue pairs as they are.
fn expected_words(expected: &str) -> Vec<String> {
    let mut words: Vec<String> =
        expected.split_whitespace().filter(|word| word.contains("->")).map(str::to_owned).collect();
    for part in expected.split("index ").skip(1) {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        words.push(format!(" {digits}"));
    }
    words
}

// ---- derived ----

fn run_derived(path: &Path, dir: &Path, arch: &NpuArch, report: &mut Report) {
    if path.join("expected.json").exists() {
        match read_json(&path.join("expected.json")) {
            Err(reason) => report.case("expected", Err(reason)),
            Ok(expected) => {
                for (network, figures) in expected.as_object().into_iter().flatten() {
                    let asm = dir.join(format!("upstream/{network}.asm.txt.gz"));
                    let trace = dir.join(format!("upstream/{network}.trace.txt.gz"));
                    if !asm.exists() || !trace.exists() {
                        report.skip(network, "upstream/ is not here");
                        continue;
                    }
                    derived_network(network, figures, &asm, &trace, arch, report);
                }
            }
        }
    }
    if path.join("cost_cases.json").exists() {
        match read_json(&path.join("cost_cases.json")) {
            Err(reason) => report.case("cost_cases", Err(reason)),
            Ok(cases) => costs::run(&cases, arch, report),
        }
    }
}

fn derived_network(
    network: &str,
    figures: &Value,
    asm: &Path,
    trace: &Path,
    arch: &NpuArch,
    report: &mut Report,
) {
    let read = read_gz(asm)
        .and_then(|asm| Ok((asm, read_gz(trace)?)))
        .and_then(|(asm, trace)| Ok((round_trip(&asm, arch)?, round_trip(&trace, arch)?)));
    let (asm, trace) = match read {
        Err(reason) => return report.case(network, Err(reason)),
        Ok(programs) => programs,
    };
    let work = resolve(&trace);
    let mut case = |name: &str, result: Check| report.case(&format!("{network}/{name}"), result);
    let same = asm.instructions().eq(trace.instructions());
    case("asm and trace", same.then_some(()).ok_or_else(|| "instructions differ".to_owned()));
    case("counts", check_counts(&trace, figures));
    case("replay", check_replay(&trace, &work, figures));
    case("model", check_model(&asm, &trace, &work, figures, arch));
    let works = [work];
    let programs = [&trace];
    let subject = Subject { programs: &programs, work: &works, arch };
    let lines: Vec<usize> = clobbered(&subject).iter().map(|(node, _)| node.line + 1).collect();
    // The README names these; other networks have no figure to compare with.
    let expected: Option<&[usize]> = match network {
        "resnet50_b4" => Some(&[230]),
        "resnet34_b4" | "resnet50_b1" => Some(&[]),
        _ => None,
    };
    if let Some(expected) = expected {
        case("weight residency", equal("lines", &lines[..], expected));
    }
}

fn check_counts(program: &Program, figures: &Value) -> Check {
    equal("lines", program.lines.len() as u64, count(figures, "lines")?)?;
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    let mut tokens = 0;
    for inst in program.instructions() {
        *kinds.entry(inst.mnemonic().to_owned()).or_default() += 1;
        tokens += inst.tokens().map_or(0, |(_, next)| next.len() as u64);
    }
    equal("tokens", tokens, count(figures, "tokens")?)?;
    let expected = object(figures, "kind_count")?;
    let expected = expected.into_iter().filter_map(|(kind, n)| Some((kind, n.as_u64()?))).collect();
    equal("kinds", kinds, expected)
}

/// Replay with the times of the trace gives every start.
fn check_replay(trace: &Program, work: &[Resolved], figures: &Value) -> Check {
    let times: Vec<(u64, u64)> = trace.lines.iter().filter_map(|line| line.time).collect();
    let cycles: Vec<u64> = times.iter().map(|(start, end)| end - start).collect();
    let replay = replay_one(trace, work, &cycles);
    for (line, (found, expected)) in replay.times[0].iter().zip(&times).enumerate() {
        equal(&format!("times of line {}", line + 1), found, expected)?;
    }
    equal("leftover tokens", replay.leftovers.len(), 0)?;
    equal("total", replay.total(), count(figures, "total_cycles")?)?;
    let ends: u64 = times.iter().map(|(_, end)| end).sum();
    equal("sum of ends", ends, count(figures, "sum_of_end_times")?)?;
    busy("kind_busy_cycles", figures, trace, &cycles, |inst| inst.mnemonic())?;
    busy("queue_busy_cycles", figures, trace, &cycles, |inst| inst.queue().name())?;
    for (name, range) in object(figures, "queue_first_start_last_end")? {
        let queue = Queue::from_name(name.as_bytes()).ok_or("an unknown queue")?;
        let own = trace.lines.iter().zip(&times).filter(|(line, _)| line.inst.queue() == queue);
        let own: Vec<(u64, u64)> = own.map(|(_, time)| *time).collect();
        let start = own.iter().map(|(start, _)| *start).min();
        let end = own.iter().map(|(_, end)| *end).max();
        let expected = [range[0].as_u64(), range[1].as_u64()];
        equal(&format!("range of {name}"), [start, end], expected)?;
    }
    Ok(())
}

fn busy(
    key: &str,
    figures: &Value,
    program: &Program,
    cycles: &[u64],
    group: fn(&quincunx_npu::isa::Inst) -> &'static str,
) -> Check {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (inst, cycles) in program.instructions().zip(cycles) {
        *sums.entry(group(inst).to_owned()).or_default() += cycles;
    }
    let expected = object(figures, key)?;
    let expected = expected.into_iter().filter_map(|(kind, n)| Some((kind, n.as_u64()?))).collect();
    equal(key, sums, expected)
}

/// The model's cycles equal those of the trace but for the lines where the README says otherwise.
fn check_model(
    asm: &Program,
    trace: &Program,
    work: &[Resolved],
    figures: &Value,
    arch: &NpuArch,
) -> Check {
    let cycles = durations(asm, work, arch, Model::UPSTREAM);
    busy("model_kind_busy_cycles", figures, asm, &cycles, |inst| inst.mnemonic())?;
    let replay = replay_one(asm, work, &cycles);
    equal("model total", replay.total(), count(figures, "model_total_cycles")?)?;
    let times: Vec<(u64, u64)> = trace.lines.iter().filter_map(|line| line.time).collect();
    let errors = replay.times[0].iter().zip(&times).map(|(own, trace)| own.0.abs_diff(trace.0));
    let largest = errors.max().unwrap_or(0);
    equal("largest start error", largest, count(figures, "max_abs_start_error_of_model")?)?;
    let differs = |line: &usize| {
        let (start, end) = times[*line];
        let control = asm.lines[*line].inst.queue() == Queue::Ct;
        !control && cycles[*line] != end - start
    };
    let lines = (0..times.len()).filter(differs).count();
    if lines > 2 {
        return Err(format!("{lines} lines have other cycles than the trace"));
    }
    Ok(())
}

// ---- upstream ----

/// Every file comes back byte for byte; a file of the ecosystem breaks no rule that is an error.
fn run_upstream(path: &Path, report: &mut Report) -> Result<()> {
    let arch = NpuArch::preset("gemini")?;
    for name in folder::list(path)?.files {
        let Some(stem) = name.strip_suffix(".gz") else { continue };
        let bytes = match read_gz(&path.join(&name)) {
            Ok(bytes) => bytes,
            Err(reason) => {
                report.case(stem, Err(reason));
                continue;
            }
        };
        let result = match stem.ends_with(".json") {
            true => check_document(&bytes),
            false => round_trip(&bytes, &arch).map(drop),
        };
        report.case(stem, result);
    }
    derive::run(path, report)
}

fn check_document(bytes: &[u8]) -> Check {
    let file = files::read(bytes).map_err(|problem| problem.to_string())?;
    if file.kind == Kind::Unknown {
        return Err("no known kind of file".to_owned());
    }
    if file.write() != bytes {
        return Err("writing does not give the file back".to_owned());
    }
    match file.validate().iter().find(|problem| problem.is_error()) {
        Some(problem) => Err(problem.to_string()),
        None => Ok(()),
    }
}
