//! Quantisation that was simulated in training.
//!
//! The limits are moved so that 0 is a code, in f32 as TensorFlow does; then a number becomes
//! `floor(x / scale + 1/2)`, kept within the codes.

use crate::tensorflow::attributes::malformed;
use crate::tensorflow::context::Node;
use crate::tensorflow::layout::inverse;
use crate::tensorflow::reader::Stored;
use quincunx_diag::Result;
use quincunx_graph::{Activation, Binary, Constant, Op, Param, Quantiser, ValueId};
use quincunx_num::{Overflow, Rounding};
use quincunx_tensor::{DType, Tensor};

/// The grid between two limits.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Grid {
    scale: f32,
    zero: i64,
    /// The number of the lowest code.
    lowest: f32,
}

/// The codes of an operator.
#[derive(Clone, Copy)]
struct Codes {
    bits: u32,
    lowest: i64,
    highest: i64,
}

/// Limits as attributes.
pub(super) fn with_args(node: &mut Node<'_, '_>) -> Result<()> {
    let limits = (node.attributes.float("min", -6.0)?, node.attributes.float("max", 6.0)?);
    quantise(node, &[limits], false)
}

/// Limits as operands.
pub(super) fn with_vars(node: &mut Node<'_, '_>) -> Result<()> {
    let limits = (node.number(1, "min")? as f32, node.number(2, "max")? as f32);
    quantise(node, &[limits], false)
}

/// Limits as operands, one for each index of the innermost axis.
pub(super) fn per_channel(node: &mut Node<'_, '_>) -> Result<()> {
    let min = node.parameter(1, "min")?;
    let max = node.parameter(2, "max")?;
    let channels = node.shape(0)?.last().copied();
    if min.shape() != max.shape() || min.shape().len() != 1 || Some(min.len()) != channels {
        return Err(malformed("min and max do not have one number per channel".to_owned()));
    }
    let pairs = min.to_f64().into_iter().zip(max.to_f64());
    let limits: Vec<(f32, f32)> = pairs.map(|(min, max)| (min as f32, max as f32)).collect();
    quantise(node, &limits, true)
}

fn quantise(node: &mut Node<'_, '_>, limits: &[(f32, f32)], per_channel: bool) -> Result<()> {
    let codes = codes(node)?;
    if limits == [(0.0, 0.0)] {
        // Nothing was seen in training; TensorFlow gives 0.
        let Stored { id, order } = node.stored(0)?;
        let zero = Activation::Clip { min: Some(0.0), max: Some(0.0) };
        return node.emit_ordered(Op::Activation(zero), &[id], order);
    }
    let grids: Vec<Grid> =
        limits.iter().map(|&(min, max)| grid(min, max, codes)).collect::<Result<_>>()?;
    if let Some(Constant { tensor, quantiser: None }) = node.constant(0)
        && tensor.dtype() == DType::F32
    {
        node.store(tensor.len())?;
        let constant = encode(&tensor, &grids, codes)?;
        node.define(constant);
        return Ok(());
    }
    let Stored { id, order } = node.stored(0)?;
    let inner = match per_channel {
        true => order.len() - inverse(&order)[order.len() - 1],
        false => 0,
    };
    let x = if codes.lowest > 0 { raise(node, id, &grids, inner)? } else { id };
    let op = Op::Quantise(quantiser(&grids, codes, inner)?);
    node.emit_ordered(op, &[x], order)
}

fn codes(node: &Node<'_, '_>) -> Result<Codes> {
    let bits = node.attributes.int("num_bits", 8)?;
    let lowest = i64::from(node.attributes.flag("narrow_range", false)?);
    match u32::try_from(bits) {
        Ok(bits) if (2..=16).contains(&bits) => {
            Ok(Codes { bits, lowest, highest: (1 << bits) - 1 })
        }
        _ => Err(malformed(format!("num_bits is {bits}, expected 2 to 16"))),
    }
}

fn grid(min: f32, max: f32, codes: Codes) -> Result<Grid> {
    let (low, high) = (codes.lowest as f32, codes.highest as f32);
    let scale = (max - min) / (high - low);
    if !(scale.is_finite() && scale > 0.0) {
        return Err(malformed(format!("the limits are {min} and {max}")));
    }
    let zero = (low - min / scale).clamp(low, high).round();
    Ok(Grid { scale, zero: zero as i64, lowest: (low - zero) * scale })
}

/// The quantiser of numbers whose channel axis is followed by `inner - 1` axes; 0 for one grid.
fn quantiser(grids: &[Grid], codes: Codes, inner: usize) -> Result<Quantiser> {
    let mut shape = vec![1; inner];
    if let Some(channels) = shape.first_mut() {
        *channels = grids.len();
    }
    let scales = grids.iter().map(|grid| f64::from(grid.scale)).collect();
    Ok(Quantiser {
        scale: Param::new(&shape, scales)?,
        zero: Param::new(&shape, grids.iter().map(|grid| grid.zero).collect())?,
        rounding: Param::uniform(Rounding::HalfCeil),
        overflow: Param::uniform(Overflow::Saturate),
        ..Quantiser::symmetric(false, codes.bits, 1.0)
    })
}

/// Brings numbers up to the lowest code, where that is not the lowest the quantiser has.
fn raise(node: &mut Node<'_, '_>, x: ValueId, grids: &[Grid], inner: usize) -> Result<ValueId> {
    let lowest: Vec<f32> = grids.iter().map(|grid| grid.lowest).collect();
    let mut shape = vec![1; inner];
    if let Some(channels) = shape.first_mut() {
        *channels = grids.len();
    }
    let lowest = node.add_constant(Tensor::from_vec(&shape, lowest)?)?;
    node.before(Op::Binary(Binary::Max), &[x, lowest])
}

/// A constant as codes; grids repeat along the innermost axis.
fn encode(tensor: &Tensor, grids: &[Grid], codes: Codes) -> Result<Constant> {
    let code = |(index, &x): (usize, &f32)| {
        let grid = grids[index % grids.len()];
        let code = (f64::from(x) / f64::from(grid.scale) + 0.5).floor() + grid.zero as f64;
        // NaN becomes the code of the lowest number, as everywhere a saturating cast meets it.
        code.clamp(codes.lowest as f64, codes.highest as f64) as u16
    };
    let values = tensor.values::<f32>()?;
    let numbers = values.iter().enumerate().map(code);
    let tensor = match codes.bits {
        ..=8 => Tensor::from_vec(tensor.shape(), numbers.map(|code| code as u8).collect())?,
        _ => Tensor::from_vec(tensor.shape(), numbers.collect())?,
    };
    let inner = usize::from(grids.len() > 1);
    Ok(Constant { tensor, quantiser: Some(quantiser(grids, codes, inner)?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_moved_so_that_zero_is_a_code() {
        let codes = Codes { bits: 8, lowest: 0, highest: 255 };
        let moved = grid(-0.1, 25.4, codes).unwrap();
        assert_eq!((moved.zero, moved.lowest), (1, -moved.scale));
        assert_eq!(grid(1.0, 2.0, codes).unwrap().zero, 0);
        assert_eq!(grid(-3.0, -1.0, codes).unwrap().zero, 255);
        assert!(grid(1.0, 1.0, codes).is_err());
        let narrow = Codes { lowest: 1, ..codes };
        assert_eq!(grid(-1.0, 1.0, narrow).unwrap().zero, 128);
    }
}
