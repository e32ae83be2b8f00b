//! Machine code and byte code.

pub mod native;
pub mod visa;
