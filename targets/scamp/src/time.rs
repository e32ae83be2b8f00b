//! Cost models and device time.
//!
//! Facts: `cain-paper` (`docs/bibliography.md`). What instructions off the bus cost in the device
//! model, and steps that the public simulator does not have, are ours.

#![deny(clippy::wildcard_enum_match_arm)]

use crate::arch::ScampArch;
use crate::expand::{bus_steps, expand};
use crate::isa::{Class, Gate, Inst};
use crate::program::Program;
use quincunx_timeline::{Event, Timeline};

/// A cost model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Model {
    /// One per instruction, as Cain's plan length.
    Macro,
    /// Bus steps; nothing for what is off the bus.
    Bus,
    /// Device time: so many microseconds per bus step, as the machine says, in whole nanoseconds
    /// for every instruction.
    #[default]
    Device,
    /// Cycles of a public simulator.
    Simulator,
}

impl Model {
    /// Names for the option `cost-model`.
    pub const NAMES: [&'static str; 4] = ["bus_0.19us", "bus", "macro", "simcycles"];

    /// The model with a name.
    pub fn from_name(name: &str) -> Model {
        match name {
            "macro" => Model::Macro,
            "bus" => Model::Bus,
            "simcycles" => Model::Simulator,
            _ => Model::Device,
        }
    }

    /// Cost of an instruction, in the unit of [`Model::unit`].
    pub fn cost(self, inst: &Inst, arch: &ScampArch) -> u64 {
        let is_step = |step: &&Inst| matches!(step.class(), Class::Bus | Class::Condition);
        match self {
            Model::Macro => u64::from(inst.class() != Class::Frame),
            Model::Bus => bus_steps(inst),
            Model::Simulator => simulator_cycles(inst),
            Model::Device => {
                let steps = expand(inst);
                let on_bus = steps.iter().filter(is_step).count() as u64;
                let off_bus: u64 =
                    steps.iter().filter(|step| !is_step(step)).map(simulator_cycles).sum();
                let bus = on_bus as f64 * arch.cost.bus_us;
                let microseconds = bus + off_bus as f64 / arch.cost.clock_mhz;
                (microseconds * 1000.0).round() as u64
            }
        }
    }

    /// Cost of reading bytes out: each takes a cycle of the clock, which is ours. Models that count
    /// something else than time have none.
    pub(crate) fn read_out(self, bytes: u64, arch: &ScampArch) -> u64 {
        match self {
            Model::Macro | Model::Bus => 0,
            Model::Device => (bytes as f64 * 1000.0 / arch.cost.clock_mhz).round() as u64,
            Model::Simulator => bytes,
        }
    }

    /// The unit of its costs.
    pub fn unit(self) -> &'static str {
        match self {
            Model::Macro => "instructions",
            Model::Bus => "steps",
            Model::Device => "ns",
            Model::Simulator => "cycles",
        }
    }

    /// Clock cycles that a total is; `None` where the model counts something else.
    pub fn cycles(self, total: u64) -> Option<u64> {
        (self == Model::Simulator).then_some(total)
    }

    /// How many of its units are a second.
    pub fn hertz(self, arch: &ScampArch) -> Option<f64> {
        match self {
            Model::Macro | Model::Bus => None,
            Model::Device => Some(1e9),
            Model::Simulator => Some(arch.cost.clock_mhz * 1e6),
        }
    }
}

/// Cycles in the public simulator.
fn simulator_cycles(inst: &Inst) -> u64 {
    let (writes, reads) = inst.split();
    let hops = inst.registers().filter(|register| register.direction().is_some()).count() as u64;
    let (written, read) = (writes.len() as u64, reads.len() as u64);
    match inst.class() {
        Class::Frame | Class::Emulator => 0,
        Class::Bus => {
            let cycles = match read {
                0 => written,
                1 => written + u64::from(written > 1),
                _ => read + written + 1,
            };
            cycles + hops
        }
        Class::Condition => hops + if read == 1 { 2 } else { read + 2 },
        Class::Macro | Class::Sensor | Class::LoadMacro => {
            expand(inst).iter().map(simulator_cycles).sum()
        }
        Class::All | Class::Pattern | Class::Load => 1,
        Class::Digital(gate) => match gate {
            Gate::Or | Gate::And | Gate::Not => read + 2,
            Gate::Nor | Gate::Nand | Gate::Xor | Gate::Imply | Gate::Mux => read + 3,
            Gate::Copy | Gate::Refresh => 2,
            Gate::Constant(_) => written,
            // A read, an operation, a write, and the way to the neighbour.
            Gate::Neighbours { .. } => 4,
            Gate::Where | Gate::All => 1,
        },
    }
}

/// Cost of a program.
pub fn total(program: &Program, model: Model, arch: &ScampArch) -> u64 {
    program.instructions.iter().map(|inst| model.cost(inst, arch)).fold(0, u64::saturating_add)
}

/// Images in a second that take so much each.
pub fn frames_per_second(total: u64, model: Model, arch: &ScampArch) -> Option<f64> {
    model.hertz(arch).filter(|_| total > 0).map(|hertz| hertz / total as f64)
}

/// A result that leaves the array.
pub struct Read {
    /// The instruction behind which it does.
    pub after: usize,
    /// The value of the network.
    pub value: String,
    /// Its bytes.
    pub bytes: u64,
}

/// The lane of results that leave the array.
pub const READ_OUT: &str = "read-out";

/// When what happens: one instruction after the other, in lanes by kind, and results that leave the
/// array between them.
pub fn timeline(program: &Program, reads: &[Read], model: Model, arch: &ScampArch) -> Timeline {
    let mut timeline = Timeline::new(model.unit());
    if let Some(hertz) = model.hertz(arch) {
        timeline.set_hertz(hertz);
    }
    let lanes = ["analogue", "sensor", "digital", "controller"].map(|name| timeline.lane(name));
    let is_timed = !reads.is_empty() && model.hertz(arch).is_some();
    let port = is_timed.then(|| timeline.lane(READ_OUT));
    let (mut now, mut last) = (0, None);
    for (index, inst) in program.instructions.iter().enumerate() {
        let lane = match inst.class() {
            Class::Bus | Class::Condition | Class::All | Class::Macro => lanes[0],
            Class::Sensor => lanes[1],
            Class::Digital(_) => lanes[2],
            Class::Frame | Class::Pattern | Class::Load | Class::LoadMacro | Class::Emulator => {
                lanes[3]
            }
        };
        let duration = model.cost(inst, arch);
        let (name, detail) = (inst.mnemonic().to_owned(), inst.text());
        let event = timeline.event(Event { lane, start: now, duration, name, detail });
        if let Some(last) = last {
            timeline.depend(last, event, "order");
        }
        last = Some(event);
        now = u64::saturating_add(now, duration);
        let Some(lane) = port else { continue };
        for Read { value, bytes, .. } in reads.iter().filter(|read| read.after == index) {
            let duration = model.read_out(*bytes, arch);
            let (name, detail) = (value.clone(), format!("{bytes} bytes"));
            let read = timeline.event(Event { lane, start: now, duration, name, detail });
            timeline.depend(event, read, "order");
            last = Some(read);
            now = u64::saturating_add(now, duration);
        }
    }
    timeline.figure("instructions", program.length());
    timeline.figure("bus steps", program.bus_steps());
    if !reads.is_empty() {
        timeline.figure("bytes read out", reads.iter().map(|read| read.bytes).sum::<u64>());
    }
    if let Some(frames) = frames_per_second(now, model, arch) {
        timeline.figure("frames per second", frames.round());
    }
    timeline
}
