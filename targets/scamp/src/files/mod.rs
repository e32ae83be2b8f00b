//! Files that are no programs: kernel files of Cain, and noise files.

#![deny(clippy::arithmetic_side_effects)]

mod filters;
mod graph;
mod kernel;
mod layout;
mod noise;
mod places;
mod stages;

pub(crate) use filters::{is_filter_list, read_filters};
pub use graph::to_graph;
pub use kernel::{Kernel, KernelFile, MAX_DEPTH, Mode, read_kernels};
pub use layout::{Bit, DigitalLayout};
pub(crate) use layout::{Channel, Layout, grid, layout_of, read_layout};
pub(crate) use noise::read_noise;
pub(crate) use stages::{Around, Converter, Stages};

use quincunx_contract::File;
use quincunx_diag::{Diagnostic, SourceId};

/// True for kernels: a file of Cain, or a list of filters.
pub(crate) fn is_kernel_file(text: &str) -> bool {
    let is_cains = text.trim_start().starts_with('{')
        && ["\"target\"", "\"scamp5\"", "\"filter\""].iter().all(|word| text.contains(word));
    is_cains || is_filter_list(text)
}

/// Reads the kernels of a file, which is the source of this number.
pub(crate) fn kernels(
    file: &File,
    source: SourceId,
) -> std::result::Result<KernelFile, Vec<Diagnostic>> {
    let text = file.text()?;
    let kernels = match is_filter_list(text) {
        true => filters::read_filter(text, &file.name, source),
        false => kernel::read(text, source),
    };
    kernels.map_err(|problem| match problem.labels().is_empty() {
        true => problem.name_file(&file.name).into(),
        false => problem.into(),
    })
}
