//! Values, nodes and how graphs are built.

#![deny(clippy::wildcard_enum_match_arm)]

use crate::infer::infer;
use crate::{ConvTranspose, Op, Quantiser, Recurrent};
use quincunx_diag::{Diagnostic, Place, Result};
use quincunx_tensor::{DType, Shape, Tensor, element_count, show_shape};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::ops::Index;

/// Index of a value in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(u32);

/// Index of a node in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u32);

impl ValueId {
    /// Position among the graph's values.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl NodeId {
    /// Position among the graph's nodes, which is a topological order.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A constant: plain numbers, or integer codes with the quantiser that gives them meaning.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// The numbers or codes.
    pub tensor: Tensor,
    /// When present, `tensor` holds codes and the value's real numbers are
    /// `(code - zero) * scale`. The value's dtype is then f32.
    pub quantiser: Option<Quantiser>,
}

impl From<Tensor> for Constant {
    fn from(tensor: Tensor) -> Self {
        Constant { tensor, quantiser: None }
    }
}

/// What flows between nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Unique name.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Extents; always known.
    pub shape: Shape,
    /// The numbers, if they are known at compile time.
    pub constant: Option<Constant>,
    /// The node that computes it; `None` for inputs and constants.
    pub producer: Option<NodeId>,
    /// Names of symbolic extents, one entry per axis; the extents in `shape` are the sizes they are
    /// bound to. Only graph inputs have them: empty for every other value.
    pub symbols: Vec<Option<String>>,
}

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Unique name.
    pub name: String,
    /// What it does.
    pub op: Op,
    /// Operands; `None` for an optional operand that is absent.
    pub inputs: Vec<Option<ValueId>>,
    /// Result.
    pub output: ValueId,
}

impl Node {
    /// Operand `index`, if present.
    pub fn input(&self, index: usize) -> Option<ValueId> {
        self.inputs.get(index).copied().flatten()
    }

    /// The operands that are present.
    pub fn operands(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.inputs.iter().copied().flatten()
    }
}

/// A network.
///
/// Invariants, checked by [`Graph::verify`]:
/// * nodes are in topological order: every operand is an input, a constant or the result of an
///   earlier node;
/// * names of values are unique, names of nodes are unique;
/// * shapes and dtypes are what inference gives;
/// * quantisers satisfy their own invariants and broadcast to the value they belong to.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Name of the model.
    pub name: String,
    values: Vec<Value>,
    nodes: Vec<Node>,
    inputs: Vec<ValueId>,
    outputs: Vec<ValueId>,
    by_name: FxHashMap<String, ValueId>,
    node_names: FxHashMap<String, NodeId>,
}

/// Largest number of elements a value may have: 2^40, far above any network, far below overflow.
pub(crate) const MAX_ELEMENTS: usize = 1 << 40;

impl Graph {
    /// An empty graph.
    pub fn new(name: impl Into<String>) -> Self {
        Graph { name: name.into(), ..Graph::default() }
    }

    /// Adds an input. `symbols` names the axes whose extent may be rebound; empty for none.
    ///
    /// # Errors
    /// `Q0303` when the name is taken, `Q0304` when the shape is too large.
    pub fn add_input(
        &mut self,
        name: &str,
        dtype: DType,
        shape: &[usize],
        symbols: &[Option<String>],
    ) -> Result<ValueId> {
        let mut symbols = symbols.to_vec();
        symbols.resize(shape.len(), None);
        let id = self.add_value(Value {
            name: name.to_owned(),
            dtype,
            shape: shape.into(),
            constant: None,
            producer: None,
            symbols,
        })?;
        self.inputs.push(id);
        Ok(id)
    }

    /// Adds a constant.
    ///
    /// # Errors
    /// `Q0303` when the name is taken; `Q0302` or `Q0305` when the quantiser is invalid or does
    /// not fit the codes.
    pub fn add_constant(&mut self, name: &str, constant: impl Into<Constant>) -> Result<ValueId> {
        let constant = constant.into();
        let shape: Shape = constant.tensor.shape().into();
        let dtype = match &constant.quantiser {
            Some(quantiser) => {
                check_quantiser(quantiser, &shape, name)?;
                if !has_integer_codes(&constant.tensor) {
                    return Err(Diagnostic::invalid(
                        "Q0305",
                        format!("codes of constant \"{name}\" are not integers"),
                    ));
                }
                DType::F32
            }
            None => constant.tensor.dtype(),
        };
        self.add_value(Value {
            name: name.to_owned(),
            dtype,
            shape,
            constant: Some(constant),
            producer: None,
            symbols: Vec::new(),
        })
    }

    /// Adds a node after all others and infers its result.
    ///
    /// # Errors
    /// `Q0303` when a name is taken; `Q0306` when operands are missing or shapes and types do not
    /// fit the operator, with the node as place.
    pub fn add_node(
        &mut self,
        name: &str,
        op: Op,
        inputs: &[Option<ValueId>],
        output: &str,
    ) -> Result<ValueId> {
        if self.node_names.contains_key(name) {
            return Err(Diagnostic::invalid("Q0303", format!("two nodes are named \"{name}\"")));
        }
        let node_id = NodeId(index_u32(self.nodes.len())?);
        let (dtype, shape) = infer(self, &op, inputs).map_err(|problem| {
            problem.at(Place::Node {
                name: name.to_owned(),
                op: op.name().to_owned(),
                operands: self.describe(inputs),
            })
        })?;
        let output = self.add_value(Value {
            name: output.to_owned(),
            dtype,
            shape,
            constant: None,
            producer: Some(node_id),
            symbols: Vec::new(),
        })?;
        self.node_names.insert(name.to_owned(), node_id);
        self.nodes.push(Node { name: name.to_owned(), op, inputs: inputs.to_vec(), output });
        Ok(output)
    }

    /// Declares a value an output. A value may be declared more than once.
    pub fn add_output(&mut self, value: ValueId) {
        self.outputs.push(value);
    }

    /// Inputs in declaration order.
    pub fn inputs(&self) -> &[ValueId] {
        &self.inputs
    }

    /// Outputs in declaration order.
    pub fn outputs(&self) -> &[ValueId] {
        &self.outputs
    }

    /// All nodes in topological order.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = (NodeId, &Node)> + DoubleEndedIterator {
        self.nodes.iter().enumerate().map(|(i, node)| (NodeId(i as u32), node))
    }

    /// All values.
    pub fn values(&self) -> impl ExactSizeIterator<Item = (ValueId, &Value)> {
        self.values.iter().enumerate().map(|(i, value)| (ValueId(i as u32), value))
    }

    /// The value with this name.
    pub fn value_named(&self, name: &str) -> Option<ValueId> {
        self.by_name.get(name).copied()
    }

    /// The node with this name.
    pub fn node_named(&self, name: &str) -> Option<NodeId> {
        self.node_names.get(name).copied()
    }

    /// A name that no value has yet: `base`, or `base` with a number.
    pub fn fresh_value_name(&self, base: &str) -> String {
        fresh(base, |name| self.by_name.contains_key(name))
    }

    /// A name that no node has yet.
    pub fn fresh_node_name(&self, base: &str) -> String {
        fresh(base, |name| self.node_names.contains_key(name))
    }

    /// The nodes that read each value, in order; index by [`ValueId::index`].
    pub fn consumers(&self) -> Vec<Vec<NodeId>> {
        let mut consumers = vec![Vec::new(); self.values.len()];
        for (id, node) in self.nodes() {
            for operand in node.operands() {
                if consumers[operand.index()].last() != Some(&id) {
                    consumers[operand.index()].push(id);
                }
            }
        }
        consumers
    }

    /// Multiplications with accumulation a node needs; 0 for anything but convolutions and matrix
    /// products.
    pub fn macs(&self, node: &Node) -> u64 {
        self.cost(node).0
    }

    /// Elementary steps a node needs, to bound the time that executing it takes: its MACs, or the
    /// elements a pooling or a normalisation of neighbours reads.
    pub fn work(&self, node: &Node) -> u64 {
        let (macs, reads) = self.cost(node);
        macs.max(reads)
    }

    /// MACs, and elements read by what looks at neighbours.
    fn cost(&self, node: &Node) -> (u64, u64) {
        let product = |extents: &[usize]| {
            extents.iter().fold(1_u64, |product, &extent| product.saturating_mul(extent as u64))
        };
        let per_element = |count: u64| product(&self[node.output].shape).saturating_mul(count);
        let shape = |index: usize| node.input(index).map_or(&[][..], |id| &self[id].shape[..]);
        let (x, w) = (shape(0), shape(1));
        match &node.op {
            Op::Conv(_) => (per_element(product(w.get(1..).unwrap_or(&[0]))), 0),
            Op::ConvTranspose(conv) => (self.macs_transposed(conv, node), 0),
            Op::Gemm(gemm) => {
                let depth = x.get(usize::from(!gemm.transpose_a));
                (per_element(depth.map_or(0, |&extent| extent as u64)), 0)
            }
            Op::MatMul => (per_element(x.last().map_or(0, |&extent| extent as u64)), 0),
            Op::Recurrent(layer) => (node.input(0).map_or(0, |x| self.macs_recurrent(layer, x)), 0),
            Op::Pool(pool) => {
                let extents = product(x.get(2..).unwrap_or(&[]));
                (0, per_element(product(&pool.window.kernel).min(extents)))
            }
            Op::Lrn(lrn) => {
                let neighbours = lrn.size.min(x.get(1).copied().unwrap_or(0)) as u64;
                (0, product(x).saturating_mul(neighbours))
            }
            Op::GlobalAveragePool | Op::GlobalMaxPool | Op::Softmax(_) => (0, 0),
            Op::BatchNorm(_) | Op::LayerNorm(_) | Op::InstanceNorm(_) => (0, 0),
            Op::Unary(_) | Op::Binary(_) | Op::Activation(_) | Op::PRelu | Op::Where => (0, 0),
            Op::Compare(_) | Op::Logic(_) | Op::Reduce(_) | Op::ArgExtreme(_) => (0, 0),
            Op::Concat { .. } | Op::Slice { .. } | Op::Pad(_) | Op::Gather { .. } => (0, 0),
            Op::Expand { .. } | Op::Tile { .. } | Op::Resize(_) | Op::Identity => (0, 0),
            Op::Flatten { .. } | Op::Reshape { .. } | Op::Transpose { .. } => (0, 0),
            Op::Cast { .. } | Op::CastUnbounded { .. } => (0, 0),
            Op::Quantise(_) | Op::ToCodes(_) | Op::FromCodes(_) => (0, 0),
        }
    }

    fn macs_transposed(&self, conv: &ConvTranspose, node: &Node) -> u64 {
        let count = |index: usize| node.input(index).map_or(0, |id| elements(&self[id]));
        let taps = conv.window.kernel.iter().fold(1, |all: u64, &k| all.saturating_mul(k as u64));
        let channels = node.input(1).map_or(0, |w| self[w].shape[1] as u64);
        count(0).saturating_mul(taps).saturating_mul(channels)
    }

    fn macs_recurrent(&self, layer: &Recurrent, x: ValueId) -> u64 {
        let features = self[x].shape.last().map_or(0, |&features| features as u64);
        let hidden = layer.hidden as u64;
        let rows = hidden.saturating_mul(layer.cell.gates() as u64);
        let sequences = elements(&self[x]).checked_div(features).unwrap_or(0);
        let directions = layer.direction.reversed().len() as u64;
        rows.saturating_mul(features.saturating_add(hidden))
            .saturating_mul(sequences)
            .saturating_mul(directions)
    }

    /// Sets every symbolic extent with this name and infers all shapes again.
    ///
    /// # Errors
    /// `Q0307` when no input has the symbol; otherwise as [`Graph::add_node`].
    pub fn rebind(&self, symbol: &str, extent: usize) -> Result<Graph> {
        let mut found = false;
        let mut graph = Graph::new(self.name.clone());
        let mut map = vec![None; self.values.len()];
        for (id, value) in self.values() {
            if value.producer.is_some() {
                continue;
            }
            let mapped = match &value.constant {
                Some(constant) => graph.add_constant(&value.name, constant.clone())?,
                None => {
                    let mut shape = value.shape.clone();
                    for (axis, name) in value.symbols.iter().enumerate() {
                        if name.as_deref() == Some(symbol) {
                            shape[axis] = extent;
                            found = true;
                        }
                    }
                    graph.add_input(&value.name, value.dtype, &shape, &value.symbols)?
                }
            };
            map[id.index()] = Some(mapped);
        }
        if !found {
            return Err(Diagnostic::invalid(
                "Q0307",
                format!("no input has a symbolic extent \"{symbol}\""),
            ));
        }
        // Inputs keep their order even where constants were declared between them.
        graph.inputs = self.inputs.iter().filter_map(|id| map[id.index()]).collect();
        for node in &self.nodes {
            let inputs: Vec<_> =
                node.inputs.iter().map(|i| i.and_then(|i| map[i.index()])).collect();
            let name = &self[node.output].name;
            map[node.output.index()] =
                Some(graph.add_node(&node.name, node.op.clone(), &inputs, name)?);
        }
        graph.outputs = self.outputs.iter().filter_map(|id| map[id.index()]).collect();
        Ok(graph)
    }

    /// Takes the name from every symbolic extent with one of these names; the extents stay as they
    /// are bound.
    pub fn forget_symbols(&mut self, symbols: &BTreeSet<String>) {
        for &input in &self.inputs {
            for name in &mut self.values[input.index()].symbols {
                *name = name.take().filter(|name| !symbols.contains(name));
            }
        }
    }

    /// Types and shapes of operands, for messages.
    pub fn describe(&self, inputs: &[Option<ValueId>]) -> String {
        let describe = |input: &Option<ValueId>| match input {
            Some(id) => format!("{}{}", self[*id].dtype, show_shape(&self[*id].shape)),
            None => "absent".to_owned(),
        };
        inputs.iter().map(describe).collect::<Vec<_>>().join(", ")
    }

    /// The place of a node, for diagnostics.
    pub fn place(&self, node: &Node) -> Place {
        Place::Node {
            name: node.name.clone(),
            op: node.op.name().to_owned(),
            operands: self.describe(&node.inputs),
        }
    }

    fn add_value(&mut self, value: Value) -> Result<ValueId> {
        // Extents of 0 do not excuse the others: products of some of them must not overflow.
        let extents: Shape = value.shape.iter().map(|&extent| extent.max(1)).collect();
        if element_count(&extents).is_none_or(|count| count > MAX_ELEMENTS) {
            return Err(Diagnostic::invalid(
                "Q0304",
                format!(
                    "value \"{}\" of shape {} is too large",
                    value.name,
                    show_shape(&value.shape)
                ),
            )
            .help("shapes of up to 2^40 elements are accepted; extents of 0 count as 1"));
        }
        if self.by_name.contains_key(&value.name) {
            return Err(Diagnostic::invalid(
                "Q0303",
                format!("two values are named \"{}\"", value.name),
            ));
        }
        let id = ValueId(index_u32(self.values.len())?);
        self.by_name.insert(value.name.clone(), id);
        self.values.push(value);
        Ok(id)
    }
}

/// Number of elements; shapes in a graph do not overflow.
fn elements(value: &Value) -> u64 {
    value.shape.iter().fold(1, |all: u64, &extent| all.saturating_mul(extent as u64))
}

/// True when the elements are integers of i64.
#[expect(clippy::wildcard_enum_match_arm, reason = "the other types are integers of up to i64")]
fn has_integer_codes(tensor: &Tensor) -> bool {
    match tensor.dtype() {
        DType::F32 | DType::F64 => false,
        DType::Narrow(narrow) => !narrow.is_float(),
        // The one type that has larger numbers.
        DType::U64 => tensor.to_i64().is_some(),
        _ => true,
    }
}

/// A quantiser that broadcasts to `shape` and is sound.
pub(crate) fn check_quantiser(quantiser: &Quantiser, shape: &[usize], name: &str) -> Result<()> {
    // First, since it bounds how far the parameters can expand.
    if !quantiser.fits(shape) {
        return Err(Diagnostic::invalid(
            "Q0305",
            format!("quantiser of \"{name}\" does not broadcast to shape {}", show_shape(shape)),
        ));
    }
    quantiser.check()
}

fn index_u32(index: usize) -> Result<u32> {
    u32::try_from(index)
        .map_err(|_| Diagnostic::unsupported("Q0308", "a graph has at most 2^32 values and nodes"))
}

fn fresh(base: &str, taken: impl Fn(&str) -> bool) -> String {
    if !taken(base) {
        return base.to_owned();
    }
    (1_u64..).map(|number| format!("{base}_{number}")).find(|name| !taken(name)).unwrap_or_default()
}

impl Index<ValueId> for Graph {
    type Output = Value;

    fn index(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }
}

impl Index<NodeId> for Graph {
    type Output = Node;

    fn index(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }
}
