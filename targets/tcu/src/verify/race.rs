//! Two threads never race: under the order in which upstream's sequencer executes the stream, an
//! instruction that touches what an earlier one of the other thread touches, and one of them
//! writes, starts when the earlier one is done. Then executing in the order of the stream gives the
//! same results, which is what our simulator does.
//!
//! Instructions of one thread start and end in order. So of all that touched a vector the last one
//! ends last, and it is enough to know that one, however many instructions wait in a queue.

#![deny(clippy::wildcard_enum_match_arm)]

use super::touched::{Touched, pieces};
use crate::program::{Effects, Program, Span, Step};
use crate::text::describe;
use crate::time::{Interval, costs, sequence};
use quincunx_diag::{Diagnostic, Place, Problems};

/// Most vectors of spans with a step that are looked at one by one.
const MAX_STEPPED: u64 = 1 << 24;
/// Most ranges of vectors that unfinished instructions of a thread may read or write: 64 MiB.
const MAX_RANGES: usize = 1 << 20;

/// Every race (`Q3052`), at the later instruction. `Q3056` for a program in which
/// finding them is too much work.
pub fn races(program: &Program) -> Vec<Diagnostic> {
    let mut search = Search::new(program);
    let mut problems = Problems::default();
    for (index, step) in program.steps.iter().enumerate() {
        let effects = step.inst.effects(&program.arch);
        problems.extend(search.race(index, &effects));
        if !search.remember(index, &effects) {
            problems.push(too_much(index));
            break;
        }
    }
    problems.finish()
}

/// Goes through the stream.
struct Search<'a> {
    program: &'a Program,
    intervals: Vec<Interval>,
    threads: [Unfinished; 2],
    /// By thread: the next instruction.
    next: [usize; 2],
    /// Vectors that were looked at one by one.
    stepped: u64,
}

impl<'a> Search<'a> {
    fn new(program: &'a Program) -> Self {
        let intervals = sequence(program, &costs(program, false)).intervals;
        let threads = [Unfinished::default(), Unfinished::default()];
        Search { program, intervals, threads, next: [0; 2], stepped: 0 }
    }

    fn thread(&self, index: usize) -> usize {
        usize::from(self.program.steps[index].tid & 1)
    }

    /// The race of an instruction with the latest one that it races with.
    fn race(&mut self, index: usize, effects: &Effects) -> Option<Diagnostic> {
        let other = self.thread(index) ^ 1;
        let start = self.intervals[index].start;
        let intervals = &self.intervals;
        let is_done = |earlier: usize| intervals[earlier].end <= start;
        let earlier = self.threads[other].race(effects, &is_done)?;
        let touched = self.program.steps[earlier].inst.effects(&self.program.arch);
        let what = conflict(&touched, effects)?;
        Some(diagnose(&self.program.steps, &self.intervals, earlier, index, &what))
    }

    /// Notes what an instruction touches, unless it is done before the other thread goes on. False
    /// when that has become too much.
    fn remember(&mut self, index: usize, effects: &Effects) -> bool {
        let pieces = effects.spans().map(pieces).filter(|&pieces| pieces > 1);
        self.stepped = pieces.fold(self.stepped, u64::saturating_add);
        let own = self.thread(index);
        let Some(start) = self.next_start(own ^ 1, index) else { return true };
        let intervals = &self.intervals;
        if intervals[index].end > start {
            let unfinished = &mut self.threads[own];
            unfinished.touch(effects, index);
            unfinished.forget(&|earlier: usize| intervals[earlier].end <= start);
        }
        self.stepped <= MAX_STEPPED && self.threads[own].len() <= MAX_RANGES
    }

    /// When the next instruction of a thread behind `index` starts.
    fn next_start(&mut self, thread: usize, index: usize) -> Option<u64> {
        let mut next = self.next[thread].max(index.saturating_add(1));
        while next < self.intervals.len() && self.thread(next) != thread {
            next = next.saturating_add(1);
        }
        self.next[thread] = next;
        self.intervals.get(next).map(|interval| interval.start)
    }
}

fn too_much(index: usize) -> Diagnostic {
    let message = "too many scattered vectors to find out whether the threads race";
    Diagnostic::unsupported("Q3056", message)
        .at(Place::Instruction(index))
        .with_note("the instructions before it were checked")
        .help("use a smaller thread_queue_depth, or fewer instructions with strides")
}

/// What the instructions of a thread touch that may not be done.
#[derive(Debug, Default)]
struct Unfinished {
    reads: Touched,
    writes: Touched,
    /// By bit of the state: the last instruction that read or wrote it.
    state_reads: [Option<usize>; u32::BITS as usize],
    state_writes: [Option<usize>; u32::BITS as usize],
}

impl Unfinished {
    /// The latest unfinished instruction that an instruction conflicts with.
    fn race(&mut self, effects: &Effects, is_done: &impl Fn(usize) -> bool) -> Option<usize> {
        let mut latest = None;
        for span in &effects.reads {
            latest = latest.max(self.writes.latest(span, is_done));
        }
        for span in &effects.writes {
            latest = latest.max(self.writes.latest(span, is_done));
            latest = latest.max(self.reads.latest(span, is_done));
        }
        let written = bits(effects.state_reads | effects.state_writes);
        let written = written.filter_map(|bit| self.state_writes[bit]);
        let read = bits(effects.state_writes).filter_map(|bit| self.state_reads[bit]);
        latest.max(written.chain(read).filter(|&earlier| !is_done(earlier)).max())
    }

    fn touch(&mut self, effects: &Effects, index: usize) {
        effects.reads.iter().for_each(|span| self.reads.touch(span, index));
        effects.writes.iter().for_each(|span| self.writes.touch(span, index));
        bits(effects.state_reads).for_each(|bit| self.state_reads[bit] = Some(index));
        bits(effects.state_writes).for_each(|bit| self.state_writes[bit] = Some(index));
    }

    fn forget(&mut self, is_done: &impl Fn(usize) -> bool) {
        self.reads.forget(is_done);
        self.writes.forget(is_done);
    }

    fn len(&self) -> usize {
        self.reads.len().max(self.writes.len())
    }
}

/// Numbers of the bits that are set.
fn bits(word: u32) -> impl Iterator<Item = usize> {
    (0..u32::BITS as usize).filter(move |bit| word >> bit & 1 != 0)
}

fn diagnose(
    steps: &[Step],
    intervals: &[Interval],
    earlier: usize,
    index: usize,
    what: &str,
) -> Diagnostic {
    let (first, second) = (&steps[earlier], &steps[index]);
    let message = format!("it races with instruction {earlier} of the other thread for {what}");
    let when = |interval: Interval| format!("cycles {} to {}", interval.start, interval.end);
    Diagnostic::invalid("Q3052", message)
        .at(Place::Instruction(index))
        .with_note(format!(
            "instruction {earlier}, {}, runs in {}",
            describe(&first.inst),
            when(intervals[earlier])
        ))
        .with_note(format!(
            "instruction {index}, {}, runs in {}",
            describe(&second.inst),
            when(intervals[index])
        ))
        .help("let the thread wait for the other one with NoOp")
}

/// What two instructions both touch, at least one writing.
fn conflict(a: &Effects, b: &Effects) -> Option<String> {
    let state =
        (a.state_writes & (b.state_reads | b.state_writes)) | (a.state_reads & b.state_writes);
    if state != 0 {
        return Some(name_state(state));
    }
    let meet = |left: &[Span], right: &[Span]| {
        left.iter().find(|span| right.iter().any(|other| span.meets(other))).copied()
    };
    let span = meet(&a.writes, &b.reads)
        .or_else(|| meet(&a.writes, &b.writes))
        .or_else(|| meet(&a.reads, &b.writes));
    span.map(|span| format!("{} {} to {}", span.memory.name(), span.base, span.last()))
}

fn name_state(state: u32) -> String {
    match state.trailing_zeros() {
        0 => "the weights".to_owned(),
        1 => "the output of the array".to_owned(),
        2 => "the lookup tables".to_owned(),
        3 => "the configuration".to_owned(),
        bit => format!("register R{}", bit.saturating_sub(7)),
    }
}
