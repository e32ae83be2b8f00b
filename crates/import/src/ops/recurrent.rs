//! Recurrent layers. Every used output becomes a node.

use crate::attributes::malformed;
use crate::context::NodeContext;
use quincunx_diag::Result;
use quincunx_graph::{Cell, Direction, Op, Recurrent, RecurrentOutput, ValueId};

pub(crate) fn rnn(node: &mut NodeContext<'_, '_>) -> Result<()> {
    recurrent(node, Cell::Rnn, &["Tanh"])
}

pub(crate) fn lstm(node: &mut NodeContext<'_, '_>) -> Result<()> {
    if node.attributes.flag("input_forget", false)? {
        return Err(node.unsupported("input_forget 1"));
    }
    recurrent(node, Cell::Lstm, &["Sigmoid", "Tanh", "Tanh"])
}

pub(crate) fn gru(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let linear_before_reset = node.attributes.flag("linear_before_reset", false)?;
    recurrent(node, Cell::Gru { linear_before_reset }, &["Sigmoid", "Tanh"])
}

fn recurrent(node: &mut NodeContext<'_, '_>, cell: Cell, functions: &[&str]) -> Result<()> {
    let direction = match node.attributes.string("direction")?.unwrap_or("forward") {
        "forward" => Direction::Forward,
        "reverse" => Direction::Reverse,
        "bidirectional" => Direction::Bidirectional,
        other => {
            return Err(malformed(format!(
                "attribute \"direction\" is \"{other}\", expected forward, reverse or bidirectional"
            )));
        }
    };
    check_functions(node, functions)?;
    if node.attributes.float("clip")?.is_some_and(|clip| clip != 0.0) {
        return Err(node.unsupported("attribute \"clip\""));
    }
    if node.opset < 7 {
        node.attributes.ignore("output_sequence");
    }
    let batch_first = node.attributes.flag("layout", false)?;
    let inputs = operands(node, cell, batch_first)?;
    let hidden = inputs[2].map_or(0, |r| node.shape(r).last().copied().unwrap_or(0));
    if let Some(given) = node.attributes.int("hidden_size")?
        && usize::try_from(given) != Ok(hidden)
    {
        return Err(malformed(format!("hidden_size is {given}, but R has {hidden} columns")));
    }
    let outputs = [RecurrentOutput::States, RecurrentOutput::LastState, RecurrentOutput::LastCell];
    for (index, output) in outputs.into_iter().enumerate() {
        if !node.wants(index) {
            continue;
        }
        let op = Op::Recurrent(Recurrent { cell, hidden, direction, output });
        if !batch_first {
            node.emit_output(index, op, &inputs)?;
            continue;
        }
        let result = node.emit_before(op, &inputs)?;
        let order = if index == 0 { vec![2, 0, 1, 3] } else { vec![1, 0, 2] };
        node.emit_output(index, Op::Transpose { order }, &[Some(result)])?;
    }
    Ok(())
}

/// The operands of [`Recurrent`]; those absent at the end are left out.
fn operands(
    node: &mut NodeContext<'_, '_>,
    cell: Cell,
    batch_first: bool,
) -> Result<Vec<Option<ValueId>>> {
    let mut inputs = Vec::new();
    for index in 0..4 {
        inputs.push(node.optional(index)?);
    }
    let last = if cell == Cell::Lstm { 8 } else { 6 };
    for index in 5..last {
        inputs.push(node.optional(index)?);
    }
    if batch_first {
        for index in [0, 4, 5] {
            if let Some(Some(value)) = inputs.get(index).copied() {
                let order = vec![1, 0, 2];
                inputs[index] = Some(node.emit_before(Op::Transpose { order }, &[Some(value)])?);
            }
        }
    }
    check_lengths(node, inputs[0])?;
    while inputs.last() == Some(&None) {
        inputs.pop();
    }
    Ok(inputs)
}

/// All sequences must be as long as the tensor.
fn check_lengths(node: &NodeContext<'_, '_>, x: Option<ValueId>) -> Result<()> {
    let Some(lengths) = node.optional_parameter(4, "sequence_lens")? else {
        return Ok(());
    };
    let steps = x.and_then(|x| node.shape(x).first().copied()).unwrap_or(0);
    if lengths.to_f64().iter().all(|&length| length == steps as f64) {
        return Ok(());
    }
    Err(node.unsupported(format_args!("sequence_lens that differ from the {steps} steps of X")))
}

/// Only the default functions are supported.
fn check_functions(node: &mut NodeContext<'_, '_>, defaults: &[&str]) -> Result<()> {
    let Some(given) = node.attributes.texts("activations")? else {
        return Ok(());
    };
    let default = given.iter().zip(defaults.iter().cycle()).all(|(a, b)| a.eq_ignore_ascii_case(b));
    if default {
        return Ok(());
    }
    Err(node.unsupported(format_args!(
        "activations {given:?}; only {defaults:?} per direction are supported"
    )))
}
