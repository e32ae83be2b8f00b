//! Bringing numbers onto grids, and codes out of them.

use super::super::build::Builder;
use super::super::data::{Data, Ints, Layout, Slot, Store};
use super::super::field::Field;
use super::super::threads::Threads;
use super::super::value::{Expr, Form, GridValue};
use super::program::{CHUNK, Program};
use super::round::Rounder;
use crate::execute::exact::{self, ExactTensor};
use crate::{Node, Quantiser, ValueId};
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::Int;
use quincunx_tensor::{DType, Tensor};
use std::sync::Arc;

impl Builder<'_> {
    pub(super) fn quantise(&mut self, node: &Node, quantiser: &Quantiser) -> Result<Option<Form>> {
        let Some((slot, layout)) = self.codes(node, quantiser)? else { return Ok(None) };
        let shape = self.shape(node.output);
        let Some(grid) = described(slot, layout, shape, quantiser) else { return Ok(None) };
        Ok(Some(Form::Grid(Box::new(grid))))
    }

    pub(super) fn code_tensor(
        &mut self,
        node: &Node,
        quantiser: &Quantiser,
    ) -> Result<Option<Form>> {
        let Some((slot, layout)) = self.codes(node, quantiser)? else { return Ok(None) };
        let shape = self.shape(node.output);
        let Some(grid) = described(slot, layout, shape, quantiser) else { return Ok(None) };
        let slot = self.turned_ints(node.output, &grid, Layout::Rows)?;
        let (dtype, shape) = (self.graph[node.output].dtype, grid.shape);
        let tensor = move |ints: &Ints| tensor_of(dtype, &shape, ints).map(Data::Tensor);
        let kernel = Box::new(move |_: &Threads, d: Vec<Arc<Data>>| tensor(d[0].ints()?));
        let slot = self.emit(node.output, vec![slot], kernel)?;
        Ok(Some(Form::Real(slot, Layout::Rows)))
    }

    pub(super) fn reals_of_codes(
        &mut self,
        node: &Node,
        quantiser: &Quantiser,
    ) -> Result<Option<Form>> {
        let x = self.operand(node, 0)?;
        if !self.is_integer(x) {
            return Ok(None);
        }
        let (low, high) = range_of(self.graph[x].dtype);
        let parameters = Field::of_scales(&quantiser.scale).zip(Field::of_zeros(&quantiser.zero));
        let Some((unit, zero)) = parameters else { return Ok(None) };
        let store = Store::of(low, high);
        let read = self.real_rows(x)?;
        let shape = self.graph[x].shape.clone();
        let kernel_shape = shape.clone();
        let convert = move |data: &Data| {
            let tensor = data.to_tensor(&kernel_shape)?;
            let codes = tensor.to_i64().ok_or_else(|| Diagnostic::bug("codes are integers"))?;
            Ok(Data::Ints(Ints::from_i64(store, codes.into_iter())))
        };
        let slot = self.emit(node.output, vec![read], Box::new(move |_, d| convert(&d[0])))?;
        let layout = Layout::Rows;
        Ok(Some(Form::Grid(Box::new(GridValue { slot, layout, shape, low, high, unit, zero }))))
    }

    /// A constant that is stored as codes.
    pub(super) fn grid_of_codes(
        &mut self,
        codes: Vec<i64>,
        shape: &[usize],
        quantiser: &Quantiser,
    ) -> Option<GridValue> {
        let (unit, zero) =
            Field::of_scales(&quantiser.scale).zip(Field::of_zeros(&quantiser.zero))?;
        let low = codes.iter().copied().min().unwrap_or(0);
        let high = codes.iter().copied().max().unwrap_or(0);
        let ints = Ints::from_i64(Store::of(low, high), codes.into_iter());
        let slot = self.constant(Data::Ints(ints));
        let layout = Layout::Rows;
        Some(GridValue { slot, layout, shape: shape.into(), low, high, unit, zero })
    }

    /// The codes of a node's operand, in some layout; `None` when it is to be computed in f32.
    fn codes(&mut self, node: &Node, quantiser: &Quantiser) -> Result<Option<(Slot, Layout)>> {
        let x = self.operand(node, 0)?;
        let shape = self.shape(x);
        let Some((low, high)) = range_of_codes(quantiser) else { return Ok(None) };
        let store = Store::of(low, high);
        let expr = match self.form(x)? {
            Form::Grid(grid) => Arc::new(Expr::Leaf(*grid)),
            Form::Lazy(expr) => expr,
            Form::Real(_, layout) if self.is_f32(x) => {
                return self.codes_of_floats(node, quantiser, layout).map(Some);
            }
            Form::Real(..) => return Ok(None),
            Form::Exact(_) => return self.codes_of_exact(node, quantiser, store).map(Some),
        };
        let program = Program::new(&expr, shape);
        let Some((program, rounder)) = program.and_then(|program| {
            let rounder = Rounder::of_program(quantiser, shape, &program)?;
            Some((program, rounder))
        }) else {
            return self.codes_of_exact(node, quantiser, store).map(Some);
        };
        let reads = self.leaf_slots(x, &expr, program.layout)?;
        let layout = program.layout;
        let kernel = move |threads: &Threads, data: Vec<Arc<Data>>| {
            let evaluation = program.bind(&data)?;
            let mut out = Ints::zeros(store, program.elements);
            super::super::data::with_ints!(&mut out, out => {
                let part = threads.part_size(out.len(), CHUNK, out.len() as u64 * 4);
                threads.each(out.chunks_mut(part).enumerate(), |(index, out)| {
                    rounder.run(&evaluation, index * part, out);
                });
            });
            Ok(Data::Ints(out))
        };
        let slot = self.emit(node.output, reads, Box::new(kernel))?;
        Ok(Some((slot, layout)))
    }

    /// The integers of the leaves of an expression, in its layout.
    pub(super) fn leaf_slots(
        &mut self,
        value: ValueId,
        expr: &Expr,
        layout: Layout,
    ) -> Result<Vec<Slot>> {
        let mut leaves = Vec::new();
        expr.leaves(&mut leaves);
        let whole = self.shape(value);
        let slot = |grid: &GridValue| {
            let to = if grid.shape[..] == *whole { layout } else { Layout::Rows };
            self.turned_ints(value, grid, to)
        };
        leaves.into_iter().map(slot).collect()
    }

    /// Codes of f32 numbers that lie on no grid, in the layout they have.
    fn codes_of_floats(
        &mut self,
        node: &Node,
        quantiser: &Quantiser,
        layout: Layout,
    ) -> Result<(Slot, Layout)> {
        let x = self.operand(node, 0)?;
        let layout = if quantiser.is_uniform() { layout } else { Layout::Rows };
        let read = self.real(x, layout)?;
        let Some((low, high)) = range_of_codes(quantiser) else {
            return Err(Diagnostic::bug("codes have a range"));
        };
        let (shape, quantiser) = (self.graph[x].shape.clone(), quantiser.clone());
        let kernel = move |threads: &Threads, data: Vec<Arc<Data>>| {
            let values = data[0].floats()?;
            let mut out = Ints::zeros(Store::of(low, high), values.len());
            match quantiser.scalars(&[]) {
                Some(scalars) if scalars.len() == 1 => {
                    super::super::data::with_ints!(&mut out, out => {
                        let part = threads.part_size(out.len(), 1, out.len() as u64 * 4);
                        threads.each(out.chunks_mut(part).enumerate(), |(index, out)| {
                            super::float::round(&values[index * part..], &scalars[0], out);
                        });
                    });
                }
                _ => {
                    let scalars = quantiser.scalars(&shape);
                    let scalars = scalars.ok_or_else(|| Diagnostic::bug("a quantiser fits"))?;
                    super::super::data::with_ints!(&mut out, out => {
                        for ((value, scalar), out) in values.iter().zip(&scalars).zip(out) {
                            super::float::round(&[*value], scalar, std::slice::from_mut(out));
                        }
                    });
                }
            }
            Ok(Data::Ints(out))
        };
        let slot = self.emit(node.output, vec![read], Box::new(kernel))?;
        Ok((slot, layout))
    }

    /// Codes by the exact executor.
    fn codes_of_exact(
        &mut self,
        node: &Node,
        quantiser: &Quantiser,
        store: Store,
    ) -> Result<(Slot, Layout)> {
        let x = self.operand(node, 0)?;
        let read = self.exact(x)?;
        let quantiser = quantiser.clone();
        let convert = move |x: &ExactTensor| {
            let codes = exact::to_codes(&quantiser, x)?;
            let code = |code: &Int| {
                i64::try_from(code).expect("codes beyond i64 are left to the reference")
            };
            Ok(Data::Ints(Ints::from_i64(store, codes.integers().iter().map(code))))
        };
        let kernel = Box::new(move |_: &Threads, d: Vec<Arc<Data>>| convert(d[0].exact()?));
        let slot = self.emit(node.output, vec![read], kernel)?;
        Ok((slot, Layout::Rows))
    }
}

/// What the codes of a quantiser mean.
fn described(
    slot: Slot,
    layout: Layout,
    shape: &[usize],
    quantiser: &Quantiser,
) -> Option<GridValue> {
    let (low, high) = range_of_codes(quantiser)?;
    let (unit, zero) = Field::of_scales(&quantiser.scale).zip(Field::of_zeros(&quantiser.zero))?;
    Some(GridValue { slot, layout, shape: shape.into(), low, high, unit, zero })
}

/// Lowest and highest code of all elements; `None` beyond i64.
fn range_of_codes(quantiser: &Quantiser) -> Option<(i64, i64)> {
    let scalars = quantiser.scalars(&quantiser.shape()?)?;
    let mut range: Option<(i64, i64)> = None;
    for scalar in scalars {
        let (low, high) = scalar.range();
        let (low, high) = (i64::try_from(low).ok()?, i64::try_from(high).ok()?);
        range = Some(range.map_or((low, high), |(a, b)| (a.min(low), b.max(high))));
    }
    range
}

fn range_of(dtype: DType) -> (i64, i64) {
    match dtype {
        DType::U8 => (0, u8::MAX.into()),
        DType::I8 => (i8::MIN.into(), i8::MAX.into()),
        DType::U16 => (0, u16::MAX.into()),
        DType::I16 => (i16::MIN.into(), i16::MAX.into()),
        DType::U32 => (0, u32::MAX.into()),
        DType::I32 => (i32::MIN.into(), i32::MAX.into()),
        _ => (i64::MIN, i64::MAX),
    }
}

fn tensor_of(dtype: DType, shape: &[usize], ints: &Ints) -> Result<Tensor> {
    crate::execute::float::cast_codes(&Tensor::from_vec(shape, ints.to_i64())?, dtype)
}
