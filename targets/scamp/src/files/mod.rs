//! Files of other tools: kernel files of Cain.

#![deny(clippy::arithmetic_side_effects)]

mod graph;
mod kernel;
mod layout;

pub use graph::to_graph;
pub use kernel::{Kernel, KernelFile, MAX_DEPTH, Mode, read_kernels};
pub use layout::{Bit, DigitalLayout};

use quincunx_contract::File;
use quincunx_diag::Diagnostic;

/// True for JSON that says it is Cain's.
pub(crate) fn is_kernel_file(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && ["\"target\"", "\"scamp5\"", "\"filter\""].iter().all(|word| text.contains(word))
}

/// Reads a kernel file.
pub(crate) fn kernels(file: &File) -> std::result::Result<KernelFile, Vec<Diagnostic>> {
    let text = file.text()?;
    read_kernels(text).map_err(|problem| problem.name_file(&file.name).into())
}
