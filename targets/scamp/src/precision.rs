//! What the array rounds.

use quincunx_contract::Numerics;
use quincunx_graph::execute::bounds::{Precision, Step};
use quincunx_graph::{Graph, Node, Op};

/// Weights are whole numbers of units of a kernel's own depth; what is compared with, and biases on the
/// array, are whole numbers of units of the scale, and so are frames of 8 bits. All else is exact.
pub(crate) fn precision(graph: &Graph, node: &Node, numerics: &Numerics) -> Precision {
    let unit = |places: &serde_json::Value| {
        places.as_i64().map_or(0.0, |places| 2.0_f64.powi(-places.clamp(-64, 64) as i32))
    };
    let scale = unit(&numerics.0["scale"]);
    let (constants, bias) = match &node.op {
        Op::Conv(_) => (unit(&numerics.0["depths"][&node.name]), scale),
        Op::Compare(_) => (scale, 0.0),
        _ => (0.0, 0.0),
    };
    let leaves = numerics.0["readout"] == "8bit" && graph.outputs().contains(&node.output);
    let frame = if leaves { scale } else { 0.0 };
    Precision {
        constants: Step::grid(constants),
        sums: Step::NONE,
        results: Step::grid(bias + frame),
        range: leaves.then(|| [-128.0, 127.0].map(|code| code * scale)),
    }
}
