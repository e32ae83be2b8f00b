//! Lines with their tokens and times, one after the other.
//!
//! A line waits for the newest lines of other queues that touched the same bytes, if one of the two
//! writes, and for the DRAM operation before it. Of these only those get a token that nothing else
//! implies. That leaves the lines of two queues that wait for each other in the same order in both,
//! which is what counting tokens need.

use crate::arch::NpuArch;
use crate::isa::{Inst, Queue, Queues};
use crate::program::{Indices, Line, Map, Program};
use crate::time::{Model, line_cycles};
use crate::work::{Lines, Memory, Work, accesses, lines};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Queues.
const QUEUES: usize = 9;

/// A line that was written and does something, numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Op(usize);

/// What is known of an operation.
struct Done {
    queue: Queue,
    /// Its line in the program.
    line: usize,
    end: u64,
    /// For every queue, how many of its operations have ended when this one has.
    clock: [u32; QUEUES],
}

/// Who touched bytes last.
#[derive(Clone, Default)]
struct Touch {
    end: u64,
    write: Option<Op>,
    /// The newest reader of every queue since then.
    reads: SmallVec<[Op; 3]>,
}

/// Bytes of a memory with who touched them last.
#[derive(Default)]
struct Touched(BTreeMap<u64, Touch>);

impl Touched {
    /// Cuts at an address.
    fn cut(&mut self, at: u64) {
        let Some((&start, touch)) = self.0.range_mut(..at).next_back() else { return };
        if start < at && touch.end > at {
            let rest = touch.clone();
            touch.end = at;
            self.0.insert(at, rest);
        }
    }

    /// The operations that an access waits for.
    fn waits(&self, start: u64, end: u64, write: bool, into: &mut Waits) {
        let first = self.0.range(..=start).next_back().map_or(start, |(&at, _)| at);
        for (_, touch) in self.0.range(first..end).filter(|(_, touch)| touch.end > start) {
            into.extend(touch.write);
            if write {
                into.extend(touch.reads.iter().copied());
            }
        }
    }

    fn set(&mut self, start: u64, end: u64, write: bool, op: Op, queue: impl Fn(Op) -> Queue) {
        self.cut(start);
        self.cut(end);
        if write {
            let old: SmallVec<[u64; 16]> = self.0.range(start..end).map(|(&at, _)| at).collect();
            old.iter().for_each(|at| drop(self.0.remove(at)));
            self.0.insert(start, Touch { end, write: Some(op), reads: SmallVec::new() });
            return;
        }
        let (own, mut at) = (queue(op), start);
        let mut gaps: SmallVec<[(u64, u64); 4]> = SmallVec::new();
        for (&begin, touch) in self.0.range_mut(start..end) {
            if begin > at {
                gaps.push((at, begin));
            }
            at = touch.end;
            touch.reads.retain(|&mut other| queue(other) != own);
            touch.reads.push(op);
        }
        if at < end {
            gaps.push((at, end));
        }
        for (begin, end) in gaps {
            let reads = SmallVec::from_elem(op, 1);
            self.0.insert(begin, Touch { end, write: None, reads });
        }
    }
}

type Waits = SmallVec<[Op; 16]>;

/// A program that is being written.
pub(crate) struct Writer<'a> {
    arch: &'a NpuArch,
    model: Model,
    lines: Vec<Line>,
    done: Vec<Done>,
    /// The last configuration of every kind, and register set.
    registers: FxHashMap<(usize, u8), Inst>,
    l2: Touched,
    wl0: Touched,
    /// When every queue is free.
    free: [u64; QUEUES],
    /// The last operation of every queue.
    last: [Option<Op>; QUEUES],
    dram: Option<Op>,
    /// What set the regions.
    regions: Option<Op>,
}

/// What a line needs besides what its accesses say.
#[derive(Clone, Copy, Default)]
pub(crate) struct Need {
    /// It waits for this.
    pub(crate) after: Option<Op>,
    /// It does not start before.
    pub(crate) from: u64,
    /// It counts as a reader of these bytes of L2.
    pub(crate) reads: Option<(u64, u64)>,
}

/// What a line would wait for.
pub(crate) struct Plan {
    waits: Waits,
    /// When it could start.
    pub(crate) start: u64,
}

impl<'a> Writer<'a> {
    /// An empty program of a core.
    pub(crate) fn new(arch: &'a NpuArch, model: Model) -> Writer<'a> {
        Writer {
            arch,
            model,
            lines: Vec::new(),
            done: Vec::new(),
            registers: FxHashMap::default(),
            l2: Touched::default(),
            wl0: Touched::default(),
            free: [0; QUEUES],
            last: [None; QUEUES],
            dram: None,
            regions: None,
        }
    }

    /// When the operation ends.
    pub(crate) fn end(&self, op: Op) -> u64 {
        self.done[op.0].end
    }

    /// The line of an operation.
    pub(crate) fn line(&self, op: Op) -> usize {
        self.done[op.0].line
    }

    /// When the DRAM port is free.
    pub(crate) fn dram_free(&self) -> u64 {
        self.dram.map_or(0, |op| self.end(op))
    }

    /// The newest operation of a queue.
    pub(crate) fn newest(&self, queue: Queue) -> Option<Op> {
        self.last[queue.index()]
    }

    /// The latest end of all operations.
    pub(crate) fn total(&self) -> u64 {
        self.free.into_iter().max().unwrap_or(0)
    }

    /// What the work would wait for, and from when on it could run.
    pub(crate) fn plan(&self, work: &Work, need: Need) -> Plan {
        let mut waits: Waits = need.after.into_iter().collect();
        for access in accesses(work, self.arch) {
            let memory = match access.memory {
                Memory::L2(_) => &self.l2,
                Memory::Wl0 => &self.wl0,
                Memory::Dram(_) | Memory::Remote(..) | Memory::RemoteWhole(_) => continue,
            };
            if matches!(access.memory, Memory::L2(_)) {
                waits.extend(self.regions);
            }
            let [start, end] = [access.span.start, access.span.end].map(|at| at.max(0) as u64);
            memory.waits(start, end, access.write, &mut waits);
        }
        if work.uses_dram() {
            waits.extend(self.dram);
        }
        if matches!(work, Work::End) {
            waits.extend(self.last.into_iter().flatten());
        }
        let ready = waits.iter().map(|&op| self.end(op)).max().unwrap_or(0);
        let queue = lines(work).map_or(0, |lines| lines.inst.queue().index());
        Plan { waits, start: ready.max(self.free[queue]).max(need.from) }
    }

    /// Writes the lines of a piece of work that takes so many cycles.
    pub(crate) fn write(&mut self, work: &Work, map: &Map, cycles: u64, need: Need) -> Option<Op> {
        Some(self.write_lines(work, lines(work)?, map, cycles, need))
    }

    /// Writes these lines, which do the work.
    pub(crate) fn write_lines(
        &mut self,
        work: &Work,
        lines: Lines,
        map: &Map,
        cycles: u64,
        need: Need,
    ) -> Op {
        let Plan { waits, .. } = self.plan(work, need);
        let queue = lines.inst.queue();
        for config in lines.configs {
            self.configure(config, map);
        }
        let op = Op(self.done.len());
        let (prev, clock) = self.tokens(op, queue, waits);
        let start = prev.iter().map(|&op| self.end(op)).max().unwrap_or(0);
        let start = start.max(self.free[queue.index()]).max(need.from);
        let end = start + cycles;
        let from: Queues = prev.iter().map(|&op| self.done[op.0].queue).collect();
        for &op in &prev {
            let line = self.done[op.0].line;
            self.give(line, queue);
        }
        let inst = lines.inst.with_tokens(sorted(from), Queues::NONE);
        self.done.push(Done { queue, line: self.lines.len(), end, clock });
        self.lines.push(Line { inst, map: Some(map.clone()), time: None });
        self.free[queue.index()] = end;
        self.last[queue.index()] = Some(op);
        self.touch(work, op);
        if let Some((start, end)) = need.reads {
            let Writer { l2, done, .. } = self;
            l2.set(start, end, false, op, |op: Op| done[op.0].queue);
        }
        op
    }

    fn give(&mut self, line: usize, to: Queue) {
        let inst = &mut self.lines[line].inst;
        let (prev, mut next) = inst.tokens().unwrap_or_default();
        next.push(to);
        *inst = inst.with_tokens(prev, sorted(next));
    }

    /// Writes a configuration unless it is set already.
    fn configure(&mut self, config: Inst, map: &Map) {
        let select = match config {
            Inst::LdaCfg { rs, .. } | Inst::LdwCfg { rs, .. } | Inst::StaCfg { rs, .. } => rs,
            _ => 0,
        };
        if self.registers.insert((config.row(), select), config) == Some(config) {
            return;
        }
        let cycles = line_cycles(&Work::Configure, self.arch, self.model);
        self.free[config.queue().index()] += cycles;
        let map = Map { clyr: Indices::new(), ..map.clone() };
        self.lines.push(Line { inst: config, map: Some(map), time: None });
    }

    /// Of what a line waits for, what nothing else implies; and its clock.
    fn tokens(&self, op: Op, queue: Queue, mut waits: Waits) -> (Waits, [u32; QUEUES]) {
        let mut clock = self.last[queue.index()].map_or([0; QUEUES], |op| self.done[op.0].clock);
        // Later lines may imply earlier ones, never the other way round.
        waits.sort_unstable_by(|a, b| b.cmp(a));
        waits.dedup();
        let mut kept = Waits::new();
        for wait in waits {
            let done = &self.done[wait.0];
            let index = done.queue.index();
            if done.queue == queue || clock[index] >= done.clock[index] {
                continue;
            }
            for (mine, theirs) in clock.iter_mut().zip(done.clock) {
                *mine = (*mine).max(theirs);
            }
            kept.push(wait);
        }
        debug_assert!(op.0 == self.done.len());
        clock[queue.index()] += 1;
        (kept, clock)
    }

    fn touch(&mut self, work: &Work, op: Op) {
        let Writer { l2, wl0, done, .. } = self;
        let queue = |op: Op| done[op.0].queue;
        for access in accesses(work, self.arch) {
            let memory = match access.memory {
                Memory::L2(_) => &mut *l2,
                Memory::Wl0 => &mut *wl0,
                Memory::Dram(_) | Memory::Remote(..) | Memory::RemoteWhole(_) => continue,
            };
            let [start, end] = [access.span.start, access.span.end].map(|at| at.max(0) as u64);
            memory.set(start, end, access.write, op, queue);
        }
        if work.uses_dram() {
            self.dram = Some(op);
        }
        if matches!(work, Work::Regions(_)) {
            self.regions = Some(op);
        }
    }

    /// The finished program.
    pub(crate) fn finish(self) -> Program {
        Program { lines: self.lines, spellings: Vec::new() }
    }
}

/// Lists are written in the order of the mask bits.
fn sorted(queues: Queues) -> Queues {
    Queues::of_mask(queues.mask())
}
