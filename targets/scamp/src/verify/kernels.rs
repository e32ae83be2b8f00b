//! Which kernels a program computes, and whether they are the wanted ones.

use super::digital::verify_digital;
use crate::arch::ScampArch;
use crate::files::{KernelFile, Mode};
use crate::goal::{Cell, Goal};
use crate::isa::Reg;
use crate::program::{Program, Space};
use crate::simulate::WorkLimit;
use crate::symbolic::{Level, Term, Value, run};
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::{Dyadic, Ratio};
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

    /// The kernel in words: `1/2^2 <0 1 0>`, or the sum of what it is made of.
    pub fn describe(&self) -> String {
        match self.goal() {
            Some((goal, 0)) => goal.compact(),
            Some((goal, depth)) => format!("1/2^{depth} {}", goal.compact()),
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

/// As [`verify_kernels_within`], with the limit of work that is the default.
///
/// # Errors
/// As [`verify_kernels_within`].
pub fn verify_kernels(
    program: &Program,
    file: &KernelFile,
    arch: &ScampArch,
) -> Result<Vec<Diagnostic>> {
    verify_kernels_within(program, file, arch, WorkLimit::default())
}

/// Compares what a program computes with the kernels of a file: analogue programs cell by cell, for
/// all images; digital ones by simulation on some images, which may cost `limit` altogether.
///
/// # Errors
/// As [`run`] and the simulator; `Q5054` for kernels that are too large, `Q5043` for programs whose
/// results cannot be compared.
pub fn verify_kernels_within(
    program: &Program,
    file: &KernelFile,
    arch: &ScampArch,
    limit: WorkLimit,
) -> Result<Vec<Diagnostic>> {
    match (file.mode, &file.digital) {
        (Mode::Analogue, _) => verify_analogue(program, file),
        (_, Some(layout)) => verify_digital(program, file, layout, arch, limit),
        (_, None) => Err(Diagnostic::bug("a kernel file without the places of its bits")),
    }
}

/// Every output register, cell by cell. The input channels are the registers that the file names.
fn verify_analogue(program: &Program, file: &KernelFile) -> Result<Vec<Diagnostic>> {
    let (depth, _) = file.approximation();
    let goals = file.goals(depth)?;
    let state = run(program, Level::Bus)?;
    let register = |name: &str| {
        Reg::new(name).ok_or_else(|| {
            Diagnostic::invalid("Q5052", format!("{name:?} is not the name of a register"))
        })
    };
    let inputs = file.inputs.iter().map(|name| register(name)).collect::<Result<Vec<_>>>()?;
    let unit = Ratio::from_parts(1.into(), 1_u64.checked_shl(depth).unwrap_or(u64::MAX).into());
    let mut problems = Vec::new();
    for (name, goal) in file.outputs().into_iter().zip(&goals.0) {
        let output = register(name)?;
        let mut wanted = Value::new();
        for (Cell { x, y, z }, count) in goal.cells() {
            let term = Term { source: inputs[z as usize], x, y };
            let old = wanted.remove(&term).unwrap_or(Ratio::ZERO);
            wanted.insert(term, old + &unit * Ratio::from(count));
        }
        wanted.retain(|_, factor| *factor != Ratio::ZERO);
        let value = state.value(output);
        if value != wanted {
            let found = Computed { output, value, inputs: inputs.clone() };
            let message = format!("{name} holds {}", found.describe());
            let wanted = Computed { output, value: wanted, inputs: inputs.clone() }.describe();
            problems.push(Diagnostic::answer("Q5042", format!("{message}, expected {wanted}")));
        }
    }
    Ok(problems)
}
