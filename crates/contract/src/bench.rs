//! Measurements of Quincunx's speed: what a suite is and how it measures.

use crate::{OptionInfo, Options};
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::Level;
use std::fs;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

/// How long work is done over and over for one measurement.
const MEASURED: Duration = Duration::from_millis(200);

/// The option that [`Run::level`] reads.
pub const LEVEL: OptionInfo = OptionInfo::one_of(
    "level",
    "Vector instructions",
    "best",
    &["best", "scalar", "avx2", "avx512"],
);

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

/// Calls of something that takes long enough to be measured alone.
#[derive(Debug)]
pub struct Calls<T> {
    /// The median of the seconds of a call.
    pub seconds: f64,
    /// The most memory of the process meanwhile, in bytes; `None` where the system does not say.
    pub peak: Option<u64>,
    /// What the last call returned.
    pub last: T,
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

impl Row {
    /// Makes the rows of one thing that was measured: of metric, value, unit and decimals.
    pub fn named(name: &str) -> impl Fn(&'static str, f64, &'static str, usize) -> Row + use<'_> {
        move |metric, value, unit, decimals| Row {
            name: name.to_owned(),
            metric,
            value,
            unit,
            decimals,
        }
    }
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

    /// Every measurement is one call of `work`; what it returns is dropped before the next one.
    ///
    /// # Errors
    /// That of the first call that fails.
    pub fn calls<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<Calls<T>> {
        let mut last = None;
        let mut seconds = Vec::new();
        // The kernel forgets the most memory that was used so far. Not every system does: without
        // that the figure is of the whole process.
        let _ = fs::write("/proc/self/clear_refs", "5");
        for _ in 0..self.repeat.get() {
            drop(last.take());
            let start = Instant::now();
            last = Some(work()?);
            seconds.push(start.elapsed().as_secs_f64());
        }
        let last = last.ok_or_else(|| Diagnostic::bug("nothing was measured"))?;
        Ok(Calls { seconds: median(seconds), peak: peak_bytes(), last })
    }

    /// The vector instructions that [`LEVEL`] asks for.
    ///
    /// # Errors
    /// `Q0506` when this processor does not have them.
    pub fn level(&self) -> Result<Level> {
        let name = self.options.get(LEVEL.name);
        let level = Level::ALL.into_iter().find(|level| level.name() == name);
        let level = level.unwrap_or(Level::best());
        if level.is_available() {
            return Ok(level);
        }
        Err(Diagnostic::unsupported("Q0506", format!("this processor lacks {level}")))
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

/// The most memory that was used; `None` where the system does not say.
fn peak_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
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

    #[test]
    fn calls_are_counted_and_levels_are_named() {
        let run = |level: &str| {
            let options = Options::new(&[LEVEL], &[("level".into(), level.into())]).unwrap();
            Run { threads: NonZeroUsize::MIN, repeat: NonZeroUsize::new(3).unwrap(), options }
        };
        let mut count = 0;
        let calls = run("best").calls(|| {
            count += 1;
            Ok(count)
        });
        let calls = calls.unwrap();
        assert_eq!((calls.last, count), (3, 3));
        assert!(calls.seconds >= 0.0 && calls.peak.is_none_or(|bytes| bytes > 1 << 16));
        assert_eq!(run("best").level().unwrap(), Level::best());
        for level in Level::ALL {
            assert_eq!(run(level.name()).level().is_ok(), level.is_available());
        }
    }
}
