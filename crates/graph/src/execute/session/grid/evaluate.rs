//! Expressions as f32, as exact numbers, and as integers.

use super::super::build::Builder;
use super::super::data::{Data, Ints, Layout, Slot, Store};
use super::super::field::Field;
use super::super::threads::Threads;
use super::super::value::{Expr, Form, GridValue};
use super::program::{CHUNK, Evaluation, Program};
use crate::ValueId;
use crate::execute::exact::ExactTensor;
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::{Dyadic, Int, Ratio};
use std::sync::Arc;

impl Builder<'_> {
    /// An expression in f64, rounded to f32.
    pub(in super::super) fn evaluate_real(
        &mut self,
        value: ValueId,
        expr: &Arc<Expr>,
        layout: Layout,
    ) -> Result<Slot> {
        let Some(program) = Program::new(expr, self.shape(value)) else {
            return self.exact_as_real(value, expr, layout);
        };
        if program.layout != layout {
            let own = self.real(value, program.layout)?;
            return self.turn_real(value, own, layout);
        }
        let reads = self.leaf_slots(value, expr, layout)?;
        let kernel = move |threads: &Threads, data: Vec<Arc<Data>>| {
            let evaluation = program.bind(&data)?;
            let mut out = vec![0.0_f32; program.elements];
            let part = threads.part_size(out.len(), CHUNK, out.len() as u64 * 2);
            threads.each(out.chunks_mut(part).enumerate(), |(index, out)| {
                each_chunk(&evaluation, index * part, out, |number| number as f32);
            });
            Ok(Data::Floats(out))
        };
        self.emit(value, reads, Box::new(kernel))
    }

    /// For numbers beyond the range in which f64 is trusted.
    fn exact_as_real(&mut self, value: ValueId, expr: &Arc<Expr>, layout: Layout) -> Result<Slot> {
        let exact = self.evaluate_exact(value, expr)?;
        let convert = |exact: &ExactTensor| {
            Data::Floats(exact.to_f64().into_iter().map(|v| v as f32).collect())
        };
        let kernel = Box::new(move |_: &Threads, d: Vec<Arc<Data>>| Ok(convert(d[0].exact()?)));
        let rows = self.emit(value, vec![exact], kernel)?;
        if layout == Layout::Rows { Ok(rows) } else { self.turn_real(value, rows, layout) }
    }

    /// An expression as exact numbers.
    pub(in super::super) fn evaluate_exact(
        &mut self,
        value: ValueId,
        expr: &Arc<Expr>,
    ) -> Result<Slot> {
        if let Expr::Leaf(grid) = &**expr {
            return self.grid_as_exact(value, grid);
        }
        let shape = self.graph[value].shape.clone();
        let Some(program) = Program::new(expr, &shape) else {
            return Err(Diagnostic::bug("an expression was accepted that has no program"));
        };
        let reads = self.leaf_slots(value, expr, program.layout)?;
        let layout = program.layout;
        let kernel = move |_: &Threads, data: Vec<Arc<Data>>| {
            let evaluation = program.bind(&data)?;
            let numbers: Vec<Ratio> = (0..program.elements).map(|i| evaluation.exact(i)).collect();
            let numbers = match layout {
                Layout::Rows => numbers,
                Layout::Last => {
                    let order: Vec<usize> = (0..numbers.len()).collect();
                    let order = super::super::data::turned(&order, &shape, Layout::Rows);
                    order.into_iter().map(|index| numbers[index].clone()).collect()
                }
            };
            Ok(Data::Exact(ExactTensor::from_fractions(&shape, numbers)))
        };
        self.emit(value, reads, Box::new(kernel))
    }

    fn grid_as_exact(&mut self, value: ValueId, grid: &GridValue) -> Result<Slot> {
        let slot = self.turned_ints(value, grid, Layout::Rows)?;
        let grid = grid.clone();
        let fields = [&grid.zero, &grid.unit].map(|f| f.spread(&grid.shape, Layout::Rows));
        let shape = grid.shape.clone();
        let [Some((_, zeros)), Some((_, units))] = fields else {
            return Err(Diagnostic::unsupported("Q0312", "too many different units to expand"));
        };
        let inner = shape.last().copied().unwrap_or(1).max(1);
        let at = move |values: &[Ratio], index: usize| match values.len() {
            1 => values[0].clone(),
            count if count == inner => values[index % inner].clone(),
            _ => values[index].clone(),
        };
        let kernel = move |_: &Threads, data: Vec<Arc<Data>>| {
            let ints = data[0].ints()?.to_i64();
            if let ([zero], [unit]) = (&zeros[..], &units[..])
                && zero.is_int()
            {
                let integers = ints.iter().map(|&v| Int::from(v) - zero.numerator()).collect();
                return Ok(Data::Exact(ExactTensor::from_integers(&shape, integers, unit)));
            }
            let number = |(index, v): (usize, &i64)| {
                (Ratio::from(Int::from(*v)) - at(&zeros, index)) * at(&units, index)
            };
            let numbers = ints.iter().enumerate().map(number).collect();
            Ok(Data::Exact(ExactTensor::from_fractions(&shape, numbers)))
        };
        self.emit(value, vec![slot], Box::new(kernel))
    }

    /// A value as integers with one unit and no more than a zero point: its own, or those of an
    /// expression whose numbers f64 has exactly.
    pub(super) fn uniform_ints(&mut self, id: ValueId) -> Result<Option<GridValue>> {
        let expr = match self.form(id)? {
            Form::Grid(grid) if grid.unit.uniform().is_some() && grid.uniform_zero().is_some() => {
                return Ok(Some(*grid));
            }
            Form::Grid(grid) => Arc::new(Expr::Leaf(*grid)),
            Form::Lazy(expr) => expr,
            Form::Real(..) | Form::Exact(_) => return Ok(None),
        };
        let Some(program) = Program::new(&expr, self.shape(id)) else { return Ok(None) };
        let (bound, layout) = (program.bound, program.layout);
        let Some(exponent) = bound.exponent.filter(|e| bound.error == 0.0 && e.abs() < 500) else {
            return Ok(None);
        };
        let factor = 2.0_f64.powi(-exponent);
        let most = (bound.most * factor).ceil();
        if most > (1_u64 << 53) as f64 {
            return Ok(None);
        }
        let high = most as i64;
        let store = Store::of(-high, high);
        let reads = self.leaf_slots(id, &expr, layout)?;
        let kernel = move |threads: &Threads, data: Vec<Arc<Data>>| {
            let evaluation = program.bind(&data)?;
            let mut out = Ints::zeros(store, program.elements);
            super::super::data::with_ints!(&mut out, out => {
                let part = threads.part_size(out.len(), CHUNK, out.len() as u64 * 2);
                threads.each(out.chunks_mut(part).enumerate(), |(index, out)| {
                    each_chunk(&evaluation, index * part, out, |number| {
                        super::super::data::Integer::narrow((number * factor) as i64)
                    });
                });
            });
            Ok(Data::Ints(out))
        };
        let slot = self.emit(id, reads, Box::new(kernel))?;
        let unit = Field::of(Dyadic::new(Int::ONE, exponent).to_ratio());
        let (shape, zero) = (self.graph[id].shape.clone(), Field::of(Ratio::ZERO));
        let grid = GridValue { slot, layout, shape, low: -high, high, unit, zero };
        self.set_form(id, Form::Grid(Box::new(grid.clone())));
        Ok(Some(grid))
    }
}

/// Evaluates the elements from `first` on, and converts them.
fn each_chunk<T>(
    evaluation: &Evaluation<'_>,
    first: usize,
    out: &mut [T],
    convert: impl Fn(f64) -> T,
) {
    let mut numbers = [0.0; CHUNK];
    for (index, out) in out.chunks_mut(CHUNK).enumerate() {
        let numbers = &mut numbers[..out.len()];
        evaluation.evaluate(first + index * CHUNK, numbers);
        out.iter_mut().zip(numbers).for_each(|(out, number)| *out = convert(*number));
    }
}
