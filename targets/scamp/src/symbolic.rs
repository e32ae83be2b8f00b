//! The symbolic executor: every register as an exact linear combination of what the registers of
//! all elements held at the start.
//!
//! All elements execute the same, so that one element at (0, 0) stands for all; the array has no
//! edge here. Coefficients are exact fractions, so that bus3 is followed as well.

#![deny(clippy::arithmetic_side_effects, clippy::wildcard_enum_match_arm)]

mod computed;
pub(crate) mod edges;
mod mask;
mod mismatch;
mod needs;
mod range;
mod reach;
mod variance;

pub use computed::{Computed, computed};
pub use mismatch::mismatches;
pub use needs::needs;
pub use range::{Peak, Range, peak};
pub use reach::{Reach, Reaches, reaches};
pub use variance::variances;

use crate::expand::expand;
use crate::isa::{Class, Gate, Inst, Reg};
use crate::meaning::{Assignment, meaning};
use crate::program::Program;
use crate::simulate::length;
use quincunx_diag::{Diagnostic, Place, Result};
use quincunx_num::Ratio;
use std::collections::BTreeMap;

/// What register of which element a summand is of. The constant 1 has [`Reg::NONE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term {
    /// The register that held the value at the start.
    pub source: Reg,
    /// Offset of its element to the east.
    pub x: i32,
    /// Offset of its element to the north.
    pub y: i32,
}

/// A linear combination; no coefficient is 0.
pub type Value = BTreeMap<Term, Ratio>;

/// Summands that a program may handle altogether: two seconds where coefficients are long; beyond
/// any program of the field by far.
const MAX_WORK: usize = 1 << 20;

/// Longest coefficient in bits of numerator and denominator.
const MAX_BITS: u64 = 2048;

/// How macros are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// By their bus steps.
    Bus,
    /// By their documented results, even where an operand is illegal on the bus.
    Meaning,
}

/// The registers of an element.
#[derive(Clone, Debug)]
pub struct Symbolic {
    values: BTreeMap<Reg, Value>,
    work: usize,
}

/// Runs a program.
///
/// # Errors
/// `Q5040` where FLAG would depend on data, `Q5041` when there are too many summands.
pub fn run(program: &Program, level: Level) -> Result<Symbolic> {
    follow(program, level, &mut |_, _| {})
}

/// The same, calling `see` after every instruction with its index.
///
/// # Errors
/// As [`run`].
pub fn follow(
    program: &Program,
    level: Level,
    see: &mut dyn FnMut(usize, &Symbolic),
) -> Result<Symbolic> {
    let mut state = Symbolic { values: BTreeMap::new(), work: 0 };
    for (index, inst) in program.instructions.iter().enumerate() {
        state.step(inst, level).map_err(|problem| problem.at(Place::Instruction(index)))?;
        see(index, &state);
    }
    Ok(state)
}

/// The same number in every element.
fn constant(number: Ratio) -> Value {
    let term = Term { source: Reg::NONE, x: 0, y: 0 };
    [(term, number)].into_iter().filter(|(_, number)| *number != Ratio::ZERO).collect()
}

/// A value seen from an element whose neighbour at (x, y) holds it.
fn translated(value: &Value, (x, y): (i32, i32)) -> Value {
    let moved = |term: &Term| match term.source {
        // The constant and the global input are the same everywhere.
        Reg::NONE | Reg::IN => *term,
        _ => Term { x: term.x.saturating_add(x), y: term.y.saturating_add(y), ..*term },
    };
    value.iter().map(|(term, factor)| (moved(term), factor.clone())).collect()
}

impl Symbolic {
    /// What a register holds.
    pub fn value(&self, register: Reg) -> Value {
        let unknown = || Value::from([(Term { source: register, x: 0, y: 0 }, Ratio::ONE)]);
        self.values.get(&register).cloned().unwrap_or_else(unknown)
    }

    fn step(&mut self, inst: &Inst, level: Level) -> Result<()> {
        if let (Level::Meaning, Some(assignments)) = (level, meaning(inst)) {
            return self.assign(&assignments);
        }
        expand(inst).iter().try_for_each(|step| self.bus_step(step))
    }

    fn bus_step(&mut self, inst: &Inst) -> Result<()> {
        if let Inst::Input { y, value } = *inst {
            self.values.insert(y, constant(Ratio::from_parts(value.into(), 128_u8.into())));
            return Ok(());
        }
        if let Inst::LoadIn { v } = *inst {
            self.values.insert(Reg::IN, constant(Ratio::from(v)));
            return Ok(());
        }
        if matches!(inst.class(), Class::Condition | Class::Digital(Gate::Where)) {
            let message = format!("after {} not all elements do the same", inst.text());
            return Err(Diagnostic::unsupported("Q5040", message)
                .help("kernels are computed for programs without conditions only"));
        }
        let Some(bus) = inst.bus() else { return Ok(()) };
        let factor = Ratio::from_parts((-1).into(), (bus.receivers.len() as u64).into());
        let mut sum = Value::new();
        for &source in &bus.sources {
            let value = match source.direction() {
                Some(direction) => translated(&self.value(Reg::NEWS), direction.step()),
                None => self.value(source),
            };
            self.add(&mut sum, &value, &factor)?;
        }
        for &receiver in &bus.receivers {
            match receiver.direction() {
                // The neighbour receives: what an element gets comes from the opposite side.
                Some(direction) => {
                    let value = translated(&sum, direction.opposite().step());
                    self.values.insert(Reg::NEWS, value);
                }
                None => drop(self.values.insert(receiver, sum.clone())),
            }
        }
        Ok(())
    }

    fn assign(&mut self, assignments: &[Assignment]) -> Result<()> {
        let mut results = Vec::new();
        for assignment in assignments {
            let mut sum = Value::new();
            for term in &assignment.terms {
                let (x, y) = term
                    .steps
                    .iter()
                    .map(|direction| direction.step())
                    .fold((0_i32, 0_i32), |(x, y), (dx, dy)| {
                        (x.saturating_add(dx), y.saturating_add(dy))
                    });
                let value = translated(&self.value(term.register), (x, y));
                self.add(&mut sum, &value, &term.factor)?;
            }
            results.push((assignment.target, sum));
        }
        self.values.extend(results);
        Ok(())
    }

    /// Adds `factor * value` to a sum.
    fn add(&mut self, sum: &mut Value, value: &Value, factor: &Ratio) -> Result<()> {
        self.work = self.work.saturating_add(value.len()).saturating_add(1);
        if self.work > MAX_WORK {
            return Err(too_much("more summands than can be followed"));
        }
        for (term, own) in value {
            let product = own * factor;
            let total = match sum.get(term) {
                Some(old) => old + product,
                None => product,
            };
            if length(&total) > MAX_BITS {
                return Err(too_much("a coefficient that is too long"));
            }
            match total == Ratio::ZERO {
                true => drop(sum.remove(term)),
                false => drop(sum.insert(*term, total)),
            }
        }
        Ok(())
    }
}

fn too_much(what: &str) -> Diagnostic {
    Diagnostic::unsupported("Q5041", format!("the program makes {what}"))
}
