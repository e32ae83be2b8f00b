//! How each operator is drawn.

use super::Net;
use quincunx_graph::{
    Activation, ArgExtreme, BatchNorm, Binary, Cell, Compare, Conv, ConvTranspose, Coordinates,
    Direction, Gemm, InstanceNorm, Interpolation, LayerNorm, Logic, Lrn, Nearest, Op, Pad, PadMode,
    Pool, PoolKind, Recurrent, RecurrentOutput, Reduce, ReduceKind, Resize, ResizeTarget,
    SliceRange, Softmax, Unary, ValueId,
};
use quincunx_tensor::{DType, Narrow, Tensor};

/// Names of all operators that graphs can have.
pub(super) const NAMES: &str = "Conv Gemm MatMul MaxPool AveragePool GlobalAveragePool \
    BatchNormalization GlobalMaxPool Relu Neg Abs Sign Not Sqrt Reciprocal Exp Log Erf Floor Ceil \
    Round Sigmoid HardSwish Tanh Gelu Softplus Sin Cos Tan Atan Add Sub Mul Div Max Min Pow \
    LeakyRelu Elu Selu HardSigmoid Clip PRelu Equal Less LessOrEqual Greater GreaterOrEqual And Or \
    Xor Where ReduceMean ReduceSum ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 \
    ReduceSumSquare ReduceLogSum ReduceLogSumExp ArgMax ArgMin Softmax LogSoftmax \
    LayerNormalization InstanceNormalization LRN ConvTranspose RNN LSTM GRU Concat Slice Pad \
    Gather Expand Tile Resize Cast Flatten Reshape Transpose Identity Quantise QuantizeLinear \
    DequantizeLinear";

/// Draws one of the rows, as often as its weight says. Every operator has a row: the patterns are
/// those of a match without any other arm.
macro_rules! rows {
    ($net:ident, $x:ident, $($weight:literal $pattern:pat => $draw:expr,)*) => {
        const _: fn(&Op) = |op| match op {
            $($pattern => (),)*
        };

        impl Net<'_> {
            /// An operator on a value, with what makes it possible around it; `None` if what was
            /// drawn cannot be.
            pub(super) fn operator(&mut self, $x: ValueId) -> Option<ValueId> {
                const WEIGHTS: &[usize] = &[$($weight),*];
                let $net = self;
                let mut drawn = $net.random.below(WEIGHTS.iter().sum::<usize>());
                $(
                    if drawn < $weight {
                        return $draw;
                    }
                    drawn -= $weight;
                )*
                unreachable!("{drawn} is beyond the weights")
            }
        }
    };
}

/// All variants of an enumeration without data; a new one does not compile.
macro_rules! all {
    ($name:ident = $type:ident: $($variant:ident)*) => {
        const $name: &[$type] = &[$($type::$variant),*];
        const _: fn($type) = |value| match value {
            $($type::$variant => (),)*
        };
    };
}

all!(UNARY = Unary: Relu Neg Abs Sign Not Sqrt Reciprocal Exp Log Erf Floor Ceil Round Sigmoid
    HardSwish Tanh Gelu GeluTanh Softplus Sin Cos Tan Atan);
all!(BINARY = Binary: Add Sub Mul Div Max Min Pow);
all!(COMPARE = Compare: Equal Less LessOrEqual Greater GreaterOrEqual);
all!(LOGIC = Logic: And Or Xor);

rows! { net, x,
    8 Op::Conv(_) => net.conv(x),
    3 Op::Gemm(_) => net.gemm(x),
    2 Op::MatMul => net.product(x),
    4 Op::Pool(_) => net.pool(x),
    1 Op::GlobalAveragePool => net.node(Op::GlobalAveragePool, &[x]),
    1 Op::GlobalMaxPool => net.node(Op::GlobalMaxPool, &[x]),
    2 Op::BatchNorm(_) => net.batch_norm(x),
    14 Op::Unary(_) => net.unary(x),
    8 Op::Binary(_) => net.binary(x),
    4 Op::Activation(_) => net.activation(x),
    1 Op::PRelu => net.slopes(x),
    1 Op::Compare(_) => {
        let truth = net.truth(x)?;
        net.chosen(truth, x)
    },
    2 Op::Logic(_) => {
        let (first, second) = (net.truth(x)?, net.truth(x)?);
        let logic = net.random.pick(LOGIC);
        let truth = net.node(Op::Logic(logic), &[first, second])?;
        net.chosen(truth, x)
    },
    1 Op::Where => {
        let shape = net.shape(x);
        let bits: Vec<u8> = net.random.bytes(shape.iter().product());
        let bits = bits.into_iter().map(|byte| byte & 1).collect::<Vec<u8>>();
        let condition = net.plain(Tensor::new(DType::Bool, &shape, bits.into()).ok()?);
        net.chosen(condition, x)
    },
    6 Op::Reduce(_) => net.reduction(x),
    2 Op::ArgExtreme(_) => {
        let x = net.short(x)?;
        let axis = net.axis(x)?;
        let (largest, last, keep_dims) =
            (net.random.coin(), net.random.coin(), net.random.chance(70));
        let position = ArgExtreme { largest, axis, keep_dims, last };
        let position = net.node(Op::ArgExtreme(position), &[x])?;
        net.node(Op::Cast { to: DType::F32 }, &[position])
    },
    2 Op::Softmax(_) => {
        let axis = net.axis(x)?;
        let log = net.random.chance(25);
        net.function(Op::Softmax(Softmax { axis, log }), x)
    },
    1 Op::LayerNorm(_) => {
        let (x, axis) = (net.short(x)?, net.axis(x)?);
        let shape = net.shape(x).split_off(axis);
        let mut inputs = vec![x, net.reals(&shape)];
        if net.random.coin() {
            inputs.push(net.reals(&shape));
        }
        let y = net.node(Op::LayerNorm(LayerNorm { axis, epsilon: 1e-3 }), &inputs)?;
        net.settled(y)
    },
    1 Op::InstanceNorm(_) => {
        let x = net.short(x)?;
        let channels = *net.shape(x).get(1)?;
        let inputs = [x, net.reals(&[channels]), net.reals(&[channels])];
        let y = net.node(Op::InstanceNorm(InstanceNorm { epsilon: 1e-3 }), &inputs)?;
        net.settled(y)
    },
    1 Op::Lrn(_) => {
        let size = net.random.range(1, 4);
        net.function(Op::Lrn(Lrn { size, alpha: 0.3, beta: 0.75, bias: 1.0 }), x)
    },
    2 Op::ConvTranspose(_) => net.transposed(x),
    2 Op::Recurrent(_) => net.recurrent(x),
    3 Op::Concat { .. } => net.joined(x),
    2 Op::Slice { .. } => {
        let axis = net.axis(x)?;
        let extent = net.shape(x)[axis] as i64;
        let (start, step) = (net.random.range(-extent - 1, extent - 1), net.random.pick(&[1, 1, 2, -1, -2]));
        let end = if step > 0 { i64::MAX } else { i64::MIN };
        net.node(Op::Slice { ranges: vec![SliceRange { axis, start, end, step }] }, &[x])
    },
    2 Op::Pad(_) => {
        let modes = [0.0, -1.25].map(PadMode::Constant);
        let modes = [modes[0], modes[1], PadMode::Edge, PadMode::Reflect, PadMode::Wrap];
        let mode = net.random.pick(&modes);
        let (chosen, rank) = (net.axis(x)?, net.shape(x).len());
        let most = |axis: usize| if axis == chosen || net.random.chance(30) { 2 } else { 0 };
        let most: Vec<i64> = (0..rank).map(most).collect();
        let pads = most.iter().map(|&most| {
            (net.random.range(0, most), net.random.range(-most / 2, most))
        });
        let pads = pads.collect();
        net.node(Op::Pad(Pad { pads, mode }), &[x])
    },
    2 Op::Gather { .. } => {
        let axis = net.axis(x)?;
        let (count, extent) = (net.random.range(1, 4), net.shape(x)[axis] as i64);
        let indices = (0..count).map(|_| net.random.range(-extent, extent - 1)).collect();
        let indices = net.plain(Tensor::from_vec::<i64>(&[count], indices).ok()?);
        net.node(Op::Gather { axis }, &[x, indices])
    },
    1 Op::Expand { .. } => {
        let (axis, mut shape) = (net.axis(x)?, net.shape(x));
        let range = SliceRange { axis, start: 0, end: 1, step: 1 };
        let first = if shape[axis] > 1 { net.node(Op::Slice { ranges: vec![range] }, &[x])? } else { x };
        shape[axis] = net.random.range(1, 3);
        if net.random.chance(20) {
            shape.insert(0, 2);
        }
        net.node(Op::Expand { shape }, &[first])
    },
    1 Op::Tile { .. } => {
        let axis = net.axis(x)?;
        let twice = |at: usize| if at == axis { 2 } else { 1 };
        net.node(Op::Tile { repeats: (0..net.shape(x).len()).map(twice).collect() }, &[x])
    },
    4 Op::Resize(_) => net.resize(x),
    2 Op::Cast { .. } => {
        let types = [DType::I8, DType::I32, DType::U16, DType::F64];
        let narrow = [Narrow::F16, Narrow::Bf16, Narrow::I4, Narrow::E4M3].map(DType::Narrow);
        if net.recipe.grids.is_some() {
            let truth = net.truth(x)?;
            return net.node(Op::Cast { to: DType::F32 }, &[truth]);
        }
        let to = net.random.pick(&[types, narrow].concat());
        let y = net.node(Op::Cast { to }, &[x])?;
        net.node(Op::Cast { to: DType::F32 }, &[y])
    },
    1 Op::CastUnbounded { .. } => {
        if net.recipe.grids.is_some() {
            return None;
        }
        let to = net.random.pick(&[Narrow::E4M3, Narrow::E5M2, Narrow::E5M2Fnuz].map(DType::Narrow));
        let y = net.node(Op::CastUnbounded { to }, &[x])?;
        net.node(Op::Cast { to: DType::F32 }, &[y])
    },
    1 Op::Flatten { .. } => net.node(Op::Flatten { axis: 1 }, &[x]),
    2 Op::Reshape { .. } => {
        let (shape, channels) = (net.shape(x), net.random.range(1, 4));
        let rows = *shape.first()? as i64;
        let shapes = [vec![rows, -1], vec![rows, channels, 1, -1], vec![0, channels, -1]];
        let shape = net.random.pick(&shapes);
        net.node(Op::Reshape { shape }, &[x])
    },
    2 Op::Transpose { .. } => {
        let (a, b) = (net.axis(x)?, net.axis(x)?);
        let mut order: Vec<usize> = (0..net.shape(x).len()).collect();
        order.swap(a, b);
        if order.len() > 1 && net.random.coin() {
            order[1..].rotate_left(1);
        }
        net.node(Op::Transpose { order }, &[x])
    },
    1 Op::Identity => net.node(Op::Identity, &[x]),
    1 Op::Quantise(_) => net.quantised(x),
    1 Op::ToCodes(_) | Op::FromCodes(_) => {
        // Codes leave and come back.
        let mut grid = net.grid(x);
        grid.width = quincunx_graph::Param::uniform(7);
        grid.zero = quincunx_graph::Param::uniform(3);
        let codes = net.node(Op::ToCodes(grid.clone()), &[x])?;
        net.node(Op::FromCodes(grid), &[codes])
    },
}

impl Net<'_> {
    fn axis(&mut self, x: ValueId) -> Option<usize> {
        let rank = self.shape(x).len();
        (rank > 0).then(|| {
            if rank > 1 && self.random.chance(80) {
                self.random.range(1, rank - 1)
            } else {
                self.random.below(rank)
            }
        })
    }

    fn conv(&mut self, x: ValueId) -> Option<ValueId> {
        let shape = self.shape(x);
        let spatial = shape.get(2..).filter(|axes| !axes.is_empty())?;
        let window = self.window(spatial);
        let groups = match self.random.below(4) {
            0 => shape[1],
            1 if shape[1].is_multiple_of(2) => 2,
            _ => 1,
        };
        let most = if groups == 1 { self.recipe.channels } else { 2 };
        let outputs = groups * self.random.range(1, most);
        let w = [&[outputs, shape[1] / groups], &window.kernel[..]].concat();
        let mut inputs = vec![x, self.weights(&w, 0)];
        inputs.extend(self.bias(outputs));
        self.node(Op::Conv(Conv { window, groups }), &inputs)
    }

    fn transposed(&mut self, x: ValueId) -> Option<ValueId> {
        let shape = self.shape(x);
        let spatial = shape.get(2..).filter(|axes| !axes.is_empty())?;
        let window = self.window(spatial);
        let groups = if shape[1].is_multiple_of(2) && self.random.coin() { 2 } else { 1 };
        let filters = self.random.range(1, self.recipe.channels.min(3));
        let w = [&[shape[1], filters], &window.kernel[..]].concat();
        let mut inputs = vec![x, self.weights(&w, 1)];
        inputs.extend(self.bias(filters * groups));
        let output_padding =
            window.strides.iter().map(|&stride| self.random.below(stride)).collect();
        let conv = ConvTranspose { window, groups, output_padding };
        self.node(Op::ConvTranspose(conv), &inputs)
    }

    fn pool(&mut self, x: ValueId) -> Option<ValueId> {
        let shape = self.shape(x);
        let spatial = shape.get(2..).filter(|axes| !axes.is_empty())?;
        let average = PoolKind::Average { count_include_pad: self.random.coin() };
        let kind = if self.random.coin() { PoolKind::Max } else { average };
        let (window, ceil) = (self.window(spatial), self.random.coin());
        self.node(Op::Pool(Pool { kind, window, ceil }), &[x])
    }

    fn gemm(&mut self, x: ValueId) -> Option<ValueId> {
        let x =
            if self.shape(x).len() == 2 { x } else { self.node(Op::Flatten { axis: 1 }, &[x])? };
        let (shape, outputs) = (self.shape(x), self.random.range(1, self.recipe.channels));
        let (transpose_a, transpose_b) = (self.random.chance(15), self.random.coin());
        let depth = shape[usize::from(!transpose_a)];
        let w = if transpose_b { [outputs, depth] } else { [depth, outputs] };
        let mut inputs = vec![x, self.weights(&w, usize::from(!transpose_b))];
        let bias = self.random.pick(&[1, outputs]);
        inputs.extend(self.bias(bias));
        let (alpha, beta) =
            (self.random.pick(&[1.0, 1.0, 0.5, -3.0, -0.3]), self.random.pick(&[1.0, 2.0, 0.7]));
        self.node(Op::Gemm(Gemm { alpha, beta, transpose_a, transpose_b }), &inputs)
    }

    /// A product with weights, or of a value with itself, its last axes exchanged.
    fn product(&mut self, x: ValueId) -> Option<ValueId> {
        let shape = self.shape(x);
        let (&depth, rank) = (shape.last()?, shape.len());
        if rank > 1 && self.random.chance(40) {
            let mut order: Vec<usize> = (0..rank).collect();
            order.swap(rank - 1, rank - 2);
            let turned = self.node(Op::Transpose { order }, &[x])?;
            return self.node(Op::MatMul, &[x, turned]);
        }
        let w = [depth, self.random.range(1, self.recipe.channels)];
        let w = self.weights(&w, 1);
        self.node(Op::MatMul, &[x, w])
    }

    fn batch_norm(&mut self, x: ValueId) -> Option<ValueId> {
        let x = self.short(x)?;
        let channels = *self.shape(x).get(1)?;
        let mut inputs = vec![x];
        inputs.extend((0..3).map(|_| self.reals(&[channels])));
        inputs.push(self.positive(channels));
        let y = self.node(Op::BatchNorm(BatchNorm { epsilon: 1e-3 }), &inputs)?;
        self.settled(y)
    }

    /// An operator whose result is not an exact number.
    fn function(&mut self, op: Op, x: ValueId) -> Option<ValueId> {
        let x = self.short(x)?;
        let y = self.node(op, &[x])?;
        // Now and then times its operand.
        let y =
            if self.random.chance(15) { self.node(Op::Binary(Binary::Mul), &[x, y])? } else { y };
        self.settled(y)
    }

    fn unary(&mut self, x: ValueId) -> Option<ValueId> {
        let unary = self.random.pick(UNARY);
        let op = Op::Unary(unary);
        match unary {
            Unary::Relu | Unary::Neg | Unary::Abs => self.node(op, &[x]),
            Unary::Not => {
                let truth = self.truth(x)?;
                let truth = self.node(op, &[truth])?;
                self.chosen(truth, x)
            }
            Unary::Sign | Unary::Floor | Unary::Ceil | Unary::Round => {
                let y = self.node(op, &[x])?;
                self.settled(y)
            }
            Unary::Sqrt | Unary::Reciprocal | Unary::Log => {
                let x = self.one_and_more(x)?;
                let y = self.node(op, &[x])?;
                self.settled(y)
            }
            Unary::Exp
            | Unary::Erf
            | Unary::Sigmoid
            | Unary::HardSwish
            | Unary::Tanh
            | Unary::Gelu
            | Unary::GeluTanh
            | Unary::Softplus
            | Unary::Sin
            | Unary::Cos
            | Unary::Tan
            | Unary::Atan => self.function(op, x),
        }
    }

    /// Numbers from 1 on, where roots, logarithms, inverses and powers are defined.
    fn one_and_more(&mut self, x: ValueId) -> Option<ValueId> {
        let squares = self.node(Op::Binary(Binary::Mul), &[x, x])?;
        let one = self.plain(Tensor::from_vec(&[1], vec![1.0_f32]).ok()?);
        let mut x = self.node(Op::Binary(Binary::Add), &[squares, one])?;
        if self.recipe.grids.is_some() {
            let grid = quincunx_graph::Quantiser::symmetric(false, 6, 0.25);
            x = self.node(Op::Quantise(grid), &[x])?;
        }
        self.node(Op::Activation(Activation::Clip { min: Some(1.0), max: None }), &[x])
    }

    /// A second operand: an earlier value, weights, perhaps of fewer axes, or the same on a grid.
    fn other(&mut self, x: ValueId) -> Option<ValueId> {
        let mut shape = self.shape(x);
        match self.random.below(4) {
            0 => {
                let same = |id: &ValueId| *self.graph[*id].shape == shape[..];
                let same: Vec<ValueId> = self.list.iter().copied().filter(same).collect();
                Some(if same.is_empty() { x } else { self.random.pick(&same) })
            }
            1 => Some(self.random.pick(&self.list)),
            2 if self.recipe.grids.is_some() => self.quantised(x),
            _ => {
                shape.iter_mut().for_each(|extent| {
                    if self.random.chance(30) {
                        *extent = 1;
                    }
                });
                let fewer = self.random.below(shape.len().max(1));
                if self.random.coin() {
                    shape.drain(..fewer.min(shape.len()));
                }
                Some(self.weights(&shape, 0))
            }
        }
    }

    fn binary(&mut self, x: ValueId) -> Option<ValueId> {
        let binary = self.random.pick(BINARY);
        let op = Op::Binary(binary);
        match binary {
            Binary::Add | Binary::Sub | Binary::Mul | Binary::Max | Binary::Min => {
                let other = self.other(x)?;
                let inputs = if self.random.coin() { [x, other] } else { [other, x] };
                self.node(op, &inputs)
            }
            Binary::Div => {
                let mut shape = vec![1; self.shape(x).len().saturating_sub(1)];
                shape.iter_mut().take(1).for_each(|first| *first = self.graph[x].shape[1]);
                let pick = |_| self.random.pick(&[0.5_f32, 2.0, -1.0, -4.0, 3.0, -0.3]);
                let divisors = (0..shape.iter().product()).map(pick).collect();
                let divisors = self.plain(Tensor::from_vec::<f32>(&shape, divisors).ok()?);
                self.node(op, &[x, divisors])
            }
            Binary::Pow => {
                let x = self.one_and_more(x)?;
                let power = self.random.pick(&[2.0_f32, 0.7, -1.5]);
                let power = self.plain(Tensor::from_vec(&[1], vec![power]).ok()?);
                let y = self.node(op, &[x, power])?;
                self.settled(y)
            }
        }
    }

    fn activation(&mut self, x: ValueId) -> Option<ValueId> {
        let limits = [None, Some(0.0), Some(-1.5), Some(6.0), Some(0.3), Some(-0.5)];
        let slopes = [0.0, 0.5, 0.125, -0.75, 1.0, 2.5, 0.01, 0.1];
        let activation = match self.random.below(7) {
            0 | 1 => Activation::LeakyRelu { alpha: self.random.pick(&slopes) },
            2 => Activation::HardSigmoid {
                alpha: self.random.pick(&[0.25, -0.5, 3.0, 0.2]),
                beta: self.random.pick(&[0.5, 0.0, 1.5, -0.25]),
            },
            3 => Activation::Elu { alpha: self.random.pick(&[0.8, 0.75, 1.0]) },
            4 => Activation::Selu { alpha: 1.67, gamma: 1.05 },
            _ => {
                Activation::Clip { min: self.random.pick(&limits), max: self.random.pick(&limits) }
            }
        };
        let op = Op::Activation(activation);
        match activation {
            Activation::LeakyRelu { .. }
            | Activation::HardSigmoid { .. }
            | Activation::Clip { .. } => self.node(op, &[x]),
            Activation::Elu { .. } | Activation::Selu { .. } => self.function(op, x),
        }
    }

    fn slopes(&mut self, x: ValueId) -> Option<ValueId> {
        let mut shape = vec![1; self.shape(x).len().saturating_sub(1)];
        if self.random.coin() {
            shape.iter_mut().take(1).for_each(|first| *first = self.graph[x].shape[1]);
        }
        let slopes = self.weights(&shape, 0);
        self.node(Op::PRelu, &[x, slopes])
    }

    /// Truth values of the shape of `x`.
    fn truth(&mut self, x: ValueId) -> Option<ValueId> {
        let (compare, shape) = (self.random.pick(COMPARE), self.shape(x));
        let other = if self.random.coin() { self.weights(&shape, 0) } else { self.other(x)? };
        let truth = self.node(Op::Compare(compare), &[x, other])?;
        (self.shape(truth) == shape).then_some(truth)
    }

    /// A choice by truth values, or these as numbers.
    fn chosen(&mut self, truth: ValueId, x: ValueId) -> Option<ValueId> {
        if self.random.chance(30) {
            return self.node(Op::Cast { to: DType::F32 }, &[truth]);
        }
        let other = self.other(x)?;
        self.node(Op::Where, &[truth, x, other])
    }

    fn reduction(&mut self, x: ValueId) -> Option<ValueId> {
        let (kind, rank) = (self.random.pick(&ReduceKind::ALL), self.shape(x).len());
        let first = 2.min(rank.saturating_sub(1));
        let mut axes: Vec<usize> = (first..rank).filter(|_| self.random.chance(60)).collect();
        if rank > 2 && self.random.chance(25) {
            axes.push(1);
        }
        let count: usize = axes.iter().map(|&axis| self.graph[x].shape[axis]).product();
        let reduce = Op::Reduce(Reduce { kind, axes, keep_dims: self.random.chance(70) });
        match kind {
            ReduceKind::Sum
            | ReduceKind::Max
            | ReduceKind::Min
            | ReduceKind::Mean
            | ReduceKind::L1
            | ReduceKind::SumSquare => self.node(reduce, &[x]),
            ReduceKind::Prod if count > 3 => None,
            ReduceKind::Prod => self.node(reduce, &[x]),
            ReduceKind::L2 | ReduceKind::LogSumExp => {
                let x = self.short(x)?;
                let y = self.node(reduce, &[x])?;
                self.settled(y)
            }
            ReduceKind::LogSum => {
                let x = self.one_and_more(x)?;
                let y = self.node(reduce, &[x])?;
                self.settled(y)
            }
        }
    }

    fn joined(&mut self, x: ValueId) -> Option<ValueId> {
        let (axis, shape) = (self.axis(x)?, self.shape(x));
        let fits = |id: &ValueId| {
            let other = &self.graph[*id].shape;
            other.len() == shape.len()
                && (0..shape.len()).all(|at| at == axis || other[at] == shape[at])
        };
        let fitting: Vec<ValueId> = self.list.iter().copied().filter(fits).chain([x]).collect();
        let mut inputs = vec![x];
        for _ in 0..self.random.range(1, 2) {
            inputs.push(match self.random.below(4) {
                0 => self.weights(&shape, 0),
                1 => self.settled(x)?,
                _ => self.random.pick(&fitting),
            });
        }
        if self.random.coin() {
            inputs.reverse();
        }
        self.node(Op::Concat { axis }, &inputs)
    }

    fn resize(&mut self, x: ValueId) -> Option<ValueId> {
        let shape = self.shape(x);
        let axes: Vec<usize> = if shape.len() > 2 && self.random.chance(70) {
            (2..shape.len()).collect()
        } else {
            vec![self.axis(x)?]
        };
        let target = if self.random.coin() {
            let pick = |_| self.random.pick(&[0.5, 1.0, 1.5, 2.0]);
            ResizeTarget::Scales(axes.iter().map(pick).collect())
        } else {
            let size = |&axis: &usize| self.random.range(1, shape[axis] + 2);
            ResizeTarget::Sizes(axes.iter().map(size).collect())
        };
        let coordinates = self.random.pick(&[
            Coordinates::HalfPixel,
            Coordinates::HalfPixelSymmetric,
            Coordinates::PytorchHalfPixel,
            Coordinates::AlignCorners,
            Coordinates::Asymmetric,
            Coordinates::TfHalfPixel,
            Coordinates::CropAndResize { extrapolation: 0.0 },
        ]);
        let nearest =
            [Nearest::RoundPreferFloor, Nearest::RoundPreferCeil, Nearest::Floor, Nearest::Ceil];
        let nearest = Interpolation::Nearest(self.random.pick(&nearest));
        let interpolation = self.random.pick(&[
            nearest,
            nearest,
            Interpolation::Linear,
            Interpolation::Cubic { a: -0.75 },
        ]);
        let roi = match coordinates {
            Coordinates::CropAndResize { .. } => axes.iter().map(|_| (0.25, 1.2)).collect(),
            _ => Vec::new(),
        };
        let exclude_outside = self.random.coin();
        let op =
            Op::Resize(Resize { axes, target, coordinates, interpolation, exclude_outside, roi });
        self.node(op, &[x])
    }

    fn recurrent(&mut self, x: ValueId) -> Option<ValueId> {
        let shape = self.shape(x);
        let [batch, steps, ..] = shape[..] else { return None };
        let x = self.short(x)?;
        let x = self.node(Op::Reshape { shape: vec![steps as i64, batch as i64, -1] }, &[x])?;
        let features = self.shape(x)[2];
        let before = self.random.coin();
        let cell =
            self.random.pick(&[Cell::Rnn, Cell::Lstm, Cell::Gru { linear_before_reset: before }]);
        let direction =
            self.random.pick(&[Direction::Forward, Direction::Reverse, Direction::Bidirectional]);
        let outputs =
            [RecurrentOutput::States, RecurrentOutput::LastState, RecurrentOutput::LastCell];
        let lstm = cell == Cell::Lstm;
        let output = self.random.pick(&outputs[..if lstm { 3 } else { 2 }]);
        let (hidden, both) = (self.random.range(1, 4), direction.reversed().len());
        let rows = cell.gates() * hidden;
        let operands = [
            vec![both, 2 * rows],
            vec![both, batch, hidden],
            vec![both, batch, hidden],
            vec![both, 3 * hidden],
        ];
        let mut inputs = vec![
            Some(x),
            Some(self.reals(&[both, rows, features])),
            Some(self.reals(&[both, rows, hidden])),
        ];
        for shape in &operands[..if lstm { 4 } else { 2 }] {
            inputs.push(self.random.coin().then(|| self.reals(shape)));
        }
        while inputs.last() == Some(&None) {
            inputs.pop();
        }
        let y =
            self.node_of(Op::Recurrent(Recurrent { cell, hidden, direction, output }), &inputs)?;
        self.settled(y)
    }
}
