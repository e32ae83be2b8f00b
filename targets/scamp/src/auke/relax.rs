//! Relaxation: moves, halvings and signs go from the operands of a sum to its uses, or back, where
//! that saves instructions. Intermediate values need not be parts of the kernel then.
//!
//! That is retiming, with moves, halvings and signs for the registers of a circuit: every sum has a
//! lag, what its uses get of it less and its operands more. The lags of inputs and of the output are
//! nothing.
//!
//! Facts: `cain-paper` section 5, `auke` (`docs/bibliography.md`).

use super::graph::Graph;
use super::transform::Transform;
use std::collections::BTreeSet;

/// The graph after each lag that saves instructions, the shortest one first and the graph itself
/// last. One group of sums at a time gets the lag that saves the most.
pub(super) fn relaxed(graph: &Graph) -> Vec<Graph> {
    let (mut list, mut length) = (vec![graph.clone()], graph.length());
    while let Some(last) = list.last() {
        let tried = moves(last).into_iter().filter_map(|(group, lag)| shifted(last, &group, lag));
        let found = tried.map(|graph| (graph.length(), graph)).min_by_key(|(length, _)| *length);
        match found {
            Some((shorter, graph)) if shorter < length => {
                length = shorter;
                list.push(graph);
            }
            _ => break,
        }
    }
    list.reverse();
    list
}

type Group = BTreeSet<usize>;

/// Groups of sums with the lags by which an edge to one of them, or from it, loses something.
fn moves(graph: &Graph) -> BTreeSet<(Group, Transform)> {
    let mut moves = BTreeSet::new();
    for node in graph.inputs..graph.output() {
        for group in [Group::from([node]), joined(graph, node)] {
            for lag in lags(graph, &group) {
                moves.insert((group.clone(), lag));
            }
        }
    }
    moves
}

/// A sum with all those that take each other as they are.
fn joined(graph: &Graph, node: usize) -> Group {
    let is_free = |node: usize| (graph.inputs..graph.output()).contains(&node);
    let mut group = Group::from([node]);
    loop {
        let mut next = group.clone();
        for (to, edges) in graph.nodes.iter().enumerate() {
            for edge in edges.iter().filter(|edge| edge.by.positive() == Transform::NONE) {
                if is_free(to) && is_free(edge.from) {
                    let (has_from, has_to) = (group.contains(&edge.from), group.contains(&to));
                    next.extend(has_from.then_some(to));
                    next.extend(has_to.then_some(edge.from));
                }
            }
        }
        if next.len() == group.len() {
            return group;
        }
        group = next;
    }
}

/// Lags with which an edge across the border of a group loses its moves to one side, its halvings,
/// its sign, or everything.
fn lags(graph: &Graph, group: &Group) -> BTreeSet<Transform> {
    let mut lags = BTreeSet::new();
    for (to, edges) in graph.nodes.iter().enumerate() {
        for edge in edges {
            let out = match (group.contains(&edge.from), group.contains(&to)) {
                (true, false) => edge.by,
                (false, true) => edge.by.inverse(),
                _ => continue,
            };
            let Transform { x, y, halvings, negated } = out;
            lags.extend([
                out,
                Transform::by(x, 0),
                Transform::by(0, y),
                Transform::by(x, y),
                Transform { halvings, ..Transform::NONE },
                Transform { halvings: halvings.signum(), ..Transform::NONE },
                Transform { negated, ..Transform::NONE },
            ]);
        }
    }
    lags.remove(&Transform::NONE);
    lags
}

/// The graph after a lag of a group; `None` if something would have to be doubled.
fn shifted(graph: &Graph, group: &Group, lag: Transform) -> Option<Graph> {
    let mut graph = graph.clone();
    for (to, edges) in graph.nodes.iter_mut().enumerate() {
        for edge in edges {
            if group.contains(&to) {
                edge.by = edge.by.then(lag);
            }
            if group.contains(&edge.from) {
                edge.by = edge.by.then(lag.inverse());
            }
        }
    }
    graph.nodes.iter().flatten().all(|edge| edge.by.halvings >= 0).then_some(graph)
}
