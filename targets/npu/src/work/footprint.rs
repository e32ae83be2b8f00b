//! Which bytes a piece of work reads and writes. Facts: `gemini`, `npu-measured`
//! (`docs/bibliography.md`).

#![deny(clippy::wildcard_enum_match_arm)]

use super::{
    Conv, Copy, Extents, Place, Remote, Reorder, Vector, VectorKind, WeightDest, WeightSource,
    Weights, Work, element_bytes, pitch, wide,
};
use crate::arch::NpuArch;
use std::num::Saturating;
use std::ops::Range;

/// A memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Memory {
    /// A region of this core's L2.
    L2(u8),
    /// The weight buffer.
    Wl0,
    /// DRAM behind a base register.
    Dram(u8),
    /// A region of another core's L2.
    Remote(u8, u8),
    /// Another core's whole L2, without regions.
    RemoteWhole(u8),
}

/// The bytes from `start` to `end`; where `slice` is set, only those of them whose offset from
/// `start` has a remainder below `slice.0` when divided by `slice.1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First byte; may be negative in a region.
    pub start: i64,
    /// One past the last.
    pub end: i64,
    /// Bytes used of every so many.
    pub slice: Option<(u64, u64)>,
}

impl Span {
    /// Bytes from first to last.
    pub fn length(&self) -> u64 {
        self.end.saturating_sub(self.start).max(0) as u64
    }
}

/// Bytes that are read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Where.
    pub memory: Memory,
    /// Which bytes.
    pub span: Span,
    /// The same without the padding of pixels and without what lies between rows and images.
    pub pattern: Pattern,
    /// True for writes.
    pub write: bool,
}

/// Runs of `bytes` bytes: images, rows and columns, and how far each is from the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// How many images, rows and columns.
    pub counts: [u32; 3],
    /// Bytes from one to the next.
    pub pitches: [i64; 3],
    /// Bytes of a run.
    pub bytes: i64,
}

impl Pattern {
    /// The same bytes in as few runs as rows and images without gaps allow.
    pub fn merged(mut self) -> Pattern {
        for axis in (0..3).rev() {
            if self.counts[axis] == 1 {
                continue;
            }
            if self.bytes != self.pitches[axis] {
                break;
            }
            self.bytes = (wide(self.bytes) * wide(self.counts[axis])).0;
            self.counts[axis] = 1;
        }
        self
    }

    /// How many runs there are.
    pub fn runs(&self) -> u64 {
        self.counts.iter().fold(1, |runs, &count| runs.saturating_mul(count.into()))
    }

    /// Where each run starts, counted from the first.
    pub fn starts(self) -> impl Iterator<Item = i64> {
        let Pattern { counts: [images, rows, columns], pitches, .. } = self;
        let axis = move |count: u32, axis: usize| {
            (0..count).map(move |index| wide(index) * Saturating(pitches[axis]))
        };
        axis(images, 0).flat_map(move |image| {
            axis(rows, 1)
                .flat_map(move |row| axis(columns, 2).map(move |column| (image + row + column).0))
        })
    }
}

/// A window of a tensor: `images` times `rows` times `columns` pixels of `bytes` bytes each, of
/// which `used` hold elements.
struct Window {
    start: Saturating<i64>,
    images: u32,
    image_pitch: Saturating<i64>,
    rows: u32,
    row_pitch: Saturating<i64>,
    columns: u32,
    pixel_pitch: Saturating<i64>,
    bytes: Saturating<i64>,
    used: Saturating<i64>,
}

impl Window {
    fn access(&self, memory: Memory, write: bool) -> Option<Access> {
        let pattern = Pattern {
            counts: [self.images, self.rows, self.columns],
            pitches: [self.image_pitch, self.row_pitch, self.pixel_pitch].map(|pitch| pitch.0),
            bytes: self.used.0,
        };
        Some(Access { memory, span: self.span()?, pattern, write })
    }

    fn span(&self) -> Option<Span> {
        if self.images == 0 || self.rows == 0 || self.columns == 0 || self.bytes.0 == 0 {
            return None;
        }
        let last = |count: u32, pitch| (wide(count) - Saturating(1)) * pitch;
        let end = self.start
            + last(self.images, self.image_pitch)
            + last(self.rows, self.row_pitch)
            + last(self.columns, self.pixel_pitch)
            + self.bytes;
        let has_gaps = self.bytes < self.pixel_pitch;
        let slice = has_gaps.then_some((self.bytes.0 as u64, self.pixel_pitch.0 as u64));
        Some(Span { start: self.start.0, end: end.0, slice })
    }
}

/// The window of a tile in a tensor whose pixels lie `pixel` bytes apart.
fn window(
    start: i64,
    images: u32,
    tile: Extents,
    tensor: Extents,
    bytes: u32,
    pixel: u32,
) -> Window {
    let pixel = wide(pixel);
    let row_pitch = wide(tensor[2]) * pixel;
    // What lies between pixels is padding that belongs to them, unless the tile has fewer channels.
    let whole = tile[0] == tensor[0];
    let used = wide(tile[0]) * wide(bytes);
    Window {
        start: Saturating(start),
        images,
        image_pitch: wide(tensor[1]) * row_pitch,
        rows: tile[1],
        row_pitch,
        columns: tile[2],
        pixel_pitch: pixel,
        bytes: if whole { pixel } else { used },
        used,
    }
}

/// Every access of a piece of work.
pub fn accesses(work: &Work, arch: &NpuArch) -> Vec<Access> {
    let mut list = List(Vec::new());
    match work {
        Work::Copy(copy) => list.copy(copy),
        Work::Weights(weights) => list.weights(weights, arch),
        Work::Conv(conv) => list.conv(conv, arch),
        Work::Vector(vector) => list.vector(vector),
        Work::Reorder(reorder) => list.reorder(reorder),
        Work::Remote(remote) => list.remote(remote),
        Work::Begin | Work::End | Work::Regions(_) | Work::Configure => {}
    }
    list.0
}

struct List(Vec<Access>);

impl List {
    fn add(&mut self, memory: Memory, window: &Window, write: bool) {
        self.0.extend(window.access(memory, write));
    }

    /// Bytes in a row.
    fn block(&mut self, memory: Memory, start: i64, bytes: u64, write: bool) {
        if bytes > 0 {
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            let span = Span { start, end: start.saturating_add(bytes), slice: None };
            let pattern = Pattern { counts: [1; 3], pitches: [bytes; 3], bytes };
            self.0.push(Access { memory, span, pattern, write });
        }
    }

    fn l2(&mut self, place: Place, window: impl FnOnce(i64) -> Window, write: bool) {
        self.add(Memory::L2(place.region), &window(place.address), write);
    }

    fn copy(&mut self, copy: &Copy) {
        let bytes = element_bytes(copy.format);
        let pixel = copy.dram_pixel();
        let dram = window(copy.dram.into(), copy.images, copy.tile, copy.dram_tensor, bytes, pixel);
        self.add(Memory::Dram(copy.bas), &dram, !copy.load);
        let pixel = pitch(copy.l2_tensor[0], bytes);
        let place = copy.l2;
        self.l2(
            place,
            |start| window(start, copy.images, copy.tile, copy.l2_tensor, bytes, pixel),
            copy.load,
        );
    }

    fn weights(&mut self, weights: &Weights, arch: &NpuArch) {
        let bytes = weights.dense_bytes(weights.source_row);
        match weights.source {
            WeightSource::Dram { bas, address } => {
                self.block(Memory::Dram(bas), address.into(), bytes, false);
            }
            WeightSource::L2(place) => {
                self.block(Memory::L2(place.region), place.address, bytes, false);
            }
            WeightSource::Remote { core, address } => {
                self.block(Memory::RemoteWhole(core), address.into(), bytes, false);
            }
        }
        match weights.dest {
            WeightDest::L2(place) => {
                let bytes = weights.dense_bytes(weights.dest_row);
                self.block(Memory::L2(place.region), place.address, bytes, true);
            }
            WeightDest::Wl0(unit) => {
                let start = wide(unit) * wide(arch.wl0_unit);
                self.block(Memory::Wl0, start.0, weights.buffer_bytes(), true);
            }
        }
    }

    fn conv(&mut self, conv: &Conv, arch: &NpuArch) {
        let bytes = element_bytes(conv.formats[0]);
        // The rows and columns of the source that the windows touch.
        let touched = |axis: usize| {
            let insert = conv.insert[axis].max(1);
            let end = u64::try_from(conv.reach(axis).min(conv.spread(axis))).unwrap_or(0);
            let end = u32::try_from(end.div_ceil(insert.into())).unwrap_or(u32::MAX);
            conv.start[axis].max(0).unsigned_abs().div_ceil(insert)..end
        };
        let tile = (conv.tile[0], conv.tile[2], [touched(0), touched(1)]);
        self.part(conv.input, conv.start, tile, conv.source, bytes);
        let start = wide(conv.weights) * wide(arch.wl0_unit);
        self.block(Memory::Wl0, start.0, conv.weight_bytes(), false);
        let bytes = element_bytes(conv.formats[2]);
        let tile = [conv.tile[1], conv.tile[3], conv.tile[4]];
        let pixel = pitch(conv.dest[0], bytes);
        let output = window(conv.output.address, conv.tile[0], tile, conv.dest, bytes, pixel);
        if conv.accumulate.is_some() {
            self.add(Memory::L2(conv.output.region), &output, false);
        }
        self.add(Memory::L2(conv.output.region), &output, true);
    }

    fn vector(&mut self, vector: &Vector) {
        let config = &vector.config;
        let bytes = vector.input_bytes();
        match vector.kind {
            VectorKind::Single => {
                let mut tensors = vec![(vector.input, config.first_axes)];
                if vector.has_second() {
                    tensors.push((vector.second, config.second_axes));
                }
                for (place, axes) in tensors {
                    let tensor = vector.masked(axes);
                    let pixel = pitch(tensor[0], bytes);
                    self.l2(place, |start| window(start, 1, tensor, tensor, bytes, pixel), false);
                }
            }
            VectorKind::Pool | VectorKind::Enlarge => self.windows(vector, bytes),
        }
        let bytes = vector.output_bytes();
        let pixel = pitch(config.dest[0], bytes);
        self.l2(
            vector.output,
            |start| window(start, 1, config.tile, config.dest, bytes, pixel),
            true,
        );
    }

    /// What pooling and enlarging read: from the first to the last touched position inside.
    fn windows(&mut self, vector: &Vector, bytes: u32) {
        let config = &vector.config;
        let touched = |axis: usize| {
            let ([_, rows, columns], [_, height, width]) = (config.tile, config.source);
            let extent = [height, width][axis];
            let first = wide(vector.start[axis]);
            let steps = wide([rows, columns][axis]) - Saturating(1);
            let stride = wide(config.stride[axis].max(1));
            let inside = |at: Saturating<i64>| at.0.clamp(0, extent.into()) as u32;
            match vector.kind {
                // What lies outside is taken from the nearest position inside.
                VectorKind::Enlarge => {
                    let end = first + Saturating(steps.0.div_euclid(stride.0)) + Saturating(1);
                    inside(first).min(extent.saturating_sub(1))..inside(end).max(1).min(extent)
                }
                VectorKind::Single | VectorKind::Pool => {
                    inside(first)..inside(first + steps * stride + wide(config.window[axis]))
                }
            }
        };
        let tile = (1, config.source[0], [touched(0), touched(1)]);
        self.part(vector.input, vector.start, tile, config.source, bytes);
    }

    /// Reads images, channels, rows and columns of a tensor whose row and column `start` would lie
    /// at `place`.
    fn part(
        &mut self,
        place: Place,
        start: [i32; 2],
        (images, channels, [rows, columns]): (u32, u32, [Range<u32>; 2]),
        tensor: Extents,
        bytes: u32,
    ) {
        let pixel = pitch(tensor[0], bytes);
        let (row, column) =
            (wide(rows.start) - wide(start[0]), wide(columns.start) - wide(start[1]));
        let first = Saturating(place.address) + (row * wide(tensor[2]) + column) * wide(pixel);
        let tile = [channels, rows.len() as u32, columns.len() as u32];
        let input = window(first.0, images, tile, tensor, bytes, pixel);
        self.add(Memory::L2(place.region), &input, false);
    }

    fn reorder(&mut self, reorder: &Reorder) {
        let bytes = element_bytes(reorder.format);
        let tiles = [reorder.tile, reorder.permuted()];
        for (index, tile) in tiles.into_iter().enumerate() {
            let tensor = reorder.tensors[index];
            let pixel = pitch(tensor[0], bytes);
            self.l2(
                reorder.places[index],
                |start| window(start, reorder.images, tile, tensor, bytes, pixel),
                index == 1,
            );
        }
    }

    fn remote(&mut self, remote: &Remote) {
        let bytes = element_bytes(remote.format);
        for index in 0..2 {
            let (tensor, place) = (remote.tensors[index], remote.places[index]);
            let pixel = pitch(tensor[0], bytes);
            let window = window(place.address, remote.images, remote.tile, tensor, bytes, pixel);
            let is_remote = (index == 0) == remote.receive;
            let memory = match is_remote {
                true => Memory::Remote(remote.core, place.region),
                false => Memory::L2(place.region),
            };
            self.add(memory, &window, index == 1);
        }
    }
}

impl Reorder {
    /// What the orders are: axes (of rows, columns, channels of the source) that become rows, columns
    /// and channels of the destination.
    pub(crate) const ORDERS: [[usize; 3]; 6] =
        [[0, 1, 2], [1, 0, 2], [0, 2, 1], [2, 0, 1], [1, 2, 0], [2, 1, 0]];

    /// Axes (of rows, columns, channels of the source) that become rows, columns and channels of
    /// the destination; `None` for an order that is not defined.
    pub fn axes(&self) -> Option<[usize; 3]> {
        Reorder::ORDERS.get(usize::from(self.order)).copied()
    }

    /// The tile as channels, rows and columns of the destination.
    pub fn permuted(&self) -> Extents {
        let [c, h, w] = self.tile;
        let source = [h, w, c];
        let [rows, columns, channels] = self.axes().unwrap_or([0, 1, 2]);
        [source[channels], source[rows], source[columns]]
    }
}
