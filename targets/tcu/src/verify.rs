//! Legality and hazard rules. Facts: `tensil`, `tensil-doc` (`docs/bibliography.md`).

mod dataflow;
mod race;
mod rules;
mod touched;

pub use dataflow::dataflow;
pub use race::races;

use crate::binary::Coder;
use crate::program::Program;
use quincunx_diag::{Diagnostic, Place, Problems};

/// What is asked of a program besides legality.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Instructions that must lie between a SIMD instruction that writes an accumulator and a move
    /// out of the accumulators. `tensil-doc` 3.4 advises 2; upstream's compiler does not keep it.
    pub simd_write_gap: u64,
    /// The host sends a probe, for which it needs the last two vectors of DRAM0.
    pub flush_probe: bool,
}

/// The problems of a program, in the order of instructions; errors mean that it is not legal.
///
/// | code | rule |
/// |---|---|
/// | Q3010 to Q3012 | the machine has the thread, the instruction and the table |
/// | Q2103, Q3021, Q3022 | the operands fit their fields |
/// | Q3040 | every vector exists, strides included |
/// | Q3041 | zeroes for the weights are fewer than local memory is deep |
/// | Q3042 | no row is pushed out of the array by its own instruction (warning) |
/// | Q3043 | strides are below the machine's depth |
/// | Q3044 | registers exist |
/// | Q3045 | a lookup has registers for all its results |
/// | Q3046 | what is read is a source |
/// | Q3047 | accumulating needs writing (warning) |
/// | Q3048 | configuration registers are used ones (warning) |
/// | Q3049 | configuration values fit their register |
/// | Q3051 | the distance from SIMD writes to moves, where asked for |
/// | Q3052 | two threads never race |
/// | Q3053 | the vectors of the flush probe are left alone (warning) |
/// | Q3055 | tables are loaded before they are looked up (warning) |
/// | Q3056 | whether threads race can be found out |
///
/// [`dataflow`] has more rules for programs with a description.
pub fn verify(program: &Program, rules: &Rules) -> Vec<Diagnostic> {
    let coder = match Coder::new(&program.arch) {
        Ok(coder) => coder,
        Err(problem) => return vec![problem],
    };
    let mut checker = rules::Checker::new(program, rules);
    let mut problems = Problems::default();
    for (index, step) in program.steps.iter().enumerate() {
        let mut found = Vec::new();
        // Encoding knows what the machine has and what its fields hold.
        found.extend(coder.encode(step).err());
        if found.is_empty() {
            checker.step(index, step, &mut found);
        }
        let place = || Place::Instruction(index);
        problems.extend(found.into_iter().map(|problem| problem.at(place())));
    }
    // Whether threads race is a question about programs that are legal otherwise.
    if program.arch.number_of_threads > 1 && !problems.any_error() {
        problems.extend(races(program));
    }
    problems.finish()
}
