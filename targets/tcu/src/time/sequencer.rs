//! The order in which upstream's emulator executes a stream (`tensil` in `docs/bibliography.md`):
//! every thread has a queue; when one is too long, the instructions at the heads run until one of
//! them is done. What is left in the queues at the end of the stream is not counted in upstream's
//! figures, as far as no other thread pushes it.

#![deny(clippy::wildcard_enum_match_arm)]

use super::Cost;
use crate::isa::Inst;
use crate::program::Program;
use std::collections::VecDeque;

/// From when its operands are read to when its results are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// First cycle.
    pub start: u64,
    /// Behind the last cycle.
    pub end: u64,
}

/// When every instruction runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Of every instruction, all of them executed.
    pub intervals: Vec<Interval>,
    /// Upstream's figure.
    pub reported: Cost,
}

struct Queues<'a> {
    program: &'a Program,
    costs: &'a [Cost],
    /// Instructions that wait, by thread; the remaining cycles of the heads are in `remaining`.
    waiting: [VecDeque<usize>; 2],
    remaining: [u64; 2],
    time: u64,
    energy: u64,
    intervals: Vec<Interval>,
}

impl Queues<'_> {
    fn push(&mut self, thread: usize, index: usize) {
        self.waiting[thread].push_back(index);
        if self.waiting[thread].len() == 1 {
            self.begin(thread);
        }
    }

    /// The instruction at the head of a queue starts now.
    fn begin(&mut self, thread: usize) {
        if let Some(&index) = self.waiting[thread].front() {
            self.remaining[thread] = self.costs[index].cycles;
            self.intervals[index].start = self.time;
        }
    }

    /// True if the head of a queue can run: it is there, and does not wait for an earlier
    /// instruction of the other thread. Of two heads the earlier one never waits.
    fn can_run(&self, thread: usize) -> bool {
        let Some(&index) = self.waiting[thread].front() else { return false };
        let inst = self.program.steps[index].inst;
        let waits = matches!(inst, Inst::NoOp { thread: t } if usize::from(t) == 1 - thread);
        !waits || self.waiting[1 - thread].front().is_none_or(|&earlier| earlier > index)
    }

    /// Runs the heads until one is done.
    fn advance(&mut self) {
        let busy = [0, 1].map(|thread| self.can_run(thread));
        let heads = (0..2).filter(|&thread| busy[thread]);
        let Some(passed) = heads.map(|thread| self.remaining[thread]).min() else { return };
        self.time += passed;
        let mut done = [false; 2];
        for thread in (0..2).filter(|&thread| busy[thread]) {
            self.remaining[thread] -= passed;
            done[thread] = self.remaining[thread] == 0;
            if !done[thread] {
                continue;
            }
            if let Some(index) = self.waiting[thread].pop_front() {
                self.intervals[index].end = self.time;
                self.energy += self.costs[index].energy;
            }
        }
        // Results are written before the next operands are read.
        for thread in (0..2).filter(|&thread| done[thread]) {
            self.begin(thread);
        }
    }

    fn longest(&self) -> usize {
        self.waiting.iter().map(VecDeque::len).max().unwrap_or(0)
    }
}

/// Executes a stream whose instructions have these costs.
pub fn sequence(program: &Program, costs: &[Cost]) -> Sequence {
    let depth = program.arch.thread_queue_depth as usize + 1;
    let intervals = vec![Interval::default(); costs.len()];
    let waiting = [VecDeque::new(), VecDeque::new()];
    let mut queues =
        Queues { program, costs, waiting, remaining: [0; 2], time: 0, energy: 0, intervals };
    for (index, step) in program.steps.iter().enumerate() {
        queues.push(usize::from(step.tid & 1), index);
        while queues.longest() > depth {
            queues.advance();
        }
    }
    while queues.waiting.iter().all(|queue| !queue.is_empty()) {
        queues.advance();
    }
    let reported = Cost { cycles: queues.time, energy: queues.energy };
    while queues.longest() > 0 {
        queues.advance();
    }
    Sequence { intervals: queues.intervals, reported }
}
