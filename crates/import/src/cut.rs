//! Cutting a model at named values, before anything else looks at its nodes.

#![deny(clippy::arithmetic_side_effects)]

use crate::inputs::unknown;
use crate::options::Options;
use crate::proto::{GraphProto, NodeProto, TensorTypeProto, TypeProto, ValueProto};
use crate::subgraph::reads;
use quincunx_diag::{Diagnostic, Result};
use rustc_hash::{FxHashMap, FxHashSet};

/// Makes the values that the options name the inputs and outputs of a graph, and drops every node
/// and input that the outputs do not need. Nothing happens when the options name none.
///
/// # Errors
/// `Q0415` for every name that is not a value of the graph, and for a constant as input.
pub(crate) fn cut(
    graph: &mut GraphProto,
    options: &Options,
) -> std::result::Result<(), Vec<Diagnostic>> {
    if options.inputs.is_empty() && options.outputs.is_empty() {
        return Ok(());
    }
    let problems = problems(graph, options);
    if !problems.is_empty() {
        return Err(problems);
    }
    let declared = declarations(graph);
    for name in &options.inputs {
        if detach(graph, name) {
            graph.input.push(declared.get(name).cloned().unwrap_or_else(|| float_value(name)));
        }
    }
    if !options.outputs.is_empty() {
        let value = |name: &String| declared.get(name).cloned().unwrap_or_else(|| bare(name));
        graph.output = options.outputs.iter().map(value).collect();
    }
    drop_unneeded(graph, options);
    Ok(())
}

fn problems(graph: &GraphProto, options: &Options) -> Vec<Diagnostic> {
    let constants = || graph.initializer.iter().filter_map(|tensor| tensor.name.as_deref());
    let inputs = graph.input.iter().filter_map(|input| input.name.as_deref());
    let computed = graph.node.iter().flat_map(|node| node.output.iter().map(String::as_str));
    let mut values: Vec<&str> = inputs.chain(computed).filter(|name| !name.is_empty()).collect();
    values.dedup();
    let known: FxHashSet<&str> = values.iter().copied().chain(constants()).collect();
    let fixed: FxHashSet<&str> = constants().collect();
    let check = |name: &String| -> Result<()> {
        match known.contains(name.as_str()) {
            true => Ok(()),
            false => Err(unknown("value", name, &values)),
        }
    };
    let is_free = |name: &String| -> Result<()> {
        match fixed.contains(name.as_str()) {
            true => Err(Diagnostic::usage("Q0415", format!("\"{name}\" is a constant"))
                .help("only values that are computed can become inputs")),
            false => Ok(()),
        }
    };
    let named = options.inputs.iter().chain(&options.outputs);
    named.map(check).chain(options.inputs.iter().map(is_free)).filter_map(Result::err).collect()
}

/// Types that the graph states, by name.
fn declarations(graph: &GraphProto) -> FxHashMap<String, ValueProto> {
    let stated = graph.value_info.iter().chain(&graph.input).chain(&graph.output);
    stated.filter_map(|value| Some((value.name.clone()?, value.clone()))).collect()
}

/// Takes a value from the node that computes it; false when none does.
fn detach(graph: &mut GraphProto, name: &str) -> bool {
    let outputs = graph.node.iter_mut().flat_map(|node| &mut node.output);
    let mut found = false;
    for output in outputs.filter(|output| *output == name) {
        output.clear();
        found = true;
    }
    found
}

fn bare(name: &str) -> ValueProto {
    ValueProto { name: Some(name.to_owned()), r#type: None }
}

/// A value of floats without a stated shape.
fn float_value(name: &str) -> ValueProto {
    let tensor = TensorTypeProto { elem_type: Some(1), shape: None };
    ValueProto { r#type: Some(TypeProto { tensor: Some(tensor) }), ..bare(name) }
}

/// Keeps the nodes that the outputs depend on, and the inputs that those read or the user named.
fn drop_unneeded(graph: &mut GraphProto, options: &Options) {
    let mut producers = FxHashMap::default();
    for (index, node) in graph.node.iter().enumerate() {
        producers.extend(node.output.iter().map(|output| (output.as_str(), index)));
    }
    let mut kept = vec![false; graph.node.len()];
    let mut read: FxHashSet<&str> = FxHashSet::default();
    let mut open: Vec<&str> = graph.output.iter().filter_map(|o| o.name.as_deref()).collect();
    while let Some(name) = open.pop() {
        if name.is_empty() || !read.insert(name) {
            continue;
        }
        if let Some(&producer) = producers.get(name)
            && !std::mem::replace(&mut kept[producer], true)
        {
            open.extend(reads(&graph.node[producer]));
        }
    }
    let wanted = |input: &ValueProto| {
        let name = input.name.as_deref().unwrap_or("");
        read.contains(name) || options.inputs.iter().any(|wanted| wanted == name)
    };
    let inputs: Vec<ValueProto> = graph.input.iter().filter(|i| wanted(i)).cloned().collect();
    graph.input = inputs;
    let nodes = std::mem::take(&mut graph.node).into_iter().zip(kept);
    graph.node = nodes.filter(|(_, kept)| *kept).map(|(node, _)| node).collect::<Vec<NodeProto>>();
}
