//! Which nodes of a graph are one layer of the machine.

use super::misfit;
use super::numbers::Float;
use quincunx_contract::Numerics;
use quincunx_diag::Result;
use quincunx_graph::{Graph, NodeId};
use serde::Deserialize;
use std::num::NonZeroUsize;

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
    /// What the result is stored as, in networks of floats.
    stored: Option<Stored>,
    /// Channels of an image that is multiplied as a row, in networks of floats.
    channels: Option<NonZeroUsize>,
    /// Partial sums of a softmax.
    lanes: Option<NonZeroUsize>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Precision {
    Int8,
    Bf16,
    Fp16,
    Tf32,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Stored {
    Bf16,
    Fp16,
    F32,
}

/// What numerics say.
pub(super) struct Layering {
    /// Floats that layers compute with; codes without.
    pub(super) float: Option<Float>,
    /// The layers in the order of their first nodes.
    pub(super) groups: Vec<Group>,
}

/// The nodes of a layer, at least one.
pub(super) struct Group {
    pub(super) nodes: Vec<NodeId>,
    /// Partial sums of a softmax: an element goes to the next one, at last halves are added.
    pub(super) lanes: Option<NonZeroUsize>,
    /// How floats are computed and held.
    pub(super) held: Option<Held>,
}

/// How products of floats are added. Stages and instructions begin anew at every position of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Adding {
    /// One after the other: every product and every sum is rounded. What compiled networks do.
    Seq,
    /// Every product is added with one rounding.
    Fused,
    /// One rounding for the products of a stage.
    Stages,
    /// One rounding for those of an instruction, eight stages.
    Exact,
    /// As `Seq`; products and sums that are subnormal become zeros of their sign.
    Flushed,
    /// As `Seq`; sums are held in a type between instructions.
    Rounded(Float),
}

/// How a layer of floats is computed and held.
#[derive(Clone, Copy)]
pub(super) struct Held {
    /// How products are added.
    pub(super) adding: Adding,
    /// What the result is held as.
    pub(super) stored: Float,
    /// The rows that it multiplies are images of so many channels, which lie outermost in them:
    /// sums go position by position, over the channels of each.
    pub(super) channels: Option<NonZeroUsize>,
}

/// The layers of a graph. Every node is in one of them, and what is between two nodes of a layer is
/// read there only.
///
/// # Errors
/// `Q6190` for anything else.
pub(super) fn layers(numerics: &Numerics, graph: &Graph) -> Result<Layering> {
    let content: Content = Deserialize::deserialize(&numerics.0)
        .map_err(|error| misfit(format!("they do not have the form of a program's: {error}")))?;
    let float = match content.precision {
        Precision::Int8 => None,
        Precision::Bf16 => Some(Float::Bf16),
        Precision::Fp16 => Some(Float::Fp16),
        Precision::Tf32 => Some(Float::Tf32),
    };
    let readers = graph.consumers();
    let mut is_taken = vec![false; graph.nodes().len()];
    let mut groups = Vec::with_capacity(content.layers.len());
    for Entry { nodes, stored, channels, lanes } in &content.layers {
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
        let stored = held(float, *stored)?;
        if stored.is_none() && channels.is_some() {
            return Err(misfit("a layer of whole numbers has an order of sums"));
        }
        let held = stored.map(|stored| Held { adding: Adding::Seq, stored, channels: *channels });
        groups.push(Group { nodes: layer, lanes: *lanes, held });
    }
    if let Some((_, node)) = graph.nodes().find(|(id, _)| !is_taken[id.index()]) {
        return Err(misfit(format!("the node {:?} is in no layer", node.name)));
    }
    groups.sort_unstable_by(|a, b| a.nodes.cmp(&b.nodes));
    Ok(Layering { float, groups })
}

/// What a result is held as that is stored so in a network of these floats.
fn held(float: Option<Float>, stored: Option<Stored>) -> Result<Option<Float>> {
    Ok(match (float, stored) {
        (None, None) => None,
        (Some(Float::Bf16), Some(Stored::Bf16))
        | (Some(Float::Fp16), Some(Stored::Fp16))
        | (Some(Float::Tf32), Some(Stored::F32)) => float,
        (Some(_), Some(Stored::F32)) => Some(Float::Last),
        (Some(_), None) => return Err(misfit("a layer does not say how its result is stored")),
        (_, Some(_)) => return Err(misfit("a layer is stored in a type of another precision")),
    })
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
