//! Operators and their attributes.
//!
//! Names and meanings follow ONNX at its newest opset; importers bring older forms to these.

use crate::Quantiser;
use smallvec::SmallVec;
use std::ops::Range;

/// Extents, strides and the like, one per spatial axis.
pub type Spatial = SmallVec<[usize; 2]>;

/// A sliding window over the spatial axes of an `[N, C, …]` tensor.
///
/// Invariant: all four lists have one entry per spatial axis; extents, strides and dilations are
/// at least 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Extent of the kernel.
    pub kernel: Spatial,
    /// Distance between two positions.
    pub strides: Spatial,
    /// Distance between two taps.
    pub dilations: Spatial,
    /// Padding before and after each axis.
    pub pads: SmallVec<[(usize, usize); 2]>,
}

impl Window {
    /// A window with stride 1 and neither dilation nor padding.
    pub fn new(kernel: &[usize]) -> Self {
        Window {
            kernel: kernel.into(),
            strides: Spatial::from_elem(1, kernel.len()),
            dilations: Spatial::from_elem(1, kernel.len()),
            pads: SmallVec::from_elem((0, 0), kernel.len()),
        }
    }

    /// Number of spatial axes.
    pub fn rank(&self) -> usize {
        self.kernel.len()
    }

    /// The taps of output position `out` along `axis` that lie inside an input of this extent.
    pub fn taps(&self, axis: usize, out: usize, extent: usize) -> Range<usize> {
        let start = out * self.strides[axis];
        let (before, dilation) = (self.pads[axis].0, self.dilations[axis]);
        let first = before.saturating_sub(start).div_ceil(dilation);
        let end = (before + extent).saturating_sub(start).div_ceil(dilation);
        let end = end.min(self.kernel[axis]);
        first.min(end)..end
    }

    /// Input position along `axis` that tap `tap` of output position `out` reads; `None` when it
    /// lies in the padding or beyond the input.
    pub fn source(&self, axis: usize, out: usize, tap: usize, extent: usize) -> Option<usize> {
        let padded = out * self.strides[axis] + tap * self.dilations[axis];
        padded.checked_sub(self.pads[axis].0).filter(|&position| position < extent)
    }
}

/// Attributes of a convolution. Inputs: `x [N, C, …]`, `w [M, C / groups, …]`, optional `b [M]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conv {
    /// The window; its kernel equals the spatial extents of `w`.
    pub window: Window,
    /// Channel groups.
    pub groups: usize,
}

/// Which pooling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// Largest element; padding never wins.
    Max,
    /// Mean of the elements.
    Average {
        /// The divisor counts padded positions too.
        count_include_pad: bool,
    },
}

/// Attributes of a pooling. Input: `x [N, C, …]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Which pooling.
    pub kind: PoolKind,
    /// The window.
    pub window: Window,
    /// Round the output extents up; windows that would start in the right padding are dropped.
    pub ceil: bool,
}

/// Attributes of `alpha * A' * B' + beta * C`. Inputs: `a`, `b`, optional `c`.
#[derive(Clone, Debug, PartialEq)]
pub struct Gemm {
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of `c`.
    pub beta: f32,
    /// `a` is `[K, M]`.
    pub transpose_a: bool,
    /// `b` is `[N, K]`.
    pub transpose_b: bool,
}

/// Attributes of a batch normalisation in inference form. Inputs: `x`, `scale`, `bias`, `mean`,
/// `variance`, the last four `[C]`.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchNorm {
    /// Added to the variance.
    pub epsilon: f32,
}

/// Operators on one tensor, element by element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unary {
    /// `max(x, 0)`.
    Relu,
    /// `-x`.
    Neg,
    /// `|x|`.
    Abs,
}

/// Operators on two tensors, element by element, with broadcasting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binary {
    /// `a + b`.
    Add,
    /// `a - b`.
    Sub,
    /// `a * b`.
    Mul,
    /// `a / b`.
    Div,
    /// The larger.
    Max,
    /// The smaller.
    Min,
}

/// An operator with its attributes.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Convolution.
    Conv(Conv),
    /// General matrix product of two rank-2 tensors.
    Gemm(Gemm),
    /// Matrix product with numpy's broadcasting of outer axes. Inputs: `a`, `b`.
    MatMul,
    /// Pooling over a window.
    Pool(Pool),
    /// Mean over all spatial axes, which keep extent 1.
    GlobalAveragePool,
    /// Batch normalisation.
    BatchNorm(BatchNorm),
    /// One operand.
    Unary(Unary),
    /// Two operands.
    Binary(Binary),
    /// Flattens to rank 2 at `axis`.
    Flatten {
        /// Axes before it form the rows; 0 to the rank.
        axis: usize,
    },
    /// The same elements in another shape.
    Reshape {
        /// Extents; -1 (once) takes what is left, 0 copies the input's extent at that axis.
        shape: Vec<i64>,
    },
    /// Axis `i` of the result is axis `order[i]` of the input.
    Transpose {
        /// A permutation of the axes.
        order: Vec<usize>,
    },
    /// The input.
    Identity,
    /// Moves real numbers onto the grid of a quantiser (quantise, then dequantise).
    Quantise(Quantiser),
    /// The integer codes of real numbers (ONNX `QuantizeLinear`).
    ToCodes(Quantiser),
    /// The real numbers of integer codes (ONNX `DequantizeLinear`).
    FromCodes(Quantiser),
}

impl Op {
    /// The operator's name; ONNX's where there is one.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Conv(_) => "Conv",
            Op::Gemm(_) => "Gemm",
            Op::MatMul => "MatMul",
            Op::Pool(Pool { kind: PoolKind::Max, .. }) => "MaxPool",
            Op::Pool(Pool { kind: PoolKind::Average { .. }, .. }) => "AveragePool",
            Op::GlobalAveragePool => "GlobalAveragePool",
            Op::BatchNorm(_) => "BatchNormalization",
            Op::Unary(Unary::Relu) => "Relu",
            Op::Unary(Unary::Neg) => "Neg",
            Op::Unary(Unary::Abs) => "Abs",
            Op::Binary(Binary::Add) => "Add",
            Op::Binary(Binary::Sub) => "Sub",
            Op::Binary(Binary::Mul) => "Mul",
            Op::Binary(Binary::Div) => "Div",
            Op::Binary(Binary::Max) => "Max",
            Op::Binary(Binary::Min) => "Min",
            Op::Flatten { .. } => "Flatten",
            Op::Reshape { .. } => "Reshape",
            Op::Transpose { .. } => "Transpose",
            Op::Identity => "Identity",
            Op::Quantise(_) => "Quantise",
            Op::ToCodes(_) => "QuantizeLinear",
            Op::FromCodes(_) => "DequantizeLinear",
        }
    }

    /// Fewest and most inputs.
    pub fn arity(&self) -> (usize, usize) {
        match self {
            Op::Conv(_) | Op::Gemm(_) => (2, 3),
            Op::MatMul | Op::Binary(_) => (2, 2),
            Op::BatchNorm(_) => (5, 5),
            _ => (1, 1),
        }
    }
}
