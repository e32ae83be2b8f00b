//! What values are like on calibration data, against the numbers that a machine has for them.

use crate::compare::NEAR;
use quincunx_contract::{Clipped, Format, Grid, Port};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::execute::{Keep, Session, Settings};
use quincunx_graph::passes::{Noise, Quantised};
use quincunx_graph::{Graph, Quantiser, Scalar, ValueId};
use quincunx_report::{Cell, Column, Table};
use quincunx_tensor::{Tensor, Tensors};

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
    let settings = Settings { keep: Keep::All, ..Settings::default() };
    let original = Session::new(graph, settings)?;
    let own = Session::new(&quantised.graph, settings)?;
    let grids = || quantised.layers.iter().filter_map(|layer| layer.activation.as_ref());
    let range = |grid: &quincunx_graph::passes::ActivationGrid| {
        Some(Range::new(graph, graph.value_named(&grid.value)?, grid.quantiser.to_string()))
    };
    let mut ranges: Vec<Range> = grids().filter_map(range).collect();
    for image in images.iter().take(MAX_IMAGES) {
        let (expected, found) = (original.run(image)?, own.run(image)?);
        for (range, grid) in ranges.iter_mut().zip(grids()) {
            let pair = expected.get(&grid.value).zip(found.get(&grid.quantised));
            let Some((expected, found)) = pair else { continue };
            let beyond = beyond(&grid.quantiser, expected);
            range.add(&expected.to_f64(), &found.to_f64(), beyond);
        }
    }
    Ok(ranges)
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
    let session = Session::new(graph, Settings { keep: Keep::All, ..Settings::default() })?;
    let is_real = |id: &ValueId| graph[*id].dtype.is_float();
    let computed = graph.nodes().map(|(_, node)| node.output);
    let ids: Vec<ValueId> =
        graph.inputs().iter().copied().chain(computed).filter(is_real).collect();
    let grid = |format: &Format| Some((format.name, *format.grid.scalars(&[])?.first()?));
    let grids: Vec<(&str, Scalar)> = formats.iter().filter_map(grid).collect();
    let empty = |name: &str| ids.iter().map(|&id| Range::new(graph, id, name.to_owned())).collect();
    let mut ranges: Vec<Vec<Range>> = grids.iter().map(|(name, _)| empty(name)).collect();
    for image in images.iter().take(MAX_IMAGES) {
        let values = session.run(image)?;
        for (index, &id) in ids.iter().enumerate() {
            let Some(tensor) = values.get(&graph[id].name) else { continue };
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
