//! The virtual instruction: text and byte code.
//!
//! A variable is stored as its index in the kernel's table: 0 is `%null`, 1 to 31 are predefined.
//! In text it has a name, which only the kernel knows; the table reads a name as its place in the
//! text ([`Var::NAME`]), and the reader of the kernel puts the index there.

use crate::precision::Precision;
use quincunx_diag::Result;
use quincunx_isa::{
    Cursor, Custom, FieldSpec, Fixup, Kind, Layout, Operand, Piece, Term, instructions, is_word,
    operand_enum, operand_newtype,
};

/// A variable: its index, or with [`Var::NAME`] the place of its name in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Var(pub u128);

impl quincunx_isa::OperandValue for Var {
    fn to_raw(self) -> i128 {
        self.0 as i128
    }
    fn from_raw(raw: i128) -> Option<Self> {
        u128::try_from(raw).ok().map(Var)
    }
}

impl Var {
    /// Marks the place of a name: the start in bits 32 to 63, the length in bits 0 to 31.
    pub const NAME: u128 = 1 << 64;
    /// `%null`.
    pub const NULL: Var = Var(0);

    /// The index; `None` for a name.
    pub fn index(self) -> Option<u32> {
        u32::try_from(self.0).ok()
    }

    /// Start and length of the name.
    pub fn name(self) -> Option<(usize, usize)> {
        let part = |shift: u32| (self.0 >> shift) as u32 as usize;
        (self.0 & Var::NAME != 0).then(|| (part(32), part(0)))
    }
}

/// Execution mask and size: `(M2_NM, 16)`. Bits 3:0 are the logarithm of the size, bits 7:4 the
/// mask M1 to M8 and 8 more with `_NM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Exec(pub u8);

operand_newtype!(Exec(u8));

impl Exec {
    /// Lanes.
    pub fn lanes(self) -> u32 {
        1 << (self.0 & 7)
    }

    /// The dispatch-mask bit of lane 0: M1 is 0, M2 is 4, and so on.
    pub fn offset(self) -> u32 {
        u32::from(self.0 >> 4 & 7) * 4
    }

    /// True with `_NM`: all lanes are written.
    pub fn no_mask(self) -> bool {
        self.0 >> 7 == 1
    }
}

operand_enum! {
    /// Systolic depth.
    #[derive(Debug)]
    pub enum Depth {
        /// 1.
        One = 1 "1",
        /// 2.
        Two = 2 "2",
        /// 4.
        Four = 4 "4",
        /// 8.
        Eight = 8 "8",
    }
}

/// A variable in text.
static VARIABLE: Custom = Custom {
    name: "a variable",
    parse: parse_variable,
    print: |value, out| match value {
        0 => out.push_str("%null"),
        7 => out.push_str("%r0"),
        _ => *out += &format!("V{value}"),
    },
    legal: |value| (0..1 << 65).contains(&value),
    random: |below| match below(8) {
        0 => 0,
        1 => 7,
        _ => i128::from(32 + below(400)),
    },
};

fn parse_variable(cursor: &mut Cursor<'_>) -> Result<i128> {
    if cursor.eat_word("%null") {
        return Ok(0);
    }
    if cursor.eat_word("%r0") {
        return Ok(7);
    }
    let start = cursor.position();
    let Ok(name) = cursor.identifier() else {
        return Err(cursor.expected(VARIABLE.name));
    };
    // A text has at most 4 GiB, as its spans.
    let place = (start as u128 & 0xffff_ffff) << 32 | name.len() as u128 & 0xffff_ffff;
    Ok((Var::NAME | place) as i128)
}

/// The index of a name such as `V32`.
pub fn canonical_index(name: &str) -> Option<u32> {
    let digits = name.strip_prefix('V')?;
    let plain = digits == "0" || !digits.starts_with('0');
    (plain && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}

static EXEC: Custom = Custom {
    name: "an execution mask and size such as `(M1, 16)`",
    parse: parse_exec,
    print: |value, out| {
        let exec = Exec(value as u8);
        let mask = (exec.0 >> 4 & 7) + 1;
        let suffix = if exec.no_mask() { "_NM" } else { "" };
        *out += &format!("(M{mask}{suffix}, {})", exec.lanes());
    },
    legal: |value| (0..256).contains(&value) && value & 15 <= 5,
    random: |below| i128::from(below(16) << 4 | below(6)),
};

/// `(M2_NM, 16)`; `(16)` means M1.
fn parse_exec(cursor: &mut Cursor<'_>) -> Result<i128> {
    cursor.expect("(")?;
    cursor.skip_blanks();
    let mut mask = 0;
    let start = cursor.position();
    if cursor.eat("M") {
        let number = cursor.integer()?;
        if !(1..=8).contains(&number) {
            return Err(cursor.out_of_range("the masks are M1 to M8", start));
        }
        mask = number - 1 + if cursor.eat("_NM") { 8 } else { 0 };
        if cursor.peek().is_some_and(is_word) {
            return Err(cursor.expected("`,`"));
        }
        cursor.skip_blanks();
        cursor.expect(",")?;
        cursor.skip_blanks();
    }
    let start = cursor.position();
    let size = cursor.integer()?;
    let log = (0..6).find(|&log| size == 1 << log);
    let log = log.ok_or_else(|| cursor.out_of_range("the sizes are 1, 2, 4, 8, 16, 32", start))?;
    cursor.skip_blanks();
    cursor.expect(")")?;
    Ok(mask << 4 | log)
}

const fn at(at: &'static str, bits: u32) -> Piece {
    Piece { at: Term::Param(at), width: Term::Const(bits) }
}

const fn index(at: &'static str) -> Piece {
    Piece { at: Term::Param(at), width: Term::Param("index_bits") }
}

static FIELDS: &[FieldSpec] = &[
    FieldSpec::unsigned("opcode", &[Piece::fixed(0, 8)]),
    FieldSpec::unsigned("exec", &[Piece::fixed(8, 8)]),
    FieldSpec::unsigned(
        "predicate",
        &[Piece { at: Term::Const(16), width: Term::Param("predicate_bits") }],
    ),
    FieldSpec::unsigned("dst", &[index("dst_at")]),
    FieldSpec::unsigned("dst_offset", &[at("dst_offset_at", 16)]),
    FieldSpec::unsigned("src0", &[index("src0_at")]),
    FieldSpec::unsigned("src0_offset", &[at("src0_offset_at", 16)]),
    FieldSpec::unsigned("src1", &[index("src1_at")]),
    FieldSpec::unsigned("src1_offset", &[at("src1_offset_at", 16)]),
    // Class 0 is a general operand, modifier 0 none.
    FieldSpec::unsigned("src2_tag", &[at("src2_tag_at", 8)]),
    FieldSpec::unsigned("src2", &[index("src2_at")]),
    FieldSpec::unsigned("row", &[at("row_at", 8)]),
    FieldSpec::unsigned("column", &[at("column_at", 8)]),
    // <1;1,0>.
    FieldSpec::unsigned("region", &[at("region_at", 16)]),
    FieldSpec::unsigned("w", &[at("w_at", 8)]),
    FieldSpec::unsigned("a", &[at("a_at", 8)]),
    FieldSpec::unsigned("depth", &[at("depth_at", 8)]),
    FieldSpec::unsigned("repeat", &[at("repeat_at", 8)]),
];

const REGION: i128 = 0x0122;

const fn variable(field: &'static str) -> Operand {
    Operand::at(field, Kind::Custom(&VARIABLE)).converted()
}

/// The value is the index when byte code is written; the reader of texts has seen to it.
static INDICES: Fixup = Fixup {
    to_fields: |values, layout| {
        let limit = 1 << layout.width("dst").unwrap_or(32);
        match values.iter().find(|&&value| value >= limit) {
            None => Ok(()),
            Some(value) => Err(quincunx_diag::Diagnostic::unsupported(
                "Q6016",
                format!("variable {value} does not fit the index of this byte code"),
            )),
        }
    },
    to_values: |_, _| Ok(()),
};

const fn offset(field: &'static str) -> Operand {
    Operand::at(field, Kind::Unsigned)
}

/// One row for each opcode.
macro_rules! rows {
    ($($doc:literal $name:ident $mnemonic:literal $syntax:literal $opcode:literal;)*) => {
        instructions! {
            /// Intel vISA: the systolic instruction, byte code of 33 or 35 bytes. What the documents
            /// leave open of the shell of byte code around it is ours.
            pub enum Inst, table TABLE = "dpas vISA";
            bits Term::Param("bits"); params []; fields FIELDS;
            $(
                #[doc = $doc]
                $name = $mnemonic $syntax
                    ["opcode" = $opcode, "predicate" = 0, "src2_tag" = 0, "region" = REGION]
                    fixup INDICES
                {
                    /// Precision of src1.
                    w: Precision = Operand::at("w", Kind::Names(Precision::NAMES)),
                    /// Precision of src2.
                    a: Precision = Operand::at("a", Kind::Names(Precision::NAMES)),
                    /// Systolic depth.
                    depth: Depth = Operand::at("depth", Kind::Names(Depth::NAMES)),
                    /// Repeat count: rows of dst, src0 and src2.
                    repeat: u8 = Operand::at("repeat", Kind::Unsigned).within(1, 8),
                    /// Execution mask and size; `(16)` is `(M1, 16)`.
                    exec: Exec = Operand::at("exec", Kind::Custom(&EXEC)),
                    /// Result.
                    dst: Var = variable("dst"),
                    /// Its byte offset.
                    dst_offset: u16 = offset("dst_offset"),
                    /// Addend; `%null` is 0.
                    src0: Var = variable("src0"),
                    /// Its byte offset.
                    src0_offset: u16 = offset("src0_offset"),
                    /// Weights.
                    src1: Var = variable("src1"),
                    /// Their byte offset.
                    src1_offset: u16 = offset("src1_offset"),
                    /// Activations.
                    src2: Var = variable("src2"),
                    /// Their register in the variable.
                    row: u8 = offset("row"),
                    /// Their element in the register, of the variable's type.
                    column: u8 = offset("column"),
                }
            )*
        }
    };
}

rows! {
    " Multiplies matrices: dst = src0 + src2 x src1."
    Dpas "dpas" "dpas.{w}.{a}.{depth}.{repeat} {exec} {dst}.{dst_offset} {src0}.{src0_offset} {src1}.{src1_offset} {src2}({row},{column})" 0x83;
    " Multiplies matrices as dpas; two fused threads each hold half of src2. Before Xe-HPC only."
    Dpasw "dpasw" "dpasw.{w}.{a}.{depth}.{repeat} {exec} {dst}.{dst_offset} {src0}.{src0_offset} {src1}.{src1_offset} {src2}({row},{column})" 0x1c;
}

/// Where the parameters of a layout put the fields.
fn parameter(name: &str, index: u32, predicate: u32) -> Option<u32> {
    // Every offset of an operand follows its index; the fields lie in this order.
    let dst = 16 + predicate;
    let operand = index + 16;
    let src2 = dst + 3 * operand;
    let rest = src2 + 8 + index;
    Some(match name {
        "index_bits" => index,
        "predicate_bits" => predicate,
        "dst_at" => dst,
        "dst_offset_at" => dst + index,
        "src0_at" => dst + operand,
        "src0_offset_at" => dst + operand + index,
        "src1_at" => dst + 2 * operand,
        "src1_offset_at" => dst + 2 * operand + index,
        "src2_tag_at" => src2,
        "src2_at" => src2 + 8,
        "row_at" => rest,
        "column_at" => rest + 8,
        "region_at" => rest + 16,
        "w_at" => rest + 32,
        "a_at" => rest + 40,
        "depth_at" => rest + 48,
        "repeat_at" => rest + 56,
        "bits" => rest + 64,
        _ => return None,
    })
}

pub(super) fn layout(short_index: bool, predicate: bool) -> Layout {
    let index = if short_index { 16 } else { 32 };
    let predicate = if predicate { 16 } else { 0 };
    // A test resolves all four.
    Layout::resolve(&TABLE, &|name| parameter(name, index, predicate))
        .expect("the table fits every layout")
}

/// An instruction in the terms of both rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Virtual {
    /// `dpasw`.
    pub fused: bool,
    /// Precision of src1.
    pub w: Precision,
    /// Precision of src2.
    pub a: Precision,
    /// 1, 2, 4 or 8.
    pub depth: u32,
    /// 1 to 8.
    pub repeat: u32,
    /// Mask and size.
    pub exec: Exec,
    /// Variable and byte offset.
    pub dst: (Var, u16),
    /// Variable and byte offset.
    pub src0: (Var, u16),
    /// Variable and byte offset.
    pub src1: (Var, u16),
    /// Variable, register and element.
    pub src2: (Var, u8, u8),
}

impl Inst {
    /// The instruction in the terms of both rows.
    pub fn parts(&self) -> Virtual {
        match *self {
            Inst::Dpas {
                w,
                a,
                depth,
                repeat,
                exec,
                dst,
                dst_offset,
                src0,
                src0_offset,
                src1,
                src1_offset,
                src2,
                row,
                column,
            }
            | Inst::Dpasw {
                w,
                a,
                depth,
                repeat,
                exec,
                dst,
                dst_offset,
                src0,
                src0_offset,
                src1,
                src1_offset,
                src2,
                row,
                column,
            } => Virtual {
                fused: matches!(self, Inst::Dpasw { .. }),
                w,
                a,
                depth: depth as u32,
                repeat: u32::from(repeat),
                exec,
                dst: (dst, dst_offset),
                src0: (src0, src0_offset),
                src1: (src1, src1_offset),
                src2: (src2, row, column),
            },
        }
    }
}
