//! Normalisation.

use super::reduce::one_axis;
use crate::attributes::malformed;
use crate::context::NodeContext;
use quincunx_diag::Result;
use quincunx_graph::{BatchNorm, InstanceNorm, LayerNorm, Lrn, Op};

pub(crate) fn batch_norm(node: &mut NodeContext<'_, '_>) -> Result<()> {
    node.attributes.ignore("momentum");
    if node.opset < 7 {
        node.attributes.ignore("consumed_inputs");
        // The standard tells training from inference by the number of outputs.
        let test = node.attributes.flag("is_test", false)?;
        if !test && node.output_count() > 1 {
            return Err(node.unsupported("is_test 0 (training); only inference is supported"));
        }
    }
    if node.attributes.flag("training_mode", false)? {
        return Err(node.unsupported("training_mode 1; only inference is supported"));
    }
    if !node.attributes.flag("spatial", true)? {
        return Err(node.unsupported("spatial 0; only statistics per channel are supported"));
    }
    let epsilon = node.attributes.float("epsilon")?.unwrap_or(1e-5);
    let mut inputs = Vec::with_capacity(5);
    for index in 0..5 {
        inputs.push(Some(node.operand(index)?));
    }
    node.emit(Op::BatchNorm(BatchNorm { epsilon }), &inputs)
}

pub(crate) fn layer_norm(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let x = node.operand(0)?;
    let axis = one_axis(node, -1, node.shape(x).len())?;
    let epsilon = node.attributes.float("epsilon")?.unwrap_or(1e-5);
    // The type statistics are computed in; ours are never less precise.
    node.attributes.ignore("stash_type");
    let inputs = [Some(x), Some(node.operand(1)?), node.optional(2)?];
    let present = if inputs[2].is_some() { 3 } else { 2 };
    node.emit(Op::LayerNorm(LayerNorm { axis, epsilon }), &inputs[..present])
}

pub(crate) fn instance_norm(node: &mut NodeContext<'_, '_>) -> Result<()> {
    if node.opset < 6 {
        node.attributes.ignore("consumed_inputs");
    }
    let epsilon = node.attributes.float("epsilon")?.unwrap_or(1e-5);
    let inputs = [Some(node.operand(0)?), Some(node.operand(1)?), Some(node.operand(2)?)];
    node.emit(Op::InstanceNorm(InstanceNorm { epsilon }), &inputs)
}

pub(crate) fn lrn(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let size = node
        .attributes
        .int("size")?
        .ok_or_else(|| malformed("attribute \"size\" is missing".to_owned()))?;
    let lrn = Lrn {
        size: usize::try_from(size)
            .map_err(|_| malformed(format!("size is {size}, expected at least 1")))?,
        alpha: node.attributes.float("alpha")?.unwrap_or(1e-4),
        beta: node.attributes.float("beta")?.unwrap_or(0.75),
        bias: node.attributes.float("bias")?.unwrap_or(1.0),
    };
    let x = node.operand(0)?;
    node.emit(Op::Lrn(lrn), &[Some(x)])
}
