//! Assembly text and traces to programs and back, byte for byte.
//!
//! Facts: `gemini` (`docs/bibliography.md`). One instruction per line: `[name, map, fields]`, in
//! traces `[name, map, times, fields]`. What a line holds between its brackets is a sequence of
//! fixed pieces of text with values between them; `schema` makes that sequence from the instruction
//! table, once, and reading and printing walk along it.

#![deny(clippy::arithmetic_side_effects)]

mod map;
mod print;
mod read;
mod scan;
mod schema;

pub use print::{print, print_line};
pub use read::{Read, read};
pub use schema::Schema;

/// True if a text begins like one of this machine's: with a bracket and the name of an instruction.
pub fn recognises(bytes: &[u8]) -> bool {
    let Some(rest) = bytes.strip_prefix(b"[") else { return false };
    let Some(end) = rest.iter().take(32).position(|&byte| byte == b',') else { return false };
    schema::row_of(&rest[..end]).is_some()
}
