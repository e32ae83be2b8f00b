//! Rules of native listings.

use super::Allow;
use super::rules::{Facts, alignment, fused, overlap, types};
use super::vector;
use crate::arch::{DpasArch, Platform};
use crate::isa::native::Native;
use crate::precision::Precision;
use crate::program::{Listing, Statement};
use crate::simulate::lower::native_operation;
use quincunx_diag::Diagnostic;

pub(super) fn verify(listing: &Listing, arch: &DpasArch, allow: &Allow) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (index, item) in listing.items.iter().enumerate() {
        let problems = match &item.statement {
            Statement::Systolic(inst) => systolic(&inst.native(), arch, allow),
            Statement::Vector(inst) => vector::verify(&inst.terms(), arch),
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
        scaled: inst.scales.is_some(),
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
    found.extend(scales(inst));
    let mut starts = vec![("dst", inst.dst.1 as usize), ("src2", inst.src2.1 as usize)];
    starts.extend(inst.src0.map(|(_, byte)| ("src0", byte as usize)));
    found.extend(alignment(&operation.shape, arch, &starts));
    if arch.platform >= Platform::Xe2 && inst.depth == 8 && inst.repeat == 8 && inst.src2.1 != 0 {
        let message = format!("src2 of an 8x8 on {} has a sub-register", arch.platform.name());
        found.push(
            Diagnostic::invalid("Q6065", message).help("start at a register, or use 8x4 twice"),
        );
    }
    let file = arch.file_bytes() as usize;
    for (name, range) in operation.footprints() {
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

/// Where the scales of `bdpas` may begin: all groups of 32 elements lie in one register.
fn scales(inst: &Native) -> Vec<Diagnostic> {
    let last = if inst.src1_type == Precision::E2m1 { [16, 24] } else { [48, 56] };
    let starts = inst.scales.unwrap_or_default().into_iter().zip(last).zip(["src3", "src4"]);
    let wrong = starts.filter_map(|((start, last), name)| {
        let (_, byte) = start.filter(|(_, byte)| *byte > last)?;
        let message = format!("{name} starts at byte {byte}, and its last place is {last}");
        Some(Diagnostic::invalid("Q6068", message).help("start further below, or in a register"))
    });
    wrong.collect()
}
