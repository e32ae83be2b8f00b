//! Layers under construction, and how they continue.

use super::dims::{Dims, Held};
use super::moves::AxisMap;
use super::{Frontend, layer_name, support};
use crate::compile::hir::{Layer, MatMul, Op as Hir, Plane, TableId, TempId, View};
use quincunx_diag::Result;
use quincunx_graph::{Node, NodeId, Op, ValueId};
use std::sync::Arc;

/// A layer under construction.
pub(super) struct Open {
    layer: Layer,
    /// Extents of the temp computed last.
    pub(super) dims: Dims,
    /// Its padding lanes are zeros.
    pub(super) zero_padding: bool,
    /// The table that it uses.
    pub(super) table: Option<TableId>,
    /// The temp is still to be padded by the pooling that comes next: for every position that of
    /// the temp.
    pub(super) padded: Option<AxisMap>,
}

impl Open {
    pub(super) fn new(name: String, dims: Dims) -> Open {
        let layer = Layer {
            name,
            nodes: Vec::new(),
            macs: 0,
            channels: dims.c as u32,
            temps: Vec::new(),
            row: 1,
            ops: Vec::new(),
        };
        Open { layer, dims, zero_padding: true, table: None, padded: None }
    }

    /// A temp of these extents, which become those of the layer.
    pub(super) fn temp(&mut self, dims: Dims) -> TempId {
        self.dims = dims;
        self.layer.temps.push(dims.positions() as u32);
        TempId(self.layer.temps.len() as u32 - 1)
    }

    /// Products that a vector of the layer takes.
    pub(super) fn products(&self) -> usize {
        let products = self.layer.ops.iter().filter_map(|op| match op {
            Hir::MatMul(product) => Some(product),
            _ => None,
        });
        let of = |product: &MatMul| {
            let taps = product.taps.iter().map(|tap| tap.pairs.len() * tap.inputs.len());
            taps.sum::<usize>() / self.layer.temps[product.output.0 as usize].max(1) as usize
        };
        products.map(of).sum()
    }

    pub(super) fn push(&mut self, op: Hir) {
        self.layer.ops.push(op);
    }

    /// Notes that the layer computes a node.
    pub(super) fn node(&mut self, name: &str) {
        self.layer.nodes.push(name.to_owned());
    }

    pub(super) fn macs(&mut self, macs: u64) {
        self.layer.macs = self.layer.macs.saturating_add(macs);
    }

    pub(super) fn name(&self) -> &str {
        &self.layer.name
    }

    /// Brings a tensor into the layer.
    pub(super) fn load(&mut self, held: &Held) -> TempId {
        let output = self.temp(held.dims);
        self.zero_padding = held.zero_padding;
        self.push(Hir::Load { from: view(held), output });
        output
    }

    /// Saves a temp of the extents computed last.
    pub(super) fn save(&mut self, input: TempId, to: Arc<[Plane]>) {
        self.layer.row = self.dims.w as u32;
        self.push(Hir::Save { input, to, positions: None });
    }

    pub(super) fn finish(mut self) -> Layer {
        if self.layer.name.is_empty() {
            self.layer.name = layer_name(&self.layer);
        }
        self.layer
    }
}

/// How a layer reads a tensor.
pub(super) fn view(held: &Held) -> View {
    View { planes: held.planes.clone(), map: held.map.clone(), zero_padding: held.zero_padding }
}

/// A value that a layer saves.
struct Saved {
    value: ValueId,
    planes: Arc<[Plane]>,
    dims: Dims,
    zero_padding: bool,
}

impl<'a> Frontend<'a> {
    /// Begins a layer with the loading of the first operand.
    pub(super) fn start_with_load(&mut self, node: &Node) -> Result<(Open, TempId)> {
        let held = self.first_operand(node)?;
        if let Some(mean) = self.loaded_mean(node, &held) {
            return Ok(mean);
        }
        let mut open = Open::new(node.name.clone(), held.dims);
        let temp = open.load(&held);
        let temp = self.apply(&mut open, node, temp, None)?;
        Ok((open, temp))
    }

    /// Continues a layer, whose last result is that of `node`, as far as operations follow that
    /// it can take; saves what others read, and adds the layer.
    pub(super) fn follow(&mut self, mut open: Open, mut temp: TempId, node: &Node) -> Result<()> {
        open.node(&node.name);
        let mut value = node.output;
        let mut saves: Vec<Saved> = Vec::new();
        // The value that is already saved and that the last value only renames.
        let mut renamed: Option<ValueId> = None;
        let mut aliases: Vec<(ValueId, ValueId)> = Vec::new();
        loop {
            let next = self.next(value, &open);
            let read_elsewhere = self.consumers[value.index()].len() > usize::from(next.is_some());
            if next.is_none() || read_elsewhere || self.is_output[value.index()] {
                match renamed {
                    Some(original)
                        if self.slots[original.index()].map(slot_key)
                            == self.slots[value.index()].map(slot_key) =>
                    {
                        aliases.push((value, original));
                    }
                    _ => {
                        // At once, so that what is computed next may take its place.
                        let planes = self.home(value)?;
                        open.save(temp, planes.clone());
                        let (dims, zero_padding) = (open.dims, open.zero_padding);
                        saves.push(Saved { value, planes, dims, zero_padding });
                        renamed = Some(value);
                    }
                }
            }
            let Some((id, node)) = next else {
                break;
            };
            self.done[id.index()] = true;
            open.node(&node.name);
            if let Op::Pad(_) = node.op {
                open.padded = self.padding(node);
            } else if !support::is_silent(self.graph, self.arch, node) {
                temp = self.apply(&mut open, node, temp, Some(value))?;
                renamed = None;
            }
            value = node.output;
            open.dims = Dims::of_value(self.graph, value);
        }
        self.finish(open, &saves, &aliases)
    }

    /// Adds the layer.
    fn finish(
        &mut self,
        open: Open,
        saves: &[Saved],
        aliases: &[(ValueId, ValueId)],
    ) -> Result<()> {
        let layer = self.close(open);
        for Saved { value, planes, dims, zero_padding } in saves {
            let (value, dims, zero_padding) = (*value, *dims, *zero_padding);
            let planes = planes.clone();
            let held =
                Held { dims, planes, map: None, zero_padding, layer: Some(layer), counts: None };
            self.hold_view(value, held)?;
        }
        for &(value, original) in aliases {
            let dims = Dims::of_value(self.graph, value);
            let held = Held { dims, ..self.held(original)? };
            self.hold_view(value, held)?;
        }
        Ok(())
    }

    /// The first reader of a value that the layer which computes it can take.
    fn next(&self, value: ValueId, open: &Open) -> Option<(NodeId, &'a Node)> {
        let graph = self.graph;
        let takes = |&id: &NodeId| {
            let node = &graph[id];
            let ready = node.operands().all(|operand| {
                operand == value
                    || graph[operand].constant.is_some()
                    || self.held[operand.index()].is_some()
            });
            (ready && !self.done[id.index()] && self.continues(node, value, open))
                .then_some((id, node))
        };
        self.consumers[value.index()].iter().find_map(takes)
    }

    /// True when a node can read `value` from a temp.
    fn continues(&self, node: &Node, value: ValueId, open: &Open) -> bool {
        match &node.op {
            _ if open.padded.is_some() => true,
            Op::Pad(_) => self.pad_continues(node, open),
            _ if support::is_silent(self.graph, self.arch, node) => true,
            op if self.is_looked_up(op) => {
                node.input(0) == Some(value) && open.table.is_none() && self.shares_local()
            }
            Op::Binary(_) => self.binary_continues(node, value, open.dims),
            Op::Unary(_) | Op::Activation(_) | Op::PRelu | Op::BatchNorm(_) => {
                node.input(0) == Some(value)
            }
            Op::Pool(_) | Op::GlobalAveragePool | Op::GlobalMaxPool | Op::Reduce(_) => {
                self.pool_continues(node, open.products())
            }
            _ => false,
        }
    }
}

fn slot_key(slot: super::Slot) -> (usize, u32) {
    (slot.root.index(), slot.first)
}
