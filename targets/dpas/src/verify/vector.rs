//! Rules of vector instructions.

use crate::arch::{DpasArch, Platform};
use crate::isa::vector::{Input, Message, Op, Place, Receiver, Register, Terms, Type};
use crate::simulate::message::Request;
use crate::swsb::vector_effects;
use quincunx_diag::Diagnostic;

type Found = Vec<Diagnostic>;

fn reject(found: &mut Found, code: &'static str, message: String, help: &str) {
    found.push(Diagnostic::invalid(code, message).help(help.to_owned()));
}

/// Everything illegal in an instruction.
pub(super) fn verify(terms: &Terms, arch: &DpasArch) -> Found {
    let mut found = Vec::new();
    lanes(terms, &mut found);
    types(terms, arch.platform, &mut found);
    regions(terms, arch, &mut found);
    modifiers(terms, &mut found);
    if let Some(message) = &terms.message {
        messages(terms, message, arch, &mut found);
    }
    registers(terms, arch, &mut found);
    found
}

fn lanes(terms: &Terms, found: &mut Found) {
    let (lanes, offset) = (terms.size.lanes(), terms.size.offset());
    if lanes.saturating_add(offset) > 32 {
        let message = format!("{lanes} lanes from bit {offset} leave the mask");
        reject(found, "Q6063", message, "the dispatch mask has 32 bits");
    }
}

/// Types that an operation has, and what a platform leaves out.
fn types(terms: &Terms, platform: Platform, found: &mut Found) {
    let sources = || terms.sources.iter().flatten().map(|source| source.ty());
    let dst = terms.dst.map(|dst| dst.ty);
    let all = || sources().chain(dst);
    let name = format!("{:?}", terms.op).to_lowercase();
    let wrong = |ty: Type| match terms.op {
        Op::Frc | Op::Rndu | Op::Rndd | Op::Rnde | Op::Rndz => {
            !matches!(ty, Type::F | Type::Hf | Type::Df)
        }
        Op::Math => !matches!(ty, Type::F | Type::Hf),
        Op::Not | Op::And | Op::Or | Op::Xor | Op::Shl | Op::Shr | Op::Asr | Op::Bfn | Op::Add3 => {
            ty.is_float()
        }
        Op::Mach | Op::Macl => !matches!(ty, Type::D | Type::Ud),
        Op::Dp4a => !matches!(ty, Type::D | Type::Ud),
        _ => false,
    };
    if let Some(ty) = all().find(|ty| wrong(*ty)) {
        let message = format!("{name} has no operands of type {}", ty.name());
        reject(found, "Q6141", message, "convert with mov first");
    }
    let unsupported = |ty: Type| match ty {
        Type::Bf8 | Type::Hf8 => terms.op != Op::Mov || platform < Platform::Xe3,
        Type::Tf32 => terms.op != Op::Mov || !platform.is_second(),
        Type::B | Type::Ub => terms.op != Op::Mov && platform.is_second(),
        Type::Bf => {
            !matches!(terms.op, Op::Mov | Op::Add | Op::Mul | Op::Mad | Op::Cmp | Op::Sel | Op::Mac)
        }
        _ => false,
    };
    if let Some(ty) = all().find(|ty| unsupported(*ty)) {
        let message =
            format!("{name} on {} has no operands of type {}", platform.name(), ty.name());
        reject(found, "Q6142", message, "only mov has operands of this type here");
    }
    let floats = sources().filter(|ty| ty.is_float()).count();
    if terms.op != Op::Mov && floats != 0 && floats != sources().count() {
        // The peer's own listings add small integers to floats: legal, with a conversion.
        found.push(
            Diagnostic::warning("Q6143", format!("{name} mixes floats and integers"))
                .help("integers become floats first"),
        );
    }
    if terms.op != Op::Mov && dst.is_some_and(|ty| ty.is_float() != (floats > 0)) {
        let message = format!("{name} gives a type of the other kind");
        reject(found, "Q6144", message, "convert with mov");
    }
}

/// Strides and widths that fit the lanes, and bytes of converting moves.
fn regions(terms: &Terms, arch: &DpasArch, found: &mut Found) {
    let lanes = terms.size.lanes();
    for (index, source) in terms.sources.iter().enumerate() {
        let Some(Input::Register { region, .. }) = source else { continue };
        let plain = region.vertical == 0 && region.horizontal == 0;
        if region.width > lanes && !plain {
            let width = region.width;
            let message =
                format!("source {index} has rows of {width} elements, more than {lanes} lanes");
            reject(found, "Q6145", message, "the width is at most the number of lanes");
        }
    }
    let Some(dst) = terms.dst else { return };
    let narrow = matches!(dst.ty, Type::B | Type::Ub);
    let converts = terms.sources.iter().flatten().any(|source| source.ty().bytes() > 1);
    if terms.op == Op::Mov && narrow && converts && lanes > 1 && dst.stride < 4 {
        let wide = terms.sources.iter().flatten().any(|source| source.ty().bytes() > 2);
        if wide {
            let message = "a converting mov to bytes has stride 4".to_owned();
            reject(found, "Q6146", message, "pack the bytes with a second mov");
        }
    }
    let bytes = span_of(&dst, lanes);
    if matches!(dst.register, Register::Grf(_))
        && bytes > arch.platform.grf_bytes().saturating_mul(2)
    {
        let message = "dst crosses more than two registers".to_owned();
        reject(found, "Q6145", message, "use fewer lanes");
    }
}

/// Bytes from the start of the register to the end of the last element.
fn span_of(dst: &Place, lanes: u32) -> u32 {
    let last = lanes.saturating_sub(1).saturating_mul(dst.stride).saturating_add(1);
    dst.byte.saturating_add(last.saturating_mul(dst.ty.bytes()))
}

/// Conditions, saturation and modifiers.
fn modifiers(terms: &Terms, found: &mut Found) {
    let (condition, _) = terms.condition.parts();
    if matches!(terms.op, Op::Cmp | Op::Csel) && condition == 0 {
        let message = "the comparison has no condition".to_owned();
        reject(found, "Q6147", message, "write one, as in (lt)f0.0");
    }
    let chooses = terms.control.predicate().is_some();
    if terms.op == Op::Sel && chooses == (condition != 0) {
        let message = "sel has either a predicate or a condition".to_owned();
        reject(found, "Q6147", message, "a condition makes it the smaller or larger number");
    }
    let bare = matches!(
        terms.op,
        Op::Csel | Op::SyncNop | Op::SyncAllRead | Op::SyncAllWrite | Op::SyncBarrier
    );
    if bare && chooses {
        let message = "waits and csel take no predicate".to_owned();
        reject(found, "Q6025", message, "leave it out: the machine drops it");
    }
    let saturates = terms.dst.is_some_and(|dst| dst.saturate);
    let logic = matches!(
        terms.op,
        Op::Not | Op::And | Op::Or | Op::Xor | Op::Bfn | Op::Cmp | Op::Mach | Op::Macl | Op::Frc
    );
    if saturates && logic {
        let message = "this instruction does not saturate".to_owned();
        reject(found, "Q6148", message, "drop (sat)");
    }
}

/// Registers of the thread, and special registers that are not modelled.
fn registers(terms: &Terms, arch: &DpasArch, found: &mut Found) {
    let file = arch.file_bytes() as usize;
    let effects = vector_effects(terms, arch);
    let special = 1 << 20;
    let ends = effects.reads.iter().chain(&effects.writes).filter(|range| range.start < special);
    if let Some(range) = ends.into_iter().find(|range| range.end > file) {
        let message = format!("an operand ends at byte {} of {file} bytes", range.end);
        let help = format!("there are {} registers", arch.grfs);
        reject(found, "Q6058", message, &help);
    }
}

/// Messages that the machine has, with as many registers as they say.
fn messages(terms: &Terms, message: &Message, arch: &DpasArch, found: &mut Found) {
    if message.receiver == Receiver::Gateway {
        return;
    }
    let Some(descriptor) = message.descriptor else { return };
    let request = match Request::new(message, descriptor, terms.size.lanes(), arch.platform) {
        Ok(request) => request,
        Err(problem) => {
            found.push(problem);
            return;
        }
    };
    if let Err(problem) = request.check_counts(message, descriptor, arch.platform) {
        found.push(problem);
    }
}
