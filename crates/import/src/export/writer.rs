//! Collects the parts of a model.

use crate::dtype;
use crate::export::ExportOptions;
use crate::names::Names;
use crate::ops;
use crate::packed::pack;
use crate::proto::{
    AttributeProto, DimensionProto, GraphProto, ModelProto, NodeProto, OpsetProto, ShapeProto,
    TensorProto, TensorTypeProto, TypeProto, ValueProto, attribute_kind as kind,
};
use bytes::Bytes;
use quincunx_diag::Result;
use quincunx_graph::{Graph, Value, ValueId};
use quincunx_tensor::Tensor;
use std::collections::{BTreeMap, BTreeSet};

/// The lowest opset that is written.
const BASE_OPSET: i64 = 13;

/// The state of one export.
pub(crate) struct Writer<'g> {
    pub(crate) graph: &'g Graph,
    pub(crate) options: &'g ExportOptions,
    names: Names,
    node_names: Names,
    /// Name in the file of every value.
    values: Vec<String>,
    nodes: Vec<NodeProto>,
    initialisers: Vec<TensorProto>,
    opset: i64,
    /// Domains beside the standard one that nodes are of.
    domains: BTreeSet<String>,
}

impl<'g> Writer<'g> {
    pub(crate) fn new(graph: &'g Graph, options: &'g ExportOptions) -> Self {
        let mut names = Names::default();
        let mut node_names = Names::default();
        names.reserve(""); // Means an absent operand.
        names.reserve_all(graph.values().map(|(_, value)| value.name.as_str()));
        node_names.reserve_all(graph.nodes().map(|(_, node)| node.name.as_str()));
        let name = |value: &Value, names: &mut Names| match value.name.as_str() {
            "" => names.fresh("value"),
            name => name.to_owned(),
        };
        let values = graph.values().map(|(_, value)| name(value, &mut names)).collect();
        Writer {
            graph,
            options,
            names,
            node_names,
            values,
            nodes: Vec::new(),
            initialisers: Vec::new(),
            opset: BASE_OPSET,
            domains: BTreeSet::new(),
        }
    }

    pub(crate) fn write(mut self) -> Result<ModelProto> {
        for (_, value) in self.graph.values() {
            self.need_opset(dtype::first_opset(value.dtype));
        }
        self.write_constants()?;
        for (_, node) in self.graph.nodes() {
            self.write_node(node).map_err(|problem| problem.at(self.graph.place(node)))?;
        }
        let outputs = self.outputs();
        let graph = self.graph;
        let inputs = graph.inputs().iter().map(|&id| {
            let dims = graph[id].shape.iter().zip(&graph[id].symbols);
            self.value_info(id, dims.map(|(&e, s)| dimension(e, s.clone())).collect())
        });
        let graph = GraphProto {
            name: Some(if graph.name.is_empty() { "graph".to_owned() } else { graph.name.clone() }),
            input: inputs.collect(),
            output: outputs,
            node: self.nodes,
            initializer: self.initialisers,
            ..GraphProto::default()
        };
        let opset = |domain: &str, version| OpsetProto {
            domain: Some(domain.to_owned()),
            version: Some(version),
        };
        let mut opsets = vec![opset(ops::STANDARD, self.opset)];
        opsets.extend(self.domains.iter().map(|domain| opset(domain, 1)));
        Ok(ModelProto {
            ir_version: Some(ir_version(self.opset)),
            producer_name: Some("quincunx".to_owned()),
            graph: Some(graph),
            opset_import: opsets,
        })
    }

    fn write_constants(&mut self) -> Result<()> {
        let mut read: BTreeSet<ValueId> = self.graph.outputs().iter().copied().collect();
        self.graph.nodes().for_each(|(_, node)| read.extend(node.operands()));
        for (id, value) in self.graph.values() {
            match &value.constant {
                Some(constant) if read.contains(&id) => match &constant.quantiser {
                    None => self.initialiser(self.name(id).to_owned(), &constant.tensor),
                    Some(quantiser) => self.write_codes(id, &constant.tensor, quantiser)?,
                },
                _ => {}
            }
        }
        Ok(())
    }

    /// Name of a value in the file.
    pub(crate) fn name(&self, id: ValueId) -> &str {
        &self.values[id.index()]
    }

    /// Raises the opset to one that has a feature.
    pub(crate) fn need_opset(&mut self, version: i64) {
        self.opset = self.opset.max(version);
    }

    /// A value name that is free.
    pub(crate) fn fresh(&mut self, base: &str) -> String {
        self.names.fresh(base)
    }

    /// Adds a tensor.
    pub(crate) fn initialiser(&mut self, name: String, tensor: &Tensor) {
        self.initialisers.push(TensorProto {
            dims: extents(tensor.shape()),
            data_type: Some(dtype::to_onnx(tensor.dtype())),
            name: Some(name),
            raw_data: Some(pack(tensor.dtype(), tensor.bytes())),
            ..TensorProto::default()
        });
    }

    /// Adds a tensor under a free name.
    pub(crate) fn fresh_initialiser(&mut self, base: &str, tensor: &Tensor) -> String {
        let name = self.fresh(base);
        self.initialiser(name.clone(), tensor);
        name
    }

    /// Adds a node that has no counterpart in the graph.
    pub(crate) fn fresh_node(&mut self, base: &str, node: NodeProto) {
        let name = self.node_names.fresh(base);
        self.node(&name, node);
    }

    /// Adds a node.
    pub(crate) fn node(&mut self, name: &str, node: NodeProto) {
        self.domains.extend(node.domain.clone());
        self.nodes.push(NodeProto { name: Some(name.to_owned()), ..node });
    }

    /// Declares the outputs. A value that is declared again gets an `Identity`, since names of
    /// outputs must be unique.
    fn outputs(&mut self) -> Vec<ValueProto> {
        let symbols = output_symbols(self.graph);
        let mut seen = BTreeSet::new();
        let mut outputs = Vec::new();
        for (&id, dims) in self.graph.outputs().iter().zip(symbols) {
            let mut info = self.value_info(id, dims);
            if !seen.insert(id) {
                let source = self.name(id).to_owned();
                let name = self.fresh(&source);
                self.fresh_node(&name, operation("Identity", &[&source], &name, Vec::new()));
                info.name = Some(name);
            }
            outputs.push(info);
        }
        outputs
    }

    fn value_info(&self, id: ValueId, dim: Vec<DimensionProto>) -> ValueProto {
        let tensor = TensorTypeProto {
            elem_type: Some(dtype::to_onnx(self.graph[id].dtype)),
            shape: Some(ShapeProto { dim }),
        };
        ValueProto {
            name: Some(self.name(id).to_owned()),
            r#type: Some(TypeProto { tensor: Some(tensor) }),
        }
    }
}

/// The IR version that came with an opset.
fn ir_version(opset: i64) -> i64 {
    match opset {
        ..=14 => 7,
        15..=18 => 8,
        19..=20 => 9,
        21..=22 => 10,
        23 => 11,
        24 => 12,
        _ => 13,
    }
}

fn dimension(extent: usize, symbol: Option<String>) -> DimensionProto {
    match symbol {
        Some(symbol) => DimensionProto { dim_param: Some(symbol), dim_value: None },
        None => DimensionProto { dim_value: i64::try_from(extent).ok(), dim_param: None },
    }
}

/// The extents of every output. An extent that always equals a symbol is that symbol; one that
/// depends on symbols in another way is left open.
fn output_symbols(graph: &Graph) -> Vec<Vec<DimensionProto>> {
    let shapes = |graph: &Graph| -> Vec<Vec<usize>> {
        graph.outputs().iter().map(|&id| graph[id].shape.to_vec()).collect()
    };
    let now = shapes(graph);
    let mut dims: Vec<Vec<DimensionProto>> =
        now.iter().map(|shape| shape.iter().map(|&e| dimension(e, None)).collect()).collect();
    for (symbol, extent) in symbols(graph) {
        // How outputs follow the symbol is seen by binding it to two other extents.
        let tried = [1, 2].map(|more| extent.saturating_add(more));
        let [Ok(first), Ok(second)] = tried.map(|extent| graph.rebind(symbol, extent)) else {
            continue;
        };
        let (first, second) = (shapes(&first), shapes(&second));
        for (output, shape) in now.iter().enumerate() {
            for (axis, &extent_now) in shape.iter().enumerate() {
                let seen = [extent_now, first[output][axis], second[output][axis]];
                if seen == [extent, tried[0], tried[1]] {
                    dims[output][axis] = dimension(0, Some(symbol.to_owned()));
                } else if seen[0] != seen[1] || seen[0] != seen[2] {
                    dims[output][axis] = DimensionProto::default();
                }
            }
        }
    }
    dims
}

/// Every symbol with its extent.
fn symbols(graph: &Graph) -> BTreeMap<&str, usize> {
    let inputs = graph.inputs().iter().map(|&id| &graph[id]);
    inputs
        .flat_map(|value| value.symbols.iter().zip(&value.shape))
        .filter_map(|(symbol, &extent)| Some((symbol.as_deref()?, extent)))
        .collect()
}

/// A shape as ONNX stores it.
pub(crate) fn extents(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|&extent| i64::try_from(extent).unwrap_or(i64::MAX)).collect()
}

/// A standard node without a name.
pub(crate) fn operation(
    operator: &str,
    inputs: &[&str],
    output: &str,
    attribute: Vec<AttributeProto>,
) -> NodeProto {
    NodeProto {
        input: inputs.iter().map(|&input| input.to_owned()).collect(),
        output: vec![output.to_owned()],
        op_type: Some(operator.to_owned()),
        attribute,
        ..NodeProto::default()
    }
}

/// An integer attribute.
pub(crate) fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto { i: Some(value), ..attribute(name, kind::INT) }
}

/// A number attribute.
pub(crate) fn float(name: &str, value: f32) -> AttributeProto {
    AttributeProto { f: Some(value), ..attribute(name, kind::FLOAT) }
}

/// A text attribute.
pub(crate) fn text(name: &str, value: &'static str) -> AttributeProto {
    let s = Some(Bytes::from_static(value.as_bytes()));
    AttributeProto { s, ..attribute(name, kind::STRING) }
}

/// A list attribute.
pub(crate) fn ints(name: &str, values: impl IntoIterator<Item = usize>) -> AttributeProto {
    let values: Vec<usize> = values.into_iter().collect();
    AttributeProto { ints: extents(&values), ..attribute(name, kind::INTS) }
}

fn attribute(name: &str, kind: i32) -> AttributeProto {
    AttributeProto { name: Some(name.to_owned()), kind: Some(kind), ..AttributeProto::default() }
}
