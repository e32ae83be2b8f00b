//! The registers of all elements.

use super::number::Number;
use crate::isa::Direction;

/// Every register of every element, row 0 northmost, column 0 westmost.
#[derive(Clone, Debug)]
pub struct Planes<T> {
    /// Elements from west to east.
    pub width: usize,
    /// Elements from north to south.
    pub height: usize,
    /// Analogue registers, one plane each; the first is NEWS.
    pub analogue: Vec<Vec<T>>,
    /// 1-bit registers, one plane each; the first is FLAG.
    pub digital: Vec<Vec<bool>>,
    /// What border elements keep for neighbours that are missing, by direction.
    pub(super) beyond: [Vec<T>; 4],
}

impl<T: Number> Planes<T> {
    /// All 0, and FLAG 1.
    pub(super) fn new(width: usize, height: usize, analogue: usize, digital: usize) -> Self {
        let size = width * height;
        let mut bits = vec![vec![false; size]; digital];
        bits[0] = vec![true; size];
        Planes {
            width,
            height,
            analogue: vec![vec![T::zero(); size]; analogue],
            digital: bits,
            beyond: Direction::ALL.map(|_| vec![T::zero(); width.max(height)]),
        }
    }

    /// Index of the neighbour of an element.
    pub(super) fn neighbour(&self, element: usize, direction: Direction) -> Option<usize> {
        neighbour((self.width, self.height), element, direction)
    }

    /// Position of a border element along its side.
    pub(super) fn along(&self, element: usize, direction: Direction) -> usize {
        match direction {
            Direction::North | Direction::South => element % self.width,
            Direction::East | Direction::West => element / self.width,
        }
    }
}

/// Index of the neighbour of an element, in an array of so many columns and rows.
pub(super) fn neighbour(
    (width, height): (usize, usize),
    element: usize,
    direction: Direction,
) -> Option<usize> {
    let (row, column) = (element / width, element % width);
    match direction {
        Direction::North => (row > 0).then(|| element - width),
        Direction::South => (row + 1 < height).then(|| element + width),
        Direction::West => (column > 0).then(|| element - 1),
        Direction::East => (column + 1 < width).then(|| element + 1),
    }
}
