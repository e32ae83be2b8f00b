//! What an instruction does once the registers of its queue are known.
//!
//! Queues execute in order, so that the registers an instruction sees follow from the lines before
//! it in the file ([`resolve`]). Checking, timing and simulating all start from [`Work`]; none of
//! them reads configuration instructions again.

#![deny(clippy::arithmetic_side_effects)]

mod footprint;
mod lines;
mod registers;

pub use footprint::{Access, Memory, Pattern, Span, accesses};
pub(crate) use lines::real;
pub use lines::{Lines, lines};
pub use registers::{Registers, Scalar, VpConfig};

use crate::isa::{ActMode, DataFmt, Float2Fixed, Number, YCutMode};
use crate::program::Program;
use std::num::Saturating;

/// Channels, rows and columns.
pub type Extents = [u32; 3];

/// A place in L2: a region and a byte in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Region.
    pub region: u8,
    /// Byte in the region; it wraps at the region's length.
    pub address: i64,
}

/// Bytes of an element.
pub fn element_bytes(format: DataFmt) -> u32 {
    if format == DataFmt::FP16 { 2 } else { 1 }
}

/// Rounds up to a multiple of 8.
pub fn ceil8(value: u32) -> u32 {
    value.div_ceil(8).saturating_mul(8)
}

/// A number that stays at the ends of its 64 bits.
pub(crate) fn wide(number: impl Into<i64>) -> Saturating<i64> {
    Saturating(number.into())
}

/// The product, or the largest number.
pub(crate) fn product<const N: usize>(factors: [u64; N]) -> u64 {
    factors.into_iter().fold(1, u64::saturating_mul)
}

/// Bytes from one pixel to the next in L2.
pub fn pitch(channels: u32, bytes: u32) -> u32 {
    ceil8(channels.saturating_mul(bytes))
}

/// A copy of activations between DRAM and L2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copy {
    /// True from DRAM to L2.
    pub load: bool,
    /// DRAM base.
    pub bas: u8,
    /// The DRAM side has no padding between pixels.
    pub dense: bool,
    /// Format of the elements.
    pub format: DataFmt,
    /// Byte in DRAM.
    pub dram: u32,
    /// Place in L2.
    pub l2: Place,
    /// Images.
    pub images: u32,
    /// Channels, rows and columns copied.
    pub tile: Extents,
    /// The tensor in DRAM.
    pub dram_tensor: Extents,
    /// The tensor in L2.
    pub l2_tensor: Extents,
}

impl Copy {
    /// Bytes from one pixel to the next in DRAM.
    pub fn dram_pixel(&self) -> u32 {
        let (channels, bytes) = (self.dram_tensor[0], element_bytes(self.format));
        if self.dense { channels.saturating_mul(bytes) } else { pitch(channels, bytes) }
    }
}

/// Where weights come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WeightSource {
    /// DRAM: base and byte.
    Dram {
        /// Base.
        bas: u8,
        /// Byte.
        address: u32,
    },
    /// The own L2.
    L2(Place),
    /// The L2 of another core, without regions.
    Remote {
        /// The core.
        core: u8,
        /// Byte in its L2.
        address: u32,
    },
}

/// Where weights go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WeightDest {
    /// The own L2, in the layout of DRAM.
    L2(Place),
    /// The weight buffer, at this unit.
    Wl0(u32),
}

/// A copy of weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// From.
    pub source: WeightSource,
    /// To.
    pub dest: WeightDest,
    /// Format of a weight.
    pub format: DataFmt,
    /// Masked input channels, if masking is on.
    pub mask: Option<u8>,
    /// What the rows of the array divide; `None` for weights that go to L2.
    pub y_cut: Option<YCutMode>,
    /// Channels, kernel rows and columns of a source row.
    pub source_row: Extents,
    /// The same of a destination row.
    pub dest_row: Extents,
    /// Output channels.
    pub channels: u32,
    /// Channels, kernel rows and columns copied of each.
    pub row: Extents,
}

/// Bytes of the parameters behind the weights of an output channel.
pub const PARAMETER_BYTES: u64 = 32;

/// Bytes of the weights of one output channel in DRAM and L2, without parameters.
pub fn dense_row_bytes([c, r, s]: Extents, bytes: u32) -> u64 {
    product([pitch(c, bytes), r, s].map(u64::from))
}

/// The same in the weight buffer.
pub fn buffer_row_bytes(row: Extents, bytes: u32) -> u64 {
    dense_row_bytes(row, bytes).div_ceil(32).saturating_mul(32)
}

/// Bytes of so many output channels: of each a row of weights and the parameters.
pub fn channel_bytes(channels: u32, row: u64) -> u64 {
    row.saturating_add(PARAMETER_BYTES).saturating_mul(channels.into())
}

/// Channels of the block that so many output channels lie in.
fn block_of(channels: u32) -> u32 {
    channels.div_ceil(64).saturating_mul(64)
}

impl Weights {
    /// Bytes of the block in the weight buffer.
    pub fn buffer_bytes(&self) -> u64 {
        let row = buffer_row_bytes(self.dest_row, element_bytes(self.format));
        channel_bytes(block_of(self.channels), row)
    }

    /// Bytes of the block in DRAM or L2 with rows of this size.
    pub fn dense_bytes(&self, row: Extents) -> u64 {
        channel_bytes(self.channels, dense_row_bytes(row, element_bytes(self.format)))
    }

    /// Bytes of an output channel in the source, parameters included.
    pub fn dense_row(&self) -> u64 {
        channel_bytes(1, dense_row_bytes(self.source_row, element_bytes(self.format)))
    }

    /// True when the DRAM port is used.
    pub fn uses_dram(&self) -> bool {
        matches!(self.source, WeightSource::Dram { .. })
    }
}

/// Which convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvKind {
    /// `pe_conv`.
    Plain,
    /// `pe_dicv`.
    Dilated,
    /// `pe_decv`.
    Transposed,
    /// `pe_gpcv`.
    Grouped,
    /// `pe_fc`.
    Dense,
}

/// A convolution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conv {
    /// Which.
    pub kind: ConvKind,
    /// Formats of input, weights and output.
    pub formats: [DataFmt; 3],
    /// Whether inputs and outputs have signs.
    pub signed: [bool; 2],
    /// Code outside the image.
    pub pad: Number,
    /// Input tensor.
    pub source: Extents,
    /// Output tensor.
    pub dest: Extents,
    /// Activation function and its parameter.
    pub activation: (ActMode, Number),
    /// Rounding, offset, factor of the output.
    pub quantiser: (Float2Fixed, Number, Number),
    /// Mode, offset and factor with which ADDEN reads the destination; `None` without ADDEN.
    pub accumulate: Option<(u8, Number, Number)>,
    /// Strides of rows and columns.
    pub stride: [u32; 2],
    /// What the rows of the array divide.
    pub y_cut: YCutMode,
    /// Kernel rows and columns.
    pub kernel: [u32; 2],
    /// Images, output channels, input channels, output rows, output columns.
    pub tile: [u32; 5],
    /// Mini tile: output channels in units of 8, input channels in words.
    pub mini: [u32; 2],
    /// Mini tile: output rows and columns minus 1.
    pub mini_image: [u32; 2],
    /// Distances of kernel points.
    pub dilate: [u32; 2],
    /// Distances of input points.
    pub insert: [u32; 2],
    /// Groups of channels.
    pub groups: u32,
    /// Block of input channels that is summed first.
    pub phase: u32,
    /// First input row and column.
    pub start: [i32; 2],
    /// Byte of the first input position.
    pub input: Place,
    /// Weights in units of the weight buffer.
    pub weights: u32,
    /// Output.
    pub output: Place,
}

impl Conv {
    /// Channels, rows and columns of the weights of an output channel.
    pub fn weight_row(&self) -> Extents {
        let channels = self.tile[2].checked_div(self.groups).unwrap_or(self.tile[2]);
        [channels, self.kernel[0], self.kernel[1]]
    }

    /// Bytes of the tile's weights in the buffer.
    pub fn weight_bytes(&self) -> u64 {
        let row = buffer_row_bytes(self.weight_row(), element_bytes(self.formats[1]));
        channel_bytes(block_of(self.tile[1]), row)
    }

    /// Input positions (rows or columns) after zeros are inserted.
    pub fn spread(&self, axis: usize) -> i64 {
        let [_, rows, columns] = self.source;
        span([rows, columns][axis], self.insert[axis].max(1)).0
    }

    /// One past the last input position that the tile can touch, in spread positions.
    pub fn reach(&self, axis: usize) -> i64 {
        let [.., rows, columns] = self.tile;
        let kernel = span(self.kernel[axis], self.dilate[axis].max(1));
        let last = span([rows, columns][axis], self.stride[axis]);
        (wide(self.start[axis]) + last + kernel - Saturating(1)).0
    }
}

/// Multiplications of a convolution.
pub fn products(conv: &Conv) -> u64 {
    let [n, k, _, h, w] = conv.tile.map(u64::from);
    let row = conv.weight_row().map(u64::from);
    [n, k, h, w].into_iter().chain(row).fold(1, u64::saturating_mul)
}

/// From the first to the last of `count` positions that lie `step` apart, both included.
fn span(count: u32, step: u32) -> Saturating<i64> {
    (wide(count) - Saturating(1)) * wide(step) + Saturating(1)
}

/// Which vector instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VectorKind {
    /// `vp_self`.
    Single,
    /// `vp_pool`.
    Pool,
    /// `vp_upsm`.
    Enlarge,
}

/// A vector instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Vector {
    /// Which.
    pub kind: VectorKind,
    /// All registers of the queue.
    pub config: VpConfig,
    /// IQEN.
    pub dequantise: bool,
    /// QEN.
    pub quantise: u8,
    /// SHMD.
    pub shift: u8,
    /// GPMD.
    pub groups: u8,
    /// CMPD, TREED, ACCD, TM: what is refused unless 0.
    pub reserved: [u8; 4],
    /// SWRS.
    pub scalar_result: u8,
    /// LUT.
    pub modules: u8,
    /// IPH and IPW.
    pub start: [i32; 2],
    /// Tensor 0.
    pub input: Place,
    /// Tensor 1.
    pub second: Place,
    /// Output.
    pub output: Place,
}

impl Vector {
    /// Whether there is a tensor 1.
    pub fn has_second(&self) -> bool {
        self.kind == VectorKind::Single && self.config.second_axes != 0
    }

    /// Bytes of an input element.
    pub fn input_bytes(&self) -> u32 {
        self.config.bytes(self.config.formats[0])
    }

    /// Bytes of an output element.
    pub fn output_bytes(&self) -> u32 {
        self.config.bytes(self.config.formats[1])
    }

    /// The extents of a tensor whose axes without a bit have one entry.
    pub fn masked(&self, axes: u8) -> Extents {
        let [c, h, w] = self.config.source;
        let keep = |bit: u8, extent: u32| if axes & bit != 0 { extent } else { 1 };
        [keep(1, c), keep(4, h), keep(2, w)]
    }
}

/// A reordering inside L2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reorder {
    /// Order of the axes.
    pub order: u8,
    /// Format.
    pub format: DataFmt,
    /// Source and destination tensors.
    pub tensors: [Extents; 2],
    /// From and to.
    pub places: [Place; 2],
    /// Images.
    pub images: u32,
    /// Channels, rows and columns of the source.
    pub tile: Extents,
}

/// A copy between cores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Remote {
    /// True when it reads from the other core.
    pub receive: bool,
    /// The other core.
    pub core: u8,
    /// It waits for a signal of the other core.
    pub waits: bool,
    /// It signals the other core when it ends.
    pub signals: bool,
    /// Format.
    pub format: DataFmt,
    /// Source and destination tensors.
    pub tensors: [Extents; 2],
    /// From and to.
    pub places: [Place; 2],
    /// Images; 0 moves nothing.
    pub images: u32,
    /// Channels, rows and columns.
    pub tile: Extents,
}

/// Four regions of L2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regions {
    /// Number of the first.
    pub first: u8,
    /// KiB and last KiB of each.
    pub cuts: [(u16, u16); 4],
}

/// What a line does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    /// A task begins.
    Begin,
    /// A task ends.
    End,
    /// Regions are set.
    Regions(Regions),
    /// Registers are set.
    Configure,
    /// Activations are copied.
    Copy(Copy),
    /// Weights are copied.
    Weights(Weights),
    /// A convolution.
    Conv(Conv),
    /// A vector instruction.
    Vector(Vector),
    /// A reordering.
    Reorder(Reorder),
    /// A copy between cores.
    Remote(Remote),
}

impl Work {
    /// True when the DRAM port is used.
    #[deny(clippy::wildcard_enum_match_arm)]
    pub fn uses_dram(&self) -> bool {
        match self {
            Work::Copy(_) => true,
            Work::Weights(weights) => weights.uses_dram(),
            Work::Begin | Work::End | Work::Configure | Work::Regions(_) => false,
            Work::Conv(_) | Work::Vector(_) | Work::Reorder(_) | Work::Remote(_) => false,
        }
    }
}

/// The work of one line, or the mnemonic of the configuration it lacks.
pub type Resolved = std::result::Result<Work, &'static str>;

/// The work of every line.
pub fn resolve(program: &Program) -> Vec<Resolved> {
    let mut registers = Registers::default();
    program.instructions().map(|inst| registers.step(inst)).collect()
}

/// Advances the addresses of vector instructions that share them with other tiles of their
/// workload: tile i works on image i of the batch.
pub fn advance_images(program: &Program, work: &mut [Resolved]) {
    for task in program.tasks() {
        // Addresses of the first tile of each workload, and how many tiles have them.
        let mut seen: std::collections::BTreeMap<i32, ([Place; 3], Saturating<i64>)> =
            Default::default();
        for index in task {
            let Some(workload) = program.lines[index].workload() else { continue };
            let Ok(Work::Vector(vector)) = &mut work[index] else { continue };
            let places = [vector.input, vector.second, vector.output];
            let (first, count) = seen.entry(workload).or_insert((places, Saturating(0)));
            if *first != places {
                (*first, *count) = (places, Saturating(0));
            }
            let image = |[c, h, w]: Extents, bytes: u32| wide(pitch(c, bytes)) * wide(h) * wide(w);
            let source = *count * image(vector.config.source, vector.input_bytes());
            let dest = *count * image(vector.config.dest, vector.output_bytes());
            for (place, offset) in [
                (&mut vector.input, source),
                (&mut vector.second, source),
                (&mut vector.output, dest),
            ] {
                place.address = (wide(place.address) + offset).0;
            }
            *count += 1;
        }
    }
}
