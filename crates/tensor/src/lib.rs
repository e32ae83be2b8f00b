//! Dense tensors in row-major order.
//!
//! A [`Tensor`] is a dtype, a shape and bytes; the bytes are reference counted, so a tensor read
//! from a file shares the file's memory. Typed access is [`Tensor::values`] (borrowed where the
//! bytes are aligned) and [`View`] for strided reads. `.npy` and `.npz` files are in [`npy`].

mod dtype;
mod narrow;
pub mod npy;
mod view;

pub use dtype::{DType, Element};
pub use narrow::Narrow;
pub use view::{View, broadcast_shapes};

use bytes::Bytes;
use quincunx_diag::{Diagnostic, Result};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Extents of a tensor, outermost first. A scalar has none.
pub type Shape = SmallVec<[usize; 6]>;

/// Tensors by name, in name order.
pub type Tensors = BTreeMap<String, Tensor>;

/// A dense row-major tensor.
///
/// Invariant: `bytes.len() == product(shape) * dtype.size()`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    dtype: DType,
    shape: Shape,
    bytes: Bytes,
}

impl Tensor {
    /// A tensor over existing little-endian bytes.
    ///
    /// # Errors
    /// `Q0201` when the shape is too large to address or does not match the number of bytes.
    pub fn new(dtype: DType, shape: &[usize], bytes: Bytes) -> Result<Self> {
        let expected = element_count(shape).and_then(|n| n.checked_mul(dtype.size()));
        match expected {
            Some(expected) if expected == bytes.len() => {
                Ok(Tensor { dtype, shape: shape.into(), bytes })
            }
            Some(expected) => Err(Diagnostic::invalid(
                "Q0201",
                format!(
                    "tensor of shape {} and type {dtype} needs {expected} bytes, found {}",
                    show_shape(shape),
                    bytes.len()
                ),
            )),
            None => Err(Diagnostic::invalid(
                "Q0201",
                format!("tensor shape {} is too large to address", show_shape(shape)),
            )),
        }
    }

    /// A tensor from typed values.
    ///
    /// # Errors
    /// `Q0201` when the number of values is not the product of the shape.
    pub fn from_vec<T: Element>(shape: &[usize], values: Vec<T>) -> Result<Self> {
        let bytes = Bytes::from_owner(Values(values));
        Self::new(T::DTYPE, shape, bytes)
    }

    /// A rank-0 tensor.
    pub fn scalar<T: Element>(value: T) -> Self {
        let bytes = Bytes::copy_from_slice(bytemuck::bytes_of(&value));
        Tensor { dtype: T::DTYPE, shape: Shape::new(), bytes }
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Extents, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.dtype.size()
    }

    /// True when an extent is 0.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The raw little-endian bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The elements as `T`, borrowed when the bytes are aligned.
    ///
    /// # Errors
    /// `Q0202` when the dtype is not that of `T`.
    pub fn values<T: Element>(&self) -> Result<Cow<'_, [T]>> {
        if T::DTYPE != self.dtype {
            return Err(Diagnostic::invalid(
                "Q0202",
                format!("expected a tensor of type {}, found {}", T::DTYPE, self.dtype),
            ));
        }
        Ok(match bytemuck::try_cast_slice(&self.bytes) {
            Ok(values) => Cow::Borrowed(values),
            Err(_) => Cow::Owned(bytemuck::pod_collect_to_vec(&self.bytes)),
        })
    }

    /// The elements converted to f64: exact for every dtype but 64-bit integers above 2^53, which
    /// round to nearest.
    pub fn to_f64(&self) -> Vec<f64> {
        self.dtype.to_f64(&self.bytes)
    }

    /// As [`Tensor::to_f64`], borrowed where the elements are f64.
    pub fn reals(&self) -> Cow<'_, [f64]> {
        self.values().unwrap_or_else(|_| Cow::Owned(self.to_f64()))
    }

    /// The elements converted to i64; `None` when the dtype is not an integer type or Bool, or a
    /// u64 element is above `i64::MAX`.
    pub fn to_i64(&self) -> Option<Vec<i64>> {
        self.dtype.to_i64(&self.bytes)
    }

    /// The same elements under another shape.
    ///
    /// # Errors
    /// `Q0201` when the number of elements differs.
    pub fn reshape(&self, shape: &[usize]) -> Result<Self> {
        Self::new(self.dtype, shape, self.bytes.clone())
    }

    /// Sub-tensor `index` along the outermost axis, sharing the bytes. The result has one axis
    /// less.
    ///
    /// # Panics
    /// When the tensor is a scalar or `index` is out of range.
    pub fn outer(&self, index: usize) -> Self {
        let shape: Shape = self.shape[1..].into();
        let size = self.bytes.len() / self.shape[0];
        let bytes = self.bytes.slice(index * size..(index + 1) * size);
        Tensor { dtype: self.dtype, shape, bytes }
    }

    /// Sub-tensor of `range` along the outermost axis, sharing the bytes and keeping the axis.
    ///
    /// # Panics
    /// When the tensor is a scalar or the range is out of bounds.
    pub fn outer_range(&self, range: std::ops::Range<usize>) -> Self {
        let mut shape = self.shape.clone();
        let size = self.bytes.len().checked_div(self.shape[0]).unwrap_or(0);
        shape[0] = range.len();
        let bytes = self.bytes.slice(range.start * size..range.end * size);
        Tensor { dtype: self.dtype, shape, bytes }
    }

    /// Joins tensors along the outermost axis.
    ///
    /// # Errors
    /// `Q0203` when the list is empty, or dtypes or inner shapes differ.
    pub fn concat_outer(parts: &[Tensor]) -> Result<Self> {
        let mismatch = || Diagnostic::invalid("Q0203", "tensors to join differ in type or shape");
        let first = parts.first().filter(|t| !t.shape.is_empty()).ok_or_else(mismatch)?;
        let mut shape = first.shape.clone();
        shape[0] = 0;
        let mut bytes = Vec::with_capacity(parts.iter().map(|t| t.bytes.len()).sum());
        for part in parts {
            if part.dtype != first.dtype || part.shape.get(1..) != first.shape.get(1..) {
                return Err(mismatch());
            }
            shape[0] += part.shape[0];
            bytes.extend_from_slice(&part.bytes);
        }
        Self::new(first.dtype, &shape, bytes.into())
    }
}

/// Lets [`Bytes`] own typed values, so that they keep their alignment.
struct Values<T>(Vec<T>);

impl<T: Element> AsRef<[u8]> for Values<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

/// Product of the extents; `None` when it overflows.
pub fn element_count(shape: &[usize]) -> Option<usize> {
    // An extent of 0 makes the product 0 whatever the others are.
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1_usize, |product, &extent| product.checked_mul(extent))
}

/// `[2, 3]`, the way shapes are written in messages.
pub fn show_shape(shape: &[usize]) -> String {
    format!("{shape:?}")
}
