//! What was done, as a table.

use super::Quantisation;
use quincunx_graph::Quantiser;
use quincunx_graph::passes::{Layer, Noise, ParameterGrid};
use quincunx_report::{Cell, Column, Table};

/// One row per layer: the grid of its result with what that lost on the calibration data, and the
/// grids of its weights with what they lost.
pub fn table(quantisation: &Quantisation) -> Table {
    let mut table = Table::new(
        "rows",
        vec![
            Column::text("layer"),
            Column::text("op"),
            Column::text("codes"),
            Column::number("low"),
            Column::number("high"),
            Column::number("scale"),
            Column::number("zero"),
            Column::number("sqnr").unit("dB"),
            Column::text("weights"),
            Column::number("weight_low"),
            Column::number("weight_high"),
            Column::number("weight_scale"),
            Column::number("weight_scales"),
            Column::number("weight_sqnr").unit("dB"),
        ],
    );
    for (layer, noise) in quantisation.quantised.layers.iter().zip(&quantisation.noise) {
        table.push(row(layer, *noise));
    }
    table
}

fn row(layer: &Layer, noise: Noise) -> Vec<Cell> {
    let grid = layer.activation.as_ref();
    let weights: Vec<&ParameterGrid> = layer.parameters.iter().filter(|p| !p.bias).collect();
    let number = |value: f64| Cell::Real(value, 6);
    let decibels = |noise: Noise| noise.decibels().map_or(Cell::Empty, |db| Cell::Real(db, 1));
    let float = || if layer.skipped { "float".into() } else { Cell::Empty };
    let scales = || weights.iter().flat_map(|w| w.quantiser.scale.values().iter().copied());
    let some = |cell: Cell| if weights.is_empty() { Cell::Empty } else { cell };
    let mut lost = Noise::default();
    weights.iter().for_each(|w| lost.add(w.noise));
    vec![
        layer.name.as_str().into(),
        layer.op.into(),
        grid.map_or_else(float, |g| format(&g.quantiser)),
        grid.map_or(Cell::Empty, |g| number(g.low)),
        grid.map_or(Cell::Empty, |g| number(g.high)),
        grid.and_then(|g| g.quantiser.scale.as_uniform()).map_or(Cell::Empty, Cell::Number),
        grid.and_then(|g| g.quantiser.zero.as_uniform())
            .map_or(Cell::Empty, |zero| Cell::Number(zero as f64)),
        if grid.is_some() { decibels(noise) } else { Cell::Empty },
        weights.first().map_or_else(float, |w| format(&w.quantiser)),
        some(number(weights.iter().map(|w| w.low).fold(0.0, f64::min))),
        some(number(weights.iter().map(|w| w.high).fold(0.0, f64::max))),
        some(Cell::Number(scales().fold(0.0, f64::max))),
        some(scales().count().into()),
        some(decibels(lost)),
    ]
}

/// Sign and width, as in `u8`.
fn format(quantiser: &Quantiser) -> Cell {
    let sign = if quantiser.signed.as_uniform() == Some(true) { "s" } else { "u" };
    format!("{sign}{}", quantiser.width.as_uniform().unwrap_or(0)).into()
}
