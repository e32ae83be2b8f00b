//! Where the bytes of tensors lie in L2, for accesses that do not wrap in their ring.

use crate::regions::Region;
use crate::simulate::state::State;
use crate::work::{Extents, Place, pitch};
use std::ops::Range;

/// Bytes of L2: runs of `used` bytes, each `pitch` from the next, from the first to one past the
/// last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Extent {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) pitch: i64,
    pub(super) used: i64,
}

impl Extent {
    /// True when both certainly have no byte in common.
    pub(super) fn is_apart(&self, other: &Extent) -> bool {
        if self.end <= other.start || other.end <= self.start {
            return true;
        }
        // Channels beside each other in the same tensor.
        let offset = (other.start - self.start).rem_euclid(self.pitch);
        self.pitch == other.pitch && offset >= self.used && offset + other.used <= self.pitch
    }
}

/// What is added to addresses of a ring from `first` to `end` to get bytes of L2; `None` when they
/// wrap.
pub(super) fn linear(ring: Region, first: i64, end: i64) -> Option<i64> {
    let start = ring.byte(first);
    let fits = u64::try_from(end.checked_sub(first)?).ok()? <= ring.end().checked_sub(start)?;
    fits.then(|| start as i64 - first)
}

/// A part of a tensor in L2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tensor {
    /// The first byte.
    pub(super) first: usize,
    /// Bytes from pixel to pixel, row to row, image to image.
    pub(super) pixel: usize,
    pub(super) row: usize,
    pub(super) image: usize,
    pub(super) extent: Extent,
}

impl Tensor {
    /// The part of so many images, and of channels, rows and columns, that begins at a place.
    pub(super) fn new(
        state: &State,
        core: usize,
        place: Place,
        (images, tile): (u32, Extents),
        tensor: Extents,
        bytes: u32,
    ) -> Option<Tensor> {
        let ring = state.region(core, place).ok()?;
        let pixel = i64::from(pitch(tensor[0], bytes));
        let row = i64::from(tensor[2]) * pixel;
        let image = i64::from(tensor[1]) * row;
        let last = |count: u32| i64::from(count) - 1;
        let used = i64::from(tile[0]) * i64::from(bytes);
        let length = last(images) * image + last(tile[1]) * row + last(tile[2]) * pixel + used;
        let origin = linear(ring, place.address, place.address + length)?;
        let start = place.address + origin;
        Some(Tensor {
            first: usize::try_from(start).ok()?,
            pixel: pixel as usize,
            row: row as usize,
            image: image as usize,
            extent: Extent { start, end: start + length, pitch: pixel, used },
        })
    }
}

/// No row or column of the input.
pub(super) const OUTSIDE: isize = isize::MIN;

/// For every output row or column and every position of the window along it, how far the row or
/// column of the input that it meets is from the one of the address; [`OUTSIDE`] without one.
pub(super) struct Axis {
    /// Positions of the window.
    pub(super) window: usize,
    /// Of the first output first.
    pub(super) offsets: Vec<isize>,
}

impl Axis {
    pub(super) fn new(
        outputs: u32,
        window: u32,
        pitch: i64,
        place: impl Fn(i64, i64) -> Option<i64>,
    ) -> Axis {
        let offset = |output: u32, at: u32| {
            place(output.into(), at.into()).map_or(OUTSIDE, |place| (place * pitch) as isize)
        };
        let offsets = (0..outputs).flat_map(|o| (0..window).map(move |at| (o, at)));
        let offsets = offsets.map(|(output, at)| offset(output, at)).collect();
        Axis { window: window as usize, offsets }
    }

    /// Offsets of an output.
    #[inline(always)]
    pub(super) fn of(&self, output: usize) -> &[isize] {
        &self.offsets[output * self.window..][..self.window]
    }

    /// From the least to the largest offset inside, if there is one.
    pub(super) fn range(&self) -> Option<Range<isize>> {
        let inside = || self.offsets.iter().copied().filter(|&offset| offset != OUTSIDE);
        Some(inside().min()?..inside().max()?)
    }
}

/// An input that windows move over.
pub(super) struct Input {
    pub(super) rows: Axis,
    pub(super) columns: Axis,
    /// The byte of L2 of the address, which may lie before the ring.
    pub(super) origin: isize,
    /// What is read; `None` when all windows lie outside.
    pub(super) extent: Option<Extent>,
}

impl Input {
    /// `pixel` is the pitch of pixels and how many bytes of each are read, `images` their number
    /// and pitch.
    pub(super) fn new(
        ring: Region,
        address: i64,
        [rows, columns]: [Axis; 2],
        pixel: (i64, i64),
        images: (i64, i64),
    ) -> Option<Input> {
        let (Some(vertical), Some(horizontal)) = (rows.range(), columns.range()) else {
            return Some(Input { rows, columns, origin: 0, extent: None });
        };
        let (pitch, used) = pixel;
        let first = address + (vertical.start + horizontal.start) as i64;
        let last = address + (vertical.end + horizontal.end) as i64 + (images.0 - 1) * images.1;
        let origin = linear(ring, first, last + used)?;
        let extent = Extent { start: first + origin, end: last + used + origin, pitch, used };
        Some(Input { rows, columns, origin: (address + origin) as isize, extent: Some(extent) })
    }

    /// True when nothing that is written there is read.
    pub(super) fn is_apart(&self, output: &Tensor) -> bool {
        self.extent.is_none_or(|extent| extent.is_apart(&output.extent))
    }
}
