//! The rows of a sweep as tables.

use super::{Figures, Row, Sweep, Variation};
use quincunx_report::{Cell, Column, Report, Table};
use serde_json::Value;

/// What is the same for all machines, and a row for each.
pub fn report(sweep: &Sweep<'_>, rows: &[Row]) -> Report {
    let figures = figures(sweep, rows);
    let mut summary = Table::properties("summary");
    summary.property("target", sweep.setup.name());
    summary.property("machine", sweep.setup.arch.name());
    summary.property("combinations", rows.len());
    summary.property("compiled", rows.iter().filter(|row| row.result.is_ok()).count());
    for figure in figures.iter().filter(|figure| !figure.differs()) {
        let known = figure.cells.iter().find(|cell| **cell != Cell::Empty);
        summary.property(&figure.name, known.cloned().unwrap_or(Cell::Empty));
    }
    let accurate = if sweep.has_classes() { " as accurate," } else { "" };
    summary.property(
        "pareto",
        format!(
            "no other machine is as fast,{accurate} takes as much of the model and has varied numbers as \
             small, with one of these better"
        ),
    );
    Report::new().table(table(sweep, rows, &figures)).table(summary)
}

/// What targets tell of programs besides their speed: a cell for every row.
struct Figure {
    name: String,
    cells: Vec<Cell>,
}

impl Figure {
    fn differs(&self) -> bool {
        let mut known = self.cells.iter().filter(|cell| **cell != Cell::Empty);
        let first = known.next();
        known.any(|cell| Some(cell) != first)
    }
}

/// The figures that are no varied parameters, in the order of the target.
fn figures(sweep: &Sweep<'_>, rows: &[Row]) -> Vec<Figure> {
    let of = |row: &Row| row.result.as_ref().map_or(Vec::new(), |figures| figures.figures.clone());
    let all: Vec<_> = rows.iter().map(of).collect();
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in all.iter().flatten() {
        let parameter = name.replace(' ', "_");
        let varied = sweep.vary.iter().any(|variation| variation.parameter == parameter);
        if !varied && !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let cell = |row: &Vec<(String, Vec<String>)>, name| {
        let found = row.iter().find(|(known, _)| known == name);
        found.map_or(Cell::Empty, |(_, values)| figure(values))
    };
    let cells = |name| all.iter().map(|row| cell(row, name)).collect();
    names.into_iter().map(|name| Figure { name: name.to_owned(), cells: cells(name) }).collect()
}

/// A figure of one program, or of several.
fn figure(values: &[String]) -> Cell {
    let one = |text: &String| match (text.parse(), text.parse::<f64>()) {
        (Ok(count), _) => Cell::Count(count),
        (_, Ok(number)) if number.is_finite() => Cell::Brief(number),
        _ => text.as_str().into(),
    };
    match values {
        [only] => one(only),
        // Words about the machine, which all programs share.
        [first, others @ ..]
            if first.parse::<f64>().is_err() && others.iter().all(|o| o == first) =>
        {
            one(first)
        }
        _ => Cell::List(values.iter().map(one).collect(), values.len()),
    }
}

fn value(value: &Value) -> Cell {
    match (value.as_i64(), value.as_f64(), value.as_str()) {
        (Some(whole), ..) => Cell::Integer(whole),
        (_, Some(number), _) => Cell::Number(number),
        (.., Some(text)) => text.into(),
        _ => value.to_string().into(),
    }
}

/// The columns of the accuracy.
fn accuracies(sweep: &Sweep<'_>) -> &'static [&'static str] {
    match (sweep.has_classes(), sweep.over) {
        (false, _) => &[],
        (true, []) => &["accuracy"],
        (true, _) => &["accuracy", "least_accuracy", "largest_accuracy"],
    }
}

fn table(sweep: &Sweep<'_>, rows: &[Row], figures: &[Figure]) -> Table {
    let parameter = |(place, variation): (usize, &Variation)| {
        let name = variation.parameter.clone();
        match rows.iter().all(|row| row.values[place].is_number()) {
            true => Column::number(name),
            false => Column::text(name),
        }
    };
    let mut columns: Vec<Column> = sweep.vary.iter().enumerate().map(parameter).collect();
    columns.extend(["status", "pareto"].map(Column::text));
    let accuracies = accuracies(sweep);
    columns.extend(accuracies.iter().copied().map(Column::number));
    let errors = if sweep.data.is_some() { &["max_difference", "rms_difference"][..] } else { &[] };
    columns.extend(errors.iter().copied().map(Column::number));
    columns.extend(["cycles", "microseconds", "device_mac_share"].map(Column::number));
    columns.extend(["instructions", "bytes"].map(Column::number));
    let differing = || figures.iter().filter(|figure| figure.differs());
    columns.extend(differing().map(|figure| Column::number(figure.name.replace(' ', "_"))));
    columns.push(Column::text("problem"));
    let mut table = Table::new("rows", columns);
    for (index, row) in rows.iter().enumerate() {
        let mut cells: Vec<Cell> = row.values.iter().map(value).collect();
        cells.push(row.status().into());
        cells.push(row.pareto.then_some("yes").into());
        let figures = row.result.as_ref().ok();
        let range = figures.and_then(Figures::accuracy_range);
        let shares = [figures.and_then(Figures::accuracy), range.map(|r| r.0), range.map(|r| r.1)];
        let shares = shares.map(|share| share.map_or(Cell::Empty, Cell::Share));
        cells.extend(shares.into_iter().take(accuracies.len()));
        let distance = figures.and_then(|figures| figures.distance);
        let apart = distance.map(|distance| [distance.max, distance.rms()].map(Cell::Brief));
        cells.extend(apart.unwrap_or([Cell::Empty, Cell::Empty]).into_iter().take(errors.len()));
        match &row.result {
            Ok(Figures { stats, share, .. }) => cells.extend([
                stats.cycles.into(),
                stats.seconds().map(|seconds| Cell::Brief(seconds * 1e6)).into(),
                Cell::Share(*share),
                stats.instructions.into(),
                stats.bytes.into(),
            ]),
            Err(_) => cells.extend(std::iter::repeat_n(Cell::Empty, 5)),
        }
        cells.extend(differing().map(|figure| figure.cells[index].clone()));
        cells.push(row.problem().into());
        table.push(cells);
    }
    table
}
