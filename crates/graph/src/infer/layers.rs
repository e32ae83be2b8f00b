//! Inference of transposed convolutions and recurrent layers.

use super::{Operands, check_window, float, mismatch};
use crate::{Cell, ConvTranspose, Recurrent, RecurrentOutput};
use quincunx_diag::Result;
use quincunx_tensor::{DType, Shape, show_shape};

type Typed = (DType, Shape);

pub(super) fn infer_conv_transpose(conv: &ConvTranspose, operands: &Operands<'_>) -> Result<Typed> {
    let dtype = operands.same_type()?;
    let (_, x) = operands.get(0)?;
    let (_, w) = operands.get(1)?;
    let rank = conv.window.rank();
    check_window(&conv.window, rank)?;
    let axes = rank.saturating_add(2);
    if x.len() != axes || w.len() != axes || conv.output_padding.len() != rank {
        return Err(mismatch(format!("expected x and w of rank {axes}")));
    }
    if w[2..] != conv.window.kernel[..] {
        return Err(mismatch(format!(
            "kernel_shape is {:?}, but w has extents {:?}",
            conv.window.kernel,
            &w[2..]
        )));
    }
    if conv.groups == 0 || w[0] != x[1] || !x[1].is_multiple_of(conv.groups) {
        return Err(mismatch(format!(
            "{} input channels, {} groups and weights {} do not fit together",
            x[1],
            conv.groups,
            show_shape(w)
        )));
    }
    let channels = w[1]
        .checked_mul(conv.groups)
        .ok_or_else(|| mismatch("too many channels to address".to_owned()))?;
    if let Some((_, b)) = operands.optional(2)
        && b != [channels]
    {
        return Err(mismatch(format!("bias has shape {}, expected [{channels}]", show_shape(b))));
    }
    let mut shape = Shape::from_slice(&[x[0], channels]);
    for (axis, &extent) in x[2..].iter().enumerate() {
        shape.push(conv.extent(axis, extent).ok_or_else(|| {
            mismatch(format!("axis {axis} of the result is empty or too large to address"))
        })?);
    }
    Ok((dtype, shape))
}

pub(super) fn infer_recurrent(layer: &Recurrent, operands: &Operands<'_>) -> Result<Typed> {
    let dtype = operands.same_type()?;
    float(dtype)?;
    let (_, x) = operands.get(0)?;
    let &[steps, batch, features] = x else {
        return Err(mismatch(format!("x has shape {}, expected [T, N, I]", show_shape(x))));
    };
    if layer.output == RecurrentOutput::LastCell && layer.cell != Cell::Lstm {
        return Err(mismatch("only an LSTM has cells".to_owned()));
    }
    let (hidden, directions) = (layer.hidden, layer.direction.reversed().len());
    let rows = hidden.checked_mul(layer.cell.gates()).filter(|&rows| rows <= 1 << 40);
    let rows = rows.ok_or_else(|| mismatch("too many hidden units".to_owned()))?;
    let expected: [&[usize]; 6] = [
        &[directions, rows, features],
        &[directions, rows, hidden],
        &[directions, rows.saturating_mul(2)],
        &[directions, batch, hidden],
        &[directions, batch, hidden],
        &[directions, hidden.saturating_mul(3)],
    ];
    let most = if layer.cell == Cell::Lstm { 7 } else { 5 };
    if operands.inputs.len() > most {
        return Err(mismatch(format!("expected at most {most} operands")));
    }
    for (index, expected) in (1..).zip(expected) {
        match operands.optional(index) {
            Some((_, found)) if found != expected => {
                return Err(mismatch(format!(
                    "operand {index} has shape {}, expected {}",
                    show_shape(found),
                    show_shape(expected)
                )));
            }
            _ => {}
        }
    }
    let shape: &[usize] = match layer.output {
        RecurrentOutput::States => &[steps, directions, batch, hidden],
        RecurrentOutput::LastState | RecurrentOutput::LastCell => &[directions, batch, hidden],
    };
    Ok((dtype, shape.into()))
}
