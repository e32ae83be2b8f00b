//! Upstream's latency and energy of single instructions.

#![deny(clippy::wildcard_enum_match_arm)]

use super::sequencer::sequence;
use crate::arch::TcuArch;
use crate::isa::Inst;
use crate::program::{Action, Memory, Program, Transfer};

/// Bits that DRAM transfers at a time in the model of early 2022.
pub(super) const TRANSFER_BITS: u64 = 128;
/// Cycles before the first transfer of a read in the model of early 2022.
pub(super) const READ_LATENCY: u64 = 32;

/// Latency in cycles, and energy in upstream's units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Cycles.
    pub cycles: u64,
    /// Units.
    pub energy: u64,
}

impl Cost {
    /// Everything together.
    pub fn sum<'a>(costs: impl IntoIterator<Item = &'a Cost>) -> Cost {
        costs.into_iter().fold(Cost::default(), |sum, cost| Cost {
            cycles: sum.cycles + cost.cycles,
            energy: sum.energy + cost.energy,
        })
    }
}

/// What upstream's compiler says about a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// The sum over all instructions ("aggregate").
    pub aggregate: Cost,
    /// The figure of execution, which leaves out what is in the queues at the end.
    pub reported: Cost,
}

/// Both figures of a program.
pub fn estimate(program: &Program, early_2022: bool) -> Estimate {
    let costs = costs(program, early_2022);
    Estimate { aggregate: Cost::sum(&costs), reported: sequence(program, &costs).reported }
}

/// The cost of every instruction.
pub fn costs(program: &Program, early_2022: bool) -> Vec<Cost> {
    let mut previous = None;
    let cost_of = |step: &crate::program::Step| {
        let cost = cost(&step.inst, previous.as_ref(), &program.arch, early_2022);
        previous = Some(step.inst);
        cost
    };
    program.steps.iter().map(cost_of).collect()
}

fn cost(inst: &Inst, previous: Option<&Inst>, arch: &TcuArch, early_2022: bool) -> Cost {
    let n = u64::from(arch.array_size);
    let count = inst.count();
    let (cycles, energy) = match inst.action() {
        Action::Wait => (1, 0),
        Action::Configure { .. } => (0, 0),
        Action::Product { .. } => {
            let start = match previous.map(Inst::action) {
                Some(Action::Product { .. }) => 0,
                Some(Action::Push { .. }) => n,
                Some(Action::Wait | Action::Move(_) | Action::Simd { .. }) => 2 * n,
                Some(Action::Table { .. } | Action::Configure { .. }) | None => 2 * n,
            };
            (count + start, count * n * n)
        }
        Action::Move(moved) => return transfer(inst, &moved, previous, arch, early_2022),
        Action::Push { .. } => (count, 10 * count),
        Action::Simd { .. } => (1, n),
        Action::Table { .. } => {
            // As loading weights (ours).
            let entries = u64::from(arch.lookup_table_depth.unwrap_or(1));
            (entries, 10 * entries)
        }
    };
    Cost { cycles, energy }
}

fn transfer(
    inst: &Inst,
    transfer: &Transfer,
    previous: Option<&Inst>,
    arch: &TcuArch,
    early_2022: bool,
) -> Cost {
    let count = transfer.local.count;
    if transfer.other.memory == Memory::Acc {
        return Cost { cycles: count, energy: 10 * count };
    }
    if !early_2022 {
        return Cost { cycles: count, energy: 100 * count };
    }
    let transfers = count * transfers_per_vector(arch);
    let goes_on = previous.is_some_and(|previous| previous.row() == inst.row());
    let cycles = match transfer.to_local {
        true => 2 * transfers + if goes_on { 0 } else { READ_LATENCY },
        false => transfers,
    };
    Cost { cycles, energy: 100 * transfers }
}

/// DRAM transfers of a vector.
pub(crate) fn transfers_per_vector(arch: &TcuArch) -> u64 {
    (8 * arch.vector_bytes() as u64).div_ceil(TRANSFER_BITS)
}
