//! Exact results of reductions.

use super::elementwise::{no_exact_result, unit_power};
use super::{ExactTensor, unsupported};
use crate::execute::groups::{Groups, position_of_extreme};
use crate::{ArgExtreme, Reduce, ReduceKind};
use quincunx_diag::Result;
use quincunx_num::{Int, Ratio};
use quincunx_tensor::DType;

pub(super) fn reduce(
    reduce: &Reduce,
    x: &ExactTensor,
    shape: &[usize],
    dtype: DType,
) -> Result<ExactTensor> {
    let size: usize = reduce.axes.iter().map(|&axis| x.shape[axis]).product();
    let groups = Groups::new(&x.integers, &x.shape, &reduce.axes);
    let each = |function: &dyn Fn(&[Int]) -> Int| groups.iter().map(function).collect();
    let of_unit = |integers, unit| Ok(ExactTensor::new(shape, integers, unit));
    match reduce.kind {
        ReduceKind::Sum => of_unit(each(&|group| group.iter().sum()), x.unit.clone()),
        ReduceKind::Mean if dtype.is_float() => {
            let unit = &x.unit / Ratio::from(Int::from(size));
            of_unit(each(&|group| group.iter().sum()), unit)
        }
        // The quotient of integers is truncated.
        ReduceKind::Mean => {
            let mean = |group: &[Int]| group.iter().sum::<Int>() / Int::from(size);
            of_unit(each(&mean), Ratio::ONE)
        }
        ReduceKind::Max | ReduceKind::Min if size == 0 => {
            Err(unsupported(format!("{} of no elements has no exact result", reduce.kind.name())))
        }
        ReduceKind::Max => {
            of_unit(each(&|group| group.iter().max().cloned().unwrap_or_default()), x.unit.clone())
        }
        ReduceKind::Min => {
            of_unit(each(&|group| group.iter().min().cloned().unwrap_or_default()), x.unit.clone())
        }
        ReduceKind::Prod => {
            of_unit(each(&|group| group.iter().product()), unit_power(&x.unit, size))
        }
        ReduceKind::L1 => {
            let magnitude = |v: &Int| if v < &Int::ZERO { -v } else { v.clone() };
            of_unit(each(&|group| group.iter().map(magnitude).sum()), x.unit.clone())
        }
        ReduceKind::SumSquare => {
            of_unit(each(&|group| group.iter().map(|v| v * v).sum()), &x.unit * &x.unit)
        }
        ReduceKind::L2 | ReduceKind::LogSum | ReduceKind::LogSumExp => {
            Err(no_exact_result(reduce.kind.name()))
        }
    }
}

pub(super) fn arg_extreme(arg: &ArgExtreme, x: &ExactTensor, shape: &[usize]) -> ExactTensor {
    let groups = Groups::new(&x.integers, &x.shape, &[arg.axis]);
    let position = |group: &[Int]| position_of_extreme(group, arg.largest, arg.last).into();
    ExactTensor::new(shape, groups.iter().map(position).collect(), Ratio::ONE)
}

pub(super) fn global_max(x: &ExactTensor, shape: &[usize]) -> Result<ExactTensor> {
    let axes = (2..x.shape.len()).collect();
    reduce(&Reduce { kind: ReduceKind::Max, axes, keep_dims: true }, x, shape, DType::F32)
}
