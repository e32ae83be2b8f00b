//! Operands of native instructions that have their own text form.

use quincunx_diag::{Diagnostic, Result};
use quincunx_isa::{Cursor, Custom, Layout, operand_newtype, print_number};
use std::sync::OnceLock;

/// A general register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grf(pub u8);

/// A general register, or `null`. The low bit says that there is a register, whose number lies
/// above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GrfOrNull(pub u16);

/// What stands in the braces: the dependency word ([`DEPENDENCY`]), [`ATOMIC`], [`BREAKPOINT`],
/// [`EOT`], [`EX_BSO`], [`ACC_WRITE`], [`FORWARD`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options(pub u32);

operand_newtype!(Grf(u8), GrfOrNull(u16), Options(u32));

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
        _ => {
            out.push('r');
            print_number(value >> 1, out);
        }
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
pub const ATOMIC: u32 = 1 << 10;
/// Stops a debugger.
pub const BREAKPOINT: u32 = 1 << 11;
/// The dependency word: that of systolic instructions from Xe-HPC on in bits 0 to 9, and in bits 12
/// and 13 the pipe (A, F or I) of a distance that stands with a token.
pub const DEPENDENCY: u32 = WORD | PIPE;
const WORD: u32 = (1 << 10) - 1;
const PIPE: u32 = 3 << 12;
/// The thread ends with this message.
pub const EOT: u32 = 1 << 14;
/// The extended descriptor of the message is in a0.
pub const EX_BSO: u32 = 1 << 15;
/// Writes the accumulator besides dst; xehpg only.
pub const ACC_WRITE: u32 = 1 << 16;
/// The sums of this instruction go to the next one before they are written; xe3p only.
pub const FORWARD: u32 = 1 << 17;
/// `NoAccSBSet`.
const NO_ACC: u32 = 0xf0;

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

    /// The dependency word; `None` for combinations that no instruction can carry.
    pub fn to_word(self) -> Option<u32> {
        let form = |form| match form {
            TokenUse::Dst => 0u32,
            TokenUse::Src => 1,
            TokenUse::Set => 2,
        };
        Some(match (self.distance, self.token, self.no_acc) {
            (None, None, false) => 0,
            (None, None, true) => NO_ACC,
            (Some((pipe, distance)), None, false) => u32::from(pipe) << 3 | u32::from(distance),
            (None, Some((used, token)), false) => (0x80 + 0x20 * form(used)) | u32::from(token),
            (Some((pipe, distance)), Some((used, token)), false) if pipe < 4 => {
                let mode = 3 - form(used);
                let low = u32::from(distance) << 5 | u32::from(token);
                let legal = matches!((mode, pipe), (_, 0) | (3, 1) | (1, _));
                return legal.then_some(u32::from(pipe) << 12 | mode << 8 | low);
            }
            _ => return None,
        })
    }

    /// The meaning of a dependency word; `None` if it has none.
    pub fn from_word(word: u32) -> Option<Dependency> {
        let (token, distance) = ((word & 31) as u8, (word >> 5 & 7) as u8);
        let low = (word & 7) as u8;
        let forms = [TokenUse::Dst, TokenUse::Src, TokenUse::Set];
        let (pipe, mode) = ((word >> 12) as u8, word >> 8 & 3);
        match word & WORD {
            _ if word & !DEPENDENCY != 0 => None,
            0x100..0x400 if distance > 0 && matches!((mode, pipe), (_, 0) | (3, 1) | (1, _)) => {
                Some(Dependency {
                    distance: Some((pipe, distance)),
                    token: Some((forms[3 - mode as usize], token)),
                    no_acc: false,
                })
            }
            _ if pipe != 0 => None,
            0 => Some(Dependency::default()),
            NO_ACC => Some(Dependency { no_acc: true, ..Dependency::default() }),
            1..0x38 => (low > 0).then(|| Dependency::distance((word >> 3) as u8, low)),
            0x80..0xe0 => Some(Dependency::token(forms[usize::from(distance - 4)], token)),
            _ => None,
        }
    }

    fn print(self, out: &mut String) {
        if let Some((pipe, distance)) = self.distance {
            *out += PIPES[usize::from(pipe)];
            out.push('@');
            print_number(distance.into(), out);
        }
        if let Some((used, token)) = self.token {
            *out += if self.distance.is_some() { ",$" } else { "$" };
            print_number(token.into(), out);
            *out += match used {
                TokenUse::Dst => ".dst",
                TokenUse::Src => ".src",
                TokenUse::Set => "",
            };
        }
        // No instruction carries it with others.
        *out += if self.no_acc { "NoAccSBSet" } else { "" };
    }
}

impl Options {
    /// The dependency; `None` only for words that no reader makes.
    pub fn dependency(self) -> Option<Dependency> {
        Dependency::from_word(self.0 & DEPENDENCY)
    }

    /// True when the thread ends here.
    pub fn is_end(self) -> bool {
        self.0 & EOT != 0
    }

    /// True when `Fwd` is there.
    pub fn is_forwarded(self) -> bool {
        self.0 & FORWARD != 0
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
        u32::try_from(value).is_ok_and(|value| {
            value < 2 * FORWARD && Dependency::from_word(value & DEPENDENCY).is_some()
        })
    },
    random: random_options,
};

fn random_options(below: &mut dyn FnMut(u64) -> u64) -> i128 {
    let dependency = match below(6) {
        0 => 0,
        1 => below(7) << 3 | (1 + below(7)),
        2 => [0x80, 0xa0, 0xc0][below(3) as usize] | below(32),
        3 => (1 + below(3)) << 8 | (1 + below(7)) << 5 | below(32),
        4 => {
            let form = [0x0100, 0x1100, 0x1300, 0x2100, 0x3100][below(5) as usize];
            form | (1 + below(7)) << 5 | below(32)
        }
        _ => u64::from(NO_ACC),
    };
    let rare = if below(8) == 0 { below(16) << 14 } else { 0 };
    i128::from(dependency | below(4) << 10 | rare)
}

fn parse_options(cursor: &mut Cursor<'_>) -> Result<i128> {
    let (mut flags, mut dependency) = (0, Dependency::default());
    loop {
        let start = cursor.position();
        let behind = |pipe: &str| cursor.rest().strip_prefix(pipe);
        let at = |pipe: &&str| behind(pipe).is_some_and(|rest| rest.starts_with('@'));
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
        } else if let Some(&(bit, _)) = FLAGS.iter().find(|(_, name)| cursor.eat_word(name)) {
            flags |= bit;
        } else if cursor.eat_word("NoAccSBSet") {
            dependency.no_acc = true;
        } else if !DROPPED.iter().any(|name| cursor.eat_word(name)) {
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
        None => Err(cursor.expected("a dependency that an instruction can carry")),
    }
}

/// Options that are bits, in the order in which they are printed.
const FLAGS: [(u32, &str); 6] = [
    (ATOMIC, "Atomic"),
    (BREAKPOINT, "Breakpoint"),
    (EOT, "EOT"),
    (EX_BSO, "ExBSO"),
    (ACC_WRITE, "AccWrEn"),
    (FORWARD, "Fwd"),
];

/// The peer reads the first two, which have no bits. The third says that a compiler's listing is of
/// code with short forms; we write long ones.
const DROPPED: [&str; 3] = ["Serialize", "Switch", "Compacted"];

fn print_options(value: i128, out: &mut String) {
    let Ok(value) = u32::try_from(value) else { return };
    let start = out.len();
    for (bit, name) in FLAGS {
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

/// Who carries a dependency word: instructions store a distance with a token differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// dpas, dpasw.
    Systolic,
    /// math.
    Math,
    /// send.
    Send,
    /// Everything else.
    Other,
}

impl Class {
    /// The words of a distance with a token, by their mode in machine code from Xe-HPC on (1 to 3).
    fn modes(self) -> [u32; 3] {
        match self {
            Class::Systolic => [0x0100, 0x0200, 0x0300],
            Class::Send => [0x1100, 0x2100, 0x3100],
            Class::Math | Class::Other => [0x0300, 0x0200, 0x1300],
        }
    }

    /// The only word of a distance with a token on xehpg.
    fn narrow_mode(self) -> u32 {
        match self {
            Class::Systolic | Class::Math => 0x0100,
            Class::Send => 0x1100,
            Class::Other => 0x0300,
        }
    }
}

const MODE: u32 = PIPE | 0x300;

/// Indices of the parameters that the tables of native instructions begin with.
pub(crate) const SWSB_BITS: usize = 0;
pub(crate) const OFFSET_UNIT: usize = 1;
const SCALAR_PIPE: usize = 2;

/// The dependency word as machine code stores it.
pub(crate) fn store_word(word: u32, class: Class, layout: &Layout) -> Result<i128> {
    let narrow = layout.param_at(SWSB_BITS) == 8;
    let scalar = layout.param_at(SCALAR_PIPE) == 1;
    let mode = word & MODE;
    let stored = match (narrow, mode) {
        (true, 0) => narrow_word(word),
        (true, _) => (mode == class.narrow_mode() && word & 31 < 16)
            .then_some(0x80 | (word >> 5 & 7) << 4 | word & 31),
        (false, 0) => (scalar || !(0x30..0x38).contains(&word)).then_some(word),
        (false, _) => {
            let at = (1u32..).zip(class.modes()).find(|&(_, other)| other == mode);
            at.map(|(at, _)| at << 8 | word & 0xff)
        }
    };
    stored.map(i128::from).ok_or_else(no_such_dependency)
}

/// The dependency word of what machine code stores.
pub(crate) fn load_word(stored: i128, class: Class, layout: &Layout) -> Result<u32> {
    let narrow = layout.param_at(SWSB_BITS) == 8;
    let stored = stored as u32;
    let word = match narrow {
        true if stored >= 0x80 => Some(class.narrow_mode() | (stored >> 4 & 7) << 5 | stored & 15),
        true => {
            static WORDS: OnceLock<[Option<u32>; 0x80]> = OnceLock::new();
            let words = WORDS.get_or_init(|| {
                std::array::from_fn(|stored| {
                    (0..0x100).find(|&word| {
                        Dependency::from_word(word).is_some()
                            && narrow_word(word) == Some(stored as u32)
                    })
                })
            });
            words[stored as usize]
        }
        false => match (stored >> 8) as usize {
            0 => Some(stored),
            mode => class.modes().get(mode - 1).map(|mode| mode | stored & 0xff),
        },
    };
    let meant = |word: &u32| Dependency::from_word(*word).is_some();
    let word = word.filter(meant).ok_or_else(no_such_dependency)?;
    store_word(word, class, layout).map(|_| word)
}

fn no_such_dependency() -> Diagnostic {
    Diagnostic::invalid("Q6013", "the instruction can have no such dependency on this machine")
        .help(
            "xehpg has tokens 0 to 15; a distance and a token go together only in some forms, \
             which depend on the instruction",
        )
}

/// The 8-bit form of a distance or a token; `None` if it has none.
fn narrow_word(word: u32) -> Option<u32> {
    let (token, distance) = (word & 31, word >> 5 & 7);
    match word {
        0x00..0x20 => Some(word),
        0x20..0x28 => Some(word + 0x30),
        0x80..0x90 | 0xa0..0xb0 | 0xc0..0xd0 => Some((distance - 2) << 4 | token),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Platform;
    use crate::isa::native_layout;

    #[test]
    fn words_and_dependencies_are_one_to_one() {
        let mut meaningful = 0;
        for word in (0..4 << 12).filter(|word| word & !DEPENDENCY == 0) {
            if let Some(dependency) = Dependency::from_word(word) {
                assert_eq!(dependency.to_word(), Some(word));
                meaningful += 1;
            }
        }
        // Nothing, NoAccSBSet, 7 pipes of 7 distances, 3 forms of 32 tokens, 7 of 32 tokens with 7
        // distances.
        assert_eq!(meaningful, 2 + 7 * 7 + 3 * 32 + 7 * 32 * 7);
    }

    #[test]
    fn machine_code_and_words_are_one_to_one() {
        for platform in Platform::ALL {
            let layout = native_layout(platform);
            let bits = layout.param("swsb_bits").unwrap();
            for class in [Class::Systolic, Class::Math, Class::Send, Class::Other] {
                let mut legal = 0;
                for stored in 0..1 << bits {
                    if let Ok(word) = load_word(stored, class, layout) {
                        assert_eq!(store_word(word, class, layout).unwrap(), stored);
                        legal += 1;
                    }
                }
                assert!(legal > 180, "{platform:?} {class:?} {legal}");
            }
        }
    }
}
