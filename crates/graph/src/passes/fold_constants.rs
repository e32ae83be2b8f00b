//! Computing at compile time what depends on constants only.

use super::rewrite::Rewrite;
use crate::execute::{Keep, exact, float};
use crate::{Constant, Graph, Node, Op, PadMode, ValueId};
use quincunx_diag::Result;
use quincunx_tensor::{Tensor, Tensors};

/// Largest result that is folded, and most work that is done for one: 16 Mi elements or products.
/// Files must not make a compiler compute for long.
const MAX_WORK: usize = 1 << 24;

/// Replaces every node whose operands are all constant by a constant.
///
/// A quantiser of a constant becomes codes, rounded exactly; operators that only move elements
/// keep the codes; everything else is computed in f32. A node that cannot be computed stays.
///
/// # Errors
/// None for a graph that verifies.
pub fn fold_constants(graph: &Graph) -> Result<Graph> {
    let mut rewrite = Rewrite::new(graph)?;
    for (_, node) in graph.nodes() {
        let inputs = rewrite.operands(node)?;
        let constant = inputs.iter().flatten().all(|&id| rewrite.new[id].constant.is_some());
        let elements = graph[node.output].shape.iter().product::<usize>();
        let small = elements <= MAX_WORK && graph.work(node) <= MAX_WORK as u64;
        let folded = if constant && small { fold(&rewrite.new, node, &inputs) } else { None };
        match folded {
            Some(constant) => {
                let id = rewrite.new.add_constant(&graph[node.output].name, constant)?;
                rewrite.replace(node.output, id);
            }
            None => rewrite.emit(node, node.op.clone(), &inputs)?,
        }
    }
    super::remove_dead(&rewrite.finish()?)
}

/// The constant a node computes, if it can be computed.
fn fold(graph: &Graph, node: &Node, inputs: &[Option<ValueId>]) -> Option<Constant> {
    let first = graph[(*inputs.first()?)?].constant.as_ref()?;
    match &node.op {
        Op::Quantise(quantiser) => codes_of(first, quantiser),
        // The numbers that are attributes of others are not codes.
        op if moves_codes(op) => move_elements(first, node),
        _ => compute(graph, node, inputs),
    }
}

/// The result of a node in f32, by the executor on a graph of this one node.
fn compute(graph: &Graph, node: &Node, inputs: &[Option<ValueId>]) -> Option<Constant> {
    let mut single = Graph::new("");
    let mut operands = Vec::new();
    for (index, input) in inputs.iter().enumerate() {
        let constant = input.and_then(|id| graph[id].constant.clone());
        let operand = constant.map(|c| single.add_constant(&format!("operand{index}"), c));
        operands.push(operand.transpose().ok()?);
    }
    let output = single.add_node("node", node.op.clone(), &operands, "result").ok()?;
    single.add_output(output);
    let mut results = float(&single, &Tensors::new(), Keep::Outputs).ok()?;
    Some(results.remove("result")?.into())
}

/// Codes of a constant, rounded exactly.
fn codes_of(operand: &Constant, quantiser: &crate::Quantiser) -> Option<Constant> {
    let mut graph = Graph::new("");
    let x = graph.add_constant("x", operand.clone()).ok()?;
    let codes =
        graph.add_node("codes", Op::ToCodes(quantiser.clone()), &[Some(x)], "codes").ok()?;
    graph.add_output(codes);
    let results = exact(&graph, &Tensors::new(), Keep::Outputs).ok()?;
    let integers = results.get("codes")?.integers();
    let codes = integers.iter().map(|v| i64::try_from(v).ok()).collect::<Option<Vec<_>>>()?;
    let tensor = Tensor::from_vec(operand.tensor.shape(), codes).ok()?;
    Some(Constant { tensor, quantiser: Some(quantiser.clone()) })
}

/// True for operators whose result is made of elements of their one operand.
fn moves_codes(op: &Op) -> bool {
    match op {
        Op::Pad(pad) => !matches!(pad.mode, PadMode::Constant(_)),
        Op::Resize(resize) => resize.keeps_grid(),
        op => op.only_moves() && op.arity().1 == 1,
    }
}

/// Moves codes or numbers, whatever they mean.
fn move_elements(operand: &Constant, node: &Node) -> Option<Constant> {
    if operand.quantiser.as_ref().is_some_and(|q| !q.is_uniform()) && node.op != Op::Identity {
        return None;
    }
    let mut graph = Graph::new("");
    let x = graph.add_constant("x", operand.tensor.clone()).ok()?;
    let y = graph.add_node("move", node.op.clone(), &[Some(x)], "y").ok()?;
    graph.add_output(y);
    let tensor = float(&graph, &Tensors::new(), Keep::Outputs).ok()?.remove("y")?;
    Some(Constant { tensor, quantiser: operand.quantiser.clone() })
}

/// Checks that folding touches only what it may; used by tests of this crate.
#[cfg(test)]
fn is_folded(graph: &Graph) -> bool {
    graph.nodes().all(|(_, node)| node.operands().any(|o| graph[o].constant.is_none()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Binary, Quantiser, Unary};
    use quincunx_tensor::DType;

    #[test]
    fn folds_what_is_constant_and_keeps_the_rest() {
        let mut graph = Graph::new("g");
        let x = graph.add_input("x", DType::F32, &[2], &[]).unwrap();
        let a =
            graph.add_constant("a", Tensor::from_vec(&[2], vec![1.0_f32, -2.0]).unwrap()).unwrap();
        let b = graph.add_node("relu", Op::Unary(Unary::Relu), &[Some(a)], "b").unwrap();
        let y = graph.add_node("add", Op::Binary(Binary::Add), &[Some(x), Some(b)], "y").unwrap();
        graph.add_output(y);
        let folded = fold_constants(&graph).unwrap();
        assert!(is_folded(&folded) && folded.verify().is_empty());
        assert_eq!(folded.nodes().len(), 1);
        let b = &folded[folded.value_named("b").unwrap()];
        assert_eq!(b.constant.as_ref().unwrap().tensor.to_f64(), [1.0, 0.0]);
    }

    #[test]
    fn a_quantised_constant_becomes_codes() {
        let mut graph = Graph::new("g");
        let a = graph
            .add_constant("a", Tensor::from_vec(&[3], vec![0.3_f32, -9.0, 0.25]).unwrap())
            .unwrap();
        let q = Quantiser::symmetric(true, 3, 0.5);
        let y = graph.add_node("q", Op::Quantise(q.clone()), &[Some(a)], "y").unwrap();
        graph.add_output(y);
        let folded = fold_constants(&graph).unwrap();
        let constant = folded[folded.value_named("y").unwrap()].constant.clone().unwrap();
        assert_eq!(constant.tensor.to_i64().unwrap(), [1, -4, 0]);
        assert_eq!(constant.quantiser, Some(q));
    }
}
