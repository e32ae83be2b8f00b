//! Strided read-only views.

use crate::{Shape, element_count};

/// A strided window on a slice: element `index` is `data[offset + sum(index * stride)]`.
///
/// Invariant: every index within the shape addresses an element of `data`.
#[derive(Clone, Debug)]
pub struct View<'a, T> {
    data: &'a [T],
    offset: usize,
    shape: Shape,
    strides: Shape,
}

impl<'a, T: Clone> View<'a, T> {
    /// A row-major view.
    ///
    /// # Panics
    /// When `data` does not have one element per index.
    pub fn new(data: &'a [T], shape: &[usize]) -> Self {
        assert_eq!(element_count(shape), Some(data.len()), "view shape matches its data");
        View { data, offset: 0, shape: shape.into(), strides: row_major_strides(shape) }
    }

    /// Extents.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The element at `index`.
    ///
    /// # Panics
    /// When the index has the wrong rank or is out of range.
    pub fn at(&self, index: &[usize]) -> T {
        assert_eq!(index.len(), self.shape.len(), "index rank");
        let position: usize = index
            .iter()
            .zip(self.shape.iter().zip(&self.strides))
            .map(|(&i, (&extent, &stride))| {
                assert!(i < extent, "index {i} is below the extent {extent}");
                i * stride
            })
            .sum();
        self.data[self.offset + position].clone()
    }

    /// Axis `i` of the result is axis `order[i]` of this view.
    ///
    /// # Panics
    /// When `order` is not a permutation of the axes.
    #[must_use]
    pub fn permute(&self, order: &[usize]) -> Self {
        let mut seen = vec![false; self.shape.len()];
        order.iter().for_each(|&axis| seen[axis] = true);
        assert!(order.len() == seen.len() && seen.iter().all(|&s| s), "order is a permutation");
        View {
            shape: order.iter().map(|&axis| self.shape[axis]).collect(),
            strides: order.iter().map(|&axis| self.strides[axis]).collect(),
            ..self.clone()
        }
    }

    /// Elements `start, start + step, …` (`count` of them) of one axis.
    ///
    /// # Panics
    /// When the last element would be out of range.
    #[must_use]
    pub fn slice(&self, axis: usize, start: usize, step: usize, count: usize) -> Self {
        let mut view = self.clone();
        assert!(count == 0 || start + (count - 1) * step < self.shape[axis], "slice in range");
        if count > 0 {
            view.offset += start * self.strides[axis];
        }
        view.shape[axis] = count;
        view.strides[axis] *= step;
        view
    }

    /// Repeats axes of extent 1, and adds outer axes, until the shape is `shape`; `None` when the
    /// shapes do not broadcast.
    pub fn broadcast(&self, shape: &[usize]) -> Option<Self> {
        let added = shape.len().checked_sub(self.shape.len())?;
        let mut strides = Shape::from_elem(0, shape.len());
        for (axis, (&extent, &stride)) in self.shape.iter().zip(&self.strides).enumerate() {
            if extent == shape[added + axis] {
                strides[added + axis] = stride;
            } else if extent != 1 {
                return None;
            }
        }
        Some(View { shape: shape.into(), strides, ..self.clone() })
    }

    /// All elements in row-major order of this view.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        let count = element_count(&self.shape).unwrap_or(0);
        let mut index = Shape::from_elem(0, self.shape.len());
        let mut position = self.offset;
        (0..count).map(move |_| {
            let value = self.data[position].clone();
            for axis in (0..index.len()).rev() {
                index[axis] += 1;
                position += self.strides[axis];
                if index[axis] < self.shape[axis] {
                    break;
                }
                position -= self.strides[axis] * index[axis];
                index[axis] = 0;
            }
            value
        })
    }

    /// All elements in row-major order.
    pub fn to_vec(&self) -> Vec<T> {
        self.iter().collect()
    }
}

/// Strides of a row-major tensor.
pub(crate) fn row_major_strides(shape: &[usize]) -> Shape {
    let mut strides = Shape::from_elem(1, shape.len());
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis]);
    }
    strides
}

/// The shape two operands broadcast to (ONNX multidirectional broadcasting); `None` when they do
/// not.
pub fn broadcast_shapes(a: &[usize], b: &[usize]) -> Option<Shape> {
    let rank = a.len().max(b.len());
    let extent = |shape: &[usize], axis: usize| {
        (axis + shape.len()).checked_sub(rank).map_or(1, |inner| shape[inner])
    };
    (0..rank)
        .map(|axis| match (extent(a, axis), extent(b, axis)) {
            (x, y) if x == y => Some(x),
            (1, y) => Some(y),
            (x, 1) => Some(x),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permute_slice_and_broadcast() {
        let data: Vec<i32> = (0..6).collect();
        let view = View::new(&data, &[2, 3]);
        assert_eq!(view.permute(&[1, 0]).to_vec(), [0, 3, 1, 4, 2, 5]);
        assert_eq!(view.slice(1, 0, 2, 2).to_vec(), [0, 2, 3, 5]);
        assert_eq!(view.slice(0, 1, 1, 1).broadcast(&[2, 3]).unwrap().to_vec(), [3, 4, 5, 3, 4, 5]);
        assert!(view.broadcast(&[2, 4]).is_none());
        assert_eq!(view.at(&[1, 2]), 5);
    }

    #[test]
    fn shapes_broadcast_like_onnx() {
        assert_eq!(broadcast_shapes(&[2, 1, 4], &[3, 1]).as_deref(), Some(&[2, 3, 4][..]));
        assert_eq!(broadcast_shapes(&[], &[5]).as_deref(), Some(&[5][..]));
        assert_eq!(broadcast_shapes(&[2], &[3]), None);
        assert_eq!(broadcast_shapes(&[0], &[1]).as_deref(), Some(&[0][..]));
    }

    #[test]
    fn empty_and_scalar_views() {
        assert!(View::<u8>::new(&[], &[0, 3]).to_vec().is_empty());
        assert_eq!(View::new(&[7], &[]).to_vec(), [7]);
    }
}
