//! Moving elements of any type.

use super::{operand, unsupported};
use crate::movement::{Source, sources};
use crate::{Node, Op};
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::FloatOverflow;
use quincunx_tensor::{DType, Narrow, Tensor};

/// Computes a node that only moves elements.
pub(super) fn move_tensor(
    node: &Node,
    operands: &[Option<&Tensor>],
    shape: &[usize],
) -> Result<Tensor> {
    let x = operand(operands, 0)?;
    match &node.op {
        Op::Identity => return Ok(x.clone()),
        Op::Flatten { .. } | Op::Reshape { .. } => return x.reshape(shape),
        Op::Expand { .. } if x.len() == 1 => return repeat(x, shape),
        _ => {}
    }
    let indices = match &node.op {
        Op::Gather { .. } => operand(operands, 1)?.to_i64(),
        _ => None,
    };
    let present: Vec<&Tensor> = operands.iter().copied().flatten().collect();
    let shapes: Vec<&[usize]> = present.iter().map(|tensor| tensor.shape()).collect();
    let sources = sources(&node.op, &shapes, indices.as_deref(), shape)?;
    select(&present, &sources, shape)
}

/// A tensor of one element, spread over a shape without a list of sources.
fn repeat(x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    let count: usize = shape.iter().product();
    Tensor::new(x.dtype(), shape, x.bytes().repeat(count).into())
}

/// Picks elements of tensors that all have the type of the first.
fn select(operands: &[&Tensor], sources: &[Source], shape: &[usize]) -> Result<Tensor> {
    let dtype = operands.first().ok_or_else(|| Diagnostic::bug("no operand"))?.dtype();
    match dtype.size() {
        1 => select_bytes::<1>(dtype, operands, sources, shape),
        2 => select_bytes::<2>(dtype, operands, sources, shape),
        4 => select_bytes::<4>(dtype, operands, sources, shape),
        _ => select_bytes::<8>(dtype, operands, sources, shape),
    }
}

fn select_bytes<const SIZE: usize>(
    dtype: DType,
    operands: &[&Tensor],
    sources: &[Source],
    shape: &[usize],
) -> Result<Tensor> {
    let elements: Vec<&[[u8; SIZE]]> =
        operands.iter().map(|tensor| tensor.bytes().as_chunks::<SIZE>().0).collect();
    let mut bytes = Vec::with_capacity(sources.len() * SIZE);
    for source in sources {
        match *source {
            Source::Operand { operand, element } => {
                bytes.extend_from_slice(&elements[operand as usize][element as usize]);
            }
            Source::Value(value) => bytes.extend_from_slice(&encode::<SIZE>(dtype, value)),
        }
    }
    Tensor::new(dtype, shape, bytes.into())
}

/// The bytes of a number that inference has found to be one of the type.
fn encode<const SIZE: usize>(dtype: DType, value: f64) -> [u8; SIZE] {
    let bits = match dtype {
        DType::F32 => (value as f32).to_bits().into(),
        DType::F64 => value.to_bits(),
        DType::Narrow(narrow) => narrow.encode(value, narrow.overflow()).into(),
        // Truncating the low bytes of the widest type gives every narrower one.
        _ => value as i128 as u64,
    };
    let mut bytes = [0; SIZE];
    bytes.copy_from_slice(&bits.to_le_bytes()[..SIZE]);
    bytes
}

/// Converts every element. Floats lose their fraction on the way to integers and saturate there,
/// NaN becomes 0; integers wrap; everything but 0 is true.
pub(super) fn cast(x: &Tensor, to: DType) -> Result<Tensor> {
    if x.dtype() == to {
        return Ok(x.clone());
    }
    match (x.dtype(), to) {
        (_, DType::Narrow(narrow)) => return cast_narrow(x, narrow, narrow.overflow()),
        (DType::Narrow(_), _) => return cast(&x.widen(), to),
        _ => {}
    }
    let shape = x.shape();
    if x.dtype().is_float() || matches!(to, DType::F32 | DType::F64) {
        return cast_real(x, to);
    }
    let values = integers(x)?;
    match to {
        DType::Bool => truths(shape, values.iter().map(|&v| v != 0)),
        DType::I8 => Tensor::from_vec(shape, values.iter().map(|&v| v as i8).collect()),
        DType::I16 => Tensor::from_vec(shape, values.iter().map(|&v| v as i16).collect()),
        DType::I32 => Tensor::from_vec(shape, values.iter().map(|&v| v as i32).collect()),
        DType::I64 => Tensor::from_vec(shape, values.iter().map(|&v| v as i64).collect()),
        DType::U8 => Tensor::from_vec(shape, values.iter().map(|&v| v as u8).collect()),
        DType::U16 => Tensor::from_vec(shape, values.iter().map(|&v| v as u16).collect()),
        DType::U32 => Tensor::from_vec(shape, values.iter().map(|&v| v as u32).collect()),
        DType::U64 => Tensor::from_vec(shape, values.iter().map(|&v| v as u64).collect()),
        DType::F32 | DType::F64 | DType::Narrow(_) => Err(Diagnostic::bug("handled above")),
    }
}

/// As [`cast`], but what is above the range of a float becomes infinity or NaN.
pub(super) fn cast_unbounded(x: &Tensor, to: DType) -> Result<Tensor> {
    match to {
        DType::Narrow(narrow) => cast_narrow(x, narrow, FloatOverflow::Infinity),
        _ => cast(x, to),
    }
}

fn cast_narrow(x: &Tensor, to: Narrow, overflow: FloatOverflow) -> Result<Tensor> {
    let from_float = match x.dtype() {
        DType::Narrow(narrow) => narrow.is_float(),
        from => from.is_float(),
    };
    match from_float || to.is_float() {
        true => x.narrow(to, overflow),
        false => x.wrap(to),
    }
}

/// From or to floats.
fn cast_real(x: &Tensor, to: DType) -> Result<Tensor> {
    let shape = x.shape();
    if !x.dtype().is_float() {
        let values = integers(x)?;
        return match to {
            DType::F32 => Tensor::from_vec(shape, values.iter().map(|&v| v as f32).collect()),
            _ => Tensor::from_vec(shape, values.iter().map(|&v| v as f64).collect()),
        };
    }
    let values = x.to_f64();
    match to {
        DType::Bool => truths(shape, values.iter().map(|&v| v != 0.0)),
        DType::I8 => Tensor::from_vec(shape, values.iter().map(|&v| v as i8).collect()),
        DType::I16 => Tensor::from_vec(shape, values.iter().map(|&v| v as i16).collect()),
        DType::I32 => Tensor::from_vec(shape, values.iter().map(|&v| v as i32).collect()),
        DType::I64 => Tensor::from_vec(shape, values.iter().map(|&v| v as i64).collect()),
        DType::U8 => Tensor::from_vec(shape, values.iter().map(|&v| v as u8).collect()),
        DType::U16 => Tensor::from_vec(shape, values.iter().map(|&v| v as u16).collect()),
        DType::U32 => Tensor::from_vec(shape, values.iter().map(|&v| v as u32).collect()),
        DType::U64 => Tensor::from_vec(shape, values.iter().map(|&v| v as u64).collect()),
        DType::F32 => Tensor::from_vec(shape, values.iter().map(|&v| v as f32).collect()),
        DType::F64 => Tensor::from_vec(shape, values),
        DType::Narrow(_) => Err(Diagnostic::bug("handled above")),
    }
}

fn integers(x: &Tensor) -> Result<Vec<i128>> {
    if x.dtype() == DType::U64 {
        return Ok(x.values::<u64>()?.iter().map(|&v| v.into()).collect());
    }
    let values = x.to_i64().ok_or_else(|| unsupported("the elements are not integers"))?;
    Ok(values.into_iter().map(i128::from).collect())
}

fn truths(shape: &[usize], values: impl Iterator<Item = bool>) -> Result<Tensor> {
    Tensor::new(DType::Bool, shape, values.map(u8::from).collect::<Vec<_>>().into())
}
