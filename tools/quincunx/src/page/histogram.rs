//! How often which numbers occur, against the grid that a machine has for them.

use quincunx_graph::{Quantiser, Scalar};
use std::fmt::Write as _;

/// Columns of a histogram.
const BINS: usize = 48;

/// Pixels of the picture, and those of its bars.
const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 72.0;
const BARS: f64 = 60.0;

/// Most numbers of a grid that are marked one by one.
const MARKS: f64 = 60.0;

/// Numbers counted by size.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Histogram {
    /// Lowest and highest number.
    ends: [f64; 2],
    /// Counts of equal parts from the lowest to the highest.
    bins: Vec<u64>,
}

impl Histogram {
    /// Of all finite numbers; `None` when there are none.
    pub(super) fn of<'a>(numbers: impl Iterator<Item = &'a f64> + Clone) -> Option<Histogram> {
        let finite = numbers.filter(|number| number.is_finite());
        let ends =
            finite.clone().fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], &number| {
                [low.min(number), high.max(number)]
            });
        let [low, high] = ends;
        if low > high {
            return None;
        }
        let mut bins = vec![0; BINS];
        // Halves, since the whole may be more than a number holds.
        let extent = (high / 2.0 - low / 2.0).max(f64::MIN_POSITIVE);
        for number in finite {
            let share = (number / 2.0 - low / 2.0) / extent;
            bins[((share * BINS as f64) as usize).min(BINS - 1)] += 1;
        }
        Some(Histogram { ends, bins })
    }

    /// Lowest and highest number.
    pub(super) fn ends(&self) -> [f64; 2] {
        self.ends
    }

    /// The picture: bars, high as the logarithms of their counts, over the numbers of the grid that
    /// lie between the ends.
    pub(super) fn svg(&self, grid: Option<&Grid>) -> String {
        let most = self.bins.iter().copied().max().unwrap_or(0).max(1) as f64;
        let wide = WIDTH / BINS as f64;
        let mut bars = String::new();
        for (index, &count) in self.bins.iter().enumerate().filter(|(_, count)| **count > 0) {
            let high = (count as f64).ln_1p() / most.ln_1p() * BARS;
            // Writing to a string cannot fail.
            let _ =
                write!(bars, "M{:.0} {BARS}v-{high:.0}h{wide:.0}v{high:.0}z", index as f64 * wide);
        }
        format!(
            "<svg class=\"histogram\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} \
             {HEIGHT}\" role=\"img\"><path class=\"bars\" d=\"{bars}\"/>{}</svg>",
            grid.map(|grid| self.marks(grid)).unwrap_or_default()
        )
    }

    /// The grid below the bars: a band as long as it holds numbers, and marks where they are few.
    fn marks(&self, grid: &Grid) -> String {
        let [low, high] = self.ends;
        let x = |number: f64| {
            let extent = (high - low).max(f64::MIN_POSITIVE);
            ((number - low) / extent * WIDTH).clamp(0.0, WIDTH)
        };
        let [from, to] = grid.ends.map(x);
        let top = BARS + 3.0;
        let mut out = format!(
            "<path class=\"held\" d=\"M{from:.0} {top}H{:.0}v6H{from:.0}z\"/>",
            to.max(from + 1.0)
        );
        let within = [low.max(grid.ends[0]), high.min(grid.ends[1])];
        let marks = (within[1] - within[0]) / grid.step;
        if grid.is_uniform && (0.0..=MARKS).contains(&marks) {
            let first = ((within[0] - grid.ends[0]) / grid.step).ceil();
            out += "<path class=\"marks\" d=\"";
            for index in 0..=marks as usize {
                let _ = write!(
                    out,
                    "M{:.1} {top}v8",
                    x(grid.ends[0] + (first + index as f64) * grid.step)
                );
            }
            out += "\"/>";
        }
        out
    }
}

/// The numbers that a machine has.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Grid {
    /// Lowest and highest.
    pub(super) ends: [f64; 2],
    /// The smallest distance of two.
    pub(super) step: f64,
    /// The same for all elements.
    is_uniform: bool,
    /// What it is called.
    pub(super) name: String,
}

impl Grid {
    /// The grid of a quantiser for a tensor of this shape.
    pub(super) fn of(quantiser: &Quantiser, shape: &[usize]) -> Option<Grid> {
        let is_uniform = quantiser.is_uniform();
        let scalars = quantiser.scalars(if is_uniform { &[] } else { shape })?;
        let first = scalars.first()?;
        let join = |[low, high]: [f64; 2], scalar: &Scalar| {
            let ends = scalar.ends();
            [low.min(ends[0]), high.max(ends[1])]
        };
        let ends = scalars.iter().fold(first.ends(), join);
        let step = scalars.iter().map(|scalar| scalar.scale).fold(first.scale, f64::min);
        Some(Grid { ends, step, is_uniform, name: quantiser.to_string() })
    }

    /// Numbers that lie more than half a step beyond the ends.
    pub(super) fn beyond<'a>(&self, numbers: impl Iterator<Item = &'a f64>) -> usize {
        let [low, high] = self.ends;
        let half = self.step / 2.0;
        numbers.filter(|&&number| number < low - half || number > high + half).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finite_number_is_counted_once() {
        let numbers = [-1.0, 0.0, 1.0, f64::NAN, f64::INFINITY, 1.0];
        let histogram = Histogram::of(numbers.iter()).unwrap();
        assert_eq!(histogram.ends(), [-1.0, 1.0]);
        assert_eq!(histogram.bins.iter().sum::<u64>(), 4);
        assert_eq!((histogram.bins[0], histogram.bins[BINS - 1]), (1, 2));
        assert_eq!(Histogram::of([f64::NAN].iter()), None);
        // Numbers whose distance no number holds, and equal ones.
        for numbers in [[f64::MAX, -f64::MAX], [3.0, 3.0], [0.0, 5e-324]] {
            let histogram = Histogram::of(numbers.iter()).unwrap();
            assert_eq!(histogram.bins.iter().sum::<u64>(), 2, "{numbers:?}");
            let svg = histogram.svg(Grid::of(&Quantiser::symmetric(true, 8, 1.0), &[]).as_ref());
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn few_numbers_of_a_grid_are_marked() {
        let numbers = [-2.0, 2.0];
        let histogram = Histogram::of(numbers.iter()).unwrap();
        let svg = |width, scale| {
            histogram.svg(Grid::of(&Quantiser::symmetric(true, width, scale), &[]).as_ref())
        };
        // -1.0, -0.5, 0.0, 0.5 hold the middle; -2 and 2 are beyond.
        let coarse = svg(2, 0.5);
        assert!(coarse.contains("M60 63H150"), "{coarse}");
        assert_eq!(coarse.matches("v8").count(), 4, "{coarse}");
        assert!(!svg(16, 0.001).contains("marks"));
        let grid = Grid::of(&Quantiser::symmetric(true, 2, 0.5), &[]).unwrap();
        assert_eq!((grid.beyond(numbers.iter()), grid.ends, grid.step), (2, [-1.0, 0.5], 0.5));
    }
}
