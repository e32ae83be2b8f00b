//! Moved elements, from the definition of each operator: for every element of the result, where it
//! comes from.

use super::{Fixed, exact, index_of, offset};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Node, Op, Pad, PadMode, Resize, SliceRange};
use quincunx_num::{Dyadic, Ratio};

/// One element of the result: an element of an operand, or a number.
enum Pick {
    Element(usize, Vec<usize>),
    Number(f64),
}

/// Computes an operator that only moves elements.
pub(super) fn moved(node: &Node, operands: &[Option<&Fixed>], shape: &[usize]) -> Result<Fixed> {
    let operands: Vec<&Fixed> = operands.iter().copied().flatten().collect();
    let mut numbers = Vec::new();
    for position in 0..shape.iter().product() {
        numbers.push(match pick(&node.op, &operands, &index_of(position, shape), shape)? {
            Pick::Element(operand, index) => operands[operand].at(&index),
            Pick::Number(number) => dyadic(number)?,
        });
    }
    let float = operands.iter().any(|operand| operand.float);
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

fn pick(op: &Op, operands: &[&Fixed], out: &[usize], shape: &[usize]) -> Result<Pick> {
    let x = &operands[0].shape;
    let mut index = out.to_vec();
    match op {
        Op::Concat { axis } => {
            let mut operand = 0;
            while index[*axis] >= operands[operand].shape[*axis] {
                index[*axis] -= operands[operand].shape[*axis];
                operand += 1;
            }
            return Ok(Pick::Element(operand, index));
        }
        Op::Slice { ranges } => ranges.iter().for_each(|range| {
            index[range.axis] = sliced(range, x[range.axis], out[range.axis]);
        }),
        Op::Pad(pad) => return Ok(padded(pad, x, out)),
        Op::Gather { axis } => {
            let indices = operands[1];
            let rank = indices.shape.len();
            let chosen = offset(&out[*axis..axis + rank], &indices.shape);
            let number =
                (Ratio::from(indices.codes[chosen].clone()) * &indices.unit).to_f64().value();
            let number = if number < 0.0 { number + x[*axis] as f64 } else { number };
            index.splice(*axis..axis + rank, [number as usize]);
        }
        Op::Expand { .. } => {
            index.drain(..shape.len() - x.len());
            index.iter_mut().zip(x).filter(|(_, extent)| **extent == 1).for_each(|(i, _)| *i = 0);
        }
        Op::Tile { .. } => index.iter_mut().zip(x).for_each(|(i, &extent)| *i %= extent),
        Op::Resize(resize) => return Ok(nearest(resize, x, out, shape)),
        _ => return Err(Diagnostic::bug(format!("{} is never claimed", op.name()))),
    }
    Ok(Pick::Element(0, index))
}

/// Element `i` of a range of an axis.
fn sliced(range: &SliceRange, extent: usize, i: usize) -> usize {
    let extent = extent as i64;
    let start = if range.start < 0 { range.start.saturating_add(extent) } else { range.start };
    let first = start.clamp(0, if range.step > 0 { extent } else { extent - 1 });
    (first + i as i64 * range.step) as usize
}

fn padded(pad: &Pad, x: &[usize], out: &[usize]) -> Pick {
    let mut index = Vec::new();
    for (axis, &(before, _)) in pad.pads.iter().enumerate() {
        let extent = x[axis] as i64;
        let mut at = out[axis] as i64 - before;
        match pad.mode {
            PadMode::Constant(value) if at < 0 || at >= extent => return Pick::Number(value),
            PadMode::Constant(_) => {}
            PadMode::Edge => at = at.max(0).min(extent - 1),
            PadMode::Wrap => at = at.rem_euclid(extent),
            PadMode::Reflect => {
                // Walk back from whichever end was crossed until inside.
                while extent > 1 && (at < 0 || at >= extent) {
                    at = if at < 0 { -at } else { 2 * (extent - 1) - at };
                }
                at = if extent == 1 { 0 } else { at };
            }
        }
        index.push(at as usize);
    }
    Pick::Element(0, index)
}

/// Which elements a resizing reads is geometry, which the graph defines.
fn nearest(resize: &Resize, x: &[usize], out: &[usize], shape: &[usize]) -> Pick {
    let mut index = out.to_vec();
    for (place, &axis) in resize.axes.iter().enumerate() {
        match resize.taps(place, x[axis], shape[axis])[out[axis]].as_slice() {
            [(element, _)] => index[axis] = *element,
            _ => return Pick::Number(extrapolation(resize)),
        }
    }
    Pick::Element(0, index)
}

fn extrapolation(resize: &Resize) -> f64 {
    match resize.coordinates {
        quincunx_graph::Coordinates::CropAndResize { extrapolation } => extrapolation.into(),
        _ => 0.0,
    }
}
