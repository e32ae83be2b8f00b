//! Layers on integers: products and convolutions whose sums are exact.

use super::super::build::Builder;
use super::super::data::{Data, Ints, Layout, Slot};
use super::super::field::Field;
use super::super::real::conv_shape;
use super::super::threads::Threads;
use super::super::value::{Expr, Form, GridValue};
use super::packed::{ConvLayer, ProductLayer, Sides, centred};
use super::ranges::{MOST, Range, Ranges};
use crate::execute::transposed::convolve_transposed;
use crate::execute::window::{convolve, multiply, product_of};
use crate::{Conv, ConvTranspose, Gemm, Node, ValueId};
use quincunx_diag::Result;
use quincunx_num::{Dyadic, Ratio};
use std::sync::Arc;

/// The weights of a layer: codes minus their zero points, with one unit per result channel.
struct Weights {
    integers: Vec<i64>,
    units: Vec<Ratio>,
}

impl Builder<'_> {
    pub(super) fn grid_conv(&mut self, node: &Node, conv: &Conv) -> Result<Option<Form>> {
        let (x_id, w_id) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let w_shape = self.shape(w_id);
        let Some(weights) = self.weights(w_id, 0)? else { return Ok(None) };
        let Some(x) = self.uniform_ints(x_id)? else { return Ok(None) };
        let depth: usize = w_shape[1..].iter().product();
        let ranges = Ranges::new(&x, &weights.integers, depth.max(1));
        let Some(width) = ranges.width() else { return Ok(None) };
        let packed = match conv_shape(conv, self.shape(x_id), w_shape) {
            Some(shape) => ConvLayer::new(shape, width, &weights.integers, &x, self.settings.level),
            None => None,
        };
        let out_shape = self.graph[node.output].shape.clone();
        let (slot, layout) = match packed {
            Some(layer) => {
                let read = self.turned_ints(x_id, &x, Layout::Last)?;
                let kernel = Box::new(move |threads: &Threads, d: Vec<Arc<Data>>| {
                    layer.run(*threads, d[0].ints()?)
                });
                (self.emit(node.output, vec![read], kernel)?, Layout::Last)
            }
            None => {
                let read = self.turned_ints(x_id, &x, Layout::Rows)?;
                let (conv, shapes) =
                    (conv.clone(), [x.shape.clone(), w_shape.into(), out_shape.clone()]);
                let (zero, weights) = (ranges.zero, weights.integers);
                let kernel = move |_: &Threads, data: Vec<Arc<Data>>| {
                    let x = centred(data[0].ints()?, zero);
                    let [x_shape, w_shape, out_shape] = &shapes;
                    let sums = convolve(&conv, &x, x_shape, &weights, w_shape, out_shape);
                    Ok(Data::Ints(Ints::I64(sums)))
                };
                (self.emit(node.output, vec![read], Box::new(kernel))?, Layout::Rows)
            }
        };
        let units = self.sum_units(&x, &weights.units);
        let unit = Field::per_channel(units, out_shape.len());
        self.sums(node, slot, layout, ranges.sums, unit, 2)
    }

    pub(super) fn grid_conv_transpose(
        &mut self,
        node: &Node,
        conv: &ConvTranspose,
    ) -> Result<Option<Form>> {
        let (x_id, w_id) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let Some(weights) = self.weights(w_id, 1)? else { return Ok(None) };
        let Some(x) = self.uniform_ints(x_id)? else { return Ok(None) };
        let mut units = weights.units;
        if conv.groups > 1 {
            // Channels of the result are counted through all groups, units within one.
            let count = units.len() * conv.groups;
            units = units.iter().cycle().take(count).cloned().collect();
        }
        // No element is the sum of more products than there are weights.
        let ranges = Ranges::new(&x, &weights.integers, weights.integers.len().max(1));
        if ranges.width().is_none() {
            return Ok(None);
        }
        let read = self.turned_ints(x_id, &x, Layout::Rows)?;
        let out_shape = self.graph[node.output].shape.clone();
        let shapes = [x.shape.clone(), self.shape(w_id).into(), out_shape.clone()];
        let (conv, zero, integers) = (conv.clone(), ranges.zero, weights.integers);
        let kernel = move |_: &Threads, data: Vec<Arc<Data>>| {
            let x = centred(data[0].ints()?, zero);
            let [x_shape, w_shape, out_shape] = &shapes;
            let sums = convolve_transposed(&conv, &x, x_shape, &integers, w_shape, out_shape);
            Ok(Data::Ints(Ints::I64(sums)))
        };
        let slot = self.emit(node.output, vec![read], Box::new(kernel))?;
        let unit = Field::per_channel(self.sum_units(&x, &units), out_shape.len());
        self.sums(node, slot, Layout::Rows, ranges.sums, unit, 2)
    }

    pub(super) fn grid_gemm(&mut self, node: &Node, gemm: &Gemm) -> Result<Option<Form>> {
        let (a, b) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let factors = Dyadic::from_f64(gemm.alpha.into()).zip(Dyadic::from_f64(gemm.beta.into()));
        let Some((alpha, beta)) = factors else { return Ok(None) };
        let Some(sums) = self.product(node, a, gemm.transpose_a, b, gemm.transpose_b)? else {
            return Ok(None);
        };
        let scaled = |expr: Arc<Expr>, factor: &Dyadic| {
            if factor.log2() == Some(0) {
                return expr;
            }
            let factor = Expr::Const(Field::of(factor.to_ratio()));
            Arc::new(Expr::Product(expr, Arc::new(factor)))
        };
        let mut expr = scaled(Arc::new(Expr::Leaf(sums.clone())), &alpha);
        if let Some(c) = node.input(2) {
            let Some(c) = self.expr_of(c)? else { return Ok(None) };
            expr = Arc::new(Expr::Sum(expr, scaled(c, &beta)));
        }
        Ok(self.form_of_sums(node.output, expr))
    }

    pub(super) fn grid_matmul(&mut self, node: &Node) -> Result<Option<Form>> {
        let (a, b) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let constant = self.graph[b].constant.is_some();
        if constant && self.shape(b).len() == 2 && self.shape(a).len() >= 2 {
            let product = self.product(node, a, false, b, false)?;
            return Ok(product.map(|grid| Form::Grid(Box::new(grid))));
        }
        self.grid_matmul_of_values(node)
    }

    /// A product with one constant right-hand side for all rows.
    fn product(
        &mut self,
        node: &Node,
        a_id: ValueId,
        a_turned: bool,
        b_id: ValueId,
        b_turned: bool,
    ) -> Result<Option<GridValue>> {
        let b_shape = self.shape(b_id);
        let Some(weights) = self.weights(b_id, usize::from(!b_turned))? else { return Ok(None) };
        let Some(a) = self.uniform_ints(a_id)? else { return Ok(None) };
        // The weights of every column of the result, one after another.
        let (columns, integers) = if b_turned {
            (b_shape[0], weights.integers)
        } else {
            (b_shape[1], columns_first(&weights.integers, b_shape[0]))
        };
        let depth = integers.len() / columns.max(1);
        let ranges = Ranges::new(&a, &integers, depth.max(1));
        let Some(width) = ranges.width() else { return Ok(None) };
        let read = self.turned_ints(a_id, &a, Layout::Rows)?;
        let sides = Sides::new(width, &integers, depth, columns, self.settings.level);
        // Without columns there is nothing to multiply.
        let rows = self.shape(node.output).iter().product::<usize>().checked_div(columns);
        let layer =
            ProductLayer { sides, zero: ranges.zero, rows: rows.unwrap_or(0), depth, columns };
        let kernel = move |threads: &Threads, data: Vec<Arc<Data>>| {
            let ints = data[0].ints()?;
            match a_turned {
                true => layer.run(*threads, &ints.transposed(layer.depth)),
                false => layer.run(*threads, ints),
            }
        };
        let slot = self.emit(node.output, vec![read], Box::new(kernel))?;
        let unit = Field::new(&[columns], self.sum_units(&a, &weights.units));
        Ok(self.sum_grid(node.output, slot, Layout::Rows, ranges.sums, unit))
    }

    /// A product of two values, in 64 bits.
    fn grid_matmul_of_values(&mut self, node: &Node) -> Result<Option<Form>> {
        let (a_id, b_id) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let (Some(a), Some(b)) = (self.uniform_ints(a_id)?, self.uniform_ints(b_id)?) else {
            return Ok(None);
        };
        let (Some(a_zero), Some(b_zero)) = (a.uniform_zero(), b.uniform_zero()) else {
            return Ok(None);
        };
        let most = |grid: &GridValue, zero: i64| {
            let end = |end: i64| (i128::from(end) - i128::from(zero)).abs();
            end(grid.low).max(end(grid.high))
        };
        let depth = a.shape.last().map_or(0, |&depth| depth as i128);
        let product = most(&a, a_zero).saturating_mul(most(&b, b_zero));
        let most = product.saturating_mul(depth);
        if most >= MOST {
            return Ok(None);
        }
        let reads = vec![
            self.turned_ints(a_id, &a, Layout::Rows)?,
            self.turned_ints(b_id, &b, Layout::Rows)?,
        ];
        let shapes = [a.shape.clone(), b.shape.clone(), self.graph[node.output].shape.clone()];
        let kernel = move |_: &Threads, data: Vec<Arc<Data>>| {
            let (a, b) = (centred(data[0].ints()?, a_zero), centred(data[1].ints()?, b_zero));
            let product = product_of(&shapes[0], &shapes[1], &shapes[2]);
            Ok(Data::Ints(Ints::I64(multiply(&product, &a, &b))))
        };
        let slot = self.emit(node.output, reads, Box::new(kernel))?;
        let units = a.unit.uniform().zip(b.unit.uniform());
        let unit = units.map(|(a, b)| Field::of(a * b));
        let range = Range { low: -most, high: most };
        Ok(self
            .sum_grid(node.output, slot, Layout::Rows, range, unit)
            .map(|grid| Form::Grid(Box::new(grid))))
    }

    /// Constant weights whose units vary along one axis at most.
    fn weights(&mut self, id: ValueId, axis: usize) -> Result<Option<Weights>> {
        let Form::Grid(grid) = self.form(id)? else { return Ok(None) };
        if grid.shape.contains(&0) || grid.shape.len() < 2 {
            return Ok(None);
        }
        let Some(data) = self.constant_data(grid.slot) else { return Ok(None) };
        let parameters = grid.unit.along(axis, &grid.shape).zip(grid.zero.along(axis, &grid.shape));
        let Some((units, zeros)) = parameters else { return Ok(None) };
        let zeros: Option<Vec<i64>> =
            zeros.iter().map(|zero| i64::try_from(zero.numerator()).ok()).collect();
        let Some(zeros) = zeros else { return Ok(None) };
        let inner: usize = grid.shape[axis + 1..].iter().product();
        let mut integers = data.ints()?.to_i64();
        for (index, integers) in integers.chunks_mut(inner).enumerate() {
            let zero = zeros[index % zeros.len()];
            for integer in integers.iter_mut().filter(|_| zero != 0) {
                let Some(centred) = integer.checked_sub(zero) else { return Ok(None) };
                *integer = centred;
            }
        }
        Ok(Some(Weights { integers, units }))
    }

    fn sum_units(&self, x: &GridValue, weights: &[Ratio]) -> Vec<Ratio> {
        let unit = x.unit.uniform().cloned().unwrap_or(Ratio::ONE);
        weights.iter().map(|weight| weight * &unit).collect()
    }

    /// Sums as a value.
    fn sum_grid(
        &self,
        output: ValueId,
        slot: Slot,
        layout: Layout,
        range: Range,
        unit: Option<Field>,
    ) -> Option<GridValue> {
        let (low, high) = (i64::try_from(range.low).ok()?, i64::try_from(range.high).ok()?);
        let (shape, zero) = (self.graph[output].shape.clone(), Field::of(Ratio::ZERO));
        Some(GridValue { slot, layout, shape, low, high, unit: unit?, zero })
    }

    /// Sums with the bias that operand `bias` is, one number per channel.
    fn sums(
        &mut self,
        node: &Node,
        slot: Slot,
        layout: Layout,
        range: Range,
        unit: Option<Field>,
        bias: usize,
    ) -> Result<Option<Form>> {
        let grid = self.sum_grid(node.output, slot, layout, range, unit);
        let Some(grid) = grid else { return Ok(None) };
        let mut expr = Arc::new(Expr::Leaf(grid));
        if let Some(bias) = node.input(bias) {
            let Some(field) = self.constant_field(bias) else { return Ok(None) };
            let values = field.along(0, self.shape(bias));
            let rank = self.shape(node.output).len();
            let Some(field) = values.and_then(|v| Field::per_channel(v, rank)) else {
                return Ok(None);
            };
            expr = Arc::new(Expr::Sum(expr, Arc::new(Expr::Const(field))));
        }
        Ok(self.form_of_sums(node.output, expr))
    }

    fn form_of_sums(&self, output: ValueId, expr: Arc<Expr>) -> Option<Form> {
        match &*expr {
            Expr::Leaf(grid) => Some(Form::Grid(Box::new(grid.clone()))),
            _ => self.lazy(output, expr),
        }
    }
}

/// `[depth, columns]` to `[columns, depth]`.
fn columns_first(values: &[i64], depth: usize) -> Vec<i64> {
    let mut turned = vec![0; values.len()];
    if !values.is_empty() {
        quincunx_num::transpose(values, depth, &mut turned);
    }
    turned
}
