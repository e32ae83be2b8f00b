//! Performance samples of a run of the two-engine model.

#![deny(clippy::wildcard_enum_match_arm)]

use super::engines::{Engine, Run, Timing};
use crate::files::{Bus, Sample, Samples};
use crate::isa::{Inst, Register};
use crate::program::{Action, Memory, Program};
use quincunx_diag::{Diagnostic, Result};

/// Most samples that are made: 128 MiB.
const MAX_SAMPLES: u64 = 1 << 24;

/// The buses that an instruction uses.
fn buses(inst: &Inst) -> &'static [Bus] {
    match inst.action() {
        Action::Wait | Action::Configure { .. } => &[],
        Action::Product { local: Some(_), .. } => {
            &[Bus::Array, Bus::Acc, Bus::Dataflow, Bus::MemPortA]
        }
        Action::Product { local: None, .. } => &[Bus::Array, Bus::Acc, Bus::Dataflow],
        Action::Push { local: Some(_), .. } => &[Bus::Array, Bus::Dataflow, Bus::MemPortA],
        Action::Push { local: None, .. } => &[Bus::Array, Bus::Dataflow],
        Action::Simd { .. } => &[Bus::Acc],
        Action::Table { .. } => &[Bus::Acc, Bus::MemPortA],
        Action::Move(transfer) => match transfer.other.memory {
            Memory::Dram0 => &[Bus::Dram0, Bus::MemPortB],
            Memory::Dram1 => &[Bus::Dram1, Bus::MemPortB],
            Memory::Acc | Memory::Local => &[Bus::Acc, Bus::Dataflow, Bus::MemPortA],
        },
    }
}

/// When the interval between samples changes, and to what.
fn intervals(program: &Program, timing: &Timing, interval: u32) -> Vec<(u64, u64)> {
    let mut changes = vec![(0, u64::from(interval))];
    for (step, run) in program.steps.iter().zip(&timing.runs) {
        if let Inst::Configure { register: Register::SampleInterval, value } = step.inst {
            changes.push((run.end, value & 0xffff));
        }
    }
    changes
}

/// Takes samples: the program counter counts from `counter`, the interval is `interval` cycles until
/// the program sets it. A bus is valid while an instruction for it has left the decoder and is not
/// done, and ready unless that instruction waits. When sampling ends, the block is filled up with
/// invalid samples.
///
/// # Errors
/// `Q3083` for more than 2^24 samples.
pub fn sample(
    program: &Program,
    timing: &Timing,
    interval: u32,
    block_size: usize,
    counter: u32,
) -> Result<Samples> {
    let mut samples = Samples { block_size: block_size.max(1), words: Vec::new() };
    let changes = intervals(program, timing, interval);
    let mut probe = Probe::new(program, timing, counter);
    for (index, &(from, interval)) in changes.iter().enumerate() {
        let until = changes.get(index + 1).map_or(timing.total, |&(next, _)| next);
        if interval == 0 {
            samples.pad();
            continue;
        }
        let count = until.saturating_sub(from).div_ceil(interval);
        if samples.words.len() as u64 + count > MAX_SAMPLES {
            let message = format!("more than {MAX_SAMPLES} samples of {interval} cycles each");
            return Err(Diagnostic::unsupported("Q3083", message).help("take a longer interval"));
        }
        samples.words.extend((0..count).map(|i| probe.at(from + i * interval)));
    }
    samples.pad();
    Ok(samples)
}

/// Looks at a run at ever later times.
struct Probe<'a> {
    program: &'a Program,
    runs: &'a [Run],
    counter: u32,
    /// Instructions that have left the decoder.
    issued: usize,
    /// Those of them that are not done, in order.
    flying: Vec<usize>,
}

impl<'a> Probe<'a> {
    fn new(program: &'a Program, timing: &'a Timing, counter: u32) -> Self {
        Probe { program, runs: &timing.runs, counter, issued: 0, flying: Vec::new() }
    }

    fn at(&mut self, time: u64) -> Sample {
        while self.runs.get(self.issued).is_some_and(|run| run.issue < time) {
            self.issue();
        }
        self.flying.retain(|&index| self.runs[index].end > time);
        let mut signals = [(false, true); 8];
        for &index in &self.flying {
            let works = self.runs[index].start <= time;
            for &bus in buses(&self.program.steps[index].inst) {
                // What works now says that the bus is ready; what waits behind it says nothing.
                let (valid, ready) = signals[bus as usize];
                signals[bus as usize] = (true, works || (valid && ready));
            }
        }
        let next = self.runs.get(self.issued);
        signals[Bus::Instruction as usize] =
            (next.is_some(), next.is_none_or(|run| run.issue <= time));
        let sample = Sample::new(self.counter);
        Bus::ALL.into_iter().fold(sample, |sample, bus| {
            let (valid, ready) = signals[bus as usize];
            sample.with(bus, valid, ready)
        })
    }

    fn issue(&mut self) {
        let index = self.issued;
        self.issued += 1;
        self.counter = self.counter.wrapping_add(1);
        if let Inst::Configure { register: Register::ProgramCounter, value } =
            self.program.steps[index].inst
        {
            self.counter = value as u32;
        }
        if self.runs[index].engine != Engine::Decoder {
            self.flying.push(index);
        }
    }
}
