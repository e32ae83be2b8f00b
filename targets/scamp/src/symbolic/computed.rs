//! What outputs compute, as kernels and in words.

use super::{Level, Term, Value, run};
use crate::arch::ScampArch;
use crate::goal::{Cell, Goal};
use crate::isa::Reg;
use crate::program::{Program, Space};
use quincunx_diag::Result;
use quincunx_num::Dyadic;
use std::fmt::Write as _;

/// What an output register holds at the end.
#[derive(Clone, Debug, PartialEq)]
pub struct Computed {
    /// The register.
    pub output: Reg,
    /// Its value.
    pub value: Value,
    /// Registers of the input channels.
    pub inputs: Vec<Reg>,
}

/// The kernels of the outputs, by the bus steps of the program.
///
/// # Errors
/// As [`run`].
pub fn computed(program: &Program, level: Level, arch: &ScampArch) -> Result<Vec<Computed>> {
    let analogue = |list: Vec<(Space, Reg)>| {
        let analogue = list.into_iter().filter(|&(space, _)| space == Space::Analogue);
        analogue.map(|(_, register)| register).collect::<Vec<_>>()
    };
    let state = run(program, level)?;
    let inputs = analogue(program.input_registers(arch));
    let outputs = analogue(program.output_registers(arch));
    let computed = |output| Computed { output, value: state.value(output), inputs: inputs.clone() };
    Ok(outputs.into_iter().map(computed).collect())
}

impl Computed {
    /// The kernel in units of the least power of two that all coefficients are multiples of, with
    /// its exponent `d` of `2^-d`; `None` where a coefficient is not a multiple of a power of two,
    /// or a summand is of no input.
    pub fn goal(&self) -> Option<(Goal, u32)> {
        let channel = |term: &Term| self.inputs.iter().position(|&input| input == term.source);
        let mut cells = Vec::new();
        let mut depth = 0;
        for (term, factor) in &self.value {
            let factor = Dyadic::from_ratio(factor)?;
            depth = depth.max(u32::try_from(factor.exponent().saturating_neg()).unwrap_or(0));
            let z = u32::try_from(channel(term)?).ok()?;
            cells.push((Cell { x: term.x, y: term.y, z }, factor));
        }
        let mut goal = Goal::default();
        for (cell, factor) in cells {
            let count = factor.in_units(0_i32.checked_sub_unsigned(depth)?)?;
            goal.set(cell, i64::try_from(&count).ok()?);
        }
        Some((goal, depth))
    }

    /// The kernel in words: `1/2^2 <0 1 0>`, perhaps with a number that is added, or the sum of what
    /// it is made of.
    pub fn describe(&self) -> String {
        let mut kernel = self.clone();
        let added = kernel.value.remove(&Term { source: Reg::NONE, x: 0, y: 0 });
        let added = added.map_or(String::new(), |number| format!(" + {number}"));
        let is_kernel = kernel.value.keys().any(|term| term.source != Reg::IN);
        match kernel.goal() {
            Some(_) if !added.is_empty() && !is_kernel => sum(&self.value),
            Some((goal, 0)) => goal.compact() + &added,
            Some((goal, depth)) => format!("1/2^{depth} {}{added}", goal.compact()),
            None => sum(&self.value),
        }
    }
}

/// Summands that are written out.
const SHOWN: usize = 32;

fn sum(value: &Value) -> String {
    let mut out = String::new();
    for (term, factor) in value.iter().take(SHOWN) {
        let Term { source, x, y } = term;
        out.push_str(if out.is_empty() { "" } else { " + " });
        // Writing to a string cannot fail.
        let _ = match *source {
            Reg::NONE => write!(out, "{factor}"),
            Reg::IN => write!(out, "{factor} IN"),
            _ => write!(out, "{factor} {source}({x}, {y})"),
        };
    }
    if value.len() > SHOWN {
        out.push_str(" + …");
    }
    out
}
