//! The readable simulator, and a fast one that does the same.

pub mod decode;
pub mod exact;
pub(crate) mod exec;
pub mod fast;
pub mod float;
pub mod launch;
pub mod lower;
pub mod message;
mod state;
pub mod thread;
mod value;
mod vector;

pub use decode::real;
pub use exec::{Operation, Step, multiply};
pub use fast::Plan;
pub use float::{Model, Rules};
pub use state::{AlignedBytes, State};
