//! Matrix products.

use crate::context::NodeContext;
use quincunx_diag::Result;
use quincunx_graph::{Gemm, Op};

pub(crate) fn gemm(node: &mut NodeContext<'_, '_>) -> Result<()> {
    if node.opset < 7 {
        // Its meaning is the broadcasting that is always on since opset 7.
        node.attributes.flag("broadcast", false)?;
    }
    let gemm = Gemm {
        alpha: node.attributes.float("alpha")?.unwrap_or(1.0),
        beta: node.attributes.float("beta")?.unwrap_or(1.0),
        transpose_a: node.attributes.flag("transA", false)?,
        transpose_b: node.attributes.flag("transB", false)?,
    };
    let inputs = [Some(node.operand(0)?), Some(node.operand(1)?), node.optional(2)?];
    let present = if inputs[2].is_some() { 3 } else { 2 };
    node.emit(Op::Gemm(gemm), &inputs[..present])
}

pub(crate) fn matmul(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let (a, b) = (node.operand(0)?, node.operand(1)?);
    node.emit(Op::MatMul, &[Some(a), Some(b)])
}
