//! Inference of operators that compute, compare, select and reduce numbers.

use super::{Operands, float, mismatch};
use crate::{ArgExtreme, Binary, Compare, InstanceNorm, LayerNorm, Lrn, Reduce, ReduceKind};
use crate::{Softmax, Unary};
use quincunx_diag::Result;
use quincunx_tensor::{DType, Shape, broadcast_shapes, show_shape};

type Typed = (DType, Shape);

fn number(dtype: DType) -> Result<()> {
    if dtype == DType::Bool {
        return Err(mismatch("expected numbers, found bool".to_owned()));
    }
    Ok(())
}

fn truth(dtype: DType) -> Result<()> {
    if dtype != DType::Bool {
        return Err(mismatch(format!("expected bool, found {dtype}")));
    }
    Ok(())
}

pub(super) fn infer_unary(unary: Unary, dtype: DType, x: &[usize]) -> Result<Typed> {
    match unary {
        Unary::Relu | Unary::Neg | Unary::Abs | Unary::Sign => number(dtype)?,
        Unary::Not => truth(dtype)?,
        Unary::Sqrt
        | Unary::Reciprocal
        | Unary::Exp
        | Unary::Log
        | Unary::Erf
        | Unary::Floor
        | Unary::Ceil
        | Unary::Round
        | Unary::Sigmoid
        | Unary::HardSwish
        | Unary::Tanh
        | Unary::Gelu
        | Unary::GeluTanh
        | Unary::Softplus
        | Unary::Sin
        | Unary::Cos
        | Unary::Tan
        | Unary::Atan => float(dtype)?,
    }
    Ok((dtype, x.into()))
}

/// Type and shape of an operator on float tensors that changes neither.
pub(super) fn infer_float(dtype: DType, x: &[usize]) -> Result<Typed> {
    float(dtype)?;
    Ok((dtype, x.into()))
}

pub(super) fn infer_binary(binary: Binary, operands: &Operands<'_>) -> Result<Typed> {
    let dtype = match binary {
        // The exponent may be of another type.
        Binary::Pow => {
            number(operands.get(1)?.0)?;
            operands.get(0)?.0
        }
        Binary::Add | Binary::Sub | Binary::Mul | Binary::Div | Binary::Max | Binary::Min => {
            operands.same_type()?
        }
    };
    number(dtype)?;
    Ok((dtype, broadcast(operands, &[0, 1])?))
}

pub(super) fn infer_compare(compare: Compare, operands: &Operands<'_>) -> Result<Typed> {
    let dtype = operands.same_type()?;
    if compare != Compare::Equal {
        number(dtype)?;
    }
    Ok((DType::Bool, broadcast(operands, &[0, 1])?))
}

pub(super) fn infer_logic(operands: &Operands<'_>) -> Result<Typed> {
    truth(operands.same_type()?)?;
    Ok((DType::Bool, broadcast(operands, &[0, 1])?))
}

pub(super) fn infer_where(operands: &Operands<'_>) -> Result<Typed> {
    truth(operands.get(0)?.0)?;
    let (dtype, other) = (operands.get(1)?.0, operands.get(2)?.0);
    if dtype != other {
        return Err(mismatch(format!("operand 2 is {other}, expected {dtype}")));
    }
    Ok((dtype, broadcast(operands, &[0, 1, 2])?))
}

/// The shape to which the named operands broadcast.
fn broadcast(operands: &Operands<'_>, indices: &[usize]) -> Result<Shape> {
    let mut shape = Shape::new();
    for &index in indices {
        let (_, next) = operands.get(index)?;
        shape = broadcast_shapes(&shape, next).ok_or_else(|| {
            mismatch(format!(
                "shapes {} and {} do not broadcast",
                show_shape(&shape),
                show_shape(next)
            ))
        })?;
    }
    Ok(shape)
}

/// An operand must broadcast to `x` without changing its shape.
fn fits(operands: &Operands<'_>, index: usize, x: &[usize]) -> Result<()> {
    match operands.optional(index) {
        Some((_, shape)) if broadcast_shapes(shape, x).as_deref() != Some(x) => Err(mismatch(
            format!("operand {index} of shape {} does not broadcast to x", show_shape(shape)),
        )),
        _ => Ok(()),
    }
}

pub(super) fn infer_prelu(operands: &Operands<'_>) -> Result<Typed> {
    let dtype = operands.same_type()?;
    let (_, x) = operands.get(0)?;
    fits(operands, 1, x)?;
    infer_float(dtype, x)
}

pub(super) fn infer_reduce(reduce: &Reduce, dtype: DType, x: &[usize]) -> Result<Typed> {
    number(dtype)?;
    for (position, &axis) in reduce.axes.iter().enumerate() {
        check_axis(axis, x)?;
        if reduce.axes[..position].contains(&axis) {
            return Err(mismatch(format!("axis {axis} is named twice")));
        }
    }
    if reduce.kind == ReduceKind::Mean && reduce.axes.iter().any(|&axis| x[axis] == 0) {
        return Err(mismatch(format!("the mean of no elements of {}", show_shape(x))));
    }
    Ok((dtype, without(x, &reduce.axes, reduce.keep_dims)))
}

/// A shape with some axes joined.
fn without(x: &[usize], axes: &[usize], keep_dims: bool) -> Shape {
    let extent = |axis: usize| match (axes.contains(&axis), keep_dims) {
        (true, true) => Some(1),
        (true, false) => None,
        (false, _) => Some(x[axis]),
    };
    (0..x.len()).filter_map(extent).collect()
}

fn check_axis(axis: usize, x: &[usize]) -> Result<()> {
    if axis >= x.len() {
        return Err(mismatch(format!("axis {axis} is beyond the {} axes of x", x.len())));
    }
    Ok(())
}

pub(super) fn infer_arg(arg: &ArgExtreme, dtype: DType, x: &[usize]) -> Result<Typed> {
    number(dtype)?;
    check_axis(arg.axis, x)?;
    if x[arg.axis] == 0 {
        return Err(mismatch(format!("axis {} has no elements", arg.axis)));
    }
    Ok((DType::I64, without(x, &[arg.axis], arg.keep_dims)))
}

pub(super) fn infer_softmax(softmax: &Softmax, dtype: DType, x: &[usize]) -> Result<Typed> {
    check_axis(softmax.axis, x)?;
    infer_float(dtype, x)
}

pub(super) fn infer_layer_norm(norm: &LayerNorm, operands: &Operands<'_>) -> Result<Typed> {
    let dtype = operands.same_type()?;
    let (_, x) = operands.get(0)?;
    check_axis(norm.axis, x)?;
    fits(operands, 1, x)?;
    fits(operands, 2, x)?;
    infer_float(dtype, x)
}

pub(super) fn infer_instance_norm(_: &InstanceNorm, operands: &Operands<'_>) -> Result<Typed> {
    let dtype = operands.same_type()?;
    let (_, x) = operands.get(0)?;
    let &[_, channels, _, ..] = x else {
        return Err(mismatch(format!(
            "expected [N, C, …] with spatial axes, found {}",
            show_shape(x)
        )));
    };
    for index in 1..3 {
        let (_, shape) = operands.get(index)?;
        if shape != [channels] {
            return Err(mismatch(format!(
                "operand {index} has shape {}, expected [{channels}]",
                show_shape(shape)
            )));
        }
    }
    infer_float(dtype, x)
}

pub(super) fn infer_lrn(lrn: &Lrn, dtype: DType, x: &[usize]) -> Result<Typed> {
    if lrn.size == 0 {
        return Err(mismatch("size is 0, expected at least 1".to_owned()));
    }
    check_axis(1, x)?;
    infer_float(dtype, x)
}
