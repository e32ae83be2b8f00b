//! How often numbers of each size occur, in bounded memory.

/// Most bins on each side of 0.
pub(super) const MOST_BINS: usize = 2048;

/// Fewest bins on each side of 0.
pub(super) const FEWEST_BINS: usize = 64;

/// Counts of numbers in bins of equal width on both sides of 0, which is counted by itself. The
/// reach of the bins is a power of two that grows with the data by joining neighbouring bins, so
/// the counts do not depend on the order of the numbers.
///
/// Invariant: bin `i` of a side holds the magnitudes above `i * width` up to `(i + 1) * width`,
/// with `width = 2^reach / bins`; a side is empty until it has a number.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    bins: usize,
    reach: i32,
    zeros: u64,
    negative: Vec<u64>,
    positive: Vec<u64>,
}

impl Histogram {
    /// An empty histogram with so many bins on each side: a power of two.
    pub(super) fn new(bins: usize) -> Self {
        Histogram { bins, reach: i32::MIN, zeros: 0, negative: Vec::new(), positive: Vec::new() }
    }

    /// Counts a finite number.
    pub(super) fn add(&mut self, x: f64) {
        if x == 0.0 {
            self.zeros += 1;
            return;
        }
        self.grow(ceil_log2(x.abs()));
        let position = x.abs() / power(self.reach) * self.bins as f64;
        let bin = (position.ceil() as usize).clamp(1, self.bins) - 1;
        let side = if x < 0.0 { &mut self.negative } else { &mut self.positive };
        if side.is_empty() {
            side.resize(self.bins, 0);
        }
        side[bin] += 1;
    }

    /// Adds the counts of another histogram with as many bins.
    pub(super) fn merge(&mut self, mut other: Histogram) {
        let reach = self.reach.max(other.reach);
        self.grow(reach);
        other.grow(reach);
        self.zeros += other.zeros;
        for (own, more) in
            [(&mut self.negative, other.negative), (&mut self.positive, other.positive)]
        {
            if own.is_empty() {
                *own = more;
            } else {
                own.iter_mut().zip(more).for_each(|(own, more)| *own += more);
            }
        }
    }

    /// Width of a bin.
    pub(super) fn width(&self) -> f64 {
        power(self.reach) / self.bins as f64
    }

    /// The middle of every bin that is not empty, with its count; 0 among them, from low to high.
    pub(super) fn bins(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let width = self.width();
        let middle = move |index: usize| (index as f64 + 0.5) * width;
        let negative = self.negative.iter().enumerate().rev();
        let positive = self.positive.iter().enumerate();
        negative
            .map(move |(index, &count)| (-middle(index), count))
            .chain([(0.0, self.zeros)])
            .chain(positive.map(move |(index, &count)| (middle(index), count)))
            .filter(|&(_, count)| count > 0)
    }

    /// The range that is left when up to `share` of all numbers is cut off at each end, as edges of
    /// bins; it includes 0.
    pub(super) fn without_tails(&self, share: f64) -> (f64, f64) {
        let total: u64 = self.bins().map(|(_, count)| count).sum();
        let cut = (total as f64 * share) as u64;
        let half = self.width() / 2.0;
        let bins: Vec<(f64, u64)> = self.bins().collect();
        let (low, high) = (edge(bins.iter(), cut), edge(bins.iter().rev(), cut));
        ((low - half).min(0.0), (high + half).max(0.0))
    }

    /// Joins pairs of bins until magnitudes of `2^reach` fit.
    fn grow(&mut self, reach: i32) {
        if self.reach == i32::MIN {
            self.reach = reach;
        }
        while self.reach < reach {
            self.reach += 1;
            for side in [&mut self.negative, &mut self.positive] {
                for index in 0..side.len() {
                    let pair = side.get(2 * index..2 * index + 2);
                    side[index] = pair.map_or(0, |pair| pair.iter().sum());
                }
            }
        }
    }
}

/// The first bin that is not cut off when up to `cut` numbers are.
fn edge<'a>(mut bins: impl Iterator<Item = &'a (f64, u64)>, cut: u64) -> f64 {
    let mut passed = 0;
    let left = bins.find(|(_, count)| {
        passed += count;
        passed > cut
    });
    left.map_or(0.0, |&(middle, _)| middle)
}

/// The smallest whole `e` with `x <= 2^e`, for a positive finite number.
fn ceil_log2(x: f64) -> i32 {
    let guess = x.log2().ceil() as i32;
    // The logarithm is rounded.
    (guess - 1..=guess).find(|&e| x <= power(e)).unwrap_or(guess + 1)
}

fn power(exponent: i32) -> f64 {
    2.0_f64.powi(exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers() -> Vec<f64> {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as f64 / f64::from(1 << 24) - 0.4
        };
        (0..5000).map(|_| (next() * 8.0).powi(5) / 64.0).chain([0.0, 1.0, 2.0, -4.0]).collect()
    }

    fn of(numbers: impl Iterator<Item = f64>) -> Histogram {
        let mut histogram = Histogram::new(256);
        numbers.for_each(|x| histogram.add(x));
        histogram
    }

    #[test]
    fn order_and_parts_do_not_matter() {
        let numbers = numbers();
        let forward = of(numbers.iter().copied());
        let backward = of(numbers.iter().rev().copied());
        let mut sorted = numbers.clone();
        sorted.sort_by(f64::total_cmp);
        let mut parts = of(numbers[..7].iter().copied());
        parts.merge(of(numbers[7..].iter().copied()));
        for other in [backward, of(sorted.into_iter()), parts] {
            assert!(forward.bins().eq(other.bins()));
        }
    }

    #[test]
    fn every_number_lies_in_its_bin() {
        for x in numbers().into_iter().chain([1e-30, 3e38, -1e-42, 0.25]) {
            let histogram = of([x].into_iter());
            let (middle, count) = histogram.bins().next().unwrap();
            assert!(count == 1 && (x == 0.0 || (middle - x).abs() <= histogram.width() / 2.0));
        }
    }

    #[test]
    fn tails_are_quantiles() {
        let mut sorted = numbers();
        let histogram = of(sorted.iter().copied());
        sorted.sort_by(f64::total_cmp);
        for share in [0.0, 0.001, 0.01, 0.1] {
            let cut = (sorted.len() as f64 * share) as usize;
            let (low, high) = histogram.without_tails(share);
            let (expected_low, expected_high) = (sorted[cut], sorted[sorted.len() - 1 - cut]);
            let width = histogram.width();
            assert!(low <= expected_low.min(0.0) && expected_low - low <= width, "{share}");
            assert!(high >= expected_high.max(0.0) && high - expected_high <= width, "{share}");
        }
        assert_eq!(of([].into_iter()).without_tails(0.1), (0.0, 0.0));
    }
}
