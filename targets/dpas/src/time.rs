//! The timing model (`igc` in `docs/bibliography.md`): one thread on one vector engine with its
//! systolic array. Nothing here reads values.
//!
//! Instructions issue in order, one a cycle. A systolic instruction occupies the array for
//! `repeat * depth / physical depth` cycles (at least one), whatever its precisions; its result can
//! be used a latency after it started, which the finalizer's scheduler tables state. A reader or
//! another writer of bytes that are not ready waits. An instruction also waits for what its
//! dependencies name, whether it needs that or not; `sync` waits and takes no cycle. Memory, other
//! threads, bank conflicts and read suppression are not modelled.
//!
//! That is a listing alone. Of a program of launches, `trace` follows a thread without data, `engine`
//! lets the threads of an engine issue, `launch` counts waves and what memory moves, `program` goes
//! through the launches.

mod engine;
mod launch;
mod program;
mod trace;
mod waits;

use crate::arch::DpasArch;
use crate::latency::{MATH_LATENCY, MATH_PIPE, VECTOR_LATENCY, product_latency};
pub use crate::latency::{issue_cycles, latency};
use crate::simulate::{Operation, Step};
use crate::swsb::{Unit, vector_effects};
pub use launch::Cost;
pub use program::{costs, launches, limit, systolic_share, total};
use quincunx_timeline::{Event, EventId, Timeline};
use std::ops::Range;
pub use waits::Wait;
use waits::{Done, Waits};

/// Latency of messages that the first cache answers.
const MESSAGE_LATENCY: u64 = 45;

/// Who wrote the bytes of a thread last, in units of 4 bytes.
struct Writers {
    last: Vec<Option<(EventId, u64)>>,
}

/// Bytes of a unit of dependency.
const UNIT: usize = 4;

impl Writers {
    fn units(&self, range: &Range<usize>) -> Range<usize> {
        let limit = self.last.len();
        (range.start / UNIT).min(limit)..range.end.div_ceil(UNIT).min(limit)
    }

    /// The writers of some bytes, each once, with the time when they are ready.
    fn of(&self, range: &Range<usize>, found: &mut Vec<(EventId, u64)>) {
        for writer in self.last[self.units(range)].iter().flatten() {
            if !found.contains(writer) {
                found.push(*writer);
            }
        }
    }

    fn set(&mut self, range: &Range<usize>, event: EventId, ready: u64) {
        let units = self.units(range);
        self.last[units].fill(Some((event, ready)));
    }
}

/// What a step occupies, and for how long.
struct StepCost {
    systolic: bool,
    name: &'static str,
    reads: Vec<Range<usize>>,
    writes: Vec<Range<usize>>,
    duration: u64,
    latency: u64,
}

/// The cost of a step; `None` for one that only waits.
fn cost(step: &Step, arch: &DpasArch) -> Option<StepCost> {
    Some(match step {
        Step::Wait => return None,
        Step::Multiply(operation) => {
            let mut reads = operation.operand_bytes();
            let writes = vec![reads.remove(0)];
            StepCost {
                systolic: true,
                name: if operation.fused { "dpasw" } else { "dpas" },
                reads,
                writes,
                duration: issue_cycles(arch, operation),
                latency: product_latency(arch.platform, &operation.shape),
            }
        }
        Step::Vector(terms) => {
            let effects = vector_effects(terms, arch);
            let (name, latency) = match effects.unit {
                Unit::Wait | Unit::AllRead(_) | Unit::AllWrite(_) => return None,
                Unit::Math | Unit::Pipe(MATH_PIPE) => ("math", MATH_LATENCY),
                Unit::Message | Unit::Unknown => ("send", MESSAGE_LATENCY),
                Unit::Pipe(_) | Unit::Systolic => ("vector", VECTOR_LATENCY),
            };
            StepCost {
                systolic: false,
                name,
                reads: effects.reads,
                writes: effects.writes,
                duration: 1,
                latency,
            }
        }
    })
}

/// When the steps of a program happen; `bytes` is the size of a thread, `names` the text of a step,
/// `waits` what it waits for besides its operands.
pub fn timeline(
    steps: &[Step],
    bytes: usize,
    arch: &DpasArch,
    names: &dyn Fn(usize) -> String,
    waits: &dyn Fn(usize) -> Wait,
) -> Timeline {
    let mut timeline = Timeline::new("cycles");
    timeline.set_hertz(arch.clock_ghz * 1e9);
    let array = timeline.lane("systolic array");
    let pipe = timeline.lane("vector pipes");
    let mut writers = Writers { last: vec![None; bytes.div_ceil(UNIT)] };
    let mut dependencies = Waits::default();
    let (mut issue, mut array_free) = (0u64, 0u64);
    let (mut busy, mut macs, mut end) = (0u64, 0u64, 0u64);
    for (index, step) in steps.iter().enumerate() {
        let wait = waits(index);
        let named = dependencies.of(&wait);
        let waited = named.iter().map(|done| done.written).max().unwrap_or(0);
        let Some(cost) = cost(step, arch) else {
            issue = issue.max(waited);
            end = end.max(issue);
            continue;
        };
        if let Step::Multiply(Operation { shape, .. }) = step {
            busy += cost.duration;
            macs += u64::from(shape.repeat * shape.lanes * shape.k());
        }
        let mut sources = Vec::new();
        cost.reads.iter().chain(&cost.writes).for_each(|range| writers.of(range, &mut sources));
        let ready = sources.iter().map(|&(_, ready)| ready).max().unwrap_or(0).max(waited);
        let (lane, free) = if cost.systolic { (array, array_free) } else { (pipe, 0) };
        let start = issue.max(ready).max(free);
        let StepCost { duration, name, .. } = cost;
        let (name, detail) = (name.to_owned(), names(index));
        let event = timeline.event(Event { lane, start, duration, name, detail });
        sources.iter().for_each(|&(from, _)| timeline.depend(from, event, "data"));
        let is_new = |done: &&Done<EventId>| sources.iter().all(|&(from, _)| from != done.event);
        named.iter().filter(is_new).for_each(|done| timeline.depend(done.event, event, "token"));
        let written = start + cost.latency;
        dependencies.push(&wait, Done { event, read: start + duration, written });
        issue = start + 1;
        if cost.systolic {
            array_free = start + duration;
        }
        end = end.max(written);
        cost.writes.iter().for_each(|range| writers.set(range, event, written));
    }
    timeline.extend(end);
    figures(&mut timeline, arch, busy, macs);
    timeline
}

fn figures(timeline: &mut Timeline, arch: &DpasArch, busy: u64, macs: u64) {
    let total = timeline.total().max(1);
    let per_cycle = 2.0 * macs as f64 / total as f64;
    timeline.figure("array busy", format!("{:.1} %", 100.0 * busy as f64 / total as f64));
    timeline.figure("multiply-accumulates", macs);
    timeline.figure("operations per cycle", format!("{per_cycle:.1}"));
    timeline.figure("array", format!("{} of 8 stages", arch.depth));
}
