//! Softmax: in f32, in the order of the machine's sums.

use super::misfit;
use crate::isa::math;
use crate::isa::vector::Function;
use quincunx_diag::Result;
use quincunx_graph as graph;
use std::f32::consts::LOG2_E;
use std::num::NonZeroUsize;

/// Most lanes of an instruction.
const MOST_LANES: usize = 32;

/// Rows along an axis.
pub(super) struct Softmax {
    /// Elements of a row.
    extent: usize,
    /// From one to the next.
    step: usize,
    /// Partial sums.
    lanes: usize,
}

impl Softmax {
    /// The softmax of a value of this shape. `lanes` are how many partial sums there are.
    ///
    /// # Errors
    /// `Q6190` for a logarithm, a value without elements, or partial sums that are no power of two
    /// up to 32.
    pub(super) fn new(
        softmax: &graph::Softmax,
        shape: &[usize],
        lanes: Option<NonZeroUsize>,
    ) -> Result<Softmax> {
        let lanes = lanes.filter(|lanes| lanes.is_power_of_two() && lanes.get() <= MOST_LANES);
        let lanes = lanes.ok_or_else(|| misfit("a softmax has no order of sums"))?;
        match shape.get(softmax.axis..) {
            Some([extent, inner @ ..]) if !softmax.log && !shape.contains(&0) => {
                let step = inner.iter().product();
                Ok(Softmax { extent: *extent, step, lanes: lanes.get() })
            }
            _ => Err(misfit("a softmax has no elements or is a logarithm")),
        }
    }

    /// The shares of all numbers, which are multiples of `unit`, in parts of which 1 has so many.
    pub(super) fn apply(&self, x: &[f32], unit: f32, parts: f32) -> Vec<f32> {
        let mut shares = vec![0.0; x.len()];
        let firsts = |block: usize| (0..self.step).map(move |at| block + at);
        for first in (0..x.len()).step_by(self.extent * self.step).flat_map(firsts) {
            let places = || (0..self.extent).map(|at| first + at * self.step);
            let row: Vec<f32> = places().map(|at| x[at]).collect();
            for (at, share) in places().zip(self.row(row, unit * LOG2_E, parts)) {
                shares[at] = share;
            }
        }
        shares
    }

    fn row(&self, mut row: Vec<f32>, factor: f32, parts: f32) -> Vec<f32> {
        let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        for number in &mut row {
            *number = math::value(Function::Exp, (*number - most) * factor);
        }
        // Lane by lane, then halves of the lanes.
        let mut sums = vec![0.0; self.lanes];
        for (at, number) in row.iter().enumerate() {
            sums[at % self.lanes] += number;
        }
        while sums.len() > 1 {
            let upper = sums.split_off(sums.len() / 2);
            sums.iter_mut().zip(upper).for_each(|(sum, other)| *sum += other);
        }
        let share = math::value(Function::Inv, sums[0]) * parts;
        row.into_iter().map(|number| number * share).collect()
    }
}
