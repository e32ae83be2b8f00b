//! How far bits reach over the array, and where its edge spoils them.
//!
//! Away from the images a register holds what instructions make of nothing: a background that is
//! the same in every block. An element is spoilt where the array gives another bit than one without
//! an edge would. Bounds are kept for each side, so that an element may count as spoilt that is not.

use crate::arch::ScampArch;
use crate::isa::{Class, Direction, Gate, Inst, Reg};
use crate::program::Program;
use std::collections::BTreeMap;

/// Nowhere.
const NOWHERE: i64 = -(1 << 40);

/// What a register holds.
#[derive(Clone, Debug, PartialEq)]
struct Held {
    /// Bits of a block away from the images, row by row.
    background: Vec<bool>,
    /// How many elements it differs from that beyond the images; [`NOWHERE`] if it does not.
    beyond: [i64; 4],
    /// How many elements are spoilt along each edge.
    spoilt: [i64; 4],
}

impl Held {
    fn constant(background: Vec<bool>) -> Held {
        Held { background, beyond: [NOWHERE; 4], spoilt: [0; 4] }
    }

    fn is_constant(&self) -> bool {
        self.beyond == [NOWHERE; 4] && self.spoilt == [0; 4]
    }

    /// The sides of both, with a background of one's own.
    fn join(&self, other: &Held, background: Vec<bool>) -> Held {
        let most = |a: [i64; 4], b: [i64; 4]| std::array::from_fn(|side| a[side].max(b[side]));
        let (beyond, spoilt) = (most(self.beyond, other.beyond), most(self.spoilt, other.spoilt));
        Held { background, beyond, spoilt }
    }
}

/// A walk through a program.
pub(crate) struct Walk<'a> {
    arch: &'a ScampArch,
    /// Width and height of a block.
    block: (usize, usize),
    /// Elements between images and the edges.
    margin: [i64; 4],
    registers: BTreeMap<Reg, Held>,
}

impl<'a> Walk<'a> {
    /// A walk that starts with images in some registers. Others hold 0 in the beginning.
    pub(crate) fn new(
        arch: &'a ScampArch,
        block: (usize, usize),
        margin: [i64; 4],
        inputs: impl Iterator<Item = Reg>,
    ) -> Walk<'a> {
        let image =
            Held { background: vec![false; block.0 * block.1], beyond: [0; 4], spoilt: [0; 4] };
        let registers = inputs.map(|register| (register, image.clone())).collect();
        Walk { arch, block, margin, registers }
    }

    /// Elements that are spoilt along each edge in some registers after a program; `None` where it
    /// has instructions whose reach is not known.
    pub(crate) fn spoilt(
        mut self,
        program: &Program,
        results: impl Iterator<Item = Reg>,
    ) -> Option<[i64; 4]> {
        program.instructions.iter().try_for_each(|inst| self.step(inst))?;
        let held = results.map(|register| self.held(register));
        let nothing = Held::constant(Vec::new());
        Some(held.fold(nothing, |all, held| all.join(&held, Vec::new())).spoilt)
    }

    fn blank(&self, bit: bool) -> Held {
        Held::constant(vec![bit; self.block.0 * self.block.1])
    }

    fn held(&self, register: Reg) -> Held {
        let own = self.arch.digital(register).unwrap_or(register);
        self.registers.get(&own).cloned().unwrap_or_else(|| self.blank(false))
    }

    fn step(&mut self, inst: &Inst) -> Option<()> {
        let logic = inst.logic();
        match inst.class() {
            Class::Frame => Some(()),
            Class::Pattern => {
                let held = self.pattern(&inst.operands_of::<u8>())?;
                let select = self.arch.roles.select;
                let target = logic?.writes.first().copied().unwrap_or(select);
                self.write(target, &held);
                Some(())
            }
            Class::Digital(Gate::Refresh) => Some(()),
            Class::Digital(gate) => {
                let logic = logic?;
                let reads: Vec<Held> = logic.reads.iter().map(|&r| self.held(r)).collect();
                let held = self.gate(gate, &reads)?;
                logic.writes.iter().for_each(|&target| self.write(target, &held));
                Some(())
            }
            Class::Emulator | Class::Bus | Class::Condition => None,
            Class::All | Class::Macro | Class::Sensor | Class::Load | Class::LoadMacro => None,
        }
    }

    fn write(&mut self, register: Reg, held: &Held) {
        let own = self.arch.digital(register).unwrap_or(register);
        if own != self.arch.roles.masked {
            self.registers.insert(own, held.clone());
            return;
        }
        let (mask, old) = (self.held(self.arch.roles.mask), self.held(own));
        if mask.is_constant() && mask.background.iter().all(|&bit| bit) {
            self.registers.insert(own, held.clone());
            return;
        }
        let choose = |at: usize| match mask.background[at] {
            true => held.background[at],
            false => old.background[at],
        };
        let background: Vec<bool> = (0..held.background.len()).map(choose).collect();
        let mixed = mask.join(&old, Vec::new()).join(held, background);
        self.registers.insert(own, mixed);
    }

    fn gate(&self, gate: Gate, reads: &[Held]) -> Option<Held> {
        let bits = |at: usize| reads.iter().map(move |held| held.background[at]);
        let count = self.block.0 * self.block.1;
        let background: Vec<bool> = match gate {
            Gate::Constant(bit) => return Some(self.blank(bit)),
            Gate::Neighbours { beyond } => return self.neighbours(reads.first()?, beyond),
            Gate::Where | Gate::All | Gate::Refresh => return None,
            Gate::Or | Gate::Copy => (0..count).map(|at| bits(at).any(|bit| bit)).collect(),
            Gate::Nor | Gate::Not => (0..count).map(|at| !bits(at).any(|bit| bit)).collect(),
            Gate::And => (0..count).map(|at| bits(at).all(|bit| bit)).collect(),
            Gate::Nand => (0..count).map(|at| !bits(at).all(|bit| bit)).collect(),
            Gate::Xor => (0..count).map(|at| bits(at).fold(false, |a, b| a ^ b)).collect(),
            Gate::Imply => {
                (0..count).map(|at| !reads[0].background[at] | reads[1].background[at]).collect()
            }
            Gate::Mux => (0..count)
                .map(|at| reads[if reads[0].background[at] { 1 } else { 2 }].background[at])
                .collect(),
        };
        let joined = reads.iter().fold(self.blank(false), |all, held| all.join(held, Vec::new()));
        Some(Held { background, ..joined })
    }

    /// What elements see of their neighbours.
    fn neighbours(&self, from: &Held, outside: bool) -> Option<Held> {
        let looks = self.arch.roles.directions.map(|register| self.held(register));
        if !looks.iter().all(Held::is_constant) {
            return None;
        }
        let uniform = |held: &Held| held.background.iter().all(|&bit| bit == held.background[0]);
        if looks.iter().all(uniform) {
            let set = Direction::ALL.into_iter().filter(|d| looks[*d as usize].background[0]);
            let nothing = self.blank(false);
            return Some(set.fold(nothing, |all, direction| {
                let seen = self.shifted(from, direction, outside);
                let pairs = all.background.iter().zip(&seen.background);
                let background = pairs.map(|(&a, &b)| a | b).collect();
                all.join(&seen, background)
            }));
        }
        self.within_blocks(from, &looks)
    }

    /// All elements look in one direction.
    fn shifted(&self, from: &Held, direction: Direction, outside: bool) -> Held {
        let (side, back) = (direction as usize, direction.opposite() as usize);
        let count = from.background.len();
        let seen = |at: usize| from.background[self.neighbour(at, direction).0];
        let background: Vec<bool> = (0..count).map(seen).collect();
        // What an element at the edge of the array sees, which is at the edge of a block.
        let edge = (0..count).filter(|&at| self.neighbour(at, direction).1);
        let differs = edge.map(|at| background[at]).any(|bit| bit != outside);
        let (mut beyond, mut spoilt) = (from.beyond, from.spoilt);
        if !from.is_constant() {
            beyond[side] = (from.beyond[side] - 1).max(NOWHERE);
            beyond[back] = (from.beyond[back] + 1).max(NOWHERE);
        }
        let leaves = differs || from.beyond[side] > self.margin[side];
        spoilt[side] = if leaves || from.spoilt[side] > 0 { from.spoilt[side] + 1 } else { 0 };
        spoilt[back] = (from.spoilt[back] - 1).max(0);
        if from.is_constant() {
            beyond = [NOWHERE; 4];
        }
        Held { background, beyond, spoilt }
    }

    /// Every element of a block looks in directions of its own, none of them out of the block.
    fn within_blocks(&self, from: &Held, looks: &[Held; 4]) -> Option<Held> {
        let mut background = vec![false; from.background.len()];
        for direction in Direction::ALL {
            for (at, bit) in background.iter_mut().enumerate() {
                if looks[direction as usize].background[at] {
                    let (neighbour, leaves) = self.neighbour(at, direction);
                    if leaves {
                        return None;
                    }
                    *bit |= from.background[neighbour];
                }
            }
        }
        // What is in a part of a block may come to all of it.
        let whole = |count: i64, side: usize| {
            let size = if side.is_multiple_of(2) { self.block.1 } else { self.block.0 } as i64;
            if count <= NOWHERE / 2 { NOWHERE } else { (count + size - 1).div_euclid(size) * size }
        };
        let beyond = std::array::from_fn(|side| whole(from.beyond[side], side));
        let spoilt = std::array::from_fn(|side| whole(from.spoilt[side], side));
        Some(Held { background, beyond, spoilt })
    }

    /// The element of a block that an element sees in a direction, and whether it is in another
    /// block.
    fn neighbour(&self, at: usize, direction: Direction) -> (usize, bool) {
        let (width, height) = self.block;
        let (row, column) = (at / width, at % width);
        let (row, column, leaves) = match direction {
            Direction::North => ((row + height - 1) % height, column, row == 0),
            Direction::South => ((row + 1) % height, column, row + 1 == height),
            Direction::East => (row, (column + 1) % width, column + 1 == width),
            Direction::West => (row, (column + width - 1) % width, column == 0),
        };
        (row * width + column, leaves)
    }

    /// A pattern that is the same in every block.
    fn pattern(&self, bytes: &[u8]) -> Option<Held> {
        let &[r, c, rx, cx] = bytes else { return None };
        let (width, height) = self.block;
        let is_periodic = |any: u8, size: usize| usize::from(!any) < size;
        if !is_periodic(rx, height) || !is_periodic(cx, width) {
            return None;
        }
        let agrees = |number: usize, value: u8, any: u8| {
            let care = usize::from(!any);
            number & care == usize::from(value) & care
        };
        let bit = |at: usize| agrees(at / width, r, rx) && agrees(width - 1 - at % width, c, cx);
        Some(Held::constant((0..width * height).map(bit).collect()))
    }
}
