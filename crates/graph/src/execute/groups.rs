//! Elements that a reduction joins, side by side.

use quincunx_tensor::View;
use std::borrow::Cow;

/// The elements of a tensor in groups: one group per result, in row-major order of the results;
/// within a group in row-major order of the joined axes.
pub(super) struct Groups<'a, T: Clone> {
    elements: Cow<'a, [T]>,
    size: usize,
    count: usize,
}

impl<'a, T: Clone> Groups<'a, T> {
    /// Groups that join the elements along `axes`.
    pub(super) fn new(values: &'a [T], shape: &[usize], axes: &[usize]) -> Self {
        let kept: Vec<usize> = (0..shape.len()).filter(|axis| !axes.contains(axis)).collect();
        let joined: Vec<usize> = (0..shape.len()).filter(|axis| axes.contains(axis)).collect();
        let extent = |axes: &[usize]| axes.iter().map(|&axis| shape[axis]).product();
        let (size, count) = (extent(&joined), extent(&kept));
        let order = [kept, joined].concat();
        let elements = match order.is_sorted() {
            true => Cow::Borrowed(values),
            false => Cow::Owned(View::new(values, shape).permute(&order).to_vec()),
        };
        Groups { elements, size, count }
    }

    /// Every group; all have the same number of elements, which may be 0.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[T]> {
        (0..self.count).map(|group| &self.elements[group * self.size..][..self.size])
    }
}

/// Position of the extreme element of a group that is not empty.
pub(super) fn position_of_extreme<T: PartialOrd>(group: &[T], largest: bool, last: bool) -> i64 {
    let mut best = 0;
    for (index, element) in group.iter().enumerate().skip(1) {
        let better = if largest { element > &group[best] } else { element < &group[best] };
        if better || (last && element == &group[best]) {
            best = index;
        }
    }
    i64::try_from(best).unwrap_or(i64::MAX)
}
