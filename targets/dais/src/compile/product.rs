//! A constant matrix as a program.

use super::cmvm::{self, Effort, Input, Problem, Settings, Solution};
use crate::isa::Inst;
use crate::program::{InputIndex, Operation, Output, Program, Slot, SlotType};
use crate::time::{Origin, model};
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::{Int, Interval};

/// Farthest power of two of steps and weights: that of the smallest float.
const MAX_EXPONENT: u32 = 1100;

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
    let known = |&(low, high): &(i64, i64)| ProductInput { low, high, exponent: 0, latency: 0.0 };
    let inputs: Vec<ProductInput> = inputs.iter().map(known).collect();
    let sizes = (1, -1);
    Product {
        weights,
        exponent: 0,
        columns,
        inputs: &inputs,
        effort,
        depth_slack,
        sizes,
        origin: Origin::Tracer,
    }
    .program()
}

/// What is known of an input of a product: its numbers are `low` to `high` times `2^exponent`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProductInput {
    /// Lowest number in steps.
    pub low: i64,
    /// Highest number in steps.
    pub high: i64,
    /// Power of two of the step.
    pub exponent: i32,
    /// Time after which it is there, in units of latency. The search takes whole ones for levels of adders.
    pub latency: f64,
}

/// The product `y[j] = sum over i of x[i] * weights[i * columns + j] * 2^exponent` of fixed-point numbers.
#[derive(Clone, Debug)]
pub struct Product<'a> {
    /// One row of whole numbers per input.
    pub weights: &'a [i64],
    /// Power of two of all weights.
    pub exponent: i32,
    /// Number of outputs.
    pub columns: usize,
    /// What is known of the inputs.
    pub inputs: &'a [ProductInput],
    /// How hard to search for few adders.
    pub effort: Effort,
    /// Adder levels above the fewest possible; any number if absent.
    pub depth_slack: Option<u32>,
    /// Bits of one unit of adder cost, and that a carry passes in one unit of latency; negative for
    /// unlimited.
    pub sizes: (i32, i32),
    /// How the bits of subtracters are counted.
    pub origin: Origin,
}

impl Product<'_> {
    /// The product as a program: inputs, additions and subtractions. An input that is always 0 is not read.
    ///
    /// # Errors
    /// As [`constant_product`]; weights are counted in units of the finest step of all inputs.
    pub fn program(&self) -> Result<Program> {
        let settings = Settings::of(self.effort, self.depth_slack);
        let finest = self.inputs.iter().map(|input| input.exponent).min().unwrap_or(0);
        let problem = self.problem(finest)?;
        let solution = cmvm::solve(&problem, &settings)?;
        let mut program = program_of(&solution, self.inputs, finest + self.exponent);
        (program.adder_size, program.carry_size) = self.sizes;
        for (operation, time) in model(&program, self.origin)?.into_iter().enumerate() {
            let operation = &mut program.operations[operation];
            (operation.latency, operation.cost) = time;
        }
        Ok(program)
    }

    /// The product of whole numbers, with weights for numbers of the finest step.
    fn problem(&self, finest: i32) -> Result<Problem> {
        let refused = |message: &str| Diagnostic::invalid("Q1143", message);
        if self.weights.len() != self.inputs.len().saturating_mul(self.columns) {
            return Err(refused("a product needs a weight for every input and column"));
        }
        if self.inputs.iter().any(|input| input.low > input.high) {
            return Err(refused("the lowest value of an input is above the highest"));
        }
        let exponents = self.inputs.iter().map(|input| input.exponent).chain([self.exponent]);
        if exponents.into_iter().any(|exponent| exponent.unsigned_abs() > MAX_EXPONENT) {
            return Err(refused("a step or the unit of the weights is too fine or too coarse"));
        }
        if !self.inputs.iter().all(|input| (0.0..=1e6).contains(&input.latency)) {
            return Err(refused("a latency is below 0, above 1000000 or no number"));
        }
        let large = || refused("the numbers of the product are too large");
        let mut weights = Vec::with_capacity(self.weights.len());
        for (row, input) in self.weights.chunks(self.columns.max(1)).zip(self.inputs) {
            let is_zero = (input.low, input.high) == (0, 0);
            let scale = i64::from(input.exponent) - i64::from(finest);
            for &weight in row {
                let weight = if is_zero { 0 } else { weight };
                weights.push(scaled(weight, scale).ok_or_else(large)?);
            }
        }
        let known = |input: &ProductInput| {
            let latency = input.latency.ceil() as u32;
            Input { low: input.low, high: input.high, latency }
        };
        let known = self.inputs.iter().map(known).collect();
        Problem::new(known, self.columns, weights).ok_or_else(large)
    }
}

/// `weight * 2^by`, if that is short.
fn scaled(weight: i64, by: i64) -> Option<i64> {
    if weight == 0 {
        return Some(0);
    }
    let factor = u32::try_from(by).ok().and_then(|by| 1_i64.checked_shl(by))?;
    weight.checked_mul(factor)
}

/// The program of an adder graph whose outputs count in units of `2^exponent`.
fn program_of(solution: &Solution, inputs: &[ProductInput], exponent: i32) -> Program {
    let units = units(solution, inputs);
    let mut program = Program { input_shifts: vec![0; inputs.len()], ..Program::default() };
    for (index, &ProductInput { low, high, exponent, latency }) in inputs.iter().enumerate() {
        let interval = Interval::new(low.into(), high.into(), exponent);
        push(&mut program, Inst::Input { source: InputIndex::of(index) }, &interval, latency);
    }
    for adder in &solution.adders {
        let [first, second] = [units[adder.a], units[adder.b]];
        let (a, b) = (slot(adder.a), slot(adder.b));
        let shift = i64::from(adder.shift) + i64::from(first) - i64::from(second);
        let inst = match adder.subtract {
            true => Inst::Sub { a, b, shift },
            false => Inst::Add { a, b, shift },
        };
        let (low, high) = (Int::from(adder.range.low), Int::from(adder.range.high));
        let interval = Interval::new(low, high, adder.range.exponent + first);
        push(&mut program, inst, &interval, 0.0);
    }
    let output = |found: &Option<cmvm::Output>| {
        let zero = Output { source: None, shift: 0, negate: false };
        found.map_or(zero, |o| {
            let shift = o.shift + exponent - units[o.node];
            Output { source: Some(slot(o.node)), shift, negate: o.negate }
        })
    };
    program.outputs = solution.outputs.iter().map(output).collect();
    program
}

/// Powers of two of the units in which nodes are counted: of a sum that of its first operand.
fn units(solution: &Solution, inputs: &[ProductInput]) -> Vec<i32> {
    let mut units: Vec<i32> = inputs.iter().map(|input| input.exponent).collect();
    for adder in &solution.adders {
        units.push(units[adder.a]);
    }
    units
}

fn push(program: &mut Program, inst: Inst, interval: &Interval, latency: f64) {
    let slot_type = SlotType::of_interval(interval);
    program.operations.push(Operation { inst, slot_type, latency, cost: 0.0 });
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
    use crate::simulate::Executor;

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
            let known = |input: &Input| ProductInput {
                low: input.low,
                high: input.high,
                exponent: 0,
                latency: 0.0,
            };
            let inputs: Vec<ProductInput> = problem.inputs().iter().map(known).collect();
            let mut program = program_of(&solution, &inputs, 0);
            // Negating an output is a subtraction too.
            program.outputs.iter_mut().for_each(|output| output.negate = false);
            let design = Design::new(&Pipeline::from(program)).unwrap();
            let nets = design.stages()[0].nets().iter();
            let adders = nets.filter(|net| matches!(net.cell, Cell::Add(..) | Cell::Subtract(..)));
            let widths: u64 = adders.map(|net| u64::from(net.width)).sum();
            assert_eq!(solution.luts, widths, "round {round}");
        }
    }

    /// Inputs with steps of their own, some of which are always 0 or one number, at several times.
    #[test]
    fn steps_and_latencies_are_those_of_the_inputs() {
        let inputs = [(-4, 3, -2, 0.0), (0, 0, 5, 0.0), (1, 6, 3, 2.5), (7, 7, 0, 1.0)];
        let known = |(low, high, exponent, latency)| ProductInput { low, high, exponent, latency };
        let inputs = inputs.map(known);
        let weights = [3, 0, -7, 5, 11, 13, 1, -1, 9, 10, 6, 0];
        let product = Product {
            weights: &weights,
            exponent: -3,
            columns: 3,
            inputs: &inputs,
            effort: Effort::Quick,
            depth_slack: None,
            sizes: (-1, -1),
            origin: Origin::Solver,
        };
        let program = product.program().unwrap();
        let mut executor = Executor::new(&program).unwrap();
        for (first, third) in (-4..4).flat_map(|x| (1..7).map(move |y| (x, y))) {
            let samples = [f64::from(first) / 4.0, 0.0, f64::from(third) * 8.0, 7.0];
            let column = |j: usize| -> f64 {
                (0..4).map(|i| samples[i] * weights[i * 3 + j] as f64 / 8.0).sum()
            };
            let expected: Vec<f64> = (0..3).map(column).collect();
            assert_eq!(executor.run(&samples).unwrap(), expected);
        }
        let latest = program.operations.iter().map(|operation| operation.latency);
        assert!(latest.fold(0.0, f64::max) >= 3.5);
        let refused = |inputs: &[ProductInput]| {
            Product { inputs, ..product.clone() }.program().unwrap_err().code()
        };
        let with = |change: fn(&mut ProductInput)| {
            let mut inputs = inputs;
            change(&mut inputs[0]);
            refused(&inputs)
        };
        assert_eq!(refused(&inputs[1..]), "Q1143");
        assert_eq!(with(|input| input.low = 4), "Q1143");
        assert_eq!(with(|input| input.exponent = 2000), "Q1143");
        assert_eq!(with(|input| input.exponent = 62), "Q1143");
        assert_eq!(with(|input| input.latency = f64::NAN), "Q1143");
    }
}
