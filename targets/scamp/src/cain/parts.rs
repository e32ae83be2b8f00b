//! All parts of a goal with what bounds need of them, as a table.

use super::goals::{Cells, Shape, factor, moved, way, weight, x_of, y_of};
use super::heuristics::Brief;
use super::op::{WAYS, Way, offset};
use smallvec::SmallVec;

/// Most parts of a goal that is split in every way; a larger one is split as AtomDistance does.
pub(super) const MAX_PARTS: usize = 1 << 16;

/// A part of a goal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) brief: Brief,
    pub(super) total: i64,
    pub(super) minus: i64,
    /// Distances of the atoms after the goal was moved back by a way.
    pub(super) ways: [i32; WAYS.len()],
    pub(super) hash: u64,
    west: i32,
    south: i32,
}

/// The parts of a goal by their code: how many atoms each cell gives, as a number in mixed radix.
pub(super) struct Parts {
    cells: Cells,
    /// What an atom of a cell adds to the code.
    strides: SmallVec<[u32; 9]>,
    pub(super) list: Vec<Part>,
}

/// Number of parts of a goal, itself and nothing included.
pub(super) fn count(goal: &Shape) -> usize {
    let choices = goal.cells.iter().map(|cell| cell.1.unsigned_abs() as usize + 1);
    choices.fold(1, usize::saturating_mul)
}

impl Parts {
    /// The table of a goal of at most [`MAX_PARTS`] parts.
    pub(super) fn new(goal: &Shape) -> Parts {
        let nothing = Part {
            brief: Brief { form: 0, square: 0, low: 0, high: 0 },
            total: 0,
            minus: 0,
            ways: [0; WAYS.len()],
            hash: 0,
            west: i32::MAX,
            south: i32::MAX,
        };
        let mut parts = Parts {
            cells: goal.cells.clone(),
            strides: SmallVec::new(),
            list: Vec::with_capacity(count(goal)),
        };
        parts.list.push(nothing);
        for &(place, n) in &goal.cells {
            let size = parts.list.len();
            parts.strides.push(size as u32);
            let hash = weight(place).wrapping_mul(i64::from(n.signum()) as u64);
            let away = |way_index: usize| {
                let (x, y) = offset(way_index as Way);
                way(moved(place, -x, -y)) as i32
            };
            let aways: [i32; WAYS.len()] = std::array::from_fn(away);
            for atoms in 1..=n.abs() {
                for base in 0..size {
                    let part = parts.list[base].with(
                        (x_of(place), y_of(place)),
                        n < 0,
                        atoms,
                        hash,
                        &aways,
                    );
                    parts.list.push(part);
                }
            }
        }
        parts
    }

    /// How many atoms of each cell a code has, with signs.
    pub(super) fn cells(&self, code: u32) -> Cells {
        let mut cells = Cells::new();
        for (&(place, n), &stride) in self.cells.iter().zip(&self.strides) {
            let atoms = (code / stride % (n.unsigned_abs() + 1)) as i32;
            if atoms != 0 {
                cells.push((place, atoms * n.signum()));
            }
        }
        cells
    }

    /// Number of pairs of parts that make a part, neither of them nothing.
    pub(super) fn pairs_of(&self, code: u32) -> u64 {
        let digits = self
            .cells
            .iter()
            .zip(&self.strides)
            .map(|(&(_, n), &stride)| u64::from(code / stride % (n.unsigned_abs() + 1)) + 1);
        digits.product::<u64>().div_ceil(2) - 1
    }

    /// Calls with the codes of all parts of a part, in ascending order.
    pub(super) fn each_part_of(&self, code: u32, mut call: impl FnMut(u32)) {
        let digit = |at: usize| code / self.strides[at] % (self.cells[at].1.unsigned_abs() + 1);
        let limits: SmallVec<[(u32, u32); 16]> = (0..self.cells.len())
            .map(|at| (self.strides[at], digit(at)))
            .filter(|(_, limit)| *limit > 0)
            .collect();
        let mut digits: SmallVec<[u32; 16]> = SmallVec::from_elem(0, limits.len());
        let mut current = 0;
        loop {
            call(current);
            let mut at = 0;
            loop {
                let Some(&(stride, limit)) = limits.get(at) else { return };
                if digits[at] < limit {
                    digits[at] += 1;
                    current += stride;
                    break;
                }
                current -= stride * limit;
                digits[at] = 0;
                at += 1;
            }
        }
    }
}

impl Part {
    /// The part with atoms of one more cell.
    fn with(
        &self,
        (x, y): (i32, i32),
        is_minus: bool,
        atoms: i32,
        hash: u64,
        aways: &[i32; WAYS.len()],
    ) -> Part {
        let count = i64::from(atoms);
        let hash = self.hash.wrapping_add(hash.wrapping_mul(count as u64));
        let total = self.total + count;
        let (west, south) = (self.west.min(x), self.south.min(y));
        let Brief { low, high, square, .. } = self.brief;
        // A part of one cell is a point as long as no other element joins.
        let is_point = self.total == 0 || square == 0 && (self.west, self.south) == (x, y);
        let brief = Brief {
            form: hash.wrapping_mul(factor(-west, -south)),
            square: if is_point { 0 } else { total * total },
            low: if low == 0 { count } else { low.min(count) },
            high: high.max(count),
        };
        Part {
            brief,
            total,
            minus: self.minus + if is_minus { count } else { 0 },
            ways: std::array::from_fn(|at| self.ways[at] + atoms * aways[at]),
            hash,
            west,
            south,
        }
    }
}
