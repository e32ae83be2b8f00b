//! Instructions of a vector engine that are not systolic: arithmetic, moves, branches, waits and
//! messages.
//!
//! The value of an operand is that of its fields one above the other ([`operands`]), with the byte in
//! the register as a number of bytes on every platform. Facts: `iga` (`docs/bibliography.md`).

mod bfn;
mod fixup;
pub mod immediate;
pub mod message;
pub mod operands;
mod terms;
pub mod types;

pub use immediate::Immediate;
pub use message::{Descriptor, Extended, Payload};
pub use operands::{Condition, Control, Dst, Register, Size, Source};
pub use terms::{Input, Message, Place, Region, Terms};
pub use types::Type;

use super::operands::{GRF_OR_NULL, GrfOrNull, OPTIONS, Options};
use crate::arch::Platform;
use bfn::FUNCTION;
use fixup::{
    JUMP, MATH, MESSAGE, PLAIN, PLAIN_BRANCH, TERNARY, TERNARY_0, TERNARY_02, TERNARY_2, WIDE,
};
use immediate::{ANY, DWORD, WORD};
use message::{DESCRIPTOR, EXTENDED, JUMP_TARGET, PAYLOAD, TOKENS};
use operands::{CONDITION, CONTROL, DST, LOGIC, PAIR, SINGLE, SIZE, SOURCE};
use quincunx_isa::{
    Custom, FieldSpec, Kind, Layout, Operand, Piece, Term, instructions, operand_enum,
};

operand_enum! {
    /// Functions of `math`.
    #[derive(Debug)]
    pub enum Function {
        /// 1 / x.
        Inv = 1 "inv",
        /// Logarithm of base 2.
        Log = 2 "log",
        /// Power of 2.
        Exp = 3 "exp",
        /// Square root.
        Sqt = 4 "sqt",
        /// 1 / square root.
        Rsqt = 5 "rsqt",
        /// Sine of radians.
        Sin = 6 "sin",
        /// Cosine of radians.
        Cos = 7 "cos",
    }
}

operand_enum! {
    /// Who receives a message.
    #[derive(Debug)]
    pub enum Receiver {
        /// Gateway: barriers, and the end of a thread.
        Gateway = 3 "gtwy",
        /// Memory that the threads of a group share.
        Slm = 14 "slm",
        /// Global memory.
        Ugm = 15 "ugm",
    }
}

/// What an instruction does; several rows may do the same with other kinds of operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the rows document them")]
pub enum Op {
    Mov,
    Not,
    Frc,
    Rndu,
    Rndd,
    Rnde,
    Rndz,
    Math,
    Add,
    Mul,
    Mac,
    Mach,
    Macl,
    And,
    Or,
    Xor,
    Shr,
    Shl,
    Asr,
    Cmp,
    Sel,
    Add3,
    Mad,
    Dp4a,
    Bfn,
    Csel,
    Jmpi,
    If,
    Else,
    Endif,
    While,
    Goto,
    Join,
    SyncNop,
    SyncAllRead,
    SyncAllWrite,
    SyncBarrier,
    Nop,
    Send,
}

impl Op {
    /// True for instructions with a target.
    pub fn jumps(self) -> bool {
        use Op::{Else, Endif, Goto, If, Jmpi, Join, While};
        matches!(self, Jmpi | If | Else | Endif | While | Goto | Join)
    }
}

/// What the row of an instruction says of it.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// What it does.
    pub op: Op,
    /// Sources.
    pub sources: u8,
    /// The sources that are immediates, source 0 in the lowest bit.
    pub immediates: u8,
}

const AFTER_SWSB: Term = Term::Sum(&[Term::Const(8), Term::Param("swsb_bits")]);
/// The lowest bit of a byte in a register: where registers count pairs of bytes.
const fn low(at: u32) -> Piece {
    Piece { at: Term::Const(at), width: Term::Param("low_bits") }
}
const SWSB: Piece = Piece { at: Term::Const(8), width: Term::Param("swsb_bits") };

static FIELDS: &[FieldSpec] = &[
    FieldSpec::unsigned("opcode", &[Piece::fixed(0, 8)]),
    FieldSpec::unsigned(
        "size",
        &[
            Piece { at: AFTER_SWSB, width: Term::Const(3) },
            Piece { at: Term::Param("offset_at"), width: Term::Param("offset_bits") },
        ],
    ),
    FieldSpec::unsigned(
        "flag",
        &[Piece { at: Term::Param("flag_at"), width: Term::Param("flag_bits") }],
    ),
    FieldSpec::unsigned(
        "control",
        &[
            Piece::fixed(31, 1),
            Piece { at: Term::Param("predicate_at"), width: Term::Param("predicate_bits") },
            Piece::fixed(28, 1),
        ],
    ),
    // The bits of the last two are 0 where the platform or the format has no such option.
    FieldSpec::unsigned(
        "options",
        &[
            SWSB,
            Piece::fixed(32, 1),
            Piece::fixed(30, 1),
            Piece { at: Term::Const(33), width: Term::Param("acc_bits") },
        ],
    ),
    FieldSpec::unsigned(
        "message_options",
        &[SWSB, Piece::fixed(32, 1), Piece::fixed(30, 1), Piece::fixed(34, 1), Piece::fixed(39, 1)],
    ),
    FieldSpec::unsigned("condition", &[Piece::fixed(92, 4)]),
    FieldSpec::unsigned(
        "dst",
        &[
            Piece::fixed(36, 4),
            Piece::fixed(34, 1),
            Piece::fixed(48, 2),
            Piece::fixed(50, 1),
            Piece::fixed(56, 8),
            low(33),
            Piece::fixed(51, 5),
        ],
    ),
    FieldSpec::unsigned(
        "src0",
        &[
            Piece::fixed(40, 4),
            Piece::fixed(44, 2),
            Piece::fixed(64, 2),
            Piece::fixed(66, 1),
            Piece::fixed(72, 8),
            Piece::fixed(81, 3),
            Piece::fixed(84, 3),
            low(87),
            Piece::fixed(67, 5),
        ],
    ),
    FieldSpec::unsigned(
        "src1",
        &[
            Piece::fixed(88, 4),
            Piece::fixed(120, 2),
            Piece::fixed(96, 2),
            Piece::fixed(98, 1),
            Piece::fixed(104, 8),
            Piece::fixed(113, 3),
            Piece::fixed(116, 3),
            low(119),
            Piece::fixed(99, 5),
        ],
    ),
    // Immediates: which sources they are, and their types and bits.
    FieldSpec::unsigned("immediates", &[Piece::fixed(46, 2)]),
    FieldSpec::unsigned(
        "src0_immediate",
        // The upper four bits lie in the place of the condition.
        &[Piece::fixed(40, 4), Piece::fixed(96, 32), Piece::fixed(64, 28)],
    ),
    FieldSpec::unsigned("math_immediate", &[Piece::fixed(40, 4), Piece::fixed(96, 32)]),
    FieldSpec::unsigned("src1_immediate", &[Piece::fixed(88, 4), Piece::fixed(96, 32)]),
    // Three sources: types of 3 bits, since bit 39 says that all are floats.
    FieldSpec::unsigned(
        "ternary_dst",
        &[
            Piece::fixed(36, 4),
            Piece::fixed(34, 1),
            Piece::fixed(48, 1),
            Piece::fixed(50, 1),
            Piece::fixed(56, 8),
            Piece::fixed(51, 5),
        ],
    ),
    FieldSpec::unsigned(
        "ternary_src0",
        &[
            Piece::fixed(40, 3),
            Piece::fixed(64, 2),
            Piece::fixed(66, 1),
            Piece::fixed(72, 8),
            Piece::fixed(35, 1),
            Piece::fixed(43, 1),
            Piece::fixed(67, 5),
            Piece::fixed(44, 2),
        ],
    ),
    FieldSpec::unsigned(
        "ternary_src1",
        &[
            Piece::fixed(88, 3),
            Piece::fixed(96, 2),
            Piece::fixed(98, 1),
            Piece::fixed(104, 8),
            Piece::fixed(83, 1),
            Piece::fixed(91, 1),
            Piece::fixed(99, 5),
            Piece::fixed(86, 2),
        ],
    ),
    FieldSpec::unsigned(
        "ternary_src2",
        &[
            Piece::fixed(80, 3),
            Piece::fixed(112, 2),
            Piece::fixed(114, 1),
            Piece::fixed(120, 8),
            Piece::fixed(115, 5),
            Piece::fixed(84, 2),
        ],
    ),
    // The modifiers of bfn would lie where its function is.
    FieldSpec::unsigned(
        "bfn_src0",
        &[
            Piece::fixed(40, 3),
            Piece::fixed(64, 2),
            Piece::fixed(66, 1),
            Piece::fixed(72, 8),
            Piece::fixed(35, 1),
            Piece::fixed(43, 1),
            Piece::fixed(67, 5),
        ],
    ),
    FieldSpec::unsigned(
        "bfn_src1",
        &[
            Piece::fixed(88, 3),
            Piece::fixed(96, 2),
            Piece::fixed(98, 1),
            Piece::fixed(104, 8),
            Piece::fixed(83, 1),
            Piece::fixed(91, 1),
            Piece::fixed(99, 5),
        ],
    ),
    FieldSpec::unsigned(
        "bfn_src2",
        &[
            Piece::fixed(80, 3),
            Piece::fixed(112, 2),
            Piece::fixed(114, 1),
            Piece::fixed(120, 8),
            Piece::fixed(115, 5),
        ],
    ),
    FieldSpec::unsigned("ternary_src0_immediate", &[Piece::fixed(40, 3), Piece::fixed(64, 16)]),
    FieldSpec::unsigned("ternary_src2_immediate", &[Piece::fixed(80, 3), Piece::fixed(112, 16)]),
    FieldSpec::unsigned("function", &[Piece::fixed(84, 4), Piece::fixed(92, 4)]),
    FieldSpec::signed("jump", &[Piece::fixed(96, 32)]),
    FieldSpec::signed("second_jump", &[Piece::fixed(64, 32)]),
    FieldSpec::unsigned("sync", &[Piece::fixed(48, 1)]),
    FieldSpec::unsigned("sync_function", &[Piece::fixed(92, 4)]),
    FieldSpec::unsigned("tokens", &[Piece::fixed(96, 32)]),
    FieldSpec::unsigned("tokens_type", &[Piece::fixed(40, 4)]),
    FieldSpec::unsigned("receiver", &[Piece::fixed(92, 4)]),
    FieldSpec::unsigned("send_dst", &[Piece::fixed(50, 1), Piece::fixed(56, 8)]),
    FieldSpec::unsigned("send_src0", &[Piece::fixed(66, 1), Piece::fixed(72, 8)]),
    FieldSpec::unsigned(
        "send_src1",
        &[Piece::fixed(98, 1), Piece::fixed(104, 8), Piece::fixed(99, 5)],
    ),
    FieldSpec::unsigned(
        "extended",
        &[
            Piece::fixed(49, 1),
            // Bit 39 says ExBSO where it is in a register.
            Piece::fixed(35, 4),
            Piece::fixed(40, 8),
            Piece::fixed(64, 2),
            Piece::fixed(96, 2),
            Piece::fixed(124, 4),
        ],
    ),
    FieldSpec::unsigned(
        "descriptor",
        &[
            Piece::fixed(81, 11),
            Piece::fixed(113, 9),
            Piece::fixed(51, 5),
            Piece::fixed(67, 5),
            Piece::fixed(122, 2),
            Piece::fixed(48, 1),
        ],
    ),
];

/// Indices of parameters, behind those of all tables.
const LOW_BITS: usize = 3;
const PREDICATE_BITS: usize = 4;

/// Indices of the operands that rows have.
const CONTROL_AT: usize = 0;
const FLAG_AT: usize = 1;
const SIZE_AT: usize = 2;
const OPTIONS_AT: usize = 3;
const CONDITION_AT: usize = 4;
const DST_AT: usize = 5;
const SOURCES_AT: usize = 6;

const fn custom(field: &'static str, custom: &'static Custom) -> Operand {
    Operand::at(field, Kind::Custom(custom))
}

const fn converted(field: &'static str, kind: &'static Custom) -> Operand {
    custom(field, kind).converted()
}

/// The flag of predicate and condition, which have one field.
const fn flag() -> Operand {
    Operand::at("flag", Kind::Unsigned).or(0).within(0, 0).converted()
}

/// An operand that the row does not have.
const fn nothing() -> Operand {
    Operand::free(Kind::Unsigned).or(0).within(0, 0)
}

const fn options(field: &'static str) -> Operand {
    converted(field, &OPTIONS).or(0)
}

const fn form(op: Op, sources: u8, immediates: u8) -> Form {
    Form { op, sources, immediates }
}

/// One row for each operation and kind of operands.
macro_rules! rows {
    (
        one { $($one_doc:literal $one:ident $one_imm:ident $one_name:literal $one_code:literal $one_src:ident;)* }
        math { $($math_doc:literal $math:ident $math_imm:literal $math_type:ident $math_field:literal $math_kind:ident;)* }
        two { $($two_doc:literal $two:ident $two_imm:ident $two_name:literal $two_code:literal $two_src:ident;)* }
        bare { $($bare_doc:literal $bare:ident $bare_imm:ident $bare_name:literal $bare_code:literal;)* }
        three { $($tri_doc:literal $tri:ident $tri_0:ident $tri_2:ident $tri_02:ident $tri_name:literal $tri_code:literal;)* }
    ) => {
        instructions! {
            /// Intel Xe: instructions of the vector engine, machine code of 16 bytes.
            pub enum Inst, table TABLE = "dpas vector";
            bits Term::Const(128);
            params ["swsb_bits", "offset_unit", "scalar_pipe", "low_bits", "predicate_bits"];
            fields FIELDS;
            facts Form;
            $(
                #[doc = $one_doc]
                $one = $one_name "{control}{mnemonic} {size} {condition}{dst} {src0}[ {{{options}}}]"
                    ["opcode" = $one_code, "immediates" = 0]
                    is [form(Op::$one, 1, 0)] fixup PLAIN
                {
                    /// Mask control and predicate.
                    control: Control = converted("control", &CONTROL),
                    /// The flag of predicate and condition; not in the text.
                    flag: u8 = flag(),
                    /// Lanes and channel offset.
                    size: Size = converted("size", &SIZE),
                    /// What the instruction waits for, and the like.
                    options: Options = options("options"),
                    /// Condition that sets a flag.
                    condition: Condition = converted("condition", &CONDITION),
                    /// Result.
                    dst: Dst = custom("dst", &DST),
                    /// Source.
                    src0: Source = custom("src0", &$one_src),
                }
                #[doc = $one_doc]
                #[doc = " The last source is an immediate."]
                $one_imm = $one_name "{control}{mnemonic} {size} {condition}{dst} {src0}[ {{{options}}}]"
                    ["opcode" = $one_code, "immediates" = 1]
                    is [form(Op::$one, 1, 1)] fixup WIDE
                {
                    /// Mask control and predicate.
                    control: Control = converted("control", &CONTROL),
                    /// The flag of predicate and condition; not in the text.
                    flag: u8 = flag(),
                    /// Lanes and channel offset.
                    size: Size = converted("size", &SIZE),
                    /// What the instruction waits for, and the like.
                    options: Options = options("options"),
                    /// Condition that sets a flag.
                    condition: Condition = converted("condition", &CONDITION),
                    /// Result.
                    dst: Dst = custom("dst", &DST),
                    /// Source.
                    src0: Immediate = converted("src0_immediate", &ANY),
                }
            )*
            $(
                #[doc = $math_doc]
                $math = "math" "{control}{mnemonic}.{function} {size} {dst} {src0}[ {{{options}}}]"
                    ["opcode" = 0x38, "immediates" = $math_imm]
                    is [form(Op::Math, 1, $math_imm)] fixup MATH
                {
                    /// Mask control and predicate.
                    control: Control = converted("control", &CONTROL),
                    /// The flag of predicate and condition; not in the text.
                    flag: u8 = flag(),
                    /// Lanes and channel offset.
                    size: Size = converted("size", &SIZE),
                    /// What the instruction waits for, and the like.
                    options: Options = options("options"),
                    /// None; not in the text.
                    condition: Condition = nothing(),
                    /// Result.
                    dst: Dst = custom("dst", &DST),
                    /// Source.
                    src0: $math_type = custom($math_field, &$math_kind),
                    /// Function.
                    function: Function = Operand::at("condition", Kind::Names(Function::NAMES)),
                }
            )*
            $(
                #[doc = $two_doc]
                $two = $two_name "{control}{mnemonic} {size} {condition}{dst} {src0} {src1}[ {{{options}}}]"
                    ["opcode" = $two_code, "immediates" = 0]
                    is [form(Op::$two, 2, 0)] fixup PLAIN
                {
                    /// Mask control and predicate.
                    control: Control = converted("control", &CONTROL),
                    /// The flag of predicate and condition; not in the text.
                    flag: u8 = flag(),
                    /// Lanes and channel offset.
                    size: Size = converted("size", &SIZE),
                    /// What the instruction waits for, and the like.
                    options: Options = options("options"),
                    /// Condition that sets a flag.
                    condition: Condition = converted("condition", &CONDITION),
                    /// Result.
                    dst: Dst = custom("dst", &DST),
                    /// First source.
                    src0: Source = custom("src0", &$two_src),
                    /// Second source.
                    src1: Source = custom("src1", &$two_src),
                }
                #[doc = $two_doc]
                #[doc = " The last source is an immediate."]
                $two_imm = $two_name "{control}{mnemonic} {size} {condition}{dst} {src0} {src1}[ {{{options}}}]"
                    ["opcode" = $two_code, "immediates" = 2]
                    is [form(Op::$two, 2, 2)] fixup PLAIN
                {
                    /// Mask control and predicate.
                    control: Control = converted("control", &CONTROL),
                    /// The flag of predicate and condition; not in the text.
                    flag: u8 = flag(),
                    /// Lanes and channel offset.
                    size: Size = converted("size", &SIZE),
                    /// What the instruction waits for, and the like.
                    options: Options = options("options"),
                    /// Condition that sets a flag.
                    condition: Condition = converted("condition", &CONDITION),
                    /// Result.
                    dst: Dst = custom("dst", &DST),
                    /// First source.
                    src0: Source = custom("src0", &$two_src),
                    /// Second source.
                    src1: Immediate = custom("src1_immediate", &DWORD),
                }
            )*
            $(
                #[doc = $bare_doc]
                $bare = $bare_name "{control}{mnemonic} {size} {dst} {src0} {src1}[ {{{options}}}]"
                    ["opcode" = $bare_code, "immediates" = 0]
                    is [form(Op::$bare, 2, 0)] fixup PLAIN
                {
                    /// Mask control and predicate.
                    control: Control = converted("control", &CONTROL),
                    /// The flag of predicate and condition; not in the text.
                    flag: u8 = flag(),
                    /// Lanes and channel offset.
                    size: Size = converted("size", &SIZE),
                    /// What the instruction waits for, and the like.
                    options: Options = options("options"),
                    /// None; not in the text.
                    condition: Condition = nothing(),
                    /// Result.
                    dst: Dst = custom("dst", &DST),
                    /// First source.
                    src0: Source = custom("src0", &SOURCE),
                    /// Second source.
                    src1: Source = custom("src1", &SOURCE),
                }
                #[doc = $bare_doc]
                #[doc = " The last source is an immediate."]
                $bare_imm = $bare_name "{control}{mnemonic} {size} {dst} {src0} {src1}[ {{{options}}}]"
                    ["opcode" = $bare_code, "immediates" = 2]
                    is [form(Op::$bare, 2, 2)] fixup PLAIN
                {
                    /// Mask control and predicate.
                    control: Control = converted("control", &CONTROL),
                    /// The flag of predicate and condition; not in the text.
                    flag: u8 = flag(),
                    /// Lanes and channel offset.
                    size: Size = converted("size", &SIZE),
                    /// What the instruction waits for, and the like.
                    options: Options = options("options"),
                    /// None; not in the text.
                    condition: Condition = nothing(),
                    /// Result.
                    dst: Dst = custom("dst", &DST),
                    /// First source.
                    src0: Source = custom("src0", &SOURCE),
                    /// Second source.
                    src1: Immediate = custom("src1_immediate", &DWORD),
                }
            )*
            $(
                #[doc = $tri_doc]
                $tri = $tri_name "{control}{mnemonic} {size} {condition}{dst} {src0} {src1} {src2}[ {{{options}}}]"
                    ["opcode" = $tri_code, "immediates" = 0]
                    is [form(Op::$tri, 3, 0)] fixup TERNARY
                {
                    /// Mask control and predicate.
                    control: Control = converted("control", &CONTROL),
                    /// The flag of predicate and condition; not in the text.
                    flag: u8 = flag(),
                    /// Lanes and channel offset.
                    size: Size = converted("size", &SIZE),
                    /// What the instruction waits for, and the like.
                    options: Options = options("options"),
                    /// Condition that sets a flag.
                    condition: Condition = converted("condition", &CONDITION),
                    /// Result.
                    dst: Dst = converted("ternary_dst", &DST),
                    /// Source 0.
                    src0: Source = converted("ternary_src0", &PAIR),
                    /// Source 1.
                    src1: Source = converted("ternary_src1", &PAIR),
                    /// Source 2.
                    src2: Source = converted("ternary_src2", &SINGLE),
                }
                #[doc = $tri_doc]
                #[doc = " With immediates."]
                $tri_0 = $tri_name "{control}{mnemonic} {size} {condition}{dst} {src0} {src1} {src2}[ {{{options}}}]"
                    ["opcode" = $tri_code, "immediates" = 1]
                    is [form(Op::$tri, 3, 1)] fixup TERNARY_0
                {
                    /// Mask control and predicate.
                    control: Control = converted("control", &CONTROL),
                    /// The flag of predicate and condition; not in the text.
                    flag: u8 = flag(),
                    /// Lanes and channel offset.
                    size: Size = converted("size", &SIZE),
                    /// What the instruction waits for, and the like.
                    options: Options = options("options"),
                    /// Condition that sets a flag.
                    condition: Condition = converted("condition", &CONDITION),
                    /// Result.
                    dst: Dst = converted("ternary_dst", &DST),
                    /// Source 0.
                    src0: Immediate = converted("ternary_src0_immediate", &WORD),
                    /// Source 1.
                    src1: Source = converted("ternary_src1", &PAIR),
                    /// Source 2.
                    src2: Source = converted("ternary_src2", &SINGLE),
                }
                #[doc = $tri_doc]
                #[doc = " With immediates."]
                $tri_2 = $tri_name "{control}{mnemonic} {size} {condition}{dst} {src0} {src1} {src2}[ {{{options}}}]"
                    ["opcode" = $tri_code, "immediates" = 2]
                    is [form(Op::$tri, 3, 4)] fixup TERNARY_2
                {
                    /// Mask control and predicate.
                    control: Control = converted("control", &CONTROL),
                    /// The flag of predicate and condition; not in the text.
                    flag: u8 = flag(),
                    /// Lanes and channel offset.
                    size: Size = converted("size", &SIZE),
                    /// What the instruction waits for, and the like.
                    options: Options = options("options"),
                    /// Condition that sets a flag.
                    condition: Condition = converted("condition", &CONDITION),
                    /// Result.
                    dst: Dst = converted("ternary_dst", &DST),
                    /// Source 0.
                    src0: Source = converted("ternary_src0", &PAIR),
                    /// Source 1.
                    src1: Source = converted("ternary_src1", &PAIR),
                    /// Source 2.
                    src2: Immediate = converted("ternary_src2_immediate", &WORD),
                }
                #[doc = $tri_doc]
                #[doc = " With immediates."]
                $tri_02 = $tri_name "{control}{mnemonic} {size} {condition}{dst} {src0} {src1} {src2}[ {{{options}}}]"
                    ["opcode" = $tri_code, "immediates" = 3]
                    is [form(Op::$tri, 3, 5)] fixup TERNARY_02
                {
                    /// Mask control and predicate.
                    control: Control = converted("control", &CONTROL),
                    /// The flag of predicate and condition; not in the text.
                    flag: u8 = flag(),
                    /// Lanes and channel offset.
                    size: Size = converted("size", &SIZE),
                    /// What the instruction waits for, and the like.
                    options: Options = options("options"),
                    /// Condition that sets a flag.
                    condition: Condition = converted("condition", &CONDITION),
                    /// Result.
                    dst: Dst = converted("ternary_dst", &DST),
                    /// Source 0.
                    src0: Immediate = converted("ternary_src0_immediate", &WORD),
                    /// Source 1.
                    src1: Source = converted("ternary_src1", &PAIR),
                    /// Source 2.
                    src2: Immediate = converted("ternary_src2_immediate", &WORD),
                }
            )*
            /// Bits by a function of the bits of three sources.
            Bfn = "bfn" "{control}{mnemonic}.{function} {size} {dst} {src0} {src1} {src2}[ {{{options}}}]"
                ["opcode" = 0x6b, "immediates" = 0]
                is [form(Op::Bfn, 3, 0)] fixup TERNARY
            {
                    /// Mask control and predicate.
                    control: Control = converted("control", &CONTROL),
                    /// The flag of predicate and condition; not in the text.
                    flag: u8 = flag(),
                    /// Lanes and channel offset.
                    size: Size = converted("size", &SIZE),
                    /// What the instruction waits for, and the like.
                    options: Options = options("options"),
                    /// None; not in the text.
                    condition: Condition = nothing(),
                    /// Result.
                    dst: Dst = converted("ternary_dst", &DST),
                    /// Source 0.
                    src0: Source = converted("bfn_src0", &PAIR),
                    /// Source 1.
                    src1: Source = converted("bfn_src1", &PAIR),
                    /// Source 2.
                    src2: Source = converted("bfn_src2", &SINGLE),
                    /// Function of three bits.
                    function: u8 = custom("function", &FUNCTION),
            }
            /// Bits by a function of the bits of three sources.
            Bfn0 = "bfn" "{control}{mnemonic}.{function} {size} {dst} {src0} {src1} {src2}[ {{{options}}}]"
                ["opcode" = 0x6b, "immediates" = 1]
                is [form(Op::Bfn, 3, 1)] fixup TERNARY_0
            {
                    /// Mask control and predicate.
                    control: Control = converted("control", &CONTROL),
                    /// The flag of predicate and condition; not in the text.
                    flag: u8 = flag(),
                    /// Lanes and channel offset.
                    size: Size = converted("size", &SIZE),
                    /// What the instruction waits for, and the like.
                    options: Options = options("options"),
                    /// None; not in the text.
                    condition: Condition = nothing(),
                    /// Result.
                    dst: Dst = converted("ternary_dst", &DST),
                    /// Source 0.
                    src0: Immediate = converted("ternary_src0_immediate", &WORD),
                    /// Source 1.
                    src1: Source = converted("bfn_src1", &PAIR),
                    /// Source 2.
                    src2: Source = converted("bfn_src2", &SINGLE),
                    /// Function of three bits.
                    function: u8 = custom("function", &FUNCTION),
            }
            /// Bits by a function of the bits of three sources.
            Bfn2 = "bfn" "{control}{mnemonic}.{function} {size} {dst} {src0} {src1} {src2}[ {{{options}}}]"
                ["opcode" = 0x6b, "immediates" = 2]
                is [form(Op::Bfn, 3, 4)] fixup TERNARY_2
            {
                    /// Mask control and predicate.
                    control: Control = converted("control", &CONTROL),
                    /// The flag of predicate and condition; not in the text.
                    flag: u8 = flag(),
                    /// Lanes and channel offset.
                    size: Size = converted("size", &SIZE),
                    /// What the instruction waits for, and the like.
                    options: Options = options("options"),
                    /// None; not in the text.
                    condition: Condition = nothing(),
                    /// Result.
                    dst: Dst = converted("ternary_dst", &DST),
                    /// Source 0.
                    src0: Source = converted("bfn_src0", &PAIR),
                    /// Source 1.
                    src1: Source = converted("bfn_src1", &PAIR),
                    /// Source 2.
                    src2: Immediate = converted("ternary_src2_immediate", &WORD),
                    /// Function of three bits.
                    function: u8 = custom("function", &FUNCTION),
            }
            /// Bits by a function of the bits of three sources.
            Bfn02 = "bfn" "{control}{mnemonic}.{function} {size} {dst} {src0} {src1} {src2}[ {{{options}}}]"
                ["opcode" = 0x6b, "immediates" = 3]
                is [form(Op::Bfn, 3, 5)] fixup TERNARY_02
            {
                    /// Mask control and predicate.
                    control: Control = converted("control", &CONTROL),
                    /// The flag of predicate and condition; not in the text.
                    flag: u8 = flag(),
                    /// Lanes and channel offset.
                    size: Size = converted("size", &SIZE),
                    /// What the instruction waits for, and the like.
                    options: Options = options("options"),
                    /// None; not in the text.
                    condition: Condition = nothing(),
                    /// Result.
                    dst: Dst = converted("ternary_dst", &DST),
                    /// Source 0.
                    src0: Immediate = converted("ternary_src0_immediate", &WORD),
                    /// Source 1.
                    src1: Source = converted("bfn_src1", &PAIR),
                    /// Source 2.
                    src2: Immediate = converted("ternary_src2_immediate", &WORD),
                    /// Function of three bits.
                    function: u8 = custom("function", &FUNCTION),
            }
            /// Jumps, if the flag of the one lane says so.
            Jmpi = "jmpi" "{control}{mnemonic} {jump}[ {{{options}}}]"
                ["opcode" = 0x20, "immediates" = 1]
                is [form(Op::Jmpi, 0, 0)] fixup JUMP
            {
                    /// Mask control and predicate.
                    control: Control = converted("control", &CONTROL),
                    /// The flag of predicate and condition; not in the text.
                    flag: u8 = flag(),
                    /// One lane; not in the text.
                    size: Size = nothing(),
                    /// What the instruction waits for, and the like.
                    options: Options = options("options"),
                    /// Bytes from this instruction to the target.
                    jump: i32 = converted("jump", &JUMP_TARGET),
            }
            /// Lanes without their flag go on at the target; the second is where all meet.
            If = "if" "{control}{mnemonic} {size} {jump} {second_jump}[ {{{options}}}]"
                ["opcode" = 0x22, "immediates" = 3]
                is [form(Op::If, 0, 0)] fixup PLAIN_BRANCH
            {
                    /// Mask control and predicate.
                    control: Control = converted("control", &CONTROL),
                    /// The flag of predicate and condition; not in the text.
                    flag: u8 = flag(),
                    /// Lanes and channel offset.
                    size: Size = converted("size", &SIZE),
                    /// What the instruction waits for, and the like.
                    options: Options = options("options"),
                    /// Bytes from this instruction to the target.
                    jump: i32 = converted("jump", &JUMP_TARGET),
                    /// Bytes to where the other lanes go on.
                    second_jump: i32 = converted("second_jump", &JUMP_TARGET),
            }
            /// Lanes that are here go on at the target.
            Else = "else" "{control}{mnemonic} {size} {jump} {second_jump}[ {{{options}}}]"
                ["opcode" = 0x24, "immediates" = 3]
                is [form(Op::Else, 0, 0)] fixup PLAIN_BRANCH
            {
                    /// Mask control and predicate.
                    control: Control = converted("control", &CONTROL),
                    /// The flag of predicate and condition; not in the text.
                    flag: u8 = flag(),
                    /// Lanes and channel offset.
                    size: Size = converted("size", &SIZE),
                    /// What the instruction waits for, and the like.
                    options: Options = options("options"),
                    /// Bytes from this instruction to the target.
                    jump: i32 = converted("jump", &JUMP_TARGET),
                    /// Bytes to where the other lanes go on.
                    second_jump: i32 = converted("second_jump", &JUMP_TARGET),
            }
            /// Lanes with their flag go on at the second target.
            Goto = "goto" "{control}{mnemonic} {size} {jump} {second_jump}[ {{{options}}}]"
                ["opcode" = 0x2e, "immediates" = 3]
                is [form(Op::Goto, 0, 0)] fixup PLAIN_BRANCH
            {
                    /// Mask control and predicate.
                    control: Control = converted("control", &CONTROL),
                    /// The flag of predicate and condition; not in the text.
                    flag: u8 = flag(),
                    /// Lanes and channel offset.
                    size: Size = converted("size", &SIZE),
                    /// What the instruction waits for, and the like.
                    options: Options = options("options"),
                    /// Bytes from this instruction to the target.
                    jump: i32 = converted("jump", &JUMP_TARGET),
                    /// Bytes to where the other lanes go on.
                    second_jump: i32 = converted("second_jump", &JUMP_TARGET),
            }
            /// Where the lanes of if and else meet.
            Endif = "endif" "{control}{mnemonic} {size} {jump}[ {{{options}}}]"
                ["opcode" = 0x25, "immediates" = 1]
                is [form(Op::Endif, 0, 0)] fixup PLAIN_BRANCH
            {
                    /// Mask control and predicate.
                    control: Control = converted("control", &CONTROL),
                    /// The flag of predicate and condition; not in the text.
                    flag: u8 = flag(),
                    /// Lanes and channel offset.
                    size: Size = converted("size", &SIZE),
                    /// What the instruction waits for, and the like.
                    options: Options = options("options"),
                    /// Bytes from this instruction to the target.
                    jump: i32 = converted("jump", &JUMP_TARGET),
            }
            /// Lanes with their flag go on at the target.
            While = "while" "{control}{mnemonic} {size} {jump}[ {{{options}}}]"
                ["opcode" = 0x27, "immediates" = 1]
                is [form(Op::While, 0, 0)] fixup PLAIN_BRANCH
            {
                    /// Mask control and predicate.
                    control: Control = converted("control", &CONTROL),
                    /// The flag of predicate and condition; not in the text.
                    flag: u8 = flag(),
                    /// Lanes and channel offset.
                    size: Size = converted("size", &SIZE),
                    /// What the instruction waits for, and the like.
                    options: Options = options("options"),
                    /// Bytes from this instruction to the target.
                    jump: i32 = converted("jump", &JUMP_TARGET),
            }
            /// Where lanes of goto meet.
            Join = "join" "{control}{mnemonic} {size} {jump}[ {{{options}}}]"
                ["opcode" = 0x2f, "immediates" = 1]
                is [form(Op::Join, 0, 0)] fixup PLAIN_BRANCH
            {
                    /// Mask control and predicate.
                    control: Control = converted("control", &CONTROL),
                    /// The flag of predicate and condition; not in the text.
                    flag: u8 = flag(),
                    /// Lanes and channel offset.
                    size: Size = converted("size", &SIZE),
                    /// What the instruction waits for, and the like.
                    options: Options = options("options"),
                    /// Bytes from this instruction to the target.
                    jump: i32 = converted("jump", &JUMP_TARGET),
            }
            /// Waits for what its options name.
            SyncNop = "sync" "{control}{mnemonic}.nop null[ {{{options}}}]"
                ["opcode" = 0x01, "immediates" = 0, "sync" = 1, "sync_function" = 0]
                is [form(Op::SyncNop, 0, 0)] fixup PLAIN_BRANCH
            {
                    /// Mask control and predicate.
                    control: Control = converted("control", &CONTROL),
                    /// The flag of predicate and condition; not in the text.
                    flag: u8 = flag(),
                    /// One lane; not in the text.
                    size: Size = nothing(),
                    /// What the instruction waits for, and the like.
                    options: Options = options("options"),
            }
            /// Waits until the sources of all tokens are read.
            SyncAllRead = "sync" "{control}{mnemonic}.allrd null[ {{{options}}}]"
                ["opcode" = 0x01, "immediates" = 0, "sync" = 1, "sync_function" = 2]
                is [form(Op::SyncAllRead, 0, 0)] fixup PLAIN_BRANCH
            {
                    /// Mask control and predicate.
                    control: Control = converted("control", &CONTROL),
                    /// The flag of predicate and condition; not in the text.
                    flag: u8 = flag(),
                    /// One lane; not in the text.
                    size: Size = nothing(),
                    /// What the instruction waits for, and the like.
                    options: Options = options("options"),
            }
            /// Waits until the results of all tokens are written.
            SyncAllWrite = "sync" "{control}{mnemonic}.allwr null[ {{{options}}}]"
                ["opcode" = 0x01, "immediates" = 0, "sync" = 1, "sync_function" = 3]
                is [form(Op::SyncAllWrite, 0, 0)] fixup PLAIN_BRANCH
            {
                    /// Mask control and predicate.
                    control: Control = converted("control", &CONTROL),
                    /// The flag of predicate and condition; not in the text.
                    flag: u8 = flag(),
                    /// One lane; not in the text.
                    size: Size = nothing(),
                    /// What the instruction waits for, and the like.
                    options: Options = options("options"),
            }
            /// Waits until all threads of the group have signalled.
            SyncBarrier = "sync" "{control}{mnemonic}.bar null[ {{{options}}}]"
                ["opcode" = 0x01, "immediates" = 0, "sync" = 1, "sync_function" = 14]
                is [form(Op::SyncBarrier, 0, 0)] fixup PLAIN_BRANCH
            {
                    /// Mask control and predicate.
                    control: Control = converted("control", &CONTROL),
                    /// The flag of predicate and condition; not in the text.
                    flag: u8 = flag(),
                    /// One lane; not in the text.
                    size: Size = nothing(),
                    /// What the instruction waits for, and the like.
                    options: Options = options("options"),
            }
            /// Waits until the sources of some tokens are read.
            SyncRead = "sync" "{control}{mnemonic}.allrd {tokens}[ {{{options}}}]"
                ["opcode" = 0x01, "immediates" = 1, "sync" = 1, "sync_function" = 2, "tokens_type" = 2]
                is [form(Op::SyncAllRead, 0, 0)] fixup PLAIN_BRANCH
            {
                    /// Mask control and predicate.
                    control: Control = converted("control", &CONTROL),
                    /// The flag of predicate and condition; not in the text.
                    flag: u8 = flag(),
                    /// One lane; not in the text.
                    size: Size = nothing(),
                    /// What the instruction waits for, and the like.
                    options: Options = options("options"),
                    /// The tokens, a bit each.
                    tokens: u32 = custom("tokens", &TOKENS),
            }
            /// Waits until the results of some tokens are written.
            SyncWrite = "sync" "{control}{mnemonic}.allwr {tokens}[ {{{options}}}]"
                ["opcode" = 0x01, "immediates" = 1, "sync" = 1, "sync_function" = 3, "tokens_type" = 2]
                is [form(Op::SyncAllWrite, 0, 0)] fixup PLAIN_BRANCH
            {
                    /// Mask control and predicate.
                    control: Control = converted("control", &CONTROL),
                    /// The flag of predicate and condition; not in the text.
                    flag: u8 = flag(),
                    /// One lane; not in the text.
                    size: Size = nothing(),
                    /// What the instruction waits for, and the like.
                    options: Options = options("options"),
                    /// The tokens, a bit each.
                    tokens: u32 = custom("tokens", &TOKENS),
            }
            /// Does nothing.
            Nop = "nop" "nop" ["opcode" = 0x60] is [form(Op::Nop, 0, 0)] {}
            /// Sends a message: to memory, to a barrier, or that the thread ends.
            Send = "send" "{control}{mnemonic}.{receiver} {size} {dst} {src0} {src1} {extended} {descriptor}[ {{{options}}}]"
                ["opcode" = 0x31]
                is [form(Op::Send, 0, 0)] fixup MESSAGE
            {
                    /// Mask control and predicate.
                    control: Control = converted("control", &CONTROL),
                    /// The flag of predicate and condition; not in the text.
                    flag: u8 = flag(),
                    /// Lanes and channel offset.
                    size: Size = converted("size", &SIZE),
                    /// What the instruction waits for, EOT, ExBSO.
                    options: Options = options("message_options"),
                    /// Who receives it.
                    receiver: Receiver = Operand::at("receiver", Kind::Names(Receiver::NAMES)),
                    /// First register of the answer.
                    dst: GrfOrNull = custom("send_dst", &GRF_OR_NULL),
                    /// First register of the address or payload.
                    src0: GrfOrNull = custom("send_src0", &GRF_OR_NULL),
                    /// First register of the data, and how many.
                    src1: Payload = custom("send_src1", &PAYLOAD),
                    /// Extended descriptor: a number, or in an address register.
                    extended: Extended = custom("extended", &EXTENDED),
                    /// Descriptor: a number, or in an address register.
                    descriptor: Descriptor = custom("descriptor", &DESCRIPTOR),
            }
        }
    };
}

rows! {
    one {
        " Copies and converts." Mov MovI "mov" 0x61 SOURCE;
        " Inverts bits." Not NotI "not" 0x64 LOGIC;
        " The fraction: what rounding down leaves." Frc FrcI "frc" 0x43 SOURCE;
        " Rounds up." Rndu RnduI "rndu" 0x44 SOURCE;
        " Rounds down." Rndd RnddI "rndd" 0x45 SOURCE;
        " Rounds to nearest, ties to even." Rnde RndeI "rnde" 0x46 SOURCE;
        " Rounds towards zero." Rndz RndzI "rndz" 0x47 SOURCE;
    }
    math {
        " A function of one number." Math 0 Source "src0" SOURCE;
        " A function of an immediate." MathI 1 Immediate "math_immediate" DWORD;
    }
    two {
        " Adds." Add AddI "add" 0x40 SOURCE;
        " Multiplies." Mul MulI "mul" 0x41 SOURCE;
        " Multiplies and adds the accumulator." Mac MacI "mac" 0x48 SOURCE;
        " Bits in both." And AndI "and" 0x65 LOGIC;
        " Bits in either." Or OrI "or" 0x66 LOGIC;
        " Bits in one." Xor XorI "xor" 0x67 LOGIC;
        " Shifts right, zeros come in." Shr ShrI "shr" 0x68 SOURCE;
        " Shifts left." Shl ShlI "shl" 0x69 SOURCE;
        " Shifts right, the sign comes in." Asr AsrI "asr" 0x6c SOURCE;
        " Compares; true is all ones." Cmp CmpI "cmp" 0x70 SOURCE;
        " Chooses by a flag; with a condition the smaller or larger one." Sel SelI "sel" 0x62 SOURCE;
    }
    bare {
        " Completes a product of 64 bits in the accumulator; its upper half." Mach MachI "mach" 0x49;
        " Completes a product of 64 bits in the accumulator; its lower half. Not on xehpg." Macl MaclI "macl" 0x53;
    }
    three {
        " Adds three numbers." Add3 Add3I0 Add3I2 Add3I02 "add3" 0x52;
        " Source 0 plus the product of sources 1 and 2." Mad MadI0 MadI2 MadI02 "mad" 0x5b;
        " Source 0 plus the products of the four bytes of sources 1 and 2." Dp4a Dp4aI0 Dp4aI2 Dp4aI02 "dp4a" 0x58;
        " Source 0 or 1 by a comparison of source 2 with 0." Csel CselI0 CselI2 CselI02 "csel" 0x72;
    }
}

/// Parameters of a platform, by name.
fn parameter(platform: Platform, name: &str) -> Option<u32> {
    let second = platform.is_second();
    let pick = |first, other| Some(if second { other } else { first });
    match name {
        "low_bits" => pick(0, 1),
        "acc_bits" => pick(1, 0),
        "flag_at" => pick(22, 21),
        "flag_bits" => pick(2, 3),
        "predicate_at" => pick(24, 26),
        "predicate_bits" => pick(4, 2),
        _ => super::native::parameter(platform, name),
    }
}

pub(super) fn layout(platform: Platform) -> Layout {
    // A test resolves the layouts of all platforms.
    Layout::resolve(&TABLE, &|name| parameter(platform, name))
        .expect("the table fits every platform")
}
