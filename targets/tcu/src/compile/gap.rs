//! Keeps instructions between a SIMD write and the next move out of the accumulators.

use crate::isa::Inst;
use crate::program::Step;

/// Puts so many instructions that do nothing where fewer are in between, and returns for every
/// instruction, and the end, its new place.
pub(crate) fn keep_gap(steps: &mut Vec<Step>, gap: u64) -> Vec<u32> {
    let mut places = Vec::with_capacity(steps.len() + 1);
    let mut kept: Vec<Step> = Vec::with_capacity(steps.len());
    let mut last_write: Option<usize> = None;
    for &step in steps.iter() {
        if let (Inst::AccToLocal { .. }, Some(last)) = (step.inst, last_write) {
            let between = (kept.len() - last - 1) as u64;
            let wait = Step { tid: step.tid, inst: Inst::NoOp { thread: step.tid } };
            kept.extend((between..gap).map(|_| wait));
        }
        places.push(kept.len() as u32);
        if matches!(step.inst, Inst::Simd { access, .. } if access.writes()) {
            last_write = Some(kept.len());
        }
        kept.push(step);
    }
    places.push(kept.len() as u32);
    *steps = kept;
    places
}
