//! Reductions and softmax.

use super::shape::{axes, integers, target};
use crate::attributes::malformed;
use crate::context::NodeContext;
use quincunx_diag::Result;
use quincunx_graph::{ArgExtreme, Op, Reduce, ReduceKind, Softmax};

pub(crate) fn mean(node: &mut NodeContext<'_, '_>) -> Result<()> {
    reduce(node, ReduceKind::Mean)
}

pub(crate) fn sum(node: &mut NodeContext<'_, '_>) -> Result<()> {
    reduce(node, ReduceKind::Sum)
}

pub(crate) fn max(node: &mut NodeContext<'_, '_>) -> Result<()> {
    reduce(node, ReduceKind::Max)
}

pub(crate) fn min(node: &mut NodeContext<'_, '_>) -> Result<()> {
    reduce(node, ReduceKind::Min)
}

pub(crate) fn prod(node: &mut NodeContext<'_, '_>) -> Result<()> {
    reduce(node, ReduceKind::Prod)
}

pub(crate) fn l1(node: &mut NodeContext<'_, '_>) -> Result<()> {
    reduce(node, ReduceKind::L1)
}

pub(crate) fn l2(node: &mut NodeContext<'_, '_>) -> Result<()> {
    reduce(node, ReduceKind::L2)
}

pub(crate) fn sum_square(node: &mut NodeContext<'_, '_>) -> Result<()> {
    reduce(node, ReduceKind::SumSquare)
}

pub(crate) fn log_sum(node: &mut NodeContext<'_, '_>) -> Result<()> {
    reduce(node, ReduceKind::LogSum)
}

pub(crate) fn log_sum_exp(node: &mut NodeContext<'_, '_>) -> Result<()> {
    reduce(node, ReduceKind::LogSumExp)
}

fn reduce(node: &mut NodeContext<'_, '_>, kind: ReduceKind) -> Result<()> {
    let x = node.operand(0)?;
    let rank = node.shape(x).len();
    let keep_dims = node.attributes.flag("keepdims", true)?;
    let with_operand = if kind == ReduceKind::Sum { 13 } else { 18 };
    let (given, noop) = if node.opset >= with_operand {
        let given = integers(node, 1, "axes")?.map(std::borrow::Cow::into_owned);
        (given, node.attributes.flag("noop_with_empty_axes", false)?)
    } else if node.has_operand(1) {
        return Err(malformed(format!("axes are an attribute before opset {with_operand}")));
    } else {
        (node.attributes.ints("axes")?.map(<[i64]>::to_vec), false)
    };
    let given = given.unwrap_or_default();
    let mut axes = match (given.is_empty(), noop) {
        (true, false) => (0..rank).collect(),
        _ => axes(&given, rank, "axes")?,
    };
    axes.sort_unstable();
    node.emit(Op::Reduce(Reduce { kind, axes, keep_dims }), &[Some(x)])
}

pub(crate) fn arg_max(node: &mut NodeContext<'_, '_>) -> Result<()> {
    arg_extreme(node, true)
}

pub(crate) fn arg_min(node: &mut NodeContext<'_, '_>) -> Result<()> {
    arg_extreme(node, false)
}

fn arg_extreme(node: &mut NodeContext<'_, '_>, largest: bool) -> Result<()> {
    let x = node.operand(0)?;
    let arg = ArgExtreme {
        largest,
        axis: one_axis(node, 0, node.shape(x).len())?,
        keep_dims: node.attributes.flag("keepdims", true)?,
        last: node.attributes.flag("select_last_index", false)?,
    };
    node.emit(Op::ArgExtreme(arg), &[Some(x)])
}

/// The attribute `axis`.
pub(super) fn one_axis(node: &mut NodeContext<'_, '_>, default: i64, rank: usize) -> Result<usize> {
    let axis = node.attributes.int("axis")?.unwrap_or(default);
    Ok(axes(&[axis], rank, "axis")?[0])
}

pub(crate) fn softmax(node: &mut NodeContext<'_, '_>) -> Result<()> {
    any_softmax(node, false)
}

pub(crate) fn log_softmax(node: &mut NodeContext<'_, '_>) -> Result<()> {
    any_softmax(node, true)
}

fn any_softmax(node: &mut NodeContext<'_, '_>, log: bool) -> Result<()> {
    let x = node.operand(0)?;
    let shape = node.shape(x);
    let axis = one_axis(node, if node.opset < 13 { 1 } else { -1 }, shape.len())?;
    // Before opset 13 all axes from this one on were taken together.
    if node.opset >= 13 || axis + 1 == shape.len() {
        return node.emit(Op::Softmax(Softmax { axis, log }), &[Some(x)]);
    }
    // The batch alone is copied by the reshape at the end.
    node.reads_extents(x, usize::from(axis == 1)..shape.len());
    let rows = node.emit_before(Op::Flatten { axis }, &[Some(x)])?;
    let flat = node.shape(rows);
    let rows = node.emit_before(Op::Softmax(Softmax { axis: 1, log }), &[Some(rows)])?;
    let shape = target(node, &flat, shape.to_vec())?;
    node.emit(Op::Reshape { shape }, &[Some(rows)])
}
