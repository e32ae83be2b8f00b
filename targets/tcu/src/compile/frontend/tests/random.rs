//! Random graphs of everything that is claimed.

use super::{both_values, network_of};
use crate::TcuArch;
use crate::arch::DataType;
use crate::compile::frontend::{Choices, Freedom, ProductNumbers, refusal};
use quincunx_testkit::{Coverage, Random, Recipe};

#[test]
fn layers_mean_what_the_graph_means() {
    let mut coverage = Coverage::default();
    let (mut compared, mut in_parts, mut folded, mut unflattened) = (0, 0, 0, 0);
    for case in 0..2000 {
        let mut arch = TcuArch::preset("pynqz1").unwrap();
        let mut random = Random::new(case);
        arch.array_size = random.range(2, 9);
        arch.data_type = if case % 5 == 0 { DataType::Float32 } else { DataType::FP32BP16 };
        let accept = |graph: &_, node: &_| refusal(graph, &arch, None, node).is_none();
        let recipe = Recipe { layers: [8, 24], accept: &accept, ..Recipe::REAL };
        let (graph, _) = recipe.graph(&mut random);
        coverage.mark(&graph);
        let freedom = if case % 2 == 0 { Freedom::Compat } else { Freedom::Free };
        let lowered = network_of(&graph, &arch, &Choices::of(freedom));
        let chosen = |of: fn(&ProductNumbers) -> bool| {
            lowered.numbers.values().filter(|numbers| of(numbers)).count()
        };
        in_parts += chosen(|numbers| numbers.planes.is_some());
        folded += chosen(|numbers| numbers.batch_norm.is_some() || numbers.offset.is_some());
        unflattened += chosen(|numbers| numbers.positions.is_some());
        for (name, got, expected) in both_values(&graph, &arch, &lowered.network, &mut random) {
            let size = expected.iter().fold(0.0_f64, |size, v| size.max(v.abs()));
            if size > 500.0 {
                continue;
            }
            compared += 1;
            for (got, expected) in got.iter().zip(&expected) {
                let near = (got - expected).abs() <= 2e-3 * (1.0 + size);
                assert!(near, "case {case}, {name}: {got} {expected}\n{graph}");
            }
        }
    }
    assert!(compared > 5000, "{compared}");
    let choices = [in_parts, folded, unflattened];
    assert!(choices.iter().all(|&count| count > 5), "{choices:?}");
    assert!(coverage.came().split(' ').count() >= 33, "{}", coverage.came());
}
