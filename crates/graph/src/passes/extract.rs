//! Part of a graph as a separate graph.

use super::rewrite::Rewrite;
use crate::{Graph, NodeId};
use quincunx_diag::Result;

/// The given nodes (in node order) as a graph. Its inputs are the values they read from outside,
/// constants excepted, in the order in which they are first read; its outputs are the results
/// that other nodes read or that are outputs of the whole graph.
///
/// # Errors
/// None for a graph that verifies.
pub fn extract(graph: &Graph, nodes: &[NodeId]) -> Result<Graph> {
    extract_with(graph, nodes, false)
}

/// As [`extract`], but an input whose numbers lie on a grid passes through a [`Op::Quantise`] of
/// that grid first. That changes no number; it keeps what the whole graph knew about the input.
///
/// [`Op::Quantise`]: crate::Op::Quantise
///
/// # Errors
/// None for a graph that verifies.
pub fn extract_on_grids(graph: &Graph, nodes: &[NodeId]) -> Result<Graph> {
    extract_with(graph, nodes, true)
}

fn extract_with(graph: &Graph, nodes: &[NodeId], pin_inputs: bool) -> Result<Graph> {
    let mut inside = vec![false; graph.nodes().len()];
    nodes.iter().for_each(|id| inside[id.index()] = true);
    let mut wanted = vec![false; graph.values().len()];
    graph.outputs().iter().for_each(|output| wanted[output.index()] = true);
    for (id, node) in graph.nodes() {
        if !inside[id.index()] {
            node.operands().for_each(|operand| wanted[operand.index()] = true);
        }
    }
    let mut rewrite = Rewrite::without_inputs(graph);
    if pin_inputs {
        rewrite.pin_inputs();
    }
    for &id in nodes {
        rewrite.copy(&graph[id])?;
    }
    for &id in nodes {
        let output = graph[id].output;
        if wanted[output.index()] {
            let new = rewrite.value(output)?;
            rewrite.new.add_output(new);
        }
    }
    Ok(rewrite.new)
}
