//! What a program takes of the machine.

use super::extent;
use super::usage::touched;
use crate::program::{Memory, Program};
use crate::time::{Costing, Time, efficiency, times};
use quincunx_contract::{Demand, MemoryUse};

/// Cycles of its units, and what it touches of the memories.
pub(crate) fn demand(program: &Program, costing: &Costing<'_>) -> Demand {
    let layers = times(program, costing.model, costing.layers);
    let all = layers.iter().fold(Time::default(), Time::and);
    let macs: Option<u64> = costing.layers.iter().map(|layer| layer.macs).sum();
    let vector = program.arch.vector_bytes() as u64;
    // What the compiler places at both ends of a memory leaves room between.
    let touched = touched(program, std::slice::from_ref(&(0..program.steps.len())));
    let touched = touched.and_then(|all| all.first().copied());
    let memory = |(memory, touched): (Memory, Option<u64>)| {
        let used = touched.unwrap_or_else(|| extent(program, memory)).saturating_mul(vector);
        let size = memory.depth(&program.arch).saturating_mul(vector);
        MemoryUse::bytes(memory.name(), used, Some(size))
    };
    let memories = [
        (Memory::Local, touched.map(|touched| touched.local)),
        (Memory::Acc, touched.map(|touched| touched.acc)),
        (Memory::Dram0, None),
        (Memory::Dram1, None),
    ]
    .map(memory);
    let hertz = costing.clock_mhz.map(|mhz| f64::from(mhz) * 1e6);
    Demand {
        seconds: hertz.map(|hertz| all.cycles as f64 / hertz),
        utilisation: macs.and_then(|macs| efficiency(&program.arch, macs, all.cycles)),
        limit: Some(all.bound(costing.model).to_owned()).filter(|limit| !limit.is_empty()),
        memories: memories.into_iter().filter(|memory| memory.used > 0).collect(),
    }
}
