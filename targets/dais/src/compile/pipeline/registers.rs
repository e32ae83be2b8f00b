//! What registers cost.

use crate::program::{Pipeline, Program};

/// Bits of all registers of a legal pipeline that has one rank of them before the first stage and one
/// behind every stage: the widths of the first stage's inputs and of every stage's outputs, as the
/// ports of generated logic have them. What is always 0 needs no register.
pub fn register_bits(pipeline: &Pipeline) -> u64 {
    let inputs = pipeline.stages.first().map(Program::input_types).unwrap_or_default();
    let inputs: u64 = inputs.iter().map(|kif| u64::from(kif.width())).sum();
    inputs + pipeline.stages.iter().map(outgoing_bits).sum::<u64>()
}

/// Bits of the registers behind a stage.
pub(crate) fn outgoing_bits(stage: &Program) -> u64 {
    let outputs = stage.outputs.iter().zip(stage.output_types()).take(stage.ends().1);
    let stored = outputs.filter(|(output, _)| output.source.is_some());
    stored.map(|(_, kif)| u64::from(kif.width())).sum()
}
