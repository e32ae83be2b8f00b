//! One vector engine with the threads that it holds.
//!
//! Threads issue in order; the engine issues one instruction a cycle, of the thread that can issue
//! first, of several the one that has waited longest. An instruction waits for what its dependencies
//! name and nothing else, and for the unit that executes it.

use super::trace::{Access, Trace};
use super::waits::{Done, Wait, Waits};
use crate::arch::DpasArch;
use crate::isa::vector::{Op, Terms};
use crate::latency::{MATH_PIPE, issue_cycles, product_latency, vector_cycles};
use crate::program::Statement;
use crate::shape::RowStride;
use crate::simulate::Step;
use crate::swsb::{Effects, Unit, effects};

/// Cycles from a jump to the next instruction of its thread (`igc`).
const JUMP_LATENCY: u64 = 23;
/// Cycles until the threads of a group that have all met go on (ours).
const BARRIER_LATENCY: u64 = 30;
/// Cycles of messages that the first cache, or shared memory, answers (`igc`).
const L1_LATENCY: u64 = 45;
/// Of those that the second cache answers (`igc`).
const L2_LATENCY: u64 = 200;
/// Of those that memory answers (ours).
const MEMORY_LATENCY: u64 = 500;

/// Which unit executes an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// None: it only waits.
    Wait,
    /// None: it waits for the other threads of the group.
    Barrier,
    /// The systolic array.
    Systolic,
    /// Who sends messages.
    Message,
    /// A pipe, by its index in `PIPES`.
    Pipe(u8),
    /// The pipe of jumps.
    Jump,
}

/// Units of an engine: the array, messages, and the pipes from index 2 on.
const UNITS: usize = 8;

impl Class {
    fn unit(self) -> usize {
        match self {
            Class::Wait | Class::Barrier | Class::Systolic => 0,
            Class::Message => 1,
            Class::Pipe(pipe) => usize::from(pipe).clamp(2, UNITS - 1),
            Class::Jump => 3,
        }
    }
}

/// What an instruction costs wherever it is executed.
pub(super) struct Instruction {
    /// What it reads and writes.
    pub(super) effects: Effects,
    /// Multiplications with accumulation.
    pub(super) macs: u64,
    pub(super) class: Class,
    wait: Wait,
    /// Cycles that its unit is busy.
    busy: u64,
    /// Cycles until results can be used; of a message, besides those that memory takes.
    latency: u64,
    /// It is to memory.
    accesses: bool,
}

impl Instruction {
    /// The cost of a statement whose step is given.
    pub(super) fn new(
        statement: &Statement,
        step: &Step,
        arch: &DpasArch,
        stride: RowStride,
    ) -> Instruction {
        let effects = effects(statement, arch, stride);
        let mut cost = Instruction {
            class: Class::Wait,
            wait: Wait::of(statement, arch.platform),
            busy: 1,
            latency: 0,
            macs: 0,
            accesses: false,
            effects,
        };
        match step {
            Step::Wait => {}
            Step::Multiply(operation) => {
                let shape = &operation.shape;
                cost.class = Class::Systolic;
                cost.busy = issue_cycles(arch, operation);
                cost.latency = product_latency(arch.platform, shape);
                cost.macs = u64::from(shape.repeat * shape.lanes * shape.k());
            }
            Step::Vector(terms) => cost.vector(terms, arch),
        }
        cost
    }

    /// Cycles that the systolic array works.
    pub(super) fn array(&self) -> u64 {
        if self.class == Class::Systolic { self.busy } else { 0 }
    }

    fn vector(&mut self, terms: &Terms, arch: &DpasArch) {
        match self.effects.unit {
            Unit::Wait | Unit::AllRead(_) | Unit::AllWrite(_) if terms.op == Op::SyncBarrier => {
                self.class = Class::Barrier;
            }
            Unit::Wait | Unit::AllRead(_) | Unit::AllWrite(_) | Unit::Systolic => {}
            Unit::Message | Unit::Unknown => {
                let message = terms.message;
                self.class = Class::Message;
                // The registers that are sent leave one by one.
                let address = message.and_then(|m| m.descriptor).unwrap_or(0) >> 25 & 15;
                let data = message.map_or(0, |m| m.src1.1);
                self.busy = u64::from(address).saturating_add(data.into()).max(1);
                self.accesses =
                    message.is_some_and(|m| m.receiver != crate::isa::vector::Receiver::Gateway);
            }
            Unit::Math | Unit::Pipe(MATH_PIPE) => {
                self.class = Class::Pipe(MATH_PIPE);
                (self.busy, self.latency) = vector_cycles(terms, true, arch);
            }
            Unit::Pipe(pipe) => {
                self.class = if terms.op.jumps() { Class::Jump } else { Class::Pipe(pipe) };
                (self.busy, self.latency) = vector_cycles(terms, false, arch);
            }
        }
    }
}

/// How many threads an engine holds, and how they belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Residents {
    /// Threads.
    pub(super) threads: usize,
    /// Those of the same group follow each other; how many there are.
    pub(super) together: usize,
}

/// What an engine did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    /// Cycles until the last thread has ended.
    pub(super) cycles: u64,
    /// Instructions that were issued.
    pub(super) issued: u64,
    /// Cycles that the systolic array was busy.
    pub(super) systolic: u64,
}

struct Thread {
    /// Place in the trace.
    at: usize,
    /// When memory has answered its messages.
    answers: Vec<u64>,
    /// When it can issue at the earliest.
    ready: u64,
    /// When it issued last.
    last: u64,
    waits: Waits<()>,
    /// When it came to a barrier.
    arrived: Option<u64>,
    ended: bool,
}

struct Engine<'a> {
    instructions: &'a [Instruction],
    trace: &'a Trace,
    /// Where memory answers, not a cache.
    is_cold: &'a dyn Fn(u64) -> bool,
    threads: Vec<Thread>,
    together: usize,
    free: [u64; UNITS],
    issue: u64,
    work: Work,
}

/// What an engine does whose threads all execute the same.
pub(super) fn run(
    instructions: &[Instruction],
    trace: &Trace,
    residents: Residents,
    is_cold: &dyn Fn(u64) -> bool,
) -> Work {
    let thread = |_| Thread {
        at: 0,
        answers: Vec::new(),
        ready: 0,
        last: 0,
        waits: Waits::default(),
        arrived: None,
        ended: false,
    };
    let mut engine = Engine {
        instructions,
        trace,
        is_cold,
        threads: (0..residents.threads).map(thread).collect(),
        together: residents.together.max(1),
        free: [0; UNITS],
        issue: 0,
        work: Work::default(),
    };
    (0..residents.threads).for_each(|thread| engine.prepare(thread));
    loop {
        engine.meet();
        let Some(thread) = engine.next() else { return engine.work };
        engine.start(thread);
        engine.prepare(thread);
    }
}

impl Engine<'_> {
    /// The next instruction of a thread, if it has one.
    fn instruction(&self, thread: usize) -> Option<&Instruction> {
        let step = self.trace.steps.get(self.threads[thread].at)?;
        self.instructions.get(*step as usize)
    }

    /// When a thread can issue its next instruction; `None` while it waits for others or has ended.
    fn start_of(&self, thread: usize) -> Option<u64> {
        let state = &self.threads[thread];
        if state.ended || state.arrived.is_some() {
            return None;
        }
        let unit = self.instruction(thread)?.class.unit();
        Some(state.ready.max(self.free[unit]).max(self.issue))
    }

    /// The thread that issues next.
    fn next(&self) -> Option<usize> {
        let all = self.threads.iter().enumerate();
        let all = all.filter_map(|(at, state)| Some((self.start_of(at)?, state.last, at)));
        all.min().map(|(_, _, thread)| thread)
    }

    /// Goes to the next instruction of a thread that a unit executes.
    fn prepare(&mut self, thread: usize) {
        while let Some(instruction) = self.instruction(thread) {
            let (class, state) = (instruction.class, &self.threads[thread]);
            let waited = state.waits.of(&instruction.wait);
            let waited = waited.iter().map(|done| done.written).max().unwrap_or(0);
            let state = &mut self.threads[thread];
            state.ready = state.ready.max(waited);
            match class {
                Class::Wait => state.at += 1,
                Class::Barrier => {
                    state.arrived = Some(state.ready);
                    return;
                }
                Class::Systolic | Class::Message | Class::Pipe(_) | Class::Jump => return,
            }
        }
        let state = &mut self.threads[thread];
        state.ended = true;
        self.work.cycles = self.work.cycles.max(state.ready);
    }

    /// Lets the threads of every group go on when all that have not ended have come to a barrier.
    fn meet(&mut self) {
        let mut first = 0;
        while first < self.threads.len() {
            let group = first..(first + self.together).min(self.threads.len());
            let threads = &self.threads[group.clone()];
            let last = threads.iter().filter_map(|state| state.arrived).max();
            let all = threads.iter().all(|state| state.ended || state.arrived.is_some());
            let (Some(last), true) = (last, all) else {
                first = group.end;
                continue;
            };
            for thread in group {
                let state = &mut self.threads[thread];
                if state.arrived.take().is_some() {
                    state.at += 1;
                    state.ready = last + BARRIER_LATENCY;
                    self.prepare(thread);
                }
            }
        }
    }

    /// Issues the next instruction of a thread.
    fn start(&mut self, thread: usize) {
        let (Some(start), Some(instruction)) = (self.start_of(thread), self.instruction(thread))
        else {
            return;
        };
        let Instruction { class, busy, latency, accesses, wait, .. } = *instruction;
        let answers = &self.threads[thread].answers;
        let access = accesses.then(|| self.trace.accesses.get(answers.len())).flatten();
        let answer = access.map_or(0, |(_, access)| self.answer(access));
        // Lines that earlier messages bring have to come.
        let brought = access.into_iter().flat_map(|(_, access)| &access.brought);
        let brought = brought.filter_map(|&message| answers.get(message as usize)).max();
        let (read, written) = (start + busy, start + latency + answer);
        let written = written.max(read).max(brought.copied().unwrap_or(0));
        self.issue = start + 1;
        self.free[class.unit()] = read;
        self.work.issued += 1;
        if class == Class::Systolic {
            self.work.systolic += busy;
        }
        self.work.cycles = self.work.cycles.max(written);
        let state = &mut self.threads[thread];
        state.waits.push(&wait, Done { event: (), read, written });
        state.ready = start + if class == Class::Jump { JUMP_LATENCY } else { 1 };
        state.last = start;
        state.at += 1;
        if accesses {
            state.answers.push(written);
        }
    }

    /// Cycles that memory takes for an answer.
    fn answer(&self, access: &Access) -> u64 {
        match (access.fresh, access.base) {
            (0, _) => L1_LATENCY,
            (_, Some(base)) if (self.is_cold)(base) => MEMORY_LATENCY,
            _ => L2_LATENCY,
        }
    }
}
