//! What the tests share: random numbers, golden files, building programs.

#![allow(dead_code, unreachable_pub, reason = "every test uses a part")]

pub mod cases;
pub mod corrupt;
pub mod extra;
pub mod networks;

pub use quincunx_testkit::Random;

use quincunx_diag::{Diagnostic, SourceId};
use quincunx_isa::{OperandValue as _, RawInst};
use quincunx_npu::NpuArch;
use quincunx_npu::isa::{Inst, Number, Queue, Queues, TABLE};
use quincunx_npu::program::{Line, Map, Program};
use quincunx_npu::replay::Node;
use quincunx_npu::text::{self, Schema};
use quincunx_npu::verify::{Subject, verify};
use quincunx_npu::work::{Resolved, resolve};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/npu")
}

pub fn arch() -> NpuArch {
    NpuArch::preset("gemini").unwrap()
}

/// A machine with so many cores.
pub fn cores(count: usize) -> NpuArch {
    NpuArch { cores_x: count as u32, ..arch() }
}

/// Names of the fragments.
pub fn fragments() -> Vec<String> {
    let files = std::fs::read_dir(golden().join("fragments")).unwrap();
    let names = files.filter_map(|file| file.unwrap().file_name().into_string().ok());
    let mut stems: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".asm.txt")?.to_owned())).collect();
    stems.sort();
    assert!(stems.len() >= 15);
    stems
}

pub fn fragment(stem: &str) -> Vec<u8> {
    std::fs::read(golden().join(format!("fragments/{stem}.asm.txt"))).unwrap()
}

pub fn read_lenient(text: &[u8], lenient: bool) -> Result<text::Read, Vec<Diagnostic>> {
    text::read(text, SourceId(0), Schema::standard(), lenient)
}

pub fn parse(text: &[u8]) -> Program {
    read_lenient(text, false).unwrap().program
}

/// Everything `verify` says about programs.
pub fn problems(programs: &[Program]) -> Vec<Diagnostic> {
    let arch = cores(programs.len());
    let work: Vec<Vec<Resolved>> = programs.iter().map(resolve).collect();
    let list: Vec<&Program> = programs.iter().collect();
    verify(&Subject { programs: &list, work: &work, arch: &arch })
}

/// An instruction with these operands; all others are 0.
pub fn inst(mnemonic: &str, operands: &[(&str, i128)]) -> Inst {
    let (row, spec) = TABLE.find(mnemonic).next().unwrap_or_else(|| panic!("{mnemonic}"));
    let mut values: Vec<i128> = vec![0; spec.operands.len()];
    for (name, value) in operands {
        let (index, _) = spec.operand(name).unwrap_or_else(|| panic!("{mnemonic} {name}"));
        values[index] = *value;
    }
    Inst::from_raw(&RawInst { row, values: values.into_iter().collect() }).unwrap()
}

/// A number as an operand.
pub fn num(value: f64) -> i128 {
    Number::real(value).unwrap().to_raw()
}

/// Operands whose names share a beginning: `tile("source", "chw", [3, 8, 8])`.
pub fn axes(stem: &str, names: &str, values: &[i128]) -> Vec<(String, i128)> {
    names.chars().zip(values).map(|(axis, &value)| (format!("{stem}_{axis}"), value)).collect()
}

/// Several lists of operands together.
pub fn with(mnemonic: &str, operands: &[(&str, i128)], more: &[Vec<(String, i128)>]) -> Inst {
    let more = more.iter().flatten().map(|(name, value)| (name.as_str(), *value));
    let all: Vec<(&str, i128)> = operands.iter().copied().chain(more).collect();
    inst(mnemonic, &all)
}

/// A program of these instructions between `ct_st` and `ct_ed`; each one that carries tokens waits
/// for the one before it. The region table has one full-size region unless `regions` is given.
pub fn chain(insts: Vec<Inst>, regions: Option<Inst>) -> Program {
    let full = inst("ct_bc", &[("last0", 8191)]);
    let begin = [inst("ct_st", &[]), regions.unwrap_or(full)];
    let all: Vec<Inst> = begin.into_iter().chain(insts).chain([inst("ct_ed", &[])]).collect();
    let mut tokens = vec![(Queues::NONE, Queues::NONE); all.len()];
    let mut before: Option<usize> = None;
    for (index, inst) in all.iter().enumerate() {
        if inst.tokens().is_none() {
            continue;
        }
        if let Some(before) = before.replace(index) {
            let (from, to) = (all[before].queue(), inst.queue());
            if from != to {
                tokens[before].1.push(to);
                tokens[index].0.push(from);
            }
        }
    }
    let lines = all.into_iter().zip(tokens);
    let lines = lines.enumerate().map(|(index, (inst, (prev, next)))| Line {
        inst: inst.with_tokens(prev, next),
        map: Some(Map { wkl: index as i32, tile: Some(0), ..Map::none() }),
        time: None,
    });
    Program { lines: lines.collect(), spellings: Vec::new() }
}

/// A list of one queue.
pub fn only(queue: Queue) -> Queues {
    [queue].into_iter().collect()
}

/// Another order that queues, tokens and signals allow: a random queue whose next line is ready goes
/// on.
pub fn shuffled(programs: &[Program], random: &mut Random) -> Vec<Node> {
    type Lane = (usize, Queue);
    let mut queues: BTreeMap<Lane, Vec<usize>> = BTreeMap::new();
    for (core, program) in programs.iter().enumerate() {
        for (number, line) in program.lines.iter().enumerate().rev() {
            queues.entry((core, line.inst.queue())).or_default().push(number);
        }
    }
    let mut tokens: BTreeMap<(usize, Queue, Queue), usize> = BTreeMap::new();
    let mut signals: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    // The other core and the bits of the last configuration of SI and SO.
    let mut partners: BTreeMap<Lane, (usize, u8)> = BTreeMap::new();
    let partner = |lane: Lane, line: usize, partners: &BTreeMap<Lane, (usize, u8)>| match programs
        [lane.0]
        .lines[line]
        .inst
    {
        Inst::SiaaMov { .. } | Inst::SopwMov { .. } => partners.get(&lane).copied(),
        _ => None,
    };
    let mut order = Vec::new();
    loop {
        let is_ready = |lane: Lane, line: usize| {
            let (prev, _) = programs[lane.0].lines[line].inst.tokens().unwrap_or_default();
            let has = |from: Queue| tokens.get(&(lane.0, from, lane.1)).is_some_and(|&n| n > 0);
            let signalled = match partner(lane, line, &partners) {
                Some((other, bits)) if bits & 1 != 0 => {
                    signals.get(&(other, lane.0)).is_some_and(|&n| n > 0)
                }
                _ => true,
            };
            prev.iter().all(has) && signalled
        };
        let next = |(lane, lines): (&Lane, &Vec<usize>)| {
            lines.last().filter(|&&line| is_ready(*lane, line)).map(|_| *lane)
        };
        let ready: Vec<Lane> = queues.iter().filter_map(next).collect();
        let Some(&lane) = ready.get(random.below(ready.len() as u64) as usize) else {
            return order;
        };
        let line = queues.get_mut(&lane).unwrap().pop().unwrap();
        let inst = programs[lane.0].lines[line].inst;
        if let Inst::SiSynCfg { core, syn, .. } | Inst::SoSynCfg { core, syn, .. } = inst {
            partners.insert(lane, (core.into(), syn));
        }
        let (prev, next) = inst.tokens().unwrap_or_default();
        for from in prev.iter() {
            *tokens.get_mut(&(lane.0, from, lane.1)).unwrap() -= 1;
        }
        for to in next.iter() {
            *tokens.entry((lane.0, lane.1, to)).or_default() += 1;
        }
        if let Some((other, bits)) = partner(lane, line, &partners) {
            if bits & 1 != 0 {
                *signals.get_mut(&(other, lane.0)).unwrap() -= 1;
            }
            if bits & 2 != 0 {
                *signals.entry((lane.0, other)).or_default() += 1;
            }
        }
        order.push(Node { core: lane.0, line });
    }
}
