//! Interpolation, axis by axis.

use super::window::Number;
use crate::Resize;
use quincunx_tensor::Shape;

/// Resizes a tensor that is not nearest: every resized axis in turn, those that shrink most first,
/// becomes a weighted sum of its elements. `weight` converts the weights. Sums run over the elements upwards.
pub(super) fn interpolate<T: Number>(
    resize: &Resize,
    x: &[T],
    x_shape: &[usize],
    out_shape: &[usize],
    weight: impl Fn(f64) -> T,
    fill: &T,
) -> Vec<T> {
    let mut shape = Shape::from_slice(x_shape);
    let mut values = x.to_vec();
    // Elements that read nothing stay so whatever the other axes do.
    let mut outside = vec![false; values.len()];
    for index in by_growth(resize, x_shape, out_shape) {
        let axis = resize.axes[index];
        let taps = resize.taps(index, shape[axis], out_shape[axis]);
        let inner: usize = shape[axis + 1..].iter().product();
        let outer: usize = shape[..axis].iter().product();
        let mut next = Vec::with_capacity(outer * taps.len() * inner);
        let mut next_outside = Vec::with_capacity(next.capacity());
        for block in 0..outer {
            for taps in &taps {
                for i in 0..inner {
                    let at = |element: usize| (block * shape[axis] + element) * inner + i;
                    let mut sum = T::zero();
                    for &(element, factor) in taps {
                        sum.multiply_add(&values[at(element)], &weight(factor));
                    }
                    next.push(sum);
                    next_outside.push(taps.is_empty() || taps.iter().any(|&(e, _)| outside[at(e)]));
                }
            }
        }
        (values, outside) = (next, next_outside);
        shape[axis] = out_shape[axis];
    }
    let filled = values.into_iter().zip(outside);
    filled.map(|(value, outside)| if outside { fill.clone() } else { value }).collect()
}

/// Positions in `resize.axes`, those whose axis grows least first. So no tensor between two axes is
/// larger than both the operand and the result.
fn by_growth(resize: &Resize, x_shape: &[usize], out_shape: &[usize]) -> Vec<usize> {
    let growth = |index: usize| {
        let axis = resize.axes[index];
        (out_shape[axis] as u128, x_shape[axis] as u128)
    };
    let mut order: Vec<usize> = (0..resize.axes.len()).collect();
    order.sort_by(|&a, &b| {
        let ((a_out, a_in), (b_out, b_in)) = (growth(a), growth(b));
        (a_out * b_in).cmp(&(b_out * a_in))
    });
    order
}
