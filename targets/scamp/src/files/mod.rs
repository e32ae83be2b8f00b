//! Files of other tools: kernel files of Cain.

mod graph;
mod kernel;
mod layout;

pub use graph::to_graph;
pub use kernel::{Kernel, KernelFile, MAX_DEPTH, Mode, read_kernels};
pub use layout::{Bit, DigitalLayout};
