//! What a simulator holds.

use std::ops::{Deref, DerefMut};

/// A line of the processor's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [u32; 16]);

// SAFETY: 16 numbers, of which all may be 0.
unsafe impl bytemuck::Zeroable for Line {}
// SAFETY: 16 numbers take 64 bytes, so that the alignment adds none.
unsafe impl bytemuck::Pod for Line {}

/// Bytes at an address that is a multiple of 64, so that no vector of 512 bits crosses a line of the
/// processor's cache.
///
/// Invariant: the lines hold `length` bytes, and zeros behind them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlignedBytes {
    lines: Vec<Line>,
    length: usize,
}

impl AlignedBytes {
    /// So many zeros.
    pub fn new(length: usize) -> AlignedBytes {
        AlignedBytes { lines: vec![Line([0; 16]); length.div_ceil(64)], length }
    }
}

impl From<Vec<u8>> for AlignedBytes {
    fn from(bytes: Vec<u8>) -> AlignedBytes {
        let mut aligned = AlignedBytes::new(bytes.len());
        aligned.copy_from_slice(&bytes);
        aligned
    }
}

impl Deref for AlignedBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.length]
    }
}

impl DerefMut for AlignedBytes {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.length]
    }
}

/// The registers, or the variables, of one thread or of two fused ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Bytes of each thread, lowest address first.
    pub threads: Vec<AlignedBytes>,
    /// Lanes that are switched on.
    pub dispatch_mask: u32,
}

impl State {
    /// Zeroed threads with all lanes on.
    pub fn new(threads: usize, bytes: usize) -> State {
        State { threads: vec![AlignedBytes::new(bytes); threads], dispatch_mask: u32::MAX }
    }
}
