//! How a goal can be split: G = U + L + R with U a transformation of L (equation 16).
//!
//! Facts: `cain-paper` section 5. Ours: L may be another goal that is to be made anyway, or an input,
//! so that what is made once is used often; and in which order splits are tried.

use super::transform::Transform;
use crate::cain::goals::{Cells, Place, Shape, moved, x_of, y_of, z_of};
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeMap;

/// Transformations of which the largest parts are tried, for each goal.
const MAX_TRIED: usize = 32;

/// One way to make a goal: the sum of transformed goals.
#[derive(Clone, Debug)]
pub(super) struct Split {
    /// The goals with what is done to them.
    pub(super) operands: SmallVec<[(Shape, Transform); 3]>,
    /// Instructions for it.
    pub(super) cost: u32,
    /// The cost and a guess of what the goals that are new will cost, in halves.
    rank: u32,
}

/// What a goal may be made of besides its own parts.
pub(super) struct Others<'a> {
    /// Goals that are to be made anyway.
    pub(super) open: &'a [&'a Shape],
    /// The inputs.
    pub(super) inputs: &'a [Shape],
}

impl Others<'_> {
    fn all(&self) -> impl Iterator<Item = &Shape> {
        self.open.iter().copied().chain(self.inputs)
    }

    fn is_known(&self, shape: &Shape) -> bool {
        self.all().any(|other| other.hash == shape.hash)
    }

    /// A guess in halves of instructions of what a goal costs: a move and an addition for every
    /// binary digit of every cell, less where it is made anyway.
    fn guess(&self, shape: &Shape) -> u32 {
        if shape.cells.is_empty() || self.is_known(shape) {
            return 0;
        }
        let digits = |&(_, count): &(Place, i32)| 1 + 2 * count.unsigned_abs().count_ones();
        shape.cells.iter().map(digits).sum()
    }
}

/// The ways to make a goal, the likeliest ones first.
pub(super) fn splits(goal: &Shape, others: &Others<'_>) -> Vec<Split> {
    let mut list = Vec::new();
    for other in others.all().filter(|other| other.hash != goal.hash) {
        if let Some(whole) = Transform::between(other, goal) {
            list.push(Split {
                operands: smallvec![(other.clone(), whole)],
                cost: whole.length(),
                rank: 2 * whole.length(),
            });
        }
        for by in ways_into(other, goal) {
            list.extend(of_other(goal, other, by, others));
        }
    }
    for by in within(goal) {
        list.extend(of_itself(goal, by, others));
    }
    list.sort_by_key(|split| (split.rank, split.cost));
    list
}

/// G = T(H) + R, with another goal H.
fn of_other(goal: &Shape, other: &Shape, by: Transform, others: &Others<'_>) -> Option<Split> {
    let upper = by.of(other).filter(|upper| upper.is_within(goal))?;
    let rest = goal.minus(&upper.cells);
    // A sum has a minus for nothing.
    let cost = by.positive().length() + 1;
    let rank = 2 * cost + others.guess(&rest);
    let is_whole = rest.cells.is_empty();
    let operands = smallvec![(other.clone(), by), (rest, Transform::NONE)];
    (!is_whole).then_some(Split { operands, cost, rank })
}

/// Transformations that move the first cell of one goal to a cell of another.
fn ways_into(other: &Shape, goal: &Shape) -> Vec<Transform> {
    let Some(&(first, count)) = other.cells.first() else { return Vec::new() };
    let mut ways = Vec::new();
    for &(place, most) in &goal.cells {
        if z_of(place) != z_of(first) || other.cells.len() > goal.cells.len() {
            continue;
        }
        let (x, y) = (x_of(place) - x_of(first), y_of(place) - y_of(first));
        let negated = (count < 0) != (most < 0);
        // The least number of halvings with which it has its place there is the best one.
        let fits = (0..=count.unsigned_abs().trailing_zeros())
            .find(|halvings| count.unsigned_abs() >> halvings <= most.unsigned_abs());
        ways.extend(fits.map(|halvings| Transform { x, y, halvings: halvings as i32, negated }));
    }
    ways
}

/// G = T(L) + L + R, with the largest L.
fn of_itself(goal: &Shape, by: Transform, others: &Others<'_>) -> Option<Split> {
    let lower = largest(goal, by);
    let upper = by.of(&lower)?;
    if lower.cells.is_empty() {
        return None;
    }
    let rest = goal.minus(&lower.cells).minus(&upper.cells);
    // Without halvings, U and L may change places: the nearer one comes first.
    let (near, by) = match by.halvings == 0 && upper.way < lower.way {
        true => (upper, by.inverse()),
        false => (lower, by),
    };
    let guess = others.guess(&near) + others.guess(&rest);
    // What is doubled must be copied, unless something is added in between.
    let copies = u32::from(by == Transform::NONE && rest.cells.is_empty());
    let additions = 1 + u32::from(!rest.cells.is_empty());
    let cost = by.positive().length() + copies + additions;
    let mut operands: SmallVec<[(Shape, Transform); 3]> =
        smallvec![(near.clone(), Transform::NONE), (near, by)];
    if !rest.cells.is_empty() {
        operands.push((rest, Transform::NONE));
    }
    Some(Split { operands, cost, rank: 2 * cost + guess })
}

/// The largest part of a goal that is there a second time, transformed. Along the way of a
/// transformation the first cells give what they can: that is the most altogether.
fn largest(goal: &Shape, by: Transform) -> Shape {
    let Transform { x, y, halvings, negated } = by;
    let mut rest: BTreeMap<Place, i32> = goal.cells.iter().copied().collect();
    let mut order: SmallVec<[Place; 32]> = goal.cells.iter().map(|cell| cell.0).collect();
    // Places are ordered by x, then y.
    if (x, y) < (0, 0) {
        order.reverse();
    }
    let mut cells = Cells::new();
    for place in order {
        let (here, there) = (rest[&place], moved(place, x, y));
        let other = rest.get(&there).copied().unwrap_or(0);
        // U has the sign that is there.
        let fits = other != 0 && (other < 0) == ((here < 0) != negated);
        let atoms = match (x, y) {
            (0, 0) => here.unsigned_abs() / ((1 << halvings) + 1),
            _ if fits => (here.unsigned_abs() >> halvings).min(other.unsigned_abs()),
            _ => 0,
        };
        if atoms == 0 {
            continue;
        }
        let (lower, upper) = ((atoms << halvings) as i32 * here.signum(), atoms as i32);
        cells.push((place, lower));
        *rest.entry(place).or_default() -= lower;
        *rest.entry(there).or_default() -= upper * other.signum();
    }
    cells.sort_unstable();
    Shape::new(cells)
}

/// Transformations between cells of a goal, those that take the most with them first.
fn within(goal: &Shape) -> Vec<Transform> {
    let mut gains: BTreeMap<Transform, i64> = BTreeMap::new();
    for &(here, many) in &goal.cells {
        for &(there, few) in goal.cells.iter().filter(|cell| z_of(cell.0) == z_of(here)) {
            let (x, y) = (x_of(there) - x_of(here), y_of(there) - y_of(here));
            let negated = (many < 0) != (few < 0);
            for halvings in 0..=many.unsigned_abs().ilog2() as i32 {
                let by = Transform { x, y, halvings, negated };
                let atoms = match (x, y) {
                    (0, 0) => many.unsigned_abs() / ((1 << halvings) + 1),
                    _ => (many.unsigned_abs() >> halvings).min(few.unsigned_abs()),
                };
                // Without halvings, U and L may change places.
                let is_known = halvings == 0 && (x, y) < (0, 0);
                if atoms > 0 && !is_known {
                    *gains.entry(by).or_default() += i64::from(atoms) << halvings;
                }
            }
        }
    }
    let mut list: Vec<(i64, Transform)> = gains.into_iter().map(|(by, gain)| (gain, by)).collect();
    list.sort_by_key(|&(gain, by)| (i64::from(by.length()) - 2 * gain, by));
    list.into_iter().take(MAX_TRIED).map(|(_, by)| by).collect()
}
