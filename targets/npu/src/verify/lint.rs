//! What no rule forbids and no tool writes: odd maps, configurations that change nothing, images of
//! a batch that share an address.

use super::Subject;
use crate::isa::{Inst, Queue};
use crate::program::Program;
use crate::replay::Node;
use crate::work::{Resolved, Work};
use quincunx_diag::{Diagnostic, Problems};
use std::collections::BTreeMap;

/// Gives the cores in which images share addresses.
pub(super) fn check(subject: &Subject<'_>, problems: &mut Problems) -> Vec<usize> {
    let mut shared = Vec::new();
    for (core, program) in subject.programs.iter().enumerate() {
        let mut warn = |line: usize, problem: Diagnostic| {
            problems.push(subject.at(Node { core, line }, problem));
        };
        maps(program, &subject.work[core], &mut warn);
        redundant(program, &mut warn);
        if let Some(line) = shared_image(program, &subject.work[core]) {
            let message = "images of a batch have the same addresses in the vector queue: as written, \
                           one image is worked on again and again";
            let problem = Diagnostic::warning("Q4039", message)
                .help("--vp-batch-stride implicit lets the machine advance the addresses");
            warn(line, problem);
            shared.push(core);
        }
    }
    shared
}

/// Workloads of a queue do not go back within a task; tiles of a workload count up from 0.
fn maps(program: &Program, work: &[Resolved], warn: &mut dyn FnMut(usize, Diagnostic)) {
    for task in program.tasks() {
        let mut last: BTreeMap<Queue, i32> = BTreeMap::new();
        let mut tiles: BTreeMap<(Queue, i32), i32> = BTreeMap::new();
        for index in task {
            let line = &program.lines[index];
            let Some(map) = &line.map else { continue };
            let compute = matches!(work[index], Ok(Work::Conv(_) | Work::Vector(_)));
            if !compute || map.wkl < 0 {
                continue;
            }
            let queue = line.inst.queue();
            if let Some(before) = last.insert(queue, map.wkl).filter(|&before| before > map.wkl) {
                let text = format!("workload {} comes after workload {before}", map.wkl);
                warn(index, Diagnostic::warning("Q4037", text));
            }
            let Some(tile) = map.tile else { continue };
            let expected = tiles.entry((queue, map.wkl)).or_insert(0);
            if tile != *expected {
                let text = format!("tile is {tile}, expected {expected}");
                warn(index, Diagnostic::warning("Q4037", text));
            }
            *expected = tile.saturating_add(1);
        }
    }
}

/// Configurations that set what is set.
fn redundant(program: &Program, warn: &mut dyn FnMut(usize, Diagnostic)) {
    // By row and configuration register.
    let mut registers: BTreeMap<(usize, u8), Inst> = BTreeMap::new();
    for (index, inst) in program.instructions().enumerate() {
        if !inst.is_config() {
            continue;
        }
        let select = match inst {
            Inst::LdaCfg { rs, .. } | Inst::LdwCfg { rs, .. } | Inst::StaCfg { rs, .. } => *rs,
            _ => 0,
        };
        if registers.insert((inst.row(), select), *inst) == Some(*inst) {
            let text = format!("{} sets what is already set", inst.mnemonic());
            warn(index, Diagnostic::note("Q4038", text));
        }
    }
}

/// The first vector instruction whose addresses are those of another tile of its workload.
fn shared_image(program: &Program, work: &[Resolved]) -> Option<usize> {
    let mut seen = BTreeMap::new();
    program.tasks().into_iter().enumerate().find_map(|(task, lines)| {
        lines.into_iter().find(|&index| {
            let Ok(Work::Vector(vector)) = &work[index] else { return false };
            let Some(map) = &program.lines[index].map else { return false };
            let places = (vector.input.address, vector.output.address);
            let earlier = seen.insert((task, map.wkl), (places, map.tile));
            earlier.is_some_and(|(old, tile)| old == places && tile != map.tile)
        })
    })
}
