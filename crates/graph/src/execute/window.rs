//! Geometry shared by both executors: windows, matrix products and element moves, for any number
//! type.

use crate::{Conv, Window};
use quincunx_tensor::{Shape, element_count};
use smallvec::SmallVec;

/// Where a window reads: `(input offset, tap)` of every tap that lies inside the input, taps in
/// row-major order.
pub(super) struct Taps {
    /// Offsets within one channel, with the tap's index in the kernel.
    pub(super) inside: Vec<(usize, usize)>,
}

/// Calls `visit(position, taps)` for every output position in row-major order. `input` and
/// `output` are spatial extents.
pub(super) fn each_position(
    window: &Window,
    input: &[usize],
    output: &[usize],
    mut visit: impl FnMut(usize, &Taps),
) {
    let mut taps = Taps { inside: Vec::new() };
    for (position, out) in indices(output).enumerate() {
        taps.inside.clear();
        let inside: SmallVec<[_; 3]> =
            (0..input.len()).map(|axis| window.taps(axis, out[axis], input[axis])).collect();
        let extents: Shape = inside.iter().map(ExactSizeIterator::len).collect();
        for offsets in indices(&extents) {
            let (mut source, mut tap) = (0, 0);
            for axis in 0..input.len() {
                let t = inside[axis].start + offsets[axis];
                let padded = out[axis] * window.strides[axis] + t * window.dilations[axis];
                source = source * input[axis] + padded - window.pads[axis].0;
                tap = tap * window.kernel[axis] + t;
            }
            taps.inside.push((source, tap));
        }
        visit(position, &taps);
    }
}

/// Every index of a shape in row-major order.
pub(super) fn indices(shape: &[usize]) -> impl Iterator<Item = Shape> + use<> {
    let shape: Shape = shape.into();
    let count = element_count(&shape).unwrap_or(0);
    let mut index = Shape::from_elem(0, shape.len());
    (0..count).map(move |_| {
        let current = index.clone();
        for axis in (0..index.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
        current
    })
}

/// Numbers that can be multiplied and accumulated.
pub(super) trait Number: Clone {
    fn zero() -> Self;
    fn multiply_add(&mut self, a: &Self, b: &Self);
}

/// A convolution without bias. Sums run over the input channel, then the taps.
pub(super) fn convolve<T: Number>(
    conv: &Conv,
    x: &[T],
    x_shape: &[usize],
    w: &[T],
    w_shape: &[usize],
    out_shape: &[usize],
) -> Vec<T> {
    let [batch, channels] = [x_shape[0], x_shape[1]];
    let (filters, depth) = (w_shape[0], w_shape[1]);
    let plane: usize = x_shape[2..].iter().product();
    let kernel: usize = w_shape[2..].iter().product();
    let positions: usize = out_shape[2..].iter().product();
    let filters_per_group = filters / conv.groups;
    let mut out = vec![T::zero(); batch * filters * positions];
    each_position(&conv.window, &x_shape[2..], &out_shape[2..], |position, taps| {
        for n in 0..batch {
            for m in 0..filters {
                let first = n * channels + m / filters_per_group * depth;
                let sum = &mut out[(n * filters + m) * positions + position];
                for c in 0..depth {
                    let x = &x[(first + c) * plane..][..plane];
                    let w = &w[(m * depth + c) * kernel..][..kernel];
                    for &(source, tap) in &taps.inside {
                        sum.multiply_add(&x[source], &w[tap]);
                    }
                }
            }
        }
    });
    out
}

/// Extents of a (batched) matrix product.
pub(super) struct Product<'a> {
    /// Outer extents of the result.
    pub(super) outer: &'a [usize],
    /// Outer extents of the left side, which broadcast to `outer`.
    pub(super) a_outer: &'a [usize],
    /// Outer extents of the right side.
    pub(super) b_outer: &'a [usize],
    /// Rows, inner extent, columns.
    pub(super) extents: [usize; 3],
}

impl Product<'_> {
    /// For every matrix of the result, which matrices of the left and right side it comes from.
    pub(super) fn offsets(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let offsets = |index: Shape| {
            (broadcast_offset(&index, self.a_outer), broadcast_offset(&index, self.b_outer))
        };
        indices(self.outer).map(offsets)
    }
}

/// `a [..., m, k] * b [..., k, n]`; sums run over `k` upwards.
pub(super) fn multiply<T: Number>(product: &Product<'_>, a: &[T], b: &[T]) -> Vec<T> {
    let [m, depth, n] = product.extents;
    let batches = element_count(product.outer).unwrap_or(0);
    let mut out = vec![T::zero(); batches * m * n];
    for (batch, (left, right)) in product.offsets().enumerate() {
        let a = &a[left * m * depth..][..m * depth];
        let b = &b[right * depth * n..][..depth * n];
        let out = &mut out[batch * m * n..][..m * n];
        for row in 0..m {
            for k in 0..depth {
                for column in 0..n {
                    out[row * n + column].multiply_add(&a[row * depth + k], &b[k * n + column]);
                }
            }
        }
    }
    out
}

/// Row-major offset in a tensor of shape `shape` of the element that broadcasts to `index`.
fn broadcast_offset(index: &[usize], shape: &[usize]) -> usize {
    let inner = &index[index.len() - shape.len()..];
    shape
        .iter()
        .zip(inner)
        .fold(0, |offset, (&extent, &i)| offset * extent + if extent == 1 { 0 } else { i })
}

/// The pieces of a matrix product of shapes `a` and `b` with numpy's rules for vectors.
pub(super) fn product_of<'a>(a: &'a [usize], b: &'a [usize], out: &'a [usize]) -> Product<'a> {
    let (a_outer, m, depth) = match a {
        [outer @ .., m, k] => (outer, *m, *k),
        _ => (&[][..], 1, a[0]),
    };
    let (b_outer, n) = match b {
        [outer @ .., _, n] => (outer, *n),
        _ => (&[][..], 1),
    };
    let outer_rank = a_outer.len().max(b_outer.len());
    Product { outer: &out[..outer_rank], a_outer, b_outer, extents: [m, depth, n] }
}
