//! Activations with parameters.

use crate::attributes::malformed;
use crate::context::NodeContext;
use quincunx_diag::Result;
use quincunx_graph::{Activation, Binary, Constant, Op, Unary, ValueId};

pub(crate) fn leaky_relu(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let alpha = node.attributes.float("alpha")?.unwrap_or(0.01);
    activation(node, Activation::LeakyRelu { alpha })
}

pub(crate) fn elu(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let alpha = node.attributes.float("alpha")?.unwrap_or(1.0);
    activation(node, Activation::Elu { alpha })
}

pub(crate) fn selu(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let exact = node.opset >= 6;
    let (alpha, gamma) = if exact { (1.673_263_2, 1.050_701) } else { (1.6732, 1.0507) };
    let alpha = node.attributes.float("alpha")?.unwrap_or(alpha);
    let gamma = node.attributes.float("gamma")?.unwrap_or(gamma);
    activation(node, Activation::Selu { alpha, gamma })
}

pub(crate) fn hard_sigmoid(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let alpha = node.attributes.float("alpha")?.unwrap_or(0.2);
    let beta = node.attributes.float("beta")?.unwrap_or(0.5);
    activation(node, Activation::HardSigmoid { alpha, beta })
}

fn activation(node: &mut NodeContext<'_, '_>, activation: Activation) -> Result<()> {
    if node.opset < 6 {
        node.attributes.ignore("consumed_inputs");
    }
    let x = node.operand(0)?;
    node.emit(Op::Activation(activation), &[Some(x)])
}

pub(crate) fn gelu(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let gelu = match node.attributes.string("approximate")? {
        None | Some("none") => Unary::Gelu,
        Some("tanh") => Unary::GeluTanh,
        Some(other) => {
            return Err(malformed(format!(
                "approximate is \"{other}\", expected \"none\" or \"tanh\""
            )));
        }
    };
    let x = node.operand(0)?;
    node.emit(Op::Unary(gelu), &[Some(x)])
}

pub(crate) fn prelu(node: &mut NodeContext<'_, '_>) -> Result<()> {
    if node.opset < 7 {
        // There a list of slopes belonged to the channels, now to the last axis.
        return Err(node.unsupported("opsets before 7"));
    }
    let (x, slope) = (node.operand(0)?, node.operand(1)?);
    node.emit(Op::PRelu, &[Some(x), Some(slope)])
}

/// Limits are attributes before opset 11 and operands since.
pub(crate) fn clip(node: &mut NodeContext<'_, '_>) -> Result<()> {
    if node.opset < 11 {
        let min = node.attributes.float("min")?.filter(|&min| min != f32::MIN);
        let max = node.attributes.float("max")?.filter(|&max| max != f32::MAX);
        let x = node.operand(0)?;
        return match (min, max) {
            (None, None) => node.emit(Op::Identity, &[Some(x)]),
            _ => activation(node, Activation::Clip { min, max }),
        };
    }
    let x = node.operand(0)?;
    match (limit(node, 1), limit(node, 2)) {
        (Limit::None, Limit::None) => node.emit(Op::Identity, &[Some(x)]),
        (Limit::Known(min), Limit::Known(max)) if node.dtype(x).is_float() => {
            activation(node, Activation::Clip { min: Some(min), max: Some(max) })
        }
        (Limit::Known(min), Limit::None) if node.dtype(x).is_float() => {
            activation(node, Activation::Clip { min: Some(min), max: None })
        }
        (Limit::None, Limit::Known(max)) if node.dtype(x).is_float() => {
            activation(node, Activation::Clip { min: None, max: Some(max) })
        }
        _ => clip_by_operands(node, x),
    }
}

enum Limit {
    /// Absent.
    None,
    /// A constant that is an f32.
    Known(f32),
    /// Anything else.
    Operand,
}

fn limit(node: &NodeContext<'_, '_>, index: usize) -> Limit {
    if !node.has_operand(index) {
        return Limit::None;
    }
    let Some(Constant { tensor, quantiser: None }) = node.constant(index) else {
        return Limit::Operand;
    };
    match tensor.to_f64()[..] {
        [value] if f64::from(value as f32) == value => Limit::Known(value as f32),
        _ => Limit::Operand,
    }
}

/// Limits that are computed, or of integers, become operators.
fn clip_by_operands(node: &mut NodeContext<'_, '_>, x: ValueId) -> Result<()> {
    for index in [1, 2] {
        if let Some(limit) = node.optional(index)?
            && !node.shape(limit).is_empty()
        {
            return Err(malformed(format!("operand {index} is not a scalar")));
        }
    }
    let (min, max) = (node.optional(1)?, node.optional(2)?);
    let (max_op, min_op) = (Op::Binary(Binary::Max), Op::Binary(Binary::Min));
    match (min, max) {
        (Some(min), Some(max)) => {
            let raised = node.emit_before(max_op, &[Some(x), Some(min)])?;
            node.emit(min_op, &[Some(raised), Some(max)])
        }
        (Some(min), None) => node.emit(max_op, &[Some(x), Some(min)]),
        (None, max) => node.emit(min_op, &[Some(x), max]),
    }
}
