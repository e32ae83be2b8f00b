//! Tensors of a GraphDef in all their storage forms.

#![deny(clippy::arithmetic_side_effects)]

use super::dtype::from_tensorflow;
use super::proto::{TensorProto, TensorShapeProto};
use crate::fold::FoldBudget;
use crate::tensor::{MAX_EXTENT, MAX_RANK};
use quincunx_diag::{Diagnostic, Result};
use quincunx_tensor::{DType, Element, Shape, Tensor, View, element_count, show_shape};

/// The tensor a message describes. Content is shared, not copied. A list of elements that is too short is continued with its last one, an empty one
/// with 0; what that adds is taken from the budget.
///
/// # Errors
/// `Q0411` when shape, type and data do not fit together, `Q0412` when the element type is not
/// supported, `Q0402` when the budget is used up.
pub(crate) fn read_tensor(proto: &TensorProto, budget: &mut FoldBudget) -> Result<Tensor> {
    let dtype = from_tensorflow(proto.dtype).map_err(|found| {
        let message = format!("the tensor has element type {found}");
        match found {
            "undefined" | "unknown" => Diagnostic::invalid("Q0411", message),
            _ => Diagnostic::unsupported("Q0412", message).help(
                "supported: float, double, half, bfloat16, bool and integers of 8 to 64 bits",
            ),
        }
    })?;
    let shape = extents(proto.tensor_shape.as_ref())?;
    let count = element_count(&shape)
        .filter(|&count| count <= usize::try_from(MAX_EXTENT).unwrap_or(usize::MAX))
        .ok_or_else(|| broken(format!("of shape {} is too large", show_shape(&shape))))?;
    if proto.tensor_content.is_empty() {
        return typed(proto, dtype, &shape, count, budget);
    }
    let needed = count.saturating_mul(dtype.size());
    if proto.tensor_content.len() != needed {
        return Err(broken(format!(
            "of shape {} needs {needed} bytes, found {}",
            show_shape(&shape),
            proto.tensor_content.len()
        )));
    }
    let tensor = Tensor::new(dtype, &shape, proto.tensor_content.clone())?;
    check_bools(&tensor)?;
    Ok(tensor)
}

fn extents(proto: Option<&TensorShapeProto>) -> Result<Shape> {
    let Some(proto) = proto else {
        return Ok(Shape::new());
    };
    if proto.unknown_rank || proto.dim.len() > MAX_RANK {
        return Err(broken(format!("has no shape of at most {MAX_RANK} axes")));
    }
    let extent = |size: i64| match usize::try_from(size) {
        Ok(extent) if size <= MAX_EXTENT => Ok(extent),
        _ => Err(broken(format!("has extent {size}; expected 0 to 2^40"))),
    };
    proto.dim.iter().map(|dim| extent(dim.size)).collect()
}

fn check_bools(tensor: &Tensor) -> Result<()> {
    let wrong = tensor.bytes().iter().find(|&&byte| byte > 1);
    match wrong.filter(|_| tensor.dtype() == DType::Bool) {
        Some(byte) => Err(broken(format!("has the bool {byte}, expected 0 or 1"))),
        None => Ok(()),
    }
}

/// Elements from the typed fields.
fn typed(
    proto: &TensorProto,
    dtype: DType,
    shape: &[usize],
    count: usize,
    budget: &mut FoldBudget,
) -> Result<Tensor> {
    let mut list = List { shape, count, budget };
    let ints = &proto.int_val;
    match dtype {
        DType::F32 => list.build(&proto.float_val, |&v| Some(v)),
        DType::F64 => list.build(&proto.double_val, |&v| Some(v)),
        DType::I8 => list.build(ints, |&v| i8::try_from(v).ok()),
        DType::I16 => list.build(ints, |&v| i16::try_from(v).ok()),
        DType::I32 => list.build(ints, |&v| Some(v)),
        DType::I64 => list.build(&proto.int64_val, |&v| Some(v)),
        DType::U8 => list.build(ints, |&v| u8::try_from(v).ok()),
        DType::U16 => list.build(ints, |&v| u16::try_from(v).ok()),
        DType::U32 => list.build(&proto.uint32_val, |&v| Some(v)),
        DType::U64 => list.build(&proto.uint64_val, |&v| Some(v)),
        DType::Bool => {
            let bytes = list.build(&proto.bool_val, |&v| Some(u8::from(v)))?;
            Tensor::new(dtype, shape, bytes.bytes().clone())
        }
        // Half and bfloat16 come as their bits, and there are no others.
        DType::Narrow(_) => {
            let bits = list.build(&proto.half_val, |&v| u16::try_from(v).ok())?;
            Tensor::new(dtype, shape, bits.bytes().clone())
        }
    }
}

/// What elements are collected for.
struct List<'a> {
    shape: &'a [usize],
    count: usize,
    budget: &'a mut FoldBudget,
}

impl List<'_> {
    fn build<S: std::fmt::Display + Default, T: Element>(
        &mut self,
        source: &[S],
        convert: impl Fn(&S) -> Option<T>,
    ) -> Result<Tensor> {
        let missing = self.count.checked_sub(source.len()).ok_or_else(|| {
            let shape = show_shape(self.shape);
            broken(format!("of shape {shape} has {} elements", source.len()))
        })?;
        if !self.budget.take(missing as u64) {
            return Err(Diagnostic::unsupported(
                "Q0402",
                format!(
                    "the tensor repeats one number {missing} times; the model has used up the \
                     room for such tensors"
                ),
            ));
        }
        let number = |v: &S| {
            convert(v)
                .ok_or_else(|| broken(format!("has element {v}, which {} cannot hold", T::DTYPE)))
        };
        let mut values = Vec::with_capacity(self.count);
        for v in source {
            values.push(number(v)?);
        }
        if missing > 0 {
            let last = values.last().copied().map_or_else(|| number(&S::default()), Ok)?;
            values.resize(self.count, last);
        }
        Tensor::from_vec(self.shape, values)
    }
}

fn broken(what: String) -> Diagnostic {
    Diagnostic::invalid("Q0411", format!("the tensor {what}"))
}

/// A constant with its axes in another order: axis `i` of the result is axis `order[i]`.
pub(crate) fn permuted(tensor: &Tensor, order: &[usize]) -> Result<Tensor> {
    let shape: Shape = order.iter().map(|&axis| tensor.shape()[axis]).collect();
    let moving = order.iter().filter(|&&axis| tensor.shape()[axis] != 1);
    if moving.is_sorted() {
        return tensor.reshape(&shape);
    }
    // Elements are moved, not read, so only their size matters.
    match tensor.dtype().size() {
        1 => permute::<u8>(tensor, order, &shape),
        2 => permute::<u16>(tensor, order, &shape),
        4 => permute::<u32>(tensor, order, &shape),
        _ => permute::<u64>(tensor, order, &shape),
    }
}

fn permute<T: Element>(tensor: &Tensor, order: &[usize], shape: &[usize]) -> Result<Tensor> {
    let bits = Tensor::new(T::DTYPE, tensor.shape(), tensor.bytes().clone())?;
    let moved = View::new(&bits.values::<T>()?, tensor.shape()).permute(order).to_vec();
    Tensor::new(tensor.dtype(), shape, Tensor::from_vec(shape, moved)?.bytes().clone())
}
