//! Executing programs.

mod conv;
mod exec;
mod fast;
mod moves;
mod operands;
mod state;
mod vector;

pub(crate) use exec::work_of;
pub use exec::{Executor, Settings};
pub use fast::{Coverage, Fast};
pub(crate) use operands::reaches;
pub use state::{Counts, Dram, State};
