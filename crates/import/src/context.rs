//! What a conversion function sees of its node.

use crate::attributes::Attributes;
use crate::budget::{MAX_NODES, too_many_nodes};
use crate::ops;
use crate::proto::{GraphProto, NodeProto};
use crate::reader::{Codes, Importer, Known};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Constant, Op, Quantiser, ValueId};
use quincunx_tensor::{DType, Shape, Tensor};

/// How many `Identity` nodes are looked through for a constant.
const MAX_HOPS: usize = 64;

/// One node while it is converted.
pub(crate) struct NodeContext<'a, 'm> {
    importer: &'a mut Importer<'m>,
    node: &'m NodeProto,
    name: &'a str,
    /// Version of the node's domain.
    pub(crate) opset: i64,
    /// Attributes; each must be read.
    pub(crate) attributes: Attributes<'m>,
    /// What stands for the operand and the result while a node is converted inside of another order
    /// of axes.
    inside: Option<Inside>,
}

/// See [`NodeContext::inside`].
struct Inside {
    operand: ValueId,
    result: Option<ValueId>,
}

impl<'a, 'm> NodeContext<'a, 'm> {
    /// Starts the conversion of a node.
    ///
    /// # Errors
    /// `Q0407` when the attributes are malformed.
    pub(crate) fn new(
        importer: &'a mut Importer<'m>,
        node: &'m NodeProto,
        name: &'a str,
        domain: &str,
    ) -> Result<Self> {
        let opset = importer.opset(domain);
        let attributes = Attributes::new(&node.attribute)?;
        Ok(NodeContext { importer, node, name, opset, attributes, inside: None })
    }

    /// Converts the node as an operator of the standard domain whose first operand is `operand`.
    /// Returns the result, which is not yet that of the node.
    pub(crate) fn inside(
        &mut self,
        operand: ValueId,
        convert: fn(&mut Self) -> Result<()>,
    ) -> Result<ValueId> {
        self.inside = Some(Inside { operand, result: None });
        self.opset = self.importer.opset(ops::STANDARD);
        convert(self)?;
        let result = self.inside.take().and_then(|inside| inside.result);
        result.ok_or_else(|| Diagnostic::bug("a node without a result"))
    }

    /// The operator's name in the file.
    pub(crate) fn operator(&self) -> &'m str {
        self.node.op_type.as_deref().unwrap_or("")
    }

    /// Number of operands in the file.
    pub(crate) fn operand_count(&self) -> usize {
        self.node.input.len()
    }

    /// Number of outputs that are named.
    pub(crate) fn output_count(&self) -> usize {
        self.node.output.iter().filter(|name| !name.is_empty()).count()
    }

    /// True when operand `index` is present.
    pub(crate) fn has_operand(&self, index: usize) -> bool {
        self.input_name(index).is_some()
    }

    /// Number of outputs, named or not.
    pub(crate) fn output_slots(&self) -> usize {
        self.node.output.len()
    }

    /// True when output `index` is named and something reads it. The first one always is wanted
    /// where it is named.
    pub(crate) fn wants(&self, index: usize) -> bool {
        let name = self.node.output.get(index).map_or("", String::as_str);
        !name.is_empty() && (index == 0 || self.importer.is_used(name))
    }

    /// Notes that the meaning of the node depends on these extents of a value as they are now, so
    /// that symbols among them cannot be bound again.
    pub(crate) fn reads_extents(&mut self, value: ValueId, axes: std::ops::Range<usize>) {
        self.importer.extents_read.push((value, axes));
    }

    /// Takes room for a constant of so many elements; false when the model has used it up.
    pub(crate) fn may_store(&mut self, elements: usize) -> bool {
        self.importer.folding.take(elements as u64)
    }

    /// Operand `index` as a value of the graph.
    pub(crate) fn operand(&mut self, index: usize) -> Result<ValueId> {
        self.optional(index)?
            .ok_or_else(|| Diagnostic::invalid("Q0408", format!("operand {index} is absent")))
    }

    /// Operand `index` as a value of the graph, if present.
    pub(crate) fn optional(&mut self, index: usize) -> Result<Option<ValueId>> {
        if let (0, Some(inside)) = (index, &self.inside) {
            return Ok(Some(inside.operand));
        }
        match self.input_name(index) {
            Some(name) => self.importer.value(name).map(Some),
            None => Ok(None),
        }
    }

    /// Shape of a value.
    pub(crate) fn shape(&self, value: ValueId) -> Shape {
        self.importer.graph[value].shape.clone()
    }

    /// Element type of a value.
    pub(crate) fn dtype(&self, value: ValueId) -> DType {
        self.importer.graph[value].dtype
    }

    /// The constant behind operand `index`, if it is one. Does not bring it into the graph.
    pub(crate) fn constant(&self, index: usize) -> Option<Constant> {
        match self.importer.known.get(self.input_name(index)?)? {
            Known::Constant(constant) => Some((**constant).clone()),
            Known::Value(id) => self.constant_of(*id),
            Known::Codes(_) | Known::Lost => None,
        }
    }

    fn constant_of(&self, mut id: ValueId) -> Option<Constant> {
        let graph = &self.importer.graph;
        for _ in 0..MAX_HOPS {
            if let Some(constant) = &graph[id].constant {
                return Some(constant.clone());
            }
            let node = &graph[graph[id].producer?];
            if node.op != Op::Identity {
                return None;
            }
            id = node.input(0)?;
        }
        None
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
            .help("fold constants first, for example with onnxsim or onnxruntime's optimiser")),
        }
    }

    /// As [`NodeContext::parameter`], for an operand that may be absent.
    pub(crate) fn optional_parameter(&self, index: usize, what: &str) -> Result<Option<Tensor>> {
        self.input_name(index).map(|_| self.parameter(index, what)).transpose()
    }

    /// If operand `index` is the result of a `QuantizeLinear`: its operand and quantiser, and
    /// whether the operand lies on the quantiser's grid already.
    pub(crate) fn codes(&self, index: usize) -> Option<(ValueId, Quantiser, bool)> {
        match self.importer.known.get(self.input_name(index)?)? {
            Known::Codes(codes) => Some((codes.source, codes.quantiser.clone(), codes.on_grid)),
            Known::Value(id) => {
                let node = &self.importer.graph[self.importer.graph[*id].producer?];
                match &node.op {
                    Op::ToCodes(quantiser) => Some((node.input(0)?, quantiser.clone(), false)),
                    _ => None,
                }
            }
            Known::Constant(_) | Known::Lost => None,
        }
    }

    /// Adds the node's operation with its name and output name.
    pub(crate) fn emit(&mut self, op: Op, inputs: &[Option<ValueId>]) -> Result<()> {
        if self.inside.is_some() {
            let result = Some(self.emit_before(op, inputs)?);
            self.inside.iter_mut().for_each(|inside| inside.result = result);
            return Ok(());
        }
        let output = self.output();
        let name = self.importer.graph_name(output);
        let id = self.importer.graph.add_node(self.name, op, inputs, &name)?;
        self.importer.known.insert(output, Known::Value(id));
        Ok(())
    }

    /// Adds an operation that gives output `index`, if that is named. The value is returned even
    /// when it is not.
    pub(crate) fn emit_output(
        &mut self,
        index: usize,
        op: Op,
        inputs: &[Option<ValueId>],
    ) -> Result<ValueId> {
        let output = self.node.output.get(index).map_or("", String::as_str);
        if output.is_empty() {
            return self.emit_before(op, inputs);
        }
        // Only one node can have the name; it is the one for the first output that is named.
        let name = match self.output() == output {
            true => self.name.to_owned(),
            false => self.importer.node_names.fresh(self.name),
        };
        let value = self.importer.graph_name(output);
        let id = self.importer.graph.add_node(&name, op, inputs, &value)?;
        self.importer.known.insert(output, Known::Value(id));
        Ok(id)
    }

    /// Adds an operation before the node's own one.
    pub(crate) fn emit_before(&mut self, op: Op, inputs: &[Option<ValueId>]) -> Result<ValueId> {
        // One node of the file may become many.
        if self.importer.graph.nodes().len() as u64 >= MAX_NODES {
            return Err(too_many_nodes());
        }
        let node = self.importer.node_names.fresh(self.name);
        let output = self.importer.value_names.fresh(self.output());
        self.importer.graph.add_node(&node, op, inputs, &output)
    }

    /// Adds the nodes of a subgraph, see [`Importer::enter`].
    pub(crate) fn enter(&mut self, graph: &'m GraphProto) -> Vec<Known> {
        self.importer.enter(graph)
    }

    /// Makes output `index` what is known of another name.
    pub(crate) fn define_output(&mut self, index: usize, known: Known) -> Result<()> {
        let output = self.node.output.get(index).map_or("", String::as_str);
        match known {
            Known::Value(id) => self.emit_output(index, Op::Identity, &[Some(id)]).map(drop),
            known => {
                if !output.is_empty() {
                    self.importer.known.insert(output, known);
                }
                Ok(())
            }
        }
    }

    /// Adds a constant that has no counterpart in the file.
    pub(crate) fn constant_before(&mut self, constant: impl Into<Constant>) -> Result<ValueId> {
        let name = self.importer.value_names.fresh(self.output());
        self.importer.graph.add_constant(&name, constant)
    }

    /// Makes the node's output a constant.
    pub(crate) fn define(&mut self, constant: impl Into<Constant>) {
        let output = self.output();
        self.importer.known.insert(output, Known::Constant(Box::new(constant.into())));
    }

    /// Makes the node's output the codes of `source`.
    pub(crate) fn define_codes(&mut self, source: ValueId, quantiser: Quantiser) {
        let codes = Codes { source, quantiser, node: self.name.to_owned(), on_grid: false };
        let output = self.output();
        self.importer.known.insert(output, Known::Codes(Box::new(codes)));
    }

    /// An error of class `Unsupported` about this operator.
    pub(crate) fn unsupported(&self, what: impl std::fmt::Display) -> Diagnostic {
        Diagnostic::unsupported(ops::FEATURE, format!("{}: {what}", self.operator()))
    }

    fn input_name(&self, index: usize) -> Option<&'m str> {
        self.node.input.get(index).map(String::as_str).filter(|name| !name.is_empty())
    }

    fn output(&self) -> &'m str {
        self.node.output.iter().map(String::as_str).find(|name| !name.is_empty()).unwrap_or("")
    }
}
