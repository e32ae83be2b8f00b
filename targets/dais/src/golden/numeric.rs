//! Operators that select and reduce numbers.

use super::{Fixed, align, in_common_unit, index_of, offset};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Activation, Reduce, ReduceKind, Unary};
use quincunx_num::{Dyadic, Int};

/// The operators that change only the sign.
pub(super) fn sign_operator(unary: Unary, x: &Fixed) -> Result<Fixed> {
    let apply: fn(&Int) -> Int = match unary {
        Unary::Relu => |code| code.clone().max(Int::ZERO),
        Unary::Neg => |code| -code.clone(),
        Unary::Abs => |code| code.clone().max(-code.clone()),
        _ => return Err(Diagnostic::bug(format!("{} is never claimed", unary.name()))),
    };
    Ok(Fixed { codes: x.codes.iter().map(apply).collect(), ..x.clone() })
}

/// Numbers in units of their smallest bit.
fn from_numbers(shape: &[usize], numbers: &[Dyadic]) -> Fixed {
    let exponent = numbers.iter().filter(|v| !v.is_zero()).map(Dyadic::exponent).min().unwrap_or(0);
    let codes = numbers.iter().map(|v| v.in_units(exponent).unwrap_or_default()).collect();
    Fixed { shape: shape.to_vec(), codes, exponent }
}

fn numbers(x: &Fixed) -> impl Iterator<Item = Dyadic> {
    x.codes.iter().map(|code| Dyadic::new(code.clone(), x.exponent))
}

fn exact(value: f32) -> Result<Dyadic> {
    Dyadic::from_f64(f64::from(value))
        .ok_or_else(|| Diagnostic::bug("a claimed parameter is finite"))
}

pub(super) fn activation(activation: Activation, x: &Fixed) -> Result<Fixed> {
    let one = Dyadic::new(Int::ONE, 0);
    let results: Vec<Dyadic> = match activation {
        Activation::LeakyRelu { alpha } => {
            let alpha = exact(alpha)?;
            numbers(x).map(|v| leaky(v, &alpha)).collect()
        }
        Activation::Clip { min, max } => {
            let min = min.filter(|&min| min != f32::NEG_INFINITY).map(exact).transpose()?;
            let max = max.filter(|&max| max != f32::INFINITY).map(exact).transpose()?;
            let raise = |v: Dyadic| min.clone().map_or(v.clone(), |min| v.max(min));
            let lower = |v: Dyadic| max.clone().map_or(v.clone(), |max| v.min(max));
            numbers(x).map(|v| lower(raise(v))).collect()
        }
        Activation::HardSigmoid { alpha, beta } => {
            let (alpha, beta) = (exact(alpha)?, exact(beta)?);
            let line = |v: Dyadic| alpha.mul(&v).add(&beta);
            numbers(x).map(|v| line(v).clamp(Dyadic::ZERO, one.clone())).collect()
        }
        Activation::Elu { .. } | Activation::Selu { .. } => {
            return Err(Diagnostic::bug(format!("{} is never claimed", activation.name())));
        }
    };
    Ok(from_numbers(&x.shape, &results))
}

fn leaky(x: Dyadic, slope: &Dyadic) -> Dyadic {
    if x < Dyadic::ZERO { x.mul(slope) } else { x }
}

pub(super) fn prelu(x: &Fixed, slopes: &Fixed) -> Result<Fixed> {
    let slope = |position: usize| {
        let at = offset(&index_of(position, &x.shape), &slopes.shape);
        Dyadic::new(slopes.codes[at].clone(), slopes.exponent)
    };
    let results: Vec<Dyadic> =
        numbers(x).enumerate().map(|(position, v)| leaky(v, &slope(position))).collect();
    Ok(from_numbers(&x.shape, &results))
}

pub(super) fn choose(condition: &Fixed, yes: &Fixed, no: &Fixed, shape: &[usize]) -> Fixed {
    let exponent = yes.exponent.min(no.exponent);
    let (yes_codes, no_codes) = (align(yes, exponent), align(no, exponent));
    let codes = (0..shape.iter().product())
        .map(|position| {
            let index = index_of(position, shape);
            if condition.codes[offset(&index, &condition.shape)] == Int::ZERO {
                no_codes[offset(&index, &no.shape)].clone()
            } else {
                yes_codes[offset(&index, &yes.shape)].clone()
            }
        })
        .collect();
    Fixed { shape: shape.to_vec(), codes, exponent }
}

pub(super) fn global_max(x: &Fixed, shape: &[usize]) -> Fixed {
    let plane: usize = x.shape[2..].iter().product();
    let largest = |plane: &[Int]| plane.iter().max().cloned().unwrap_or_default();
    let codes = x.codes.chunks(plane.max(1)).map(largest).collect();
    Fixed { shape: shape.to_vec(), codes, exponent: x.exponent }
}

/// Walks all elements and hands each to the result it belongs to.
pub(super) fn reduce(reduce: &Reduce, x: &Fixed, shape: &[usize]) -> Result<Fixed> {
    let kept_shape: Vec<usize> = (0..x.shape.len())
        .map(|axis| if reduce.axes.contains(&axis) { 1 } else { x.shape[axis] })
        .collect();
    let mut groups: Vec<Vec<Int>> = vec![Vec::new(); kept_shape.iter().product()];
    for (position, code) in x.codes.iter().enumerate() {
        groups[offset(&index_of(position, &x.shape), &kept_shape)].push(code.clone());
    }
    let each = |function: fn(&[Int]) -> (Int, usize)| {
        let results: Vec<(Int, usize)> = groups.iter().map(|group| function(group)).collect();
        in_common_unit(shape, x.exponent, &results)
    };
    Ok(match reduce.kind {
        ReduceKind::Sum => each(|group| (group.iter().sum(), 1)),
        ReduceKind::Mean => each(|group| (group.iter().sum(), group.len())),
        ReduceKind::Max => each(|group| (group.iter().max().cloned().unwrap_or_default(), 1)),
        ReduceKind::Min => each(|group| (group.iter().min().cloned().unwrap_or_default(), 1)),
        ReduceKind::Prod
        | ReduceKind::L1
        | ReduceKind::L2
        | ReduceKind::SumSquare
        | ReduceKind::LogSum
        | ReduceKind::LogSumExp => {
            return Err(Diagnostic::bug(format!("{} is never claimed", reduce.kind.name())));
        }
    })
}
