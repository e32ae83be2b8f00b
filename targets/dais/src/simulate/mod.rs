//! The simulators: programs run operation by operation, in exact integers, or prepared on many
//! samples at once.

mod exec;
mod fast;
mod stages;
mod state;

pub(crate) use exec::quantised;
pub use exec::{Executor, overflows};
pub use fast::{Fast, Worker};
pub use stages::PipelineExecutor;
pub use state::State;
