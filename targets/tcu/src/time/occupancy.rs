//! How many vectors of local memory and how many accumulators hold what is still needed.

#![deny(clippy::wildcard_enum_match_arm)]

use crate::program::{Memory, Program, Span};

/// Most vectors that are looked at; programs of more are not counted.
const MOST: u64 = 1 << 31;

/// Vectors in use while an instruction runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InUse {
    /// Of local memory.
    pub(crate) local: u64,
    /// Accumulators.
    pub(crate) acc: u64,
}

/// Which vectors of a memory are needed by what comes later.
struct Needed {
    marks: Vec<bool>,
    count: u64,
}

impl Needed {
    fn set(&mut self, span: &Span, needed: bool) {
        for index in 0..span.count {
            // Behind the end of the memory there is no vector; the rules say so.
            let Ok(at) = usize::try_from(span.at(index)) else { break };
            let Some(mark) = self.marks.get_mut(at) else { break };
            match (std::mem::replace(mark, needed), needed) {
                (false, true) => self.count += 1,
                (true, false) => self.count -= 1,
                _ => {}
            }
        }
    }
}

/// Vectors in use by every instruction, from the last one back: a vector is in use from the
/// instruction that writes it to the last one that reads what was written. `None` for programs that
/// touch too many.
pub(crate) fn occupancy(program: &Program) -> Option<Vec<InUse>> {
    let arch = &program.arch;
    let new = |depth: u64| Needed { marks: vec![false; depth as usize], count: 0 };
    let (mut local, mut acc) = (new(arch.local_depth), new(arch.accumulator_depth));
    let mut all = vec![InUse::default(); program.steps.len()];
    let mut touched = 0_u64;
    for (step, in_use) in program.steps.iter().zip(&mut all).rev() {
        let effects = step.inst.effects(arch);
        touched = effects.spans().fold(touched, |sum, span| sum.saturating_add(span.count));
        if touched > MOST {
            return None;
        }
        let after = InUse { local: local.count, acc: acc.count };
        let mut mark = |span: &Span, needed: bool| match span.memory {
            Memory::Local => local.set(span, needed),
            Memory::Acc => acc.set(span, needed),
            Memory::Dram0 | Memory::Dram1 => {}
        };
        effects.writes.iter().for_each(|span| mark(span, false));
        effects.reads.iter().for_each(|span| mark(span, true));
        *in_use = InUse { local: after.local.max(local.count), acc: after.acc.max(acc.count) };
    }
    Some(all)
}
