//! Operands of vector instructions. A value holds the fields of its operand one above the other, in the
//! order of the pieces in the table, so that most of them are stored as they are.

use super::types::Type;
use quincunx_diag::Result;
use quincunx_isa::{Cursor, Custom, operand_newtype, print_number};

/// Mask control and predicate: bit 0 `W`, bits 1 to 4 the predicate control (1 takes the bits of
/// the flag), bit 5 its inversion, from bit 6 on the flag: register times 2 plus half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Control(pub u16);

/// Lanes and channel offset: bits 0 to 2 the logarithm of the lanes, above them the dispatch-mask
/// bit of lane 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Size(pub u16);

/// Condition modifier: bits 0 to 3 the condition (0 is none), above them the flag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Condition(pub u16);

/// Destination: type (4 bits), saturation, stride code (2), file (1 is a general register), number
/// (8), byte in the register (6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dst(pub u32);

/// Source: type (4 bits), modifiers (2: absolute value, negation), horizontal stride code (2), file,
/// number (8), width code (3), vertical stride code (3), byte in the register (6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Source(pub u32);

operand_newtype!(Control(u16), Size(u16), Condition(u16), Dst(u32), Source(u32));

/// Bits `at..at + width` of a value.
pub(super) fn part(value: i128, at: u32, width: u32) -> i128 {
    (value >> at) & ((1 << width) - 1)
}

impl Control {
    /// All lanes execute, whatever the masks.
    pub const W: Control = Control(1);

    /// True with `W`.
    pub fn no_mask(self) -> bool {
        self.0 & 1 == 1
    }

    /// The flag and whether its bits are inverted; `None` without a predicate.
    pub fn predicate(self) -> Option<(u8, bool)> {
        (self.0 >> 1 & 15 == 1).then_some(((self.0 >> 6 & 7) as u8, self.0 >> 5 & 1 == 1))
    }
}

impl Size {
    /// Lanes.
    pub fn lanes(self) -> u32 {
        1 << (self.0 & 7)
    }

    /// The dispatch-mask bit of lane 0.
    pub fn offset(self) -> u32 {
        u32::from(self.0 >> 3)
    }
}

impl Condition {
    /// Spellings of conditions by their code.
    pub const NAMES: [&'static str; 7] = ["", "eq", "ne", "gt", "ge", "lt", "le"];

    /// The code, 0 for none, and the flag.
    pub fn parts(self) -> (u8, u8) {
        ((self.0 & 15) as u8, (self.0 >> 4 & 7) as u8)
    }
}

/// A flag such as `f0.1`, as register times 2 plus half.
fn parse_flag(cursor: &mut Cursor<'_>) -> Result<i128> {
    let start = cursor.position();
    cursor.expect("f")?;
    let register = cursor.integer()?;
    let half = if cursor.eat(".") { cursor.integer()? } else { 0 };
    if !(0..4).contains(&register) || !(0..2).contains(&half) {
        return Err(cursor.out_of_range("the flags are f0.0 to f3.1", start));
    }
    Ok(2 * register + half)
}

fn print_flag(flag: i128, out: &mut String) {
    out.push('f');
    print_number(flag >> 1, out);
    *out += if flag & 1 == 1 { ".1" } else { ".0" };
}

/// `(W)`, `(f0.0)`, `(W&~f0.1)`, or nothing.
pub(super) static CONTROL: Custom = Custom {
    name: "`(W)` or a predicate",
    parse: parse_control,
    print: |value, out| {
        let predicate = part(value, 1, 4) == 1;
        if value & 1 == 0 && !predicate {
            return;
        }
        out.push('(');
        *out += if value & 1 == 1 { "W" } else { "" };
        if predicate {
            *out += if value & 1 == 1 { "&" } else { "" };
            *out += if part(value, 5, 1) == 1 { "~" } else { "" };
            print_flag(value >> 6, out);
        }
        *out += ") ";
    },
    // An inversion or a flag without a predicate says nothing.
    legal: |value| match part(value, 1, 4) {
        0 => value & !1 == 0,
        1 => (0..512).contains(&value),
        _ => false,
    },
    random: |below| match below(3) {
        0 => i128::from(below(2)),
        _ => i128::from(below(2) | 2 | below(2) << 5 | below(4) << 6),
    },
};

fn parse_control(cursor: &mut Cursor<'_>) -> Result<i128> {
    if !cursor.eat("(") {
        return Ok(0);
    }
    let mut value = 0;
    if cursor.eat_word("W") {
        value = 1;
        if cursor.eat(")") {
            cursor.skip_blanks();
            return Ok(value);
        }
        cursor.expect("&")?;
    }
    value |= if cursor.eat("~") { 1 << 5 | 2 } else { 2 };
    value |= parse_flag(cursor)? << 6;
    cursor.expect(")")?;
    cursor.skip_blanks();
    Ok(value)
}

/// `(16|M0)`.
pub(super) static SIZE: Custom = Custom {
    name: "lanes and channel offset such as `(16|M0)`",
    parse: parse_size,
    print: |value, out| {
        out.push('(');
        print_number(1 << (value & 7), out);
        out.push_str("|M");
        print_number(value >> 3, out);
        out.push(')');
    },
    legal: |value| value & 7 <= 5 && (0..32).contains(&(value >> 3)),
    random: |below| i128::from(below(6) | below(8) << 5),
};

fn parse_size(cursor: &mut Cursor<'_>) -> Result<i128> {
    cursor.expect("(")?;
    let start = cursor.position();
    let lanes = cursor.integer()?;
    let log = match lanes {
        1 | 2 | 4 | 8 | 16 | 32 => i128::from(lanes.trailing_zeros()),
        _ => return Err(cursor.out_of_range("the sizes are 1, 2, 4, 8, 16, 32", start)),
    };
    cursor.expect("|M")?;
    let start = cursor.position();
    let offset = cursor.integer()?;
    if !(0..32).contains(&offset) {
        return Err(cursor.out_of_range("the mask has bits 0 to 31", start));
    }
    cursor.expect(")")?;
    Ok(log | offset << 3)
}

/// `(lt)f0.0`, or nothing.
pub(super) static CONDITION: Custom = Custom {
    name: "a condition such as `(lt)f0.0`",
    parse: parse_condition,
    print: |value, out| {
        if let Some(name) = Condition::NAMES.get((value & 15) as usize).filter(|n| !n.is_empty()) {
            out.push('(');
            *out += name;
            out.push(')');
            print_flag(value >> 4, out);
            out.push(' ');
        }
    },
    legal: |value| value == 0 || (matches!(value & 15, 1..7) && (0..128).contains(&value)),
    random: |below| match below(2) {
        0 => 0,
        _ => i128::from((1 + below(6)) | below(4) << 4),
    },
};

fn parse_condition(cursor: &mut Cursor<'_>) -> Result<i128> {
    let rest = cursor.rest();
    let name = |name: &&str| rest.get(1..3) == Some(*name) && rest.starts_with('(');
    let Some(code) = Condition::NAMES.iter().skip(1).position(name) else { return Ok(0) };
    if !rest[3..].starts_with(')') {
        return Ok(0);
    }
    cursor.eat(&rest[..4]);
    let flag = parse_flag(cursor)?;
    cursor.skip_blanks();
    Ok((code as i128 + 1) | flag << 4)
}

/// A register without its type and region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Register {
    /// General register.
    Grf(u8),
    /// Nothing.
    Null,
    /// Address register.
    Address,
    /// Accumulator.
    Acc(u8),
    /// Flag register.
    Flag(u8),
    /// State, control or time register, by its number.
    Other(u8),
}

/// Names of the register files by the upper half of their numbers, with the number of registers.
const FILES: [(&str, u8, u8); 6] = [
    ("a", 0x10, 1),
    ("acc", 0x20, 16),
    ("f", 0x30, 4),
    ("sr", 0x70, 2),
    ("cr", 0x80, 1),
    ("tm", 0xc0, 1),
];

impl Register {
    pub(super) fn from_parts(file: i128, number: i128) -> Option<Register> {
        let number = u8::try_from(number).ok()?;
        Some(match (file, number) {
            (1, _) => Register::Grf(number),
            (_, 0) => Register::Null,
            (_, 0x10) => Register::Address,
            (_, 0x20..0x30) => Register::Acc(number & 15),
            (_, 0x30..0x34) => Register::Flag(number & 3),
            (_, 0x70 | 0x71 | 0x80 | 0xc0) => Register::Other(number),
            _ => return None,
        })
    }

    fn print(self, out: &mut String) {
        let (file, number) = match self {
            Register::Null => return out.push_str("null"),
            Register::Grf(number) => ("r", number),
            Register::Address => ("a", 0),
            Register::Acc(number) => ("acc", number),
            Register::Flag(number) => ("f", number),
            Register::Other(number) => {
                let file = FILES.iter().find(|(_, base, _)| number & 0xf0 == *base);
                (file.map_or("", |file| file.0), number & 15)
            }
        };
        *out += file;
        print_number(number.into(), out);
    }
}

/// A register, as file and number.
fn parse_register(cursor: &mut Cursor<'_>) -> Result<(i128, i128)> {
    let start = cursor.position();
    if cursor.eat_word("null") {
        return Ok((0, 0));
    }
    let word = cursor.peek_word();
    if let Some(number) = word.strip_prefix('r').and_then(|digits| digits.parse::<u8>().ok()) {
        cursor.eat(word);
        return Ok((1, number.into()));
    }
    let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &word[letters.len()..];
    let special = || FILES.iter().find(|(name, ..)| *name == letters);
    let (file, base, count) = match letters {
        "r" => (1, 0, 256),
        _ => match special() {
            Some(&(_, base, count)) => (0, base, u32::from(count)),
            None => return Err(cursor.expected("a register")),
        },
    };
    match digits.parse::<u32>() {
        Ok(number) if number < count => {
            cursor.eat(word);
            Ok((file, i128::from(base) + i128::from(number)))
        }
        _ if digits.is_empty() => Err(cursor.expected("a register")),
        _ => Err(cursor.out_of_range("there is no such register", start)),
    }
}

/// The sub-register in elements, if there is one.
fn parse_sub(cursor: &mut Cursor<'_>) -> Result<i128> {
    let dot = cursor.position();
    if !cursor.eat(".") {
        return Ok(0);
    }
    match cursor.integer()? {
        sub @ 0..64 => Ok(sub),
        _ => Err(cursor.out_of_range("a register has fewer elements", dot)),
    }
}

pub(super) fn parse_type(cursor: &mut Cursor<'_>) -> Result<Type> {
    cursor.expect(":")?;
    let word = cursor.peek_word();
    let Some(ty) = Type::from_name(word) else { return Err(cursor.expected("a type")) };
    cursor.eat(word);
    Ok(ty)
}

/// The byte of a sub-register.
fn byte_of(sub: i128, ty: Type, cursor: &Cursor<'_>, start: usize) -> Result<i128> {
    match sub * i128::from(ty.bytes()) {
        byte @ 0..64 => Ok(byte),
        _ => Err(cursor.out_of_range("a register has fewer elements", start)),
    }
}

/// Horizontal strides by their code; vertical strides go on.
pub(super) const STRIDES: [i128; 7] = [0, 1, 2, 4, 8, 16, 32];

fn parse_stride(cursor: &mut Cursor<'_>, last: usize) -> Result<i128> {
    let start = cursor.position();
    let number = cursor.integer()?;
    let code = STRIDES[..=last].iter().position(|&stride| stride == number);
    code.map(|code| code as i128)
        .ok_or_else(|| cursor.out_of_range("strides are 0 and powers of two", start))
}

/// `r1.0<1>:f`, `(sat)r1.0<1>:f`, `null<1>:d`.
pub(super) static DST: Custom = Custom {
    name: "a destination such as `r1.0<1>:f`",
    parse: parse_dst,
    print: |value, out| {
        *out += if part(value, 4, 1) == 1 { "(sat)" } else { "" };
        let Some(ty) = Type::from_code(part(value, 0, 4)) else { return };
        print_register(part(value, 7, 1), part(value, 8, 8), value >> 16, ty, out);
        out.push('<');
        print_number(STRIDES[part(value, 5, 2) as usize], out);
        out.push_str(">:");
        out.push_str(ty.name());
    },
    legal: |value| {
        let null = part(value, 7, 9) == 0;
        let stride = part(value, 5, 2);
        (0..1 << 22).contains(&value)
            && stride != 0
            && legal_register(part(value, 7, 1), part(value, 8, 8), value >> 16, part(value, 0, 4))
            && !(null && value >> 16 != 0)
    },
    random: |below| {
        let ty = random_type(below);
        let sub = random_sub(below, ty);
        let stride = 1 + below(3);
        i128::from(ty as u64 | below(2) << 4 | stride << 5 | 1 << 7 | below(256) << 8 | sub << 16)
    },
};

fn random_type(below: &mut dyn FnMut(u64) -> u64) -> Type {
    Type::ALL[below(Type::ALL.len() as u64) as usize]
}

fn random_sub(below: &mut dyn FnMut(u64) -> u64, ty: Type) -> u64 {
    let bytes = u64::from(ty.bytes());
    match below(2) {
        0 => 0,
        _ => below(32 / bytes) * bytes,
    }
}

fn legal_register(file: i128, number: i128, byte: i128, ty: i128) -> bool {
    let Some(ty) = Type::from_code(ty) else { return false };
    Register::from_parts(file, number).is_some() && (byte as u32).is_multiple_of(ty.bytes())
}

fn print_register(file: i128, number: i128, byte: i128, ty: Type, out: &mut String) {
    let register = Register::from_parts(file, number).unwrap_or(Register::Null);
    register.print(out);
    if register != Register::Null {
        out.push('.');
        print_number((byte as u32 / ty.bytes()).into(), out);
    }
}

fn parse_dst(cursor: &mut Cursor<'_>) -> Result<i128> {
    let sat = i128::from(cursor.eat("(sat)"));
    let start = cursor.position();
    let (file, number) = parse_register(cursor)?;
    let sub = parse_sub(cursor)?;
    let mut stride = 1;
    if cursor.eat("<") {
        stride = parse_stride(cursor, 3)?;
        cursor.expect(">")?;
    }
    let ty = parse_type(cursor)?;
    let byte = byte_of(sub, ty, cursor, start)?;
    Ok(ty as i128 | sat << 4 | stride << 5 | file << 7 | number << 8 | byte << 16)
}

/// Which region a source has in text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Region {
    /// `<V;W,H>`.
    Full,
    /// `<V;H>`.
    Pair,
    /// `<H>`.
    Single,
}

const MODIFIERS: [&str; 4] = ["", "(abs)", "-", "-(abs)"];

fn parse_source(cursor: &mut Cursor<'_>, region: Region) -> Result<i128> {
    // Logic instructions invert where others negate.
    let negate = i128::from(cursor.eat("-") || cursor.eat("~"));
    let absolute = i128::from(cursor.eat("(abs)"));
    let start = cursor.position();
    let (file, number) = parse_register(cursor)?;
    let sub = parse_sub(cursor)?;
    cursor.expect("<")?;
    let (mut vertical, mut width) = (0, 0);
    if region != Region::Single {
        vertical = parse_stride(cursor, 6)?;
        cursor.expect(";")?;
    }
    if region == Region::Full {
        let start = cursor.position();
        let number = cursor.integer()?;
        let log = (0..5).find(|&log| number == 1 << log);
        width = log.ok_or_else(|| cursor.out_of_range("widths are 1 to 16", start))?;
        cursor.expect(",")?;
    }
    let horizontal = parse_stride(cursor, 3)?;
    cursor.expect(">")?;
    let ty = parse_type(cursor)?;
    let byte = byte_of(sub, ty, cursor, start)?;
    let low = ty as i128 | absolute << 4 | negate << 5 | horizontal << 6 | file << 8;
    Ok(low | number << 9 | width << 17 | vertical << 20 | byte << 23)
}

fn print_source(value: i128, region: Region, logic: bool, out: &mut String) {
    let Some(ty) = Type::from_code(part(value, 0, 4)) else { return };
    let modifier = MODIFIERS[part(value, 4, 2) as usize];
    // The peer inverts only where there is no absolute value.
    *out += if logic && modifier == "-" { "~" } else { modifier };
    print_register(part(value, 8, 1), part(value, 9, 8), value >> 23, ty, out);
    let stride = |code: i128| STRIDES.get(code as usize).copied().unwrap_or(0);
    let (vertical, horizontal) = (stride(part(value, 20, 3)), stride(part(value, 6, 2)));
    out.push('<');
    if region != Region::Single {
        print_number(vertical, out);
        out.push(';');
    }
    if region == Region::Full {
        print_number(1 << part(value, 17, 3), out);
        out.push(',');
    }
    print_number(horizontal, out);
    out.push_str(">:");
    out.push_str(ty.name());
}

fn legal_source(value: i128, region: Region) -> bool {
    let (width, vertical) = (part(value, 17, 3), part(value, 20, 3));
    let region = match region {
        Region::Full => width <= 4 && vertical <= 6,
        // 0, 1, 4, 8.
        Region::Pair => width == 0 && matches!(vertical, 0 | 1 | 3 | 4),
        Region::Single => width == 0 && vertical == 0,
    };
    (0..1 << 29).contains(&value)
        && region
        && part(value, 8, 9) != 0
        && legal_register(part(value, 8, 1), part(value, 9, 8), value >> 23, part(value, 0, 4))
}

fn random_source(below: &mut dyn FnMut(u64) -> u64, region: Region) -> i128 {
    let ty = random_type(below);
    let sub = random_sub(below, ty);
    let (width, vertical) = match region {
        Region::Full => (below(5), below(7)),
        Region::Pair => (0, [0, 1, 3, 4][below(4) as usize]),
        Region::Single => (0, 0),
    };
    let modifiers = if below(2) == 0 { 0 } else { below(4) };
    let low = ty as u64 | modifiers << 4 | below(4) << 6 | 1 << 8 | below(256) << 9;
    i128::from(low | width << 17 | vertical << 20 | sub << 23)
}

/// Declares the kinds of a region.
macro_rules! source {
    ($name:ident $region:expr, $logic:expr, $doc:literal) => {
        #[doc = $doc]
        pub(super) static $name: Custom = Custom {
            name: "a source with its region and type",
            parse: |cursor| parse_source(cursor, $region),
            print: |value, out| print_source(value, $region, $logic, out),
            legal: |value| legal_source(value, $region),
            random: |below| random_source(below, $region),
        };
    };
}

source!(SOURCE Region::Full, false, "`-r1.0<8;8,1>:f`.");
source!(LOGIC Region::Full, true, "`~r1.0<8;8,1>:d`.");
source!(PAIR Region::Pair, false, "`r1.0<1;0>:f`, of three sources.");
source!(SINGLE Region::Single, false, "`r1.0<1>:f`, the last of three sources.");
