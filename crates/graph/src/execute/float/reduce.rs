//! Reductions. Float tensors are reduced in f64 and rounded once; sums of integers wrap.

use super::numeric::{Numeric, real_tensor, with_number};
use crate::execute::groups::{Groups, position_of_extreme};
use crate::{ArgExtreme, Reduce, ReduceKind, Softmax};
use quincunx_diag::Result;
use quincunx_tensor::Tensor;

pub(super) fn reduce(reduce: &Reduce, x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    if x.dtype().is_float() {
        let values = x.to_f64();
        let groups = Groups::new(&values, x.shape(), &reduce.axes);
        let results = groups.iter().map(|group| reduce_real(reduce.kind, group)).collect();
        return real_tensor(x.dtype(), shape, results);
    }
    with_number!(x.dtype(), T => {
        let values = x.values::<T>()?;
        let groups = Groups::new(&values, x.shape(), &reduce.axes);
        let results = groups.iter().map(|group| reduce_whole(reduce.kind, group)).collect();
        Tensor::from_vec::<T>(shape, results)
    })
}

fn reduce_real(kind: ReduceKind, group: &[f64]) -> f64 {
    // The standard library's sum of nothing is -0.
    let sum = |function: fn(f64) -> f64| group.iter().map(|&v| function(v)).sum::<f64>() + 0.0;
    match kind {
        ReduceKind::Mean => sum(|v| v) / group.len() as f64,
        ReduceKind::Sum => sum(|v| v),
        ReduceKind::Max => group.iter().copied().fold(f64::NEG_INFINITY, Numeric::larger),
        ReduceKind::Min => group.iter().copied().fold(f64::INFINITY, Numeric::smaller),
        ReduceKind::Prod => group.iter().product(),
        ReduceKind::L1 => sum(f64::abs),
        ReduceKind::L2 => sum(|v| v * v).sqrt(),
        ReduceKind::SumSquare => sum(|v| v * v),
        ReduceKind::LogSum => sum(|v| v).ln(),
        ReduceKind::LogSumExp => log_sum_exp(group),
    }
}

/// The largest element is taken out, so that nothing overflows.
fn log_sum_exp(group: &[f64]) -> f64 {
    let top = group.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top.is_infinite() {
        return top;
    }
    top + group.iter().map(|&v| (v - top).exp()).sum::<f64>().ln()
}

fn reduce_whole<T: Numeric>(kind: ReduceKind, group: &[T]) -> T {
    let fold = |first: T, function: fn(T, T) -> T| group.iter().copied().fold(first, function);
    let real = || reduce_real(kind, &group.iter().map(|v| v.to_f64()).collect::<Vec<_>>());
    match kind {
        ReduceKind::Sum => fold(T::ZERO, T::add),
        ReduceKind::Max => fold(T::LOWEST, T::larger),
        ReduceKind::Min => fold(T::HIGHEST, T::smaller),
        ReduceKind::Prod => fold(T::ONE, T::mul),
        ReduceKind::L1 => group.iter().fold(T::ZERO, |sum, v| sum.add(v.abs())),
        ReduceKind::SumSquare => group.iter().fold(T::ZERO, |sum, v| sum.add(v.mul(*v))),
        ReduceKind::Mean | ReduceKind::L2 | ReduceKind::LogSum | ReduceKind::LogSumExp => {
            T::from_f64(real())
        }
    }
}

pub(super) fn arg_extreme(arg: &ArgExtreme, x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    with_number!(x.dtype(), T => {
        let values = x.values::<T>()?;
        let groups = Groups::new(&values, x.shape(), &[arg.axis]);
        let position = |group: &[T]| position_of_extreme(group, arg.largest, arg.last);
        Tensor::from_vec::<i64>(shape, groups.iter().map(position).collect())
    })
}

pub(super) fn global_max(x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    let axes: Vec<usize> = (2..x.shape().len()).collect();
    reduce(&Reduce { kind: ReduceKind::Max, axes, keep_dims: true }, x, shape)
}

/// `e^(x - max)` over its sum, along one axis.
pub(super) fn softmax(softmax: &Softmax, x: &Tensor) -> Result<Tensor> {
    let mut values = x.to_f64();
    if values.is_empty() {
        return real_tensor(x.dtype(), x.shape(), values);
    }
    let extent = x.shape()[softmax.axis];
    let inner: usize = x.shape()[softmax.axis + 1..].iter().product();
    let outer: usize = x.shape()[..softmax.axis].iter().product();
    for first in (0..outer).flat_map(|o| (0..inner).map(move |i| o * extent * inner + i)) {
        softmax_line(softmax.log, &mut values[first..], inner, extent);
    }
    real_tensor(x.dtype(), x.shape(), values)
}

/// One line of `extent` elements, `step` apart.
fn softmax_line(log: bool, values: &mut [f64], step: usize, extent: usize) {
    let top = values.iter().step_by(step).take(extent).copied().fold(f64::NEG_INFINITY, f64::max);
    let line = || (0..extent).map(|index| index * step);
    let total: f64 = line().map(|at| (values[at] - top).exp()).sum();
    for at in line() {
        let moved = values[at] - top;
        values[at] = if log { moved - total.ln() } else { moved.exp() / total };
    }
}
