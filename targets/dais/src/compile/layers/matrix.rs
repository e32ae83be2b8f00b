//! Products with matrices: dense layers and convolutions.

use super::super::builder::Builder;
use super::super::linear::{self, Matrix, Term, combine};
use super::super::number::Number;
use super::super::scalar;
use super::{Layer, Numbers, factor, known, positions, weights};
use quincunx_diag::Result;
use quincunx_graph::{Binary, Conv, ConvTranspose, Gemm};
use quincunx_num::{Dyadic, Int, Ratio};
use quincunx_tensor::{Shape, View};
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;

/// One matrix per group of channels, applied at every place: the rows that lie in the input.
pub(super) fn convolution(
    layer: &Layer<'_>,
    builder: &mut Builder<'_>,
    conv: &Conv,
) -> Result<Numbers> {
    let (x, shape) = (layer.operand(0)?, layer.shape());
    let (x_shape, w_shape) = (layer.shape_of(0), layer.shape_of(1));
    let (filters, depth) = (w_shape[0] / conv.groups, w_shape[1]);
    let kernel: usize = w_shape[2..].iter().product();
    let plane: usize = x_shape[2..].iter().product();
    let places: Vec<_> =
        positions(&shape[2..]).iter().map(|out| conv.window.reads(out, &x_shape[2..])).collect();
    // The whole kernel comes first: what is found for it serves places that lack rows.
    let mut in_order: Vec<_> = places.iter().enumerate().collect();
    in_order.sort_by_key(|(_, taps)| std::cmp::Reverse(taps.len()));
    let w = layer.operand(1)?;
    let bias = layer.optional(2);
    let mut result = vec![Number::zero(); shape.iter().product()];
    for group in 0..conv.groups {
        // Row `c * kernel + tap` of the matrix, column `filter`.
        let entry = |row: usize, m: usize| &w[(group * filters + m) * depth * kernel + row];
        let rows = depth * kernel;
        let entries: Vec<Number> = (0..rows)
            .flat_map(|row| (0..filters).map(move |m| (row, m)))
            .map(|(row, m)| entry(row, m).clone())
            .collect();
        let addends = match bias {
            Some(bias) => bias[group * filters..][..filters].to_vec(),
            None => vec![Number::zero(); filters],
        };
        let product = Product::new(builder, entries, addends);
        for n in 0..shape[0] {
            let first = n * x_shape[1] + group * depth;
            for &(place, taps) in &in_order {
                let reads = (0..depth).flat_map(|c| taps.iter().map(move |&(s, tap)| (c, s, tap)));
                let (numbers, rows): (Vec<&Number>, Vec<usize>) = reads
                    .map(|(c, source, tap)| (&x[(first + c) * plane + source], c * kernel + tap))
                    .unzip();
                let sums = product.apply(builder, &numbers, &rows)?;
                for (m, sum) in sums.into_iter().enumerate() {
                    let channel = n * shape[1] + group * filters + m;
                    result[channel * places.len() + place] = sum;
                }
            }
        }
    }
    Ok(result)
}

/// A product with a matrix whose numbers are known, or not.
enum Product {
    Constant(Matrix),
    Variable { entries: Vec<Number>, addends: Vec<Number> },
}

impl Product {
    /// From row-major entries and what is added to every column.
    fn new(builder: &mut Builder<'_>, entries: Vec<Number>, addends: Vec<Number>) -> Product {
        match (weights(&entries), known(&addends)) {
            (Some(entries), Some(addends)) => {
                Product::Constant(Matrix::new(builder, entries, addends))
            }
            _ => Product::Variable { entries, addends },
        }
    }

    fn apply(
        &self,
        builder: &mut Builder<'_>,
        x: &[&Number],
        rows: &[usize],
    ) -> Result<Vec<Number>> {
        match self {
            Product::Constant(matrix) => linear::product(builder, x, rows, matrix),
            Product::Variable { entries, addends } => {
                let columns = addends.len();
                let column = |column: usize| {
                    let mut terms = vec![one_of(addends[column].clone())];
                    for (x, row) in x.iter().zip(rows) {
                        let weight = &entries[row * columns + column];
                        terms.push(one_of(times(builder, x, weight)?));
                    }
                    combine(builder, &terms, &Ratio::ZERO)
                };
                (0..columns).map(column).collect()
            }
        }
    }
}

fn one_of(number: Number) -> Term {
    Term { number, weight: Dyadic::new(Int::ONE, 0) }
}

fn times(builder: &mut Builder<'_>, a: &Number, b: &Number) -> Result<Number> {
    scalar::binary_now(builder, Binary::Mul, a, b)
}

/// Every element of the result is a sum over the products that the definition sends to it.
pub(super) fn transposed(
    layer: &Layer<'_>,
    builder: &mut Builder<'_>,
    conv: &ConvTranspose,
) -> Result<Numbers> {
    let (x, shape) = (layer.operand(0)?, layer.shape());
    let (x_shape, w_shape) = (layer.shape_of(0), layer.shape_of(1));
    let (w, filters) = (layer.operand(1)?, w_shape[1]);
    let depth = x_shape[1] / conv.groups;
    let input = positions(&x_shape[2..]);
    let offsets = positions(&conv.window.kernel);
    let out = &shape[2..];
    let places: usize = out.iter().product();
    // Which input and tap meet at every place.
    let mut reads: Vec<Vec<(usize, usize)>> = vec![Vec::new(); places];
    for (source, position) in input.iter().enumerate() {
        for (tap, offsets) in offsets.iter().enumerate() {
            let place = (0..out.len()).try_fold(0, |place, axis| {
                let at = conv.target(axis, position[axis], offsets[axis], out[axis])?;
                Some(place * out[axis] + at)
            });
            if let Some(place) = place {
                reads[place].push((source, tap));
            }
        }
    }
    let mut in_order: Vec<_> = reads.iter().enumerate().collect();
    in_order.sort_by_key(|(_, reads)| std::cmp::Reverse(reads.len()));
    let mut result = vec![Number::zero(); shape.iter().product()];
    for group in 0..conv.groups {
        let first = group * depth;
        let entry = |c: usize, tap: usize, m: usize| {
            w[((first + c) * filters + m) * offsets.len() + tap].clone()
        };
        let indices = (0..depth).flat_map(|c| (0..offsets.len()).map(move |tap| (c, tap)));
        let entries =
            indices.flat_map(|(c, tap)| (0..filters).map(move |m| entry(c, tap, m))).collect();
        let addends = match layer.optional(2) {
            Some(bias) => bias[group * filters..][..filters].to_vec(),
            None => vec![Number::zero(); filters],
        };
        let product = Product::new(builder, entries, addends);
        for n in 0..shape[0] {
            for &(place, reads) in &in_order {
                let all = (0..depth).flat_map(|c| reads.iter().map(move |&(s, tap)| (c, s, tap)));
                let at = |c: usize, source: usize| {
                    &x[(n * x_shape[1] + first + c) * input.len() + source]
                };
                let (numbers, rows): (Vec<&Number>, Vec<usize>) =
                    all.map(|(c, s, tap)| (at(c, s), c * offsets.len() + tap)).unzip();
                let sums = product.apply(builder, &numbers, &rows)?;
                for (m, sum) in sums.into_iter().enumerate() {
                    let channel = n * shape[1] + group * filters + m;
                    result[channel * places + place] = sum;
                }
            }
        }
    }
    Ok(result)
}

/// `alpha * A * B + beta * C`.
pub(super) fn general_product(
    layer: &Layer<'_>,
    builder: &mut Builder<'_>,
    gemm: &Gemm,
) -> Result<Numbers> {
    let oriented = |index: usize, transpose: bool| {
        let view = View::new(layer.operand(index)?, layer.shape_of(index));
        Ok(if transpose { view.permute(&[1, 0]) } else { view })
    };
    let (a, b) = (oriented(0, gemm.transpose_a)?, oriented(1, gemm.transpose_b)?);
    let products = product(builder, &a, &b, layer.shape())?;
    let alpha = factor(gemm.alpha);
    let beta = factor(gemm.beta);
    let addends = match layer.optional(2) {
        Some(_) => layer.broadcast(2)?,
        None => Vec::new(),
    };
    let mut result = Vec::with_capacity(products.len());
    for (index, product) in products.iter().enumerate() {
        let product = product.rescaled(builder, &alpha, &Ratio::ZERO)?;
        result.push(match addends.get(index) {
            Some(addend) => {
                let addend = addend.rescaled(builder, &beta, &Ratio::ZERO)?;
                match addend.known() {
                    Some(value) => product.rescaled(builder, &Ratio::ONE, &value)?,
                    None => combine(builder, &[one_of(product), one_of(addend)], &Ratio::ZERO)?,
                }
            }
            None => product,
        });
    }
    Ok(result)
}

/// A product of matrices along outer axes. A vector on the left is a row, on the right a column.
pub(super) fn product(
    builder: &mut Builder<'_>,
    a: &View<'_, Number>,
    b: &View<'_, Number>,
    shape: &[usize],
) -> Result<Numbers> {
    let (row_less, column_less) = (a.shape().len() == 1, b.shape().len() == 1);
    let depth = *a.shape().last().expect("an operand of a product has an axis");
    let rows = if row_less { 1 } else { a.shape()[a.shape().len() - 2] };
    let columns = if column_less { 1 } else { b.shape()[b.shape().len() - 1] };
    let outer_rank = shape.len() - usize::from(!row_less) - usize::from(!column_less);
    let all: Vec<usize> = (0..depth).collect();
    let mut blocks: FxHashMap<(bool, Shape), Product> = FxHashMap::default();
    let mut result = Vec::with_capacity(shape.iter().product());
    for outer in positions(&shape[..outer_rank]) {
        let left = block(a, &outer, rows, depth, row_less);
        let right = block(b, &outer, depth, columns, column_less);
        let sums = match (weights(&left), weights(&right)) {
            // The matrix on the left is known: a product with its transpose.
            (Some(_), None) => {
                let index = outer_index(a.shape(), &outer, row_less);
                let known = match blocks.entry((false, index)) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(place) => {
                        let entries = (0..depth)
                            .flat_map(|k| (0..rows).map(move |i| (k, i)))
                            .map(|(k, i)| left[i * depth + k].clone())
                            .collect();
                        place.insert(Product::new(builder, entries, vec![Number::zero(); rows]))
                    }
                };
                let mut by_column = Vec::with_capacity(columns);
                for column in 0..columns {
                    let x: Vec<&Number> =
                        (0..depth).map(|k| &right[k * columns + column]).collect();
                    by_column.push(known.apply(builder, &x, &all)?);
                }
                (0..rows).flat_map(|i| by_column.iter().map(move |sums| sums[i].clone())).collect()
            }
            _ => {
                let index = outer_index(b.shape(), &outer, column_less);
                let known = match blocks.entry((true, index)) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(place) => {
                        place.insert(Product::new(builder, right, vec![Number::zero(); columns]))
                    }
                };
                let mut sums = Vec::with_capacity(rows * columns);
                for row in 0..rows {
                    let x: Vec<&Number> = left[row * depth..][..depth].iter().collect();
                    sums.extend(known.apply(builder, &x, &all)?);
                }
                sums
            }
        };
        result.extend::<Vec<Number>>(sums);
    }
    Ok(result)
}

/// Which block of an operand belongs to an outer position; axes of extent 1 broadcast.
fn outer_index(shape: &[usize], outer: &[usize], vector: bool) -> Shape {
    let rank = shape.len() - if vector { 1 } else { 2 };
    let skipped = outer.len() - rank;
    (0..rank).map(|axis| if shape[axis] == 1 { 0 } else { outer[skipped + axis] }).collect()
}

fn block(
    view: &View<'_, Number>,
    outer: &[usize],
    rows: usize,
    columns: usize,
    vector: bool,
) -> Vec<Number> {
    let outer = outer_index(view.shape(), outer, vector);
    let mut numbers = Vec::with_capacity(rows * columns);
    for row in 0..rows {
        for column in 0..columns {
            let mut index = outer.clone();
            match vector {
                true => index.push(row.max(column)),
                false => index.extend([row, column]),
            }
            numbers.push(view.at(&index));
        }
    }
    numbers
}
