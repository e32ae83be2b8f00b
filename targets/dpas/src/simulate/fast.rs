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
        Plan::for_level(steps, bytes, rules, Level::best())
    }

    /// Prepares steps for certain instructions.
    ///
    /// # Panics
    /// When the processor does not have them ([`Level::available`]).
    pub fn for_level(steps: &[Step], bytes: usize, rules: Rules, level: Level) -> Plan {
        assert!(level.is_available(), "this processor lacks {level:?}");
        let mut scheduler = Scheduler::new(level, rules, bytes);
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
        let group = match &self.parts[index] {
            Part::Step(step) => return step.run_alone(file, mask, self.rules),
            Part::Group(group) => group,
        };
        if file.len() != self.bytes {
            let found = file.len();
            let message = format!("a plan for {} bytes runs on {found}", self.bytes);
            return Err(Diagnostic::bug(message));
        }
        for run in group.kept.iter().filter(|_| !alone).chain(&group.unpack) {
            self.blocks.unpack(run, file, self.level);
        }
        let (blocks, level, rules) = (&self.blocks, self.level, self.rules);
        let context = |chain: &Chain, fused: bool| {
            let shape = chain.first().shape;
            Context { blocks, level, rules, dispatch_mask: mask, shape, fused }
        };
        let run = |chain: &Chain, file: &mut [u8]| chain.run(file, context(chain, false));
        for pairs in &group.pairs {
            if !pairs.run(file, blocks, mask) {
                pairs.chains.iter().try_for_each(|chain| run(chain, file))?;
            }
        }
        let fused = group.floats.as_ref().is_some_and(|(shape, [left, right])| {
            floats::fused([left, right], (blocks, shape, rules))
        });
        for twins in &group.twins {
            Chain::run_twins(twins, file, context(&twins[0], fused))?;
        }
        group.chains.iter().try_for_each(|chain| run(chain, file))
    }

    /// Steps that are left to the executor.
    pub fn unprepared(&self) -> usize {
        self.parts.iter().filter(|part| matches!(part, Part::Step(_))).count()
    }
}
