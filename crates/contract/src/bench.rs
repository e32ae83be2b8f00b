//! Measurements of our own speed: what a suite is and how it measures.

use crate::{OptionInfo, Options};
use quincunx_diag::Result;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

/// How long work is done over and over for one measurement.
const MEASURED: Duration = Duration::from_millis(200);

/// A set of measurements that are made together.
#[derive(Debug)]
pub struct Suite {
    /// Name on the command line; suites of a target are named `<target>:<suite>` in full.
    pub name: &'static str,
    /// One line.
    pub doc: &'static str,
    /// Options that only this suite has.
    pub options: &'static [OptionInfo],
    /// Measures; the error is the first reason why it cannot.
    pub run: fn(&Run) -> Result<Vec<Row>>,
}

/// What the function of a suite gets.
#[derive(Debug)]
pub struct Run {
    /// Threads that the work is divided among.
    pub threads: NonZeroUsize,
    /// Measurements, of which the median counts.
    pub repeat: NonZeroUsize,
    /// Values of the suite's own options.
    pub options: Options,
}

/// One result.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What was measured.
    pub name: String,
    /// Which property of it.
    pub metric: &'static str,
    /// The number.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// Decimals that people see.
    pub decimals: usize,
}

impl Run {
    /// The median of the rates of `amount` per call of `work`, per second.
    ///
    /// A measurement repeats the work for a while and counts the fastest call: what slows the
    /// others down is the rest of the machine.
    pub fn rate(&self, amount: f64, mut work: impl FnMut()) -> f64 {
        median(self.fastest(&mut work).map(|seconds| amount / seconds).collect())
    }

    /// The median of the seconds of a call of `work`, measured as for [`Run::rate`]; what it
    /// returns is dropped later.
    pub fn seconds<T>(&self, mut work: impl FnMut() -> T) -> f64 {
        median(self.fastest(&mut work).collect())
    }

    /// The time of the fastest call, once per measurement.
    fn fastest<T>(&self, work: &mut impl FnMut() -> T) -> impl Iterator<Item = f64> {
        (0..self.repeat.get()).map(move |_| {
            let start = Instant::now();
            let mut fastest = Duration::MAX;
            while start.elapsed() < MEASURED {
                let begin = Instant::now();
                let result = work();
                fastest = fastest.min(begin.elapsed());
                drop(result);
            }
            fastest.max(Duration::from_nanos(1)).as_secs_f64()
        })
    }
}

/// The middle value; the mean of the middle two when their number is even.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) {
        f64::midpoint(values[middle - 1], values[middle])
    } else {
        values[middle]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 9.0]), 3.0);
    }
}
