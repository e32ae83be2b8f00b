//! Assembly text of both kinds.

pub mod native;
pub mod visa;

use crate::isa::vector;

/// Most bytes of a text: spans of names are 32-bit numbers.
pub const MAX_TEXT: usize = 1 << 30;

/// The two languages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Native assembly.
    Native,
    /// vISA.
    Visa,
}

/// The language of a text, by its first line that says something; `None` if it is neither.
pub fn recognise(text: &str) -> Option<Language> {
    text.lines().map(str::trim).find_map(|line| {
        let line = match line.strip_prefix("(") {
            // A mask and a predicate of native text, such as `(W&f0.0)`.
            Some(rest) if rest.starts_with(['W', 'f', '~']) => {
                rest.split_once(')').map_or(line, |(_, behind)| behind).trim_start()
            }
            _ => line,
        };
        let end = line.find(|c: char| c.is_whitespace()).unwrap_or(line.len());
        let word = line[..end].to_ascii_lowercase();
        match word.as_str() {
            ".raw" | "sync.nop" | "sync.allrd" | "sync.allwr" => Some(Language::Native),
            _ if is_vector(&word, &line[end..]) => Some(Language::Native),
            ".version" | ".kernel" | ".decl" => Some(Language::Visa),
            _ => {
                let rest = word.strip_prefix("dpasw.").or_else(|| word.strip_prefix("dpas."))?;
                let native = rest.starts_with(|c: char| c.is_ascii_digit());
                Some(if native { Language::Native } else { Language::Visa })
            }
        }
    })
}

/// True for an instruction of native text: its mnemonic, and lanes behind it.
fn is_vector(word: &str, rest: &str) -> bool {
    let mnemonic = word.split('.').next().unwrap_or(word);
    let known = vector::TABLE.find(mnemonic).next().is_some() || native::is_memory(mnemonic);
    known && rest.trim_start().starts_with('(') && rest.contains("|M")
}

/// Digits of bytes in memory order.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of digits in memory order; `None` if they are not pairs of hexadecimal digits.
pub fn from_hex(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let pair = |at| u8::from_str_radix(&digits[at..at + 2], 16).ok();
    (0..digits.len()).step_by(2).map(pair).collect()
}
