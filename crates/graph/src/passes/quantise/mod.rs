//! Quantising a float graph with calibration data.
//!
//! [`Calibrator`] observes what every value is like, [`quantise_by`] gives each layer a grid as a
//! [`Recipe`] says. [`calibrate`] and [`quantise`] are the short form with one scheme.

mod calibrate;
mod clip;
mod grids;
mod histogram;
mod insert;
mod parameters;
mod places;
mod recipe;
mod report;

pub use calibrate::{Calibrator, Observations, calibrate};
pub use clip::Method;
pub use recipe::{Grid, Overrides, Recipe, Scheme, Settings};
pub use report::{ActivationGrid, Layer, Noise, ParameterGrid, Quantised};

use crate::Graph;
use quincunx_diag::Result;
use rustc_hash::FxHashMap;

/// Lowest and highest number a value took on the calibration data, by value name.
pub type Ranges = FxHashMap<String, (f64, f64)>;

/// Quantises every layer by the same scheme, with grids that cover the calibrated ranges. As
/// [`quantise_by`].
///
/// # Errors
/// As [`quantise_by`].
pub fn quantise(graph: &Graph, ranges: &Ranges, scheme: &Scheme) -> Result<Graph> {
    let recipe = Recipe { method: Method::MinMax, ..Recipe::from(scheme) };
    Ok(quantise_by(graph, &Observations::from(ranges), &recipe)?.graph)
}

/// Inserts quantisers after the inputs and after every layer that computes new numbers (behind
/// its ReLU where one follows), and turns weights and biases into codes. Results that are outputs
/// of the graph stay exact. What lies outside a grid saturates. Values that already lie on a grid
/// are left alone.
///
/// Operators that move or select elements keep the grid of their operand. With [`Grid::Affine`],
/// all operands of a Concat share one grid, and the right operand of a product of two results has
/// its zero in the middle.
///
/// # Errors
/// `Q0313` when a value was not calibrated; `Q0315` for a recipe that cannot be followed.
pub fn quantise_by(graph: &Graph, found: &Observations, recipe: &Recipe) -> Result<Quantised> {
    insert::insert(graph, &places(graph, recipe)?, found, recipe)
}

/// Checks what no calibration can mend, so that it is known before one.
///
/// # Errors
/// `Q0313` for weights that are not finite; `Q0315` for a recipe that cannot be followed.
pub fn check_quantisable(graph: &Graph, recipe: &Recipe) -> Result<()> {
    places(graph, recipe).map(drop)
}

fn places(graph: &Graph, recipe: &Recipe) -> Result<places::Places> {
    recipe.check()?;
    let places = places::find(graph, recipe);
    insert::check(graph, &places)?;
    Ok(places)
}
