//! Instructions of native listings that are not systolic: copies, and waiting for dependencies.
//!
//! Their machine code is in no document we have: they can be read, printed, checked and simulated,
//! and writing them as machine code is refused. The words of this table are ours and leave nothing
//! but the opcode; nobody writes them.

use super::operands::{Grf, OPTIONS, Options};
use quincunx_isa::{FieldSpec, Fixup, Kind, Operand, Piece, Term, instructions, operand_enum};

operand_enum! {
    /// Lanes, as their logarithm.
    #[derive(Debug)]
    pub enum Lanes {
        /// 1.
        One = 0 "1",
        /// 2.
        Two = 1 "2",
        /// 4.
        Four = 2 "4",
        /// 8.
        Eight = 3 "8",
        /// 16.
        Sixteen = 4 "16",
        /// 32.
        ThirtyTwo = 5 "32",
    }
}

operand_enum! {
    /// Type of the elements of a copy.
    #[derive(Debug)]
    pub enum Type {
        /// f32.
        F = 0 "f",
        /// Half.
        Hf = 1 "hf",
        /// Bfloat16.
        Bf = 2 "bf",
        /// f64.
        Df = 3 "df",
        /// Signed 32 bits.
        D = 4 "d",
        /// Unsigned 32 bits.
        Ud = 5 "ud",
        /// Signed 16 bits.
        W = 6 "w",
        /// Unsigned 16 bits.
        Uw = 7 "uw",
    }
}

impl Type {
    /// Bytes of an element.
    pub fn bytes(self) -> u32 {
        match self {
            Type::Hf | Type::Bf | Type::W | Type::Uw => 2,
            Type::F | Type::D | Type::Ud => 4,
            Type::Df => 8,
        }
    }

    /// The pipe that executes a copy: an index in [`PIPES`](super::operands::PIPES).
    pub fn pipe(self) -> u8 {
        match self {
            Type::F | Type::Hf | Type::Bf => 2,
            Type::D | Type::Ud | Type::W | Type::Uw => 3,
            Type::Df => 4,
        }
    }
}

static FIELDS: &[FieldSpec] = &[FieldSpec::unsigned("opcode", &[Piece::fixed(0, 8)])];

/// The operands have no fields.
static TEXT_ONLY: Fixup = Fixup { to_fields: |_, _| Ok(()), to_values: |_, _| Ok(()) };

const fn options() -> Operand {
    Operand::free(Kind::Custom(&OPTIONS)).or(0)
}

const fn number(last: i128) -> Operand {
    Operand::free(Kind::Unsigned).within(0, last)
}

instructions! {
    /// Intel Xe: instructions of native listings without known machine code.
    pub enum Inst, table TABLE = "dpas listing";
    bits Term::Const(8); params []; fields FIELDS;

    /// Copies elements; both types must be equal (a conversion is refused).
    Mov = "mov" "{no_mask?(W) }mov ({lanes}|M{offset}) r{dst}.{dst_sub}<1>:{dst_type} r{src}.{src_sub}<1;1,0>:{src_type}[ {{{options}}}]"
        ["opcode" = 0] fixup TEXT_ONLY
    {
        /// Copies all lanes.
        no_mask: bool = Operand::free(Kind::Flag),
        /// Elements.
        lanes: Lanes = Operand::free(Kind::Names(Lanes::NAMES)),
        /// The dispatch-mask bit of lane 0.
        offset: u8 = number(31),
        /// Destination.
        dst: Grf = number(255),
        /// Its first element.
        dst_sub: u8 = number(31),
        /// Its type.
        dst_type: Type = Operand::free(Kind::Names(Type::NAMES)),
        /// Source.
        src: Grf = number(255),
        /// Its first element.
        src_sub: u8 = number(31),
        /// Its type.
        src_type: Type = Operand::free(Kind::Names(Type::NAMES)),
        /// What it waits for.
        options: Options = options(),
    }
    /// Waits for the dependency in its options only.
    SyncNop = "sync.nop" "{no_mask?(W) }sync.nop null[ {{{options}}}]" ["opcode" = 1] fixup TEXT_ONLY
    {
        /// As everywhere; a wait has no lanes.
        no_mask: bool = Operand::free(Kind::Flag),
        /// What it waits for.
        options: Options = options(),
    }
    /// Waits until all tokens' sources are read.
    SyncAllRead = "sync.allrd" "{no_mask?(W) }sync.allrd null[ {{{options}}}]" ["opcode" = 2] fixup TEXT_ONLY
    {
        /// As everywhere; a wait has no lanes.
        no_mask: bool = Operand::free(Kind::Flag),
        /// What else it waits for.
        options: Options = options(),
    }
    /// Waits until all tokens' results are written.
    SyncAllWrite = "sync.allwr" "{no_mask?(W) }sync.allwr null[ {{{options}}}]" ["opcode" = 3] fixup TEXT_ONLY
    {
        /// As everywhere; a wait has no lanes.
        no_mask: bool = Operand::free(Kind::Flag),
        /// What else it waits for.
        options: Options = options(),
    }
}
