//! Timing models (`specs/tcu.md` sections 10 and 11): two of upstream, which add instructions up,
//! and one with two engines that work side by side.

mod cost;
mod engines;
mod sampling;
mod sequencer;

pub use cost::{Cost, Estimate, costs, estimate};
pub use engines::{Engine, Run, Timing, engines};
pub use sampling::sample;
pub use sequencer::{Interval, Sequence, sequence};

use crate::isa::{Inst, Register};
use crate::program::Program;
use crate::text::describe;
use quincunx_diag::Result;
use quincunx_timeline::{Event, Timeline};

/// A timing model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Model {
    /// Upstream's since 2022-06-06.
    Current,
    /// Upstream's before, under which the benchmark table of the seed text was made.
    Early2022,
    /// DRAM and compute engine run concurrently, closer to the hardware (ours).
    TwoEngine,
}

impl Model {
    /// Names for the option.
    pub const NAMES: &'static [&'static str] = &["current", "early-2022", "two-engine"];

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

/// What happens when under a model, with the figures of upstream's model beside it.
///
/// # Errors
/// Those of the layout.
pub fn timeline(program: &Program, model: Model, timeout: u32) -> Result<Timeline> {
    let mut timeline = Timeline::new("cycles");
    if let Some(clock) = program.arch.clock_mhz {
        timeline.set_hertz(f64::from(clock) * 1e6);
    }
    match model {
        Model::TwoEngine => two_engines(program, timeout, &mut timeline),
        _ => summed(program, model, timeout, &mut timeline),
    }
    Ok(timeline)
}

fn summed(program: &Program, model: Model, timeout: u32, timeline: &mut Timeline) {
    let costs = costs(program, model == Model::Early2022);
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
    Timeouts::of(program, timeout, costs.iter().map(|cost| cost.cycles)).figure(timeline);
}

fn two_engines(program: &Program, timeout: u32, timeline: &mut Timeline) {
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
    Timeouts::of(program, timeout, timing.runs.iter().map(|run| run.held)).figure(timeline);
}

/// Mnemonic of an instruction.
fn name(inst: &Inst) -> &'static str {
    crate::isa::TABLE.rows[inst.row()].mnemonic
}
