//! Damaged programs and files, wrong results, and what must become of them.

use crate::Random;
use quincunx_contract::{Arch, Engine, File, Log, Options, Program, Target, Verb};
use quincunx_diag::{Class, Diagnostic, any_error};
use quincunx_isa::Table;
use quincunx_tensor::{Tensor, Tensors, element_count};

/// What became of a damaged program.
#[derive(Debug)]
pub enum Verdict {
    /// A reader or a checker names a problem.
    Rejected,
    /// It does what the sound program does.
    Harmless,
    /// Neither, in these words.
    Missed(String),
}

/// Judges 1,000 damaged programs and counts those that were rejected and those that were harmless;
/// a case may turn out to be none.
///
/// # Panics
///
/// If one is missed.
pub fn campaign(mut case: impl FnMut(&mut Random) -> Option<Verdict>) -> [usize; 2] {
    const CASES: usize = 1000;
    let (mut counts, mut missed) = ([0; 2], Vec::new());
    for number in 0.. {
        match case(&mut Random::new(number)) {
            None => assert!(number < 100 * CASES as u64, "next to no case is one"),
            Some(Verdict::Rejected) => counts[0] += 1,
            Some(Verdict::Harmless) => counts[1] += 1,
            Some(Verdict::Missed(what)) => missed.push(format!("case {number}: {what}")),
        }
        if counts[0] + counts[1] + missed.len() == CASES {
            break;
        }
    }
    assert!(missed.is_empty(), "{counts:?}, missed: {missed:#?}");
    counts
}

/// Plants every fault in every row of a table.
///
/// # Panics
///
/// If one is not noticed.
pub fn plant<F: Copy>(
    table: &Table,
    rows: impl IntoIterator<Item = usize>,
    faults: &[(&str, F)],
    noticed: impl Fn(usize, F) -> bool,
) {
    let mut unnoticed = Vec::new();
    for row in rows {
        for &(name, fault) in faults {
            if !noticed(row, fault) {
                unnoticed.push(format!("{}: {name}", table.rows[row].name));
            }
        }
    }
    assert!(unnoticed.is_empty(), "not noticed: {unnoticed:#?}");
}

/// Changes some bytes, in half of the places to one of the marks, and perhaps cuts the end off.
pub fn damaged(bytes: &[u8], marks: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..random.range(1, 3) {
        let (at, mark) = (random.below(bytes.len()), random.pick(marks));
        match random.below(6) {
            _ if bytes.is_empty() => bytes.push(mark),
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next() as u8,
            2 => drop(bytes.remove(at)),
            3 => bytes.insert(at, mark),
            _ => bytes[at] = mark,
        }
    }
    if random.chance(12) {
        bytes.truncate(random.below(bytes.len()));
    }
    bytes
}

/// As [`damaged`], for text.
pub fn damaged_text(text: &str, marks: &str, random: &mut Random) -> String {
    String::from_utf8_lossy(&damaged(text.as_bytes(), marks.as_bytes(), random)).into_owned()
}

/// Options of a target.
pub fn options(target: &dyn Target, given: &[(&str, &str)]) -> Options {
    let given: Vec<(String, String)> =
        given.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    Options::new(target.info().options, &given).unwrap()
}

/// Does with files what the verbs do: no panic, whatever they hold, and nothing is refused without
/// an error. What is read is printed, read again and printed the same, and a program without errors
/// is timed, written and run if that is little work.
pub fn exercise(
    target: &dyn Target,
    arch: &dyn Arch,
    given: &[(&str, &str)],
    files: &[File],
    is_little_work: &dyn Fn(&dyn Program) -> bool,
) -> Option<Box<dyn Program>> {
    let options = options(target, given);
    for file in files {
        let _ = (target.recognises(file), target.companions(file));
        let document = target.document(file, arch, &options).map(drop);
        for problems in [document, target.model(file).map(drop)].into_iter().filter_map(Result::err)
        {
            assert!(any_error(&problems));
        }
    }
    let program = match target.read(files, None, arch, &options, &mut Log::default()) {
        Ok(program) => program,
        Err(problems) => {
            assert!(any_error(&problems), "{problems:?}");
            assert!(problems.iter().all(|problem| problem.code() != "Q9999"), "{problems:?}");
            return None;
        }
    };
    let problems = program.verify();
    let illegal = problems.iter().any(|p| p.is_error() && p.class() == Class::Invalid);
    let refused = |what: &str, problem: Diagnostic| {
        let excused = illegal || problem.class() == Class::Unsupported;
        assert!(excused, "verify finds nothing, {what} does: {problem}");
    };
    if let [file] = files {
        round_trip(target, arch, file, &*program);
    }
    if let Err(problem) = program.time() {
        refused("time", problem);
    }
    let _ = program.stats();
    for view in program.views().iter().filter(|view| view.verb != Verb::Synth) {
        let _ = program.tables(view.name);
    }
    for kind in target.info().kinds {
        let _ = program.emit(kind.name, "x");
    }
    let all = |number: f64| {
        let inputs = program.interface().inputs.iter().map(|port| {
            let count = element_count(&port.shape).filter(|&count| count < 1 << 16)?;
            Some((port.name.clone(), Tensor::from_vec(&port.shape, vec![number; count]).unwrap()))
        });
        inputs.collect::<Option<Tensors>>()
    };
    // Every port holds ones.
    let inputs = all(1.0).zip(all(-1.5)).filter(|_| is_little_work(&*program));
    for engine in [Engine::Exec, Engine::Fast, Engine::Checked] {
        let mut machine = match program.load(engine) {
            Ok(machine) => machine,
            Err(problem) => {
                refused("run", problem);
                continue;
            }
        };
        if let Some((ones, inputs)) = &inputs {
            match machine.run(ones) {
                // What depends on the numbers need not be an error, but it is named.
                Err(problem) if problems.is_empty() && engine != Engine::Checked => {
                    refused("run", problem);
                }
                _ => {}
            }
            let _ = (machine.run(inputs), machine.run_traced(inputs), machine.notes());
        }
    }
    Some(program)
}

/// What `disasm` prints is read as a program that prints the same; leniently, since machine code may
/// lack what texts should have.
fn round_trip(target: &dyn Target, arch: &dyn Arch, file: &File, program: &dyn Program) {
    let Ok(printed) = program.emit("asm", "x") else { return };
    let has_lenient = target.info().options.iter().any(|option| option.name == "lenient");
    let lenient = has_lenient.then_some(("lenient", "true"));
    let options = options(target, lenient.as_slice());
    let again = match target.read(&printed, None, arch, &options, &mut Log::default()) {
        Ok(again) => again.emit("asm", "x").unwrap(),
        Err(problems) => panic!("{}: what is printed is not read: {problems:?}", file.name),
    };
    let text = |files: &[File]| {
        let texts = files.iter().map(|file| file.text().unwrap().to_owned());
        texts.collect::<Vec<_>>().join("\n")
    };
    let (again, printed) = (text(&again), text(&printed));
    let lines = again.lines().zip(printed.lines()).find(|(again, printed)| again != printed);
    assert!(again == printed, "{}: {lines:?}", file.name);
}
