//! Function of `bfn`: a truth table of three bits, written as its number or as an expression.
//!
//! Bit `s0 + 2 * s1 + 4 * s2` of the number is the result. `&` binds before `^`, `^` before `|`.

use quincunx_diag::Result;
use quincunx_isa::{Cursor, Custom};
use std::fmt::Write as _;

/// Most characters of an expression.
const MAX_LENGTH: usize = 200;

/// A function such as `0x82` or `(s0&s1)`.
pub(super) static FUNCTION: Custom = Custom {
    name: "a function such as `0x82` or `(s0&s1)`",
    parse,
    print: |value, out| {
        let _ = match usize::try_from(value).ok().and_then(|at| EXPRESSIONS.get(at)) {
            Some(text) => write!(out, "({text})"),
            None => write!(out, "{value:#x}"),
        };
    },
    legal: |value| (0..256).contains(&value),
    random: |below| i128::from(below(256)),
};

fn parse(cursor: &mut Cursor<'_>) -> Result<i128> {
    let start = cursor.position();
    if !cursor.rest().starts_with('(') {
        return match cursor.integer()? {
            number @ 0..256 => Ok(number),
            _ => Err(cursor.out_of_range("a function has 8 bits", start)),
        };
    }
    let mut parser = Parser { cursor, start };
    parser.primary().map(i128::from)
}

struct Parser<'a, 'b> {
    cursor: &'a mut Cursor<'b>,
    start: usize,
}

impl Parser<'_, '_> {
    fn or(&mut self) -> Result<u8> {
        let mut value = self.xor()?;
        while self.cursor.eat("|") {
            value |= self.xor()?;
        }
        Ok(value)
    }

    fn xor(&mut self) -> Result<u8> {
        let mut value = self.and()?;
        while self.cursor.eat("^") {
            value ^= self.and()?;
        }
        Ok(value)
    }

    fn and(&mut self) -> Result<u8> {
        let mut value = self.primary()?;
        while self.cursor.eat("&") {
            value &= self.primary()?;
        }
        Ok(value)
    }

    fn primary(&mut self) -> Result<u8> {
        // Bounds the depth of the recursion.
        if self.cursor.position() > self.start + MAX_LENGTH {
            return Err(self.cursor.out_of_range("the function is too long", self.start));
        }
        if self.cursor.eat("~") {
            return self.primary().map(|value| !value);
        }
        if self.cursor.eat("(") {
            let value = self.or()?;
            self.cursor.expect(")")?;
            return Ok(value);
        }
        let names = [("s0", 0xaa), ("s1", 0xcc), ("s2", 0xf0), ("zeros", 0), ("ones", 0xff)];
        let found = names.into_iter().find(|(name, _)| self.cursor.eat_word(name));
        found.map(|(_, value)| value).ok_or_else(|| self.cursor.expected("s0, s1 or s2"))
    }
}

/// How the vendor's assembler writes each function (`iga` in `docs/bibliography.md`).
#[rustfmt::skip]
static EXPRESSIONS: [&str; 256] = [
    "zeros", "~s0&~s1&~s2", "s0&~s1&~s2", "~s1&~s2", "~s0&s1&~s2", "~s0&~s2", "(s0^s1)&~s2",
    "(~s0|~s1)&~s2", "s0&s1&~s2", "(s0^~s1)&~s2", "s0&~s2", "(s0|~s1)&~s2", "s1&~s2",
    "(~s0|s1)&~s2", "(s0|s1)&~s2", "~s2", "~s0&~s1&s2", "~s0&~s1", "(s0^s2)&~s1",
    "(~s0|~s2)&~s1", "~s0&(s1^s2)", "~s0&(~s1|~s2)", "s0^(s0&s1|s1^s2)", "~s0&~s1|(~s0|~s1)&~s2",
    "(s0^s2)&(s1^s2)", "s0^(s0&s2|~s1)", "s0^(s0|~s1)&s2", "s0&~s2|~s0&~s1", "(s0&s2|s1)^s2",
    "~s0&~s1|s1&~s2", "(s0|s1)^s2", "~s0&~s1|~s2", "s0&~s1&s2", "(s0^~s2)&~s1", "s0&~s1",
    "(s0|~s2)&~s1", "(s0^s1)&(s1^s2)", "s0^(s0&s1|~s2)", "s0^(s0|~s2)&s1", "s0&~s1|~s0&~s2",
    "s0&(s1^s2)", "s0^(s0|~s1)&(s1^~s2)", "s0&(~s1|~s2)", "s0&~s1|(s0|~s1)&~s2",
    "(~s0&s2|s1)^s2", "(~s0|s1)^s2", "s0&~s1|s1&~s2", "s0&~s1|~s2", "~s1&s2", "(~s0|s2)&~s1",
    "(s0|s2)&~s1", "~s1", "(s0&s1|s2)^s1", "~s0&~s2|~s1&s2", "(s0|s2)^s1", "~s0&~s2|~s1",
    "(~s0&s1|s2)^s1", "(~s0|s2)^s1", "s0&~s2|~s1&s2", "s0&~s2|~s1", "s1^s2", "~s0&~s1|s1^s2",
    "s0&~s1|s1^s2", "~s1|~s2", "~s0&s1&s2", "~s0&(s1^~s2)", "(s0^s1)&(s1^~s2)", "(s0&s1|~s2)^s1",
    "~s0&s1", "~s0&(s1|~s2)", "s0^(s0&s2|s1)", "~s0&s1|~s1&~s2", "(s0^s2)&s1",
    "s0^(s0&s2|s1^~s2)", "s0^(s0|s1)&s2", "(s0|~s1)^s2", "(~s0|~s2)&s1", "~s0&s1|(~s0|s1)&~s2",
    "s0&~s2|~s0&s1", "~s0&s1|~s2", "~s0&s2", "~s0&(~s1|s2)", "s0^(s0&s1|s2)", "~s0&s2|~s1&~s2",
    "~s0&(s1|s2)", "~s0", "s0^(s1|s2)", "~s0|~s1&~s2", "s0^(s0&~s1|s2)", "s0^(~s1|s2)", "s0^s2",
    "s0^s2|~s0&~s1", "~s0&s2|s1&~s2", "~s0|s1&~s2", "s0^s2|s1&~s2", "~s0|~s2", "(s0^s1)&s2",
    "s0^(s0&s1|s1^~s2)", "s0^(s0|s2)&s1", "(s0|~s2)^s1", "s0^(s0&~s2|s1)", "s0^(s1|~s2)",
    "s0^s1", "s0^s1|~s0&~s2", "s0^(s0|s1)&(s1^~s2)", "s0^s1^~s2", "s0^s1&s2", "s0^s1&s2|~s1&~s2",
    "(~s0|~s2)^~s1", "s0^(s1|~s2)|s1&~s2", "s0^s1|s0&~s2", "s0^s1|~s2", "(~s0|~s1)&s2",
    "~s0&s2|(~s0|s2)&~s1", "s0&~s1|~s0&s2", "~s0&s2|~s1", "~s0&s1|~s1&s2", "~s0|~s1&s2",
    "s0^s1|~s0&s2", "~s0|~s1", "(~s0|~s1)^~s2", "s0^(~s1|s2)|~s1&s2", "s0^s2|s0&~s1",
    "s0^s2|~s1", "~s0&s1|s1^s2", "~s0|s1^s2", "s0^s1|s1^s2", "~s0|~s1|~s2", "s0&s1&s2",
    "(s0^~s1)&(s1^~s2)", "s0&(s1^~s2)", "(~s0&s1|~s2)^s1", "(s0^~s2)&s1", "s0^(s0&~s1|~s2)",
    "s0^(s0|s1)&(s1^s2)", "(~s0|~s1)^s2", "s0&s1", "s0^(s0|~s2)&~s1", "s0&(s1|~s2)",
    "s0&s1|~s1&~s2", "(s0|~s2)&s1", "s0&s1|~s0&~s2", "s0&s1|(s0|s1)&~s2", "s0&s1|~s2",
    "(s0^~s1)&s2", "s0^(s0&~s2|~s1)", "s0^(s0|s2)&(s1^s2)", "(~s0|~s2)^s1", "s0^(s0&~s1|s1^s2)",
    "s0^(~s1|~s2)", "s0^s1^s2", "s0^(~s1|~s2)|~s1&~s2", "s0^(s0|s2)&~s1", "s0^~s1", "s0^~s1&s2",
    "s0^~s1|s0&~s2", "(s0|~s2)^~s1", "s0^~s1|s1&~s2", "s0^~s1&s2|s1&~s2", "s0^~s1|~s2", "s0&s2",
    "s0^(s0|~s1)&~s2", "s0&(~s1|s2)", "s0&s2|~s1&~s2", "s0^(s0|s1)&~s2", "s0^~s2", "s0^s1&~s2",
    "s0^~s2|s0&~s1", "s0&(s1|s2)", "s0^~s1&~s2", "s0", "s0|~s1&~s2", "s0&s2|s1&~s2",
    "s0^~s2|s0&s1", "s0|s1&~s2", "s0|~s2", "(s0|~s1)&s2", "s0&s2|~s0&~s1", "s0&s2|(s0|s2)&~s1",
    "s0&s2|~s1", "(s0|~s1)^~s2", "s0^~s2|~s0&~s1", "s0^s1&~s2|~s1&s2", "s0^~s2|~s1",
    "s0&s1|~s1&s2", "s0^~s1|s0&s2", "s0|~s1&s2", "s0|~s1", "s0&s1|s1^s2", "s0^~s1|s1^s2",
    "s0|s1^s2", "s0|~s1|~s2", "s1&s2", "(s0&~s1|s2)^~s1", "(~s0&~s1|s2)^~s1", "s1^~s2",
    "(~s0|s2)&s1", "~s0&~s2|s1&s2", "(~s0|s2)^~s1", "~s0&s1|s1^~s2", "(s0|s2)&s1", "(s0|s2)^~s1",
    "s0&~s2|s1&s2", "s0&s1|s1^~s2", "s1", "~s0&~s2|s1", "s0&~s2|s1", "s1|~s2", "(~s0|s1)&s2",
    "~s0&~s1|s1&s2", "(~s0|s1)^~s2", "~s0&s2|s1^~s2", "~s0&s1|(~s0|s1)&s2", "~s0|s1&s2",
    "s0^(s1|s2)|s1&s2", "~s0|s1^~s2", "s0&s1|~s0&s2", "s0^~s1|s1&s2", "s0^s2|s0&s1",
    "s0^s2|s1^~s2", "~s0&s2|s1", "~s0|s1", "s0^s2|s1", "~s0|s1|~s2", "(s0|s1)&s2", "(s0|s1)^~s2",
    "s0&~s1|s1&s2", "s0&s2|s1^~s2", "s0&s2|~s0&s1", "s0^~s2|s1&s2", "s0^s1|s0&s2",
    "s0^s1|s1^~s2", "s0&s1|(s0|s1)&s2", "s0^~s1&~s2|s1&s2", "s0|s1&s2", "s0|s1^~s2", "s0&s2|s1",
    "s0^~s2|s1", "s0|s1", "s0|s1|~s2", "s2", "~s0&~s1|s2", "s0&~s1|s2", "~s1|s2", "~s0&s1|s2",
    "~s0|s2", "s0^s1|s2", "~s0|~s1|s2", "s0&s1|s2", "s0^~s1|s2", "s0|s2", "s0|~s1|s2", "s1|s2",
    "~s0|s1|s2", "s0|s1|s2", "ones",
];

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_diag::SourceId;
    use quincunx_isa::Style;

    #[test]
    fn expressions_mean_their_numbers() {
        for (number, text) in EXPRESSIONS.iter().enumerate() {
            let text = format!("({text})");
            let mut cursor = Cursor::new(&text, SourceId(0), Style::SLASHES);
            assert_eq!(parse(&mut cursor).unwrap(), number as i128, "{text}");
            assert!(cursor.at_end());
        }
    }
}
