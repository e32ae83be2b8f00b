//! How far values reach over the array, and where its edge spoils them.
//!
//! Away from the images a register holds what instructions make of nothing: a background that is
//! the same in every block. An element is spoilt where the array gives another value than one without
//! an edge would. Bounds are kept for each element of a block and each side, in blocks, so that an
//! element may count as spoilt that is not.

#![allow(
    clippy::arithmetic_side_effects,
    reason = "blocks have at most as many elements as an array, and bounds are below the number of \
              instructions, or 2^40"
)]

use crate::arch::ScampArch;
use crate::expand::expand;
use crate::isa::{Bus, Class, Direction, Gate, Inst, Reg};
use crate::program::{Named, Program, Space};
use std::collections::BTreeMap;

/// Nowhere.
const NOWHERE: [i64; 4] = [-(1 << 40); 4];

/// What an element of every block holds in a register.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    /// What it is away from the images; bits are 0 and 1.
    background: f64,
    /// How many blocks it differs from that beyond the images; [`NOWHERE`] if it does not.
    beyond: [i64; 4],
    /// How many blocks are spoilt along each edge.
    spoilt: [i64; 4],
}

impl Cell {
    fn constant(background: f64) -> Cell {
        Cell { background, beyond: NOWHERE, spoilt: [0; 4] }
    }

    fn is_constant(&self) -> bool {
        self.beyond == NOWHERE && self.spoilt == [0; 4]
    }

    fn bit(&self) -> bool {
        self.background != 0.0
    }

    /// The bounds of all of some cells, with a background of its own.
    fn join<'c>(background: f64, cells: impl IntoIterator<Item = &'c Cell>) -> Cell {
        let most = |a: [i64; 4], b: [i64; 4]| std::array::from_fn(|side| a[side].max(b[side]));
        cells.into_iter().fold(Cell::constant(background), |all, cell| Cell {
            beyond: most(all.beyond, cell.beyond),
            spoilt: most(all.spoilt, cell.spoilt),
            ..all
        })
    }

    /// `new` where a gate is 1, else `old`.
    fn choose(gate: &Cell, new: &Cell, old: &Cell) -> Cell {
        let chosen = if gate.bit() { new } else { old };
        if gate.is_constant() {
            return *chosen;
        }
        Cell::join(chosen.background, [gate, new, old])
    }
}

/// The cells of a block, row by row.
type Held = Vec<Cell>;

/// A walk through a program.
pub(crate) struct Walk<'a> {
    arch: &'a ScampArch,
    /// Width and height of a block.
    block: (usize, usize),
    /// Blocks between images and the edges.
    margin: [i64; 4],
    registers: BTreeMap<Named, Held>,
}

impl<'a> Walk<'a> {
    /// A walk that starts with images in some registers. FLAG is 1 in the beginning; others hold 0.
    pub(crate) fn new(
        arch: &'a ScampArch,
        block: (usize, usize),
        margin: [i64; 4],
        inputs: impl Iterator<Item = Named>,
    ) -> Walk<'a> {
        let image = Cell { background: 0.0, beyond: [0; 4], spoilt: [0; 4] };
        let mut walk = Walk { arch, block, margin, registers: BTreeMap::new() };
        walk.write((Space::Digital, Reg::FLAG), walk.blank(1.0));
        for input in inputs {
            let own = walk.own(input);
            walk.registers.insert(own, vec![image; block.0 * block.1]);
        }
        walk
    }

    /// Follows a program; `None` where it has patterns that are not those of blocks.
    pub(crate) fn follow(mut self, program: &Program) -> Option<Walk<'a>> {
        for inst in &program.instructions {
            expand(inst).iter().try_for_each(|step| self.step(step))?;
        }
        Some(self)
    }

    /// Blocks that are spoilt along each edge in some elements of registers.
    pub(crate) fn spoilt(&self, elements: impl Iterator<Item = (Named, usize)>) -> [i64; 4] {
        let cells: Vec<Cell> = elements.map(|(register, at)| self.held(register)[at]).collect();
        Cell::join(0.0, &cells).spoilt
    }

    fn blank(&self, value: f64) -> Held {
        vec![Cell::constant(value); self.block.0 * self.block.1]
    }

    /// A register under its own name.
    fn own(&self, (space, register): Named) -> Named {
        match space {
            Space::Digital => (space, self.arch.digital(register).unwrap_or(register)),
            Space::Analogue => (space, register),
        }
    }

    fn held(&self, register: Named) -> Held {
        let held = self.registers.get(&self.own(register));
        held.cloned().unwrap_or_else(|| self.blank(0.0))
    }

    fn bit(&self, register: Reg) -> Held {
        self.held((Space::Digital, register))
    }

    /// A value of every element of a block.
    fn map(&self, cell: impl Fn(usize) -> Cell) -> Held {
        (0..self.block.0 * self.block.1).map(cell).collect()
    }

    /// A step that is not a macro.
    fn step(&mut self, inst: &Inst) -> Option<()> {
        let (writes, reads) = inst.split();
        match inst.class() {
            Class::Frame | Class::Macro | Class::Sensor | Class::LoadMacro => {}
            Class::Emulator => {
                let value = f64::from(inst.operands_of::<i32>()[0]) / 128.0;
                self.write((Space::Analogue, writes[0]), self.blank(value));
            }
            Class::Load => {
                let value = f64::from(inst.operands_of::<i8>()[0]);
                self.write((Space::Analogue, Reg::IN), self.blank(value));
            }
            Class::Bus => self.bus(&Bus { receivers: writes, sources: reads }),
            Class::Condition => {
                let sums = self.sums(&reads);
                let flag = self.map(|at| {
                    let is_above = f64::from(u8::from(sums[at].background > 0.0));
                    Cell { background: is_above, ..sums[at] }
                });
                self.write((Space::Digital, Reg::FLAG), flag);
            }
            Class::All => self.write((Space::Digital, Reg::FLAG), self.blank(1.0)),
            Class::Pattern => {
                let held = self.pattern(&inst.operands_of::<u8>())?;
                let target = writes.first().copied().unwrap_or(self.arch.roles.select);
                self.write((Space::Digital, target), held);
            }
            Class::Digital(Gate::Refresh) => {}
            Class::Digital(gate) => {
                let reads: Vec<Held> = reads.iter().map(|&register| self.bit(register)).collect();
                let held = if let Gate::Neighbours { beyond } = gate {
                    self.neighbours(&reads[0], beyond)
                } else {
                    self.map(|at| logic(gate, reads.iter().map(|held| held[at]).collect()))
                };
                let is_flag = matches!(gate, Gate::Where | Gate::All);
                let targets = if is_flag { &[Reg::FLAG][..] } else { &writes };
                for &target in targets {
                    self.write((Space::Digital, target), held.clone());
                }
            }
        }
        Some(())
    }

    fn write(&mut self, register: Named, mut held: Held) {
        let own = self.own(register);
        if own == (Space::Digital, self.arch.roles.masked) {
            let (mask, old) = (self.bit(self.arch.roles.mask), self.held(own));
            held = self.map(|at| Cell::choose(&mask[at], &held[at], &old[at]));
        }
        self.registers.insert(own, held);
    }

    /// What the sources of a bus come to. NEWS of elements beyond the edge is not known.
    fn sums(&self, sources: &[Reg]) -> Held {
        let all = sources.iter().map(|&source| match source.direction() {
            Some(direction) => {
                let news = self.held((Space::Analogue, Reg::NEWS));
                self.map(|at| self.seen(&news, at, direction, None))
            }
            None => self.held((Space::Analogue, source)),
        });
        let all: Vec<Held> = all.collect();
        self.map(|at| {
            let sum = all.iter().map(|held| held[at].background).sum();
            Cell::join(sum, all.iter().map(|held| &held[at]))
        })
    }

    fn bus(&mut self, bus: &Bus) {
        let (sums, flag) = (self.sums(&bus.sources), self.bit(Reg::FLAG));
        let share = bus.receivers.len() as f64;
        let values = self.map(|at| Cell { background: -sums[at].background / share, ..sums[at] });
        for &receiver in &bus.receivers {
            let Some(direction) = receiver.direction() else {
                let old = self.held((Space::Analogue, receiver));
                let held = self.map(|at| Cell::choose(&flag[at], &values[at], &old[at]));
                self.write((Space::Analogue, receiver), held);
                continue;
            };
            // NEWS is written by the neighbour on the other side.
            let news = (Space::Analogue, Reg::NEWS);
            let (old, writer) = (self.held(news), direction.opposite());
            let held = self.map(|at| {
                let value = self.seen(&values, at, writer, None);
                Cell::choose(&self.seen(&flag, at, writer, Some(1.0)), &value, &old[at])
            });
            self.write(news, held);
        }
    }

    /// What DNEWS gives.
    fn neighbours(&self, from: &Held, beyond: bool) -> Held {
        let looks = self.arch.roles.directions.map(|register| self.bit(register));
        let outside = f64::from(u8::from(beyond));
        self.map(|at| {
            let seen = Direction::ALL.into_iter().map(|direction| {
                let look = looks[direction as usize][at];
                let seen = self.seen(from, at, direction, Some(outside));
                Cell::choose(&look, &seen, &Cell::constant(0.0))
            });
            logic(Gate::Or, seen.collect())
        })
    }

    /// What an element sees of its neighbour in a direction; `outside` is what it sees beyond the
    /// edge of the array, where that is known.
    fn seen(&self, from: &Held, at: usize, direction: Direction, outside: Option<f64>) -> Cell {
        let (neighbour, leaves) = self.neighbour(at, direction);
        let mut cell = from[neighbour];
        if !leaves {
            return cell;
        }
        let (side, back) = (direction as usize, direction.opposite() as usize);
        let differs = outside != Some(cell.background) || cell.beyond[side] > self.margin[side];
        let is_spoilt = differs || cell.spoilt[side] > 0;
        cell.spoilt[side] = if is_spoilt { cell.spoilt[side] + 1 } else { 0 };
        cell.spoilt[back] = (cell.spoilt[back] - 1).max(0);
        if cell.beyond != NOWHERE {
            cell.beyond[side] -= 1;
            cell.beyond[back] += 1;
        }
        cell
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
        Some(self.map(|at| Cell::constant(f64::from(u8::from(bit(at))))))
    }
}

/// What a gate makes of cells of one element.
fn logic(gate: Gate, cells: Vec<Cell>) -> Cell {
    let mut bits = cells.iter().map(Cell::bit);
    let bit = match gate {
        Gate::Constant(bit) => bit,
        Gate::All => true,
        Gate::Or | Gate::Copy | Gate::Where | Gate::Refresh | Gate::Neighbours { .. } => {
            bits.any(|bit| bit)
        }
        Gate::Nor | Gate::Not => !bits.any(|bit| bit),
        Gate::And => bits.all(|bit| bit),
        Gate::Nand => !bits.all(|bit| bit),
        Gate::Xor => bits.fold(false, |a, b| a ^ b),
        Gate::Imply => !cells[0].bit() | cells[1].bit(),
        Gate::Mux => cells[if cells[0].bit() { 1 } else { 2 }].bit(),
    };
    Cell::join(f64::from(u8::from(bit)), &cells)
}
