//! How much a run may compute: a hostile program ends in an error, not in an afternoon.

#![deny(clippy::wildcard_enum_match_arm)]

use super::lower::{Lowered, Op, Place};
use super::{Noise, Settings};
use crate::isa::Gate;
use quincunx_diag::{Diagnostic, Result};

/// Most bits of all fractions together: their length has no bound of its own.
const MAX_BITS: u64 = 1 << 30;

/// Units of a normally distributed number.
const DRAW: u64 = 40;

/// Most work of a run. A unit is about a nanosecond of one core of 2025 in a release build; what
/// something costs was measured, and does not depend on the machine that runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkLimit(pub u64);

impl Default for WorkLimit {
    /// Some seconds. The longest programs of the field on the whole array need a fifth of it.
    fn default() -> WorkLimit {
        WorkLimit(WorkLimit::DEFAULT_MILLIONS * 1_000_000)
    }
}

impl WorkLimit {
    /// The default in millions.
    pub const DEFAULT_MILLIONS: u64 = 4000;

    /// Refuses work beyond the limit.
    ///
    /// # Errors
    /// `Q5060`.
    pub(super) fn check(self, work: u64) -> Result<()> {
        if work <= self.0 {
            return Ok(());
        }
        let millions = work / 1_000_000;
        let message = format!("running the program takes {millions} million units of work");
        Err(self.exceeded("Q5060", message))
    }

    /// The error of a run that goes beyond.
    fn exceeded(self, code: &'static str, message: String) -> Diagnostic {
        let millions = self.0 / 1_000_000;
        Diagnostic::unsupported(code, message).help(format!(
            "`--max-work MILLIONS` raises the limit of {millions} million; a smaller `--size` needs less"
        ))
    }
}

/// What running a program costs in floats, for so many elements.
pub(super) fn work(lowered: &Lowered, size: usize, settings: &Settings) -> u64 {
    let steps = lowered.steps.iter().map(|step| cost(&step.op, settings)).sum::<u64>();
    let patterns = settings.noise.as_ref().map_or(0, Noise::patterns) * lowered.analogue.len();
    let per_element = steps.saturating_add(DRAW * patterns as u64);
    per_element.saturating_mul(size as u64)
}

/// Units of a step for each element.
fn cost(op: &Op, settings: &Settings) -> u64 {
    let places = |list: &[Place], own: u64, neighbour: u64| {
        let cost = |place: &Place| if matches!(place, Place::Own(_)) { own } else { neighbour };
        list.iter().map(cost).sum::<u64>()
    };
    match op {
        Op::Bus(step) => {
            let receivers = step.receivers.len() as u64;
            let errors = settings.noise.as_ref().map_or(0, |noise| {
                let draw = if noise.of(step.receivers.len()).sigma == 0.0 { 0 } else { DRAW };
                receivers * (draw + 4 + receivers * noise.patterns() as u64)
            });
            2 + places(&step.sources, 1, 3) + places(&step.receivers, 2, 4) + errors
        }
        Op::Where(sources) => 1 + places(sources, 1, 3),
        Op::All | Op::Fill(..) => 1,
        Op::Logic(step) => match step.gate {
            Gate::Neighbours { .. } => 12,
            Gate::Or
            | Gate::Nor
            | Gate::Copy
            | Gate::Not
            | Gate::And
            | Gate::Nand
            | Gate::Xor
            | Gate::Imply
            | Gate::Mux
            | Gate::Constant(_)
            | Gate::Refresh
            | Gate::Where
            | Gate::All => 1 + (step.reads.len() + step.writes.len()) as u64,
        },
        Op::Pattern(..) => 2,
        Op::Nothing => 0,
    }
}

/// What a run in fractions may still cost.
pub(super) struct Budget {
    limit: WorkLimit,
    left: u64,
}

impl Budget {
    /// The budget of a run that has done so much already.
    pub(super) fn new(limit: WorkLimit, done: u64) -> Budget {
        Budget { limit, left: limit.0.saturating_sub(done) }
    }

    /// Accounts for a step that computed fractions of these lengths in bits, each `times` times;
    /// they stand for every plane.
    ///
    /// # Errors
    /// `Q5062` when they are too many or too long.
    pub(super) fn spend(
        &mut self,
        lengths: impl Iterator<Item = u64>,
        times: u64,
        planes: usize,
    ) -> Result<()> {
        let (mut bits, mut units) = (0_u64, 0_u64);
        for length in lengths {
            bits = bits.saturating_add(length);
            // Reducing a long fraction takes a time that grows with the square of its length.
            let reduced = length / 16 + (length.saturating_mul(length) >> 20);
            units = units.saturating_add(50 + reduced);
        }
        let left = self.left.checked_sub(units.saturating_mul(times));
        if bits.saturating_mul(planes as u64) > MAX_BITS {
            let message = "the results are not exact in floats, and too long as fractions";
            return Err(Diagnostic::unsupported("Q5062", message).help("run it on a smaller array"));
        }
        let Some(left) = left else {
            let message = "the results are not exact in floats, and take too long as fractions";
            return Err(self.limit.exceeded("Q5062", message.to_owned()));
        };
        self.left = left;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_have_a_budget() {
        let limit = WorkLimit(1_000_000);
        let spend = |length: u64, count: usize, planes| {
            Budget::new(limit, 0).spend(std::iter::repeat_n(length, count), 1, planes)
        };
        assert!(spend(64, 1000, 7).is_ok());
        assert_eq!(spend(64, 100_000, 7).unwrap_err().code(), "Q5062");
        assert!(spend(40_000, 200, 7).is_ok());
        assert_eq!(spend(80_000, 200, 7).unwrap_err().code(), "Q5062");
        assert_eq!(spend(40_000, 1, 1 << 15).unwrap_err().code(), "Q5062");
        let mut budget = Budget::new(limit, 700_000);
        let steps = (0..100).take_while(|_| budget.spend([0; 100].into_iter(), 3, 1).is_ok());
        assert_eq!(steps.count(), 20);
    }
}
