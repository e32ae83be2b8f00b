//! Problems whose pairs would fill the memory, in blocks: parts of the digits of every column.

use super::Problem;
use super::digits;
use super::state::{level, levels};
use super::system::{System, Term};

/// Most pairs of terms that are counted at once: some 100 MiB.
const MOST_PAIRS: usize = 1 << 21;

/// How many times the usual digits a part may have where inputs come at different times.
const STRETCH: usize = 4;

/// A part of a problem.
pub(super) struct Block {
    pub(super) problem: Problem,
    /// Levels that the part needs.
    pub(super) least: u8,
}

/// Whether the pairs of a system can be counted.
pub(super) fn is_countable(system: &System) -> bool {
    system.sums.iter().map(|terms| pairs(terms.len())).sum::<usize>() <= MOST_PAIRS
}

fn pairs(terms: usize) -> usize {
    terms * terms.saturating_sub(1) / 2
}

/// The blocks of a problem with too many pairs.
pub(super) fn split(problem: &Problem) -> Option<Vec<Block>> {
    let inputs = problem.inputs().len();
    let columns = problem.columns();
    let count = |column: usize| -> usize {
        (0..inputs).map(|row| digits::count(problem.weight(row, column)) as usize).sum()
    };
    if (0..columns).map(|column| pairs(count(column))).sum::<usize>() <= MOST_PAIRS {
        return None;
    }
    let levels = levels(problem.inputs());
    let mixed = levels.iter().any(|level| *level != levels[0]);
    let stretch = if mixed { STRETCH } else { 1 };
    let mut size = 2;
    while columns * pairs(size * 2 * stretch) <= MOST_PAIRS * stretch / 2 {
        size *= 2;
    }
    let mut late_first: Vec<usize> = (0..inputs).collect();
    late_first.sort_by_key(|&row| std::cmp::Reverse(levels[row]));
    let mut blocks: Vec<Block> = Vec::new();
    for column in 0..columns {
        let digits = late_first.iter().flat_map(|&row| {
            digits::canonical(problem.weight(row, column)).map(move |digit| (row, digit))
        });
        let mut part = Part { size, count: 0, weight: 0, most: 0 };
        let mut block = 0;
        for (row, (shift, negate)) in digits {
            if part.is_full() {
                part = Part { size, count: 0, weight: 0, most: 0 };
                block += 1;
            }
            part.add(levels[row]);
            if block == blocks.len() {
                let weights = vec![0; inputs * columns];
                let problem = Problem { inputs: problem.inputs().to_vec(), columns, weights };
                blocks.push(Block { problem, least: 0 });
            }
            let digit = 1_i64 << shift;
            let weight = &mut blocks[block].problem.weights[row * columns + column];
            *weight += if negate { -digit } else { digit };
            blocks[block].least = blocks[block].least.max(level(part.weight));
        }
    }
    Some(blocks)
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
pub(super) fn limits(blocks: &[Block], slack: u8, limit: u8) -> Option<Vec<u8>> {
    let limits: Vec<u8> = blocks.iter().map(|block| block.least + slack).collect();
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
        sums.extend(block.sums.into_iter().map(|terms| terms.into_iter().map(moved).collect()));
        for (terms, output) in outputs.iter_mut().zip(block.outputs) {
            terms.extend(output.map(moved));
        }
    }
    let output = |terms: Vec<Term>| match terms[..] {
        [] => None,
        [term] => Some(term),
        _ => {
            sums.push(terms);
            let node = (inputs + sums.len() - 1) as u32;
            Some(Term { node, shift: 0, negate: false })
        }
    };
    let outputs = outputs.into_iter().map(output).collect();
    System { inputs, sums, outputs }
}
