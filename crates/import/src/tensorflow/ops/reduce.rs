//! Operators that join the elements along axes.

use super::{axes, one_axis};
use crate::tensorflow::context::Node;
use crate::tensorflow::dtype::from_tensorflow;
use crate::tensorflow::layout::{inverse, without};
use crate::tensorflow::reader::Stored;
use quincunx_diag::Result;
use quincunx_graph::{ArgExtreme, Op, Reduce, ReduceKind, Softmax};
use quincunx_tensor::DType;

/// `Mean(x, axes)` and its like.
pub(super) fn reduce(node: &mut Node<'_, '_>, kind: ReduceKind) -> Result<()> {
    let given = node.integers(1, "the list of axes")?;
    let keep_dims = node.attributes.flag("keep_dims", false)?;
    let Stored { id, order } = node.stored(0)?;
    let joined = axes(&given, order.len(), "the list of axes")?;
    let positions = inverse(&order);
    let mut stored: Vec<usize> = joined.iter().map(|&axis| positions[axis]).collect();
    stored.sort_unstable();
    let result = if keep_dims { order.clone() } else { without(&order, &joined) };
    let global = match kind {
        ReduceKind::Mean => Some(Op::GlobalAveragePool),
        ReduceKind::Max => Some(Op::GlobalMaxPool),
        _ => None,
    };
    let shape = node.stored_shape(id);
    let image = order.len() == 4 && stored == [2, 3] && !shape[2..].contains(&0);
    match global.filter(|_| image && node.dtype(id).is_float()) {
        Some(op) if keep_dims => node.emit_ordered(op, &[id], result),
        Some(op) => {
            let pooled = node.before(op, &[id])?;
            node.emit_ordered(Op::Reshape { shape: vec![0, 0] }, &[pooled], result)
        }
        None => {
            let op = Op::Reduce(Reduce { kind, axes: stored, keep_dims });
            node.emit_ordered(op, &[id], result)
        }
    }
}

/// `ArgMax(x, axis)` and `ArgMin`.
pub(super) fn arg_extreme(node: &mut Node<'_, '_>, largest: bool) -> Result<()> {
    let axis = node.integer(1, "the axis")?;
    let to = match from_tensorflow(node.attributes.dtype("output_type")?.unwrap_or(9)) {
        Ok(to) if !to.is_float() => to,
        _ => return Err(node.unsupported("positions of this type")),
    };
    let Stored { id, order } = node.stored(0)?;
    let axis = one_axis(axis, order.len(), "the axis")?;
    let position = inverse(&order)[axis];
    let op = Op::ArgExtreme(ArgExtreme { largest, axis: position, keep_dims: false, last: false });
    let result = without(&order, &[axis]);
    if to == DType::I64 {
        return node.emit_ordered(op, &[id], result);
    }
    let found = node.before(op, &[id])?;
    node.emit_ordered(Op::Cast { to }, &[found], result)
}

/// Along the innermost axis of the file.
pub(super) fn softmax(node: &mut Node<'_, '_>, log: bool) -> Result<()> {
    let Stored { id, order } = node.stored(0)?;
    let last = one_axis(-1, order.len(), "softmax")?;
    let axis = inverse(&order)[last];
    node.emit_ordered(Op::Softmax(Softmax { axis, log }), &[id], order)
}
