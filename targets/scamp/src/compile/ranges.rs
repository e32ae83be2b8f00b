//! How large the values of a network can be in registers, from one layer to the next, when those of
//! its images are in a range.

use super::goals::Kernels;
use super::layers::{Kind, Layer};
use super::levels;
use crate::symbolic::Range;
use quincunx_diag::{Diagnostic, Result};

/// The values of an operand, of the results of a layer's head, and of each of its stages.
#[derive(Clone, Debug)]
pub(super) struct Ranges(Vec<Range>);

impl Ranges {
    /// Those of some channels of a layer, in registers. Around images there are zeros, and beyond the
    /// array.
    ///
    /// # Errors
    /// `Q5102` for sums that are too large with their bias.
    pub(super) fn new(
        layer: &Layer,
        kernels: &Kernels,
        channels: std::ops::Range<usize>,
        operand: Range,
        (scale, limit): (i32, f64),
    ) -> Result<Ranges> {
        let operand = operand.with_zero();
        let unit = 2.0_f64.powi(-(kernels.depth as i32));
        let mut all: Option<Range> = None;
        for (goal, &bias) in kernels.goals.0[channels.clone()].iter().zip(&kernels.bias[channels]) {
            let mut own = goal.cells().fold(Range { low: 0.0, high: 0.0 }, |sum, (_, count)| {
                let [a, b] = [operand.low, operand.high].map(|end| end * count as f64 * unit);
                Range { low: sum.low + a.min(b), high: sum.high + a.max(b) }
            });
            if layer.biased {
                let level = f64::from(levels::level(bias, scale).unwrap_or(0));
                own = Range { low: own.low + level, high: own.high + level };
                let most = own.high.max(-own.low);
                if most > limit {
                    let message = format!("values up to {most} are written with the bias");
                    return Err(Diagnostic::unsupported(
                        "Q5102",
                        format!("{message}, {limit} is the most"),
                    )
                    .help("a smaller --range, or --scale"));
                }
            }
            all = Some(all.map_or(own, |all| all.or(own)));
        }
        let mut list = vec![operand, all.unwrap_or(operand)];
        for stage in &layer.stages {
            let before = *list.last().unwrap_or(&operand);
            list.push(match stage.kind {
                Kind::Relu => Range { low: before.low.max(0.0), high: before.high.max(0.0) },
                Kind::Largest(_) | Kind::Mean(_) => before.with_zero(),
                Kind::Compare(..) | Kind::Same => before,
            });
        }
        Ok(Ranges(list))
    }

    /// What the head reads.
    pub(super) fn operand(&self) -> Range {
        self.0[0]
    }

    /// What a stage reads.
    pub(super) fn before(&self, stage: usize) -> Range {
        self.0[stage + 1].with_zero()
    }

    /// The results of the layer.
    pub(super) fn result(&self) -> Range {
        self.0[self.0.len() - 1]
    }
}
