//! Batches of matrix products of two values.

use super::misfit;
use quincunx_diag::Result;
use quincunx_tensor::{View, broadcast_shapes};

/// A product of two values, for every matrix of a batch.
pub(super) struct Pairs {
    /// For every matrix of the result, that of the first operand and that of the second one.
    matrices: Vec<[usize; 2]>,
    /// Rows of the first operand, and columns; columns of the second one.
    pub(super) extents: [usize; 3],
}

impl Pairs {
    /// The product of values of these shapes.
    ///
    /// # Errors
    /// `Q6190` for values without elements, vectors, and shapes that do not fit.
    pub(super) fn new([a, b]: [&[usize]; 2]) -> Result<Pairs> {
        let wrong = || misfit("a product of two values has no elements or is one of vectors");
        let ([a_batch @ .., rows, depth], [b_batch @ .., other, columns]) = (a, b) else {
            return Err(wrong());
        };
        if a.iter().chain(b).any(|&extent| extent == 0) || depth != other {
            return Err(wrong());
        }
        let all = broadcast_shapes(a_batch, b_batch).ok_or_else(wrong)?;
        // Numbers of the matrices, repeated along the batch of the result.
        let numbers = |batch: &[usize]| -> Option<Vec<usize>> {
            let own: Vec<usize> = (0..batch.iter().product()).collect();
            Some(View::new(&own, batch).broadcast(&all)?.to_vec())
        };
        let [a_numbers, b_numbers] = [a_batch, b_batch].map(numbers);
        let both = a_numbers.ok_or_else(wrong)?.into_iter().zip(b_numbers.ok_or_else(wrong)?);
        let matrices = both.map(|(a, b)| [a, b]).collect();
        Ok(Pairs { matrices, extents: [*rows, *depth, *columns] })
    }

    /// What becomes of all pairs of a matrix of rows and one of columns, in the order of the result. The
    /// columns of a matrix lie one after the other.
    pub(super) fn each<T: Copy, R>(
        &self,
        [a, b]: [&[T]; 2],
        of: impl Fn(&[T], Vec<T>) -> Vec<R>,
    ) -> Vec<R> {
        let [rows, depth, columns] = self.extents;
        let product = |&[at_a, at_b]: &[usize; 2]| {
            let matrix = &b[at_b * depth * columns..][..depth * columns];
            let matrix = View::new(matrix, &[depth, columns]).permute(&[1, 0]).to_vec();
            of(&a[at_a * rows * depth..][..rows * depth], matrix)
        };
        self.matrices.iter().flat_map(product).collect()
    }
}
