//! What values are like on calibration data, against the numbers that a machine has for them.

use crate::compare::NEAR;
use quincunx_contract::{Clipped, Format, Grid, Port};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::execute::{Session, Settings, Values};
use quincunx_graph::passes::{ActivationGrid, Noise, Quantised};
use quincunx_graph::{Graph, Quantiser, Scalar, ValueId};
use quincunx_report::{Cell, Column, Table};
use quincunx_tensor::{Tensor, Tensors};
use std::collections::BTreeMap;

/// Most images that are looked at.
const MAX_IMAGES: usize = 32;

/// A value over all images.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    /// Its name.
    pub value: String,
    /// The operator that computes it; `input` for an input.
    pub op: &'static str,
    /// Lowest number.
    pub low: f64,
    /// Highest number.
    pub high: f64,
    /// The grid of the machine, in words.
    pub grid: String,
    /// Numbers more than a step beyond the grid.
    pub beyond: u64,
    /// All numbers.
    pub elements: u64,
    /// What the grid loses.
    pub noise: Noise,
}

impl Range {
    fn new(graph: &Graph, id: ValueId, grid: String) -> Range {
        let op = graph[id].producer.map_or("input", |node| graph[node].op.name());
        let (low, high) = (f64::INFINITY, f64::NEG_INFINITY);
        let value = graph[id].name.clone();
        Range { value, op, low, high, grid, beyond: 0, elements: 0, noise: Noise::default() }
    }

    /// Adds the numbers of an image, and what the machine makes of them.
    fn add(&mut self, reals: &[f64], found: &[f64], beyond: u64) {
        self.low = reals.iter().copied().fold(self.low, f64::min);
        self.high = reals.iter().copied().fold(self.high, f64::max);
        self.elements += reals.len() as u64;
        self.beyond += beyond;
        self.noise.add(Noise::between(reals, found));
    }

    /// True when the grid holds the value: nothing is beyond it, and the error is below a tenth.
    fn is_held(&self) -> bool {
        self.beyond == 0 && self.noise.decibels().is_none_or(|decibels| decibels >= NEAR)
    }
}

/// The ranges of every value against the grid that it got; errors of the layers before it are in
/// its noise.
///
/// # Errors
/// Images that do not fit the graph.
pub(crate) fn on_grids(
    graph: &Graph,
    quantised: &Quantised,
    images: &[Tensors],
) -> Result<Vec<Range>> {
    let original = Session::for_values(graph, Settings::default())?;
    let own = Session::for_values(&quantised.graph, Settings::default())?;
    let grids = quantised.layers.iter().filter_map(|layer| layer.activation.as_ref());
    let range = |grid: &ActivationGrid| {
        Some(Range::new(graph, graph.value_named(&grid.value)?, grid.quantiser.to_string()))
    };
    let known = grids.filter_map(|grid| Some((grid, range(grid)?)));
    let (grids, mut ranges): (Vec<&ActivationGrid>, Vec<Range>) = known.unzip();
    for image in images.iter().take(MAX_IMAGES) {
        pairs(&grids, original.values(image)?, own.values(image)?, |index, expected, found| {
            let beyond = beyond(&grids[index].quantiser, expected);
            ranges[index].add(&expected.to_f64(), &found.to_f64(), beyond);
        })?;
    }
    Ok(ranges)
}

/// Shows every value with what its grid makes of it. The quantised run goes on until it has the
/// partner of a value, so that few values are there at a time.
fn pairs(
    grids: &[&ActivationGrid],
    original: Values<'_>,
    mut own: Values<'_>,
    mut show: impl FnMut(usize, &Tensor, &Tensor),
) -> Result<()> {
    let mut values: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut quantised: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, grid) in grids.iter().enumerate() {
        values.entry(&grid.value).or_default().push(index);
        quantised.insert(&grid.quantised, index);
    }
    let mut found: BTreeMap<usize, Tensor> = BTreeMap::new();
    for value in original {
        let (name, expected) = value?;
        for &index in values.get(name).into_iter().flatten() {
            while !found.contains_key(&index)
                && let Some(value) = own.next()
            {
                let (name, tensor) = value?;
                found.extend(quantised.get(name).map(|&index| (index, tensor)));
            }
            found.remove(&index).iter().for_each(|found| show(index, &expected, found));
        }
    }
    Ok(())
}

fn beyond(quantiser: &Quantiser, tensor: &Tensor) -> u64 {
    let grid = Grid::Codes(quantiser.clone());
    let port = Port { name: String::new(), shape: tensor.shape().to_vec(), grid };
    port.clipped(tensor).map_or(0, |clipped| clipped.count)
}

/// The ranges of every value against each of these formats; a value is rounded alone, without the
/// errors of the layers before it.
///
/// # Errors
/// Images that do not fit the graph.
pub(crate) fn in_formats(
    graph: &Graph,
    formats: &[Format],
    images: &[Tensors],
) -> Result<Vec<Vec<Range>>> {
    let session = Session::for_values(graph, Settings::default())?;
    let is_real = |id: &ValueId| graph[*id].dtype.is_float();
    let computed = graph.nodes().map(|(_, node)| node.output);
    let ids: Vec<ValueId> =
        graph.inputs().iter().copied().chain(computed).filter(is_real).collect();
    let grid = |format: &Format| Some((format.name, *format.grid.scalars(&[])?.first()?));
    let grids: Vec<(&str, Scalar)> = formats.iter().filter_map(grid).collect();
    let empty = |name: &str| ids.iter().map(|&id| Range::new(graph, id, name.to_owned())).collect();
    let mut ranges: Vec<Vec<Range>> = grids.iter().map(|(name, _)| empty(name)).collect();
    let indices: BTreeMap<&str, usize> =
        ids.iter().enumerate().map(|(index, &id)| (graph[id].name.as_str(), index)).collect();
    for image in images.iter().take(MAX_IMAGES) {
        for value in session.values(image)? {
            let (name, tensor) = value?;
            let Some(&index) = indices.get(name) else { continue };
            let reals = tensor.to_f64();
            for ((_, grid), ranges) in grids.iter().zip(&mut ranges) {
                let (ends, step) = (grid.ends(), grid.scale);
                let round = |&real: &f64| rounded(real, ends, step);
                let found: Vec<f64> = reals.iter().map(round).collect();
                let clipped = Clipped::count(String::new, ends, step, reals.iter().copied());
                ranges[index].add(&reals, &found, clipped.map_or(0, |clipped| clipped.count));
            }
        }
    }
    Ok(ranges)
}

/// The number of a grid without zero point that is nearest.
fn rounded(real: f64, [low, high]: [f64; 2], step: f64) -> f64 {
    ((real / step + 0.5).floor() * step).clamp(low, high)
}

/// One row per value.
pub fn table(ranges: &[Range]) -> Table {
    let mut table = Table::new(
        "ranges",
        vec![
            Column::text("value"),
            Column::text("op"),
            Column::number("low"),
            Column::number("high"),
            Column::text("grid"),
            Column::number("clipped"),
            Column::number("signal_to_noise").unit("dB"),
        ],
    );
    for range in ranges.iter().filter(|range| range.elements > 0) {
        table.push(vec![
            range.value.as_str().into(),
            range.op.into(),
            Cell::Brief(range.low),
            Cell::Brief(range.high),
            range.grid.as_str().into(),
            Cell::Share(range.beyond as f64 / range.elements as f64),
            decibels(&range.noise),
        ]);
    }
    table
}

fn decibels(noise: &Noise) -> Cell {
    match noise.decibels() {
        Some(decibels) if decibels.is_finite() => Cell::Real(decibels, 1),
        _ => Cell::Empty,
    }
}

/// The values that their grid does not hold, and what could; `None` when all are held.
pub(crate) fn advice(ranges: &[Vec<Range>]) -> Option<Diagnostic> {
    let own = ranges.first()?;
    let mut lost = own.iter().filter(|range| !range.is_held());
    let worst = lost.next()?;
    let more = lost.count();
    let others = if more > 0 { format!(" and {more} others") } else { String::new() };
    let message = format!("{} does not hold the value \"{}\"{others}", worst.grid, worst.value);
    let holds = |ranges: &&Vec<Range>| ranges.iter().all(Range::is_held);
    let better = ranges[1..].iter().find(holds).and_then(|ranges| ranges.first());
    let help = match better {
        Some(better) => format!("{} holds all values", better.grid),
        None if ranges.len() > 1 => "no format holds all values; scale the network".to_owned(),
        None => "more bits for single layers: `quincunx quantise` with --widths".to_owned(),
    };
    Some(Diagnostic::warning("Q0627", message).help(help))
}
