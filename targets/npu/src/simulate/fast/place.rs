//! Where the bytes of tensors lie in L2, for accesses that do not wrap in their ring.

use crate::regions::Region;
use crate::simulate::state::State;
use crate::work::{Extents, Place, pitch};
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::Arc;

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

/// Which rows or columns of the input meet those of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Steps {
    pub(super) outputs: u32,
    /// Positions of the window.
    pub(super) window: u32,
    pub(super) stride: u32,
    pub(super) dilate: u32,
    pub(super) insert: u32,
    /// The first, which is that of the address.
    pub(super) start: i32,
    /// How many the input has.
    pub(super) extent: u32,
    /// Bytes from one to the next.
    pub(super) pitch: i64,
    /// Outputs are several to an input; outside, the nearest counts if so.
    pub(super) enlarge: Option<bool>,
    /// Bytes that are gathered at each position, if they are.
    pub(super) width: usize,
}

impl Steps {
    /// How far the position is from the first.
    fn place(&self, output: u32, at: u32) -> Option<i64> {
        let [output, at, stride, dilate, insert, extent] =
            [output, at, self.stride, self.dilate, self.insert, self.extent].map(i64::from);
        let start = i64::from(self.start);
        let spread = match self.enlarge {
            Some(_) => start + output / stride,
            None => start + output * stride + at * dilate,
        };
        let place = spread.div_euclid(insert);
        let inside = place.clamp(0, extent - 1);
        let exists = spread.rem_euclid(insert) == 0 && inside == place;
        (exists || self.enlarge == Some(true)).then_some(inside - start)
    }
}

/// For every output row or column and every position of the window along it, how far the row or
/// column of the input that it meets is from the one of the address; [`OUTSIDE`] without one.
#[derive(Debug, Default)]
pub(super) struct Axis {
    /// Positions of the window.
    pub(super) window: usize,
    /// Of the first output first.
    pub(super) offsets: Vec<isize>,
    /// Of every output, the pieces of the input that its window consists of.
    pieces: Vec<Piece>,
    /// Where those of an output end.
    ends: Vec<usize>,
}

/// Bytes that lie together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// How many.
    pub(super) length: usize,
    /// The offset of the first; [`OUTSIDE`] for pads.
    pub(super) offset: isize,
}

impl Axis {
    fn new(steps: &Steps) -> Axis {
        let window = 0..steps.window;
        let positions = (0..steps.outputs).flat_map(|o| window.clone().map(move |at| (o, at)));
        let offset = |(output, at)| {
            steps.place(output, at).map_or(OUTSIDE, |place| (place * steps.pitch) as isize)
        };
        let offsets = positions.map(offset).collect();
        let mut axis = Axis { window: steps.window as usize, offsets, ..Axis::default() };
        if steps.width > 0 {
            axis.divide(steps.width);
        }
        axis
    }

    /// Finds the pieces of all outputs.
    fn divide(&mut self, width: usize) {
        for offsets in self.offsets.chunks_exact(self.window) {
            let first = self.pieces.len();
            for &offset in offsets {
                let follows = |last: &&mut Piece| match offset {
                    OUTSIDE => last.offset == OUTSIDE,
                    // Neighbours without bytes between them that are not gathered.
                    offset => offset == last.offset + last.length as isize,
                };
                match self.pieces[first..].last_mut().filter(follows) {
                    Some(last) => last.length += width,
                    None => self.pieces.push(Piece { length: width, offset }),
                }
            }
            self.ends.push(self.pieces.len());
        }
    }

    /// Offsets of an output.
    #[inline(always)]
    pub(super) fn of(&self, output: usize) -> &[isize] {
        &self.offsets[output * self.window..][..self.window]
    }

    /// Pieces of an output.
    #[inline(always)]
    pub(super) fn pieces(&self, output: usize) -> &[Piece] {
        let first = if output == 0 { 0 } else { self.ends[output - 1] };
        &self.pieces[first..self.ends[output]]
    }

    /// From the least to the largest offset inside, if there is one.
    pub(super) fn range(&self) -> Option<Range<isize>> {
        let inside = || self.offsets.iter().copied().filter(|&offset| offset != OUTSIDE);
        Some(inside().min()?..inside().max()?)
    }
}

/// The axes of all lines, most of which have those of others.
pub(super) struct Axes {
    known: FxHashMap<Steps, Arc<Axis>>,
    /// Offsets that there is still room for.
    room: usize,
}

impl Axes {
    /// Without more than so many offsets.
    pub(super) fn new(room: usize) -> Axes {
        Axes { known: FxHashMap::default(), room }
    }

    /// An axis; `None` when there is no room for it.
    pub(super) fn get(&mut self, steps: Steps) -> Option<Arc<Axis>> {
        if let Some(axis) = self.known.get(&steps) {
            return Some(Arc::clone(axis));
        }
        let count = steps.outputs as usize * steps.window as usize;
        self.room = self.room.checked_sub(count)?;
        let axis = Arc::new(Axis::new(&steps));
        self.known.insert(steps, Arc::clone(&axis));
        Some(axis)
    }
}

/// An input that windows move over.
pub(super) struct Input {
    pub(super) rows: Arc<Axis>,
    pub(super) columns: Arc<Axis>,
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
        [rows, columns]: [Arc<Axis>; 2],
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines share their axes, and a program cannot fill the memory with different ones.
    #[test]
    fn axes_are_shared_and_limited() {
        let steps = |outputs: u32| Steps {
            outputs,
            window: 3,
            stride: 1,
            dilate: 1,
            insert: 1,
            start: -1,
            extent: 9,
            pitch: 16,
            enlarge: None,
            width: 16,
        };
        let mut axes = Axes::new(20);
        let first = axes.get(steps(4)).unwrap();
        assert!(Arc::ptr_eq(&first, &axes.get(steps(4)).unwrap()));
        assert!(axes.get(steps(3)).is_none());
        assert!(axes.get(steps(2)).is_some());
        assert_eq!(first.of(0), [OUTSIDE, 16, 32]);
        let pieces = |output: usize| -> Vec<(usize, isize)> {
            first.pieces(output).iter().map(|piece| (piece.length, piece.offset)).collect()
        };
        assert_eq!(pieces(0), [(16, OUTSIDE), (32, 16)]);
        assert_eq!(pieces(1), [(48, 16)]);
    }
}
