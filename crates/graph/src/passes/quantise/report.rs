//! What was done, and how much was lost.

use crate::execute::Session;
use crate::{Graph, Quantiser, ValueId};
use quincunx_diag::Result;
use quincunx_tensor::Tensors;

/// A quantised graph and how it came about.
#[derive(Clone, Debug)]
pub struct Quantised {
    /// The graph.
    pub graph: Graph,
    /// Inputs, then nodes, that something was done to or that were skipped; in order.
    pub layers: Vec<Layer>,
}

/// What was done to an input or node.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Name of the node or input.
    pub name: String,
    /// Operator; `input` for an input.
    pub op: &'static str,
    /// It was left float as the recipe says.
    pub skipped: bool,
    /// The grid of its result.
    pub activation: Option<ActivationGrid>,
    /// The grids of its constant operands, in order.
    pub parameters: Vec<ParameterGrid>,
}

/// The grid of a value.
#[derive(Clone, Debug)]
pub struct ActivationGrid {
    /// Name of the value in the float graph.
    pub value: String,
    /// Name of the value on the grid in the quantised graph.
    pub quantised: String,
    /// Lowest number that was observed; of all values that share the grid.
    pub low: f64,
    /// Highest number that was observed.
    pub high: f64,
    /// The grid.
    pub quantiser: Quantiser,
}

/// The grid of weights or a bias.
#[derive(Clone, Debug)]
pub struct ParameterGrid {
    /// Name in the float graph.
    pub value: String,
    /// It is a bias.
    pub bias: bool,
    /// Lowest number, at most 0.
    pub low: f64,
    /// Highest number, at least 0.
    pub high: f64,
    /// The grid.
    pub quantiser: Quantiser,
    /// What was lost.
    pub noise: Noise,
}

/// Sums of squares of numbers and of their errors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// Of the numbers.
    pub signal: f64,
    /// Of the errors.
    pub noise: f64,
}

impl Noise {
    /// Of these numbers and what became of them.
    pub fn between(numbers: &[f64], found: &[f64]) -> Self {
        let signal = numbers.iter().map(|x| x * x).sum();
        let noise = numbers.iter().zip(found).map(|(x, y)| (x - y) * (x - y)).sum();
        Noise { signal, noise }
    }

    /// Adds up.
    pub fn add(&mut self, other: Noise) {
        self.signal += other.signal;
        self.noise += other.noise;
    }

    /// Signal to quantisation noise ratio in decibels; `None` without signal, infinite without
    /// noise.
    pub fn decibels(&self) -> Option<f64> {
        (self.signal > 0.0).then(|| 10.0 * (self.signal / self.noise).log10())
    }
}

impl Quantised {
    /// Runs the graph that was quantised and this one, both prepared to keep every value, on a
    /// sample and compares the value of every layer that has a grid, with all errors of the layers
    /// before it: one entry per layer, zeros for a layer without, then one per output of the graph.
    ///
    /// # Errors
    /// Those of [`Session::run`].
    pub fn noise(&self, original: &Session, own: &Session, sample: &Tensors) -> Result<Vec<Noise>> {
        let (expected, found) = (original.run(sample)?, own.run(sample)?);
        let output = |&id: &ValueId| {
            let name = &self.graph[id].name;
            let (numbers, found) = (expected.get(name)?, found.get(name)?);
            let is_real = self.graph[id].dtype.is_float();
            is_real.then(|| Noise::between(&numbers.to_f64(), &found.to_f64()))
        };
        let noise = |layer: &Layer| {
            let grid = layer.activation.as_ref()?;
            let (numbers, codes) = (expected.get(&grid.value)?, found.get(&grid.quantised)?);
            Some(Noise::between(&numbers.to_f64(), &codes.to_f64()))
        };
        let layers = self.layers.iter().map(noise);
        Ok(layers
            .chain(self.graph.outputs().iter().map(output))
            .map(Option::unwrap_or_default)
            .collect())
    }
}
