//! The native form of the Intel `dpas` instruction on two generations, against golden encodings:
//! an irregular instruction whose text names sub-registers by elements, and whose option list is a
//! language of its own. Facts: `specs/dpas.md` section 5.

mod laws;

use laws::parse;
use proptest::prelude::*;
use quincunx_diag::{Diagnostic, Result, SourceId};
use quincunx_isa::{
    Bits, Coverage, Cursor, Custom, FieldSpec, Fixup, Kind, Layout, Operand, Piece, Style, Term,
    instructions, operand_enum, operand_newtype,
};
use serde_json::Value;

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grf(u8);
/// A register, or none; see [`GRF_OR_NULL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GrfOrNull(u16);
/// The list in braces; see [`OPTIONS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options(u16);

operand_newtype!(Grf(u8), GrfOrNull(u16), Options(u16));

operand_enum! {
    /// Lanes of the execution.
    #[derive(Debug)]
    pub enum Lanes {
        /// 8.
        Eight = 3 "8",
        /// 16.
        Sixteen = 4 "16",
    }
}

operand_enum! {
    /// Systolic depth.
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
        /// Bfloat16.
        Bf = 5 "bf",
    }
}

operand_enum! {
    /// Type of a float factor.
    #[derive(Debug)]
    pub enum Float {
        /// Half.
        Hf = 1 "hf",
        /// Bfloat16.
        Bf = 5 "bf",
        /// Tf32.
        Tf32 = 6 "tf32",
    }
}

/// `r12`, or `null`. The low bit says that there is a register.
static GRF_OR_NULL: Custom = Custom {
    name: "a register or `null`",
    parse: parse_grf_or_null,
    print: |value, out| match value {
        0 => out.push_str("null"),
        _ => *out += &format!("r{}", value >> 1),
    },
    legal: |value| value == 0 || ((1..512).contains(&value) && value & 1 == 1),
    random: |below| match below(4) {
        0 => 0,
        _ => i128::from(2 * below(256) + 1),
    },
};

fn parse_grf_or_null(cursor: &mut Cursor<'_>) -> Result<i128> {
    let start = cursor.position();
    if cursor.eat_word("null") {
        return Ok(0);
    }
    if !cursor.eat("r") {
        return Err(cursor.expected(GRF_OR_NULL.name));
    }
    match cursor.integer()? {
        number @ 0..256 => Ok(2 * number + 1),
        _ => Err(cursor.out_of_range("there is no such register", start)),
    }
}

/// What stands in the braces. The value is the scoreboard word in the form of xehpc, with `Atomic`
/// and `Breakpoint` above it; the fixup brings it into the form of the machine.
static OPTIONS: Custom = Custom {
    name: "options such as `Atomic`, `@1`, `$3.dst`",
    parse: parse_options,
    print: print_options,
    legal: |value| {
        let scoreboard = value & (ATOMIC - 1);
        (0..4 * ATOMIC).contains(&value)
            && (scoreboard == 0 || scoreboard_text(scoreboard).is_some())
    },
    random: random_options,
};

const ATOMIC: i128 = 1 << 10;
const BREAKPOINT: i128 = 1 << 11;
/// Pipes of a distance, by their code.
const PIPES: [&str; 6] = ["", "A", "F", "I", "L", "M"];

fn random_options(below: &mut dyn FnMut(u64) -> u64) -> i128 {
    let scoreboard = match below(4) {
        0 => 0,
        1 => below(6) << 3 | (1 + below(7)),
        2 => [0x80, 0xa0, 0xc0][below(3) as usize] | below(32),
        _ => (1 + below(3)) << 8 | (1 + below(7)) << 5 | below(32),
    };
    i128::from(scoreboard) | i128::from(below(4)) << 10
}

fn parse_options(cursor: &mut Cursor<'_>) -> Result<i128> {
    let (mut value, mut distance, mut token) = (0, None, None);
    loop {
        let start = cursor.position();
        let pipe = PIPES.iter().position(|pipe| cursor.rest().starts_with(&format!("{pipe}@")));
        if let Some(pipe) = pipe {
            cursor.eat(PIPES[pipe]);
            cursor.eat("@");
            let number = cursor.integer()?;
            if !(1..8).contains(&number) || distance.is_some() {
                return Err(cursor.out_of_range("this distance cannot be here", start));
            }
            distance = Some((pipe as i128, number));
        } else if cursor.eat("$") {
            let number = cursor.integer()?;
            let form = [".dst", ".src", ""].iter().position(|form| cursor.eat_word(form));
            if !(0..32).contains(&number) || token.is_some() {
                return Err(cursor.out_of_range("this token cannot be here", start));
            }
            token = form.map(|form| (form as i128, number));
        } else if cursor.eat_word("Atomic") {
            value |= ATOMIC;
        } else if cursor.eat_word("Breakpoint") {
            value |= BREAKPOINT;
        } else if !cursor.eat_word("Serialize") {
            // The peer reads `Serialize`, which has no bits.
            return Err(cursor.expected(OPTIONS.name));
        }
        if !cursor.eat(",") {
            break;
        }
        cursor.skip_blanks();
    }
    match scoreboard(distance, token) {
        Some(scoreboard) => Ok(value | scoreboard),
        None => Err(cursor.expected("a distance without a pipe")),
    }
}

/// The scoreboard word of a distance (pipe, number) and a token (form, number).
fn scoreboard(distance: Option<(i128, i128)>, token: Option<(i128, i128)>) -> Option<i128> {
    Some(match (distance, token) {
        (None, None) => 0,
        (Some((pipe, distance)), None) => pipe << 3 | distance,
        (None, Some((form, token))) => (0x80 + 0x20 * form) | token,
        (Some((0, distance)), Some((form, token))) => (3 - form) << 8 | distance << 5 | token,
        _ => return None,
    })
}

fn print_options(value: i128, out: &mut String) {
    let flag = |bit, name: &str| (value & bit != 0).then(|| name.to_owned());
    let list = [
        flag(ATOMIC, "Atomic"),
        flag(BREAKPOINT, "Breakpoint"),
        scoreboard_text(value & (ATOMIC - 1)),
    ];
    *out += &list.into_iter().flatten().collect::<Vec<_>>().join(",");
}

/// The text of a scoreboard word that is not 0, if it has a meaning.
fn scoreboard_text(word: i128) -> Option<String> {
    let (token, distance) = (word & 31, word >> 5 & 7);
    let form = match word >> 8 {
        0 if word < 0x30 => {
            let distance = word & 7;
            return (distance > 0).then(|| format!("{}@{distance}", PIPES[(word >> 3) as usize]));
        }
        0 => {
            let form = [".dst", ".src", ""].get(usize::try_from(distance).ok()?.checked_sub(4)?)?;
            return Some(format!("${token}{form}"));
        }
        1 => "",
        2 => ".src",
        _ => ".dst",
    };
    (distance > 0).then(|| format!("@{distance},${token}{form}"))
}

/// The scoreboard word of xehpg, 8 bits, for the one of xehpc.
fn narrow_scoreboard(word: i128) -> Option<i128> {
    let (token, distance) = (word & 31, word >> 5 & 7);
    match word {
        0x00..0x20 => Some(word),
        0x20..0x28 => Some(word + 0x30),
        0x80..0x90 | 0xa0..0xb0 | 0xc0..0xd0 => Some((distance - 2) << 4 | token),
        0x120..0x200 if token < 16 => Some(0x80 | distance << 4 | token),
        _ => None,
    }
}

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
const DEPTH: usize = 1;
const LANES: usize = 3;
const OFFSET: usize = 4;
const DST_SUB: usize = 6;
const DST_TYPE: usize = 7;
const SRC0: usize = 8;
const SRC0_SUB: usize = 9;
const SRC0_TYPE: usize = 10;
const SRC2_SUB: usize = 14;
const SRC2_TYPE: usize = 15;
const OPTION_LIST: usize = 16;

static INT: Fixup = Fixup {
    to_fields: |values, layout| to_fields(values, layout, |_| 32, int_bits),
    to_values: |values, layout| to_values(values, layout, |_| 32, int_bits),
};
static FLOAT: Fixup = Fixup {
    to_fields: |values, layout| to_fields(values, layout, float_bits, float_bits),
    to_values: |values, layout| to_values(values, layout, float_bits, float_bits),
};

/// Bits of the types by their codes.
fn int_bits(code: i128) -> i128 {
    8 >> (code >> 3)
}

fn float_bits(code: i128) -> i128 {
    match code {
        2 | 6 => 32,
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

fn param(layout: &Layout, name: &str) -> i128 {
    layout.param(name).map_or(0, i128::from)
}

fn refuse(what: &str) -> Diagnostic {
    Diagnostic::invalid("Q4001", what.to_owned())
}

fn exact(dividend: i128, divisor: i128, what: &str) -> Result<i128> {
    if dividend % divisor == 0 { Ok(dividend / divisor) } else { Err(refuse(what)) }
}

fn to_fields(values: &mut [i128], layout: &Layout, acc: Width, factor: Width) -> Result<()> {
    check(values, layout)?;
    let unit = 8 * param(layout, "sub_unit");
    for (index, bits) in subs(values, acc, factor) {
        values[index] = exact(values[index] * bits, unit, "the sub-register is between two units")?;
    }
    let unit = param(layout, "offset_unit");
    values[OFFSET] = exact(values[OFFSET], unit, "the channel offset is odd")?;
    let width = param(layout, "swsb_bits");
    let options = values[OPTION_LIST];
    let mut scoreboard = options & (ATOMIC - 1);
    if width == 8 {
        let narrow = narrow_scoreboard(scoreboard);
        scoreboard = narrow.ok_or_else(|| refuse("the machine has no such dependency"))?;
    }
    values[OPTION_LIST] = scoreboard | options >> 10 << width;
    Ok(())
}

fn to_values(values: &mut [i128], layout: &Layout, acc: Width, factor: Width) -> Result<()> {
    let unit = 8 * param(layout, "sub_unit");
    for (index, bits) in subs(values, acc, factor) {
        values[index] = exact(values[index] * unit, bits, "the sub-register is no whole element")?;
    }
    values[OFFSET] *= param(layout, "offset_unit");
    let width = param(layout, "swsb_bits");
    let options = values[OPTION_LIST];
    let mut scoreboard = options & ((1 << width) - 1);
    if width == 8 {
        let wide = (0..ATOMIC).find(|&word| {
            narrow_scoreboard(word) == Some(scoreboard)
                && (word == 0 || scoreboard_text(word).is_some())
        });
        scoreboard = wide.ok_or_else(|| refuse("the dependency means nothing"))?;
    }
    values[OPTION_LIST] = scoreboard | options >> width << 10;
    check(values, layout)
}

/// What both directions must refuse.
fn check(values: &[i128], layout: &Layout) -> Result<()> {
    if values[LANES] != param(layout, "lanes") {
        return Err(refuse("the machine has another number of lanes"));
    }
    let is_second = param(layout, "swsb_bits") == 10;
    if is_second && values[DEPTH] == 0 {
        return Err(refuse("the machine has no depth 1"));
    }
    if values[SRC0] == 0 && values[SRC0_SUB] != 0 {
        return Err(refuse("null has no sub-registers"));
    }
    Ok(())
}

instructions! {
    /// Intel Xe, systolic instructions.
    pub enum Inst, table TABLE = "xe";
    bits Term::Const(128); params ["lanes", "sub_unit", "offset_unit"]; fields FIELDS;

    /// Multiplies integer matrices.
    Int = "dpas" "{no_mask?(W) }dpas.{depth}x{repeat} ({lanes}|M{offset}) r{dst}[.{dst_sub}]:{dst_type} {src0}[.{src0_sub}]:{src0_type} r{src1}:{src1_type} r{src2}.{src2_sub}:{src2_type}[ {{{options}}}]"
        ["opcode" = 0x59, "float" = 0, "files" = 7] fixup INT
    {
        /// All lanes take part.
        no_mask: bool = Operand::at("no_mask", Kind::Flag),
        /// Systolic depth.
        depth: Depth = names("depth", Depth::NAMES),
        /// Rows.
        repeat: u8 = Operand::at("repeat", Kind::Biased(1)),
        /// Lanes.
        lanes: Lanes = names("lanes", Lanes::NAMES),
        /// First channel.
        offset: u8 = Operand::at("offset", Kind::Unsigned).within(0, 28).converted(),
        /// Result.
        dst: Grf = grf("dst"),
        /// Its first element.
        dst_sub: u8 = sub("dst_sub", 31),
        /// Its type.
        dst_type: IntAcc = names("dst_type", IntAcc::NAMES),
        /// Addend.
        src0: GrfOrNull = Operand::at("src0", Kind::Custom(&GRF_OR_NULL)),
        /// Its first element.
        src0_sub: u8 = sub("src0_sub", 31),
        /// Its type.
        src0_type: IntAcc = names("src0_type", IntAcc::NAMES),
        /// Weights.
        src1: Grf = grf("src1"),
        /// Their type.
        src1_type: Int = names("src1_type", Int::NAMES),
        /// Activations.
        src2: Grf = grf("src2"),
        /// Their first element.
        src2_sub: u8 = sub("src2_sub", 255),
        /// Their type.
        src2_type: Int = names("src2_type", Int::NAMES),
        /// Options.
        options: Options = Operand::at("options", Kind::Custom(&OPTIONS)).or(0).converted(),
    }
    /// Multiplies float matrices.
    Float = "dpas" "{no_mask?(W) }dpas.{depth}x{repeat} ({lanes}|M{offset}) r{dst}[.{dst_sub}]:{dst_type} {src0}[.{src0_sub}]:{src0_type} r{src1}:{src1_type} r{src2}.{src2_sub}:{src2_type}[ {{{options}}}]"
        ["opcode" = 0x59, "float" = 1, "files" = 7] fixup FLOAT
    {
        /// All lanes take part.
        no_mask: bool = Operand::at("no_mask", Kind::Flag),
        /// Systolic depth.
        depth: Depth = names("depth", Depth::NAMES),
        /// Rows.
        repeat: u8 = Operand::at("repeat", Kind::Biased(1)),
        /// Lanes.
        lanes: Lanes = names("lanes", Lanes::NAMES),
        /// First channel.
        offset: u8 = Operand::at("offset", Kind::Unsigned).within(0, 28).converted(),
        /// Result.
        dst: Grf = grf("dst"),
        /// Its first element.
        dst_sub: u8 = sub("dst_sub", 31),
        /// Its type.
        dst_type: FloatAcc = names("dst_type", FloatAcc::NAMES),
        /// Addend.
        src0: GrfOrNull = Operand::at("src0", Kind::Custom(&GRF_OR_NULL)),
        /// Its first element.
        src0_sub: u8 = sub("src0_sub", 31),
        /// Its type.
        src0_type: FloatAcc = names("src0_type", FloatAcc::NAMES),
        /// Weights.
        src1: Grf = grf("src1"),
        /// Their type.
        src1_type: Float = names("src1_type", Float::NAMES),
        /// Activations.
        src2: Grf = grf("src2"),
        /// Their first element.
        src2_sub: u8 = sub("src2_sub", 255),
        /// Their type.
        src2_type: Float = names("src2_type", Float::NAMES),
        /// Options.
        options: Options = Operand::at("options", Kind::Custom(&OPTIONS)).or(0).converted(),
    }
}

fn layout(platform: &str) -> Layout {
    let is_second = platform == "xehpc";
    let pick = |first, second| Some(if is_second { second } else { first });
    Layout::resolve(&TABLE, &|name| match name {
        "lanes" => pick(3, 4),
        "swsb_bits" => pick(8, 10),
        "sub_unit" => pick(1, 2),
        "offset_unit" => pick(4, 8),
        "offset_at" => pick(19, 24),
        "offset_bits" => pick(3, 2),
        _ => None,
    })
    .unwrap()
}

/// The cases of a platform as text, word, canonical text, and the number of other instructions.
fn golden(platform: &str) -> (Vec<(String, Bits, String)>, usize) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/dpas");
    let text = std::fs::read_to_string(format!("{folder}/native_{platform}.json")).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    let all = file["cases"].as_array().unwrap();
    let get = |case: &Value, key: &str| case[key].as_str().unwrap().to_owned();
    // `dpasw` would be a third and a fourth row that differ in the opcode only.
    let is_dpas = |case: &&Value| !get(case, "asm").contains("dpasw");
    let cases = all.iter().filter(is_dpas).map(|case| {
        let hex = get(case, "hex");
        let bytes: Vec<u8> =
            (0..16).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect();
        (get(case, "asm"), Bits::from_le_bytes(&bytes).unwrap(), get(case, "disasm"))
    });
    let cases: Vec<_> = cases.collect();
    let others = all.len() - cases.len();
    (cases, others)
}

fn check_golden(platform: &str, expected: (usize, usize)) {
    let layout = layout(platform);
    let mut coverage = Coverage::new(&TABLE);
    let (cases, others) = golden(platform);
    assert_eq!((cases.len(), others), expected);
    for (asm, word, disasm) in cases {
        for text in [&asm, &disasm] {
            let inst = parse(&TABLE, text, Some(&layout)).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(TABLE.encode(&inst, &layout).unwrap(), word, "{text}");
        }
        let (inst, warnings) = TABLE.decode(&word, &layout, false).unwrap();
        assert!(warnings.is_empty());
        assert_eq!(TABLE.print(&inst), disasm.trim());
        let typed = Inst::from_raw(&inst).unwrap();
        assert_eq!(typed.to_raw(), inst);
        coverage.mark(typed.row());
    }
    assert_eq!(coverage.missing(), Vec::<&str>::new());
}

#[test]
fn golden_cases_of_xehpg() {
    check_golden("xehpg", (378, 8));
}

#[test]
fn golden_cases_of_xehpc() {
    check_golden("xehpc", (412, 0));
}

#[test]
fn the_laws_hold_on_both_generations() {
    laws::hold(&TABLE, &layout("xehpg"));
    laws::hold(&TABLE, &layout("xehpc"));
}

#[test]
fn errors_say_what_is_wrong() {
    let layout = layout("xehpg");
    for (text, message) in [
        ("dpas.8x9 (8|M0) r1:d r2:d r3:b r4.0:b", "operand repeat of dpas is 9, expected 1..=8"),
        (
            "dpas.8x8 (8|M0) r1:d r2:d r3:bf r4.0:b",
            "expected one of `ub`, `b`, `u4`, `s4`, `u2`, `s2`, found `bf`",
        ),
        ("dpas.8x8 (8|M0) r1:d r2:d r3:b r4:b", "expected `.`, found `:`"),
        (
            "dpas.8x8 (8|M0) r1:d r2:d r3:b r4.0:b {Atomik}",
            "expected options such as `Atomic`, `@1`, `$3.dst`, found `Atomik`",
        ),
        ("dpas.8x8 (8|M0) r1:d r2:d r3:b r4.0:b {@9}", "this distance cannot be here"),
        ("(W) dpaz.8x8 (8|M0) r1:d r2:d r3:b r4.0:b", "expected `dpas.`, found `dpaz`"),
        ("dpaz.8x8 (8|M0) r1:d r2:d r3:b r4.0:b", "unknown instruction `dpaz.8x8`"),
        ("dpas.8x8 (8|M0) r256:d r2:d r3:b r4.0:b", "operand dst of dpas is 256, expected 0..=255"),
    ] {
        let mut cursor = Cursor::new(text, SourceId(0), Style::SLASHES);
        let problem = TABLE.parse(&mut cursor, Some(&layout)).unwrap_err();
        assert_eq!(problem.message(), message, "{text}");
    }
    for (text, message) in [
        ("dpas.8x8 (16|M0) r1:d r2:d r3:b r4.0:b", "the machine has another number of lanes"),
        ("dpas.8x8 (8|M0) r1:d null.1:d r3:b r4.0:b", "null has no sub-registers"),
        ("dpas.8x8 (8|M0) r1:d r2:d r3:b r4.0:b {$16}", "the machine has no such dependency"),
        ("dpas.8x8 (8|M0) r1:d r2:d r3:u2 r4.3:u2", "the sub-register is between two units"),
        (
            "dpas.8x8 (8|M0) r1.8:d r2:d r3:b r4.0:b",
            "operand dst_sub of dpas is stored as 32, expected 0..=31",
        ),
    ] {
        let inst = parse(&TABLE, text, Some(&layout)).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(TABLE.encode(&inst, &layout).unwrap_err().message(), message, "{text}");
    }
}

proptest! {
    #[test]
    fn any_text_is_survived(text in r"(\(W\) )?(dpas\.8x8 \(8\|M0\) r1:d)?[ \PC]{0,40}") {
        laws::survives(&TABLE, &text, None);
    }
}
