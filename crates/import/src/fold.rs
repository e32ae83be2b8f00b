//! Computing at import what depends on constants only, so that shapes which a model computes from
//! shapes become known.

use crate::budget::Growth;
use crate::context::NodeContext;
use crate::names::Names;
use crate::ops::Row;
use crate::proto::NodeProto;
use crate::reader::{Importer, Known};
use crate::tensor::External;
use quincunx_graph::execute::{Keep, float};
use quincunx_graph::{Constant, Graph, ValueId};
use quincunx_tensor::{Tensors, element_count};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// What may be computed from constants while one model is read: 128 MiB of the widest type.
const MAX_WORK: u64 = 1 << 24;

/// Most values that are inferred again to find out which symbols became numbers.
const MAX_REBOUND: usize = 1 << 20;

/// Elementary steps that count as one element.
const STEPS_PER_ELEMENT: u64 = 64;

/// Work that is left.
pub(crate) struct FoldBudget(u64);

impl FoldBudget {
    /// [`MAX_WORK`], and this many elements more.
    pub(crate) fn with(elements: u64) -> Self {
        FoldBudget(MAX_WORK.saturating_add(elements))
    }

    /// Makes room for more elements.
    pub(crate) fn grow(&mut self, elements: u64) {
        self.0 = self.0.saturating_add(elements);
    }

    /// What is left, taken out.
    pub(crate) fn take_all(&mut self) -> Self {
        FoldBudget(std::mem::replace(&mut self.0, 0))
    }

    /// Takes some work; false when there is not enough left.
    pub(crate) fn take(&mut self, work: u64) -> bool {
        match self.0.checked_sub(work) {
            Some(left) => {
                self.0 = left;
                true
            }
            None => false,
        }
    }
}

impl<'m> Importer<'m> {
    /// True when something reads a name.
    pub(crate) fn is_used(&self, name: &str) -> bool {
        self.used.contains(name)
    }

    /// Computes a node all of whose operands are plain constants, and defines its outputs. False
    /// when it has to be converted: it reads other values, is too large, or has a problem.
    pub(crate) fn fold(&mut self, node: &'m NodeProto, row: &Row, name: &str) -> bool {
        let Some(known) = self.constant_operands(node) else {
            return false;
        };
        let mut alone = self.alone(known);
        let converted =
            NodeContext::new(&mut alone, node, name, row.domain).and_then(|mut node| {
                (row.convert)(&mut node)?;
                node.attributes.finish()
            });
        let results = converted.ok().and_then(|()| alone.results(node));
        self.used = alone.used;
        self.folding = alone.folding;
        let Some(results) = results else {
            return false;
        };
        for (output, constant) in results {
            self.known.insert(output, Known::Constant(Box::new(constant)));
        }
        true
    }

    /// The operands of a node, if there are some and all are plain constants.
    fn constant_operands(&self, node: &'m NodeProto) -> Option<FxHashMap<&'m str, Known>> {
        let mut known = FxHashMap::default();
        for name in node.input.iter().map(String::as_str).filter(|name| !name.is_empty()) {
            let constant = match self.known.get(name)? {
                Known::Constant(constant) => constant.clone(),
                Known::Value(id) => Box::new(self.graph[*id].constant.clone()?),
                Known::Codes(_) | Known::Lost => return None,
            };
            if constant.quantiser.is_some() {
                return None;
            }
            known.insert(name, Known::Constant(constant));
        }
        (!known.is_empty()).then_some(known)
    }

    /// An import of nothing but what is known.
    fn alone(&mut self, known: FxHashMap<&'m str, Known>) -> Importer<'m> {
        Importer {
            graph: Graph::new(""),
            value_names: Names::default(),
            node_names: Names::default(),
            known,
            renamed: FxHashMap::default(),
            files: External::default(),
            used: std::mem::take(&mut self.used),
            extents_read: Vec::new(),
            folding: FoldBudget(self.folding.0),
            inputs: Vec::new(),
            open: Vec::new(),
            declared: FxHashMap::default(),
            opsets: Arc::clone(&self.opsets),
            listed_operators: false,
            growth: Growth::default(),
            problems: quincunx_diag::Problems::default(),
        }
    }

    /// The constants that the outputs of a converted node are, computed where necessary.
    fn results(&mut self, node: &'m NodeProto) -> Option<Vec<(&'m str, Constant)>> {
        let mut results = Vec::new();
        let mut computed: Vec<(&'m str, ValueId)> = Vec::new();
        for output in node.output.iter().map(String::as_str).filter(|name| !name.is_empty()) {
            match self.known.get(output) {
                Some(Known::Constant(constant)) => results.push((output, (**constant).clone())),
                Some(Known::Value(id)) => computed.push((output, *id)),
                // A part of the node that nothing reads.
                None => {}
                Some(Known::Codes(_) | Known::Lost) => return None,
            }
        }
        if computed.is_empty() {
            return Some(results);
        }
        let ids: Vec<ValueId> = computed.iter().map(|(_, id)| *id).collect();
        let values = compute(&mut self.graph, &ids, &mut self.folding)?;
        results.extend(computed.into_iter().map(|(output, _)| output).zip(values));
        Some(results)
    }

    /// See [`forget_symbols`].
    pub(crate) fn forget_symbols(&mut self) {
        forget_symbols(&mut self.graph, &self.extents_read);
    }
}

/// Computes values of a graph that has no inputs, if the budget allows it.
pub(crate) fn compute(
    graph: &mut Graph,
    values: &[ValueId],
    budget: &mut FoldBudget,
) -> Option<Vec<Constant>> {
    let mut work = 0_u64;
    for (_, node) in graph.nodes() {
        for id in node.operands().chain([node.output]) {
            work = work.saturating_add(element_count(&graph[id].shape)? as u64);
        }
        work = work.saturating_add(graph.work(node) / STEPS_PER_ELEMENT);
    }
    if !budget.take(work) {
        return None;
    }
    values.iter().for_each(|&id| graph.add_output(id));
    let results = float(graph, &Tensors::new(), Keep::Outputs).ok()?;
    values.iter().map(|&id| Some(results.get(&graph[id].name)?.clone().into())).collect()
}

/// Takes the names from symbolic extents that became numbers somewhere: bound to another extent,
/// the graph would no longer be the model. `extents_read` are the axes of values that did. Where
/// there are too many symbols to find out which ones those depend on, all lose their names.
pub(crate) fn forget_symbols(graph: &mut Graph, extents_read: &[(ValueId, Range<usize>)]) {
    if extents_read.is_empty() {
        return;
    }
    let inputs = graph.inputs().iter();
    let mut symbols: BTreeSet<String> =
        inputs.flat_map(|&id| graph[id].symbols.iter().flatten().cloned()).collect();
    let size = graph.values().len() + extents_read.len();
    if symbols.len().saturating_mul(size) <= MAX_REBOUND {
        symbols.retain(|symbol| reads_symbol(graph, extents_read, symbol));
    }
    graph.forget_symbols(&symbols);
}

/// True when an extent that was read changes with a symbol, or the graph cannot be bound
/// otherwise, so that this cannot be seen.
fn reads_symbol(graph: &Graph, extents_read: &[(ValueId, Range<usize>)], symbol: &str) -> bool {
    let extent = graph.inputs().iter().find_map(|&id| {
        let value = &graph[id];
        let axis = value.symbols.iter().position(|s| s.as_deref() == Some(symbol))?;
        Some(value.shape[axis])
    });
    let other = extent.unwrap_or(1).saturating_add(1);
    let Ok(bound) = graph.rebind(symbol, other) else {
        return true;
    };
    extents_read.iter().any(|(id, axes)| {
        let now = &graph[*id];
        let then = bound.value_named(&now.name).map(|id| &bound[id].shape);
        then.is_none_or(|then| then.get(axes.clone()) != now.shape.get(axes.clone()))
    })
}
