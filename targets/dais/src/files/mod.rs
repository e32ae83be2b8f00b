//! Native files of da4ml, and of alkaid: programs and pipelines as JSON (dialects D1 and
//! A4), perhaps compressed; and our own for large programs. Facts: `da4ml`, `alkaid` (`docs/bibliography.md`).

mod alir;
mod fsm;
mod gzip;
mod json;
#[deny(clippy::arithmetic_side_effects)]
pub mod packed;
mod read;
mod write;

pub use gzip::{compress, decompress};
pub(crate) use read::recognises;
pub use read::{ReadJson, read_json};
pub use write::{write_alir_json, write_alir_pipeline_json, write_json, write_pipeline_json};

use crate::isa::Inst;
pub use crate::program::Pipeline;
use crate::program::{SlotType, lookup_offset};
use quincunx_num::Int;

/// True for compressed files.
pub(crate) fn is_compressed(bytes: &[u8]) -> bool {
    bytes.starts_with(&gzip::MAGIC)
}

/// The pad of a lookup whose table begins at the lowest value of its operand, which is what JSON
/// files mean. `None` if it does not fit a word.
fn natural_pad(operand: SlotType) -> Option<i32> {
    let Some(interval) = operand.interval() else { return Some(0) };
    let entry: Int = interval.low() + lookup_offset(operand.kif(), 0);
    i32::try_from(&entry).ok()
}

/// The number of fraction bits that a step stands for.
fn fraction_of_step(step: f64) -> Option<i32> {
    quincunx_num::Dyadic::from_f64(step)?.log2().map(i32::saturating_neg)
}

/// True for the two instructions whose data Python writes without a sign.
fn has_unsigned_data(inst: Inst) -> bool {
    matches!(inst, Inst::Mux { .. } | Inst::MuxNegated { .. })
}
