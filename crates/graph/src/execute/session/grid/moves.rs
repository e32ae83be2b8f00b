//! Moving integers.

use super::super::build::Builder;
use super::super::data::{Data, Ints, Layout};
use super::super::field::Field;
use super::super::movement::{Movement, Runs};
use super::super::threads::Threads;
use super::super::value::{Form, GridValue};
use crate::{Node, Op, ValueId};
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::{Dyadic, Ratio};
use quincunx_tensor::View;
use std::sync::Arc;

impl Builder<'_> {
    /// A node that moves integers which have the same meaning wherever they are; joined along the
    /// innermost axis of a layout, operands may differ.
    pub(super) fn grid_movement(&mut self, node: &Node) -> Result<Option<Form>> {
        if !node.op.only_moves() {
            return Ok(None);
        }
        if node.op == Op::Identity {
            let x = self.operand(node, 0)?;
            return self.form(x).map(Some);
        }
        let operands: Vec<ValueId> = self.moved_operands(node).collect();
        let mut grids = Vec::new();
        for &id in &operands {
            match self.uniform_ints(id)? {
                Some(grid) => grids.push(grid),
                None => return Ok(None),
            }
        }
        let Some(first) = grids.first() else { return Ok(None) };
        let joined = matches!(node.op, Op::Concat { axis: 1 }) && first.shape.len() >= 3;
        let mut layout = if joined { Layout::Last } else { first.layout };
        let mut movement = self.movement(node, layout);
        if movement.is_none() && layout == Layout::Last {
            layout = Layout::Rows;
            movement = self.movement(node, layout);
        }
        let Some(movement) = movement else { return Ok(None) };
        let Some(meaning) = self.joined_meaning(node, &grids) else { return Ok(None) };
        let fill = match &movement {
            Movement::Runs(runs, _) => runs.fill,
            Movement::Stay(_) | Movement::Permute(_) => None,
        };
        let fill = match fill.map(|fill| code_of(fill, &meaning)) {
            Some(Some(code)) => code,
            Some(None) => return Ok(None),
            // No element, but a number that needs no other type.
            None => meaning.low,
        };
        let reads = operands
            .iter()
            .zip(&grids)
            .map(|(&id, grid)| self.turned_ints(id, grid, layout))
            .collect::<Result<Vec<_>>>()?;
        let (low, high) = (meaning.low.min(fill), meaning.high.max(fill));
        let (slot, layout) = match movement {
            Movement::Stay(to) => (reads[0], to),
            Movement::Permute(order) => {
                let shape = self.shape(operands[0]).to_vec();
                let kernel = move |_: &Threads, data: Vec<Arc<Data>>| {
                    Ok(Data::Ints(permuted(data[0].ints()?, &shape, &order)))
                };
                (self.emit(node.output, reads, Box::new(kernel))?, Layout::Rows)
            }
            Movement::Runs(runs, layout) => {
                let kernel = move |_: &Threads, data: Vec<Arc<Data>>| {
                    let ints = data.iter().map(|d| d.ints()).collect::<Result<Vec<_>>>()?;
                    moved(&runs, &ints, fill).map(Data::Ints)
                };
                (self.emit(node.output, reads, Box::new(kernel))?, layout)
            }
        };
        let shape = self.graph[node.output].shape.clone();
        Ok(Some(Form::Grid(Box::new(GridValue { slot, layout, shape, low, high, ..meaning }))))
    }

    /// What the integers of joined operands mean.
    fn joined_meaning(&self, node: &Node, grids: &[GridValue]) -> Option<GridValue> {
        let first = grids.first()?;
        let low = grids.iter().map(|grid| grid.low).min()?;
        let high = grids.iter().map(|grid| grid.high).max()?;
        let mut meaning = GridValue { low, high, ..first.clone() };
        if grids.iter().all(|grid| grid.unit == first.unit && grid.zero == first.zero) {
            return Some(meaning);
        }
        let Op::Concat { axis } = node.op else { return None };
        let rank = first.shape.len();
        if axis != rank - 1 && axis != 1 {
            return None;
        }
        let mut shape = vec![1; rank];
        shape[axis] = self.shape(node.output)[axis];
        let join = |field: fn(&GridValue) -> &Field| {
            let each =
                |grid: &GridValue| Some(vec![field(grid).uniform()?.clone(); grid.shape[axis]]);
            let parts: Option<Vec<Vec<Ratio>>> = grids.iter().map(each).collect();
            Field::new(&shape, parts?.concat())
        };
        meaning.unit = join(|grid| &grid.unit)?;
        meaning.zero = join(|grid| &grid.zero)?;
        Some(meaning)
    }
}

/// The integer of a number, if it has one of at most 32 bits.
fn code_of(number: f64, meaning: &GridValue) -> Option<i64> {
    let number = Dyadic::from_f64(number)?.to_ratio();
    let steps = number / meaning.unit.uniform()? + meaning.zero.uniform()?;
    let code = i64::try_from(steps.numerator()).ok().filter(|_| steps.is_int())?;
    (code.unsigned_abs() <= 1 << 31).then_some(code)
}

/// Operands may be held in different types; the widest one holds all.
fn moved(runs: &Runs, operands: &[&Ints], fill: i64) -> Result<Ints> {
    macro_rules! of_type {
        ($variant:ident, $type:ty) => {
            if operands.iter().all(|ints| matches!(ints, Ints::$variant(_)))
                && <$type>::try_from(fill).is_ok()
            {
                let values: Vec<&[$type]> = operands
                    .iter()
                    .filter_map(|ints| match ints {
                        Ints::$variant(values) => Some(&values[..]),
                        _ => None,
                    })
                    .collect();
                return Ok(Ints::$variant(runs.apply(&values, fill as $type)?));
            }
        };
    }
    of_type!(U8, u8);
    of_type!(I8, i8);
    of_type!(I16, i16);
    of_type!(I32, i32);
    let wide: Vec<Vec<i64>> = operands.iter().map(|ints| ints.to_i64()).collect();
    let values: Vec<&[i64]> = wide.iter().map(|values| &values[..]).collect();
    if values.is_empty() {
        return Err(Diagnostic::bug("nothing to move"));
    }
    Ok(Ints::I64(runs.apply(&values, fill)?))
}

fn permuted(ints: &Ints, shape: &[usize], order: &[usize]) -> Ints {
    fn permute<T: Clone>(values: &[T], shape: &[usize], order: &[usize]) -> Vec<T> {
        View::new(values, shape).permute(order).to_vec()
    }
    match ints {
        Ints::U8(values) => Ints::U8(permute(values, shape, order)),
        Ints::I8(values) => Ints::I8(permute(values, shape, order)),
        Ints::I16(values) => Ints::I16(permute(values, shape, order)),
        Ints::I32(values) => Ints::I32(permute(values, shape, order)),
        Ints::I64(values) => Ints::I64(permute(values, shape, order)),
    }
}
