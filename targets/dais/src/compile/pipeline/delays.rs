//! How long single operations take.

use crate::isa::Inst;
use crate::program::Program;
use crate::time;

/// The delay of every operation: the time from its latest operand, as recorded in the program,
/// or by the model of `time` where nothing is recorded.
pub(super) fn delays(program: &Program) -> Vec<f64> {
    let is_recorded = program.operations.iter().any(|operation| operation.latency > 0.0);
    if is_recorded {
        recorded(program)
    } else {
        time::singles(program).into_iter().map(|(delay, _)| delay).collect()
    }
}

fn recorded(program: &Program) -> Vec<f64> {
    let latency = |index: usize| finite(program.operations[index].latency);
    let delay = |(index, operation): (usize, &crate::program::Operation)| match operation.inst {
        Inst::Input { .. } | Inst::Constant { .. } => 0.0,
        inst => {
            let operands = inst.operands().map(|slot| latency(slot.0 as usize));
            (latency(index) - operands.fold(f64::NEG_INFINITY, f64::max)).max(0.0)
        }
    };
    program.operations.iter().enumerate().map(delay).collect()
}

/// Files may hold any float.
fn finite(latency: f64) -> f64 {
    if latency.is_finite() { latency } else { 0.0 }
}
