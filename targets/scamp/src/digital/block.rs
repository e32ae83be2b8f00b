//! Super-pixels: where the bits of a number are in a block of elements, and the patterns that name
//! these elements.
//!
//! A pattern sets a register in the elements whose row, from the north, and column, from the east,
//! have certain low bits (`scamp5d`, `docs/bibliography.md`). Elements that are of no account make
//! patterns larger, so that fewer are needed.

use super::layout::wrong;
use crate::isa::{Direction, Inst, Reg};
use quincunx_diag::Result;

/// An element of a block: row from the north, column from the west.
type Element = (usize, usize);

/// Row, column, and the bits of each that do not matter, as instructions have them.
type Pattern = [u8; 4];

/// A block, and the path of the bits of a number in it.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// Elements from west to east.
    pub(crate) width: usize,
    /// Elements from north to south.
    pub(crate) height: usize,
    /// Elements of the bits, the least significant first.
    pub(crate) path: Vec<Element>,
    /// Elements that look in a direction to see the bit below theirs.
    below: [Vec<Pattern>; 4],
    /// Elements that look in a direction to see the bit above theirs.
    above: [Vec<Pattern>; 4],
    /// The element of the highest bit.
    sign: Vec<Pattern>,
}

/// The direction in which an element sees its neighbour; `None` if they are not neighbours.
pub(super) fn toward(from: Element, to: Element) -> Option<Direction> {
    let offset = |to: usize, from: usize| to as i32 - from as i32;
    let step = (offset(to.1, from.1), -offset(to.0, from.0));
    Direction::ALL.into_iter().find(|direction| direction.step() == step)
}

impl Block {
    /// A block with numbers along a path.
    ///
    /// # Errors
    /// `Q5120` for a path whose elements are not neighbours.
    pub(crate) fn new((width, height): (usize, usize), path: Vec<Element>) -> Result<Block> {
        let mut block = Block {
            width,
            height,
            path,
            below: Default::default(),
            above: Default::default(),
            sign: Vec::new(),
        };
        let path = block.path.clone();
        if let Some(at) = path.windows(2).position(|pair| toward(pair[0], pair[1]).is_none()) {
            let message = format!("bits {} and {} are not in neighbours", at + 1, at + 2);
            return Err(
                wrong(message).help("bits of a number are carried from neighbour to neighbour")
            );
        }
        let reversed: Vec<Element> = path.iter().rev().copied().collect();
        for direction in Direction::ALL {
            block.below[direction as usize] = block.lookers(&path, direction);
            block.above[direction as usize] = block.lookers(&reversed, direction);
        }
        block.sign = block.patterns(|at| path.last() == Some(&at), |at| !path.contains(&at));
        Ok(block)
    }

    /// The elements of a path that look in a direction to see the one before them.
    fn lookers(&self, path: &[Element], direction: Direction) -> Vec<Pattern> {
        let looks = |at: Element| {
            let before = path.iter().position(|&other| other == at).and_then(|i| i.checked_sub(1));
            before.is_some_and(|before| toward(at, path[before]) == Some(direction))
        };
        // Nobody looks out of the block.
        let stays = |(row, column): Element| match direction {
            Direction::North => row > 0,
            Direction::South => row + 1 < self.height,
            Direction::East => column + 1 < self.width,
            Direction::West => column > 0,
        };
        self.patterns(looks, |at| !path.contains(&at) && stays(at))
    }

    /// Patterns for the elements of a bank, whatever they say of elements that are of no account.
    pub(crate) fn bank(&self, bank: &[Element], other: &[Element]) -> Vec<Pattern> {
        self.patterns(|at| bank.contains(&at), |at| !other.contains(&at))
    }

    /// Few patterns that together hold all elements of one kind, and else only free ones.
    fn patterns(
        &self,
        is_wanted: impl Fn(Element) -> bool,
        is_free: impl Fn(Element) -> bool,
    ) -> Vec<Pattern> {
        let all = (0..self.height).flat_map(|row| (0..self.width).map(move |column| (row, column)));
        let all: Vec<Element> = all.collect();
        let mut missing: Vec<Element> = all.iter().copied().filter(|&at| is_wanted(at)).collect();
        let mut candidates = Vec::new();
        for rows in ranges(self.height) {
            for columns in ranges(self.width) {
                let mut held = all.iter().filter(|&&at| self.holds([rows, columns], at));
                if held.all(|&at| is_wanted(at) || is_free(at)) {
                    candidates.push([rows, columns]);
                }
            }
        }
        let mut list = Vec::new();
        while !missing.is_empty() {
            let count = |ranges: &&[Range; 2]| {
                missing.iter().filter(|&&at| self.holds(**ranges, at)).count()
            };
            // Of equal ones the first.
            let Some(&best) = candidates.iter().rev().max_by_key(count) else { break };
            missing.retain(|&at| !self.holds(best, at));
            list.push(self.bytes(best));
        }
        list
    }

    fn holds(&self, [rows, columns]: [Range; 2], (row, column): Element) -> bool {
        rows.holds(row) && columns.holds(self.width - 1 - column)
    }

    fn bytes(&self, [rows, columns]: [Range; 2]) -> Pattern {
        // The position of a block in the array does not matter.
        let any = |range: Range, size: usize| !(size - 1) as u8 | range.any as u8;
        [rows.value as u8, columns.value as u8, any(rows, self.height), any(columns, self.width)]
    }

    /// Lets elements see the bit below theirs, or above; a direction's register is cleared where
    /// nobody looks there.
    pub(super) fn look(&self, up: bool, directions: [Reg; 4], select: Reg) -> Vec<Inst> {
        let patterns = if up { &self.above } else { &self.below };
        let mut list = Vec::new();
        let mut idle = Vec::new();
        for (register, patterns) in directions.into_iter().zip(patterns) {
            match patterns.is_empty() {
                true => idle.push(register),
                false => list.extend(load(register, patterns, select)),
            }
        }
        if !idle.is_empty() {
            list.push(super::place::clear(&idle));
        }
        list
    }

    /// Sets a register in the element of the highest bit, and perhaps in elements that hold no bit.
    pub(super) fn sign(&self, register: Reg, select: Reg) -> Vec<Inst> {
        load(register, &self.sign, select)
    }
}

/// Sets a register where any of some patterns is; `select` serves for all but the first.
pub(super) fn load(d: Reg, patterns: &[Pattern], select: Reg) -> Vec<Inst> {
    let mut list = Vec::new();
    for (index, &[r, c, rx, cx]) in patterns.iter().enumerate() {
        if index == 0 {
            list.push(Inst::LoadPattern { d, r, c, rx, cx });
        } else {
            list.push(Inst::SelectPattern { r, c, rx, cx });
            list.push(Inst::Or { d, a: d, b: select, c: Reg::NONE, e: Reg::NONE });
        }
    }
    list
}

/// Numbers that agree with a value in all bits but some.
#[derive(Clone, Copy, Debug)]
struct Range {
    value: usize,
    any: usize,
}

impl Range {
    fn holds(self, number: usize) -> bool {
        number & !self.any == self.value
    }
}

/// All ranges of numbers below a power of two, the largest first.
fn ranges(size: usize) -> Vec<Range> {
    let mut list = Vec::new();
    for any in (0..size).rev() {
        list.extend((0..size).filter(|value| value & any == 0).map(|value| Range { value, any }));
    }
    list
}
