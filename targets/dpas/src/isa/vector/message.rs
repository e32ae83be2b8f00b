//! Operands of messages, waits and jumps.

use quincunx_diag::Result;
use quincunx_isa::{Cursor, Custom, operand_newtype, print_hex, print_number};
use std::fmt::Write as _;

/// Registers of a message's data: bit 0 says that there is a register, then its number (8 bits) and
/// how many there are (5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Payload(pub u16);

/// Extended descriptor: from bit 1 on the bits 11 to 14 and 16 to 31 of a number; or bit 0, and in bits
/// 5 to 7 the address sub-register that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extended(pub u32);

/// Descriptor: a number of 32 bits, or bit 32 for `a0.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Descriptor(pub u64);

operand_newtype!(Payload(u16), Extended(u32), Descriptor(u64));

impl Payload {
    /// Registers from one on.
    pub fn new(register: u8, count: u8) -> Payload {
        Payload(1 | u16::from(register) << 1 | u16::from(count & 31) << 9)
    }

    /// `null:0`.
    pub const NULL: Payload = Payload(0);

    /// The first register, if there is one, and how many.
    pub fn registers(self) -> (Option<u8>, u8) {
        ((self.0 & 1 == 1).then_some((self.0 >> 1 & 255) as u8), (self.0 >> 9) as u8)
    }
}

/// `r157:2`, `null:0`.
pub(super) static PAYLOAD: Custom = Custom {
    name: "registers of data such as `r4:2` or `null:0`",
    parse: |cursor| {
        let start = cursor.position();
        let mut value = 0;
        if !cursor.eat_word("null") {
            cursor.expect("r")?;
            match cursor.integer()? {
                number @ 0..256 => value = 1 | number << 1,
                _ => return Err(cursor.out_of_range("there is no such register", start)),
            }
        }
        cursor.expect(":")?;
        let at = cursor.position();
        match cursor.integer()? {
            count @ 0..32 => Ok(value | count << 9),
            _ => Err(cursor.out_of_range("a message has at most 31 registers", at)),
        }
    },
    print: |value, out| {
        let (register, count) = Payload(value as u16).registers();
        match register {
            Some(register) => {
                out.push('r');
                print_number(register.into(), out);
            }
            None => *out += "null",
        }
        out.push(':');
        print_number(count.into(), out);
    },
    legal: |value| (0..1 << 14).contains(&value) && (value & 1 == 1 || value & 0x1fe == 0),
    random: |below| match below(3) {
        0 => 0,
        _ => i128::from(1 | below(256) << 1 | below(32) << 9),
    },
};

impl Extended {
    /// The number, if it is one.
    pub fn number(self) -> Option<u32> {
        (self.0 & 1 == 0).then_some((self.0 >> 1 & 15) << 11 | self.0 >> 5 << 16)
    }

    /// The address sub-register, if it is in one.
    pub fn register(self) -> Option<u8> {
        (self.0 & 1 == 1).then_some((self.0 >> 5 & 7) as u8)
    }
}

/// `0x0`, `0xFF000000`, `a0.2`.
pub(super) static EXTENDED: Custom =
    Custom {
        name: "an extended descriptor: a number such as `0x0`, or `a0.2`",
        parse: |cursor| {
            let start = cursor.position();
            if cursor.eat("a0.") {
                return match cursor.integer()? {
                    sub @ 0..8 => Ok(1 | sub << 5),
                    _ => Err(cursor.out_of_range("the sub-registers are 0 to 7", start)),
                };
            }
            match cursor.integer()? {
                number @ 0..0x1_0000_0000 if number & 0x87ff == 0 => {
                    Ok((number >> 11 & 15) << 1 | number >> 16 << 5)
                }
                _ => Err(cursor
                    .out_of_range("an extended descriptor has bits 11 to 14 and 16 to 31", start)),
            }
        },
        print: |value, out| {
            let own = Extended(value as u32);
            match (own.register(), own.number()) {
                (Some(sub), _) => {
                    *out += "a0.";
                    print_number(sub.into(), out);
                }
                (_, None | Some(0)) => *out += "0x0",
                (_, Some(number)) => print_hex(number.into(), 8, out),
            }
        },
        legal: |value| {
            let in_register = (0..1 << 8).contains(&value) && value & 0x1f == 1;
            in_register || ((0..1 << 21).contains(&value) && value & 1 == 0)
        },
        random: |below| match below(3) {
            0 => 0,
            1 => i128::from(below(1 << 20) << 1),
            _ => i128::from(1 | below(8) << 5),
        },
    };

/// `0x020ED584`, `a0.0`.
pub(super) static DESCRIPTOR: Custom = Custom {
    name: "a descriptor: a number of 32 bits or `a0.0`",
    parse: |cursor| {
        let start = cursor.position();
        if cursor.eat_word("a0.0") {
            return Ok(1 << 32);
        }
        match cursor.integer()? {
            number @ 0..0x1_0000_0000 => Ok(number),
            _ => Err(cursor.out_of_range("a descriptor has 32 bits", start)),
        }
    },
    print: |value, out| match value >> 32 {
        0 => print_hex(value as u64, 8, out),
        _ => *out += "a0.0",
    },
    legal: |value| (0..=1 << 32).contains(&value),
    random: |below| match below(8) {
        0 => 1 << 32,
        _ => i128::from(below(1 << 32)),
    },
};

/// `($3,$4)`.
pub(super) static TOKENS: Custom = Custom {
    name: "tokens such as `($3,$4)`",
    parse: |cursor| {
        cursor.expect("(")?;
        let mut mask = 0i128;
        loop {
            cursor.skip_blanks();
            cursor.expect("$")?;
            let start = cursor.position();
            match cursor.integer()? {
                token @ 0..32 => mask |= 1 << token,
                _ => return Err(cursor.out_of_range("the tokens are 0 to 31", start)),
            }
            cursor.skip_blanks();
            if !cursor.eat(",") {
                break;
            }
        }
        cursor.expect(")")?;
        Ok(mask)
    },
    print: |value, out| {
        let list: Vec<String> = (0..32)
            .filter(|token| value >> token & 1 == 1)
            .map(|token| format!("${token}"))
            .collect();
        let _ = write!(out, "({})", list.join(","));
    },
    legal: |value| (1..1 << 32).contains(&value),
    random: |below| i128::from(1 + below((1 << 32) - 1)),
};

/// Marks the place of a label in the text: the start in bits 32 to 63, the length in bits 0 to 31.
pub const LABEL: i128 = 1 << 64;

/// Where a jump leads: bytes from its instruction on, or the name of a label, which the reader of the
/// text replaces.
pub(super) static JUMP_TARGET: Custom = Custom {
    name: "a label, or a number of bytes",
    parse: parse_target,
    print: print_number,
    legal: |value| (LABEL..2 * LABEL).contains(&value) || i32::try_from(value).is_ok(),
    random: |below| (i128::from(below(1 << 20)) - (1 << 19)) * 16,
};

fn parse_target(cursor: &mut Cursor<'_>) -> Result<i128> {
    let start = cursor.position();
    if cursor.peek().is_some_and(|c| c == '-' || c.is_ascii_digit()) {
        let number = cursor.integer()?;
        return match i32::try_from(number) {
            Ok(number) => Ok(number.into()),
            Err(_) => Err(cursor.out_of_range("a jump has 32 bits", start)),
        };
    }
    let length = cursor.identifier()?.len();
    // A text has at most 1 GiB, as its spans.
    Ok(LABEL | (start as i128 & 0xffff_ffff) << 32 | length as i128 & 0xffff_ffff)
}
