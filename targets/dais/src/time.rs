//! Latency and cost of single operations: the model of da4ml 0.6.0 (`specs/dais.md` section 5), and
//! the stages of a pipeline in time.
//!
//! Latency is in the unit of `carry_size` (adder levels when it is unlimited), cost in the unit of
//! `adder_size` (bits of an adder when it is 1, adders when it is unlimited).

use crate::arch::DaisArch;
use crate::isa::{Inst, UnaryBits};
use crate::program::Program;
use quincunx_num::{Int, Interval, bit_length};
use quincunx_timeline::{Event, Timeline};

/// Stages of a pipeline, each of which takes one clock cycle for one inference; a program that is
/// no pipeline is one stage of combinational logic.
pub(crate) fn stages(stages: &[Program]) -> Timeline {
    let mut timeline = Timeline::new("cycles");
    let mut before = None;
    for (index, stage) in stages.iter().enumerate() {
        let lane = timeline.lane(format!("stage {index}"));
        let cost: f64 = stage.operations.iter().map(|operation| operation.cost).sum();
        let operations = stage.operations.len();
        let mut detail = format!("{operations} operations");
        // Machine code has neither latencies nor costs.
        if cost > 0.0 {
            detail += &format!(", latency {}, cost {cost}", latency(stage));
        }
        let name = "logic".to_owned();
        let event = timeline.event(Event { lane, start: index as u64, duration: 1, name, detail });
        if let Some(before) = before.replace(event) {
            timeline.depend(before, event, "data");
        }
    }
    let longest = stages.iter().map(latency).fold(0.0, f64::max);
    if longest > 0.0 {
        timeline.figure("latency of a stage", longest);
    }
    timeline
}

/// The latest output, in units of latency.
pub(crate) fn latency(stage: &Program) -> f64 {
    let sources = stage.outputs.iter().filter_map(|output| output.source);
    let latencies = sources.filter_map(|slot| Some(stage.operations.get(slot.0 as usize)?.latency));
    latencies.fold(0.0, f64::max)
}

/// Latency and cost of one operation with a result in `result` and operands in `operands`.
pub(crate) fn operation(
    inst: &Inst,
    result: &Interval,
    operands: &[&Interval],
    arch: &DaisArch,
) -> (f64, f64) {
    let width = f64::from(result.kif().width());
    let operand_width =
        |index: usize| operands.get(index).map_or(0.0, |i| f64::from(i.kif().width()));
    match *inst {
        Inst::Input { .. } | Inst::Constant { .. } | Inst::Quantise { .. } => (0.0, 0.0),
        Inst::QuantiseNegated { .. } => (0.0, width / 2.0),
        Inst::Add { shift, .. } | Inst::Sub { shift, .. } => adder(operands, shift, arch),
        Inst::Relu { .. } => (0.0, width),
        Inst::ReluNegated { .. } => (0.0, 2.0 * width),
        Inst::AddConstant { value, .. } => {
            (0.0, f64::from(bit_length(&Int::from(value.unsigned_abs()))))
        }
        Inst::Mux { shift, .. } | Inst::MuxNegated { shift, .. } => {
            // The condition comes last among the operands of a mux.
            let branches = &operands[..operands.len().min(2)];
            let (latency, cost) = adder(branches, shift.into(), arch);
            (latency, cost / 2.0)
        }
        Inst::Multiply { .. } => {
            let [x, y] =
                [0, 1].map(|i| operands.get(i).map_or((0.0, 0.0), |q| adder(&[q, q], 0, arch)));
            let (b0, b1) = (operand_width(0), operand_width(1));
            ((x.0 * b1).max(y.0 * b0), (x.1 * b1).min(y.1 * b0))
        }
        Inst::Lookup { .. } => {
            let bits = operand_width(0);
            let scale = if bits < 5.0 { bits / 5.0 } else { 1.0 };
            ((bits - 6.0).max(1.0), (bits - 5.0).max(0.0).exp2() * (width / 2.0).ceil() * scale)
        }
        Inst::Bits { op: UnaryBits::Not, .. } | Inst::BitsNegated { op: UnaryBits::Not, .. } => {
            (0.0, 0.0)
        }
        Inst::Bits { .. } | Inst::BitsNegated { .. } => (1.0, operand_width(0) / 6.0),
        Inst::Bitwise { .. } => (1.0, 0.2 * width),
    }
}

/// An adder of `x` and `y * 2^shift`.
fn adder(operands: &[&Interval], shift: i64, arch: &DaisArch) -> (f64, f64) {
    let &[x, y] = operands else {
        return (0.0, 0.0);
    };
    if arch.adder_size < 0 && arch.carry_size < 0 {
        return (1.0, 1.0);
    }
    let y = y.shifted(i32::try_from(shift).unwrap_or(0));
    let bits = adder_bits(x, &y);
    // One unlimited size of the two counts as a very large one.
    let size = |size: i32| if size < 0 { 65_535.0 } else { f64::from(size) };
    ((bits / size(arch.carry_size)).ceil(), (bits / size(arch.adder_size)).ceil())
}

/// Bits of an adder: a sign bit, the integer bits of the larger operand with its step added, and
/// the fraction bits down to the coarser step, below which nothing is added.
fn adder_bits(x: &Interval, y: &Interval) -> f64 {
    let signed = x.low() < &Int::ZERO || y.low() < &Int::ZERO;
    let coarser = x.exponent().max(y.exponent());
    let reach = |i: &Interval| {
        let low = if i.low() < &Int::ZERO { -i.low().clone() } else { i.low().clone() };
        let above = i.high() + Int::ONE;
        let above = if above < Int::ZERO { -above } else { above };
        // ceil(log2 n) is the bit length of n - 1.
        let bits = bit_length(&(low.max(above) - Int::ONE));
        i64::from(bits) + i64::from(i.exponent())
    };
    let integer = reach(x).max(reach(y));
    (f64::from(signed) + integer as f64 - f64::from(coarser)).max(0.0)
}
