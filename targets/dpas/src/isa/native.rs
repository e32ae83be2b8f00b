//! The 128-bit instruction of five platforms.
//!
//! The value of a sub-register operand is in elements of the operand's type, as in the text; the
//! field holds bytes on xehpg and pairs of bytes from xehpc on.

#![deny(clippy::arithmetic_side_effects)]

mod terms;

pub use terms::Native;

use super::operands::{
    Class, DEPENDENCY, GRF_OR_NULL, Grf, GrfOrNull, OFFSET_UNIT, OPTIONS, Options, SWSB_BITS,
    load_word, store_word,
};
use crate::arch::Platform;
use quincunx_diag::{Diagnostic, Result};
use quincunx_isa::{
    FieldSpec, Fixup, Kind, Layout, Operand, Piece, Term, instructions, operand_enum,
};

operand_enum! {
    /// Lanes of the execution, as their logarithm.
    #[derive(Debug)]
    pub enum Lanes {
        /// 4, for `df` on xehpg (ours).
        Four = 2 "4",
        /// 8.
        Eight = 3 "8",
        /// 16.
        Sixteen = 4 "16",
    }
}

operand_enum! {
    /// Systolic depth, as its logarithm.
    #[derive(Debug)]
    pub enum Depth {
        /// 1.
        One = 0 "1",
        /// 2.
        Two = 1 "2",
        /// 4.
        Four = 2 "4",
        /// 8.
        Eight = 3 "8",
    }
}

operand_enum! {
    /// Type of an integer accumulator.
    #[derive(Debug)]
    pub enum IntAcc {
        /// Unsigned.
        Ud = 2 "ud",
        /// Signed.
        D = 6 "d",
    }
}

operand_enum! {
    /// Type of an integer factor: the type code, and the code of the precision times 8.
    #[derive(Debug)]
    pub enum Int {
        /// 8 bits.
        Ub = 0 "ub",
        /// 8 bits, signed.
        B = 4 "b",
        /// 4 bits.
        U4 = 8 "u4",
        /// 4 bits, signed.
        S4 = 12 "s4",
        /// 2 bits.
        U2 = 16 "u2",
        /// 2 bits, signed.
        S2 = 20 "s2",
        /// 1 bit.
        U1 = 24 "u1",
        /// 1 bit, signed.
        S1 = 28 "s1",
    }
}

operand_enum! {
    /// Type of a float accumulator.
    #[derive(Debug)]
    pub enum FloatAcc {
        /// Half.
        Hf = 1 "hf",
        /// Single.
        F = 2 "f",
        /// Double (ours).
        Df = 3 "df",
        /// Bfloat16.
        Bf = 5 "bf",
    }
}

operand_enum! {
    /// Type of a float factor: the type code, and the code of the precision times 8.
    #[derive(Debug)]
    pub enum Float {
        /// 8 bits, E5M2.
        Bf8 = 0 "bf8",
        /// Half.
        Hf = 1 "hf",
        /// Double (ours).
        Df = 3 "df",
        /// 8 bits, E4M3.
        Hf8 = 4 "hf8",
        /// Bfloat16.
        Bf = 5 "bf",
        /// 19 bits.
        Tf32 = 6 "tf32",
        /// 4 bits, E2M1.
        E2m1 = 16 "e2m1",
    }
}

/// The names of integer types; 8-bit types have a second spelling that is only read.
const INT_NAMES: &[(&str, i128)] = &[
    ("ub", 0),
    ("b", 4),
    ("u4", 8),
    ("s4", 12),
    ("u2", 16),
    ("s2", 20),
    ("u1", 24),
    ("s1", 28),
    ("u8", 0),
    ("s8", 4),
];

const AFTER_SWSB: Term = Term::Sum(&[Term::Const(8), Term::Param("swsb_bits")]);

static FIELDS: &[FieldSpec] = &[
    FieldSpec::unsigned("opcode", &[Piece::fixed(0, 8)]),
    FieldSpec::unsigned("lanes", &[Piece { at: AFTER_SWSB, width: Term::Const(3) }]),
    FieldSpec::unsigned(
        "offset",
        &[Piece { at: Term::Param("offset_at"), width: Term::Param("offset_bits") }],
    ),
    FieldSpec::unsigned(
        "options",
        &[
            Piece { at: Term::Const(8), width: Term::Param("swsb_bits") },
            Piece::fixed(32, 1),
            Piece::fixed(30, 1),
            Piece { at: Term::Const(33), width: Term::Param("fwd_bits") },
        ],
    ),
    FieldSpec::unsigned("no_mask", &[Piece::fixed(31, 1)]),
    FieldSpec::unsigned("dst_type", &[Piece::fixed(36, 3)]),
    FieldSpec::unsigned("float", &[Piece::fixed(39, 1)]),
    FieldSpec::unsigned("src0_type", &[Piece::fixed(40, 3)]),
    FieldSpec::unsigned("repeat", &[Piece::fixed(43, 3)]),
    FieldSpec::unsigned("depth", &[Piece::fixed(48, 2)]),
    // The register files of the operands that must be registers.
    FieldSpec::unsigned("files", &[Piece::fixed(50, 1), Piece::fixed(98, 1), Piece::fixed(114, 1)]),
    FieldSpec::unsigned("dst_sub", &[Piece::fixed(51, 5)]),
    FieldSpec::unsigned("dst", &[Piece::fixed(56, 8)]),
    FieldSpec::unsigned("src0", &[Piece::fixed(66, 1), Piece::fixed(72, 8)]),
    FieldSpec::unsigned("src0_sub", &[Piece::fixed(67, 5)]),
    FieldSpec::unsigned("src2_type", &[Piece::fixed(80, 3), Piece::fixed(84, 2)]),
    FieldSpec::unsigned("src1_type", &[Piece::fixed(88, 3), Piece::fixed(86, 2)]),
    FieldSpec::unsigned("src1", &[Piece::fixed(104, 8)]),
    FieldSpec::unsigned("src2_sub", &[Piece::fixed(115, 5)]),
    FieldSpec::unsigned("src2", &[Piece::fixed(120, 8)]),
    // Scales: whether there is a register, and its number.
    FieldSpec::unsigned(
        "src3",
        &[
            Piece::fixed(35, 1),
            Piece::fixed(47, 1),
            Piece::fixed(64, 2),
            Piece::fixed(92, 4),
            Piece::fixed(112, 1),
        ],
    ),
    FieldSpec::unsigned("src3_sub", &[Piece::fixed(102, 2)]),
    FieldSpec::unsigned("src4", &[Piece::fixed(34, 1), Piece::fixed(43, 4), Piece::fixed(115, 4)]),
    FieldSpec::unsigned("src4_sub", &[Piece::fixed(99, 3)]),
];

const fn grf(field: &'static str) -> Operand {
    Operand::at(field, Kind::Unsigned)
}

/// A sub-register: elements of the operand's type in text, units of the machine in the field.
const fn sub(field: &'static str, last: i128) -> Operand {
    Operand::at(field, Kind::Unsigned).or(0).within(0, last).converted()
}

const fn names(field: &'static str, names: &'static [(&'static str, i128)]) -> Operand {
    Operand::at(field, Kind::Names(names))
}

/// Indices of the operands, which are the same in all rows.
const NO_MASK: usize = 0;
const DEPTH: usize = 1;
const REPEAT: usize = 2;
const LANES: usize = 3;
const OFFSET: usize = 4;
const DST: usize = 5;
const DST_SUB: usize = 6;
const DST_TYPE: usize = 7;
const SRC0: usize = 8;
const SRC0_SUB: usize = 9;
const SRC0_TYPE: usize = 10;
const SRC1: usize = 11;
const SRC1_TYPE: usize = 12;
const SRC2: usize = 13;
const SRC2_SUB: usize = 14;
const SRC2_TYPE: usize = 15;
const OPTION_LIST: usize = 16;

static INT: Fixup = Fixup {
    to_fields: |values, layout| to_fields(values, layout, |_| 32, int_bits),
    to_values: |values, layout| to_values(values, layout, |_| 32, int_bits),
};
static FLOAT: Fixup = Fixup {
    to_fields: |values, layout| to_fields(values, layout, acc_bits, float_bits),
    to_values: |values, layout| to_values(values, layout, acc_bits, float_bits),
};

/// Bits of the types by their codes.
fn int_bits(code: i128) -> i128 {
    8 >> (code >> 3)
}

fn acc_bits(code: i128) -> i128 {
    match code {
        2 => 32,
        3 => 64,
        _ => 16,
    }
}

fn float_bits(code: i128) -> i128 {
    match code {
        0 | 4 => 8,
        3 => 64,
        6 => 32,
        16 => 4,
        _ => 16,
    }
}

type Width = fn(i128) -> i128;

/// The value and the type of each sub-register.
fn subs(values: &[i128], acc: Width, factor: Width) -> [(usize, i128); 3] {
    [
        (DST_SUB, acc(values[DST_TYPE])),
        (SRC0_SUB, acc(values[SRC0_TYPE])),
        (SRC2_SUB, factor(values[SRC2_TYPE])),
    ]
}

/// Indices of parameters, behind those of all tables.
const MACHINE_LANES: usize = 3;
const SUB_UNIT: usize = 4;
const NO_DEPTH_1: usize = 5;
const FWD_BITS: usize = 6;

/// A parameter of a platform.
pub(super) fn param(layout: &Layout, index: usize) -> i128 {
    layout.param_at(index).into()
}

/// A quotient without a remainder. Operands of divisions are short, and a division of 128 bits takes long.
fn exact(dividend: i128, divisor: i128, problem: impl Fn() -> Diagnostic) -> Result<i128> {
    let (dividend, divisor) = (dividend as i64, divisor as i64);
    match dividend.checked_rem(divisor) {
        Some(0) => Ok(dividend.checked_div(divisor).unwrap_or(dividend).into()),
        _ => Err(problem()),
    }
}

/// A channel offset in the unit of the platform.
pub(super) fn offset_to_field(offset: i128, layout: &Layout) -> Result<i128> {
    let unit = param(layout, OFFSET_UNIT);
    exact(offset, unit, || {
        let text = format!("the channel offset is not a multiple of {unit}");
        Diagnostic::invalid("Q6011", text)
    })
}

fn to_fields(values: &mut [i128], layout: &Layout, acc: Width, factor: Width) -> Result<()> {
    check(values, layout)?;
    let unit = param(layout, SUB_UNIT);
    let between = || {
        let text =
            format!("a sub-register is not a multiple of {unit} bytes, in which it is stored");
        Diagnostic::invalid("Q6012", text)
    };
    for (index, bits) in subs(values, acc, factor) {
        let bits = values[index].saturating_mul(bits);
        values[index] = exact(bits, unit.saturating_mul(8), between)?;
    }
    values[OFFSET] = offset_to_field(values[OFFSET], layout)?;
    let width = param(layout, SWSB_BITS);
    let options = values[OPTION_LIST];
    let word = store_word(options as u32 & DEPENDENCY, Class::Systolic, layout)?;
    let forward = options >> 17 & 1;
    if forward == 1 && param(layout, FWD_BITS) == 0 {
        let message = "only xe3p has the option Fwd";
        return Err(Diagnostic::invalid("Q6004", message).help("leave it out, or use --arch xe3p"));
    }
    // Options of other instructions do not fit the field.
    let others = options >> 14 & !8;
    values[OPTION_LIST] =
        word | (options >> 10 & 3) << width | forward << width << 2 | others << width << 3;
    Ok(())
}

fn to_values(values: &mut [i128], layout: &Layout, acc: Width, factor: Width) -> Result<()> {
    let unit = param(layout, SUB_UNIT).saturating_mul(8);
    let partial =
        || Diagnostic::invalid("Q6012", "a sub-register is not a whole number of elements");
    for (index, bits) in subs(values, acc, factor) {
        values[index] = exact(values[index].saturating_mul(unit), bits, partial)?;
    }
    values[OFFSET] = values[OFFSET].saturating_mul(param(layout, OFFSET_UNIT));
    let width = param(layout, SWSB_BITS);
    let options = values[OPTION_LIST];
    let word = load_word(options & !(-1 << width), Class::Systolic, layout)?;
    let flags = options >> width;
    values[OPTION_LIST] = i128::from(word) | (flags & 3) << 10 | (flags >> 2 & 1) << 17;
    check(values, layout)
}

/// What both directions must refuse.
fn check(values: &[i128], layout: &Layout) -> Result<()> {
    let (lanes, machine) = (values[LANES], param(layout, MACHINE_LANES));
    let is_double = values[DST_TYPE] == FloatAcc::Df as i128;
    if lanes != machine && !(is_double && lanes == machine.saturating_sub(1)) {
        let message = format!("the machine has {} lanes, found {}", 1 << machine, 1 << lanes);
        return Err(Diagnostic::invalid("Q6010", message)
            .help("choose another machine with --arch: xehpg has 8 lanes, the others have 16"));
    }
    if param(layout, NO_DEPTH_1) == 1 && values[DEPTH] == 0 {
        return Err(Diagnostic::invalid("Q6014", "xehpc has no depth 1"));
    }
    if values[SRC0] == 0 && values[SRC0_SUB] != 0 {
        return Err(Diagnostic::invalid("Q6015", "null has no sub-registers"));
    }
    Ok(())
}

/// Values of a `bdpas`, which has neither depth, repeat count nor sub-registers of src2, in the order of
/// the other rows.
fn standard(values: &[i128]) -> [i128; OPTION_LIST + 1] {
    let mut all = [0; OPTION_LIST + 1];
    all[NO_MASK] = values[NO_MASK];
    (all[DEPTH], all[REPEAT]) = (Depth::Eight as i128, 8);
    // Lanes to the types of src2, without its sub-register.
    all[LANES..=SRC2].copy_from_slice(&values[1..=SCALED_SRC2]);
    all[SRC2_TYPE] = values[SCALED_SRC2 + 1];
    all[OPTION_LIST] = values[SCALED_OPTIONS];
    all
}

/// Puts converted values back.
fn put_back(values: &mut [i128], all: &[i128]) {
    values[1..=SCALED_SRC2].copy_from_slice(&all[LANES..=SRC2]);
    values[SCALED_OPTIONS] = all[OPTION_LIST];
}

/// Indices of the operands of `bdpas` that differ.
const SCALED_SRC2: usize = 11;
const SRC3: usize = 13;
const SRC3_SUB: usize = 14;
const SRC4: usize = 15;
const SRC4_SUB: usize = 16;
const SCALED_OPTIONS: usize = 17;

/// The sub-registers of scales, and their units in bytes.
const SCALES: [(usize, usize, i128); 2] = [(SRC3, SRC3_SUB, 16), (SRC4, SRC4_SUB, 8)];

static SCALED: Fixup = Fixup {
    to_fields: |values, layout| {
        if param(layout, FWD_BITS) == 0 {
            let message = "only xe3p has bdpas";
            return Err(Diagnostic::invalid("Q6004", message).help("use --arch xe3p"));
        }
        let mut all = standard(values);
        to_fields(&mut all, layout, acc_bits, float_bits)?;
        put_back(values, &all);
        for (register, sub, unit) in SCALES {
            if values[register] == 0 && values[sub] != 0 {
                return Err(Diagnostic::invalid("Q6015", "null has no sub-registers"));
            }
            values[sub] = exact(values[sub], unit, || {
                let message = format!("scales begin at multiples of {unit} bytes");
                Diagnostic::invalid("Q6012", message)
            })?;
        }
        Ok(())
    },
    to_values: |values, layout| {
        let mut all = standard(values);
        to_values(&mut all, layout, acc_bits, float_bits)?;
        put_back(values, &all);
        for (register, sub, unit) in SCALES {
            if values[register] == 0 && values[sub] != 0 {
                return Err(Diagnostic::invalid("Q6015", "null has no sub-registers"));
            }
            values[sub] = values[sub].saturating_mul(unit);
        }
        Ok(())
    },
};

/// What the row of an instruction says of it.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// The types are floats.
    pub float: bool,
    /// `dpasw`.
    pub fused: bool,
    /// `bdpas`.
    pub scaled: bool,
}

/// One row for each opcode and class of types; the operands differ in the types only.
macro_rules! rows {
    ($($doc:literal $name:ident $mnemonic:literal $syntax:literal $opcode:literal $float:literal $fused:literal
       $fixup:ident $acc:ident $acc_names:expr, $factor:ident $factor_names:expr;)*) => {
        instructions! {
            /// Intel Xe: systolic instructions, machine code of 16 bytes.
            pub enum Inst, table TABLE = "dpas";
            bits Term::Const(128);
            params [
                "swsb_bits", "offset_unit", "scalar_pipe", "lanes", "sub_unit", "no_depth_1", "fwd_bits"
            ];
            fields FIELDS;
            facts Form;
            $(
                #[doc = $doc]
                $name = $mnemonic $syntax
                    ["opcode" = $opcode, "float" = $float, "files" = 7]
                    is [Form { float: $float == 1, fused: $fused, scaled: false }] fixup $fixup
                {
                    /// Writes all lanes, whatever the dispatch mask.
                    no_mask: bool = Operand::at("no_mask", Kind::Flag),
                    /// Systolic depth; hardware has 8.
                    depth: Depth = names("depth", Depth::NAMES),
                    /// Rows of dst, src0 and src2.
                    repeat: u8 = Operand::at("repeat", Kind::Biased(1)),
                    /// Lanes, the columns of dst, src0 and src1.
                    lanes: Lanes = names("lanes", Lanes::NAMES),
                    /// The dispatch-mask bit of lane 0.
                    offset: u8 = Operand::at("offset", Kind::Unsigned).within(0, 28).converted(),
                    /// Result, row by row.
                    dst: Grf = grf("dst"),
                    /// Its first element.
                    dst_sub: u8 = sub("dst_sub", 31),
                    /// Its type.
                    dst_type: $acc = names("dst_type", $acc_names),
                    /// Addend, row by row; null is 0.
                    src0: GrfOrNull = Operand::at("src0", Kind::Custom(&GRF_OR_NULL)),
                    /// Its first element.
                    src0_sub: u8 = sub("src0_sub", 31),
                    /// Its type.
                    src0_type: $acc = names("src0_type", $acc_names),
                    /// Weights: column n in lane n, consecutive k from the low bits up.
                    src1: Grf = grf("src1"),
                    /// Their precision.
                    src1_type: $factor = names("src1_type", $factor_names),
                    /// Activations, row by row, packed.
                    src2: Grf = grf("src2"),
                    /// Their first element.
                    src2_sub: u8 = sub("src2_sub", 255),
                    /// Their precision.
                    src2_type: $factor = names("src2_type", $factor_names),
                    /// Atomic, Breakpoint, and what the instruction waits for.
                    options: Options =
                        Operand::at("options", Kind::Custom(&OPTIONS)).or(0).converted(),
                }
            )*
            /// Multiplies float matrices of which 32 elements along K share a scale, a power of two; xe3p only.
            Scaled = "bdpas" "{no_mask?(W) }bdpas.8x8 ({lanes}|M{offset}) r{dst}[.{dst_sub}]:{dst_type} {src0}[.{src0_sub}]:{src0_type} r{src1}:{src1_type} r{src2}:{src2_type} {src3}[.{src3_sub}]:ub {src4}[.{src4_sub}]:ub[ {{{options}}}]"
                ["opcode" = 0x5c, "float" = 1, "files" = 7, "depth" = 3]
                is [Form { float: true, fused: false, scaled: true }] fixup SCALED
            {
                /// Writes all lanes, whatever the dispatch mask.
                no_mask: bool = Operand::at("no_mask", Kind::Flag),
                /// Lanes, the columns of dst, src0 and src1.
                lanes: Lanes = names("lanes", Lanes::NAMES),
                /// The dispatch-mask bit of lane 0.
                offset: u8 = Operand::at("offset", Kind::Unsigned).within(0, 28).converted(),
                /// Result, row by row.
                dst: Grf = grf("dst"),
                /// Its first element.
                dst_sub: u8 = sub("dst_sub", 31),
                /// Its type.
                dst_type: FloatAcc = names("dst_type", FloatAcc::NAMES),
                /// Addend, row by row; null is 0.
                src0: GrfOrNull = Operand::at("src0", Kind::Custom(&GRF_OR_NULL)),
                /// Its first element.
                src0_sub: u8 = sub("src0_sub", 31),
                /// Its type.
                src0_type: FloatAcc = names("src0_type", FloatAcc::NAMES),
                /// Weights: column n in lane n, consecutive k from the low bits up.
                src1: Grf = grf("src1"),
                /// Their precision.
                src1_type: Float = names("src1_type", Float::NAMES),
                /// Activations, row by row, packed.
                src2: Grf = grf("src2"),
                /// Their precision.
                src2_type: Float = names("src2_type", Float::NAMES),
                /// Scales of the columns of src1, a byte each (E8M0); null is 1.
                src3: GrfOrNull = Operand::at("src3", Kind::Custom(&GRF_OR_NULL)),
                /// Their first byte.
                src3_sub: u8 = sub("src3_sub", 48),
                /// Scales of the rows of src2, a byte each (E8M0); null is 1.
                src4: GrfOrNull = Operand::at("src4", Kind::Custom(&GRF_OR_NULL)),
                /// Their first byte.
                src4_sub: u8 = sub("src4_sub", 56),
                /// Atomic, Breakpoint, and what the instruction waits for.
                options: Options =
                    Operand::at("options", Kind::Custom(&OPTIONS)).or(0).converted(),
            }
        }
    };
}

rows! {
    " Multiplies integer matrices; sums wrap at 32 bits."
    Int "dpas" "{no_mask?(W) }dpas.{depth}x{repeat} ({lanes}|M{offset}) r{dst}[.{dst_sub}]:{dst_type} {src0}[.{src0_sub}]:{src0_type} r{src1}:{src1_type} r{src2}.{src2_sub}:{src2_type}[ {{{options}}}]"
        0x59 0 false INT IntAcc IntAcc::NAMES, Int INT_NAMES;
    " Multiplies float matrices in the chosen model of rounding; df is ours and needs --df."
    Float "dpas" "{no_mask?(W) }dpas.{depth}x{repeat} ({lanes}|M{offset}) r{dst}[.{dst_sub}]:{dst_type} {src0}[.{src0_sub}]:{src0_type} r{src1}:{src1_type} r{src2}.{src2_sub}:{src2_type}[ {{{options}}}]"
        0x59 1 false FLOAT FloatAcc FloatAcc::NAMES, Float Float::NAMES;
    " As dpas on integers; two fused threads each hold half of src2. Xe-HPG only."
    WideInt "dpasw" "{no_mask?(W) }dpasw.{depth}x{repeat} ({lanes}|M{offset}) r{dst}[.{dst_sub}]:{dst_type} {src0}[.{src0_sub}]:{src0_type} r{src1}:{src1_type} r{src2}.{src2_sub}:{src2_type}[ {{{options}}}]"
        0x5a 0 true INT IntAcc IntAcc::NAMES, Int INT_NAMES;
    " As dpas on floats; two fused threads each hold half of src2. Xe-HPG only."
    WideFloat "dpasw" "{no_mask?(W) }dpasw.{depth}x{repeat} ({lanes}|M{offset}) r{dst}[.{dst_sub}]:{dst_type} {src0}[.{src0_sub}]:{src0_type} r{src1}:{src1_type} r{src2}.{src2_sub}:{src2_type}[ {{{options}}}]"
        0x5a 1 true FLOAT FloatAcc FloatAcc::NAMES, Float Float::NAMES;
}

/// Parameters of a platform, by name.
pub(super) fn parameter(platform: Platform, name: &str) -> Option<u32> {
    let second = platform.is_second();
    let pick = |first, other| Some(if second { other } else { first });
    match name {
        "lanes" => pick(3, 4),
        "swsb_bits" => pick(8, 10),
        "sub_unit" => pick(1, 2),
        "offset_unit" => pick(4, 8),
        "offset_at" => pick(19, 24),
        "offset_bits" => pick(3, 2),
        "no_depth_1" => Some(u32::from(platform == Platform::XeHpc)),
        "scalar_pipe" => Some(u32::from(platform >= Platform::Xe3)),
        "fwd_bits" => Some(u32::from(platform == Platform::Xe3p)),
        _ => None,
    }
}

pub(super) fn layout(platform: Platform) -> Layout {
    // A test resolves the layouts of all platforms.
    Layout::resolve(&TABLE, &|name| parameter(platform, name))
        .expect("the table fits every platform")
}
