//! The proof that an adder graph computes its matrix: linear forms, recomputed exactly.

use super::system::Term;
use super::width::shifted;
use super::{Adder, Input, Output, Problem, Range, Solution};
use quincunx_diag::{Diagnostic, Result};

/// An adder whose range is not known yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bare {
    pub(super) a: usize,
    pub(super) b: usize,
    pub(super) shift: i32,
    pub(super) subtract: bool,
}

/// A sum of factors times inputs, times `2^exponent`.
#[derive(Default)]
struct Form {
    /// Inputs, in order, and their factors, none of them 0.
    factors: Vec<(u32, i128)>,
    exponent: i32,
}

impl Form {
    fn input(index: usize) -> Form {
        Form { factors: vec![(index as u32, 1)], exponent: 0 }
    }

    /// `a ± b * 2^shift`, without a common power of two; `None` when a factor is too large.
    fn sum(a: &Form, b: &Form, adder: &Bare) -> Option<Form> {
        let b_exponent = b.exponent.checked_add(adder.shift)?;
        let exponent = a.exponent.min(b_exponent);
        let (a_shift, b_shift) = (a.exponent - exponent, b_exponent - exponent);
        let of_a = |factor: i128| shifted(factor, a_shift);
        let of_b = |factor: i128| match adder.subtract {
            true => shifted(factor, b_shift)?.checked_neg(),
            false => shifted(factor, b_shift),
        };
        let mut factors = Vec::with_capacity(a.factors.len() + b.factors.len());
        let (mut left, mut right) = (a.factors.iter().peekable(), b.factors.iter().peekable());
        while let Some(row) = [left.peek(), right.peek()].into_iter().flatten().map(|f| f.0).min() {
            let x = left.next_if(|f| f.0 == row).map_or(Some(0), |f| of_a(f.1))?;
            let y = right.next_if(|f| f.0 == row).map_or(Some(0), |f| of_b(f.1))?;
            let factor = x.checked_add(y)?;
            if factor != 0 {
                factors.push((row, factor));
            }
        }
        let mut form = Form { factors, exponent };
        let common = form.factors.iter().fold(0, |all, f| all | f.1).trailing_zeros();
        if common < i128::BITS {
            form.factors.iter_mut().for_each(|f| f.1 >>= common);
            form.exponent += common as i32;
        }
        Some(form)
    }

    fn range(&self, problem: &Problem) -> Option<Range> {
        let (mut low, mut high) = (0_i128, 0_i128);
        for &(row, factor) in &self.factors {
            let input = &problem.inputs()[row as usize];
            let ends = [input.low, input.high].map(|end| factor.checked_mul(end.into()));
            let (first, second) = (ends[0]?, ends[1]?);
            low = low.checked_add(first.min(second))?;
            high = high.checked_add(first.max(second))?;
        }
        Some(Range { low, high, exponent: self.exponent })
    }

    /// Whether the form, shifted and negated, is a column of the matrix.
    fn equals(&self, output: &Output, problem: &Problem, column: usize) -> bool {
        let exponent = self.exponent + output.shift;
        let mut factors = self.factors.iter().peekable();
        let same = |row: usize| {
            let factor = factors.next_if(|f| f.0 as usize == row).map_or(0, |f| f.1);
            let factor = if output.negate { -factor } else { factor };
            let weight = i128::from(problem.weight(row, column));
            match exponent {
                0.. => shifted(factor, exponent) == Some(weight),
                _ => shifted(weight, -exponent) == Some(factor),
            }
        };
        (0..problem.inputs().len()).all(same)
    }
}

/// Adders and outputs that read each node: a form that nothing reads any more is dropped, since all
/// of them together fill the memory.
fn readers(inputs: usize, bare: &[Bare], outputs: &[Option<Term>]) -> Vec<u32> {
    let mut readers = vec![0; inputs + bare.len()];
    let operands = bare.iter().flat_map(|adder| [adder.a, adder.b]);
    let ends = outputs.iter().flatten().map(|term| term.node as usize);
    for node in operands.chain(ends) {
        if let Some(count) = readers.get_mut(node) {
            *count += 1;
        }
    }
    readers
}

/// Computes every linear form, compares those of the outputs with the columns of the matrix, and
/// adds what follows from the forms.
///
/// # Errors
/// A bug if anything is not as it should be.
pub(super) fn prove(
    problem: &Problem,
    bare: Vec<Bare>,
    outputs: &[Option<Term>],
) -> Result<Solution> {
    let bug = |what: &str| Diagnostic::bug(format!("an adder graph of the optimiser {what}"));
    let inputs = problem.inputs().len();
    let mut forms: Vec<Form> = (0..inputs).map(Form::input).collect();
    let mut ranges: Vec<Range> = problem.inputs().iter().map(Input::range).collect();
    let mut levels: Vec<u32> = problem.inputs().iter().map(|input| input.latency).collect();
    let mut readers = readers(inputs, &bare, outputs);
    let mut adders = Vec::with_capacity(bare.len());
    let (mut bits, mut luts) = (0, 0);
    for adder in bare {
        if adder.a.max(adder.b) >= forms.len() {
            return Err(bug("reads a node before it is made"));
        }
        let form = Form::sum(&forms[adder.a], &forms[adder.b], &adder)
            .ok_or_else(|| bug("has too large factors"))?;
        // Machines of dialect d0 cannot declare a coarser step than the operands have.
        let natural =
            ranges[adder.a].exponent.min(ranges[adder.b].exponent.saturating_add(adder.shift));
        let range = form.range(problem).and_then(|range| range.in_steps_of(natural));
        let range = range.ok_or_else(|| bug("has too large ranges"))?;
        let second = ranges[adder.b].scaled(adder.shift, false);
        let operands = [&ranges[adder.a], &second];
        bits += u64::from(operands[0].adder_bits(operands[1]));
        luts += u64::from(range.adder_luts(operands, adder.subtract));
        levels.push(levels[adder.a].max(levels[adder.b]) + 1);
        forms.push(form);
        ranges.push(range);
        for node in [adder.a, adder.b] {
            readers[node] -= 1;
            if readers[node] == 0 {
                forms[node] = Form::default();
            }
        }
        let Bare { a, b, shift, subtract } = adder;
        adders.push(Adder { a, b, shift, subtract, range });
    }
    if outputs.len() != problem.columns() {
        return Err(bug("has the wrong number of outputs"));
    }
    let mut depth = 0;
    let mut proved = Vec::with_capacity(outputs.len());
    for (column, output) in outputs.iter().enumerate() {
        let output = output.map(|term| Output {
            node: term.node as usize,
            shift: i32::from(term.shift),
            negate: term.negate,
        });
        let right = match &output {
            None => (0..inputs).all(|row| problem.weight(row, column) == 0),
            Some(output) => {
                output.node < forms.len() && forms[output.node].equals(output, problem, column)
            }
        };
        if !right {
            return Err(bug(&format!("does not compute column {column}")));
        }
        depth = depth.max(output.map_or(0, |output| levels[output.node]));
        proved.push(output);
    }
    Ok(Solution { adders, outputs: proved, depth, bits, luts, optimal: false })
}
