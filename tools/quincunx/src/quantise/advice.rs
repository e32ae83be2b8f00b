//! What loses too much, and how many bits would help.

use super::{Job, measure};
use crate::Silent;
use crate::compare::NEAR;
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::Graph;
use quincunx_graph::passes::{
    Grid, Layer, Noise, Observations, Overrides, Quantised, Recipe, Settings, quantise_by,
};

/// Images on which other widths are tried.
const TRIED: usize = 8;

/// How often more bits are tried.
const ROUNDS: usize = 4;

/// Decibels of a bit.
const BIT: f64 = 6.02;

/// A network that was quantised, and how.
pub(super) struct Advice<'a> {
    pub(super) job: &'a Job<'a>,
    pub(super) graph: &'a Graph,
    pub(super) found: &'a Observations,
    pub(super) recipe: &'a Recipe,
}

/// A layer or output that has lost too much.
struct Lost<'a> {
    /// Where it stands among layers and outputs.
    index: usize,
    /// The layer; `None` for an output.
    layer: Option<&'a Layer>,
    /// Of its result and of its weights.
    decibels: [Option<f64>; 2],
    /// The widths that are tried.
    wider: Option<Overrides>,
}

impl Lost<'_> {
    /// Bits that seem to be missing.
    fn missing(&self) -> u32 {
        let missing = self.decibels.iter().flatten().map(|decibels| NEAR - decibels);
        (missing.fold(0.0, f64::max) / BIT).ceil() as u32
    }
}

impl Advice<'_> {
    /// A warning for every layer and output below [`NEAR`], with widths that were tried.
    pub(super) fn give(&self, quantised: &Quantised, noise: &[Noise]) -> Result<Vec<Diagnostic>> {
        let mut lost: Vec<Lost<'_>> =
            (0..noise.len()).filter_map(|index| Self::lost(quantised, noise, index)).collect();
        let mut then = vec![None; lost.len()];
        for more in (1..).step_by(2).take(ROUNDS) {
            let Some(found) = self.tried(quantised, &mut lost, more)? else { break };
            then = found;
            if then.iter().flatten().all(|&decibels| decibels >= NEAR) {
                break;
            }
        }
        let pairs = lost.iter().zip(then);
        Ok(pairs.map(|(lost, then)| self.warning(lost, quantised, then)).collect())
    }

    /// What so many bits more than seem to be missing give; `None` when no grid has more.
    fn tried(
        &self,
        quantised: &Quantised,
        lost: &mut [Lost<'_>],
        more: u32,
    ) -> Result<Option<Vec<Option<f64>>>> {
        let mut recipe = self.recipe.clone();
        for lost in lost.iter_mut() {
            let Some(layer) = lost.layer else { continue };
            lost.wider = self.wider(layer, lost.missing() + more);
            if let Some(wider) = &lost.wider {
                let own = recipe.layers.entry(layer.name.clone()).or_default();
                *own = own.with(wider);
            }
        }
        if recipe.layers == self.recipe.layers {
            return Ok(None);
        }
        let wider = quantise_by(self.graph, self.found, &recipe)?;
        let images = self.job.images.len().min(TRIED);
        let noise = measure(self.job, self.graph, &wider, images, &Silent)?;
        let then = |lost: &Lost<'_>| {
            let same = |layer: &&Layer| wider.layers.iter().position(|w| w.name == layer.name);
            let output = wider.layers.len() + lost.index.saturating_sub(quantised.layers.len());
            let index = lost.layer.as_ref().map_or(Some(output), same)?;
            let all = [Some(noise[index]), wider.layers.get(index).map(of_weights)];
            all.iter().flatten().filter_map(Noise::decibels).reduce(f64::min)
        };
        Ok(Some(lost.iter().map(then).collect()))
    }

    fn lost<'q>(quantised: &'q Quantised, noise: &[Noise], index: usize) -> Option<Lost<'q>> {
        let layer = quantised.layers.get(index);
        let all = [noise[index], layer.map(of_weights).unwrap_or_default()];
        let decibels = all.map(|noise| noise.decibels().filter(|decibels| *decibels < NEAR));
        let is_lost = decibels.iter().any(Option::is_some);
        is_lost.then_some(Lost { index, layer, decibels, wider: None })
    }

    /// So many bits more for a layer, as far as its grid goes.
    fn wider(&self, layer: &Layer, bits: u32) -> Option<Overrides> {
        let overrides = self.recipe.layers.get(&layer.name).copied().unwrap_or_default();
        let Settings { grid, weights, activations, .. } = overrides.apply(self.recipe.default);
        let most = match grid {
            Grid::Affine => 16,
            Grid::PowerOfTwo => 32,
            Grid::Uniform { .. } => return None,
        };
        let more = |width: u32, has: bool| has.then(|| width.saturating_add(bits).min(most));
        Some(Overrides {
            weights: more(weights, layer.parameters.iter().any(|p| !p.bias)),
            activations: more(activations, layer.activation.is_some()),
            ..Overrides::default()
        })
    }

    /// `then` is what the wider widths of all layers give.
    fn warning(&self, lost: &Lost<'_>, quantised: &Quantised, then: Option<f64>) -> Diagnostic {
        let [result, weights] = lost.decibels;
        let what = [(result, "result"), (weights, "weights")];
        let lose = what.iter().filter_map(|(decibels, what)| {
            decibels.map(|decibels| format!("{what} {decibels:.1} dB"))
        });
        let lose = lose.collect::<Vec<_>>().join(", ");
        let message = match lost.layer {
            Some(layer) => {
                format!("layer \"{}\" ({}): {lose} signal to noise", layer.name, layer.op)
            }
            None => {
                let output = quantised.graph.outputs()[lost.index - quantised.layers.len()];
                let name = &quantised.graph[output].name;
                format!("output \"{name}\": {lose} signal to noise")
            }
        };
        let warning = Diagnostic::warning("Q0626", message);
        let Some(then) = then else { return warning };
        warning.help(match (lost.layer.zip(lost.wider), then >= NEAR) {
            (Some((layer, wider)), true) => {
                let entry = entry(&layer.name, &wider);
                format!("{entry} in the list `layer` of --widths gives {then:.1} dB")
            }
            (Some(_), false) => format!(
                "more bits for these layers give {then:.1} dB; the layers before them lose the rest"
            ),
            (None, _) => format!("the lines of the layers give {then:.1} dB"),
        })
    }
}

/// What the weights of a layer lose.
fn of_weights(layer: &Layer) -> Noise {
    let mut sum = Noise::default();
    layer.parameters.iter().filter(|p| !p.bias).for_each(|p| sum.add(p.noise));
    sum
}

/// A line of the list `layer` in the file of widths.
fn entry(name: &str, wider: &Overrides) -> String {
    let widths = [("weights", wider.weights), ("activations", wider.activations)];
    let widths =
        widths.iter().filter_map(|(what, bits)| bits.map(|bits| format!(", {what} = {bits}")));
    format!("{{ name = {name:?}{} }}", widths.collect::<String>())
}
