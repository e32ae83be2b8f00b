//! Where values lie in memory: images with their channels innermost, around every image a border of
//! zeros as wide as what reads it needs, so that windows never leave it.

use super::axes::Step;
use super::layers::{Form, View};

/// What messages may read behind an image, beyond a pixel.
pub(super) const SLACK: usize = 128;

/// A value in memory. Sizes are in bytes unless they are extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Image {
    /// Images.
    pub(super) images: usize,
    /// Rows and columns.
    pub(super) extents: [usize; 2],
    /// Rows above and columns left of them.
    pub(super) before: [usize; 2],
    /// Rows below and columns right of them.
    pub(super) behind: [usize; 2],
    /// From one pixel to the next.
    pub(super) pixel: usize,
    /// A pixel of zeros lies behind the one where results go that nobody reads.
    pub(super) has_zeros: bool,
}

impl Image {
    /// The image of a value whose pixels have so many bytes, without a border.
    pub(super) fn new(form: &Form, pixel: usize) -> Image {
        let [h, w, _] = form.extents;
        Image {
            images: form.images,
            extents: [h, w],
            before: [0, 0],
            behind: [0, 0],
            pixel,
            has_zeros: false,
        }
    }

    /// From one row to the next.
    pub(super) fn row(&self) -> usize {
        ((self.before[1] + self.extents[1] + self.behind[1]) * self.pixel).next_multiple_of(8)
    }

    /// From one image to the next.
    pub(super) fn image(&self) -> usize {
        (self.before[0] + self.extents[0] + self.behind[0]) * self.row()
    }

    /// The first byte of a pixel; rows and columns count from the first one of the border.
    pub(super) fn at(&self, image: usize, row: usize, column: usize) -> usize {
        image * self.image() + row * self.row() + column * self.pixel
    }

    /// Where results go that nobody reads: a pixel behind the images.
    pub(super) fn dump(&self) -> usize {
        self.images * self.image()
    }

    /// Where the pixel of zeros begins.
    pub(super) fn zeros(&self) -> usize {
        self.dump() + self.pixel
    }

    /// All of it.
    pub(super) fn bytes(&self) -> usize {
        self.zeros() + if self.has_zeros { self.pixel } else { 0 } + SLACK
    }

    /// Elements from one index of an axis of the graph's value to the next, and the first byte.
    pub(super) fn strides(&self, form: &Form, shape: &[usize]) -> (Vec<usize>, usize) {
        let size = form.numbers.size();
        let [image, row, pixel] = [self.image(), self.row(), self.pixel].map(|bytes| bytes / size);
        let strides = match (form.view, shape.len()) {
            (View::Second, 2) => vec![image, 1],
            (View::Second, 3) => vec![image, 1, pixel],
            (View::Second, rank) => [image, 1, row, pixel][..rank.min(4)].to_vec(),
            // Positions are in order, channels innermost.
            (View::Steps(axes), _) => {
                let elements = |&step: &Step| match step {
                    Step::Positions(step) => step * pixel,
                    Step::Channels(step) => step,
                };
                axes.steps().iter().map(elements).collect()
            }
            (View::Last | View::Flat, rank) => {
                let inner = |axis: usize| shape[axis + 1..rank - 1].iter().product::<usize>();
                (0..rank - 1).map(|axis| inner(axis) * pixel).chain([1]).collect()
            }
        };
        let first = self.at(0, self.before[0], self.before[1]);
        let first = match form.view {
            View::Steps(axes) => {
                let spot = axes.spot(std::iter::empty());
                first + spot.position * self.pixel + spot.channel * size
            }
            _ => first,
        };
        (strides, first)
    }
}
