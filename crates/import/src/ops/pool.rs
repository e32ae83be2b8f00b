//! Poolings.

use crate::context::NodeContext;
use crate::ops::window::window;
use quincunx_diag::Result;
use quincunx_graph::{Op, Pool, PoolKind};

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

fn pool(node: &mut NodeContext<'_, '_>, kind: PoolKind) -> Result<()> {
    let x = node.operand(0)?;
    let window = window(node, &node.shape(x), None)?;
    let ceil = node.attributes.flag("ceil_mode", false)?;
    node.emit(Op::Pool(Pool { kind, window, ceil }), &[Some(x)])
}
