//! The same network with fewer numbers to compute: the largest of a window is taken as early as
//! possible.
//!
//! * `MaxPool(Concat(a, b))` is `Concat(MaxPool(a), MaxPool(b))`, and the layers that compute `a`
//!   and `b` can take the pooling along.
//! * `MaxPool(f(a))` is `f(MaxPool(a))` for an activation that never falls, which then has fewer
//!   positions.
//!
//! No number changes. Values that the graph had before keep their names; those that are new are
//! none of the graph.

use quincunx_diag::Result;
use quincunx_graph::{Activation, Graph, Node, NodeId, Op, Pool, PoolKind, Unary, ValueId};

/// The prepared graph, or `None` when there is nothing to do.
///
/// # Errors
/// None for a graph that verifies.
pub(crate) fn prepare(graph: &Graph) -> Result<Option<Graph>> {
    let consumers = graph.consumers();
    let alone = |value: ValueId| {
        let readers = &consumers[value.index()];
        (readers.len() == 1 && !graph.outputs().contains(&value)).then(|| readers[0])
    };
    // What is computed where the pooling that reads it is.
    let mut late = vec![false; graph.nodes().len()];
    let mut pools: Vec<(NodeId, Vec<NodeId>)> = Vec::new();
    for (id, node) in graph.nodes().filter(|(_, node)| is_max_pool(node)) {
        let mut swapped = Vec::new();
        collect(graph, node.input(0), id, &alone, &mut swapped);
        swapped.iter().for_each(|node| late[node.index()] = true);
        if !swapped.is_empty() {
            pools.push((id, swapped));
        }
    }
    if pools.is_empty() {
        return Ok(None);
    }
    let mut rebuilt = Rebuilt { old: graph, new: Graph::new(graph.name.clone()), map: Vec::new() };
    rebuilt.map.resize(graph.values().len(), None);
    for &id in graph.inputs() {
        let value = &graph[id];
        let input =
            rebuilt.new.add_input(&value.name, value.dtype, &value.shape, &value.symbols)?;
        rebuilt.map[id.index()] = Some(input);
    }
    for (id, node) in graph.nodes().filter(|(id, _)| !late[id.index()]) {
        match pools.iter().find(|(pool, _)| *pool == id) {
            Some((_, swapped)) => {
                let output = rebuilt.pooled(node, node.input(0), swapped, true)?;
                rebuilt.map[node.output.index()] = Some(output);
            }
            None => {
                let inputs = rebuilt.operands(node)?;
                let name = &graph[node.output].name;
                let output = rebuilt.new.add_node(&node.name, node.op.clone(), &inputs, name)?;
                rebuilt.map[node.output.index()] = Some(output);
            }
        }
    }
    for &output in graph.outputs() {
        let output = rebuilt.value(output)?;
        rebuilt.new.add_output(output);
    }
    Ok(Some(rebuilt.new))
}

/// The nodes before a pooling, from it backwards, that can come behind it. `reader` alone reads
/// the value.
fn collect(
    graph: &Graph,
    value: Option<ValueId>,
    reader: NodeId,
    alone: &impl Fn(ValueId) -> Option<NodeId>,
    swapped: &mut Vec<NodeId>,
) {
    let Some(value) = value.filter(|&value| alone(value) == Some(reader)) else { return };
    let Some(id) = graph[value].producer else { return };
    let node = &graph[id];
    if never_falls(&node.op) {
        swapped.push(id);
        collect(graph, node.input(0), id, alone, swapped);
    } else if matches!(node.op, Op::Concat { axis: 1 }) && !has_constant(graph, node) {
        swapped.push(id);
        for operand in node.operands() {
            collect(graph, Some(operand), id, alone, swapped);
        }
    }
}

fn has_constant(graph: &Graph, node: &Node) -> bool {
    node.operands().any(|operand| graph[operand].constant.is_some())
}

fn is_max_pool(node: &Node) -> bool {
    matches!(node.op, Op::Pool(Pool { kind: PoolKind::Max, .. }))
}

/// True for an activation that gives a larger number, or the same one, for a larger number.
fn never_falls(op: &Op) -> bool {
    match op {
        Op::Unary(Unary::Relu) => true,
        Op::Activation(Activation::LeakyRelu { alpha }) => (0.0..=1.0).contains(alpha),
        Op::Activation(Activation::Clip { min, max }) => {
            !min.zip(*max).is_some_and(|(min, max)| min > max)
        }
        _ => false,
    }
}

/// A graph that is made of an older one.
struct Rebuilt<'a> {
    old: &'a Graph,
    new: Graph,
    map: Vec<Option<ValueId>>,
}

impl Rebuilt<'_> {
    /// The new value of an old one.
    fn value(&mut self, old: ValueId) -> Result<ValueId> {
        if let Some(new) = self.map[old.index()] {
            return Ok(new);
        }
        let value = &self.old[old];
        let constant = value.constant.clone().ok_or_else(|| {
            quincunx_diag::Diagnostic::bug(format!("\"{}\" is read before it is made", value.name))
        })?;
        let new = self.new.add_constant(&value.name, constant)?;
        self.map[old.index()] = Some(new);
        Ok(new)
    }

    fn operands(&mut self, node: &Node) -> Result<Vec<Option<ValueId>>> {
        node.inputs.iter().map(|input| input.map(|id| self.value(id)).transpose()).collect()
    }

    /// The pooled value: nodes that come behind the pooling are applied to what is pooled of their
    /// operands. The last one has the pooling's result.
    fn pooled(
        &mut self,
        pool: &Node,
        value: Option<ValueId>,
        swapped: &[NodeId],
        last: bool,
    ) -> Result<ValueId> {
        let bug = || quincunx_diag::Diagnostic::bug("a pooling has no operand");
        let value = value.ok_or_else(bug)?;
        let before = self.old[value].producer.filter(|producer| swapped.contains(producer));
        let (name, op, inputs) = match before.map(|id| &self.old[id]) {
            None => {
                let name = format!("{} of {}", pool.name, self.old[value].name);
                (name, pool.op.clone(), vec![Some(self.value(value)?)])
            }
            Some(node) => {
                let mut inputs = Vec::with_capacity(node.inputs.len());
                for &operand in &node.inputs {
                    inputs.push(Some(self.pooled(pool, operand, swapped, false)?));
                }
                (node.name.clone(), node.op.clone(), inputs)
            }
        };
        let result = match last {
            true => self.old[pool.output].name.clone(),
            false => self.free_name(&format!("{} of {}", pool.name, self.old[value].name)),
        };
        let mut free = name;
        while self.new.node_named(&free).is_some()
            || (before.is_none() && self.old.node_named(&free).is_some())
        {
            free.push('_');
        }
        self.new.add_node(&free, op, &inputs, &result)
    }

    /// A name that no value has.
    fn free_name(&self, base: &str) -> String {
        let mut name = base.to_owned();
        while self.old.value_named(&name).is_some() || self.new.value_named(&name).is_some() {
            name.push('_');
        }
        name
    }
}

#[cfg(test)]
mod tests;
