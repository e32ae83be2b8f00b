//! Interpolation, axis by axis.

use super::window::Number;
use crate::Resize;
use quincunx_tensor::Shape;

/// Resizes a tensor that is not nearest: every resized axis in turn becomes a weighted sum of its
/// elements. `weight` converts the weights. Sums run over the elements upwards.
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
    for (index, &axis) in resize.axes.iter().enumerate() {
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
