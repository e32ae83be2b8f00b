//! Transformations. Each takes a graph and returns a new one that means the same, except
//! [`quantise`] and [`quantise_by`], which say how far it may differ.

mod extract;
mod fold_batch_norm;
mod fold_constants;
mod quantise;
mod recognise;
mod rescale;
mod rewrite;

pub use extract::{extract, extract_on_grids};
pub use fold_batch_norm::fold_batch_norm;
pub use fold_constants::fold_constants;
pub use quantise::{
    ActivationGrid, Calibrator, Grid, Layer, Method, Noise, Observations, Overrides, ParameterGrid,
    Quantised, Ranges, Recipe, Scheme, Settings, calibrate, check_quantisable, quantise,
    quantise_by,
};
pub use recognise::recognise_functions;
pub use rescale::{Beyond, Extent, Rescaled, Scaled, rescale};
pub use rewrite::remove_dead;
