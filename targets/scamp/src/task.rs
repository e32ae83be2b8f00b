//! What a search is asked for: kernels, where their inputs are, where their results go, and which
//! registers and macros there are. Every search takes a task and gives a program, and no program
//! leaves without [`Wanted::check`].

use crate::arch::ScampArch;
use crate::files::KernelFile;
use crate::goal::{Bag, Cell, Goal, MAX_OFFSET};
use crate::isa::Reg;
use crate::program::Program;
use crate::symbolic::{Computed, Level, Term, Value, run};
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::Ratio;
use std::collections::BTreeSet;

/// Kernels that outputs are to hold.
///
/// Invariants: there are as many goals as outputs; every channel of a goal has an input.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// What the outputs are to hold, in units of `2^-depth` of the inputs.
    pub goals: Bag,
    /// The exponent of the unit.
    pub depth: u32,
    /// The register of each input channel.
    pub inputs: Vec<Reg>,
    /// The register of each goal.
    pub outputs: Vec<Reg>,
}

/// What is wanted, and what a program for it may use.
///
/// Invariants, as [`Task::new`] checks them: those of [`Wanted`]; the machine has all registers; no
/// list has one twice; every output is in the pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// What is to be computed.
    pub wanted: Wanted,
    /// Registers that a program may write, the outputs first. An input outside of it is read only.
    pub pool: Vec<Reg>,
    /// Row names of the macros that a program may use.
    pub macros: BTreeSet<&'static str>,
}

impl Wanted {
    /// What an analogue kernel file asks for.
    ///
    /// # Errors
    /// `Q5052` for what is not the name of a register, `Q5054` when a count is too large.
    pub fn of_file(file: &KernelFile) -> Result<Wanted> {
        let (depth, _) = file.approximation();
        let inputs = registers(file.inputs.iter().map(String::as_str))?;
        Ok(Wanted { goals: file.goals(depth)?, depth, inputs, outputs: registers(file.outputs())? })
    }

    /// The values that the outputs are to have.
    pub fn values(&self) -> Vec<Value> {
        let unit = 1_u64.checked_shl(self.depth).unwrap_or(u64::MAX);
        let unit = Ratio::from_parts(1.into(), unit.into());
        let term = |(Cell { x, y, z }, count): (Cell, i64)| {
            (Term { source: self.inputs[z as usize], x, y }, &unit * Ratio::from(count))
        };
        self.goals.0.iter().map(|goal| goal.cells().map(term).collect()).collect()
    }

    /// What is wrong with the results of a program, by its bus steps, for all images.
    ///
    /// # Errors
    /// As [`run`].
    pub fn check(&self, program: &Program) -> Result<Vec<Diagnostic>> {
        let state = run(program, Level::Bus)?;
        let words =
            |output, value| Computed { output, value, inputs: self.inputs.clone() }.describe();
        let mut problems = Vec::new();
        for (&output, wanted) in self.outputs.iter().zip(self.values()) {
            let value = state.value(output);
            if value != wanted {
                let message = format!("{output} holds {}", words(output, value));
                let message = format!("{message}, expected {}", words(output, wanted));
                problems.push(Diagnostic::answer("Q5042", message));
            }
        }
        Ok(problems)
    }
}

impl Task {
    /// Checks the invariants; the macros are all that the machine has.
    ///
    /// # Errors
    /// `Q5020` for registers that the machine lacks, `Q5052` for a list that breaks an invariant,
    /// `Q5054` for a kernel that reaches too far.
    pub fn new(wanted: Wanted, pool: Vec<Reg>, arch: &ScampArch) -> Result<Task> {
        let Wanted { goals, inputs, outputs, .. } = &wanted;
        let mut all = inputs.iter().chain(outputs).chain(&pool);
        if let Some(register) = all.find(|register| !arch.is_general(**register)) {
            let message = format!("{} has no analogue register {register}", arch.name);
            let names: Vec<String> = arch.analogue.iter().map(Reg::to_string).collect();
            let help = format!("it has {}", names.join(" "));
            return Err(Diagnostic::invalid("Q5020", message).help(help));
        }
        for (what, list) in [("inputs", inputs), ("outputs", outputs), ("registers", &pool)] {
            let twice = |(index, register): &(usize, &Reg)| list[..*index].contains(register);
            if let Some((_, register)) = list.iter().enumerate().find(twice) {
                let message = format!("{register} is among the {what} twice");
                return Err(Diagnostic::invalid("Q5052", message));
            }
        }
        let channels = goals.0.iter().flat_map(Goal::cells).map(|(cell, _)| cell.z);
        let channels = channels.max().map_or(0, |z| u64::from(z).saturating_add(1));
        if channels > inputs.len() as u64 {
            let message =
                format!("the kernels have {channels} channels, there are {} inputs", inputs.len());
            return Err(Diagnostic::invalid("Q5052", message));
        }
        if !goals.0.iter().all(Goal::is_near) {
            let message = format!("a kernel reaches further than {MAX_OFFSET} elements");
            return Err(Diagnostic::unsupported("Q5054", message));
        }
        if goals.0.len() != outputs.len() || outputs.iter().any(|output| !pool.contains(output)) {
            let message =
                format!("{} kernels for {} outputs in the pool", goals.0.len(), outputs.len());
            return Err(Diagnostic::invalid("Q5052", message));
        }
        Ok(Task { wanted, pool, macros: arch.macros.clone() })
    }

    /// What an analogue kernel file asks for on a machine.
    ///
    /// # Errors
    /// As [`Task::new`], and `Q5054` when a count is too large.
    pub fn of_file(file: &KernelFile, arch: &ScampArch) -> Result<Task> {
        let pool = registers(file.registers.iter().map(String::as_str))?;
        Task::new(Wanted::of_file(file)?, pool, arch)
    }
}

fn registers<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Vec<Reg>> {
    let register = |name: &str| {
        let message = || format!("{name:?} is not the name of a register");
        Reg::new(name).ok_or_else(|| Diagnostic::invalid("Q5052", message()))
    };
    names.into_iter().map(register).collect()
}
