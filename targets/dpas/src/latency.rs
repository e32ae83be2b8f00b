//! How long instructions take, by the tables of the vendor's scheduler (`igc` in
//! `docs/bibliography.md`).

use crate::arch::{DpasArch, Platform};
use crate::isa::vector::Terms;
use crate::shape::Shape;
use crate::simulate::Operation;

/// Latency of vector instructions until their result can be used.
pub(crate) const VECTOR_LATENCY: u64 = 10;
/// Of `math`.
pub(crate) const MATH_LATENCY: u64 = 17;
/// Lanes of `math` in a cycle: 8 more lanes take 4 more cycles (`igc`).
const MATH_LANES: u64 = 2;
/// Index of the pipe of `math` in `PIPES`.
pub(crate) const MATH_PIPE: u8 = 5;

/// Cycles from the start of a systolic instruction until its result can be used.
pub fn latency(platform: Platform, repeat: u32) -> u64 {
    match (platform, repeat) {
        (Platform::XeHpg, 1) => 21,
        (Platform::XeHpg, 2) => 22,
        (Platform::XeHpg, _) => 32,
        (Platform::XeHpc, repeat) => 20 + u64::from(repeat),
        (_, 1) => 22,
        (_, 2) => 23,
        _ => 33,
    }
}

/// Cycles from the start of a product until its result can be used (`igc`): 8-bit floats of eight rows
/// are faster on xe3p.
pub fn product_latency(platform: Platform, shape: &Shape) -> u64 {
    match (platform, shape.repeat, shape.weights.is_fp8()) {
        (Platform::Xe3p, 8, true) => 29,
        (platform, repeat, _) => latency(platform, repeat),
    }
}

/// Cycles that a systolic instruction occupies the array.
pub fn issue_cycles(arch: &DpasArch, operation: &Operation) -> u64 {
    u64::from(operation.shape.repeat * operation.shape.depth).div_ceil(u64::from(arch.depth))
}

/// Cycles that a vector instruction occupies its pipe, and until its result can be used.
pub(crate) fn vector_cycles(terms: &Terms, is_math: bool, arch: &DpasArch) -> (u64, u64) {
    let lanes = u64::from(terms.size.lanes());
    if is_math {
        let busy = lanes.div_ceil(MATH_LANES);
        return (busy, MATH_LATENCY + busy.saturating_sub(8 / MATH_LANES));
    }
    let inputs = terms.sources.iter().flatten().map(|source| source.ty().bytes());
    let widest = inputs.chain(terms.dst.map(|dst| dst.ty.bytes())).max().unwrap_or(4);
    let bytes = lanes * u64::from(widest.max(4));
    let busy = bytes.div_ceil(arch.platform.grf_bytes().into()).max(1);
    (busy, VECTOR_LATENCY + busy - 1)
}
