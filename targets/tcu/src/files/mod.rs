//! The other files of the ecosystem: `.tmodel` (what a program needs and where its inputs and
//! outputs lie), `.tdata` (constants) and performance samples.

mod data;
mod model;
mod packing;
mod samples;
mod stem;

pub use data::{read_data, write_data};
pub use model::{Consts, Model, Prog, Vectors};
pub use packing::Packing;
pub use samples::{Block, Bus, INVALID, Sample, Samples, analyse};

pub(crate) use stem::stem;
