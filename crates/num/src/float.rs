//! Products of f32 matrices, through a library.

use crate::matrix::{Matrix, span};

/// `out = left * right + beta * out`, in f32. Row `r` of the result starts at
/// `out[r * out_stride]`. With `beta` 0 what is there before does not matter, NaN included.
///
/// **Not exact and not ordered.** The library chooses the order of additions and whether a product
/// is rounded before it is added, by the instructions that the processor has. The same call on the
/// same machine gives the same bits; another machine may differ in the last places. For reference
/// paths that compare with a tolerance, never for a simulator.
///
/// # Panics
/// When the inner sizes differ, rows of the result overlap, or `out` is too short.
pub fn multiply_f32(
    left: Matrix<'_, f32>,
    right: Matrix<'_, f32>,
    beta: f32,
    out: &mut [f32],
    out_stride: usize,
) {
    assert_eq!(left.columns(), right.rows(), "the inner sizes are equal");
    if left.rows() == 0 || right.columns() == 0 {
        return;
    }
    assert!(out_stride >= right.columns() || left.rows() == 1, "rows of the result are disjoint");
    let needed = span(left.rows(), out_stride, right.columns());
    assert!(needed.is_some_and(|n| n <= out.len()), "the result has room");
    let signed = |stride: usize| isize::try_from(stride).unwrap_or(isize::MAX);
    // SAFETY: A `Matrix` has all its elements in its slice, and so has the result by the
    // assertions; a matrix with one row or column may have a stride beyond `isize`, which is then
    // multiplied by 0 only. Elements of the result are distinct, and `&mut` keeps it apart from
    // both sides.
    unsafe {
        matrixmultiply::sgemm(
            left.rows(),
            left.columns(),
            right.columns(),
            1.0,
            left.data().as_ptr(),
            signed(left.row_stride()),
            signed(left.column_stride()),
            right.data().as_ptr(),
            signed(right.row_stride()),
            signed(right.column_stride()),
            beta,
            out.as_mut_ptr(),
            signed(out_stride),
            1,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Small integers, whose sums are exact in any order.
        #[test]
        fn equals_the_definition(m in 0_usize..20, k in 0_usize..40, n in 0_usize..20, seed: u32) {
            let number = |i: usize, salt: u32| {
                let mixed = (seed ^ salt).wrapping_add(i as u32).wrapping_mul(0x9e37_79b1);
                (mixed >> 24) as f32 - 128.0
            };
            let left: Vec<f32> = (0..m * k).map(|i| number(i, 1)).collect();
            let right: Vec<f32> = (0..k * n).map(|i| number(i, 2)).collect();
            let (left, right) = (
                Matrix::row_major(&left, m, k),
                Matrix::row_major(&right, n, k).transposed(),
            );
            let before: Vec<f32> = (0..m * (n + 1)).map(|i| number(i, 3)).collect();
            for beta in [0.0, 1.0] {
                let mut expected = before.clone();
                for row in 0..m {
                    for column in 0..n {
                        let products = (0..k).map(|i| left.get(row, i) * right.get(i, column));
                        let place = &mut expected[row * (n + 1) + column];
                        *place = products.sum::<f32>() + beta * *place;
                    }
                }
                let mut out = before.clone();
                multiply_f32(left, right, beta, &mut out, n + 1);
                prop_assert_eq!(&out, &expected);
            }
        }
    }

    #[test]
    fn what_was_there_does_not_matter_with_beta_0() {
        let mut out = [f32::NAN];
        let empty = Matrix::row_major(&[], 1, 0);
        multiply_f32(empty, Matrix::row_major(&[], 0, 1), 0.0, &mut out, 1);
        assert_eq!(out, [0.0]);
    }
}
