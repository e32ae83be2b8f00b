//! Layers: how long they take, what bounds them, and how near they are to the roof.

use super::{Run, order, transfers};
use crate::program::Program;
use crate::replay::Node;
use crate::work::Work;
use quincunx_report::{Cell, Column, Table};
use quincunx_timeline::{Point, Roofline};
use std::collections::BTreeMap;

/// What bounds a layer none of whose lines decide the total.
const WAITING: &str = "waiting";

/// What is summed over the lines of a layer that compute, and over those of the critical path that
/// compute or move its data.
#[derive(Default)]
struct Layer {
    lines: u64,
    products: u64,
    /// Cycles of the array.
    busy: u64,
    /// From the first line that computes to the last, of every time that the layer is computed.
    spans: BTreeMap<usize, (u64, u64)>,
    /// Cycles of the critical path, by what works.
    critical: BTreeMap<&'static str, u64>,
}

impl Layer {
    fn start(&self) -> u64 {
        self.spans.values().map(|span| span.0).min().unwrap_or(0)
    }

    fn span(&self) -> u64 {
        let spans = self.spans.values().map(|(start, end)| end.saturating_sub(*start));
        spans.fold(0, u64::saturating_add)
    }

    /// Adds the time from one cycle to another to a time that the layer is computed.
    fn extend(&mut self, visit: usize, (start, end): (u64, u64)) {
        let span = self.spans.entry(visit).or_insert((start, end));
        *span = (span.0.min(start), span.1.max(end));
    }

    fn critical_cycles(&self) -> u64 {
        self.critical.values().fold(0, |sum, cycles| sum.saturating_add(*cycles))
    }

    /// What takes most of its part of the critical path, of several the first by name.
    fn bound(&self) -> &'static str {
        let most = self.critical.iter().rev().max_by_key(|(_, cycles)| **cycles);
        most.map_or(WAITING, |(name, _)| name)
    }
}

/// The layers of every core that compute, by their numbers in maps.
fn layers(run: &Run<'_>) -> BTreeMap<(usize, i32), Layer> {
    let mut layers: BTreeMap<(usize, i32), Layer> = BTreeMap::new();
    let visits = visits(run);
    for &node in &run.replay.order {
        let Some(number) = computed(run, node) else { continue };
        let layer = layers.entry((node.core, number)).or_default();
        layer.lines = layer.lines.saturating_add(1);
        layer.extend(visits[node.core][node.line], run.time(node));
        layer.products = layer.products.saturating_add(run.products(node));
        if run.conv(node).is_some() {
            layer.busy = layer.busy.saturating_add(run.cycles[node.core][node.line]);
        }
    }
    for node in order::path(run, &order::holds(run)) {
        let Some(number) = run.layer(node) else { continue };
        let Some(layer) = layers.get_mut(&(node.core, number)) else { continue };
        let cycles = layer.critical.entry(worker(run, node)).or_default();
        *cycles = cycles.saturating_add(run.cycles[node.core][node.line]);
    }
    layers.values_mut().for_each(|layer| layer.critical.retain(|_, cycles| *cycles > 0));
    layers
}

/// The layer that a line computes.
fn computed(run: &Run<'_>, node: Node) -> Option<i32> {
    let computes = matches!(run.work(node), Some(Work::Conv(_) | Work::Vector(_)));
    run.layer(node).filter(|_| computes)
}

/// For every line of every core, how often another layer was begun up to it: where a batch is computed
/// in groups of images, its layers are computed several times.
fn visits(run: &Run<'_>) -> Vec<Vec<usize>> {
    let of_core = |(core, program): (usize, &Program)| {
        let (mut visit, mut current) = (0_usize, None);
        let of_line = |line| {
            if let Some(layer) = computed(run, Node { core, line })
                && current.replace(layer) != Some(layer)
            {
                visit = visit.saturating_add(1);
            }
            visit
        };
        (0..program.lines.len()).map(of_line).collect()
    };
    run.programs.iter().enumerate().map(of_core).collect()
}

/// What does the work of a line: the DRAM port, or a queue.
fn worker(run: &Run<'_>, node: Node) -> &'static str {
    if run.uses_dram(node) { "DRAM" } else { run.queue(node).name() }
}

/// A row per layer of a core: how long it takes from the first line that computes to the last (summed over
/// groups of images that are computed one after the other), what
/// part of the products is computed that the array could compute then, how much of the critical path
/// is of its lines and its data, and what does most of that. Its data may be loaded long before.
pub(super) fn table(run: &Run<'_>) -> Table {
    let mut columns = vec![Column::number("core"), Column::number("layer")];
    if !run.names.is_empty() {
        columns.push(Column::text("name"));
    }
    let numbers = ["lines", "multiplications", "start", "cycles", "share"];
    columns.extend(numbers.into_iter().chain(["array_busy", "utilisation"]).map(Column::number));
    columns.extend([Column::number("critical"), Column::text("bound")]);
    let mut table = Table::new("layers", columns);
    let peak = run.peak() as f64 / run.programs.len().max(1) as f64;
    let share = |part: f64, whole: f64| Cell::Share(part / whole.max(1.0));
    for ((core, number), layer) in layers(run) {
        let span = layer.span();
        let mut row = vec![core.into(), Cell::Integer(number.into())];
        if !run.names.is_empty() {
            row.push(run.names.get(&number).copied().unwrap_or_default().into());
        }
        row.extend([
            layer.lines.into(),
            layer.products.into(),
            layer.start().into(),
            span.into(),
            share(span as f64, run.replay.total() as f64),
            share(layer.busy as f64, span as f64),
            share(layer.products as f64, span as f64 * peak),
            layer.critical_cycles().into(),
            layer.bound().into(),
        ]);
        table.push(row);
    }
    table
}

/// What the machine can do at most, and what layers that multiply reach: those of all cores together,
/// over the time in which one of them computes.
pub(super) fn roofline(run: &Run<'_>) -> Roofline {
    let mut all: BTreeMap<i32, Layer> = BTreeMap::new();
    for ((_, number), layer) in layers(run) {
        let sum = all.entry(number).or_default();
        for (place, &span) in layer.spans.values().enumerate() {
            sum.extend(place, span);
        }
        sum.products = sum.products.saturating_add(layer.products);
    }
    let moved = transfers::moved(run);
    let point = |name: String, products: u64, bytes: u64, cycles: u64| Point {
        name,
        intensity: products as f64 / bytes as f64,
        rate: products as f64 / cycles.max(1) as f64,
    };
    let products = all.values().fold(0, |sum: u64, layer| sum.saturating_add(layer.products));
    let bytes = moved.values().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
    let whole = point("whole program".to_owned(), products, bytes, run.replay.total());
    let multiply = all.iter().filter(|(_, layer)| layer.products > 0);
    let points = multiply.map(|(&number, layer)| {
        let bytes = moved.get(&Some(number)).copied().unwrap_or(0);
        point(run.title(Some(number)), layer.products, bytes, layer.span())
    });
    Roofline {
        peak: run.peak() as f64,
        bandwidth: 1.0 / run.arch.cycles_per_dram_byte(),
        intensity_unit: "multiplications for each DRAM byte",
        rate_unit: "multiplications in a cycle",
        points: [whole].into_iter().filter(|point| point.rate > 0.0).chain(points).collect(),
    }
}
