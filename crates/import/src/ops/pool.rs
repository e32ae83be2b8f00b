//! Poolings.

use crate::context::NodeContext;
use crate::ops::window::window;
use quincunx_diag::Result;
use quincunx_graph::{Op, Pool, PoolKind, ValueId};
use quincunx_tensor::DType;

pub(crate) fn max_pool(node: &mut NodeContext<'_, '_>) -> Result<()> {
    // Says how the second output counts; that output is not supported.
    node.attributes.ignore("storage_order");
    pool(node, PoolKind::Max)
}

pub(crate) fn average_pool(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let count_include_pad = node.attributes.flag("count_include_pad", false)?;
    pool(node, PoolKind::Average { count_include_pad })
}

pub(crate) fn global_average_pool(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let x = node.operand(0)?;
    node.emit(Op::GlobalAveragePool, &[Some(x)])
}

pub(crate) fn global_max_pool(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let x = node.operand(0)?;
    node.emit(Op::GlobalMaxPool, &[Some(x)])
}

/// The pooling of `x` that the attributes describe.
pub(super) fn pool_op(node: &mut NodeContext<'_, '_>, x: ValueId, kind: PoolKind) -> Result<Op> {
    let window = window(node, &node.shape(x), None)?;
    let ceil = node.attributes.flag("ceil_mode", false)?;
    Ok(Op::Pool(Pool { kind, window, ceil }))
}

fn pool(node: &mut NodeContext<'_, '_>, kind: PoolKind) -> Result<()> {
    let x = node.operand(0)?;
    let op = pool_op(node, x, kind)?;
    let dtype = node.dtype(x);
    if !matches!(dtype, DType::I8 | DType::U8) {
        return node.emit(op, &[Some(x)]);
    }
    // Every integer of 8 bits is an f32.
    let x = node.emit_before(Op::Cast { to: DType::F32 }, &[Some(x)])?;
    let pooled = node.emit_before(op, &[Some(x)])?;
    node.emit(Op::Cast { to: dtype }, &[Some(pooled)])
}
