//! Random graphs of everything that is claimed.

mod generator;
mod judges;

use super::{both_values, network_of};
use crate::TcuArch;
use crate::arch::DataType;
use crate::compile::frontend::{Choices, Freedom, ProductNumbers, refusal};
use generator::{Generator, Random};
use quincunx_graph::{Graph, ValueId};
use std::collections::BTreeMap;

/// True if the machine takes the node that makes a value.
fn is_taken(graph: &Graph, arch: &TcuArch, value: ValueId) -> bool {
    graph[value].producer.is_some_and(|node| refusal(graph, arch, &graph[node]).is_none())
}

#[test]
fn layers_mean_what_the_graph_means() {
    let mut used = BTreeMap::new();
    let (mut compared, mut in_parts, mut folded, mut unflattened) = (0, 0, 0, 0);
    for seed in 0..600 {
        let mut arch = TcuArch::preset("pynqz1").unwrap();
        let mut random = Random(seed);
        arch.array_size = random.range(2, 9) as u32;
        arch.data_type = if seed % 5 == 0 { DataType::Float32 } else { DataType::Fp32bp16 };
        let graph = Graph::new("random");
        let mut generator = Generator { random, graph, arch, count: 0, used };
        generator.build();
        used = generator.used;
        let (graph, arch) = (generator.graph, generator.arch);
        if graph.outputs().is_empty() {
            continue;
        }
        let freedom = if seed % 2 == 0 { Freedom::Compat } else { Freedom::Free };
        let lowered = network_of(&graph, &arch, &Choices { freedom });
        let chosen = |of: fn(&ProductNumbers) -> bool| {
            lowered.numbers.values().filter(|numbers| of(numbers)).count()
        };
        in_parts += chosen(|numbers| numbers.planes.is_some());
        folded += chosen(|numbers| numbers.batch_norm.is_some());
        unflattened += chosen(|numbers| numbers.positions.is_some());
        for (name, got, expected) in both_values(&graph, &arch, &lowered.network, seed) {
            let size = expected.iter().fold(0.0_f64, |size, v| size.max(v.abs()));
            if size > 500.0 {
                continue;
            }
            compared += 1;
            for (got, expected) in got.iter().zip(&expected) {
                let near = (got - expected).abs() <= 2e-3 * (1.0 + size);
                assert!(near, "seed {seed}, {name}: {got} {expected}\n{graph}");
            }
        }
    }
    assert!(compared > 5000, "{compared}");
    let choices = [in_parts, folded, unflattened];
    assert!(choices.iter().all(|&count| count > 5), "{choices:?}");
    assert!(used.len() >= 28, "{used:?}");
}
