//! Timing models (`tensil` in `docs/bibliography.md`): two of upstream, which add instructions up,
//! and one with two engines that work side by side.

mod cost;
mod engines;
mod occupancy;
mod profile;
mod sampling;
mod sequencer;
mod tables;

pub(crate) use cost::transfers_per_vector;
pub use cost::{Cost, Estimate, costs, estimate};
pub(crate) use engines::engines_total;
pub use engines::{Engine, Run, Timing, engines};
pub use sampling::sample;
pub use sequencer::{Interval, Sequence, sequence};

pub(crate) use profile::{Time, times};
pub(crate) use tables::{efficiency, tables};

use crate::isa::{Inst, Register};
use crate::program::Program;
use crate::program::layers::Layer;
use crate::text::describe;
use quincunx_diag::Result;
use quincunx_timeline::{Event, Timeline};

/// A timing model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Model {
    /// Upstream's since 2022-06-06.
    Current,
    /// Upstream's before, under which the benchmark table of `tensil-doc` 1 was made.
    Early2022,
    /// DRAM and compute engine run concurrently, closer to the hardware (ours).
    TwoEngine,
}

impl Model {
    /// Names for the option.
    pub const NAMES: &'static [&'static str] = &["current", "early-2022", "two-engine"];

    /// All models, in the order of their names.
    pub const ALL: [Model; 3] = [Model::Current, Model::Early2022, Model::TwoEngine];

    /// The model of a name in [`Model::NAMES`].
    pub fn from_name(name: &str) -> Option<Model> {
        Some(match name {
            "current" => Model::Current,
            "early-2022" => Model::Early2022,
            "two-engine" => Model::TwoEngine,
            _ => return None,
        })
    }
}

/// Instructions that held the decoder for longer than the timeout register allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// How many.
    pub count: u64,
    /// The first one.
    pub first: Option<usize>,
}

impl Timeouts {
    /// Looks at how many cycles the decoder is held by every instruction.
    pub fn of(program: &Program, timeout: u32, held: impl Iterator<Item = u64>) -> Timeouts {
        let mut limit = u64::from(timeout);
        let mut timeouts = Timeouts::default();
        for (index, (step, held)) in program.steps.iter().zip(held).enumerate() {
            if held > limit {
                timeouts.count += 1;
                timeouts.first.get_or_insert(index);
            }
            if let Inst::Configure { register: Register::Timeout, value } = step.inst {
                limit = value & 0xffff;
            }
        }
        timeouts
    }

    fn figure(&self, timeline: &mut Timeline) {
        let value = match self.first {
            Some(first) => format!("{} times, first at instruction {first}", self.count),
            None => "no".to_owned(),
        };
        timeline.figure("timeout flag", value);
    }
}

/// How a program is timed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costing<'a> {
    /// The model.
    pub(crate) model: Model,
    /// Cycles after which the timeout flag rises.
    pub(crate) timeout: u32,
    /// Clock in MHz, when it is known.
    pub(crate) clock_mhz: Option<u32>,
    /// The layers of the program.
    pub(crate) layers: &'a [Layer],
}

/// What happens when under a model, with the figures of upstream's model beside it.
///
/// # Errors
/// Those of the layout.
pub(crate) fn timeline(program: &Program, costing: &Costing<'_>) -> Result<Timeline> {
    let mut timeline = Timeline::new("cycles");
    if let Some(clock) = costing.clock_mhz {
        timeline.set_hertz(f64::from(clock) * 1e6);
    }
    match costing.model {
        Model::TwoEngine => two_engines(program, costing, &mut timeline),
        _ => summed(program, costing, &mut timeline),
    }
    add_parts(program, costing, &mut timeline);
    Ok(timeline)
}

/// The layers, the memories in use, and the roofline.
fn add_parts(program: &Program, costing: &Costing<'_>, timeline: &mut Timeline) {
    let Costing { model, layers, .. } = *costing;
    let clockwork = profile::Clockwork::new(program, model);
    let mut start = 0;
    for (layer, end) in layers.iter().zip(clockwork.layer_ends(layers)) {
        timeline.part(&layer.name, start, end);
        start = end;
    }
    add_counters(program, &clockwork, timeline);
    let times = profile::times(program, model, layers);
    timeline.set_roofline(tables::roofline(program, model, layers, &times));
}

/// Vectors in use, in the order of the program.
fn add_counters(program: &Program, clockwork: &profile::Clockwork, timeline: &mut Timeline) {
    let Some(in_use) = occupancy::occupancy(program) else {
        timeline.figure("vectors in use", "not counted, the program touches too many");
        return;
    };
    let counters = [("local memory", "vectors"), ("accumulators", "vectors")]
        .map(|(name, unit)| timeline.counter(name, unit));
    let mut now = 0;
    let mut shown = [None; 2];
    for (in_use, &start) in in_use.iter().zip(&clockwork.starts) {
        now = now.max(start);
        for (index, value) in [in_use.local, in_use.acc].into_iter().enumerate() {
            if shown[index].replace(value) != Some(value) {
                timeline.sample(counters[index], now, value as f64);
            }
        }
    }
    let total = timeline.total();
    counters.iter().for_each(|&counter| timeline.sample(counter, total, 0.0));
}

fn summed(program: &Program, costing: &Costing<'_>, timeline: &mut Timeline) {
    let costs = costs(program, costing.model == Model::Early2022);
    let sequence = sequence(program, &costs);
    let lanes: Vec<_> = (0..program.arch.number_of_threads)
        .map(|thread| timeline.lane(format!("thread {thread}")))
        .collect();
    for (step, interval) in program.steps.iter().zip(&sequence.intervals) {
        timeline.event(Event {
            lane: lanes[usize::from(step.tid)],
            start: interval.start,
            duration: interval.end - interval.start,
            name: name(&step.inst).to_owned(),
            detail: describe(&step.inst),
        });
    }
    let sum = Cost::sum(&costs);
    timeline.figure("sum of all instructions", format!("{} cycles", sum.cycles));
    timeline.figure("as upstream reports", format!("{} cycles", sequence.reported.cycles));
    timeline.figure("energy", format!("{} units", sum.energy));
    timeline.figure("energy as upstream reports", format!("{} units", sequence.reported.energy));
    let held = costs.iter().map(|cost| cost.cycles);
    Timeouts::of(program, costing.timeout, held).figure(timeline);
}

fn two_engines(program: &Program, costing: &Costing<'_>, timeline: &mut Timeline) {
    let timing = engines(program);
    let decoder = timeline.lane("decoder");
    let compute = timeline.lane("compute");
    let dram = timeline.lane("DRAM");
    let mut placed = vec![None; program.steps.len()];
    for (index, (step, run)) in program.steps.iter().zip(&timing.runs).enumerate() {
        let (lane, start, end) = match run.engine {
            Engine::Decoder => (decoder, run.issue, run.end),
            Engine::Compute => (compute, run.start, run.end),
            Engine::Dram => (dram, run.start, run.end),
        };
        let (name, detail) = (name(&step.inst).to_owned(), describe(&step.inst));
        let event = timeline.event(Event { lane, start, duration: end - start, name, detail });
        placed[index] = Some(event);
        if let Some(before) = run.waits_for.and_then(|before| placed[before]) {
            timeline.depend(before, event, "local memory");
        }
    }
    timeline.extend(timing.total);
    let busy = |engine: Engine| -> u64 {
        let of_engine = timing.runs.iter().filter(|run| run.engine == engine);
        of_engine.map(|run| run.end - run.start).sum()
    };
    let sum = Cost::sum(&costs(program, false));
    timeline.figure("current model sum", format!("{} cycles", sum.cycles));
    timeline.figure("compute engine busy", format!("{} cycles", busy(Engine::Compute)));
    timeline.figure("DRAM engine busy", format!("{} cycles", busy(Engine::Dram)));
    let held = timing.runs.iter().map(|run| run.held);
    Timeouts::of(program, costing.timeout, held).figure(timeline);
}

/// Mnemonic of an instruction.
fn name(inst: &Inst) -> &'static str {
    crate::isa::TABLE.rows[inst.row()].mnemonic
}
