//! Random graphs of what a machine takes, and machines of the peer's programs.

#[path = "../../../src/compile/frontend/tests/random/generator.rs"]
mod generator;

pub(crate) use generator::{Generator, Random};

use quincunx_contract::Claim;
use quincunx_graph::{Graph, ValueId};
use quincunx_tcu::TcuArch;
use quincunx_tensor::{Tensor, Tensors};
use std::collections::BTreeMap;

/// A machine of the peer's programs.
pub(crate) fn of_peer(name: &str) -> TcuArch {
    let cases = super::golden("compiled_models.json");
    let case = cases.as_array().unwrap().iter().find(|case| case["arch"] == name);
    super::arch(&case.unwrap()["arch_params"])
}

/// True if the machine takes the node that makes a value.
fn is_taken(graph: &Graph, arch: &TcuArch, value: ValueId) -> bool {
    let claims = crate::common::claim(graph, arch);
    let mut taken = graph.nodes().zip(&claims);
    taken.any(|((_, node), claim)| node.output == value && *claim == Claim::Device)
}

/// A graph, and numbers for its inputs.
pub(crate) fn random_graph(seed: u64, arch: &TcuArch) -> (Graph, Tensors) {
    let (random, graph) = (Random(seed), Graph::new("random"));
    let mut generator =
        Generator { random, graph, arch: arch.clone(), count: 0, used: BTreeMap::new() };
    generator.build();
    let Generator { graph, mut random, .. } = generator;
    let values = graph.inputs().iter().map(|&id| &graph[id]);
    let inputs = values.map(|value| (value.name.clone(), tensor(&value.shape, &mut random)));
    let inputs = inputs.collect();
    (graph, inputs)
}

/// Random numbers of this shape.
pub(crate) fn tensor(shape: &[usize], random: &mut Random) -> Tensor {
    let reals = (0..shape.iter().product()).map(|_| random.real()).collect();
    Tensor::from_vec::<f32>(shape, reals).unwrap()
}
