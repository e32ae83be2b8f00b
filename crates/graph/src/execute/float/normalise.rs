//! Normalisations with statistics of the operand itself, computed in f64 and rounded once.

use super::numeric::real_tensor;
use super::operand;
use crate::{InstanceNorm, LayerNorm, Lrn};
use quincunx_diag::{Diagnostic, Result};
use quincunx_tensor::{Tensor, View};

/// Brings the numbers to mean 0 and variance 1 (before `epsilon` is added).
fn standardise(values: &mut [f64], epsilon: f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count;
    let factor = (variance + epsilon).sqrt().recip();
    values.iter_mut().for_each(|v| *v = (*v - mean) * factor);
}

pub(super) fn layer_norm(norm: &LayerNorm, operands: &[Option<&Tensor>]) -> Result<Tensor> {
    let x = operand(operands, 0)?;
    let mut values = x.to_f64();
    let size: usize = x.shape()[norm.axis..].iter().product();
    values.chunks_mut(size.max(1)).for_each(|chunk| standardise(chunk, norm.epsilon.into()));
    let scale = expanded(operand(operands, 1)?, x.shape())?;
    values.iter_mut().zip(scale).for_each(|(v, scale)| *v *= scale);
    if let Some(bias) = operands.get(2).copied().flatten() {
        let bias = expanded(bias, x.shape())?;
        values.iter_mut().zip(bias).for_each(|(v, bias)| *v += bias);
    }
    real_tensor(x.dtype(), x.shape(), values)
}

/// The numbers of a tensor repeated to a shape.
fn expanded(tensor: &Tensor, shape: &[usize]) -> Result<Vec<f64>> {
    let values = tensor.to_f64();
    let view = View::new(&values, tensor.shape()).broadcast(shape);
    Ok(view.ok_or_else(|| Diagnostic::bug("operands broadcast after inference"))?.to_vec())
}

pub(super) fn instance_norm(norm: &InstanceNorm, operands: &[Option<&Tensor>]) -> Result<Tensor> {
    let x = operand(operands, 0)?;
    let (scale, bias) = (operand(operands, 1)?.to_f64(), operand(operands, 2)?.to_f64());
    let mut values = x.to_f64();
    let plane: usize = x.shape()[2..].iter().product();
    for (index, plane) in values.chunks_mut(plane.max(1)).enumerate() {
        let channel = index % scale.len();
        standardise(plane, norm.epsilon.into());
        plane.iter_mut().for_each(|v| *v = *v * scale[channel] + bias[channel]);
    }
    real_tensor(x.dtype(), x.shape(), values)
}

pub(super) fn local_response(lrn: &Lrn, x: &Tensor) -> Result<Tensor> {
    let values = x.to_f64();
    let channels = x.shape()[1];
    let plane: usize = x.shape()[2..].iter().product();
    let factor = f64::from(lrn.alpha) / lrn.size as f64;
    let mut result = Vec::with_capacity(values.len());
    for image in values.chunks((channels * plane).max(1)) {
        for c in 0..channels {
            for position in 0..plane {
                let at = |channel: usize| image[channel * plane + position];
                let squares: f64 = lrn.neighbours(c, channels).map(|n| at(n).powi(2)).sum();
                let divisor = f64::from(lrn.bias) + factor * squares;
                result.push(at(c) / divisor.powf(lrn.beta.into()));
            }
        }
    }
    real_tensor(x.dtype(), x.shape(), result)
}
