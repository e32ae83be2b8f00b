//! How long single operations take.

use crate::arch::DaisArch;
use crate::isa::Inst;
use crate::program::{Program, SlotType};
use crate::time;
use quincunx_num::Interval;

/// The delay of every operation: the time from its latest operand, as recorded in the program,
/// or by the model of `time` where nothing is recorded.
pub(super) fn delays(program: &Program) -> Vec<f64> {
    let is_recorded = program.operations.iter().any(|operation| operation.latency > 0.0);
    if is_recorded { recorded(program) } else { modelled(program) }
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

fn modelled(program: &Program) -> Vec<f64> {
    // Files may hold 0 as well, which would mean that nothing fits in a unit.
    let size = |size: i32| if size == 0 { -1 } else { size };
    let arch = DaisArch {
        name: String::new(),
        dialect: crate::isa::Dialect::D1,
        max_width: crate::arch::MAX_WIDTH,
        adder_size: size(program.adder_size),
        carry_size: size(program.carry_size),
    };
    let interval = |slot_type: SlotType| slot_type.interval().unwrap_or_else(Interval::zero);
    let intervals: Vec<Interval> =
        program.operations.iter().map(|operation| interval(operation.slot_type)).collect();
    let delay = |(index, operation): (usize, &crate::program::Operation)| {
        let operands: Vec<&Interval> =
            operation.inst.operands().map(|slot| &intervals[slot.0 as usize]).collect();
        finite(time::operation(&operation.inst, &intervals[index], &operands, &arch).0)
    };
    program.operations.iter().enumerate().map(delay).collect()
}
