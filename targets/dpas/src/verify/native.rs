//! Rules of native listings.

use super::Allow;
use super::rules::{Facts, alignment, footprints, fused, overlap, types};
use crate::arch::{DpasArch, Platform};
use crate::isa::listing;
use crate::isa::native::Native;
use crate::program::{Listing, Statement};
use crate::simulate::lower::{byte_of, native_operation};
use quincunx_diag::Diagnostic;

pub(super) fn verify(listing: &Listing, arch: &DpasArch, allow: &Allow) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (index, item) in listing.items.iter().enumerate() {
        let problems = match &item.statement {
            Statement::Systolic(inst) => systolic(&inst.native(), arch, allow),
            Statement::Listing(inst) => copy(inst, arch),
            Statement::Raw(_) => Vec::new(),
        };
        found.extend(problems.into_iter().map(|problem| match item.span {
            Some(span) => problem.label(span, ""),
            None => problem.with_note(format!("instruction {index}")),
        }));
    }
    found
}

fn systolic(inst: &Native, arch: &DpasArch, allow: &Allow) -> Vec<Diagnostic> {
    let facts = Facts {
        platform: arch.platform,
        fused: inst.fused,
        weights: inst.src1_type,
        activations: inst.src2_type,
        dst: inst.dst_type,
        src0: inst.src0.map(|_| inst.src0_type),
        lanes: inst.lanes,
        offset: inst.offset,
        depth: inst.depth,
        native: true,
    };
    let mut found = types(&facts, allow);
    let operation = match native_operation(inst, arch, allow.stride) {
        Ok(operation) => operation,
        Err(problem) => {
            if !found.iter().any(Diagnostic::is_error) {
                found.push(problem);
            }
            return found;
        }
    };
    let mut starts = vec![("dst", inst.dst.1 as usize), ("src2", inst.src2.1 as usize)];
    starts.extend(inst.src0.map(|(_, byte)| ("src0", byte as usize)));
    found.extend(alignment(&operation.shape, arch, &starts));
    let eight_bits = inst.src1_type.bits() == 8 && inst.src2_type.bits() == 8;
    if arch.platform >= Platform::Xe2 && eight_bits && inst.repeat == 8 && inst.src2.1 != 0 {
        let message = format!("src2 of an 8x8 on {} has a sub-register", arch.platform.name());
        found.push(
            Diagnostic::invalid("Q6065", message).help("start at a register, or use 8x4 twice"),
        );
    }
    let file = arch.file_bytes() as usize;
    for (name, range) in footprints(&operation) {
        if range.end > file {
            let message = format!("{name} ends at byte {} of {file} bytes", range.end);
            found.push(
                Diagnostic::invalid("Q6058", message)
                    .help(format!("there are {} registers", arch.grfs)),
            );
        }
    }
    found.extend(overlap(&operation));
    found.extend(fused(&operation));
    found
}

fn copy(inst: &listing::Inst, arch: &DpasArch) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let &listing::Inst::Mov {
        lanes, offset, dst, dst_sub, dst_type, src, src_sub, src_type, ..
    } = inst
    else {
        return found;
    };
    if dst_type != src_type {
        let message = format!("mov converts {} to {}", src_type.name(), dst_type.name());
        found.push(Diagnostic::unsupported("Q6064", message).help("only copies are modelled"));
    }
    let lanes = 1u32 << lanes as u32;
    if lanes.saturating_add(offset.into()) > 32 {
        let message = format!("{lanes} lanes from bit {offset} leave the mask");
        found.push(Diagnostic::invalid("Q6063", message).help("the dispatch mask has 32 bits"));
    }
    for (name, register, sub) in [("dst", dst, dst_sub), ("src", src, src_sub)] {
        let bytes = dst_type.bytes();
        let start = byte_of(register.0, bytes.saturating_mul(sub.into()), arch);
        let end = start.saturating_add(bytes.saturating_mul(lanes));
        if end > arch.file_bytes() {
            let message = format!("{name} ends at byte {end} of {} bytes", arch.file_bytes());
            found.push(
                Diagnostic::invalid("Q6058", message)
                    .help(format!("there are {} registers", arch.grfs)),
            );
        }
    }
    found
}
