//! Executing programs.

mod conv;
mod exec;
mod moves;
mod state;
mod vector;

pub(crate) use exec::work_of;
pub use exec::{Executor, Settings};
pub use state::{Counts, Dram, State};
