//! Operands: registers by name, directions, bytes.

use quincunx_diag::{Diagnostic, Result};
use quincunx_isa::{Cursor, Custom, Fixup, Kind, Layout, Operand, operand_enum, operand_newtype};
use std::fmt;

/// Longest name of a register, in characters.
pub const MAX_NAME: usize = 15;

operand_enum! {
    /// A direction: x grows to the east, y to the north.
    #[derive(Debug)]
    pub enum Direction {
        /// (0, 1).
        North = 0 "north",
        /// (1, 0).
        East = 1 "east",
        /// (0, -1).
        South = 2 "south",
        /// (-1, 0).
        West = 3 "west",
    }
}

impl Direction {
    /// Every direction, in the order of the letters of NEWS turned clockwise: N, E, S, W.
    pub const ALL: [Direction; 4] =
        [Direction::North, Direction::East, Direction::South, Direction::West];

    /// Its step (x, y).
    pub fn step(self) -> (i32, i32) {
        match self {
            Direction::North => (0, 1),
            Direction::East => (1, 0),
            Direction::South => (0, -1),
            Direction::West => (-1, 0),
        }
    }

    /// The direction that leads back.
    #[must_use]
    pub fn opposite(self) -> Direction {
        match self {
            Direction::North => Direction::South,
            Direction::East => Direction::West,
            Direction::South => Direction::North,
            Direction::West => Direction::East,
        }
    }
}

/// A register by its name of up to [`MAX_NAME`] ASCII characters, which is stored in the number
/// itself, last character in the low byte. The machine description says which names exist.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reg(i128);

operand_newtype!(Reg(i128));

impl Reg {
    /// No register: an absent operand.
    pub const NONE: Reg = Reg(0);
    /// The exchange register.
    pub const NEWS: Reg = Reg::of(b"NEWS");
    /// The photodiode.
    pub const PIX: Reg = Reg::of(b"PIX");
    /// The global analogue input.
    pub const IN: Reg = Reg::of(b"IN");
    /// The mask of analogue instructions, as an operand of digital ones.
    pub const FLAG: Reg = Reg::of(b"FLAG");

    /// The part of the array that the host looks at, a 1-bit register.
    pub(crate) const RECT: Reg = Reg::of(b"RECT");

    const fn of(name: &[u8]) -> Reg {
        let (mut value, mut at) = (0, 0);
        while at < name.len() {
            value = value << 8 | name[at] as i128;
            at += 1;
        }
        Reg(value)
    }

    /// The register with this name: a capital letter, then letters, digits and `_`, perhaps a word
    /// in brackets. `None` for other text and for words that are directions.
    pub fn new(name: &str) -> Option<Reg> {
        (name.len() <= MAX_NAME && is_name(name)).then(|| Reg::of(name.as_bytes()))
    }

    /// NEWS of the neighbour in a direction.
    pub const fn toward(direction: Direction) -> Reg {
        match direction {
            Direction::North => Reg::of(b"XN"),
            Direction::East => Reg::of(b"XE"),
            Direction::South => Reg::of(b"XS"),
            Direction::West => Reg::of(b"XW"),
        }
    }

    /// The direction of a neighbour's NEWS; `None` for other registers.
    pub fn direction(self) -> Option<Direction> {
        Direction::ALL.into_iter().find(|&direction| Reg::toward(direction) == self)
    }
}

fn is_name(name: &str) -> bool {
    let word = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let (stem, index) = match name.split_once('[') {
        None => (name, None),
        Some((stem, index)) => (stem, Some(index)),
    };
    let index_is_word = index.is_none_or(|index| index.strip_suffix(']').is_some_and(word));
    stem.starts_with(|c: char| c.is_ascii_uppercase()) && word(stem) && index_is_word
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.to_be_bytes();
        let name: String = bytes.iter().skip_while(|&&b| b == 0).map(|&b| char::from(b)).collect();
        f.write_str(&name)
    }
}

impl fmt::Debug for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn parse_register(cursor: &mut Cursor<'_>) -> Result<i128> {
    let start = cursor.position();
    let rest = cursor.rest();
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    if rest[length..].starts_with('[') {
        let index = &rest[length + 1..];
        let end = index.find(|c| !is_part(c)).unwrap_or(index.len());
        length += 1 + end + usize::from(index[end..].starts_with(']'));
    }
    let name = &rest[..length];
    if let Some(register) = Reg::new(name) {
        cursor.rewind(start + length);
        return Ok(register.0);
    }
    if is_name(name) {
        cursor.rewind(start + length);
        let message = format!("the name of a register has at most {MAX_NAME} characters");
        return Err(cursor.error("Q5001", message, start));
    }
    Err(cursor.expected("a register such as A"))
}

fn print_register(value: i128, out: &mut String) {
    out.push_str(&Reg(value).to_string());
}

fn is_register_value(value: i128) -> bool {
    let name = Reg(value).to_string();
    value > 0 && Reg::new(&name) == Some(Reg(value))
}

fn is_register_or_absent(value: i128) -> bool {
    value == 0 || is_register_value(value)
}

fn random_of(names: &[&str], below: &mut dyn FnMut(u64) -> u64) -> i128 {
    Reg::of(names[below(names.len() as u64) as usize].as_bytes()).0
}

fn random_general(below: &mut dyn FnMut(u64) -> u64) -> i128 {
    random_of(&["A", "B", "C", "D", "E", "F"], below)
}

fn random_on_bus(below: &mut dyn FnMut(u64) -> u64) -> i128 {
    random_of(&["A", "B", "C", "D", "E", "F", "NEWS", "XN", "XE", "XS", "XW", "PIX", "IN"], below)
}

fn random_bit(below: &mut dyn FnMut(u64) -> u64) -> i128 {
    let names = ["R0", "R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R10", "R11", "R12"];
    random_of(&names, below)
}

/// A register operand: what it is called, whether it may be absent, and how tests draw one.
const fn register_kind(
    name: &'static str,
    legal: fn(i128) -> bool,
    random: fn(&mut dyn FnMut(u64) -> u64) -> i128,
) -> Custom {
    Custom { name, parse: parse_register, print: print_register, legal, random }
}

static GENERAL: Custom =
    register_kind("general register such as A", is_register_value, random_general);
static ON_BUS: Custom = register_kind(ON_BUS_NAME, is_register_value, random_on_bus);
static ON_BUS_OR_ABSENT: Custom =
    register_kind(ON_BUS_NAME, is_register_or_absent, |below| match below(3) {
        0 => random_on_bus(below),
        _ => 0,
    });
static BIT: Custom = register_kind(BIT_NAME, is_register_value, random_bit);
static BIT_OR_ABSENT: Custom =
    register_kind(BIT_NAME, is_register_or_absent, |below| match below(2) {
        0 => random_bit(below),
        _ => 0,
    });
static BYTE: Custom = Custom {
    name: "byte such as 0x0f",
    parse: parse_byte,
    print: |value, out| out.push_str(&format!("0x{value:02x}")),
    legal: |value| u8::try_from(value).is_ok(),
    random: |below| i128::from(below(256)),
};

const ON_BUS_NAME: &str = "register on the bus such as A, NEWS, XE or PIX";
const BIT_NAME: &str = "1-bit register such as R5";

fn parse_byte(cursor: &mut Cursor<'_>) -> Result<i128> {
    let start = cursor.position();
    let value = cursor.integer()?;
    if u8::try_from(value).is_err() {
        return Err(cursor.out_of_range(format!("{value} is not a byte, expected 0..=255"), start));
    }
    Ok(value)
}

/// A general analogue register.
pub(crate) const fn register() -> Operand {
    Operand::free(Kind::Custom(&GENERAL))
}

/// Any register on the bus.
pub(super) const fn to() -> Operand {
    Operand::free(Kind::Custom(&ON_BUS))
}

/// A further register on the bus, or none.
pub(super) const fn from() -> Operand {
    Operand::free(Kind::Custom(&ON_BUS_OR_ABSENT)).or(0)
}

/// A 1-bit register.
pub(super) const fn bit() -> Operand {
    Operand::free(Kind::Custom(&BIT))
}

/// A further 1-bit register, or none.
pub(super) const fn more_bits() -> Operand {
    Operand::free(Kind::Custom(&BIT_OR_ABSENT)).or(0)
}

/// A direction.
pub(super) const fn direction() -> Operand {
    Operand::free(Kind::Names(Direction::NAMES))
}

/// A byte.
pub(super) const fn byte() -> Operand {
    Operand::free(Kind::Custom(&BYTE))
}

/// What IN can hold.
pub(super) const fn level() -> Operand {
    Operand::free(Kind::Signed).within(i8::MIN as i128, i8::MAX as i128)
}

/// Refuses an absent operand before one that is present; no text says that.
pub(super) const GAPLESS: Fixup = Fixup { to_fields: refuse_gaps, to_values: keep };

fn refuse_gaps(values: &mut [i128], _: &Layout) -> Result<()> {
    let present = values.iter().rposition(|&value| value != 0).map_or(0, |last| last + 1);
    match values[..present].contains(&0) {
        true => Err(Diagnostic::bug("an operand is absent before one that is present")),
        false => Ok(()),
    }
}

fn keep(_: &mut [i128], _: &Layout) -> Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for name in ["A", "NEWS", "XN", "R12", "DA1", "R[scratch1]", "ABCDEFGHIJKLMNO"] {
            assert_eq!(Reg::new(name).unwrap().to_string(), name);
        }
        for name in ["", "a", "north", "1A", "A-", "A[", "A[]", "A[1", "ABCDEFGHIJKLMNOP", "Ä"] {
            assert_eq!(Reg::new(name), None, "{name}");
        }
    }

    #[test]
    fn steps_and_back() {
        for direction in Direction::ALL {
            let ((x, y), (u, v)) = (direction.step(), direction.opposite().step());
            assert_eq!((x + u, y + v), (0, 0));
            assert_eq!(Reg::toward(direction).direction(), Some(direction));
        }
        assert_eq!(Reg::NEWS.direction(), None);
    }
}
