//! A prepared program: what is left of instructions when every address is known.

use crate::isa::SimdOp;

/// Vectors in the machine's cells: where the first one begins, and how far it is to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) base: u32,
    pub(super) step: u32,
}

/// What becomes of a result of SIMD besides a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    Nothing,
    Copy,
    Add,
}

/// A prepared instruction, or a part of one. Places are cells and exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// Bias plus the weights times vectors, into accumulators; `fresh` when the weights are others
    /// than those of the last one.
    Products { from: Run, to: Run, count: u32, add: bool, fresh: bool },
    /// Copies vectors, or adds them to what is there.
    Move { from: Run, to: Run, count: u32, add: bool },
    /// Moves the rows of the array on by so many.
    Shift { rows: u32 },
    /// Zeros in vectors that follow one another.
    Zero { to: u32, count: u32 },
    /// Lane by lane; the result is also written to, or added to, `write`.
    Simd { op: SimdOp, left: u32, right: u32, result: u32, write: u32, mode: Write },
    /// Closest keys; the entries go to the registers behind `registers`.
    Lookup { source: u32, result: u32, registers: u32, write: u32, mode: Write },
}

/// An operation with the instruction it comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub(super) op: Op,
    /// Index of the instruction.
    pub(super) instruction: u32,
}

/// Where everything is in the cells, first cell and vectors counted in lanes.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) lanes: usize,
    /// Accumulators come first, so that they can be split off from what is multiplied.
    pub(super) local: usize,
    pub(super) registers: usize,
    pub(super) weights: usize,
    /// The last vector that the array gave.
    pub(super) array: usize,
    /// A vector of zeros.
    pub(super) zero: usize,
    /// For results that go nowhere.
    pub(super) nowhere: usize,
    /// The index of keys, then the lookup tables.
    pub(super) tables: usize,
    /// Number of these.
    pub(super) table_count: usize,
    /// Entries of each.
    pub(super) entries: usize,
    pub(super) drams: [usize; 2],
    pub(super) end: usize,
}
