//! Elementary transformations: what makes one goal of another without adding.
//!
//! They commute, so that a chain of them is four numbers.

use crate::cain::goals::{Cells, Shape, moved, x_of, y_of};

/// Moves, halvings and a sign, in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Transform {
    /// Elements to the east.
    pub(super) x: i32,
    /// Elements to the north.
    pub(super) y: i32,
    /// Halvings; below 0 for doublings, of which there are no instructions.
    pub(super) halvings: i32,
    /// Minus.
    pub(super) negated: bool,
}

impl Transform {
    /// What changes nothing.
    pub(super) const NONE: Transform = Transform { x: 0, y: 0, halvings: 0, negated: false };

    /// A move.
    pub(super) fn by(x: i32, y: i32) -> Transform {
        Transform { x, y, ..Transform::NONE }
    }

    /// Both, one after the other.
    #[must_use]
    pub(super) fn then(self, other: Transform) -> Transform {
        Transform {
            x: self.x + other.x,
            y: self.y + other.y,
            halvings: self.halvings + other.halvings,
            negated: self.negated != other.negated,
        }
    }

    /// What undoes it.
    #[must_use]
    pub(super) fn inverse(self) -> Transform {
        let Transform { x, y, halvings, negated } = self;
        Transform { x: -x, y: -y, halvings: -halvings, negated }
    }

    /// The same without the sign.
    #[must_use]
    pub(super) fn positive(self) -> Transform {
        Transform { negated: false, ..self }
    }

    /// Number of instructions, where there are any for it.
    pub(super) fn length(self) -> u32 {
        self.x.unsigned_abs()
            + self.y.unsigned_abs()
            + self.halvings.unsigned_abs()
            + u32::from(self.negated)
    }

    /// What makes one goal of another; `None` where nothing does.
    pub(super) fn between(from: &Shape, to: &Shape) -> Option<Transform> {
        let (&(here, many), &(there, few)) = (from.cells.first()?, to.cells.first()?);
        if from.cells.len() != to.cells.len() {
            return None;
        }
        let (x, y) = (x_of(there) - x_of(here), y_of(there) - y_of(here));
        let ratio = many.checked_div(few).filter(|ratio| ratio * few == many)?;
        let halvings = ratio.unsigned_abs();
        let found = Transform {
            x,
            y,
            halvings: halvings.is_power_of_two().then(|| halvings.trailing_zeros() as i32)?,
            negated: ratio < 0,
        };
        let is_moved = |(&(here, many), &(there, few)): (&(u32, i32), &(u32, i32))| {
            moved(here, x, y) == there && few.checked_mul(ratio) == Some(many)
        };
        from.cells.iter().zip(&to.cells).all(is_moved).then_some(found)
    }

    /// The goal that it makes of another; `None` where that cannot be halved so often, or would be
    /// too far away.
    pub(super) fn of(self, shape: &Shape) -> Option<Shape> {
        let Transform { x, y, halvings, negated } = self;
        if !shape.may_move(x, y) {
            return None;
        }
        let unit = 1_i32.checked_shl(u32::try_from(halvings).ok()?).filter(|unit| *unit > 0)?;
        let mut cells = Cells::new();
        for &(place, count) in &shape.cells {
            let part = (count % unit == 0).then_some(count / unit)?;
            cells.push((moved(place, x, y), if negated { -part } else { part }));
        }
        Some(Shape::new(cells))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goal::Goal;

    fn shape(rows: &[&[i64]]) -> Shape {
        let rows: Vec<Vec<i64>> = rows.iter().map(|row| row.to_vec()).collect();
        Shape::of_goal(&Goal::from_rows(&rows)).unwrap()
    }

    #[test]
    fn what_is_between_two_goals_makes_one_of_the_other() {
        let (from, to) = (shape(&[&[4, 0, 8]]), shape(&[&[0, -1, 0], &[0, 0, 0]]));
        assert_eq!(Transform::between(&from, &to), None);
        let to = Transform { x: 3, y: -2, halvings: 2, negated: true };
        let there = to.of(&from).unwrap();
        assert_eq!(Transform::between(&from, &there), Some(to));
        // Doubling is found, but done by nothing.
        let back = Transform::between(&there, &from);
        assert_eq!((back, to.inverse().of(&there).is_none()), (None, true));
        assert_eq!(to.then(to.inverse()), Transform::NONE);
        assert_eq!(to.length(), 8);
        // An odd number of units has no half.
        assert!(Transform { halvings: 3, ..Transform::NONE }.of(&from).is_none());
    }
}
