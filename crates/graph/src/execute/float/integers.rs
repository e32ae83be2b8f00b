//! Matrix products and convolutions of other types than f32. Integers wrap.

use super::super::window::{Number, convolve, multiply, product_of};
use super::super::{operand, unsupported};
use crate::Conv;
use quincunx_diag::Result;
use quincunx_tensor::{DType, Element, Tensor};

macro_rules! integers {
    ($($t:ty),*) => {
        $(impl Number for $t {
            fn zero() -> Self {
                0
            }

            fn multiply_add(&mut self, a: &Self, b: &Self) {
                *self = self.wrapping_add(a.wrapping_mul(*b));
            }
        })*
    };
}
integers!(i32, i64, u32, u64);

impl Number for f64 {
    fn zero() -> Self {
        0.0
    }

    fn multiply_add(&mut self, a: &Self, b: &Self) {
        *self += a * b;
    }
}

/// A matrix product of any type ONNX has one for.
pub(super) fn matrix_product(operands: &[Option<&Tensor>], shape: &[usize]) -> Result<Tensor> {
    match operand(operands, 0)?.dtype() {
        DType::I32 => product::<i32>(operands, shape),
        DType::I64 => product::<i64>(operands, shape),
        DType::U32 => product::<u32>(operands, shape),
        DType::U64 => product::<u64>(operands, shape),
        DType::F64 => product::<f64>(operands, shape),
        other => Err(unsupported(format!("a matrix product of {other} is not supported"))),
    }
}

fn product<T: Number + Element>(operands: &[Option<&Tensor>], shape: &[usize]) -> Result<Tensor> {
    let (a, b) = (operand(operands, 0)?, operand(operands, 1)?);
    let product = product_of(a.shape(), b.shape(), shape);
    Tensor::from_vec(shape, multiply(&product, &a.values::<T>()?, &b.values::<T>()?))
}

/// A convolution of i32 numbers.
pub(super) fn convolution(
    conv: &Conv,
    operands: &[Option<&Tensor>],
    shape: &[usize],
) -> Result<Tensor> {
    let (x, w) = (operand(operands, 0)?, operand(operands, 1)?);
    let (x_values, w_values) = (x.values::<i32>()?, w.values::<i32>()?);
    let mut out = convolve(conv, &x_values, x.shape(), &w_values, w.shape(), shape);
    if let Some(bias) = operands.get(2).copied().flatten() {
        let bias = bias.values::<i32>()?;
        let plane: usize = shape[2..].iter().product();
        for (index, plane) in out.chunks_mut(plane.max(1)).enumerate() {
            let bias = bias[index % bias.len()];
            plane.iter_mut().for_each(|v| *v = v.wrapping_add(bias));
        }
    }
    Tensor::from_vec(shape, out)
}
