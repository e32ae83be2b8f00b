//! Matrices that are products of simpler ones: Kronecker products, matrices of low rank, and those
//! of cosines and the like, whose inputs come as sums and differences of two; matrices whose columns
//! grow by differences that have structure themselves.

use super::Problem;
use super::blocks::pairs_of_digits;
use super::decompose::{Branch, rest, tree};
use super::system::{System, Term, of_digits};
use rustc_hash::FxHashMap;

/// Most weights of a matrix that is looked at.
const MOST_WEIGHTS: usize = 1 << 20;

/// Most weights of a matrix in which signs and differences are looked at.
const MOST_TRACED: usize = 1 << 14;

/// Most pairs of signed digits of its columns.
const MOST_PAIRS: usize = 1 << 21;

/// Highest rank for which a basis is looked for.
const MOST_RANK: usize = 32;

/// Used rows for every two that are the same but for signs, at most.
const MOST_UNPAIRED: usize = 4;

/// Fourths of the digits that differences may leave.
const MOST_LEFT: usize = 3;

/// Swaps of basis vectors after which reducing a basis ends.
const MOST_SWAPS: usize = 10_000;

/// Solves a part of a problem, which the system has so many times.
pub(super) type Solve<'a> = dyn FnMut(&Problem, usize) -> System + 'a;

/// Systems that follow from the structure of a matrix, each of them made of systems for smaller
/// matrices, which `solve` finds.
pub(super) fn systems(problem: &Problem, solve: &mut Solve<'_>) -> Vec<System> {
    if problem.weights.len() > MOST_WEIGHTS {
        return Vec::new();
    }
    let kronecker = kronecker(problem, solve);
    let by_columns = low_rank(problem, solve);
    let by_rows = low_rank(&problem.transposed(), solve).map(|system| system.transposed());
    let all = [kronecker, by_columns, by_rows];
    if problem.weights.len() > MOST_TRACED || pairs_of_digits(problem) > MOST_PAIRS {
        return all.into_iter().flatten().collect();
    }
    let by_sums = mirrored(problem, solve);
    let of_sums = mirrored(&problem.transposed(), solve).map(|system| system.transposed());
    let by_steps = stepped(problem, solve);
    let of_steps = stepped(&problem.transposed(), solve).map(|system| system.transposed());
    let others = [by_sums, of_sums, by_steps, of_steps];
    all.into_iter().chain(others).flatten().collect()
}

/// The system on sums and differences of two inputs each, where rows of weights are the same but for
/// signs: a column reads one of them. What it reads is looked at in the same way.
fn mirrored(problem: &Problem, solve: &mut Solve<'_>) -> Option<System> {
    let (rows, columns) = (problem.inputs().len(), problem.columns());
    let pairs = mirrored_rows(problem);
    if pairs.len() * MOST_UNPAIRED < problem.used_rows().len() || pairs.is_empty() {
        return None;
    }
    let mut folded = Matrix { rows, columns, weights: problem.weights.clone() };
    for (&[first, second], column) in pairs.iter().flat_map(|p| (0..columns).map(move |c| (p, c))) {
        let (sum, difference) = (first * columns + column, second * columns + column);
        // The first input of a pair becomes the sum, the second one the difference.
        let is_sum = folded.weights[sum] == folded.weights[difference];
        folded.weights[difference] = if is_sum { 0 } else { folded.weights[sum] };
        folded.weights[sum] = if is_sum { folded.weights[sum] } else { 0 };
    }
    let folded = folded.problem();
    let inner = mirrored(&folded, solve).unwrap_or_else(|| solve(&folded, 1));
    let mut all = System::of_inputs(rows);
    let input = |node: usize| Term { node: node as u32, shift: 0, negate: false };
    let mut at: Vec<_> = (0..rows).map(|row| Some(input(row))).collect();
    for [first, second] in pairs {
        for (place, negate) in [(first, false), (second, true)] {
            all.sums.push(vec![input(first), input(second).scaled(0, negate)]);
            at[place] = Some(input(rows + all.sums.len() - 1));
        }
    }
    all.outputs = all.apply(&inner, &at);
    Some(all)
}

/// Rows that are the same but for signs, two by two.
fn mirrored_rows(problem: &Problem) -> Vec<[usize; 2]> {
    let mut single: FxHashMap<Vec<u64>, usize> = FxHashMap::default();
    let mut pairs = Vec::new();
    for row in problem.used_rows() {
        let weights = &problem.weights[row * problem.columns()..][..problem.columns()];
        let sizes: Vec<u64> = weights.iter().map(|weight| weight.unsigned_abs()).collect();
        match single.remove(&sizes) {
            Some(first) => pairs.push([first, row]),
            None => {
                single.insert(sizes, row);
            }
        }
    }
    pairs
}

/// Columns as other columns and differences, where these have few digits, perhaps only when they are
/// looked at in the same way, as double sums need it.
fn stepped(problem: &Problem, solve: &mut Solve<'_>) -> Option<System> {
    let steps = Steps::of(problem);
    let most = |system: &System| system.cost() * MOST_LEFT / 4;
    let is_gain = steps.cost() <= most(&steps.system) || {
        let next = Steps::of(&steps.problem);
        next.cost() + steps.links() <= most(&steps.system)
    };
    if !is_gain || steps.links() == 0 {
        return None;
    }
    let plain = solve(&steps.problem, 1);
    let inner = match stepped(&steps.problem, solve) {
        Some(system) => least([system, plain]),
        None => plain,
    };
    Some(steps.joined(&inner))
}

/// Columns as a tree of differences.
struct Steps {
    /// Signed digits of the columns.
    system: System,
    branches: Vec<Branch>,
    /// The matrix of the differences.
    problem: Problem,
}

impl Steps {
    fn of(problem: &Problem) -> Steps {
        let rows = problem.inputs().len();
        let (system, forms) = of_digits(problem);
        let branches = tree(&forms, usize::MAX, &vec![0; rows], None);
        let mut steps = vec![Vec::new(); forms.len()];
        branches.iter().for_each(|b| steps[b.column] = rest(&forms, b.column, b.from));
        let weights = (0..rows).flat_map(|row| row_of(&steps, row)).collect();
        let problem = Matrix { rows, columns: forms.len(), weights }.problem();
        Steps { system, branches, problem }
    }

    /// Columns that are made of others.
    fn links(&self) -> usize {
        self.branches.iter().filter(|branch| branch.from.is_some()).count()
    }

    /// Adders if differences were signed digits.
    fn cost(&self) -> usize {
        of_digits(&self.problem).0.cost() + self.links()
    }

    /// The system of the columns from that of the differences.
    fn joined(&self, inner: &System) -> System {
        let rows = inner.inputs;
        let mut all = System::of_inputs(rows);
        let input = |row: usize| Some(Term { node: row as u32, shift: 0, negate: false });
        let mut made = all.apply(inner, &(0..rows).map(input).collect::<Vec<_>>());
        for &Branch { column, from } in &self.branches {
            if let Some((from, negate)) = from {
                let first = made[from].map(|term| term.scaled(0, negate));
                all.sums.push(first.into_iter().chain(made[column]).collect());
                let node = all.node_of(all.sums.len() - 1);
                made[column] = Some(Term { node, shift: 0, negate: false });
            }
        }
        let output = |term: Term| {
            let there = made[self.system.sum_of(term.node)?]?;
            Some(there.scaled(term.shift, term.negate))
        };
        all.outputs = self.system.outputs.iter().map(|term| output((*term)?)).collect();
        all
    }
}

/// An integer matrix, row-major.
struct Matrix {
    rows: usize,
    columns: usize,
    weights: Vec<i64>,
}

impl Matrix {
    /// As a problem whose inputs are all alike.
    fn problem(self) -> Problem {
        let inputs = vec![super::Input { low: -128, high: 127, latency: 0 }; self.rows];
        Problem { inputs, columns: self.columns, weights: self.weights }
    }
}

/// `W = A ⊗ B`: `B` for every block of inputs, then `A` for every output of it, or the other way
/// round, whichever takes fewer adders.
fn kronecker(problem: &Problem, solve: &mut Solve<'_>) -> Option<System> {
    let (outer, inner) = kronecker_factors(problem)?;
    let (outer, inner) = (outer.problem(), inner.problem());
    let sides = [&outer, &inner].map(|p| (p.inputs().len(), p.columns()));
    let copies = sides.map(|(rows, columns)| rows.min(columns));
    let outer_system = solve(&outer, copies[1]);
    let plain = solve(&inner, copies[0]);
    let inner_system = match kronecker(&inner, solve) {
        Some(system) => least([system, plain]),
        None => plain,
    };
    let parts = [&outer_system, &inner_system];
    Some(least([true, false].map(|inner_first| composed(sides, parts, inner_first))))
}

fn least(systems: [System; 2]) -> System {
    let [a, b] = systems;
    if b.cost() < a.cost() { b } else { a }
}

/// The system of `A ⊗ B` from those of the factors.
fn composed(
    [(outer_rows, outer_columns), (inner_rows, inner_columns)]: [(usize, usize); 2],
    [outer, inner]: [&System; 2],
    inner_first: bool,
) -> System {
    let mut all = System::of_inputs(outer_rows * inner_rows);
    let input = |node: usize| Some(Term { node: node as u32, shift: 0, negate: false });
    // `middle[o][i]` is what the second step reads.
    let mut middle = Vec::new();
    if inner_first {
        for row in 0..outer_rows {
            let at: Vec<_> = (0..inner_rows).map(|i| input(row * inner_rows + i)).collect();
            middle.push(all.apply(inner, &at));
        }
        let per_column: Vec<Vec<_>> = (0..inner_columns)
            .map(|i| all.apply(outer, &middle.iter().map(|row| row[i]).collect::<Vec<_>>()))
            .collect();
        all.outputs = (0..outer_columns)
            .flat_map(|o| per_column.iter().map(move |column| column[o]))
            .collect();
    } else {
        for i in 0..inner_rows {
            let at: Vec<_> = (0..outer_rows).map(|o| input(o * inner_rows + i)).collect();
            middle.push(all.apply(outer, &at));
        }
        for o in 0..outer_columns {
            let at: Vec<_> = middle.iter().map(|row| row[o]).collect();
            let outputs = all.apply(inner, &at);
            all.outputs.extend(outputs);
        }
    }
    all
}

/// `A` and `B` of `A ⊗ B` with the smallest `A`; none if there are none but numbers.
fn kronecker_factors(problem: &Problem) -> Option<(Matrix, Matrix)> {
    let (rows, columns) = (problem.inputs().len(), problem.columns());
    let divisors = |n: usize| (1..=n).filter(move |d| n.is_multiple_of(*d));
    let mut shapes: Vec<(usize, usize)> =
        divisors(rows).flat_map(|r| divisors(columns).map(move |c| (r, c))).collect();
    shapes.retain(|&(r, c)| r * c > 1 && r * c < rows * columns);
    shapes.sort_by_key(|&(r, c)| (r * c, r));
    shapes.into_iter().find_map(|shape| factors_of_shape(problem, shape))
}

/// The factors where `A` has that many rows and columns: all blocks are multiples of one.
fn factors_of_shape(problem: &Problem, shape: (usize, usize)) -> Option<(Matrix, Matrix)> {
    let (rows, columns) = (problem.inputs().len() / shape.0, problem.columns() / shape.1);
    let at = |o: usize, i: usize| {
        let (block, place) = ((o / shape.1, o % shape.1), (i / columns, i % columns));
        problem.weight(block.0 * rows + place.0, block.1 * columns + place.1)
    };
    let size = rows * columns;
    let (first, lead) =
        (0..shape.0 * shape.1).find_map(|o| Some((o, (0..size).find(|&i| at(o, i) != 0)?)))?;
    let divisor = (0..size).fold(0, |all, i| gcd(all, at(first, i)));
    let inner: Vec<i64> = (0..size).map(|i| at(first, i) / divisor).collect();
    let mut outer = Vec::with_capacity(shape.0 * shape.1);
    for o in 0..shape.0 * shape.1 {
        let factor = at(o, lead) / inner[lead];
        if (0..size).any(|i| at(o, i) != factor * inner[i]) {
            return None;
        }
        outer.push(factor);
    }
    Some((
        Matrix { rows: shape.0, columns: shape.1, weights: outer },
        Matrix { rows, columns, weights: inner },
    ))
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a.abs() } else { gcd(b, a % b) }
}

/// `W = B C` through fewer numbers than there are inputs or outputs: `B` is a short basis of the
/// lattice that the columns make.
fn low_rank(problem: &Problem, solve: &mut Solve<'_>) -> Option<System> {
    let (rows, columns) = (problem.inputs().len(), problem.columns());
    let forms = of_digits(problem).1;
    let most = MOST_RANK.min(problem.used_rows().len() / 2).min(forms.len() / 2);
    let (basis, pivots) = basis(forms, most).filter(|(basis, _)| !basis.is_empty())?;
    let basis = reduced(basis)?;
    let rank = basis.len();
    let inverse = inverse(&pivots.iter().map(|&row| row_of(&basis, row)).collect::<Vec<_>>())?;
    let mut coordinates = vec![0; rank * columns];
    for column in 0..columns {
        for (k, line) in inverse.iter().enumerate() {
            let weight = |&row: &usize| problem.weight(row, column) as f64;
            let exact: f64 = line.iter().zip(pivots.iter().map(weight)).map(|(a, b)| a * b).sum();
            coordinates[k * columns + column] = exact.round() as i64;
        }
        let value = |row: usize| -> i128 {
            let part = |k: usize| {
                i128::from(basis[k][row]) * i128::from(coordinates[k * columns + column])
            };
            (0..rank).map(part).sum()
        };
        if (0..rows).any(|row| value(row) != i128::from(problem.weight(row, column))) {
            return None;
        }
    }
    let weights = (0..rows).flat_map(|row| row_of(&basis, row)).collect();
    let first = solve(&Matrix { rows, columns: rank, weights }.problem(), 1);
    let second = solve(&Matrix { rows: rank, columns, weights: coordinates }.problem(), 1);
    let mut all = System::of_inputs(rows);
    let input = |node: usize| Some(Term { node: node as u32, shift: 0, negate: false });
    let middle = all.apply(&first, &(0..rows).map(input).collect::<Vec<_>>());
    all.outputs = all.apply(&second, &middle);
    Some(all)
}

fn row_of(basis: &[Vec<i64>], row: usize) -> Vec<i64> {
    basis.iter().map(|vector| vector[row]).collect()
}

/// A basis of the lattice of some vectors, and as many places in which its vectors are independent;
/// none if it has more than `most`, or too large numbers.
fn basis(mut vectors: Vec<Vec<i64>>, most: usize) -> Option<(Vec<Vec<i64>>, Vec<usize>)> {
    let (mut basis, mut pivots) = (Vec::new(), Vec::new());
    while let Some(first) = vectors.first() {
        if basis.len() == most {
            return None;
        }
        let pivot = first.iter().position(|&x| x != 0)?;
        // Euclid's algorithm in this place leaves one vector that is not 0 there.
        loop {
            let is_there = |vector: &&Vec<i64>| vector[pivot] != 0;
            let (at, least) = vectors
                .iter()
                .enumerate()
                .filter(|(_, vector)| is_there(vector))
                .min_by_key(|(_, vector)| vector[pivot].abs())
                .map(|(at, vector)| (at, vector.clone()))?;
            let mut done = true;
            for (other, vector) in vectors.iter_mut().enumerate() {
                if other != at && vector[pivot] != 0 {
                    let factor = rounded(vector[pivot], least[pivot]);
                    subtract(vector, &least, factor)?;
                    done &= vector[pivot] == 0;
                }
            }
            if done {
                basis.push(vectors.swap_remove(at));
                pivots.push(pivot);
                break;
            }
        }
        vectors.retain(|vector| vector.iter().any(|&x| x != 0));
    }
    Some((basis, pivots))
}

/// The whole number next to a quotient.
fn rounded(a: i64, b: i64) -> i64 {
    (a + if (a < 0) == (b < 0) { b } else { -b } / 2) / b
}

/// Subtracts a multiple of another vector; none if a number becomes large.
fn subtract(vector: &mut [i64], other: &[i64], factor: i64) -> Option<()> {
    for (x, y) in vector.iter_mut().zip(other) {
        *x = x.checked_sub(y.checked_mul(factor)?).filter(|x| x.abs() < 1 << 48)?;
    }
    Some(())
}

/// The same lattice by short vectors, as Lenstra, Lenstra and Lovász find them.
fn reduced(mut basis: Vec<Vec<i64>>) -> Option<Vec<Vec<i64>>> {
    let (mut at, mut swaps) = (1, 0);
    while at < basis.len() {
        for other in (0..at).rev() {
            let (_, factors) = orthogonal(&basis[..=at]);
            let factor = factors[other].round() as i64;
            let (before, rest) = basis.split_at_mut(at);
            subtract(&mut rest[0], &before[other], factor)?;
        }
        let (norms, factors) = orthogonal(&basis[..=at]);
        if norms[at] >= (0.75 - factors[at - 1].powi(2)) * norms[at - 1] || swaps > MOST_SWAPS {
            at += 1;
        } else {
            basis.swap(at, at - 1);
            swaps += 1;
            at = (at - 1).max(1);
        }
    }
    Some(basis)
}

/// Squares of the lengths of the orthogonal parts of vectors, and the factors of the last one.
fn orthogonal(basis: &[Vec<i64>]) -> (Vec<f64>, Vec<f64>) {
    let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    let (mut parts, mut norms): (Vec<Vec<f64>>, Vec<f64>) = (Vec::new(), Vec::new());
    let mut factors = Vec::new();
    for vector in basis {
        let vector: Vec<f64> = vector.iter().map(|&x| x as f64).collect();
        factors = parts.iter().zip(&norms).map(|(part, norm)| dot(&vector, part) / norm).collect();
        let mut part = vector;
        for (other, factor) in parts.iter().zip(&factors) {
            part.iter_mut().zip(other).for_each(|(x, y)| *x -= factor * y);
        }
        norms.push(dot(&part, &part));
        parts.push(part);
    }
    (norms, factors)
}

/// The inverse of a square matrix in floats.
fn inverse(matrix: &[Vec<i64>]) -> Option<Vec<Vec<f64>>> {
    let size = matrix.len();
    let row = |(i, row): (usize, &Vec<i64>)| -> Vec<f64> {
        let unit = (0..size).map(|j| f64::from(u8::from(i == j)));
        row.iter().map(|&x| x as f64).chain(unit).collect()
    };
    let mut rows: Vec<Vec<f64>> = matrix.iter().enumerate().map(row).collect();
    for column in 0..size {
        let largest =
            |&a: &usize, &b: &usize| rows[a][column].abs().total_cmp(&rows[b][column].abs());
        let pivot = (column..size).max_by(largest)?;
        if rows[pivot][column] == 0.0 {
            return None;
        }
        rows.swap(column, pivot);
        let scale = rows[column][column];
        rows[column].iter_mut().for_each(|x| *x /= scale);
        let line = rows[column].clone();
        for (other, row) in rows.iter_mut().enumerate() {
            if other != column {
                let factor = row[column];
                row.iter_mut().zip(&line).for_each(|(x, y)| *x -= factor * y);
            }
        }
    }
    Some(rows.into_iter().map(|row| row[size..].to_vec()).collect())
}
