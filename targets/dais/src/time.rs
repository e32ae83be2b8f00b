//! Latency and cost of single operations: the model of da4ml 0.6.0 (`da4ml` in
//! `docs/bibliography.md`), and the stages of a pipeline in time.
//!
//! Latency is in the unit of `carry_size` (adder levels when it is unlimited), cost in the unit of
//! `adder_size` (bits of an adder when it is 1, adders when it is unlimited).

#![deny(clippy::wildcard_enum_match_arm)]

use crate::arch::DaisArch;
use crate::isa::{Inst, UnaryBits};
use crate::program::{Operation, Pipeline, Program};
use crate::verify::{Rules, verify};
use quincunx_diag::{Result, first_error};
use quincunx_num::{Int, Interval, bit_length};
use quincunx_timeline::{Event, Timeline};
use std::borrow::Cow;

/// Stages of a pipeline, each of which takes one clock cycle for one inference; a program that is
/// no pipeline is one stage of combinational logic.
pub(crate) fn stages(stages: &[Program]) -> Timeline {
    let mut timeline = Timeline::new("cycles");
    let mut before = None;
    for (index, stage) in stages.iter().enumerate() {
        let lane = timeline.lane(format!("stage {index}"));
        let cost: f64 = stage.operations.iter().map(|operation| operation.cost).sum();
        let operations = stage.operations.len();
        let latency = stage_latency(stage);
        let detail = format!("{operations} operations, latency {latency}, cost {cost}");
        let name = "logic".to_owned();
        let event = timeline.event(Event { lane, start: index as u64, duration: 1, name, detail });
        if let Some(before) = before.replace(event) {
            timeline.depend(before, event, "data");
        }
    }
    let longest = stages.iter().map(stage_latency).fold(0.0, f64::max);
    if longest > 0.0 {
        timeline.figure("latency of a stage", longest);
    }
    timeline
}

/// The stages with latencies and costs: by the model where the file has none, as machine code.
/// The stages need not be legal.
pub(crate) fn timed(pipeline: &Pipeline) -> Cow<'_, Pipeline> {
    let mut operations = pipeline.stages.iter().flat_map(|stage| &stage.operations);
    if operations.any(|operation| operation.latency != 0.0 || operation.cost != 0.0) {
        return Cow::Borrowed(pipeline);
    }
    let mut start = 0.0;
    let timed = |stage: &Program| {
        let mut timed = stage.clone();
        for (index, (delay, cost)) in singles(stage).into_iter().enumerate() {
            let operation = &timed.operations[index];
            let operands = operation.inst.operands().map(|slot| slot.0 as usize);
            let before = operands.filter(|&operand| operand < index);
            let before = before.map(|operand| timed.operations[operand].latency);
            let is_constant = matches!(operation.inst, Inst::Constant { .. });
            let begin = if is_constant { 0.0 } else { before.fold(start, f64::max) };
            let operation = &mut timed.operations[index];
            (operation.latency, operation.cost) = (begin + delay, cost);
        }
        start = latency(&timed).max(start);
        timed
    };
    Cow::Owned(Pipeline { stages: pipeline.stages.iter().map(timed).collect() })
}

/// Latency and cost of every operation alone, by the model with the program's own sizes. The program
/// need not be legal.
pub(crate) fn singles(program: &Program) -> Vec<(f64, f64)> {
    // Files may hold sizes of 0, with which nothing fits in a unit.
    let size = |size: i32| if size == 0 { -1 } else { size };
    let (adder, carry) = (size(program.adder_size), size(program.carry_size));
    let sizes = Sizes { adder, carry, origin: Origin::Tracer };
    let zero = Interval::zero();
    let interval = |operation: &Operation| operation.slot_type.interval();
    let intervals: Vec<Option<Interval>> = program.operations.iter().map(interval).collect();
    let known = |index: usize| intervals.get(index).and_then(Option::as_ref).unwrap_or(&zero);
    let single = |(index, Operation { inst, .. }): (usize, &Operation)| {
        let operands: Vec<&Interval> = inst.operands().map(|slot| known(slot.0 as usize)).collect();
        let (latency, cost) = single(inst, known(index), &operands, sizes);
        (if latency.is_finite() { latency } else { 0.0 }, cost)
    };
    program.operations.iter().enumerate().map(single).collect()
}

/// From the first input of a stage to its latest output, in units of latency.
pub(crate) fn stage_latency(stage: &Program) -> f64 {
    let inputs = stage.operations.iter().filter(|o| matches!(o.inst, Inst::Input { .. }));
    let begin = inputs.map(|operation| operation.latency).fold(f64::INFINITY, f64::min);
    let begin = if begin.is_finite() { begin } else { 0.0 };
    (latency(stage) - begin).max(0.0)
}

/// The latest output, in units of latency.
pub(crate) fn latency(stage: &Program) -> f64 {
    let sources = stage.outputs.iter().filter_map(|output| output.source);
    let latencies = sources.filter_map(|slot| Some(stage.operations.get(slot.0 as usize)?.latency));
    latencies.fold(0.0, f64::max)
}

/// The two ways in which da4ml 0.6.0 counts the bits of a subtracter, whose operand is negated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Programs of the tracer: the interval of the operand is negated.
    Tracer,
    /// Programs of the solver of constant matrices: its bounds change places, but not their signs,
    /// and the sign bit is that of the operand itself.
    Solver,
}

/// Latencies and costs of all operations in the model of da4ml 0.6.0, as its programs record them,
/// with the program's own sizes of carries and adders. Inputs and constants keep the latencies they
/// have; a latency is the time from the inputs of the program on.
///
/// # Errors
/// The first error of [`verify`].
pub fn model(program: &Program, origin: Origin) -> Result<Vec<(f64, f64)>> {
    first_error(verify(program, &Rules::EXECUTABLE))?;
    let sizes = Sizes { adder: program.adder_size, carry: program.carry_size, origin };
    let interval = |operation: &Operation| operation.slot_type.interval();
    let intervals: Vec<Interval> =
        program.operations.iter().map(|o| interval(o).unwrap_or_else(Interval::zero)).collect();
    let mut times: Vec<(f64, f64)> = Vec::with_capacity(intervals.len());
    for (index, Operation { inst, latency, .. }) in program.operations.iter().enumerate() {
        let operands: Vec<usize> = inst.operands().map(|slot| slot.0 as usize).collect();
        // A constant is there from the start, whatever latency was recorded for it.
        let is_constant =
            |slot: usize| matches!(program.operations[slot].inst, Inst::Constant { .. });
        let latest = operands.iter().filter(|&&slot| !is_constant(slot));
        let latest = latest.map(|&slot| times[slot].0).fold(0.0, f64::max);
        let ranges: Vec<&Interval> = operands.iter().map(|&slot| &intervals[slot]).collect();
        let (own, cost) = single(inst, &intervals[index], &ranges, sizes);
        let is_source = matches!(inst, Inst::Input { .. } | Inst::Constant { .. });
        times.push((if is_source { *latency } else { latest + own }, cost));
    }
    Ok(times)
}

/// Bits of one unit of adder cost, and that a carry passes in one unit of latency; negative for
/// unlimited.
#[derive(Clone, Copy)]
struct Sizes {
    adder: i32,
    carry: i32,
    origin: Origin,
}

/// Latency and cost of one operation with a result in `result` and operands in `operands`.
pub(crate) fn operation(
    inst: &Inst,
    result: &Interval,
    operands: &[&Interval],
    arch: &DaisArch,
) -> (f64, f64) {
    let DaisArch { adder_size: adder, carry_size: carry, .. } = *arch;
    single(inst, result, operands, Sizes { adder, carry, origin: Origin::Tracer })
}

fn single(inst: &Inst, result: &Interval, operands: &[&Interval], arch: Sizes) -> (f64, f64) {
    let width = f64::from(result.kif().width());
    let operand_width =
        |index: usize| operands.get(index).map_or(0.0, |i| f64::from(i.kif().width()));
    match *inst {
        Inst::Input { .. } | Inst::Constant { .. } | Inst::Quantise { .. } => (0.0, 0.0),
        Inst::QuantiseNegated { .. } | Inst::Negate { .. } => (0.0, width / 2.0),
        Inst::QuantiseShifted { .. } => (0.0, 0.0),
        Inst::Add { shift, .. } => adder(operands, shift, false, arch),
        Inst::Sub { shift, .. } => adder(operands, shift, true, arch),
        Inst::Relu { .. } => (0.0, width / 2.0),
        Inst::ReluNegated { .. } => (0.0, width),
        Inst::AddConstant { value, .. } | Inst::AddScaled { value, .. } => {
            // Zeros at the end of a constant take no adder.
            let odd = value.unsigned_abs() >> value.trailing_zeros().min(63);
            (0.0, f64::from(bit_length(&Int::from(odd))))
        }
        Inst::Sum { .. } => sum(inst, operands, arch),
        Inst::Mux { shift, .. } | Inst::MuxNegated { shift, .. } => {
            // The condition comes last among the operands of a mux.
            let branches = &operands[..operands.len().min(2)];
            let negate = matches!(inst, Inst::MuxNegated { .. });
            let (latency, cost) = adder(branches, shift.into(), negate, arch);
            (latency, cost / 2.0)
        }
        Inst::Multiply { .. } => {
            let [x, y] = [0, 1]
                .map(|i| operands.get(i).map_or((0.0, 0.0), |q| adder(&[q, q], 0, false, arch)));
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

/// A sum of three operands: an adder of the first two, and one of their sum and the third.
fn sum(inst: &Inst, operands: &[&Interval], arch: Sizes) -> (f64, f64) {
    let shifted: Vec<Interval> = inst
        .terms()
        .zip(operands)
        .map(|((_, shift, negate), operand)| {
            let operand = operand.shifted(i32::try_from(shift).unwrap_or(0));
            if negate { operand.negated() } else { operand }
        })
        .collect();
    let [a, b, c] = &shifted[..] else { return (0.0, 0.0) };
    let (first, second) = (adder(&[a, b], 0, false, arch), adder(&[&a.plus(b), c], 0, false, arch));
    (first.0 + second.0, first.1 + second.1)
}

/// An adder of `x` and `y * 2^shift`, or a subtracter.
fn adder(operands: &[&Interval], shift: i64, subtract: bool, arch: Sizes) -> (f64, f64) {
    let &[x, y] = operands else {
        return (0.0, 0.0);
    };
    if arch.adder < 0 && arch.carry < 0 {
        return (1.0, 1.0);
    }
    let y = y.shifted(i32::try_from(shift).unwrap_or(0));
    let bits = adder_bits(x, &y, subtract.then_some(arch.origin));
    // One unlimited size of the two counts as a very large one.
    let size = |size: i32| if size < 0 { 65_535.0 } else { f64::from(size) };
    ((bits / size(arch.carry)).ceil(), (bits / size(arch.adder)).ceil())
}

/// Bits of an adder: a sign bit, the integer bits of the larger operand with its step added, and
/// the fraction bits down to the coarser step, below which nothing is added. What is subtracted
/// counts as its tool has it.
fn adder_bits(x: &Interval, y: &Interval, subtracted: Option<Origin>) -> f64 {
    let negated = y.negated();
    let (low, high, is_negative) = match subtracted {
        None => (y.low(), y.high(), y.low() < &Int::ZERO),
        Some(Origin::Tracer) => (negated.low(), negated.high(), negated.low() < &Int::ZERO),
        Some(Origin::Solver) => (y.high(), y.low(), y.low() < &Int::ZERO),
    };
    let coarser = x.exponent().max(y.exponent());
    let magnitude = |bound: Int| if bound < Int::ZERO { -bound } else { bound };
    let reach = |low: &Int, high: &Int, exponent: i32| {
        let most = magnitude(low.clone()).max(magnitude(high + Int::ONE));
        // ceil(log2 n) is the bit length of n - 1.
        i64::from(bit_length(&(most - Int::ONE))) + i64::from(exponent)
    };
    let integer = reach(x.low(), x.high(), x.exponent()).max(reach(low, high, y.exponent()));
    let signed = x.low() < &Int::ZERO || is_negative;
    (f64::from(signed) + integer as f64 - f64::from(coarser)).max(0.0)
}
