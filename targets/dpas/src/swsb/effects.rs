//! What instructions read and write, and which may form a macro.

#![deny(clippy::wildcard_enum_match_arm)]

use crate::arch::{DpasArch, Platform};
use crate::isa::native::Native;
use crate::isa::vector::{Input, Message, Op, Place, Register, Terms, Type};
use crate::precision::Acc;
use crate::program::Statement;
use crate::shape::RowStride;
use crate::simulate::lower::native_operation;
use std::ops::Range;

/// Who executes an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The systolic array.
    Systolic,
    /// Who answers messages.
    Message,
    /// The unit of `math` on xehpg; from Xe-HPC on it is a pipe.
    Math,
    /// A pipe, by its index in [`PIPES`](crate::isa::operands::PIPES).
    Pipe(u8),
    /// Nobody: it only waits.
    Wait,
    /// The sources of tokens (a bit each) are read afterwards.
    AllRead(u32),
    /// The results of tokens (a bit each) are written afterwards.
    AllWrite(u32),
    /// Not known.
    Unknown,
}

impl Unit {
    /// True where instructions take tokens, since they finish in any order.
    pub fn takes_tokens(self) -> bool {
        matches!(self, Unit::Systolic | Unit::Message | Unit::Math)
    }
}

/// Bytes of the register file that an instruction reads and writes, and who executes it. Registers
/// that are no general ones lie behind the file.
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

/// True for bytes of accumulators.
pub(super) fn in_accumulators(range: &Range<usize>) -> bool {
    let first = SPECIAL + 0x20 * SPECIAL_BYTES;
    (first..first + 0x10 * SPECIAL_BYTES).contains(&range.start)
}

/// True if two lists of ranges share a byte.
pub(super) fn overlap(a: &[Range<usize>], b: &[Range<usize>]) -> bool {
    a.iter().any(|a| b.iter().any(|b| a.start < b.end && b.start < a.end))
}

/// The effects of an instruction. A systolic one whose precisions cannot be multiplied, and a
/// message whose length stands in a register, are unknown.
pub fn effects(statement: &Statement, arch: &DpasArch, stride: RowStride) -> Effects {
    match statement {
        Statement::Raw(_) => Effects::of(Unit::Unknown),
        Statement::Vector(inst) => vector_effects(&inst.terms(), arch),
        Statement::Systolic(inst) => match native_operation(&inst.native(), arch, stride) {
            Ok(operation) => {
                let mut list = operation.operand_bytes();
                let dst = list.remove(0);
                Effects { unit: Unit::Systolic, reads: list, writes: vec![dst] }
            }
            Err(_) => Effects::of(Unit::Unknown),
        },
    }
}

/// Pipes by their index in [`PIPES`](crate::isa::operands::PIPES).
const FLOAT: u8 = 2;
const INTEGER: u8 = 3;
const LONG: u8 = 4;
const MATH: u8 = 5;

/// Who executes a vector instruction.
pub fn unit(terms: &Terms, platform: Platform) -> Unit {
    let tokens = if terms.tokens == 0 { u32::MAX } else { terms.tokens };
    match terms.op {
        Op::SyncNop | Op::SyncBarrier | Op::Nop => Unit::Wait,
        Op::SyncAllRead => Unit::AllRead(tokens),
        Op::SyncAllWrite => Unit::AllWrite(tokens),
        Op::Send => Unit::Message,
        Op::Math if platform == Platform::XeHpg => Unit::Math,
        Op::Math => Unit::Pipe(MATH),
        Op::Jmpi | Op::If | Op::Else | Op::Endif | Op::While | Op::Goto | Op::Join => {
            Unit::Pipe(INTEGER)
        }
        Op::Mov
        | Op::Not
        | Op::Frc
        | Op::Rndu
        | Op::Rndd
        | Op::Rnde
        | Op::Rndz
        | Op::Add
        | Op::Mul
        | Op::Mac
        | Op::Mach
        | Op::Macl
        | Op::And
        | Op::Or
        | Op::Xor
        | Op::Shr
        | Op::Shl
        | Op::Asr
        | Op::Cmp
        | Op::Sel
        | Op::Add3
        | Op::Mad
        | Op::Dp4a
        | Op::Bfn
        | Op::Csel => Unit::Pipe(arithmetic_pipe(terms, platform)),
    }
}

/// By the type of dst, or of the first source where dst is null. On xehpg all that has 64 bits is in the long
/// pipe, from Xe-HPC on only df: 64-bit integers are among the others (`iga`, and compilers' listings).
fn arithmetic_pipe(terms: &Terms, platform: Platform) -> u8 {
    let sources = || terms.sources.iter().flatten().map(|source| source.ty());
    let dst = terms.dst.filter(|dst| dst.register != Register::Null).map(|dst| dst.ty);
    let Some(ty) = dst.or_else(|| sources().next()) else { return INTEGER };
    let is_long = match platform.is_second() {
        true => ty == Type::Df,
        false => ty.is_wide() || sources().any(Type::is_wide),
    };
    if is_long {
        LONG
    } else if ty.is_float() {
        FLOAT
    } else {
        INTEGER
    }
}

/// Where registers that are no general ones begin.
pub(crate) const SPECIAL: usize = 1 << 20;
/// Bytes for each of them.
pub(crate) const SPECIAL_BYTES: usize = 128;

/// The first byte of a register; nothing for null.
fn base(register: Register, grf: usize) -> Option<usize> {
    let special = |number: usize| Some(SPECIAL + number * SPECIAL_BYTES);
    match register {
        Register::Grf(number) => Some(usize::from(number) * grf),
        Register::Null => None,
        Register::Address => special(0x10),
        Register::Acc(number) => special(0x20 + usize::from(number)),
        Register::Flag(number) => special(0x30 + usize::from(number)),
        Register::Other(number) => special(usize::from(number)),
    }
}

/// The bytes of a flag, whole: lanes use any of its bits.
fn flag_bytes(flag: u8) -> Range<usize> {
    let start = SPECIAL + (0x30 + usize::from(flag >> 1)) * SPECIAL_BYTES;
    start..start + 4
}

/// The bytes from the first to the last that lanes use.
fn hull(
    start: usize,
    size: usize,
    elements: impl Iterator<Item = u32> + Clone,
) -> Option<Range<usize>> {
    let (first, last) = (elements.clone().min()?, elements.max()?);
    Some(start + first as usize * size..start + (last as usize + 1) * size)
}

fn written(place: &Place, lanes: u32, grf: usize) -> Option<Range<usize>> {
    let start = base(place.register, grf)? + place.byte as usize;
    hull(start, place.ty.bytes() as usize, (0..lanes).map(|lane| lane * place.stride))
}

fn read(input: &Input, lanes: u32, grf: usize) -> Option<Range<usize>> {
    let Input::Register { register, byte, ty, region, .. } = *input else { return None };
    let start = base(register, grf)? + byte as usize;
    hull(start, ty.bytes() as usize, (0..lanes).map(|lane| region.element(lane)))
}

/// What a vector instruction reads and writes.
pub fn vector_effects(terms: &Terms, arch: &DpasArch) -> Effects {
    let grf = arch.platform.grf_bytes() as usize;
    let mut effects = Effects::of(unit(terms, arch.platform));
    if let Some(message) = &terms.message
        && !message_effects(message, grf, &mut effects)
    {
        return Effects::of(Unit::Unknown);
    }
    let lanes = terms.size.lanes();
    effects.reads.extend(terms.sources.iter().flatten().filter_map(|s| read(s, lanes, grf)));
    effects.writes.extend(terms.dst.iter().filter_map(|dst| written(dst, lanes, grf)));
    if let Some((flag, _)) = terms.control.predicate() {
        effects.reads.push(flag_bytes(flag));
    }
    // Conditions of sel and csel only choose.
    if let (1.., flag) = terms.condition.parts()
        && !matches!(terms.op, Op::Sel | Op::Csel)
    {
        effects.writes.push(flag_bytes(flag));
    }
    let accumulator = base(Register::Acc(0), grf).map(|start| start..start + 2 * SPECIAL_BYTES);
    if matches!(terms.op, Op::Mac | Op::Mach | Op::Macl) {
        effects.reads.extend(accumulator.clone());
    }
    if terms.writes_accumulator() {
        effects.writes.extend(accumulator);
    }
    effects
}

/// False where the descriptor stands in a register.
fn message_effects(message: &Message, grf: usize, effects: &mut Effects) -> bool {
    let Some(descriptor) = message.descriptor else { return false };
    let registers = |first: Option<u8>, count: u32| {
        let start = usize::from(first?) * grf;
        Some(start..start + count as usize * grf)
    };
    effects.reads.extend(registers(message.src0, descriptor >> 25 & 15));
    effects.reads.extend(registers(message.src1.0, message.src1.1.into()));
    effects.writes.extend(registers(message.dst, message.answer_registers(descriptor)));
    if let Some(sub) = message.extended
        && let Some(start) = base(Register::Address, grf)
    {
        let start = start + 4 * usize::from(sub);
        effects.reads.push(start..start + 4);
    }
    true
}

/// True if sums go from one instruction to a later one of its macro, which says so: both have eight rows
/// and add to the same sums of 32 bits or bf, and the later one reads nothing else that is written.
fn forwards(from: &Native, effects: &Effects, (to, own): (&Native, &Effects)) -> bool {
    let rows = [from, to].iter().all(|inst| (inst.depth, inst.repeat) == (8, 8));
    let kinds = matches!(to.dst_type, Acc::D | Acc::Ud | Acc::F | Acc::Bf);
    let same = to.src0 == Some(to.dst) && to.dst == from.dst && to.dst_type == from.dst_type;
    let apart = !overlap(&effects.writes, own.reads.get(1..).unwrap_or(&[]));
    from.options.is_forwarded() && rows && kinds && same && apart
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
        let control =
            |i: &Native| (i.fused, i.scales.is_some(), i.no_mask, i.offset, i.depth, i.lanes);
        if control(inst) != control(other) {
            return Some("opcode, mask or depth differ");
        }
        if types(inst) != types(other) {
            return Some("the types differ");
        }
        if overlap(&effects.writes, &own.reads) && !forwards(other, effects, (inst, own)) {
            return Some("it reads what the macro writes");
        }
    }
    None
}
