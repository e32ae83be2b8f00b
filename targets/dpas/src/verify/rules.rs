//! The rules that native and virtual instructions share.

use super::Allow;
use crate::arch::{DpasArch, Platform};
use crate::precision::{Acc, Precision};
use crate::shape::Shape;
use crate::simulate::Operation;
use quincunx_diag::Diagnostic;

/// What is checked of an instruction, whatever it was written in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) platform: Platform,
    pub(super) fused: bool,
    pub(super) weights: Precision,
    pub(super) activations: Precision,
    pub(super) dst: Acc,
    /// `None` for null, whose type says nothing.
    pub(super) src0: Option<Acc>,
    pub(super) lanes: u32,
    pub(super) offset: u32,
    pub(super) depth: u32,
    /// Native instructions may have 8-bit floats where these have an encoding.
    pub(super) native: bool,
    /// `bdpas`.
    pub(super) scaled: bool,
}

type Found = Vec<Diagnostic>;

fn reject(found: &mut Found, code: &'static str, message: String, help: impl Into<String>) {
    found.push(Diagnostic::invalid(code, message).help(help));
}

/// Platform, types, sizes.
pub(super) fn types(facts: &Facts, allow: &Allow) -> Found {
    let mut found = Vec::new();
    platform(facts, &mut found);
    options(facts, allow, &mut found);
    if precisions(facts, &mut found) {
        accumulators(facts, &mut found);
    }
    sizes(facts, &mut found);
    found
}

fn platform(facts: &Facts, found: &mut Found) {
    let Facts { platform, weights, activations, .. } = *facts;
    let name = platform.name();
    if facts.fused && platform.is_second() {
        let message = format!("{name} has no dpasw");
        reject(found, "Q6049", message, "dpasw exists on xehpg; use dpas");
    }
    let has = |wanted: fn(Precision) -> bool| wanted(weights) || wanted(activations);
    if has(|p| p == Precision::Tf32) && !platform.is_second() {
        let message = format!("{name} has no tf32");
        reject(found, "Q6062", message, "tf32 exists from xehpc on; here are bf and hf");
    }
    if platform.has_small_floats() {
        return;
    }
    if has(|p| p == Precision::E2m1) {
        let message = format!("{name} has no e2m1");
        reject(found, "Q6046", message, "xe3p has it; here are u4 and s4");
    }
    if has(Precision::is_fp8) {
        let hf8 = has(|p| p == Precision::Hf8);
        let encodable = if hf8 { Platform::Xe3 } else { Platform::XeHpc };
        if facts.native && platform >= encodable {
            let message = format!("8-bit floats can be encoded on {name}, but are not documented");
            found.push(Diagnostic::warning("Q6046", message).help("use bf or hf"));
        } else {
            let message = format!("{name} has no 8-bit floats");
            reject(found, "Q6046", message, "xe3p has them; here are bf and hf");
        }
    }
}

/// What is only legal behind an option.
fn options(facts: &Facts, allow: &Allow, found: &mut Found) {
    let Facts { weights, activations, dst, src0, .. } = *facts;
    if (weights.is_one_bit() || activations.is_one_bit()) && !allow.one_bit {
        let message = "no platform accepts precisions of one bit".to_owned();
        reject(found, "Q6047", message, "--one-bit allows them; u2 and s2 are legal");
    }
    let double =
        [weights, activations].contains(&Precision::Df) || dst == Acc::Df || src0 == Some(Acc::Df);
    if double && !allow.df {
        let message = "df is documented in words and exists on no platform".to_owned();
        reject(found, "Q6048", message, "--df allows it, with a layout that is ours");
    }
}

/// Whether the precisions go together.
fn precisions(facts: &Facts, found: &mut Found) -> bool {
    let (w, a) = (facts.weights, facts.activations);
    let alternatives = alternatives(facts.platform);
    if w.is_integer() != a.is_integer() {
        let message = format!("{} and {} mix integers and floats", w.name(), a.name());
        reject(found, "Q6041", message, alternatives);
        return false;
    }
    let narrow = w.is_integer() && (w.bits() != a.bits() || w.bits() == 2);
    if narrow && facts.platform.has_small_floats() {
        let message =
            format!("{} has no products of {} and {}", facts.platform.name(), w.name(), a.name());
        reject(found, "Q6042", message, alternatives);
        return false;
    }
    if facts.scaled && (w.is_integer() || matches!(w, Precision::Tf32 | Precision::Df)) {
        let message = format!("bdpas has no {}", w.name());
        reject(found, "Q6042", message, "it has bf, hf, bf8, hf8 and e2m1");
        return false;
    }
    let fp8 = w.is_fp8() && a.is_fp8();
    if !w.is_integer() && w != a && !fp8 {
        let message = format!("float precisions differ: {} and {}", w.name(), a.name());
        reject(found, "Q6042", message, alternatives);
        return false;
    }
    true
}

/// The legal pairs of a platform, in words.
fn alternatives(platform: Platform) -> String {
    if platform.has_small_floats() {
        return "two of u4 and s4, or of u8 and s8, are legal, two of bf8 and hf8, and bf.bf, hf.hf, \
                tf32.tf32, e2m1.e2m1"
            .to_owned();
    }
    let floats = if platform.is_second() { "bf.bf, hf.hf, tf32.tf32" } else { "bf.bf, hf.hf" };
    format!("any two of u2, s2, u4, s4, u8 and s8 are legal, and {floats}")
}

/// The types of dst and src0 that are legal with a precision.
pub(super) fn legal_accumulators(platform: Platform, a: Precision) -> &'static [Acc] {
    match (a, platform.is_second()) {
        (a, _) if a.is_integer() => &[Acc::D, Acc::Ud],
        (Precision::Bf, true) => &[Acc::F, Acc::Bf],
        (Precision::Hf, true) => &[Acc::F, Acc::Hf],
        (Precision::Df, _) => &[Acc::Df],
        (Precision::Bf8 | Precision::Hf8 | Precision::E2m1, _) if platform.has_small_floats() => {
            &[Acc::F, Acc::Bf]
        }
        _ => &[Acc::F],
    }
}

fn accumulators(facts: &Facts, found: &mut Found) {
    let a = facts.activations;
    let legal = legal_accumulators(facts.platform, a);
    let code = match a {
        a if a.is_integer() => "Q6043",
        Precision::Tf32 => "Q6045",
        _ => "Q6044",
    };
    let names: Vec<&str> = legal.iter().map(|acc| acc.name()).collect();
    let pairs = [("dst", Some(facts.dst)), ("src0", facts.src0)];
    for (operand, acc) in pairs.into_iter().filter_map(|(name, acc)| Some((name, acc?))) {
        if !legal.contains(&acc) {
            let platform = facts.platform.name();
            let message = format!("{operand} is {}, with {} on {platform}", acc.name(), a.name());
            reject(found, code, message, format!("legal are {}", names.join(", ")));
        }
    }
}

/// Lanes, depth and mask.
fn sizes(facts: &Facts, found: &mut Found) {
    let lanes = match facts.dst {
        Acc::Df => facts.platform.lanes() / 2,
        _ => facts.platform.lanes(),
    };
    if facts.lanes != lanes {
        let message = format!("the execution size is {}, expected {lanes}", facts.lanes);
        reject(found, "Q6040", message, "it is 8 before xehpc and 16 from xehpc on; half with df");
    }
    if facts.offset.saturating_add(facts.lanes) > 32 {
        let message = format!("{} lanes from bit {} leave the mask", facts.lanes, facts.offset);
        reject(found, "Q6063", message, "the dispatch mask has 32 bits");
    }
    if facts.depth != 8 {
        let message = format!("hardware has depth 8 only, found {}", facts.depth);
        found.push(Diagnostic::warning("Q6061", message).help("write depth 8; xehpc refuses 1"));
    }
}

/// dst may be src0; it may share bytes with a source in no other way.
pub(super) fn overlap(operation: &Operation) -> Found {
    let mut found = Vec::new();
    let list = operation.footprints();
    let same_type = operation.shape.dst.bytes() == operation.shape.src0.bytes();
    let Some(((_, dst), sources)) = list.split_first() else { return found };
    for (name, source) in sources {
        let same = *name == "src0" && source == dst && same_type;
        if !same && source.start < dst.end && dst.start < source.end {
            let message = format!("dst shares bytes with {name}");
            let help = "dst may be exactly src0; otherwise copy the operand first";
            reject(&mut found, "Q6059", message, help);
        }
    }
    found
}

/// Alignment of the operands, by their first bytes within a register file or an aligned variable.
pub(super) fn alignment(shape: &Shape, arch: &DpasArch, starts: &[(&'static str, usize)]) -> Found {
    let mut found = Vec::new();
    for &(operand, start) in starts {
        let (code, unit) = match operand {
            "dst" => ("Q6054", shape.lanes.saturating_mul(shape.dst.bytes())),
            "src0" => ("Q6055", shape.lanes.saturating_mul(shape.src0.bytes())),
            "src1" => ("Q6056", arch.platform.grf_bytes()),
            _ => ("Q6057", shape.src2_alignment()),
        };
        if let Some(beyond @ 1..) = start.checked_rem(unit as usize) {
            let message = format!("{operand} starts at byte {start}, not a multiple of {unit}");
            let below = start.saturating_sub(beyond);
            let above = below.saturating_add(unit as usize);
            let help = format!("bytes {below} and {above} are legal");
            reject(&mut found, code, message, help);
        }
    }
    found
}

/// The part of src2 that a thread holds of `dpasw` must be smaller than the whole.
pub(super) fn fused(operation: &Operation) -> Found {
    let mut found = Vec::new();
    if operation.fused && operation.shape.src2_bytes() <= 32 {
        let bytes = operation.shape.src2_bytes();
        let message = format!("src2 of dpasw has {bytes} bytes, which two threads cannot share");
        reject(&mut found, "Q6050", message, "use dpas, or a larger repeat count");
    }
    found
}
