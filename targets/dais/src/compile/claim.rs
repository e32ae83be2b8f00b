//! Which nodes the machine takes, and why not the others.

use super::layers::average_divisor;
use quincunx_graph::{Binary, Graph, Node, Op, Pool, PoolKind, Quantiser, ValueId};
use quincunx_num::Dyadic;
use quincunx_target::Claim;
use quincunx_tensor::element_count;

/// Layers with more multiplications are not unrolled: every one becomes several operations.
const MAX_MACS: u64 = 1 << 24;

/// Values with more elements are not unrolled.
const MAX_ELEMENTS: usize = 1 << 20;

/// One claim per node.
pub(crate) fn claim(graph: &Graph) -> Vec<Claim> {
    // A value is bounded when its numbers lie on a grid the machine knows.
    let mut bounded: Vec<bool> =
        graph.values().map(|(_, value)| value.constant.is_some()).collect();
    let encodings = encodings(graph);
    graph
        .nodes()
        .map(|(_, node)| match refusal(graph, node, &bounded, &encodings) {
            None => {
                bounded[node.output.index()] = true;
                Claim::Device
            }
            Some(reason) => Claim::Host(reason),
        })
        .collect()
}

/// The quantiser by which the driver encodes an input of the program: that of the first node that
/// quantises it.
pub(crate) fn input_quantiser(graph: &Graph, input: ValueId) -> Option<&Quantiser> {
    encodings(graph)[input.index()]
}

fn encodings(graph: &Graph) -> Vec<Option<&Quantiser>> {
    let mut first = vec![None; graph.values().len()];
    for (_, node) in graph.nodes() {
        if let (Op::Quantise(quantiser), Some(x)) = (&node.op, node.input(0))
            && quantiser.is_fixed_point()
            && first[x.index()].is_none()
        {
            first[x.index()] = Some(quantiser);
        }
    }
    first
}

/// Why the machine does not take a node; `None` when it does.
fn refusal(
    graph: &Graph,
    node: &Node,
    bounded: &[bool],
    encodings: &[Option<&Quantiser>],
) -> Option<String> {
    let output = &graph[node.output];
    if !output.dtype.is_float() {
        return Some(format!("its result is {}, not a real number", output.dtype));
    }
    let macs = graph.macs(node);
    let elements = element_count(&output.shape).unwrap_or(usize::MAX);
    if macs > MAX_MACS || elements > MAX_ELEMENTS {
        return Some(format!(
            "unrolling {macs} multiplications and {elements} results is too large; up to {MAX_MACS} and {MAX_ELEMENTS} are taken"
        ));
    }
    if let Op::Quantise(quantiser) = &node.op {
        return refuse_quantiser(graph, node, quantiser, bounded, encodings);
    }
    let open = node.operands().find(|operand| !bounded[operand.index()]);
    if let Some(open) = open {
        return Some(format!(
            "its operand \"{}\" is not quantised on the machine",
            graph[open].name
        ));
    }
    let constant = |index: usize| node.input(index).is_none_or(|id| graph[id].constant.is_some());
    match &node.op {
        Op::Conv(_) if !constant(1) || !constant(2) => {
            Some("its weights are not constant".to_owned())
        }
        Op::Pool(pool) => refuse_average(graph, node, pool),
        Op::GlobalAveragePool => {
            let x = node.input(0)?;
            refuse_divisor(element_count(&graph[x].shape[2..]).unwrap_or(0))
        }
        Op::Binary(Binary::Div) => refuse_division(graph, node),
        Op::BatchNorm(_) => Some("a batch normalisation needs a square root; fold it".to_owned()),
        Op::FromCodes(_) => {
            Some("integer codes do not enter a program; real numbers do".to_owned())
        }
        _ => None,
    }
}

fn refuse_quantiser(
    graph: &Graph,
    node: &Node,
    quantiser: &Quantiser,
    bounded: &[bool],
    encodings: &[Option<&Quantiser>],
) -> Option<String> {
    if !quantiser.is_fixed_point() {
        return Some(
            "its scale is not a power of two or its zero point is not 0; quantise with the scheme pow2".to_owned(),
        );
    }
    let x = node.input(0)?;
    if !bounded[x.index()] && encodings[x.index()] != Some(quantiser) {
        return Some(format!(
            "its operand \"{}\" already enters the machine on another grid",
            graph[x].name
        ));
    }
    None
}

fn refuse_average(graph: &Graph, node: &Node, pool: &Pool) -> Option<String> {
    if pool.kind == PoolKind::Max {
        return None;
    }
    let input = &graph[node.input(0)?].shape[2..];
    let output = &graph[node.output].shape[2..];
    // Positions differ only in how much padding they see, so corners and centre say it all; the
    // full walk is bounded by the limit on elements.
    let mut out = vec![0; output.len()];
    loop {
        if let Some(reason) = refuse_divisor(average_divisor(pool, &out, input)) {
            return Some(reason);
        }
        let mut axis = output.len();
        loop {
            if axis == 0 {
                return None;
            }
            axis -= 1;
            out[axis] += 1;
            if out[axis] < output[axis] {
                break;
            }
            out[axis] = 0;
        }
    }
}

fn refuse_divisor(divisor: usize) -> Option<String> {
    (!divisor.is_power_of_two())
        .then(|| format!("it averages {divisor} numbers, and {divisor} is not a power of two"))
}

fn refuse_division(graph: &Graph, node: &Node) -> Option<String> {
    let Some(constant) = node.input(1).and_then(|id| graph[id].constant.as_ref()) else {
        return Some("its divisor is not constant".to_owned());
    };
    let magnitudes = constant.tensor.to_f64();
    let power = |v: &f64| Dyadic::from_f64(v.abs()).is_some_and(|d| d.log2().is_some());
    (constant.quantiser.is_some() || !magnitudes.iter().all(power))
        .then(|| "its divisor is not a constant power of two".to_owned())
}
