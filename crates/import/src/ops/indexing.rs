//! Operators that address single elements, and masks by position.

use super::compose::{choose, number, one, positions, two};
use super::movement::signed;
use super::reduce::one_axis;
use super::shape::target;
use crate::attributes::malformed;
use crate::context::NodeContext;
use quincunx_diag::Result;
use quincunx_graph::{
    Binary, Compare, Logic, Op, Pad, PadMode, Reduce, ReduceKind, SliceRange, ValueId,
};
use quincunx_tensor::{DType, Tensor, element_count, show_shape};

/// An index that no tensor has; `Gather` reports it.
const NOWHERE: f64 = (1_u64 << 50) as f64;

/// A constant list of i64.
fn list(node: &mut NodeContext<'_, '_>, shape: &[usize], values: Vec<i64>) -> Result<ValueId> {
    node.constant_before(Tensor::from_vec(shape, values)?)
}

/// Indices as i64, brought from below 0 to the end of axes with these extents, times steps. What
/// is out of range becomes [`NOWHERE`].
fn offsets(
    node: &mut NodeContext<'_, '_>,
    indices: ValueId,
    extents: ValueId,
    steps: ValueId,
) -> Result<ValueId> {
    if !matches!(node.dtype(indices), DType::I32 | DType::I64) {
        return Err(malformed(format!("indices are {}", node.dtype(indices))));
    }
    let indices = one(node, Op::Cast { to: DType::I64 }, indices)?;
    let zero = number(node, DType::I64, 0.0)?;
    let less = Op::Compare(Compare::Less);
    let from_end = two(node, less.clone(), indices, zero)?;
    let moved = two(node, Op::Binary(Binary::Add), indices, extents)?;
    let indices = choose(node, from_end, moved, indices)?;
    let below = two(node, less, indices, zero)?;
    let above = two(node, Op::Compare(Compare::GreaterOrEqual), indices, extents)?;
    let outside = two(node, Op::Logic(Logic::Or), below, above)?;
    let scaled = two(node, Op::Binary(Binary::Mul), indices, steps)?;
    let nowhere = number(node, DType::I64, NOWHERE)?;
    choose(node, outside, nowhere, scaled)
}

/// Row-major distances between neighbours along each axis.
fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1_usize; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis]);
    }
    strides
}

/// Element `i, j, …` is that of `x` with the index in place of the position along the axis.
pub(crate) fn gather_elements(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let (x, indices) = (node.operand(0)?, node.operand(1)?);
    let (x_shape, shape) = (node.shape(x), node.shape(indices));
    let axis = one_axis(node, 0, x_shape.len())?;
    let fits = |a: usize| a == axis || shape[a] <= x_shape[a];
    if shape.len() != x_shape.len() || !(0..shape.len()).all(fits) {
        return Err(malformed(format!(
            "indices of shape {} do not fit {}",
            show_shape(&shape),
            show_shape(&x_shape)
        )));
    }
    node.reads_extents(x, 0..x_shape.len());
    node.reads_extents(indices, 0..shape.len());
    let strides = strides(&x_shape);
    let count = element_count(&shape).unwrap_or(usize::MAX);
    if !node.may_store(count) {
        return Err(node.unsupported(format_args!("{count} indices")));
    }
    // What the other axes add to the position of every element.
    let mut base = vec![0_i64];
    for (a, &extent) in shape.iter().enumerate() {
        let stride = if a == axis { 0 } else { signed(strides[a])? };
        let step = |first: &i64| {
            let first = *first;
            (0_i64..).take(extent).map(move |i| first.saturating_add(i.saturating_mul(stride)))
        };
        base = base.iter().flat_map(step).collect();
    }
    let extent = number(node, DType::I64, x_shape[axis] as f64)?;
    let stride = number(node, DType::I64, strides[axis] as f64)?;
    let along = offsets(node, indices, extent, stride)?;
    let base = list(node, &shape, base)?;
    let at = two(node, Op::Binary(Binary::Add), along, base)?;
    let flat = one(node, Op::Reshape { shape: vec![-1] }, x)?;
    node.emit(Op::Gather { axis: 0 }, &[Some(flat), Some(at)])
}

/// Lists of indices along the last axis of the operand name parts of `x`.
pub(crate) fn gather_nd(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let (x, indices) = (node.operand(0)?, node.operand(1)?);
    let (x_shape, shape) = (node.shape(x), node.shape(indices));
    let batch = node.attributes.int("batch_dims")?.unwrap_or(0);
    let batch = usize::try_from(batch).unwrap_or(usize::MAX);
    let Some((&depth, outer)) = shape.split_last() else {
        return Err(malformed("the indices are a scalar".to_owned()));
    };
    let end = batch.saturating_add(depth);
    if depth == 0
        || end > x_shape.len()
        || batch > outer.len()
        || outer[..batch] != x_shape[..batch]
    {
        return Err(malformed(format!(
            "indices of shape {} with {batch} batch axes do not fit {}",
            show_shape(&shape),
            show_shape(&x_shape)
        )));
    }
    node.reads_extents(x, 0..end);
    node.reads_extents(indices, 0..shape.len());
    let addressed = &x_shape[batch..end];
    let steps = strides(addressed).into_iter().map(signed).collect::<Result<Vec<_>>>()?;
    let extents = addressed.iter().map(|&e| signed(e)).collect::<Result<Vec<_>>>()?;
    let (extents, steps) = (list(node, &[depth], extents)?, list(node, &[depth], steps)?);
    let parts = offsets(node, indices, extents, steps)?;
    let sum = Reduce { kind: ReduceKind::Sum, axes: vec![outer.len()], keep_dims: false };
    let mut rows = one(node, Op::Reduce(sum), parts)?;
    if batch > 0 {
        // Every index of the batch has a block of rows of its own.
        let images = element_count(&outer[..batch]).unwrap_or(0);
        let block = signed(element_count(addressed).unwrap_or(usize::MAX))?;
        if !node.may_store(images) {
            return Err(node.unsupported(format_args!("a batch of {images}")));
        }
        let mut first = outer[..batch].to_vec();
        first.resize(outer.len(), 1);
        let starts = (0_i64..).take(images).map(|image| image.saturating_mul(block)).collect();
        let starts = list(node, &first, starts)?;
        rows = two(node, Op::Binary(Binary::Add), rows, starts)?;
    }
    let mut joined = vec![element_count(&x_shape[..end]).unwrap_or(usize::MAX)];
    joined.extend_from_slice(&x_shape[end..]);
    let shape = target(node, &x_shape, joined)?;
    let table = one(node, Op::Reshape { shape }, x)?;
    node.emit(Op::Gather { axis: 0 }, &[Some(table), Some(rows)])
}

/// `on` at the index along a new axis of extent `depth`, else `off`.
pub(crate) fn one_hot(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let (indices, values) = (node.operand(0)?, node.operand(2)?);
    let depth = match node.parameter(1, "the depth")?.to_f64()[..] {
        [depth] if depth >= 1.0 && depth <= f64::from(1 << 24) => depth.trunc() as usize,
        ref other => return Err(malformed(format!("the depth is {other:?}, expected 1 to 2^24"))),
    };
    let mut shape = node.shape(indices).to_vec();
    let axis = one_axis(node, -1, shape.len() + 1)?;
    if node.shape(values)[..] != [2] {
        return Err(malformed("values are not a pair of off and on".to_owned()));
    }
    node.reads_extents(indices, 0..shape.len());
    let before = shape.clone();
    shape.insert(axis, 1);
    let indices = one(node, Op::Cast { to: DType::I64 }, indices)?;
    let shape = target(node, &before, shape)?;
    let indices = one(node, Op::Reshape { shape }, indices)?;
    let (zero, count) = (number(node, DType::I64, 0.0)?, number(node, DType::I64, depth as f64)?);
    let from_end = two(node, Op::Compare(Compare::Less), indices, zero)?;
    let moved = two(node, Op::Binary(Binary::Add), indices, count)?;
    let indices = choose(node, from_end, moved, indices)?;
    let range = positions(node, depth, before.len() - axis)?;
    let hits = two(node, Op::Compare(Compare::Equal), indices, range)?;
    let part = |node: &mut NodeContext<'_, '_>, start: i64| {
        let ranges = vec![SliceRange { axis: 0, start, end: start + 1, step: 1 }];
        let part = one(node, Op::Slice { ranges }, values)?;
        one(node, Op::Reshape { shape: vec![] }, part).map(Some)
    };
    let (off, on) = (part(node, 0)?, part(node, 1)?);
    node.emit(Op::Where, &[Some(hits), on, off])
}

/// The upper or lower triangle of matrices; the rest is 0.
pub(crate) fn trilu(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let x = node.operand(0)?;
    let upper = node.attributes.flag("upper", true)?;
    let diagonal = match node.optional_parameter(1, "k")?.map(|k| k.to_i64()) {
        None => 0,
        Some(Some(k)) if k.len() == 1 => k[0],
        Some(_) => return Err(malformed("k is not an integer".to_owned())),
    };
    let shape = node.shape(x);
    let &[.., rows, columns] = &shape[..] else {
        return Err(malformed(format!("a tensor of shape {} is not a matrix", show_shape(&shape))));
    };
    node.reads_extents(x, shape.len() - 2..shape.len());
    let inside = |row: usize, column: usize| {
        let distance = (column as i64).saturating_sub(row as i64);
        if upper { distance >= diagonal } else { distance <= diagonal }
    };
    let mask = matrix(node, rows, columns, inside)?;
    let mask = node.constant_before(Tensor::new(DType::Bool, &[rows, columns], mask.into())?)?;
    let dtype = node.dtype(x);
    let zero = Tensor::new(dtype, &[], vec![0; dtype.size()].into())?;
    let zero = node.constant_before(zero)?;
    node.emit(Op::Where, &[Some(mask), Some(x), Some(zero)])
}

/// A matrix of 0 and 1.
fn matrix(
    node: &mut NodeContext<'_, '_>,
    rows: usize,
    columns: usize,
    is_set: impl Fn(usize, usize) -> bool,
) -> Result<Vec<u8>> {
    if !node.may_store(rows.saturating_mul(columns)) {
        return Err(node.unsupported(format_args!("matrices of {rows} * {columns} elements")));
    }
    let row = |row: usize| (0..columns).map(move |column| (row, column));
    Ok((0..rows).flat_map(row).map(|(row, column)| u8::from(is_set(row, column))).collect())
}

/// Sums of all elements up to each one along an axis: with every step each element gains the sum of
/// as many elements before it as it already holds.
pub(crate) fn cumulative_sum(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let x = node.operand(0)?;
    let shape = node.shape(x);
    let axis = match node.parameter(1, "the axis")?.to_i64().as_deref() {
        Some(&[axis]) => super::movement::one_axis(axis, shape.len())?,
        _ => return Err(malformed("the axis is not an integer".to_owned())),
    };
    let exclusive = node.attributes.flag("exclusive", false)?;
    let reverse = node.attributes.flag("reverse", false)?;
    node.reads_extents(x, axis..axis + 1);
    let extent = signed(shape[axis])?;
    let mut sums = x;
    if exclusive && extent > 0 {
        sums = shifted(node, sums, axis, 1, reverse)?;
    }
    let mut step = 1;
    while step < extent {
        let before = shifted(node, sums, axis, step, reverse)?;
        sums = two(node, Op::Binary(Binary::Add), sums, before)?;
        step *= 2;
    }
    node.emit(Op::Identity, &[Some(sums)])
}

/// `x` moved along an axis by `step` elements, at most its extent, to the end or (`back`) to the
/// beginning; what comes in is 0.
fn shifted(
    node: &mut NodeContext<'_, '_>,
    x: ValueId,
    axis: usize,
    step: i64,
    back: bool,
) -> Result<ValueId> {
    let shape = node.shape(x);
    let (rank, extent) = (shape.len(), signed(shape[axis])?);
    let (start, end) = if back { (step, extent) } else { (0, extent - step) };
    let ranges = vec![SliceRange { axis, start, end, step: 1 }];
    let kept = one(node, Op::Slice { ranges }, x)?;
    let mut pads = vec![(0, 0); rank];
    pads[axis] = if back { (0, step) } else { (step, 0) };
    let mode = PadMode::Constant(0.0);
    one(node, Op::Pad(Pad { pads: pads.into_iter().collect(), mode }), kept)
}
