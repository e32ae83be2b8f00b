//! What choices stand for: goals from which an instruction makes a goal.

use super::{Choice, Made};
use crate::cain::goals::{ATOMS, Cells, Goals, Id, Shape, moved};
use crate::cain::op::{Op, Pair, Way, offset};
use crate::cain::parts::Parts;
use smallvec::smallvec;

pub(super) fn build(
    goals: &Goals,
    bag: &[Id],
    choice: Choice,
    table: Option<&Parts>,
) -> Option<Pair> {
    let Choice { upper: at, other, op, made } = choice;
    let upper = goals.get(bag[usize::from(at)]);
    let mut uppers = smallvec![bag[usize::from(at)]];
    let lowers: Vec<Shape> = match (made, table) {
        (Made::Whole, _) => {
            if op == Op::Res2 {
                uppers.push(bag[usize::from(other)]);
            }
            whole(upper, op)?
        }
        (Made::Split(code), Some(table)) => {
            let first = table.cells(code);
            let second = upper.minus(&first);
            operands(Shape::new(first), second, op)?
        }
        (Made::Triple(code, part), Some(table)) => {
            let (first, second) = (table.cells(part), table.cells(code - part));
            let third = upper.minus(&table.cells(code));
            vec![Shape::new(first), Shape::new(second), third]
        }
        (Made::Signed, _) => {
            let first = Shape::new(rounded_up(upper));
            let second = upper.minus(&first.cells);
            operands(first, second, op)?
        }
        (Made::Near { x, y, negated }, _) => {
            let (x, y) = (i32::from(x), i32::from(y));
            let part =
                common(upper, goals.get(bag[usize::from(other)]), (x, y), negated, at == other);
            near(upper, part, (x, y), negated, at == other, op)?
        }
        (Made::Split(_) | Made::Triple(..), None) => return None,
    };
    Some(Pair { op, uppers, lowers })
}

/// Operands of instructions that have one or none.
fn whole(upper: &Shape, op: Op) -> Option<Vec<Shape>> {
    Some(match op {
        Op::Neg => vec![upper.clone().negated()],
        Op::Div | Op::DivFrom | Op::Divq if 2 * upper.total <= ATOMS => vec![upper.doubled()],
        Op::Mov(way) => vec![back(upper.clone(), way)?],
        Op::Res | Op::Res2 => Vec::new(),
        _ => return None,
    })
}

/// A goal before it is moved by a way.
fn back(goal: Shape, way: Way) -> Option<Shape> {
    let (x, y) = offset(way);
    if (x, y) == (0, 0) {
        return Some(goal);
    }
    goal.may_move(-x, -y).then(|| goal.translated(-x, -y))
}

/// Operands of an addition or subtraction whose result is the sum of two goals.
fn operands(first: Shape, second: Shape, op: Op) -> Option<Vec<Shape>> {
    Some(match op {
        Op::Add(way) => vec![back(first, way)?, back(second, way)?],
        Op::Sub(way) => vec![back(first, way)?, second.negated()],
        _ => return None,
    })
}

/// Cells of 7, 14 and 15 atoms with 8, 16 and 16.
fn rounded_up(goal: &Shape) -> Cells {
    let round = |n: i32| match n.abs() {
        7 => 8 * n.signum(),
        14 | 15 => 16 * n.signum(),
        _ => n,
    };
    goal.cells.iter().map(|&(place, n)| (place, round(n))).collect()
}

/// The largest part of `b` that lies in `a` when it is moved back by an offset, and negated.
pub(super) fn common(
    a: &Shape,
    b: &Shape,
    (x, y): (i32, i32),
    negated: bool,
    is_own: bool,
) -> Cells {
    let mut cells = Cells::new();
    if is_own && (x, y) == (0, 0) {
        let halves = a.cells.iter().map(|&(place, n)| (place, n / 2));
        return halves.filter(|cell| cell.1 != 0 && !negated).collect();
    }
    let mut rest = a.cells.iter();
    let mut next = rest.next();
    for &(place, n) in &b.cells {
        let from = moved(place, -x, -y);
        while next.is_some_and(|cell| cell.0 < from) {
            next = rest.next();
        }
        let Some(&(at, m)) = next else { break };
        let m = if negated { -m } else { m };
        if at == from && (m < 0) == (n < 0) {
            cells.push((place, m.abs().min(n.abs()) * n.signum()));
        }
    }
    cells
}

/// Operands that use that a part is a translation of another one.
fn near(
    upper: &Shape,
    part: Cells,
    (x, y): (i32, i32),
    negated: bool,
    is_own: bool,
    op: Op,
) -> Option<Vec<Shape>> {
    let sign = if negated { -1 } else { 1 };
    let home: Cells = part.iter().map(|&(place, n)| (moved(place, -x, -y), sign * n)).collect();
    if op == Op::Add3 {
        let (home, part) = (Shape::new(home), Shape::new(part));
        let shared = common(&part, &home, (0, 0), false, false);
        let own = home.minus(&shared);
        let rest = upper.minus(&part.cells).minus(&own.cells);
        return Some(vec![rest, own, part]);
    }
    let (first, second) = if is_own {
        (upper.minus(&part), Shape::new(part))
    } else {
        let rest = upper.minus(&home);
        (Shape::new(home), rest)
    };
    operands(first, second, op)
}
