//! Where keys lie and what stands there.

use super::{Fitted, Form, Function};
use crate::arch::DataType;
use crate::compile::hir::Table;
use std::ops::Range;

/// Numbers of a type that are all looked at; of larger types so many are.
const SAMPLES: i64 = 1 << 18;
/// Outside of the bent part the next number that is looked at then is larger by this share.
const GROWTH: i64 = 1 << 10;
/// Errors count less in proportion where a function is larger than this.
const LARGE: f64 = 16.0;
/// How often keys move to where errors are.
const ROUNDS: usize = 24;

/// Numbers and what the function is there, in steps.
struct Samples {
    data_type: DataType,
    numbers: Vec<i32>,
    targets: Vec<f64>,
}

/// An entry of a table.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: i32,
    value: i32,
    slope: i32,
    /// Largest error in steps, as far as it counts.
    error: f64,
}

/// Fits a table.
pub(super) fn fit(function: Function, form: Form) -> Fitted {
    let samples = Samples::new(function, form.data_type);
    let mut density = samples.density(form.slopes);
    let mut best: Option<(f64, Vec<Entry>)> = None;
    for _ in 0..ROUNDS {
        let cells = samples.cells(&samples.keys(&density, form.depth as usize));
        let entry = |(key, cell): &(i32, Range<usize>)| samples.entry(*key, cell, form.slopes);
        let entries: Vec<Entry> = cells.iter().map(entry).collect();
        let worst = entries.iter().map(|entry| entry.error).fold(0.0, f64::max);
        let mean = entries.iter().map(|e| e.error).sum::<f64>() / entries.len() as f64;
        for ((_, cell), entry) in cells.iter().zip(&entries) {
            let factor = ((entry.error + 1e-3) / (mean + 1e-3)).sqrt().clamp(0.5, 2.0);
            density[cell.clone()].iter_mut().for_each(|mass| *mass *= factor);
        }
        if best.as_ref().is_none_or(|(known, _)| worst < *known) {
            best = Some((worst, entries));
        }
    }
    let entries = best.map_or(Vec::new(), |(_, entries)| entries);
    let table = samples.table(function, &entries, form);
    let max_error = samples.error(function, &table) * form.data_type.decode(1);
    Fitted { table, max_error }
}

impl Samples {
    fn new(function: Function, data_type: DataType) -> Samples {
        let numbers = numbers(function, data_type);
        let targets = numbers.iter().map(|&x| target(function, data_type, x)).collect();
        Samples { data_type, numbers, targets }
    }

    /// How close keys should be: in proportion to the root of the bend for slopes, else to the
    /// slope. The mass of a sample is that up to the next one.
    fn density(&self, slopes: bool) -> Vec<f64> {
        let steps = self.numbers.windows(2).zip(self.targets.windows(2));
        let slope: Vec<(f64, f64)> = steps
            .map(|(x, y)| {
                let width = (f64::from(x[1]) - f64::from(x[0])).max(1.0);
                (width, (y[1] - y[0]) / width)
            })
            .collect();
        let mut mass: Vec<f64> = match slopes {
            false => slope.iter().map(|(width, slope)| (width * slope).abs()).collect(),
            true => (0..slope.len())
                .map(|i| {
                    let (width, here) = slope[i];
                    let before = slope[i.saturating_sub(1)].1;
                    ((here - before).abs() * width).sqrt()
                })
                .collect(),
        };
        mass.push(0.0);
        for (mass, &target) in mass.iter_mut().zip(&self.targets) {
            let weight = self.weight(target);
            *mass *= if slopes { weight.sqrt() } else { weight };
        }
        let floor = 1e-3 * mass.iter().sum::<f64>() / mass.len() as f64 + f64::MIN_POSITIVE;
        mass.iter_mut().for_each(|mass| *mass += floor);
        mass
    }

    /// How much an error counts where the function has this many steps.
    fn weight(&self, target: f64) -> f64 {
        (1.0 + target.abs() * self.data_type.decode(1) / LARGE).recip()
    }

    /// Keys in order, with equal masses in between.
    fn keys(&self, density: &[f64], depth: usize) -> Vec<i32> {
        if self.numbers.len() <= depth {
            return self.numbers.clone();
        }
        let total: f64 = density.iter().sum();
        let mut keys = Vec::with_capacity(depth);
        let (mut index, mut below) = (0, 0.0);
        for key in 0..depth {
            let wanted = total * (key as f64 + 0.5) / depth as f64;
            let last = self.numbers.len() - (depth - key);
            while index < last && below + density[index] < wanted {
                below += density[index];
                index += 1;
            }
            keys.push(self.numbers[index]);
            below += density[index];
            index += 1;
        }
        keys
    }

    /// The samples that every key is closest to, the lower key of two.
    fn cells(&self, keys: &[i32]) -> Vec<(i32, Range<usize>)> {
        let mut first = 0;
        let cell = |(index, &key): (usize, &i32)| {
            let end = match keys.get(index + 1) {
                Some(&next) => {
                    let middle = (i64::from(key) + i64::from(next)).div_euclid(2);
                    self.numbers.partition_point(|&x| i64::from(x) <= middle)
                }
                None => self.numbers.len(),
            };
            let cell = first..end;
            first = end;
            (key, cell)
        };
        keys.iter().enumerate().map(cell).collect()
    }

    /// The best entry for a cell.
    fn entry(&self, key: i32, cell: &Range<usize>, slopes: bool) -> Entry {
        let mut best = self.with_slope(key, cell, 0);
        let (first, last) = (cell.start, cell.end - 1);
        let width = f64::from(self.numbers[last]) - f64::from(self.numbers[first]);
        if slopes && width > 0.0 {
            let one = self.data_type.decode(1).recip();
            let chord = (self.targets[last] - self.targets[first]) / width * one;
            let ends = f64::from(self.data_type.max());
            for slope in [chord.floor(), chord.ceil()] {
                let slope = slope.clamp(-ends - 1.0, ends) as i32;
                let entry = self.with_slope(key, cell, slope);
                if entry.error < best.error {
                    best = entry;
                }
            }
        }
        best
    }

    /// The entry with a slope and the value that leaves the smallest error.
    fn with_slope(&self, key: i32, cell: &Range<usize>, slope: i32) -> Entry {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for (&x, target) in self.numbers[cell.clone()].iter().zip(&self.targets[cell.clone()]) {
            let rest = target - f64::from(rise(self.data_type, x, key, slope));
            low = low.min(rest);
            high = high.max(rest);
        }
        let ends = f64::from(self.data_type.max());
        let value = f64::midpoint(low, high).round().clamp(-ends - 1.0, ends);
        let size = self.targets[cell.start].abs().min(self.targets[cell.end - 1].abs());
        let error = (high - value).max(value - low) * self.weight(size);
        Entry { key, value: value as i32, slope, error }
    }

    /// The table, whose last entry fills it up.
    fn table(&self, function: Function, entries: &[Entry], form: Form) -> Table {
        let at = |index: usize| entries.get(index.min(entries.len().saturating_sub(1)));
        let column = |of: fn(&Entry) -> i32| {
            (0..form.depth as usize).map(|index| at(index).map_or(0, of)).collect()
        };
        Table {
            name: function.name(),
            keys: column(|entry| entry.key),
            values: column(|entry| entry.value),
            slopes: form.slopes.then(|| column(|entry| entry.slope)),
        }
    }

    /// The largest error in steps, of the whole lookup.
    fn error(&self, function: Function, table: &Table) -> f64 {
        let mut keys = table.keys.to_vec();
        keys.dedup();
        let mut worst = 0.0_f64;
        for (entry, (key, cell)) in self.cells(&keys).into_iter().enumerate() {
            let slope = table.slopes.as_ref().map_or(0, |slopes| slopes[entry]);
            let mut meet = |x: i32, target: f64| {
                let rise = rise(self.data_type, x, key, slope);
                let result = i64::from(table.values[entry]) + i64::from(rise);
                let result = saturated(self.data_type, result);
                worst = worst.max((target - f64::from(result)).abs());
            };
            let pairs = self.numbers[cell.clone()].iter().zip(&self.targets[cell]);
            pairs.for_each(|(&x, &target)| meet(x, target));
            // Not every number is among the samples, and errors are largest at the ends of cells.
            if let Some(&next) = keys.get(entry + 1) {
                let middle = (i64::from(key) + i64::from(next)).div_euclid(2) as i32;
                meet(middle, target(function, self.data_type, middle));
            }
            if let Some(&before) = entry.checked_sub(1).and_then(|entry| keys.get(entry)) {
                let middle = (i64::from(before) + i64::from(key)).div_euclid(2) as i32 + 1;
                meet(middle, target(function, self.data_type, middle));
            }
        }
        worst
    }
}

/// What a function is in steps; beyond the range of the type its end.
fn target(function: Function, data_type: DataType, x: i32) -> f64 {
    let high = f64::from(data_type.max());
    let steps = function.at(data_type.decode(x)) / data_type.decode(1);
    steps.clamp(-high - 1.0, high)
}

/// The numbers of a type at which a function is looked at, in order.
pub(super) fn numbers(function: Function, data_type: DataType) -> Vec<i32> {
    let (low, high) = function.domain();
    let whole = (data_type.encode_exact(low), data_type.encode_exact(high));
    let (start, end) = (i64::from(whole.0), i64::from(whole.1));
    if end - start < SAMPLES {
        return (whole.0..=whole.1).collect();
    }
    let (low, high) = function.bent();
    let inner = |real: f64| i64::from(data_type.encode_exact(real)).clamp(start, end);
    let (low, high) = (inner(low), inner(high));
    let step = (high - low).div_euclid(SAMPLES).max(1) as usize;
    let grown = |x: i64| x + (x / GROWTH).max(1);
    let above = std::iter::successors(Some(high.max(1)), |&x| Some(grown(x)));
    let below = std::iter::successors(Some((-low).max(1)), |&x| Some(grown(x)));
    let parts = (low..high)
        .step_by(step)
        .chain(above.take_while(|&x| x < end))
        .chain(below.map(|x| -x).take_while(|&x| x > start))
        .chain([start, end])
        .filter(|x| (start..=end).contains(x));
    let mut numbers: Vec<i32> = parts.map(|x| x as i32).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

pub(super) fn saturated(data_type: DataType, exact: i64) -> i32 {
    let end = i64::from(data_type.max());
    exact.clamp(-end - 1, end) as i32
}

/// `sat((x - key) * slope)`, rounded once to nearest, ties to even.
fn rise(data_type: DataType, x: i32, key: i32, slope: i32) -> i32 {
    product(data_type, saturated(data_type, i64::from(x) - i64::from(key)), slope)
}

/// `sat(x * y)`, rounded once to nearest, ties to even.
pub(super) fn product(data_type: DataType, x: i32, y: i32) -> i32 {
    let point = data_type.binary_point().expect("`form` refuses floats");
    let exact = i64::from(x) * i64::from(y);
    let down = exact >> point;
    let rest = exact - (down << point);
    let half = (1_i64 << point) / 2;
    saturated(data_type, down + i64::from(rest > half || (rest == half && down & 1 == 1)))
}
