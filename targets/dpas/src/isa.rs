//! The instruction tables: every instruction once.
//!
//! * [`native`]: the 128-bit machine code of systolic instructions, with its assembly text;
//! * [`vector`]: that of the others: arithmetic, branches, waits, messages;
//! * [`visa`]: the virtual instruction, with its text and byte code;
//! * `math`: the functions of `math`.
//!
//! Facts: `visa`, `igc`, `iga` (`docs/bibliography.md`). What is marked "ours" is defined here.

pub(crate) mod math;
pub mod native;
pub mod operands;
pub mod vector;
pub mod visa;

use crate::arch::Platform;
use quincunx_isa::{Layout, Table};
use std::sync::OnceLock;

/// Every table; the first is that of the machine code.
pub static TABLES: &[&Table] = &[&native::TABLE, &vector::TABLE, &visa::TABLE];

/// The layout of the machine code of a platform.
pub fn native_layout(platform: Platform) -> &'static Layout {
    static LAYOUTS: OnceLock<[Layout; 5]> = OnceLock::new();
    &LAYOUTS.get_or_init(|| Platform::ALL.map(native::layout))[platform as usize]
}

/// The layout of the machine code of vector instructions of a platform.
pub fn vector_layout(platform: Platform) -> &'static Layout {
    static LAYOUTS: OnceLock<[Layout; 5]> = OnceLock::new();
    &LAYOUTS.get_or_init(|| Platform::ALL.map(vector::layout))[platform as usize]
}

/// The layout of byte code: with 2 or 4 bytes for a variable, and with or without the predicate
/// that readers since 2026 expect.
pub fn visa_layout(short_index: bool, predicate: bool) -> &'static Layout {
    static LAYOUTS: OnceLock<[Layout; 4]> = OnceLock::new();
    let make = |index: usize| visa::layout(index & 1 == 1, index & 2 == 2);
    let layouts = LAYOUTS.get_or_init(|| std::array::from_fn(make));
    &layouts[usize::from(short_index) | usize::from(predicate) << 1]
}
