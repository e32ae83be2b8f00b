//! How far networks of floats depart from the machine's arithmetic when products are added or held
//! in other ways: each layer alone, from the same operands, and all layers together.

use super::numbers::{Float, Number};
use super::numerics::{Adding, Layering};
use super::{Machine, numerics};
use quincunx_contract::Numerics;
use quincunx_contract::golden::{Departure, Golden, Layers as _, Walk};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Graph, Node, Op};
use quincunx_tensor::{Tensor, Tensors};

/// Another way to compute.
#[derive(Clone, Copy)]
enum Way {
    Adding(Adding),
    /// Operands of another type.
    Type(Float),
}

impl Way {
    /// Those other than that of networks of a type, in words.
    fn others(float: Float) -> Vec<(Way, String)> {
        let mut ways = vec![
            (Way::Adding(Adding::Fused), "products are added with one rounding (fma)".to_owned()),
            (Way::Adding(Adding::Stages), "one rounding a stage (stage)".to_owned()),
            (Way::Adding(Adding::Exact), "one rounding an instruction (exact)".to_owned()),
            (Way::Adding(Adding::Flushed), "subnormal numbers are zero (ftz)".to_owned()),
        ];
        if float != Float::Tf32 {
            let text = format!("sums of 16 bits ({})", float.name());
            ways.push((Way::Adding(Adding::Rounded(float)), text));
        }
        for other in [Float::Bf16, Float::Fp16, Float::Tf32] {
            if other != float {
                ways.push((
                    Way::Type(other),
                    format!("{} in place of {}", other.name(), float.name()),
                ));
            }
        }
        ways
    }

    /// The layers of a network that computes so.
    fn apply(self, mut layering: Layering) -> Layering {
        let own = layering.float;
        for held in layering.groups.iter_mut().filter_map(|group| group.held.as_mut()) {
            match self {
                Way::Adding(adding) => held.adding = adding,
                Way::Type(float) if Some(held.stored) == own => held.stored = float,
                Way::Type(_) => {}
            }
        }
        if let Way::Type(float) = self {
            layering.float = Some(float);
        }
        layering
    }
}

/// The departures of every product of a network on these inputs, in the order of the graph; none of
/// networks of codes, whose sums are exact.
///
/// # Errors
/// As [`Golden::run`].
pub(super) fn departures(
    walk: &Walk<Machine>,
    content: &Numerics,
    inputs: &Tensors,
) -> Result<Vec<Departure>> {
    let graph = walk.graph();
    let Some(float) = walk.layers.float else { return Ok(Vec::new()) };
    let own = walk.run(inputs)?;
    let ways = Way::others(float).into_iter().map(|(way, what)| {
        let layering = way.apply(numerics::layers(content, graph)?);
        let other = Walk::new(graph, Machine::of(graph, layering)?)?;
        let together = other.run(inputs)?;
        Ok((other, together, what))
    });
    let ways: Vec<(Walk<Machine>, Tensors, String)> = ways.collect::<Result<_>>()?;
    let mut found = Vec::new();
    for group in numerics::layers(content, graph)?.groups {
        let nodes: Vec<&Node> = group.nodes.iter().map(|&id| &graph[id]).collect();
        let (Some(first), Some(last)) = (nodes.first(), nodes.last()) else { continue };
        if !matches!(first.op, Op::Conv(_) | Op::Gemm(_) | Op::MatMul) {
            continue;
        }
        let name = &graph[last.output].name;
        for (other, together, what) in &ways {
            let (alone, mean) = difference(&own[name], &result(other, &nodes, &own)?);
            found.push(Departure {
                node: first.name.clone(),
                what: what.clone(),
                alone,
                mean,
                together: difference(&own[name], &together[name]).0,
            });
        }
    }
    Ok(found)
}

/// The result of a layer computed in another way, from the numbers that the network has.
fn result(other: &Walk<Machine>, nodes: &[&Node], own: &Tensors) -> Result<Tensor> {
    let (graph, mut values): (&Graph, _) = (other.graph(), other.start());
    let mut last = None;
    for node in nodes {
        for id in node.operands() {
            if let (Some(tensor), true) = (own.get(&graph[id].name), values.get(id).is_none()) {
                other.give(&mut values, id, tensor)?;
            }
        }
        last = Some((node.output, other.compute(&mut values, node)?.clone()));
    }
    let bug = || Diagnostic::bug("a departure has no number");
    let (id, number): (_, Number) = last.ok_or_else(bug)?;
    let reals = other.layers.reals(&number).ok_or_else(bug)?;
    Tensor::from_vec(&graph[id].shape, reals)
}

/// Largest and mean difference; infinite where only one of two numbers is NaN.
fn difference(left: &Tensor, right: &Tensor) -> (f64, f64) {
    let one = |(left, right): (f64, f64)| match (left - right).abs() {
        _ if left == right || left.is_nan() && right.is_nan() => 0.0,
        apart if apart.is_nan() => f64::INFINITY,
        apart => apart,
    };
    let all: Vec<f64> = left.to_f64().into_iter().zip(right.to_f64()).map(one).collect();
    let largest = all.iter().copied().fold(0.0, f64::max);
    (largest, all.iter().sum::<f64>() / all.len().max(1) as f64)
}
