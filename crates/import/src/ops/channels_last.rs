//! Operators of QONNX with the channels last: the standard ones between two transposes. Weights are
//! in the standard order.

use super::compose::one;
use super::{Convert, normalisation, pool, window};
use crate::attributes::malformed;
use crate::context::NodeContext;
use quincunx_diag::Result;
use quincunx_graph::Op;

pub(crate) fn average_pool(node: &mut NodeContext<'_, '_>) -> Result<()> {
    between_transposes(node, pool::average_pool)
}

pub(crate) fn batch_norm(node: &mut NodeContext<'_, '_>) -> Result<()> {
    between_transposes(node, normalisation::batch_norm)
}

pub(crate) fn conv(node: &mut NodeContext<'_, '_>) -> Result<()> {
    between_transposes(node, window::conv)
}

pub(crate) fn global_average_pool(node: &mut NodeContext<'_, '_>) -> Result<()> {
    between_transposes(node, pool::global_average_pool)
}

pub(crate) fn max_pool(node: &mut NodeContext<'_, '_>) -> Result<()> {
    between_transposes(node, pool::max_pool)
}

fn between_transposes(node: &mut NodeContext<'_, '_>, convert: Convert) -> Result<()> {
    let x = node.operand(0)?;
    let rank = node.shape(x).len();
    let Some(channels) = rank.checked_sub(1).filter(|&last| last > 0) else {
        return Err(malformed(format!("the operand has {rank} axes, expected [N, …, C]")));
    };
    let mut first = vec![0, channels];
    first.extend(1..channels);
    let mut last = vec![0];
    last.extend(2..rank);
    last.push(1);
    let x = one(node, Op::Transpose { order: first }, x)?;
    let y = node.inside(x, convert)?;
    node.emit(Op::Transpose { order: last }, &[Some(y)])
}
