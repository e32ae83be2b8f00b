//! The last step: only what the outputs need, under the names of the file.

use quincunx_diag::Result;
use quincunx_graph::{Graph, Op, ValueId};
use rustc_hash::FxHashMap;

/// The graph without nodes that no output needs. Outputs get these names: a value that is
/// computed is renamed, an input or constant, or a value that already is another output, is
/// copied by an `Identity`.
///
/// # Errors
/// None for a graph and names that the importer made.
pub(crate) fn finish(graph: &Graph, outputs: &[(String, ValueId)]) -> Result<Graph> {
    let names = renamed(graph, outputs);
    let live = live(graph, outputs);
    let mut new = Graph::new(graph.name.clone());
    let mut map = vec![None; graph.values().len()];
    for &id in graph.inputs() {
        let value = &graph[id];
        map[id.index()] =
            Some(new.add_input(&value.name, value.dtype, &value.shape, &value.symbols)?);
    }
    for (id, value) in graph.values().filter(|(id, _)| live[id.index()]) {
        if let Some(constant) = &value.constant {
            map[id.index()] = Some(new.add_constant(&value.name, constant.clone())?);
        }
    }
    for (_, node) in graph.nodes().filter(|(_, node)| live[node.output.index()]) {
        let inputs: Vec<_> = node.inputs.iter().map(|i| i.and_then(|i| map[i.index()])).collect();
        let name = names.get(&node.output).copied().unwrap_or(&graph[node.output].name);
        map[node.output.index()] =
            Some(new.add_node(&node.name, node.op.clone(), &inputs, name)?);
    }
    for (name, id) in outputs {
        let output = match new.value_named(name) {
            Some(output) => output,
            None => {
                let node = new.fresh_node_name(name);
                new.add_node(&node, Op::Identity, &[map[id.index()]], name)?
            }
        };
        new.add_output(output);
    }
    Ok(new)
}

/// New names of values: those of outputs. A value that has the name of its output keeps it.
fn renamed<'o>(graph: &Graph, outputs: &'o [(String, ValueId)]) -> FxHashMap<ValueId, &'o String> {
    let mut names = FxHashMap::default();
    let own = |(name, id): &&(String, ValueId)| graph[*id].name == **name;
    for (name, id) in outputs.iter().filter(own).chain(outputs.iter().filter(|o| !own(o))) {
        if graph[*id].producer.is_some() {
            names.entry(*id).or_insert(name);
        }
    }
    names
}

/// Which values an output needs.
fn live(graph: &Graph, outputs: &[(String, ValueId)]) -> Vec<bool> {
    let mut live = vec![false; graph.values().len()];
    outputs.iter().for_each(|(_, id)| live[id.index()] = true);
    let nodes: Vec<_> = graph.nodes().map(|(_, node)| node).collect();
    for node in nodes.iter().rev() {
        if live[node.output.index()] {
            node.operands().for_each(|operand| live[operand.index()] = true);
        }
    }
    live
}
