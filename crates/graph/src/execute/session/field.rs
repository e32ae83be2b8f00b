//! Exact parameters that vary per channel or element.

use super::data::Layout;
use crate::Param;
use quincunx_num::{Dyadic, Ratio};
use quincunx_tensor::{Shape, View};
use std::sync::Arc;

/// Most different numbers of one parameter that are expanded to every element of a tensor.
const MAX_EXPANDED: usize = 1 << 20;

/// Exact numbers that broadcast to a tensor, aligned at the innermost axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    pub(super) shape: Shape,
    pub(super) values: Arc<[Ratio]>,
}

/// How numbers meet the elements of a tensor in a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spread {
    /// One number for all.
    Uniform,
    /// One for each position along the innermost axis.
    Inner,
    /// One for each element.
    Full,
}

impl Field {
    pub(super) fn of(value: Ratio) -> Self {
        Field { shape: Shape::new(), values: [value].into() }
    }

    /// Numbers of this shape; equal ones become one. `None` when their number is another, or 0.
    pub(super) fn new(shape: &[usize], values: Vec<Ratio>) -> Option<Self> {
        if values.is_empty() || values.len() != shape.iter().product::<usize>() {
            return None;
        }
        if values.iter().all(|value| *value == values[0]) {
            return Some(Field::of(values[0].clone()));
        }
        Some(Field { shape: shape.into(), values: values.into() })
    }

    /// Finite floats.
    pub(super) fn of_floats(shape: &[usize], values: &[f64]) -> Option<Self> {
        let exact = |v: &f64| Dyadic::from_f64(*v).map(|v| v.to_ratio());
        Field::new(shape, values.iter().map(exact).collect::<Option<_>>()?)
    }

    pub(super) fn of_scales(scales: &Param<f64>) -> Option<Self> {
        Field::of_floats(scales.shape(), scales.values())
    }

    pub(super) fn of_zeros(zeros: &Param<i64>) -> Option<Self> {
        let exact = |zero: &i64| Ratio::from(quincunx_num::Int::from(*zero));
        Field::new(zeros.shape(), zeros.values().iter().map(exact).collect())
    }

    /// One number per channel (axis 1) of a tensor of this rank.
    pub(super) fn per_channel(values: Vec<Ratio>, rank: usize) -> Option<Self> {
        let mut shape = Shape::from_elem(1, rank.saturating_sub(1));
        *shape.first_mut()? = values.len();
        Field::new(&shape, values)
    }

    /// The number, if there is one for all elements.
    pub(super) fn uniform(&self) -> Option<&Ratio> {
        (self.values.len() == 1).then(|| &self.values[0])
    }

    /// One number for every position along an axis of a tensor, if they vary along no other.
    pub(super) fn along(&self, axis: usize, tensor: &[usize]) -> Option<Vec<Ratio>> {
        if let Some(value) = self.uniform() {
            return Some(vec![value.clone(); tensor[axis]]);
        }
        let own = (axis + self.shape.len()).checked_sub(tensor.len())?;
        let only = self.shape.iter().enumerate().all(|(i, &extent)| extent == 1 || i == own);
        (only && self.shape[own] == tensor[axis]).then(|| self.values.to_vec())
    }

    pub(super) fn map(&self, function: impl Fn(&Ratio) -> Ratio) -> Self {
        Field { shape: self.shape.clone(), values: self.values.iter().map(function).collect() }
    }

    /// The numbers in the order in which a tensor of this shape and layout meets them; `None` when
    /// every element had its own and they are many.
    pub(super) fn spread(&self, tensor: &[usize], layout: Layout) -> Option<(Spread, Vec<Ratio>)> {
        if self.values.len() == 1 {
            return Some((Spread::Uniform, self.values.to_vec()));
        }
        if follows_inner(&self.shape, tensor, layout) {
            return Some((Spread::Inner, self.values.to_vec()));
        }
        if tensor.iter().product::<usize>() > MAX_EXPANDED {
            return None;
        }
        let mut order: Vec<usize> = (0..tensor.len()).collect();
        if layout == Layout::Last {
            order[1..].rotate_left(1);
        }
        let view = View::new(&self.values, &self.shape).broadcast(tensor)?.permute(&order);
        Some((Spread::Full, view.to_vec()))
    }
}

/// True when a shape, aligned at the innermost axis of a tensor's, has one extent that is not 1:
/// that of the axis which is innermost in the layout.
pub(super) fn follows_inner(shape: &[usize], tensor: &[usize], layout: Layout) -> bool {
    let axis = if layout == Layout::Last { 1 } else { tensor.len() - 1 };
    let Some(axis) = (axis + shape.len()).checked_sub(tensor.len()) else { return false };
    shape.iter().enumerate().all(|(index, &extent)| extent == 1 || index == axis)
        && shape[axis] == tensor[axis + tensor.len() - shape.len()]
}
