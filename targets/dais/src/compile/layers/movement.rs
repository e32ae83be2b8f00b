//! Operators that move elements cost nothing: numbers change places. Interpolation between elements
//! is a sum with exact weights.

use super::super::builder::Builder;
use super::super::linear::{Term, combine};
use super::super::wire::Wire;
use super::{Layer, Numbers, positions, refuse};
use quincunx_diag::Result;
use quincunx_graph::{Op, Resize, Source};
use quincunx_num::{Dyadic, Ratio};

/// The numbers of a node that only moves elements.
pub(super) fn moved(layer: &Layer<'_>) -> Result<Numbers> {
    let indices = matches!(layer.node.op, Op::Gather { .. });
    let none = || match indices {
        true => refuse("its indices are not constant, or out of range"),
        false => refuse("its elements come from unknown places"),
    };
    let sources = layer.graph.movement(layer.node).ok_or_else(none)?;
    let number = |source: Source| match source {
        Source::Operand { operand, element } => {
            let numbers = layer.operand(operand as usize)?;
            Ok(numbers[element as usize].clone())
        }
        Source::Value(value) => match Dyadic::from_f64(value) {
            Some(value) => Ok(Wire::Constant(value).into()),
            None => Err(refuse(format!("the number {value} has no fixed-point code"))),
        },
    };
    sources.into_iter().map(number).collect()
}

/// A resizing: elements, or sums of elements with weights that are binary fractions.
pub(super) fn resized(
    layer: &Layer<'_>,
    builder: &mut Builder<'_>,
    resize: &Resize,
) -> Result<Numbers> {
    if resize.is_nearest() {
        return moved(layer);
    }
    if !resize.is_exact() {
        return Err(refuse("its interpolation weights are not binary fractions"));
    }
    let (x, x_shape, shape) = (layer.operand(0)?, layer.shape_of(0), layer.shape());
    let taps: Vec<_> = resize
        .axes
        .iter()
        .enumerate()
        .map(|(place, &axis)| resize.taps(place, x_shape[axis], shape[axis]))
        .collect();
    let mut result = Vec::with_capacity(shape.iter().product());
    for out in positions(shape) {
        // Elements and weights along the axes so far.
        let mut reads: Vec<(usize, Dyadic)> = vec![(0, Dyadic::new(quincunx_num::Int::ONE, 0))];
        for (axis, &at) in out.iter().enumerate() {
            let resized = resize.axes.iter().position(|&resized| resized == axis);
            let along: Vec<(usize, f64)> = match resized {
                Some(place) => taps[place][at].to_vec(),
                None => vec![(at, 1.0)],
            };
            let mut next = Vec::new();
            for (offset, weight) in &reads {
                for &(element, factor) in &along {
                    let factor = Dyadic::from_f64(factor)
                        .ok_or_else(|| refuse("its interpolation weights are infinite"))?;
                    next.push((offset * x_shape[axis] + element, weight.mul(&factor)));
                }
            }
            reads = next;
        }
        let term = |(element, weight): (usize, Dyadic)| Term { number: x[element].clone(), weight };
        let terms: Vec<Term> = reads.into_iter().map(term).collect();
        result.push(combine(builder, &terms, &Ratio::ZERO)?);
    }
    Ok(result)
}
