//! The two-engine model: what the hardware description says about concurrency (`tensil` in
//! `docs/bibliography.md`), with the numbers that it leaves open chosen by us.
//!
//! The decoder takes an instruction a cycle, in order, and holds one until its engine's queue has
//! room: 2n places in front of the array, accumulators and router (the compute engine), one in
//! front of the DRAMs. Port A of local memory serves the first, port B the second, so they run side
//! by side, except that each half of local memory belongs to one of them at a time.

#![deny(clippy::wildcard_enum_match_arm)]

use super::cost::{READ_LATENCY, transfers_per_vector};
use super::profile::Unit;
use crate::arch::TcuArch;
use crate::isa::{Inst, SimdOp};
use crate::program::{Action, Memory, Program, Step, Transfer};
use std::collections::VecDeque;

/// What executes an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Engine {
    /// The decoder itself: NoOp and Configure.
    Decoder,
    /// Array, accumulators, ALUs, and the moves between them and local memory.
    Compute,
    /// Moves between the DRAMs and local memory.
    Dram,
}

/// When an instruction is where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// What executes it.
    pub engine: Engine,
    /// Cycle in which the decoder hands it over.
    pub issue: u64,
    /// First cycle of its execution.
    pub start: u64,
    /// Behind the last cycle of its execution.
    pub end: u64,
    /// Cycles for which the decoder has it.
    pub held: u64,
    /// The earlier instruction of the other engine whose half of local memory it waited for.
    pub waits_for: Option<usize>,
}

/// When everything happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Every instruction.
    pub runs: Vec<Run>,
    /// Cycles until the last result is written.
    pub total: u64,
}

/// The engine of an instruction.
fn engine(inst: &Inst) -> Engine {
    match Unit::of(inst) {
        Unit::Decoder => Engine::Decoder,
        Unit::Dram => Engine::Dram,
        Unit::Array | Unit::Simd | Unit::Moves => Engine::Compute,
    }
}

struct Machine<'a> {
    arch: &'a TcuArch,
    /// Instructions so far.
    count: usize,
    /// Cycle in which the decoder is free again.
    decoder: u64,
    /// By engine: starts of the last instructions, as many as its queue has places, and the cycle in
    /// which it is free again.
    queues: [VecDeque<u64>; 2],
    free: [u64; 2],
    /// By engine and half of local memory: the end and number of the last instruction that used it.
    locks: [[Option<(u64, usize)>; 2]; 2],
    /// Cycle in which all results of the array are in the accumulators.
    results: u64,
    /// Kind of the last DRAM move, whose stream the next one of its kind goes on with.
    last_move: Option<usize>,
    total: u64,
}

/// Runs a program through the model.
pub fn engines(program: &Program) -> Timing {
    let mut machine = Machine::new(&program.arch);
    let runs = program.steps.iter().map(|step| machine.step(&step.inst)).collect();
    Timing { runs, total: machine.total }
}

/// The total of a stream alone, in constant memory.
pub(crate) fn engines_total(arch: &TcuArch, steps: &[Step]) -> u64 {
    let mut machine = Machine::new(arch);
    for step in steps {
        machine.step(&step.inst);
    }
    machine.total
}

impl<'a> Machine<'a> {
    fn new(arch: &'a TcuArch) -> Machine<'a> {
        Machine {
            arch,
            count: 0,
            decoder: 0,
            queues: [VecDeque::new(), VecDeque::new()],
            free: [0; 2],
            locks: [[None; 2]; 2],
            results: 0,
            last_move: None,
            total: 0,
        }
    }

    fn step(&mut self, inst: &Inst) -> Run {
        let engine = engine(inst);
        let run = match engine {
            Engine::Decoder => {
                let (issue, end) = (self.decoder, self.decoder + 1);
                Run { engine, issue, start: issue, end, held: 1, waits_for: None }
            }
            Engine::Compute | Engine::Dram => self.dispatch(inst, engine),
        };
        self.decoder = run.issue + 1;
        self.total = self.total.max(run.end).max(self.results);
        self.count += 1;
        run
    }

    fn dispatch(&mut self, inst: &Inst, engine: Engine) -> Run {
        let (own, other, places) = match engine {
            Engine::Dram => (1, 0, 1),
            Engine::Compute | Engine::Decoder => (0, 1, 2 * self.arch.array_size as usize),
        };
        // A place is free when the instruction that had it starts.
        let queue = &mut self.queues[own];
        let full = if queue.len() < places { None } else { queue.pop_front() }.unwrap_or(0);
        let issue = self.decoder.max(full);
        let ready = (issue + 1).max(self.free[own]).max(self.pipeline(inst));
        let halves = self.halves(inst);
        let holders =
            (0..2).filter(|&half| halves[half]).filter_map(|half| self.locks[other][half]);
        let holder = holders.max();
        let released = holder.map_or(0, |(end, _)| end);
        let start = ready.max(released);
        let end = start + self.duration(inst);
        for half in (0..2).filter(|&half| halves[half]) {
            self.locks[own][half] = Some((end, self.count));
        }
        self.queues[own].push_back(start);
        self.free[own] = end;
        if matches!(inst.action(), Action::Product { .. }) {
            self.results = end + self.latency();
        }
        if engine == Engine::Dram {
            self.last_move = Some(inst.row());
        }
        let waits_for = holder.filter(|_| released > ready).map(|(_, index)| index);
        Run { engine, issue, start, end, held: issue - self.decoder + 1, waits_for }
    }

    /// Cycles from the last input of the array to its last output.
    fn latency(&self) -> u64 {
        2 * u64::from(self.arch.array_size) - 1
    }

    /// The earliest start that the array allows: inputs follow each other, everything else waits
    /// until the results are out.
    fn pipeline(&self, inst: &Inst) -> u64 {
        match inst.action() {
            Action::Product { .. } => 0,
            Action::Move(transfer) if transfer.other.memory != Memory::Acc => 0,
            Action::Move(_) | Action::Push { .. } | Action::Simd { .. } => self.results,
            Action::Wait | Action::Table { .. } | Action::Configure { .. } => self.results,
        }
    }

    /// Which halves of local memory an instruction uses.
    fn halves(&self, inst: &Inst) -> [bool; 2] {
        let middle = self.arch.local_depth / 2;
        let effects = inst.effects(self.arch);
        let mut halves = [false; 2];
        for span in effects.spans().filter(|span| span.memory == Memory::Local) {
            halves[0] |= span.base < middle;
            halves[1] |= span.last() >= middle;
        }
        halves
    }

    fn duration(&self, inst: &Inst) -> u64 {
        match inst.action() {
            // The accumulators have one read and one write, the ALUs take both in turn.
            Action::Simd { access, compute, .. } => {
                let both = access.reads() && access.writes() && compute.op != SimdOp::NoOp;
                1 + u64::from(both)
            }
            Action::Table { .. } => self.arch.lookup_table_depth.unwrap_or(1).into(),
            Action::Move(transfer) if transfer.other.memory != Memory::Acc => {
                self.dram(inst, &transfer)
            }
            Action::Move(_) | Action::Product { .. } | Action::Push { .. } => inst.count(),
            Action::Wait | Action::Configure { .. } => inst.count(),
        }
    }

    /// A vector takes as many cycles as it has transfers. A read waits for its first data, unless it
    /// goes on with the stream of the move before it; with a step in DRAM every vector is a request
    /// of its own, which costs a read this wait and a write a cycle.
    fn dram(&self, inst: &Inst, transfer: &Transfer) -> u64 {
        let count = transfer.other.count;
        let data = count * transfers_per_vector(self.arch);
        let strided = transfer.other.stride > 0 && count > 1;
        let goes_on = self.last_move == Some(inst.row());
        data + match (transfer.to_local, strided) {
            (true, true) => READ_LATENCY * count,
            (true, false) if goes_on => 0,
            (true, false) => READ_LATENCY,
            (false, true) => count,
            (false, false) => 0,
        }
    }
}
