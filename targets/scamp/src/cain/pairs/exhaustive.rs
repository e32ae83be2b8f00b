//! Every way to make a goal by one instruction.

use super::{Choice, Made, Maker, Pass};
use crate::cain::goals::{Shape, factor};
use crate::cain::heuristics::{Brief, Cost, Heuristic, range};
use crate::cain::op::{Op, Way, offset};
use crate::cain::parts::{MAX_PARTS, Part, Parts, count};
use smallvec::SmallVec;

/// Goals of a bag but for one, as bounds need them.
struct Rest {
    hashes: SmallVec<[u64; 8]>,
    forms: SmallVec<[u64; 8]>,
    /// Least cost of their atoms and distances.
    atoms: f64,
    reps: f64,
    low: i64,
    high: i64,
    largest: i64,
}

/// A part of a goal before it is moved by a way.
#[derive(Clone, Copy)]
struct Moved<'a> {
    part: &'a Part,
    brief: Brief,
    way: Way,
    is_negated: bool,
}

impl<'a> Moved<'a> {
    fn new(table: &'a Parts, code: u32, way: Way) -> Self {
        let part = &table.list[code as usize];
        Moved { part, brief: part.brief, way, is_negated: false }
    }

    fn negated(self) -> Self {
        let brief = Brief { form: self.brief.form.wrapping_neg(), ..self.brief };
        Moved { brief, is_negated: true, ..self }
    }

    fn hash(&self) -> u64 {
        let (x, y) = offset(self.way);
        let hash = self.part.hash.wrapping_mul(factor(-x, -y));
        if self.is_negated { hash.wrapping_neg() } else { hash }
    }

    fn distance(&self, cost: Cost) -> i64 {
        let Part { total, minus, ways, .. } = self.part;
        let minus = if self.is_negated { total - minus } else { *minus };
        cost.ways(i64::from(ways[usize::from(self.way)]), minus)
    }
}

impl Pass<'_> {
    pub(super) fn exhaustive(&mut self, maker: &mut Maker<'_>) {
        for at in self.distinct() {
            self.unary(at);
            if self.shape(at).total == 0 {
                continue;
            }
            if count(self.shape(at)) > MAX_PARTS {
                self.distances(true, Some(at));
                continue;
            }
            let table = maker.table(self.goals.get(self.bag[at]));
            self.splits(at, &table);
            self.signed(at);
        }
    }

    /// What makes a goal of one other goal, or of nothing.
    fn unary(&mut self, at: usize) {
        let choice = |op, other: usize| Choice {
            upper: at as u8,
            other: other as u8,
            op,
            made: Made::Whole,
        };
        let id = self.bag[at];
        let copy = (at + 1..self.bag.len()).find(|&other| self.bag[other] == id);
        let ops = self.ops;
        let free = |ok: bool, op| ok.then_some(op);
        if self.shape(at).total == 0 {
            if let (Some(other), true) = (copy, ops.res2) {
                self.consider(0.0, choice(Op::Res2, other), None);
            }
            let res = free(ops.res, Op::Res);
            res.into_iter().for_each(|op| self.consider(0.0, choice(op, at), None));
            return;
        }
        let neg = free(ops.neg, Op::Neg).into_iter();
        let moves = ops.mov.iter().map(|&way| Op::Mov(way));
        for op in neg.chain(ops.halve.iter().copied()).chain(moves) {
            self.consider(0.0, choice(op, at), None);
        }
    }

    fn rest(&self, at: usize) -> Rest {
        let others = (0..self.bag.len()).filter(|&other| other != at);
        let shapes: SmallVec<[&Shape; 8]> = others.map(|other| self.shape(other)).collect();
        let briefs: SmallVec<[Brief; 8]> = shapes.iter().map(|shape| Brief::of(shape)).collect();
        let relief = self.cost.most_relief() as f64;
        let atoms = |shape: &&Shape| {
            shape.total as f64 + self.cost.ways(shape.way, shape.minus) as f64 / relief
        };
        let (low, high) = range(&briefs);
        Rest {
            hashes: shapes.iter().map(|shape| shape.hash).collect(),
            forms: briefs.iter().map(|brief| brief.form).collect(),
            atoms: shapes.iter().map(atoms).sum(),
            reps: self.cost.reps(&briefs),
            low,
            high,
            largest: shapes.iter().map(|shape| shape.total).max().unwrap_or(0),
        }
    }

    /// The least that a bag costs when some parts replace a goal, each moved back by a way. What is a
    /// translation of another goal is no new class, and is free where it is that goal.
    fn bound(&self, rest: &Rest, parts: &[Moved<'_>], unknown: i64) -> f64 {
        if self.cost.heuristic == Heuristic::Random {
            return f64::NEG_INFINITY;
        }
        let mut fresh: SmallVec<[Brief; 3]> = SmallVec::new();
        let (mut sum, mut low, mut high) = (rest.atoms + rest.reps, rest.low, rest.high);
        for (at, part) in parts.iter().enumerate() {
            let Brief { form, low: least, high: most, .. } = part.brief;
            low = if low == 0 { least } else { low.min(least) };
            high = high.max(most);
            if !rest.forms.contains(&form) {
                fresh.push(part.brief);
            } else if self.cost.heuristic.is_of_paper() {
                // There a second goal of a class takes the penalty of the first one away.
                return f64::NEG_INFINITY;
            } else {
                let hash = part.hash();
                match rest.hashes.iter().filter(|&&other| other == hash).count() {
                    0 => {}
                    1 => continue,
                    // Two equal goals become one.
                    _ => return f64::NEG_INFINITY,
                }
            }
            let others = parts.iter().enumerate().filter(|(other, _)| *other != at);
            let largest = others.map(|(_, other)| other.part.total).max().unwrap_or(unknown);
            let relief = self.relief(part.part.total, rest.largest.max(largest));
            sum += part.part.total as f64 + part.distance(self.cost) as f64 / relief;
        }
        sum + self.cost.reps(&fresh) + self.cost.divs(low, high)
    }

    /// The largest relief for a goal of so many atoms beside others.
    fn relief(&self, total: i64, largest: i64) -> f64 {
        // What is part of no other goal has the relief in the paper's print only.
        let has = total <= largest || self.cost.heuristic == Heuristic::PaperAsPrinted;
        if has { self.cost.most_relief() as f64 } else { 1.0 }
    }

    /// All sums of two or three parts.
    fn splits(&mut self, at: usize, table: &Parts) {
        let rest = self.rest(at);
        let full = table.list.len() as u32 - 1;
        let ops = self.ops;
        for code in 1..full {
            let other = full - code;
            let choice = |op| Choice { upper: at as u8, other: 0, op, made: Made::Split(code) };
            if code <= other {
                for &way in &ops.add {
                    let parts = [Moved::new(table, code, way), Moved::new(table, other, way)];
                    let bound = self.bound(&rest, &parts, 0);
                    self.consider(bound, choice(Op::Add(way)), Some(table));
                }
            }
            let second = Moved::new(table, other, 0).negated();
            for &way in &ops.sub {
                let bound = self.bound(&rest, &[Moved::new(table, code, way), second], 0);
                self.consider(bound, choice(Op::Sub(way)), Some(table));
            }
            if ops.add3 {
                self.triples(at, code, table, &rest);
            }
        }
    }

    /// All sums of two parts of a part, and what remains.
    fn triples(&mut self, at: usize, code: u32, table: &Parts, rest: &Rest) {
        let last = Moved::new(table, table.list.len() as u32 - 1 - code, 0);
        if !self.cost.heuristic.is_of_paper()
            && self.bound(rest, &[last], i64::MAX) >= self.sink.limit
        {
            // Two more parts make it dearer.
            self.sink.index += table.pairs_of(code);
            return;
        }
        table.each_part_of(code, |part| {
            let second = code - part;
            if part == 0 || part > second {
                return;
            }
            let parts = [Moved::new(table, part, 0), Moved::new(table, second, 0), last];
            let bound = self.bound(rest, &parts, 0);
            let made = Made::Triple(code, part);
            let choice = Choice { upper: at as u8, other: 0, op: Op::Add3, made };
            self.consider(bound, choice, Some(table));
        });
    }

    /// Cells of 7, 14 and 15 atoms as differences.
    fn signed(&mut self, at: usize) {
        if !self.shape(at).cells.iter().any(|cell| [7, 14, 15].contains(&cell.1.abs())) {
            return;
        }
        let ops = self.ops;
        let adds = ops.add.iter().map(|&way| Op::Add(way));
        for op in adds.chain(ops.sub.iter().map(|&way| Op::Sub(way))) {
            let choice = Choice { upper: at as u8, other: 0, op, made: Made::Signed };
            self.consider(f64::NEG_INFINITY, choice, None);
        }
    }
}
