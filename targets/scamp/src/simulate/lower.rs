//! Programs with every name resolved to a plane.

#![deny(clippy::wildcard_enum_match_arm)]

use crate::arch::ScampArch;
use crate::expand::expand;
use crate::isa::{Class, Direction, Gate, Inst, Reg};
use crate::program::{Program, Space};
use quincunx_diag::{Diagnostic, Place as At, Result};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// A register of an element, or of its neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A plane.
    Own(usize),
    /// NEWS of the neighbour.
    Neighbour(Direction),
}

/// A bus step.
#[derive(Clone, Debug)]
pub(super) struct BusStep {
    pub(super) receivers: SmallVec<[Place; 3]>,
    pub(super) sources: SmallVec<[Place; 4]>,
}

/// An instruction on 1-bit registers: what it computes, writes and reads.
#[derive(Clone, Debug)]
pub(super) struct LogicStep {
    pub(super) gate: Gate,
    pub(super) writes: SmallVec<[usize; 4]>,
    pub(super) reads: SmallVec<[usize; 4]>,
}

/// A primitive step.
#[derive(Clone, Debug)]
pub(super) enum Op {
    /// Several registers of one element on its bus.
    Bus(BusStep),
    /// FLAG from a sum.
    Where(SmallVec<[Place; 4]>),
    /// FLAG everywhere.
    All,
    /// A plane of one value.
    Fill(usize, f64),
    /// An instruction on 1-bit registers.
    Logic(Box<LogicStep>),
    /// A plane from row, column, and the bits of each that do not matter.
    Pattern(usize, [u8; 4]),
    /// Nothing.
    Nothing,
}

/// A pattern as a part of the array sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pattern {
    /// Row, column, and the bits of each that do not matter.
    pub(super) bytes: [u8; 4],
    /// Elements of the array north and east of the part.
    pub(super) corner: [usize; 2],
}

impl Pattern {
    /// True for rows of the part, counted from the north, that agree.
    pub(super) fn has_row(&self, row: usize) -> bool {
        let [r, _, rx, _] = self.bytes;
        agrees(row + self.corner[0], r, rx)
    }

    /// True for columns of the part, counted from the west, that agree; hosts count from the east.
    pub(super) fn has_column(&self, column: usize, width: usize) -> bool {
        let [_, c, _, cx] = self.bytes;
        agrees(width - 1 - column + self.corner[1], c, cx)
    }
}

fn agrees(number: usize, value: u8, any: u8) -> bool {
    let care = !usize::from(any);
    number & care == usize::from(value) & care
}

impl Op {
    /// How often a step on the bus computes a number, for each element.
    pub(super) fn bus_length(&self) -> u64 {
        match self {
            Op::Bus(step) => 1 + (step.sources.len() + step.receivers.len()) as u64,
            Op::Where(sources) => sources.len() as u64,
            Op::All | Op::Fill(..) | Op::Logic(_) | Op::Pattern(..) | Op::Nothing => 0,
        }
    }
}

/// A primitive step and where it comes from.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) op: Op,
    /// Index of its instruction in the program.
    pub(super) index: usize,
}

/// Planes by name, and the steps.
#[derive(Clone, Debug)]
pub(super) struct Lowered {
    pub(super) steps: Vec<Step>,
    /// Analogue planes; plane 0 is NEWS.
    pub(super) analogue: BTreeMap<Reg, usize>,
    /// 1-bit planes; plane 0 is FLAG.
    pub(super) digital: BTreeMap<Reg, usize>,
    /// The planes of the direction registers, mask, masked and SELECT, where used.
    pub(super) directions: [usize; 4],
    pub(super) mask: usize,
    pub(super) masked: usize,
    pub(super) select: usize,
}

/// Plane of NEWS.
pub(super) const NEWS: usize = 0;
/// Plane of FLAG.
pub(super) const FLAG: usize = 0;

/// Resolves the names of a program.
///
/// # Errors
/// `Q5027` for a 1-bit register that the machine does not have.
pub(super) fn lower(program: &Program, arch: &ScampArch) -> Result<Lowered> {
    let mut lowered = Lowered {
        steps: Vec::new(),
        analogue: BTreeMap::from([(Reg::NEWS, NEWS)]),
        digital: BTreeMap::from([(Reg::FLAG, FLAG)]),
        directions: [0; 4],
        mask: 0,
        masked: 0,
        select: 0,
    };
    let uses_bits = program.instructions.iter().any(|inst| inst.logic().is_some());
    if uses_bits {
        let roles = &arch.roles;
        lowered.directions = roles.directions.map(|register| lowered.bit(register));
        lowered.mask = lowered.bit(roles.mask);
        lowered.masked = lowered.bit(roles.masked);
        lowered.select = lowered.bit(roles.select);
    }
    for (index, inst) in program.instructions.iter().enumerate() {
        for step in expand(inst) {
            let op = lowered.op(&step, arch).map_err(|p| p.at(At::Instruction(index)))?;
            lowered.steps.push(Step { op, index });
        }
    }
    // Ports may name registers that no instruction touches.
    for (space, register) in
        program.input_registers(arch).into_iter().chain(program.output_registers(arch))
    {
        match space {
            Space::Analogue => drop(lowered.plane(register)),
            Space::Digital => drop(lowered.digital_plane(register, arch)?),
        }
    }
    Ok(lowered)
}

impl Lowered {
    fn plane(&mut self, register: Reg) -> usize {
        let next = self.analogue.len();
        *self.analogue.entry(register).or_insert(next)
    }

    fn place(&mut self, register: Reg) -> Place {
        match register.direction() {
            Some(direction) => Place::Neighbour(direction),
            None => Place::Own(self.plane(register)),
        }
    }

    fn bit(&mut self, register: Reg) -> usize {
        let next = self.digital.len();
        *self.digital.entry(register).or_insert(next)
    }

    fn digital_plane(&mut self, register: Reg, arch: &ScampArch) -> Result<usize> {
        let register = arch.digital(register).ok_or_else(|| {
            Diagnostic::invalid("Q5027", format!("the machine has no 1-bit register {register}"))
        })?;
        Ok(self.bit(register))
    }

    fn op(&mut self, inst: &Inst, arch: &ScampArch) -> Result<Op> {
        let (writes, reads) = inst.split();
        Ok(match inst.class() {
            Class::Frame => Op::Nothing,
            Class::Emulator => {
                let value = inst.operands_of::<i32>()[0];
                Op::Fill(self.plane(writes[0]), f64::from(value) / 128.0)
            }
            Class::Bus => Op::Bus(BusStep {
                receivers: writes.into_iter().map(|register| self.place(register)).collect(),
                sources: reads.into_iter().map(|register| self.place(register)).collect(),
            }),
            Class::Condition => Op::Where(reads.into_iter().map(|r| self.place(r)).collect()),
            Class::All => Op::All,
            Class::Load => Op::Fill(self.plane(Reg::IN), f64::from(inst.operands_of::<i8>()[0])),
            Class::Macro | Class::Sensor | Class::LoadMacro => {
                return Err(Diagnostic::bug(format!("{} is not a step", inst.text())));
            }
            Class::Digital(gate) => {
                let mut planes = |list: SmallVec<[Reg; 4]>| {
                    list.into_iter().map(|register| self.digital_plane(register, arch)).collect()
                };
                let (writes, reads): (Result<_>, Result<_>) = (planes(writes), planes(reads));
                Op::Logic(Box::new(LogicStep { gate, writes: writes?, reads: reads? }))
            }
            Class::Pattern => {
                let plane = match writes.first() {
                    Some(&register) => self.digital_plane(register, arch)?,
                    None => self.select,
                };
                let bytes = inst.operands_of::<u8>();
                Op::Pattern(plane, [bytes[0], bytes[1], bytes[2], bytes[3]])
            }
        })
    }
}
