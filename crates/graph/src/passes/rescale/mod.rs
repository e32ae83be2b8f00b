//! Giving every value an exponent: machines of one format for all numbers hold a value times a power
//! of two, so that none leaves the range and small ones keep their bits.
//!
//! Exponents are folded into constants. Multiplying by a power of two changes no bit of a float but
//! its exponent, so the new graph computes the numbers of the old one in f32, bit for bit, times
//! their powers of two, unless one overflows or becomes subnormal.

mod apply;
mod choose;
mod roles;

use super::Ranges;
use crate::Graph;
use quincunx_diag::Result;
use std::collections::BTreeMap;

/// Numbers of a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extent {
    /// The largest magnitude.
    pub most: f64,
    /// The distance of two numbers.
    pub step: f64,
}

/// Steps that the numbers of a value should have.
const STEPS: f64 = 64.0;

impl Extent {
    fn holds(self, magnitude: f64) -> bool {
        magnitude <= self.most + self.step
    }

    /// True for a magnitude of so few steps that little is left of the numbers.
    fn loses(self, magnitude: f64) -> bool {
        magnitude < (STEPS * self.step).min(self.most / 16.0)
    }
}

/// A value of the old graph times a power of two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scaled {
    /// Its name in the old graph.
    pub value: String,
    /// The exponent.
    pub exponent: i32,
}

/// A node of the new graph that computes or reads numbers that the machine does not hold, or of which
/// it would lose too much.
#[derive(Clone, Debug, PartialEq)]
pub struct Beyond {
    /// Its name.
    pub node: String,
    /// The value of the old graph.
    pub value: String,
    /// The largest magnitude of the numbers as they are there.
    pub reach: f64,
}

/// A graph with exponents.
#[derive(Clone, Debug)]
pub struct Rescaled {
    /// The graph. Values with exponent 0 keep their names, and so do inputs and outputs.
    pub graph: Graph,
    /// What the other values are, by their names in the new graph.
    pub scaled: BTreeMap<String, Scaled>,
    /// Nodes that are not for the machine.
    pub beyond: Vec<Beyond>,
}

/// Chooses an exponent for every value by its range, and rewrites the graph. Inputs, outputs and what
/// functions other than sums, products, maxima and movement read and compute stay as they are if the
/// machine holds them well. A value that is needed with another exponent than it has is multiplied.
///
/// # Errors
/// None for a graph that verifies.
pub fn rescale(graph: &Graph, ranges: &Ranges, extent: Extent) -> Result<Rescaled> {
    let peak = |name: &str| {
        ranges.get(name).map(|&(low, high)| low.abs().max(high.abs()).max(f64::MIN_POSITIVE))
    };
    let peaks: Vec<Option<f64>> = graph.values().map(|(_, value)| peak(&value.name)).collect();
    let roles = roles::roles(graph, &peaks, extent);
    let exponents = choose::exponents(graph, &peaks, &roles, extent);
    apply::apply(graph, &roles, &exponents, &peaks, extent)
}
