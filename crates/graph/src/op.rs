//! Operators and their attributes.
//!
//! Names and meanings follow ONNX at its newest opset; importers bring older forms to these.

#![deny(clippy::wildcard_enum_match_arm)]

mod movement;
mod numeric;
mod recurrent;
mod resize;
mod transposed;

pub use movement::{Pad, PadMode, SliceRange};
pub use recurrent::{Cell, Direction, Recurrent, RecurrentOutput};
pub use resize::{Coordinates, Interpolation, Nearest, Resize, ResizeTaps, ResizeTarget};
pub use transposed::ConvTranspose;

pub use numeric::{
    Activation, ArgExtreme, Compare, InstanceNorm, LayerNorm, Logic, Lrn, Reduce, ReduceKind,
    Softmax,
};

use crate::Quantiser;
use quincunx_tensor::DType;
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

    /// Extent along `axis` from the first tap to the last, both included; `None` when it overflows.
    pub fn span(&self, axis: usize) -> Option<usize> {
        let reach = self.kernel[axis].checked_sub(1)?.checked_mul(self.dilations[axis])?;
        reach.checked_add(1)
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

    /// The elements of a plane of extents `input` that output position `out` reads, row-major, with
    /// the tap that reads each; taps in the padding read nothing.
    pub fn reads(&self, out: &[usize], input: &[usize]) -> Vec<(usize, usize)> {
        let mut reads = vec![(0, 0)];
        for axis in 0..self.rank() {
            let along = |&(element, tap): &(usize, usize)| {
                self.taps(axis, out[axis], input[axis]).map(move |t| {
                    let padded = out[axis] * self.strides[axis] + t * self.dilations[axis];
                    let at = padded - self.pads[axis].0;
                    (element * input[axis] + at, tap * self.kernel[axis] + t)
                })
            };
            reads = reads.iter().flat_map(along).collect();
        }
        reads
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

impl Pool {
    /// The numbers by which an average divides at the positions of a plane of extents `output` over
    /// one of extents `input`, row-major: the taps inside the input, and those in its padding if
    /// these count, 1 where there is none. Taps beyond the right padding (`ceil`) never count.
    pub fn divisors(&self, input: &[usize], output: &[usize]) -> Vec<usize> {
        let window = &self.window;
        let include = self.kind == PoolKind::Average { count_include_pad: true };
        let mut divisors = vec![1];
        for axis in 0..input.len() {
            let count = |out: usize| {
                if !include {
                    return window.taps(axis, out, input[axis]).len();
                }
                let (before, after) = window.pads[axis];
                let room = before + input[axis] + after - out * window.strides[axis];
                room.div_ceil(window.dilations[axis]).min(window.kernel[axis])
            };
            let along: Vec<usize> = (0..output[axis]).map(count).collect();
            divisors = divisors.iter().flat_map(|n| along.iter().map(move |m| n * m)).collect();
        }
        divisors.into_iter().map(|count| count.max(1)).collect()
    }
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
    /// -1, 0 or 1.
    Sign,
    /// Not; of Bool.
    Not,
    /// Square root.
    Sqrt,
    /// `1 / x`.
    Reciprocal,
    /// `e^x`.
    Exp,
    /// Natural logarithm.
    Log,
    /// Error function.
    Erf,
    /// Largest whole number that is not above `x`.
    Floor,
    /// Smallest whole number that is not below `x`.
    Ceil,
    /// Nearest whole number, ties to even.
    Round,
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// `x * min(max(x / 6 + 1/2, 0), 1)`; see [`Activation::HARD_SWISH_SLOPE`].
    HardSwish,
    /// Hyperbolic tangent.
    Tanh,
    /// `x / 2 * (1 + erf(x / sqrt(2)))`.
    Gelu,
    /// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x³)))`.
    GeluTanh,
    /// `ln(1 + e^x)`.
    Softplus,
    /// Sine.
    Sin,
    /// Cosine.
    Cos,
    /// Tangent.
    Tan,
    /// Inverse tangent.
    Atan,
}

impl Unary {
    /// ONNX's name.
    pub fn name(self) -> &'static str {
        match self {
            Unary::Relu => "Relu",
            Unary::Neg => "Neg",
            Unary::Abs => "Abs",
            Unary::Sign => "Sign",
            Unary::Not => "Not",
            Unary::Sqrt => "Sqrt",
            Unary::Reciprocal => "Reciprocal",
            Unary::Exp => "Exp",
            Unary::Log => "Log",
            Unary::Erf => "Erf",
            Unary::Floor => "Floor",
            Unary::Ceil => "Ceil",
            Unary::Round => "Round",
            Unary::Sigmoid => "Sigmoid",
            Unary::HardSwish => "HardSwish",
            Unary::Tanh => "Tanh",
            Unary::Gelu | Unary::GeluTanh => "Gelu",
            Unary::Softplus => "Softplus",
            Unary::Sin => "Sin",
            Unary::Cos => "Cos",
            Unary::Tan => "Tan",
            Unary::Atan => "Atan",
        }
    }
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
    /// `a / b`; of integers truncated.
    Div,
    /// The larger.
    Max,
    /// The smaller.
    Min,
    /// `a ^ b`; the result has the type of `a`.
    Pow,
}

impl Binary {
    /// ONNX's name.
    pub fn name(self) -> &'static str {
        match self {
            Binary::Add => "Add",
            Binary::Sub => "Sub",
            Binary::Mul => "Mul",
            Binary::Div => "Div",
            Binary::Max => "Max",
            Binary::Min => "Min",
            Binary::Pow => "Pow",
        }
    }
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
    /// Largest element over all spatial axes, which keep extent 1.
    GlobalMaxPool,
    /// Batch normalisation.
    BatchNorm(BatchNorm),
    /// One operand.
    Unary(Unary),
    /// Two operands. Integers wrap.
    Binary(Binary),
    /// One operand and parameters.
    Activation(Activation),
    /// `x` where `x >= 0`, else `slope * x`. Inputs: `x`, `slope`, which broadcasts to `x`.
    PRelu,
    /// A comparison.
    Compare(Compare),
    /// Two truth values.
    Logic(Logic),
    /// `yes` where the condition holds, else `no`. Inputs: `condition` (Bool), `yes`, `no`.
    Where,
    /// A reduction along axes.
    Reduce(Reduce),
    /// Position of the largest or smallest element along an axis.
    ArgExtreme(ArgExtreme),
    /// Softmax or its logarithm.
    Softmax(Softmax),
    /// Layer normalisation.
    LayerNorm(LayerNorm),
    /// Instance normalisation.
    InstanceNorm(InstanceNorm),
    /// Local response normalisation.
    Lrn(Lrn),
    /// Transposed convolution.
    ConvTranspose(ConvTranspose),
    /// Recurrent layer.
    Recurrent(Recurrent),
    /// Tensors joined along an axis; all other extents are equal.
    Concat {
        /// The axis.
        axis: usize,
    },
    /// Part of a tensor.
    Slice {
        /// At most one range per axis; the other axes stay.
        ranges: Vec<SliceRange>,
    },
    /// Elements added around a tensor.
    Pad(Pad),
    /// The sub-tensors along an axis that indices name. Inputs: `x`, `indices` (integers, counting
    /// from the end when negative), whose axes replace the axis.
    Gather {
        /// The axis.
        axis: usize,
    },
    /// The tensor repeated along axes of extent 1, and along new outer axes.
    Expand {
        /// Shape that the input's shape broadcasts with; 1 keeps an extent.
        shape: Vec<usize>,
    },
    /// The whole tensor repeated along its axes.
    Tile {
        /// How often, per axis.
        repeats: Vec<usize>,
    },
    /// Resizing along axes.
    Resize(Resize),
    /// Conversion of the element type.
    ///
    /// Floats lose their fraction on the way to integers and saturate there, integers wrap,
    /// everything but 0 becomes true. Integers of less than 8 bits take the low bits of floats
    /// too. Above the range of a float of 8 bits or less, numbers become the largest one.
    Cast {
        /// The type.
        to: DType,
    },
    /// As [`Op::Cast`], but numbers above the range of a float of 8 bits become infinity, or NaN
    /// in formats without it (ONNX `saturate` 0).
    CastUnbounded {
        /// The type.
        to: DType,
    },
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
            Op::GlobalMaxPool => "GlobalMaxPool",
            Op::Unary(unary) => unary.name(),
            Op::Binary(binary) => binary.name(),
            Op::Activation(activation) => activation.name(),
            Op::PRelu => "PRelu",
            Op::Compare(compare) => compare.name(),
            Op::Logic(logic) => logic.name(),
            Op::Where => "Where",
            Op::Reduce(reduce) => reduce.kind.name(),
            Op::ArgExtreme(ArgExtreme { largest: true, .. }) => "ArgMax",
            Op::ArgExtreme(ArgExtreme { largest: false, .. }) => "ArgMin",
            Op::Softmax(Softmax { log: false, .. }) => "Softmax",
            Op::Softmax(Softmax { log: true, .. }) => "LogSoftmax",
            Op::LayerNorm(_) => "LayerNormalization",
            Op::InstanceNorm(_) => "InstanceNormalization",
            Op::Lrn(_) => "LRN",
            Op::ConvTranspose(_) => "ConvTranspose",
            Op::Recurrent(Recurrent { cell: Cell::Rnn, .. }) => "RNN",
            Op::Recurrent(Recurrent { cell: Cell::Lstm, .. }) => "LSTM",
            Op::Recurrent(Recurrent { cell: Cell::Gru { .. }, .. }) => "GRU",
            Op::Concat { .. } => "Concat",
            Op::Slice { .. } => "Slice",
            Op::Pad(_) => "Pad",
            Op::Gather { .. } => "Gather",
            Op::Expand { .. } => "Expand",
            Op::Tile { .. } => "Tile",
            Op::Resize(_) => "Resize",
            Op::Cast { .. } | Op::CastUnbounded { .. } => "Cast",
            Op::Flatten { .. } => "Flatten",
            Op::Reshape { .. } => "Reshape",
            Op::Transpose { .. } => "Transpose",
            Op::Identity => "Identity",
            Op::Quantise(_) => "Quantise",
            Op::ToCodes(_) => "QuantizeLinear",
            Op::FromCodes(_) => "DequantizeLinear",
        }
    }

    /// True when every element of the result is an element of an operand or a stated number, so
    /// that the element type does not matter.
    pub fn only_moves(&self) -> bool {
        match self {
            Op::Identity
            | Op::Flatten { .. }
            | Op::Reshape { .. }
            | Op::Transpose { .. }
            | Op::Concat { .. }
            | Op::Slice { .. }
            | Op::Pad(_)
            | Op::Gather { .. }
            | Op::Expand { .. }
            | Op::Tile { .. } => true,
            Op::Resize(resize) => resize.is_nearest(),
            Op::Conv(_) | Op::ConvTranspose(_) | Op::Gemm(_) | Op::MatMul | Op::Recurrent(_) => {
                false
            }
            Op::Pool(_) | Op::GlobalAveragePool | Op::GlobalMaxPool | Op::Lrn(_) => false,
            Op::BatchNorm(_) | Op::LayerNorm(_) | Op::InstanceNorm(_) | Op::Softmax(_) => false,
            Op::Unary(_) | Op::Binary(_) | Op::Activation(_) | Op::PRelu | Op::Where => false,
            Op::Compare(_) | Op::Logic(_) | Op::Reduce(_) | Op::ArgExtreme(_) => false,
            Op::Cast { .. } | Op::CastUnbounded { .. } => false,
            Op::Quantise(_) | Op::ToCodes(_) | Op::FromCodes(_) => false,
        }
    }

    /// Fewest and most inputs.
    pub fn arity(&self) -> (usize, usize) {
        match self {
            Op::Conv(_) | Op::ConvTranspose(_) | Op::Gemm(_) | Op::LayerNorm(_) => (2, 3),
            Op::Concat { .. } => (1, usize::MAX),
            Op::Gather { .. } => (2, 2),
            Op::Recurrent(_) => (3, 7),
            Op::MatMul | Op::Binary(_) | Op::PRelu | Op::Compare(_) | Op::Logic(_) => (2, 2),
            Op::Where | Op::InstanceNorm(_) => (3, 3),
            Op::BatchNorm(_) => (5, 5),
            Op::Pool(_) | Op::GlobalAveragePool | Op::GlobalMaxPool | Op::Lrn(_) => (1, 1),
            Op::Unary(_) | Op::Activation(_) | Op::Softmax(_) => (1, 1),
            Op::Reduce(_) | Op::ArgExtreme(_) => (1, 1),
            Op::Slice { .. } | Op::Pad(_) | Op::Expand { .. } | Op::Tile { .. } => (1, 1),
            Op::Resize(_) | Op::Flatten { .. } | Op::Reshape { .. } => (1, 1),
            Op::Transpose { .. } | Op::Identity => (1, 1),
            Op::Cast { .. } | Op::CastUnbounded { .. } => (1, 1),
            Op::Quantise(_) | Op::ToCodes(_) | Op::FromCodes(_) => (1, 1),
        }
    }
}
