//! What is done to the channels of a layer in their registers, behind its head.

use super::layers::{Kind, Layer, Stage, Taps};
use super::ranges::Ranges;
use super::{Writer, find, levels};
use crate::goal::{Bag, Cell, Goal};
use crate::isa::{Bus, Direction, Inst, Reg};
use crate::options::Wishes;
use crate::program::{Named, Space};
use crate::search::Wish;
use crate::symbolic::{Level, Range, Term, run};
use crate::task::{Task, Wanted};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::Compare;
use quincunx_num::Ratio;
use smallvec::{SmallVec, smallvec};

/// What the stages of a layer need besides the registers of its channels.
pub(super) struct Means {
    /// Registers that are free.
    pub(super) temporaries: Vec<Reg>,
    /// The program of a mean for the register of the first channel, for each stage that is one.
    programs: Vec<Option<Vec<Inst>>>,
}

impl Writer<'_> {
    /// Finds out whether registers suffice for the stages of a layer.
    pub(super) fn means(
        &self,
        layer: &Layer,
        outputs: &[Reg],
        temporaries: Vec<Reg>,
        ranges: Option<&Ranges>,
    ) -> Result<Means> {
        let few = |what: &str| {
            let message = format!("no register is free for {what} of {} channels", outputs.len());
            Diagnostic::unsupported("Q5056", message)
        };
        let mut programs = Vec::new();
        for (number, stage) in layer.stages.iter().enumerate() {
            programs.push(match &stage.kind {
                Kind::Largest(_) if temporaries.is_empty() => return Err(few("the largest")),
                Kind::Compare(..) if outputs.len() > self.wishes.bits.len() => {
                    return Err(few("the 1-bit images"));
                }
                Kind::Mean(taps) => {
                    let range = ranges.map(|ranges| ranges.before(number));
                    Some(self.mean(taps, outputs[0], &temporaries, range)?)
                }
                Kind::Relu | Kind::Largest(_) | Kind::Compare(..) | Kind::Same => None,
            });
        }
        Ok(Means { temporaries, programs })
    }

    /// A program that makes the mean under a window in a register.
    fn mean(
        &self,
        [rows, columns]: &[Taps; 2],
        y: Reg,
        free: &[Reg],
        range: Option<Range>,
    ) -> Result<Vec<Inst>> {
        let offset = |taps: &Taps, at: usize| {
            let elements = at.checked_mul(taps.apart).and_then(|count| i32::try_from(count).ok());
            let far = || Diagnostic::unsupported("Q5054", "a window spans too many cells");
            elements.filter(|count| *count <= 1 << 15).ok_or_else(far)
        };
        let mut goal = Goal::default();
        for row in 0..rows.count {
            for column in 0..columns.count {
                let (x, south) = (offset(columns, column)?, offset(rows, row)?);
                goal.set(Cell { x, y: -south, z: 0 }, 1);
            }
        }
        let depth = (rows.count * columns.count).ilog2();
        let pool: Vec<Reg> = [y].iter().chain(free).copied().collect();
        let wanted = Wanted { goals: Bag(vec![goal]), depth, inputs: vec![y], outputs: vec![y] };
        let task =
            Task { macros: self.wishes.macros.clone(), ..Task::new(wanted, pool, self.arch)? };
        let wish = Wish { range, ..self.wishes.wish };
        let wishes = Wishes { wish, ..self.wishes.clone() };
        Ok(find::find("a mean", &task, self.arch, &wishes)?.program.instructions)
    }

    /// Does a stage to the channels from `first` on, and says where its results are.
    pub(super) fn stage(
        &mut self,
        (number, stage): (usize, &Stage),
        first: usize,
        outputs: &[Reg],
        means: &Means,
    ) -> Result<Vec<Named>> {
        match &stage.kind {
            Kind::Relu => outputs.iter().for_each(|&y| self.relu(y)),
            Kind::Largest([rows, columns]) => {
                let bug = || Diagnostic::bug("no register is free for the largest");
                let t = *means.temporaries.first().ok_or_else(bug)?;
                for &y in outputs {
                    self.largest(y, t, columns, Direction::East);
                    self.largest(y, t, rows, Direction::South);
                }
            }
            Kind::Mean(_) => {
                let bug = || Diagnostic::bug("no program was found for a mean");
                let program = means.programs[number].as_ref().ok_or_else(bug)?;
                for &y in outputs {
                    let own = |register| if register == outputs[0] { y } else { register };
                    let list = program.iter().map(|inst| inst.map_registers(own));
                    self.program.instructions.extend(list);
                }
            }
            Kind::Compare(compare, numbers) => {
                let bits = &self.wishes.bits[..outputs.len()];
                self.outside = None;
                for (at, (&y, &bit)) in outputs.iter().zip(bits).enumerate() {
                    let number = numbers.get(first + at).unwrap_or(&numbers[0]);
                    self.compare(y, bit, *compare, *number)?;
                }
                return Ok(bits.iter().map(|&bit| (Space::Digital, bit)).collect());
            }
            Kind::Same => {
                let bits = self.wishes.bits.iter().take(outputs.len());
                return Ok(bits.map(|&bit| (Space::Digital, bit)).collect());
            }
        }
        Ok(outputs.iter().map(|&y| (Space::Analogue, y)).collect())
    }

    pub(super) fn push(&mut self, list: impl IntoIterator<Item = Inst>) {
        self.program.instructions.extend(list);
    }

    /// Sets a register to 0 where it is below 0. Only own registers are written while FLAG is not set
    /// everywhere.
    fn relu(&mut self, y: Reg) {
        self.push([
            bus(Reg::NEWS, &[y]),
            condition(Reg::NEWS, Reg::NONE),
            Inst::Res { y },
            Inst::All {},
        ]);
    }

    /// Sets a register to the largest along the taps of an axis; moves happen while FLAG is set
    /// everywhere.
    fn largest(&mut self, y: Reg, t: Reg, taps: &Taps, d: Direction) {
        for tap in 1..taps.count {
            let far = self.wishes.has(&["Mov2x"]);
            // The last tap is in `t` still.
            let (mut from, mut left) = (if tap == 1 { y } else { t }, taps.apart);
            while left > 0 {
                let double = far && left > 1;
                self.push([match double {
                    true => Inst::Mov2x { y: t, x: from, d, e: d },
                    false => Inst::Movx { y: t, x: from, d },
                }]);
                (from, left) = (t, left - 1 - usize::from(double));
            }
            self.push([
                bus(Reg::NEWS, &[y]),
                condition(t, Reg::NEWS),
                Inst::Mov { y, x: t },
                Inst::All {},
            ]);
        }
    }

    /// Sets a 1-bit register where the comparison holds.
    fn compare(&mut self, y: Reg, bit: Reg, compare: Compare, number: f64) -> Result<()> {
        let level = self.level(number)?;
        // What is above a number is not at most as large, so that two comparisons are negated.
        let (below, negated) = match compare {
            Compare::Greater => (false, false),
            Compare::LessOrEqual => (false, true),
            Compare::Less => (true, false),
            Compare::GreaterOrEqual => (true, true),
            Compare::Equal => return Err(Diagnostic::bug("the machine has no Equal")),
        };
        self.load(if below { level } else { -level });
        let second = if level == 0 { Reg::NONE } else { Reg::IN };
        if below {
            self.push([bus(Reg::NEWS, &[y])]);
        }
        self.push([
            condition(if below { Reg::NEWS } else { y }, second),
            Inst::Move { d: bit, a: Reg::FLAG },
            Inst::All {},
        ]);
        if negated {
            self.push([Inst::Not { d: bit, a: bit }]);
        }
        Ok(())
    }

    fn level(&self, number: f64) -> Result<i8> {
        let beyond = || Diagnostic::bug(format!("IN was to hold {number}"));
        levels::level(number, self.network.scale).ok_or_else(beyond)
    }

    /// Loads IN, unless it holds the value, or nothing reads a 0.
    fn load(&mut self, level: i8) {
        if level != 0 && self.loaded != Some(level) {
            self.push([Inst::LoadIn { v: level }]);
            self.loaded = Some(level);
        }
    }

    /// Adds a bias to every output of a program for a task that begins at an instruction, and checks
    /// all of it.
    pub(super) fn biases(&mut self, biases: &[f64], wanted: &Wanted, first: usize) -> Result<()> {
        let before = self.loaded;
        for (&y, &bias) in wanted.outputs.iter().zip(biases) {
            let level = self.level(bias)?;
            if level == 0 {
                continue;
            }
            self.load(level);
            match self.wishes.has(&["Add"]) {
                true => self.push([Inst::Add { y, a: y, b: Reg::IN }]),
                false => self.push([bus(Reg::NEWS, &[y, Reg::IN]), bus(y, &[Reg::NEWS])]),
            }
        }
        let known = before.map(|v| Inst::LoadIn { v }).into_iter();
        let own = self.program.instructions[first..].iter().copied();
        let state = run(&crate::program::Program::new(known.chain(own).collect()), Level::Bus)?;
        for ((&y, mut value), &bias) in wanted.outputs.iter().zip(wanted.values()).zip(biases) {
            let level = self.level(bias)?;
            if level != 0 {
                value.insert(Term { source: Reg::NONE, x: 0, y: 0 }, Ratio::from(level));
            }
            if state.value(y) != value {
                return Err(Diagnostic::bug(format!("a bias went wrong in {y}")));
            }
        }
        Ok(())
    }
}

/// A bus step with one receiver.
fn bus(receiver: Reg, sources: &[Reg]) -> Inst {
    let (receivers, sources) = (smallvec![receiver], SmallVec::from_slice(sources));
    Inst::of_bus(&Bus { receivers, sources })
}

fn condition(s0: Reg, s1: Reg) -> Inst {
    Inst::Where { s0, s1, s2: Reg::NONE }
}
