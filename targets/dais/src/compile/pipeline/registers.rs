//! What registers cost.

use crate::files::Pipeline;
use crate::isa::Inst;
use crate::program::{Output, Program};

/// Bits of all registers of a pipeline that has one rank of them before the first stage and one
/// behind every stage: the widths of the first stage's inputs and of every stage's outputs.
pub fn register_bits(pipeline: &Pipeline) -> u64 {
    let inputs = pipeline.stages.first().map_or(0, inputs);
    inputs + pipeline.stages.iter().map(outgoing_bits).sum::<u64>()
}

/// An input that is read as several types has the bits that any of them needs.
fn inputs(stage: &Program) -> u64 {
    let mut ports: Vec<Option<(bool, i32, i32)>> = vec![None; stage.input_shifts.len()];
    for operation in &stage.operations {
        let Inst::Input { source } = operation.inst else { continue };
        let kif = operation.slot_type.kif();
        if kif.width() == 0 {
            continue;
        }
        let port = &mut ports[source.0 as usize];
        let (signed, integer, fraction) = port.unwrap_or((kif.signed, kif.integer, kif.fraction));
        let all = (signed | kif.signed, integer.max(kif.integer), fraction.max(kif.fraction));
        *port = Some(all);
    }
    let bits = |(signed, integer, fraction): (bool, i32, i32)| {
        (i64::from(signed) + i64::from(integer) + i64::from(fraction)).max(0).unsigned_abs()
    };
    ports.into_iter().flatten().map(bits).sum()
}

/// Bits of the registers behind a stage.
pub(crate) fn outgoing_bits(stage: &Program) -> u64 {
    let width = |output: &Output| {
        let operation = stage.operations.get(output.source?.0 as usize)?;
        Some(u64::from(operation.slot_type.kif().width()))
    };
    stage.outputs.iter().filter_map(width).sum()
}
