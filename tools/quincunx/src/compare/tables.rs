//! Rows as tables.

use super::{Figures, Row, layers};
use quincunx_contract::plan::Place;
use quincunx_contract::{MemoryUse, Verb};
use quincunx_report::{Cell, Column, Report, Table};
use std::collections::BTreeSet;

/// The rows, and their layers where these were asked for; `all` adds what is known besides.
pub fn report(rows: &[Row], layers: bool, all: bool) -> Report {
    let mut report = Report::from(summary(rows));
    if all {
        let more = [programs(rows), errors(rows), memories(rows), costs(rows), host(rows)];
        report = more.into_iter().fold(report, Report::table);
    }
    if !layers {
        return report;
    }
    let mut table = layers::table();
    for (row, figures) in measured(rows) {
        layers::push(&mut table, row, &figures.layers);
    }
    report.table(table)
}

/// The rows with figures.
fn measured(rows: &[Row]) -> impl Iterator<Item = (&Row, &Figures)> {
    rows.iter().filter_map(|row| Some((row, row.figures.as_ref()?)))
}

/// A table with a row per machine, or several.
fn table(key: &'static str, more: impl IntoIterator<Item = Column>) -> Table {
    let columns = [Column::text("target"), Column::text("machine")];
    Table::new(key, columns.into_iter().chain(more).collect())
}

/// Adds a row about a machine.
fn push(table: &mut Table, row: &Row, cells: impl IntoIterator<Item = Cell>) {
    let names = [row.target.into(), row.machine.as_str().into()];
    table.push(names.into_iter().chain(cells).collect());
}

fn share(part: Option<f64>) -> Cell {
    part.map_or(Cell::Empty, Cell::Share)
}

fn microseconds(figures: &Figures) -> Cell {
    figures.seconds.map_or(Cell::Empty, |seconds| Cell::Brief(seconds * 1e6))
}

/// One row per machine: for people what tells them apart, for programs everything.
fn summary(rows: &[Row]) -> Table {
    let hidden = |key: &'static str| Column::number(key).for_programs();
    let mut all = table(
        "rows",
        [
            Column::text("status"),
            Column::number("images"),
            Column::number("bit_exact").titled("exact"),
            Column::number("agree"),
            Column::number("accuracy"),
            Column::number("device_mac_share").titled("MACs"),
            Column::number("microseconds").titled("time [us]"),
            Column::number("utilisation").titled("used"),
            Column::text("limit"),
            hidden("instructions"),
            hidden("bytes"),
            hidden("cycles"),
            hidden("seconds_compile"),
            hidden("images_per_second"),
            hidden("max_error"),
            hidden("max_difference"),
            hidden("clipped"),
        ],
    );
    for row in rows {
        let mut cells = vec![row.status.name().into(), row.images.into()];
        if let Some(figures) = &row.figures {
            cells.extend(summary_cells(figures));
        }
        cells.resize(17, Cell::Empty);
        push(&mut all, row, cells);
    }
    all
}

fn summary_cells(figures: &Figures) -> [Cell; 15] {
    let demand = figures.demand();
    [
        figures.bit_exact.into(),
        figures.agree.into(),
        share(figures.accuracy),
        Cell::Share(figures.device_mac_share),
        microseconds(figures),
        share(demand.and_then(|demand| demand.utilisation)),
        demand.and_then(|demand| demand.limit.clone()).into(),
        figures.stats.instructions.into(),
        figures.stats.bytes.into(),
        figures.stats.cycles.into(),
        Cell::Real(figures.seconds_compile, 3),
        Cell::Real(figures.images_per_second, 1),
        figures.max_error.map_or(Cell::Empty, Cell::Number),
        Cell::Brief(figures.max_difference),
        figures.clipped.into(),
    ]
}

/// Size and speed of the programs.
fn programs(rows: &[Row]) -> Table {
    let mut all = table(
        "programs",
        [
            Column::number("instructions"),
            Column::number("bytes"),
            Column::number("cycles"),
            Column::number("microseconds").titled("time [us]"),
            Column::number("images_per_second").titled("images/s"),
            Column::number("seconds_compile").titled("compile [s]"),
            Column::number("simulated_per_second").titled("simulation [images/s]"),
        ],
    );
    for (row, figures) in measured(rows) {
        let stats = &figures.stats;
        let one_by_one = figures.seconds.filter(|&seconds| seconds > 0.0).map(f64::recip);
        let rate = stats.rate().or(one_by_one);
        let cells = [
            stats.instructions.into(),
            stats.bytes.into(),
            stats.cycles.into(),
            microseconds(figures),
            rate.map_or(Cell::Empty, Cell::Brief),
            Cell::Real(figures.seconds_compile, 3),
            Cell::Real(figures.images_per_second, 1),
        ];
        push(&mut all, row, cells);
    }
    all
}

/// How far the judges are apart.
fn errors(rows: &[Row]) -> Table {
    let columns = ["images", "bit_exact", "agree", "accuracy", "max_error", "max_difference"];
    let columns = columns.into_iter().chain(["clipped"]).map(Column::number);
    let mut all = table("errors", columns);
    for (row, figures) in measured(rows) {
        let cells = [
            row.images.into(),
            figures.bit_exact.into(),
            figures.agree.into(),
            share(figures.accuracy),
            figures.max_error.map_or(Cell::Empty, Cell::Brief),
            Cell::Brief(figures.max_difference),
            figures.clipped.into(),
        ];
        push(&mut all, row, cells);
    }
    all
}

/// What the programs use of the memories, at most.
fn memories(rows: &[Row]) -> Table {
    let words = ["segment", "memory", "unit"].map(Column::text);
    let numbers = ["used", "size", "share"].map(Column::number);
    let mut all = table("memories", words.into_iter().chain(numbers));
    for (row, figures) in measured(rows) {
        for (segment, demand) in &figures.demands {
            for MemoryUse { name, unit, used, size } in &demand.memories {
                let part = size.filter(|&size| size > 0).map(|size| *used as f64 / size as f64);
                let words = [segment.as_str(), name.as_str(), unit].map(Cell::from);
                let numbers = [(*used).into(), (*size).into(), share(part)];
                push(&mut all, row, words.into_iter().chain(numbers));
            }
        }
    }
    all
}

/// What the programs cost in the machine's own terms: adders and LUTs, bus steps, energy.
fn costs(rows: &[Row]) -> Table {
    let mut all = table("costs", ["segment", "name", "value"].map(Column::text));
    for row in rows {
        for (stage, program) in row.executable().iter().flat_map(|all| all.programs()) {
            let mut own = Table::properties("own");
            for (name, value) in program.stats().figures {
                own.property(name, value);
            }
            for table in program.shown_by(Verb::Compile).unwrap_or_default() {
                own.append_properties("", table);
            }
            let mut seen = BTreeSet::new();
            for (name, value) in own.as_properties() {
                if seen.insert(name.clone()) {
                    push(&mut all, row, [stage.name.as_str().into(), name.into(), value.clone()]);
                }
            }
        }
    }
    all
}

/// What the host computes, and why.
fn host(rows: &[Row]) -> Table {
    let columns = [
        Column::text("node"),
        Column::text("op"),
        Column::number("macs"),
        Column::number("share"),
        Column::text("reason"),
    ];
    let mut all = table("host", columns);
    for row in rows {
        let plan = row.compilation.iter().flat_map(|compilation| &compilation.plan.rows);
        for node in plan.filter(|node| node.place == Place::Host) {
            let cells = [
                node.node.as_str().into(),
                node.op.into(),
                node.macs.into(),
                Cell::Share(node.share),
                node.reason.clone().into(),
            ];
            push(&mut all, row, cells);
        }
    }
    all
}
