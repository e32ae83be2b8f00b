//! Goals and bags of Cain's paper: kernels in units of 2^-d, and how they are written.
//!
//! Facts: `cain-paper` section 3.1, `cain` (`docs/bibliography.md`).

#![deny(clippy::arithmetic_side_effects)]

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Where an atom lies: offset to the east, offset to the north, input channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    /// Offset to the east.
    pub x: i32,
    /// Offset to the north.
    pub y: i32,
    /// Input channel.
    pub z: u32,
}

/// A multiset of atoms: how many units of 2^-d each cell has, none of them 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Goal(BTreeMap<Cell, i64>);

impl Goal {
    /// The goal of a matrix of counts in channel 0, the first row northmost, as kernels of Cain are
    /// written.
    pub fn from_rows(rows: &[Vec<i64>]) -> Goal {
        let width = rows.iter().map(Vec::len).max().unwrap_or(0);
        let mut goal = Goal::default();
        for (i, row) in rows.iter().enumerate() {
            for (j, &count) in row.iter().enumerate() {
                let (x, y) = position(i, j, rows.len(), width);
                goal.set(Cell { x, y, z: 0 }, count);
            }
        }
        goal
    }

    /// The identity of a channel in units of 2^-d: `2^d` atoms in the centre.
    pub fn identity(channel: u32, depth: u32) -> Goal {
        let mut goal = Goal::default();
        goal.set(Cell { x: 0, y: 0, z: channel }, 1 << depth.min(62));
        goal
    }

    /// Sets the count of a cell.
    pub fn set(&mut self, cell: Cell, count: i64) {
        match count {
            0 => drop(self.0.remove(&cell)),
            _ => drop(self.0.insert(cell, count)),
        }
    }

    /// The cells and their counts, in the order of x, y, z.
    pub fn cells(&self) -> impl Iterator<Item = (Cell, i64)> + '_ {
        self.0.iter().map(|(&cell, &count)| (cell, count))
    }

    /// True when no cell is further from the centre than [`MAX_OFFSET`].
    pub fn is_near(&self) -> bool {
        let is_near = |offset: i32| offset.unsigned_abs() <= MAX_OFFSET;
        self.0.keys().all(|cell| is_near(cell.x) && is_near(cell.y))
    }

    /// Number of atoms.
    pub fn total(&self) -> u64 {
        self.0.values().fold(0, |sum, count| sum.saturating_add(count.unsigned_abs()))
    }

    /// The goal moved by (x, y).
    #[must_use]
    pub fn translated(&self, x: i32, y: i32) -> Goal {
        let moved = |Cell { x: east, y: north, z }| Cell {
            x: x.saturating_add(east),
            y: y.saturating_add(north),
            z,
        };
        Goal(self.cells().map(|(cell, count)| (moved(cell), count)).collect())
    }

    /// The sum; atoms of opposite sign cancel.
    #[must_use]
    pub fn plus(&self, other: &Goal) -> Goal {
        let mut sum = self.clone();
        for (cell, count) in other.cells() {
            let old = sum.0.get(&cell).copied().unwrap_or(0);
            sum.set(cell, old.saturating_add(count));
        }
        sum
    }

    /// The atoms as the paper writes them, `(x, y, z, sign)`, from the northmost row to the south
    /// and from west to east; `None` for more than `limit`.
    pub fn atoms(&self, limit: u64) -> Option<String> {
        if self.total() > limit {
            return None;
        }
        let mut cells: Vec<(Cell, i64)> = self.cells().collect();
        cells.sort_by_key(|&(Cell { x, y, z }, _)| (Reverse(y), x, z));
        let mut atoms = Vec::new();
        for (Cell { x, y, z }, count) in cells {
            let sign = if count < 0 { '-' } else { '+' };
            for _ in 0..count.unsigned_abs() {
                atoms.push(format!("({x}, {y}, {z}, {sign})"));
            }
        }
        Some(format!("{{{}}}", atoms.join(", ")))
    }

    /// The compact form of the paper in one line, `<0 1; 2 3>` with the northmost row first. The
    /// matrix is the smallest one centred on (0, 0).
    pub fn compact(&self) -> String {
        compact(self, Frame::of([self]))
    }
}

/// Offset of entry (i, j) of a matrix with so many rows and columns.
pub fn position(i: usize, j: usize, height: usize, width: usize) -> (i32, i32) {
    let from = |a: usize, b: usize| (a as i32).saturating_sub(b as i32);
    (from(j, width / 2), from(height / 2, i))
}

/// Most elements from the centre of a kernel to one of its cells, along an axis.
pub const MAX_OFFSET: u32 = 1 << 15;

/// How far a matrix reaches from its centre, and how many channels it has.
#[derive(Clone, Copy)]
struct Frame {
    x: i32,
    y: i32,
    channels: u32,
}

/// Largest matrix that is written in full, in entries.
const MAX_ENTRIES: i64 = 1 << 16;

impl Frame {
    fn of<'a>(goals: impl IntoIterator<Item = &'a Goal>) -> Frame {
        let mut frame = Frame { x: 0, y: 0, channels: 1 };
        for (cell, _) in goals.into_iter().flat_map(Goal::cells) {
            frame.x = frame.x.max(cell.x.saturating_abs());
            frame.y = frame.y.max(cell.y.saturating_abs());
            frame.channels = frame.channels.max(cell.z.saturating_add(1));
        }
        frame
    }

    fn entries(self) -> i64 {
        let side = |reach: i32| i64::from(reach).saturating_mul(2).saturating_add(1);
        side(self.x).saturating_mul(side(self.y)).saturating_mul(i64::from(self.channels))
    }
}

fn compact(goal: &Goal, frame: Frame) -> String {
    if frame.entries() > MAX_ENTRIES {
        return format!("<{} cells>", goal.0.len());
    }
    let mut out = String::from("<");
    let (west, south) = (frame.x.saturating_neg(), frame.y.saturating_neg());
    for y in (south..=frame.y).rev() {
        out.push_str(if y == frame.y { "" } else { "; " });
        for x in west..=frame.x {
            out.push_str(if x == west { "" } else { " " });
            let count = |z| goal.0.get(&Cell { x, y, z }).copied().unwrap_or(0).to_string();
            let counts: Vec<String> = (0..frame.channels).map(count).collect();
            // Writing to a string cannot fail.
            let _ = match &counts[..] {
                [only] => write!(out, "{only}"),
                _ => write!(out, "({})", counts.join(",")),
            };
        }
    }
    out.push('>');
    out
}

/// A multiset of goals: what the registers of an element hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bag(pub Vec<Goal>);

impl Bag {
    /// The compact form of the paper: all goals in matrices of one size.
    pub fn compact(&self) -> String {
        format!("{{{}}}", self.compact_goals().join(", "))
    }

    /// The goals of that form, one by one.
    pub fn compact_goals(&self) -> Vec<String> {
        let frame = Frame::of(&self.0);
        self.0.iter().map(|goal| compact(goal, frame)).collect()
    }

    /// The bag before an instruction that makes `uppers` of `lowers`: without the uppers, with the
    /// lowers (equation 7). `None` if an upper is not in the bag.
    pub fn before(&self, uppers: &Bag, lowers: &Bag) -> Option<Bag> {
        let mut goals = self.0.clone();
        for upper in &uppers.0 {
            goals.remove(goals.iter().position(|goal| goal == upper)?);
        }
        goals.extend(lowers.0.iter().cloned());
        Some(Bag(goals))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal(rows: [[i64; 3]; 3]) -> Goal {
        Goal::from_rows(&rows.map(|row| row.to_vec()))
    }

    fn analognet2() -> Bag {
        Bag(vec![
            goal([[0, 0, 0], [-3, 1, 0], [-3, 0, 2]]),
            goal([[-4, -1, -1], [-1, 2, 0], [1, 1, 0]]),
            goal([[-1, 2, 0], [-1, 1, -3], [0, -3, 0]]),
        ])
    }

    /// The first kernel of the paper's example as atoms.
    #[test]
    fn definition_2() {
        let expected = "{(-1, 0, 0, -), (-1, 0, 0, -), (-1, 0, 0, -), (0, 0, 0, +), (-1, -1, 0, -), \
            (-1, -1, 0, -), (-1, -1, 0, -), (1, -1, 0, +), (1, -1, 0, +)}";
        assert_eq!(analognet2().0[0].atoms(100).unwrap(), expected);
        assert_eq!(analognet2().0[0].atoms(8), None);
    }

    #[test]
    fn equation_2() {
        assert_eq!(analognet2().0[0].compact(), "<0 0 0; -3 1 0; -3 0 2>");
    }

    #[test]
    fn equation_3() {
        let expected =
            "{<0 0 0; -3 1 0; -3 0 2>, <-4 -1 -1; -1 2 0; 1 1 0>, <-1 2 0; -1 1 -3; 0 -3 0>}";
        assert_eq!(analognet2().compact(), expected);
    }

    /// The identity at d = 2, in the frame of the final goals.
    #[test]
    fn equation_4() {
        let identity = Goal::identity(0, 2);
        assert_eq!(identity, goal([[0, 0, 0], [0, 4, 0], [0, 0, 0]]));
        let frame = Frame::of(&analognet2().0);
        assert_eq!(compact(&identity, frame), "<0 0 0; 0 4 0; 0 0 0>");
    }

    /// A bag is a multiset: a goal may be in it twice, and is taken out once.
    #[test]
    fn equation_5() {
        let Bag(goals) = analognet2();
        let (first, second, third) = (goals[0].clone(), goals[1].clone(), goals[2].clone());
        let bag = Bag(vec![first.clone(), second.clone(), second.clone(), third.clone()]);
        let taken = bag.before(&Bag(vec![second.clone()]), &Bag::default());
        assert_eq!(taken, Some(Bag(vec![first, second, third])));
    }

    /// The pair of bags of equation 8: three goals of which `add` makes the third final goal.
    fn pair() -> (Bag, Bag) {
        let uppers = Bag(vec![analognet2().0[2].clone()]);
        let lowers = Bag(vec![
            goal([[-1, 2, 0], [-1, 1, 0], [0, 0, 0]]),
            goal([[0, 0, 0], [0, 0, -3], [0, 0, 0]]),
            goal([[0, 0, 0], [0, 0, 0], [0, -3, 0]]),
        ]);
        (uppers, lowers)
    }

    /// U is part of F, and the instruction makes U of L; a goal that is not there cannot be an
    /// upper.
    #[test]
    fn equations_6_and_9() {
        let (uppers, lowers) = pair();
        let [a, b, c] = &lowers.0[..] else { panic!("three lowers") };
        assert_eq!(a.plus(b).plus(c), uppers.0[0]);
        assert_eq!(analognet2().before(&Bag(vec![a.clone()]), &Bag::default()), None);
    }

    #[test]
    fn equation_8() {
        let (uppers, lowers) = pair();
        assert_eq!(uppers.compact(), "{<-1 2 0; -1 1 -3; 0 -3 0>}");
        let expected = "{<-1 2 0; -1 1 0; 0 0 0>, <0 0 0; 0 0 -3; 0 0 0>, <0 0 0; 0 0 0; 0 -3 0>}";
        assert_eq!(lowers.compact(), expected);
    }

    /// The child of the final goals; its fourth goal is the fifth one moved.
    #[test]
    fn equations_7_and_10() {
        let (uppers, lowers) = pair();
        let child = analognet2().before(&uppers, &lowers).unwrap();
        let expected = "{<0 0 0; -3 1 0; -3 0 2>, <-4 -1 -1; -1 2 0; 1 1 0>, \
            <-1 2 0; -1 1 0; 0 0 0>, <0 0 0; 0 0 -3; 0 0 0>, <0 0 0; 0 0 0; 0 -3 0>}";
        assert_eq!(child.compact(), expected);
        assert_eq!(child.0[3], child.0[4].translated(1, 1));
    }

    #[test]
    fn channels_and_even_sizes() {
        let mut two = Goal::default();
        two.set(Cell { x: 1, y: 0, z: 1 }, -2);
        two.set(Cell { x: 0, y: 0, z: 0 }, 3);
        assert_eq!(two.compact(), "<(0,0) (3,0) (0,-2)>");
        // An even matrix has its centre right of and below the middle.
        assert_eq!(Goal::from_rows(&[vec![1, 2], vec![3, 4]]).compact(), "<1 2 0; 3 4 0; 0 0 0>");
    }
}
