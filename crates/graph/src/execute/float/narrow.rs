//! Operators on types that are computed in wider ones.

use super::Float;
use crate::execute::Arithmetic;
use crate::{Graph, Node, Op};
use quincunx_diag::Result;
use quincunx_tensor::{DType, Tensor};

/// True when an operand is narrow and the operator computes with its numbers.
pub(super) fn needs_widening(node: &Node, operands: &[Option<&Tensor>]) -> bool {
    let narrow = |tensor: &&Tensor| matches!(tensor.dtype(), DType::Narrow(_));
    let converts = matches!(node.op, Op::Cast { .. } | Op::CastUnbounded { .. } | Op::Where);
    operands.iter().flatten().any(narrow) && !converts && !node.op.only_moves()
}

/// Computes with widened operands and rounds the result once.
pub(super) fn apply_wide(
    graph: &Graph,
    node: &Node,
    operands: &[Option<&Tensor>],
) -> Result<Tensor> {
    let wide: Vec<Option<Tensor>> = operands.iter().map(|o| o.map(Tensor::widen)).collect();
    let wide: Vec<Option<&Tensor>> = wide.iter().map(Option::as_ref).collect();
    let result = Float::apply(graph, node, &wide)?;
    match graph[node.output].dtype {
        DType::Narrow(narrow) => result.narrow(narrow, narrow.overflow()),
        _ => Ok(result),
    }
}
