//! The `Constant` node.

use crate::context::NodeContext;
use crate::tensor::{External, read_tensor};
use quincunx_diag::{Diagnostic, Result};
use quincunx_tensor::Tensor;

pub(crate) fn constant(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let attributes = &mut node.attributes;
    let mut found = Vec::new();
    if let Some(tensor) = attributes.tensor("value")? {
        // Tensors inside attributes must carry their data.
        found.push(read_tensor(tensor, &mut External::default())?);
    }
    found.extend(attributes.float("value_float")?.map(Tensor::scalar));
    found.extend(attributes.int("value_int")?.map(Tensor::scalar));
    if let Some(values) = attributes.floats("value_floats")? {
        found.push(Tensor::from_vec(&[values.len()], values.to_vec())?);
    }
    if let Some(values) = attributes.ints("value_ints")? {
        found.push(Tensor::from_vec(&[values.len()], values.to_vec())?);
    }
    for other in ["sparse_value", "value_string", "value_strings"] {
        if attributes.has(other) {
            return Err(node.unsupported(format_args!("attribute \"{other}\"")));
        }
    }
    let [tensor] = found.as_slice() else {
        return Err(Diagnostic::invalid(
            "Q0407",
            format!("Constant needs exactly one value, found {}", found.len()),
        ));
    };
    node.define(tensor.clone());
    Ok(())
}
