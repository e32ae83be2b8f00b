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
    /// Inputs enter as halves, and the machine quantises them.
    #[serde(default)]
    half_inputs: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// Names of nodes, each of which reads the one before it.
    nodes: Vec<String>,
}

/// Which nodes are one layer, and how inputs enter.
pub(super) struct Layering {
    /// The nodes of every layer.
    pub(super) groups: Vec<Vec<NodeId>>,
    /// Inputs are halves; otherwise real numbers, which the driver moves onto grids.
    pub(super) half_inputs: bool,
}

/// The nodes of every layer, the layers in the order of their first nodes. No layer is empty, every
/// node of the graph is in one of them, and what is between two nodes of a layer is read there only.
///
/// # Errors
/// `Q4096` for anything else.
pub(super) fn layering(numerics: &Numerics, graph: &Graph) -> Result<Layering> {
    let content: Content = Deserialize::deserialize(&numerics.0)
        .map_err(|error| misfit(format!("they do not have the form of a program's: {error}")))?;
    let readers = graph.consumers();
    let mut is_taken = vec![false; graph.nodes().len()];
    let mut groups = Vec::with_capacity(content.layers.len());
    for entry in &content.layers {
        let mut group: Vec<NodeId> = Vec::with_capacity(entry.nodes.len());
        for name in &entry.nodes {
            let id = graph.node_named(name);
            let id = id.ok_or_else(|| misfit(format!("there is no node {name:?}")))?;
            if std::mem::replace(&mut is_taken[id.index()], true) {
                return Err(misfit(format!("the node {name:?} is in two layers")));
            }
            if let Some(&before) = group.last() {
                check_link(graph, &readers, before, id)?;
            }
            group.push(id);
        }
        match group.is_empty() {
            true => return Err(misfit("a layer has no nodes")),
            false => groups.push(group),
        }
    }
    if let Some((_, node)) = graph.nodes().find(|(id, _)| !is_taken[id.index()]) {
        return Err(misfit(format!("the node {:?} is in no layer", node.name)));
    }
    groups.sort_unstable();
    Ok(Layering { groups, half_inputs: content.half_inputs })
}

/// A node reads the one before it, and is the only one.
fn check_link(graph: &Graph, readers: &[Vec<NodeId>], before: NodeId, node: NodeId) -> Result<()> {
    let value = graph[before].output;
    let reads = graph[node].operands().filter(|&id| id == value).count();
    let name = |id: NodeId| &graph[id].name;
    if reads != 1 {
        return Err(misfit(format!("{:?} does not follow {:?}", name(node), name(before))));
    }
    if readers[value.index()] != [node] || graph.outputs().contains(&value) {
        let what = format!("not only {:?} reads {:?}", name(node), name(before));
        return Err(misfit(what));
    }
    Ok(())
}
