//! What a MatMul asks of a number format.

use super::format::Format;
use super::narrow::Packed;
use crate::simulate::Flow;

/// Vectors that follow one another, and the vectors that they become.
pub(super) struct Products<'a, F: Format> {
    /// Scalars of a vector.
    pub(super) lanes: usize,
    /// How many vectors.
    pub(super) vectors: usize,
    /// The vectors.
    pub(super) x: &'a [F::Cell],
    /// The bias, then a row for every lane.
    pub(super) weights: &'a [F::Cell],
    /// The same weights in the form that vector kernels read.
    pub(super) packed: &'a Packed,
    /// Bias plus the weights times each vector.
    pub(super) y: &'a mut [F::Cell],
    /// Counts what saturates.
    pub(super) flow: &'a mut Flow,
}
