//! The simulator: programs run operation by operation, in exact integers.

mod exec;
mod state;

pub use exec::{Executor, PipelineExecutor, overflows};
pub use state::State;

pub(crate) use exec::lookup_offset;
