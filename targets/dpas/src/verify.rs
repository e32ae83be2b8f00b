//! Legality rules, each with a code and a test. Dependencies between instructions are the business
//! of [`swsb`](crate::swsb).

#![deny(clippy::arithmetic_side_effects)]

mod native;
mod rules;
mod vector;
mod visa;

use crate::arch::DpasArch;
use crate::program::Program;
use crate::shape::RowStride;
use quincunx_diag::Diagnostic;

/// What an option has to allow, and what else the rules depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allow {
    /// Precisions of one bit.
    pub one_bit: bool,
    /// `df`.
    pub df: bool,
    /// Where the rows of A start when the depth is below 8.
    pub stride: RowStride,
}

/// Everything illegal in a program, and warnings.
pub fn verify(program: &Program, arch: &DpasArch, allow: &Allow) -> Vec<Diagnostic> {
    match program {
        Program::Native(listing) => native::verify(listing, arch, allow),
        Program::Visa(kernel) => visa::verify(kernel, arch, allow),
    }
}
