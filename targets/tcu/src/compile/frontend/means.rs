//! Means of many positions, where numbers are free.
//!
//! `sat(sum * (1 / count))` leaves the range for means that are far from its ends, and the scalar
//! nearest to `1 / count` can be far from it. Where that is so, positions are summed in steps: each
//! sums a few numbers and multiplies, so that no sum is much larger than a mean, and the factors of
//! all steps together are near `1 / count`.

use super::chain::{Open, view};
use super::dims::{Dims, Held};
use super::windows::{Kind, Pooled, pooled};
use super::{Freedom, Frontend};
use crate::arch::DataType;
use crate::compile::hir::{Binary, Op as Hir, Operand, Pooling, TempId, Windows};
use quincunx_graph::Node;
use serde::{Deserialize, Serialize};

/// A step of a mean: of its numbers in order, those whose places have the same remainder by `sums` are
/// added up, and every sum is multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeanStep {
    /// Sums, at least 1.
    pub sums: u32,
    /// Factor of every sum; a scalar.
    pub factor: i32,
}

/// Farthest that the factor of a mean may be from `1 / count`, as a share of it.
const TOLERANCE: f64 = 0.005;

/// The steps of a mean of so many numbers; none where one sum and one factor do.
fn steps_of(data_type: DataType, count: usize) -> Vec<MeanStep> {
    let Some(point) = data_type.binary_point() else { return Vec::new() };
    let (unit, most) = (f64::from(point).exp2(), data_type.decode(data_type.max()));
    // Sums of no more numbers than that stay in the range for means up to a sixteenth of it.
    let limit = (most / 16.0).clamp(4.0, 8.0);
    let count = count as f64;
    let off = (data_type.decode(data_type.encode(1.0 / count)) * count - 1.0).abs();
    if count <= limit || (most >= 16.0 * count && off <= TOLERANCE) {
        return Vec::new();
    }
    let mut levels = 2;
    while limit.powi(levels) < count {
        levels += 1;
    }
    let size = count.powf(1.0 / f64::from(levels)).ceil();
    let mut sums = vec![count];
    sums.extend((1..levels).scan(count, |left, _| {
        *left = (*left / size).ceil();
        Some(*left)
    }));
    // Equal factors but for the last: how far all together are from the mean of numbers near one, and
    // how far the last sum is for want of bits.
    let last_of = |factor: f64| {
        let before = (factor / unit).powi(levels - 1);
        (unit / (count * before)).round().clamp(1.0, most * unit)
    };
    let error_of = |factor: f64| {
        let last = last_of(factor) / unit;
        let off = (factor / unit).powi(levels - 1) * last * count - 1.0;
        let step = 1.0 / (unit * 12.0_f64.sqrt());
        off.hypot(sums[sums.len() - 1].sqrt() * last * step)
    };
    // The last sum is twice as large at most: what is lost before it counts for less.
    let largest = (unit / size * 2.0_f64.powf(1.0 / f64::from(levels - 1))).floor().max(1.0);
    let smallest = (largest / 4.0).ceil();
    let factors = (smallest as u32..=largest as u32).map(f64::from);
    let factor = factors.min_by(|&a, &b| error_of(a).total_cmp(&error_of(b))).unwrap_or(largest);
    let step = |sums: f64, factor: f64| MeanStep { sums: sums as u32, factor: factor as i32 };
    let mut steps: Vec<MeanStep> = sums[1..].iter().map(|&sums| step(sums, factor)).collect();
    steps.push(step(1.0, last_of(factor)));
    steps
}

/// Sums of the lists of windows, `sums` of each.
fn divided(windows: &Windows, sums: usize) -> Windows {
    let mut result = Windows { starts: vec![0], positions: Vec::new() };
    for window in (0..windows.len() as u32).map(|at| windows.of(at)) {
        for first in 0..sums {
            result.positions.extend(window.iter().skip(first).step_by(sums));
            result.starts.push(result.positions.len() as u32);
        }
    }
    result
}

/// As many lists, each of `length` positions in a row.
fn rows(lists: usize, length: usize) -> Windows {
    Windows {
        starts: (0..=lists).map(|list| (list * length) as u32).collect(),
        positions: (0..(lists * length) as u32).collect(),
    }
}

impl Frontend<'_> {
    /// The steps of a node that is the mean of windows which share no position.
    fn mean_steps(&self, pooled: &Pooled) -> Vec<MeanStep> {
        let count = pooled.divisors.first().copied().unwrap_or(1);
        let lists = || (0..pooled.windows.len() as u32).map(|at| pooled.windows.of(at));
        let whole = pooled.divisors.iter().all(|&divisor| divisor == count)
            && lists().all(|window| window.len() == count);
        let mut seen = pooled.windows.positions.clone();
        seen.sort_unstable();
        let disjoint = seen.is_sorted_by(|a, b| a < b);
        let free = self.choices.freedom == Freedom::Free && pooled.kind == Kind::Mean;
        match free && whole && disjoint {
            true => steps_of(self.arch.data_type, count),
            false => Vec::new(),
        }
    }

    /// Appends a mean in steps, of a temp.
    pub(super) fn mean(
        &mut self,
        open: &mut Open,
        node: &Node,
        pooled: &Pooled,
        input: TempId,
    ) -> Option<TempId> {
        let steps = self.mean_steps(pooled);
        let first = steps.first()?;
        let windows = divided(&pooled.windows, first.sums as usize);
        Some(self.append_steps(open, node, &steps, windows, input))
    }

    /// Begins a layer with the mean of a tensor, in steps of which the first sums are made while the
    /// positions are loaded.
    pub(super) fn loaded_mean(&mut self, node: &Node, held: &Held) -> Option<(Open, TempId)> {
        let pooled = pooled(self.graph, node)?;
        let steps = self.mean_steps(&pooled);
        let sums = steps.first()?.sums as usize;
        let windows = divided(&pooled.windows, sums);
        let lists: Vec<&[u32]> = (0..windows.len() as u32).map(|at| windows.of(at)).collect();
        let longest = lists.iter().map(|list| list.len()).max()?;
        let dims = Dims { n: 1, h: 1, w: lists.len(), ..held.dims };
        let nth = |number: usize| {
            let places = lists.iter().map(|list| list.get(number).map(|&at| at as usize));
            Held { dims, map: Some(held.mapped(places)), ..held.clone() }
        };
        let mut open = Open::new(node.name.clone(), dims);
        let mut sum = open.load(&nth(0));
        for number in 1..longest {
            let output = open.temp(dims);
            let other = Operand::Vars(view(&nth(number)));
            open.push(Hir::Binary { op: Binary::Add, input: sum, other, output });
            sum = output;
        }
        let windows = rows(lists.len(), 1);
        let result = self.append_steps(&mut open, node, &steps, windows, sum);
        Some((open, result))
    }

    /// Appends all steps; `windows` are those of the first.
    fn append_steps(
        &mut self,
        open: &mut Open,
        node: &Node,
        steps: &[MeanStep],
        mut windows: Windows,
        mut input: TempId,
    ) -> TempId {
        let out = Dims::of_value(self.graph, node.output);
        for (step, next) in steps.iter().zip(steps.iter().skip(1).map(Some).chain([None])) {
            let lists = windows.len();
            let dims = match next {
                Some(_) => Dims { n: 1, h: 1, w: lists, ..open.dims },
                None => out,
            };
            let kind = Pooling::Average { multipliers: [step.factor].into() };
            let output = open.temp(dims);
            open.push(Hir::Pool { kind, windows, input, output });
            input = output;
            windows = Windows::default();
            if let Some(next) = next {
                let parts = step.sums as usize;
                windows = divided(&rows(lists / parts, parts), next.sums as usize);
            }
        }
        self.means.insert(node.name.clone(), steps.to_vec());
        input
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean of equal numbers is that number, as near as its bits allow, also where a plain sum
    /// leaves the range.
    #[test]
    fn steps_keep_the_mean() {
        for data_type in DataType::ALL {
            let most = data_type.decode(data_type.max());
            for count in (1..400).chain([1024, 3136, 45_408]) {
                let steps = steps_of(data_type, count);
                assert_eq!(steps.last().map_or(1, |step| step.sums), 1);
                let (mut left, mut factor, mut largest) = (count, 1.0, 1.0_f64);
                for step in &steps {
                    largest = largest.max(factor * left.div_ceil(step.sums as usize) as f64);
                    factor *= left as f64 / f64::from(step.sums) * data_type.decode(step.factor);
                    left = step.sums as usize;
                }
                if steps.is_empty() {
                    let share = data_type.decode(data_type.encode(1.0 / count as f64));
                    (factor, largest) = (share * count as f64, count as f64);
                }
                if data_type == DataType::FP16BP8 && count > 8 {
                    assert!((factor - 1.0).abs() < 0.01, "{count}: {factor}, {steps:?}");
                    assert!(largest * 8.0 <= most, "{count}: {largest}, {steps:?}");
                }
            }
        }
    }
}
