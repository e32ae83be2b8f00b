//! Weights of convolutions, packed for the kernels when a convolution first finds them in the
//! buffer.

use crate::work::{
    Conv, PARAMETER_BYTES, WeightDest, Weights, buffer_row_bytes, ceil8, channel_bytes,
    element_bytes,
};
use quincunx_num::{Left, Level, Matrix, Packed};
use std::ops::Range;

/// How a convolution reads the weight buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    core: usize,
    /// The first byte.
    start: usize,
    /// Bytes from output channel to output channel.
    row: usize,
    /// Output channels.
    channels: usize,
    groups: usize,
    /// Input channels of a group; the bytes they take at each position; positions of the window.
    pub(super) inputs: usize,
    pub(super) width: usize,
    positions: usize,
    /// Inputs have signs.
    signed: bool,
}

impl Block {
    pub(super) fn of(core: usize, conv: &Conv, unit: u32) -> Block {
        let row = conv.weight_row();
        Block {
            core,
            start: conv.weights as usize * unit as usize,
            row: (buffer_row_bytes(row, 1) + PARAMETER_BYTES) as usize,
            channels: conv.tile[1] as usize,
            groups: conv.groups as usize,
            inputs: row[0] as usize,
            width: ceil8(row[0]) as usize,
            positions: row[1] as usize * row[2] as usize,
            signed: conv.signed[0],
        }
    }

    /// Products of a sum.
    pub(super) fn depth(&self) -> usize {
        self.positions * self.width
    }

    /// Every output channel has one input channel of its own.
    pub(super) fn is_depthwise(&self) -> bool {
        self.groups > 1 && self.inputs == 1 && self.groups == self.channels
    }

    /// No sum leaves 32 bits.
    pub(super) fn is_exact(&self) -> bool {
        let largest = if self.signed { 128 } else { 255 };
        self.depth() <= i32::MAX as usize / (128 * largest)
    }

    fn bytes(&self) -> Range<usize> {
        self.start..self.start + self.channels * self.row
    }
}

/// Bytes of the weight buffer that a line writes.
pub(super) fn written(weights: &Weights, at: u32, unit: u32) -> Range<usize> {
    debug_assert!(matches!(weights.dest, WeightDest::Wl0(_)), "weights for the buffer");
    let row = buffer_row_bytes(weights.dest_row, element_bytes(weights.format));
    let start = at as usize * unit as usize;
    start..start + channel_bytes(weights.channels, row) as usize
}

/// The blocks that are packed at a point of the program, by slot.
#[derive(Default)]
pub(super) struct Blocks {
    slots: Vec<Option<Block>>,
    /// The slot that is given up next when all are in use.
    next: usize,
}

/// Blocks that are kept packed at the same time.
const SLOTS: usize = 64;

impl Blocks {
    /// Forgets blocks of which bytes are written.
    pub(super) fn overwrite(&mut self, core: usize, bytes: Range<usize>) {
        for slot in &mut self.slots {
            let hit = |block: &mut Block| {
                let own = block.bytes();
                block.core == core && own.start < bytes.end && bytes.start < own.end
            };
            slot.take_if(hit);
        }
    }

    /// The slot of a block, and whether it is packed already.
    pub(super) fn find(&mut self, block: Block) -> (usize, bool) {
        if let Some(slot) = self.slots.iter().position(|slot| *slot == Some(block)) {
            return (slot, true);
        }
        let free = self.slots.iter().position(Option::is_none);
        let slot = free.unwrap_or_else(|| match self.slots.len() {
            SLOTS => {
                self.next = (self.next + 1) % SLOTS;
                self.next
            }
            length => {
                self.slots.push(None);
                length
            }
        });
        self.slots[slot] = Some(block);
        (slot, false)
    }

    /// Slots that were ever in use.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }
}

/// Packed weights with the factors and offsets of the sums.
pub(super) struct Pack {
    pub(super) factors: Vec<f32>,
    pub(super) offsets: Vec<f32>,
    pub(super) weights: Products,
}

/// Packed weights: one matrix per group.
pub(super) enum Products {
    Signed(Vec<Packed<i8>>),
    Unsigned(Vec<Packed<u8>>),
    /// For each position of the window, all channels.
    Depthwise(Vec<i16>),
}

impl Pack {
    pub(super) fn new(block: &Block, wl0: &[u8], level: Level) -> Pack {
        let parameters = |offset: usize| {
            let place = block.row - PARAMETER_BYTES as usize + offset;
            let at = |k: usize| block.start + k * block.row + place;
            let number = |k: usize| {
                let bytes = &wl0[at(k)..at(k) + 4];
                f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
            };
            (0..block.channels).map(number).collect()
        };
        let weights = match (block.is_depthwise(), block.signed) {
            (true, _) => Products::Depthwise(depthwise(block, wl0)),
            (_, true) => Products::Signed(groups(block, wl0, level)),
            (_, false) => Products::Unsigned(groups(block, wl0, level)),
        };
        Pack { factors: parameters(0), offsets: parameters(4), weights }
    }
}

fn depthwise(block: &Block, wl0: &[u8]) -> Vec<i16> {
    let mut weights = Vec::with_capacity(block.positions * block.channels);
    for position in 0..block.positions {
        let first = &wl0[block.start + position * block.width..];
        let channels = first.iter().step_by(block.row).take(block.channels);
        weights.extend(channels.map(|&weight| i16::from(weight.cast_signed())));
    }
    weights
}

fn groups<L: Left<Right = i8>>(block: &Block, wl0: &[u8], level: Level) -> Vec<Packed<L>> {
    let (count, depth) = (block.channels / block.groups, block.depth());
    let group = |group: usize| {
        let bytes = &wl0[block.start + group * count * block.row..];
        if block.inputs == block.width {
            let rows = Matrix::new(bytemuck::cast_slice(bytes), count, depth, block.row, 1);
            return Packed::for_level(rows.transposed(), level);
        }
        // What lies between the channels of two positions is no weight.
        let mut rows = Vec::with_capacity(count * depth);
        for row in bytes.chunks(block.row).take(count) {
            for position in row[..depth].chunks(block.width) {
                rows.extend(position[..block.inputs].iter().map(|&weight| weight.cast_signed()));
                rows.resize(rows.len() + block.width - block.inputs, 0);
            }
        }
        Packed::for_level(Matrix::row_major(&rows, count, depth).transposed(), level)
    };
    (0..block.groups).map(group).collect()
}
