//! A constant matrix as a program.

use super::cmvm::{self, Effort, Input, Problem, Settings, Solution};
use crate::isa::Inst;
use crate::program::{InputIndex, Operation, Output, Program, Slot, SlotType};
use crate::time::{Origin, model};
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::{Int, Interval};

/// The program of `y[j] = sum over i of x[i] * weights[i * columns + j]` for integers `x[i]` in
/// `inputs[i]`, both bounds included: inputs, additions and subtractions.
///
/// `depth_slack` are adder levels above the fewest possible, any number if absent. Costs and
/// latencies are those of da4ml's model, in bits and levels.
///
/// ```
/// use quincunx_dais::{Effort, constant_product, simulate::Executor};
///
/// // y = (5a + 3b, 5a - 3b): 5a and 3b take an adder each, the sums two more.
/// let program = constant_product(&[5, 5, 3, -3], 2, &[(-8, 7); 2], Effort::Fast, None)?;
/// let adders = program.operations.iter().filter(|o| o.inst.terms().count() == 2);
/// assert_eq!(adders.count(), 4);
/// assert_eq!(Executor::new(&program)?.run(&[7.0, -2.0])?, [29.0, 41.0]);
/// # Ok::<(), quincunx_diag::Diagnostic>(())
/// ```
///
/// # Errors
/// `Q1143` when weights and inputs do not fit each other, a
/// bound is above the other, or a number is too large: weights have at most 48 bits, results 120.
pub fn constant_product(
    weights: &[i64],
    columns: usize,
    inputs: &[(i64, i64)],
    effort: Effort,
    depth_slack: Option<u32>,
) -> Result<Program> {
    let settings = Settings::of(effort, depth_slack);
    let refused = |message: &str| Diagnostic::invalid("Q1143", message);
    if weights.len() != inputs.len().saturating_mul(columns) {
        return Err(refused("a product needs a weight for every input and column"));
    }
    if inputs.iter().any(|(low, high)| low > high) {
        return Err(refused("the lowest value of an input is above the highest"));
    }
    let known = inputs.iter().map(|&(low, high)| Input { low, high, latency: 0 }).collect();
    let problem = Problem::new(known, columns, weights.to_vec())
        .ok_or_else(|| refused("the numbers of the product are too large"))?;
    program_of(&problem, &cmvm::solve(&problem, &settings)?)
}

/// The program of an adder graph.
fn program_of(problem: &Problem, solution: &Solution) -> Result<Program> {
    let mut program = Program {
        input_shifts: vec![0; problem.inputs().len()],
        carry_size: -1,
        adder_size: 1,
        ..Program::default()
    };
    for (index, &Input { low, high, .. }) in problem.inputs().iter().enumerate() {
        let interval = Interval::new(low.into(), high.into(), 0);
        push(&mut program, Inst::Input { source: InputIndex::of(index) }, &interval);
    }
    for adder in &solution.adders {
        let (a, b, shift) = (slot(adder.a), slot(adder.b), i64::from(adder.shift));
        let inst = match adder.subtract {
            true => Inst::Sub { a, b, shift },
            false => Inst::Add { a, b, shift },
        };
        let (low, high) = (Int::from(adder.range.low), Int::from(adder.range.high));
        push(&mut program, inst, &Interval::new(low, high, adder.range.exponent));
    }
    program.outputs = solution.outputs.iter().map(output).collect();
    for (operation, time) in model(&program, Origin::Tracer)?.into_iter().enumerate() {
        let operation = &mut program.operations[operation];
        (operation.latency, operation.cost) = time;
    }
    Ok(program)
}

fn push(program: &mut Program, inst: Inst, interval: &Interval) {
    let slot_type = SlotType::of_interval(interval);
    program.operations.push(Operation { inst, slot_type, latency: 0.0, cost: 0.0 });
}

fn output(output: &Option<cmvm::Output>) -> Output {
    let zero = Output { source: None, shift: 0, negate: false };
    output.map_or(zero, |o| Output { source: Some(slot(o.node)), shift: o.shift, negate: o.negate })
}

fn slot(node: usize) -> Slot {
    Slot::of(node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Pipeline;
    use crate::rtl::Design;
    use crate::rtl::netlist::Cell;

    /// LUTs of a solution are the bits of the adders that its logic consists of.
    #[test]
    fn luts_are_bits_of_adders_in_the_netlist() {
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for round in 0..60 {
            let (rows, columns) = (1 + random(6) as usize, 1 + random(6) as usize);
            let weights = (0..rows * columns).map(|_| random(511) as i64 - 255).collect();
            let mut input = || {
                let low = random(300) as i64 - 200;
                Input { low, high: low + 1 + random(300) as i64, latency: 0 }
            };
            let inputs = (0..rows).map(|_| input()).collect();
            let problem = Problem::new(inputs, columns, weights).unwrap();
            let solution = cmvm::solve(&problem, &Settings::of(Effort::Fast, None)).unwrap();
            let mut program = program_of(&problem, &solution).unwrap();
            // Negating an output is a subtraction too.
            program.outputs.iter_mut().for_each(|output| output.negate = false);
            let design = Design::new(&Pipeline::from(program)).unwrap();
            let nets = design.stages()[0].nets().iter();
            let adders = nets.filter(|net| matches!(net.cell, Cell::Add(..) | Cell::Subtract(..)));
            let widths: u64 = adders.map(|net| u64::from(net.width)).sum();
            assert_eq!(solution.luts, widths, "round {round}");
        }
    }
}
