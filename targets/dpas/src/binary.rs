//! Machine code and byte code.

#![deny(clippy::arithmetic_side_effects)]

pub mod native;
pub mod visa;
