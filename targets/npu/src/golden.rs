//! The golden model: what each layer of a network is in this machine's arithmetic.
//!
//! Written from the meaning of the layers: no instruction, no layer of the compiler, no arithmetic
//! of the simulators and no part of the graph's executors is used. Numerics say which nodes of the
//! graph are one layer; only the last of them has a result. Facts: `gemini`; where it is silent
//! (roundings, ties) they are ours, as in `simulate`.
//!
//! Values are codes of 8 bits or halves. A convolution sums exactly, scales the sum in f32 with one
//! rounding per step, and moves it onto the grid of its result.

mod functions;
mod layers;
mod numbers;
mod numerics;
mod pools;
mod products;
#[cfg(test)]
mod tests;

use layers::{Layer, Step};
use numbers::{Form, Number};
use quincunx_contract::golden::{Layers, Values, Walk};
use quincunx_contract::{Golden, Numerics};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Graph, Node, Value, ValueId};
use std::collections::BTreeMap;

/// The golden model of a graph. All that numerics and graph say is checked here.
///
/// # Errors
/// `Q4096` for numerics that do not fit the graph.
pub(crate) fn prepare(graph: &Graph, numerics: &Numerics) -> Result<Box<dyn Golden>> {
    Ok(Box::new(Walk::new(graph, Machine::new(graph, numerics)?)?))
}

/// The layers of a graph, by results of its nodes.
struct Machine {
    steps: BTreeMap<ValueId, Step>,
    /// Inputs are rounded to halves where they enter.
    half_inputs: bool,
}

impl Machine {
    fn new(graph: &Graph, numerics: &Numerics) -> Result<Machine> {
        let numerics::Layering { groups, half_inputs } = numerics::layering(numerics, graph)?;
        let form = if half_inputs { Form::Halves } else { Form::Reals };
        let mut forms: BTreeMap<ValueId, Form> =
            graph.inputs().iter().map(|&id| (id, form)).collect();
        let mut steps = BTreeMap::new();
        for group in groups {
            let nodes: Vec<&Node> = group.iter().map(|&id| &graph[id]).collect();
            let [first, rest @ ..] = &nodes[..] else { continue };
            let layer = Layer::new(graph, &nodes, &forms);
            let layer = layer.map_err(|problem| problem.at(graph.place(first)))?;
            let last = rest.last().unwrap_or(first).output;
            forms.insert(last, layer.form);
            steps.insert(first.output, Step::First { layer, is_last: rest.is_empty() });
            for node in rest {
                steps.insert(node.output, Step::Passed { is_last: node.output == last });
            }
        }
        for &output in graph.outputs() {
            if !forms.contains_key(&output) && graph[output].constant.is_none() {
                let name = &graph[output].name;
                return Err(misfit(format!("the output {name:?} is no result of a layer")));
            }
        }
        Ok(Machine { steps, half_inputs })
    }
}

impl Layers for Machine {
    type Number = Number;

    fn constant(&self, _value: &Value) -> Result<Option<Number>> {
        Ok(None)
    }

    fn input(&self, value: &Value, reals: &[f64]) -> Result<Number> {
        if let Some(bad) = reals.iter().find(|real| !real.is_finite()) {
            let name = value.name.escape_debug();
            let message = format!("input \"{name}\" holds {bad}, expected finite numbers");
            return Err(Diagnostic::invalid("Q4097", message));
        }
        Ok(match self.half_inputs {
            true => Number::Halves(reals.iter().map(|&real| numbers::entering(real)).collect()),
            false => Number::Reals(reals.into()),
        })
    }

    fn layer(&self, node: &Node, values: &Values<'_, Number>) -> Result<Number> {
        let operand = |index| {
            let missing = || Diagnostic::bug("a layer reads what no layer computes");
            values.operand(node, index).ok_or_else(missing)
        };
        let missing = || Diagnostic::bug(format!("no layer has the node {:?}", node.name));
        let (number, is_last) = match self.steps.get(&node.output).ok_or_else(missing)? {
            Step::First { layer, is_last } => (layer.apply(&operand)?, *is_last),
            // A constant operand is no number here.
            Step::Passed { is_last } => {
                match (0..node.inputs.len()).find_map(|at| operand(at).ok()) {
                    Some(Number::Pending(number)) => ((**number).clone(), *is_last),
                    _ => return Err(Diagnostic::bug("a layer has ended before its last node")),
                }
            }
        };
        Ok(if is_last { number } else { Number::Pending(Box::new(number)) })
    }

    fn reals(&self, number: &Number) -> Option<Vec<f64>> {
        number.reals()
    }
}

/// Numerics that do not fit the graph.
fn misfit(what: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::invalid("Q4096", format!("the numerics do not fit the graph: {what}"))
}
