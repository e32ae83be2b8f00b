//! Values on grids: integers with exact units.
//!
//! * `expr` makes expressions of them; [`program`] makes one a loop, [`bounds`] says how far f64
//!   can be trusted in it, and [`round`] rounds it to codes.
//! * `layer`, `pool` and `moves` are the operators that make new integers.

mod bounds;
mod codes;
mod evaluate;
mod expr;
mod float;
mod layer;
mod moves;
mod packed;
mod pool;
mod program;
mod ranges;
pub(super) mod round;

use super::build::Builder;
use super::data::{Layout, Slot};
use super::value::{Form, GridValue};
use crate::{Activation, Binary, Node, Op, Reduce, ReduceKind, Unary, ValueId};
use quincunx_diag::Result;
use quincunx_tensor::DType;

impl Builder<'_> {
    /// The steps of a node whose operands lie on grids, or that brings numbers onto one; `None`
    /// when it is to be computed in f32.
    pub(super) fn grid_node(&mut self, node: &Node) -> Result<Option<Form>> {
        match &node.op {
            Op::Quantise(quantiser) => return self.quantise(node, quantiser),
            Op::ToCodes(quantiser) => return self.code_tensor(node, quantiser),
            Op::FromCodes(quantiser) => return self.reals_of_codes(node, quantiser),
            _ => {}
        }
        if !self.is_f32(node.output) || !self.is_on_grid(node)? {
            return Ok(None);
        }
        let fast = match &node.op {
            Op::Conv(conv) => self.grid_conv(node, conv)?,
            Op::Gemm(gemm) => self.grid_gemm(node, gemm)?,
            Op::MatMul => self.grid_matmul(node)?,
            Op::ConvTranspose(conv) => self.grid_conv_transpose(node, conv)?,
            Op::Pool(pool) => self.grid_pool(node, pool)?,
            Op::GlobalAveragePool => self.grid_global_average(node)?,
            Op::Reduce(Reduce { kind: ReduceKind::Mean, axes, .. })
                if axes[..] == [2, 3] && self.shape(node.output).len() == 4 =>
            {
                self.grid_global_average(node)?
            }
            Op::Unary(_) | Op::Activation(_) | Op::Binary(_) | Op::PRelu => self.grid_expr(node)?,
            _ => self.grid_movement(node)?,
        };
        match fast {
            Some(form) => Ok(Some(form)),
            None if self.has_exact_result(node)? => self.exact_node(node).map(Some),
            None => Ok(None),
        }
    }

    /// True when some operand is a quantised value that is not a constant, and all others are too,
    /// or are constants. The weights of a layer must be stored as codes: plain f32 weights make a
    /// layer of f32.
    fn is_on_grid(&mut self, node: &Node) -> Result<bool> {
        let mut found = false;
        let layer =
            matches!(node.op, Op::Conv(_) | Op::Gemm(_) | Op::MatMul | Op::ConvTranspose(_));
        for (index, id) in node.inputs.iter().enumerate() {
            let Some(id) = *id else { continue };
            let plain = matches!(self.form(id)?, Form::Real(..));
            let constant = self.graph[id].constant.is_some();
            if plain && (!constant || layer && index < 2) {
                return Ok(false);
            }
            found |= !constant;
        }
        Ok(found)
    }

    /// Whether the exact executor has a result, whatever the numbers are.
    fn has_exact_result(&mut self, node: &Node) -> Result<bool> {
        let finite = |id: Option<ValueId>| {
            let constant = id.and_then(|id| self.plain_constant(id));
            constant.is_none_or(|tensor| tensor.to_f64().iter().all(|v| v.is_finite()))
        };
        if !node.inputs.iter().all(|id| finite(*id)) {
            return Ok(false);
        }
        let limit = |limit: Option<f32>| limit.is_none_or(|limit| !limit.is_nan());
        Ok(match &node.op {
            Op::Conv(_) | Op::ConvTranspose(_) | Op::MatMul | Op::Pool(_) => true,
            Op::Gemm(gemm) => gemm.alpha.is_finite() && gemm.beta.is_finite(),
            Op::GlobalAveragePool | Op::GlobalMaxPool => true,
            Op::PRelu => true,
            Op::Binary(binary) => !matches!(binary, Binary::Div | Binary::Pow),
            Op::Unary(unary) => matches!(
                unary,
                Unary::Relu
                    | Unary::Neg
                    | Unary::Abs
                    | Unary::Sign
                    | Unary::Floor
                    | Unary::Ceil
                    | Unary::Round
                    | Unary::HardSwish
            ),
            Op::Activation(Activation::LeakyRelu { alpha }) => alpha.is_finite(),
            Op::Activation(Activation::HardSigmoid { alpha, beta }) => {
                alpha.is_finite() && beta.is_finite()
            }
            Op::Activation(Activation::Clip { min, max }) => limit(*min) && limit(*max),
            Op::Reduce(reduce) => {
                let kind = matches!(
                    reduce.kind,
                    ReduceKind::Sum
                        | ReduceKind::Mean
                        | ReduceKind::Max
                        | ReduceKind::Min
                        | ReduceKind::L1
                        | ReduceKind::SumSquare
                );
                let x = self.operand(node, 0)?;
                kind && !self.shape(x).contains(&0)
            }
            Op::Resize(resize) => {
                (resize.is_nearest() || resize.is_exact()) && resize.extrapolation().is_finite()
            }
            Op::Pad(_)
            | Op::Identity
            | Op::Flatten { .. }
            | Op::Reshape { .. }
            | Op::Transpose { .. }
            | Op::Concat { .. }
            | Op::Slice { .. }
            | Op::Gather { .. }
            | Op::Expand { .. }
            | Op::Tile { .. } => true,
            _ => false,
        })
    }

    /// A constant that is stored as codes.
    pub(super) fn grid_constant(&mut self, id: ValueId) -> Result<Option<GridValue>> {
        let value = &self.graph[id];
        let Some(constant) = &value.constant else { return Ok(None) };
        let Some(quantiser) = &constant.quantiser else { return Ok(None) };
        let Some(codes) = constant.tensor.to_i64() else { return Ok(None) };
        Ok(self.grid_of_codes(codes, &value.shape, quantiser))
    }

    /// The integers of a value in a layout.
    pub(super) fn turned_ints(
        &mut self,
        id: ValueId,
        grid: &GridValue,
        to: Layout,
    ) -> Result<Slot> {
        if grid.layout == to {
            return Ok(grid.slot);
        }
        let shape = grid.shape.clone();
        let key = (grid.slot, shape.clone(), to);
        if let Some(slot) = self.turned.get(&key) {
            return Ok(*slot);
        }
        let kernel: super::Kernel = Box::new(move |_, data| {
            Ok(super::data::Data::Ints(data[0].ints()?.turned(&shape, to)))
        });
        let slot = self.emit(id, vec![grid.slot], kernel)?;
        self.turned.insert(key, slot);
        Ok(slot)
    }

    /// True for element types that are integers of at most 64 bits with a sign, or 32 without.
    pub(super) fn is_integer(&self, id: ValueId) -> bool {
        !matches!(self.graph[id].dtype, DType::F32 | DType::F64 | DType::Bool | DType::U64)
    }
}
