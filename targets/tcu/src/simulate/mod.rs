//! The machine, executed instruction by instruction.

mod arithmetic;
mod driver;
mod exec;
mod fast;
mod memory;
mod simd;
mod state;

#[doc(hidden)]
pub use arithmetic::arithmetic_of;
pub use arithmetic::{Arithmetic, Fixed, Float, Flow, fused, with_arithmetic};
pub use driver::{Driver, Pattern, flush_probe};
pub use exec::{Executor, Notice, Watch};
pub use fast::Fast;
pub use memory::Dram;
pub use state::State;
