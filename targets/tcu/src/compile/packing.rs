//! The packed input layout: a graph whose inputs hold what the windows of their convolutions read.

use crate::arch::TcuArch;
use crate::compile::hir::{Network, Order};
use crate::files::Packing;
use quincunx_diag::Result;
use quincunx_graph::{Constant, Conv, Graph, Node, Op, Value, ValueId, Window};
use std::collections::BTreeMap;

/// A graph with packed inputs.
pub(super) struct Packed {
    pub(super) graph: Graph,
    /// Inputs that are packed.
    pub(super) inputs: BTreeMap<String, Packing>,
    /// The convolutions that read them, with their multiplications.
    pub(super) nodes: BTreeMap<String, u64>,
}

/// What remains of it behind the frontend.
#[derive(Default)]
pub(super) struct Settled {
    /// Inputs that are packed.
    pub(super) inputs: BTreeMap<String, Packing>,
    /// The convolutions that read them.
    pub(super) nodes: Vec<String>,
}

impl Packed {
    /// Gives inputs their shapes and layers their multiplications back.
    pub(super) fn settle(self, network: &mut Network) -> Settled {
        for binding in &mut network.inputs {
            if let Some(packing) = self.inputs.get(&binding.name) {
                binding.shape = packing.shape.to_vec();
                // As tensors of the machine's own lie, so that what is moved lies side by side.
                network.vars[binding.var.0 as usize].order = Order::Planar;
            }
        }
        for layer in &mut network.layers {
            if let Some(&macs) = layer.nodes.iter().find_map(|node| self.nodes.get(node)) {
                layer.macs = macs;
            }
        }
        Settled { inputs: self.inputs, nodes: self.nodes.into_keys().collect() }
    }
}

/// Packs every input that only one convolution reads, where that takes less products.
///
/// # Errors
/// None for a graph that verifies.
pub(super) fn pack(graph: &Graph, arch: &TcuArch) -> Result<Packed> {
    let consumers = graph.consumers();
    let mut packed = Packed {
        graph: Graph::new(graph.name.clone()),
        inputs: BTreeMap::new(),
        nodes: BTreeMap::new(),
    };
    let mut weights = vec![None; graph.values().len()];
    let mut shapes = vec![None; graph.values().len()];
    for &input in graph.inputs() {
        let [reader] = consumers[input.index()][..] else { continue };
        let node = &graph[reader];
        let Some((packing, conv)) = packing(graph, node, input, arch) else { continue };
        let Some(kernel) = node.input(1) else { continue };
        if consumers[kernel.index()].len() > 1 {
            continue;
        }
        shapes[input.index()] = Some(packing.packed_shape()?);
        weights[kernel.index()] = Some(());
        packed.nodes.insert(node.name.clone(), products(graph, node, &packing, &conv.window));
        packed.inputs.insert(graph[input].name.clone(), packing);
    }
    let mut places: Vec<Option<ValueId>> = vec![None; graph.values().len()];
    for &input in graph.inputs() {
        let Value { name, dtype, shape, .. } = &graph[input];
        let shape = shapes[input.index()].as_ref().map_or(&shape[..], |packed| &packed[..]);
        places[input.index()] = Some(packed.graph.add_input(name, *dtype, shape, &[])?);
    }
    for (id, value) in graph.values() {
        let Some(constant) = &value.constant else { continue };
        let constant = match weights[id.index()] {
            Some(()) => flat(constant)?,
            None => constant.clone(),
        };
        places[id.index()] = Some(packed.graph.add_constant(&value.name, constant)?);
    }
    for (_, node) in graph.nodes() {
        let operands: Vec<Option<ValueId>> =
            node.inputs.iter().map(|id| id.and_then(|id| places[id.index()])).collect();
        let op = match packed.nodes.contains_key(&node.name) {
            true => Op::Conv(Conv { window: Window::new(&[1, 1]), groups: 1 }),
            false => node.op.clone(),
        };
        let output = packed.graph.add_node(&node.name, op, &operands, &graph[node.output].name)?;
        places[node.output.index()] = Some(output);
    }
    let outputs = graph.outputs().iter().filter_map(|output| places[output.index()]);
    outputs.for_each(|output| packed.graph.add_output(output));
    Ok(packed)
}

/// How an input is packed for the node that reads it, if that takes less products.
fn packing<'a>(
    graph: &Graph,
    node: &'a Node,
    input: ValueId,
    arch: &TcuArch,
) -> Option<(Packing, &'a Conv)> {
    let Op::Conv(conv) = &node.op else { return None };
    let kernel = graph[node.input(1)?].constant.as_ref()?;
    let plain = node.input(0) == Some(input) && kernel.quantiser.is_none() && conv.groups == 1;
    let shape: [usize; 4] = graph[input].shape[..].try_into().ok()?;
    if !plain || graph.outputs().contains(&input) || conv.window.rank() != 2 {
        return None;
    }
    let packing = Packing::new(shape, &conv.window);
    let taps = packing.kernel[0] * packing.kernel[1];
    let lanes = arch.lanes();
    let packed = packing.packed_shape().ok()?;
    (packed[1].div_ceil(lanes) < taps * shape[1].div_ceil(lanes)).then_some((packing, conv))
}

/// Weights `[M, C, KH, KW]` as `[M, C * KH * KW, 1, 1]`.
fn flat(constant: &Constant) -> Result<Constant> {
    let shape = constant.tensor.shape();
    let flat = [shape[0], shape[1..].iter().product(), 1, 1];
    Ok(constant.tensor.reshape(&flat)?.into())
}

/// Multiplications with elements that are there.
fn products(graph: &Graph, node: &Node, packing: &Packing, window: &Window) -> u64 {
    let out = &graph[node.output].shape;
    let along = |axis: usize| {
        let taps = |at| window.taps(axis, at, packing.shape[axis + 2]).len() as u64;
        (0..out[axis + 2]).map(taps).sum::<u64>()
    };
    let channels = (packing.shape[0] * packing.shape[1] * out[1]) as u64;
    channels * along(0) * along(1)
}
