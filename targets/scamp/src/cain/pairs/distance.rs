//! Goals and parts of goals that are translations of each other.

use super::build::{build, common};
use super::{Choice, Made, Pass};
use crate::cain::goals::{Shape, x_of, y_of};
use crate::cain::op::{Op, Way, way_to};
use smallvec::SmallVec;

impl Pass<'_> {
    /// Children by parts that are translations of each other; only of one goal if one is given.
    pub(super) fn distances(&mut self, sorted: bool, only: Option<usize>) {
        let list = self.distinct();
        let uppers = list.iter().copied().filter(|&at| only.is_none_or(|only| only == at));
        let uppers: SmallVec<[usize; 8]> = uppers.collect();
        for own in [false, true] {
            for &a in &uppers {
                for b in (0..self.bag.len()).filter(|&b| (b == a) == own) {
                    self.pair(a, b, sorted);
                }
            }
        }
        if only.is_none() {
            for &at in &uppers {
                self.direct(at, sorted);
            }
        }
    }

    /// Considers a child in the order of the heuristic, or of sizes and distances.
    fn offer(&mut self, choice: Choice, sorted: bool, size: i64, distance: i32) {
        if sorted {
            return self.consider(0.0, choice, None);
        }
        let index = self.sink.index;
        self.sink.index += 1;
        let fits = build(self.goals, self.bag, choice, None)
            .is_some_and(|pair| self.judge(&pair).is_some());
        if fits {
            self.sink.push(f64::from(distance) - size as f64 * 4096.0, index, choice);
        }
    }

    fn pair(&mut self, a: usize, b: usize, sorted: bool) {
        let own = a == b;
        let (goals, bag) = (self.goals, self.bag);
        let (upper, other) = (goals.get(bag[a]), goals.get(bag[b]));
        for (x, y) in offsets(upper, other) {
            for negated in [false, true] {
                let part = common(upper, other, (x, y), negated, own);
                let size: i64 = part.iter().map(|cell| i64::from(cell.1.abs())).sum();
                if size == 0 || !own && size != other.total {
                    continue;
                }
                let near = Made::Near { x: x as i16, y: y as i16, negated };
                let is_all = !own && size == upper.total;
                let made = if is_all { Made::Whole } else { near };
                for op in self.forms(upper, (x, y), negated, own, is_all) {
                    let choice = Choice { upper: a as u8, other: b as u8, op, made };
                    self.offer(choice, sorted, size, x.abs() + y.abs());
                }
            }
        }
    }

    /// Instructions for two goals, or parts of one, that are translations of each other.
    fn forms(
        &self,
        upper: &Shape,
        (x, y): (i32, i32),
        negated: bool,
        own: bool,
        is_all: bool,
    ) -> SmallVec<[Op; 8]> {
        let ops = self.ops;
        let (target, unit) = match own {
            true => (centre(upper), upper.total),
            false => ((i64::from(x), i64::from(y)), 1),
        };
        let ways = [towards(target, unit, 1), towards(target, unit, 2)];
        let moves = || ways.into_iter().flatten();
        let mut list: SmallVec<[Op; 8]> = SmallVec::new();
        if is_all {
            list.extend(moves().filter(|way| ops.mov.contains(way)).map(Op::Mov));
            if (x, y) == (0, 0) {
                let op = if negated { Op::Neg } else { Op::Mov(0) };
                let has = if negated { ops.neg } else { ops.mov.contains(&0) };
                list.extend(has.then_some(op));
            }
            return list;
        }
        let both = || std::iter::once(0).chain(moves());
        list.extend(both().filter(|way| ops.add.contains(way)).map(Op::Add));
        list.extend(both().filter(|way| ops.sub.contains(way)).map(Op::Sub));
        if own && ops.add3 {
            list.push(Op::Add3);
        }
        list
    }

    /// Moves to the centre, halvings of what an input contains, and zeros.
    fn direct(&mut self, at: usize, sorted: bool) {
        let (ops, shape) = (self.ops, self.goals.get(self.bag[at]));
        let mut list: SmallVec<[Op; 8]> = SmallVec::new();
        if shape.total == 0 {
            list.extend(ops.res.then_some(Op::Res));
        } else {
            let ways = [1, 2].map(|steps| towards(centre(shape), shape.total, steps));
            let ways = ways.into_iter().flatten().filter(|way| ops.mov.contains(way));
            list.extend(ways.map(Op::Mov));
            let doubled = shape.doubled();
            if self.identities.iter().any(|identity| doubled.is_within(identity)) {
                list.extend(ops.halve.iter().copied());
            }
        }
        for op in list {
            let choice = Choice { upper: at as u8, other: at as u8, op, made: Made::Whole };
            self.offer(choice, sorted, shape.total, 0);
        }
    }
}

/// The way of one step, or of two, towards an offset in units of `unit`, the longer axis first;
/// east and west before north and south where both are as long.
fn towards((mut x, mut y): (i64, i64), unit: i64, steps: usize) -> Option<Way> {
    let (mut dx, mut dy) = (0, 0);
    for _ in 0..steps {
        if x.abs().max(y.abs()) * 2 <= unit {
            return None;
        }
        if x.abs() >= y.abs() {
            dx += x.signum() as i32;
            x -= x.signum() * unit;
        } else {
            dy += y.signum() as i32;
            y -= y.signum() * unit;
        }
    }
    // The operand moves there, so that the instruction reads from the opposite side.
    way_to(-dx, -dy)
}

/// From the centre of mass to the centre, times the number of atoms.
fn centre(goal: &Shape) -> (i64, i64) {
    goal.cells.iter().fold((0, 0), |(x, y), &(place, n)| {
        let atoms = i64::from(n.abs());
        (x - atoms * i64::from(x_of(place)), y - atoms * i64::from(y_of(place)))
    })
}

/// All offsets from a cell of one goal to a cell of another one in the same channel.
fn offsets(a: &Shape, b: &Shape) -> Vec<(i32, i32)> {
    let mut list = Vec::with_capacity(a.cells.len() * b.cells.len());
    for &(from, _) in &a.cells {
        let same = b.cells.iter().filter(|&&(to, _)| to >> 20 == from >> 20);
        list.extend(same.map(|&(to, _)| (x_of(to) - x_of(from), y_of(to) - y_of(from))));
    }
    list.sort_unstable();
    list.dedup();
    list
}
