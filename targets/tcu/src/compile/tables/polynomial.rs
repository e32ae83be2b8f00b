//! Functions as polynomials, for machines without tables.
//!
//! Sigmoid, tanh, the error function and what Gelu multiplies its operand by are odd around a
//! constant and flat far from zero. So the operand is clipped, and an odd polynomial of what is left
//! gives the result, which is clipped as well. Coefficients are fitted by least squares whose weights
//! follow the errors, encoded, and then moved step by step as long as the largest error, with all
//! roundings of the machine, becomes smaller.

use super::Function;
use super::fit::{numbers, product, saturated};
use crate::arch::DataType;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Polynomials that are kept for the next question.
const KEPT: usize = 64;

/// Coefficients that are tried.
const COEFFICIENTS: std::ops::RangeInclusive<usize> = 2..=5;

/// Numbers that coefficients are fitted to.
const FITTED: usize = 300;

/// An odd polynomial in scalars of the machine: of `z`, which is `min(max(x, -reach), reach)` times
/// `scale`, and its square `q`, the result is `middle` plus `z` times the sum of `coefficients[i]`
/// times the `i`-th power of `q`, within the limits. For Gelu it is multiplied by `x`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Polynomial {
    /// Largest magnitude of the operand.
    pub(crate) reach: i32,
    /// Factor of the clipped operand.
    pub(crate) scale: i32,
    /// Coefficients of odd powers, the lowest first; two or more.
    pub(crate) coefficients: Vec<i32>,
    /// The result for 0.
    pub(crate) middle: i32,
    /// Least and largest result.
    pub(crate) limits: [i32; 2],
    /// The result is multiplied by the operand.
    pub(crate) times: bool,
}

impl Polynomial {
    /// The coefficients, the highest first.
    pub(crate) fn powers(&self) -> Vec<i32> {
        self.coefficients.iter().rev().copied().collect()
    }

    /// What the machine computes: every operation rounds once and saturates.
    fn at(&self, data_type: DataType, x: i32) -> i32 {
        let times = |x: i32, y: i32| product(data_type, x, y);
        let plus = |x: i32, y: i32| saturated(data_type, i64::from(x) + i64::from(y));
        let z = times(x.clamp(-self.reach, self.reach), self.scale);
        let square = times(z, z);
        let mut terms = self.coefficients.iter().rev();
        let first = terms.next().copied().unwrap_or(0);
        let sum = terms.fold(first, |sum, &term| plus(times(sum, square), term));
        let result = plus(times(sum, z), self.middle).clamp(self.limits[0], self.limits[1]);
        if self.times { times(result, x) } else { result }
    }
}

/// True for a function that polynomials can follow.
pub(crate) fn has_polynomial(function: Function) -> bool {
    form(function).is_some()
}

/// A function that polynomials can follow: its value at 0, its least and largest one, and whether it
/// is multiplied by its operand.
fn form(function: Function) -> Option<(f64, [f64; 2], bool)> {
    match function {
        Function::Sigmoid => Some((0.5, [0.0, 1.0], false)),
        Function::Tanh | Function::Erf => Some((0.0, [-1.0, 1.0], false)),
        Function::Gelu | Function::GeluTanh => Some((0.5, [0.0, 1.0], true)),
        _ => None,
    }
}

/// A polynomial with its largest error.
type Fit = (Polynomial, f64);

/// The polynomial of fewest coefficients whose largest error is within the bound, with that error.
///
/// # Errors
/// Why there is none.
///
/// # Panics
/// For a function that polynomials cannot follow.
pub(crate) fn polynomial(
    function: Function,
    data_type: DataType,
    bound: f64,
) -> Result<Fit, String> {
    let name = function.name();
    if data_type == DataType::Float32 {
        return Err(format!("the error of {name} is not known for every number of FLOAT32"));
    }
    let mut best = f64::INFINITY;
    for count in COEFFICIENTS {
        let (polynomial, error) = fitted(function, data_type, count);
        if error <= bound {
            return Ok((polynomial, error));
        }
        best = best.min(error);
    }
    Err(format!("a polynomial for {name} is off by {best:.4}, more than {bound}"))
}

/// As [`fit`], which is asked once.
fn fitted(function: Function, data_type: DataType, count: usize) -> Fit {
    static KNOWN: Mutex<BTreeMap<String, Fit>> = Mutex::new(BTreeMap::new());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let key = format!("{} {} {count}", function.name(), data_type.name());
    if let Some(fit) = known().get(&key) {
        return fit.clone();
    }
    let fit = fit(function, data_type, count);
    let mut known = known();
    if known.len() >= KEPT {
        known.clear();
    }
    known.insert(key, fit.clone());
    fit
}

/// The best polynomial of so many coefficients, with its largest error.
fn fit(function: Function, data_type: DataType, count: usize) -> Fit {
    let search = Search::new(function, data_type);
    let mut best: Option<Fit> = None;
    for quarter in 4..=32 {
        let reach = f64::from(quarter) / 4.0;
        // The result at the reach is that of all larger numbers.
        if search.clipped(reach) / 2.0 > best.as_ref().map_or(f64::INFINITY, |(_, error)| *error) {
            continue;
        }
        for scale in [1.0, 0.5, 0.25, 0.125] {
            if !(0.75..=2.5).contains(&(reach * scale)) {
                continue;
            }
            let first = search.least_squares(reach, scale, count);
            let found = search.improved(first);
            if best.as_ref().is_none_or(|(_, error)| found.1 < *error) {
                best = Some(found);
            }
        }
    }
    let (polynomial, _) = best.expect("some reach is tried");
    let all = with_targets(function, data_type, &numbers(function, data_type));
    let error = Search { numbers: all, ..search }.error(&polynomial);
    (polynomial, error)
}

/// What a polynomial is looked for.
struct Search {
    function: Function,
    data_type: DataType,
    middle: f64,
    limits: [f64; 2],
    times: bool,
    /// Where errors are measured, and what the function is there.
    numbers: Vec<(i32, f64)>,
}

fn with_targets(function: Function, data_type: DataType, numbers: &[i32]) -> Vec<(i32, f64)> {
    let high = data_type.decode(data_type.max());
    let target = |&x: &i32| (x, function.at(data_type.decode(x)).min(high));
    numbers.iter().map(target).collect()
}

impl Search {
    fn new(function: Function, data_type: DataType) -> Search {
        let (middle, limits, times) = form(function).expect("`polynomial` has asked for it");
        let all = numbers(function, data_type);
        // Most numbers are far from where the function bends.
        let near = |&&x: &&i32| data_type.decode(x).abs() <= 9.0;
        let inner: Vec<i32> = all.iter().filter(near).copied().collect();
        let step = inner.len().div_ceil(FITTED);
        let ends = [all.first(), inner.last(), all.last()].into_iter().flatten();
        let some: Vec<i32> = inner.iter().step_by(step).chain(ends).copied().collect();
        let numbers = with_targets(function, data_type, &some);
        Search { function, data_type, middle, limits, times, numbers }
    }

    /// The largest error.
    fn error(&self, polynomial: &Polynomial) -> f64 {
        let error = |&(x, target): &(i32, f64)| {
            (self.data_type.decode(polynomial.at(self.data_type, x)) - target).abs()
        };
        self.numbers.iter().map(error).fold(0.0, f64::max)
    }

    /// The error of the limits behind the reach.
    fn clipped(&self, reach: f64) -> f64 {
        let weight = if self.times { reach } else { 1.0 };
        (self.gate(reach) - self.limits[1]).abs() * weight
    }

    /// What the polynomial is to give.
    fn gate(&self, x: f64) -> f64 {
        if self.times { self.function.at(x) / x } else { self.function.at(x) }
    }

    /// Coefficients by least squares, with the errors as weights of the next round.
    fn least_squares(&self, reach: f64, scale: f64, count: usize) -> Polynomial {
        let mut points: Vec<f64> = (1..=128).map(|at| reach * f64::from(at) / 128.0).collect();
        let mut gates: Vec<f64> = points.iter().map(|&x| self.gate(x)).collect();
        // The result at the reach is that of all larger numbers.
        points.push(reach);
        gates.push(self.limits[1]);
        let of = |x: f64| if self.times { x } else { 1.0 };
        let mut weights: Vec<f64> = points.iter().map(|&x| of(x)).collect();
        let mut coefficients = Vec::new();
        for _ in 0..30 {
            let mut rows = vec![vec![0.0; count + 1]; count];
            for ((&x, weight), gate) in points.iter().zip(&weights).zip(&gates) {
                let z = x * scale;
                let powers: Vec<f64> = (0..count as i32).map(|i| z.powi(2 * i + 1)).collect();
                for (row, power) in rows.iter_mut().zip(&powers) {
                    let term = power * weight * weight;
                    row.iter_mut().zip(&powers).for_each(|(sum, power)| *sum += term * power);
                    row[count] += term * (gate - self.middle);
                }
            }
            coefficients = solved(rows);
            for ((&x, weight), gate) in points.iter().zip(&mut weights).zip(&gates) {
                let z = x * scale;
                let sum = coefficients.iter().rev().fold(0.0, |sum, term| sum * z * z + term);
                let found = (sum * z + self.middle).min(self.limits[1]);
                let error = (found - gate).abs() * of(x);
                *weight = (*weight * (error + 1e-6).sqrt()).max(1e-9);
            }
            let most = weights.iter().copied().fold(0.0, f64::max);
            weights.iter_mut().for_each(|weight| *weight /= most);
        }
        let encode = |real: f64| self.data_type.encode(real);
        Polynomial {
            reach: encode(reach),
            scale: encode(scale),
            coefficients: coefficients.into_iter().map(encode).collect(),
            middle: encode(self.middle),
            limits: self.limits.map(encode),
            times: self.times,
        }
    }

    /// Moves single coefficients and pairs of them while that helps.
    fn improved(&self, mut polynomial: Polynomial) -> Fit {
        let mut error = self.error(&polynomial);
        let count = polynomial.coefficients.len();
        let mut moves: Vec<[(usize, i32); 2]> = Vec::new();
        for (first, second) in (0..count).flat_map(|i| (i..count).map(move |j| (i, j))) {
            for (by, and) in [(1, 0), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1), (2, -1), (-2, 1)]
            {
                moves.push([(first, by), (second, and)]);
            }
        }
        let mut tried = 0;
        while tried < moves.len() {
            let mut next = polynomial.clone();
            for (at, by) in moves[0] {
                let moved = i64::from(next.coefficients[at]) + i64::from(by);
                next.coefficients[at] = saturated(self.data_type, moved);
            }
            let found = self.error(&next);
            if found < error {
                (polynomial, error, tried) = (next, found, 0);
            } else {
                moves.rotate_left(1);
                tried += 1;
            }
        }
        (polynomial, error)
    }
}

/// The solution of linear equations, each with its right side last.
fn solved(mut rows: Vec<Vec<f64>>) -> Vec<f64> {
    let count = rows.len();
    for column in 0..count {
        let size = |row: &usize| rows[*row][column].abs();
        let pivot = (column..count).max_by(|a, b| size(a).total_cmp(&size(b)));
        rows.swap(column, pivot.unwrap_or(column));
        for row in column + 1..count {
            let factor = rows[row][column] / rows[column][column];
            let (above, below) = rows.split_at_mut(row);
            let terms = below[0].iter_mut().zip(&above[column]).skip(column);
            terms.for_each(|(term, known)| *term -= factor * known);
        }
    }
    let mut solution = vec![0.0; count];
    for row in (0..count).rev() {
        let known: f64 = (row + 1..count).map(|at| rows[row][at] * solution[at]).sum();
        solution[row] = (rows[row][count] - known) / rows[row][row];
    }
    solution
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The functions, computed otherwise than in `functions`.
    fn real(function: Function, x: f64) -> f64 {
        match function {
            Function::Sigmoid => 0.5 + (x / 2.0).tanh() / 2.0,
            Function::Tanh => 1.0 - 2.0 / ((2.0 * x).exp() + 1.0),
            other => other.at(x),
        }
    }

    #[test]
    fn stated_errors_hold_for_every_number() {
        let functions = [
            (Function::Sigmoid, 0.011),
            (Function::Tanh, 0.015),
            (Function::Erf, 0.014),
            (Function::Gelu, 0.012),
            (Function::GeluTanh, 0.02),
        ];
        let data_type = DataType::FP16BP8;
        for (function, bound) in functions {
            let (found, stated) = polynomial(function, data_type, bound).unwrap();
            let high = data_type.decode(data_type.max());
            let error = |x: i32| {
                let expected = real(function, data_type.decode(x)).min(high);
                (data_type.decode(found.at(data_type, x)) - expected).abs()
            };
            let worst = (-32768..=32767).map(error).fold(0.0, f64::max);
            assert!((worst - stated).abs() < 1e-9, "{function:?}: {worst}, stated {stated}");
            assert!(stated <= bound, "{function:?}: {stated}");
        }
    }

    #[test]
    fn coefficients_are_as_few_as_the_bound_allows() {
        let data_type = DataType::FP16BP8;
        let counts = [0.03, 0.02, 0.009].map(|bound| {
            polynomial(Function::Sigmoid, data_type, bound).unwrap().0.coefficients.len()
        });
        assert_eq!(counts, [2, 3, 4]);
        let problem = polynomial(Function::Sigmoid, data_type, 0.001).unwrap_err();
        assert!(problem.contains("is off by 0.0083, more than 0.001"), "{problem}");
        assert!(polynomial(Function::Tanh, DataType::Float32, 0.5).is_err());
        assert!(polynomial(Function::Sigmoid, DataType::FP32BP16, 0.02).is_ok());
    }

    #[test]
    fn equations_are_solved() {
        let rows = vec![vec![0.0, 2.0, 4.0], vec![1.0, 1.0, 5.0]];
        assert_eq!(solved(rows), [3.0, 2.0]);
    }
}
