//! Topological order of the nodes of a file.

use crate::proto::NodeProto;
use crate::subgraph::reads;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Indices of the nodes so that every node comes after those it reads. A file that is already in
/// order keeps its order.
///
/// `producers` names the node that computes each value.
///
/// # Errors
/// A node on a cycle.
pub(crate) fn topological_order(
    nodes: &[NodeProto],
    producers: &FxHashMap<&str, usize>,
) -> Result<Vec<usize>, usize> {
    sort(nodes.len(), |index: usize| {
        reads(&nodes[index]).into_iter().filter_map(|name| producers.get(name).copied())
    })
}

/// As [`topological_order`], for `count` nodes that read these others.
///
/// # Errors
/// A node on a cycle.
pub(crate) fn sort<I: Iterator<Item = usize>>(
    count: usize,
    reads: impl Fn(usize) -> I,
) -> Result<Vec<usize>, usize> {
    let mut waits = vec![0_usize; count];
    let mut readers = vec![Vec::new(); count];
    for (index, wait) in waits.iter_mut().enumerate() {
        for producer in reads(index) {
            readers[producer].push(index);
            *wait += 1;
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> =
        (0..count).filter(|&index| waits[index] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(count);
    while let Some(Reverse(index)) = ready.pop() {
        order.push(index);
        for &reader in &readers[index] {
            waits[reader] -= 1;
            if waits[reader] == 0 {
                ready.push(Reverse(reader));
            }
        }
    }
    match waits.iter().position(|&wait| wait > 0) {
        None => Ok(order),
        Some(start) => Err(on_cycle(start, &waits, reads)),
    }
}

/// Walks from a node that waits to one it waits for, until one repeats: that one is on a cycle.
fn on_cycle<I: Iterator<Item = usize>>(
    start: usize,
    waits: &[usize],
    reads: impl Fn(usize) -> I,
) -> usize {
    let mut visited = vec![false; waits.len()];
    let mut node = start;
    while !visited[node] {
        visited[node] = true;
        match reads(node).find(|&producer| waits[producer] > 0) {
            Some(producer) => node = producer,
            None => break,
        }
    }
    node
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(inputs: &[&str], output: &str) -> NodeProto {
        NodeProto {
            input: inputs.iter().map(|&i| i.to_owned()).collect(),
            output: vec![output.to_owned()],
            ..NodeProto::default()
        }
    }

    fn order(nodes: &[NodeProto]) -> Result<Vec<usize>, usize> {
        let producers = nodes.iter().enumerate().map(|(i, n)| (n.output[0].as_str(), i)).collect();
        topological_order(nodes, &producers)
    }

    #[test]
    fn keeps_a_valid_order() {
        assert_eq!(
            order(&[node(&["x"], "a"), node(&["x"], "b"), node(&["a", "b"], "c")]),
            Ok(vec![0, 1, 2])
        );
    }

    #[test]
    fn sorts_any_acyclic_order() {
        assert_eq!(
            order(&[node(&["b"], "c"), node(&["a", "a"], "b"), node(&["x"], "a")]),
            Ok(vec![2, 1, 0])
        );
    }

    #[test]
    fn names_a_node_on_the_cycle() {
        // c waits for the cycle a, b but is not part of it.
        let nodes = [node(&["b"], "c"), node(&["b"], "a"), node(&["a"], "b")];
        assert!(matches!(order(&nodes), Err(1 | 2)));
        assert_eq!(order(&[node(&["a"], "a")]), Err(0));
    }
}
