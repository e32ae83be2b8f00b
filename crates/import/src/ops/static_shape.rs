//! Operators whose results are known when shapes are: they become constants.

#![deny(clippy::arithmetic_side_effects)]

use crate::attributes::malformed;
use crate::context::NodeContext;
use crate::ops::movement::{extents, signed};
use crate::tensor::{External, read_tensor};
use quincunx_diag::Result;
use quincunx_graph::Op;
use quincunx_tensor::{DType, Element, Narrow, Tensor, element_count, show_shape};

/// Constants of one repeated number are stored up to this many elements; larger ones become an
/// `Expand`.
const MAX_STORED: usize = 1 << 16;

/// Longest result of `Range`.
const MAX_RANGE: f64 = (1 << 24) as f64;

pub(crate) fn shape_of(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let x = node.operand(0)?;
    let shape = node.shape(x);
    let rank = signed(shape.len())?;
    let bound = |bound: i64| {
        let from_start = if bound < 0 { bound.saturating_add(rank) } else { bound };
        usize::try_from(from_start.clamp(0, rank)).unwrap_or(0)
    };
    let start = bound(node.attributes.int("start")?.unwrap_or(0));
    let end = bound(node.attributes.int("end")?.unwrap_or(rank)).max(start);
    node.reads_extents(x, start..end);
    let extents = shape[start..end].iter().map(|&e| signed(e)).collect::<Result<Vec<i64>>>()?;
    node.define(Tensor::from_vec(&[extents.len()], extents)?);
    Ok(())
}

pub(crate) fn size_of(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let x = node.operand(0)?;
    let shape = node.shape(x);
    node.reads_extents(x, 0..shape.len());
    let count = element_count(&shape).unwrap_or(usize::MAX);
    node.define(Tensor::scalar(signed(count)?));
    Ok(())
}

pub(crate) fn constant_of_shape(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let shape = extents(node, 0, "shape")?;
    let value = match node.attributes.tensor("value")? {
        Some(tensor) => read_tensor(tensor, &mut External::default())?,
        None => Tensor::scalar(0.0_f32),
    };
    if value.len() != 1 {
        return Err(malformed(format!(
            "the value has shape {}, expected one element",
            show_shape(value.shape())
        )));
    }
    let count = element_count(&shape).unwrap_or(usize::MAX);
    if count <= MAX_STORED && node.may_store(count) {
        let bytes = value.bytes().repeat(count);
        node.define(Tensor::new(value.dtype(), &shape, bytes.into())?);
        return Ok(());
    }
    let value = node.constant_before(value.reshape(&[])?)?;
    node.emit(Op::Expand { shape }, &[Some(value)])
}

pub(crate) fn range(node: &mut NodeContext<'_, '_>) -> Result<()> {
    if let Some(stash) = node.attributes.int("stash_type")?
        && stash != 1
    {
        return Err(node.unsupported(format_args!("stash_type {stash}; only float")));
    }
    let bounds = [
        node.parameter(0, "the start")?,
        node.parameter(1, "the limit")?,
        node.parameter(2, "the delta")?,
    ];
    let dtype = bounds[0].dtype();
    if bounds.iter().any(|bound| bound.len() != 1 || bound.dtype() != dtype) {
        return Err(malformed("start, limit and delta must be numbers of one type".to_owned()));
    }
    let [start, limit, delta] = [0, 1, 2].map(|i| bounds[i].to_f64()[0]);
    let count = ((limit - start) / delta).ceil().max(0.0);
    if delta == 0.0 || !count.is_finite() {
        return Err(malformed(format!("a range from {start} to {limit} by {delta} has no end")));
    }
    if count > MAX_RANGE || !node.may_store(count as usize) {
        return Err(node.unsupported(format_args!("a range of {count} numbers")));
    }
    let count = count as usize;
    let tensor = match dtype {
        DType::F32 => steps(count, |i| start as f32 + i as f32 * delta as f32),
        DType::F64 => steps(count, |i| start + i as f64 * delta),
        DType::I16 => {
            steps(count, |i| (start as i64).wrapping_add(i.wrapping_mul(delta as i64)) as i16)
        }
        DType::I32 => {
            steps(count, |i| (start as i64).wrapping_add(i.wrapping_mul(delta as i64)) as i32)
        }
        DType::I64 => match (bounds[0].to_i64().as_deref(), bounds[2].to_i64().as_deref()) {
            (Some(&[start]), Some(&[delta])) => {
                steps(count, |i| start.wrapping_add(i.wrapping_mul(delta)))
            }
            _ => return Err(malformed("the bounds are not integers".to_owned())),
        },
        DType::Narrow(narrow @ (Narrow::F16 | Narrow::Bf16)) => {
            steps(count, |i| start as f32 + i as f32 * delta as f32)?
                .narrow(narrow, narrow.overflow())
        }
        other => return Err(malformed(format!("a range of {other} numbers does not exist"))),
    };
    node.define(tensor?);
    Ok(())
}

fn steps<T: Element>(count: usize, step: impl Fn(i64) -> T) -> Result<Tensor> {
    Tensor::from_vec(&[count], (0..).take(count).map(step).collect())
}
