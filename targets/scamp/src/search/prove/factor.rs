//! Factors of the linear forms that macros compute, and the turns and reflections of the array.

use super::super::field::Residue;

/// Turns and reflections of the array, the identity first.
pub(super) const TURNS: usize = 8;

/// The place of a cell after a turn.
pub(super) fn turned((x, y): (i32, i32), turn: usize) -> (i32, i32) {
    let (x, y) = if turn & 4 == 0 { (x, y) } else { (y, x) };
    (if turn & 1 == 0 { x } else { -x }, if turn & 2 == 0 { y } else { -y })
}

/// A translation with a sign and halvings: `±2^-halves X^x Y^y`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Factor {
    pub(super) negative: bool,
    pub(super) halves: i32,
    pub(super) x: i32,
    pub(super) y: i32,
}

/// Farthest translation of a macro along an axis.
const FAR: i32 = 4;

/// Most halvings of a macro.
const DEEP: i32 = 3;

impl Factor {
    /// 1.
    pub(super) const ONE: Factor = Factor { negative: false, halves: 0, x: 0, y: 0 };

    /// The factor that a residue is; `None` for one that no macro has.
    pub(super) fn of(residue: Residue) -> Option<Factor> {
        let near = -FAR..=FAR;
        let places = near.clone().flat_map(|x| near.clone().map(move |y| (x, y)));
        let mut all = places.flat_map(|(x, y)| {
            (0..=DEEP).flat_map(move |halves| {
                [false, true].map(|negative| Factor { negative, halves, x, y })
            })
        });
        all.find(|factor| factor.residue(0) == residue)
    }

    /// What it is when the array is turned.
    pub(super) fn residue(self, turn: usize) -> Residue {
        let (x, y) = turned((self.x, self.y), turn);
        let scale = Residue::of(1_i64 << self.halves.unsigned_abs());
        let scale = if self.halves > 0 { scale.inverse() } else { scale };
        let moved = Residue::translation(x.into(), y.into()).times(scale);
        if self.negative { moved.negated() } else { moved }
    }

    /// The factor of the turned array.
    pub(super) fn turned(self, turn: usize) -> Factor {
        let (x, y) = turned((self.x, self.y), turn);
        Factor { x, y, ..self }
    }

    pub(super) fn inverse(self) -> Factor {
        Factor { negative: self.negative, halves: -self.halves, x: -self.x, y: -self.y }
    }

    pub(super) fn times(self, other: Factor) -> Factor {
        Factor {
            negative: self.negative != other.negative,
            halves: self.halves + other.halves,
            x: self.x + other.x,
            y: self.y + other.y,
        }
    }

    pub(super) fn negated(self) -> Factor {
        Factor { negative: !self.negative, ..self }
    }
}
