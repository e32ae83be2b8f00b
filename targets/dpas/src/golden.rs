//! The golden model: what each layer of a network is in this machine's arithmetic.
//!
//! Written from the meaning of the layers: no instruction, no kernel of the compiler, no arithmetic
//! of the simulators and no part of the graph's executors is used, but for the functions of `math`,
//! whose last bits are what the machine defines. Numerics say which nodes of the
//! graph are one layer; only the last of them has a result.
//!
//! Values are codes of 8 bits or floats (`floats`). With codes all layers but sums of two values are exact: whole numbers of a unit,
//! which are moved onto the grid of the result with one rounding, half to even. Only two values are
//! added in f32, and softmax is computed there.

mod departures;
mod finish;
mod floats;
mod layers;
mod numbers;
mod numerics;
mod operands;
mod pairs;
mod pools;
mod products;
mod softmax;
#[cfg(test)]
mod tests;

use layers::Layer;
use numbers::{Float, Form, Number};
use numerics::{Group, Layering};
use quincunx_contract::golden::{Departure, Layers, Values, Walk};
use quincunx_contract::{Golden, Numerics};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Graph, Node, Value, ValueId};
use quincunx_tensor::Tensors;
use std::collections::BTreeMap;

/// The golden model of a graph. All that numerics and graph say is checked here.
///
/// # Errors
/// `Q6190` for numerics that do not fit the graph.
pub(crate) fn prepare(graph: &Graph, numerics: &Numerics) -> Result<Box<dyn Golden>> {
    let machine = Machine::of(graph, numerics::layers(numerics, graph)?)?;
    Ok(Box::new(Model { walk: Walk::new(graph, machine)?, numerics: numerics.clone() }))
}

/// The golden model of a graph.
struct Model {
    walk: Walk<Machine>,
    numerics: Numerics,
}

impl Golden for Model {
    fn run(&self, inputs: &Tensors) -> Result<Tensors> {
        self.walk.run(inputs)
    }

    fn departures(&self, inputs: &Tensors) -> Result<Vec<Departure>> {
        departures::departures(&self.walk, &self.numerics, inputs)
    }
}

/// The layers of a graph, by results of its nodes.
struct Machine {
    /// Floats that inputs are rounded to; codes are made by layers.
    float: Option<Float>,
    steps: BTreeMap<ValueId, Step>,
}

/// What a node of the graph is for the machine.
struct Step {
    /// The layer, which is computed with its first node.
    layer: Option<Layer>,
    /// The result is the layer's.
    is_last: bool,
}

impl Machine {
    fn of(graph: &Graph, Layering { float, groups }: Layering) -> Result<Machine> {
        let entering = float.map_or(Form::Entering, Form::Floats);
        let inputs = graph.inputs().iter();
        let mut forms: BTreeMap<ValueId, Form> = inputs.map(|&id| (id, entering)).collect();
        let mut steps = BTreeMap::new();
        for Group { nodes, lanes, held } in groups {
            let nodes: Vec<&Node> = nodes.iter().map(|&id| &graph[id]).collect();
            let (Some(first), Some(last)) = (nodes.first(), nodes.last()) else { continue };
            let layer = Layer::new(graph, &nodes, &forms, (held, lanes));
            let layer = layer.map_err(|problem| problem.at(graph.place(first)))?;
            forms.insert(last.output, layer.form);
            for node in &nodes {
                let is_last = node.output == last.output;
                steps.insert(node.output, Step { layer: None, is_last });
            }
            steps.entry(first.output).and_modify(|step| step.layer = Some(layer));
        }
        for &output in graph.outputs() {
            if !forms.contains_key(&output) && graph[output].constant.is_none() {
                let name = &graph[output].name;
                return Err(misfit(format!("the output {name:?} is no result of a layer")));
            }
        }
        Ok(Machine { float, steps })
    }
}

impl Layers for Machine {
    type Number = Number;

    fn constant(&self, _value: &Value) -> Result<Option<Number>> {
        Ok(None)
    }

    fn input(&self, value: &Value, reals: &[f64]) -> Result<Number> {
        if let Some(float) = self.float {
            let rounded = reals.iter().map(|&real| float.round(real));
            return Ok(Number::Floats(rounded.collect()));
        }
        if let Some(bad) = reals.iter().find(|real| !real.is_finite()) {
            let name = value.name.escape_debug();
            let message = format!("input \"{name}\" holds {bad}, expected finite numbers");
            return Err(Diagnostic::invalid("Q6191", message));
        }
        Ok(Number::Entering(reals.into()))
    }

    fn layer(&self, node: &Node, values: &Values<'_, Number>) -> Result<Number> {
        let missing = |what: &str| Diagnostic::bug(format!("{what} of {:?}", node.name));
        let step = self.steps.get(&node.output).ok_or_else(|| missing("there is no layer"))?;
        let number = match &step.layer {
            Some(layer) => {
                let operand = |index| values.operand(node, index);
                layer.apply(&operand).ok_or_else(|| missing("a layer cannot read an operand"))?
            }
            None => {
                // A constant operand is no number here.
                let pending = (0..node.inputs.len()).find_map(|at| values.operand(node, at));
                match pending {
                    Some(Number::Pending(number)) => (**number).clone(),
                    _ => return Err(missing("a layer has ended before the last node")),
                }
            }
        };
        Ok(if step.is_last { number } else { Number::Pending(Box::new(number)) })
    }

    fn reals(&self, number: &Number) -> Option<Vec<f64>> {
        number.reals()
    }
}

/// Numerics that do not fit the graph.
fn misfit(what: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::invalid("Q6190", format!("the numerics do not fit the graph: {what}"))
}
