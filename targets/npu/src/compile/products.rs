//! Products of two values, one of which becomes weights.
//!
//! Ours. The right operand is of codes around 0. The reordering queue copies or transposes it into a
//! block of L2 with the layout of weights; the parameters behind every row are the same for all rows
//! and are loaded before. From there the block goes to WL0 as weights do. Codes of the left operand
//! that are not around 0 are mended by further kernel points, which lie in the padding and multiply
//! the same weights with minus the zero.
//!
//! A value holds several matrices, as the heads of an attention: slices of its channels, or of its
//! positions. Their products are one after the other.

use super::layers::{Form, Grid, Reason, shape};
use crate::isa::DataFmt;
use crate::ports::{Loop, View, places};
use crate::work::{Copy, Extents, PARAMETER_BYTES, Place, Reorder, ceil8};

/// Blocks of right operands that are in L2 together.
pub(crate) const SLOTS: u32 = 4;
/// Channels behind a row whose number is no multiple of 8 are loaded with the parameters.
const PADDING: u32 = 8;

/// The products of the matrices of an image.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Product {
    /// Rows of the left operand and the result.
    pub(crate) rows: u32,
    /// Columns of the left operand, rows of the right one.
    pub(crate) depth: u32,
    /// Columns of the right operand and the result.
    pub(crate) columns: u32,
    /// The columns of the right operand are its channels; otherwise its rows are.
    pub(crate) transposed: bool,
    /// Kernel points beside the first, and the code that each finds in the padding.
    pub(crate) taps: (u32, i32),
    /// Where the matrices begin.
    pub(crate) heads: Vec<Head>,
}

/// Position and channel with which the matrices of a product begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Head {
    pub(crate) left: (u32, u32),
    pub(crate) right: (u32, u32),
    pub(crate) result: (u32, u32),
}

/// Matrices of a value: the first number of each, and the loops of rows and columns.
struct Matrices {
    starts: Vec<u64>,
    rows: Vec<Loop>,
    columns: Vec<Loop>,
}

fn matrices(form: &Form, dims: [usize; 4]) -> Option<Matrices> {
    let [images, heads, rows, columns]: [Vec<Loop>; 4] = form.view.split(&dims)?.try_into().ok()?;
    let image = form.extents.iter().map(|&extent| u64::from(extent)).product();
    let outer: &[Loop] = if form.images == 1 { &[] } else { &[(form.images.into(), image)] };
    (images == outer).then(|| Matrices { starts: places(&heads).collect(), rows, columns })
}

/// The loop of one axis, unless it has one entry.
fn one(extent: u32, step: u64) -> Vec<Loop> {
    if extent == 1 { Vec::new() } else { vec![(extent.into(), step)] }
}

/// Kernel points in the padding that together hold minus the zero, and the code of each.
fn taps(zero: i32) -> (u32, i32) {
    match zero {
        0 => (0, 0),
        // Half of it, since 128 is no code.
        -128 => (2, 64),
        _ => (1, -zero),
    }
}

impl Product {
    /// The products of two values of these shapes, and how the result is held: with `slices` its
    /// matrices are slices of channels, if their columns are a multiple of `grain`.
    ///
    /// # Errors
    /// Why the machine has no such product.
    pub(crate) fn new(
        [(left, a), (right, b)]: [(Form, &[usize]); 2],
        slices: Option<u32>,
    ) -> Reason<(Product, Form)> {
        let ([batch @ .., m, k], [others @ .., _, n]) = (a, b) else {
            return Err("an operand is no matrix".to_owned());
        };
        let (Grid::Codes { zero, .. }, Grid::Codes { zero: 0, .. }) = (left.grid, right.grid)
        else {
            return Err(
                "its right operand, which becomes weights, has a zero point, or an operand \
                        is of half precision"
                    .to_owned(),
            );
        };
        let all: usize = batch.iter().product();
        let images = left.images as usize;
        if batch != others || images != right.images as usize || !all.is_multiple_of(images) {
            return Err("its operands are not as many matrices of every image".to_owned());
        }
        let count = all / images;
        let outside = || "its matrices lie scattered in memory".to_owned();
        let [x, y] = [(&left, [images, count, *m, *k]), (&right, [images, count, *k, *n])]
            .map(|(form, dims)| matrices(form, dims));
        let (x, y) = x.zip(y).ok_or_else(outside)?;
        let [m, k, n, count] = [*m, *k, *n, count].map(|extent| extent as u32);
        let [pixel, other] = [left, right].map(|form| u64::from(form.extents[0]));
        let transposed = y.columns == one(n, 1) && y.rows == one(k, other);
        let plain = y.columns == one(n, other) && y.rows == one(k, 1);
        if x.rows != one(m, pixel) || x.columns != one(k, 1) || !(plain || transposed) {
            return Err(outside());
        }
        let sliced = count > 1 && slices.is_some_and(|grain| n.is_multiple_of(grain));
        let result = match sliced {
            true => [count.saturating_mul(n), m, 1],
            false => [n, count, m],
        };
        let [wide_n, wide_count, wide_m] = [n, count, m].map(u64::from);
        let row = wide_n * wide_count;
        let view = match sliced {
            true => {
                let outer = [(images as u64, row * wide_m), (wide_count, wide_n)];
                View::new(&[outer[0], outer[1], (wide_m, row), (wide_n, 1)])
            }
            false => Some(View::dense(images as u64 * row * wide_m)),
        };
        let taps = taps(zero);
        let (_, extents) =
            shape(&[images, result[0] as usize, result[1] as usize, result[2] as usize])?;
        shape(&[1, (ceil8(k) * (1 + taps.0) + 32) as usize, m as usize, n as usize])?;
        let head = |index: u32| {
            let place = |start: u64, pixel: u64| ((start / pixel) as u32, (start % pixel) as u32);
            let result = if sliced { (0, index * n) } else { (index * m, 0) };
            let [left, right] =
                [place(x.starts[index as usize], pixel), place(y.starts[index as usize], other)];
            Head { left, right, result }
        };
        let heads: Vec<Head> = (0..count).map(head).collect();
        let aligned = |(_, channel): (u32, u32)| channel.is_multiple_of(8);
        if !heads.iter().all(|head| aligned(head.left) && aligned(head.right)) {
            return Err("its matrices do not begin at multiples of 8 channels".to_owned());
        }
        let product = Product { rows: m, depth: k, columns: n, transposed, taps, heads };
        let view = view.ok_or_else(outside)?;
        Ok((product, Form { extents, view, ..left }))
    }

    /// Kernel of the convolution that computes a product.
    pub(crate) fn kernel(&self) -> [u32; 2] {
        [1, 1 + self.taps.0]
    }

    /// Bytes of a row of weights without its parameters.
    fn row(&self) -> u32 {
        ceil8(self.depth) * (1 + self.taps.0)
    }

    /// Bytes of a block.
    pub(crate) fn bytes(&self) -> u64 {
        (u64::from(self.row()) + PARAMETER_BYTES) * u64::from(self.columns)
    }

    /// Bytes before the parameters of a row that are loaded with them.
    fn padding(&self) -> u32 {
        if self.depth.is_multiple_of(8) { 0 } else { PADDING }
    }

    /// The parameters of all rows as DRAM holds them.
    pub(crate) fn parameters(&self, factor: f32) -> Vec<u8> {
        let mut row = vec![0; (self.padding() + PARAMETER_BYTES as u32) as usize];
        let at = self.padding() as usize;
        row[at..at + 4].copy_from_slice(&factor.to_le_bytes());
        row.repeat(self.columns as usize)
    }

    /// Copies that load the parameters from a byte in DRAM into a block, and zeros behind the
    /// channels of every kernel point.
    pub(crate) fn loads(&self, dram: u32, block: u64) -> Vec<Copy> {
        let whole = self.padding() + PARAMETER_BYTES as u32;
        let copy = |channels: u32, offset: u32| Copy {
            load: true,
            bas: 1,
            dense: true,
            format: DataFmt::INT8,
            dram,
            l2: Place { region: 0, address: (block + u64::from(offset)) as i64 },
            images: 1,
            tile: [channels, self.columns, 1],
            dram_tensor: [whole, self.columns, 1],
            l2_tensor: [self.row() + PARAMETER_BYTES as u32, self.columns, 1],
        };
        let points = (1..=self.taps.0).filter(|_| self.padding() > 0);
        let zeros = points.map(|point| copy(PADDING, point * ceil8(self.depth) - PADDING));
        zeros.chain([copy(whole, self.row() - self.padding())]).collect()
    }

    /// Lines that bring a right operand of the tensor with these extents, whose image begins at
    /// `image`, into the block at `block`.
    pub(crate) fn packs(
        &self,
        head: usize,
        tensor: Extents,
        image: u64,
        block: u64,
    ) -> Vec<Reorder> {
        let [channels, rows, columns] = tensor;
        let (position, channel) = self.heads[head].right;
        let pixel = u64::from(ceil8(channels));
        let from = image + u64::from(position) * pixel + u64::from(channel);
        let (order, tile) = match self.transposed {
            // Rows of the block are channels, and its channels are rows.
            true => (5, [self.columns, self.depth, 1]),
            false => (0, [self.depth, self.columns, 1]),
        };
        let tensors = [
            [channels, (rows * columns).saturating_sub(position), 1],
            [self.row() + PARAMETER_BYTES as u32, self.columns, 1],
        ];
        let place = |address: u64| Place { region: 0, address: address as i64 };
        let line = |tap: u32| {
            let to = block + u64::from(tap * ceil8(self.depth));
            let places = [place(from), place(to)];
            Reorder { order, format: DataFmt::INT8, tensors, places, images: 1, tile }
        };
        (0..=self.taps.0).map(line).collect()
    }
}
