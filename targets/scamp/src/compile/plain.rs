//! A program for any kernels, one atom after the other: not short, but always right.
//!
//! An output is summed up from the highest bit of its counts to the lowest: what is there is doubled,
//! and every input that has the bit in a cell is moved there and added. Halvings come last, or where
//! no register is left for them, before everything else.

use crate::arch::ScampArch;
use crate::goal::{Cell, Goal};
use crate::isa::{Direction, Inst, Reg};
use crate::program::{MAX_INSTRUCTIONS, Program};
use crate::task::Task;
use quincunx_diag::{Diagnostic, Result};

/// A program for a task.
///
/// # Errors
/// `Q5056` when registers or macros do not suffice, or the program would be too long.
pub(super) fn find(task: &Task, _arch: &ScampArch) -> Result<Program> {
    let mut planner = Planner { task, instructions: Vec::new() };
    planner.all()?;
    if planner.instructions.len() > MAX_INSTRUCTIONS {
        return Err(misfit("the program would be too long".to_owned()));
    }
    for inst in &planner.instructions {
        let name = crate::isa::TABLE.rows[inst.row()].name;
        if !task.macros.contains(name) {
            let text = format!("{} is not among the macros", inst.mnemonic());
            return Err(misfit(text).help("`--ops` names them, and the machine has them"));
        }
    }
    let Program { inputs, outputs, .. } = Program::new(Vec::new());
    Ok(Program { instructions: planner.instructions, inputs, outputs })
}

fn misfit(what: String) -> Diagnostic {
    Diagnostic::unsupported("Q5056", what)
}

struct Planner<'a> {
    task: &'a Task,
    instructions: Vec<Inst>,
}

impl Planner<'_> {
    fn all(&mut self) -> Result<()> {
        let wanted = &self.task.wanted;
        let is_input = |output: &Reg| wanted.inputs.contains(output);
        let goals = || wanted.outputs.iter().zip(&wanted.goals.0);
        let mut busy = wanted.inputs.clone();
        for (&output, goal) in goals().filter(|(output, _)| !is_input(output)) {
            let free = self.free(&busy, output);
            self.sum(goal, output, &free, wanted.depth)?;
            busy.push(output);
        }
        // Results that belong where an input is wait elsewhere until no input is read any more.
        let mut late = Vec::new();
        let count = goals().filter(|(output, _)| is_input(output)).count();
        for (number, (&output, goal)) in goals().filter(|(output, _)| is_input(output)).enumerate()
        {
            let free = self.free(&busy, Reg::NONE);
            let [place, scratch @ ..] = &free[..] else { return Err(few(1)) };
            let is_last = number + 1 == count;
            let depth = match is_last && scratch.len() < 2 && wanted.depth > 0 {
                true => self.halve_inputs(&free)?,
                false => wanted.depth,
            };
            self.sum(goal, *place, scratch, depth)?;
            busy.push(*place);
            late.push(Inst::Mov { y: output, x: *place });
        }
        self.instructions.append(&mut late);
        Ok(())
    }

    /// Registers of the pool that nothing needs, `first` not among them.
    fn free(&self, busy: &[Reg], without: Reg) -> Vec<Reg> {
        let is_free = |register: &&Reg| **register != without && !busy.contains(register);
        self.task.pool.iter().filter(is_free).copied().collect()
    }

    /// Divides the inputs, which one more output reads; gives the halvings that are left to do.
    fn halve_inputs(&mut self, free: &[Reg]) -> Result<u32> {
        for input in self.task.wanted.inputs.clone() {
            if !self.task.pool.contains(&input) {
                return Err(few(1));
            }
            for _ in 0..self.task.wanted.depth {
                self.halve(input, free)?;
            }
        }
        Ok(0)
    }

    /// `to` := a goal.
    fn sum(&mut self, goal: &Goal, to: Reg, scratch: &[Reg], depth: u32) -> Result<()> {
        let top = goal.cells().map(|(_, count)| count.unsigned_abs()).max().unwrap_or(0);
        let mut is_empty = true;
        for bit in (0..u64::BITS - top.leading_zeros()).rev() {
            if !is_empty {
                let [copy, ..] = scratch else { return Err(few(1)) };
                self.instructions.push(Inst::Mov { y: *copy, x: to });
                self.instructions.push(Inst::Add { y: to, a: to, b: *copy });
            }
            for (cell, count) in goal.cells() {
                if count.unsigned_abs() >> bit & 1 == 1 {
                    self.add(cell, count < 0, to, scratch, is_empty)?;
                    is_empty = false;
                }
            }
        }
        if is_empty {
            self.instructions.push(Inst::Res { y: to });
            return Ok(());
        }
        for _ in 0..depth {
            self.halve(to, scratch)?;
        }
        Ok(())
    }

    /// Adds the atom of a cell; `first` sets the register to it.
    fn add(
        &mut self,
        cell: Cell,
        negative: bool,
        to: Reg,
        scratch: &[Reg],
        first: bool,
    ) -> Result<()> {
        let source = self.task.wanted.inputs[cell.z as usize];
        let moves = cell.x.unsigned_abs() as usize + cell.y.unsigned_abs() as usize;
        if self.instructions.len().saturating_add(moves) > MAX_INSTRUCTIONS {
            return Err(misfit("the program would be too long".to_owned()));
        }
        if moves == 0 {
            self.instructions.push(match (first, negative) {
                (true, false) => Inst::Mov { y: to, x: source },
                (true, true) => Inst::Neg { y: to, x: source },
                (false, false) => Inst::Add { y: to, a: to, b: source },
                (false, true) => Inst::Sub { y: to, a: to, b: source },
            });
            return Ok(());
        }
        let [moved, ..] = scratch else { return Err(few(1)) };
        let target = if first && !negative { to } else { *moved };
        self.moved(target, source, cell);
        match (first, negative) {
            (true, false) => {}
            (true, true) => self.instructions.push(Inst::Neg { y: to, x: target }),
            (false, false) => self.instructions.push(Inst::Add { y: to, a: to, b: target }),
            (false, true) => self.instructions.push(Inst::Sub { y: to, a: to, b: target }),
        }
        Ok(())
    }

    fn moved(&mut self, to: Reg, source: Reg, cell: Cell) {
        let along = |steps: i32, up: Direction, down: Direction| {
            let direction = if steps > 0 { up } else { down };
            std::iter::repeat_n(direction, steps.unsigned_abs() as usize)
        };
        let east = along(cell.x, Direction::East, Direction::West);
        let north = along(cell.y, Direction::North, Direction::South);
        let mut from = source;
        for d in east.chain(north) {
            self.instructions.push(Inst::Movx { y: to, x: from, d });
            from = to;
        }
    }

    /// Halves a register with what the machine has for it.
    fn halve(&mut self, register: Reg, scratch: &[Reg]) -> Result<()> {
        let has = |name: &str| self.task.macros.contains(name);
        match *scratch {
            [copy, ..] if has("Divq") => {
                self.instructions.push(Inst::Divq { y: copy, x: register });
                self.instructions.push(Inst::Mov { y: register, x: copy });
            }
            [y, z, ..] if has("Diva") => {
                self.instructions.push(Inst::Diva { y: register, z: y, t: z })
            }
            [half, z, ..] if has("Div") => {
                self.instructions.push(Inst::Div { y: half, z, x: register });
                self.instructions.push(Inst::Mov { y: register, x: half });
            }
            _ => return Err(few(2)),
        }
        Ok(())
    }
}

/// Registers do not suffice.
fn few(more: usize) -> Diagnostic {
    misfit(format!("{more} more registers are needed beside inputs and results"))
        .help("`--registers` names those that may be used; fewer kernels at once need fewer")
}
