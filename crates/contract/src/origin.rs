//! Where a number of a value comes from.

use quincunx_diag::Diagnostic;

/// The instruction that gave an element of an observable value its number: the last one before the
/// value is read that writes there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Which instruction: `instruction 12`, with whatever else it takes to find it.
    pub place: String,
    /// The instruction as the disassembler shows it.
    pub text: String,
    /// What it reads for this element, in its own notation and order: the place and the number there,
    /// before it runs.
    pub operands: Vec<(String, String)>,
    /// Where it writes the element, and the number there behind it, as the machine holds it.
    pub result: (String, String),
}

impl Origin {
    /// The problem of a program whose values cannot be followed, for a reason.
    pub fn not_followed(reason: &str) -> Diagnostic {
        let message = format!("no instruction is told for a number: {reason}");
        Diagnostic::unsupported("Q0522", message)
    }
}
