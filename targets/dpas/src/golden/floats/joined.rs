//! Matrix products of two values.

use super::products::Product;
use crate::golden::misfit;
use crate::golden::numbers::Float;
use crate::golden::numerics::Adding;
use quincunx_diag::Result;
use quincunx_tensor::{View, broadcast_shapes};

/// A product of two values, for every matrix of a batch.
pub(super) struct Joined {
    x: Float,
    adding: Adding,
    /// For every matrix of the result, that of the first operand and that of the second one.
    pairs: Vec<[usize; 2]>,
    /// Rows of the first operand, and columns; columns of the second one.
    extents: [usize; 3],
}

impl Joined {
    /// The product of values of these shapes.
    ///
    /// # Errors
    /// `Q6190` for values without elements, vectors, and shapes that do not fit.
    pub(super) fn new([a, b]: [&[usize]; 2], x: Float, adding: Adding) -> Result<Joined> {
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
        let pairs = a_numbers.ok_or_else(wrong)?.into_iter().zip(b_numbers.ok_or_else(wrong)?);
        let pairs = pairs.map(|(a, b)| [a, b]).collect();
        Ok(Joined { x, adding, pairs, extents: [*rows, *depth, *columns] })
    }

    /// The sums, in the order of the result.
    pub(super) fn apply(&self, a: &[f32], b: &[f32]) -> Vec<f32> {
        let [rows, depth, columns] = self.extents;
        let product = |&[at_a, at_b]: &[usize; 2]| {
            let matrix = &b[at_b * depth * columns..][..depth * columns];
            let weights = View::new(matrix, &[depth, columns]).permute(&[1, 0]).to_vec();
            let product = Product::of_matrix(weights, [depth, columns], self.x, self.adding);
            product.apply(&a[at_a * rows * depth..][..rows * depth])
        };
        self.pairs.iter().flat_map(product).collect()
    }
}
