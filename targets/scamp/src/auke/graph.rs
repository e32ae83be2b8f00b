//! The graph of a plan: sums of transformed values, and what they cost.

use super::reverse::{Made, Reverse};
use super::transform::Transform;
use crate::cain::goals::ByHash;
use crate::isa::Reg;
use crate::symbolic::{Computed, Term, Value};
use quincunx_num::Ratio;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// An operand: a value and what is done to it before it is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Edge {
    /// The node.
    pub(super) from: usize,
    /// The transformation.
    pub(super) by: Transform,
}

/// Sums of transformed values.
///
/// Invariants: the first nodes are the inputs, without operands; operands are of earlier nodes; no
/// halvings are below 0; only the output, which is the last node, may have a single operand; without
/// operands it is 0.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Graph {
    /// Number of inputs.
    pub(super) inputs: usize,
    /// The operands of each node.
    pub(super) nodes: Vec<Vec<Edge>>,
}

impl Graph {
    /// The graph of a plan. What has a single operand is part of the edges.
    pub(super) fn of(plan: &[Made], search: &Reverse<'_>) -> Graph {
        let inputs = search.inputs().len();
        let mut graph = Graph { inputs, nodes: vec![Vec::new(); inputs] };
        let mut places: ByHash<Edge> = ByHash::default();
        for (index, made) in plan.iter().enumerate().rev() {
            let edge = |&(id, by): &(u32, Transform)| {
                let input = search.channel(id).map(|from| Edge { from, by: Transform::NONE });
                let at = input.or_else(|| places.get(&u64::from(id)).copied());
                let at = at.expect("operands are inputs or made before");
                Edge { from: at.from, by: at.by.then(by) }
            };
            let edges: Vec<Edge> = made.operands.iter().map(edge).collect();
            let own = match edges[..] {
                [only] if index > 0 => only,
                _ => {
                    graph.nodes.push(edges);
                    Edge { from: graph.nodes.len() - 1, by: Transform::NONE }
                }
            };
            places.insert(u64::from(made.goal), own);
        }
        if let (true, Some(from)) = (plan.is_empty(), search.wanted_channel()) {
            graph.nodes.push(vec![Edge { from, by: Transform::NONE }]);
        }
        graph
    }

    /// The graph with each sum of which only one other takes it as it is, or minus it, as a part of that
    /// one: what is added when is then left open.
    pub(super) fn flat(&self) -> Graph {
        let mut graph = self.clone();
        for node in (self.inputs..self.output()).rev() {
            let users = (node..graph.nodes.len()).flat_map(|to| {
                let edges = graph.nodes[to].iter().enumerate();
                edges.filter(|(_, edge)| edge.from == node).map(move |(at, _)| (to, at))
            });
            let users: Vec<(usize, usize)> = users.collect();
            let &[(to, at)] = &users[..] else { continue };
            let by = graph.nodes[to][at].by;
            if by.positive() == Transform::NONE {
                graph.nodes[to].remove(at);
                let parts = std::mem::take(&mut graph.nodes[node]).into_iter();
                let parts = parts.map(|edge| Edge { from: edge.from, by: edge.by.then(by) });
                graph.nodes[to].extend(parts);
            }
        }
        graph
    }

    /// The output.
    pub(super) fn output(&self) -> usize {
        self.nodes.len() - 1
    }

    /// What is needed of each node besides itself. The sign of an operand of a sum costs nothing.
    pub(super) fn needs(&self) -> Vec<BTreeSet<Transform>> {
        let mut needs = vec![BTreeSet::new(); self.nodes.len()];
        for edges in &self.nodes {
            for edge in edges {
                let by = if edges.len() > 1 { edge.by.positive() } else { edge.by };
                needs[edge.from].insert(by);
            }
        }
        needs.iter_mut().for_each(|set| set.retain(|by| *by != Transform::NONE));
        needs
    }

    /// Number of instructions.
    pub(super) fn length(&self) -> u32 {
        let trees: u32 =
            self.needs().iter().map(|set| tree(set).iter().map(|step| step.2).sum::<u32>()).sum();
        let sums: u32 = self.nodes.iter().map(|edges| sum(edges)).sum();
        trees + sums
    }

    /// The graph in the DOT language. Nodes are what they hold, edges what is done as
    /// (x, y, halvings, negated).
    pub(super) fn dot(&self, name: &str, inputs: &[Reg]) -> String {
        let mut out = format!("digraph \"{name}\" {{\n  node [shape=box, fontname=monospace];\n");
        for (node, label) in self.labels(inputs).iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "  n{node} [label=\"{label}\"];");
        }
        for (node, edges) in self.nodes.iter().enumerate() {
            for Edge { from, by: Transform { x, y, halvings, negated } } in edges {
                let sign = u8::from(*negated);
                let _ = writeln!(
                    out,
                    "  n{from} -> n{node} [label=\"({x}, {y}, {halvings}, {sign})\"];"
                );
            }
        }
        out + "}\n"
    }

    /// What nodes hold, as kernels of inputs in these registers.
    fn labels(&self, inputs: &[Reg]) -> Vec<String> {
        let mut values: Vec<Value> = Vec::new();
        for (node, edges) in self.nodes.iter().enumerate() {
            let mut value = Value::new();
            if let Some(&source) = inputs.get(node) {
                value.insert(Term { source, x: 0, y: 0 }, Ratio::ONE);
            }
            for Edge { from, by } in edges {
                let sign: i32 = if by.negated { -1 } else { 1 };
                let parts = 1_u64.checked_shl(by.halvings.unsigned_abs()).unwrap_or(u64::MAX);
                let factor = Ratio::from_parts(sign.into(), parts.into());
                for (term, part) in &values[*from] {
                    let term = Term { x: term.x + by.x, y: term.y + by.y, ..*term };
                    let old = value.remove(&term).unwrap_or(Ratio::ZERO);
                    value.insert(term, old + part * &factor);
                }
            }
            values.push(value);
        }
        let label =
            |value| Computed { output: Reg::NONE, value, inputs: inputs.to_vec() }.describe();
        values.into_iter().map(label).collect()
    }
}

/// Additions of a sum, with the copy of a value that is added to itself, and the sign of a sum of
/// which all operands are negative.
fn sum(edges: &[Edge]) -> u32 {
    let additions = edges.len().saturating_sub(1) as u32;
    let is_sum = edges.len() > 1;
    let is_double = is_sum && edges.iter().all(|edge| edge == &edges[0]);
    let is_negative = is_sum && edges.iter().all(|edge| edge.by.negated);
    additions + u32::from(is_double) + u32::from(is_negative)
}

/// How some transformations of a value are made, each of the nearest one that there is: from, to, and
/// the number of instructions. The value itself is there.
pub(super) fn tree(needs: &BTreeSet<Transform>) -> Vec<(Transform, Transform, u32)> {
    let mut have = vec![Transform::NONE];
    let mut left: Vec<Transform> = needs.iter().copied().collect();
    let mut steps = Vec::new();
    while !left.is_empty() {
        let way = |from: Transform, to: Transform| {
            let way = from.inverse().then(to);
            (way.halvings >= 0).then(|| way.length())
        };
        let ways = left.iter().enumerate().flat_map(|(index, &to)| {
            let way = move |&from: &Transform| Some((way(from, to)?, from, index));
            have.iter().filter_map(way)
        });
        let (length, from, index) = ways.min().expect("all is made of the value itself");
        let to = left.remove(index);
        steps.push((from, to, length));
        have.push(to);
    }
    steps
}
