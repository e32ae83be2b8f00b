//! Normalisation.

use crate::context::NodeContext;
use quincunx_diag::Result;
use quincunx_graph::{BatchNorm, Op};

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
