//! Registers for programs: one block of logic becomes the stages of a pipeline, each of which takes
//! no longer than a cutoff.
//!
//! [`schedule`] finds the fewest stages, the shortest cutoff that needs no more of them, and for
//! every operation the stage where registers hold the fewest bits; [`stages`] builds the programs.

mod delays;
mod registers;
mod schedule;
mod stages;

pub(crate) use registers::outgoing_bits;
pub use registers::register_bits;

use crate::program::{Pipeline, Program, Slot};
use crate::verify::ranges::Ranges;
use crate::verify::{Rules, verify};
use quincunx_diag::{Diagnostic, Result, first_error};
use schedule::{Logic, Schedule};

/// Most stages: more registers in a row than any device has, and few enough that values which
/// cross all of them do not fill the memory.
const MAX_STAGES: usize = 1 << 12;

/// Most values that cross from stage to stage, counted once per crossing.
const MAX_CROSSINGS: u64 = 1 << 22;

/// How to divide a program into stages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cutoff {
    /// Longest latency of a stage, in units of the program's latencies: adder levels where these
    /// are counted. Where an operation takes longer or multiplies variables, some stages may.
    pub latency: f64,
    /// Whether stages are balanced, and operations moved to where registers hold fewer bits.
    pub retiming: bool,
}

/// A program in stages.
#[derive(Clone, Debug)]
pub struct Staged {
    /// The stages.
    pub pipeline: Pipeline,
    /// Stage and slot of every operation of the program; `None` for those that no output and no
    /// root needs.
    pub places: Vec<Option<(usize, Slot)>>,
    /// The longest latency of a stage.
    pub latency: f64,
    /// `Q1163`: values that may leave their types where a register holds them; `Q1160`: a stage
    /// that is longer than the cutoff.
    pub warnings: Vec<Diagnostic>,
}

/// Divides a program into stages. What `roots` names is kept besides the outputs.
///
/// # Errors
/// The first error of [`verify`]; `Q1162` for too many stages or values that cross them, `Q1164` for
/// a program with registers.
pub fn to_pipeline(program: &Program, cutoff: Cutoff, roots: &[Slot]) -> Result<Staged> {
    first_error(verify(program, &Rules::EXECUTABLE))?;
    if !program.state.is_empty() {
        let message = "a program with registers of its own cannot be divided into stages";
        return Err(Diagnostic::unsupported("Q1164", message)
            .help("leave --latency-cutoff out: a step must end before the next one begins"));
    }
    let logic = Logic::new(program, roots);
    let too_many = || {
        let message = format!("a cutoff of {} needs too many registers", cutoff.latency);
        Err(Diagnostic::unsupported("Q1162", message).help("choose a longer cutoff"))
    };
    let first = Schedule::fewest(&logic, cutoff.latency);
    // Retiming takes long over stages, and makes no fewer of them.
    if first.stages() > MAX_STAGES {
        return too_many();
    }
    let schedule = if cutoff.retiming { schedule::retime(&logic, first) } else { first };
    if schedule.crossings(&logic) > MAX_CROSSINGS {
        return too_many();
    }
    let mut warnings = cut_off(program, &logic, &schedule);
    warnings.extend(longer(&logic, cutoff.latency, schedule.longest()));
    Ok(Staged { warnings, ..stages::build(program, &logic, &schedule) })
}

/// The delay of the slowest operation that outputs need, in units of latency.
pub(crate) fn slowest(program: &Program) -> f64 {
    Logic::new(program, &[]).slowest().map_or(0.0, |(_, delay)| delay)
}

/// Says that a stage is longer than the cutoff.
fn longer(logic: &Logic, cutoff: f64, longest: f64) -> Option<Diagnostic> {
    let (slot, delay) = logic.slowest().filter(|_| longest > cutoff + EPSILON)?;
    let message = format!("the longest stage takes {longest}, the cutoff is {cutoff}");
    Some(
        Diagnostic::warning("Q1160", message)
            .at(quincunx_diag::Place::Instruction(slot))
            .with_note(format!("the slowest operation takes {delay}, and stays whole")),
    )
}

/// A register has the bits of a value's type. Results that may leave theirs are kept by the executor
/// within a stage, and cut off between two.
fn cut_off(program: &Program, logic: &Logic, schedule: &Schedule) -> Vec<Diagnostic> {
    let overflows = Ranges::of(program, None).overflows;
    let crosses = |slot: usize| schedule.last_use(logic, slot) > schedule.stage[slot];
    let crossing: Vec<usize> =
        overflows.into_iter().map(|(slot, _)| slot).filter(|&slot| crosses(slot)).collect();
    let Some(&first) = crossing.first() else { return Vec::new() };
    let count = crossing.len();
    let message = format!(
        "values of {count} operations may leave their types where registers hold them, and are cut \
         off there"
    );
    vec![Diagnostic::warning("Q1163", message).at(quincunx_diag::Place::Instruction(first))]
}

/// Sums of latencies this far apart are equal, as for da4ml.
const EPSILON: f64 = 1e-9;
