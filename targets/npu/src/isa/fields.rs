//! Widths and kinds of operands, and the places of fields that follow from them.
//!
//! Ours: byte 0 is the opcode, the rest a bit stream, lowest bit first: the
//! dependency masks of instructions that have them, then the fields in the order of the text.

use super::number::NUMBER;
use super::queue::QUEUES;
use quincunx_isa::{Custom, Kind, Operand, Term};

/// Bits of an operand; addresses have the widths of the architecture.
#[derive(Clone, Copy)]
pub(super) enum Width {
    Bits(u32),
    L2,
    Dram,
    Wl0,
}

/// Kind and width of an operand.
#[derive(Clone, Copy)]
pub(super) struct Spec {
    pub(super) kind: Kind,
    pub(super) width: Width,
    pub(super) signed: bool,
    /// How the value in the text becomes the number in the field.
    pub(super) convert: Convert,
    /// The lowest bit of an operand that lies in the opcode.
    pub(super) in_opcode: Option<u32>,
}

/// What a fixup does with an operand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Convert {
    /// Nothing.
    Keep,
    /// A number to and from the bits of an f32.
    Number,
    /// A list of queues to and from a mask; the number is the queue of bit 0.
    Queues(u8),
}

const fn spec(kind: Kind, width: Width, signed: bool) -> Spec {
    Spec { kind, width, signed, convert: Convert::Keep, in_opcode: None }
}

/// A number that is not negative.
pub(super) const fn u(bits: u32) -> Spec {
    spec(Kind::Unsigned, Width::Bits(bits), false)
}

/// A number in two's complement.
pub(super) const fn s(bits: u32) -> Spec {
    spec(Kind::Signed, Width::Bits(bits), true)
}

/// A member of an enumeration.
pub(super) const fn member(custom: &'static Custom, bits: u32) -> Spec {
    spec(Kind::Custom(custom), Width::Bits(bits), false)
}

/// A number with or without fraction, 32 bits in machine code.
pub(super) const fn number() -> Spec {
    let kind = Kind::Custom(&NUMBER);
    Spec { convert: Convert::Number, ..spec(kind, Width::Bits(32), false) }
}

/// A list of all nine queues.
pub(super) const fn queues() -> Spec {
    let kind = Kind::Custom(&QUEUES);
    Spec { convert: Convert::Queues(0), ..spec(kind, Width::Bits(9), false) }
}

/// A list of queues without the control queue itself.
pub(super) const fn other_queues() -> Spec {
    let kind = Kind::Custom(&QUEUES);
    Spec { convert: Convert::Queues(1), ..spec(kind, Width::Bits(8), false) }
}

/// A byte address in L2, stored in words of 8 bytes.
pub(super) const fn l2() -> Spec {
    spec(Kind::Scaled(8), Width::L2, true)
}

/// A byte address in DRAM.
pub(super) const fn dram() -> Spec {
    spec(Kind::Unsigned, Width::Dram, false)
}

/// An address in the weight buffer in its units.
pub(super) const fn wl0() -> Spec {
    spec(Kind::Unsigned, Width::Wl0, false)
}

/// An operand that is part of the opcode.
pub(super) const fn in_opcode(at: u32, bits: u32) -> Spec {
    Spec { in_opcode: Some(at), ..u(bits) }
}

/// The operand of a row for the kit's table.
pub(super) const fn operand(field: &'static str, spec: Spec) -> Operand {
    let operand = Operand::at(field, spec.kind);
    match spec.convert {
        Convert::Keep => operand,
        _ => operand.converted(),
    }
}

/// Operands of a row: name and spec.
pub(super) type Specs = [(&'static str, Spec)];

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut index = 0;
    while index < a.len() && index < b.len() && a[index] == b[index] {
        index += 1;
    }
    index == a.len() && index == b.len()
}

const fn is_list(spec: &Spec) -> bool {
    matches!(spec.convert, Convert::Queues(_))
}

/// Bits and addresses of each kind that come before a field: `[bits, l2, dram, wl0]`.
pub(super) const fn before(row: &Specs, name: &str) -> [u32; 4] {
    let mut target = 0;
    while !same(row[target].0, name) {
        target += 1;
    }
    if let Some(at) = row[target].1.in_opcode {
        return [at, 0, 0, 0];
    }
    let lists_first = is_list(&row[target].1);
    let mut sum = [8, 0, 0, 0];
    let mut index = 0;
    while index < row.len() {
        let spec = &row[index].1;
        // Lists lie in front of everything else; among themselves in their order.
        let earlier = match (is_list(spec), lists_first) {
            (true, false) => true,
            (false, true) => false,
            _ => index < target,
        };
        if earlier && spec.in_opcode.is_none() {
            match spec.width {
                Width::Bits(bits) => sum[0] += bits,
                Width::L2 => sum[1] += 1,
                Width::Dram => sum[2] += 1,
                Width::Wl0 => sum[3] += 1,
            }
        }
        index += 1;
    }
    sum
}

/// So many times a parameter.
pub(super) const fn times(count: u32, one: Term, two: Term, three: Term) -> Term {
    match count {
        0 => Term::Const(0),
        1 => one,
        2 => two,
        _ => three,
    }
}

/// The width as a term.
pub(super) const fn width(spec: Spec) -> Term {
    match spec.width {
        Width::Bits(bits) => Term::Const(bits),
        Width::L2 => L2,
        Width::Dram => DRAM,
        Width::Wl0 => WL0,
    }
}

/// Bits of an L2 address, sign included, in words of 8 bytes.
pub(super) const L2: Term = Term::Param("l2_address_bits");
pub(super) const L2_TWICE: Term = Term::Sum(&[L2, L2]);
pub(super) const L2_THRICE: Term = Term::Sum(&[L2, L2, L2]);
/// Bits of a DRAM address.
pub(super) const DRAM: Term = Term::Param("dram_address_bits");
/// Bits of a WL0 address.
pub(super) const WL0: Term = Term::Param("wl0_address_bits");
