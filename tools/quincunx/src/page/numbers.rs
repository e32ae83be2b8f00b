//! Weights and activations against the grids of a machine.

use super::Machine;
use super::histogram::{Grid, Histogram};
use super::values::Image;
use quincunx_graph::{Graph, Op, Quantiser, Value, ValueId};
use quincunx_report::html;
use quincunx_tensor::Tensor;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Fewest axes of a constant that is shown: those of weights. There is one of a bias for each.
const AXES: usize = 2;

/// Most pictures of a kind.
const MOST: usize = 120;

/// Histograms of the weights of the compiled network, and of the values of an image; empty when there
/// are none.
pub(super) fn section(machine: &Machine<'_>, image: Option<(&Image, usize)>) -> String {
    let weights = machine.graph.map(|graph| weights(machine, graph)).unwrap_or_default();
    let activations = image.map(|(image, number)| activations(machine, image, number));
    kind("Weights", weights)
        + &kind("Activations of the first image", activations.unwrap_or_default())
}

fn kind(title: &str, figures: Vec<String>) -> String {
    if figures.is_empty() {
        return String::new();
    }
    let more = match figures.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!("<p>{more} more are left out.</p>\n"),
    };
    let shown: String = figures.iter().take(MOST).map(String::as_str).collect();
    format!(
        "<details open><summary>{title}: {}</summary>\n<div class=\"histograms\">{shown}</div>\n{more}\
         </details>\n",
        figures.len()
    )
}

/// The constants of nodes, as the machine gets them.
fn weights(machine: &Machine<'_>, graph: &Graph) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let operands = graph.nodes().flat_map(|(_, node)| node.operands().collect::<Vec<_>>());
    let constants = operands.filter(|id| seen.insert(*id)).map(|id| &graph[id]);
    constants.filter_map(|value| weight(machine, value)).collect()
}

fn weight(machine: &Machine<'_>, value: &Value) -> Option<String> {
    let constant = value.constant.as_ref()?;
    let tensor = &constant.tensor;
    if tensor.shape().len() < AXES || !value.dtype.is_float() {
        return None;
    }
    let Some(quantiser) = &constant.quantiser else {
        let grid = machine.format.as_ref().and_then(|format| Grid::of(&format.grid, &[]));
        return figure(&value.name, &tensor.reals(), grid.as_ref());
    };
    let scalars = quantiser.scalars(if quantiser.is_uniform() { &[] } else { tensor.shape() })?;
    let codes = tensor.to_f64().into_iter().zip(scalars.iter().cycle());
    let reals: Vec<f64> = codes.map(|(code, q)| (code - q.zero as f64) * q.scale).collect();
    figure(&value.name, &reals, Grid::of(quantiser, tensor.shape()).as_ref())
}

/// Values that the machine has on a grid, as the model computes them; without a model, all values as
/// the machine does.
fn activations(machine: &Machine<'_>, image: &Image, number: usize) -> Vec<String> {
    let Some(graph) = machine.graph else {
        let values = image.machines.get(number).into_iter().flatten();
        return values.filter_map(|(name, value)| figure(name, &value.reals(), None)).collect();
    };
    let inputs = graph.inputs().iter().copied();
    let values = inputs.chain(graph.nodes().map(|(_, node)| node.output));
    let quantisers = graph.nodes().filter_map(|(_, node)| match &node.op {
        Op::Quantise(quantiser) => Some((node.input(0)?, quantiser)),
        _ => None,
    });
    let quantisers: BTreeMap<ValueId, &Quantiser> = quantisers.collect();
    let own = machine.format.as_ref().map(|format| &format.grid);
    let picture = |value| {
        let Value { name, shape, .. } = &graph[value];
        let grid = Grid::of(quantisers.get(&value).copied().or(own)?, shape)?;
        let numbers: &Tensor = image.of_model(name)?;
        let numbers: Cow<'_, [f64]> = numbers.dtype().is_float().then(|| numbers.reals())?;
        figure(name, &numbers, Some(&grid))
    };
    values.filter_map(picture).collect()
}

fn figure(name: &str, numbers: &[f64], grid: Option<&Grid>) -> Option<String> {
    let histogram = Histogram::of(numbers.iter())?;
    let [low, high] = histogram.ends().map(|end| end as f32);
    let mut words = format!("{low} to {high}");
    if let Some(grid) = grid {
        let [from, to] = grid.ends.map(|end| end as f32);
        // Writing to a string cannot fail.
        let _ = write!(words, "; {}: {from} to {to} in steps of {}", grid.name, grid.step as f32);
        match grid.beyond(numbers.iter()) {
            0 => {}
            beyond => {
                let share = beyond as f64 / numbers.len() as f64 * 100.0;
                let _ = write!(words, "; {share:.2} % beyond it");
            }
        }
    }
    Some(format!(
        "<figure><figcaption><b>{}</b> {}</figcaption>{}</figure>\n",
        html(name),
        html(&words),
        histogram.svg(grid)
    ))
}
