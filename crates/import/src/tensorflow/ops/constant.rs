//! Constants, and operators that give what they get.

use crate::tensorflow::attributes::malformed;
use crate::tensorflow::context::Node;
use crate::tensorflow::dtype::from_tensorflow;
use quincunx_diag::Result;

pub(super) fn constant(node: &mut Node<'_, '_>) -> Result<()> {
    let tensor = node.tensor_attribute("value")?;
    let declared = node.attributes.dtype("dtype")?.map(from_tensorflow);
    if let Some(Ok(declared)) = declared
        && declared != tensor.dtype()
    {
        return Err(malformed(format!(
            "attribute \"dtype\" is {declared}, but the value is {}",
            tensor.dtype()
        )));
    }
    node.define(tensor);
    Ok(())
}

/// Identities of inference. A `PlaceholderWithDefault` always has its default.
pub(super) fn identity(node: &mut Node<'_, '_>) -> Result<()> {
    node.alias(0, 0)
}

pub(super) fn identity_n(node: &mut Node<'_, '_>) -> Result<()> {
    (0..node.operand_count()).try_for_each(|index| node.alias(index, index))
}

/// Nothing can read a `NoOp`, so it is met only where it was named as an output.
pub(super) fn no_op(node: &mut Node<'_, '_>) -> Result<()> {
    Err(node.unsupported("it has no result that could be an output"))
}
