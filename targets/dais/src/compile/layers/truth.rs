//! Comparisons, truth values, choices and positions of extremes.

use super::super::builder::Builder;
use super::super::exact::aligned;
use super::super::number::{Affine, Number};
use super::super::wire::Wire;
use super::numeric::groups;
use super::{Layer, Numbers, refuse};
use crate::isa::BinaryBits;
use quincunx_diag::Result;
use quincunx_graph::{ArgExtreme, Compare, Logic};
use quincunx_num::{Dyadic, Int, Ratio, Rounding, round_ratio};

/// 1 where a comparison holds, else 0.
pub(super) fn compare(
    layer: &Layer<'_>,
    builder: &mut Builder<'_>,
    compare: Compare,
) -> Result<Numbers> {
    let (a, b) = (layer.broadcast(0)?, layer.broadcast(1)?);
    let one = |(a, b): (&Number, &Number)| {
        let known = match (a.known(), b.known()) {
            (None, Some(limit)) => with_known(builder, a, &limit, compare)?,
            (Some(limit), None) => with_known(builder, b, &limit, mirrored(compare))?,
            _ => None,
        };
        if let Some(truth) = known {
            return Ok(truth.into());
        }
        let (wires, _) = aligned(builder, &[a, b])?;
        let difference = builder.subtract(&wires[0], &wires[1])?;
        let reversed = difference.negated();
        let truth = match compare {
            Compare::Less => builder.is_negative(&difference)?,
            Compare::Greater => builder.is_negative(&reversed)?,
            Compare::LessOrEqual => {
                let greater = builder.is_negative(&reversed)?;
                builder.not(&greater)?
            }
            Compare::GreaterOrEqual => {
                let less = builder.is_negative(&difference)?;
                builder.not(&less)?
            }
            Compare::Equal => {
                let differs = builder.is_not_zero(&difference)?;
                builder.not(&differs)?
            }
        };
        Ok(truth.into())
    };
    a.iter().zip(&b).map(one).collect()
}

/// The same comparison with its sides exchanged.
fn mirrored(compare: Compare) -> Compare {
    match compare {
        Compare::Less => Compare::Greater,
        Compare::LessOrEqual => Compare::GreaterOrEqual,
        Compare::Greater => Compare::Less,
        Compare::GreaterOrEqual => Compare::LessOrEqual,
        Compare::Equal => Compare::Equal,
    }
}

/// A comparison with a known number, of a number that is more than its wire: the wire is compared
/// with the multiples of its step next to where the number is the limit.
fn with_known(
    builder: &mut Builder<'_>,
    x: &Number,
    limit: &Ratio,
    compare: Compare,
) -> Result<Option<Wire>> {
    let Some(Affine { unit, offset }) = x.affine().filter(|_| x.form.is_some()) else {
        return Ok(None);
    };
    let range = builder.range(&x.wire);
    let step = Dyadic::new(Int::ONE, range.exponent());
    let at = (limit - offset) / unit / step.to_ratio();
    // Whatever is outside the range by a step is outside.
    let (low, high) = (range.low() - Int::ONE, range.high() + Int::ONE);
    let bound = |rounding| {
        let steps = round_ratio(&at, rounding).clamp(low.clone(), high.clone());
        Wire::Constant(Dyadic::new(steps, range.exponent()))
    };
    let (least, most) = (bound(Rounding::Ceil), bound(Rounding::Floor));
    let below = |builder: &mut Builder<'_>| {
        let difference = builder.subtract(&x.wire, &least)?;
        builder.is_negative(&difference)
    };
    let above = |builder: &mut Builder<'_>| {
        let difference = builder.subtract(&most, &x.wire)?;
        builder.is_negative(&difference)
    };
    Ok(Some(match compare {
        Compare::Less => below(builder)?,
        Compare::Greater => above(builder)?,
        Compare::LessOrEqual => {
            let above = above(builder)?;
            builder.not(&above)?
        }
        Compare::GreaterOrEqual => {
            let below = below(builder)?;
            builder.not(&below)?
        }
        Compare::Equal if least != most => Wire::zero(),
        Compare::Equal => {
            let difference = builder.subtract(&x.wire, &least)?;
            let differs = builder.is_not_zero(&difference)?;
            builder.not(&differs)?
        }
    }))
}

pub(super) fn logic(layer: &Layer<'_>, builder: &mut Builder<'_>, logic: Logic) -> Result<Numbers> {
    let (a, b) = (layer.broadcast(0)?, layer.broadcast(1)?);
    let op = match logic {
        Logic::And => BinaryBits::And,
        Logic::Or => BinaryBits::Or,
        Logic::Xor => BinaryBits::Xor,
    };
    let one = |(a, b): (&Number, &Number)| Ok(builder.combine_truths(op, &a.wire, &b.wire)?.into());
    a.iter().zip(&b).map(one).collect()
}

/// One of two numbers.
pub(super) fn choice(layer: &Layer<'_>, builder: &mut Builder<'_>) -> Result<Numbers> {
    let conditions = layer.broadcast(0)?;
    let (yes, no) = (layer.broadcast(1)?, layer.broadcast(2)?);
    let mut result = Vec::with_capacity(conditions.len());
    for (condition, (yes, no)) in conditions.iter().zip(yes.iter().zip(&no)) {
        if let Some(known) = condition.known() {
            result.push(if known.is_zero() { no.clone() } else { yes.clone() });
            continue;
        }
        // What both make of their wires can wait.
        if yes.form == no.form {
            let wire = builder.choose(&condition.wire, &yes.wire, &no.wire)?;
            result.push(yes.with_wire(wire));
            continue;
        }
        let (wires, unit) = aligned(builder, &[yes, no])?;
        let wire = builder.choose(&condition.wire, &wires[0], &wires[1])?;
        result.push(Number::scaled(builder, &wire, &unit, &Ratio::ZERO)?);
    }
    Ok(result)
}

/// Positions of extremes, by a tournament of pairs of number and position.
pub(super) fn arg_extreme(
    layer: &Layer<'_>,
    builder: &mut Builder<'_>,
    arg: &ArgExtreme,
) -> Result<Numbers> {
    let (numbers, size, count) = groups(layer.operand(0)?, layer.shape_of(0), &[arg.axis]);
    if size == 0 {
        return Err(refuse("no elements have no position"));
    }
    (0..count)
        .map(|group| {
            let group: Vec<&Number> = numbers[group * size..][..size].iter().collect();
            Ok(position(builder, arg, &group)?.into())
        })
        .collect()
}

fn position(builder: &mut Builder<'_>, arg: &ArgExtreme, group: &[&Number]) -> Result<Wire> {
    let (wires, _) = aligned(builder, group)?;
    let mut level: Vec<(Wire, Wire)> = Vec::with_capacity(wires.len());
    for (index, wire) in wires.into_iter().enumerate() {
        let wire = if arg.largest { wire } else { wire.negated() };
        level.push((wire, Wire::whole(i64::try_from(index).expect("an index in memory"))));
    }
    while level.len() > 1 {
        let mut next = Vec::with_capacity(level.len().div_ceil(2));
        for pair in level.chunks(2) {
            next.push(match pair {
                [a, b] => better(builder, a, b, arg.last)?,
                rest => rest[0].clone(),
            });
        }
        level = next;
    }
    Ok(level.swap_remove(0).1)
}

/// The larger of two numbers with its position; of equal ones the first, or the last.
fn better(
    builder: &mut Builder<'_>,
    a: &(Wire, Wire),
    b: &(Wire, Wire),
    last: bool,
) -> Result<(Wire, Wire)> {
    let difference = builder.subtract(&a.0, &b.0)?;
    // Equal numbers go to the second if half a step less than nothing is negative.
    let test = match last {
        true => {
            let step = builder.range(&difference).exponent();
            let step = Dyadic::new(Int::from(-1), step);
            builder.add(&difference, &Wire::Constant(step))?
        }
        false => difference,
    };
    let range = builder.range(&a.1).union(&builder.range(&b.1));
    let position = builder.select(&test, &b.1, &a.1, range)?;
    Ok((builder.max(&a.0, &b.0)?, position))
}
