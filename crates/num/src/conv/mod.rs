//! Convolution with packed weights, exact for integers: [`Convolution`].
//!
//! Channels are innermost while it computes ("NHWC"): the numbers under one row of the window are
//! then few contiguous pieces, which are gathered into the rows of a matrix and multiplied by the
//! packed weights. Images with channels outermost ("NCHW") are turned around on the way in and out.
//! Groups of one channel each ("depthwise") are computed directly.

mod depthwise;
#[cfg(test)]
mod tests;

use crate::gemm::{Left, Packed};
use crate::level::Level;
use crate::matrix::Matrix;
use std::ops::Range;

/// Numbers gathered at a time: small enough for the second-level cache together with the weights.
const GATHERED: usize = 1 << 18;

/// Sizes of a two-dimensional convolution. One dimension is a height of 1.
///
/// Pairs are vertical, horizontal. The meaning is that of ONNX `Conv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvShape {
    /// Channels of the image.
    pub channels: usize,
    /// Height and width of the image.
    pub size: [usize; 2],
    /// Channels of the result.
    pub outputs: usize,
    /// Height and width of the window.
    pub kernel: [usize; 2],
    /// Distance between windows.
    pub strides: [usize; 2],
    /// Distance between the elements of a window.
    pub dilations: [usize; 2],
    /// Rows or columns added at the top, left, bottom and right.
    pub pads: [usize; 4],
    /// Groups, which divide the channels of image and result into separate convolutions.
    pub groups: usize,
}

impl ConvShape {
    /// Height and width of the result. `None` when a size, stride, dilation or the number of groups
    /// is zero, the groups do not divide the channels, or the window is larger than the image with
    /// its pads.
    pub fn output_size(&self) -> Option<[usize; 2]> {
        let groups_fit = self.groups > 0
            && self.channels.is_multiple_of(self.groups)
            && self.outputs.is_multiple_of(self.groups);
        let extent = |axis: usize| {
            let padded =
                self.size[axis].checked_add(self.pads[axis])?.checked_add(self.pads[axis + 2])?;
            let reach = self.kernel[axis].checked_sub(1)?.checked_mul(self.dilations[axis])?;
            let steps = padded.checked_sub(reach)?.checked_sub(1)?;
            let stride = self.strides[axis];
            (self.dilations[axis] > 0 && stride > 0).then(|| steps / stride + 1)
        };
        if !groups_fit || self.channels == 0 || self.outputs == 0 {
            return None;
        }
        Some([extent(0)?, extent(1)?])
    }

    /// Elements under one window in one group.
    fn depth(&self) -> usize {
        self.kernel[0] * self.kernel[1] * self.group_channels()
    }

    fn group_channels(&self) -> usize {
        self.channels / self.groups
    }

    fn group_outputs(&self) -> usize {
        self.outputs / self.groups
    }

    /// True when a window is one pixel and every pixel has one: nothing needs gathering.
    fn is_pointwise(&self) -> bool {
        self.kernel == [1, 1] && self.strides == [1, 1] && self.pads == [0; 4]
    }

    fn is_depthwise(&self) -> bool {
        self.groups > 1 && self.groups == self.channels && self.groups == self.outputs
    }

    /// The row (axis 0) or column (axis 1) of the image under an element of a window; `None` in
    /// the pads.
    fn position(&self, axis: usize, window: usize, element: usize) -> Option<usize> {
        let padded = window * self.strides[axis] + element * self.dilations[axis];
        padded.checked_sub(self.pads[axis]).filter(|position| *position < self.size[axis])
    }
}

/// Where the channels of an image are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageLayout {
    /// Channel, row, column.
    ChannelsFirst,
    /// Row, column, channel.
    ChannelsLast,
}

/// A convolution of images of numbers `L` with packed weights; integers are summed modulo 2^32.
///
/// With zero points `x0` of the image and none of the weights: pad with `x0`, and let each channel
/// of the result start from its bias minus `x0` times its [weight sum](Convolution::weight_sums).
#[derive(Debug)]
pub struct Convolution<L: Left> {
    shape: ConvShape,
    output: [usize; 2],
    weights: Weights<L>,
}

#[derive(Debug)]
enum Weights<L: Left> {
    /// One matrix for each group.
    Groups(Vec<Packed<L>>),
    /// Window element, then channel.
    Depthwise(Vec<L::Wide>, Level),
}

impl<L: Left> Convolution<L> {
    /// Packs weights for the fastest instructions of this processor; see
    /// [`Convolution::for_level`].
    pub fn new(shape: ConvShape, weights: &[L::Right]) -> Self {
        Self::for_level(shape, weights, Level::best())
    }

    /// Packs weights, `[outputs, channels / groups, kernel height, kernel width]`, for certain
    /// instructions.
    ///
    /// # Panics
    /// When the shape has no [output size](ConvShape::output_size), the number of weights is not
    /// that of the shape, or the processor lacks the instructions.
    pub fn for_level(shape: ConvShape, weights: &[L::Right], level: Level) -> Self {
        let Some(output) = shape.output_size() else {
            panic!("a convolution needs a shape with an output: {shape:?}");
        };
        assert!(level.is_available(), "this processor lacks {level}");
        let window = shape.kernel[0].checked_mul(shape.kernel[1]);
        let count = window
            .and_then(|n| n.checked_mul(shape.group_channels()))
            .and_then(|n| n.checked_mul(shape.outputs));
        assert_eq!(count, Some(weights.len()), "the weights are those of the shape");
        let weights = if shape.is_depthwise() {
            Weights::Depthwise(channels_last::<L>(weights, shape.outputs), level)
        } else {
            let groups = weights.chunks_exact(shape.depth() * shape.group_outputs());
            Weights::Groups(groups.map(|group| pack_group(&shape, group, level)).collect())
        };
        Convolution { shape, output, weights }
    }

    /// The shape.
    pub fn shape(&self) -> &ConvShape {
        &self.shape
    }

    /// Height and width of the result.
    pub fn output_size(&self) -> [usize; 2] {
        self.output
    }

    /// The sum of the weights of each channel of the result, modulo 2^32; for integers.
    pub fn weight_sums(&self) -> Vec<i32>
    where
        L: Left<Wide = i16>,
    {
        match &self.weights {
            Weights::Groups(groups) => {
                groups.iter().flat_map(Packed::column_sums).copied().collect()
            }
            Weights::Depthwise(weights, _) => {
                let mut sums = vec![0_i32; self.shape.outputs];
                for row in weights.chunks_exact(self.shape.outputs) {
                    for (sum, weight) in sums.iter_mut().zip(row) {
                        *sum = sum.wrapping_add(i32::from(*weight));
                    }
                }
                sums
            }
        }
    }

    /// Convolves one image; the result has the layout of the image. Elements in the pads count as
    /// `pad`, and every channel of the result starts from its element of `starts`.
    ///
    /// # Panics
    /// When a slice does not have the length that the shape says.
    pub fn run(
        &self,
        image: &[L],
        layout: ImageLayout,
        pad: L,
        starts: &[L::Sum],
        out: &mut [L::Sum],
    ) {
        let [height, width] = self.output;
        match layout {
            ImageLayout::ChannelsLast => self.rows(image, pad, starts, 0..height, out),
            ImageLayout::ChannelsFirst => {
                assert_eq!(out.len(), height * width * self.shape.outputs, "the result fits");
                let mut turned = vec![pad; image.len()];
                transpose(image, self.shape.channels, &mut turned);
                let mut result = vec![starts[0]; out.len()];
                self.rows(&turned, pad, starts, 0..height, &mut result);
                transpose(&result, height * width, out);
            }
        }
    }

    /// Some rows of the result, channels last. Threads can share an image by its rows.
    ///
    /// # Panics
    /// When a slice does not have the length that the shape says, or rows do not exist.
    pub fn rows(
        &self,
        image: &[L],
        pad: L,
        starts: &[L::Sum],
        rows: Range<usize>,
        out: &mut [L::Sum],
    ) {
        let ConvShape { channels, size, outputs, .. } = self.shape;
        let pixels = size[0].checked_mul(size[1]).and_then(|n| n.checked_mul(channels));
        assert_eq!(pixels, Some(image.len()), "the image has the size of the shape");
        assert_eq!(starts.len(), outputs, "every channel of the result has a start");
        assert!(rows.start <= rows.end && rows.end <= self.output[0], "the rows exist");
        assert_eq!(out.len(), rows.len() * self.output[1] * outputs, "the result fits");
        if rows.is_empty() {
            return;
        }
        for pixel in out.chunks_exact_mut(outputs) {
            pixel.copy_from_slice(starts);
        }
        match &self.weights {
            Weights::Depthwise(weights, level) => {
                let width = self.output[1];
                let places = rows.flat_map(|y| (0..width).map(move |x| [y, x]));
                depthwise::add(&self.shape, image, pad, weights, places, out, *level);
            }
            Weights::Groups(groups) => {
                let first = rows.start * self.output[1];
                for (group, weights) in groups.iter().enumerate() {
                    let out = &mut out[group * self.shape.group_outputs()..];
                    let windows = first..first + rows.len() * self.output[1];
                    if self.shape.is_pointwise() {
                        self.multiply_in_place(image, group, windows, weights, out);
                    } else {
                        self.gather_and_multiply(image, pad, group, windows, weights, out);
                    }
                }
            }
        }
    }

    fn multiply_in_place(
        &self,
        image: &[L],
        group: usize,
        windows: Range<usize>,
        weights: &Packed<L>,
        out: &mut [L::Sum],
    ) {
        let channels = self.shape.channels;
        let first = windows.start * channels + group * self.shape.group_channels();
        let depth = self.shape.group_channels();
        let left = Matrix::new(&image[first..], windows.len(), depth, channels, 1);
        weights.multiply_add(left, out, self.shape.outputs);
    }

    fn gather_and_multiply(
        &self,
        image: &[L],
        pad: L,
        group: usize,
        windows: Range<usize>,
        weights: &Packed<L>,
        out: &mut [L::Sum],
    ) {
        let (depth, outputs) = (self.shape.depth(), self.shape.outputs);
        let most = (GATHERED / depth).clamp(1, windows.len());
        let mut gathered = vec![pad; most * depth];
        for first in windows.clone().step_by(most) {
            let count = most.min(windows.end - first);
            for (index, row) in gathered.chunks_exact_mut(depth).take(count).enumerate() {
                let window = first + index;
                let place = [window / self.output[1], window % self.output[1]];
                self.gather(image, pad, group, place, row);
            }
            let left = Matrix::row_major(&gathered, count, depth);
            weights.multiply_add(left, &mut out[(first - windows.start) * outputs..], outputs);
        }
    }

    /// The elements under one window, in the order of [`pack_group`].
    fn gather(&self, image: &[L], pad: L, group: usize, place: [usize; 2], row: &mut [L]) {
        let shape = &self.shape;
        let depth = shape.group_channels();
        // Neighbouring pixels are contiguous when nothing lies between them.
        let whole = shape.dilations[1] == 1 && shape.groups == 1;
        for (vertical, row) in row.chunks_exact_mut(shape.kernel[1] * depth).enumerate() {
            let Some(y) = shape.position(0, place[0], vertical) else {
                row.fill(pad);
                continue;
            };
            let line =
                &image[y * shape.size[1] * shape.channels..][..shape.size[1] * shape.channels];
            if whole && let Some(x) = self.inside(place[1]) {
                row.copy_from_slice(&line[x * depth..][..row.len()]);
                continue;
            }
            for (horizontal, pixel) in row.chunks_exact_mut(depth).enumerate() {
                match shape.position(1, place[1], horizontal) {
                    Some(x) => {
                        let first = x * shape.channels + group * depth;
                        pixel.copy_from_slice(&line[first..][..depth]);
                    }
                    None => pixel.fill(pad),
                }
            }
        }
    }

    /// The first column of a window that touches neither the left nor the right pad.
    fn inside(&self, window: usize) -> Option<usize> {
        let last = self.shape.position(1, window, self.shape.kernel[1] - 1);
        last.and(self.shape.position(1, window, 0))
    }
}

/// The weights of one group, `[outputs, channels, window]`, as a matrix whose rows are in the order
/// of the window's rows, its columns, and the channels.
fn pack_group<L: Left>(shape: &ConvShape, weights: &[L::Right], level: Level) -> Packed<L> {
    let (depth, window) = (shape.depth(), shape.kernel[0] * shape.kernel[1]);
    let mut turned = Vec::with_capacity(weights.len());
    for weights in weights.chunks_exact(depth) {
        for element in 0..window {
            turned.extend(weights.iter().skip(element).step_by(window));
        }
    }
    Packed::for_level(Matrix::row_major(&turned, shape.group_outputs(), depth).transposed(), level)
}

/// `[channels, rest]` to `[rest, channels]`, widened.
fn channels_last<L: Left>(numbers: &[L::Right], channels: usize) -> Vec<L::Wide> {
    let rest = numbers.len() / channels;
    (0..numbers.len())
        .map(|index| L::wide_right(numbers[index % channels * rest + index / channels]))
        .collect()
}

/// Exchanges the axes of a row-major matrix of `rows` rows. Goes through it in squares, so that
/// neither side jumps through memory for long.
///
/// # Panics
/// When `rows` is 0 or does not divide the matrix, or `to` has another size.
pub fn transpose<T: Copy>(from: &[T], rows: usize, to: &mut [T]) {
    const SIDE: usize = 16;
    let columns = from.len() / rows;
    assert!(columns * rows == from.len() && to.len() == from.len(), "sizes are equal");
    for top in (0..rows).step_by(SIDE) {
        for left in (0..columns).step_by(SIDE) {
            for column in left..columns.min(left + SIDE) {
                for row in top..rows.min(top + SIDE) {
                    to[column * rows + row] = from[row * columns + column];
                }
            }
        }
    }
}
