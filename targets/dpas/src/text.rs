//! Assembly text of both kinds.

pub mod native;
pub mod visa;

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
        let line = line.strip_prefix("(W)").unwrap_or(line).trim_start();
        let end = line.find(|c: char| c.is_whitespace()).unwrap_or(line.len());
        let word = line[..end].to_ascii_lowercase();
        match word.as_str() {
            ".raw" | "sync.nop" | "sync.allrd" | "sync.allwr" => Some(Language::Native),
            "mov" if line[end..].trim_start().starts_with('(') => Some(Language::Native),
            ".version" | ".kernel" | ".decl" => Some(Language::Visa),
            _ => {
                let rest = word.strip_prefix("dpasw.").or_else(|| word.strip_prefix("dpas."))?;
                let native = rest.starts_with(|c: char| c.is_ascii_digit());
                Some(if native { Language::Native } else { Language::Visa })
            }
        }
    })
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
