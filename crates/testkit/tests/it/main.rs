//! The kit itself.

use quincunx_testkit::{Coverage, Random, Recipe};

/// Graphs with and without grids together have every operator.
#[test]
fn every_operator_comes() {
    let mut coverage = Coverage::default();
    for case in 0..400 {
        for grids in [None, Some([8, 4]), Some([16, 16])] {
            let recipe = Recipe { grids, ..Recipe::REAL };
            let (graph, inputs) = recipe.graph(&mut Random::new(case));
            assert_eq!(graph.verify(), [], "case {case}\n{graph}");
            assert_eq!(inputs.len(), graph.inputs().len());
            assert!(!graph.outputs().is_empty());
            coverage.mark(&graph);
        }
    }
    assert_eq!(coverage.never(), "");
    coverage.assert_modes();
}

/// The same case is the same graph.
#[test]
fn graphs_are_reproducible() {
    let graph = || Recipe::REAL.graph(&mut Random::new(5));
    let ((a, x), (b, y)) = (graph(), graph());
    assert_eq!((a.to_string(), x), (b.to_string(), y));
}
