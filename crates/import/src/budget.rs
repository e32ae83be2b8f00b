//! How much memory decoding a model would take, found without decoding it.
//!
//! An empty node is two bytes in a file and some hundred in memory. This pass walks the messages
//! that are decoded, adds up what they become, and refuses files that are all structure and no
//! content. It allocates nothing and stops at the limit.

#![deny(clippy::arithmetic_side_effects)]

use crate::proto::{
    AttributeProto, DimensionProto, EntryProto, GraphProto, NodeProto, OpsetProto, TensorProto,
    ValueProto,
};
use crate::tensorflow::proto as tf;
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::Graph;

/// Most nodes of a graph. The largest networks in use have some ten thousand.
pub(crate) const MAX_NODES: u64 = 1 << 17;

/// Most axes of all results of nodes together; lists in the attributes of nodes are as long.
const MAX_AXES: usize = 1 << 21;

/// Deeper messages are left to the decoder, which refuses them.
const MAX_DEPTH: u32 = 100;

/// Structure may take this much memory, and twice the file size.
const BASE: u64 = 96 << 20;

/// Refuses an ONNX file whose structure would take far more memory than the file.
///
/// # Errors
/// `Q0402`. Files that are not well formed pass; the decoder reports them.
pub(crate) fn check_budget(bytes: &[u8]) -> Result<()> {
    check(bytes, Kind::Model)
}

/// As [`check_budget`], for a GraphDef.
pub(crate) fn check_graph_def_budget(bytes: &[u8]) -> Result<()> {
    check(bytes, Kind::GraphDef)
}

fn check(bytes: &[u8], root: Kind) -> Result<()> {
    let left = (bytes.len() as u64).saturating_mul(2).saturating_add(BASE);
    let mut scan = Scan { left, nodes: 0 };
    match scan.message(bytes, root, 0) {
        Some(()) => Ok(()),
        None if scan.nodes > MAX_NODES => Err(too_many_nodes()),
        None => Err(Diagnostic::invalid(
            "Q0402",
            format!(
                "decoding this file of {} bytes would take far more memory than a model of its \
                 size needs",
                bytes.len()
            ),
        )),
    }
}

/// The model has more than [`MAX_NODES`].
pub(crate) fn too_many_nodes() -> Diagnostic {
    Diagnostic::unsupported(
        "Q0402",
        format!("the model has more than {MAX_NODES} nodes, the most that are accepted"),
    )
}

/// What a graph takes in memory while it grows.
#[derive(Default)]
pub(crate) struct Growth {
    nodes: usize,
    axes: usize,
}

impl Growth {
    /// Counts the nodes added since the last time.
    ///
    /// # Errors
    /// `Q0402` when the results of all nodes have too many axes.
    pub(crate) fn check(&mut self, graph: &Graph) -> Result<()> {
        let added = graph.nodes().len().saturating_sub(self.nodes);
        let added = graph.nodes().rev().take(added);
        let axes = added.map(|(_, node)| graph[node.output].shape.len());
        self.axes = axes.fold(self.axes, usize::saturating_add);
        self.nodes = graph.nodes().len();
        if self.axes <= MAX_AXES {
            return Ok(());
        }
        Err(Diagnostic::unsupported(
            "Q0402",
            format!("the results of all nodes have more than {MAX_AXES} axes together"),
        ))
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    Value,
    Type,
    TensorType,
    Shape,
    Leaf,
    GraphDef,
    NodeDef,
    AttrEntry,
    AttrValue,
    ListValue,
    TfTensor,
    TfShape,
}

/// What a field becomes in memory.
enum Field {
    /// A message of this kind that takes so many bytes itself.
    Message(Kind, usize),
    /// A string or a shared slice: a small header and, for strings, the text.
    Text,
    /// Numbers of so many bytes each, at least so many bytes each in the file.
    Numbers(usize, usize),
    /// Nothing worth counting.
    Small,
}

impl Kind {
    fn field(self, number: u64) -> Field {
        match (self, number) {
            (Kind::Model, 7) => Field::Message(Kind::Graph, 0),
            (Kind::Model, 8) => Field::Message(Kind::Leaf, size_of::<OpsetProto>()),
            (Kind::Graph, 1) => Field::Message(Kind::Node, size_of::<NodeProto>()),
            (Kind::Graph, 5) => Field::Message(Kind::Tensor, size_of::<TensorProto>()),
            (Kind::Graph, 11..=13) => Field::Message(Kind::Value, size_of::<ValueProto>()),
            (Kind::Graph, 2 | 15) | (Kind::Node, 1..=4 | 7) => Field::Text,
            (Kind::Node, 5) => Field::Message(Kind::Attribute, size_of::<AttributeProto>()),
            (Kind::Attribute, 5) => Field::Message(Kind::Tensor, size_of::<TensorProto>()),
            (Kind::Attribute, 6) => Field::Message(Kind::Graph, size_of::<GraphProto>()),
            (Kind::Attribute, 7) => Field::Numbers(4, 4),
            (Kind::Attribute, 8) => Field::Numbers(8, 1),
            (Kind::Tensor, 1 | 7 | 11) => Field::Numbers(8, 1),
            (Kind::Tensor, 4) => Field::Numbers(4, 4),
            (Kind::Tensor, 5) => Field::Numbers(4, 1),
            (Kind::Tensor, 10) => Field::Numbers(8, 8),
            (Kind::Tensor, 13) => Field::Message(Kind::Leaf, size_of::<EntryProto>()),
            (Kind::Value, 2) => Field::Message(Kind::Type, 0),
            (Kind::Type, 1) => Field::Message(Kind::TensorType, 0),
            (Kind::TensorType, 2) => Field::Message(Kind::Shape, 0),
            (Kind::Shape, 1) => Field::Message(Kind::Leaf, size_of::<DimensionProto>()),
            (Kind::Attribute, 1 | 9 | 21)
            | (Kind::Value | Kind::Tensor, 1 | 8)
            | (Kind::Leaf, _) => Field::Text,
            (Kind::GraphDef, 1) => Field::Message(Kind::NodeDef, size_of::<tf::NodeDef>()),
            (Kind::NodeDef, 5) => Field::Message(Kind::AttrEntry, size_of::<tf::AttrEntry>()),
            (Kind::AttrEntry, 2) => Field::Message(Kind::AttrValue, 0),
            (Kind::AttrValue, 1) => Field::Message(Kind::ListValue, size_of::<tf::ListValue>()),
            (Kind::AttrValue, 7) => {
                Field::Message(Kind::TfShape, size_of::<tf::TensorShapeProto>())
            }
            (Kind::AttrValue, 8) => Field::Message(Kind::TfTensor, size_of::<tf::TensorProto>()),
            (Kind::TfTensor, 2) => Field::Message(Kind::TfShape, 0),
            (Kind::TfShape, 2) => Field::Message(Kind::Leaf, size_of::<tf::Dim>()),
            (Kind::ListValue, 3) | (Kind::TfTensor, 10 | 17) => Field::Numbers(8, 1),
            (Kind::TfTensor, 5) => Field::Numbers(4, 4),
            (Kind::TfTensor, 6) => Field::Numbers(8, 8),
            (Kind::TfTensor, 7 | 13 | 16) => Field::Numbers(4, 1),
            (Kind::TfTensor, 11) => Field::Numbers(1, 1),
            (Kind::NodeDef, 1..=3)
            | (Kind::AttrEntry, 1)
            | (Kind::AttrValue | Kind::ListValue, 2)
            | (Kind::TfTensor, 4) => Field::Text,
            _ => Field::Small,
        }
    }
}

struct Scan {
    left: u64,
    nodes: u64,
}

impl Scan {
    /// So many things of a size.
    fn spend(&mut self, size: usize, count: u64) -> Option<()> {
        self.left = self.left.checked_sub(count.saturating_mul(size as u64))?;
        Some(())
    }

    /// `None` when the budget is used up.
    fn message(&mut self, mut bytes: &[u8], kind: Kind, depth: u32) -> Option<()> {
        if depth > MAX_DEPTH {
            return Some(());
        }
        while let Some((number, payload, rest)) = next_field(bytes) {
            bytes = rest;
            match kind.field(number) {
                Field::Message(child, size) => {
                    if let Kind::Node | Kind::NodeDef = child {
                        self.nodes = self.nodes.saturating_add(1);
                        if self.nodes > MAX_NODES {
                            return None;
                        }
                    }
                    // Growing lists hold up to twice what is in them.
                    self.spend(size, 2)?;
                    self.message(payload.unwrap_or(&[]), child, depth.saturating_add(1))?;
                }
                Field::Text => self.spend(payload.map_or(0, <[u8]>::len).saturating_add(48), 1)?,
                Field::Numbers(size, least) => {
                    let count = payload.map_or(Some(1), |p| p.len().checked_div(least))?;
                    self.spend(count.saturating_mul(size), 2)?;
                }
                Field::Small => {}
            }
        }
        Some(())
    }
}

/// Number of a field, its payload if it is length-delimited, and what follows it.
pub(crate) type RawField<'b> = (u64, Option<&'b [u8]>, &'b [u8]);

/// The next field; `None` at the end and where the bytes are not well formed.
pub(crate) fn next_field(bytes: &[u8]) -> Option<RawField<'_>> {
    let (key, rest) = varint(bytes)?;
    let number = key >> 3;
    match key & 7 {
        0 => Some((number, None, varint(rest)?.1)),
        1 => Some((number, None, rest.get(8..)?)),
        2 => {
            let (length, rest) = varint(rest)?;
            let length = usize::try_from(length).ok()?;
            let (payload, behind) = rest.split_at_checked(length)?;
            Some((number, Some(payload), behind))
        }
        5 => Some((number, None, rest.get(4..)?)),
        _ => None,
    }
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (mut value, mut rest) = (0_u64, bytes);
    for shift in (0_u32..).step_by(7).take(10) {
        let (&byte, behind) = rest.split_first()?;
        value |= u64::from(byte & 0x7f) << shift;
        rest = behind;
        if byte < 0x80 {
            return Some((value, rest));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrap(number: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![number << 3 | 2];
        let mut length = payload.len();
        while length >= 0x80 {
            bytes.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        bytes.push(length as u8);
        bytes.extend_from_slice(payload);
        bytes
    }

    #[test]
    fn a_million_empty_messages_are_refused() {
        let nodes = wrap(7, &[0x0a, 0].repeat(1_000_000));
        assert!(check_budget(&nodes).unwrap_err().message().contains("nodes"));
        let node = wrap(7, &wrap(1, &wrap(5, &[]).repeat(1_000_000)));
        assert!(check_budget(&node).is_err());
        let initialisers = wrap(7, &wrap(5, &[]).repeat(1_000_000));
        assert!(check_budget(&initialisers).is_err());
        let attributes = wrap(1, &[0x2a, 0].repeat(1_000_000));
        assert!(check_graph_def_budget(&attributes).is_err());
        assert!(check_graph_def_budget(&[0x0a, 0].repeat(1_000_000)).is_err());
        let small = wrap(7, &[0x0a, 0].repeat(1000));
        assert!(check_budget(&small).is_ok());
    }

    #[test]
    fn damaged_bytes_are_left_to_the_decoder() {
        assert!(check_budget(&[0xff; 100]).is_ok());
        assert!(check_budget(&[0x3a, 0xff, 0xff, 0xff, 0xff, 0x0f]).is_ok());
    }
}
