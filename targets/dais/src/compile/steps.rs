//! The steps of a quantiser over everything its operand can be.
//!
//! A quantised function of an integer is a list of runs: from here on the result is this. Runs of
//! rising and falling functions are found by their ends, which for lines are exact quotients and
//! otherwise found by halving; other functions are evaluated everywhere. Nothing here is rounded but
//! by the quantiser, so the runs are exactly what the network means.

use super::expr::{Expr, Format, parameter};
use quincunx_graph::{Activation, Binary, Scalar, Unary};
use quincunx_num::{Dyadic, Int, Interval, Overflow, Ratio, Rounding, round_ratio};
use std::rc::Rc;

/// Most runs of a function.
pub(super) const MAX_RUNS: usize = 1 << 16;

/// Most operands for which a function is evaluated one by one.
const MAX_EVALUATIONS: i128 = 1 << 17;

/// Neighbours of a found end that are looked at as well: functions are computed in floating point,
/// whose errors could break the order that the search relies on.
const NEIGHBOURS: i128 = 4;

/// A function of an integer, as runs of equal results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Steps {
    /// First operand and result of every run; the first one begins at the lowest operand.
    pub(super) runs: Vec<(i128, i128)>,
    /// The highest operand.
    pub(super) last: i128,
}

/// The lowest and highest result that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Limits {
    pub(super) low: i128,
    pub(super) high: i128,
}

impl Limits {
    /// Those of a quantiser, counted from its zero. Wrapping has none, it comes afterwards.
    pub(super) fn of(quantiser: &Scalar) -> Option<Limits> {
        if quantiser.overflow == Overflow::Wrap {
            return Some(Limits { low: i128::MIN / 4, high: i128::MAX / 4 });
        }
        let (low, high) = quantiser.range();
        let zero = i128::from(quantiser.zero);
        let steps = |code: Int| Some(i128::try_from(&code).ok()? - zero);
        Some(Limits { low: steps(low)?, high: steps(high)? })
    }

    fn clamp(self, value: i128) -> i128 {
        value.clamp(self.low, self.high)
    }
}

impl Steps {
    fn constant(low: i128, last: i128, value: i128) -> Steps {
        Steps { runs: vec![(low, value)], last }
    }

    /// Lowest and highest result.
    pub(super) fn results(&self) -> (i128, i128) {
        let results = || self.runs.iter().map(|run| run.1);
        (results().min().unwrap_or(0), results().max().unwrap_or(0))
    }

    /// The result for an operand.
    #[cfg(test)]
    pub(super) fn at(&self, x: i128) -> i128 {
        let after = self.runs.partition_point(|run| run.0 <= x);
        self.runs[after.max(1) - 1].1
    }

    /// The same function of the negative operand.
    fn mirrored(&self) -> Steps {
        let ends = self.runs.iter().skip(1).map(|run| run.0 - 1).chain([self.last]);
        let mut runs: Vec<_> = self.runs.iter().zip(ends).map(|(run, end)| (-end, run.1)).collect();
        runs.reverse();
        Steps { runs, last: -self.runs[0].0 }
    }

    /// Two functions side by side.
    fn joined(mut self, other: Steps) -> Steps {
        let same = self.runs.last().map(|run| run.1) == other.runs.first().map(|run| run.1);
        self.runs.extend(other.runs.into_iter().skip(usize::from(same)));
        self.last = other.last;
        self
    }
}

/// How results are rounded.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mode {
    /// As a quantiser does.
    Of(Rounding),
    /// To the nearest, ties down.
    TiesDown,
}

impl From<Rounding> for Mode {
    fn from(rounding: Rounding) -> Mode {
        Mode::Of(rounding)
    }
}

impl Mode {
    fn round(self, value: &Ratio) -> Int {
        match self {
            Mode::Of(rounding) => round_ratio(value, rounding),
            Mode::TiesDown => -round_ratio(&-value, Rounding::HalfCeil),
        }
    }
}

/// A quantised function.
pub(super) struct Quantised<'a> {
    /// Real numbers of one step.
    pub(super) scale: Ratio,
    /// How results are rounded.
    pub(super) rounding: Mode,
    /// `2^exponent` is one in units of the operand.
    pub(super) exponent: i32,
    /// For the values of this operand.
    pub(super) operand: &'a Interval,
}

/// Why there are no runs, in words that continue the name of an operator.
type Reason = String;

impl Quantised<'_> {
    /// The runs of a function, whose results are kept within limits.
    ///
    /// # Errors
    /// Too many runs or evaluations; an operand for which the function has no number.
    pub(super) fn steps(&self, function: &Expr, limits: Limits) -> Result<Steps, Reason> {
        let bound = |bound: &Int| i128::try_from(bound).map_err(|_| too_wide());
        let (low, high) = (bound(self.operand.low())?, bound(self.operand.high())?);
        // Far from overflow below.
        if low.unsigned_abs().max(high.unsigned_abs()) > 1 << 96 {
            return Err(too_wide());
        }
        self.between(function, low, high, limits)
    }

    fn between(&self, f: &Expr, low: i128, high: i128, limits: Limits) -> Result<Steps, Reason> {
        match f {
            Expr::Line { unit, offset } => self.line(unit, offset, low, high, limits),
            Expr::Constant(value) => {
                let result = limits.clamp(self.round(value)?);
                Ok(Steps::constant(low, high, result))
            }
            // Limits of the function are limits of the results, since rounding keeps the order.
            Expr::Unary(Unary::Relu, _, x) => {
                self.between(x, low, high, self.raised(limits, &Ratio::ZERO)?)
            }
            Expr::Activation(Activation::Clip { min, max }, _, x) => {
                let min = min.filter(|&min| min != f32::NEG_INFINITY).map(parameter);
                let max = max.filter(|&max| max != f32::INFINITY).map(parameter);
                let limits = max.map_or(Ok(limits), |max| self.lowered(limits, &max))?;
                let limits = match min {
                    // Where the limits cross, the upper one holds.
                    Some(min) => self.raised(limits, &min)?,
                    None => limits,
                };
                self.between(x, low, high, limits)
            }
            Expr::Binary(Binary::Max, _, x, c) | Expr::Binary(Binary::Max, _, c, x)
                if matches!(**c, Expr::Constant(_)) =>
            {
                let Expr::Constant(c) = &**c else { return Err(too_wide()) };
                self.between(x, low, high, self.raised(limits, c)?)
            }
            Expr::Binary(Binary::Min, _, x, c) | Expr::Binary(Binary::Min, _, c, x)
                if matches!(**c, Expr::Constant(_)) =>
            {
                let Expr::Constant(c) = &**c else { return Err(too_wide()) };
                self.between(x, low, high, self.lowered(limits, c)?)
            }
            Expr::Leaky(slope, _, x) => match &**x {
                Expr::Line { unit, offset } => self.leaky(slope, unit, offset, low, high, limits),
                _ => self.general(f, low, high, limits),
            },
            _ => self.general(f, low, high, limits),
        }
    }

    fn raised(&self, limits: Limits, least: &Ratio) -> Result<Limits, Reason> {
        let least = self.round(least)?.clamp(limits.low, limits.high);
        Ok(Limits { low: least, ..limits })
    }

    fn lowered(&self, limits: Limits, most: &Ratio) -> Result<Limits, Reason> {
        let most = self.round(most)?.clamp(limits.low, limits.high);
        Ok(Limits { high: most, ..limits })
    }

    /// `slope * line` where a line is negative, else the line.
    fn leaky(
        &self,
        slope: &Ratio,
        unit: &Ratio,
        offset: &Ratio,
        low: i128,
        high: i128,
        limits: Limits,
    ) -> Result<Steps, Reason> {
        let x = Expr::Line { unit: unit.clone(), offset: offset.clone() };
        if unit.is_zero() {
            let f = Expr::Leaky(slope.clone(), Format::Single, Rc::new(x));
            return self
                .everywhere(&f, low, low, limits)
                .map(|steps| Steps { last: high, ..steps });
        }
        let below = Expr::Line { unit: slope * unit, offset: slope * offset };
        // The first operand on the other side of zero.
        let zero = -offset / unit / self.one();
        let (first, rises) = match unit > &Ratio::ZERO {
            true => (round_ratio(&zero, Rounding::Ceil), true),
            false => (round_ratio(&zero, Rounding::Floor) + Int::ONE, false),
        };
        let cut = i128::try_from(&first).unwrap_or(if first < Int::ZERO { low } else { high + 1 });
        let (left, right) = if rises { (&below, &x) } else { (&x, &below) };
        if cut <= low {
            return self.between(right, low, high, limits);
        }
        if cut > high {
            return self.between(left, low, high, limits);
        }
        let left = self.between(left, low, cut - 1, limits)?;
        Ok(left.joined(self.between(right, cut, high, limits)?))
    }

    fn general(&self, f: &Expr, low: i128, high: i128, limits: Limits) -> Result<Steps, Reason> {
        match f.order() {
            Some(_) => self.ordered(f, low, high, limits),
            None => self.everywhere(f, low, high, limits),
        }
    }

    fn one(&self) -> Ratio {
        Dyadic::new(Int::ONE, self.exponent).to_ratio()
    }

    /// The number an operand stands for.
    fn number(&self, x: i128) -> Ratio {
        Dyadic::new(Int::from(x), self.exponent).to_ratio()
    }

    fn round(&self, value: &Ratio) -> Result<i128, Reason> {
        let code = self.rounding.round(&(value / &self.scale));
        let code = i128::try_from(&code).ok().filter(|code| code.unsigned_abs() < 1 << 100);
        code.ok_or_else(too_wide)
    }

    fn evaluate(&self, f: &Expr, x: i128, limits: Limits) -> Result<i128, Reason> {
        Ok(limits.clamp(self.round(&f.at(&self.number(x))?.value)?))
    }

    fn everywhere(&self, f: &Expr, low: i128, high: i128, limits: Limits) -> Result<Steps, Reason> {
        if high - low >= MAX_EVALUATIONS {
            return Err(format!(
                "its operand has {} values, tables have at most {MAX_EVALUATIONS} entries; quantise it first",
                high - low + 1
            ));
        }
        let mut runs: Vec<(i128, i128)> = Vec::new();
        for x in low..=high {
            let result = self.evaluate(f, x, limits)?;
            if runs.last().is_none_or(|run| run.1 != result) {
                runs.push((x, result));
            }
        }
        Ok(Steps { runs, last: high })
    }

    /// Runs of a function that keeps or reverses the order, by halving.
    fn ordered(&self, f: &Expr, low: i128, high: i128, limits: Limits) -> Result<Steps, Reason> {
        let mut runs = vec![(low, self.evaluate(f, low, limits)?)];
        let end = self.evaluate(f, high, limits)?;
        while let Some(&(start, result)) = runs.last()
            && result != end
        {
            // The first operand with another result lies in `(start, right]`.
            let (mut left, mut right) = (start, high);
            // Steps close by are more likely than far ones.
            let mut stride = 1;
            while left + stride < right {
                if self.evaluate(f, left + stride, limits)? == result {
                    left += stride;
                    stride *= 2;
                } else {
                    right = left + stride;
                }
            }
            while right - left > 1 {
                let middle = left + (right - left) / 2;
                if self.evaluate(f, middle, limits)? == result {
                    left = middle
                } else {
                    right = middle
                }
            }
            let next = self.evaluate(f, right, limits)?;
            for near in (right - NEIGHBOURS).max(start)..right {
                if self.evaluate(f, near, limits)? != result {
                    return self.everywhere(f, low, high, limits);
                }
            }
            runs.push((right, next));
            check_runs(runs.len())?;
        }
        Ok(Steps { runs, last: high })
    }

    /// Runs of `unit * x + offset`: every end is a quotient.
    fn line(
        &self,
        unit: &Ratio,
        offset: &Ratio,
        low: i128,
        high: i128,
        limits: Limits,
    ) -> Result<Steps, Reason> {
        if unit < &Ratio::ZERO {
            return Ok(self.line(&-unit, offset, -high, -low, limits)?.mirrored());
        }
        let at = |x: i128| self.round(&(unit * self.number(x) + offset));
        let (first, last) = (limits.clamp(at(low)?), limits.clamp(at(high)?));
        if first == last {
            return Ok(Steps::constant(low, high, first));
        }
        check_runs(usize::try_from(last - first).unwrap_or(usize::MAX))?;
        // Steps of the quantiser, as a fraction of integers: (a x + b) / c.
        let slope = unit * self.one() / &self.scale;
        let start = offset / &self.scale;
        let c = Int::from(slope.denominator().clone()) * Int::from(start.denominator().clone());
        let a = slope.numerator() * Int::from(start.denominator().clone());
        let b = start.numerator() * Int::from(slope.denominator().clone());
        let mut runs = vec![(low, first)];
        for result in first + 1..=last {
            let from = first_reaching(&a, &b, &c, result, self.rounding);
            let from = i128::try_from(&from).map_err(|_| too_wide())?.max(low);
            match runs.last_mut() {
                // A line that rises faster skips results.
                Some(run) if run.0 == from => run.1 = result,
                _ => runs.push((from, result)),
            }
        }
        Ok(Steps { runs, last: high })
    }
}

/// The first `x` for which `(a x + b) / c` rounds to `result` or more; `a` and `c` are positive.
fn first_reaching(a: &Int, b: &Int, c: &Int, result: i128, rounding: Mode) -> Int {
    let whole = Int::from(result);
    // Twice the number at which results begin, and whether they begin at or above it.
    let half = Int::from(2) * &whole - Int::ONE;
    let (at, above) = (Int::from(2) * &whole, Int::from(2) * &whole - Int::from(2));
    let (twice, inclusive) = match rounding {
        Mode::TiesDown => (half, false),
        Mode::Of(Rounding::Floor) => (at, true),
        Mode::Of(Rounding::Ceil) => (above, false),
        Mode::Of(Rounding::Down) => {
            if result >= 1 {
                (at, true)
            } else {
                (above, false)
            }
        }
        Mode::Of(Rounding::Up) => {
            if result >= 1 {
                (above, false)
            } else {
                (at, true)
            }
        }
        Mode::Of(Rounding::HalfCeil) => (half, true),
        Mode::Of(Rounding::HalfEven) => (half, result % 2 == 0),
        Mode::Of(Rounding::HalfUp) => (half, result >= 1),
        Mode::Of(Rounding::HalfDown) => (half, result <= 0),
    };
    // 2 (a x + b) >= twice c, or above it.
    let needed = twice * c - Int::from(2) * b;
    let step = Int::from(2) * a;
    let quotient = Ratio::from_parts_signed(needed, step);
    match inclusive {
        true => round_ratio(&quotient, Rounding::Ceil),
        false => round_ratio(&quotient, Rounding::Floor) + Int::ONE,
    }
}

fn check_runs(count: usize) -> Result<(), Reason> {
    if count <= MAX_RUNS {
        return Ok(());
    }
    Err(format!(
        "its result takes {count} values, at most {MAX_RUNS} are supported without a scale that is a power of two"
    ))
}

fn too_wide() -> Reason {
    "its numbers are too large".to_owned()
}
