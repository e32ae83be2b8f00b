//! Pooling.

use super::super::builder::Builder;
use super::super::exact::extreme;
use super::super::linear::{Term, combine};
use super::super::number::Number;
use super::{Layer, Numbers, positions, refuse};
use quincunx_diag::Result;
use quincunx_graph::{Pool, PoolKind};
use quincunx_num::{Dyadic, Int, Ratio};

pub(super) fn pooling(
    layer: &Layer<'_>,
    builder: &mut Builder<'_>,
    pool: &Pool,
) -> Result<Numbers> {
    let (x, x_shape, shape) = (layer.operand(0)?, layer.shape_of(0), layer.shape());
    let plane: usize = x_shape[2..].iter().product();
    let divisors = pool.divisors(&x_shape[2..], &shape[2..]);
    let taps = positions(&shape[2..]).into_iter().map(|out| pool.window.reads(&out, &x_shape[2..]));
    let places: Vec<_> = taps.zip(divisors).collect();
    let mut result = Vec::with_capacity(shape.iter().product());
    for p in 0..shape[0] * shape[1] {
        for (taps, divisor) in &places {
            let elements: Vec<&Number> =
                taps.iter().map(|&(source, _)| &x[p * plane + source]).collect();
            result.push(match pool.kind {
                PoolKind::Max => extreme_of(builder, &elements, true)?,
                PoolKind::Average { .. } => mean(builder, &elements, *divisor)?,
            });
        }
    }
    Ok(result)
}

/// The largest or smallest of some numbers, by a tournament.
pub(super) fn extreme_of(
    builder: &mut Builder<'_>,
    elements: &[&Number],
    largest: bool,
) -> Result<Number> {
    let mut level: Vec<Number> = elements.iter().map(|&number| number.clone()).collect();
    while level.len() > 1 {
        let mut next = Vec::with_capacity(level.len().div_ceil(2));
        for pair in level.chunks(2) {
            next.push(match pair {
                [a, b] => extreme(builder, a, b, largest)?,
                rest => rest[0].clone(),
            });
        }
        level = next;
    }
    level.pop().ok_or_else(|| refuse("the extreme of no elements is infinite"))
}

/// The sum of the elements divided by a number.
pub(super) fn mean(
    builder: &mut Builder<'_>,
    elements: &[&Number],
    divisor: usize,
) -> Result<Number> {
    let one = Dyadic::new(Int::ONE, 0);
    let term = |&number: &&Number| Term { number: number.clone(), weight: one.clone() };
    let terms: Vec<Term> = elements.iter().map(term).collect();
    let sum = combine(builder, &terms, &Ratio::ZERO)?;
    if divisor == 0 {
        return Err(refuse("the mean of no elements is not a number"));
    }
    let share = Ratio::from_parts(Int::ONE, divisor.into());
    sum.rescaled(builder, &share, &Ratio::ZERO)
}

fn planes<'a>(layer: &Layer<'a>) -> Result<(&'a Numbers, usize, usize)> {
    let (x, x_shape) = (layer.operand(0)?, layer.shape_of(0));
    let plane = x_shape[2..].iter().product();
    Ok((x, x_shape[..2].iter().product(), plane))
}

pub(super) fn global_average(layer: &Layer<'_>, builder: &mut Builder<'_>) -> Result<Numbers> {
    let (x, count, plane) = planes(layer)?;
    let of = |p: usize| x[p * plane..][..plane].iter().collect::<Vec<_>>();
    (0..count).map(|p| mean(builder, &of(p), plane)).collect()
}

pub(super) fn global_max(layer: &Layer<'_>, builder: &mut Builder<'_>) -> Result<Numbers> {
    let (x, count, plane) = planes(layer)?;
    let of = |p: usize| x[p * plane..][..plane].iter().collect::<Vec<_>>();
    (0..count).map(|p| extreme_of(builder, &of(p), true)).collect()
}
