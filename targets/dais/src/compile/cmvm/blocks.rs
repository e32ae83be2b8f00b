//! Problems whose pairs would fill the memory, in blocks: parts of the digits of every column.

use super::Problem;
use super::digits;
use super::state::{base, level, levels};
use super::system::{System, Term};
use rustc_hash::FxHashMap;

/// How many times the usual digits a part may have where inputs come at different times.
const STRETCH: usize = 4;

/// A part of a problem.
pub(super) struct Block {
    /// The part, for some of the inputs.
    pub(super) problem: Problem,
    /// Which inputs these are.
    pub(super) rows: Vec<usize>,
    /// Levels that the part needs.
    pub(super) least: u8,
}

/// The blocks of a problem, made one after the other: all together would fill the memory too.
#[derive(Clone)]
pub(super) struct Blocks<'a> {
    problem: &'a Problem,
    levels: Vec<u8>,
    late_first: Vec<usize>,
    /// Digits of a part.
    size: usize,
    /// Of every column the first row of which digits are left, as a place in `late_first`, and how
    /// many of its digits are not.
    next: Vec<(usize, usize)>,
}

/// Pairs of terms of the sums of a system.
pub(super) fn pairs_of(system: &System) -> usize {
    system.sums.iter().map(|terms| pairs(terms.len())).sum()
}

/// Pairs of signed digits of the columns of a problem.
pub(super) fn pairs_of_digits(problem: &Problem) -> usize {
    let count = |column: usize| -> usize {
        let weights = (0..problem.inputs().len()).map(|row| problem.weight(row, column));
        weights.map(|weight| digits::count(weight) as usize).sum()
    };
    (0..problem.columns()).map(|column| pairs(count(column))).sum()
}

fn pairs(terms: usize) -> usize {
    terms * terms.saturating_sub(1) / 2
}

/// The blocks of a problem with more than `most` pairs.
pub(super) fn split(problem: &Problem, most: usize) -> Option<Blocks<'_>> {
    let inputs = problem.inputs().len();
    let columns = problem.columns();
    if pairs_of_digits(problem) <= most {
        return None;
    }
    let levels = levels(problem.inputs());
    let mixed = levels.iter().any(|level| *level != levels[0]);
    let stretch = if mixed { STRETCH } else { 1 };
    let mut size = 2;
    while columns * pairs(size * 2 * stretch) <= most * stretch / 2 {
        size *= 2;
    }
    let mut late_first: Vec<usize> = (0..inputs).collect();
    late_first.sort_by_key(|&row| std::cmp::Reverse(levels[row]));
    Some(Blocks { problem, levels, late_first, size, next: vec![(0, 0); columns] })
}

impl Iterator for Blocks<'_> {
    type Item = Block;

    fn next(&mut self) -> Option<Block> {
        let mut weights = Vec::new();
        let mut least = 0;
        for column in 0..self.problem.columns() {
            least = least.max(self.take(column, &mut weights));
        }
        (!weights.is_empty()).then(|| self.block(weights, least))
    }
}

impl Blocks<'_> {
    /// Appends the next part of a column as rows, columns and weights; the levels it needs.
    fn take(&mut self, column: usize, weights: &mut Vec<(usize, usize, i64)>) -> u8 {
        let mut part = Part { size: self.size, count: 0, weight: 0, most: 0 };
        let (mut at, mut done) = self.next[column];
        while at < self.late_first.len() && !part.is_full() {
            let row = self.late_first[at];
            let mut rest = digits::canonical(self.problem.weight(row, column)).skip(done);
            let mut sum = 0;
            while !part.is_full() {
                let Some((shift, negate)) = rest.next() else {
                    (at, done) = (at + 1, 0);
                    break;
                };
                done += 1;
                part.add(self.levels[row]);
                sum += if negate { -(1_i64 << shift) } else { 1_i64 << shift };
            }
            if sum != 0 {
                weights.push((row, column, sum));
            }
        }
        self.next[column] = (at, done);
        level(part.weight)
    }

    fn block(&self, weights: Vec<(usize, usize, i64)>, least: u8) -> Block {
        let (inputs, columns) = (self.problem.inputs(), self.problem.columns());
        let mut is_used = vec![base(inputs) > 0; inputs.len()];
        weights.iter().for_each(|&(row, ..)| is_used[row] = true);
        let rows: Vec<usize> = (0..inputs.len()).filter(|&row| is_used[row]).collect();
        let mut place = vec![0; inputs.len()];
        rows.iter().enumerate().for_each(|(at, &row)| place[row] = at);
        let mut problem = Problem {
            inputs: rows.iter().map(|&row| inputs[row]).collect(),
            columns,
            weights: vec![0; rows.len() * columns],
        };
        for (row, column, weight) in weights {
            problem.weights[place[row] * columns + column] = weight;
        }
        Block { problem, rows, least }
    }
}

/// Digits of one column in one block.
struct Part {
    size: usize,
    count: usize,
    /// Sum of `2^level`.
    weight: u64,
    /// Weight of a full part.
    most: u64,
}

impl Part {
    fn add(&mut self, level: u8) {
        if self.count == 0 {
            self.most = (self.size as u64) << level;
        }
        self.count += 1;
        self.weight += 1 << level;
    }

    /// Levels fall, so that the weight meets its most exactly: then nothing is wasted when parts
    /// are added up.
    fn is_full(&self) -> bool {
        self.count >= self.size && (self.weight >= self.most || self.count >= STRETCH * self.size)
    }
}

/// The levels that each block may have, so that their sums are in time; `None` when there are not
/// enough.
pub(super) fn limits(blocks: Blocks<'_>, slack: u8, limit: u8) -> Option<Vec<u8>> {
    let limits: Vec<u8> = blocks.map(|block| block.least + slack).collect();
    let all: u128 = limits.iter().map(|&limit| 1_u128 << limit).sum();
    (all <= 1 << limit).then_some(limits)
}

/// The system whose outputs are the sums of those of the blocks.
pub(super) fn join(blocks: Vec<System>) -> System {
    let inputs = blocks.first().map_or(0, |block| block.inputs);
    let columns = blocks.first().map_or(0, |block| block.outputs.len());
    let mut sums: Vec<Vec<Term>> = Vec::new();
    let mut outputs: Vec<Vec<Term>> = vec![Vec::new(); columns];
    for block in blocks {
        let offset = sums.len() as u32;
        let moved = |mut term: Term| {
            term.node += if (term.node as usize) < inputs { 0 } else { offset };
            term
        };
        for (terms, output) in outputs.iter_mut().zip(&block.outputs) {
            terms.extend(output.map(|term| moved(block.behind(term))));
        }
        sums.extend(block.sums.into_iter().map(|terms| terms.into_iter().map(moved).collect()));
    }
    // Equal columns have equal terms, since every block has solved them once.
    let mut known: FxHashMap<Vec<Term>, u32> = FxHashMap::default();
    let output = |terms: Vec<Term>| match terms[..] {
        [] => None,
        [term] => Some(term),
        _ => {
            let node = *known.entry(terms).or_insert_with_key(|terms| {
                sums.push(terms.clone());
                (inputs + sums.len() - 1) as u32
            });
            Some(Term { node, shift: 0, negate: false })
        }
    };
    let outputs = outputs.into_iter().map(output).collect();
    System { inputs, sums, outputs }
}
