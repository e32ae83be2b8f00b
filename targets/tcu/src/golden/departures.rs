//! Where the numbers of `--rounding free` depart from those of upstream's compiler, and how far: the
//! network is computed both ways, and every departure once more alone, from the same operands.

use super::choices::Choices;
use super::{Arithmetic, Chosen, weights};
use quincunx_contract::Numerics;
use quincunx_contract::golden::{Departure, Golden, Walk};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Graph, Interpolation, Node, Op};
use quincunx_tensor::{Tensor, Tensors};
use serde_json::{Map, Value};

/// What is chosen for numbers alone: without it a product is upstream's.
const KEPT: &str = "positions";

/// The departures of a network on these inputs, in the order of the graph.
///
/// # Errors
/// As [`Golden::run`].
pub(super) fn departures<A: Arithmetic>(
    walk: &Walk<Chosen<A>>,
    numerics: &Numerics,
    inputs: &Tensors,
) -> Result<Vec<Departure>> {
    let graph = walk.graph();
    if walk.layers.choices.is_compat() {
        return Ok(Vec::new());
    }
    let uses = uses(graph, numerics, &walk.layers.choices)?;
    let choices = Choices::read(&compat(numerics), graph)?;
    let compat = Walk::new(graph, Chosen::<A>::new(graph, choices)?)?;
    let (free, reference) = (walk.run(inputs)?, compat.run(inputs)?);
    let mut found = Vec::new();
    for (node, what) in uses {
        let Some((nodes, name)) = shown(graph, node, &free) else { continue };
        let (alone, mean) = difference(&free[&name], &alone(&compat, &nodes, &free)?);
        found.push(Departure {
            node: node.name.clone(),
            what,
            alone,
            mean,
            together: difference(&free[&name], &reference[&name]).0,
        });
    }
    Ok(found)
}

/// The same numerics without any departure.
fn compat(numerics: &Numerics) -> Numerics {
    let mut value = numerics.0.clone();
    value["rounding"] = "compat".into();
    if let Some(all) = value.as_object_mut() {
        all.remove("means");
        all.remove("leaky_sums");
    }
    if let Some(nodes) = value.get_mut("nodes").and_then(Value::as_object_mut) {
        for choice in nodes.values_mut().filter_map(Value::as_object_mut) {
            choice.retain(|key, _| key == KEPT);
        }
    }
    Numerics(value)
}

/// Nodes that depart, with what is done there.
fn uses<'a>(
    graph: &'a Graph,
    numerics: &Numerics,
    choices: &Choices,
) -> Result<Vec<(&'a Node, String)>> {
    let chosen = numerics.0.get("nodes").and_then(Value::as_object);
    let mut uses = Vec::new();
    for (_, node) in graph.nodes() {
        let linear = matches!(&node.op, Op::Resize(r) if r.interpolation == Interpolation::Linear);
        if linear {
            uses.push((node, "weights of one element are added first".to_owned()));
        }
        if choices.leaky_sums.contains(&node.name) {
            uses.push((node, "a leaky ReLU is a sum".to_owned()));
        }
        if let Some(steps) = choices.means.get(&node.name) {
            uses.push((node, format!("a mean in {} steps", steps.len())));
        }
        let Some(choice) = chosen.and_then(|nodes| nodes.get(&node.name)?.as_object()) else {
            continue;
        };
        let what = describe(graph, node, choice, choices)?;
        if !what.is_empty() {
            uses.push((node, what.join(", ")));
        }
    }
    Ok(uses)
}

/// What the choices of a product change.
fn describe(
    graph: &Graph,
    node: &Node,
    choice: &Map<String, Value>,
    choices: &Choices,
) -> Result<Vec<String>> {
    let weights = weights::Weights::of_node(graph, choices, node)?;
    let blocks = weights.channels.div_ceil(choices.lanes);
    let number = |value: &Value| value.as_u64().expect("`Choices` has read it as a number");
    let list = |value: &Value| -> Vec<u64> {
        let list = value.as_array().expect("`Choices` has read it as a list");
        list.iter().map(number).collect()
    };
    let mut what = Vec::new();
    for (key, value) in choice.iter().filter(|(_, value)| !value.is_null()) {
        let text = match key.as_str() {
            "taps" => {
                let order = list(value);
                (!order.is_sorted()).then(|| format!("taps begin with {}", order[0]))
            }
            "chunk" => (number(value) < blocks as u64 && weights.taps > 1)
                .then(|| format!("{value} blocks at a time for all taps")),
            "bias" => {
                let place = list(value);
                let same = place == [0, blocks as u64 - 1];
                (!same).then(|| format!("bias in tap {}, block {}", place[0], place[1]))
            }
            "batch_norm" => value.as_str().map(|name| format!("folds {name}")),
            "offset" => value.as_str().map(|name| format!("takes in the offset of {name}")),
            "before" => value.as_str().map(|name| format!("takes in {name} before its ReLU")),
            "with" => value.as_str().map(|name| format!("sums {name} along")),
            "row" => Some(format!("{value} elements of a row of the kernel in a block")),
            "packed" => Some("packed input".to_owned()),
            "planes" => {
                Some(format!("channels in {} planes", value.as_array().map_or(0, Vec::len)))
            }
            KEPT => None,
            other => Some(other.to_owned()),
        };
        what.extend(text);
    }
    Ok(what)
}

/// The first number of the graph that a node's result becomes, and the nodes that compute it from
/// other numbers of the graph, in order.
fn shown<'a>(graph: &'a Graph, node: &'a Node, free: &Tensors) -> Option<(Vec<&'a Node>, String)> {
    let consumers = graph.consumers();
    let mut last = node;
    let mut within = vec![false; graph.nodes().len()];
    within[graph[node.output].producer?.index()] = true;
    while !free.contains_key(&graph[last.output].name) {
        let next = *consumers[last.output.index()].first()?;
        within[next.index()] = true;
        last = &graph[next];
    }
    // What only these nodes read is not a number of the graph either.
    for (id, node) in graph.nodes().rev() {
        if !within[id.index()] {
            continue;
        }
        let hidden = node.operands().filter(|&id| !free.contains_key(&graph[id].name));
        for producer in hidden.filter_map(|id| graph[id].producer) {
            within[producer.index()] = true;
        }
    }
    let nodes = graph.nodes().filter(|(id, _)| within[id.index()]).map(|(_, node)| node);
    Some((nodes.collect(), graph[last.output].name.clone()))
}

/// The result of the last of some nodes without departures; what they read besides each other are
/// numbers of the network.
fn alone<A: Arithmetic>(
    compat: &Walk<Chosen<A>>,
    nodes: &[&Node],
    free: &Tensors,
) -> Result<Tensor> {
    let (graph, mut values) = (compat.graph(), compat.start());
    let mut last = None;
    for node in nodes {
        for id in node.operands() {
            if let Some(tensor) = free.get(&graph[id].name) {
                compat.give(&mut values, id, tensor)?;
            }
        }
        last = Some((node.output, compat.compute(&mut values, node)?.scalars.clone()));
    }
    let bug = || Diagnostic::bug("a departure has no node");
    let (id, scalars) = last.ok_or_else(bug)?;
    let decode = |&scalar: &i32| compat.layers.choices.data_type.decode(scalar);
    Tensor::from_vec(&graph[id].shape, scalars.data.iter().map(decode).collect::<Vec<f64>>())
}

/// Largest and mean difference.
fn difference(left: &Tensor, right: &Tensor) -> (f64, f64) {
    let pairs = left.to_f64().into_iter().zip(right.to_f64());
    let all: Vec<f64> = pairs.map(|(left, right)| (left - right).abs()).collect();
    let largest = all.iter().copied().fold(0.0, f64::max);
    (largest, all.iter().sum::<f64>() / all.len().max(1) as f64)
}
