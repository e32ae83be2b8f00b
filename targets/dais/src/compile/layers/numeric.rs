//! Lowering of operators that select and reduce numbers.

use super::{Builder, Wire, Wires, factor, max_of, mean, sum};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Activation, Reduce, ReduceKind};
use quincunx_num::{Dyadic, Int, Interval};
use quincunx_tensor::View;

pub(super) fn lower_activation(
    builder: &mut Builder<'_>,
    activation: Activation,
    x: &Wire,
) -> Result<Wire> {
    match activation {
        Activation::LeakyRelu { alpha } => leaky(builder, x, &factor(alpha)?),
        Activation::Clip { min, max } => {
            let raised = match min.filter(|&min| min != f32::NEG_INFINITY) {
                Some(min) => builder.max(x, &Wire::Constant(factor(min)?))?,
                None => x.clone(),
            };
            match max.filter(|&max| max != f32::INFINITY) {
                Some(max) => builder.min(&raised, &Wire::Constant(factor(max)?)),
                None => Ok(raised),
            }
        }
        Activation::HardSigmoid { alpha, beta } => {
            let line = sum(builder, &[(x.clone(), factor(alpha)?)], &factor(beta)?)?;
            let raised = builder.relu(&line)?;
            builder.min(&raised, &Wire::Constant(Dyadic::new(Int::ONE, 0)))
        }
        Activation::Elu { .. } | Activation::Selu { .. } => {
            Err(Diagnostic::bug(format!("{} is never claimed", activation.name())))
        }
    }
}

/// `x` where `x >= 0`, else `slope * x`.
pub(super) fn leaky(builder: &mut Builder<'_>, x: &Wire, slope: &Dyadic) -> Result<Wire> {
    let range = builder.range(x);
    if range.low() >= &Int::ZERO {
        return Ok(x.clone());
    }
    let negative = builder.multiply(x, &Wire::Constant(slope.clone()))?;
    let below =
        Interval::new(range.low().clone(), range.high().clone().min(Int::ZERO), range.exponent());
    let above = Interval::new(Int::ZERO, range.high().clone().max(Int::ZERO), range.exponent());
    let result = below.times(&Interval::point(slope)).union(&above);
    builder.select(x, &negative, x, result)
}

pub(super) fn lower_global_max(
    builder: &mut Builder<'_>,
    x: &Wires,
    x_shape: &[usize],
    shape: &[usize],
) -> Result<Wires> {
    let plane: usize = x_shape[2..].iter().product();
    (0..shape[0] * shape[1])
        .map(|p| max_of(builder, &x[p * plane..][..plane].iter().collect::<Vec<_>>()))
        .collect()
}

pub(super) fn lower_reduce(
    builder: &mut Builder<'_>,
    reduce: &Reduce,
    x: &Wires,
    x_shape: &[usize],
) -> Result<Wires> {
    let (joined, kept): (Vec<usize>, Vec<usize>) =
        (0..x_shape.len()).partition(|axis| reduce.axes.contains(axis));
    let extent = |axes: &[usize]| axes.iter().map(|&axis| x_shape[axis]).product::<usize>();
    let (size, count) = (extent(&joined), extent(&kept));
    let wires = View::new(x, x_shape).permute(&[kept, joined].concat()).to_vec();
    (0..count)
        .map(|group| {
            let group: Vec<&Wire> = wires[group * size..][..size].iter().collect();
            reduce_group(builder, reduce.kind, &group)
        })
        .collect()
}

fn reduce_group(builder: &mut Builder<'_>, kind: ReduceKind, group: &[&Wire]) -> Result<Wire> {
    match kind {
        ReduceKind::Sum => mean(builder, group, 1),
        ReduceKind::Mean => mean(builder, group, group.len()),
        ReduceKind::Max => max_of(builder, group),
        ReduceKind::Min => {
            let negated: Vec<Wire> = group.iter().map(|wire| wire.negated()).collect();
            Ok(max_of(builder, &negated.iter().collect::<Vec<_>>())?.negated())
        }
        ReduceKind::Prod
        | ReduceKind::L1
        | ReduceKind::L2
        | ReduceKind::SumSquare
        | ReduceKind::LogSum
        | ReduceKind::LogSumExp => {
            Err(Diagnostic::bug(format!("{} is never claimed", kind.name())))
        }
    }
}
