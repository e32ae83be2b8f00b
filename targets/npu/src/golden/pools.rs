//! Poolings.

use super::misfit;
use quincunx_diag::Result;
use quincunx_graph::{Pool, PoolKind, Resize};

/// The windows of a pooling over planes.
pub(super) struct Pooling {
    /// For every position of a plane of the result the elements of the operand's plane, row by row.
    reads: Vec<Vec<u32>>,
    /// Elements of a plane of the operand.
    plane: usize,
    /// What elements are multiplied by before they are added; `None` for the largest one.
    share: Option<f32>,
}

impl Pooling {
    /// A pooling of images.
    ///
    /// # Errors
    /// `Q4096` for windows outside of an image, averages of windows that are not wholly inside.
    pub(super) fn new(pool: &Pool, input: &[usize], output: &[usize]) -> Result<Pooling> {
        let (Some(&[height, width]), Some(&[rows, columns])) = (planes(input), planes(output))
        else {
            return Err(misfit("a pooling is not one of images"));
        };
        let taps = pool.window.kernel.iter().product::<usize>();
        let places = (0..rows).flat_map(|y| (0..columns).map(move |x| [y, x]));
        let reads = |place: [usize; 2]| {
            let reads = pool.window.reads(&place, &[height, width]);
            reads.into_iter().map(|(element, _)| element as u32).collect()
        };
        let reads: Vec<Vec<u32>> = places.map(reads).collect();
        let is_average = pool.kind != PoolKind::Max;
        if reads.iter().any(|reads| reads.is_empty() || is_average && reads.len() < taps) {
            return Err(misfit("a window of a pooling leaves the image"));
        }
        let share = is_average.then_some((1.0 / taps as f64) as f32);
        Ok(Pooling { reads, plane: height * width, share })
    }

    /// A pooling of whole planes.
    ///
    /// # Errors
    /// `Q4096` for what is not an image.
    pub(super) fn global(is_average: bool, input: &[usize]) -> Result<Pooling> {
        let Some(&[height, width]) = planes(input) else {
            return Err(misfit("a pooling is not one of images"));
        };
        let plane = height * width;
        let share = is_average.then_some((1.0 / plane as f64) as f32);
        Ok(Pooling { reads: vec![(0..plane as u32).collect()], plane, share })
    }

    /// Rows and columns that are selected: windows of one element.
    ///
    /// # Errors
    /// `Q4096` for what is not an image, or mixes elements.
    pub(super) fn selecting(resize: &Resize, input: &[usize], output: &[usize]) -> Result<Pooling> {
        let (Some(&[height, width]), Some(&[rows, columns])) = (planes(input), planes(output))
        else {
            return Err(misfit("what is resized is not an image"));
        };
        let one = |axis: usize, from: usize, to: usize| -> Result<Vec<usize>> {
            let Some(index) = resize.axes.iter().position(|&other| other == axis) else {
                return Ok((0..to).collect());
            };
            let taps = resize.taps(index, from, to).into_iter().map(|taps| match taps[..] {
                [(element, 1.0)] => Ok(element),
                _ => Err(misfit("a resizing mixes elements")),
            });
            taps.collect()
        };
        let (y, x) = (one(2, height, rows)?, one(3, width, columns)?);
        let place = |&row: &usize| {
            let place = move |&column: &usize| vec![(row * width + column) as u32];
            x.iter().map(place).collect::<Vec<_>>()
        };
        let reads = y.iter().flat_map(place).collect();
        Ok(Pooling { reads, plane: height * width, share: None })
    }

    /// It averages.
    pub(super) fn is_average(&self) -> bool {
        self.share.is_some()
    }

    /// The largest element of every window; or the sum of its elements times their share, the
    /// products and sums rounded one by one.
    pub(super) fn apply(&self, numbers: &[f32]) -> Vec<f32> {
        let windows = numbers.chunks_exact(self.plane).flat_map(|plane| {
            self.reads.iter().map(|reads| {
                let elements = reads.iter().map(|&at| plane[at as usize]);
                match self.share {
                    Some(share) => elements.map(|x| x * share).reduce(|sum, x| sum + x),
                    None => elements.reduce(f32::max),
                }
            })
        });
        windows.flatten().collect()
    }
}

/// Height and width of images that have elements.
fn planes(shape: &[usize]) -> Option<&[usize; 2]> {
    let is_image = shape.len() == 4 && !shape.contains(&0) && shape[2] * shape[3] < 1 << 32;
    shape.get(2..).filter(|_| is_image).and_then(|extents| extents.try_into().ok())
}
