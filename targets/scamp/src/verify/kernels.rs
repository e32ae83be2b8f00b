//! Which kernels a program computes, and whether they are the wanted ones.

use super::digital::verify_digital;
use crate::arch::ScampArch;
use crate::files::{KernelFile, Mode};
use crate::program::Program;
use crate::simulate::WorkLimit;
use crate::task::Wanted;
use quincunx_diag::{Diagnostic, Result};

/// As [`verify_kernels_within`], with the limit of work that is the default.
///
/// # Errors
/// As [`verify_kernels_within`].
pub fn verify_kernels(
    program: &Program,
    file: &KernelFile,
    arch: &ScampArch,
) -> Result<Vec<Diagnostic>> {
    verify_kernels_within(program, file, arch, WorkLimit::default())
}

/// Compares what a program computes with the kernels of a file: analogue programs cell by cell, for
/// all images; digital ones by simulation on some images, which may cost `limit` altogether.
///
/// # Errors
/// As [`Wanted::check`] and the simulator; `Q5054` for kernels that are too large, `Q5043` for programs whose
/// results cannot be compared.
pub fn verify_kernels_within(
    program: &Program,
    file: &KernelFile,
    arch: &ScampArch,
    limit: WorkLimit,
) -> Result<Vec<Diagnostic>> {
    match (file.mode, &file.digital) {
        (Mode::Analogue, _) => Wanted::of_file(file)?.check(program),
        (_, Some(layout)) => verify_digital(program, file, layout, arch, limit),
        (_, None) => Err(Diagnostic::bug("a kernel file without the places of its bits")),
    }
}
