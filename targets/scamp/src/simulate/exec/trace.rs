//! Which instruction wrote registers of an element last, and from which registers of which elements.

#![deny(clippy::wildcard_enum_match_arm)]

use super::Executor;
use super::run::Run;
use crate::isa::{Direction, Gate};
use crate::program::{Named, Space};
use crate::simulate::Edge;
use crate::simulate::lower::{BusStep, FLAG, LogicStep, NEWS, Op, Place, Step};
use crate::simulate::number::Number;
use crate::simulate::state::{Planes, neighbour};
use quincunx_diag::Result;
use std::collections::{BTreeMap, BTreeSet};

/// A register of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cell {
    space: Space,
    plane: usize,
    element: usize,
}

impl Cell {
    fn bit(plane: usize, element: usize) -> Cell {
        Cell { space: Space::Digital, plane, element }
    }

    fn number<T: Number>(&self, planes: &Planes<T>) -> f64 {
        match self.space {
            Space::Analogue => planes.analogue[self.plane][self.element].float(),
            Space::Digital => f64::from(u8::from(planes.digital[self.plane][self.element])),
        }
    }
}

/// An instruction that wrote cells.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    /// The instruction.
    pub(crate) index: usize,
    /// What it read for them, and the numbers there before.
    pub(crate) read: Vec<(Cell, f64)>,
    /// What all cells that were asked for held behind it.
    pub(crate) held: Vec<f64>,
}

/// Adds cells that are not there yet.
fn add(all: &mut Vec<Cell>, cells: Vec<Cell>) {
    for cell in cells {
        if !all.contains(&cell) {
            all.push(cell);
        }
    }
}

/// What cells hold.
type Numbers = BTreeMap<Cell, f64>;

impl Executor {
    /// A register of an element; `None` for one that the program does not know.
    pub(crate) fn cell(&self, named: Named, element: usize) -> Option<Cell> {
        let plane = self.plane(named).filter(|_| element < self.width * self.height)?;
        Some(Cell { space: named.0, plane, element })
    }

    /// A cell by its register, row and column.
    pub(crate) fn cell_name(&self, cell: Cell) -> String {
        let names = match cell.space {
            Space::Analogue => &self.lowered.analogue,
            Space::Digital => &self.lowered.digital,
        };
        let name = names.iter().find(|(_, plane)| **plane == cell.plane);
        let name = name.map_or_else(String::new, |(register, _)| register.to_string());
        format!("{name}[{},{}]", cell.element / self.width, cell.element % self.width)
    }

    /// Runs a program on images; the last instruction up to `after` that writes one of some cells.
    /// Elements without FLAG, or mask where it matters, write nothing.
    ///
    /// # Errors
    /// As [`Executor::run`].
    pub(crate) fn last_write(
        &self,
        inputs: &[(Named, Vec<f64>)],
        cells: &[Cell],
        after: usize,
    ) -> Result<Option<Write>> {
        let mut looked: BTreeSet<Cell> = cells.iter().copied().collect();
        let mut candidates = BTreeSet::new();
        for index in self.lowered.steps.iter().map(|step| step.index).take_while(|&i| i <= after) {
            for &cell in cells {
                if let Some(sources) = self.sources(index, cell, &|_| true) {
                    candidates.insert(index);
                    looked.extend(sources);
                }
            }
        }
        let elements: BTreeSet<usize> = looked.iter().map(|cell| cell.element).collect();
        let switches = [FLAG, self.lowered.mask];
        looked.extend(elements.iter().flat_map(|&at| switches.map(|plane| Cell::bit(plane, at))));
        let records = self.run_looking(inputs, &looked, &candidates)?;
        Ok(records.into_iter().rev().find_map(|(index, before, behind)| {
            let is_on = |cell: Cell| before.get(&cell).is_none_or(|&bit| bit != 0.0);
            let sources = cells.iter().filter_map(|&cell| self.sources(index, cell, &is_on));
            let sources = sources.reduce(|mut all, own| {
                add(&mut all, own);
                all
            })?;
            let held = |numbers: &Numbers, cell: Cell| numbers.get(&cell).copied().unwrap_or(0.0);
            let read = sources.into_iter().map(|cell| (cell, held(&before, cell))).collect();
            Some(Write { index, read, held: cells.iter().map(|&c| held(&behind, c)).collect() })
        }))
    }

    /// Runs a program; what cells hold before and behind some instructions.
    fn run_looking(
        &self,
        inputs: &[(Named, Vec<f64>)],
        cells: &BTreeSet<Cell>,
        wanted: &BTreeSet<usize>,
    ) -> Result<Vec<(usize, Numbers, Numbers)>> {
        fn numbers<T: Number>(cells: &BTreeSet<Cell>, planes: &Planes<T>) -> Numbers {
            cells.iter().map(|&cell| (cell, cell.number(planes))).collect()
        }
        let mut start = Run::<f64>::new(self);
        start.load(inputs)?;
        let start = numbers(cells, &start.planes);
        let (mut records, mut before) = (Vec::new(), start.clone());
        let mut look = |records: &mut Vec<_>, index: usize, now: Numbers| {
            let before = std::mem::replace(&mut before, now.clone());
            if wanted.contains(&index) {
                records.push((index, before, now));
            }
        };
        let floats = self.run_floats(inputs, &mut |index, planes| {
            look(&mut records, index, numbers(cells, planes));
        })?;
        if floats.is_none() {
            // Floats were not exact: all over again in fractions.
            look(&mut records, usize::MAX, start);
            records.clear();
            self.run_exactly(inputs, &mut |index, planes| {
                look(&mut records, index, numbers(cells, planes));
            })?;
        }
        Ok(records)
    }

    /// The cells of which an instruction makes the number of a cell; `None` where it does not write it.
    /// `is_on` says which bits of FLAG and mask are 1.
    fn sources(&self, index: usize, cell: Cell, is_on: &dyn Fn(Cell) -> bool) -> Option<Vec<Cell>> {
        let steps = &self.lowered.steps;
        let first = steps.partition_point(|step| step.index < index);
        let end = steps.partition_point(|step| step.index <= index);
        let (mut open, mut written) = (vec![cell], false);
        for Step { op, .. } in steps[first..end].iter().rev() {
            let mut before = Vec::new();
            for cell in open {
                let sources = self.read(op, cell, is_on);
                written |= sources.is_some();
                add(&mut before, sources.unwrap_or_else(|| vec![cell]));
            }
            open = before;
        }
        written.then_some(open)
    }

    /// What a step reads for a cell; `None` where it does not write it.
    fn read(&self, op: &Op, cell: Cell, is_on: &dyn Fn(Cell) -> bool) -> Option<Vec<Cell>> {
        let Cell { space, plane, element } = cell;
        let is_flag = cell == Cell::bit(FLAG, element);
        match op {
            Op::Bus(step) if space == Space::Analogue => self.bus(step, cell, is_on),
            Op::Where(sources) => is_flag.then(|| self.places(sources, element)),
            Op::All => is_flag.then(Vec::new),
            Op::Fill(filled, _) => (space == Space::Analogue && *filled == plane).then(Vec::new),
            Op::Logic(step) if space == Space::Digital => self.gate(step, cell, is_on),
            Op::Pattern(target, _) => {
                let own = space == Space::Digital && *target == plane;
                (own && self.is_open(cell, is_on)).then(Vec::new)
            }
            Op::Bus(_) | Op::Logic(_) | Op::Nothing => None,
        }
    }

    fn bus(&self, step: &BusStep, cell: Cell, is_on: &dyn Fn(Cell) -> bool) -> Option<Vec<Cell>> {
        let flag = |element: usize| is_on(Cell::bit(FLAG, element));
        let size = (self.width, self.height);
        let receiver = |receiver: &Place| match *receiver {
            Place::Own(plane) => {
                let own = plane == cell.plane && flag(cell.element);
                own.then(|| self.places(&step.sources, cell.element))
            }
            Place::Neighbour(_) if cell.plane != NEWS => None,
            Place::Neighbour(direction) => {
                match neighbour(size, cell.element, direction.opposite()) {
                    Some(writer) => flag(writer).then(|| self.places(&step.sources, writer)),
                    // Zeros come from beyond the edge.
                    None => (self.settings.edge == Edge::Zero).then(Vec::new),
                }
            }
        };
        // What is written last stays.
        step.receivers.iter().rev().find_map(receiver)
    }

    /// The cells of an element, and of its neighbours that exist, on its bus.
    fn places(&self, places: &[Place], element: usize) -> Vec<Cell> {
        let cell = |plane: usize, element: usize| Cell { space: Space::Analogue, plane, element };
        let of = |place: &Place| match *place {
            Place::Own(plane) => Some(cell(plane, element)),
            Place::Neighbour(direction) => {
                neighbour((self.width, self.height), element, direction).map(|at| cell(NEWS, at))
            }
        };
        places.iter().filter_map(of).collect()
    }

    fn gate(
        &self,
        LogicStep { gate, writes, reads }: &LogicStep,
        cell: Cell,
        is_on: &dyn Fn(Cell) -> bool,
    ) -> Option<Vec<Cell>> {
        let own = || reads.iter().map(|&plane| Cell::bit(plane, cell.element));
        let is_flag = cell.plane == FLAG;
        let sources = match gate {
            Gate::Where => return is_flag.then(|| own().collect()),
            Gate::All => return is_flag.then(Vec::new),
            Gate::Refresh => return None,
            Gate::Neighbours { .. } => self.neighbours(reads, cell.element),
            Gate::Or | Gate::Copy | Gate::Nor | Gate::Not | Gate::And => own().collect(),
            Gate::Nand | Gate::Xor | Gate::Imply | Gate::Mux => own().collect(),
            Gate::Constant(_) => Vec::new(),
        };
        (writes.contains(&cell.plane) && self.is_open(cell, is_on)).then_some(sources)
    }

    /// The direction registers of an element, and a register of all neighbours.
    fn neighbours(&self, reads: &[usize], element: usize) -> Vec<Cell> {
        let of = |direction: Direction| {
            let at = neighbour((self.width, self.height), element, direction);
            let read = reads.first().copied().zip(at);
            let chosen = Cell::bit(self.lowered.directions[direction as usize], element);
            [Some(chosen), read.map(|(plane, at)| Cell::bit(plane, at))]
        };
        Direction::ALL.into_iter().flat_map(of).flatten().collect()
    }

    /// True unless the mask keeps what a 1-bit register holds.
    fn is_open(&self, cell: Cell, is_on: &dyn Fn(Cell) -> bool) -> bool {
        let lowered = &self.lowered;
        // Without instructions on 1-bit registers nothing is masked.
        let is_masked = lowered.masked != lowered.mask && cell.plane == lowered.masked;
        !is_masked || is_on(Cell::bit(lowered.mask, cell.element))
    }
}
