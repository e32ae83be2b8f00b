//! Orders of axes.
//!
//! TensorFlow keeps channels last, the graph's windows want them after the batch. A tensor may
//! therefore be stored in another order of axes than the file means; an order lists, for every
//! stored axis, the axis of the file.

use quincunx_diag::{Diagnostic, Result};
use quincunx_tensor::{Shape, show_shape};

/// Order of axes of a stored tensor: stored axis `i` is axis `order[i]` of the file.
pub(crate) type Order = Vec<usize>;

/// Channels before the spatial axes, of a tensor `[N, H, W, C]`.
pub(crate) const NCHW: [usize; 4] = [0, 3, 1, 2];

/// The order of the file itself.
pub(crate) fn plain(rank: usize) -> Order {
    (0..rank).collect()
}

/// True for the order of the file itself.
pub(crate) fn is_plain(order: &[usize]) -> bool {
    order.iter().enumerate().all(|(stored, &axis)| stored == axis)
}

/// Where each axis of the file is stored.
pub(crate) fn inverse(order: &[usize]) -> Vec<usize> {
    let mut positions = vec![0; order.len()];
    for (stored, &axis) in order.iter().enumerate() {
        positions[axis] = stored;
    }
    positions
}

/// The stored axes in the order that brings a tensor from one order to another.
pub(crate) fn between(from: &[usize], to: &[usize]) -> Vec<usize> {
    let positions = inverse(from);
    to.iter().map(|&axis| positions[axis]).collect()
}

/// The order that is left when axes of the file are removed.
pub(crate) fn without(order: &[usize], removed: &[usize]) -> Order {
    let kept = order.iter().filter(|axis| !removed.contains(axis));
    kept.map(|&axis| axis - removed.iter().filter(|&&r| r < axis).count()).collect()
}

/// The order after axes were added at these positions of the result, which are sorted. The new
/// axes are stored where they stand in the file if the order is plain, else last.
pub(crate) fn with(order: &[usize], added: &[usize]) -> Order {
    let rank = order.len() + added.len();
    if is_plain(order) {
        return plain(rank);
    }
    let mut kept = (0..rank).filter(|axis| !added.contains(axis));
    let moved: Vec<usize> = kept.by_ref().collect();
    order.iter().map(|&axis| moved[axis]).chain(added.iter().copied()).collect()
}

/// The target of a reshape to these extents. Leading extents that do not change are copied, so
/// that the batch may be rebound later.
///
/// # Errors
/// `Q0406` when several extents become 0.
pub(crate) fn reshape_target(from: &[usize], to: &[usize]) -> Result<Vec<i64>> {
    let same = from.iter().zip(to).take_while(|(a, b)| a == b).count();
    let mut open = false;
    let extent = |(axis, &extent): (usize, &usize)| match extent {
        _ if axis < same => Ok(0),
        // 0 cannot be written, but all elements of an empty tensor can be left over.
        0 if !std::mem::replace(&mut open, true) => Ok(-1),
        0 => Err(Diagnostic::unsupported(
            "Q0406",
            format!("a reshape to {} with several zeros", show_shape(to)),
        )),
        extent => i64::try_from(extent)
            .map_err(|_| Diagnostic::invalid("Q0407", format!("extent {extent} is too large"))),
    };
    to.iter().enumerate().map(extent).collect()
}

/// The shape of the file, from the stored one.
pub(crate) fn shape_of(stored: &[usize], order: &[usize]) -> Shape {
    inverse(order).into_iter().map(|position| stored[position]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_follow_the_axes() {
        assert_eq!(shape_of(&[1, 8, 5, 6], &NCHW).as_slice(), [1, 5, 6, 8]);
        assert_eq!(between(&NCHW, &plain(4)), [0, 2, 3, 1]);
        assert_eq!(between(&plain(4), &NCHW), NCHW);
        assert_eq!(without(&NCHW, &[1, 2]), [0, 1]);
        assert_eq!(without(&NCHW, &[0]), [2, 0, 1]);
        assert_eq!(with(&[0, 1], &[1, 2]), [0, 1, 2, 3]);
        assert_eq!(with(&[1, 0], &[1]), [2, 0, 1]);
        // Adding and removing an axis changes nothing.
        assert_eq!(without(&with(&NCHW, &[2]), &[2]), NCHW);
    }
}
