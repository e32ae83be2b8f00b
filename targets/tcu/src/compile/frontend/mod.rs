//! Graph to layers.
//!
//! A layer begins with a product, with the loading of a tensor or with the gathering of channels,
//! and continues through pointwise operations and poolings as long as one follows the other.
//! Operators that rename, pad, cut or repeat positions compute nothing: their readers read the
//! positions through a map. Channels that are joined or divided where vectors begin are not moved
//! either: producers save into the blocks of the joined tensor.

mod chain;
mod channels;
mod constants;
mod curves;
mod dims;
mod free;
mod lookup;
mod means;
mod moves;
mod parts;
mod pointwise;
mod product;
mod reduce;
mod rows;
mod support;
#[cfg(test)]
mod tests;
mod windows;

use super::builder::{Builder, ConstantUse, Fate};
use super::hir::{Binding, ConstId, Layer, Network, Observed, Order, Plane, VarId};
use crate::arch::TcuArch;
use constants::{clipped, encode_all};
use dims::{Dims, Held};
use free::Free;
pub use means::MeanStep;
use quincunx_contract::Clipped;
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Graph, Node, NodeId, Op, ValueId};
use reduce::reduces_channels;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
pub(crate) use support::refusal;

/// Which freedom the numbers leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Freedom {
    /// Every number equals that of upstream's compiler.
    #[default]
    Compat,
    /// Sums run in the order that is fastest, and batch normalisations become part of the product
    /// before them.
    Free,
}

/// What layers are made of a graph where numbers are free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// Products, normalisations and rows are joined; joined channels stay in parts where that takes
    /// fewer products.
    #[default]
    Joined,
    /// The same, and all joined channels stay in parts.
    InParts,
    /// Layers like those of [`Freedom::Compat`], with batch normalisations in their products and sums
    /// in any order.
    Plain,
    /// Layers and sums of [`Freedom::Compat`], but for means.
    Ordered,
}

/// What the frontend may choose.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choices {
    /// Freedom of the numbers.
    pub freedom: Freedom,
    /// Layers, where numbers are free.
    pub shape: Shape,
    /// The largest error of functions as polynomials, where there may be such.
    pub approximate: Option<f64>,
}

impl Choices {
    /// The first choices for a freedom.
    pub fn of(freedom: Freedom) -> Choices {
        Choices { freedom, ..Choices::default() }
    }

    /// Layers may be others than those of [`Freedom::Compat`].
    fn joins(self) -> bool {
        let joined = matches!(self.shape, Shape::Joined | Shape::InParts);
        self.freedom == Freedom::Free && joined
    }

    /// Sums have the order of [`Freedom::Compat`].
    fn keeps_order(self) -> bool {
        self.freedom == Freedom::Compat || self.shape == Shape::Ordered
    }
}

/// What was chosen for the numbers of a product; what is absent needed no choice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProductNumbers {
    /// Order of the taps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taps: Option<Vec<u32>>,
    /// Blocks of input channels that are summed before the next tap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<u32>,
    /// Tap and block whose product starts with the bias.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bias: Option<[u32; 2]>,
    /// Positions that the rows of a matrix are divided into: row `k` of a Gemm or MatMul belongs
    /// to tap `k % positions` and channel `k / positions`. The operand was a tensor of so many
    /// positions that is flattened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positions: Option<u32>,
    /// First channel and number of channels of every input plane, where they are not all full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planes: Option<Vec<[u32; 2]>>,
    /// The batch normalisation that is part of weights and bias.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_norm: Option<String>,
    /// The batch normalisation whose offset, divided by its scale, is part of the bias.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<String>,
    /// The batch normalisation before a ReLU that is part of weights and bias.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Elements of an input row that are a block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<u32>,
    /// The product that is summed along.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<String>,
    /// The input is packed: row `c * taps + tap` of the weights is one of blocks of whole vectors.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub packed: bool,
}

/// What a node takes from tables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LookupNumbers {
    /// Names of the tables, in the order of use.
    pub tables: Vec<String>,
    /// The largest distance from the function.
    pub max_error: f64,
}

/// A function as an odd polynomial, in scalars of the machine: of `z`, which is the operand within
/// `reach` and its negative, times `scale`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CurveNumbers {
    /// Largest magnitude of the operand.
    pub reach: i32,
    /// Factor of the operand.
    pub scale: i32,
    /// Coefficients of `z`, of its third power and so on.
    pub coefficients: Vec<i32>,
    /// What is added.
    pub middle: i32,
    /// Least and largest result.
    pub limits: [i32; 2],
    /// The result is multiplied by the operand.
    pub times: bool,
    /// The largest distance from the function.
    pub max_error: f64,
}

/// The layers of a graph.
#[derive(Clone, Debug, Default)]
pub struct Lowered {
    /// The layers.
    pub network: Network,
    /// Choices by name of the product's node.
    pub numbers: BTreeMap<String, ProductNumbers>,
    /// What is computed with tables, by name of the node.
    pub lookups: BTreeMap<String, LookupNumbers>,
    /// Means that are computed in steps, by name of the node.
    pub means: BTreeMap<String, Vec<MeanStep>>,
    /// Leaky ReLUs that are sums, by name of the node.
    pub leaky_sums: BTreeSet<String>,
    /// What is computed as polynomials, by name of the node.
    pub curves: BTreeMap<String, CurveNumbers>,
    /// What became of the graph's constants; in the order of use.
    pub constants: Vec<ConstantUse>,
    /// Constants with numbers that the machine's type does not hold.
    pub clipped: Vec<Clipped>,
    /// Other layers of which the program may be faster.
    pub others: Vec<Shape>,
}

/// The layers of a graph all of whose nodes are claimed.
///
/// # Errors
/// `Q3095` for a node that is not for the machine, with the reason.
pub fn network(graph: &Graph, arch: &TcuArch, choices: &Choices) -> Result<Lowered> {
    for (_, node) in graph.nodes() {
        if let Some(reason) = refusal(graph, arch, choices.approximate, node) {
            let message = format!("the machine does not take this node: {reason}");
            return Err(Diagnostic::unsupported("Q3095", message).at(graph.place(node)));
        }
    }
    let mut frontend = Frontend::new(graph, arch, *choices);
    frontend.bind_inputs()?;
    for (id, node) in graph.nodes() {
        if !frontend.done[id.index()] {
            frontend.lower(id, node).map_err(|problem| problem.at(graph.place(node)))?;
        }
    }
    frontend.bind_outputs()?;
    let others = frontend.other_shapes();
    let Frontend { builder, numbers, lookups, curves, means, leaky_sums, clipped, .. } = frontend;
    let (network, constants) = builder.into_parts();
    Ok(Lowered { network, numbers, lookups, curves, means, leaky_sums, constants, clipped, others })
}

/// The place that a value is saved to: blocks of the tensor that holds the value `root`.
#[derive(Clone, Copy, Debug)]
struct Slot {
    root: ValueId,
    first: u32,
}

/// The work in progress.
struct Frontend<'a> {
    graph: &'a Graph,
    arch: &'a TcuArch,
    choices: Choices,
    lanes: usize,
    consumers: Vec<Vec<NodeId>>,
    is_output: Vec<bool>,
    builder: Builder,
    /// Joining nodes whose operands stay where they are.
    in_parts: Vec<bool>,
    /// Where values go, by value.
    slots: Vec<Option<Slot>>,
    /// The tensors of values that are roots.
    roots: Vec<Option<VarId>>,
    /// Where values are, by value.
    held: Vec<Option<Held>>,
    /// Nodes that are lowered.
    done: Vec<bool>,
    numbers: BTreeMap<String, ProductNumbers>,
    free: Free,
    /// Blocks with the only channel of a value in all lanes, by value.
    copies: BTreeMap<usize, Held>,
    lookups: BTreeMap<String, LookupNumbers>,
    means: BTreeMap<String, Vec<MeanStep>>,
    leaky_sums: BTreeSet<String>,
    curves: BTreeMap<String, CurveNumbers>,
    clipped: Vec<Clipped>,
}

impl<'a> Frontend<'a> {
    fn new(graph: &'a Graph, arch: &'a TcuArch, choices: Choices) -> Frontend<'a> {
        let mut is_output = vec![false; graph.values().len()];
        graph.outputs().iter().for_each(|output| is_output[output.index()] = true);
        let mut frontend = Frontend {
            graph,
            arch,
            choices,
            lanes: arch.lanes(),
            consumers: graph.consumers(),
            is_output,
            builder: Builder::new(arch),
            in_parts: Vec::new(),
            slots: Vec::new(),
            roots: vec![None; graph.values().len()],
            held: vec![None; graph.values().len()],
            done: vec![false; graph.nodes().len()],
            numbers: BTreeMap::new(),
            free: Free::new(graph, arch, choices),
            copies: BTreeMap::new(),
            lookups: BTreeMap::new(),
            means: BTreeMap::new(),
            leaky_sums: BTreeSet::new(),
            curves: BTreeMap::new(),
            clipped: Vec::new(),
        };
        frontend.in_parts =
            graph.nodes().map(|(_, node)| frontend.stays_in_parts(node, choices)).collect();
        frontend.slots = frontend.find_slots();
        frontend
    }

    /// Shapes whose layers are others than these.
    fn other_shapes(&self) -> Vec<Shape> {
        let any = !self.numbers.is_empty() || !self.leaky_sums.is_empty();
        if !self.choices.joins() || !any {
            return Vec::new();
        }
        let is_joined = |numbers: &ProductNumbers| numbers.row.is_some();
        let in_parts = |choices: Choices| -> Vec<bool> {
            let nodes = self.graph.nodes();
            nodes.map(|(_, node)| self.stays_in_parts(node, choices)).collect()
        };
        let all = in_parts(Choices { shape: Shape::InParts, ..self.choices });
        let is_plain = !self.free.is_any()
            && !self.numbers.values().any(is_joined)
            && !self.in_parts.contains(&true);
        let in_parts = (all != self.in_parts).then_some(Shape::InParts);
        let plain = (!is_plain).then_some(Shape::Plain);
        in_parts.into_iter().chain(plain).chain([Shape::Ordered]).collect()
    }

    /// Decides for every result where it is saved, from the last to the first.
    fn find_slots(&self) -> Vec<Option<Slot>> {
        let mut slots: Vec<Option<Slot>> = vec![None; self.graph.values().len()];
        for (_, node) in self.graph.nodes().rev() {
            let value = node.output;
            let own = Slot { root: value, first: 0 };
            let slot =
                if self.is_output[value.index()] { None } else { self.slot_in(value, &slots) };
            slots[value.index()] = Some(slot.unwrap_or(own));
        }
        slots
    }

    /// The place of a value in the tensor of a reader that needs no more than that.
    fn slot_in(&self, value: ValueId, slots: &[Option<Slot>]) -> Option<Slot> {
        self.consumers[value.index()].iter().find_map(|&consumer| {
            let node = &self.graph[consumer];
            let slot = slots[node.output.index()]?;
            if let Op::Concat { axis: 1 } = node.op {
                if self.in_parts[consumer.index()] {
                    return None;
                }
                let first = channels::aligned_block(self.graph, node, value, self.lanes)?;
                return Some(Slot { root: slot.root, first: slot.first + first });
            }
            let elsewhere = slot.root != node.output || self.is_output[node.output.index()];
            (elsewhere && support::renames(self.graph, node)).then_some(slot)
        })
    }

    /// The planes that a value is saved to.
    fn home(&mut self, value: ValueId) -> Result<Arc<[Plane]>> {
        let slot = self.slots[value.index()].ok_or_else(|| lost(self.graph, value))?;
        let var = self.root(slot.root);
        let blocks = Dims::of_value(self.graph, value).blocks(self.lanes) as u32;
        Ok((0..blocks).map(|block| Plane { var, block: slot.first + block }).collect())
    }

    fn root(&mut self, value: ValueId) -> VarId {
        if let Some(var) = self.roots[value.index()] {
            return var;
        }
        let order = if self.is_output[value.index()] { Order::Interleaved } else { Order::Planar };
        let var = self.add_var(value, order);
        self.roots[value.index()] = Some(var);
        var
    }

    fn add_var(&mut self, value: ValueId, order: Order) -> VarId {
        let dims = Dims::of_value(self.graph, value);
        let name = &self.graph[value].name;
        self.builder.add_var(name, dims.positions() as u32, dims.blocks(self.lanes) as u32, order)
    }

    /// All planes of a tensor.
    fn all_planes(&self, var: VarId) -> Arc<[Plane]> {
        (0..self.builder.network().vars[var.0 as usize].blocks)
            .map(|block| Plane { var, block })
            .collect()
    }

    fn bind_inputs(&mut self) -> Result<()> {
        for &value in self.graph.inputs() {
            let described = &self.graph[value];
            let dims = Dims::of(&described.shape).ok_or_else(|| {
                let shape = quincunx_tensor::show_shape(&described.shape);
                let message = format!("the input \"{}\" has the shape {shape}", described.name);
                Diagnostic::unsupported("Q3096", message)
                    .help("tensors of 1 to 2^32 elements with at least one axis are supported")
            })?;
            let var = self.add_var(value, Order::Interleaved);
            self.builder.add_input(binding(self.graph, value, var));
            let planes = self.all_planes(var);
            self.held[value.index()] = Some(Held {
                dims,
                planes,
                map: None,
                zero_padding: true,
                layer: None,
                counts: None,
            });
        }
        Ok(())
    }

    fn bind_outputs(&mut self) -> Result<()> {
        for &value in self.graph.outputs() {
            if self.graph[value].constant.is_some() {
                let message = format!("the output \"{}\" is a constant", self.graph[value].name);
                return Err(Diagnostic::unsupported("Q3097", message)
                    .help("constants need no machine; leave the output out"));
            }
            let var = match self.own_tensor(value) {
                Some(var) => var,
                None => self.copy_out(value)?,
            };
            self.builder.add_output(binding(self.graph, value, var));
        }
        Ok(())
    }

    /// The tensor that holds an output and nothing else, as outputs lie.
    fn own_tensor(&self, value: ValueId) -> Option<VarId> {
        let held = self.held[value.index()].as_ref()?;
        let var = held.planes.first()?.var;
        let blocks = Dims::of_value(self.graph, value).blocks(self.lanes);
        let in_order = held
            .planes
            .iter()
            .enumerate()
            .all(|(block, plane)| (plane.var, plane.block as usize) == (var, block));
        let tensor = &self.builder.network().vars[var.0 as usize];
        let is_input = self.builder.network().inputs.iter().any(|input| input.var == var);
        let fits = held.planes.len() == blocks && tensor.blocks as usize == blocks;
        (in_order && fits && held.map.is_none() && !is_input && tensor.order == Order::Interleaved)
            .then_some(var)
    }

    /// Copies an output into a tensor of its own.
    fn copy_out(&mut self, value: ValueId) -> Result<VarId> {
        let var = self.add_var(value, Order::Interleaved);
        let planes = self.all_planes(var);
        let layer = self.copy(value, planes.clone())?;
        self.observe(value, &planes, layer);
        Ok(var)
    }

    /// Adds a layer that copies a value.
    fn copy(&mut self, value: ValueId, to: Arc<[Plane]>) -> Result<u32> {
        let held = self.held(value)?;
        let name = format!("copy of {}", self.graph[value].name);
        let mut open = chain::Open::new(name, held.dims);
        let temp = open.load(&held);
        open.save(temp, to);
        Ok(self.close(open))
    }

    /// Gives a value that is read through a map a tensor of its own.
    fn materialise(&mut self, value: ValueId) -> Result<()> {
        let planes = self.home(value)?;
        let layer = Some(self.copy(value, planes.clone())?);
        let held = self.held(value)?;
        self.hold_view(value, Held { planes, map: None, layer, ..held })
    }

    /// Where a value is.
    fn held(&self, value: ValueId) -> Result<Held> {
        self.held[value.index()].clone().ok_or_else(|| lost(self.graph, value))
    }

    /// Adds a layer and returns its number.
    fn close(&mut self, open: chain::Open) -> u32 {
        self.builder.add_layer(open.finish())
    }

    /// Adds a value to those that can be observed.
    fn observe(&mut self, value: ValueId, planes: &Arc<[Plane]>, layer: u32) {
        self.builder.add_observed(Observed {
            name: self.graph[value].name.clone(),
            shape: self.graph[value].shape.to_vec(),
            layer,
            planes: planes.clone(),
        });
    }

    /// Scalars of numbers that `what` tells in words.
    fn encoded(&mut self, what: impl FnOnce() -> String, reals: &[f32]) -> Vec<i32> {
        self.count_clipped(what, reals);
        encode_all(self.arch.data_type, reals)
    }

    /// Notes which of these numbers the machine's type does not hold.
    fn count_clipped(&mut self, what: impl FnOnce() -> String, reals: &[f32]) {
        self.clipped.extend(clipped(self.arch.data_type, what, reals));
    }

    /// A constant in DRAM1 made of constants of the graph.
    fn add_const(
        &mut self,
        name: &str,
        [rows, channels]: [usize; 2],
        data: impl Into<Arc<[i32]>>,
        from: impl IntoIterator<Item = ValueId>,
    ) -> Result<ConstId> {
        let id = self.builder.add_const(name, rows as u32, channels as u32, data.into());
        for value in from {
            self.builder.note_constant(&self.graph[value].name, Fate::Const(id))?;
        }
        Ok(id)
    }

    /// Lowers a node that no layer before it has taken.
    fn lower(&mut self, id: NodeId, node: &'a Node) -> Result<()> {
        self.done[id.index()] = true;
        if self.free.is_first(id) {
            // The second product of the pair takes it along.
            return Ok(());
        }
        if let Some(held) = self.view(node)? {
            return self.hold_view(node.output, held);
        }
        if let Some(held) = self.in_parts(node)? {
            return self.pool_parts(node, held);
        }
        let (open, temp) = match &node.op {
            Op::MatMul if self.input_shape(node).len() > 2 => self.mix_positions(node)?,
            Op::Conv(_) | Op::ConvTranspose(_) | Op::Gemm(_) | Op::MatMul => {
                let (open, temp, last) = self.product(node)?;
                return self.follow(open, temp, last);
            }
            Op::Softmax(softmax) => self.softmax(*softmax, node)?,
            Op::Reduce(reduce) if reduces_channels(self.graph, reduce, node) => {
                match self.reduce_channels(reduce.kind, node)? {
                    Some(started) => started,
                    None => return Ok(()),
                }
            }
            _ if node.op.only_moves() => match self.move_channels(node)? {
                Some(started) => started,
                None => return Ok(()),
            },
            _ => self.start_with_load(node)?,
        };
        self.follow(open, temp, node)
    }

    /// The shape of the first operand of a node.
    fn input_shape(&self, node: &Node) -> &'a [usize] {
        node.input(0).map_or(&[], |x| &self.graph[x].shape)
    }

    /// Keeps where a result lies that needs no layer.
    fn hold_view(&mut self, value: ValueId, held: Held) -> Result<()> {
        let plain = held.map.is_none()
            && held.counts.is_none()
            && held.dims == Dims::of_value(self.graph, value);
        let moved = self.free.before(value).is_some();
        if let (true, Some(layer), false) = (plain, held.layer, moved) {
            self.observe(value, &held.planes.clone(), layer);
        }
        self.held[value.index()] = Some(held);
        Ok(())
    }
}

fn binding(graph: &Graph, value: ValueId, var: VarId) -> Binding {
    let described = &graph[value];
    Binding { name: described.name.clone(), var, shape: described.shape.to_vec() }
}

fn lost(graph: &Graph, value: ValueId) -> Diagnostic {
    Diagnostic::bug(format!("the value \"{}\" is nowhere", graph[value].name))
}

/// The name of a layer.
fn layer_name(layer: &Layer) -> String {
    layer.nodes.first().cloned().unwrap_or_default()
}
