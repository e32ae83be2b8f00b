//! Normalisations made of reductions.

use super::compose::{choose, number, one, two};
use super::reduce::one_axis;
use super::shape::{axes, target};
use crate::attributes::malformed;
use crate::context::NodeContext;
use quincunx_diag::Result;
use quincunx_graph::{Binary, Compare, InstanceNorm, Op, Reduce, ReduceKind, Unary, ValueId};
use quincunx_tensor::{DType, Tensor};

fn reduce(
    node: &mut NodeContext<'_, '_>,
    kind: ReduceKind,
    axes: &[usize],
    x: ValueId,
) -> Result<ValueId> {
    one(node, Op::Reduce(Reduce { kind, axes: axes.to_vec(), keep_dims: true }), x)
}

/// `x / sqrt(mean(x²) + epsilon) * scale`.
pub(crate) fn rms_norm(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let (x, scale) = (node.operand(0)?, node.operand(1)?);
    let rank = node.shape(x).len();
    let first = one_axis(node, -1, rank)?;
    let epsilon = node.attributes.float("epsilon")?.unwrap_or(1e-5);
    // The type statistics are computed in; ours are never less precise.
    node.attributes.ignore("stash_type");
    let given = node.dtype(x);
    let is_narrow = matches!(given, DType::Narrow(_)) && given.is_float();
    let x = if is_narrow { one(node, Op::Cast { to: DType::F32 }, x)? } else { x };
    let squares = two(node, Op::Binary(Binary::Mul), x, x)?;
    let axes: Vec<usize> = (first..rank).collect();
    let mean = reduce(node, ReduceKind::Mean, &axes, squares)?;
    let epsilon = number(node, node.dtype(x), epsilon.into())?;
    let mean = two(node, Op::Binary(Binary::Add), mean, epsilon)?;
    let divisor = one(node, Op::Unary(Unary::Sqrt), mean)?;
    let mut unit = two(node, Op::Binary(Binary::Div), x, divisor)?;
    if is_narrow {
        unit = one(node, Op::Cast { to: given }, unit)?;
    }
    node.emit(Op::Binary(Binary::Mul), &[Some(unit), Some(scale)])
}

/// `x` over its sum of magnitudes or its length along an axis; 0 stays 0.
pub(crate) fn lp_norm(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let x = node.operand(0)?;
    let axis = one_axis(node, -1, node.shape(x).len())?;
    let kind = match node.attributes.int("p")?.unwrap_or(2) {
        1 => ReduceKind::L1,
        2 => ReduceKind::L2,
        other => return Err(malformed(format!("p is {other}, expected 1 or 2"))),
    };
    let length = reduce(node, kind, &[axis], x)?;
    let dtype = node.dtype(x);
    let (zero, first) = (number(node, dtype, 0.0)?, number(node, dtype, 1.0)?);
    let is_zero = two(node, Op::Compare(Compare::Equal), length, zero)?;
    let divisor = choose(node, is_zero, first, length)?;
    node.emit(Op::Binary(Binary::Div), &[Some(x), Some(divisor)])
}

/// `(x - mean) / (deviation + 1e-9)` over axes.
pub(crate) fn mean_variance_norm(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let x = node.operand(0)?;
    let given = node.attributes.ints("axes")?.unwrap_or(&[0, 2, 3]);
    let axes = axes(given, node.shape(x).len(), "axes")?;
    let mean = reduce(node, ReduceKind::Mean, &axes, x)?;
    let centred = two(node, Op::Binary(Binary::Sub), x, mean)?;
    let squares = two(node, Op::Binary(Binary::Mul), centred, centred)?;
    let variance = reduce(node, ReduceKind::Mean, &axes, squares)?;
    let deviation = one(node, Op::Unary(Unary::Sqrt), variance)?;
    let epsilon = number(node, node.dtype(x), 1e-9)?;
    let divisor = two(node, Op::Binary(Binary::Add), deviation, epsilon)?;
    node.emit(Op::Binary(Binary::Div), &[Some(centred), Some(divisor)])
}

/// An instance normalisation whose channels are groups of channels. Scale and bias belong to
/// channels, before opset 21 to groups.
pub(crate) fn group_norm(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let (x, scale, bias) = (node.operand(0)?, node.operand(1)?, node.operand(2)?);
    let epsilon = node.attributes.float("epsilon")?.unwrap_or(1e-5);
    node.attributes.ignore("stash_type");
    let groups = node.attributes.int("num_groups")?.unwrap_or(0);
    let shape = node.shape(x);
    let channels = shape.get(1).copied().unwrap_or(0);
    let count = usize::try_from(groups).unwrap_or(0);
    if count == 0 || channels == 0 || channels % count != 0 {
        return Err(malformed(format!("{channels} channels in {groups} groups")));
    }
    if node.dtype(x) != DType::F32 {
        return Err(node.unsupported(format_args!("operands of type {}", node.dtype(x))));
    }
    node.reads_extents(x, 1..shape.len());
    let grouped = one(node, Op::Reshape { shape: vec![0, groups, -1] }, x)?;
    let flat = node.shape(grouped);
    let back = target(node, &flat, shape.to_vec())?;
    let norm = Op::InstanceNorm(InstanceNorm { epsilon });
    if node.opset < 21 {
        let inputs = [Some(grouped), Some(scale), Some(bias)];
        let normal = node.emit_before(norm, &inputs)?;
        return node.emit(Op::Reshape { shape: back }, &[Some(normal)]);
    }
    if !node.may_store(count) {
        return Err(node.unsupported(format_args!("{count} groups")));
    }
    let ones = node.constant_before(Tensor::from_vec(&[count], vec![1.0_f32; count])?)?;
    let zeros = node.constant_before(Tensor::from_vec(&[count], vec![0.0_f32; count])?)?;
    let normal = node.emit_before(norm, &[Some(grouped), Some(ones), Some(zeros)])?;
    let normal = one(node, Op::Reshape { shape: back }, normal)?;
    let mut per_channel = vec![-1];
    per_channel.resize(shape.len() - 1, 1);
    let scale = one(node, Op::Reshape { shape: per_channel.clone() }, scale)?;
    let bias = one(node, Op::Reshape { shape: per_channel }, bias)?;
    let scaled = two(node, Op::Binary(Binary::Mul), normal, scale)?;
    node.emit(Op::Binary(Binary::Add), &[Some(scaled), Some(bias)])
}
