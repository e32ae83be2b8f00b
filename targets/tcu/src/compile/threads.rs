//! What runs beside what. On a machine with two threads the first one computes and the second one
//! moves vectors between the DRAMs and local memory; on every machine loads come early.
//!
//! The threads share the array, the accumulators and the registers, so that both cannot compute:
//! weights that one of them pushes would be those of the other. What one of them has to wait for in
//! the other it waits for with a NoOp that names it, which stands for everything that the other one
//! has before it in the stream.

use super::prefetch::{Pace, Reordered, is_load, prefetch};
use crate::arch::TcuArch;
use crate::isa::Inst;
use crate::program::{Memory, Program, Span, Step};
use crate::time::{costs, engines_total, sequence, transfers_per_vector};

/// The thread that computes.
const COMPUTES: u8 = 0;
/// The thread that moves.
const MOVES: u8 = 1;

/// The stream in the order in which it is done soonest, if there is a better one: by the two-engine
/// model, and with two threads by upstream's. The sum of cycles that upstream's model gives for
/// one thread never grows.
pub(crate) fn overlap(program: &Program) -> Option<Reordered> {
    let arch = &program.arch;
    let latency = 2 * u64::from(arch.array_size) - 1;
    if arch.number_of_threads > 1 {
        let threads = two_threads(arch, &prefetch(program, Pace { dram: 1, latency: 0 }));
        // In few instructions waiting may take longer than is won.
        let alone = prefetch(program, Pace { dram: transfers_per_vector(arch), latency });
        let finish_of =
            |order: &Reordered| finish(&Program { arch: arch.clone(), steps: order.steps.clone() });
        let best = [threads, alone].into_iter().min_by_key(finish_of);
        return best.filter(|best| finish_of(best) < finish(program));
    }
    let early = prefetch(program, Pace { dram: transfers_per_vector(arch), latency });
    let better = engines_total(arch, &early.steps) < engines_total(arch, &program.steps);
    better.then_some(early)
}

/// Cycles until all threads are done.
fn finish(program: &Program) -> u64 {
    let sequence = sequence(program, &costs(program, false));
    sequence.intervals.iter().map(|interval| interval.end).max().unwrap_or(0)
}

/// Instructions of one thread that touched each vector of local memory last.
struct Marks {
    read: Vec<u32>,
    written: Vec<u32>,
}

impl Marks {
    fn new(arch: &TcuArch) -> Marks {
        let none = || vec![0; arch.local_depth as usize];
        Marks { read: none(), written: none() }
    }

    /// One more than the last instruction that must be done first, 0 without one.
    fn before(&self, reads: &[Span], writes: &[Span]) -> u32 {
        let last = |marks: &[u32], spans: &[Span]| {
            let local = spans.iter().filter(|span| span.memory == Memory::Local);
            local.map(|span| latest(marks, span)).max().unwrap_or(0)
        };
        let after_writes = last(&self.written, reads).max(last(&self.written, writes));
        after_writes.max(last(&self.read, writes))
    }

    fn note(&mut self, reads: &[Span], writes: &[Span], index: u32) {
        for (marks, spans) in [(&mut self.read, reads), (&mut self.written, writes)] {
            for span in spans.iter().filter(|span| span.memory == Memory::Local) {
                let range = span.base as usize..=span.last() as usize;
                marks[range]
                    .iter_mut()
                    .step_by(1 << span.stride)
                    .for_each(|mark| *mark = index + 1);
            }
        }
    }
}

fn latest(marks: &[u32], span: &Span) -> u32 {
    let range = span.base as usize..=span.last() as usize;
    marks[range].iter().step_by(1 << span.stride).copied().max().unwrap_or(0)
}

fn moves(inst: &Inst) -> bool {
    is_load(inst) || matches!(inst, Inst::LocalToDram0 { .. } | Inst::LocalToDram1 { .. })
}

/// Divides a stream between two threads.
fn two_threads(arch: &TcuArch, stream: &Reordered) -> Reordered {
    let steps = &stream.steps;
    let waits = waits(arch, steps);
    let mut waits = waits.iter().peekable();
    let mut threads = Vec::with_capacity(steps.len());
    let mut starts: Vec<u32> = Vec::with_capacity(steps.len() + 1);
    for (index, step) in steps.iter().enumerate() {
        starts.push(threads.len() as u32);
        while let Some(&&(_, tid)) = waits.peek().filter(|wait| wait.0 == index) {
            threads.push(Step { tid, inst: Inst::NoOp { thread: 1 - tid } });
            waits.next();
        }
        let tid = if moves(&step.inst) { MOVES } else { COMPUTES };
        threads.push(Step { tid, inst: step.inst });
    }
    starts.push(threads.len() as u32);
    // What follows the program must find everything done.
    if steps.iter().any(|step| moves(&step.inst)) {
        threads.push(Step { tid: COMPUTES, inst: Inst::NoOp { thread: MOVES } });
    }
    let mut places: Vec<u32> = stream.places.iter().map(|&place| starts[place as usize]).collect();
    if let Some(end) = places.last_mut() {
        *end = threads.len() as u32;
    }
    Reordered { steps: threads, places }
}

/// Where a thread has to wait: before which instruction, and the thread. A wait of the thread that
/// computes is not put before a product, which would start later, if it can come before its weights.
fn waits(arch: &TcuArch, steps: &[Step]) -> Vec<(usize, u8)> {
    let mut marks = [Marks::new(arch), Marks::new(arch)];
    // By thread: everything of the other one before this instruction is done.
    let mut done = [0, 0];
    let mut waits = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let tid = usize::from(if moves(&step.inst) { MOVES } else { COMPUTES });
        let effects = step.inst.effects(arch);
        let before = marks[1 - tid].before(&effects.reads, &effects.writes) as usize;
        if before > done[tid] {
            let mut place = index;
            let of_product = |inst: &Inst| {
                matches!(inst, Inst::MatMul { .. } | Inst::MatMulZeroes { .. }) || moves(inst)
            };
            while place > before && of_product(&steps[place].inst) && !moves(&step.inst) {
                place -= 1;
            }
            let place = if of_product(&steps[place].inst) { index } else { place };
            waits.push((place, tid as u8));
            done[tid] = place;
        }
        marks[tid].note(&effects.reads, &effects.writes, index as u32);
    }
    waits.sort_by_key(|wait| wait.0);
    waits
}
