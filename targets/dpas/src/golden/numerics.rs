//! Which nodes of a graph are one layer of the machine.

use super::misfit;
use quincunx_contract::Numerics;
use quincunx_diag::Result;
use quincunx_graph::{Graph, NodeId};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    layers: Vec<Entry>,
    precision: Precision,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// Names of nodes, each of which reads the one before it.
    nodes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Precision {
    Int8,
}

/// The nodes of every layer, the layers in the order of their first nodes. No layer is empty, every
/// node of the graph is in one of them, and what is between two nodes of a layer is read there only.
///
/// # Errors
/// `Q6190` for anything else.
pub(super) fn layers(numerics: &Numerics, graph: &Graph) -> Result<Vec<Vec<NodeId>>> {
    let content: Content = Deserialize::deserialize(&numerics.0)
        .map_err(|error| misfit(format!("they do not have the form of a program's: {error}")))?;
    let Precision::Int8 = content.precision;
    let readers = graph.consumers();
    let mut is_taken = vec![false; graph.nodes().len()];
    let mut layers = Vec::with_capacity(content.layers.len());
    for Entry { nodes } in &content.layers {
        let mut layer: Vec<NodeId> = Vec::with_capacity(nodes.len());
        for name in nodes {
            let id = graph.node_named(name);
            let id = id.ok_or_else(|| misfit(format!("there is no node {name:?}")))?;
            if std::mem::replace(&mut is_taken[id.index()], true) {
                return Err(misfit(format!("the node {name:?} is in two layers")));
            }
            if let Some(&before) = layer.last() {
                check_link(graph, &readers, before, id)?;
            }
            layer.push(id);
        }
        if layer.is_empty() {
            return Err(misfit("a layer has no nodes"));
        }
        layers.push(layer);
    }
    if let Some((_, node)) = graph.nodes().find(|(id, _)| !is_taken[id.index()]) {
        return Err(misfit(format!("the node {:?} is in no layer", node.name)));
    }
    layers.sort_unstable();
    Ok(layers)
}

/// A node reads the one before it, once, and is the only one.
fn check_link(graph: &Graph, readers: &[Vec<NodeId>], before: NodeId, node: NodeId) -> Result<()> {
    let value = graph[before].output;
    let [name, name_before] = [node, before].map(|id| &graph[id].name);
    if graph[node].operands().filter(|&id| id == value).count() != 1 {
        return Err(misfit(format!("{name:?} does not follow {name_before:?}")));
    }
    if readers[value.index()] != [node] || graph.outputs().contains(&value) {
        return Err(misfit(format!("not only {name:?} reads {name_before:?}")));
    }
    Ok(())
}
