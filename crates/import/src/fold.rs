//! Computing at import what depends on constants only, so that shapes which a model computes from
//! shapes become known.

use crate::context::NodeContext;
use crate::names::Names;
use crate::ops::Row;
use crate::proto::NodeProto;
use crate::reader::{Importer, Known};
use quincunx_graph::execute::{Keep, float};
use quincunx_graph::{Constant, Graph, ValueId};
use quincunx_tensor::{Tensors, element_count};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// What may be computed from constants while one model is read: 128 MiB of the widest type.
const MAX_WORK: u64 = 1 << 24;

/// Multiplications that count as one element.
const MACS_PER_ELEMENT: u64 = 64;

/// Work that is left.
pub(crate) struct FoldBudget(u64);

impl Default for FoldBudget {
    fn default() -> Self {
        FoldBudget(MAX_WORK)
    }
}

impl FoldBudget {
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
            used: std::mem::take(&mut self.used),
            extents_read: Vec::new(),
            folding: FoldBudget(self.folding.0),
            declared: FxHashMap::default(),
            opsets: self.opsets.clone(),
            listed_operators: false,
            problems: Vec::new(),
            suppressed: 0,
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
        let mut work = 0_u64;
        for (_, node) in self.graph.nodes() {
            let elements = element_count(&self.graph[node.output].shape)? as u64;
            work = work.saturating_add(elements);
            work = work.saturating_add(self.graph.macs(node) / MACS_PER_ELEMENT);
        }
        if !self.folding.take(work) {
            return None;
        }
        computed.iter().for_each(|(_, id)| self.graph.add_output(*id));
        let mut values = float(&self.graph, &Tensors::new(), Keep::Outputs).ok()?;
        for (output, id) in computed {
            results.push((output, values.remove(&self.graph[id].name)?.into()));
        }
        Some(results)
    }

    /// Takes the names from symbolic extents that became numbers somewhere: bound to another
    /// extent, the graph would no longer be the model.
    pub(crate) fn forget_symbols(&mut self) {
        if self.extents_read.is_empty() {
            return;
        }
        let symbols: BTreeSet<String> = self.symbols().collect();
        for symbol in symbols {
            if self.reads_symbol(&symbol) {
                self.graph.forget_symbol(&symbol);
            }
        }
    }

    fn symbols(&self) -> impl Iterator<Item = String> {
        self.graph.inputs().iter().flat_map(|&id| self.graph[id].symbols.iter().flatten().cloned())
    }

    /// True when an extent that was read changes with a symbol, or the graph cannot be bound
    /// otherwise, so that this cannot be seen.
    fn reads_symbol(&self, symbol: &str) -> bool {
        let extent = self.graph.inputs().iter().find_map(|&id| {
            let value = &self.graph[id];
            let axis = value.symbols.iter().position(|s| s.as_deref() == Some(symbol))?;
            Some(value.shape[axis])
        });
        let other = extent.unwrap_or(1) + 1;
        let Ok(bound) = self.graph.rebind(symbol, other) else {
            return true;
        };
        self.extents_read.iter().any(|(id, axes)| {
            let now = &self.graph[*id];
            let then = bound.value_named(&now.name).map(|id| &bound[id].shape);
            then.is_none_or(|then| then.get(axes.clone()) != now.shape.get(axes.clone()))
        })
    }
}
