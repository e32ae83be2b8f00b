//! Moved elements, from the definition of each operator: for every element of the result, where it
//! comes from.

use super::{Fixed, add_bias, align, index_of, offset};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{ConvTranspose, Node, Op, Pad, PadMode, Resize, SliceRange};
use quincunx_num::{Dyadic, Int};

/// One element of the result: an element of an operand, or a number.
enum Pick {
    Element(usize, Vec<usize>),
    Number(f64),
}

/// Computes an operator that only moves elements.
pub(super) fn moved(node: &Node, operands: &[Option<&Fixed>], shape: &[usize]) -> Result<Fixed> {
    let operands: Vec<&Fixed> = operands.iter().copied().flatten().collect();
    let mut exponent = operands.iter().map(|operand| operand.exponent).min().unwrap_or(0);
    let picks: Vec<Pick> = (0..shape.iter().product())
        .map(|position| pick(&node.op, &operands, &index_of(position, shape), shape))
        .collect::<Result<_>>()?;
    for pick in &picks {
        if let Pick::Number(number) = pick
            && *number != 0.0
        {
            exponent = exponent.min(dyadic(*number)?.exponent());
        }
    }
    let codes: Vec<Vec<Int>> = operands.iter().map(|operand| align(operand, exponent)).collect();
    let code = |pick: Pick| match pick {
        Pick::Element(operand, index) => {
            Ok(codes[operand][offset(&index, &operands[operand].shape)].clone())
        }
        Pick::Number(number) => Ok(dyadic(number)?.in_units(exponent).unwrap_or_default()),
    };
    let codes = picks.into_iter().map(code).collect::<Result<_>>()?;
    Ok(Fixed { shape: shape.to_vec(), codes, exponent })
}

fn dyadic(number: f64) -> Result<Dyadic> {
    Dyadic::from_f64(number).ok_or_else(|| Diagnostic::bug("a claimed number is finite"))
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
            let number = Dyadic::new(indices.codes[chosen].clone(), indices.exponent).to_f64();
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

/// Every element of the result collects the products that the definition sends to it.
pub(super) fn transposed_convolution(
    conv: &ConvTranspose,
    x: &Fixed,
    w: &Fixed,
    bias: Option<&Fixed>,
    shape: &[usize],
) -> Result<Fixed> {
    let (input, window) = (&x.shape[2..], &conv.window);
    let (plane, taps): (usize, usize) = (input.iter().product(), w.shape[2..].iter().product());
    let (filters, depth) = (w.shape[1], x.shape[1] / conv.groups);
    let mut codes = Vec::new();
    for position in 0..shape.iter().product() {
        let out = index_of(position, shape);
        let (group, filter) = (out[1] / filters, out[1] % filters);
        let mut sum = Int::ZERO;
        for (source, tap) in (0..plane).flat_map(|s| (0..taps).map(move |t| (s, t))) {
            let (at, offsets) = (index_of(source, input), index_of(tap, &window.kernel));
            let meets = (0..input.len()).all(|axis| {
                at[axis] * window.strides[axis] + offsets[axis] * window.dilations[axis]
                    == out[axis + 2] + window.pads[axis].0
            });
            for c in (group * depth..(group + 1) * depth).filter(|_| meets) {
                sum += &x.codes[(out[0] * x.shape[1] + c) * plane + source]
                    * &w.codes[(c * filters + filter) * taps + tap];
            }
        }
        codes.push(sum);
    }
    let sums = Fixed { shape: shape.to_vec(), codes, exponent: x.exponent + w.exponent };
    let bias = bias.map(|bias| {
        let mut per_channel = vec![1; shape.len() - 1];
        per_channel[0] = shape[1];
        Fixed { shape: per_channel, ..bias.clone() }
    });
    add_bias(sums, bias)
}
