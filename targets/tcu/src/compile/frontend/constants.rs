//! Numbers of constants.

use crate::arch::DataType;
use quincunx_contract::Clipped;
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Constant, Graph, Node, ValueId};
use quincunx_tensor::DType;
use std::borrow::Cow;

/// The constant that a value is.
pub(super) fn constant(graph: &Graph, value: ValueId) -> Option<&Constant> {
    graph[value].constant.as_ref()
}

/// The constant operand of a node.
pub(super) fn operand<'a>(graph: &'a Graph, node: &Node, index: usize) -> Option<&'a Constant> {
    constant(graph, node.input(index)?)
}

/// The real numbers of a constant as binary32, which is what the machine's tools encode.
pub(super) fn reals(constant: &Constant) -> Result<Cow<'_, [f32]>> {
    let tensor = &constant.tensor;
    let Some(quantiser) = &constant.quantiser else {
        return match tensor.dtype() {
            DType::F32 => tensor.values::<f32>(),
            _ => Ok(tensor.to_f64().into_iter().map(|real| real as f32).collect()),
        };
    };
    let bug = || Diagnostic::bug("a constant's quantiser does not fit its codes");
    let codes = tensor.to_i64().ok_or_else(bug)?;
    let scalars = quantiser.scalars(tensor.shape()).ok_or_else(bug)?;
    let real = |(&code, scalar): (&i64, &quincunx_graph::Scalar)| {
        (code.wrapping_sub(scalar.zero) as f64 * scalar.scale) as f32
    };
    Ok(codes.iter().zip(&scalars).map(real).collect())
}

/// True when every number is one, so that it has a scalar.
pub(super) fn all_finite(constant: &Constant) -> bool {
    // Whole chunks, since a search that may stop anywhere is slow.
    let finite = |chunk: &[f32]| chunk.iter().filter(|real| !real.is_finite()).count() == 0;
    reals(constant).is_ok_and(|reals| reals.chunks(1 << 12).all(finite))
}

/// Which of these numbers the type does not hold.
pub(super) fn clipped(
    data_type: DataType,
    what: impl FnOnce() -> String,
    reals: &[f32],
) -> Option<Clipped> {
    let ([low, high], step) = data_type.range().zip(data_type.step())?;
    // Nearly always there are none, which vector instructions find.
    let (least, most) = ((low - step) as f32, (high + step) as f32);
    let is_beyond = |real: &&f32| **real < least || **real > most;
    let any = reals.chunks(1 << 12).any(|chunk| chunk.iter().filter(is_beyond).count() > 0);
    let reals = any.then(|| reals.iter().map(|&real| f64::from(real)))?;
    Clipped::count(what, [low, high], step, reals)
}

/// Scalars of many numbers, as [`DataType::encode`] makes them.
pub(super) fn encode_all(data_type: DataType, reals: &[f32]) -> Vec<i32> {
    let mut scalars = vec![0; reals.len()];
    encode_into(data_type, reals, &mut scalars);
    scalars
}

/// The same in place of `scalars`, of which there are as many.
pub(super) fn encode_into(data_type: DataType, reals: &[f32], scalars: &mut [i32]) {
    let pairs = scalars.iter_mut().zip(reals);
    let Some(point) = data_type.binary_point() else {
        pairs.for_each(|(scalar, real)| *scalar = real.to_bits().cast_signed());
        return;
    };
    let (one, high) = ((1_u32 << point) as f32, data_type.max());
    // The sum is exact in binary64; a cast gives 0 for NaN.
    let (low, high) = (-f64::from(high) - 1.0, f64::from(high));
    for (scalar, &real) in pairs {
        let steps = (f64::from(real * one) + 0.5).clamp(low, high + 0.5);
        let down = steps as i32;
        *scalar = down - i32::from(f64::from(down) > steps);
    }
}

/// The constant's numbers over the shape `to` it broadcasts to, as offsets into them, row-major
/// over `[N, C, S]`: `offset(n, c, s)`.
pub(super) struct Broadcast {
    strides: Vec<usize>,
    extents: Vec<usize>,
}

impl Broadcast {
    /// A constant of shape `from` among tensors of shape `to`.
    pub(super) fn new(from: &[usize], to: &[usize]) -> Broadcast {
        let mut strides = vec![0; to.len()];
        let mut stride = 1;
        for (axis, &extent) in from.iter().enumerate().rev() {
            if extent > 1 {
                strides[axis + to.len() - from.len()] = stride;
            }
            stride *= extent;
        }
        Broadcast { strides, extents: to.to_vec() }
    }

    /// True when it is the same at all positions.
    pub(super) fn is_row(&self) -> bool {
        let channels = if self.strides.len() == 1 { 0 } else { 1 };
        self.strides.iter().enumerate().all(|(axis, &stride)| axis == channels || stride == 0)
    }

    /// Offsets of the channels of a position; positions count over all axes but the channels'.
    pub(super) fn row(&self, position: usize) -> (usize, usize) {
        let rank = self.extents.len();
        let channels = if rank == 1 { 0 } else { 1 };
        let (mut rest, mut offset) = (position, 0);
        for axis in (0..rank).rev().filter(|&axis| axis != channels) {
            offset += rest % self.extents[axis] * self.strides[axis];
            rest /= self.extents[axis];
        }
        (offset, self.strides[channels])
    }
}
