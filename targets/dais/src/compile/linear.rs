//! Sums of constant multiples: whole matrices, and single sums.
//!
//! A layer hands over its constant matrix once, and for every place of the result the rows that
//! meet the operands there. What was worked out for some operands holds wherever the ranges of the
//! operands are the same: a kernel is solved once and repeated at every pixel.

use super::builder::Builder;
use super::cmvm::{self, Input, Solution};
use super::number::{Number, common_unit, gcd, split};
use super::sums::sum;
use super::wire::Wire;
use crate::isa::Inst;
use crate::program::{InputIndex, Operation, Slot};
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::{Dyadic, Int, Interval, Ratio, bit_length};
use std::rc::Rc;

/// A constant matrix; a product with it has one result per column.
pub(super) struct Matrix {
    /// Number of the matrix within the compilation.
    id: usize,
    columns: usize,
    /// Row-major.
    entries: Vec<Dyadic>,
    /// What the results of each column are multiplied by.
    units: Vec<Ratio>,
    /// What is added to them then.
    addends: Vec<Ratio>,
}

/// Fewest bits of a common factor of a column that is taken out: scales that are not powers of two
/// have more, and small factors help adders.
pub(super) const MIN_UNIT_BITS: u32 = 8;

impl Matrix {
    /// A matrix and what is added to the results.
    pub(super) fn new(
        builder: &mut Builder<'_>,
        mut entries: Vec<Dyadic>,
        addends: Vec<Ratio>,
    ) -> Matrix {
        let columns = addends.len();
        let units = (0..columns).map(|column| take_unit(&mut entries, column, columns)).collect();
        builder.memory.matrices += 1;
        Matrix { id: builder.memory.matrices, columns, entries, units, addends }
    }

    fn row(&self, row: usize) -> &[Dyadic] {
        &self.entries[row * self.columns..][..self.columns]
    }
}

/// Divides a column by its common factor, if that is long.
fn take_unit(entries: &mut [Dyadic], column: usize, columns: usize) -> Ratio {
    let mut common = Int::ZERO;
    for entry in entries.iter().skip(column).step_by(columns) {
        common = gcd(common, entry.mantissa().clone());
        if common == Int::ONE {
            return Ratio::ONE;
        }
    }
    if bit_length(&common) < MIN_UNIT_BITS {
        return Ratio::ONE;
    }
    for entry in entries.iter_mut().skip(column).step_by(columns) {
        *entry = Dyadic::new(entry.mantissa() / &common, entry.exponent());
    }
    Ratio::from(common)
}

/// `sum over i of x[i] * matrix[rows[i]]`, with what is added, for every column.
///
/// # Errors
/// When an operation does not fit the machine, or an operand is a function without exact result.
pub(super) fn product(
    builder: &mut Builder<'_>,
    x: &[&Number],
    rows: &[usize],
    matrix: &Matrix,
) -> Result<Vec<Number>> {
    let exact: Vec<Number>;
    let plain = |x: &[&Number]| x.iter().all(|number| number.affine().is_some());
    let x: Vec<&Number> = if plain(x) {
        x.to_vec()
    } else {
        exact = x.iter().map(|x| super::exact::affine(builder, x)).collect::<Result<_>>()?;
        exact.iter().collect()
    };
    // What is known fits any unit, and is added like an offset.
    let unit = |number: &Number| number.affine().map_or(Ratio::ONE, |affine| affine.unit);
    let mut unknown = x.iter().filter(|number| number.known().is_none());
    let first = unknown.next().map_or(Ratio::ONE, |number| unit(number));
    if unknown.any(|number| unit(number) != first) {
        return mixed_product(builder, &x, rows, matrix);
    }
    let mut wires = Vec::with_capacity(x.len());
    let mut offsets = matrix.addends.clone();
    for (number, &row) in x.iter().zip(rows) {
        let (wire, offset) = match number.known() {
            Some(value) => (Wire::zero(), value),
            None => {
                (number.wire.clone(), number.affine().map_or(Ratio::ZERO, |affine| affine.offset))
            }
        };
        wires.push(wire);
        if !offset.is_zero() {
            for (column, entry) in matrix.row(row).iter().enumerate() {
                offsets[column] += &offset * entry.to_ratio() * &matrix.units[column];
            }
        }
    }
    let sums = wire_product(builder, &wires, rows, matrix)?;
    let scale = |(sum, (unit, offset)): (&Wire, (&Ratio, &Ratio))| {
        Number::scaled(builder, sum, &(&first * unit), offset)
    };
    sums.iter().zip(matrix.units.iter().zip(&offsets)).map(scale).collect()
}

/// Operands of different units: every result by itself.
fn mixed_product(
    builder: &mut Builder<'_>,
    x: &[&Number],
    rows: &[usize],
    matrix: &Matrix,
) -> Result<Vec<Number>> {
    let mut results = Vec::with_capacity(matrix.columns);
    for column in 0..matrix.columns {
        let term = |(number, &row): (&&Number, &usize)| Term {
            number: (*number).clone(),
            weight: matrix.row(row)[column].clone(),
        };
        let terms: Vec<Term> = x.iter().zip(rows).map(term).collect();
        let sum = combine(builder, &terms, &Ratio::ZERO)?;
        results.push(sum.rescaled(builder, &matrix.units[column], &matrix.addends[column])?);
    }
    Ok(results)
}

/// A number with a weight.
pub(super) struct Term {
    pub(super) number: Number,
    pub(super) weight: Dyadic,
}

/// `constant + sum of weight * number`.
///
/// # Errors
/// As [`product`].
pub(super) fn combine(
    builder: &mut Builder<'_>,
    terms: &[Term],
    constant: &Ratio,
) -> Result<Number> {
    let mut constant = constant.clone();
    let mut parts: Vec<(Wire, Ratio, Dyadic)> = Vec::with_capacity(terms.len());
    for Term { number, weight } in terms {
        if weight.is_zero() {
            continue;
        }
        let number = super::exact::affine(builder, number)?;
        // What is known has no unit that the others would have to share.
        if let Some(value) = number.known() {
            constant += value * weight.to_ratio();
            continue;
        }
        let affine = number.carried_out()?;
        if !affine.offset.is_zero() {
            constant += affine.offset * weight.to_ratio();
        }
        parts.push((number.wire, affine.unit, weight.clone()));
    }
    let mut unit = parts.first().map_or(Ratio::ONE, |part| part.1.clone());
    if parts.iter().any(|part| part.1 != unit) {
        let odd = |value: &Ratio| split(value).2;
        unit = parts.iter().fold(Ratio::ZERO, |unit, part| common_unit(&unit, &odd(&part.1)));
        for part in &mut parts {
            let factor = Dyadic::from_ratio(&(&part.1 / &unit));
            let factor = factor.ok_or_else(|| Diagnostic::bug("parts have no common unit"))?;
            part.2 = part.2.mul(&factor);
        }
    }
    let terms: Vec<(Wire, Dyadic)> =
        parts.into_iter().map(|(wire, _, weight)| (wire, weight)).collect();
    let total = sum(builder, &terms)?;
    Number::scaled(builder, &total, &unit, &constant)
}

/// One operand of a product as far as the product depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Operand {
    row: usize,
    range: Interval,
    shift: i32,
    negate: bool,
    /// Levels after the earliest operand.
    latency: u64,
}

/// Which product: what is worked out for one holds for every equal one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Problem {
    matrix: usize,
    operands: Vec<Operand>,
}

/// A solved product.
pub(super) struct Template {
    /// Operations on slots, of which the first ones are the operands.
    operations: Vec<(Operation, Interval)>,
    /// The results.
    outputs: Vec<Wire>,
    /// Their ranges.
    ranges: Vec<Interval>,
}

fn wire_product(
    builder: &mut Builder<'_>,
    x: &[Wire],
    rows: &[usize],
    matrix: &Matrix,
) -> Result<Vec<Wire>> {
    // Operands that are the same slot change the matrix; those that are known are zero.
    let mut slots: Vec<Slot> = Vec::with_capacity(x.len());
    let mut operands = Vec::with_capacity(x.len());
    let earliest = x.iter().map(|wire| builder.latency(wire)).fold(f64::INFINITY, f64::min);
    for (wire, &row) in x.iter().zip(rows) {
        let &Wire::Slot { slot, shift, negate } = wire else { continue };
        // Latencies are small whole numbers of adder levels.
        let latency = (builder.latency(wire) - earliest).round() as u64;
        let range = builder.interval(slot).clone();
        operands.push(Operand { row, range, shift, negate, latency });
        slots.push(slot);
    }
    let mut sorted = slots.clone();
    sorted.sort_unstable();
    let repeated = sorted.windows(2).any(|pair| pair[0] == pair[1]);
    if repeated {
        columns(builder, &slots, &operands, matrix)
    } else {
        let problem = Problem { matrix: matrix.id, operands };
        let template = match builder.memory.templates.get(&problem) {
            Some(template) => Rc::clone(template),
            None => {
                let template = Rc::new(solve(builder, &problem, matrix)?);
                builder.memory.templates.insert(problem, Rc::clone(&template));
                template
            }
        };
        template.place(builder, &slots)
    }
}

/// Every column as a sum of its own.
fn columns(
    builder: &mut Builder<'_>,
    slots: &[Slot],
    operands: &[Operand],
    matrix: &Matrix,
) -> Result<Vec<Wire>> {
    let wire = |(&slot, operand): (&Slot, &Operand)| Wire::Slot {
        slot,
        shift: operand.shift,
        negate: operand.negate,
    };
    let wires: Vec<Wire> = slots.iter().zip(operands).map(wire).collect();
    let column = |column: usize| {
        let entry = |operand: &Operand| matrix.row(operand.row)[column].clone();
        let terms: Vec<(Wire, Dyadic)> =
            wires.iter().cloned().zip(operands.iter().map(entry)).collect();
        sum(builder, &terms)
    };
    (0..matrix.columns).map(column).collect()
}

/// Works a product out on operands of its own.
fn solve(builder: &mut Builder<'_>, problem: &Problem, matrix: &Matrix) -> Result<Template> {
    let mut scratch = Builder::new(builder.arch, builder.settings);
    scratch.measuring = builder.measuring;
    let mut slots = Vec::with_capacity(problem.operands.len());
    for (index, operand) in problem.operands.iter().enumerate() {
        let source = InputIndex::of(index);
        let slot = scratch.push(Inst::Input { source }, operand.range.clone())?;
        if let Some(operation) = scratch.operations.last_mut() {
            operation.latency = operand.latency as f64;
        }
        slots.push(slot);
    }
    let solved = match scratch.measuring {
        true => None,
        false => adder_graph(builder, &problem.operands, matrix)?,
    };
    let outputs = match solved {
        Some(solved) => solved.build(&mut scratch, &slots)?,
        None => columns(&mut scratch, &slots, &problem.operands, matrix)?,
    };
    let ranges = outputs.iter().map(|wire| scratch.range(wire)).collect();
    let made = (slots.len()..scratch.operations.len()).map(Slot::of);
    let operation = |slot: Slot| {
        // Alone, without the way to its operands.
        let latency = scratch.delay_of(slot);
        let operation = Operation { latency, ..scratch.operations[slot.0 as usize].clone() };
        (operation, scratch.interval(slot).clone())
    };
    let operations = made.map(operation).collect();
    Ok(Template { operations, outputs, ranges })
}

/// The adder graph of a product of which some operands, those of the rows, are there.
pub(super) struct Solved {
    solution: Solution,
    /// Power of two of each column.
    exponents: Vec<i32>,
    /// Row, step and sign of every input.
    inputs: Vec<(usize, i32, bool)>,
}

/// Adder graphs of a matrix that are remembered.
const MAX_SOLVED: usize = 8;

impl Operand {
    /// Operands count in their steps, and may be negated.
    fn scale(&self) -> (usize, i32, bool) {
        (self.row, self.range.exponent() + self.shift, self.negate)
    }
}

/// The adder graph of a product: that of a product with more rows, or a new one; `None` when the
/// numbers are too large.
fn adder_graph(
    builder: &mut Builder<'_>,
    operands: &[Operand],
    matrix: &Matrix,
) -> Result<Option<Rc<Solved>>> {
    let inputs: Vec<(usize, i32, bool)> = operands.iter().map(Operand::scale).collect();
    let known = builder.memory.solved.get(&matrix.id).cloned().unwrap_or_default();
    // A bound on the depth depends on the latencies, so that every product is searched by itself.
    for base in known.iter().filter(|_| builder.settings.slack().is_none()) {
        let place = |&(row, step, negate): &(usize, i32, bool)| {
            let new = inputs.iter().position(|input| input.0 == row)?;
            Some((new, inputs[new].1 - step, inputs[new].2 != negate))
        };
        let kept: Vec<cmvm::Place> = base.inputs.iter().map(place).collect();
        if kept.iter().flatten().count() < inputs.len() {
            continue;
        }
        let Some(fewer) = integer_problem(operands, matrix, &base.exponents) else { continue };
        if let Some(mut solution) = cmvm::reuse(&base.solution, &kept, &fewer) {
            if inputs.len() < base.inputs.len() {
                solution = cmvm::improved(solution, &fewer, &builder.settings)?;
            }
            let exponents = base.exponents.clone();
            return Ok(Some(Rc::new(Solved { solution, exponents, inputs })));
        }
    }
    let exponents = column_exponents(operands, matrix);
    let Some(integers) = integer_problem(operands, matrix, &exponents) else { return Ok(None) };
    let solution = cmvm::solve(&integers, &builder.settings)?;
    let solved = Rc::new(Solved { solution, exponents, inputs });
    let all = builder.memory.solved.entry(matrix.id).or_default();
    if all.len() < MAX_SOLVED {
        all.push(Rc::clone(&solved));
    }
    Ok(Some(solved))
}

/// The power of two of which all products of a column are multiples.
fn column_exponents(operands: &[Operand], matrix: &Matrix) -> Vec<i32> {
    let mut exponents = vec![i32::MAX; matrix.columns];
    for operand in operands {
        let (row, step, _) = operand.scale();
        for (exponent, entry) in exponents.iter_mut().zip(matrix.row(row)) {
            if !entry.is_zero() {
                *exponent = (*exponent).min(entry.exponent() + step);
            }
        }
    }
    exponents
}

/// A product in integers; `None` when they are too large.
fn integer_problem(
    operands: &[Operand],
    matrix: &Matrix,
    exponents: &[i32],
) -> Option<cmvm::Problem> {
    let mut inputs = Vec::with_capacity(operands.len());
    let mut weights = Vec::with_capacity(operands.len() * matrix.columns);
    for operand in operands {
        let (low, high) =
            (operand.range.low().try_into().ok()?, operand.range.high().try_into().ok()?);
        inputs.push(Input { low, high, latency: u32::try_from(operand.latency).ok()? });
        let (row, step, negate) = operand.scale();
        for (&exponent, entry) in exponents.iter().zip(matrix.row(row)) {
            weights.push(if entry.is_zero() {
                0
            } else {
                let weight = i64::try_from(entry.in_units(exponent.checked_sub(step)?)?).ok()?;
                if negate { -weight } else { weight }
            });
        }
    }
    cmvm::Problem::new(inputs, matrix.columns, weights)
}

impl Solved {
    /// Its operations.
    fn build(&self, builder: &mut Builder<'_>, slots: &[Slot]) -> Result<Vec<Wire>> {
        // Nodes are integers, inputs counted in their steps.
        let input = |&slot: &Slot| Wire::of(slot).shifted(-builder.interval(slot).exponent());
        let mut nodes: Vec<Wire> = slots.iter().map(input).collect();
        for adder in &self.solution.adders {
            let b = nodes[adder.b].shifted(adder.shift);
            let b = if adder.subtract { b.negated() } else { b };
            let range = &adder.range;
            let range = Interval::new(range.low.into(), range.high.into(), range.exponent);
            nodes.push(builder.add_within(&nodes[adder.a].clone(), &b, range)?);
        }
        let outputs =
            self.solution.outputs.iter().zip(&self.exponents).map(|(output, exponent)| {
                output.map_or(Wire::zero(), |output| {
                    let node = nodes[output.node].shifted(output.shift + exponent);
                    if output.negate { node.negated() } else { node }
                })
            });
        Ok(outputs.collect())
    }
}

impl Template {
    /// The same operations on other operands.
    fn place(&self, builder: &mut Builder<'_>, operands: &[Slot]) -> Result<Vec<Wire>> {
        if builder.measuring {
            let wire = |(wire, range): (&Wire, &Interval)| match wire {
                Wire::Constant(_) => wire.clone(),
                Wire::Slot { .. } => Wire::of(builder.next_slot(range.clone())),
            };
            return Ok(self.outputs.iter().zip(&self.ranges).map(wire).collect());
        }
        let mut slots = operands.to_vec();
        let new = builder.end();
        for (operation, range) in &self.operations {
            let inst = operation.inst.map_operands(|slot| slots[slot.0 as usize]);
            slots.push(builder.repeat(operation, inst, range, new)?);
        }
        let wire = |wire: &Wire| match wire {
            Wire::Constant(_) => wire.clone(),
            &Wire::Slot { slot, shift, negate } => {
                Wire::Slot { slot: slots[slot.0 as usize], shift, negate }
            }
        };
        Ok(self.outputs.iter().map(wire).collect())
    }
}
