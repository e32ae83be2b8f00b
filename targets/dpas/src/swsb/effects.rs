//! What instructions read and write, and which may form a macro.

#![deny(clippy::wildcard_enum_match_arm)]

use crate::arch::DpasArch;
use crate::isa::listing;
use crate::isa::native::Native;
use crate::program::Statement;
use crate::shape::RowStride;
use crate::simulate::lower::native_operation;
use std::ops::Range;

/// Who executes an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The systolic array.
    Systolic,
    /// A pipe, by its index in [`PIPES`](crate::isa::operands::PIPES).
    Pipe(u8),
    /// Nobody: it only waits.
    Wait,
    /// All sources of all tokens are read afterwards.
    AllRead,
    /// All results of all tokens are written afterwards.
    AllWrite,
    /// Not known.
    Unknown,
}

/// Bytes of the register file that an instruction reads and writes, and who executes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effects {
    /// Who executes it.
    pub unit: Unit,
    /// Bytes that are read.
    pub reads: Vec<Range<usize>>,
    /// Bytes that are written.
    pub writes: Vec<Range<usize>>,
}

impl Effects {
    fn of(unit: Unit) -> Effects {
        Effects { unit, reads: Vec::new(), writes: Vec::new() }
    }
}

/// True if two lists of ranges share a byte.
pub(super) fn overlap(a: &[Range<usize>], b: &[Range<usize>]) -> bool {
    a.iter().any(|a| b.iter().any(|b| a.start < b.end && b.start < a.end))
}

/// The effects of an instruction. A systolic one whose precisions cannot be multiplied is unknown.
pub fn effects(statement: &Statement, arch: &DpasArch, stride: RowStride) -> Effects {
    match statement {
        Statement::Raw(_) => Effects::of(Unit::Unknown),
        Statement::Listing(inst) => listing_effects(inst, arch),
        Statement::Systolic(inst) => match native_operation(&inst.native(), arch, stride) {
            Ok(operation) => {
                let mut list = crate::verify::operand_bytes(&operation);
                let dst = list.remove(0);
                Effects { unit: Unit::Systolic, reads: list, writes: vec![dst] }
            }
            Err(_) => Effects::of(Unit::Unknown),
        },
    }
}

fn listing_effects(inst: &listing::Inst, arch: &DpasArch) -> Effects {
    let grf = arch.platform.grf_bytes();
    match *inst {
        listing::Inst::Mov { lanes, dst, dst_sub, dst_type, src, src_sub, src_type, .. } => {
            let range = |register: u8, sub: u8, bytes: u32| {
                let start = u32::from(register) * grf + u32::from(sub) * bytes;
                start as usize..(start + (1 << lanes as u32) * bytes) as usize
            };
            Effects {
                unit: Unit::Pipe(dst_type.pipe()),
                reads: vec![range(src.0, src_sub, src_type.bytes())],
                writes: vec![range(dst.0, dst_sub, dst_type.bytes())],
            }
        }
        listing::Inst::SyncNop { .. } => Effects::of(Unit::Wait),
        listing::Inst::SyncAllRead { .. } => Effects::of(Unit::AllRead),
        listing::Inst::SyncAllWrite { .. } => Effects::of(Unit::AllWrite),
    }
}

/// Why `next` cannot follow the earlier instructions of a macro (`igc` in `docs/bibliography.md`);
/// `None` if it can.
pub fn macro_fault(
    earlier: &[(&Native, &Effects)],
    next: (&Native, &Effects),
) -> Option<&'static str> {
    let (inst, own) = next;
    if inst.depth != 8 {
        return Some("the depth is not 8");
    }
    let dst_in_source = |inst: &Native, effects: &Effects| {
        // src0 is the first source, if there is one; it may be dst itself.
        let sources = usize::from(inst.src0.is_some());
        let same = inst.src0.is_none() || effects.reads.first() == effects.writes.first();
        let disjoint = |reads: &[Range<usize>]| !overlap(&effects.writes, reads);
        !disjoint(&effects.reads[sources..]) || !(same || disjoint(&effects.reads[..sources]))
    };
    if dst_in_source(inst, own) {
        return Some("dst shares bytes with a source");
    }
    for (other, effects) in earlier {
        let types = |i: &Native| (i.dst_type, i.src0_type, i.src1_type, i.src2_type);
        let control = |i: &Native| (i.fused, i.no_mask, i.offset, i.depth, i.lanes);
        if control(inst) != control(other) {
            return Some("opcode, mask or depth differ");
        }
        if types(inst) != types(other) {
            return Some("the types differ");
        }
        if overlap(&effects.writes, &own.reads) {
            return Some("it reads what the macro writes");
        }
    }
    None
}
