//! Moved elements: for every element of the result, where it comes from. That is geometry, which the
//! graph defines.

use super::{Fixed, exact, index_of, offset};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Resize, Source};
use quincunx_num::{Dyadic, Ratio};

/// Elements in the places that the graph's geometry says.
pub(super) fn moved(
    sources: &[Source],
    operands: &[Option<&Fixed>],
    shape: &[usize],
) -> Result<Fixed> {
    let bug = || Diagnostic::bug("an operand is absent");
    let number = |source: &Source| match *source {
        Source::Operand { operand, element } => {
            let operand = operands.get(operand as usize).copied().flatten().ok_or_else(bug)?;
            Ok(Ratio::from(operand.codes[element as usize].clone()) * &operand.unit)
        }
        Source::Value(value) => dyadic(value),
    };
    let numbers: Vec<Ratio> = sources.iter().map(number).collect::<Result<_>>()?;
    let float = operands.iter().flatten().any(|operand| operand.float);
    Ok(Fixed::of(shape, &numbers, float))
}

pub(super) fn transpose(x: &Fixed, order: &[usize]) -> Fixed {
    let shape: Vec<usize> = order.iter().map(|&axis| x.shape[axis]).collect();
    let codes = (0..x.codes.len())
        .map(|position| {
            let out = index_of(position, &shape);
            let mut source = vec![0; out.len()];
            order.iter().zip(&out).for_each(|(&axis, &i)| source[axis] = i);
            x.codes[offset(&source, &x.shape)].clone()
        })
        .collect();
    Fixed { shape, codes, ..x.clone() }
}

/// Sums of elements with the weights that the graph's geometry gives, axis by axis.
pub(super) fn interpolated(resize: &Resize, x: &Fixed, shape: &[usize]) -> Fixed {
    let mut current = x.clone();
    for (place, &axis) in resize.axes.iter().enumerate() {
        let mut next = current.shape.clone();
        next[axis] = shape[axis];
        let taps = resize.taps(place, x.shape[axis], shape[axis]);
        let number = |position: usize| {
            let out = index_of(position, &next);
            let along = |&(element, weight): &(usize, _)| {
                let mut index = out.clone();
                index[axis] = element;
                current.at(&index) * exact(weight)
            };
            taps[out[axis]].iter().map(along).fold(Ratio::ZERO, |sum, part| sum + part)
        };
        let numbers: Vec<Ratio> = (0..next.iter().product()).map(number).collect();
        current = Fixed::of(&next, &numbers, false);
    }
    current
}

fn dyadic(number: f64) -> Result<Ratio> {
    let number = Dyadic::from_f64(number).map(|number| number.to_ratio());
    number.ok_or_else(|| Diagnostic::bug("a claimed number is finite"))
}
