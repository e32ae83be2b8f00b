//! Moving, converting and interpolating exact numbers.

use super::super::resize::interpolate;
use super::super::transposed::convolve_transposed;
use super::super::{operand, unsupported};
use super::elementwise::wrapped;
use super::{ExactTensor, add, common_unit};
use crate::movement::{Source, sources};
use crate::{ConvTranspose, Node, Op, Resize};
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::{Dyadic, Int, Overflow, Ratio, Rounding, round_quotient};
use quincunx_tensor::{DType, Shape, Tensor};

/// Computes a node that only moves elements.
pub(super) fn move_exact(
    node: &Node,
    operands: &[Option<&ExactTensor>],
    shape: &[usize],
) -> Result<ExactTensor> {
    let x = operand(operands, 0)?;
    if let Op::Identity | Op::Flatten { .. } | Op::Reshape { .. } = node.op {
        return Ok(ExactTensor { shape: shape.into(), ..x.clone() });
    }
    if let Op::Gather { .. } = node.op {
        let indices = whole_numbers(operand(operands, 1)?)?;
        let sources = sources(&node.op, &[&x.shape], Some(&indices), shape)?;
        return select(&[x], &sources, shape);
    }
    let present: Vec<&ExactTensor> = operands.iter().copied().flatten().collect();
    let shapes: Vec<&[usize]> = present.iter().map(|tensor| &tensor.shape[..]).collect();
    select(&present, &sources(&node.op, &shapes, None, shape)?, shape)
}

fn whole_numbers(x: &ExactTensor) -> Result<Vec<i64>> {
    let number = |integer: &Int| {
        let value = Ratio::from(integer.clone()) * &x.unit;
        i64::try_from(value.numerator()).ok().filter(|_| value.is_int())
    };
    let numbers: Option<Vec<i64>> = x.integers.iter().map(number).collect();
    numbers.ok_or_else(|| unsupported("the indices are not whole numbers"))
}

fn select(operands: &[&ExactTensor], sources: &[Source], shape: &[usize]) -> Result<ExactTensor> {
    let exact = |value: f64| {
        Dyadic::from_f64(value)
            .ok_or_else(|| unsupported(format!("{value} is not an exact number")))
    };
    let value = sources.iter().find_map(|source| match source {
        Source::Value(value) => Some(*value),
        Source::Operand { .. } => None,
    });
    // One number at most: an operator has one for all elements.
    let value = value.map(exact).transpose()?.filter(|value| !value.is_zero());
    let mut unit = operands.first().ok_or_else(|| Diagnostic::bug("no operand"))?.unit.clone();
    for operand in operands {
        if operand.unit != unit {
            unit = common_unit(&unit, &operand.unit);
        }
    }
    let mut fill = Int::ZERO;
    if let Some(value) = value {
        let smallest = Dyadic::new(Int::ONE, value.exponent()).to_ratio();
        unit = common_unit(&unit, &smallest);
        fill = super::whole(value.to_ratio() / &unit);
    }
    let integers: Vec<Vec<Int>> = operands.iter().map(|operand| operand.with_unit(&unit)).collect();
    let pick = |source: &Source| match *source {
        Source::Operand { operand, element } => {
            integers[operand as usize][element as usize].clone()
        }
        Source::Value(_) => fill.clone(),
    };
    Ok(ExactTensor::new(shape, sources.iter().map(pick).collect(), unit))
}

/// Linear and cubic resizing where the weights are exact.
pub(super) fn resize_exact(
    resize: &Resize,
    x: &ExactTensor,
    shape: &[usize],
) -> Result<ExactTensor> {
    if !resize.is_exact() {
        return Err(unsupported("these interpolation weights have no exact form")
            .help("scales that are powers of two, without align_corners, have one"));
    }
    // All weights in one unit; every resized axis multiplies by it once.
    let mut exponent = 0;
    for (index, &axis) in resize.axes.iter().enumerate() {
        for taps in resize.taps(index, x.shape[axis], shape[axis]) {
            for (_, weight) in taps {
                let weight = Dyadic::from_f64(weight).unwrap_or(Dyadic::ZERO);
                exponent = exponent.min(if weight.is_zero() { 0 } else { weight.exponent() });
            }
        }
    }
    let weight = |weight: f64| {
        let weight = Dyadic::from_f64(weight).unwrap_or(Dyadic::ZERO);
        weight.in_units(exponent).unwrap_or_default()
    };
    let integers = interpolate(resize, &x.integers, &x.shape, shape, weight, &Int::ZERO);
    let step = Dyadic::new(Int::ONE, exponent).to_ratio();
    let unit = resize.axes.iter().fold(x.unit.clone(), |unit, _| unit * &step);
    Ok(ExactTensor::new(shape, integers, unit))
}

/// Converts every number as [`Op::Cast`] says.
pub(super) fn cast_exact(x: &ExactTensor, from: DType, to: DType) -> Result<ExactTensor> {
    let with = |integers: Vec<Int>| ExactTensor::new(&x.shape, integers, Ratio::ONE);
    match (from, to) {
        (from, to) if from == to => Ok(x.clone()),
        (_, DType::Bool) => {
            Ok(with(x.integers.iter().map(|v| Int::from(u8::from(v != &Int::ZERO))).collect()))
        }
        // Numbers here need no format; only a conversion that would round is refused.
        (_, DType::F64) => Ok(x.clone()),
        (_, DType::F32) => {
            let same = |v: f64| f64::from(v as f32) == v;
            if x.to_f64().into_iter().all(same) {
                return Ok(x.clone());
            }
            Err(unsupported("the cast to f32 would round"))
        }
        (_, DType::Narrow(to)) if to.is_float() => {
            let values = Tensor::from_vec(&x.shape, x.to_f64())?;
            if values.narrow(to, to.overflow())?.to_f64() == values.to_f64() {
                return Ok(x.clone());
            }
            Err(unsupported(format!("the cast to {} would round", DType::Narrow(to))))
        }
        (from, to) if from.wide().is_float() => {
            let denominator = Int::from(x.unit.denominator().clone());
            let whole =
                |v: &Int| round_quotient(&(v * x.unit.numerator()), &denominator, Rounding::Down);
            Ok(with(x.integers.iter().map(|v| saturated(whole(v), to)).collect()))
        }
        (_, to) => Ok(wrapped(x.clone(), to)),
    }
}

fn saturated(value: Int, to: DType) -> Int {
    let (low, high): (i128, i128) = match to {
        DType::Bool => (0, 1),
        DType::I8 => (i8::MIN.into(), i8::MAX.into()),
        DType::I16 => (i16::MIN.into(), i16::MAX.into()),
        DType::I32 => (i32::MIN.into(), i32::MAX.into()),
        DType::I64 => (i64::MIN.into(), i64::MAX.into()),
        DType::U8 => (0, u8::MAX.into()),
        DType::U16 => (0, u16::MAX.into()),
        DType::U32 => (0, u32::MAX.into()),
        DType::U64 => (0, u64::MAX.into()),
        DType::Narrow(narrow) => match narrow.signed() {
            Some(signed) => return Overflow::Wrap.apply(&value, signed, narrow.bits()),
            None => return value,
        },
        DType::F32 | DType::F64 => return value,
    };
    value.clamp(low.into(), high.into())
}

pub(super) fn conv_transpose_exact(
    conv: &ConvTranspose,
    operands: &[Option<&ExactTensor>],
    shape: &[usize],
) -> Result<ExactTensor> {
    let (x, w) = (operand(operands, 0)?, operand(operands, 1)?);
    let sums = convolve_transposed(conv, &x.integers, &x.shape, &w.integers, &w.shape, shape);
    let sums = ExactTensor::new(shape, sums, &x.unit * &w.unit);
    let Some(bias) = operands.get(2).copied().flatten() else {
        return Ok(sums);
    };
    let mut per_channel = Shape::from_elem(1, shape.len() - 1);
    per_channel[0] = shape[1];
    let bias = ExactTensor { shape: per_channel, ..bias.clone() }.broadcast(shape)?;
    Ok(add(&sums, &bias))
}
