//! Reductions and normalisations with known statistics.

use super::{Fixed, Job, exact, function, index_of, offset};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{BatchNorm, Reduce, ReduceKind};
use quincunx_num::Ratio;

/// Mean or largest element of every plane.
pub(super) fn global(x: &Fixed, shape: &[usize], mean: bool) -> Fixed {
    let plane: usize = x.shape[2..].iter().product();
    let numbers: Vec<Ratio> = x.numbers().collect();
    let one = |plane: &[Ratio]| match mean {
        true => total(plane) / Ratio::from(plane.len()),
        false => plane.iter().max().cloned().unwrap_or(Ratio::ZERO),
    };
    let results: Vec<Ratio> = numbers.chunks(plane.max(1)).map(one).collect();
    Fixed::of(shape, &results, x.float)
}

fn total(numbers: &[Ratio]) -> Ratio {
    numbers.iter().fold(Ratio::ZERO, |sum, number| sum + number)
}

/// Walks all elements and hands each to the result it belongs to.
pub(super) fn reduce(reduce: &Reduce, x: &Fixed, job: &Job<'_>) -> Result<Fixed> {
    let kept: Vec<usize> = (0..x.shape.len())
        .map(|axis| if reduce.axes.contains(&axis) { 1 } else { x.shape[axis] })
        .collect();
    let mut groups: Vec<Vec<Ratio>> = vec![Vec::new(); kept.iter().product()];
    for (position, number) in x.numbers().enumerate() {
        groups[offset(&index_of(position, &x.shape), &kept)].push(number);
    }
    let mut float = x.float;
    let mut results = Vec::with_capacity(groups.len());
    for group in &groups {
        let squares = || group.iter().fold(Ratio::ZERO, |sum, v| sum + v * v);
        results.push(match reduce.kind {
            ReduceKind::Sum => total(group),
            ReduceKind::Mean => total(group) / Ratio::from(group.len()),
            ReduceKind::Max => group.iter().max().cloned().unwrap_or(Ratio::ZERO),
            ReduceKind::Min => group.iter().min().cloned().unwrap_or(Ratio::ZERO),
            ReduceKind::Prod => group.iter().fold(Ratio::ONE, |product, v| product * v),
            ReduceKind::L1 => group.iter().fold(Ratio::ZERO, |sum, v| sum + v.clone().max(-v)),
            ReduceKind::SumSquare => squares(),
            ReduceKind::L2 => {
                float = true;
                function::in_f64(&squares(), job.dtype, f64::sqrt)?
            }
            ReduceKind::LogSum => {
                float = true;
                function::in_f64(&total(group), job.dtype, f64::ln)?
            }
            ReduceKind::LogSumExp => {
                return Err(Diagnostic::bug(format!("{} is never claimed", reduce.kind.name())));
            }
        });
    }
    Ok(Fixed::of(job.shape, &results, float))
}

/// In f32, operator by operator.
pub(super) fn batch_norm(
    norm: &BatchNorm,
    operands: &[Option<&Fixed>],
    job: &Job<'_>,
) -> Result<Fixed> {
    let bug = || Diagnostic::bug("a batch normalisation has five operands");
    let of = |index: usize| operands.get(index).copied().flatten().ok_or_else(bug);
    let list =
        |index: usize| Ok(of(index)?.numbers().map(|v| v.to_f32().value()).collect::<Vec<f32>>());
    let (scale, bias, mean, variance) = (list(1)?, list(2)?, list(3)?, list(4)?);
    let x = of(0)?;
    let plane: usize = x.shape[2..].iter().product();
    let one = |(position, number): (usize, Ratio)| {
        let c = position / plane.max(1) % scale.len();
        let factor = scale[c] / (variance[c] + norm.epsilon).sqrt();
        let value = (number.to_f32().value() - mean[c]) * factor + bias[c];
        exact(f64::from(value))
    };
    let numbers: Vec<Ratio> = x.numbers().enumerate().map(one).collect();
    Ok(Fixed::of(job.shape, &numbers, true))
}
