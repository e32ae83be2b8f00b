//! Convolutions as products of matrices: the inputs under the windows of some output positions are
//! gathered into rows, unless they lie in L2 as such, and multiplied by the packed weights.

use super::Scratch;
use super::finish::{Finish, Output};
use super::pack::{Block, Blocks, Pack, Products};
use super::place::{Axes, Axis, Input, OUTSIDE, Steps, Tensor};
use crate::isa::DataFmt;
use crate::simulate::state::State;
use crate::work::{self, element_bytes, pitch};
use quincunx_num::{Left, Level, Loop, Matrix, Packed};
use std::ops::Range;

/// Output positions that are worked on together: at most so many, and as many as give so many sums
/// and gathered bytes, which then stay in the second-level cache.
const POSITIONS: usize = 256;
const SUMS: usize = 1 << 16;
const GATHERED: usize = 1 << 18;

/// A convolution whose inputs and outputs do not wrap in their rings and share no byte.
pub(super) struct Conv {
    core: usize,
    block: Block,
    slot: usize,
    /// The slot holds the weights of an earlier convolution.
    packed: bool,
    groups: usize,
    /// Rows and columns of the output, and all positions.
    rows: usize,
    columns: usize,
    positions: usize,
    input: Input,
    /// Bytes from image to image.
    image: usize,
    /// The code outside.
    pad: u8,
    signed: bool,
    /// Bytes from output position to output position where these are rows of the left-hand side.
    in_place: Option<usize>,
    output: Output,
}

impl Conv {
    pub(super) fn prepare(
        core: usize,
        conv: &work::Conv,
        block: Block,
        (blocks, axes): (&mut Blocks, &mut Axes),
        state: &State,
    ) -> Option<Conv> {
        let [n, k, c, h, w] = conv.tile;
        if !block.is_exact() || conv.formats[0] != DataFmt::INT8 || conv.formats[1] != DataFmt::INT8
        {
            return None;
        }
        let pixel = i64::from(pitch(conv.source[0], 1));
        let row = i64::from(conv.source[2]) * pixel;
        let image = i64::from(conv.source[1]) * row;
        let mut axis = |axis: usize, outputs: u32, pitch: i64, width: usize| {
            axes.get(Steps {
                outputs,
                window: conv.kernel[axis],
                stride: conv.stride[axis],
                dilate: conv.dilate[axis],
                insert: conv.insert[axis],
                start: conv.start[axis],
                extent: conv.source[axis + 1],
                pitch,
                enlarge: None,
                width,
            })
        };
        let axes = [axis(0, h, row, 0)?, axis(1, w, pixel, block.width)?];
        let ring = state.region(core, conv.input).ok()?;
        let input =
            Input::new(ring, conv.input.address, axes, (pixel, c.into()), (n.into(), image))?;
        let bytes = element_bytes(conv.formats[2]);
        let tensor = Tensor::new(state, core, conv.output, (n, [k, h, w]), conv.dest, bytes)?;
        // Of the last pixel, bytes behind its channels are gathered with them.
        let behind = (block.width - block.inputs) as i64;
        let l2 = state.cores[core].l2.len() as i64;
        if input.extent.is_some_and(|extent| extent.end + behind > l2) || !input.is_apart(&tensor) {
            return None;
        }
        let (slot, packed) = blocks.find(block);
        let [images, rows, columns] = [n, h, w].map(|extent| extent as usize);
        let mut prepared = Conv {
            core,
            block,
            slot,
            packed,
            groups: conv.groups as usize,
            rows,
            columns,
            positions: images * rows * columns,
            input,
            image: image as usize,
            pad: conv.pad.value() as i16 as u8,
            signed: conv.signed[0],
            in_place: None,
            output: Output::new(conv, tensor),
        };
        prepared.in_place = prepared.distance();
        Some(prepared)
    }

    /// The weights of an earlier convolution are still packed.
    pub(super) fn reuses(&self) -> bool {
        self.packed
    }

    /// The distance of output positions in the input, if windows are single pixels in a row.
    fn distance(&self) -> Option<usize> {
        let Input { rows, columns, .. } = &self.input;
        let inside = !rows.offsets.contains(&OUTSIDE) && !columns.offsets.contains(&OUTSIDE);
        if rows.window != 1 || columns.window != 1 || self.groups != 1 || !inside {
            return None;
        }
        let step = |axis: &Axis| match axis.offsets[..] {
            [first, second, ..] => Some(second - first),
            _ => None,
        };
        let pixel = step(columns).or(step(rows)).unwrap_or(self.image as isize);
        let row = step(rows).unwrap_or(pixel * self.columns as isize);
        let image = pixel * (self.columns * self.rows) as isize;
        let even = row == pixel * self.columns as isize
            && (self.positions == self.columns * self.rows || image == self.image as isize);
        even.then(|| pixel.unsigned_abs())
    }

    pub(super) fn run(
        &self,
        state: &mut State,
        packs: &mut [Option<Pack>],
        scratch: &mut Scratch,
        level: Level,
    ) {
        let core = &mut state.cores[self.core];
        if !self.packed {
            packs[self.slot] = Some(Pack::new(&self.block, &core.wl0, level));
        }
        let pack = packs[self.slot].as_ref().expect("an earlier convolution packed the weights");
        let channels = pack.factors.len();
        let mut most = POSITIONS.min((SUMS / channels).max(8));
        if self.in_place.is_none() {
            most = most.min((GATHERED / self.block.depth()).max(8));
        }
        for first in (0..self.positions).step_by(most) {
            let positions = first..self.positions.min(first + most);
            scratch.sums.clear();
            scratch.sums.resize(positions.len() * channels, 0);
            let (sums, gathered) = (&mut scratch.sums, &mut scratch.gathered);
            match &pack.weights {
                Products::Signed(groups) => {
                    self.multiply(groups, &core.l2, positions, (sums, gathered), level);
                }
                Products::Unsigned(groups) => {
                    self.multiply(groups, &core.l2, positions, (sums, gathered), level);
                }
                Products::Depthwise(weights) => {
                    level.run(Depthwise { conv: self, l2: &core.l2, weights, positions, sums });
                }
            }
            level.run(Finish {
                output: &self.output,
                pack,
                first,
                sums,
                l2: &mut core.l2,
                values: &mut scratch.values,
                counts: &mut state.counts,
            });
        }
    }

    /// Adds the products of some output positions to the sums.
    fn multiply<L: Left<Sum = i32>>(
        &self,
        groups: &[Packed<L>],
        l2: &[u8],
        positions: Range<usize>,
        (sums, gathered): (&mut [i32], &mut Vec<u8>),
        level: Level,
    ) {
        let depth = self.block.depth();
        if let (Some(distance), [weights]) = (self.in_place, groups) {
            let [rows, columns] =
                [&self.input.rows, &self.input.columns].map(|axis| axis.offsets[0]);
            let start = self.input.origin + rows + columns + (positions.start * distance) as isize;
            let bytes = &l2[start as usize..];
            let left =
                Matrix::new(bytemuck::cast_slice(bytes), positions.len(), depth, distance, 1);
            return weights.multiply_add(left, sums, weights.columns());
        }
        let channels = groups.iter().map(Packed::columns).sum();
        let mut first = 0;
        for (group, weights) in groups.iter().enumerate() {
            gathered.resize(positions.len() * depth, 0);
            let from = group * self.block.inputs;
            level.run(Gather { conv: self, l2, positions: positions.clone(), from, out: gathered });
            let left = Matrix::row_major(bytemuck::cast_slice(gathered), positions.len(), depth);
            weights.multiply_add(left, &mut sums[first..], channels);
            first += weights.columns();
        }
    }

    /// Image, row and column of an output position.
    #[inline(always)]
    fn place(&self, position: usize) -> [usize; 3] {
        let (row, x) = (position / self.columns, position % self.columns);
        [row / self.rows, row % self.rows, x]
    }
}

/// The inputs under the windows of some output positions as rows.
struct Gather<'a> {
    conv: &'a Conv,
    l2: &'a [u8],
    positions: Range<usize>,
    /// The first channel.
    from: usize,
    out: &'a mut [u8],
}

impl Loop for Gather<'_> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        let Gather { conv, l2, positions, from, out } = self;
        let [mut image, mut y, mut x] = conv.place(positions.start);
        let row_length = conv.input.columns.window * conv.block.width;
        for out in out.chunks_exact_mut(conv.block.depth()) {
            let pieces = conv.input.columns.pieces(x);
            let origin = conv.input.origin + (image * conv.image + from) as isize;
            for (out, &row) in out.chunks_exact_mut(row_length).zip(conv.input.rows.of(y)) {
                if row == OUTSIDE {
                    out.fill(conv.pad);
                    continue;
                }
                let mut rest = out;
                for piece in pieces {
                    let (here, behind) = rest.split_at_mut(piece.length);
                    match piece.offset {
                        OUTSIDE => here.fill(conv.pad),
                        offset => {
                            let start = (origin + row + offset) as usize;
                            here.copy_from_slice(&l2[start..start + piece.length]);
                        }
                    }
                    rest = behind;
                }
            }
            x += 1;
            if x == conv.columns {
                (x, y) = (0, y + 1);
            }
            if y == conv.rows {
                (y, image) = (0, image + 1);
            }
        }
    }
}

/// Sums where every output channel has one input channel.
struct Depthwise<'a> {
    conv: &'a Conv,
    l2: &'a [u8],
    weights: &'a [i16],
    positions: Range<usize>,
    sums: &'a mut [i32],
}

impl Loop for Depthwise<'_> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        match self.conv.signed {
            true => self.sum(|code| i16::from(code.cast_signed())),
            false => self.sum(i16::from),
        }
    }
}

impl Depthwise<'_> {
    #[inline(always)]
    fn sum(self, number: impl Fn(u8) -> i16) {
        let Depthwise { conv, l2, weights, positions, sums } = self;
        let channels = conv.groups;
        let pad = i32::from(number(conv.pad));
        for (position, sums) in positions.zip(sums.chunks_exact_mut(channels)) {
            let [image, y, x] = conv.place(position);
            let origin = conv.input.origin + (image * conv.image) as isize;
            let mut weights = weights.chunks_exact(channels);
            for &row in conv.input.rows.of(y) {
                for (&column, weights) in conv.input.columns.of(x).iter().zip(&mut weights) {
                    if row == OUTSIDE || column == OUTSIDE {
                        for (sum, &weight) in sums.iter_mut().zip(weights) {
                            *sum += pad * i32::from(weight);
                        }
                        continue;
                    }
                    let start = (origin + row + column) as usize;
                    let inputs = &l2[start..start + channels];
                    for ((sum, &input), &weight) in sums.iter_mut().zip(inputs).zip(weights) {
                        *sum += i32::from(number(input)) * i32::from(weight);
                    }
                }
            }
        }
    }
}
