//! What a conversion function sees of its node.

use super::attributes::{Attributes, malformed};
use super::layout::{NCHW, Order, between, is_plain, plain, shape_of};
use super::reader::{Importer, Known, Stored};
use super::tensor::{permuted, read_tensor};
use super::wires::Port;
use crate::budget::{MAX_NODES, too_many_nodes};
use crate::tensor::MAX_RANK;
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Constant, Op, Param, Quantiser, ValueId};
use quincunx_tensor::{DType, Shape, Tensor, show_shape};

/// Longest name of a node, in bytes, that its further results carry too: there may be many.
const MAX_NAME: usize = 256;

/// One node while it is converted.
pub(crate) struct Node<'a, 'm> {
    importer: &'a mut Importer<'m>,
    index: usize,
    /// Its attributes.
    pub(crate) attributes: Attributes<'m>,
}

impl<'a, 'm> Node<'a, 'm> {
    pub(crate) fn new(importer: &'a mut Importer<'m>, index: usize) -> Self {
        let attributes = Attributes(&importer.wires.nodes[index]);
        Node { importer, index, attributes }
    }

    /// The operator's name in the file.
    pub(crate) fn operator(&self) -> &'m str {
        &self.importer.wires.nodes[self.index].op
    }

    /// Number of operands.
    pub(crate) fn operand_count(&self) -> usize {
        self.importer.wires.inputs(self.index).len()
    }

    /// The node whose first result operand `index` is.
    pub(crate) fn source(&mut self, index: usize) -> Option<Node<'_, 'm>> {
        let port = self.importer.wires.input(self.index, index)?;
        (port.slot == 0).then(|| Node::new(self.importer, port.node))
    }

    /// True when nothing else reads operand `index`.
    pub(crate) fn reads_alone(&self, index: usize) -> bool {
        let port = self.importer.wires.input(self.index, index);
        port.is_some_and(|port| self.importer.wires.is_read_once(port))
    }

    /// The constant that a value of the graph is.
    pub(crate) fn graph_constant(&self, id: ValueId) -> Option<Constant> {
        self.importer.graph[id].constant.clone()
    }

    /// Operand `index` as it is stored; constants are brought into the graph.
    pub(crate) fn stored(&mut self, index: usize) -> Result<Stored> {
        let port = self.port(index)?;
        self.importer.stored(port)
    }

    /// Shape of operand `index` in the file.
    pub(crate) fn shape(&self, index: usize) -> Result<Shape> {
        match self.importer.known.get(&self.port(index)?) {
            Some(Known::Value(stored)) => Ok(self.extents(stored)),
            Some(Known::Constant(constant)) => Ok(constant.tensor.shape().into()),
            Some(Known::Lost) | None => {
                Err(Diagnostic::bug("an operand is read before it is known"))
            }
        }
    }

    /// Shape of a stored value in the file.
    pub(crate) fn extents(&self, stored: &Stored) -> Shape {
        shape_of(&self.importer.graph[stored.id].shape, &stored.order)
    }

    /// Shape of a value of the graph.
    pub(crate) fn stored_shape(&self, id: ValueId) -> Shape {
        self.importer.graph[id].shape.clone()
    }

    /// Element type of a value.
    pub(crate) fn dtype(&self, id: ValueId) -> DType {
        self.importer.graph[id].dtype
    }

    /// The operation that computes a value, with its operands.
    pub(crate) fn producer(&self, id: ValueId) -> Option<(Op, Vec<Option<ValueId>>)> {
        let graph = &self.importer.graph;
        let node = &graph[graph[id].producer?];
        Some((node.op.clone(), node.inputs.clone()))
    }

    /// Operand `index` in the order of the file.
    pub(crate) fn plain(&mut self, index: usize) -> Result<ValueId> {
        let port = self.port(index)?;
        self.importer.plain(port)
    }

    /// Operand `index` stored in this order of axes.
    pub(crate) fn ordered(&mut self, index: usize, order: &[usize]) -> Result<ValueId> {
        let rank = self.shape(index)?.len();
        if rank != order.len() {
            return Err(malformed(format!(
                "operand {index} has {rank} axes, expected {}",
                order.len()
            )));
        }
        let port = self.port(index)?;
        self.importer.ordered(port, order)
    }

    /// A stored value in another order of axes.
    pub(crate) fn view(&mut self, stored: &Stored, order: &[usize]) -> Result<ValueId> {
        self.importer.view(stored, order)
    }

    /// The constant that operand `index` is, in the order of the file.
    pub(crate) fn constant(&self, index: usize) -> Option<Constant> {
        match self.importer.known.get(&self.port(index).ok()?)? {
            Known::Constant(constant) => Some((**constant).clone()),
            Known::Value(_) | Known::Lost => None,
        }
    }

    /// A parameter: operand `index` as plain numbers known now.
    ///
    /// # Errors
    /// `Q0416` when the operand is computed.
    pub(crate) fn parameter(&self, index: usize, what: &str) -> Result<Tensor> {
        match self.constant(index) {
            Some(Constant { tensor, quantiser: None }) => Ok(tensor),
            _ => Err(Diagnostic::unsupported(
                "Q0416",
                format!("{what} is computed by the model, expected a constant"),
            )
            .help("give the shapes of the inputs and freeze the model with constants folded")),
        }
    }

    /// A parameter that is a list of integers, or one; at most two per axis.
    pub(crate) fn integers(&self, index: usize, what: &str) -> Result<Vec<i64>> {
        self.long_list(index, what, 2 * MAX_RANK)
    }

    /// As [`Node::integers`], with at most so many entries. Messages must not show long lists: the
    /// same one may be wrong in many nodes.
    pub(crate) fn long_list(&self, index: usize, what: &str, most: usize) -> Result<Vec<i64>> {
        let tensor = self.parameter(index, what)?;
        let found = |tensor: &Tensor| {
            let shape = show_shape(tensor.shape());
            let dtype = tensor.dtype();
            malformed(format!(
                "{what} is {dtype}{shape}, expected a list of at most {most} integers"
            ))
        };
        if tensor.shape().len() > 2 || tensor.len() > most {
            return Err(found(&tensor));
        }
        tensor.to_i64().ok_or_else(|| found(&tensor))
    }

    /// A parameter that is one integer.
    pub(crate) fn integer(&self, index: usize, what: &str) -> Result<i64> {
        match self.integers(index, what)?[..] {
            [value] => Ok(value),
            ref list => Err(malformed(format!("{what} has {} entries, expected 1", list.len()))),
        }
    }

    /// A parameter that is a shape.
    pub(crate) fn target_shape(&self, index: usize, what: &str) -> Result<Vec<usize>> {
        let list = self.integers(index, what)?;
        let extents: Option<Vec<usize>> =
            list.iter().map(|&extent| usize::try_from(extent).ok()).collect();
        match extents {
            Some(extents) if extents.len() <= MAX_RANK => Ok(extents),
            _ => Err(malformed(format!("{what} is {list:?}, expected at most 32 extents"))),
        }
    }

    /// A parameter that is one number.
    pub(crate) fn number(&self, index: usize, what: &str) -> Result<f64> {
        let tensor = self.parameter(index, what)?;
        match tensor.to_f64()[..] {
            [number] => Ok(number),
            _ => Err(malformed(format!(
                "{what} has shape {}, expected one number",
                show_shape(tensor.shape())
            ))),
        }
    }

    /// The tensor of an attribute.
    pub(crate) fn tensor_attribute(&mut self, name: &str) -> Result<Tensor> {
        let proto = self.attributes.tensor(name)?;
        let proto = proto.ok_or_else(|| malformed(format!("attribute \"{name}\" is missing")))?;
        read_tensor(proto, &mut self.importer.folding)
    }

    /// Notes that the meaning of the node depends on the extent of an axis of the file as it is
    /// now, so that a symbol there cannot be bound again.
    pub(crate) fn reads_extent(&mut self, stored: &Stored, axis: usize) {
        if let Some(position) = stored.order.iter().position(|&a| a == axis) {
            self.importer.extents_read.push((stored.id, position..position + 1));
        }
    }

    /// Takes room for a constant of so many elements.
    ///
    /// # Errors
    /// `Q0402` when the model has used it up.
    pub(crate) fn store(&mut self, elements: usize) -> Result<()> {
        self.importer.store(elements)
    }

    /// Adds the operation that gives the first result, in the order of the file.
    pub(crate) fn emit(&mut self, op: Op, inputs: &[ValueId]) -> Result<()> {
        let id = self.emit_value(0, op, inputs, None)?;
        let order = plain(self.stored_shape(id).len());
        self.result(0, Stored { id, order });
        Ok(())
    }

    /// Adds the operation that gives the first result, stored in this order.
    pub(crate) fn emit_ordered(&mut self, op: Op, inputs: &[ValueId], order: Order) -> Result<()> {
        self.emit_slot(0, op, inputs, order)
    }

    /// Adds the operation that gives a result, stored in this order.
    pub(crate) fn emit_slot(
        &mut self,
        slot: usize,
        op: Op,
        inputs: &[ValueId],
        order: Order,
    ) -> Result<()> {
        let id = self.emit_value(slot, op, inputs, Some(&order))?;
        if self.stored_shape(id).len() != order.len() {
            return Err(Diagnostic::bug("an order of axes has another rank than its value"));
        }
        self.result(slot, Stored { id, order });
        Ok(())
    }

    /// Adds an operation before the node's own one.
    pub(crate) fn before(&mut self, op: Op, inputs: &[ValueId]) -> Result<ValueId> {
        let name = &self.importer.wires.nodes[self.index].name;
        self.importer.insert(name, op, inputs)
    }

    /// Adds a constant that has no counterpart in the file.
    pub(crate) fn add_constant(&mut self, constant: impl Into<Constant>) -> Result<ValueId> {
        let base = format!("{}/constant", self.importer.wires.nodes[self.index].name);
        let name = self.importer.value_names.fresh(&base);
        self.importer.graph.add_constant(&name, constant)
    }

    /// Makes a result a value that is there already.
    pub(crate) fn result(&mut self, slot: usize, stored: Stored) {
        let port = Port { node: self.index, slot };
        self.importer.known.insert(port, Known::Value(stored));
    }

    /// Makes a result the same as operand `index`.
    pub(crate) fn alias(&mut self, slot: usize, index: usize) -> Result<()> {
        let known = self.importer.known.get(&self.port(index)?).cloned();
        let known =
            known.ok_or_else(|| Diagnostic::bug("an operand is read before it is known"))?;
        self.importer.known.insert(Port { node: self.index, slot }, known);
        Ok(())
    }

    /// Makes the first result a constant in the order of the file.
    pub(crate) fn define(&mut self, constant: impl Into<Constant>) {
        let port = Port { node: self.index, slot: 0 };
        self.importer.known.insert(port, Known::Constant(Box::new(constant.into())));
    }

    /// An error of class `Unsupported` about this operator.
    pub(crate) fn unsupported(&self, what: impl std::fmt::Display) -> Diagnostic {
        Diagnostic::unsupported("Q0406", format!("{}: {what}", self.operator()))
    }

    fn port(&self, index: usize) -> Result<Port> {
        let port = self.importer.wires.input(self.index, index);
        port.ok_or_else(|| Diagnostic::invalid("Q0408", format!("operand {index} is absent")))
    }

    /// A value with the name of the result if it is stored as in the file.
    fn emit_value(
        &mut self,
        slot: usize,
        op: Op,
        inputs: &[ValueId],
        order: Option<&[usize]>,
    ) -> Result<ValueId> {
        let importer = &mut *self.importer;
        importer.check_size()?;
        let name = &importer.wires.nodes[self.index].name;
        let own = match slot > 0 && name.len() > MAX_NAME {
            true => importer.value_names.fresh(name),
            false => importer.wires.name(Port { node: self.index, slot }),
        };
        let output = match order {
            Some(order) if order == NCHW => importer.value_names.fresh(&format!("{own}/nchw")),
            Some(order) if !is_plain(order) => importer.value_names.fresh(&format!("{own}/stored")),
            _ if importer.graph.value_named(&own).is_some() => importer.value_names.fresh(&own),
            _ => own,
        };
        let node = &importer.wires.nodes[self.index].name;
        let node = match importer.graph.node_named(node) {
            None => node.clone(),
            Some(_) => importer.node_names.fresh(node),
        };
        let inputs: Vec<_> = inputs.iter().copied().map(Some).collect();
        importer.graph.add_node(&node, op, &inputs, &output)
    }
}

impl Importer<'_> {
    /// A result as it is stored; constants are brought into the graph.
    fn stored(&mut self, port: Port) -> Result<Stored> {
        match self.known.get(&port) {
            Some(Known::Value(stored)) => Ok(stored.clone()),
            Some(Known::Constant(constant)) => {
                let order = plain(constant.tensor.shape().len());
                Ok(Stored { id: self.ordered(port, &order)?, order })
            }
            Some(Known::Lost) | None => {
                Err(Diagnostic::bug("an operand is read before it is known"))
            }
        }
    }

    /// A result in the order of the file.
    pub(crate) fn plain(&mut self, port: Port) -> Result<ValueId> {
        let stored = self.stored(port)?;
        self.view(&stored, &plain(stored.order.len()))
    }

    fn ordered(&mut self, port: Port, order: &[usize]) -> Result<ValueId> {
        let Some(Known::Constant(constant)) = self.known.get(&port) else {
            let stored = self.stored(port)?;
            return self.view(&stored, order);
        };
        let key = (port, order.to_vec());
        if let Some(&id) = self.constants.get(&key) {
            return Ok(id);
        }
        let constant = (**constant).clone();
        let own = self.wires.name(port);
        let (name, constant) = if is_plain(order) && self.graph.value_named(&own).is_none() {
            (own, constant)
        } else {
            self.store(constant.tensor.len())?;
            (self.value_names.fresh(&format!("{own}/stored")), permuted_constant(&constant, order)?)
        };
        let id = self.graph.add_constant(&name, constant)?;
        self.constants.insert(key, id);
        Ok(id)
    }

    fn view(&mut self, stored: &Stored, order: &[usize]) -> Result<ValueId> {
        let moves = between(&stored.order, order);
        if is_plain(&moves) {
            return Ok(stored.id);
        }
        let key = (stored.id, moves);
        if let Some(&id) = self.views.get(&key) {
            return Ok(id);
        }
        let base = format!("{}/transpose", self.graph[stored.id].name);
        let id = self.insert(&base, Op::Transpose { order: key.1.clone() }, &[stored.id])?;
        self.views.insert(key, id);
        Ok(id)
    }

    /// Adds an operation that has no counterpart in the file.
    fn insert(&mut self, base: &str, op: Op, inputs: &[ValueId]) -> Result<ValueId> {
        self.check_size()?;
        let node = self.node_names.fresh(base);
        let output = self.value_names.fresh(base);
        let inputs: Vec<_> = inputs.iter().copied().map(Some).collect();
        self.graph.add_node(&node, op, &inputs, &output)
    }

    /// One node of the file may become many.
    fn check_size(&self) -> Result<()> {
        match self.graph.nodes().len() as u64 >= MAX_NODES {
            true => Err(too_many_nodes()),
            false => Ok(()),
        }
    }

    fn store(&mut self, elements: usize) -> Result<()> {
        if self.folding.take(elements as u64) {
            return Ok(());
        }
        Err(Diagnostic::unsupported(
            "Q0402",
            format!("a constant of {elements} elements; the model has used up the room for them"),
        ))
    }
}

/// A constant with its axes in another order.
fn permuted_constant(constant: &Constant, order: &[usize]) -> Result<Constant> {
    let quantiser =
        constant.quantiser.as_ref().map(|q| permuted_quantiser(q, order)).transpose()?;
    Ok(Constant { tensor: permuted(&constant.tensor, order)?, quantiser })
}

/// Scales and zero points that vary do so along one axis; the other parameters do not vary.
fn permuted_quantiser(quantiser: &Quantiser, order: &[usize]) -> Result<Quantiser> {
    Ok(Quantiser {
        scale: permuted_param(&quantiser.scale, order)?,
        zero: permuted_param(&quantiser.zero, order)?,
        ..quantiser.clone()
    })
}

fn permuted_param<T: Copy + PartialEq>(param: &Param<T>, order: &[usize]) -> Result<Param<T>> {
    if param.as_uniform().is_some() {
        return Ok(param.clone());
    }
    let mut shape = vec![1; order.len().saturating_sub(param.shape().len())];
    shape.extend(param.shape());
    let shape: Vec<usize> = order.iter().map(|&axis| shape[axis]).collect();
    Param::new(&shape, param.values().to_vec())
}
