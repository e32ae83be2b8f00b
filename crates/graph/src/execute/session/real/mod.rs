//! Fast forms of operators on f32.

mod elementwise;
mod layer;
mod pool;

pub(super) use layer::{conv_shape, convolve};
pub(super) use pool::Geometry;

use super::build::Builder;
use super::data::{Data, Layout, Slot};
use super::value::Form;
use crate::{Node, Op, Reduce, ReduceKind, ValueId};
use quincunx_diag::Result;
use std::sync::Arc;

impl Builder<'_> {
    /// The steps of a node on f32, if it has a fast form.
    pub(super) fn real_node(&mut self, node: &Node) -> Result<Option<Form>> {
        if !self.is_f32(node.output) || !node.operands().all(|id| self.is_fast_operand(node, id)) {
            return Ok(None);
        }
        match &node.op {
            Op::Conv(conv) => self.real_conv(node, conv),
            Op::Gemm(gemm) => self.real_gemm(node, gemm),
            Op::MatMul => self.real_matmul(node),
            Op::Pool(pool) => self.real_pool(node, pool),
            Op::GlobalAveragePool => self.real_global_average(node),
            Op::Reduce(Reduce { kind: ReduceKind::Mean, axes, .. })
                if axes[..] == [2, 3] && self.shape(node.output).len() == 4 =>
            {
                self.real_global_average(node)
            }
            Op::BatchNorm(norm) => self.real_batch_norm(node, norm),
            Op::Unary(unary) => self.real_unary(node, *unary),
            Op::Activation(activation) => self.real_activation(node, *activation),
            Op::Binary(binary) => self.real_binary(node, *binary),
            _ => self.real_movement(node),
        }
    }

    /// Everything is f32 but the indices of a selection.
    fn is_fast_operand(&self, node: &Node, id: ValueId) -> bool {
        self.is_f32(id) || matches!(node.op, Op::Gather { .. }) && node.input(1) == Some(id)
    }

    /// The layout that a value has anyway.
    pub(super) fn layout_of(&mut self, id: ValueId) -> Result<Layout> {
        Ok(match self.form(id)? {
            Form::Real(_, layout) => layout,
            Form::Grid(grid) => grid.layout,
            Form::Lazy(expr) => expr.layout(),
            Form::Exact(_) => Layout::Rows,
        })
    }

    /// The numbers of a value in the layout that it has anyway.
    fn real_as_is(&mut self, id: ValueId) -> Result<(Slot, Layout)> {
        let layout = self.layout_of(id)?;
        Ok((self.real(id, layout)?, layout))
    }
}

/// The numbers of an operand to be overwritten: its own memory if nobody else holds it.
fn take_floats(data: Arc<Data>) -> Result<Vec<f32>> {
    match Arc::try_unwrap(data) {
        Ok(Data::Floats(values)) => Ok(values),
        Ok(data) => Ok(data.floats()?.into_owned()),
        Err(shared) => Ok(shared.floats()?.into_owned()),
    }
}
