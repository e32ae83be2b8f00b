//! The adder graph of a matrix for fewer rows, or for other ranges, steps and signs of the inputs.
//!
//! A kernel at the border of an image lacks rows, and ranges there can be narrower. The graph that
//! was found for all rows holds with zeros in their place: adders of a zero are not adders. A slot
//! that holds an input negated changes which adders subtract. Both are much faster than another
//! search, and the result is proved like any other.

use super::prove::{Bare, prove};
use super::system::Term;
use super::{Problem, Solution};

/// `(-1 if negate) * node * 2^shift` of the new graph; nothing where the old node is 0.
pub(crate) type Place = Option<(usize, i32, bool)>;

/// The graph for a problem whose inputs are some of those of a solved one, shifted and perhaps
/// negated: `kept` has what every old input is. `None` where the graph has no such form.
pub(crate) fn reuse(solution: &Solution, kept: &[Place], problem: &Problem) -> Option<Solution> {
    let mut places: Vec<Place> = kept.to_vec();
    let mut adders = Vec::new();
    for adder in &solution.adders {
        let flipped = |(node, shift, negate): (usize, i32, bool)| {
            (node, shift + adder.shift, negate != adder.subtract)
        };
        let (a, b) = (places[adder.a], places[adder.b].map(flipped));
        places.push(match (a, b) {
            (None, other) | (other, None) => other,
            (Some(a), Some(b)) => {
                // The left operand of an adder is not negated.
                let (left, right) = if a.2 && !b.2 { (b, a) } else { (a, b) };
                let node = problem.inputs().len() + adders.len();
                adders.push(Bare {
                    a: left.0,
                    b: right.0,
                    shift: right.1 - left.1,
                    subtract: left.2 != right.2,
                });
                Some((node, left.1, left.2))
            }
        });
    }
    let mut outputs = Vec::with_capacity(solution.outputs.len());
    for output in &solution.outputs {
        let place = output.and_then(|output| {
            let (node, shift, negate) = places[output.node]?;
            Some((node, shift + output.shift, negate != output.negate))
        });
        outputs.push(match place {
            None => None,
            Some((node, shift, negate)) => Some(Term {
                node: u32::try_from(node).ok()?,
                shift: i16::try_from(shift).ok()?,
                negate,
            }),
        });
    }
    prove(problem, adders, &outputs).ok()
}

#[cfg(test)]
mod tests {
    use super::super::{Effort, Input, Settings, solve};
    use super::*;

    /// Every subset of the rows of a matrix, some of them doubled and negated; the proof is part of
    /// what is called.
    #[test]
    fn rows_can_be_left_out_and_scaled() {
        let settings = Settings::of(Effort::Fast, None);
        let input = Input { low: -128, high: 127, latency: 0 };
        let weight = |row: usize, column: usize| ((row * 37 + column * 101) % 63) as i64 - 31;
        let (rows, columns) = (6, 4);
        // The input of a row is `scale` times what it was, so that its weights are that of them.
        let weights = |rows: &[usize], scale: &dyn Fn(usize) -> i64| {
            let row = |&row: &usize| (0..columns).map(move |c| weight(row, c) * scale(row));
            rows.iter().flat_map(row).collect()
        };
        let all: Vec<usize> = (0..rows).collect();
        let problem = Problem::new(vec![input; rows], columns, weights(&all, &|_| 1)).unwrap();
        let solution = solve(&problem, &settings).unwrap();
        for subset in 0_usize..1 << rows {
            let chosen: Vec<usize> = (0..rows).filter(|row| subset >> row & 1 == 1).collect();
            let (shift, negate) =
                (|row: usize| row as i32 % 3, |row: usize| subset >> row & 2 == 2);
            let place = |&row: &usize| {
                let new = chosen.iter().position(|&c| c == row)?;
                Some((new, shift(row), negate(row)))
            };
            let kept: Vec<Place> = all.iter().map(place).collect();
            let narrow = Input { low: -3, high: 5, latency: 2 };
            let scale = |row: usize| (1 << shift(row)) * if negate(row) { -1 } else { 1 };
            let weights = weights(&chosen, &scale);
            let fewer = Problem::new(vec![narrow; chosen.len()], columns, weights).unwrap();
            let found = reuse(&solution, &kept, &fewer).unwrap();
            assert!(found.adders.len() <= solution.adders.len());
        }
    }
}
