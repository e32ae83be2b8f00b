//! Subgraphs: what they read from outside, and how their nodes enter the graph.

#![deny(clippy::arithmetic_side_effects)]

use crate::proto::{GraphProto, NodeProto};
use crate::reader::{Importer, Known};
use quincunx_diag::Diagnostic;
use rustc_hash::FxHashSet;

/// The subgraphs of a node.
fn subgraphs(node: &NodeProto) -> impl Iterator<Item = &GraphProto> {
    node.attribute.iter().filter_map(|attribute| attribute.g.as_deref())
}

/// Names that a node reads: its operands, and what its subgraphs read from outside.
pub(crate) fn reads(node: &NodeProto) -> Vec<&str> {
    let mut names: Vec<&str> = node.input.iter().map(String::as_str).collect();
    for graph in subgraphs(node) {
        let own: FxHashSet<&str> = definitions(graph).into_iter().collect();
        let inner = graph.node.iter().flat_map(reads);
        names.extend(inner.chain(outputs(graph)).filter(|name| !own.contains(name)));
    }
    names
}

/// Every name that something in a graph reads, also in its subgraphs.
pub(crate) fn all_reads<'m>(graph: &'m GraphProto, names: &mut FxHashSet<&'m str>) {
    names.extend(outputs(graph));
    for node in &graph.node {
        names.extend(node.input.iter().map(String::as_str));
        subgraphs(node).for_each(|graph| all_reads(graph, names));
    }
}

fn outputs(graph: &GraphProto) -> impl Iterator<Item = &str> {
    graph.output.iter().filter_map(|output| output.name.as_deref())
}

/// Names of the initialisers and node outputs of a graph.
fn definitions(graph: &GraphProto) -> Vec<&str> {
    let initialisers = graph.initializer.iter().filter_map(|tensor| tensor.name.as_deref());
    let computed = graph.node.iter().flat_map(|node| node.output.iter().map(String::as_str));
    initialisers.chain(computed).filter(|name| !name.is_empty()).collect()
}

impl<'m> Importer<'m> {
    /// The name in the graph of a name of the file. They differ in subgraphs, where two branches
    /// may use one name for two values.
    pub(crate) fn graph_name(&self, name: &'m str) -> String {
        self.renamed.get(name).cloned().unwrap_or_else(|| name.to_owned())
    }

    /// Adds the nodes of a subgraph without inputs of its own. Returns what its outputs are; those
    /// that could not be converted, which has been reported, are lost.
    pub(crate) fn enter(&mut self, graph: &'m GraphProto) -> Vec<Known> {
        let own = definitions(graph);
        let mut outer = Vec::with_capacity(own.len());
        for &name in &own {
            outer.push((name, self.known.remove(name), self.renamed.remove(name)));
            let fresh = self.value_names.fresh(name);
            self.renamed.insert(name, fresh);
        }
        self.add_initialisers(graph);
        let labels = self.name_nodes(graph);
        for index in self.order(graph, &labels).unwrap_or_default() {
            self.add_node(&graph.node[index], &labels[index]);
        }
        let results = outputs(graph).map(|name| self.result(name)).collect();
        // Backwards, so that of a name that was defined twice the outer meaning comes back.
        for (name, known, renamed) in outer.into_iter().rev() {
            match known {
                Some(known) => self.known.insert(name, known),
                None => self.known.remove(name),
            };
            match renamed {
                Some(renamed) => self.renamed.insert(name, renamed),
                None => self.renamed.remove(name),
            };
        }
        results
    }

    /// What an output of a subgraph is: a constant or a value.
    fn result(&mut self, name: &'m str) -> Known {
        match self.known.get(name) {
            Some(Known::Constant(constant)) => return Known::Constant(constant.clone()),
            Some(Known::Lost) => return Known::Lost,
            Some(Known::Value(_) | Known::Codes(_)) => {}
            None => {
                let message = format!("output \"{name}\" of a subgraph is never computed");
                self.report(Diagnostic::invalid("Q0417", message));
                return Known::Lost;
            }
        }
        match self.value(name) {
            Ok(id) => Known::Value(id),
            Err(problem) => {
                self.report(problem);
                Known::Lost
            }
        }
    }
}
