//! Checks the invariants of a graph without trusting whoever built it.

#![deny(clippy::arithmetic_side_effects)]

use crate::infer::infer;
use crate::{Graph, Node, Quantiser, Value};
use quincunx_diag::Diagnostic;
use std::collections::BTreeSet;

impl Graph {
    /// Checks every invariant of [`Graph`]; an empty list means it holds.
    pub fn verify(&self) -> Vec<Diagnostic> {
        let mut problems = Vec::new();
        let mut known = vec![false; self.values().len()];
        let inputs: BTreeSet<_> = self.inputs().iter().copied().collect();
        let mut names = BTreeSet::new();
        for (id, value) in self.values() {
            if !names.insert(&value.name) {
                problems.push(broken(format!("two values are named \"{}\"", value.name)));
            }
            known[id.index()] = value.producer.is_none();
            check_constant(value, &mut problems);
            let is_input = inputs.contains(&id);
            if is_input != (value.producer.is_none() && value.constant.is_none()) {
                problems.push(broken(format!(
                    "\"{}\" must be exactly one of input, constant or result",
                    value.name
                )));
            }
        }
        let mut node_names = BTreeSet::new();
        for (id, node) in self.nodes() {
            if !node_names.insert(&node.name) {
                problems.push(broken(format!("two nodes are named \"{}\"", node.name)));
            }
            if node.operands().any(|operand| !known[operand.index()]) {
                problems
                    .push(broken("an operand is computed later".to_owned()).at(self.place(node)));
            }
            if self[node.output].producer != Some(id) {
                problems.push(
                    broken("the result names another producer".to_owned()).at(self.place(node)),
                );
            }
            known[node.output.index()] = true;
            self.check_result(node, &mut problems);
        }
        for &output in self.outputs() {
            if !known[output.index()] {
                problems
                    .push(broken(format!("output \"{}\" is never computed", self[output].name)));
            }
        }
        problems
    }

    fn check_result(&self, node: &Node, problems: &mut Vec<Diagnostic>) {
        let output = &self[node.output];
        match infer(self, &node.op, &node.inputs) {
            Ok((dtype, shape)) if dtype == output.dtype && shape == output.shape => {}
            Ok((dtype, shape)) => problems.push(
                broken(format!(
                    "result is declared {}{:?}, inferred {dtype}{shape:?}",
                    output.dtype, output.shape
                ))
                .at(self.place(node)),
            ),
            Err(problem) => problems.push(problem.at(self.place(node))),
        }
    }
}

fn check_constant(value: &Value, problems: &mut Vec<Diagnostic>) {
    let Some(constant) = &value.constant else {
        return;
    };
    if constant.tensor.shape() != &value.shape[..] {
        problems
            .push(broken(format!("constant \"{}\" has another shape than its value", value.name)));
    }
    if let Some(quantiser) = &constant.quantiser {
        check_codes(value, constant.tensor.to_i64(), quantiser, problems);
    }
}

/// Codes must be integers within the width of their quantiser.
fn check_codes(
    value: &Value,
    codes: Option<Vec<i64>>,
    quantiser: &Quantiser,
    problems: &mut Vec<Diagnostic>,
) {
    let (Some(codes), Some(scalars)) = (codes, quantiser.scalars(&value.shape)) else {
        problems.push(broken(format!("codes of \"{}\" do not fit their quantiser", value.name)));
        return;
    };
    let outside = codes.iter().zip(&scalars).position(|(&code, scalar)| {
        let (low, high) = scalar.range();
        !(low..=high).contains(&code.into())
    });
    if let Some(index) = outside {
        problems.push(broken(format!(
            "code {} of \"{}\" (element {index}) is outside the range of its quantiser",
            codes[index], value.name
        )));
    }
}

fn broken(message: String) -> Diagnostic {
    Diagnostic::invalid("Q0309", message)
}
