//! Where the time of a program goes: by layer and by unit of the machine, under every model.

#![deny(clippy::wildcard_enum_match_arm)]

use super::{Cost, Model, costs, engines, sequence};
use crate::isa::Inst;
use crate::program::layers::Layer;
use crate::program::{Action, Memory, Program};

/// What an instruction keeps busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// The systolic array: products and loading of weights.
    Array,
    /// Moves between DRAM and local memory.
    Dram,
    /// The ALUs.
    Simd,
    /// Moves between accumulators and local memory.
    Moves,
    /// The decoder: instructions that do nothing, and configuration.
    Decoder,
}

impl Unit {
    /// All of them.
    pub(crate) const ALL: [Unit; 5] =
        [Unit::Array, Unit::Dram, Unit::Simd, Unit::Moves, Unit::Decoder];

    /// The unit of an instruction.
    pub(crate) fn of(inst: &Inst) -> Unit {
        match inst.action() {
            Action::Product { .. } | Action::Push { .. } => Unit::Array,
            Action::Simd { .. } | Action::Table { .. } => Unit::Simd,
            Action::Wait | Action::Configure { .. } => Unit::Decoder,
            Action::Move(transfer) if transfer.other.memory == Memory::Acc => Unit::Moves,
            Action::Move(_) => Unit::Dram,
        }
    }

    /// Its name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unit::Array => "array",
            Unit::Dram => "DRAM",
            Unit::Simd => "SIMD",
            Unit::Moves => "accumulator moves",
            Unit::Decoder => "decoder",
        }
    }
}

/// The time of some instructions under one model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Time {
    /// Cycles from the end of what comes before to the end of the last of them.
    pub(crate) cycles: u64,
    /// Cycles in which each of [`Unit::ALL`] works.
    pub(crate) busy: [u64; 5],
}

impl Time {
    /// The time of both, one after the other.
    pub(crate) fn and(self, next: &Time) -> Time {
        let busy = std::array::from_fn(|unit| self.busy[unit] + next.busy[unit]);
        Time { cycles: self.cycles + next.cycles, busy }
    }

    /// What decides the time: the unit that works longest. Where engines run side by side, DRAM
    /// against all others together; with neither working for half of the time, they wait for each
    /// other.
    pub(crate) fn bound(&self, model: Model) -> &'static str {
        let longest = |units: &[Unit]| {
            let busy = |unit: &Unit| self.busy[*unit as usize];
            // Of equals the first.
            units.iter().rev().max_by_key(|unit| busy(unit)).map_or("", |unit| unit.name())
        };
        if self.cycles == 0 {
            return "";
        }
        if model != Model::TwoEngine {
            return longest(&Unit::ALL);
        }
        let compute = [Unit::Array, Unit::Simd, Unit::Moves, Unit::Decoder];
        let dram = self.busy[Unit::Dram as usize];
        let others: u64 = compute.iter().map(|&unit| self.busy[unit as usize]).sum();
        match (dram.max(others) * 2 < self.cycles, dram >= others) {
            (true, _) => "waiting",
            (false, true) => Unit::Dram.name(),
            (false, false) => longest(&compute),
        }
    }
}

/// Vectors that some instructions move over each DRAM: read, written.
pub(crate) type Traffic = [[u64; 2]; 2];

/// Vectors over DRAM0 and DRAM1.
pub(crate) fn traffic(program: &Program, layer: &Layer) -> Traffic {
    let mut sums = Traffic::default();
    for step in &program.steps[layer.steps.clone()] {
        let Some(transfer) = step.inst.transfer() else { continue };
        let bank = match transfer.other.memory {
            Memory::Dram0 => 0,
            Memory::Dram1 => 1,
            Memory::Local | Memory::Acc => continue,
        };
        sums[bank][usize::from(!transfer.to_local)] += transfer.other.count;
    }
    sums
}

/// When every instruction ends and how long it works, and the cycles of all together.
pub(crate) struct Clockwork {
    /// Cycle behind the last one of every instruction.
    pub(crate) ends: Vec<u64>,
    /// First cycle of every instruction.
    pub(crate) starts: Vec<u64>,
    total: u64,
}

impl Clockwork {
    /// A program under a model.
    pub(crate) fn new(program: &Program, model: Model) -> Clockwork {
        if model == Model::TwoEngine {
            let timing = engines(program);
            let starts = timing.runs.iter().map(|run| run.start).collect();
            let ends = timing.runs.iter().map(|run| run.end).collect();
            return Clockwork { ends, starts, total: timing.total };
        }
        let sequence = sequence(program, &costs(program, model == Model::Early2022));
        let ends: Vec<u64> = sequence.intervals.iter().map(|interval| interval.end).collect();
        let starts = sequence.intervals.iter().map(|interval| interval.start).collect();
        let total = ends.iter().copied().max().unwrap_or(0);
        Clockwork { ends, starts, total }
    }

    /// When every layer is done: nothing of it or of what is before it runs any more.
    pub(crate) fn layer_ends(&self, layers: &[Layer]) -> Vec<u64> {
        let mut done = 0;
        let mut ends: Vec<u64> = layers
            .iter()
            .map(|layer| {
                done = self.ends[layer.steps.clone()].iter().fold(done, |done, &end| done.max(end));
                done
            })
            .collect();
        // The last results leave the array after the last instruction.
        if let Some(last) = ends.last_mut() {
            *last = self.total;
        }
        ends
    }
}

/// The time of every layer under a model; together they are the time of the program.
pub(crate) fn times(program: &Program, model: Model, layers: &[Layer]) -> Vec<Time> {
    let clockwork = Clockwork::new(program, model);
    let ends = clockwork.layer_ends(layers);
    let starts = [0].into_iter().chain(ends.iter().copied());
    let time = |((layer, &end), start): ((&Layer, &u64), u64)| {
        let mut busy = [0; 5];
        for index in layer.steps.clone() {
            let unit = Unit::of(&program.steps[index].inst);
            busy[unit as usize] += clockwork.ends[index] - clockwork.starts[index];
        }
        Time { cycles: end - start, busy }
    };
    layers.iter().zip(&ends).zip(starts).map(time).collect()
}

/// Energy in upstream's units; the two-engine model has none of its own.
pub(crate) fn energy(program: &Program, model: Model) -> Option<u64> {
    let early = model == Model::Early2022;
    (model != Model::TwoEngine).then(|| Cost::sum(&costs(program, early)).energy)
}
