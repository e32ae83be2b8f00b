//! The image simulator: an array of processing elements, exactly or with the device's errors.
//!
//! Ideal runs are exact: they are computed in f64 as long as every operation proves to lose
//! nothing, else again in fractions. Facts: `cain`, `scamp5d`
//! (`docs/bibliography.md`).

mod budget;
mod exec;
mod fast;
mod lower;
mod noise;
mod number;
mod state;

pub use budget::WorkLimit;
pub(crate) use exec::{Cell, Write};
pub use exec::{Executor, Mutate, Outcome};
pub use fast::{Fast, Inputs};
pub use noise::{Noise, Pattern, WriteErrors};
pub(crate) use number::length;
pub use state::Planes;

/// What lies beyond the edge of the array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Edge {
    /// Elements that hold 0: reads give 0, and a NEWS written from there becomes 0.
    #[default]
    Zero,
    /// Nothing, as in Cain's emulator: an element on the border keeps a register of its own for each
    /// neighbour that is missing, and a NEWS that would be written from there keeps its value.
    Stale,
}

/// How a program is run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// What lies beyond the edge.
    pub edge: Edge,
    /// Errors of the device; `None` for an ideal one.
    pub noise: Option<Noise>,
    /// Values stop at plus and minus this.
    pub saturation: Option<f64>,
    /// What a run may compute.
    pub work: WorkLimit,
}
