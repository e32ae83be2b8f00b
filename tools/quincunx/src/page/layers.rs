//! What every node of a network costs a machine, what limits it and how far it is from the model.

use super::Machine;
use crate::compare::{Distance, Layer};
use crate::executable::Executable;
use quincunx_contract::folder::PlanRow;
use quincunx_contract::{Program, Verb};
use quincunx_report::{Cell, Column, Table};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Tables of machines about layers, and the names that they have in them.
const TABLES: &[&str] = &["layers", "tiles"];
const NAMES: &[&str] = &["name", "layer"];

/// Columns of these tables that say what limits a layer.
const BOUNDS: &[&str] = &["bound", "limit"];

/// Columns that count bytes that are moved.
const BYTES: &[&str] = &[
    "memory_bytes",
    "dram0_read",
    "dram0_written",
    "dram1_read",
    "dram1_written",
    "read",
    "written",
];

/// What a machine says about a layer.
#[derive(Clone, Debug, Default, PartialEq)]
struct Cost {
    cycles: Option<u64>,
    bytes: Option<u64>,
    bound: Option<String>,
}

/// The nodes of a machine in order. A layer of the machine can compute several nodes: its costs stand
/// at the first of them.
pub(super) fn table(machine: &Machine<'_>, executable: &Executable) -> Table {
    let judged: &[Layer] = machine.figures.map_or(&[], |figures| &figures.layers);
    let layers = Layers::of(machine, executable, judged);
    let mut table = Table::new("layers", columns(judged.is_empty()));
    let mut told = BTreeSet::new();
    for row in &machine.plan {
        let layer = layers.of_node(row);
        let cost = layer.filter(|layer| told.insert((*layer).to_owned()));
        let cost = cost.and_then(|layer| layers.costs.get(layer)).cloned().unwrap_or_default();
        let mut cells: Vec<Cell> = vec![
            row.node.as_str().into(),
            row.op.as_str().into(),
            row.place.name().into(),
            layer.into(),
            Some(row.macs).filter(|&macs| macs > 0).into(),
            cost.cycles.into(),
            cost.bound.into(),
            cost.bytes.into(),
        ];
        if !judged.is_empty() {
            cells.extend(error(layers.errors.get(&*row.node).copied()));
        }
        cells.push(row.reason.clone().into());
        table.push(cells);
    }
    table
}

fn columns(without_errors: bool) -> Vec<Column> {
    let costs = [
        Column::text("node"),
        Column::text("op"),
        Column::text("place"),
        Column::text("layer"),
        Column::number("macs"),
        Column::number("cycles"),
        Column::text("bound"),
        Column::number("bytes"),
    ];
    let errors = [
        Column::number("bit_exact"),
        Column::number("max_difference"),
        Column::number("signal_to_noise").unit("dB"),
    ];
    let errors = errors.into_iter().filter(|_| !without_errors);
    costs.into_iter().chain(errors).chain([Column::text("reason")]).collect()
}

fn error(layer: Option<&Layer>) -> [Cell; 3] {
    let distance = layer.and_then(|layer| layer.distance.as_ref());
    let decibels = distance.and_then(Distance::decibels);
    [
        layer.and_then(|layer| layer.bit_exact).into(),
        distance.map_or(Cell::Empty, |distance| Cell::Brief(distance.max)),
        decibels.map_or(Cell::Empty, |decibels| Cell::Real(decibels, 1)),
    ]
}

/// What is known about the layers of a machine.
struct Layers<'a> {
    /// By the name of the layer.
    costs: BTreeMap<String, Cost>,
    /// Layers by the nodes that they compute.
    of: BTreeMap<&'a str, &'a str>,
    /// Errors by the names of the nodes that compute the values.
    errors: BTreeMap<&'a str, &'a Layer>,
}

impl<'a> Layers<'a> {
    fn of(machine: &'a Machine<'_>, executable: &'a Executable, judged: &'a [Layer]) -> Layers<'a> {
        let programs = || executable.programs().map(|(_, program)| program);
        let mut costs = BTreeMap::new();
        programs().for_each(|program| collect(program, &mut costs));
        let sections = programs().flat_map(|program| &program.interface().sections);
        let nodes = sections.flat_map(|section| {
            section.nodes.iter().map(move |node| (node.as_str(), section.name.as_str()))
        });
        let mut of: BTreeMap<&str, &str> = nodes.collect();
        let values: BTreeMap<&str, &Layer> =
            judged.iter().map(|layer| (layer.value.as_str(), layer)).collect();
        let mut errors = BTreeMap::new();
        if let Some(graph) = machine.graph {
            for (_, node) in graph.nodes() {
                let value = graph[node.output].name.as_str();
                errors.extend(values.get(value).map(|layer| (node.name.as_str(), *layer)));
                // Some machines name layers after the values that they compute.
                if costs.contains_key(value) {
                    of.entry(&node.name).or_insert(value);
                }
            }
        }
        Layers { costs, of, errors }
    }

    /// The layer that computes a node.
    fn of_node(&self, row: &PlanRow) -> Option<&str> {
        self.of.get(&*row.node).copied()
    }
}

/// Adds what a program says about its layers.
fn collect(program: &dyn Program, costs: &mut BTreeMap<String, Cost>) {
    // A program that its machine's model cannot time says so where its timeline stands.
    let tables = program.shown_by(Verb::Time).unwrap_or_default();
    for table in tables.iter().filter(|table| TABLES.contains(&table.key())) {
        let rows = serde_json::to_value(table).unwrap_or_default();
        for row in rows.as_array().into_iter().flatten() {
            if let Some(name) = NAMES.iter().find_map(|name| row[name].as_str()) {
                costs.entry(name.to_owned()).or_default().add(row);
            }
        }
    }
}

impl Cost {
    /// Adds a row about this layer, which can have several.
    fn add(&mut self, row: &Value) {
        let sum = |all: Option<u64>, more: Option<u64>| match (all, more) {
            (Some(all), Some(more)) => Some(all.saturating_add(more)),
            (one, other) => one.or(other),
        };
        self.cycles = sum(self.cycles, row["cycles"].as_u64());
        self.bytes = BYTES.iter().fold(self.bytes, |all, name| sum(all, row[name].as_u64()));
        let bound = BOUNDS.iter().find_map(|name| row[name].as_str());
        self.bound = self.bound.take().or(bound.map(str::to_owned));
    }
}
