//! Prepared programs: the same as the executor, faster.
//!
//! A [`Plan`] is made from the steps of a program once. It runs products that do not depend on each
//! other in groups: operands that no vector instruction takes as they are, such as elements of 4
//! bits, are unpacked once for all products of a group that use them, and sums stay in vector
//! registers along a chain of products. What cannot be prepared, the executor does; results are
//! the executor's, bit for bit.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod blocks;
mod chain;
#[cfg(target_arch = "x86_64")]
mod doubles512;
mod floats;
pub mod kernel;
mod schedule;
mod sums;
mod unpack;
#[cfg(target_arch = "x86_64")]
mod unpack512;

use super::exec::Step;
use super::float::Rules;
use super::state::State;
use blocks::Blocks;
use chain::{Chain, Context};
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::Level;
use schedule::{Part, Scheduler};

/// The vector instructions of a plan. Results do not depend on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vectors {
    /// Which ones.
    pub level: Level,
    /// Products of pairs of bf too (`vdpbf16ps`), with 512-bit vectors.
    pub pairs: bool,
}

impl Vectors {
    /// The fastest ones of this processor at a level.
    pub fn of(level: Level) -> Vectors {
        #[cfg(target_arch = "x86_64")]
        let pairs = level == Level::Avx512 && is_x86_feature_detected!("avx512bf16");
        #[cfg(not(target_arch = "x86_64"))]
        let pairs = false;
        Vectors { level, pairs }
    }

    /// All of this processor, slowest first.
    pub fn available() -> impl Iterator<Item = Vectors> {
        let both = |level| [Vectors { level, pairs: false }, Vectors::of(level)];
        Level::available().flat_map(move |level| {
            let [without, with] = both(level);
            [Some(without), (with != without).then_some(with)].into_iter().flatten()
        })
    }
}

/// A prepared program.
pub struct Plan {
    parts: Vec<Part>,
    blocks: Blocks,
    bytes: usize,
    rules: Rules,
    level: Level,
}

impl Plan {
    /// Prepares steps for threads of so many bytes and the fastest instructions of this processor.
    pub fn new(steps: &[Step], bytes: usize, rules: Rules) -> Plan {
        Plan::for_vectors(steps, bytes, rules, Vectors::of(Level::best()))
    }

    /// Prepares steps for certain instructions.
    ///
    /// # Panics
    /// When the processor does not have them ([`Vectors::available`]).
    pub fn for_vectors(steps: &[Step], bytes: usize, rules: Rules, vectors: Vectors) -> Plan {
        let Vectors { level, pairs } = vectors;
        let has = level.is_available() && (!pairs || Vectors::of(level).pairs);
        assert!(has, "this processor lacks {vectors:?}");
        let mut scheduler = Scheduler::new(vectors, rules, bytes);
        steps.iter().for_each(|step| scheduler.push(step));
        let (parts, blocks) = scheduler.finish();
        Plan { parts, blocks, bytes, rules, level }
    }

    /// Runs the steps on every thread.
    ///
    /// # Errors
    /// As [`Step::run`], and an internal error when a thread has another size than was prepared
    /// for.
    pub fn run(&mut self, state: &mut State) -> Result<()> {
        for index in 0..self.parts.len() {
            if let Part::Step(step) = &self.parts[index] {
                step.run(state, self.rules)?;
                continue;
            }
            let alone = state.threads.len() == 1;
            for bytes in &mut state.threads {
                self.part(index, bytes, state.dispatch_mask, alone)?;
            }
        }
        Ok(())
    }

    /// Runs the steps on one thread, whose lanes are switched on by a mask.
    ///
    /// # Errors
    /// As [`Plan::run`]; a step that needs two fused threads is `Q6071`.
    pub fn run_alone(&mut self, bytes: &mut [u8], dispatch_mask: u32) -> Result<()> {
        (0..self.parts.len()).try_for_each(|index| self.part(index, bytes, dispatch_mask, true))
    }

    /// Runs a part; `alone` says that no other thread has run parts since the beginning.
    fn part(&mut self, index: usize, file: &mut [u8], mask: u32, alone: bool) -> Result<()> {
        let (unpack, kept, chains, pairs) = match &self.parts[index] {
            Part::Step(step) => return step.run_alone(file, mask, self.rules),
            Part::Group { unpack, kept, chains, pairs } => (unpack, kept, chains, pairs),
        };
        if file.len() != self.bytes {
            let found = file.len();
            let message = format!("a plan for {} bytes runs on {found}", self.bytes);
            return Err(Diagnostic::bug(message));
        }
        for run in kept.iter().filter(|_| !alone).chain(unpack) {
            self.blocks.unpack(run, file, self.level);
        }
        let (blocks, level, rules) = (&self.blocks, self.level, self.rules);
        let run = |chain: &Chain, file: &mut [u8]| {
            let shape = &chain.first().shape;
            chain.run(file, Context { blocks, level, rules, dispatch_mask: mask, shape })
        };
        for pairs in pairs {
            if !pairs.run(file, blocks, mask) {
                pairs.chains.iter().try_for_each(|chain| run(chain, file))?;
            }
        }
        chains.iter().try_for_each(|chain| run(chain, file))
    }

    /// Steps that are left to the executor.
    pub fn unprepared(&self) -> usize {
        self.parts.iter().filter(|part| matches!(part, Part::Step(_))).count()
    }
}
