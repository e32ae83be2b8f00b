//! Joined tensors that stay where their parts are, with planes that are not full.
//!
//! Where numbers are free, a product sums over the planes of the parts; nothing is moved between
//! lanes. Poolings pass such planes on.

use super::chain::Open;
use super::channels::aligned_block;
use super::dims::{Dims, Held};
use super::{Choices, Frontend, Shape};
use crate::compile::hir::{Order, Plane};
use quincunx_diag::Result;
use quincunx_graph::{Conv, Node, NodeId, Op, ValueId};
use std::collections::BTreeSet;

impl Frontend<'_> {
    /// True for a joining node whose operands are not moved: its channels would have to change
    /// lanes, all that reads it can do without, and that takes fewer products.
    pub(super) fn stays_in_parts(&self, node: &Node, choices: Choices) -> bool {
        let lanes = self.lanes;
        let is_join = matches!(node.op, Op::Concat { axis: 1 });
        let moves = node
            .operands()
            .any(|operand| aligned_block(self.graph, node, operand, lanes).is_none());
        choices.joins()
            && is_join
            && moves
            && self.all_readers(node.output, |reader| {
                self.is_product(reader)
                    || (is_pooling(reader)
                        && self.all_readers(reader.output, |reader| self.is_product(reader)))
            })
            && (choices.shape == Shape::InParts || self.in_parts_is_cheaper(node))
    }

    /// True for a product that sums over channels.
    fn is_product(&self, node: &Node) -> bool {
        match node.op {
            Op::MatMul => self.input_shape(node).len() == 2,
            _ => matches!(node.op, Op::Conv(_) | Op::Gemm(_)),
        }
    }

    /// Whether reading planes that are not full takes fewer vectors than moving channels does.
    fn in_parts_is_cheaper(&self, node: &Node) -> bool {
        let blocks = |value: ValueId| Dims::of_value(self.graph, value).blocks(self.lanes);
        let parts: usize = node.operands().map(blocks).sum();
        let more = parts.saturating_sub(blocks(node.output));
        more * self.reads_of_plane(node.output) <= self.moves_of(node)
    }

    /// Vectors that the readers of a value multiply for each of its planes, and pass on.
    fn reads_of_plane(&self, value: ValueId) -> usize {
        let reads = |&reader: &NodeId| {
            let node = &self.graph[reader];
            let out = Dims::of_value(self.graph, node.output);
            match &node.op {
                Op::Conv(Conv { window, .. }) => {
                    let taps: usize = window.kernel.iter().product();
                    taps * (out.positions() + self.lanes) * out.blocks(self.lanes)
                }
                Op::Gemm(_) | Op::MatMul => (out.positions() + self.lanes) * out.blocks(self.lanes),
                _ => {
                    let moved = Dims::of_value(self.graph, value).positions() + out.positions();
                    moved + self.reads_of_plane(node.output)
                }
            }
        };
        self.consumers[value.index()].iter().map(reads).sum()
    }

    /// Vectors that are multiplied and moved to join the operands of a node.
    fn moves_of(&self, node: &Node) -> usize {
        let (lanes, positions) = (self.lanes, Dims::of_value(self.graph, node.output).positions());
        let (mut first, mut products, mut blocks) = (0, 0, BTreeSet::new());
        for operand in node.operands() {
            let channels = Dims::of_value(self.graph, operand).c;
            if aligned_block(self.graph, node, operand, lanes).is_none() {
                blocks.extend(first / lanes..(first + channels).div_ceil(lanes));
                for start in (first..first + channels).step_by(lanes) {
                    let end = (start + lanes).min(first + channels);
                    products += end.div_ceil(lanes) - start / lanes;
                }
            }
            first += channels;
        }
        // A vector that is made is saved and read again.
        positions * (products + 2 * blocks.len())
    }

    /// True when all readers of a value are of a kind, and it is not an output.
    fn all_readers(&self, value: ValueId, kind: impl Fn(&Node) -> bool) -> bool {
        let readers = &self.consumers[value.index()];
        let mut nodes = readers.iter().map(|&reader| &self.graph[reader]);
        !readers.is_empty()
            && !self.is_output[value.index()]
            && nodes.all(|node| node.input(0) == Some(value) && kind(node))
    }

    /// The planes of all operands one after another; `None` when one of them is read through a
    /// map.
    pub(super) fn side_by_side(&mut self, node: &Node) -> Result<Option<Held>> {
        let (mut planes, mut counts, mut layer) = (Vec::new(), Vec::new(), None);
        for operand in node.operands() {
            if self.held(operand)?.map.is_some() {
                self.materialise(operand)?;
            }
            let held = self.held(operand)?;
            planes.extend_from_slice(&held.planes);
            counts.extend(held.counts(self.lanes));
            layer = layer.max(held.layer);
        }
        let dims = Dims::of_value(self.graph, node.output);
        let (planes, counts) = (planes.into(), Some(counts.into()));
        Ok(Some(Held { dims, planes, map: None, zero_padding: false, layer, counts }))
    }

    /// The operand of a pooling that lies in parts.
    pub(super) fn in_parts(&self, node: &Node) -> Result<Option<Held>> {
        match node.input(0).filter(|_| is_pooling(node)) {
            Some(x) => Ok(Some(self.held(x)?).filter(|held| held.counts.is_some())),
            None => Ok(None),
        }
    }

    /// A pooling of planes that are not full, which gives such planes.
    pub(super) fn pool_parts(&mut self, node: &Node, held: Held) -> Result<()> {
        let (blocks, out) = (held.planes.len(), Dims::of_value(self.graph, node.output));
        let dims = Dims { c: blocks * self.lanes, ..held.dims };
        let mut open = Open::new(node.name.clone(), dims);
        let loaded = open.load(&Held { dims, ..held.clone() });
        let pooled = self.apply(&mut open, node, loaded, None)?;
        open.node(&node.name);
        let name = &self.graph[node.output].name;
        let positions = out.positions() as u32;
        let var = self.builder.add_var(name, positions, blocks as u32, Order::Planar);
        let planes: std::sync::Arc<[Plane]> = self.all_planes(var);
        open.save(pooled, planes.clone());
        let layer = Some(self.close(open));
        self.hold_view(node.output, Held { dims: out, planes, map: None, layer, ..held })
    }
}

fn is_pooling(node: &Node) -> bool {
    matches!(node.op, Op::Pool(_) | Op::GlobalAveragePool | Op::GlobalMaxPool)
}
