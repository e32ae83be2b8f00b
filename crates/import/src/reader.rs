//! From a decoded model to a graph.

use crate::budget::{Growth, check_budget};
use crate::context::NodeContext;
use crate::cut::cut;
use crate::describe::place;
use crate::fold::FoldBudget;
use crate::inputs::{read_inputs, two_values, with_shape_help};
use crate::model::Format;
use crate::names::Names;
use crate::ops::{self, Row};
use crate::options::Options;
use crate::proto::{GraphProto, ModelProto, NodeProto, TensorProto, TensorTypeProto};
use crate::sort::topological_order;
use crate::subgraph::{all_reads, reads};
use crate::survey::{DeclaredInput, Survey};
use crate::tensor::{External, read_tensor};
use bytes::Bytes;
use prost::Message;
use quincunx_diag::{Class, Diagnostic, Place, Problems, Result};
use quincunx_graph::{Constant, Graph, Op, Quantiser, ValueId};
use quincunx_tensor::DType;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// Newest version of the standard operators whose changes are known to this importer.
const NEWEST_OPSET: i64 = 28;

/// Reads an ONNX model.
///
/// Symbolic extents become 1 unless `options` binds them; the graph keeps their names, so
/// [`Graph::rebind`] can change them later. Initialisers that are also inputs are constants.
/// Weights share the memory of `bytes`.
///
/// # Errors
/// All problems at once: class `Unsupported` (`Q0405`, `Q0406`, `Q0412`, `Q0416`, …) for what
/// Quincunx cannot do, `Invalid` for what is not a valid model, `Usage` for options that name
/// nothing.
pub fn read_onnx(bytes: Bytes, options: &Options) -> std::result::Result<Graph, Vec<Diagnostic>> {
    let size = bytes.len() as u64;
    let (model, graph) = decode(bytes, options)?;
    let mut importer = Importer::new(&model, &graph, FoldBudget::with(size));
    importer.run(&graph, options);
    importer.finish()
}

/// See [`crate::survey()`].
pub(crate) fn survey_onnx(
    bytes: Bytes,
    options: &Options,
) -> std::result::Result<Survey, Vec<Diagnostic>> {
    let size = bytes.len() as u64;
    let (model, graph) = decode(bytes, options)?;
    let mut importer = Importer::new(&model, &graph, FoldBudget::with(size));
    importer.run(&graph, options);
    importer.survey(&graph)
}

/// The model without its graph, and the graph, cut as the options say.
fn decode(
    bytes: Bytes,
    options: &Options,
) -> std::result::Result<(ModelProto, GraphProto), Vec<Diagnostic>> {
    check_budget(&bytes).map_err(|problem| vec![problem])?;
    let mut model = ModelProto::decode(bytes).map_err(|error| {
        vec![
            Diagnostic::invalid("Q0401", format!("not an ONNX model: {error}"))
                .help("the file is damaged or of another format"),
        ]
    })?;
    let Some(mut graph) = model.graph.take() else {
        return Err(vec![
            Diagnostic::invalid("Q0401", "not an ONNX model: it has no graph")
                .help("the file is empty, damaged or of another format"),
        ]);
    };
    cut(&mut graph, options)?;
    Ok((model, graph))
}

/// What is known about a name of the file.
#[derive(Clone)]
pub(crate) enum Known {
    /// It is in the graph.
    Value(ValueId),
    /// A constant that no node has read yet.
    Constant(Box<Constant>),
    /// Codes of a `QuantizeLinear` that no node has read as codes yet.
    Codes(Box<Codes>),
    /// The node that computes it could not be converted, which has been reported.
    Lost,
}

/// The codes of a value.
#[derive(Clone)]
pub(crate) struct Codes {
    pub(crate) source: ValueId,
    pub(crate) quantiser: Quantiser,
    /// Name of the `QuantizeLinear` node.
    pub(crate) node: String,
    /// `source` lies on the grid of the quantiser already.
    pub(crate) on_grid: bool,
}

/// The state of one import.
pub(crate) struct Importer<'m> {
    pub(crate) graph: Graph,
    pub(crate) value_names: Names,
    pub(crate) node_names: Names,
    pub(crate) known: FxHashMap<&'m str, Known>,
    /// Names that the graph has for names of the file, where they differ.
    pub(crate) renamed: FxHashMap<&'m str, String>,
    /// Files with external data.
    pub(crate) files: External,
    /// Names that some node or the graph reads.
    pub(crate) used: FxHashSet<&'m str>,
    /// Extents that became numbers.
    pub(crate) extents_read: Vec<(ValueId, Range<usize>)>,
    /// What may still be computed from constants.
    pub(crate) folding: FoldBudget,
    /// The inputs, as the file declares them.
    pub(crate) inputs: Vec<DeclaredInput>,
    /// Names and declared shapes of inputs whose open extents nobody bound.
    pub(crate) open: Vec<(String, String)>,
    /// Types the file declares, for messages.
    pub(crate) declared: FxHashMap<&'m str, &'m TensorTypeProto>,
    /// Version of every domain the file declares.
    pub(crate) opsets: Arc<FxHashMap<&'m str, i64>>,
    pub(crate) listed_operators: bool,
    pub(crate) growth: Growth,
    pub(crate) problems: Problems,
}

impl<'m> Importer<'m> {
    fn new(model: &'m ModelProto, graph: &'m GraphProto, folding: FoldBudget) -> Self {
        let mut opsets = FxHashMap::default();
        for opset in &model.opset_import {
            let domain = ops::domain(opset.domain.as_deref());
            opsets.entry(domain).or_insert(opset.version.unwrap_or(0));
        }
        let mut used = FxHashSet::default();
        let mut value_names = Names::default();
        all_reads(graph, &mut used);
        for node in &graph.node {
            value_names.reserve_all(node.output.iter().map(String::as_str));
        }
        value_names.reserve_all(used.iter().copied());
        value_names.reserve_all(graph.input.iter().filter_map(|input| input.name.as_deref()));
        let declared = graph
            .value_info
            .iter()
            .chain(&graph.output)
            .filter_map(|v| Some((v.name.as_deref()?, v.r#type.as_ref()?.tensor.as_ref()?)))
            .collect();
        Importer {
            graph: Graph::new(graph.name.as_deref().unwrap_or("")),
            value_names,
            node_names: Names::default(),
            known: FxHashMap::default(),
            renamed: FxHashMap::default(),
            files: External::default(),
            used,
            extents_read: Vec::new(),
            folding,
            inputs: Vec::new(),
            open: Vec::new(),
            declared,
            opsets: Arc::new(opsets),
            listed_operators: false,
            growth: Growth::default(),
            problems: Problems::default(),
        }
    }

    fn run(&mut self, graph: &'m GraphProto, options: &Options) {
        self.check_opsets(graph);
        if !self.add_inputs(graph, options) {
            return;
        }
        self.files = External::new(options.base_dir.clone());
        self.add_initialisers(graph);
        let names = self.name_nodes(graph);
        let Some(order) = self.order(graph, &names) else {
            return;
        };
        for index in order {
            self.add_node(&graph.node[index], &names[index]);
        }
        self.add_outputs(graph);
    }

    fn finish(mut self) -> std::result::Result<Graph, Vec<Diagnostic>> {
        if self.problems.is_empty() {
            self.forget_symbols();
        }
        let open = self.open;
        let problems = self.problems.warnings();
        problems.map(|_| self.graph).map_err(|problems| with_shape_help(problems, &open))
    }

    /// What was read, and why not the rest.
    fn survey(mut self, graph: &GraphProto) -> std::result::Result<Survey, Vec<Diagnostic>> {
        let lost = |name: &&str| matches!(self.known.get(*name), Some(Known::Lost));
        let is_lost = |node: &&NodeProto| node.output.iter().any(|name| lost(&name.as_str()));
        let mut unread = BTreeMap::new();
        let (mut before, mut after) = (BTreeSet::new(), BTreeSet::new());
        for node in graph.node.iter().filter(is_lost) {
            let operator = node.op_type.as_deref().unwrap_or("");
            let name = match ops::domain(node.domain.as_deref()) {
                ops::STANDARD => operator.to_owned(),
                domain => format!("{domain}::{operator}"),
            };
            *unread.entry(name).or_default() += 1;
            let operands = reads(node);
            if !operands.iter().any(lost) {
                before.extend(operands.into_iter().filter(|name| self.is_computed(name)));
                after.extend(node.output.iter().map(String::as_str).filter(|n| !n.is_empty()));
            }
        }
        let names = |set: BTreeSet<&str>| set.into_iter().map(str::to_owned).collect::<Vec<_>>();
        let (outputs_before, inputs_after) = (names(before), names(after));
        let whole = self.problems.is_empty();
        if whole {
            self.forget_symbols();
        }
        let mut opsets: Vec<(String, i64)> =
            self.opsets.iter().map(|(name, &version)| ((*name).to_owned(), version)).collect();
        opsets.sort();
        let survey = Survey {
            format: Format::Onnx,
            opsets,
            inputs: self.inputs,
            graph: self.graph,
            parameters: (!whole).then(|| parameters(graph)),
            unread,
            problems: Vec::new(),
            inputs_after: if outputs_before.is_empty() { inputs_after } else { Vec::new() },
            outputs_before,
            shape_help: None,
        };
        survey.judged(self.problems, &self.open)
    }

    /// True for a value that a node of the graph computes.
    fn is_computed(&self, name: &str) -> bool {
        match self.known.get(name) {
            Some(Known::Value(id)) => self.graph[*id].producer.is_some(),
            Some(Known::Codes(_)) => true,
            Some(Known::Constant(_) | Known::Lost) | None => false,
        }
    }

    /// Records a problem.
    pub(crate) fn report(&mut self, problem: Diagnostic) {
        self.problems.push(problem);
    }

    /// Version of a domain, normalised by [`ops::domain`]. Only the standard domain must be
    /// declared; the others have one version.
    pub(crate) fn opset(&self, domain: &str) -> i64 {
        self.opsets.get(domain).copied().unwrap_or(1)
    }

    fn check_opsets(&mut self, graph: &GraphProto) {
        let standard = |node: &NodeProto| ops::domain(node.domain.as_deref()) == ops::STANDARD;
        let problem = match self.opsets.get(ops::STANDARD) {
            None if graph.node.iter().any(standard) => {
                Diagnostic::invalid("Q0404", "the model does not say which opset it uses")
            }
            Some(version) if *version > NEWEST_OPSET => Diagnostic::unsupported(
                "Q0404",
                format!(
                    "the model uses opset {version}; opsets up to {NEWEST_OPSET} are supported"
                ),
            )
            .help("convert the model with onnx.version_converter, or export it for an older opset"),
            Some(version) if *version < 1 => {
                Diagnostic::invalid("Q0404", format!("opset {version} does not exist"))
            }
            _ => return,
        };
        self.report(problem);
    }

    /// False when the options do not fit them, so that nothing else is worth telling.
    fn add_inputs(&mut self, graph: &'m GraphProto, options: &Options) -> bool {
        let mut problems = Vec::new();
        let inputs = read_inputs(graph, options, &mut problems);
        let usable = problems.iter().all(|problem| problem.class() != Class::Usage);
        problems.into_iter().for_each(|problem| self.report(problem));
        for input in inputs {
            self.inputs.push(input.describe());
            if input.open {
                self.open.push((input.name.to_owned(), input.declared));
            }
            if let Some(value) = input.value {
                self.known.insert(input.name, Known::Constant(Box::new(value.into())));
                continue;
            }
            match self.graph.add_input(input.name, input.dtype, &input.shape, &input.symbols) {
                Ok(id) => drop(self.known.insert(input.name, Known::Value(id))),
                Err(problem) => self.report(problem),
            }
        }
        // Inputs that could not be read must not look undefined.
        for name in graph.input.iter().filter_map(|input| input.name.as_deref()) {
            self.known.entry(name).or_insert(Known::Lost);
        }
        usable
    }

    pub(crate) fn add_initialisers(&mut self, graph: &'m GraphProto) {
        if !graph.sparse_initializer.is_empty() {
            self.report(Diagnostic::unsupported("Q0412", "sparse initialisers are not supported"));
        }
        let mut files = std::mem::take(&mut self.files);
        let before = files.size();
        let mut seen = FxHashSet::default();
        for proto in &graph.initializer {
            let name = proto.name.as_deref().unwrap_or("");
            if !seen.insert(name) {
                self.report(two_values(name));
            } else if self.used.contains(name) {
                let known = match read_tensor(proto, &mut files) {
                    Ok(tensor) => Known::Constant(Box::new(tensor.into())),
                    Err(problem) => {
                        self.report(problem);
                        Known::Lost
                    }
                };
                self.known.insert(name, known);
            }
        }
        self.folding.grow(files.size() - before);
        self.files = files;
    }

    /// A unique name for every node, its own where possible.
    pub(crate) fn name_nodes(&mut self, graph: &GraphProto) -> Vec<String> {
        let own = |node: &'_ NodeProto| node.name.clone().filter(|name| !name.is_empty());
        let mut names: Vec<Option<String>> = graph
            .node
            .iter()
            .map(|node| own(node).filter(|name| self.node_names.reserve(name)))
            .collect();
        for (name, node) in names.iter_mut().zip(&graph.node) {
            if name.is_none() {
                let base = own(node).or_else(|| node.op_type.clone()).unwrap_or_default();
                *name = Some(self.node_names.fresh(&base));
            }
        }
        names.into_iter().flatten().collect()
    }

    /// The nodes in an order in which they can be converted; `None` when there is none.
    pub(crate) fn order(&mut self, graph: &'m GraphProto, names: &[String]) -> Option<Vec<usize>> {
        let mut producers = FxHashMap::default();
        for (index, node) in graph.node.iter().enumerate() {
            for output in node.output.iter().map(String::as_str).filter(|name| !name.is_empty()) {
                let taken = self.known.contains_key(output);
                if taken || producers.insert(output, index).is_some() {
                    self.report(two_values(output).at(place(node, &names[index], String::new())));
                }
            }
        }
        match topological_order(&graph.node, &producers) {
            Ok(order) => Some(order),
            Err(index) => {
                let problem =
                    Diagnostic::invalid("Q0410", "the graph has a cycle through this node");
                let operands = graph.node[index].input.iter().take(8).cloned().collect::<Vec<_>>();
                self.report(problem.at(place(
                    &graph.node[index],
                    &names[index],
                    operands.join(", "),
                )));
                None
            }
        }
    }

    pub(crate) fn add_node(&mut self, node: &'m NodeProto, name: &str) {
        let outcome = self.convert(node, name);
        if let Err(problem) = &outcome {
            let problem = match problem.place() {
                Some(Place::Node { .. }) => problem.clone(),
                _ => problem.clone().at(place(node, name, self.describe(node))),
            };
            self.report(problem);
        }
        for output in node.output.iter().filter(|output| !output.is_empty()) {
            self.known.entry(output).or_insert(Known::Lost);
        }
    }

    fn convert(&mut self, node: &'m NodeProto, name: &str) -> Result<()> {
        self.growth.check(&self.graph)?;
        let domain = ops::domain(node.domain.as_deref());
        let operator = node.op_type.as_deref().unwrap_or("");
        let Some(row) = ops::find(domain, operator) else {
            return Err(self.unknown_operator(domain, operator));
        };
        self.check_operands(node, row)?;
        if node
            .input
            .iter()
            .any(|input| matches!(self.known.get(input.as_str()), Some(Known::Lost)))
        {
            return Ok(()); // The cause has been reported.
        }
        if row.folds && self.fold(node, row, name) {
            return Ok(());
        }
        if let Some(codes) = self.moved_codes(node, row) {
            return self.convert_on_codes(node, row, name, codes);
        }
        let mut context = NodeContext::new(self, node, name, domain)?;
        (row.convert)(&mut context)?;
        context.attributes.finish()
    }

    fn check_operands(&self, node: &NodeProto, row: &Row) -> Result<()> {
        let (fewest, most) = row.inputs;
        let found = node.input.len();
        let present = |index: usize| node.input.get(index).is_some_and(|name| !name.is_empty());
        if found > most || !(0..fewest).all(present) {
            return Err(wrong_count(row.name, row.inputs, found));
        }
        let undefined =
            node.input.iter().find(|i| !i.is_empty() && !self.known.contains_key(i.as_str()));
        if let Some(name) = undefined {
            return Err(Diagnostic::invalid(
                "Q0408",
                format!(
                    "operand \"{name}\" is not an input, an initialiser or the output of a node"
                ),
            ));
        }
        let has_output = node.output.iter().take(row.outputs).any(|name| !name.is_empty());
        if !has_output {
            return Err(Diagnostic::invalid("Q0408", "the node has no outputs"));
        }
        let extra = node.output.iter().enumerate().skip(row.outputs);
        match extra
            .into_iter()
            .find(|(_, name)| self.used.contains(name.as_str()) && !name.is_empty())
        {
            Some((index, name)) => Err(Diagnostic::unsupported(
                "Q0406",
                format!("output {index} of {} (\"{name}\") is used", row.name),
            )
            .help(match row.outputs {
                1 => "only the first output is supported".to_owned(),
                count => format!("the first {count} outputs are supported"),
            })),
            None => Ok(()),
        }
    }

    fn unknown_operator(&mut self, domain: &str, operator: &str) -> Diagnostic {
        let message = match domain {
            ops::STANDARD => {
                format!("operator {operator} (opset {}) is not supported", self.opset(domain))
            }
            _ => format!(
                "operator {operator} of domain \"{domain}\" (opset {}) is not supported",
                self.opset(domain)
            ),
        };
        let problem = Diagnostic::unsupported("Q0405", message);
        if self.problems.is_full() {
            return problem; // It is only counted; looking for similar names takes long.
        }
        if let Some(help) = ops::suggestion(domain, operator) {
            return problem.help(help);
        }
        // The list is long; once is enough.
        if std::mem::replace(&mut self.listed_operators, true) {
            return problem;
        }
        problem.help(format!("supported operators: {}", ops::supported_operators().join(", ")))
    }

    fn add_outputs(&mut self, graph: &'m GraphProto) {
        if graph.output.is_empty() {
            self.report(Diagnostic::invalid("Q0417", "the graph has no outputs"));
        }
        for output in &graph.output {
            let name = output.name.as_deref().unwrap_or("");
            match self.known.get(name) {
                Some(Known::Lost) => {}
                Some(_) => match self.value(name) {
                    Ok(id) => self.graph.add_output(id),
                    Err(problem) => self.report(problem),
                },
                None => self.report(Diagnostic::invalid(
                    "Q0417",
                    format!("output \"{name}\" is never computed"),
                )),
            }
        }
    }

    /// The graph value of a name; constants and codes enter the graph here, when they are first
    /// read.
    pub(crate) fn value(&mut self, name: &'m str) -> Result<ValueId> {
        let id = match self.known.get(name) {
            Some(Known::Value(id)) => return Ok(*id),
            Some(Known::Constant(constant)) => {
                let name = self.graph_name(name);
                self.graph.add_constant(&name, (**constant).clone())?
            }
            Some(Known::Codes(codes)) => {
                let codes = codes.clone();
                let name = self.graph_name(name);
                self.add_codes(*codes, &name)?
            }
            Some(Known::Lost) | None => {
                return Err(Diagnostic::bug(format!(
                    "value \"{name}\" is read before it is known"
                )));
            }
        };
        self.known.insert(name, Known::Value(id));
        Ok(id)
    }

    fn add_codes(&mut self, codes: Codes, name: &str) -> Result<ValueId> {
        let dtype = ops::linear::integer_type(&codes.quantiser);
        let op = Op::ToCodes(codes.quantiser);
        if !matches!(dtype, DType::Narrow(_)) {
            return self.graph.add_node(&codes.node, op, &[Some(codes.source)], name);
        }
        // Codes of less than 8 bits are made as bytes.
        let (node, bytes) = (self.node_names.fresh(&codes.node), self.value_names.fresh(name));
        let bytes = self.graph.add_node(&node, op, &[Some(codes.source)], &bytes)?;
        self.graph.add_node(&codes.node, Op::Cast { to: dtype }, &[Some(bytes)], name)
    }
}

/// Elements of the constants of a graph and its subgraphs.
fn parameters(graph: &GraphProto) -> u64 {
    let elements = |tensor: &TensorProto| {
        tensor.dims.iter().fold(1_u64, |n, &dim| n.saturating_mul(u64::try_from(dim).unwrap_or(0)))
    };
    let attributes = || graph.node.iter().flat_map(|node| &node.attribute);
    let tensors = attributes().filter_map(|attribute| attribute.t.as_deref());
    let own = graph.initializer.iter().chain(tensors).map(elements);
    let inner = attributes().filter_map(|attribute| attribute.g.as_deref()).map(parameters);
    own.chain(inner).fold(0, u64::saturating_add)
}

/// An operator with another number of operands than it takes.
pub(crate) fn wrong_count(
    operator: &str,
    (fewest, most): (usize, usize),
    found: usize,
) -> Diagnostic {
    let expected = match (fewest, most) {
        (a, b) if a == b => a.to_string(),
        (a, usize::MAX) => format!("at least {a}"),
        (a, b) => format!("{a} to {b}"),
    };
    let message = format!("{operator} takes {expected} operands, found {found}");
    Diagnostic::invalid("Q0408", message)
}
