//! Poolings: largest ones, and sums.

use super::misfit;
use quincunx_diag::Result;
use quincunx_graph::{Op, Pool, PoolKind, Window};

/// A pooling of planes.
pub(super) struct Pooling {
    /// The results are elements of the operand.
    pub(super) is_max: bool,
    /// Without a window the whole plane is one.
    window: Option<Window>,
    /// Extents of a plane of the operand, and of the result.
    input: Vec<usize>,
    output: Vec<usize>,
    /// What sums are divided by; 1 for largest ones.
    pub(super) divisor: usize,
}

impl Pooling {
    /// The pooling that a node is; `None` for another node. Shapes are those of operand and result.
    ///
    /// # Errors
    /// As [`Pooling::new`] and [`Pooling::global`].
    pub(super) fn of(op: &Op, input: &[usize], output: &[usize]) -> Result<Option<Pooling>> {
        match op {
            Op::Pool(pool) => Pooling::new(pool, input, output).map(Some),
            Op::GlobalAveragePool => Pooling::global(false, input).map(Some),
            Op::GlobalMaxPool => Pooling::global(true, input).map(Some),
            _ => Ok(None),
        }
    }

    /// A pooling of values of shape `[N, C, …]`.
    ///
    /// # Errors
    /// `Q6190` for averages that divide by several numbers, and for windows without elements.
    fn new(pool: &Pool, input: &[usize], output: &[usize]) -> Result<Pooling> {
        let is_max = pool.kind == PoolKind::Max;
        let mut pooling = Pooling::global(is_max, input)?;
        let output = planes(output)?;
        let window = &pool.window;
        let is_empty = |axis: usize| {
            (0..output[axis]).any(|out| window.taps(axis, out, pooling.input[axis]).is_empty())
        };
        if (0..output.len()).any(is_empty) {
            return Err(misfit("a window of a pooling has no elements"));
        }
        if !is_max {
            let divisors = pool.divisors(&pooling.input, output);
            let divisor = divisors.first().copied().unwrap_or(1);
            if divisors.iter().any(|&other| other != divisor) {
                return Err(misfit("an average divides by several numbers"));
            }
            pooling.divisor = divisor;
        }
        pooling.output = output.to_vec();
        pooling.window = Some(window.clone());
        Ok(pooling)
    }

    /// A pooling of whole planes.
    ///
    /// # Errors
    /// `Q6190` for values without elements or planes.
    fn global(is_max: bool, input: &[usize]) -> Result<Pooling> {
        let input = planes(input)?.to_vec();
        let divisor = if is_max { 1 } else { input.iter().product() };
        let output = vec![1; input.len()];
        Ok(Pooling { is_max, window: None, input, output, divisor })
    }

    /// The largest code, or the sum of the codes, of every window; outside of a plane they are 0.
    pub(super) fn of_codes(&self, codes: &[i16]) -> Vec<i64> {
        match self.is_max {
            true => self.apply(codes, |window| window.max().unwrap_or(0).into()),
            false => self.apply(codes, |window| window.map(i64::from).sum()),
        }
    }

    /// What the numbers of every window become, row by row. Those in the padding are left out.
    pub(super) fn apply<T: Copy, R: Default + Clone>(
        &self,
        numbers: &[T],
        pooled: impl Fn(&mut dyn Iterator<Item = T>) -> R,
    ) -> Vec<R> {
        let plane: usize = self.input.iter().product();
        let planes = numbers.chunks_exact(plane);
        let Some(window) = &self.window else {
            return planes.map(|plane| pooled(&mut plane.iter().copied())).collect();
        };
        let positions: usize = self.output.iter().product();
        let mut results = vec![R::default(); planes.len() * positions];
        for position in 0..positions {
            let reads = window.reads(&place(position, &self.output), &self.input);
            for (plane, results) in planes.clone().zip(results.chunks_exact_mut(positions)) {
                results[position] = pooled(&mut reads.iter().map(|&(element, _)| plane[element]));
            }
        }
        results
    }
}

/// Extents behind images and channels, none of which is 0.
fn planes(shape: &[usize]) -> Result<&[usize]> {
    let planes = shape.get(2..).filter(|planes| !planes.is_empty() && !shape.contains(&0));
    planes.ok_or_else(|| misfit("what is pooled has no planes"))
}

/// Row-major position `index` in a tensor of these extents.
pub(super) fn place(mut index: usize, extents: &[usize]) -> Vec<usize> {
    let mut place = vec![0; extents.len()];
    for (at, &extent) in place.iter_mut().zip(extents).rev() {
        (index, *at) = (index / extent, index % extent);
    }
    place
}
