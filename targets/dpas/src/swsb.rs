//! Dependencies between native instructions (SWSB).
//!
//! Systolic instructions, messages and (on xehpg) `math` finish out of order. One takes a token (`$3`); a later
//! instruction waits until its results are written (`$3.dst`) or its sources are read (`$3.src`).
//! Taking a token that is in use waits until it is free. Instructions of other pipes are in order
//! within their pipe and are waited for by distance (`F@1`). Systolic instructions marked
//! `{Atomic}` form a macro with the next one; the last one's token stands for all, and only the first
//! waits for anything.

pub mod assign;
mod blocks;
pub mod check;
pub(crate) mod effects;
mod live;

pub use assign::assign;
pub use check::check;
pub use effects::{Effects, Unit, effects, macro_fault, unit, vector_effects};
pub use live::{Live, live};
