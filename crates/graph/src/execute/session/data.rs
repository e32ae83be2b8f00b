//! What a slot holds.

use crate::execute::ExactTensor;
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::transpose;
use quincunx_tensor::{Shape, Tensor};
use std::borrow::Cow;

/// A place for the result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Slot(pub(super) u32);

impl Slot {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The order of the elements of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Layout {
    /// Row-major.
    Rows,
    /// Row-major after axis 1 has become the innermost; for at least three axes.
    Last,
}

impl Layout {
    /// The extents in the order of the layout.
    pub(super) fn shape(self, shape: &[usize]) -> Shape {
        let mut turned = Shape::from_slice(shape);
        if self == Layout::Last {
            turned[1..].rotate_left(1);
        }
        turned
    }

    /// Where an axis of the tensor stands in the order of the layout.
    pub(super) fn axis(self, axis: usize, rank: usize) -> usize {
        match (self, axis) {
            (Layout::Rows, axis) | (Layout::Last, axis @ 0) => axis,
            (Layout::Last, 1) => rank - 1,
            (Layout::Last, axis) => axis - 1,
        }
    }

    /// One entry per axis, in the order of the layout.
    pub(super) fn turn<T: Clone>(self, entries: &[T]) -> Vec<T> {
        let mut turned = entries.to_vec();
        if self == Layout::Last {
            turned[1..].rotate_left(1);
        }
        turned
    }
}

/// Integers in the narrowest type that was found to hold them.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ints {
    U8(Vec<u8>),
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
}

/// A type of [`Ints`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Store {
    U8,
    I8,
    I16,
    I32,
    I64,
}

impl Store {
    /// The narrowest type for all integers of a range.
    pub(super) fn of(low: i64, high: i64) -> Self {
        let within = |least: i64, most: i64| low >= least && high <= most;
        if within(0, 255) {
            Store::U8
        } else if within(i8::MIN.into(), i8::MAX.into()) {
            Store::I8
        } else if within(i16::MIN.into(), i16::MAX.into()) {
            Store::I16
        } else if within(i32::MIN.into(), i32::MAX.into()) {
            Store::I32
        } else {
            Store::I64
        }
    }
}

/// Runs an expression with the elements of [`Ints`], whatever their type.
macro_rules! with_ints {
    ($ints:expr, $values:ident => $result:expr) => {
        match $ints {
            $crate::execute::session::data::Ints::U8($values) => $result,
            $crate::execute::session::data::Ints::I8($values) => $result,
            $crate::execute::session::data::Ints::I16($values) => $result,
            $crate::execute::session::data::Ints::I32($values) => $result,
            $crate::execute::session::data::Ints::I64($values) => $result,
        }
    };
}
pub(super) use with_ints;

/// Integers that a tensor can be made of.
pub(super) trait Integer: Copy + Send + Sync + Ord + Default {
    /// Keeps the low bits, which are all there are.
    fn narrow(value: i64) -> Self;
    fn wide(self) -> i64;
    fn real(self) -> f64;
}

macro_rules! integer {
    ($($type:ty),*) => {$(
        impl Integer for $type {
            fn narrow(value: i64) -> Self {
                value as $type
            }

            fn wide(self) -> i64 {
                i64::from(self)
            }

            fn real(self) -> f64 {
                self as f64
            }
        }
    )*};
}
integer!(u8, i8, i16, i32, i64);

impl Ints {
    pub(super) fn from_i64(store: Store, values: impl Iterator<Item = i64>) -> Self {
        match store {
            Store::U8 => Ints::U8(values.map(Integer::narrow).collect()),
            Store::I8 => Ints::I8(values.map(Integer::narrow).collect()),
            Store::I16 => Ints::I16(values.map(Integer::narrow).collect()),
            Store::I32 => Ints::I32(values.map(Integer::narrow).collect()),
            Store::I64 => Ints::I64(values.collect()),
        }
    }

    pub(super) fn zeros(store: Store, count: usize) -> Self {
        match store {
            Store::U8 => Ints::U8(vec![0; count]),
            Store::I8 => Ints::I8(vec![0; count]),
            Store::I16 => Ints::I16(vec![0; count]),
            Store::I32 => Ints::I32(vec![0; count]),
            Store::I64 => Ints::I64(vec![0; count]),
        }
    }

    /// The integers as u8, which they are known to fit.
    pub(super) fn as_u8(&self) -> Cow<'_, [u8]> {
        match self {
            Ints::U8(values) => Cow::Borrowed(values),
            _ => {
                with_ints!(self, values => values.iter().map(|&v| Integer::narrow(v.wide())).collect())
            }
        }
    }

    /// The integers as i8, which they are known to fit.
    pub(super) fn as_i8(&self) -> Cow<'_, [i8]> {
        match self {
            Ints::I8(values) => Cow::Borrowed(values),
            _ => {
                with_ints!(self, values => values.iter().map(|&v| Integer::narrow(v.wide())).collect())
            }
        }
    }

    /// The integers as i16, which they are known to fit.
    pub(super) fn as_i16(&self) -> Cow<'_, [i16]> {
        match self {
            Ints::I16(values) => Cow::Borrowed(values),
            _ => {
                with_ints!(self, values => values.iter().map(|&v| Integer::narrow(v.wide())).collect())
            }
        }
    }

    pub(super) fn to_i64(&self) -> Vec<i64> {
        with_ints!(self, values => values.iter().map(|&v| v.wide()).collect())
    }

    pub(super) fn get(&self, index: usize) -> i64 {
        with_ints!(self, values => values[index].wide())
    }

    /// Another layout of a tensor of this shape.
    pub(super) fn turned(&self, shape: &[usize], to: Layout) -> Self {
        match self {
            Ints::U8(values) => Ints::U8(turned(values, shape, to)),
            Ints::I8(values) => Ints::I8(turned(values, shape, to)),
            Ints::I16(values) => Ints::I16(turned(values, shape, to)),
            Ints::I32(values) => Ints::I32(turned(values, shape, to)),
            Ints::I64(values) => Ints::I64(turned(values, shape, to)),
        }
    }
}

/// What a slot holds. The builder knows form, shape and layout of every slot.
#[derive(Debug)]
pub(super) enum Data {
    /// Any type, row-major.
    Tensor(Tensor),
    /// f32 in any layout.
    Floats(Vec<f32>),
    /// Integers in any layout.
    Ints(Ints),
    /// Exact numbers, row-major.
    Exact(ExactTensor),
}

impl Data {
    /// The f32 elements.
    pub(super) fn floats(&self) -> Result<Cow<'_, [f32]>> {
        match self {
            Data::Floats(values) => Ok(Cow::Borrowed(values)),
            Data::Tensor(tensor) => tensor.values::<f32>(),
            Data::Ints(_) | Data::Exact(_) => Err(Diagnostic::bug("a slot holds no floats")),
        }
    }

    pub(super) fn ints(&self) -> Result<&Ints> {
        match self {
            Data::Ints(ints) => Ok(ints),
            _ => Err(Diagnostic::bug("a slot holds no integers")),
        }
    }

    pub(super) fn exact(&self) -> Result<&ExactTensor> {
        match self {
            Data::Exact(exact) => Ok(exact),
            _ => Err(Diagnostic::bug("a slot holds no exact numbers")),
        }
    }

    /// A row-major tensor of this shape.
    pub(super) fn to_tensor(&self, shape: &[usize]) -> Result<Tensor> {
        match self {
            Data::Tensor(tensor) if tensor.shape() == shape => Ok(tensor.clone()),
            // A value of another shape that shares the elements.
            Data::Tensor(tensor) => tensor.reshape(shape),
            _ => Tensor::from_vec(shape, self.floats()?.into_owned()),
        }
    }
}

/// The elements of a tensor of this shape in another layout than they have.
pub(super) fn turned<T: Copy + Default>(values: &[T], shape: &[usize], to: Layout) -> Vec<T> {
    let mut result = vec![T::default(); values.len()];
    let image: usize = shape[1..].iter().product();
    if image == 0 {
        return result;
    }
    let channels = shape[1];
    let rows = if to == Layout::Last { channels } else { image / channels };
    for (from, to) in values.chunks_exact(image).zip(result.chunks_exact_mut(image)) {
        transpose(from, rows, to);
    }
    result
}
