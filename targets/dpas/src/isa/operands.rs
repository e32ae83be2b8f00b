//! Operands of native instructions that have their own text form.

use crate::arch::Platform;
use quincunx_diag::Result;
use quincunx_isa::{Cursor, Custom, operand_newtype};

/// A general register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grf(pub u8);

/// A general register, or `null`. The low bit says that there is a register, whose number lies
/// above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GrfOrNull(pub u16);

/// What stands in the braces: the dependency word in the 10-bit form, [`ATOMIC`], [`BREAKPOINT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options(pub u16);

operand_newtype!(Grf(u8), GrfOrNull(u16), Options(u16));

impl GrfOrNull {
    /// The register, if there is one.
    pub fn register(self) -> Option<u8> {
        // The number is below 256.
        (self.0 & 1 == 1).then_some((self.0 >> 1) as u8)
    }
}

/// `r12`, or `null`.
pub static GRF_OR_NULL: Custom = Custom {
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

/// An instruction of a macro that is not its last one.
pub const ATOMIC: u16 = 1 << 10;
/// Stops a debugger.
pub const BREAKPOINT: u16 = 1 << 11;
/// The dependency word.
pub const DEPENDENCY: u16 = ATOMIC - 1;
/// `NoAccSBSet`.
const NO_ACC: u16 = 0xf0;

/// Pipes of a distance by their code; the first is the pipe that the hardware derives.
pub const PIPES: [&str; 7] = ["", "A", "F", "I", "L", "M", "S"];

/// How a token is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenUse {
    /// Waits until the results are written.
    Dst,
    /// Waits until the sources are read.
    Src,
    /// Waits until the token is free, and takes it.
    Set,
}

/// What an instruction waits for, and the token it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Dependency {
    /// Pipe (index in [`PIPES`]) and distance 1 to 7.
    pub distance: Option<(u8, u8)>,
    /// Token 0 to 31.
    pub token: Option<(TokenUse, u8)>,
    /// `NoAccSBSet`.
    pub no_acc: bool,
}

impl Dependency {
    /// Only a token.
    pub fn token(form: TokenUse, token: u8) -> Dependency {
        Dependency { token: Some((form, token)), ..Dependency::default() }
    }

    /// Only a distance.
    pub fn distance(pipe: u8, distance: u8) -> Dependency {
        Dependency { distance: Some((pipe, distance)), ..Dependency::default() }
    }

    /// The 10-bit word; `None` for combinations that have none.
    pub fn to_word(self) -> Option<u16> {
        let form = |form| match form {
            TokenUse::Dst => 0u16,
            TokenUse::Src => 1,
            TokenUse::Set => 2,
        };
        Some(match (self.distance, self.token, self.no_acc) {
            (None, None, false) => 0,
            (None, None, true) => NO_ACC,
            (Some((pipe, distance)), None, false) => u16::from(pipe) << 3 | u16::from(distance),
            (None, Some((used, token)), false) => (0x80 + 0x20 * form(used)) | u16::from(token),
            (Some((0, distance)), Some((used, token)), false) => {
                (3 - form(used)) << 8 | u16::from(distance) << 5 | u16::from(token)
            }
            _ => return None,
        })
    }

    /// The meaning of a 10-bit word; `None` if it has none.
    pub fn from_word(word: u16) -> Option<Dependency> {
        let (token, distance) = ((word & 31) as u8, (word >> 5 & 7) as u8);
        let low = (word & 7) as u8;
        let forms = [TokenUse::Dst, TokenUse::Src, TokenUse::Set];
        match word {
            0 => Some(Dependency::default()),
            NO_ACC => Some(Dependency { no_acc: true, ..Dependency::default() }),
            1..0x38 => (low > 0).then(|| Dependency::distance((word >> 3) as u8, low)),
            0x80..0xe0 => Some(Dependency::token(forms[usize::from(distance - 4)], token)),
            0x100..0x400 if distance > 0 => Some(Dependency {
                distance: Some((0, distance)),
                token: Some((forms[3 - usize::from(word >> 8)], token)),
                no_acc: false,
            }),
            _ => None,
        }
    }

    fn print(self, out: &mut String) {
        let distance = self.distance.map(|(pipe, d)| format!("{}@{d}", PIPES[usize::from(pipe)]));
        let token = self.token.map(|(used, token)| match used {
            TokenUse::Dst => format!("${token}.dst"),
            TokenUse::Src => format!("${token}.src"),
            TokenUse::Set => format!("${token}"),
        });
        let no_acc = self.no_acc.then(|| "NoAccSBSet".to_owned());
        let list: Vec<String> = [distance, token, no_acc].into_iter().flatten().collect();
        *out += &list.join(",");
    }
}

impl Options {
    /// The dependency; `None` only for words that no reader makes.
    pub fn dependency(self) -> Option<Dependency> {
        Dependency::from_word(self.0 & DEPENDENCY)
    }

    /// True if a platform has the pipe and the token of the dependency.
    pub fn fits(self, platform: Platform) -> bool {
        match platform {
            Platform::XeHpg => narrow(i128::from(self.0 & DEPENDENCY)).is_some(),
            _ => !matches!(
                self.dependency().and_then(|dependency| dependency.distance),
                Some((6, _)) if platform < Platform::Xe3
            ),
        }
    }

    /// True when `Atomic` is there.
    pub fn is_atomic(self) -> bool {
        self.0 & ATOMIC != 0
    }
}

/// What stands in the braces.
pub static OPTIONS: Custom = Custom {
    name: "options such as `Atomic`, `@1`, `$3.dst`",
    parse: parse_options,
    print: print_options,
    legal: |value| {
        u16::try_from(value).is_ok_and(|value| {
            value < 4 * ATOMIC && Dependency::from_word(value & DEPENDENCY).is_some()
        })
    },
    random: random_options,
};

fn random_options(below: &mut dyn FnMut(u64) -> u64) -> i128 {
    let dependency = match below(5) {
        0 => 0,
        1 => below(7) << 3 | (1 + below(7)),
        2 => [0x80, 0xa0, 0xc0][below(3) as usize] | below(32),
        3 => (1 + below(3)) << 8 | (1 + below(7)) << 5 | below(32),
        _ => u64::from(NO_ACC),
    };
    i128::from(dependency) | i128::from(below(4)) << 10
}

fn parse_options(cursor: &mut Cursor<'_>) -> Result<i128> {
    let (mut flags, mut dependency) = (0, Dependency::default());
    loop {
        let start = cursor.position();
        let at = |pipe: &&str| cursor.rest().starts_with(&format!("{pipe}@"));
        if let Some(pipe) = PIPES.iter().position(at) {
            cursor.eat(PIPES[pipe]);
            cursor.eat("@");
            let number = cursor.integer()?;
            if !(1..8).contains(&number) || dependency.distance.is_some() {
                return Err(cursor.out_of_range("this distance cannot be here", start));
            }
            dependency.distance = Some((pipe as u8, number as u8));
        } else if cursor.eat("$") {
            let number = cursor.integer()?;
            let used = if cursor.eat_word(".dst") {
                TokenUse::Dst
            } else if cursor.eat_word(".src") {
                TokenUse::Src
            } else {
                TokenUse::Set
            };
            if !(0..32).contains(&number) || dependency.token.is_some() {
                return Err(cursor.out_of_range("this token cannot be here", start));
            }
            dependency.token = Some((used, number as u8));
        } else if cursor.eat_word("Atomic") {
            flags |= ATOMIC;
        } else if cursor.eat_word("Breakpoint") {
            flags |= BREAKPOINT;
        } else if cursor.eat_word("NoAccSBSet") {
            dependency.no_acc = true;
        } else if !cursor.eat_word("Serialize") && !cursor.eat_word("Switch") {
            // The peer reads these two, which have no bits.
            return Err(cursor.expected(OPTIONS.name));
        }
        cursor.skip_blanks();
        if !cursor.eat(",") {
            break;
        }
        cursor.skip_blanks();
    }
    match dependency.to_word() {
        Some(word) => Ok(i128::from(word | flags)),
        None => Err(cursor.expected("a distance without a pipe")),
    }
}

fn print_options(value: i128, out: &mut String) {
    let Ok(value) = u16::try_from(value) else { return };
    let start = out.len();
    for (bit, name) in [(ATOMIC, "Atomic"), (BREAKPOINT, "Breakpoint")] {
        if value & bit != 0 {
            *out += if out.len() > start { "," } else { "" };
            *out += name;
        }
    }
    if value & DEPENDENCY != 0 {
        *out += if out.len() > start { "," } else { "" };
        Dependency::from_word(value & DEPENDENCY).unwrap_or_default().print(out);
    }
}

/// The dependency word in the 8-bit form of xehpg; `None` if it has none.
pub(crate) fn narrow(word: i128) -> Option<i128> {
    let (token, distance) = (word & 31, word >> 5 & 7);
    match word {
        0x00..0x20 => Some(word),
        0x20..0x28 => Some(word + 0x30),
        0x80..0x90 | 0xa0..0xb0 | 0xc0..0xd0 => Some((distance - 2) << 4 | token),
        0x120..0x200 if token < 16 => Some(0x80 | distance << 4 | token),
        _ => None,
    }
}

/// The 10-bit form of an 8-bit word.
pub(crate) fn widen(narrow_word: i128) -> Option<i128> {
    let legal = |word: &i128| Dependency::from_word(*word as u16).is_some();
    (0..i128::from(ATOMIC)).filter(legal).find(|&word| narrow(word) == Some(narrow_word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_dependencies_are_one_to_one() {
        let mut meaningful = 0;
        for word in 0..ATOMIC {
            if let Some(dependency) = Dependency::from_word(word) {
                assert_eq!(dependency.to_word(), Some(word));
                meaningful += 1;
            }
        }
        // Nothing, NoAccSBSet, 7 pipes of 7 distances, 3 forms of 32 tokens, the same with 7
        // distances.
        assert_eq!(meaningful, 2 + 7 * 7 + 3 * 32 + 3 * 32 * 7);
    }

    #[test]
    fn narrow_words_widen_to_one_word() {
        for word in 0..256 {
            if let Some(wide) = widen(word) {
                assert_eq!(narrow(wide), Some(word));
            }
        }
        assert_eq!(widen(0x51), Some(0x21));
    }
}
