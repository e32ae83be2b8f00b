//! From a decoded GraphDef to a graph.

use super::context::Node;
use super::detect::{is_graph_def, is_saved_model};
use super::dtype;
use super::finish::finish;
use super::layout::{Order, plain, shape_of};
use super::ops;
use super::proto::{GraphDef, NodeDef};
use super::wires::{Port, Wires};
use crate::budget::{Growth, check_graph_def_budget};
use crate::fold::{FoldBudget, compute, forget_symbols};
use crate::inputs::{read_inputs, with_shape_help};
use crate::model::Format;
use crate::names::Names;
use crate::options::Options;
use crate::proto::{
    DimensionProto, GraphProto, ShapeProto, TensorTypeProto, TypeProto, ValueProto,
};
use crate::reader::wrong_count;
use crate::survey::{DeclaredInput, Survey};
use bytes::Bytes;
use prost::Message;
use quincunx_diag::{Class, Diagnostic, Place, Problems, Result};
use quincunx_graph::{Constant, Graph, ValueId};
use quincunx_tensor::show_shape;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Reads a frozen TensorFlow GraphDef.
///
/// The inputs are the placeholders that the outputs need; the outputs are those that `options`
/// name (`node` or `node:1`), else every result that nothing reads. Inputs and outputs have the
/// shapes and the order of axes of the file. In between, tensors are stored with channels before
/// the spatial axes where that spares transposing them. Extents of -1 become 1 unless `options`
/// bind them; they are named `input:axis`, and the graph keeps the names.
///
/// Numbers of types half and bfloat16 are moved and converted; arithmetic in these types is refused.
///
/// # Errors
/// All problems at once: class `Unsupported` (`Q0405`, `Q0406`, `Q0412`, `Q0416`, …) for what
/// Quincunx cannot do, `Invalid` for what is not a valid model, `Usage` for options that name
/// nothing.
pub fn read_graph_def(
    bytes: Bytes,
    options: &Options,
) -> std::result::Result<Graph, Vec<Diagnostic>> {
    with_importer(bytes, options, |importer| importer.finish())
}

/// See [`crate::survey()`].
pub(crate) fn survey_graph_def(
    bytes: Bytes,
    options: &Options,
) -> std::result::Result<Survey, Vec<Diagnostic>> {
    with_importer(bytes, options, |importer| importer.survey())
}

/// What `finish` makes of the importer of a file.
fn with_importer<T>(
    bytes: Bytes,
    options: &Options,
    finish: impl FnOnce(Importer<'_>) -> std::result::Result<T, Vec<Diagnostic>>,
) -> std::result::Result<T, Vec<Diagnostic>> {
    if is_saved_model(&bytes) {
        return Err(vec![
            Diagnostic::unsupported(
                "Q0403",
                "the file is a SavedModel, whose weights are elsewhere",
            )
            .help("freeze it: convert_variables_to_constants_v2 makes a GraphDef with constants"),
        ]);
    }
    let wrong = |why: String| {
        vec![
            Diagnostic::invalid("Q0401", format!("not a TensorFlow GraphDef: {why}"))
                .help("the file is damaged or of another format"),
        ]
    };
    if !is_graph_def(&bytes) {
        return Err(wrong("its fields are different".to_owned()));
    }
    check_graph_def_budget(&bytes).map_err(|problem| vec![problem])?;
    let size = bytes.len() as u64;
    let file = GraphDef::decode(bytes).map_err(|error| wrong(error.to_string()))?;
    let mut problems = Problems::default();
    options.inputs.iter().for_each(|name| problems.push(no_cut(name)));
    let wires = Wires::new(&file.node, options, &mut problems);
    problems.warnings()?;
    let mut importer = Importer::new(&wires, FoldBudget::with(size));
    importer.run(options);
    finish(importer)
}

/// An inner value that is to become an input.
fn no_cut(name: &str) -> Diagnostic {
    let message = format!("\"{name}\" cannot become an input of a TensorFlow GraphDef");
    Diagnostic::usage("Q0419", message)
        .help("the file has no shapes of inner values; only models in ONNX can be cut there")
}

/// A value of the graph and the order of its axes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stored {
    pub(crate) id: ValueId,
    pub(crate) order: Order,
}

/// What is known about a result of a node of the file.
#[derive(Clone)]
pub(crate) enum Known {
    /// It is in the graph.
    Value(Stored),
    /// It is a constant, in the order of the file.
    Constant(Box<Constant>),
    /// The node that computes it could not be converted, which has been reported.
    Lost,
}

/// The state of one import.
pub(crate) struct Importer<'m> {
    pub(crate) graph: Graph,
    pub(crate) wires: &'m Wires<'m>,
    pub(crate) known: FxHashMap<Port, Known>,
    /// Constants in the graph by their port and order.
    pub(crate) constants: FxHashMap<(Port, Order), ValueId>,
    /// Values transposed by an order of their stored axes.
    pub(crate) views: FxHashMap<(ValueId, Order), ValueId>,
    pub(crate) value_names: Names,
    pub(crate) node_names: Names,
    /// Extents that became numbers, by stored axes.
    pub(crate) extents_read: Vec<(ValueId, Range<usize>)>,
    /// What may still be computed from constants, or copied.
    pub(crate) folding: FoldBudget,
    /// The inputs, as the file declares them.
    inputs: Vec<DeclaredInput>,
    /// Names and declared shapes of inputs whose open extents nobody bound.
    open: Vec<(String, String)>,
    listed_operators: bool,
    growth: Growth,
    problems: Problems,
}

impl<'m> Importer<'m> {
    fn new(wires: &'m Wires<'m>, folding: FoldBudget) -> Self {
        let mut value_names = Names::default();
        let mut node_names = Names::default();
        value_names.reserve_all(wires.nodes.iter().map(|node| node.name.as_str()));
        node_names.reserve_all(wires.nodes.iter().map(|node| node.name.as_str()));
        Importer { value_names, node_names, ..Importer::alone(wires, folding) }
    }

    /// An import that knows nothing yet.
    fn alone(wires: &'m Wires<'m>, folding: FoldBudget) -> Self {
        Importer {
            graph: Graph::new(""),
            wires,
            known: FxHashMap::default(),
            constants: FxHashMap::default(),
            views: FxHashMap::default(),
            value_names: Names::default(),
            node_names: Names::default(),
            extents_read: Vec::new(),
            folding,
            inputs: Vec::new(),
            open: Vec::new(),
            listed_operators: false,
            growth: Growth::default(),
            problems: Problems::default(),
        }
    }

    fn run(&mut self, options: &Options) {
        if !self.add_inputs(options) {
            return;
        }
        let order = match self.wires.order() {
            Ok(order) => order,
            Err(node) => return self.report_cycle(node),
        };
        for node in order {
            self.add_node(node);
        }
    }

    fn finish(mut self) -> std::result::Result<Graph, Vec<Diagnostic>> {
        let outputs = self.outputs();
        let problems = self.problems.warnings();
        problems.map_err(|problems| with_shape_help(problems, &self.open))?;
        forget_symbols(&mut self.graph, &self.extents_read);
        finish(&self.graph, &outputs).map_err(|problem| vec![problem])
    }

    /// What was read, and why not the rest.
    fn survey(mut self) -> std::result::Result<Survey, Vec<Diagnostic>> {
        let outputs = self.outputs();
        let is_lost = |port: &Port| {
            let first = Port { slot: 0, ..*port };
            matches!(self.known.get(port).or(self.known.get(&first)), Some(Known::Lost))
        };
        let lost = self.wires.needed().filter(|&node| is_lost(&Port { node, slot: 0 }));
        let mut unread = BTreeMap::new();
        let mut before = BTreeSet::new();
        for node in lost.filter(|&node| self.wires.nodes[node].op != "Placeholder") {
            *unread.entry(self.wires.nodes[node].op.clone()).or_default() += 1;
            let operands: Vec<Port> = self.wires.inputs(node).iter().flatten().copied().collect();
            if !operands.iter().any(is_lost) {
                let computed = operands.into_iter().filter(|&port| self.is_computed(port));
                before.extend(computed.map(|port| self.wires.name(port)));
            }
        }
        let whole = self.problems.is_empty();
        if whole {
            forget_symbols(&mut self.graph, &self.extents_read);
            self.graph = finish(&self.graph, &outputs).map_err(|problem| vec![problem])?;
        } else {
            outputs.iter().for_each(|(_, id)| self.graph.add_output(*id));
        }
        let survey = Survey {
            format: Format::GraphDef,
            opsets: Vec::new(),
            inputs: self.inputs,
            graph: self.graph,
            parameters: None,
            unread,
            problems: Vec::new(),
            outputs_before: before.into_iter().collect(),
            // Only models in ONNX can be cut there.
            inputs_after: Vec::new(),
            shape_help: None,
        };
        survey.judged(self.problems, &self.open)
    }

    /// True for a result that a node of the graph computes.
    fn is_computed(&self, port: Port) -> bool {
        match self.known.get(&port) {
            Some(Known::Value(stored)) => self.graph[stored.id].producer.is_some(),
            Some(Known::Constant(_) | Known::Lost) | None => false,
        }
    }

    /// Names and values of the outputs, in the order of axes of the file.
    fn outputs(&mut self) -> Vec<(String, ValueId)> {
        let mut outputs = Vec::new();
        if self.wires.outputs.is_empty() {
            self.report(
                Diagnostic::invalid("Q0417", "the graph computes nothing")
                    .help("every result is read by another node; name the outputs"),
            );
        }
        for &port in &self.wires.outputs {
            let name = self.wires.name(port);
            match self.known.get(&port) {
                Some(Known::Lost) => {}
                Some(_) => match self.plain(port) {
                    Ok(id) => outputs.push((name, id)),
                    Err(problem) => self.report(problem),
                },
                None if self.problems.is_empty() => self.report(Diagnostic::invalid(
                    "Q0417",
                    format!("output \"{name}\" is never computed"),
                )),
                None => {}
            }
        }
        outputs
    }

    fn report(&mut self, problem: Diagnostic) {
        self.problems.push(problem);
    }

    /// A cycle is a loop of the program; its operators say more than the cycle itself.
    fn report_cycle(&mut self, node: usize) {
        for index in self.wires.needed() {
            if ops::find(&self.wires.nodes[index].op).is_none() {
                let problem = self.unknown_operator(&self.wires.nodes[index].op);
                self.report(problem.at(self.place(index)));
            }
        }
        if self.problems.is_empty() {
            let problem = Diagnostic::invalid("Q0410", "the graph has a cycle through this node");
            self.report(problem.at(self.place(node)));
        }
    }

    /// Placeholders become inputs by the same rules as the inputs of an ONNX model.
    /// False when the options do not fit them, so that nothing else is worth telling.
    fn add_inputs(&mut self, options: &Options) -> bool {
        let wires = self.wires;
        let mut file = GraphProto::default();
        let mut nodes = FxHashMap::default();
        for index in wires.needed().filter(|&index| wires.nodes[index].op == "Placeholder") {
            self.known.insert(Port { node: index, slot: 0 }, Known::Lost);
            match declaration(&wires.nodes[index]) {
                Ok(input) => file.input.push(input),
                Err(problem) => self.report(problem.at(self.place(index))),
            }
            nodes.insert(wires.nodes[index].name.as_str(), index);
        }
        let mut problems = Vec::new();
        let inputs = read_inputs(&file, options, &mut problems);
        let usable = problems.iter().all(|problem| problem.class() != Class::Usage);
        problems.into_iter().for_each(|problem| self.report(problem));
        for input in inputs {
            self.inputs.push(input.describe());
            let port = Port { node: nodes[input.name], slot: 0 };
            if input.open {
                self.open.push((input.name.to_owned(), input.declared));
            }
            if let Some(value) = input.value {
                self.known.insert(port, Known::Constant(Box::new(value.into())));
                continue;
            }
            match self.graph.add_input(input.name, input.dtype, &input.shape, &input.symbols) {
                Ok(id) => {
                    let stored = Stored { id, order: plain(input.shape.len()) };
                    self.known.insert(port, Known::Value(stored));
                }
                Err(problem) => self.report(problem),
            }
        }
        usable
    }

    fn add_node(&mut self, index: usize) {
        if let Err(problem) = self.convert(index) {
            let problem = match problem.place() {
                Some(Place::Node { .. }) => problem,
                _ => problem.at(self.place(index)),
            };
            self.report(problem);
            self.known.entry(Port { node: index, slot: 0 }).or_insert(Known::Lost);
        }
    }

    fn convert(&mut self, index: usize) -> Result<()> {
        self.growth.check(&self.graph)?;
        let node = &self.wires.nodes[index];
        let Some(row) = ops::find(&node.op) else {
            return Err(self.unknown_operator(&node.op));
        };
        let inputs = self.wires.inputs(index);
        let (fewest, most) = row.inputs;
        if !(fewest..=most).contains(&inputs.len()) {
            return Err(wrong_count(row.name, row.inputs, inputs.len()));
        }
        if self.is_lost(index)? {
            // The cause has been reported.
            self.known.entry(Port { node: index, slot: 0 }).or_insert(Known::Lost);
            return Ok(());
        }
        row.check_types(node)?;
        if self.fold(index, row) {
            return Ok(());
        }
        (row.convert)(&mut Node::new(self, index))
    }

    /// True when an operand could not be converted.
    ///
    /// # Errors
    /// `Q0408` for an operand that does not exist, `Q0406` for one that is not supported.
    fn is_lost(&self, index: usize) -> Result<bool> {
        for input in self.wires.inputs(index) {
            let port = input.map_err(|name| {
                Diagnostic::invalid("Q0408", format!("operand \"{name}\" is not a node"))
            })?;
            let first = Port { slot: 0, ..port };
            match (self.known.get(&port), self.known.get(&first)) {
                (Some(Known::Lost), _) | (None, Some(Known::Lost)) => return Ok(true),
                (Some(_), _) => {}
                (None, _) => {
                    return Err(Diagnostic::unsupported(
                        "Q0406",
                        format!(
                            "output {} of {} (\"{}\") is read; it does not exist or is not \
                             supported",
                            port.slot,
                            self.wires.nodes[port.node].op,
                            self.wires.name(port)
                        ),
                    ));
                }
            }
        }
        Ok(false)
    }

    /// Computes a node all of whose operands are plain constants, and defines its results. False
    /// when it has to be converted: it reads other values, is too large, or has a problem.
    fn fold(&mut self, index: usize, row: &ops::Row) -> bool {
        let mut known = FxHashMap::default();
        for port in self.wires.inputs(index).iter().flatten() {
            match self.known.get(port) {
                Some(Known::Constant(constant)) if constant.quantiser.is_none() => {
                    known.insert(*port, Known::Constant(constant.clone()));
                }
                _ => return false,
            }
        }
        if known.is_empty() || !row.folds {
            return false;
        }
        let mut alone = Importer::alone(self.wires, self.folding.take_all());
        alone.known = known;
        let results = (row.convert)(&mut Node::new(&mut alone, index))
            .ok()
            .and_then(|()| alone.results(index));
        self.folding = alone.folding;
        let Some(results) = results else {
            return false;
        };
        for (port, constant) in results {
            self.known.insert(port, Known::Constant(Box::new(constant)));
        }
        true
    }

    /// The constants that the results of a converted node are, computed where necessary.
    fn results(&mut self, node: usize) -> Option<Vec<(Port, Constant)>> {
        let slots = (0..self.known.len() + 1).map(|slot| Port { node, slot });
        let ports: Vec<Port> = slots.filter(|port| self.known.contains_key(port)).collect();
        let mut results = Vec::new();
        let mut computed = Vec::new();
        for port in ports {
            match self.known.get(&port)? {
                Known::Constant(constant) => results.push((port, (**constant).clone())),
                Known::Value(_) => computed.push((port, self.plain(port).ok()?)),
                Known::Lost => return None,
            }
        }
        let ids: Vec<ValueId> = computed.iter().map(|(_, id)| *id).collect();
        let values = compute(&mut self.graph, &ids, &mut self.folding)?;
        results.extend(computed.into_iter().map(|(port, _)| port).zip(values));
        Some(results)
    }

    fn unknown_operator(&mut self, op: &str) -> Diagnostic {
        let problem = Diagnostic::unsupported(
            "Q0405",
            format!("operator {op} of TensorFlow is not supported"),
        );
        if self.problems.is_full() {
            return problem; // It is only counted; looking for similar names takes long.
        }
        if let Some(help) = ops::suggestion(op) {
            return problem.help(help);
        }
        // The list is long; once is enough.
        if std::mem::replace(&mut self.listed_operators, true) {
            return problem;
        }
        let list = ops::supported_tensorflow_operators().join(", ");
        problem.help(format!("supported operators: {list}"))
    }

    /// The place of a node, with types and shapes of its operands as far as they are known.
    fn place(&self, index: usize) -> Place {
        let node = &self.wires.nodes[index];
        let inputs = self.wires.inputs(index);
        let shown = inputs.iter().take(8).map(|input| match input {
            Ok(port) => self.describe(*port),
            Err(_) => "?".to_owned(),
        });
        let mut operands = shown.collect::<Vec<_>>().join(", ");
        if inputs.len() > 8 {
            operands += ", …";
        }
        Place::Node { name: node.name.clone(), op: node.op.clone(), operands }
    }

    fn describe(&self, port: Port) -> String {
        match self.known.get(&port) {
            Some(Known::Value(stored)) => {
                let value = &self.graph[stored.id];
                let shape = shape_of(&value.shape, &stored.order);
                format!("{}{}", value.dtype, show_shape(&shape))
            }
            Some(Known::Constant(constant)) => {
                format!("{}{}", constant.tensor.dtype(), show_shape(constant.tensor.shape()))
            }
            Some(Known::Lost) | None => "?".to_owned(),
        }
    }
}

/// A placeholder in the words of ONNX, whose rules for inputs it follows.
fn declaration(node: &NodeDef) -> Result<ValueProto> {
    let attributes = super::attributes::Attributes(node);
    let code = attributes.dtype("dtype")?.unwrap_or(0);
    let dimension =
        |size: i64| DimensionProto { dim_value: (size != -1).then_some(size), dim_param: None };
    let shape = attributes.shape("shape")?.filter(|shape| !shape.unknown_rank);
    let shape = shape
        .map(|shape| ShapeProto { dim: shape.dim.iter().map(|dim| dimension(dim.size)).collect() });
    let tensor = TensorTypeProto { elem_type: Some(dtype::to_onnx(code)), shape };
    Ok(ValueProto {
        name: Some(node.name.clone()),
        r#type: Some(TypeProto { tensor: Some(tensor) }),
    })
}
