//! Control flow: `If`.

use crate::attributes::malformed;
use crate::context::NodeContext;
use crate::proto::GraphProto;
use crate::reader::Known;
use quincunx_diag::Result;
use quincunx_graph::{Constant, Op, ValueId};
use quincunx_tensor::{DType, element_count, show_shape};

/// With a condition that is known, `If` is one of its branches. Otherwise both are computed and
/// one is chosen, since a branch has no effect but its outputs.
pub(crate) fn choose_branch(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let (yes, no) = (branch(node, "then_branch")?, branch(node, "else_branch")?);
    let Some(Constant { tensor, quantiser: None }) = node.constant(0) else {
        return choose_results(node, yes, no);
    };
    if (tensor.dtype(), tensor.len()) != (DType::Bool, 1) {
        return Err(no_condition(tensor.dtype(), tensor.shape()));
    }
    let taken = if tensor.bytes()[0] != 0 { yes } else { no };
    for (index, known) in node.enter(taken).into_iter().enumerate() {
        node.define_output(index, known)?;
    }
    Ok(())
}

fn no_condition(dtype: DType, shape: &[usize]) -> quincunx_diag::Diagnostic {
    malformed(format!("the condition is {dtype}{}, expected one bool", show_shape(shape)))
}

fn branch<'m>(node: &mut NodeContext<'_, 'm>, name: &'static str) -> Result<&'m GraphProto> {
    let graph = node.attributes.graph(name)?;
    let graph = graph.ok_or_else(|| malformed(format!("attribute \"{name}\" is missing")))?;
    if graph.output.len() != node.output_slots() || !graph.input.is_empty() {
        return Err(malformed(format!(
            "{name} has {} inputs and {} outputs, expected none and {}",
            graph.input.len(),
            graph.output.len(),
            node.output_slots()
        )));
    }
    Ok(graph)
}

fn choose_results<'m>(
    node: &mut NodeContext<'_, 'm>,
    yes: &'m GraphProto,
    no: &'m GraphProto,
) -> Result<()> {
    let condition = node.operand(0)?;
    let shape = node.shape(condition);
    if node.dtype(condition) != DType::Bool || element_count(&shape) != Some(1) {
        return Err(no_condition(node.dtype(condition), &shape));
    }
    let condition = node.emit_before(Op::Reshape { shape: vec![] }, &[Some(condition)])?;
    let (yes, no) = (node.enter(yes), node.enter(no));
    for (index, (yes, no)) in yes.into_iter().zip(no).enumerate() {
        let (Some(yes), Some(no)) = (value(node, yes)?, value(node, no)?) else {
            continue; // The cause has been reported.
        };
        let typed = |value: ValueId| (node.dtype(value), node.shape(value));
        let ((yes_type, yes_shape), (no_type, no_shape)) = (typed(yes), typed(no));
        if (yes_type, &yes_shape) != (no_type, &no_shape) {
            return Err(node.unsupported(format_args!(
                "a condition that is not known, with branches that give {yes_type}{} and \
                 {no_type}{}",
                show_shape(&yes_shape),
                show_shape(&no_shape)
            )));
        }
        node.emit_output(index, Op::Where, &[Some(condition), Some(yes), Some(no)])?;
    }
    Ok(())
}

/// A result of a branch as a value of the graph.
fn value(node: &mut NodeContext<'_, '_>, known: Known) -> Result<Option<ValueId>> {
    match known {
        Known::Value(id) => Ok(Some(id)),
        Known::Constant(constant) => node.constant_before(*constant).map(Some),
        Known::Codes(_) | Known::Lost => Ok(None),
    }
}
