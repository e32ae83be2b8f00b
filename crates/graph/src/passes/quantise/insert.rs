//! Rebuilding a graph with its quantisers.

use super::calibrate::{Observations, Statistics};
use super::clip::choose;
use super::parameters::{
    Role, bias, biased_product, bounds, codes, plain_floats, role, weight_quantiser,
};
use super::places::Places;
use super::recipe::{Grid, Recipe, Settings, cannot};
use super::report::{ActivationGrid, Layer, Noise, ParameterGrid, Quantised};
use crate::passes::rewrite::Rewrite;
use crate::{Graph, Node, Op, Quantiser, ValueId};
use quincunx_diag::{Diagnostic, Result};
use quincunx_tensor::Tensor;
use std::collections::{BTreeMap, BTreeSet};

struct Insert<'a> {
    graph: &'a Graph,
    places: &'a Places,
    recipe: &'a Recipe,
    grids: BTreeMap<ValueId, SharedGrid>,
    rewrite: Rewrite<'a>,
    /// The value on its grid, for every old value that got one.
    on_grid: Vec<Option<ValueId>>,
}

/// A grid with the range of all values that share it.
struct SharedGrid {
    low: f64,
    high: f64,
    quantiser: Quantiser,
}

/// Builds the quantised graph.
pub(super) fn insert(
    graph: &Graph,
    places: &Places,
    found: &Observations,
    recipe: &Recipe,
) -> Result<Quantised> {
    let mut insert = Insert {
        graph,
        places,
        recipe,
        grids: shared_grids(graph, places, found, recipe)?,
        rewrite: Rewrite::new(graph)?,
        on_grid: vec![None; graph.values().len()],
    };
    let mut layers = Vec::new();
    for &input in graph.inputs() {
        let activation = insert.quantise_value(input)?;
        let name = graph[input].name.clone();
        let layer = Layer { name, op: "input", skipped: false, activation, parameters: vec![] };
        layers.extend(Some(layer).filter(|layer| layer.activation.is_some()));
    }
    for (id, node) in graph.nodes() {
        let settings = &places.nodes[id.index()];
        let parameters = insert.copy(node, settings)?;
        let activation = insert.quantise_value(node.output)?;
        if settings.skip || activation.is_some() || !parameters.is_empty() {
            let (name, op) = (node.name.clone(), node.op.name());
            layers.push(Layer { name, op, skipped: settings.skip, activation, parameters });
        }
    }
    let graph = crate::passes::remove_dead(&insert.rewrite.finish()?)?;
    Ok(Quantised { graph, layers })
}

/// The grid of every leader, from what is known about all values it stands for.
fn shared_grids(
    graph: &Graph,
    places: &Places,
    found: &Observations,
    recipe: &Recipe,
) -> Result<BTreeMap<ValueId, SharedGrid>> {
    let mut groups: BTreeMap<ValueId, (Statistics, Option<Settings>)> = BTreeMap::new();
    for (id, _) in graph.values() {
        if places.origin[id.index()] != Some(id) {
            continue;
        }
        let settings = places.values[id.index()];
        let group = groups
            .entry(places.leader(id))
            .or_insert_with(|| (Statistics::empty(found.bins), None));
        group.0.merge(statistics(graph, id, found)?);
        group.1 = group.1.or(settings);
    }
    // What a product takes as weights has no zero point, as weights do not.
    let right = |node: &Node| match (&node.op, node.input(0), node.input(1)) {
        (Op::MatMul, Some(left), Some(right)) if graph[left].constant.is_none() => {
            places.origin[right.index()].map(|origin| places.leader(origin))
        }
        _ => None,
    };
    let centred: BTreeSet<ValueId> = graph.nodes().filter_map(|(_, node)| right(node)).collect();
    let mut grids = BTreeMap::new();
    for (leader, (statistics, settings)) in groups {
        // A group has at least one value that is computed.
        let Some(settings) = settings else { continue };
        let (low, high) = statistics.range();
        if settings.grid == Grid::PowerOfTwo && settings.signed == Some(false) && low < 0.0 {
            return Err(cannot(format!(
                "value \"{}\" goes down to {low}, which unsigned codes without zero point do not \
                 reach",
                graph[leader].name
            ))
            .help("use signed codes for it, or an affine grid"));
        }
        let quantiser = choose(&statistics, &settings, recipe.method, centred.contains(&leader));
        grids.insert(leader, SharedGrid { low, high, quantiser });
    }
    Ok(grids)
}

fn statistics(graph: &Graph, id: ValueId, found: &Observations) -> Result<Statistics> {
    if let Some(tensor) = plain_floats(graph, id) {
        let mut statistics = Statistics::empty(found.bins);
        for x in tensor.to_f64() {
            if !x.is_finite() {
                return Err(not_finite(graph, id));
            }
            statistics.add(x);
        }
        return Ok(statistics);
    }
    let name = &graph[id].name;
    found.values.get(name).cloned().ok_or_else(|| {
        Diagnostic::invalid("Q0313", format!("value \"{name}\" has no calibrated range"))
    })
}

/// What a graph holds that no calibration can mend: weights and biases that are not finite.
pub(super) fn check(graph: &Graph, places: &Places) -> Result<()> {
    for (id, node) in graph.nodes() {
        let settings = &places.nodes[id.index()];
        for index in (0..node.inputs.len()).filter(|_| !settings.skip) {
            let Some(value) = node.input(index) else { continue };
            let becomes_codes = role(graph, node, index, settings.grid) != Role::Float;
            if let Some(tensor) = plain_floats(graph, value).filter(|_| becomes_codes)
                && tensor.to_f64().iter().any(|x| !x.is_finite())
            {
                return Err(not_finite(graph, value).at(graph.place(node)));
            }
        }
    }
    Ok(())
}

fn not_finite(graph: &Graph, id: ValueId) -> Diagnostic {
    let name = &graph[id].name;
    Diagnostic::invalid("Q0313", format!("constant \"{name}\" holds a number that is not finite"))
}

impl Insert<'_> {
    /// Puts a value on its grid, if it has one.
    fn quantise_value(&mut self, value: ValueId) -> Result<Option<ActivationGrid>> {
        if self.places.values[value.index()].is_none() {
            return Ok(None);
        }
        let Some(grid) = self.grids.get(&self.places.leader(value)) else { return Ok(None) };
        let name = &self.graph[value].name;
        let current = self.rewrite.value(value)?;
        let quantised = self.rewrite.insert(
            &format!("{name}_quantiser"),
            Op::Quantise(grid.quantiser.clone()),
            &[Some(current)],
            &format!("{name}_quantised"),
        )?;
        self.on_grid[value.index()] = Some(quantised);
        Ok(Some(ActivationGrid {
            value: name.clone(),
            quantised: self.rewrite.new[quantised].name.clone(),
            low: grid.low,
            high: grid.high,
            quantiser: grid.quantiser.clone(),
        }))
    }

    /// Copies a node; its weights become codes, and its bias codes on the grid of the sums.
    fn copy(&mut self, node: &Node, settings: &Settings) -> Result<Vec<ParameterGrid>> {
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for &input in &node.inputs {
            inputs.push(input.map(|id| self.operand(id, settings.skip)).transpose()?);
        }
        let mut parameters = Vec::new();
        for index in 0..inputs.len() {
            if !settings.skip
                && let Some(old) = node.input(index)
                && let Some(tensor) = plain_floats(self.graph, old)
                && let Some((tensor, quantiser, is_bias)) =
                    self.parameter(node, index, &inputs, tensor, settings)?
            {
                let constant = codes(&tensor, &quantiser)?;
                let name = format!("{}_quantised", self.graph[old].name);
                let (low, high) = bounds(&tensor);
                let noise = noise(&tensor, &constant.tensor, &quantiser);
                inputs[index] = Some(self.rewrite.constant(&name, constant)?);
                let value = self.graph[old].name.clone();
                parameters.push(ParameterGrid {
                    value,
                    bias: is_bias,
                    low,
                    high,
                    quantiser,
                    noise,
                });
            }
        }
        self.rewrite.emit(node, node.op.clone(), &inputs)?;
        Ok(parameters)
    }

    /// The value a node reads: on its grid, or as it is for a layer that is skipped and a value
    /// that no quantised layer computes.
    fn operand(&mut self, old: ValueId, skip: bool) -> Result<ValueId> {
        let kept = self.places.values[old.index()].is_some_and(|settings| !settings.skip);
        match self.on_grid[old.index()] {
            Some(quantised) if kept || !skip => Ok(quantised),
            _ => self.rewrite.value(old),
        }
    }

    /// The numbers, the grid and whether it is a bias; `None` for what stays float.
    fn parameter(
        &self,
        node: &Node,
        index: usize,
        inputs: &[Option<ValueId>],
        tensor: &Tensor,
        settings: &Settings,
    ) -> Result<Option<(Tensor, Quantiser, bool)>> {
        let old = node.input(index);
        if let (Op::Concat { .. }, Some(id)) = (&node.op, old)
            && self.places.origin[id.index()].is_some()
            && let Some(grid) = self.grids.get(&self.places.leader(id))
        {
            return Ok(Some((tensor.clone(), grid.quantiser.clone(), false)));
        }
        // Where a quantiser lies between, this is a layer of its own.
        let product = biased_product(self.graph, node)
            .filter(|&(_, constant)| constant == index)
            .and_then(|_| self.rewrite.new[inputs[1 - index]?].producer)
            .map(|id| &self.rewrite.new[id])
            .filter(|product| product.op == Op::MatMul);
        let (node, inputs, role) = match product {
            Some(product) => (product, &product.inputs[..], Role::Bias),
            None => (node, inputs, role(self.graph, node, index, settings.grid)),
        };
        Ok(match role {
            Role::Float => None,
            Role::Bias if matches!(settings.grid, Grid::Uniform { .. }) => {
                let quantiser = weight_quantiser(tensor, None, settings, self.recipe.method)?;
                Some((tensor.clone(), quantiser, true))
            }
            Role::Bias => {
                let grid = settings.grid;
                let (tensor, quantiser) = bias(&self.rewrite.new, node, inputs, tensor, grid)?;
                Some((tensor, quantiser, true))
            }
            Role::Weights(axis) => {
                let quantiser = weight_quantiser(tensor, axis, settings, self.recipe.method)?;
                Some((tensor.clone(), quantiser, false))
            }
        })
    }
}

/// What the codes of a constant lose.
fn noise(numbers: &Tensor, codes: &Tensor, quantiser: &Quantiser) -> Noise {
    let expanded = quantiser.scale.expand(codes.shape()).zip(quantiser.zero.expand(codes.shape()));
    let Some((scales, zeros)) = expanded else { return Noise::default() };
    let real = |(code, (scale, zero)): (f64, (&f64, &i64))| (code - *zero as f64) * scale;
    let found = codes.to_f64().into_iter().zip(scales.iter().zip(&zeros)).map(real);
    Noise::between(&numbers.to_f64(), &found.collect::<Vec<f64>>())
}
