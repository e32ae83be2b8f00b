//! The other files of the ecosystem: `.tmodel` (what a program needs and where its inputs and
//! outputs lie), `.tdata` (constants) and performance samples.

mod data;
mod model;
mod packing;
mod samples;
mod stem;
mod unknown;

pub use data::{read_data, write_data};
pub use model::{Consts, Model, Prog, Vectors};
pub use packing::Packing;
pub use samples::{Block, Bus, INVALID, Sample, Samples, analyse};

pub(crate) use stem::stem;
pub(crate) use unknown::unknown_keys;

use quincunx_diag::Diagnostic;
use serde_json::error::Category;

/// The error for malformed JSON, at its byte.
pub(crate) fn json_error(code: &'static str, text: &str, error: &serde_json::Error) -> Diagnostic {
    let message = error.to_string();
    // The place is said apart from the message.
    let message = message.split(" at line ").next().unwrap_or(&message);
    let message = match error.classify() {
        Category::Eof => "the JSON text ends too early".to_owned(),
        Category::Syntax => format!("this is not JSON: {message}"),
        Category::Data | Category::Io => message.to_owned(),
    };
    let before = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    let offset = before.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
    Diagnostic::invalid(code, message).at_byte(offset as u64).with_note(format!(
        "line {}, column {}",
        error.line(),
        error.column()
    ))
}
